//! BITMAP: a bit per boolean.

use std::ops::Range;

use super::buffer::{Kind, StoredBuffer};
use super::choose::Context;
use super::node::{EncodedNode, Parts};
use super::sample::{Cost, Sample, real};
use super::{Decode, Encoding, EncodingId, Output, PType, Values};
use crate::format::Result;

#[derive(Debug)]
pub(super) struct Bitmap;

impl Encoding for Bitmap {
    fn estimate(&self, sample: &Sample<'_>) -> Option<Cost> {
        let bytes = real(sample.count()) / 8.0;
        matches!(sample.values(), Values::Bool(_)).then_some(Cost { bytes, nanos: 0.05 * bytes })
    }

    fn encode(&self, values: &Values, context: &Context<'_>) -> Result<Option<EncodedNode>> {
        let Values::Bool(bits) = values else { return Ok(None) };
        let mut bytes = bits.sliced().to_vec();
        bytes.truncate(bits.len().div_ceil(8));
        if let (Some(last), used @ 1..) = (bytes.last_mut(), bits.len() % 8) {
            *last &= (1 << used) - 1;
        }
        let buffers = vec![context.buffer(bytes, Kind::Numbers)];
        let node = EncodedNode { encoding: EncodingId::Bitmap, ptype: PType::Bool, count: bits.len(), params: [0; 2], buffers, children: Vec::new() };
        Ok(Some(node))
    }

    fn open(&self, mut parts: Parts) -> Result<Box<dyn Decode>> {
        let ([buffer], []) = parts.take()?;
        parts.check(parts.ptype == PType::Bool, "only booleans have a bitmap")?;
        parts.check(buffer.len() == parts.count.div_ceil(8), "its buffer is not of its values' size")?;
        Ok(Box::new(Bits(buffer)))
    }
}

#[derive(Debug)]
struct Bits(StoredBuffer);

impl Decode for Bits {
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        out.bits()?.append_packed_range(range, self.0.bytes()?);
        Ok(())
    }
}
