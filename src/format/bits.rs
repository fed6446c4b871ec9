//! Masks of rows, a word at a time.

use std::ops::Range;

use arrow::buffer::{BooleanBuffer, Buffer};

/// Bits of a word.
pub(crate) const WORD: usize = u64::BITS as usize;

/// A mask that grows at its end.
#[derive(Debug)]
pub(crate) struct Mask {
    words: Vec<u64>,
    len: usize,
}

impl Mask {
    /// Room for so many bits.
    pub(crate) fn with_room(len: usize) -> Self {
        Self { words: vec![0; len / WORD + 2], len: 0 }
    }

    /// Appends the lowest `count` bits of up to 64; the others have to be 0.
    #[expect(clippy::cast_possible_truncation, reason = "the lower half of 128 bits, and the upper")]
    pub(crate) fn push(&mut self, bits: u64, count: usize) {
        debug_assert!(count <= WORD && (count == WORD || bits >> count == 0), "{count} bits of {bits:#x}");
        let at = self.len / WORD;
        if at + 1 >= self.words.len() {
            self.words.resize(2 * at + 2, 0);
        }
        let bits = u128::from(bits) << (self.len % WORD);
        self.words[at] |= bits as u64;
        self.words[at + 1] |= (bits >> WORD) as u64;
        self.len += count;
    }

    pub(crate) fn finish(self) -> BooleanBuffer {
        BooleanBuffer::new(Buffer::from(self.words), 0, self.len)
    }
}

/// From the first bit that is set to the last one.
pub(crate) fn span(bits: &BooleanBuffer) -> Option<Range<usize>> {
    let mut span: Option<Range<usize>> = None;
    for (start, word) in (0..).step_by(WORD).zip(bits.bit_chunks().iter_padded()).filter(|(_, word)| *word != 0) {
        let first = span.map_or(start + word.trailing_zeros() as usize, |span| span.start);
        span = Some(first..start + WORD - word.leading_zeros() as usize);
    }
    span
}

/// The set bits of `of` that have a bit in `keep`, which has one for each of them.
#[cfg(feature = "datafusion")]
pub(crate) fn among(of: &BooleanBuffer, keep: &BooleanBuffer) -> BooleanBuffer {
    let mut mask = Mask::with_room(of.len());
    let mut at = 0;
    for word in of.bit_chunks().iter_padded() {
        let (count, left) = (word.count_ones() as usize, of.len() - mask.len);
        let end = keep.len().min(at + count);
        // They are no more than a word has, and where it is full, another one without bits follows.
        let kept = keep.slice(at, end - at).bit_chunks().iter_padded().fold(0, |all, word| all | word);
        mask.push(deposited(kept, word), left.min(WORD));
        at = end;
    }
    mask.finish()
}

/// The bits of `from` where `at` has one.
#[cfg(feature = "datafusion")]
pub(crate) fn picked(from: &BooleanBuffer, at: &BooleanBuffer) -> BooleanBuffer {
    debug_assert_eq!(from.len(), at.len());
    let mut mask = Mask::with_room(at.count_set_bits());
    for (from, at) in from.bit_chunks().iter_padded().zip(at.bit_chunks().iter_padded()) {
        mask.push(extracted(from, at), at.count_ones() as usize);
    }
    mask.finish()
}

/// The lowest bits one after the other where `places` has bits.
#[cfg(feature = "datafusion")]
fn deposited(mut bits: u64, mut places: u64) -> u64 {
    let mut word = 0;
    while bits != 0 && places != 0 {
        let place = places & places.wrapping_neg();
        word |= place & (bits & 1).wrapping_neg();
        places ^= place;
        bits >>= 1;
    }
    word
}

/// The bits where `places` has bits, one after the other from the lowest.
#[cfg(feature = "datafusion")]
fn extracted(bits: u64, mut places: u64) -> u64 {
    if bits & places == 0 {
        return 0;
    }
    let (mut word, mut at) = (0, 0);
    while places != 0 {
        word |= (bits >> places.trailing_zeros() & 1) << at;
        places &= places - 1;
        at += 1;
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Masks of many lengths and densities that do not begin with a byte.
    fn masks(len: usize, salt: usize) -> impl Iterator<Item = BooleanBuffer> {
        [1, 2, 3, 17, 64, 5000].into_iter().map(move |part| {
            let long = BooleanBuffer::collect_bool(len + 5, |bit| (bit * 7919 + salt * 31).wrapping_mul(0x9E37_79B9) >> 7 & 0xFFFF < 0x1_0000 / part);
            long.slice(5, len)
        })
    }

    const LENGTHS: [usize; 9] = [0, 1, 7, 63, 64, 65, 128, 1000, 1024];

    #[test]
    fn spans_reach_from_the_first_bit_to_the_last() {
        for mask in LENGTHS.into_iter().flat_map(|len| masks(len, len)) {
            let set: Vec<usize> = mask.set_indices().collect();
            assert_eq!(span(&mask), set.first().map(|first| *first..set[set.len() - 1] + 1));
        }
    }

    #[cfg(feature = "datafusion")]
    #[test]
    fn bits_are_found_among_others_and_picked_at_others() {
        assert_eq!(
            among(&BooleanBuffer::from(vec![true, false, true, true, false]), &BooleanBuffer::from(vec![false, true, true])),
            BooleanBuffer::from(vec![false, false, true, true, false])
        );
        for of in LENGTHS.into_iter().flat_map(|len| masks(len, 1)) {
            for keep in masks(of.count_set_bits(), 2) {
                let kept: Vec<usize> = of.set_indices().zip(&keep).filter(|(_, keep)| *keep).map(|(index, _)| index).collect();
                let found = among(&of, &keep);
                assert_eq!((found.len(), found.set_indices().collect::<Vec<_>>()), (of.len(), kept));
                assert_eq!(picked(&found, &of), keep);
            }
        }
    }

    #[test]
    fn masks_grow_by_up_to_a_word() {
        let mut mask = Mask::with_room(3);
        let mut expected = Vec::new();
        for count in (0..=WORD).chain([1, 64, 64, 63, 0, 64]) {
            let bits = u64::MAX.checked_shr(64 - u32::try_from(count).unwrap()).unwrap_or(0) & 0x5BD1_E995_7A6E_0F3C;
            mask.push(bits, count);
            expected.extend((0..count).map(|bit| bits >> bit & 1 == 1));
        }
        assert_eq!(mask.finish(), BooleanBuffer::from(expected));
    }
}
