//! DELTA: the difference of each value to the one before it. Every block restarts, so that a range is decoded from its block on.

use std::ops::Range;

use arrow::buffer::Buffer;
use zerocopy::IntoBytes;

use super::choose::Context;
use super::node::{EncodedNode, Node, Parts};
use super::pack::{Lane, is_lane, with_lane};
use super::planes::{cost_of, piece};
use super::sample::{Cost, Sample, real};
use super::words::words_from;
use super::{BLOCK, Decode, Encoding, EncodingId, Output, PType, Values};
use crate::format::Result;

#[derive(Debug)]
pub(super) struct Delta;

/// Neighbours of a sample that are looked at together ...
const RUN: usize = 64;
/// ... which is done with one of so many runs, before all are.
const LOOKED_AT_PART: usize = 4;
/// No more than one of so many goes the other way by chance, such as that to the next run.
const ODD_PART: usize = 16;
/// The difference in the middle is looked for among so many, and some more, of neighbours: single ones at even distances may be all alike where there is a pattern.
const MIDDLE_OF: usize = 256;
const MIDDLE_RUN: usize = 8;

impl Encoding for Delta {
    fn estimate(&self, sample: &Sample<'_>) -> Option<Cost> {
        let (true, Values::Fixed { ptype, bytes }) = (is_lane(sample.values().ptype()), sample.values()) else { return None };
        if sample.count() < BLOCK / 4 {
            return None;
        }
        if !with_lane!(ptype, T => may_narrow(&words_from::<T>(bytes))) {
            return None;
        }
        let packed = with_lane!(ptype, T => packed::<T>(bytes, *ptype, sample))?;
        let planes = with_lane!(ptype, T => in_planes::<T>(*ptype, sample, packed.total(sample.goal().compression)));
        let cost = planes.unwrap_or(packed);
        let firsts = real(sample.count().div_ceil(BLOCK) * ptype.width()?);
        // A slope that is the same everywhere is a constant and takes no bytes at all: what is left is the time.
        Some(Cost { bytes: cost.bytes + firsts + 100.0, nanos: cost.nanos + 0.25 * real(sample.count()) })
    }

    fn encode(&self, values: &Values, context: &Context<'_>) -> Result<Option<EncodedNode>> {
        let Values::Fixed { ptype, bytes } = values else { return Ok(None) };
        if !is_lane(*ptype) || values.is_empty() {
            return Ok(None);
        }
        let (firsts, differences) = with_lane!(ptype, T => split::<T>(bytes));
        let child = context.child(&[EncodingId::Delta, EncodingId::Dictionary]);
        let children =
            vec![child.encode(&Values::Fixed { ptype: *ptype, bytes: firsts })?, child.encode(&Values::Fixed { ptype: *ptype, bytes: differences })?];
        let (ptype, count) = (*ptype, values.len());
        Ok(Some(EncodedNode { encoding: EncodingId::Delta, ptype, count, params: [0; 2], buffers: Vec::new(), children }))
    }

    fn open(&self, mut parts: Parts) -> Result<Box<dyn Decode>> {
        let ([], [firsts, differences]) = parts.take()?;
        parts.check(is_lane(parts.ptype), "it is for integers of at most 64 bits")?;
        parts.check(firsts.ptype() == parts.ptype && differences.ptype() == parts.ptype, "its children are of another type")?;
        parts.check(firsts.count() == parts.count.div_ceil(BLOCK), "it has not one first value per block")?;
        parts.check(differences.count() == parts.count, "it has not one difference per value")?;
        Ok(Box::new(Differences { firsts, differences }))
    }
}

/// What the differences cost as FRAME.
fn packed<T: Lane>(sampled: &[u8], ptype: PType, sample: &Sample<'_>) -> Option<Cost> {
    let words = words_from::<T>(sampled);
    let behind = (1..words.len()).filter(|&index| !sample.is_seam(index));
    let differences: Vec<T> = behind.map(|index| words[index].minus(words[index - 1])).collect();
    let scale = real(sample.count()) / real(differences.len().max(1));
    let differences = Values::Fixed { ptype, bytes: Buffer::from(differences.as_bytes()) };
    let cost = super::frame::Frame.estimate(&Sample::of(&differences, None, sample.goal().without_zstd()).ok()?)?;
    Some(Cost { bytes: cost.bytes * scale, nanos: cost.nanos * scale })
}

/// The same as PLANES, if they cost no more than `most`.
fn in_planes<T: Lane>(ptype: PType, sample: &Sample<'_>, most: f64) -> Option<Cost> {
    sample.goal().zstd_level?;
    let Values::Fixed { bytes, .. } = sample.all() else { return None };
    let words = words_from::<T>(bytes);
    let words = piece(&words);
    let differences: Vec<T> = words.windows(2).map(|pair| pair[1].minus(pair[0])).collect();
    cost_of(&differences, ptype, sample, most)
}

/// Whether it is worth a closer look: most values have nothing to do with their neighbours, and some of the sample show it.
fn may_narrow<T: Lane>(sampled: &[T]) -> bool {
    let looked_at: Vec<T> = sampled.chunks(RUN).step_by(LOOKED_AT_PART).flatten().copied().collect();
    are_narrower(&looked_at)
}

/// Whether differences of neighbours have fewer bits in all than the values. Those are counted from their least, and differences from the one in the middle of all,
/// of which an even step, however long, leaves none. Where they go both ways from there, each takes a bit to say which.
fn are_narrower<T: Lane>(words: &[T]) -> bool {
    let least = words.iter().copied().min().unwrap_or_default();
    let of_values: usize = words.iter().map(|word| usize::from(word.minus(least).bits())).sum();
    // Small ones of both directions are neighbours once their top bit is flipped.
    let differences: Vec<T> = words.windows(2).map(|pair| pair[1].minus(pair[0]).xor(T::top_bit())).collect();
    let step = (differences.len() / MIDDLE_OF).max(1);
    let mut some: Vec<T> = differences.chunks(MIDDLE_RUN).step_by(step).flatten().copied().collect();
    let Some(last) = some.len().checked_sub(1) else { return false };
    let middle = *some.select_nth_unstable(last / 2).1;
    let (mut of_differences, mut upwards, mut downwards) = (0, 0, 0);
    for difference in differences {
        let (up, down) = (difference.minus(middle).bits(), middle.minus(difference).bits());
        of_differences += usize::from(up.min(down));
        upwards += usize::from(up < down);
        downwards += usize::from(down < up);
    }
    if upwards.min(downwards) > words.len() / ODD_PART {
        of_differences += words.len();
    }
    of_values > of_differences
}

/// The first value of each block, and all differences. That of a first value means nothing and repeats the next one, so that an even slope is a
/// constant.
fn split<T: Lane>(bytes: &[u8]) -> (Buffer, Buffer) {
    let words = words_from::<T>(bytes);
    let mut firsts = Vec::with_capacity(words.len().div_ceil(BLOCK));
    let mut differences = Vec::with_capacity(words.len());
    for block in words.chunks(BLOCK) {
        firsts.push(block[0]);
        differences.push(block.get(1).map_or(differences.last().copied().unwrap_or_default(), |second| second.minus(block[0])));
        differences.extend(block.windows(2).map(|pair| pair[1].minus(pair[0])));
    }
    (Buffer::from(firsts.as_bytes()), Buffer::from(differences.as_bytes()))
}

#[derive(Debug)]
struct Differences {
    firsts: Node,
    differences: Node,
}

impl Decode for Differences {
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        with_lane!(out.ptype(), T => self.decode_words::<T>(range, out))
    }
}

impl Differences {
    fn decode_words<T: Lane>(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        let firsts = self.firsts.all()?.words::<T>()?;
        let mut at = range.start;
        while at < range.end {
            let (block, skip) = (at / BLOCK, at % BLOCK);
            let end = range.end.min((block + 1) * BLOCK);
            let first = firsts.get(block).copied().unwrap_or_default();
            if skip == 0 {
                self.differences.decode(at..end, out)?;
                sum(first, out.last::<T>(end - at)?);
            } else {
                let mut whole = Output::new(out.ptype(), skip + end - at);
                self.differences.decode(block * BLOCK..end, &mut whole)?;
                sum(first, whole.last::<T>(skip + end - at)?);
                out.grow::<T>(end - at)?.copy_from_slice(&whole.words::<T>()?[skip..]);
            }
            at = end;
        }
        Ok(())
    }
}

/// Turns the differences of a block, or its beginning, into its values.
fn sum<T: Lane>(first: T, block: &mut [T]) {
    let mut value = first;
    if let Some((head, rest)) = block.split_first_mut() {
        *head = value;
        for slot in rest {
            value = value.plus(*slot);
            *slot = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::super::EncodeOptions;
    use super::super::frame::Frame;
    use super::*;

    const COUNT: i64 = 20_000;

    /// What the values cost as FRAME and what their differences do, and whether the look at a few of them finds the latter worth a closer look.
    fn costs<W: IntoBytes + zerocopy::Immutable>(numbers: &[W], ptype: PType) -> (f64, f64, bool) {
        let values = Values::Fixed { ptype, bytes: Buffer::from(numbers.as_bytes()) };
        let options = EncodeOptions::default();
        let sample = Context::root(&options, None).sample(&values).unwrap();
        let Values::Fixed { bytes, ptype } = sample.values() else { panic!("numbers") };
        let differences = with_lane!(ptype, T => packed::<T>(bytes, *ptype, &sample)).unwrap();
        (Frame.estimate(&sample).unwrap().bytes, differences.bytes, with_lane!(ptype, T => may_narrow(&words_from::<T>(bytes))))
    }

    fn low_half(number: i64) -> i32 {
        let [a, b, c, d, ..] = number.to_le_bytes();
        i32::from_le_bytes([a, b, c, d])
    }

    #[test]
    fn a_look_at_some_values_passes_by_no_differences_that_are_smaller() {
        let mut random = StdRng::seed_from_u64(11);
        let mut found = [0; 2];
        for bits in [3, 10, 20, 40] {
            let mut noise = |bits: u32| random.random_range(0..1_i64 << bits);
            let mut last = 0;
            let walk = (0..COUNT).map(|_| {
                last += noise(bits) - (1 << bits >> 1);
                last
            });
            let walk: Vec<i64> = walk.collect();
            let slope: Vec<i64> = (0..COUNT).map(|row| (row << bits) + noise(bits)).collect();
            let falling: Vec<i64> = (0..COUNT).map(|row| -(row << bits)).collect();
            let saw: Vec<i64> = (0..COUNT).map(|row| (row % 1000) << bits).collect();
            let by_chance: Vec<i64> = (0..COUNT).map(|_| noise(bits)).collect();
            let outliers: Vec<i64> = (0..COUNT).map(|row| if row % 100 == 3 { i64::MIN } else { noise(bits) }).collect();
            // However long the steps are, if they are even.
            let long: Vec<i64> = (0..COUNT).map(|row| row.wrapping_mul(5_000_000_000_000_000_003) >> (40 - bits)).collect();
            let wrapped: Vec<i64> = (0..COUNT).map(|row| row * ((1 << bits) - 1) % ((1 << (bits + 3)) + 3)).collect();
            let mut base = 0;
            let teeth = (0..COUNT).map(|row| {
                base = if row % 8 == 0 { noise(bits) } else { base };
                base + ((row % 8) << bits)
            });
            let teeth: Vec<i64> = teeth.collect();
            for numbers in [walk, slope, falling, saw, by_chance, outliers, long, wrapped, teeth] {
                let narrow: Vec<i32> = numbers.iter().map(|number| low_half(*number)).collect();
                for (values, differences, is_looked_at) in [costs(numbers.as_slice(), PType::I64), costs(narrow.as_slice(), PType::I32)] {
                    // A gain of less than two percent is not worth a look.
                    assert!(is_looked_at || differences >= 0.98 * values, "{bits} bits: {differences} beside {values}: {:?}", &numbers[..10]);
                    found[usize::from(is_looked_at)] += 1;
                }
            }
        }
        // Neither always nor never.
        assert!(found[0] >= 8 && found[1] >= 24, "{found:?}");
    }

    #[test]
    fn some_differences_show_a_pattern_wherever_it_begins() {
        let mut random = StdRng::seed_from_u64(12);
        for phase in 0..8_u64 {
            // Seven even steps and one that is not. Of so many rows single differences would be looked at 16 apart, all at the same place of the pattern.
            let mut base = 0;
            let words = (phase..phase + 4100).map(|row| {
                base = if row % 8 == 0 { random.random_range(0..1 << 20) } else { base };
                base + ((row % 8) << 20)
            });
            assert!(are_narrower(&words.collect::<Vec<u64>>()), "{phase}");
        }
    }
}
