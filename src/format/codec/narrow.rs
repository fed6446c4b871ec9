//! NARROW: the same integers in a narrower type, to be encoded there. It is how decimals of 128 and 256 bits come to be packed.

use std::ops::Range;

use arrow::buffer::{BooleanBuffer, Buffer};
use zerocopy::IntoBytes;

use super::choose::Context;
use super::node::{EncodedNode, Node, Parts};
use super::sample::{Cost, Sample, real};
use super::words::{U256, Word, with_word, words_from};
use super::{BLOCK, Decode, Encoding, EncodingId, Output, PType, Values};
use crate::format::Result;

#[derive(Debug)]
pub(super) struct Narrow;

impl Encoding for Narrow {
    fn estimate(&self, sample: &Sample<'_>) -> Option<Cost> {
        // What FRAME takes, it packs as well as NARROW could.
        let (PType::I128 | PType::I256, false) = (sample.values().ptype(), sample.is_empty()) else { return None };
        let narrow = targets(sample.values().ptype()).iter().find_map(|&target| convert(sample.values(), target))?;
        let widening = 0.6 * real(sample.count());
        let scale = sample.scale();
        let inner = Sample::of(&narrow, None, sample.goal().without_zstd()).ok()?;
        let packed = super::frame::Frame.estimate(&inner);
        Some(match packed {
            Some(cost) => Cost { bytes: cost.bytes * scale + 24.0, nanos: cost.nanos * scale + widening },
            None => Cost { bytes: real(sample.count() * narrow.ptype().width()?), nanos: widening },
        })
    }

    fn encode(&self, values: &Values, context: &Context<'_>) -> Result<Option<EncodedNode>> {
        let Some(narrow) = targets(values.ptype()).iter().find_map(|&target| convert(values, target)) else { return Ok(None) };
        let children = vec![context.child(&[]).encode(&narrow)?];
        let (ptype, count) = (values.ptype(), values.len());
        Ok(Some(EncodedNode { encoding: EncodingId::Narrow, ptype, count, params: [0; 2], buffers: Vec::new(), children }))
    }

    fn open(&self, mut parts: Parts) -> Result<Box<dyn Decode>> {
        let ([], [narrow]) = parts.take()?;
        parts.check(parts.ptype.is_integer() && narrow.ptype().is_integer(), "it is for integers")?;
        parts.check(narrow.ptype().width() < parts.ptype.width(), "its child is not narrower")?;
        parts.check(narrow.count() == parts.count, "its child has not as many values")?;
        Ok(Box::new(Widen { narrow }))
    }
}

/// What to try, the best first.
fn targets(ptype: PType) -> &'static [PType] {
    match ptype {
        PType::I256 => &[PType::I64, PType::I128],
        PType::I128 => &[PType::I64],
        PType::I64 => &[PType::I32],
        PType::I32 => &[PType::I16],
        PType::I16 => &[PType::I8],
        PType::U64 => &[PType::U32],
        PType::U32 => &[PType::U16],
        PType::U16 => &[PType::U8],
        _ => &[],
    }
}

/// The values in a narrower type, if all fit.
fn convert(values: &Values, target: PType) -> Option<Values> {
    let Values::Fixed { ptype, bytes } = values else { return None };
    let bytes = with_word!(ptype.width()?, Wide => with_word!(target.width()?, Slim => {
        convert_words::<Wide, Slim>(bytes, target.is_signed())
    }))?;
    Some(Values::Fixed { ptype: target, bytes })
}

fn convert_words<Wide: Integer, Slim: Integer>(bytes: &[u8], signed: bool) -> Option<Buffer> {
    let words = words_from::<Wide>(bytes);
    let mut narrow: Vec<Slim> = Vec::with_capacity(words.len());
    for block in words.chunks(BLOCK) {
        let start = narrow.len();
        narrow.extend(block.iter().map(|wide| Slim::cut(wide.extend(true))));
        let back = narrow[start..].iter().map(|slim| Wide::cut(slim.extend(signed)));
        if !back.zip(block).fold(true, |same, (back, wide)| same & (back == *wide)) {
            return None;
        }
    }
    Some(Buffer::from(narrow.as_bytes()))
}

#[derive(Debug)]
struct Widen {
    narrow: Node,
}

impl Decode for Widen {
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        let mut scratch = Output::new(self.narrow.ptype(), range.len().min(BLOCK));
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / BLOCK + 1) * BLOCK);
            scratch.clear();
            self.narrow.decode(at..end, &mut scratch)?;
            self.widen(&scratch, out)?;
            at = end;
        }
        Ok(())
    }

    fn decode_kept(&self, range: Range<usize>, keep: &BooleanBuffer, out: &mut Output) -> Result<()> {
        let mut scratch = Output::new(self.narrow.ptype(), range.len());
        self.narrow.decode_kept(range, keep, &mut scratch)?;
        self.widen(&scratch, out)
    }
}

impl Widen {
    fn widen(&self, narrow: &Output, out: &mut Output) -> Result<()> {
        let signed = self.narrow.ptype().is_signed();
        with_word!(self.narrow.ptype().width().unwrap_or(1), Slim => with_word!(out.ptype().width().unwrap_or(1), Wide => {
            widen::<Slim, Wide>(narrow, signed, out)
        }))
    }
}

fn widen<Slim: Integer, Wide: Integer>(narrow: &Output, signed: bool, out: &mut Output) -> Result<()> {
    let narrow = narrow.words::<Slim>()?;
    let slots = out.grow::<Wide>(narrow.len())?.iter_mut().zip(narrow);
    // Two loops rather than a choice per value.
    if signed {
        slots.for_each(|(wide, slim)| *wide = Wide::cut(slim.extend(true)));
    } else {
        slots.for_each(|(wide, slim)| *wide = Wide::cut(slim.extend(false)));
    }
    Ok(())
}

/// A word as a number. Every conversion passes through 128 bits, which the compiler sees through.
trait Integer: Word {
    /// The number, or of 256 bits the lower half.
    fn extend(self, signed: bool) -> i128;

    /// The low bits of a number.
    fn cut(number: i128) -> Self;
}

macro_rules! integers {
    ($($Unsigned:ty as $Signed:ty),*) => {$(
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap, reason = "the same bits, or the low ones")]
        impl Integer for $Unsigned {
            #[inline]
            fn extend(self, signed: bool) -> i128 {
                if signed { self as $Signed as i128 } else { self as i128 }
            }

            #[inline]
            fn cut(number: i128) -> Self {
                number as Self
            }
        }
    )*};
}
integers!(u8 as i8, u16 as i16, u32 as i32, u64 as i64);

#[expect(clippy::cast_sign_loss, clippy::cast_possible_wrap, reason = "the same bits")]
impl Integer for u128 {
    #[inline]
    fn extend(self, _: bool) -> i128 {
        self as i128
    }

    #[inline]
    fn cut(number: i128) -> Self {
        number as Self
    }
}

#[expect(clippy::cast_sign_loss, clippy::cast_possible_wrap, reason = "the same bits")]
impl Integer for U256 {
    #[inline]
    fn extend(self, _: bool) -> i128 {
        self[0] as i128
    }

    #[inline]
    fn cut(number: i128) -> Self {
        [number as u128, (number >> 127) as u128]
    }
}
