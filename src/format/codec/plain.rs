//! PLAIN: the values as they are. A page of strings is one buffer of bytes, which decoded views point into, and the lengths.

use std::ops::Range;
use std::sync::OnceLock;

use arrow::array::{Array, BinaryViewArray};
use arrow::buffer::{BooleanBuffer, Buffer};

use super::buffer::{Kind, StoredBuffer};
use super::choose::Context;
use super::node::{EncodedNode, Node, Parts};
use super::sample::{Cost, Sample, real};
use super::{Decode, Encoding, EncodingId, Output, PType, Values};
use crate::format::search::{First, Pieces};
use crate::format::{Error, Result};

#[derive(Debug)]
pub(super) struct Plain;

/// Offsets into a page's bytes, and the length of a value, must fit Arrow's i32.
pub(super) const BYTES_MAX: usize = (1 << 31) - 1;
/// The longest value that a view holds in itself.
const INLINE_MAX: usize = 12;

impl Encoding for Plain {
    fn estimate(&self, sample: &Sample<'_>) -> Option<Cost> {
        let count = real(sample.count());
        match sample.values() {
            Values::Bool(_) => None,
            Values::Fixed { ptype, .. } => {
                let raw = count * real(ptype.width()?);
                // Packed integers beat compressed ones; floats have nothing else.
                let left = if ptype.is_integer() { 1.0 } else { sample.zstd_left(Kind::Numbers) };
                Some(Cost { bytes: raw * left, nanos: 0.025 * raw }.compressed(raw, left))
            }
            Values::Bytes(_) => Some(sample.plain_text_cost(sample.text_bytes(), count)),
        }
    }

    fn encode(&self, values: &Values, context: &Context<'_>) -> Result<Option<EncodedNode>> {
        let (buffer, children) = match values {
            Values::Bool(_) => return Ok(None),
            Values::Fixed { bytes, .. } => (context.buffer(bytes.to_vec(), Kind::Numbers), Vec::new()),
            Values::Bytes(array) => {
                let (bytes, lengths) = join(array, context)?;
                let lengths = Values::Fixed { ptype: PType::U32, bytes: Buffer::from_vec(lengths) };
                (context.buffer(bytes, Kind::Text), vec![context.child(&[]).encode(&lengths)?])
            }
        };
        let node =
            EncodedNode { encoding: EncodingId::Plain, ptype: values.ptype(), count: values.len(), params: [0; 2], buffers: vec![buffer], children };
        Ok(Some(node))
    }

    fn open(&self, mut parts: Parts) -> Result<Box<dyn Decode>> {
        match parts.ptype.width() {
            Some(width) => {
                let ([buffer], []) = parts.take()?;
                parts.check(buffer.len() == parts.count * width, "its buffer is not of its values' size")?;
                Ok(Box::new(Numbers { buffer, width }))
            }
            None => {
                parts.check(parts.ptype == PType::Bytes, "booleans have no plain encoding")?;
                let ([buffer], [lengths]) = parts.take()?;
                parts.check(lengths.ptype() == PType::U32 && lengths.count() == parts.count, "its lengths are not one U32 per value")?;
                parts.check(buffer.len() <= BYTES_MAX, "it holds 2 GiB or more")?;
                Ok(Box::new(Strings { buffer, lengths, utf8: parts.utf8, offsets: OnceLock::new() }))
            }
        }
    }
}

/// The bytes of all values, and their lengths; a null costs no bytes.
fn join(array: &BinaryViewArray, context: &Context<'_>) -> Result<(Vec<u8>, Vec<u32>)> {
    let stored = array.lengths().enumerate().filter(|(index, _)| !context.is_null(*index));
    let mut bytes = Vec::with_capacity(stored.map(|(_, length)| length as usize).sum());
    let mut lengths = Vec::with_capacity(array.len());
    for (index, length) in array.lengths().enumerate() {
        if context.is_null(index) {
            lengths.push(0);
        } else {
            bytes.extend_from_slice(array.value(index));
            lengths.push(length);
        }
    }
    if bytes.len() > BYTES_MAX {
        return Err(Error::invalid_argument("the strings of a page take 2 GiB or more"));
    }
    Ok((bytes, lengths))
}

#[derive(Debug)]
struct Numbers {
    buffer: StoredBuffer,
    width: usize,
}

impl Decode for Numbers {
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        out.push_bytes(&self.buffer.bytes()?[range.start * self.width..range.end * self.width])
    }
}

#[derive(Debug)]
struct Strings {
    buffer: StoredBuffer,
    lengths: Node,
    utf8: bool,
    /// One more than values: where each starts, and the end.
    offsets: OnceLock<Vec<u32>>,
}

impl Strings {
    fn offsets(&self) -> Result<&[u32]> {
        if let Some(offsets) = self.offsets.get() {
            return Ok(offsets);
        }
        let offsets = self.read_offsets()?;
        if self.utf8 {
            check_utf8(self.buffer.bytes()?, &offsets)?;
        }
        Ok(self.offsets.get_or_init(|| offsets))
    }

    fn read_offsets(&self) -> Result<Vec<u32>> {
        let mut lengths = Output::new(PType::U32, self.lengths.count());
        self.lengths.decode(0..self.lengths.count(), &mut lengths)?;
        let lengths = lengths.words::<u32>()?;
        // The sum first: it cannot wrap, and when it is right no offset can.
        let total: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
        if total != self.buffer.len() as u64 {
            return Err(Error::invalid_file(format!("lengths add up to {total}, but there are {} bytes", self.buffer.len())));
        }
        Ok(offsets_of(lengths))
    }
}

/// Where values of these lengths start, and the end. The sum of the lengths has been checked.
pub(super) fn offsets_of(lengths: &[u32]) -> Vec<u32> {
    let mut offsets = vec![0; lengths.len() + 1];
    let mut end = 0u32;
    for (offset, &length) in offsets[1..].iter_mut().zip(lengths) {
        end = end.wrapping_add(length);
        *offset = end;
    }
    offsets
}

/// Checks all bytes at once, and that no value starts inside of a character.
pub(super) fn check_utf8(bytes: &[u8], offsets: &[u32]) -> Result<()> {
    if bytes.is_ascii() {
        return Ok(());
    }
    let text = simdutf8::basic::from_utf8(bytes).map_err(|_| Error::invalid_file("strings are not UTF-8"))?;
    if offsets.iter().all(|&offset| text.is_char_boundary(offset as usize)) {
        Ok(())
    } else {
        Err(Error::invalid_file("strings are not UTF-8: one begins inside of a character"))
    }
}

impl Decode for Strings {
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        let offsets = &self.offsets()?[range.start..=range.end];
        let buffer = self.buffer.shared()?;
        let (views, index) = out.views(std::slice::from_ref(buffer))?;
        let starts = offsets.iter().zip(&offsets[1..]);
        views.extend(starts.map(|(&start, &end)| view(buffer, start, end - start, index)));
        Ok(())
    }

    fn find(&self, range: Range<usize>, _most: usize, pieces: &Pieces) -> Result<Option<BooleanBuffer>> {
        // More than lengths is told by the bytes.
        if !matches!(pieces.first(), First::Is(_)) || self.offsets.get().is_some() {
            return Ok(None);
        }
        let mut lengths = Output::new(PType::U32, range.len());
        self.lengths.decode(range, &mut lengths)?;
        let lengths = lengths.words::<u32>()?;
        let found = BooleanBuffer::collect_bool(lengths.len(), |value| pieces.may_be_in(lengths[value] as usize));
        Ok((pieces.is_nothing() || found.count_set_bits() == 0).then_some(found))
    }
}

/// What is left of 16 bytes when only the first so many count.
const HEADS: [u128; INLINE_MAX + 1] = {
    let mut masks = [0; INLINE_MAX + 1];
    let mut length = 1;
    while length <= INLINE_MAX {
        masks[length] = masks[length - 1] << 8 | 0xFF;
        length += 1;
    }
    masks
};

/// Arrow's view of `buffer[start..][..length]`, where `buffer` is the one of that index. Length and offset have been checked.
#[inline]
pub(super) fn view(buffer: &[u8], start: u32, length: u32, index: u32) -> u128 {
    let rest = &buffer[start as usize..];
    let head = match rest.first_chunk::<16>() {
        Some(chunk) => u128::from_le_bytes(*chunk),
        None => {
            let mut chunk = [0; 16];
            chunk[..rest.len()].copy_from_slice(rest);
            u128::from_le_bytes(chunk)
        }
    };
    match HEADS.get(length as usize) {
        Some(mask) => (head & mask) << 32 | u128::from(length),
        None => (head & 0xFFFF_FFFF) << 32 | u128::from(length) | u128::from(index) << 64 | u128::from(start) << 96,
    }
}

/// The view when its buffers start at `base` of another output.
pub(super) fn rebase(view: u128, base: u32) -> u128 {
    let is_long = (view & 0xFFFF_FFFF) > INLINE_MAX as u128;
    view + if is_long { u128::from(base) << 64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ErrorKind;
    use crate::format::codec::EncodeOptions;
    use arrow::buffer::NullBuffer;

    #[test]
    fn nulls_take_no_room() {
        let text = "a string that is not inlined".repeat(100);
        let strings = BinaryViewArray::from_iter_values((0..1000).map(|_| text.as_bytes()));
        let validity: NullBuffer = (0..1000).map(|index| index == 7).collect();
        let (bytes, lengths) = join(&strings, &Context::root(&EncodeOptions::default(), Some(&validity))).unwrap();
        assert_eq!((bytes.capacity(), bytes.len(), lengths.iter().sum::<u32>()), (2800, 2800, 2800));
    }

    #[test]
    fn views_are_those_that_arrow_builds() {
        let values: Vec<Vec<u8>> = (0..40u8).map(|length| (1..=length).collect()).collect();
        let arrow = BinaryViewArray::from_iter_values(&values);
        for (index, value) in values.iter().enumerate() {
            let length = u32::try_from(value.len()).unwrap();
            // At the very end of a buffer, and with bytes behind it that must not show.
            for tail in [0, 3, 100] {
                let mut buffer = vec![9; 7];
                buffer.extend_from_slice(value);
                buffer.resize(buffer.len() + tail, 0xFF);
                let array = BinaryViewArray::try_new(
                    vec![rebase(view(&buffer, 7, length, 1), 2)].into(),
                    vec![Buffer::default(), Buffer::default(), Buffer::default(), buffer.into()],
                    None,
                );
                let array = array.unwrap();
                assert_eq!(array.value(0), value);
                if length <= 12 {
                    assert_eq!(array.views()[0], arrow.views()[index]);
                }
            }
        }
    }

    #[test]
    fn values_that_are_strings_only_when_joined_are_refused() {
        let bytes = "aä".as_bytes();
        assert!(check_utf8(bytes, &[0, 1, 3]).is_ok());
        assert_eq!(check_utf8(bytes, &[0, 2, 3]).unwrap_err().kind(), ErrorKind::InvalidFile);
        assert_eq!(check_utf8(&bytes[..2], &[0, 1, 2]).unwrap_err().kind(), ErrorKind::InvalidFile);
    }
}
