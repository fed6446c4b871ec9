//! Memory of reads that are done, kept for those to come.
//!
//! A range of a file takes a megabyte or so. Allocators give that much back to the system when it is free, and the system zeroes each of its pages before it is written again: that takes as
//! long as to copy the file's bytes there.
#![cfg(unix)]

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

/// Smaller buffers are left to the allocator, which keeps them itself.
const LENGTH_MIN: usize = 64 << 10;
/// What is kept at most of all that is free.
const FREE_MAX: usize = 32 << 20;

/// The buffers that nobody has any more.
static FREE: Mutex<Free> = Mutex::new(Free { buffers: Vec::new(), bytes: 0 });

struct Free {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Free {
    /// The last one with room for so many bytes, but not for half as many again: its memory is the most likely to be in a cache of the processor.
    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        let index = self.buffers.iter().rposition(|buffer| (length..=length + length / 2).contains(&buffer.capacity()))?;
        let buffer = self.buffers.remove(index);
        self.bytes -= buffer.capacity();
        Some(buffer)
    }

    /// Keeps a buffer. What has to go for it, the oldest first, is to be dropped by the caller.
    fn put(&mut self, mut buffer: Vec<u8>) -> Vec<Vec<u8>> {
        buffer.clear();
        self.bytes += buffer.capacity();
        self.buffers.push(buffer);
        let mut gone = 0;
        while self.bytes > FREE_MAX {
            self.bytes -= self.buffers.get(gone).map_or(self.bytes, Vec::capacity);
            gone += 1;
        }
        self.buffers.drain(..gone).collect()
    }
}

/// An empty buffer with room for so many bytes.
pub(super) fn buffer(length: usize) -> Vec<u8> {
    let kept = if length < LENGTH_MIN { None } else { FREE.lock().unwrap_or_else(PoisonError::into_inner).take(length) };
    kept.unwrap_or_else(|| Vec::with_capacity(length))
}

/// What has been read into a buffer, which is kept for others when nobody looks at it any more.
pub(super) fn bytes(buffer: Vec<u8>) -> Bytes {
    if buffer.capacity() < LENGTH_MIN { buffer.into() } else { Bytes::from_owner(Kept(buffer)) }
}

struct Kept(Vec<u8>);

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.0);
        // Given back to the allocator when the lock is not held any more.
        let gone = FREE.lock().unwrap_or_else(PoisonError::into_inner).put(buffer);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free() -> Free {
        Free { buffers: Vec::new(), bytes: 0 }
    }

    #[test]
    fn a_buffer_is_taken_again_where_it_fits() {
        let mut free = free();
        for capacity in [1 << 20, 3 << 20, 2 << 20] {
            let mut buffer = Vec::with_capacity(capacity);
            buffer.extend_from_slice(b"what was there");
            assert!(free.put(buffer).is_empty());
        }
        assert!(free.take((3 << 20) + 1).is_none());
        assert!(free.take(512 << 10).is_none());
        let taken = free.take((1 << 20) + (512 << 10)).unwrap();
        assert_eq!((taken.len(), taken.capacity()), (0, 2 << 20));
        assert!(free.put(taken).is_empty());
        // The last that fits, not the smallest.
        assert!(free.put(Vec::with_capacity((2 << 20) + 7)).is_empty());
        assert_eq!(
            [1 << 20, 2 << 20, 2 << 20, 2 << 20].map(|length| free.take(length).unwrap().capacity()),
            [1 << 20, (2 << 20) + 7, 2 << 20, 3 << 20]
        );
        assert!(free.take(2 << 20).is_none());
        assert_eq!(free.bytes, 0);
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let mut free = free();
        let gone: Vec<usize> = (1..=10).flat_map(|size| free.put(Vec::with_capacity(size << 20))).map(|buffer| buffer.capacity() >> 20).collect();
        assert_eq!(gone, [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(free.bytes, (8 + 9 + 10) << 20);
        assert_eq!(free.put(Vec::with_capacity(FREE_MAX + 1)).len(), 4);
        assert_eq!((free.bytes, free.buffers.len()), (0, 0));
    }

    #[test]
    fn what_was_read_stays_as_long_as_somebody_looks_at_it() {
        // A length that no other test reads.
        let length = (5 << 20) + 12_347;
        let mut first = buffer(length);
        first.resize(length, 7);
        let (address, read) = (first.as_ptr(), bytes(first));
        let part = read.slice(length - 3..);
        drop(read);
        let mut second = buffer(length);
        assert_ne!(second.as_ptr(), address);
        second.resize(length, 9);
        assert_eq!(&part[..], [7; 3]);
    }
}
