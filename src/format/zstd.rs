//! ZSTD with contexts that are made once per thread: that takes longer than to compress a small buffer, or to decompress one.

use std::cell::RefCell;
use std::io::Result;

use zstd::bulk::{Compressor, Decompressor};

/// One frame of all of `raw`.
pub(crate) fn compress(raw: &[u8], level: i32) -> Result<Vec<u8>> {
    thread_local! {
        static COMPRESSOR: RefCell<Option<(i32, Compressor<'static>)>> = const { RefCell::new(None) };
    }
    COMPRESSOR.with_borrow_mut(|kept| {
        let (kept_level, compressor) = match kept.take() {
            Some(any) => kept.insert(any),
            None => kept.insert((level, Compressor::new(level)?)),
        };
        if *kept_level != level {
            compressor.set_compression_level(level)?;
            *kept_level = level;
        }
        compressor.compress(raw)
    })
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
