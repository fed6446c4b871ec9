//! Ranges of a file on this machine: read into memory that is not zeroed first, or mapped.
//!
//! What the kernel has in memory is read where it is needed. To hand that to another thread and wait for it costs more than the copy does, and leaves the bytes in the other
//! core's cache.
#![cfg(unix)]

use std::fs::File;
use std::ops::Range;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use std::{io, mem};

use bytes::Bytes;
use memmap2::{Advice, Mmap, MmapOptions};
use rustix::io::pread;

use super::recycle;

/// A file that is kept open, and how it was then.
#[derive(Debug)]
pub(super) struct LocalFile {
    file: File,
    modified: SystemTime,
    length: u64,
    /// What was read last did not have to be waited for.
    is_in_memory: AtomicBool,
}

impl LocalFile {
    /// A file that was found so long when it was opened, and written to last at this time. Not all who open files say that to less than a second.
    pub(super) fn new(file: File, length: u64, modified: SystemTime) -> io::Result<Option<Self>> {
        let metadata = file.metadata()?;
        let exactly = metadata.modified()?;
        // A store that does not say the time says the beginning of all times.
        let is_then = modified == SystemTime::UNIX_EPOCH || difference(exactly, modified) < Duration::from_secs(1);
        let is_same = metadata.len() == length && is_then;
        Ok(is_same.then_some(Self { modified: exactly, length, file, is_in_memory: AtomicBool::new(false) }))
    }

    /// Whether the kernel had in memory what was read last, so that it likely has what is read next.
    pub(super) fn is_in_memory(&self) -> bool {
        self.is_in_memory.load(Ordering::Relaxed)
    }

    /// Whether nobody has written to it since it was opened.
    pub(super) fn is_unchanged(&self) -> io::Result<bool> {
        let metadata = self.file.metadata()?;
        Ok(metadata.len() == self.length && metadata.modified()? == self.modified)
    }
}

fn difference(one: SystemTime, other: SystemTime) -> Duration {
    one.duration_since(other).unwrap_or_else(|error| error.duration())
}

/// Ranges of a file, some of which have been read.
#[derive(Debug)]
pub(super) struct Reads {
    ranges: Vec<Range<u64>>,
    /// Those that are done.
    bytes: Vec<Bytes>,
    /// The beginning of the next.
    begun: Vec<u8>,
}

/// Reads up to so many bytes at an offset onto the end of a vector, and says how many; 0 at the end of the file.
type Read = fn(&File, &mut Vec<u8>, usize, u64) -> io::Result<usize>;

impl Reads {
    pub(super) fn new(ranges: Vec<Range<u64>>) -> Self {
        Self { bytes: Vec::with_capacity(ranges.len()), ranges, begun: Vec::new() }
    }

    /// Reads what the kernel has in memory, and waits for no disk. `None` if that is everything: the bytes of each range, fewer where the file ends.
    pub(super) fn in_memory(mut self, file: &LocalFile) -> Result<Vec<Bytes>, Self> {
        // Whatever is wrong, where waiting is allowed it is seen again.
        let read = self.read(&file.file, read_in_memory);
        file.is_in_memory.store(read.is_ok(), Ordering::Relaxed);
        match read {
            Ok(()) => Ok(self.bytes),
            Err(_) => Err(self),
        }
    }

    /// The bytes of each range; fewer where the file ends.
    pub(super) fn all(mut self, file: &LocalFile) -> io::Result<Vec<Bytes>> {
        self.read(&file.file, read_and_wait)?;
        Ok(self.bytes)
    }

    fn read(&mut self, file: &File, read: Read) -> io::Result<()> {
        for range in &self.ranges[self.bytes.len()..] {
            let length = length(range)?;
            if self.begun.capacity() < length {
                self.begun = recycle::buffer(length);
            }
            while self.begun.len() < length {
                let begun = self.begun.len();
                match read(file, &mut self.begun, length - begun, range.start.saturating_add(begun as u64)) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            self.bytes.push(recycle::bytes(mem::take(&mut self.begun)));
        }
        Ok(())
    }
}

#[expect(unsafe_code, reason = "memory that was used before has room for more than is to be read")]
fn read_and_wait(file: &File, bytes: &mut Vec<u8>, length: usize, offset: u64) -> io::Result<usize> {
    let (before, spare) = (bytes.len(), bytes.spare_capacity_mut());
    let length = length.min(spare.len());
    let read = pread(file, &mut spare[..length], offset)?.0.len();
    // SAFETY: so many bytes behind the length have been written, which are no more than `length`, which is within the capacity.
    unsafe { bytes.set_len(before + read.min(length)) };
    Ok(read)
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no safe binding reads with flags into memory that is not initialized")]
fn read_in_memory(file: &File, bytes: &mut Vec<u8>, length: usize, offset: u64) -> io::Result<usize> {
    let spare = bytes.spare_capacity_mut();
    let length = length.min(spare.len());
    let into = libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: length };
    let offset = offset.try_into().map_err(io::Error::other)?;
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the one `iovec` is `length` bytes of memory that `bytes` owns and nothing else
    // has a reference to. They need not be initialized, since they are only written.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const into, 1, offset, libc::RWF_NOWAIT) };
    let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    if read == 0 && length > 0 {
        // The end of the file; or, with some kernels (5.9, 5.10), a page that is not in memory.
        return Err(io::ErrorKind::WouldBlock.into());
    }
    // SAFETY: the kernel has written that many bytes behind the length, and it wrote no more than `length`, which is within the capacity.
    unsafe { bytes.set_len(bytes.len() + read.min(length)) };
    Ok(read)
}

/// Elsewhere nothing tells what is in memory.
#[cfg(not(target_os = "linux"))]
fn read_in_memory(_: &File, _: &mut Vec<u8>, _: usize, _: u64) -> io::Result<usize> {
    Err(io::ErrorKind::WouldBlock.into())
}

/// The bytes of each range as the kernel has them, without a copy; fewer where the file ends.
pub(super) fn map_ranges(file: &LocalFile, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
    // What lies behind the end could be mapped, and not be read.
    let LocalFile { file, length: end, .. } = file;
    let ranges: Vec<_> = ranges.iter().map(|range| range.start.min(*end)..range.end.min(*end)).collect();
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

    fn file(length: usize) -> (LocalFile, Vec<u8>) {
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..=250).cycle().take(length).collect();
        file.write_all(&content).unwrap();
        (local(file), content)
    }

    fn local(file: File) -> LocalFile {
        let metadata = file.metadata().unwrap();
        LocalFile::new(file, metadata.len(), metadata.modified().unwrap()).unwrap().unwrap()
    }

    type Way = fn(&LocalFile, &[Range<u64>]) -> io::Result<Vec<Bytes>>;

    /// All ways to read: they are to give the same bytes.
    const WAYS: [Way; 5] = [
        |file, ranges| Reads::new(ranges.to_vec()).all(file),
        |file, ranges| Reads::new(ranges.to_vec()).in_memory(file).or_else(|rest| rest.all(file)),
        // As if only 1,000 bytes of 5,000 were in memory.
        |file, ranges| {
            let mut reads = Reads::new(ranges.to_vec());
            let stops = |file: &File, bytes: &mut Vec<u8>, length: usize, offset: u64| match offset % 5000 {
                0..1000 => read_and_wait(file, bytes, length.min(10), offset),
                _ => Err(io::ErrorKind::WouldBlock.into()),
            };
            match reads.read(&file.file, stops) {
                Ok(()) => Ok(reads.bytes),
                Err(_) => reads.all(file),
            }
        },
        // As if nothing were in memory, as some kernels say it.
        |file, ranges| {
            let mut reads = Reads::new(ranges.to_vec());
            let nothing = |_: &File, _: &mut Vec<u8>, _: usize, _: u64| Err(io::ErrorKind::WouldBlock.into());
            assert_eq!(reads.read(&file.file, nothing).is_ok(), ranges.iter().all(Range::is_empty));
            reads.all(file)
        },
        map_ranges,
    ];

    #[test]
    fn ranges_are_read_as_far_as_the_file_goes() {
        let (file, content) = file(100_000);
        let ranges = [0..100_000, 5..6, 7..7, 99_990..100_010, 200_000..200_001, 1000..90_000];
        let expected = [&content[..], &content[5..6], &[], &content[99_990..], &[], &content[1000..90_000]];
        for read in WAYS {
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
        for read in WAYS {
            let read = read(&file, &ranges).unwrap();
            assert!(read.iter().zip(expected).all(|(read, expected)| read == expected));
        }
    }

    #[test]
    fn nothing_is_read_of_no_ranges_and_of_an_empty_file() {
        let (file, _) = file(0);
        for read in WAYS {
            assert!(read(&file, &[]).unwrap().is_empty());
            assert_eq!(read(&file, &[0..10, 5..5]).unwrap(), [Bytes::new(), Bytes::new()]);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_has_just_been_written_is_in_memory() {
        let (file, content) = file(100_000);
        assert!(!file.is_in_memory());
        let read = Reads::new(vec![10..99_000; 1]).in_memory(&file).unwrap();
        assert_eq!(read, [&content[10..99_000]]);
        assert!(file.is_in_memory());
        assert!(Reads::new(vec![99_000..100_001; 1]).in_memory(&file).is_err() && !file.is_in_memory());
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[1; 100]).unwrap();
        let only_to_write = local(File::options().write(true).open(file.path()).unwrap());
        for read in WAYS {
            assert!(read(&only_to_write, std::slice::from_ref(&(0..10))).is_err());
        }
    }

    #[test]
    fn a_file_that_is_written_to_is_not_what_it_was() {
        let mut written = tempfile::NamedTempFile::new().unwrap();
        written.write_all(&[1; 100]).unwrap();
        let file = local(written.reopen().unwrap());
        assert!(file.is_unchanged().unwrap());
        written.as_file().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert!(!file.is_unchanged().unwrap());
        let found = file.file.metadata().unwrap().modified().unwrap();
        for (length, modified) in [(101, found), (100, found + Duration::from_secs(1)), (100, SystemTime::now())] {
            assert!(LocalFile::new(written.reopen().unwrap(), length, modified).unwrap().is_none());
        }
        assert!(LocalFile::new(written.reopen().unwrap(), 100, SystemTime::UNIX_EPOCH).unwrap().is_some());
        let file = local(written.reopen().unwrap());
        written.write_all(&[1]).unwrap();
        written.as_file().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert!(!file.is_unchanged().unwrap());
    }
}
