//! Messages: metadata and body, each where it may begin.

use arrow::buffer::Buffer;
use arrow_ipc as fb;
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};

use super::encode::Parts;
use crate::format::alkaid::compress::Codec;
use crate::format::alkaid::frame::{CONTINUATION, FRAME_MAX};
use crate::format::alkaid::schema::SchemaWriter;
use crate::format::error::{Error, Result};

/// A body, and where its buffers are in it.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) buffers: Vec<Buffer>,
    places: Vec<fb::Buffer>,
    pub(super) length: u64,
    codec: Option<Codec>,
}

impl Body {
    /// Of buffers as they are stored. Each begins at a multiple of `alignment`.
    pub(super) fn new(buffers: Vec<Buffer>, codec: Option<Codec>, alignment: usize) -> Result<Self> {
        let mut length = 0_u64;
        let mut places = Vec::with_capacity(buffers.len());
        for buffer in &buffers {
            places.push(fb::Buffer::new(signed(length)?, signed(buffer.len() as u64)?));
            length += buffer.len().next_multiple_of(alignment) as u64;
        }
        Ok(Self { buffers, places, length, codec })
    }
}

/// What a message with a body is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Header {
    Records,
    Dictionary { id: usize, is_delta: bool },
}

fn signed(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| Error::invalid_argument("a message is too long"))
}

/// The schema's message at `position`.
pub(super) fn schema(schema: &SchemaWriter, position: u64, alignment: usize) -> Result<Vec<u8>> {
    let mut builder = FlatBufferBuilder::new();
    let header = schema.write(&mut builder).as_union_value();
    finish(builder, fb::MessageHeader::Schema, header, 0, position, alignment)
}

/// Everything up to the body of a message at `position`.
pub(super) fn batch(header: Header, rows: usize, parts: &Parts, body: &Body, position: u64, alignment: usize) -> Result<Vec<u8>> {
    let mut builder = FlatBufferBuilder::new();
    let nodes = builder.create_vector(&parts.nodes);
    let buffers = builder.create_vector(&body.places);
    let variadic = (!parts.variadic.is_empty()).then(|| builder.create_vector(&parts.variadic));
    let compression = body.codec.map(|codec| {
        let args = fb::BodyCompressionArgs { codec: codec.wire(), method: fb::BodyCompressionMethod::BUFFER };
        fb::BodyCompression::create(&mut builder, &args)
    });
    let args =
        fb::RecordBatchArgs { length: signed(rows as u64)?, nodes: Some(nodes), buffers: Some(buffers), compression, variadicBufferCounts: variadic };
    let records = fb::RecordBatch::create(&mut builder, &args);
    let (kind, header) = match header {
        Header::Records => (fb::MessageHeader::RecordBatch, records.as_union_value()),
        Header::Dictionary { id, is_delta } => {
            let args = fb::DictionaryBatchArgs { id: signed(id as u64)?, data: Some(records), isDelta: is_delta };
            (fb::MessageHeader::DictionaryBatch, fb::DictionaryBatch::create(&mut builder, &args).as_union_value())
        }
    };
    finish(builder, kind, header, body.length, position, alignment)
}

/// Frames a message's metadata, filled up so that the body begins at a multiple of `alignment`.
fn finish(
    mut builder: FlatBufferBuilder<'_>,
    kind: fb::MessageHeader,
    header: WIPOffset<UnionWIPOffset>,
    body_length: u64,
    position: u64,
    alignment: usize,
) -> Result<Vec<u8>> {
    let args = fb::MessageArgs {
        version: fb::MetadataVersion::V5,
        header_type: kind,
        header: Some(header),
        bodyLength: signed(body_length)?,
        custom_metadata: None,
    };
    let message = fb::Message::create(&mut builder, &args);
    builder.finish(message, None);
    let metadata = builder.finished_data();
    let end = position + (FRAME_MAX + metadata.len()) as u64;
    let padding = end.next_multiple_of(alignment as u64) - end;
    let padding = usize::try_from(padding).unwrap_or(0);
    let length = i32::try_from(metadata.len() + padding).map_err(|_| Error::invalid_argument("the metadata of a message passes 2 GiB"))?;
    let mut out = [&CONTINUATION, &length.to_le_bytes(), metadata].concat();
    out.resize(out.len() + padding, 0);
    Ok(out)
}
