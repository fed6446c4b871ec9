//! FRAME: differences from one reference, packed into as few bits as most of them need; the others are patched in.

use std::ops::Range;

use arrow::buffer::Buffer;
use zerocopy::IntoBytes;

use super::buffer::{Kind, StoredBuffer};
use super::choose::Context;
use super::node::{EncodedNode, Node, Parts};
use super::pack::{Lane, is_lane, packed_length, with_lane};
use super::places::each_place;
use super::sample::{Cost, Sample, real};
use super::words::words_from;
use super::{BLOCK, Decode, Encoding, EncodingId, Output, PType, Values};
use crate::format::{Error, Result};

#[derive(Debug)]
pub(super) struct Frame;

/// What the nodes of patches take, however few there are.
const PATCHES_BYTES: f64 = 100.0;
/// What the position of a patch takes, and the time to decode it, in bytes.
const PATCH_BYTES: f64 = 1.75;
/// No more than one value in so many is patched.
const PATCHED_PART: usize = 4;
/// One in so many of a sample says about which values are the lowest.
const QUANTILE_PART: usize = 4;
/// Fewer values of a block than this are unpacked one by one.
const SINGLES_MAX: usize = 16;

impl Encoding for Frame {
    fn estimate(&self, sample: &Sample<'_>) -> Option<Cost> {
        sample.packed_cost(|| {
            let (true, Values::Fixed { ptype, bytes }) = (is_lane(sample.values().ptype()), sample.values()) else { return None };
            with_lane!(ptype, T => {
                let (bytes, width) = Plan::of(&ordered::<T>(bytes, *ptype), None, sample.count()).map(|plan| (plan.bytes, T::BITS / 8))?;
                Some(Cost { bytes, nanos: real(sample.count()) * (0.02 + 0.035 * f64::from(width)) })
            })
        })
    }

    fn encode(&self, values: &Values, context: &Context<'_>) -> Result<Option<EncodedNode>> {
        match values {
            Values::Fixed { ptype, bytes } if is_lane(*ptype) && !values.is_empty() => with_lane!(ptype, T => {
                let sample = context.sample(values)?;
                let Values::Fixed { bytes: sampled, .. } = sample.values() else { return Ok(None) };
                let flip = flip::<T>(*ptype);
                let words = words_from::<T>(bytes);
                let (least, greatest) = words.iter().fold((words[0].xor(flip), words[0].xor(flip)), |(least, greatest), word| {
                    (least.min(word.xor(flip)), greatest.max(word.xor(flip)))
                });
                let bounds = (least, greatest);
                let plan = if context.may_patch() { Plan::of(&ordered::<T>(sampled, *ptype), Some(bounds), words.len()) } else { None };
                let (reference, width) = plan.map_or(whole(bounds), |plan| (plan.reference, plan.width));
                let unpatched = (bounds.0.xor(flip), whole(bounds).1);
                encode_words(&words, *ptype, (reference.xor(flip), width), unpatched, context).map(Some)
            }),
            _ => Ok(None),
        }
    }

    fn open(&self, mut parts: Parts) -> Result<Box<dyn Decode>> {
        parts.check(is_lane(parts.ptype), "it is for integers of at most 64 bits")?;
        let [reference, param] = parts.params;
        let bits = parts.ptype.width().unwrap_or(0) * 8;
        let (width, patch_count) = ((param & 0xFF) as u8, (param >> 32) as usize);
        parts.check(usize::from(width) <= bits, "it is packed into more bits than its type has")?;
        parts.check(bits == 64 || reference >> bits == 0, "its reference is wider than its type")?;
        let (buffer, patches) = if patch_count == 0 {
            let ([buffer], []) = parts.take()?;
            (buffer, None)
        } else {
            let ([buffer], [positions, values]) = parts.take()?;
            (buffer, Some(Patches::new(&parts, patch_count, positions, values)?))
        };
        parts.check(buffer.len() == parts.count.div_ceil(BLOCK) * packed_length(width), "its buffer is not of its blocks' size")?;
        Ok(Box::new(Packed { buffer, reference, width, patches }))
    }
}

/// What makes a type's words compare as its numbers do.
fn flip<T: Lane>(ptype: PType) -> T {
    if ptype.is_signed() { T::top_bit() } else { T::default() }
}

/// Words that compare as their numbers do.
fn ordered<T: Lane>(bytes: &[u8], ptype: PType) -> Vec<T> {
    words_from::<T>(bytes).iter().map(|word| word.xor(flip(ptype))).collect()
}

/// The reference and width that need no patches.
fn whole<T: Lane>((least, greatest): (T, T)) -> (T, u8) {
    (least, greatest.minus(least).bits())
}

/// A reference and a width, and what they cost.
struct Plan<T> {
    reference: T,
    width: u8,
    bytes: f64,
}

impl<T: Lane> Plan<T> {
    /// The cheapest plan for `count` values, of which some are sampled and, if known, the bounds are given. Numbers are ordered ones.
    fn of(sample: &[T], bounds: Option<(T, T)>, count: usize) -> Option<Self> {
        let least = sample.iter().copied().min()?;
        let bounds = bounds.unwrap_or((least, sample.iter().copied().max()?));
        let (reference, width) = whole(bounds);
        let mut best = Self { reference, width, bytes: Self::packed(width, count) };
        // Nothing takes less than the nodes of patches.
        if best.bytes <= PATCHES_BYTES {
            return Some(best);
        }
        // Values far below the others are better patched than looked up to: a few, or as many as differences may have that jump back.
        let mut sorted: Vec<T> = sample.iter().copied().step_by(QUANTILE_PART).collect();
        let length = sorted.len();
        let mut quantile = |part: usize| *sorted.select_nth_unstable(length / part).1;
        let mut references = vec![bounds.0, least, quantile(50), quantile(2 * PATCHED_PART)];
        references.dedup();
        for reference in references {
            best.improve(reference, width, sample, count);
        }
        Some(best)
    }

    fn packed(width: u8, count: usize) -> f64 {
        real(packed_length(width) * count.div_ceil(BLOCK))
    }

    /// Tries every width with this reference; what does not fit is patched, and so is what lies below the reference, because it wraps. A patch has `widest` bits.
    fn improve(&mut self, reference: T, widest: u8, sample: &[T], count: usize) {
        let mut histogram = [0usize; 65];
        for &value in sample {
            histogram[usize::from(value.minus(reference).bits())] += 1;
        }
        let mut outliers = 0;
        let patch = PATCH_BYTES + f64::from(widest) / 8.0;
        for width in (0..T::BITS).rev() {
            outliers += histogram[usize::from(width) + 1];
            if outliers > sample.len() / PATCHED_PART {
                break;
            }
            let patched = real(outliers) * real(count) / real(sample.len());
            let bytes = Self::packed(width, count) + PATCHES_BYTES + patched * patch;
            if bytes < self.bytes {
                *self = Self { reference, width, bytes };
            }
        }
    }
}

fn encode_words<T: Lane>(words: &[T], ptype: PType, plan: (T, u8), whole: (T, u8), context: &Context<'_>) -> Result<EncodedNode> {
    let (mut reference, mut width) = plan;
    let (mut positions, mut values) = outliers(words, reference, width);
    // The sample may have missed where they stand.
    if positions.len() > words.len() / PATCHED_PART {
        (reference, width) = if context.may_patch() { cheapest(words, reference, whole) } else { whole };
        (positions, values) = outliers(words, reference, width);
    }
    let mut packed = Vec::with_capacity(packed_length(width) * words.len().div_ceil(BLOCK));
    let (blocks, rest) = words.as_chunks::<BLOCK>();
    for block in blocks {
        T::pack(block, reference, width, &mut packed)?;
    }
    if !rest.is_empty() {
        // Packed as zeros, not as values that happen to be zero.
        let mut block = [reference; BLOCK];
        block[..rest.len()].copy_from_slice(rest);
        T::pack(&block, reference, width, &mut packed)?;
    }
    let mut children = Vec::new();
    if !positions.is_empty() {
        let numbers = context.child_of_values(&[EncodingId::Dictionary, EncodingId::RunLength, EncodingId::Delta, EncodingId::Planes]).unpatched();
        let patched = Values::Fixed { ptype, bytes: Buffer::from(values.as_bytes()) };
        let positions = Values::Fixed { ptype: PType::U32, bytes: Buffer::from(positions.as_bytes()) };
        children.push(context.of_positions().encode(&positions)?);
        children.push(numbers.encode(&patched)?);
    }
    let params = [reference.to_u64(), u64::from(width) | (positions.len() as u64) << 32];
    let buffers = vec![context.buffer(packed, Kind::Numbers)];
    Ok(EncodedNode { encoding: EncodingId::Frame, ptype, count: words.len(), params, buffers, children })
}

/// The reference and width that all values together are cheapest with: these, with another width, or those that need no patches.
fn cheapest<T: Lane>(words: &[T], reference: T, whole: (T, u8)) -> (T, u8) {
    let mut best = Plan { reference: whole.0, width: whole.1, bytes: Plan::<T>::packed(whole.1, words.len()) };
    best.improve(reference, whole.1, words, words.len());
    (best.reference, best.width)
}

/// Where the values that do not fit stand, and what they are.
fn outliers<T: Lane>(words: &[T], reference: T, width: u8) -> (Vec<u32>, Vec<T>) {
    let greatest = T::from_param(1_u64.checked_shl(width.into()).unwrap_or(0).wrapping_sub(1));
    let (mut positions, mut values) = (Vec::new(), Vec::new());
    for (block, start) in words.chunks(BLOCK).zip((0..).step_by(BLOCK)) {
        // Most blocks have none, and one number says so.
        let all = block.iter().fold(T::default(), |all, word| all.or(word.minus(reference)));
        if all > greatest {
            each_place(
                0..block.len(),
                |place| block[place].minus(reference) > greatest,
                |places| {
                    positions.extend(places.iter().map(|&place| u32::try_from(start + place).unwrap_or(u32::MAX)));
                    values.extend(places.iter().map(|&place| block[place]));
                },
            );
        }
    }
    (positions, values)
}

#[derive(Debug)]
struct Packed {
    buffer: StoredBuffer,
    reference: u64,
    width: u8,
    patches: Option<Patches>,
}

impl Decode for Packed {
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        with_lane!(out.ptype(), T => self.decode_words::<T>(range, out))
    }
}

impl Packed {
    fn decode_words<T: Lane>(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        let packed = self.buffer.bytes()?;
        let reference = T::from_param(self.reference);
        let length = packed_length(self.width);
        let mut at = range.start;
        while at < range.end {
            let (block, skip) = (at / BLOCK, at % BLOCK);
            let take = (range.end - at).min(BLOCK - skip);
            let packed = packed.get(block * length..(block + 1) * length).unwrap_or_default();
            let values = out.grow::<T>(take)?;
            match <&mut [T; BLOCK]>::try_from(&mut *values) {
                Ok(values) => T::unpack(packed, reference, self.width, values)?,
                Err(_) if take <= SINGLES_MAX => {
                    for (value, index) in values.iter_mut().zip(skip..) {
                        *value = T::unpack_one(packed, reference, self.width, index)?;
                    }
                }
                Err(_) => {
                    let mut whole = [T::default(); BLOCK];
                    T::unpack(packed, reference, self.width, &mut whole)?;
                    values.copy_from_slice(&whole[skip..skip + take]);
                }
            }
            at += take;
        }
        match &self.patches {
            Some(patches) => patches.apply(range.clone(), out.last::<T>(range.len())?),
            None => Ok(()),
        }
    }
}

/// Values that are not what their encoding makes of them.
#[derive(Debug)]
pub(super) struct Patches {
    positions: Node,
    values: Node,
}

impl Patches {
    /// So many, of the values of a node.
    pub(super) fn new(parts: &Parts, count: usize, positions: Node, values: Node) -> Result<Self> {
        parts.check(positions.ptype() == PType::U32 && values.ptype() == parts.ptype, "its patches are of another type")?;
        parts.check(positions.count() == count && values.count() == count, "its patches are not as many as it says")?;
        parts.check(count <= parts.count, "it has more patches than values")?;
        Ok(Self { positions, values })
    }

    /// Puts the patches of a range over its values.
    pub(super) fn apply<T: Lane>(&self, range: Range<usize>, out: &mut [T]) -> Result<()> {
        let positions = self.positions.all()?.words::<u32>()?;
        let values = self.values.all()?.words::<T>()?;
        let first = positions.partition_point(|&position| (position as usize) < range.start);
        let mut next = range.start;
        for (&position, &value) in positions.iter().zip(values).skip(first) {
            let position = position as usize;
            if position >= range.end {
                break;
            }
            if position < next {
                return Err(Error::invalid_file("the positions of patches do not ascend"));
            }
            out[position - range.start] = value;
            next = position + 1;
        }
        Ok(())
    }
}
