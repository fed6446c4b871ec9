//! A buffer of a page: its bytes as they are, or under ZSTD where that pays.

use std::sync::{Mutex, OnceLock, PoisonError};

use arrow::buffer::Buffer;
use bytes::Bytes;

use super::compression::Goal;
use crate::format::{Error, Result, zstd};

/// No compression, as `BufferDesc` says it.
pub(super) const NONE: u8 = 0;
/// ZSTD, as `BufferDesc` says it.
pub(super) const ZSTD: u8 = 1;

/// Lets a small frame claim no more memory than a page may take anyway ...
const RAW_FREE: usize = 16 << 20;
/// ... and a larger one no more than this many times its length.
const RAW_RATIO: usize = 256;

/// Below this, a frame's own header and the call cost more than they save.
const ZSTD_MIN: usize = 256;
/// How much of a buffer is compressed to learn whether the whole is worth it.
const PROBE: usize = 8 << 10;

/// What a buffer holds, which says how much ZSTD has to save to be worth its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bytes of strings: decoding them is slow anyway.
    Text,
    /// Numbers, packed or not: decoding them is ten times as fast as ZSTD.
    Numbers,
}

/// A buffer to write.
#[derive(Debug, Clone)]
pub(super) struct EncodedBuffer {
    pub(super) stored: Vec<u8>,
    pub(super) raw_length: usize,
    pub(super) compression: u8,
}

impl EncodedBuffer {
    /// The buffer as it is, or compressed if that is allowed and pays.
    pub(super) fn new(raw: Vec<u8>, kind: Kind, goal: Goal) -> Self {
        let raw_length = raw.len();
        match goal.zstd_level.and_then(|level| compress(&raw, kind, goal.compression.worth(kind), level)) {
            Some(stored) => Self { stored, raw_length, compression: ZSTD },
            None => Self { stored: raw, raw_length, compression: NONE },
        }
    }
}

fn compress(raw: &[u8], kind: Kind, worth: f64, level: i32) -> Option<Vec<u8>> {
    if raw.len() < ZSTD_MIN {
        return None;
    }
    // A probe from the middle: beginnings are often unlike the rest.
    if raw.len() > 4 * PROBE {
        let start = (raw.len() - PROBE) / 2;
        if part_left(&raw[start..start + PROBE], kind, level) > worth {
            return None;
        }
    }
    let stored = match kind {
        Kind::Text => zstd::compress_text(raw, level),
        Kind::Numbers => zstd::compress_numbers(raw, level),
    };
    let stored = stored.ok()?;
    let pays = part(stored.len(), raw.len()) <= worth;
    (pays && raw_length_allowed(raw.len(), stored.len())).then_some(stored)
}

/// The part of its size that ZSTD leaves of a sample: 1 where it saves nothing.
pub(super) fn part_left(sample: &[u8], kind: Kind, level: i32) -> f64 {
    let stored = match kind {
        Kind::Text => zstd::compress(sample, level),
        Kind::Numbers => zstd::compress_numbers(sample, level),
    };
    stored.map_or(1.0, |stored| part(stored.len(), sample.len()).min(1.0))
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn part(stored: usize, raw: usize) -> f64 {
    stored as f64 / raw.max(1) as f64
}

/// What ZSTD's frames begin with.
const FRAME_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// Whether the bytes are one frame and nothing else: ZSTD itself would join several, and skip some.
fn is_one_frame(stored: &[u8]) -> bool {
    stored.starts_with(&FRAME_MAGIC) && ::zstd::zstd_safe::find_frame_compressed_size(stored).is_ok_and(|length| length == stored.len())
}

fn decompress(stored: &[u8], raw_length: usize) -> Result<Vec<u8>> {
    if !is_one_frame(stored) {
        return Err(Error::invalid_file("a compressed buffer is not one ZSTD frame"));
    }
    let damaged = |error| Error::invalid_file(format!("a compressed buffer of {raw_length} bytes cannot be decompressed: {error}"));
    let raw = zstd::decompress(stored, raw_length).map_err(damaged)?;
    if raw.len() != raw_length {
        return Err(Error::invalid_file(format!("a compressed buffer holds {} bytes, not {raw_length}", raw.len())));
    }
    Ok(raw)
}

/// Whether a compressed buffer may claim this raw size: what is allocated must be backed by what is stored.
fn raw_length_allowed(raw_length: usize, length: usize) -> bool {
    raw_length <= RAW_FREE.max(length.saturating_mul(RAW_RATIO))
}

/// A buffer of a page that is being read, decompressed at most once.
#[derive(Debug)]
pub(super) struct StoredBuffer {
    stored: Stored,
    raw_length: usize,
    raw: OnceLock<Buffer>,
}

#[derive(Debug)]
enum Stored {
    AsItIs(Bytes),
    /// A frame, until it is decompressed: nobody needs it then, and dictionaries live long.
    Compressed(Mutex<Bytes>),
}

impl StoredBuffer {
    /// Checks what a descriptor says of its bytes.
    pub(super) fn new(stored: Bytes, raw_length: usize, compression: u8) -> Result<Self> {
        let stored = match compression {
            NONE if stored.len() != raw_length => {
                return Err(Error::invalid_file(format!("an uncompressed buffer of {} bytes claims to hold {raw_length}", stored.len())));
            }
            ZSTD if !raw_length_allowed(raw_length, stored.len()) => {
                return Err(Error::invalid_file(format!("a compressed buffer of {} bytes claims to hold {raw_length}", stored.len())));
            }
            NONE => Stored::AsItIs(stored),
            ZSTD => Stored::Compressed(Mutex::new(stored)),
            _ => return Err(Error::unsupported(format!("compression {compression} is not known"))),
        };
        Ok(Self { stored, raw_length, raw: OnceLock::new() })
    }

    /// Bytes after decompression.
    pub(super) fn len(&self) -> usize {
        self.raw_length
    }

    /// The bytes, to be looked at.
    pub(super) fn bytes(&self) -> Result<&[u8]> {
        match &self.stored {
            Stored::AsItIs(stored) => Ok(stored),
            Stored::Compressed(_) => Ok(self.shared()?),
        }
    }

    /// The bytes, to be kept beyond the page.
    pub(super) fn shared(&self) -> Result<&Buffer> {
        if let Some(raw) = self.raw.get() {
            return Ok(raw);
        }
        match &self.stored {
            Stored::AsItIs(stored) => Ok(self.raw.get_or_init(|| Buffer::from(stored.clone()))),
            Stored::Compressed(stored) => {
                let mut stored = stored.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(raw) = self.raw.get() {
                    return Ok(raw);
                }
                let raw = Buffer::from_vec(decompress(&stored, self.raw_length)?);
                *stored = Bytes::new();
                Ok(self.raw.get_or_init(|| raw))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ErrorKind;
    use crate::format::codec::Compression;

    fn goal(zstd_level: Option<i32>) -> Goal {
        Goal { compression: Compression::Balanced, zstd_level }
    }

    #[test]
    fn text_is_compressed_and_noise_is_not() {
        let text = b"carefully final deposits sleep furiously ".repeat(500);
        let buffer = EncodedBuffer::new(text.clone(), Kind::Text, goal(Some(3)));
        assert_eq!(buffer.compression, ZSTD);
        let stored = StoredBuffer::new(buffer.stored.into(), text.len(), ZSTD).unwrap();
        assert_eq!(stored.bytes().unwrap(), text);
        assert!(stored.shared().unwrap().ptr_eq(stored.shared().unwrap()));

        let noise: Vec<u8> = (0..100_000u64).map(|i| super::super::words::mix(i).to_le_bytes()[0]).collect();
        assert_eq!(EncodedBuffer::new(noise.clone(), Kind::Text, goal(Some(3))).compression, NONE);
        assert_eq!(EncodedBuffer::new(text, Kind::Text, goal(None)).compression, NONE);
    }

    #[test]
    fn a_buffer_is_one_frame() {
        let frame = zstd::compress(&[7; 1000], 1).unwrap();
        let skippable = [&[0x50, 0x2A, 0x4D, 0x18, 1, 0, 0, 0, 9], &*frame].concat();
        let wrong = [[&*frame, &*frame].concat(), [&*frame, &[0]].concat(), skippable, frame[..frame.len() - 1].to_vec()];
        for (stored, raw_length) in wrong.into_iter().zip([2000, 1000, 1000, 1000]) {
            let buffer = StoredBuffer::new(stored.into(), raw_length, ZSTD).unwrap();
            assert_eq!(buffer.bytes().unwrap_err().kind(), ErrorKind::InvalidFile);
        }
        assert_eq!(StoredBuffer::new(frame.into(), 1000, ZSTD).unwrap().bytes().unwrap(), [7; 1000]);
    }

    #[test]
    fn a_frame_may_not_claim_what_it_does_not_hold() {
        let stored = zstd::compress(&[7; 1000], 1).unwrap();
        for (raw_length, compression) in [(999, NONE), (RAW_FREE + 1, ZSTD)] {
            let error = StoredBuffer::new(stored.clone().into(), raw_length, compression).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidFile);
        }
        for raw_length in [0, 999, 1001] {
            let buffer = StoredBuffer::new(stored.clone().into(), raw_length, ZSTD).unwrap();
            assert_eq!(buffer.bytes().unwrap_err().kind(), ErrorKind::InvalidFile, "{raw_length}");
        }
        assert_eq!(StoredBuffer::new(stored.into(), 1000, 2).unwrap_err().kind(), ErrorKind::UnsupportedVersion);
        // What would be refused when read is not written: a megabyte of one byte would be, did it not fit the free part.
        let same = vec![0u8; RAW_FREE + 1];
        assert_eq!(EncodedBuffer::new(same, Kind::Text, goal(Some(3))).compression, NONE);
    }
}
