//! ALP_RD: floats with digits to the end, of which only the front bits (sign, exponent, the first of the fraction) have something in common
//! (Afroozeh, Kuffo and Boncz, SIGMOD 2023, section 3.4). The front and the rest are stored apart.

use std::ops::Range;

use arrow::buffer::Buffer;

use super::choose::Context;
use super::node::{EncodedNode, Node, Parts};
use super::sample::{Cost, Sample, real};
use super::words::words_from;
use super::{BLOCK, Decode, Encoding, EncodingId, Output, PType, Values};
use crate::format::Result;

#[derive(Debug)]
pub(super) struct AlpRd;

/// Bits of the longest front.
const FRONT_MAX: u32 = 16;
/// Values by which the front is chosen.
const TRIED: usize = 256;
/// Time to join a value.
const JOIN_NANOS: f64 = 0.5;

impl Encoding for AlpRd {
    fn estimate(&self, sample: &Sample<'_>) -> Option<Cost> {
        let (_, bits) = choose(sample.values())?;
        Some(Cost { bytes: bits / 8.0 * real(sample.count()) + 150.0, nanos: (JOIN_NANOS + 0.3) * real(sample.count()) })
    }

    fn encode(&self, values: &Values, context: &Context<'_>) -> Result<Option<EncodedNode>> {
        let sample = context.sample(values)?;
        let (Some((rest_bits, _)), Values::Fixed { ptype, bytes }) = (choose(sample.values()), values) else { return Ok(None) };
        let numbers = context.child(&[EncodingId::RunLength, EncodingId::Delta]);
        let (front, rest) = match ptype {
            PType::F32 => {
                let words = words_from::<u32>(bytes);
                let rest: Vec<u32> = words.iter().map(|word| word & !(u32::MAX << rest_bits)).collect();
                (words.iter().map(|word| front_of(u64::from(*word), rest_bits)).collect(), (PType::U32, Buffer::from_vec(rest)))
            }
            _ => {
                let words = words_from::<u64>(bytes);
                let rest: Vec<u64> = words.iter().map(|word| word & !(u64::MAX << rest_bits)).collect();
                (words.iter().map(|word| front_of(*word, rest_bits)).collect::<Vec<u16>>(), (PType::U64, Buffer::from_vec(rest)))
            }
        };
        let children = vec![
            numbers.encode(&Values::Fixed { ptype: PType::U16, bytes: Buffer::from_vec(front) })?,
            numbers.child(&[EncodingId::Dictionary]).encode(&Values::Fixed { ptype: rest.0, bytes: rest.1 })?,
        ];
        let params = [u64::from(rest_bits), 0];
        Ok(Some(EncodedNode { encoding: EncodingId::AlpRd, ptype: *ptype, count: values.len(), params, buffers: Vec::new(), children }))
    }

    fn open(&self, mut parts: Parts) -> Result<Box<dyn Decode>> {
        let ([], [front, rest]) = parts.take()?;
        let (width, integer) = match parts.ptype {
            PType::F32 => (u32::BITS, PType::U32),
            _ => (u64::BITS, PType::U64),
        };
        parts.check(matches!(parts.ptype, PType::F32 | PType::F64), "it is for floats of 32 or 64 bits")?;
        let rest_bits = u32::try_from(parts.params[0]).unwrap_or(u32::MAX);
        parts.check((width - FRONT_MAX..width).contains(&rest_bits), "its front has no bits, or more than 16")?;
        parts.check(front.ptype() == PType::U16 && front.count() == parts.count, "its fronts are not one U16 per value")?;
        parts.check(rest.ptype() == integer && rest.count() == parts.count, "its rests are not one number of its width per value")?;
        Ok(Box::new(Joined { front, rest, rest_bits }))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a front has no more than 16 bits")]
fn front_of(word: u64, rest_bits: u32) -> u16 {
    (word >> rest_bits) as u16
}

/// How many bits the rest had best have, and the bits of a value then; `None` where that is no better than all of them.
fn choose(values: &Values) -> Option<(u32, f64)> {
    let Values::Fixed { ptype, bytes } = values else { return None };
    let words: Vec<u64> = match ptype {
        PType::F32 => words_from::<u32>(bytes).iter().map(|word| u64::from(*word)).collect(),
        PType::F64 => words_from::<u64>(bytes).to_vec(),
        _ => return None,
    };
    let width = u32::try_from(8 * ptype.width()?).ok()?;
    let tried: Vec<u64> = words.iter().copied().step_by(words.len().div_ceil(TRIED).max(1)).collect();
    let cost = |rest_bits: u32| {
        let mut fronts: Vec<u64> = tried.iter().map(|word| word >> rest_bits).collect();
        fronts.sort_unstable();
        fronts.dedup();
        // A front for each few of the values that were tried means more fronts among the others.
        let codes = real(fronts.len()).log2().ceil() + real(fronts.len()) / real(tried.len()) * f64::from(FRONT_MAX);
        (rest_bits, codes + f64::from(rest_bits))
    };
    let best = (width - FRONT_MAX..width).map(cost).min_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (best.1 < f64::from(width) && !tried.is_empty()).then_some(best)
}

#[derive(Debug)]
struct Joined {
    front: Node,
    rest: Node,
    rest_bits: u32,
}

impl Decode for Joined {
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        let room = range.len().min(BLOCK);
        let (mut front, mut rest) = (Output::new(PType::U16, room), Output::new(self.rest.ptype(), room));
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / BLOCK + 1) * BLOCK);
            front.clear();
            rest.clear();
            self.front.decode(at..end, &mut front)?;
            self.rest.decode(at..end, &mut rest)?;
            let fronts = front.words::<u16>()?;
            if self.rest.ptype() == PType::U32 {
                for ((value, front), rest) in out.grow::<u32>(end - at)?.iter_mut().zip(fronts).zip(rest.words::<u32>()?) {
                    *value = u32::from(*front) << self.rest_bits | rest;
                }
            } else {
                for ((value, front), rest) in out.grow::<u64>(end - at)?.iter_mut().zip(fronts).zip(rest.words::<u64>()?) {
                    *value = u64::from(*front) << self.rest_bits | rest;
                }
            }
            at = end;
        }
        Ok(())
    }
}
