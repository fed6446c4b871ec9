//! The compression of buffers: each by itself, with its length before it.

use arrow::buffer::Buffer;
use arrow_ipc as fb;
use bytes::Bytes;

use super::lz4;
use crate::format::error::{Error, Result};
use crate::format::zstd;

/// How buffers are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// LZ4 frames.
    Lz4,
    /// ZSTD frames.
    Zstd,
}

/// Bytes of the length before a buffer.
const PREFIX: usize = 8;

/// The length that says that a buffer is not compressed.
const NOT_COMPRESSED: i64 = -1;

/// A block of ZSTD is up to 128 KiB, and takes four bytes or more.
const ZSTD_BLOCK_MAX: usize = 128 << 10;
const ZSTD_BLOCK_MIN: usize = 4;

/// Writers may give a buffer more bytes than its values take: to a multiple of something, or what a larger array left.
const UNUSED_MAX: usize = 64 << 10;

/// A byte of LZ4 adds no more than this to the length of a match.
const LZ4_RATIO_MAX: usize = 255;

impl Codec {
    pub(super) fn read(compression: &fb::BodyCompression<'_>) -> Result<Self> {
        if compression.method() != fb::BodyCompressionMethod::BUFFER {
            return Err(Error::unsupported(format!("compression method {}, which this reader does not know", compression.method().0)));
        }
        match compression.codec() {
            fb::CompressionType::LZ4_FRAME => Ok(Self::Lz4),
            fb::CompressionType::ZSTD => Ok(Self::Zstd),
            other => Err(Error::unsupported(format!("compression number {}, which this reader does not know", other.0))),
        }
    }

    /// By the name that it had in Arrow 0.17; `None` is no compression.
    pub(super) fn of_old(name: &str) -> Result<Option<Self>> {
        match name.to_ascii_lowercase().as_str() {
            "uncompressed" => Ok(None),
            "lz4" | "lz4_frame" => Ok(Some(Self::Lz4)),
            "zstd" => Ok(Some(Self::Zstd)),
            _ => Err(Error::unsupported(format!("compression {name:?}, which this reader does not know"))),
        }
    }

    pub(super) fn wire(self) -> fb::CompressionType {
        match self {
            Self::Lz4 => fb::CompressionType::LZ4_FRAME,
            Self::Zstd => fb::CompressionType::ZSTD,
        }
    }

    /// The most that so many bytes can stand for.
    fn length_max(self, compressed: usize) -> usize {
        match self {
            Self::Lz4 => compressed.saturating_mul(LZ4_RATIO_MAX),
            Self::Zstd => (compressed / ZSTD_BLOCK_MIN + 1).saturating_mul(ZSTD_BLOCK_MAX),
        }
    }

    /// The contents of a buffer, of which so many bytes are needed. If it has far more than that, they are not worth their memory: there are no more than those.
    pub(super) fn decompress(self, buffer: &Bytes, needed: usize) -> Result<Buffer> {
        if buffer.is_empty() || needed == 0 {
            return Ok(Buffer::default());
        }
        let prefix = buffer.first_chunk::<PREFIX>().ok_or_else(|| Error::invalid_file("a compressed buffer is shorter than its length"))?;
        let stored = buffer.slice(PREFIX..);
        let length = match i64::from_le_bytes(*prefix) {
            NOT_COMPRESSED => return Ok(Buffer::from(stored)),
            0 => return Ok(Buffer::default()),
            length => usize::try_from(length).map_err(|_| Error::invalid_file(format!("a compressed buffer says that it has {length} bytes")))?,
        };
        if length > self.length_max(stored.len()) {
            return Err(Error::invalid_file(format!("{} compressed bytes do not stand for {length}", stored.len())));
        }
        let (length, contents) = match (self, length.saturating_sub(needed) > UNUSED_MAX) {
            (Self::Lz4, false) => (length, lz4::decompress(&stored, length)),
            (Self::Zstd, false) => (length, zstd::decompress(&stored, length)),
            (Self::Lz4, true) => (needed, lz4::beginning(&stored, needed)),
            (Self::Zstd, true) => (needed, zstd::beginning(&stored, needed).or_else(|_| zstd_beginning_of_all(&stored, needed, length))),
        };
        let contents = contents.map_err(|error| Error::invalid_file(format!("a buffer cannot be decompressed: {error}")))?;
        if contents.len() != length {
            return Err(Error::invalid_file(format!("a buffer of {length} bytes has only {}", contents.len())));
        }
        Ok(Buffer::from_vec(contents))
    }

    /// The buffer as it is stored: compressed, if that is shorter.
    pub(super) fn compress(self, contents: &[u8], zstd_level: i32) -> Result<Vec<u8>> {
        if contents.is_empty() {
            return Ok(Vec::new());
        }
        let compressed = match self {
            Self::Lz4 => lz4::compress(contents),
            Self::Zstd => zstd::compress(contents, zstd_level),
        };
        let compressed = compressed.map_err(|error| Error::invalid_argument(format!("a buffer cannot be compressed: {error}")))?;
        let (length, stored) = match i64::try_from(contents.len()) {
            Ok(length) if compressed.len() < contents.len() => (length, compressed.as_slice()),
            _ => (NOT_COMPRESSED, contents),
        };
        Ok([&length.to_le_bytes(), stored].concat())
    }
}

/// The same where frames look back further than is done piece by piece.
fn zstd_beginning_of_all(stored: &[u8], needed: usize, length: usize) -> std::io::Result<Vec<u8>> {
    let mut contents = zstd::decompress(stored, length)?;
    contents.truncate(needed);
    contents.shrink_to_fit();
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ErrorKind;

    #[test]
    fn the_beginning_of_a_frame_is_read_whatever_its_window() {
        let block = vec![7; 100_000];
        // A frame of raw blocks, with neither its length nor a checksum.
        let frame = |window_log: u8| {
            let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, (window_log - 10) << 3];
            for last in [0, 1] {
                let header = (100_000_u32 << 3 | last).to_le_bytes();
                frame.extend([&header[..3], &block].concat());
            }
            frame
        };
        for window_log in [20, 27, 28, 31] {
            let stored = Bytes::from([&200_000_i64.to_le_bytes()[..], &frame(window_log)].concat());
            for needed in [10, 100_001, 200_000] {
                let contents = Codec::Zstd.decompress(&stored, needed).unwrap();
                assert!(contents.len() >= needed && contents.iter().all(|byte| *byte == 7), "{needed} bytes, 2^{window_log}");
            }
        }
    }

    fn both() -> [Codec; 2] {
        [Codec::Lz4, Codec::Zstd]
    }

    #[test]
    fn what_is_compressed_comes_back() {
        let noise: Vec<u8> = (0..1000_u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        for codec in both() {
            for contents in [vec![], vec![7], vec![0; 1 << 20], b"some text, some text".repeat(50), noise.clone()] {
                let stored = Bytes::from(codec.compress(&contents, 1).unwrap());
                assert!(stored.len() <= contents.len() + PREFIX);
                assert!(codec.decompress(&stored, usize::MAX).unwrap().as_slice() == contents, "{codec:?}, {} bytes", contents.len());
            }
        }
    }

    #[test]
    fn what_is_not_needed_takes_no_memory() {
        let contents: Vec<u8> = (0..1_u32 << 18).flat_map(|i| (i / 7).to_le_bytes()).collect();
        for codec in both() {
            let stored = Bytes::from(codec.compress(&contents, 1).unwrap());
            assert!(codec.decompress(&stored, 0).unwrap().is_empty());
            for needed in [1, 1000, 300_000, contents.len() - 1, contents.len(), usize::MAX] {
                let found = codec.decompress(&stored, needed).unwrap();
                let length = if contents.len().saturating_sub(needed) > UNUSED_MAX { needed } else { contents.len() };
                assert!(found.as_slice() == &contents[..length], "{codec:?}, {needed} bytes");
            }
            // What is said to be there is not.
            let end = stored.len() / 2;
            assert!(codec.decompress(&stored.slice(..end), contents.len() - UNUSED_MAX - 1).is_err());
            assert!(codec.decompress(&stored.slice(..end), 1000).is_ok());
        }
    }

    #[test]
    fn frames_of_lz4_are_those_of_other_writers() {
        let frame = lz4::compress(&[7; 1000]).unwrap();
        // The magic, and flags: version 1, blocks by themselves, nothing else.
        assert_eq!(frame[..5], [0x04, 0x22, 0x4D, 0x18, 0x60]);
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        for codec in both() {
            let stored = codec.compress(&[9; 1000], 1).unwrap();
            for length in [i64::MIN, -2, 999, 1001, 1 << 40, i64::MAX] {
                let mut lie = stored.clone();
                lie[..PREFIX].copy_from_slice(&length.to_le_bytes());
                let error = codec.decompress(&Bytes::from(lie), usize::MAX).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidFile, "{codec:?} {length}");
            }
            for end in 1..stored.len() {
                assert!(codec.decompress(&Bytes::copy_from_slice(&stored[..end]), usize::MAX).is_err(), "{codec:?} cut at {end}");
            }
        }
    }

    #[test]
    fn the_best_compression_is_believed() {
        for codec in both() {
            let contents = vec![0; 64 << 20];
            let stored = Bytes::from(codec.compress(&contents, 19).unwrap());
            assert!(codec.decompress(&stored, usize::MAX).unwrap().len() == contents.len(), "{codec:?}");
        }
    }
}
