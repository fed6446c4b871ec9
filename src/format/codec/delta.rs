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

impl Encoding for Delta {
    fn estimate(&self, sample: &Sample<'_>) -> Option<Cost> {
        let (true, Values::Fixed { ptype, bytes }) = (is_lane(sample.values().ptype()), sample.values()) else { return None };
        if sample.count() < BLOCK / 4 {
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

/// The same as PLANES, if they have fewer bits than the values and cost no more than `most`.
fn in_planes<T: Lane>(ptype: PType, sample: &Sample<'_>, most: f64) -> Option<Cost> {
    let Values::Fixed { bytes, .. } = sample.all() else { return None };
    let words = words_from::<T>(bytes);
    let words = piece(&words);
    let differences: Vec<T> = words.windows(2).map(|pair| pair[1].minus(pair[0])).collect();
    let least = words.iter().min()?;
    let bits = |words: &mut dyn Iterator<Item = u8>| words.map(usize::from).sum::<usize>();
    let of_values = bits(&mut words.iter().map(|word| word.minus(*least).bits()));
    let of_differences = bits(&mut differences.iter().map(|word| word.bits().min(T::default().minus(*word).bits())));
    if sample.goal().zstd_level.is_none() || of_differences >= of_values {
        return None;
    }
    cost_of(&differences, ptype, sample, most)
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
