//! CONSTANT: one value, said once.

use std::ops::Range;
use std::sync::OnceLock;

use arrow::array::Array;
use arrow::buffer::BooleanBuffer;
use zerocopy::IntoBytes;

use super::buffer::{Kind, StoredBuffer};
use super::choose::Context;
use super::node::{EncodedNode, Parts};
use super::plain::{BYTES_MAX, rebase, view};
use super::sample::{Cost, Sample, real};
use super::words::{Word, with_word, words_from};
use super::{Codes, Decode, Decoded, Encoding, EncodingId, Output, PType, Values};
use crate::format::codes::CodeRun;
use crate::format::search::Pieces;
use crate::format::{Error, Result};

#[derive(Debug)]
pub(super) struct Constant;

/// The widest value that stands in the node itself.
const PARAM_WIDTH: usize = 8;

impl Encoding for Constant {
    fn estimate(&self, sample: &Sample<'_>) -> Option<Cost> {
        (!sample.is_empty() && is_constant(sample.values())).then(|| Cost { bytes: 32.0, nanos: 0.25 * real(sample.count()) })
    }

    fn encode(&self, values: &Values, context: &Context<'_>) -> Result<Option<EncodedNode>> {
        if values.is_empty() || !is_constant(values) {
            return Ok(None);
        }
        let mut params = [0; 2];
        let mut buffers = Vec::new();
        match values {
            Values::Bool(bits) => params[0] = u64::from(bits.value(0)),
            Values::Fixed { ptype, bytes } => match &bytes[..ptype.width().unwrap_or(1)] {
                value if value.len() <= PARAM_WIDTH => params.as_mut_bytes()[..value.len()].copy_from_slice(value),
                value => buffers.push(context.buffer(value.to_vec(), Kind::Numbers)),
            },
            Values::Bytes(array) => buffers.push(context.buffer(array.value(0).to_vec(), Kind::Text)),
        }
        let (ptype, count) = (values.ptype(), values.len());
        Ok(Some(EncodedNode { encoding: EncodingId::Constant, ptype, count, params, buffers, children: Vec::new() }))
    }

    fn open(&self, mut parts: Parts) -> Result<Box<dyn Decode>> {
        let param = parts.params[0];
        match parts.ptype.width() {
            None if parts.ptype == PType::Bool => {
                let ([], []) = parts.take()?;
                parts.check(param <= 1, "its value is neither true nor false")?;
                Ok(Box::new(Bit(param == 1)))
            }
            None => {
                let ([buffer], []) = parts.take()?;
                parts.check(buffer.len() <= BYTES_MAX, "its value has 2 GiB or more")?;
                Ok(Box::new(Text { buffer, utf8: parts.utf8, view: OnceLock::new() }))
            }
            Some(width) if width <= PARAM_WIDTH => {
                let ([], []) = parts.take()?;
                parts.check(width == PARAM_WIDTH || param >> (8 * width) == 0, "its value is wider than its type")?;
                Ok(Box::new(Number { value: Value::Param(param), ptype: parts.ptype }))
            }
            Some(width) => {
                let ([buffer], []) = parts.take()?;
                parts.check(buffer.len() == width, "its value is not as wide as its type")?;
                Ok(Box::new(Number { value: Value::Buffer(buffer), ptype: parts.ptype }))
            }
        }
    }
}

/// Whether all values are the same bits.
pub(super) fn is_constant(values: &Values) -> bool {
    match values {
        Values::Bool(bits) => matches!(bits.count_set_bits(), set if set == 0 || set == bits.len()),
        Values::Fixed { ptype, bytes } => with_word!(ptype.width().unwrap_or(1), T => {
            let words = words_from::<T>(bytes);
            // In blocks, so that the inner loop has no exit and the outer has one soon.
            words.first().is_none_or(|&first| words.chunks(256).all(|block| block.iter().fold(true, |same, &word| same & (word == first))))
        }),
        Values::Bytes(array) => (1..array.len()).all(|index| array.value(index) == array.value(0)),
    }
}

#[derive(Debug)]
struct Bit(bool);

impl Decode for Bit {
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        out.bits()?.append_n(range.len(), self.0);
        Ok(())
    }
}

#[derive(Debug)]
struct Number {
    value: Value,
    ptype: PType,
}

#[derive(Debug)]
enum Value {
    Param(u64),
    Buffer(StoredBuffer),
}

impl Decode for Number {
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        let bytes = match &self.value {
            Value::Param(param) => param.as_bytes(),
            Value::Buffer(buffer) => buffer.bytes()?,
        };
        with_word!(self.ptype.width().unwrap_or(1), T => fill::<T>(bytes, range.len(), out))
    }

    fn coded(&self, range: Range<usize>, _most: usize, codes: &mut Codes) -> Result<Option<Decoded>> {
        said_once(self, self.ptype, range.len(), codes).map(Some)
    }
}

/// The one value, and a run of its code.
fn said_once(constant: &dyn Decode, ptype: PType, count: usize, codes: &mut Codes) -> Result<Decoded> {
    let mut value = Output::new(ptype, 1);
    constant.decode(0..1, &mut value)?;
    codes.extend_runs(vec![CodeRun { code: 0, rows: u32::try_from(count).map_err(|_| Error::invalid_argument("more rows than a batch has"))? }]);
    Ok(value.finish())
}

fn fill<T: Word>(value: &[u8], count: usize, out: &mut Output) -> Result<()> {
    let (value, _) = T::read_from_prefix(value).map_err(|_| Error::invalid_file("a constant is cut short"))?;
    out.grow::<T>(count)?.fill(value);
    Ok(())
}

#[derive(Debug)]
struct Text {
    buffer: StoredBuffer,
    utf8: bool,
    view: OnceLock<u128>,
}

impl Text {
    fn view(&self) -> Result<u128> {
        if let Some(view) = self.view.get() {
            return Ok(*view);
        }
        let bytes = self.buffer.bytes()?;
        if self.utf8 {
            std::str::from_utf8(bytes).map_err(|error| Error::invalid_file(format!("a string is not UTF-8: {error}")))?;
        }
        let length = u32::try_from(bytes.len()).map_err(|_| Error::invalid_file("a string of 4 GiB"))?;
        Ok(*self.view.get_or_init(|| view(bytes, 0, length, 0)))
    }
}

impl Decode for Text {
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        let view = self.view()?;
        let (views, base) = out.views(std::slice::from_ref(self.buffer.shared()?))?;
        views.resize(views.len() + range.len(), rebase(view, base));
        Ok(())
    }

    fn coded(&self, range: Range<usize>, _most: usize, codes: &mut Codes) -> Result<Option<Decoded>> {
        said_once(self, PType::Bytes, range.len(), codes).map(Some)
    }

    fn find(&self, range: Range<usize>, _most: usize, pieces: &Pieces) -> Result<Option<BooleanBuffer>> {
        let is_found = pieces.are_in(self.buffer.bytes()?);
        Ok(Some(if is_found { BooleanBuffer::new_set(range.len()) } else { BooleanBuffer::new_unset(range.len()) }))
    }
}
