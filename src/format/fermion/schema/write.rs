//! Writing the schema area.

use std::collections::HashMap;

use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use super::types::{Child, DICTIONARY_ORDERED, NULLABLE, TypeParts, child_fields};
use super::wire::{SchemaEntry, SchemaHeader, SchemaNode, StringRef};
use super::{OWN_KEYS, SchemaArea};
use crate::format::error::{Error, Result};
use crate::format::wire::pad8;

/// The bytes of the schema area: the fields and metadata of `schema`, and the format's own `properties` (keys that start with `fermion.`).
///
/// What would not be read back as it is, is refused: a type that cannot be, nesting beyond [`DEPTH_MAX`](super::DEPTH_MAX), a metadata key of the format's own.
pub fn write_schema(schema: &Schema, properties: &[(&str, &str)]) -> Result<Vec<u8>> {
    let mut builder = Builder::default();
    for (key, value) in properties {
        if !key.starts_with(OWN_KEYS) {
            return Err(Error::invalid_argument(format!("the property {key:?} does not start with {OWN_KEYS:?}")));
        }
        builder.push_entry(key, value)?;
    }
    builder.push_entries(&schema.metadata)?;
    let schema_entry_count = u32_of(builder.entries.len())?;
    builder.push_nodes(schema.fields().iter().map(|field| Pending::of_field(field, 0)).collect())?;
    let field_count = u32_of(schema.fields().len())?;
    let bytes = builder.into_bytes(field_count, schema_entry_count)?;
    check_read_back(&bytes, field_count, schema)?;
    Ok(bytes)
}

/// The reader's checks are the only list of what a schema may be, so the writer asks the reader.
fn check_read_back(bytes: &[u8], field_count: u32, schema: &Schema) -> Result<()> {
    let read = SchemaArea::open(Bytes::copy_from_slice(bytes), field_count).and_then(|area| area.arrow_schema());
    match read {
        Ok(read) if *read == *schema => Ok(()),
        Ok(_) => Err(Error::invalid_argument(format!("the schema cannot be stored as it is; metadata keys must not start with {OWN_KEYS:?}"))),
        Err(error) => Err(Error::invalid_argument(format!("the schema cannot be stored: {error}"))),
    }
}

/// A node to be written.
#[derive(Debug, Clone, Copy)]
struct Pending<'a> {
    field: Option<&'a Field>,
    data_type: &'a DataType,
    tag: i32,
}

impl<'a> Pending<'a> {
    fn of_field(field: &'a Field, tag: i32) -> Self {
        Self { field: Some(field), data_type: field.data_type(), tag }
    }

    fn of_child(child: Child<'a>) -> Self {
        match child {
            Child::Field(tag, field) => Self::of_field(field, tag),
            Child::Type(data_type) => Self { field: None, data_type, tag: 0 },
        }
    }
}

#[derive(Debug, Default)]
struct Builder {
    nodes: Vec<SchemaNode>,
    entries: Vec<SchemaEntry>,
    strings: Vec<u8>,
}

impl Builder {
    /// Writes nodes breadth first: `queue` starts as the columns and grows by the children of each node.
    fn push_nodes(&mut self, mut queue: Vec<Pending<'_>>) -> Result<()> {
        let mut index = 0;
        while let Some(pending) = queue.get(index).copied() {
            let children = child_fields(pending.data_type);
            let child_start = if children.is_empty() { 0 } else { queue.len() };
            let child_count = children.len();
            queue.extend(children.into_iter().map(Pending::of_child));
            let node = self.node(pending, child_start, child_count)?;
            self.nodes.push(node);
            index += 1;
        }
        Ok(())
    }

    fn node(&mut self, pending: Pending<'_>, child_start: usize, child_count: usize) -> Result<SchemaNode> {
        let parts = TypeParts::of(pending.data_type)?;
        let mut params = parts.params.map(Into::into);
        if let Some(time_zone) = parts.time_zone {
            let place = self.push_string(time_zone)?;
            params = [place.offset, place.length].map(bits_of);
        }
        let mut flags = parts.flags;
        let mut name = "";
        let entry_start = self.entries.len();
        if let Some(field) = pending.field {
            name = field.name();
            flags |= if field.is_nullable() { NULLABLE } else { 0 };
            flags |= if field.dict_is_ordered() == Some(true) { DICTIONARY_ORDERED } else { 0 };
            self.push_entries(field.metadata())?;
        }
        let entry_count = self.entries.len() - entry_start;
        Ok(SchemaNode {
            name: self.push_string(name)?,
            child_start: u32_of(child_start)?.into(),
            child_count: u32_of(child_count)?.into(),
            entry_start: u32_of(if entry_count == 0 { 0 } else { entry_start })?.into(),
            entry_count: u32_of(entry_count)?.into(),
            type_id: parts.id.into(),
            flags: flags.into(),
            params,
            tag: pending.tag.into(),
        })
    }

    /// Metadata in the order of its keys, so that the same schema always gives the same bytes.
    fn push_entries(&mut self, metadata: &HashMap<String, String>) -> Result<()> {
        let mut sorted: Vec<_> = metadata.iter().collect();
        sorted.sort_unstable();
        sorted.into_iter().try_for_each(|(key, value)| self.push_entry(key, value))
    }

    fn push_entry(&mut self, key: &str, value: &str) -> Result<()> {
        let entry = SchemaEntry { key: self.push_string(key)?, value: self.push_string(value)? };
        self.entries.push(entry);
        Ok(())
    }

    fn push_string(&mut self, string: &str) -> Result<StringRef> {
        let place = StringRef { offset: u32_of(self.strings.len())?.into(), length: u32_of(string.len())?.into() };
        self.strings.extend_from_slice(string.as_bytes());
        Ok(place)
    }

    fn into_bytes(self, field_count: u32, schema_entry_count: u32) -> Result<Vec<u8>> {
        let header = SchemaHeader {
            field_count: field_count.into(),
            node_count: u32_of(self.nodes.len())?.into(),
            entry_count: u32_of(self.entries.len())?.into(),
            schema_entry_count: schema_entry_count.into(),
            strings_length: u64::from(u32_of(self.strings.len())?).into(),
            reserved: 0.into(),
        };
        let mut out = header.as_bytes().to_vec();
        out.extend_from_slice(self.nodes.as_bytes());
        out.extend_from_slice(self.entries.as_bytes());
        out.extend_from_slice(&self.strings);
        pad8(&mut out);
        Ok(out)
    }
}

/// A place in the pool stands in the fields of two signed parameters.
fn bits_of(number: U32) -> zerocopy::little_endian::I32 {
    number.get().cast_signed().into()
}

fn u32_of(number: usize) -> Result<u32> {
    u32::try_from(number).map_err(|_| Error::invalid_argument("the schema exceeds 4 GiB"))
}
