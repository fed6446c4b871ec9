//! ZSTD with contexts that are made once per thread: that takes longer than to compress a small buffer, or to decompress one.

use std::cell::RefCell;
use std::io::{Read, Result};

use zstd::bulk::{Compressor, Decompressor};
use zstd::stream::read::Decoder;
use zstd::zstd_safe::CParameter;

/// One frame of all of `raw`.
pub(crate) fn compress(raw: &[u8], level: i32) -> Result<Vec<u8>> {
    compress_as(raw, Way { level, matches: [0, 0] })
}

/// The same of text, in fewer and longer matches than its level looks for: decompression takes its time for their number, and what looks alike for five bytes of a telephone number or a path
/// is chance. TPC-H's telephone numbers take 7 % less and are read twice as fast at level 3, URLs, titles and referers 3.5 % less and are read 15 % faster at level 5.
pub(crate) fn compress_text(raw: &[u8], level: i32) -> Result<Vec<u8>> {
    const LENGTH_MIN: u32 = 7;
    const SEARCH_LOG: u32 = 5;
    let matches = match level {
        3 | 4 => [LENGTH_MIN, 0],
        // As many places as these levels can look at at once.
        5..=10 => [LENGTH_MIN, SEARCH_LOG],
        // Others look for long matches themselves, or have time for the shortest.
        _ => [0, 0],
    };
    compress_as(raw, Way { level, matches })
}

/// The same of numbers, packed or not. Few pieces of them come again, and the third level, which 0 is, too, finds hardly any that the first does not: with it a table of 105 columns
/// takes 0.3 % less.
pub(crate) fn compress_numbers(raw: &[u8], level: i32) -> Result<Vec<u8>> {
    compress(raw, if (0..=4).contains(&level) { 1 } else { level })
}

/// How to compress.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Way {
    level: i32,
    /// The least length of a match, and the logarithm of how many places are looked at for one; 0 for those of the level.
    matches: [u32; 2],
}

fn compress_as(raw: &[u8], way: Way) -> Result<Vec<u8>> {
    thread_local! {
        static COMPRESSOR: RefCell<Option<(Way, Compressor<'static>)>> = const { RefCell::new(None) };
    }
    COMPRESSOR.with_borrow_mut(|kept| {
        // Without one, or if it cannot be set, the next is new.
        let mut compressor = match kept.take() {
            Some((last, compressor)) if last == way => compressor,
            Some((_, compressor)) => set(compressor, way)?,
            None => set(Compressor::default(), way)?,
        };
        let stored = compressor.compress(raw);
        *kept = Some((way, compressor));
        stored
    })
}

fn set(mut compressor: Compressor<'static>, Way { level, matches: [length_min, search_log] }: Way) -> Result<Compressor<'static>> {
    compressor.set_compression_level(level)?;
    compressor.set_parameter(CParameter::MinMatch(length_min))?;
    compressor.set_parameter(CParameter::SearchLog(search_log))?;
    Ok(compressor)
}

/// The contents of frames, which have no more than `length_max` bytes.
pub(crate) fn decompress(stored: &[u8], length_max: usize) -> Result<Vec<u8>> {
    thread_local! {
        static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }
    let mut raw = Vec::new();
    raw.try_reserve_exact(length_max)?;
    DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = match kept.take() {
            Some(decompressor) => kept.insert(decompressor),
            None => kept.insert(Decompressor::new()?),
        };
        decompressor.decompress_to_buffer(stored, &mut raw)
    })?;
    Ok(raw)
}

/// The first bytes of the contents of frames, up to `length`. Frames that look back further than 128 MiB are refused: what for would be the memory?
pub(crate) fn beginning(stored: &[u8], length: usize) -> Result<Vec<u8>> {
    let mut raw = Vec::new();
    raw.try_reserve_exact(length)?;
    Decoder::with_buffer(stored)?.take(length as u64).read_to_end(&mut raw)?;
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Compress = fn(&[u8], i32) -> Result<Vec<u8>>;

    #[test]
    fn a_way_leaves_nothing_for_the_next() {
        let text: Vec<u8> = (0..4_000_u32)
            .flat_map(|row| {
                format!("https://host{}.example/path/{}?page={}", row % 97, row.wrapping_mul(2_654_435_761) % 1009, row % 13).into_bytes()
            })
            .collect();
        let ways: [(Compress, i32); 6] =
            [(compress, 3), (compress_text, 5), (compress, 5), (compress_text, 3), (compress_text, 22), (compress_text, 9)];
        let first = ways.map(|(compress, level)| compress(&text, level).unwrap());
        for (stored, (compress, level)) in first.iter().zip(ways).rev() {
            assert_eq!(&compress(&text, level).unwrap(), stored);
            assert_eq!(decompress(stored, text.len()).unwrap(), text);
        }
        let alone = std::thread::spawn(move || compress_text(&text, 5).unwrap()).join().unwrap();
        assert_eq!(alone, first[1]);
        assert_ne!(first[0], first[3]);
        assert_ne!(first[1], first[2]);
    }
}
