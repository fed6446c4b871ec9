//! Small pages, side by side until their stripe ends.
//!
//! A stripe of very many columns has pages of some hundred bytes. Each in an allocation of its own, between the arrays that they are made from, they would keep an allocator from
//! giving these back.

use bytes::{Bytes, BytesMut};

/// Larger pages stay where they are.
const SMALL: usize = 4 << 10;
const PIECE: usize = 64 << 10;

/// Where small pages are copied to.
#[derive(Debug, Default)]
pub(super) struct Arena(BytesMut);

impl Arena {
    pub(super) fn keep(&mut self, page: Vec<u8>) -> Bytes {
        if page.len() > SMALL {
            return page.into();
        }
        if self.0.capacity() < page.len() {
            self.0 = BytesMut::with_capacity(PIECE);
        }
        self.0.extend_from_slice(&page);
        self.0.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pages_are_side_by_side_and_large_ones_are_not_copied() {
        let mut arena = Arena::default();
        let large = vec![7; SMALL + 1];
        let place = large.as_ptr();
        assert_eq!(arena.keep(large).as_ptr(), place);
        let pages: Vec<Bytes> = (0..200).map(|page| arena.keep(vec![page; 1000])).collect();
        assert!(pages.iter().zip(0_u8..).all(|(kept, page)| *kept == vec![page; 1000]));
        let neighbours = pages.windows(2).filter(|pair| pair[0].as_ptr().wrapping_add(1000) == pair[1].as_ptr()).count();
        assert!(neighbours >= 195, "{neighbours}");
        assert!(arena.keep(Vec::new()).is_empty());
    }
}
