//! Ranges of a file on this machine, read into memory that is not zeroed first.
#![cfg(unix)]

use std::fs::File;
use std::io;
use std::ops::Range;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, pread};

/// The bytes of each range; fewer where the file ends.
pub(super) fn read_ranges(file: &File, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
    ranges.iter().map(|range| read_range(file, range)).collect()
}

fn read_range(file: &File, range: &Range<u64>) -> io::Result<Bytes> {
    let length = usize::try_from(range.end.saturating_sub(range.start)).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(length);
    let mut offset = range.start;
    while bytes.len() < length {
        match pread(file, spare_capacity(&mut bytes), offset) {
            Ok(0) => break,
            Ok(read) => offset += read as u64,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    bytes.truncate(length);
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn ranges_are_read_as_far_as_the_file_goes() {
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        file.write_all(&content).unwrap();
        let ranges = [0..100_000, 5..6, 7..7, 99_990..100_010, 200_000..200_001, 1000..90_000];
        let read = read_ranges(&file, &ranges).unwrap();
        let expected = [&content[..], &content[5..6], &[], &content[99_990..], &[], &content[1000..90_000]];
        assert!(read.iter().zip(expected).all(|(read, expected)| read == expected));
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let folder = File::open(std::env::temp_dir()).unwrap();
        assert!(read_ranges(&folder, std::slice::from_ref(&(0..10))).is_err());
    }
}
