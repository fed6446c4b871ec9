//! What a library of compression takes for a file's buffers alone: no reader that uses it takes less.

use arrow_ipc::{CompressionType, root_as_footer, root_as_message};

use crate::Result;

/// A compressed buffer, and how long its contents are.
type Compressed<'a> = (&'a [u8], usize);

/// The compressed buffers of a file.
pub(crate) struct Buffers<'a> {
    lz4: Vec<Compressed<'a>>,
    zstd: Vec<Compressed<'a>>,
}

impl<'a> Buffers<'a> {
    pub(crate) fn of(file: &'a [u8]) -> Result<Self> {
        let mut buffers = Self { lz4: Vec::new(), zstd: Vec::new() };
        // The length of the footer, and a magic of six bytes, are the end of the file.
        let end = file.len().checked_sub(10).ok_or("there is no footer")?;
        let length = i32::from_le_bytes(file[end..end + 4].try_into()?);
        let footer = root_as_footer(&file[end - usize::try_from(length)?..end]).map_err(|error| error.to_string())?;
        for block in footer.recordBatches().into_iter().flatten() {
            let (start, length) = (usize::try_from(block.offset())?, usize::try_from(block.metaDataLength())?);
            // Behind a marker and a length, of four bytes each.
            let message = root_as_message(&file[start + 8..start + length]).map_err(|error| error.to_string())?;
            let batch = message.header_as_record_batch().ok_or("a batch is something else")?;
            let Some(compression) = batch.compression() else { continue };
            for buffer in batch.buffers().into_iter().flatten().filter(|buffer| buffer.length() > 8) {
                let at = start + length + usize::try_from(buffer.offset())?;
                let (head, contents) = file[at..at + usize::try_from(buffer.length())?].split_at(8);
                // Negative of what is not compressed.
                if let Ok(length) = usize::try_from(i64::from_le_bytes(head.try_into()?)) {
                    let of_codec = if compression.codec() == CompressionType::ZSTD { &mut buffers.zstd } else { &mut buffers.lz4 };
                    of_codec.push((contents, length));
                }
            }
        }
        Ok(buffers)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lz4.is_empty() && self.zstd.is_empty()
    }

    /// Decompresses them one after the other to where the one before was. Gives the bytes that there were.
    pub(crate) fn decompress(&self) -> Result<usize> {
        let longest = self.lz4.iter().chain(&self.zstd).map(|(_, length)| *length).max();
        let mut contents = vec![0; longest.unwrap_or(0)];
        let mut zstd = zstd::bulk::Decompressor::new()?;
        let mut bytes = 0;
        for (frame, length) in &self.zstd {
            bytes += zstd.decompress_to_buffer(frame, &mut contents[..*length])?;
        }
        for (frame, length) in &self.lz4 {
            bytes += decompress_lz4(frame, &mut contents[..*length])?;
        }
        Ok(bytes)
    }
}

/// The blocks of a frame, which are taken to refer to nothing before them, as both writers here write them.
fn decompress_lz4(frame: &[u8], contents: &mut [u8]) -> Result<usize> {
    let (mut at, mut written) = (7, 0);
    loop {
        let head = u32::from_le_bytes(frame[at..at + 4].try_into()?);
        if head == 0 {
            return Ok(written);
        }
        let block = &frame[at + 4..at + 4 + (head & !(1 << 31)) as usize];
        at += 4 + block.len();
        let rest = &mut contents[written..];
        if head >> 31 == 1 {
            rest[..block.len()].copy_from_slice(block);
            written += block.len();
        } else {
            written += lz4::block::decompress_to_buffer(block, Some(i32::try_from(rest.len().min(4 << 20))?), rest)?;
        }
    }
}
