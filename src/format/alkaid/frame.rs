//! The frame of a message: the marker and the length before its metadata.

use crate::format::error::{Error, Result};

/// Says that a message follows. Streams from before 0.15 do not have it.
pub(super) const CONTINUATION: [u8; 4] = [0xff; 4];

/// Bytes of marker and length.
pub(super) const FRAME_MAX: usize = 8;

/// What stands where a message may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    /// Metadata of `length` bytes, which begins after `skip` bytes.
    Message {
        /// Bytes of marker and length.
        skip: usize,
        /// Bytes of the metadata.
        length: usize,
    },
    /// No more messages.
    End,
}

impl Frame {
    /// Reads the bytes at which a message may begin; `None` if there are too few to tell.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>> {
        let Some(first) = bytes.first_chunk::<4>() else { return Ok(None) };
        if *first != CONTINUATION {
            return Self::of_length(*first, 4).map(Some);
        }
        let second = bytes.get(4..).and_then(<[u8]>::first_chunk::<4>);
        second.map(|length| Self::of_length(*length, FRAME_MAX)).transpose()
    }

    fn of_length(bytes: [u8; 4], skip: usize) -> Result<Self> {
        match i32::from_le_bytes(bytes) {
            0 => Ok(Self::End),
            length => match usize::try_from(length) {
                Ok(length) => Ok(Self::Message { skip, length }),
                Err(_) => Err(Error::invalid_file(format!("a message says that its metadata is {length} bytes long"))),
            },
        }
    }

    /// Bytes up to the end of the metadata.
    pub(super) fn metadata_end(self) -> usize {
        match self {
            Self::Message { skip, length } => skip.saturating_add(length),
            Self::End => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ErrorKind;

    #[test]
    fn frames_of_all_times_are_known() {
        let marked = [0xff, 0xff, 0xff, 0xff, 16, 0, 0, 0];
        assert_eq!(Frame::read(&marked).unwrap(), Some(Frame::Message { skip: 8, length: 16 }));
        assert_eq!(Frame::read(&[16, 0, 0, 0]).unwrap(), Some(Frame::Message { skip: 4, length: 16 }));
        assert_eq!(Frame::read(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]).unwrap(), Some(Frame::End));
        assert_eq!(Frame::read(&[0; 4]).unwrap(), Some(Frame::End));
        for length in [0, 1, 3] {
            assert_eq!(Frame::read(&marked[..length]).unwrap(), None);
        }
        assert_eq!(Frame::read(&marked[..7]).unwrap(), None);
        let error = Frame::read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidFile);
    }
}
