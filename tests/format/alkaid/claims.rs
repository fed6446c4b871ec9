//! Messages made by hand, of batches that may say of themselves what is not so.

use std::sync::Arc;

use arrow::datatypes::*;
use arrow_ipc as fb;
use bytes::Bytes;
use datafusion_fermion::format::alkaid::{Flavor, Form, WriterOptions};
use flatbuffers::FlatBufferBuilder;

use super::drive::write;

/// What a batch says of itself, to be lied about.
#[derive(Clone)]
pub(super) struct Claims {
    pub(super) rows: i64,
    pub(super) nodes: Vec<(i64, i64)>,
    pub(super) buffers: Vec<(i64, i64)>,
    pub(super) variadic: Vec<i64>,
    pub(super) body: Vec<u8>,
    pub(super) body_length: Option<i64>,
    pub(super) dictionary: Option<(i64, bool)>,
    pub(super) version: fb::MetadataVersion,
    pub(super) zstd: bool,
    pub(super) metadata: Vec<(&'static str, &'static str)>,
}

impl Default for Claims {
    fn default() -> Self {
        let version = fb::MetadataVersion::V5;
        Self {
            rows: 0,
            nodes: vec![],
            buffers: vec![],
            variadic: vec![],
            body: vec![],
            body_length: None,
            dictionary: None,
            version,
            zstd: false,
            metadata: vec![],
        }
    }
}

pub(super) fn framed(metadata: &[u8]) -> Vec<u8> {
    let length = metadata.len().next_multiple_of(8);
    let mut out = [&[0xff; 4], i32::try_from(length).unwrap().to_le_bytes().as_slice(), metadata].concat();
    out.resize(8 + length, 0);
    out
}

pub(super) fn message(claims: &Claims) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let nodes: Vec<_> = claims.nodes.iter().map(|(length, nulls)| fb::FieldNode::new(*length, *nulls)).collect();
    let nodes = builder.create_vector(&nodes);
    let buffers: Vec<_> = claims.buffers.iter().map(|(offset, length)| fb::Buffer::new(*offset, *length)).collect();
    let buffers = builder.create_vector(&buffers);
    let variadic = builder.create_vector(&claims.variadic);
    let compression = claims
        .zstd
        .then(|| fb::BodyCompression::create(&mut builder, &fb::BodyCompressionArgs { codec: fb::CompressionType::ZSTD, ..Default::default() }));
    let args =
        fb::RecordBatchArgs { length: claims.rows, nodes: Some(nodes), buffers: Some(buffers), compression, variadicBufferCounts: Some(variadic) };
    let records = fb::RecordBatch::create(&mut builder, &args);
    let (header_type, header) = match claims.dictionary {
        None => (fb::MessageHeader::RecordBatch, records.as_union_value()),
        Some((id, is_delta)) => {
            let args = fb::DictionaryBatchArgs { id, data: Some(records), isDelta: is_delta };
            (fb::MessageHeader::DictionaryBatch, fb::DictionaryBatch::create(&mut builder, &args).as_union_value())
        }
    };
    let pair = |builder: &mut FlatBufferBuilder<'static>, (key, value): &(&str, &str)| {
        let (key, value) = (builder.create_string(key), builder.create_string(value));
        fb::KeyValue::create(builder, &fb::KeyValueArgs { key: Some(key), value: Some(value) })
    };
    let metadata: Vec<_> = claims.metadata.iter().map(|text| pair(&mut builder, text)).collect();
    let custom_metadata = (!metadata.is_empty()).then(|| builder.create_vector(&metadata));
    let body_length = claims.body_length.unwrap_or_else(|| i64::try_from(claims.body.len()).unwrap());
    let args = fb::MessageArgs { version: claims.version, header_type, header: Some(header), bodyLength: body_length, custom_metadata };
    let message = fb::Message::create(&mut builder, &args);
    builder.finish(message, None);
    [framed(builder.finished_data()), claims.body.clone()].concat()
}

/// A stream of one column and these messages.
pub(super) fn stream(data_type: DataType, messages: &[Claims]) -> Bytes {
    stream_of(vec![data_type], messages)
}

/// A stream of columns and these messages.
pub(super) fn stream_of(data_types: Vec<DataType>, messages: &[Claims]) -> Bytes {
    let fields = data_types.into_iter().zip('a'..).map(|(data_type, name)| Field::new(name, data_type, true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = WriterOptions { form: Form::Stream, flavor: Flavor::Arrow, alignment: 8, ..Default::default() };
    let file = write(&schema, &[], options).unwrap();
    Bytes::from([file[..file.len() - 8].to_vec(), messages.iter().flat_map(message).collect()].concat())
}

pub(super) fn of_ints(values: &[i32]) -> Vec<u8> {
    let mut bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// Four numbers without nulls.
pub(super) fn ints() -> Claims {
    Claims { rows: 4, nodes: vec![(4, 0)], buffers: vec![(0, 0), (0, 16)], body: of_ints(&[1, 2, 3, 4]), ..Default::default() }
}
