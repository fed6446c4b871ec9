//! FIRST_SEEN: numbers that count what is seen for the first time. A bit per value says whether it is the next one; only the others are stored. That is how the codes of a dictionary
//! are that grows as its chunk is written.

use std::ops::Range;
use std::sync::OnceLock;

use arrow::buffer::{BooleanBuffer, Buffer};
use zerocopy::IntoBytes;

use super::choose::Context;
use super::frame::Frame;
use super::node::{EncodedNode, Node, Parts};
use super::pack::{Lane, is_lane, with_lane};
use super::planes::{cost_of, piece};
use super::sample::{Cost, Sample, real};
use super::values::mixed_up;
use super::words::words_from;
use super::{Decode, Decoded, Encoding, EncodingId, Output, PType, Values};
use crate::format::{Error, Result};

#[derive(Debug)]
pub(super) struct FirstSeen;

/// One in so many values is new at least: each takes a bit to say so.
const NEW_PART: usize = 10;
/// What it takes to find the value of a bit.
const BIT_NANOS: f64 = 0.9;
/// What the nodes take.
const NODE_BYTES: f64 = 150.0;

impl Encoding for FirstSeen {
    fn estimate(&self, sample: &Sample<'_>) -> Option<Cost> {
        match sample.all() {
            Values::Fixed { ptype, bytes } if counts(*ptype) => with_lane!(ptype, T => cost(piece(&words_from::<T>(bytes)), *ptype, sample)),
            _ => None,
        }
    }

    fn encode(&self, values: &Values, context: &Context<'_>) -> Result<Option<EncodedNode>> {
        match values {
            Values::Fixed { ptype, bytes } if counts(*ptype) && !values.is_empty() => with_lane!(ptype, T => {
                let words = words_from::<T>(bytes);
                let first = first_new(&words);
                let (is_new, others) = split(&words, first);
                if !context.is_forced() && !pays(words.len(), others.len()) {
                    return Ok(None);
                }
                let child = context.child(&[EncodingId::FirstSeen, EncodingId::Dictionary, EncodingId::RunLength, EncodingId::Delta]);
                let others = Values::Fixed { ptype: *ptype, bytes: Buffer::from(others.as_bytes()) };
                let children = vec![child.encode(&Values::Bool(is_new))?, child.encode(&others)?];
                let (ptype, count, params) = (*ptype, words.len(), [first.to_u64(), 0]);
                Ok(Some(EncodedNode { encoding: EncodingId::FirstSeen, ptype, count, params, buffers: Vec::new(), children }))
            }),
            _ => Ok(None),
        }
    }

    fn open(&self, mut parts: Parts) -> Result<Box<dyn Decode>> {
        let ([], [is_new, others]) = parts.take()?;
        parts.check(counts(parts.ptype) && others.ptype() == parts.ptype, "it is for unsigned integers")?;
        parts.check(is_new.ptype() == PType::Bool && is_new.count() == parts.count, "it has not one bit per value")?;
        parts.check(others.count() <= parts.count, "it stores more values than it has")?;
        let [first, rest] = parts.params;
        parts.check(rest == 0, "its second parameter is not 0")?;
        let bits = parts.ptype.width().unwrap_or(0) * 8;
        parts.check(bits == 64 || first >> bits == 0, "its first number is wider than its type")?;
        Ok(Box::new(Counted { first, is_new, others, marks: OnceLock::new() }))
    }
}

fn counts(ptype: PType) -> bool {
    is_lane(ptype) && !ptype.is_signed()
}

fn pays(count: usize, others: usize) -> bool {
    (count - others) * NEW_PART >= count
}

/// What as many values as a sample is of cost, if these are neighbours among them.
fn cost<T: Lane>(piece: &[T], ptype: PType, sample: &Sample<'_>) -> Option<Cost> {
    let others = if piece.is_empty() { Vec::new() } else { split(piece, first_new(piece)).1 };
    if !pays(piece.len(), others.len()) || piece.is_empty() {
        return None;
    }
    let packed = Frame.estimate(sample)?;
    let stored =
        cost_of(&others, ptype, sample, packed.total(sample.goal().compression)).filter(|_| sample.goal().zstd_level.is_some()).unwrap_or(packed);
    let (count, part) = (real(sample.count()), real(others.len()) / real(piece.len()));
    Some(Cost { bytes: stored.bytes * part + count / 8.0 + NODE_BYTES, nanos: stored.nanos * part + count * BIT_NANOS })
}

/// The least number from which on all are seen for the first time in their order, of values of which there is at least one: the greatest is.
fn first_new<T: Lane>(words: &[T]) -> T {
    let greatest = words.iter().copied().max().unwrap_or_default();
    // Where each number is seen first, from the greatest down; there are no more new ones than values.
    let mut firsts = vec![words.len(); words.len()];
    for (index, word) in words.iter().enumerate().rev() {
        let below = usize::try_from(greatest.minus(*word).to_u64()).ok();
        if let Some(first) = below.and_then(|below| firsts.get_mut(below)) {
            *first = index;
        }
    }
    let descending = firsts.windows(2).take_while(|pair| pair[1] < pair[0]).count();
    greatest.minus(T::from_param(descending as u64))
}

/// Which values are new, and the others.
fn split<T: Lane>(words: &[T], first: T) -> (BooleanBuffer, Vec<T>) {
    let (mut next, mut others) = (first, Vec::with_capacity(words.len()));
    let is_new = BooleanBuffer::collect_bool(words.len(), |index| {
        let is_new = words[index] == next;
        if is_new {
            next = next.plus(T::from_param(1));
        } else {
            others.push(words[index]);
        }
        is_new
    });
    (is_new, others)
}

#[derive(Debug)]
struct Counted {
    first: u64,
    is_new: Node,
    others: Node,
    marks: OnceLock<Marks>,
}

/// Which values are new.
#[derive(Debug)]
struct Marks {
    /// A bit for each value, and no bit behind them.
    words: Vec<u64>,
    /// How many are set before each word.
    before: Vec<usize>,
}

impl Marks {
    fn new(bits: &BooleanBuffer) -> Self {
        let words: Vec<u64> = bits.bit_chunks().iter_padded().collect();
        let counts = words.iter().scan(0, |count, word| {
            let before = *count;
            *count += word.count_ones() as usize;
            Some(before)
        });
        Self { before: counts.collect(), words }
    }

    /// How many values before this one are new.
    fn before(&self, index: usize) -> usize {
        let (word, bit) = (index / 64, index % 64);
        match (self.words.get(word), self.before.get(word)) {
            (Some(word), Some(before)) => before + (word & ((1 << bit) - 1)).count_ones() as usize,
            _ => self.all(),
        }
    }

    fn all(&self) -> usize {
        self.before.last().zip(self.words.last()).map_or(0, |(before, last)| before + last.count_ones() as usize)
    }

    /// 1 if a value is new, else 0.
    fn bit(&self, index: usize) -> usize {
        self.words.get(index / 64).map_or(0, |word| usize::from(word >> (index % 64) & 1 == 1))
    }
}

impl Decode for Counted {
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        with_lane!(out.ptype(), T => self.decode_words::<T>(range, out))
    }
}

impl Counted {
    fn marks(&self) -> Result<&Marks> {
        if let Some(marks) = self.marks.get() {
            return Ok(marks);
        }
        let Decoded::Bool(bits) = self.is_new.all()? else { return Err(mixed_up()) };
        let marks = Marks::new(bits);
        if marks.all() + self.others.count() != self.is_new.count() {
            return Err(Error::invalid_file(format!(
                "{} of {} values are new, and {} are stored",
                marks.all(),
                self.is_new.count(),
                self.others.count()
            )));
        }
        Ok(self.marks.get_or_init(|| marks))
    }

    fn decode_words<T: Lane>(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        let marks = self.marks()?;
        let before = marks.before(range.start);
        let stored = range.start - before..range.end - marks.before(range.end);
        let mut others = Output::new(out.ptype(), stored.len());
        if !stored.is_empty() {
            self.others.decode(stored, &mut others)?;
        }
        let others = others.words::<T>()?;
        let mut next = T::from_param(self.first).plus(T::from_param(before as u64));
        let mut old = 0;
        for (slot, index) in out.grow::<T>(range.len())?.iter_mut().zip(range) {
            let bit = marks.bit(index);
            // Which it is cannot be foreseen, so both are looked up.
            let other = others.get(old).copied().unwrap_or_default();
            *slot = if bit == 1 { next } else { other };
            next = next.plus(T::from_param(bit as u64));
            old += 1 - bit;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::format::ErrorKind;
    use crate::format::codec::{EncodeOptions, EncodingTree, encode, encode_codes};
    use crate::format::fermion::page::{Page, PageExpect, write_page};

    #[test]
    fn new_numbers_are_those_that_are_seen_in_their_order() {
        let check = |words: &[u8], first: u8, new: &[usize]| {
            assert_eq!(first_new(words), first, "{words:?}");
            let (is_new, others) = split(words, first);
            assert_eq!(is_new.set_indices().collect::<Vec<_>>(), new, "{words:?}");
            assert_eq!(others, words.iter().enumerate().filter(|(index, _)| !new.contains(index)).map(|(_, word)| *word).collect::<Vec<_>>());
        };
        check(&[7], 7, &[0]);
        check(&[0, 1, 2, 3], 0, &[0, 1, 2, 3]);
        check(&[5, 0, 6, 6, 5, 1, 7], 5, &[0, 2, 6]);
        // Not seen in this order.
        check(&[6, 5, 7], 6, &[0, 2]);
        check(&[7, 6, 5], 7, &[0]);
        // Those before are as if they were new, too.
        check(&[3, 1, 4, 3, 9, 5], 9, &[4]);
        check(&[3, 1, 4, 3, 5], 3, &[0, 2, 4]);
        check(&[255, 254, 255], 255, &[0]);
        check(&[254, 255, 0, 0], 254, &[0, 1, 2]);
    }

    #[test]
    fn bits_that_do_not_fit_what_is_stored_are_an_error() {
        let codes = [0_u32, 1, 0, 2, 1, 3, 3, 0, 4];
        let values = Values::Fixed { ptype: PType::U32, bytes: Buffer::from(codes.as_bytes()) };
        let options = EncodeOptions { forced: Some(EncodingId::FirstSeen), zstd_level: None, ..Default::default() };
        let encoded = encode(&values, None, &options).unwrap();
        let at = 16 + encoded.tree().len().next_multiple_of(8) + EncodingTree::read(encoded.tree()).unwrap().children[0].buffers[0].offset;
        let page = write_page(&encoded, 9, false);
        assert_eq!(page[at], 0b0010_1011);
        let expect = PageExpect { ptype: PType::U32, rows: Some(9), extra: 0, checksum: false, utf8: false };
        let read = |page: Vec<u8>| Page::open(&page.into(), &expect).unwrap().decode(0..1, &mut Output::new(PType::U32, 1));
        read(page.clone()).unwrap();
        for bit in 0..8 {
            let mut damaged = page.clone();
            damaged[at] ^= 1 << bit;
            assert_eq!(read(damaged).unwrap_err().kind(), ErrorKind::InvalidFile, "bit {bit}");
        }
    }

    /// Codes of values of which every other one is seen for the first time.
    fn codes(count: usize, known: u32) -> Vec<u32> {
        let (mut random, mut next) = (StdRng::seed_from_u64(3), known);
        let code = |_| {
            if random.random_bool(0.5) || next == 0 {
                next += 1;
                next - 1
            } else {
                random.random_range(0..next)
            }
        };
        (0..count).map(code).collect()
    }

    #[test]
    fn codes_of_a_dictionary_that_grows_get_it() {
        let tree = |codes: &[u32]| {
            let encoded = encode_codes(codes, PType::Bytes, &EncodeOptions::default()).unwrap();
            (EncodingTree::read(encoded.tree()).unwrap().children[0].encoding, encoded.size())
        };
        for known in [0, 1000, 100_000] {
            let codes = codes(32 << 10, known);
            let (encoding, size) = tree(&codes);
            assert_eq!(encoding, EncodingId::FirstSeen);
            let bits = u32::BITS - (known + (20 << 10)).leading_zeros();
            assert!(size < (16 << 10) * bits as usize / 8 + (4 << 10) + 3000, "{size}");
        }
        let seldom: Vec<u32> = codes(32 << 10, 1000).into_iter().map(|code| if code >= 1000 && code % 8 > 0 { code % 1000 } else { code }).collect();
        assert_eq!(tree(&seldom).0, EncodingId::Frame);
    }
}
