//! How many different values there are, about: HyperLogLog (Flajolet, Fusy, Gandouet and Meunier, 2007) with the estimator of Ertl (arXiv:1702.01284), which needs no
//! correction for few or many values.

use std::f64::consts::LN_2;
use std::ops::Range;

use arrow::buffer::NullBuffer;

use super::Values;
use super::distinct::{hash_of, is_inlined};
use super::words::{Word, with_word, words_from};

/// Bits of a hash that choose a register. With 1,024 registers the standard error is 1.04 / 32 = 3.25 %.
const INDEX_BITS: u32 = 10;
/// Bits of a hash that are left; a register counts the zeros in front of the first one among them, and one more.
const REST_BITS: u32 = 64 - INDEX_BITS;

/// Neighbours that are looked at together.
const NEAR: usize = 256;
/// Where no more than one in so many differs from its neighbour, those that do not are passed by.
const CHANGES_PART: usize = 8;

/// How many of them show whether it is so.
const LOOKED_AT: usize = 32;

/// Numbers that are so near each other are marked, which takes less time than a hash of each ...
const SPAN: usize = 1 << 16;
/// ... where there are enough of them for a look at all marks to be worth it, and most of some of them are near.
const SPAN_PART: usize = 4;
const TRIED: usize = 64;
/// As far as this from those that are looked at, no number is counted by itself.
const SPAN_MARGIN: u64 = 256;
const NEAR_MIN: usize = TRIED / 4 * 3;
/// Marks that are looked at together.
const MARKS: usize = 32;

/// Counts different values in 1 KiB.
#[derive(Debug, Default)]
pub(crate) struct Cardinality {
    /// None before the first value: most columns of a very wide table may never have one.
    registers: Vec<u8>,
}

impl Cardinality {
    /// Adds the valid ones of these values.
    pub(crate) fn push(&mut self, values: &Values, nulls: Option<&NullBuffer>) {
        let valid = nulls.map_or(values.len(), |nulls| nulls.len() - nulls.null_count());
        if valid == 0 {
            return;
        }
        self.registers.resize(1 << INDEX_BITS, 0);
        match values {
            Values::Bool(bits) => {
                let set = nulls.map_or_else(|| bits.count_set_bits(), |nulls| (bits & nulls.inner()).count_set_bits());
                let seen = [(0, set < valid), (1, set > 0)];
                seen.iter().filter(|(_, is_seen)| *is_seen).for_each(|(value, _)| self.add(spread((*value, 0))));
            }
            Values::Fixed { ptype, bytes } => with_word!(ptype.width().unwrap_or(1), T => {
                let words = words_from::<T>(bytes);
                match near(&words, nulls) {
                    Some(span) if valid >= span.length / SPAN_PART => self.add_near(&words, nulls, span),
                    _ => for_each_valid(&words, nulls, |index| self.add(spread(words[index].halves()))),
                }
            }),
            Values::Bytes(array) => for_each_valid(array.views(), nulls, |index| match array.views()[index] {
                view if is_inlined(view) => self.add(spread(view.halves())),
                _ => self.add(spread((hash_of(array, index), 0))),
            }),
        }
    }

    /// Marks which numbers of a span there are; those that are not in it are counted one by one.
    fn add_near<T: Word>(&mut self, words: &[T], nulls: Option<&NullBuffer>, Span { least, length }: Span) {
        let mut marks = vec![false; length];
        for_each_valid(words, nulls, |index| {
            let (number, rest) = words[index].halves();
            match usize::try_from(number.wrapping_sub(least)).ok().and_then(|place| marks.get_mut(place)) {
                Some(mark) if rest == 0 => *mark = true,
                _ => self.add(spread((number, rest))),
            }
        });
        for (number, marks) in (least..).step_by(MARKS).zip(marks.chunks(MARKS)) {
            if marks.iter().fold(false, |any, mark| any | mark) {
                (number..).zip(marks).filter(|(_, mark)| **mark).for_each(|(number, _)| self.add(spread((number, 0))));
            }
        }
    }

    fn add(&mut self, hash: u64) {
        let rest = hash << INDEX_BITS | 1 << (INDEX_BITS - 1);
        let index = usize::try_from(hash >> REST_BITS).unwrap_or(0);
        if let Some(register) = self.registers.get_mut(index) {
            *register = (*register).max(u8::try_from(rest.leading_zeros() + 1).unwrap_or(u8::MAX));
        }
    }

    /// Bytes in memory.
    pub(crate) fn memory_size(&self) -> usize {
        self.registers.len()
    }

    /// How many there are, about.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate is a number above zero, and saturates")]
    pub(crate) fn estimate(&self) -> u64 {
        if self.registers.is_empty() {
            return 0;
        }
        let mut counts = [0.0; REST_BITS as usize + 2];
        for register in &self.registers {
            if let Some(count) = counts.get_mut(usize::from(*register)) {
                *count += 1.0;
            }
        }
        let [none, partly @ .., full] = counts;
        let registers = self.registers.len() as f64;
        let sum =
            partly.iter().rev().fold(registers * tau(1.0 - full / registers), |sum, count| 0.5 * (sum + count)) + registers * sigma(none / registers);
        (registers * registers / (2.0 * LN_2 * sum)).round() as u64
    }
}

/// So many numbers from one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    least: u64,
    length: usize,
}

/// The numbers that most values are among, as far as some of them say.
fn near<T: Word>(words: &[T], nulls: Option<&NullBuffer>) -> Option<Span> {
    let is_valid = |index: &usize| nulls.is_none_or(|nulls| nulls.is_valid(*index));
    let tried = (0..words.len()).step_by((words.len() / TRIED).max(1)).filter(is_valid).take(TRIED);
    let mut numbers: Vec<u64> = tried.map(|index| words[index].halves()).filter(|(_, rest)| *rest == 0).map(|(number, _)| number).collect();
    numbers.sort_unstable();
    let (least, greatest) = (*numbers.first()?, *numbers.last()?);
    if numbers.len() >= NEAR_MIN && greatest - least < SPAN as u64 / 2 && greatest < u64::MAX - SPAN as u64 {
        // Half as many again on either side.
        let margin = SPAN_MARGIN.max((greatest - least) / 2);
        let least = least.saturating_sub(margin);
        let length = usize::try_from(greatest - least + margin).ok()?;
        return Some(Span { least, length: length.next_multiple_of(MARKS) });
    }
    // As many to the left of the median as to its right, but no less than 0.
    let least = numbers.get(numbers.len() / 2)?.saturating_sub(SPAN as u64 / 2).min(u64::MAX - 2 * SPAN as u64);
    let near = numbers.iter().filter(|number| (least..least + SPAN as u64).contains(number)).count();
    (near >= NEAR_MIN).then_some(Span { least, length: SPAN })
}

/// Visits the valid ones of some values, of which those are the same whose words are; but not all of them that are the same as their neighbours.
fn for_each_valid<T: Copy + PartialEq>(words: &[T], nulls: Option<&NullBuffer>, mut visit: impl FnMut(usize)) {
    match nulls {
        Some(nulls) if nulls.null_count() > 0 => nulls.valid_slices().for_each(|(start, end)| for_each(words, start..end, &mut visit)),
        _ => for_each(words, 0..words.len(), &mut visit),
    }
}

/// To see that a value is its neighbour's takes less time than to visit it, but not where that is hard to foresee.
fn for_each<T: Copy + PartialEq>(words: &[T], run: Range<usize>, visit: &mut impl FnMut(usize)) {
    let mut start = run.start;
    for words in words.get(run).unwrap_or_default().chunks(NEAR) {
        // Some show whether it is, and none that is not there is missed.
        let first = &words[..words.len().min(LOOKED_AT)];
        let changes = first.windows(2).filter(|pair| pair[0] != pair[1]).count();
        if changes * CHANGES_PART > first.len() {
            (start..start + words.len()).for_each(&mut *visit);
        } else {
            visit(start);
            words.windows(2).zip(start + 1..).filter(|(pair, _)| pair[0] != pair[1]).for_each(|(_, index)| visit(index));
        }
        start += words.len();
    }
}

/// 64 bits as if by chance. Products by a constant would spread numbers that follow each other more evenly than that, and seem to be more of them: both factors
/// depend on the number.
fn spread((low, high): (u64, u64)) -> u64 {
    let other = low.wrapping_mul(0xA076_1D64_78BD_642F).wrapping_add(high.wrapping_mul(0xE703_7ED1_A0B4_28DB));
    let product = u128::from(low ^ 0x9E37_79B9_7F4A_7C15) * u128::from(other ^ 0x8EBC_6AF0_9C88_C6E3);
    #[expect(clippy::cast_possible_truncation, reason = "folds both halves")]
    {
        (product >> 64) as u64 ^ product as u64
    }
}

/// x + Σ x^(2^k) 2^(k-1), the part of registers without a value.
#[expect(clippy::float_cmp, reason = "until it changes no more")]
fn sigma(mut x: f64) -> f64 {
    let (mut sum, mut before, mut factor) = (x, f64::NAN, 1.0);
    while sum != before && sum.is_finite() {
        before = sum;
        x *= x;
        sum += x * factor;
        factor += factor;
    }
    sum
}

/// (1 - x - Σ (1 - x^(2^-k))² 2^-k) / 3, the part of registers that can count no further.
#[expect(clippy::float_cmp, reason = "until it changes no more")]
fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut sum, mut before, mut factor) = (1.0 - x, f64::NAN, 1.0);
    while sum != before {
        before = sum;
        x = x.sqrt();
        factor *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * factor;
    }
    sum / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::codec::PType;

    use arrow::array::BinaryViewArray;
    use arrow::buffer::{BooleanBuffer, Buffer};

    fn estimate(values: &Values, nulls: Option<&NullBuffer>) -> f64 {
        let mut cardinality = Cardinality::default();
        // What comes again counts once.
        (0..3).for_each(|_| cardinality.push(values, nulls));
        cardinality.estimate() as f64
    }

    fn numbers(count: u64, step: u64) -> Values {
        Values::Fixed { ptype: PType::U64, bytes: Buffer::from_vec((0..count).map(|i| i.wrapping_mul(step)).collect()) }
    }

    #[test]
    fn estimates_are_near_for_few_and_many_values_of_any_pattern() {
        for count in [1_u64, 2, 5, 25, 100, 500, 1000, 2500, 5000, 20_000, 200_000, 1_000_000] {
            for step in [1, 8, 1 << 20, 0x9E37_79B9_7F4A_7C15, 3_600_000_000] {
                let found = estimate(&numbers(count, step), None);
                // Five standard errors, and of few values two.
                let near = (count as f64 * 0.16).max(if count > 10 { 2.0 } else { 0.0 });
                assert!((found - count as f64).abs() <= near, "{count} values, {step} apart: {found}");
            }
            let strings: Vec<String> = (0..count.min(20_000)).map(|i| format!("{i:>width$}", width = usize::try_from(i % 30).unwrap())).collect();
            let found = estimate(&Values::Bytes(BinaryViewArray::from_iter_values(&strings)), None);
            let count = strings.len() as f64;
            assert!((found - count).abs() <= (count * 0.16).max(if count > 10.0 { 2.0 } else { 0.0 }), "{count} strings: {found}");
        }
    }

    #[test]
    fn wide_values_differ_in_either_half_and_from_their_opposites() {
        for shift in [0, 30, 64, 90] {
            let values: Vec<i128> = (1..=5000_i128).flat_map(|i| [i << shift, -(i << shift), !(i << shift)]).collect();
            let distinct = values.iter().collect::<std::collections::HashSet<_>>().len() as f64;
            let found = estimate(&Values::Fixed { ptype: PType::I128, bytes: Buffer::from_vec(values) }, None);
            assert!((found - distinct).abs() <= distinct * 0.16, "{shift}: {found} instead of {distinct}");
        }
    }

    #[test]
    fn nulls_are_no_values() {
        let nulls = NullBuffer::from((0..1000).map(|i| i % 4 == 0).collect::<Vec<_>>());
        let found = estimate(&numbers(1000, 1), Some(&nulls));
        assert!((found - 250.0).abs() <= 20.0, "{found}");
        let none = NullBuffer::new_null(1000);
        assert!(estimate(&numbers(1000, 1), Some(&none)).abs() < 0.5);
        for (bits, nulls, count) in [
            ([true, false, true], [true, true, true], 2.0),
            ([true, false, true], [true, false, true], 1.0),
            ([true, false, true], [false, true, false], 1.0),
        ] {
            let found = estimate(&Values::Bool(BooleanBuffer::from(bits.to_vec())), Some(&NullBuffer::from(nulls.to_vec())));
            assert!((found - count).abs() < 0.5, "{bits:?} {nulls:?}: {found}");
        }
    }

    #[test]
    fn numbers_near_each_other_are_counted_as_others_are() {
        let count = |values: &Values, nulls: Option<&NullBuffer>, at_once: usize| {
            let mut cardinality = Cardinality::default();
            for start in (0..values.len()).step_by(at_once) {
                let count = at_once.min(values.len() - start);
                cardinality.push(&values.slice(start, count), nulls.map(|nulls| nulls.slice(start, count)).as_ref());
            }
            cardinality.registers
        };
        let nulls = NullBuffer::from((0..40_000).map(|i| i % 3 > 0).collect::<Vec<_>>());
        for least in [0, 5, u64::from(u32::MAX) - 70_000, u64::from(u32::MAX) - 9_000, u64::MAX - 200_000, u64::MAX - 9_000] {
            // One in seven is far from the others, or from the half of them; the greatest numbers are among them.
            for far in [0, 1_000_000, 70_000] {
                let number = |i: u64| least.saturating_add(i * i % 30_011 / 3 + if i.is_multiple_of(7) { far } else { 0 });
                let wide = Buffer::from_vec((0..40_000).map(number).collect::<Vec<_>>());
                let narrow = Buffer::from_vec((0..40_000).map(|i| u32::try_from(number(i) & 0xFFFF_FFFF).unwrap()).collect::<Vec<_>>());
                let short = Buffer::from_vec((0..40_000).map(|i| u16::try_from(number(i) & 0xFFFF).unwrap()).collect::<Vec<_>>());
                let very_wide = Buffer::from_vec((0..40_000).map(|i| u128::from(number(i)) << (i % 2 * 64)).collect::<Vec<_>>());
                for (ptype, bytes) in [(PType::U64, wide), (PType::I32, narrow), (PType::U16, short), (PType::I128, very_wide)] {
                    let values = Values::Fixed { ptype, bytes };
                    for nulls in [None, Some(&nulls)] {
                        assert!(count(&values, nulls, 40_000) == count(&values, nulls, NEAR_MIN - 1), "{ptype:?} from {least} on");
                    }
                }
            }
        }
    }

    #[test]
    fn full_registers_give_a_number() {
        assert_eq!(Cardinality { registers: vec![u8::try_from(REST_BITS + 1).unwrap(); 1024] }.estimate(), u64::MAX);
        assert_eq!(Cardinality { registers: vec![0; 1024] }.estimate(), 0);
        assert_eq!(Cardinality::default().estimate(), 0);
    }
}
