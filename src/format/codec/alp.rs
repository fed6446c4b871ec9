//! ALP: floats that were written with a few decimal digits, as the integers that these are (Afroozeh, Kuffo and Boncz, SIGMOD 2023).
//!
//! A value v is stored as the integer n nearest to v·10ᵉ·10⁻ᶠ if n·10ᶠ·10⁻ᵉ, multiplied in this order in the precision of v, is v to the bit. An
//! exponent e beyond the digits that v has, and a factor f that takes back the rest, makes that true of more values than e alone. Values of which it
//! is not true, NaN and -0.0 among them, are patched.

use std::ops::Range;

use arrow::buffer::Buffer;
use zerocopy::IntoBytes;

use super::choose::Context;
use super::frame::{Frame, Patches};
use super::node::{EncodedNode, Node, Parts};
use super::pack::Lane;
use super::sample::{Cost, Sample, real};
use super::words::words_from;
use super::{BLOCK, Decode, Encoding, EncodingId, Output, PType, Values};
use crate::format::Result;

#[derive(Debug)]
pub(super) struct Alp;

/// Values by which the exponents are chosen.
const TRIED: usize = 64;
/// No more than one value in so many is patched.
const PATCHED_PART: usize = 8;
/// Bytes of a patch's position, and what decoding it costs in bytes.
const PATCH: f64 = 4.0;
/// What the nodes of patches take, however few there are.
const PATCHES_BYTES: f64 = 100.0;
/// Time to make a float of an integer.
const MULTIPLY_NANOS: f64 = 0.3;

/// Runs the body with `$T` as the float of a physical type; elsewhere the result is `None`.
macro_rules! with_float {
    ($ptype:expr, $T:ident => $body:expr) => {
        match $ptype {
            PType::F32 => {
                type $T = f32;
                $body
            }
            PType::F64 => {
                type $T = f64;
                $body
            }
            _ => None,
        }
    };
}

impl Encoding for Alp {
    fn estimate(&self, sample: &Sample<'_>) -> Option<Cost> {
        let Values::Fixed { ptype, bytes } = sample.values() else { return None };
        with_float!(*ptype, T => {
            let words = words_from::<<T as Float>::Word>(bytes);
            let Digits { integers, positions, .. } = Digits::of::<T>(&words, Scale::choose::<T>(&words)?);
            let part = real(positions.len()) / real(words.len());
            if part > 1.0 / real(PATCHED_PART) {
                return None;
            }
            let patches = if part > 0.0 { PATCHES_BYTES + part * real(sample.count()) * (PATCH + real(size_of::<T>())) } else { 0.0 };
            let integers = Values::Fixed { ptype: T::INTEGER, bytes: Buffer::from_vec(integers) };
            let packed = Frame.estimate(&Sample::of(&integers, None, sample.goal().without_zstd()).ok()?)?;
            let scale = sample.scale();
            Some(Cost { bytes: packed.bytes * scale + patches, nanos: packed.nanos * scale + MULTIPLY_NANOS * real(sample.count()) })
        })
    }

    fn encode(&self, values: &Values, context: &Context<'_>) -> Result<Option<EncodedNode>> {
        let Values::Fixed { ptype, bytes } = values else { return Ok(None) };
        let encoded = with_float!(*ptype, T => {
            let words = words_from::<<T as Float>::Word>(bytes);
            let sample = context.sample(values)?;
            let Values::Fixed { bytes: sampled, .. } = sample.values() else { return Ok(None) };
            let scale = Scale::choose::<T>(&words_from::<<T as Float>::Word>(sampled));
            let scale = if context.is_forced() { Some(scale.unwrap_or_default()) } else { scale };
            scale.map(|scale| encode_words::<T>(&words, scale, *ptype, context))
        });
        Ok(encoded.transpose()?.flatten())
    }

    fn open(&self, mut parts: Parts) -> Result<Box<dyn Decode>> {
        let [scale, param] = parts.params;
        let [exponent, factor, ..] = scale.to_le_bytes();
        let scale = Scale { exponent, factor };
        let integer = with_float!(parts.ptype, T => Some((T::INTEGER, T::POWERS)));
        parts.check(integer.is_some(), "it is for floats of 32 or 64 bits")?;
        let (integer, powers) = integer.unwrap_or((PType::I64, 0));
        parts.check(parts.params[0] >> 16 == 0 && usize::from(exponent.max(factor)) < powers, "its exponents are too large")?;
        let patch_count = (param >> 32) as usize;
        let (integers, patches) = if patch_count == 0 {
            let ([], [integers]) = parts.take()?;
            (integers, None)
        } else {
            let ([], [integers, positions, values]) = parts.take()?;
            (integers, Some(Patches::new(&parts, patch_count, positions, values)?))
        };
        parts.check(integers.ptype() == integer && integers.count() == parts.count, "its integers are not one of its width per value")?;
        Ok(Box::new(Scaled { integers, scale, patches }))
    }
}

/// A value is its integer times 10^factor, times 10^-exponent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Scale {
    exponent: u8,
    factor: u8,
}

impl Scale {
    /// The one by which some of the values take the fewest bits; `None` if hardly any can be written so.
    fn choose<T: Float>(words: &[T::Word]) -> Option<Self> {
        let step = words.len().div_ceil(TRIED).max(1);
        let tried: Vec<T::Word> = words.iter().copied().step_by(step).collect();
        let mut best = None;
        let mut fewest = tried.len() * 8 * size_of::<T>();
        let exponents = (0..T::POWERS).rev().flat_map(|exponent| (0..=exponent).rev().map(move |factor| (exponent, factor)));
        for (exponent, factor) in exponents {
            let scale = Self { exponent: u8::try_from(exponent).unwrap_or(0), factor: u8::try_from(factor).unwrap_or(0) };
            if let Some(bits) = scale.bits::<T>(&tried, fewest) {
                (best, fewest) = (Some(scale), bits);
            }
        }
        best
    }

    /// Bits of these values, packed or patched, if they are fewer than so many. By most scales most values are patched, which is known after a few of them.
    fn bits<T: Float>(self, words: &[T::Word], fewest: usize) -> Option<usize> {
        let patch = 8 * size_of::<T>() + 32;
        let (mut least, mut greatest) = (i64::MAX, i64::MIN);
        let mut patched = 0;
        for &word in words {
            match T::integer(word, self) {
                Some(integer) => (least, greatest) = (least.min(integer), greatest.max(integer)),
                None => {
                    patched += patch;
                    if patched >= fewest {
                        return None;
                    }
                }
            }
        }
        let stored = words.len() - patched / patch;
        let width = if stored == 0 { 0 } else { (u64::BITS - greatest.abs_diff(least).leading_zeros()) as usize };
        Some(stored * width + patched).filter(|bits| *bits < fewest)
    }
}

/// Values as integers, and those that are none.
struct Digits<W> {
    integers: Vec<W>,
    positions: Vec<u32>,
    values: Vec<W>,
}

impl<W: Lane> Digits<W> {
    /// What is patched repeats the integer before it: nothing packs better.
    fn of<T: Float<Word = W>>(words: &[W], scale: Scale) -> Self {
        let mut last = words.iter().find_map(|&word| T::integer(word, scale)).unwrap_or(0);
        let (mut positions, mut values) = (Vec::new(), Vec::new());
        let integers = words.iter().zip(0..).map(|(&word, position)| {
            match T::integer(word, scale) {
                Some(integer) => last = integer,
                None => {
                    positions.push(position);
                    values.push(word);
                }
            }
            T::store(last)
        });
        Self { integers: integers.collect(), positions, values }
    }
}

fn encode_words<T: Float>(words: &[T::Word], scale: Scale, ptype: PType, context: &Context<'_>) -> Result<Option<EncodedNode>> {
    let Digits { integers, positions, values } = Digits::of::<T>(words, scale);
    if positions.len() > words.len() / PATCHED_PART && !context.is_forced() {
        return Ok(None);
    }
    let fixed = |ptype, bytes| Values::Fixed { ptype, bytes };
    let numbers = context.child(&[EncodingId::Dictionary, EncodingId::RunLength]);
    let mut children = vec![numbers.encode(&fixed(T::INTEGER, Buffer::from_vec(integers)))?];
    let param = (positions.len() as u64) << 32;
    if !positions.is_empty() {
        let patches = numbers.child(&[EncodingId::Delta, EncodingId::Alp, EncodingId::AlpRd]).unpatched();
        children.push(patches.encode(&fixed(PType::U32, Buffer::from_vec(positions)))?);
        children.push(patches.encode(&fixed(ptype, Buffer::from(values.as_bytes())))?);
    }
    let params = [u64::from(scale.exponent) | u64::from(scale.factor) << 8, param];
    Ok(Some(EncodedNode { encoding: EncodingId::Alp, ptype, count: words.len(), params, buffers: Vec::new(), children }))
}

#[derive(Debug)]
struct Scaled {
    integers: Node,
    scale: Scale,
    patches: Option<Patches>,
}

impl Decode for Scaled {
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        match out.ptype() {
            PType::F32 => self.decode_floats::<f32>(range, out),
            _ => self.decode_floats::<f64>(range, out),
        }
    }
}

impl Scaled {
    fn decode_floats<T: Float>(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        let mut scratch = Output::new(T::INTEGER, range.len().min(BLOCK));
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / BLOCK + 1) * BLOCK);
            scratch.clear();
            self.integers.decode(at..end, &mut scratch)?;
            T::multiply(scratch.words()?, self.scale, out.grow(end - at)?);
            at = end;
        }
        match &self.patches {
            Some(patches) => patches.apply(range.clone(), out.last::<T::Word>(range.len())?),
            None => Ok(()),
        }
    }
}

/// A float, and the integers as wide as it is.
trait Float: Sized {
    type Word: Lane + arrow::datatypes::ArrowNativeType;

    /// The type of the integers.
    const INTEGER: PType;
    /// Powers of ten that can be an exponent or a factor, from that of 0 on.
    const POWERS: usize;

    /// The integer of a value, if the value can be made of it.
    fn integer(word: Self::Word, scale: Scale) -> Option<i64>;

    /// An integer that a value has, in its width.
    fn store(integer: i64) -> Self::Word;

    /// The values of integers.
    fn multiply(integers: &[Self::Word], scale: Scale, out: &mut [Self::Word]);
}

macro_rules! floats {
    ($Float:ident, $Word:ident, $Int:ident, $INTEGER:ident, $powers:literal, $magic:literal, [$($up:literal)*], [$($down:literal)*]) => {
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "integers of no more bits than the float is precise to")]
        impl Float for $Float {
            type Word = $Word;

            const INTEGER: PType = PType::$INTEGER;
            const POWERS: usize = $powers;

            #[inline]
            fn integer(word: $Word, scale: Scale) -> Option<i64> {
                const UP: [$Float; $powers] = [$($up),*];
                const DOWN: [$Float; $powers] = [$($down),*];
                /// Added to a number of less than a third of it, this leaves no bits for a fraction: the sum is rounded, and so is the number.
                const MAGIC: $Float = $magic;
                let value = $Float::from_bits(word);
                let (exponent, factor) = (usize::from(scale.exponent), usize::from(scale.factor));
                let scaled = value * UP[exponent] * DOWN[factor];
                let rounded = scaled + MAGIC - MAGIC;
                let is_same = (rounded * UP[factor] * DOWN[exponent]).to_bits() == word;
                (is_same && rounded.abs() < MAGIC / 3.0).then_some(rounded as i64)
            }

            fn store(integer: i64) -> $Word {
                (integer as $Int).cast_unsigned()
            }

            fn multiply(integers: &[$Word], scale: Scale, out: &mut [$Word]) {
                const UP: [$Float; $powers] = [$($up),*];
                const DOWN: [$Float; $powers] = [$($down),*];
                let (up, down) = (UP[usize::from(scale.factor)], DOWN[usize::from(scale.exponent)]);
                for (value, integer) in out.iter_mut().zip(integers) {
                    *value = (integer.cast_signed() as $Float * up * down).to_bits();
                }
            }
        }
    };
}

floats!(f64, u64, i64, I64, 19, 6755399441055744.0,
    [1e0 1e1 1e2 1e3 1e4 1e5 1e6 1e7 1e8 1e9 1e10 1e11 1e12 1e13 1e14 1e15 1e16 1e17 1e18],
    [1e0 1e-1 1e-2 1e-3 1e-4 1e-5 1e-6 1e-7 1e-8 1e-9 1e-10 1e-11 1e-12 1e-13 1e-14 1e-15 1e-16 1e-17 1e-18]);
floats!(f32, u32, i32, I32, 11, 12582912.0,
    [1e0 1e1 1e2 1e3 1e4 1e5 1e6 1e7 1e8 1e9 1e10],
    [1e0 1e-1 1e-2 1e-3 1e-4 1e-5 1e-6 1e-7 1e-8 1e-9 1e-10]);

#[cfg(test)]
mod tests {
    use super::*;

    fn scale_of(values: &[f64]) -> Option<Scale> {
        Scale::choose::<f64>(&values.iter().map(|value| value.to_bits()).collect::<Vec<_>>())
    }

    #[test]
    fn the_exponents_leave_the_digits() {
        let prices: Vec<f64> = (0..1000).map(|index| f64::from(index * 37 % 1000) / 100.0).collect();
        let scale = scale_of(&prices).unwrap();
        let integers: Vec<i64> = prices.iter().map(|price| f64::integer(price.to_bits(), scale).unwrap()).collect();
        assert!((0..1000).all(|index| integers[index] == i64::try_from(index).unwrap() * 37 % 1000), "{scale:?}");
        assert!(scale_of(&[1e300, f64::NAN, f64::INFINITY, std::f64::consts::PI * 1e-200]).is_none());
    }

    #[test]
    fn what_is_no_integer_is_patched() {
        let scale = Scale { exponent: 14, factor: 12 };
        let stored = |value: f64| f64::integer(value.to_bits(), scale);
        assert_eq!([stored(0.0), stored(1.25), stored(-3.5)], [Some(0), Some(125), Some(-350)]);
        for value in [-0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, 1.0 / 3.0, 9e18] {
            assert_eq!(stored(value), None, "{value}");
        }
        assert_eq!(f32::integer((-0.0f32).to_bits(), Scale::default()), None);
        assert_eq!(f32::integer(16_777_216.0f32.to_bits(), Scale::default()), None);
    }
}
