//! The footer of a file: its schema again, and where its messages are.

use std::collections::HashMap;

use arrow_ipc as fb;
use flatbuffers::FlatBufferBuilder;

use super::flat;
use super::magic::{Flavor, MAGIC_MAX};
use super::schema::{FileSchema, SchemaWriter};
use crate::format::error::{Error, Result};

/// Bytes of the footer's length and the longest magic behind it.
pub(super) const ENDING_MAX: usize = 4 + MAGIC_MAX;

/// Where a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) offset: u64,
    /// Bytes up to the body.
    pub(crate) metadata_length: u64,
    pub(crate) body_length: u64,
}

impl Block {
    /// Bytes of the whole message. They have been checked to lie within the file.
    pub(crate) fn length(&self) -> u64 {
        self.metadata_length + self.body_length
    }

    fn read(block: &fb::Block, end: u64) -> Result<Self> {
        let block = Self {
            offset: flat::unsigned(block.offset(), "the offset of a message")?,
            metadata_length: flat::unsigned(block.metaDataLength().into(), "the length of a message's metadata")?,
            body_length: flat::unsigned(block.bodyLength(), "the length of a message's body")?,
        };
        let length = block.metadata_length.checked_add(block.body_length);
        let is_within = length.and_then(|length| block.offset.checked_add(length)).is_some_and(|message_end| message_end <= end);
        if is_within {
            Ok(block)
        } else {
            Err(Error::invalid_file("the footer names a message that ends behind the footer's beginning").at(block.offset))
        }
    }
}

/// Refuses messages that overlap: one that is named a thousand times would take a thousand times its memory.
fn check_apart<'b>(blocks: impl Iterator<Item = &'b Block>) -> Result<()> {
    let mut ranges: Vec<(u64, u64)> = blocks.map(|block| (block.offset, block.offset + block.length())).collect();
    ranges.sort_unstable();
    match ranges.windows(2).find(|pair| pair[1].0 < pair[0].1) {
        Some(pair) => Err(Error::invalid_file("the footer names a message twice, or messages that overlap").at(pair[1].0)),
        None => Ok(()),
    }
}

/// The footer of a file.
#[derive(Debug)]
pub(crate) struct Footer {
    pub(crate) schema: FileSchema,
    pub(crate) dictionaries: Vec<Block>,
    pub(crate) batches: Vec<Block>,
    pub(crate) metadata: HashMap<String, String>,
}

impl Footer {
    /// The length of a footer that a file with this ending has, and whose it is. `None` if it is no such ending.
    pub(crate) fn ending(tail: &[u8]) -> Option<(Flavor, Result<u64>)> {
        let flavor = Flavor::of_tail(tail)?;
        let before = tail.get(..tail.len() - flavor.magic().len())?;
        let length = i32::from_le_bytes(*before.last_chunk::<4>()?);
        Some((flavor, flat::unsigned(length.into(), "the length of the footer")))
    }

    /// Reads a footer that begins at `offset` of the file.
    pub(crate) fn read(bytes: &[u8], offset: u64) -> Result<Self> {
        let footer = flat::footer(bytes)?;
        let schema = footer.schema().ok_or_else(|| Error::invalid_file("the footer has no schema"))?;
        let blocks = |list: Option<flatbuffers::Vector<'_, fb::Block>>| {
            list.into_iter().flatten().map(|block| Block::read(block, offset)).collect::<Result<Vec<_>>>()
        };
        let (dictionaries, batches) = (blocks(footer.dictionaries())?, blocks(footer.recordBatches())?);
        check_apart(dictionaries.iter().chain(&batches))?;
        Ok(Self { schema: FileSchema::read(&schema)?, dictionaries, batches, metadata: flat::key_values(footer.custom_metadata()).collect() })
    }

    /// The bytes of a footer, its length and the magic.
    pub(crate) fn write(schema: &SchemaWriter, dictionaries: &[Block], batches: &[Block], metadata: &[(String, String)]) -> Result<Vec<u8>> {
        let mut builder = FlatBufferBuilder::new();
        let schema_offset = schema.write(&mut builder);
        let dictionaries = builder.create_vector(&blocks(dictionaries)?);
        let batches = builder.create_vector(&blocks(batches)?);
        let pairs = metadata.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let metadata = schema.key_values(&mut builder, pairs);
        let args = fb::FooterArgs {
            version: fb::MetadataVersion::V5,
            schema: Some(schema_offset),
            dictionaries: Some(dictionaries),
            recordBatches: Some(batches),
            custom_metadata: metadata,
        };
        let footer = fb::Footer::create(&mut builder, &args);
        builder.finish(footer, None);
        let bytes = builder.finished_data();
        let length =
            i32::try_from(bytes.len()).map_err(|_| Error::invalid_argument("the footer passes 2 GiB; write fewer columns or larger batches"))?;
        Ok([bytes, &length.to_le_bytes(), schema.flavor().magic()].concat())
    }
}

fn blocks(blocks: &[Block]) -> Result<Vec<fb::Block>> {
    let signed = |value: u64| i64::try_from(value).map_err(|_| Error::invalid_argument("the file is too long"));
    let metadata = |value: u64| i32::try_from(value).map_err(|_| Error::invalid_argument("the metadata of a message passes 2 GiB"));
    blocks.iter().map(|block| Ok(fb::Block::new(signed(block.offset)?, metadata(block.metadata_length)?, signed(block.body_length)?))).collect()
}
