//! LZ4 frames. Those that writers of Arrow make are decoded block by block to where their contents stay; the library's own reader of frames copies them twice before, and what
//! it reads of all others is zeroed first.

use std::io::{Error, Read, Result, Write};

use lz4::liblz4::{BlockChecksum, LZ4_createStreamDecode, LZ4_decompress_safe_continue, LZ4_freeStreamDecode, LZ4_setStreamDecode, LZ4StreamDecode};
use lz4::{BlockMode, ContentChecksum, Decoder, EncoderBuilder};

/// The magic of a frame, its flags, and a byte that checks these.
const HEADER: usize = 7;
/// Headers of frames of version 1 without lengths, checksums or a dictionary: blocks by themselves or not, and of each size that there is.
const PLAIN_HEADERS: [[u8; HEADER]; 8] = [
    [0x04, 0x22, 0x4D, 0x18, 0x60, 0x40, 0x82],
    [0x04, 0x22, 0x4D, 0x18, 0x60, 0x50, 0xFB],
    [0x04, 0x22, 0x4D, 0x18, 0x60, 0x60, 0x51],
    [0x04, 0x22, 0x4D, 0x18, 0x60, 0x70, 0x73],
    [0x04, 0x22, 0x4D, 0x18, 0x40, 0x40, 0xC0],
    [0x04, 0x22, 0x4D, 0x18, 0x40, 0x50, 0x77],
    [0x04, 0x22, 0x4D, 0x18, 0x40, 0x60, 0x96],
    [0x04, 0x22, 0x4D, 0x18, 0x40, 0x70, 0xDF],
];

/// In a block's length: the block is not compressed.
const RAW: u32 = 1 << 31;

/// The contents of a frame that stands for no more than `length` bytes.
pub(super) fn decompress(frame: &[u8], length: usize) -> Result<Vec<u8>> {
    match frame.split_first_chunk::<HEADER>() {
        Some((header, blocks)) if PLAIN_HEADERS.contains(header) => decode_blocks(blocks, length),
        _ => decompress_any(frame, length),
    }
}

/// The first bytes of the contents of a frame, up to `length`.
pub(super) fn beginning(frame: &[u8], length: usize) -> Result<Vec<u8>> {
    let mut contents = Vec::new();
    Decoder::new(frame)?.take(length as u64).read_to_end(&mut contents)?;
    Ok(contents)
}

/// A frame of anything.
pub(super) fn compress(contents: &[u8]) -> Result<Vec<u8>> {
    // Blocks by themselves, and no checksums, as other writers of Arrow have it.
    let mut builder = EncoderBuilder::new();
    builder.block_mode(BlockMode::Independent).block_checksum(BlockChecksum::NoBlockChecksum).checksum(ContentChecksum::NoChecksum);
    let mut encoder = builder.build(Vec::new())?;
    encoder.write_all(contents)?;
    let (frame, finished) = encoder.finish();
    finished.map(|()| frame)
}

fn decompress_any(frame: &[u8], length: usize) -> Result<Vec<u8>> {
    let mut contents = vec![0; length];
    let mut decoder = Decoder::new(frame)?;
    decoder.read_exact(&mut contents)?;
    match decoder.read(&mut [0])? {
        0 => Ok(contents),
        _ => Err(Error::other("there is more of it")),
    }
}

fn decode_blocks(mut blocks: &[u8], length: usize) -> Result<Vec<u8>> {
    let mut contents = Vec::new();
    contents.try_reserve_exact(length)?;
    let decoder = BlockDecoder::new()?;
    loop {
        let (head, rest) = blocks.split_first_chunk().ok_or_else(cut_off)?;
        let head = u32::from_le_bytes(*head);
        if head == 0 {
            return Ok(contents);
        }
        let (block, rest) = rest.split_at_checked((head & !RAW) as usize).ok_or_else(cut_off)?;
        let room = length - contents.len();
        match head & RAW {
            0 => decoder.append(block, &mut contents, room)?,
            _ if block.len() > room => return Err(Error::other("there is more of it")),
            _ => contents.extend_from_slice(block),
        }
        blocks = rest;
    }
}

fn cut_off() -> Error {
    Error::other("the frame is cut off")
}

/// What the library knows from block to block: where the contents before end.
struct BlockDecoder(*mut LZ4StreamDecode);

impl BlockDecoder {
    #[expect(unsafe_code, reason = "the library is written in C")]
    fn new() -> Result<Self> {
        // SAFETY: it takes nothing, and gives memory that it has allocated, or null.
        let state = unsafe { LZ4_createStreamDecode() };
        if state.is_null() { Err(Error::other("there is no memory for it")) } else { Ok(Self(state)) }
    }

    /// Adds the contents of a block, which may refer to those before it. There are no more than `room`.
    #[expect(unsafe_code, reason = "the library is written in C")]
    fn append(&self, block: &[u8], contents: &mut Vec<u8>, room: usize) -> Result<()> {
        // No more than 64 KiB back is anything referred to.
        let before = contents.get(contents.len().saturating_sub(64 << 10)..).unwrap_or_default();
        let (dictionary, dictionary_length) = (before.as_ptr(), c_length(before.len())?);
        let spare = contents.spare_capacity_mut();
        // The library counts in `i32`; a block has 4 MiB at most.
        let room = spare.len().min(room).min(4 << 20);
        let (length, room) = (c_length(block.len())?, c_length(room)?);
        let into = spare.as_mut_ptr().cast();
        // SAFETY: the state was made by the library and not freed. It takes note of where these bytes of `contents` are, which are initialized, and stay there until the
        // block is decoded.
        unsafe { LZ4_setStreamDecode(self.0, dictionary, dictionary_length) };
        // SAFETY: it reads `length` bytes of `block`, what it has taken note of, and what it has written; it writes up to `room` bytes of what `contents` owns behind its
        // length, which need not be initialized. It checks that itself, whatever the block says.
        let written = unsafe { LZ4_decompress_safe_continue(self.0, block.as_ptr(), into, length, room) };
        let written = usize::try_from(written).map_err(|_| Error::other("a block is damaged"))?;
        // SAFETY: it has written as many bytes behind the length as it says, which are no more than there was room for.
        unsafe { contents.set_len(contents.len() + written) };
        Ok(())
    }
}

impl Drop for BlockDecoder {
    #[expect(unsafe_code, reason = "the library is written in C")]
    fn drop(&mut self) {
        // SAFETY: it was made by the library, and nobody has it any more.
        unsafe { LZ4_freeStreamDecode(self.0) };
    }
}

fn c_length(length: usize) -> Result<i32> {
    length.try_into().map_err(Error::other)
}

#[cfg(test)]
mod tests {
    use lz4::BlockSize;

    use super::*;

    const SIZES: [BlockSize; 4] = [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max1MB, BlockSize::Max4MB];

    fn frames(contents: &[u8]) -> Vec<Vec<u8>> {
        let modes = || [BlockMode::Independent, BlockMode::Linked];
        let frames = modes().into_iter().flat_map(|mode| SIZES.map(|size| (mode.clone(), size)));
        let frame = |(mode, size)| frame(contents, plain().block_mode(mode).block_size(size));
        frames.map(frame).collect()
    }

    /// Without checksums, which the library makes otherwise.
    fn plain() -> EncoderBuilder {
        let mut builder = EncoderBuilder::new();
        builder.block_checksum(BlockChecksum::NoBlockChecksum).checksum(ContentChecksum::NoChecksum);
        builder
    }

    fn frame(contents: &[u8], builder: &EncoderBuilder) -> Vec<u8> {
        let mut encoder = builder.build(Vec::new()).unwrap();
        encoder.write_all(contents).unwrap();
        let (frame, finished) = encoder.finish();
        finished.unwrap();
        frame
    }

    /// Words from a list, at random, so that blocks refer to those before them; and noise between, which is not compressed.
    fn contents(length: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let mut contents = Vec::new();
        while contents.len() < length {
            match contents.len() % 1_000_000 {
                0..800_000 => contents.extend_from_slice(format!("word {} ", next() % 5000).as_bytes()),
                _ => contents.extend((0..16).map(|_| u8::try_from(next() & 0xFF).unwrap())),
            }
        }
        contents.truncate(length);
        contents
    }

    #[test]
    fn headers_are_those_of_the_library() {
        let headers: Vec<_> = frames(b"x").iter().map(|frame| frame[..HEADER].to_vec()).collect();
        assert_eq!(headers, PLAIN_HEADERS);
    }

    #[test]
    fn blocks_are_what_the_library_reads_of_them() {
        for length in [0, 1, 12, 1000, 65_535, 65_536, 65_537, 5_000_000] {
            let contents = contents(length);
            for frame in frames(&contents) {
                let decoded = decompress(&frame, length).unwrap();
                assert!(decoded == contents && decoded == decompress_any(&frame, length).unwrap(), "{length} bytes, {:x?}", &frame[..HEADER]);
            }
        }
    }

    #[test]
    fn other_frames_are_read_by_the_library() {
        let contents = contents(300_000);
        for builder in [
            plain().checksum(ContentChecksum::ChecksumEnabled),
            plain().block_checksum(BlockChecksum::BlockChecksumEnabled),
            plain().content_size(300_000),
        ] {
            let frame = frame(&contents, builder);
            assert!(!PLAIN_HEADERS.iter().any(|header| frame.starts_with(header)));
            assert!(decompress(&frame, contents.len()).unwrap() == contents);
            assert!(decompress(&frame, contents.len() - 1).is_err());
        }
    }

    #[test]
    fn what_is_longer_or_cut_off_is_refused() {
        for length in [1000, 200_000] {
            let contents = contents(length);
            for frame in frames(&contents) {
                assert!(decompress(&frame, length - 1).is_err() && decompress(&frame, 0).is_err());
                assert!(decompress(&frame, length + 1).unwrap() == contents);
                for end in (HEADER..frame.len()).rev().step_by(if length > 1000 { 997 } else { 1 }) {
                    assert!(decompress(&frame[..end], length).is_err(), "cut at {end} of {}", frame.len());
                }
            }
        }
    }

    #[test]
    fn damaged_blocks_are_refused_or_read_as_the_library_does() {
        let contents = contents(3000);
        for frame in frames(&contents) {
            for (place, bit) in (0..frame.len()).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
                let mut damaged = frame.clone();
                damaged[place] ^= 1 << bit;
                if let Ok(decoded) = decompress(&damaged, contents.len()) {
                    assert!(decoded.len() <= contents.len());
                    if decoded.len() == contents.len() {
                        assert!(decoded == decompress_any(&damaged, contents.len()).unwrap(), "bit {bit} of byte {place}");
                    }
                }
            }
        }
    }
}
