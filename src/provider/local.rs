//! Ranges of a file on this machine: read into memory that is not zeroed first, or mapped.
#![cfg(unix)]

use std::fs::File;
use std::io;
use std::ops::Range;

use bytes::Bytes;
use memmap2::{Advice, Mmap, MmapOptions};
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, pread};

/// The bytes of each range; fewer where the file ends.
pub(super) fn read_ranges(file: &File, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
    ranges.iter().map(|range| read_range(file, range)).collect()
}

fn read_range(file: &File, range: &Range<u64>) -> io::Result<Bytes> {
    let length = length(range)?;
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

/// The bytes of each range as the kernel has them, without a copy; fewer where the file ends.
pub(super) fn map_ranges(file: &File, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
    // What lies behind the end could be mapped, and not be read.
    let end = file.metadata()?.len();
    let ranges: Vec<_> = ranges.iter().map(|range| range.start.min(end)..range.end.min(end)).collect();
    let filled = || ranges.iter().filter(|range| !range.is_empty());
    let (Some(first), Some(last)) = (filled().map(|range| range.start).min(), filled().map(|range| range.end).max()) else {
        return Ok(vec![Bytes::new(); ranges.len()]);
    };
    let memory = map(file, &(first..last))?;
    for range in filled() {
        // What is not in memory is read from now on. Without, it is when it is touched.
        memory.advise_range(Advice::WillNeed, length(&(first..range.start))?, length(range)?).ok();
    }
    let memory = Bytes::from_owner(memory);
    let place = |range: &Range<u64>| Ok(length(&(first..range.start))?..length(&(first..range.end))?);
    ranges.iter().map(|range| if range.is_empty() { Ok(Bytes::new()) } else { place(range).map(|place| memory.slice(place)) }).collect()
}

#[expect(unsafe_code, reason = "only who opens the file can say that it stays as it is")]
fn map(file: &File, range: &Range<u64>) -> io::Result<Mmap> {
    let mut options = MmapOptions::new();
    options.offset(range.start).len(length(range)?);
    // SAFETY: the bytes must not change while they are mapped. Whoever sets the option `memory_map`, which is not set by
    // default, promises it for as long as results of queries are held.
    unsafe { options.map(file) }
}

fn length(range: &Range<u64>) -> io::Result<usize> {
    usize::try_from(range.end.saturating_sub(range.start)).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(length: usize) -> (File, Vec<u8>) {
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..=250).cycle().take(length).collect();
        file.write_all(&content).unwrap();
        (file, content)
    }

    #[test]
    fn ranges_are_read_as_far_as_the_file_goes() {
        let (file, content) = file(100_000);
        let ranges = [0..100_000, 5..6, 7..7, 99_990..100_010, 200_000..200_001, 1000..90_000];
        let expected = [&content[..], &content[5..6], &[], &content[99_990..], &[], &content[1000..90_000]];
        for read in [read_ranges, map_ranges] {
            let read = read(&file, &ranges).unwrap();
            assert_eq!(read.len(), expected.len());
            assert!(read.iter().zip(expected).all(|(read, expected)| read == expected));
        }
    }

    #[test]
    fn large_reads_are_the_same_bytes() {
        let (file, content) = file(9 << 20);
        let ranges = [3 << 20..9 << 20, 1..2, (8 << 20) + 1..10 << 20, 5 << 20..(5 << 20) + 63];
        let expected = [&content[3 << 20..], &content[1..2], &content[(8 << 20) + 1..], &content[5 << 20..(5 << 20) + 63]];
        for read in [read_ranges, map_ranges] {
            let read = read(&file, &ranges).unwrap();
            assert!(read.iter().zip(expected).all(|(read, expected)| read == expected));
        }
    }

    #[test]
    fn nothing_is_read_of_no_ranges_and_of_an_empty_file() {
        let (file, _) = file(0);
        for read in [read_ranges, map_ranges] {
            assert!(read(&file, &[]).unwrap().is_empty());
            assert_eq!(read(&file, &[0..10, 5..5]).unwrap(), [Bytes::new(), Bytes::new()]);
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[1; 100]).unwrap();
        let only_to_write = File::options().write(true).open(file.path()).unwrap();
        for read in [read_ranges, map_ranges] {
            assert!(read(&only_to_write, std::slice::from_ref(&(0..10))).is_err());
        }
    }
}
