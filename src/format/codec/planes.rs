//! PLANES: the bytes of differences from one reference, those of the same place of all values together: ZSTD finds in them what packed bits hide, such as
//! front bytes that come again, or codes that follow each other.

use std::ops::Range;
use std::sync::LazyLock;

use super::buffer::{Kind, StoredBuffer};
use super::choose::Context;
use super::node::{EncodedNode, Parts};
use super::pack::{Lane, is_lane, with_lane};
use super::sample::{Cost, Sample, real};
use super::values::mixed_up;
use super::words::words_from;
use super::{Decode, Encoding, EncodingId, Output, PType, Values};
use crate::format::Result;

#[derive(Debug)]
pub(super) struct Planes;

/// Neighbours by which it is judged what ZSTD leaves of all.
const PIECE: usize = 2 << 10;
/// What it takes to write a byte of a value, and to add a plane to it, apart from decompression.
const VALUE_NANOS: f64 = 0.035;
const PLANE_NANOS: f64 = 0.02;
/// What it takes to decompress a byte: numbers come again in short pieces, and ZSTD takes twice as long for them as for text. Most of it is taken as soon as
/// there is anything left.
const ZSTD_NANOS: [f64; 3] = [0.15, 6.0, 1.35];
/// What is left at least of numbers that are not all alike: neighbours may be so.
const LEAST_LEFT: f64 = 0.02;
/// What the tree and the frames take.
const NODE_BYTES: f64 = 100.0;

impl Encoding for Planes {
    fn estimate(&self, sample: &Sample<'_>) -> Option<Cost> {
        let Values::Fixed { ptype, bytes } = sample.all() else { return None };
        if !is_lane(*ptype) || sample.goal().zstd_level.is_none() || sample.count() < PIECE {
            return None;
        }
        // Of few bits, even nothing would be left in vain: to decompress them takes longer than to read them.
        let compression = sample.goal().compression;
        let packed = super::frame::Frame.estimate(sample)?.total(compression);
        let least = Cost { bytes: NODE_BYTES, nanos: real(sample.count()) * zstd_nanos(LEAST_LEFT) };
        if packed <= least.total(compression) {
            return None;
        }
        with_lane!(ptype, T => cost_of(piece(&words_from::<T>(bytes)), *ptype, sample, packed))
    }

    fn encode(&self, values: &Values, context: &Context<'_>) -> Result<Option<EncodedNode>> {
        match values {
            Values::Fixed { ptype, bytes } if is_lane(*ptype) && !values.is_empty() => with_lane!(ptype, T => {
                let words = words_from::<T>(bytes);
                let (reference, count) = layout(&words, *ptype);
                let planes = (0..count).map(|place| context.buffer(plane(&words, reference, place), Kind::Numbers));
                let buffers: Vec<_> = planes.collect();
                // Uncompressed, they are never less than packed bits.
                if !context.is_forced() && buffers.iter().all(|buffer| buffer.stored.len() == buffer.raw_length) {
                    return Ok(None);
                }
                let (ptype, count, params) = (*ptype, words.len(), [reference.to_u64(), 0]);
                Ok(Some(EncodedNode { encoding: EncodingId::Planes, ptype, count, params, buffers, children: Vec::new() }))
            }),
            _ => Ok(None),
        }
    }

    fn open(&self, mut parts: Parts) -> Result<Box<dyn Decode>> {
        parts.check(is_lane(parts.ptype), "it is for integers of at most 64 bits")?;
        let width = parts.ptype.width().unwrap_or(0);
        let [reference, rest] = parts.params;
        parts.check(rest == 0, "its second parameter is not 0")?;
        parts.check(width == 8 || reference >> (8 * width) == 0, "its reference is wider than its type")?;
        let planes = parts.take_buffers()?;
        parts.check((1..=width).contains(&planes.len()), "it has not one plane for each byte of its values, or for the lower ones")?;
        parts.check(planes.iter().all(|plane| plane.len() == parts.count), "its planes are not of one byte per value")?;
        Ok(Box::new(Bytes { reference, planes }))
    }
}

/// What as many values as a sample is of cost, if these are some neighbours of theirs; `None` if that is more than `most`.
pub(super) fn cost_of<T: Lane>(piece: &[T], ptype: PType, sample: &Sample<'_>, most: f64) -> Option<Cost> {
    if piece.is_empty() {
        return None;
    }
    let goal = sample.goal();
    let all = real(sample.count());
    let (reference, count) = layout(piece, ptype);
    let mut cost = Cost { bytes: NODE_BYTES, nanos: all * real(size_of::<T>()) * (VALUE_NANOS + PLANE_NANOS * real(count)) };
    // Front bytes tell soonest that it is in vain.
    for place in (0..count).rev() {
        let left = (entropy(&plane(piece, reference, place)) / 8.0).max(LEAST_LEFT);
        let left = if left <= goal.compression.worth(Kind::Numbers) { left } else { 1.0 };
        cost = Cost { bytes: cost.bytes + all * left, nanos: cost.nanos + all * zstd_nanos(left) };
        if cost.total(goal.compression) > most {
            return None;
        }
    }
    Some(cost)
}

/// What it takes to decompress a byte where this part is left.
fn zstd_nanos(left: f64) -> f64 {
    let [least, slope, most] = ZSTD_NANOS;
    if left < 1.0 { (least + slope * left).min(most) } else { 0.0 }
}

/// Bits of a byte, if each is told apart by how often it comes, or how often its distance from the one before it: that is what ZSTD makes of numbers, of
/// which few longer pieces come again.
fn entropy(bytes: &[u8]) -> f64 {
    /// Most counts are small ones.
    static BITS: LazyLock<[f64; 256]> = LazyLock::new(|| std::array::from_fn(|count| count_bits(u16::try_from(count).unwrap_or(0))));
    let mut counts = [[0_u16; 256]; 2];
    let [values, distances] = &mut counts;
    let mut last = 0_u8;
    for &byte in bytes {
        values[usize::from(byte)] += 1;
        distances[usize::from(byte.wrapping_sub(last))] += 1;
        last = byte;
    }
    let all = real(bytes.len()).max(1.0);
    let known = &*BITS;
    let bits = |counts: &[u16; 256]| -> f64 {
        let sum = counts.iter().map(|&count| known.get(usize::from(count)).copied().unwrap_or_else(|| count_bits(count)));
        all.log2() - sum.sum::<f64>() / all
    };
    bits(values).min(bits(distances))
}

/// So many times the bits of that number.
fn count_bits(count: u16) -> f64 {
    if count > 1 { f64::from(count) * f64::from(count).log2() } else { 0.0 }
}

/// Neighbours from the middle, where all are too many.
pub(super) fn piece<T: Lane>(words: &[T]) -> &[T] {
    let start = words.len().saturating_sub(PIECE) / 2;
    &words[start..words.len().min(start + PIECE)]
}

/// The reference, and how many bytes the greatest difference from it has, of values of which there is at least one.
fn layout<T: Lane>(words: &[T], ptype: PType) -> (T, usize) {
    let flip = if ptype.is_signed() { T::top_bit() } else { T::default() };
    let ordered = || words.iter().map(|word| word.xor(flip));
    let first = words.first().map_or(T::default(), |word| word.xor(flip));
    let (least, greatest) = ordered().fold((first, first), |(least, greatest), word| (least.min(word), greatest.max(word)));
    let planes = |reference: T| usize::from(greatest.minus(reference).bits().div_ceil(8).max(1));
    let count = planes(least);
    // Lower bytes of 0 leave those of the values as they are, of which small ones then share the front bytes.
    let round = T::from_param(least.to_u64() >> (8 * (count - 1)) << (8 * (count - 1)));
    let reference = if planes(round) == count { round } else { least };
    (reference.xor(flip), count)
}

/// Byte `place` of each difference, the lowest being 0.
#[expect(clippy::cast_possible_truncation, reason = "takes a byte")]
fn plane<T: Lane>(words: &[T], reference: T, place: usize) -> Vec<u8> {
    words.iter().map(|word| (word.minus(reference).to_u64() >> (8 * place)) as u8).collect()
}

#[derive(Debug)]
struct Bytes {
    reference: u64,
    planes: Vec<StoredBuffer>,
}

impl Decode for Bytes {
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        with_lane!(out.ptype(), T => self.decode_words::<T>(range, out))
    }
}

impl Bytes {
    fn decode_words<T: Lane>(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        let planes = self.planes.iter().map(|plane| Ok(plane.bytes()?.get(range.clone()).unwrap_or_default()));
        let planes: Vec<&[u8]> = planes.collect::<Result<_>>()?;
        let (reference, out) = (T::from_param(self.reference), out.grow::<T>(range.len())?);
        // Their number is known to the compiler, which makes vectors of it.
        match planes.len() {
            1 => join::<T, 1>(&planes, reference, out),
            2 => join::<T, 2>(&planes, reference, out),
            3 => join::<T, 3>(&planes, reference, out),
            4 => join::<T, 4>(&planes, reference, out),
            5 => join::<T, 5>(&planes, reference, out),
            6 => join::<T, 6>(&planes, reference, out),
            7 => join::<T, 7>(&planes, reference, out),
            _ => join::<T, 8>(&planes, reference, out),
        }
    }
}

/// Puts the values together of `COUNT` planes with a byte for each of them.
fn join<T: Lane, const COUNT: usize>(planes: &[&[u8]], reference: T, out: &mut [T]) -> Result<()> {
    let mut bytes: [&[u8]; COUNT] = [&[]; COUNT];
    bytes.iter_mut().zip(planes).for_each(|(bytes, plane)| *bytes = plane.get(..out.len()).unwrap_or_default());
    if bytes.iter().any(|bytes| bytes.len() != out.len()) {
        return Err(mixed_up());
    }
    for (index, value) in out.iter_mut().enumerate() {
        let difference = bytes.iter().zip((0..).step_by(8)).fold(0_u64, |difference, (bytes, shift)| difference | u64::from(bytes[index]) << shift);
        *value = reference.plus(T::from_param(difference));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow::buffer::Buffer;
    use zerocopy::IntoBytes;

    use super::super::words::mix;
    use super::*;
    use crate::format::codec::{Compression, EncodeOptions, encode};

    fn values(numbers: &[i32]) -> Values {
        Values::Fixed { ptype: PType::I32, bytes: Buffer::from(numbers.as_bytes()) }
    }

    #[test]
    fn there_are_as_many_planes_as_the_span_has_bytes() {
        let layout_of = |numbers: &[i32]| {
            let words: Vec<u32> = numbers.iter().map(|number| number.cast_unsigned()).collect();
            let (reference, count) = layout(&words, PType::I32);
            (reference.cast_signed(), count)
        };
        assert_eq!(layout_of(&[7]), (7, 1));
        assert_eq!(layout_of(&[0, 255]), (0, 1));
        assert_eq!(layout_of(&[1, 256]), (1, 1));
        assert_eq!(layout_of(&[0x1234, 0x4321]), (0x1200, 2));
        // Rounded down, the reference would need one plane more.
        assert_eq!(layout_of(&[0x12FF, 0x12FF + 0xFFFF]), (0x12FF, 2));
        assert_eq!(layout_of(&[-5, 5]), (-5, 1));
        assert_eq!(layout_of(&[-5, 500]), (-256, 2));
        assert_eq!(layout_of(&[i32::MIN, i32::MAX]), (i32::MIN, 4));
    }

    #[test]
    fn it_is_chosen_where_front_bytes_come_again() {
        let numbers = |number: &dyn Fn(u64) -> u64| -> Vec<i32> { (0..65_536).map(|row| i32::try_from(number(row)).unwrap()).collect() };
        let tree = |numbers: &[i32], zstd_level| {
            let encoded = encode(&values(numbers), None, &EncodeOptions { zstd_level, compression: Compression::Small, forced: None }).unwrap();
            (encoded.tree().first().copied().map(EncodingId::from_id).unwrap().unwrap(), encoded.size())
        };
        // The byte in the middle is one of four, which lie far from each other.
        let noise = |row: u64| mix(mix(row));
        let skewed = numbers(&|row| noise(row) % 256 + noise(row ^ 0xFFFF) % 4 * 0x3B00 + noise(row + 70_000) % 256 * 0x1_0000);
        let (encoding, size) = tree(&skewed, Some(3));
        assert_eq!(encoding, EncodingId::Planes);
        assert!((65_536 * 18 / 8..65_536 * 19 / 8).contains(&size), "{size}");
        // Without ZSTD, or where no byte comes more often than another, packed bits are smaller.
        assert_eq!(tree(&skewed, None).0, EncodingId::Frame);
        assert_eq!(tree(&numbers(&|row| noise(row) % (1 << 24)), Some(3)).0, EncodingId::Frame);
    }

    #[test]
    fn the_entropy_is_that_of_bytes_or_of_their_distances() {
        let bits = |byte: &dyn Fn(u64) -> u64| entropy(&(0..PIECE as u64).map(|index| byte(index).to_le_bytes()[0]).collect::<Vec<_>>());
        assert!(bits(&|_| 7) < 0.02);
        assert!((bits(&|index| mix(mix(index)) % 16) - 4.0).abs() < 0.1);
        assert!(bits(&|index| index * 3) < 0.02);
        assert!(bits(&|index| mix(mix(index))) > 7.8);
    }
}
