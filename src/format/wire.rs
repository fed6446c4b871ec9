//! The only way to look at untrusted bytes: bounds-checked views of plain little-endian structs.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::error::{Error, Result};

/// The struct at `offset`. `what` names it in the error.
pub(crate) fn read<'a, T>(bytes: &'a [u8], offset: usize, what: &str) -> Result<&'a T>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    let rest = bytes.get(offset..).ok_or_else(|| beyond(offset, size_of::<T>(), bytes.len(), what))?;
    match T::ref_from_prefix(rest) {
        Ok((value, _)) => Ok(value),
        Err(_) => Err(beyond(offset, size_of::<T>(), bytes.len(), what)),
    }
}

/// The `count` structs that start at `offset`.
pub(crate) fn read_slice<'a, T>(bytes: &'a [u8], offset: usize, count: usize, what: &str) -> Result<&'a [T]>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    let length = count.checked_mul(size_of::<T>()).ok_or_else(|| beyond(offset, usize::MAX, bytes.len(), what))?;
    let bytes_of = slice(bytes, offset, length, what)?;
    <[T]>::ref_from_bytes(bytes_of).map_err(|_| beyond(offset, length, bytes.len(), what))
}

/// The `length` bytes at `offset`.
pub(crate) fn slice<'a>(bytes: &'a [u8], offset: usize, length: usize, what: &str) -> Result<&'a [u8]> {
    offset.checked_add(length).and_then(|end| bytes.get(offset..end)).ok_or_else(|| beyond(offset, length, bytes.len(), what))
}

fn beyond(offset: usize, length: usize, available: usize, what: &str) -> Error {
    Error::invalid_file(format!("{what} needs {length} bytes at {offset}, but there are only {available}"))
}

/// `n` rounded up to a multiple of 8, the alignment of areas, pages and buffers.
pub(crate) fn ceil8(n: usize) -> usize {
    n.next_multiple_of(8)
}

/// Appends zeros up to a multiple of 8.
pub(crate) fn pad8(out: &mut Vec<u8>) {
    out.resize(ceil8(out.len()), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::little_endian::U32;

    #[test]
    fn reads_within_bounds_and_refuses_the_rest() {
        let bytes = [1, 0, 0, 0, 2, 0, 0, 0, 9];
        assert_eq!(read::<U32>(&bytes, 4, "x").unwrap().get(), 2);
        assert_eq!(read_slice::<U32>(&bytes, 0, 2, "x").unwrap().len(), 2);
        for (offset, count) in [(8, 1), (1, 3), (usize::MAX, 1), (0, usize::MAX)] {
            let error = read_slice::<U32>(&bytes, offset, count, "x").unwrap_err();
            assert_eq!(error.kind(), crate::format::ErrorKind::InvalidFile);
        }
    }
}
