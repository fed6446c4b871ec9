//! Reading the schema area.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use bytes::Bytes;

use super::types::{DICTIONARY_ORDERED, NULLABLE, TypeParts};
use super::wire::{SchemaEntry, SchemaHeader, SchemaNode, StringRef};
use super::{DEPTH_MAX, OWN_KEYS};
use crate::format::array::check_null;
use crate::format::error::{Error, Result};
use crate::format::scan::Section;
use crate::format::wire;

/// A generous guess at the bytes that Arrow needs for a field.
const FIELD_MEMORY: usize = 256;
/// With at most so many columns, and what is nested in them, the schema is kept.
const SMALL: usize = 2_000;

/// The schema of a file, read column by column.
///
/// Opening it checks, in one pass over the plain numbers of the nodes, that the nodes form a tree and share nothing. So whatever is built later is at
/// most proportional to the area's bytes. Names, types and metadata are read when they are asked for.
#[derive(Debug)]
pub struct SchemaArea {
    bytes: Bytes,
    field_count: usize,
    node_count: usize,
    entry_count: usize,
    schema_entry_count: usize,
    strings_length: usize,
    /// The schema that was built last. It is several times as large as the area: whoever has asked for it holds it, and shares it with whoever asks meanwhile.
    schema: Mutex<Weak<Schema>>,
    /// The same of few columns.
    small: OnceLock<SchemaRef>,
}

impl SchemaArea {
    /// Opens the schema area of a file of `field_count` columns.
    pub fn open(bytes: Bytes, field_count: u32) -> Result<Self> {
        Self::open_unplaced(bytes, field_count).map_err(|error| error.in_section(Section::Schema))
    }

    fn open_unplaced(bytes: Bytes, field_count: u32) -> Result<Self> {
        let header: SchemaHeader = *wire::read(&bytes, 0, "the schema header")?;
        if header.field_count.get() != field_count {
            return Err(Error::invalid_file(format!("the schema has {} columns, the footer says {field_count}", header.field_count)));
        }
        let area = Self {
            field_count: count(field_count)?,
            node_count: count(header.node_count.get())?,
            entry_count: count(header.entry_count.get())?,
            schema_entry_count: count(header.schema_entry_count.get())?,
            strings_length: usize::try_from(header.strings_length.get()).map_err(|_| Error::invalid_file("the schema's strings are too long"))?,
            schema: Mutex::default(),
            small: OnceLock::new(),
            bytes,
        };
        let text = simdutf8::basic::from_utf8(area.strings()?).map_err(|_| Error::invalid_file("a name or metadata of the schema is not UTF-8"))?;
        area.check_tree(text)?;
        Ok(area)
    }

    /// How many columns there are.
    pub fn field_count(&self) -> usize {
        self.field_count
    }

    /// The column `index`, at the cost of that column alone.
    pub fn field(&self, index: usize) -> Result<FieldRef> {
        if index >= self.field_count {
            return Err(Error::invalid_argument(format!("there is no column {index}, the file has {}", self.field_count)));
        }
        if let Some(field) = self.small.get().and_then(|schema| schema.fields().get(index)) {
            return Ok(Arc::clone(field));
        }
        let built = self.build_field(index, 1).and_then(|field| check_null(field.data_type()).map(|()| field));
        built.map_err(|error| {
            let error = error.in_section(Section::Schema);
            match self.name(index) {
                Some(name) => error.in_column(name),
                None => error,
            }
        })
    }

    /// The name of the column `index`, if there is one and it is UTF-8.
    pub fn name(&self, index: usize) -> Option<&str> {
        let node = self.columns().get(index)?;
        self.string(node.name).ok()
    }

    /// The first column of that name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        let strings = self.strings().ok()?;
        self.columns().iter().position(|node| node.name.length.get() as usize == name.len() && bytes_at(strings, node.name) == Some(name.as_bytes()))
    }

    /// The value of one of the format's own `fermion.` keys.
    pub fn property(&self, key: &str) -> Option<&str> {
        if !key.starts_with(OWN_KEYS) {
            return None;
        }
        let entries = self.entries().ok()?.get(..self.schema_entry_count)?;
        let entry = entries.iter().find(|entry| self.string(entry.key).is_ok_and(|found| found == key))?;
        self.string(entry.value).ok()
    }

    /// The whole schema, built unless somebody has it.
    pub fn arrow_schema(&self) -> Result<SchemaRef> {
        let mut known = self.schema.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(schema) = known.upgrade() {
            return Ok(schema);
        }
        let fields = (0..self.field_count).map(|index| self.field(index)).collect::<Result<Vec<_>>>()?;
        let metadata = self.metadata(0, self.schema_entry_count).map_err(|error| error.in_section(Section::Schema))?;
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        *known = Arc::downgrade(&schema);
        if self.is_small() {
            return Ok(Arc::clone(self.small.get_or_init(|| schema)));
        }
        Ok(schema)
    }

    /// The bytes of the area.
    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    fn is_small(&self) -> bool {
        self.node_count <= SMALL
    }

    /// Bytes in memory: the area, and the schema if it has been built and is kept.
    pub fn memory_size(&self) -> usize {
        self.bytes.len() + if self.small.get().is_some() { self.node_count * FIELD_MEMORY } else { 0 }
    }

    /// Refuses nodes that share children, metadata or strings, or that no column leads to: from a few bytes a graph could unfold without end.
    fn check_tree(&self, text: &str) -> Result<()> {
        let mut next_child = self.field_count;
        let mut next_entry = self.schema_entry_count;
        let mut strings_total = 0_u64;
        for (index, node) in self.nodes()?.iter().enumerate() {
            next_child = next_of(next_child, node.child_start.get(), node.child_count.get(), "children", index)?;
            next_entry = next_of(next_entry, node.entry_start.get(), node.entry_count.get(), "metadata", index)?;
            if node.child_count.get() > 0 && node.child_start.get() as usize <= index {
                return Err(Error::invalid_file(format!("schema node {index} is its own descendant")));
            }
            strings_total += u64::from(node.name.length.get());
            check_name(text, node.name)?;
            if node.parts(None).has_time_zone() {
                strings_total += u64::from(node.time_zone().length.get());
            }
        }
        for entry in self.entries()? {
            strings_total += u64::from(entry.key.length.get()) + u64::from(entry.value.length.get());
        }
        if next_child != self.node_count || next_entry != self.entry_count {
            return Err(Error::invalid_file("the schema has nodes or metadata that belong to no column"));
        }
        if strings_total > self.strings_length as u64 {
            return Err(Error::invalid_file(format!("the schema's strings add up to {strings_total} bytes, there are {}", self.strings_length)));
        }
        Ok(())
    }

    fn build_field(&self, index: usize, depth: usize) -> Result<FieldRef> {
        if depth > DEPTH_MAX {
            return Err(Error::invalid_file(format!("the type is nested more than {DEPTH_MAX} levels deep")));
        }
        let node = self.nodes()?.get(index).ok_or_else(|| Error::invalid_file(format!("there is no schema node {index}")))?;
        let child_start = node.child_start.get() as usize;
        let children = (child_start..child_start.saturating_add(node.child_count.get() as usize))
            .map(|child| Ok((self.tag(child), self.build_field(child, depth + 1)?)))
            .collect::<Result<Vec<_>>>()?;
        let mut parts = node.parts(None);
        if parts.has_time_zone() {
            parts.time_zone = Some(self.string(node.time_zone())?);
        }
        let flags = node.flags.get();
        let field = Field::new(self.string(node.name)?, parts.build(children)?, flags & NULLABLE != 0)
            .with_dict_is_ordered(flags & DICTIONARY_ORDERED != 0)
            .with_metadata(self.metadata(node.entry_start.get() as usize, node.entry_count.get() as usize)?);
        Ok(Arc::new(field))
    }

    fn tag(&self, index: usize) -> i32 {
        self.nodes().ok().and_then(|nodes| nodes.get(index)).map_or(0, |node| node.tag.get())
    }

    fn metadata(&self, start: usize, count: usize) -> Result<HashMap<String, String>> {
        let mut metadata = HashMap::new();
        for entry in self.entries()?.iter().skip(start).take(count) {
            let key = self.string(entry.key)?;
            if !key.starts_with(OWN_KEYS) {
                metadata.insert(key.to_owned(), self.string(entry.value)?.to_owned());
            }
        }
        Ok(metadata)
    }

    fn nodes(&self) -> Result<&[SchemaNode]> {
        wire::read_slice(&self.bytes, size_of::<SchemaHeader>(), self.node_count, "the schema's nodes")
    }

    fn columns(&self) -> &[SchemaNode] {
        self.nodes().ok().and_then(|nodes| nodes.get(..self.field_count)).unwrap_or_default()
    }

    fn entries(&self) -> Result<&[SchemaEntry]> {
        let start = self.node_count.saturating_mul(size_of::<SchemaNode>()).saturating_add(size_of::<SchemaHeader>());
        wire::read_slice(&self.bytes, start, self.entry_count, "the schema's metadata")
    }

    fn strings(&self) -> Result<&[u8]> {
        let nodes = self.node_count.saturating_mul(size_of::<SchemaNode>());
        let entries = self.entry_count.saturating_mul(size_of::<SchemaEntry>());
        let start = nodes.saturating_add(entries).saturating_add(size_of::<SchemaHeader>());
        wire::slice(&self.bytes, start, self.strings_length, "the schema's strings")
    }

    fn string(&self, place: StringRef) -> Result<&str> {
        let bytes = bytes_at(self.strings()?, place)
            .ok_or_else(|| Error::invalid_file(format!("a string of {} bytes at {} lies beyond the schema's strings", place.length, place.offset)))?;
        std::str::from_utf8(bytes).map_err(|_| Error::invalid_file("a name or metadata of the schema is not UTF-8"))
    }
}

impl SchemaNode {
    fn parts<'a>(&self, time_zone: Option<&'a str>) -> TypeParts<'a> {
        TypeParts { id: self.type_id.get(), flags: self.flags.get(), params: self.params.map(Into::into), time_zone }
    }

    /// Where the time zone is, if there is one.
    fn time_zone(&self) -> StringRef {
        let [offset, length] = self.params.map(|param| param.get().cast_unsigned().into());
        StringRef { offset, length }
    }
}

/// Ranges of children (and of metadata) follow each other exactly: `start` must be where the last range ended. An empty range stands anywhere.
fn next_of(expected: usize, start: u32, length: u32, what: &str, node: usize) -> Result<usize> {
    if length == 0 {
        return Ok(expected);
    }
    if start as usize != expected {
        return Err(Error::invalid_file(format!("the {what} of schema node {node} start at {start} instead of {expected}")));
    }
    expected.checked_add(length as usize).ok_or_else(|| Error::invalid_file(format!("schema node {node} has too much {what}")))
}

/// Refuses a name that cannot be read: who looks for a column by its name would take it, and those behind it, for missing.
fn check_name(text: &str, place: StringRef) -> Result<()> {
    match bytes_at(text.as_bytes(), place).map(std::str::from_utf8) {
        Some(Ok(_)) => Ok(()),
        Some(Err(_)) => Err(Error::invalid_file("a name of the schema begins or ends within a character")),
        None => Err(Error::invalid_file(format!("a name of {} bytes at {} lies beyond the schema's strings", place.length, place.offset))),
    }
}

fn bytes_at(strings: &[u8], place: StringRef) -> Option<&[u8]> {
    let start = place.offset.get() as usize;
    strings.get(start..start.checked_add(place.length.get() as usize)?)
}

fn count(number: u32) -> Result<usize> {
    usize::try_from(number).map_err(|_| Error::invalid_file("the schema is too large"))
}
