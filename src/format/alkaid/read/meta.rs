//! The metadata of an open file or stream.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::{FieldRef, SchemaRef};
use bytes::Bytes;

use super::dictionaries::Epochs;
use super::messages::{LoadMessages, Which};
use super::{open, summary};
use crate::format::alkaid::batch::{BatchMeta, ColumnFacts, Kind};
use crate::format::alkaid::footer::{Block, Footer};
use crate::format::alkaid::frame::Frame;
use crate::format::alkaid::magic::Flavor;
use crate::format::alkaid::schema::{FileSchema, Shape};
use crate::format::alkaid::zones::{Zone, ZoneMap};
use crate::format::error::{Error, Result};
use crate::format::scan::{ColumnSummary, Section};

/// How messages follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// Between magics, with a footer that knows where they are.
    File,
    /// One behind the other, and nothing else.
    Stream,
}

/// A record batch: where it is, and how many rows it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Where its message begins.
    pub offset: u64,
    /// Bytes of its message.
    pub length: u64,
    /// Rows.
    pub rows: u64,
}

/// The metadata of an open file or stream, shared by all scans of it. It grows with the batches that are used.
#[derive(Debug)]
pub struct FileMeta {
    form: Form,
    flavor: Option<Flavor>,
    file_length: u64,
    schema: FileSchema,
    metadata: HashMap<String, String>,
    spans: Vec<Span>,
    row_count: u64,
    batches: Messages,
    dictionaries: Messages,
    epochs: OnceLock<Epochs>,
    zones: Option<ZoneMap>,
}

/// Messages of one kind, and the metadata of those that have been loaded.
#[derive(Debug, Default)]
pub(super) struct Messages {
    blocks: Vec<Block>,
    loaded: Vec<OnceLock<BatchMeta>>,
}

impl Messages {
    fn of_blocks(blocks: Vec<Block>) -> Self {
        Self { loaded: blocks.iter().map(|_| OnceLock::new()).collect(), blocks }
    }

    /// Adds one that is loaded.
    pub(super) fn push(&mut self, block: Block, meta: BatchMeta) {
        self.blocks.push(block);
        self.loaded.push(OnceLock::from(meta));
    }

    fn get(&self, index: usize) -> Option<&BatchMeta> {
        self.loaded.get(index)?.get()
    }

    /// Bytes in memory, once all are loaded.
    fn memory_size(&self) -> usize {
        let metadata: u64 = self.blocks.iter().map(|block| block.metadata_length).sum();
        let metadata = usize::try_from(metadata).unwrap_or(usize::MAX);
        metadata.saturating_add(self.blocks.len() * (size_of::<Block>() + size_of::<OnceLock<BatchMeta>>()))
    }
}

impl FileMeta {
    pub(super) fn of_file(mut footer: Footer, flavor: Flavor, file_length: u64) -> Result<Self> {
        let zones = ZoneMap::take(&mut footer.metadata, &footer.batches)?;
        let rows = |index: usize| zones.as_ref().and_then(|zones| zones.rows.get(index)).map_or(0, |rows| u64::from(*rows));
        let spans = footer.batches.iter().enumerate();
        let spans: Vec<Span> = spans.map(|(index, block)| Span { offset: block.offset, length: block.length(), rows: rows(index) }).collect();
        Ok(Self {
            form: Form::File,
            flavor: Some(flavor),
            file_length,
            schema: footer.schema,
            metadata: footer.metadata,
            row_count: spans.iter().map(|span| span.rows).sum(),
            spans,
            batches: Messages::of_blocks(footer.batches),
            dictionaries: Messages::of_blocks(footer.dictionaries),
            epochs: OnceLock::new(),
            zones,
        })
    }

    pub(super) fn of_stream(schema: FileSchema, file_length: u64, batches: Messages, dictionaries: Messages) -> Result<Self> {
        let spans = batches.blocks.iter().map(|block| Span { offset: block.offset, length: block.length(), rows: 0 }).collect();
        let meta = Self {
            form: Form::Stream,
            flavor: None,
            file_length,
            schema,
            metadata: HashMap::new(),
            spans,
            row_count: 0,
            batches,
            dictionaries,
            epochs: OnceLock::new(),
            zones: None,
        };
        meta.count_rows()
    }

    /// Whether the rows of batches are known without their metadata.
    pub(super) fn knows_rows(&self) -> bool {
        self.zones.is_some() || self.spans.is_empty()
    }

    /// Takes the rows of batches from their metadata, which is loaded.
    pub(super) fn count_rows(mut self) -> Result<Self> {
        for (index, span) in self.spans.iter_mut().enumerate() {
            span.rows = self.batches.get(index).map_or(0, |meta| meta.rows as u64);
        }
        let sum = self.spans.iter().try_fold(0_u64, |sum, span| sum.checked_add(span.rows));
        self.row_count = sum.ok_or_else(|| Error::invalid_file("the batches have more rows than can be counted"))?;
        Ok(self)
    }

    /// The whole schema. Keys of its metadata that are in Alkaid's namespace are known by Arrow's.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema.arrow)
    }

    /// The field of one column.
    pub fn field(&self, column: usize) -> Result<FieldRef> {
        let field = self.schema.arrow.fields().get(column).cloned();
        field.ok_or_else(|| Error::invalid_argument(format!("there is no column {column}; the file has {}", self.column_count())))
    }

    /// The first column of that name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.schema.arrow.fields().iter().position(|field| field.name() == name)
    }

    /// Rows of the file.
    pub fn row_count(&self) -> u64 {
        self.row_count
    }

    /// Columns of the file.
    pub fn column_count(&self) -> usize {
        self.schema.columns.len()
    }

    /// Record batches in the order of the file.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The record batches that begin in a range of the file, or all, without those that have no rows; and which rows of the file theirs are.
    pub fn parts(&self, range: Option<&Range<u64>>) -> Vec<(usize, Range<u64>)> {
        let mut end = 0;
        let batches = self.spans.iter().enumerate().map(|(index, span)| {
            let start = end;
            end += span.rows;
            (index, span.offset, start..end)
        });
        let wanted = |offset: u64| range.is_none_or(|range| range.contains(&offset));
        batches.filter(|(_, offset, rows)| !rows.is_empty() && wanted(*offset)).map(|(index, _, rows)| (index, rows)).collect()
    }

    /// Whether it is a file or a stream.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Whose magic the file has; a stream has none.
    pub fn flavor(&self) -> Option<Flavor> {
        self.flavor
    }

    /// Bytes of the file.
    pub fn file_length(&self) -> u64 {
        self.file_length
    }

    /// The footer's own metadata, the zone map aside.
    pub fn metadata(&self) -> &HashMap<String, String> {
        &self.metadata
    }

    /// The metadata of a record batch's message; `None` if it is not loaded.
    pub fn batch_metadata(&self, batch: usize) -> Result<Option<HashMap<String, String>>> {
        self.batches.get(batch).map(BatchMeta::custom_metadata).transpose()
    }

    /// The sort order of the rows, if the zone map says it.
    pub fn ordering(&self) -> Option<&str> {
        self.zones.as_ref()?.ordering.as_deref()
    }

    /// Whether the footer has a zone map.
    pub fn has_zone_map(&self) -> bool {
        self.zones.is_some()
    }

    /// Bytes in memory, once the metadata of all batches is loaded.
    pub fn memory_size(&self) -> usize {
        let fields: usize = self.schema.arrow.fields().iter().map(|field| field.size()).sum();
        let zones = self.zones.as_ref().map_or(0, ZoneMap::memory_size);
        // A field is there as Arrow knows it and as its shape.
        let known = size_of::<Self>() + 2 * fields + self.spans.len() * size_of::<Span>() + zones;
        // Without a zone map the nulls and bytes of every column are asked of every batch, which remembers them.
        let remembered =
            if self.zones.is_none() { self.spans.len().saturating_mul(self.column_count()).saturating_mul(size_of::<ColumnFacts>()) } else { 0 };
        known.saturating_add(remembered).saturating_add(self.batches.memory_size()).saturating_add(self.dictionaries.memory_size())
    }

    /// What is known about a column over the whole file.
    pub fn column_summary(&self, column: usize) -> Result<ColumnSummary> {
        let field = self.field(column)?;
        summary::of_column(self, column, field.data_type()).map_err(|error| error.in_column(field.name()))
    }

    /// Loads the metadata of these record batches, and of all dictionaries if they are wanted, as far as it is not loaded yet.
    pub fn load_messages(self: &Arc<Self>, batches: &[usize], dictionaries: bool) -> LoadMessages {
        let of_dictionaries = if dictionaries { self.dictionaries.blocks.len() } else { 0 };
        let messages = (0..of_dictionaries).map(Which::Dictionary).chain(batches.iter().copied().map(Which::Batch));
        LoadMessages::new(Arc::clone(self), messages.collect())
    }

    pub(super) fn all_messages(&self) -> Vec<Which> {
        open::all(self.dictionaries.blocks.len(), self.batches.blocks.len())
    }

    /// Where the metadata of a message is, unless it is loaded.
    pub(super) fn missing(&self, which: Which) -> Option<Range<u64>> {
        let (messages, index) = self.messages(which);
        let block = messages.blocks.get(index).filter(|_| messages.get(index).is_none())?;
        Some(block.offset..block.offset + block.metadata_length)
    }

    fn messages(&self, which: Which) -> (&Messages, usize) {
        match which {
            Which::Dictionary(index) => (&self.dictionaries, index),
            Which::Batch(index) => (&self.batches, index),
        }
    }

    /// Takes the metadata of a message out of its bytes. Of two threads that do so at once, the first wins.
    pub(super) fn insert(&self, which: Which, bytes: &Bytes) -> Result<()> {
        let (messages, index) = self.messages(which);
        let Some((block, slot)) = messages.blocks.get(index).zip(messages.loaded.get(index)) else {
            return Err(Error::invalid_argument("a message that the file does not have"));
        };
        let meta = self.read_message(which, block, bytes).map_err(|error| error.in_section(Section::Message).at(block.offset))?;
        let _ = slot.set(meta);
        Ok(())
    }

    fn read_message(&self, which: Which, block: &Block, bytes: &Bytes) -> Result<BatchMeta> {
        let frame = Frame::read(bytes)?;
        let Some(Frame::Message { skip, .. }) = frame else { return Err(Error::invalid_file("the footer names a message where there is none")) };
        let end = frame.map_or(0, Frame::metadata_end);
        let metadata = bytes.get(skip..end).ok_or_else(|| Error::invalid_file("the metadata of a message is longer than the footer says"))?;
        // Not a slice, which would keep all that was fetched with it in memory.
        let meta = BatchMeta::read(Bytes::copy_from_slice(metadata), block.offset + block.metadata_length)?;
        if meta.body.end - meta.body.start != block.body_length {
            return Err(Error::invalid_file(format!("the footer says that a body has {} bytes, its message another number", block.body_length)));
        }
        match (which, meta.kind) {
            (Which::Dictionary(_), Kind::Dictionary { .. }) => Ok(meta),
            (Which::Batch(index), Kind::Records) => self.check_rows(index, meta),
            _ => Err(Error::invalid_file("the footer takes a dictionary for a record batch or the other way round")),
        }
    }

    fn check_rows(&self, batch: usize, meta: BatchMeta) -> Result<BatchMeta> {
        match self.spans.get(batch) {
            Some(span) if self.zones.is_some() && span.rows != meta.rows as u64 => {
                Err(Error::invalid_file(format!("a batch of {} rows has {} in the zone map", meta.rows, span.rows)))
            }
            _ => Ok(meta),
        }
    }

    pub(super) fn shape(&self, column: usize) -> Result<&Shape> {
        let shape = self.schema.columns.get(column);
        shape.ok_or_else(|| Error::invalid_argument(format!("there is no column {column}; the file has {}", self.column_count())))
    }

    pub(super) fn file_schema(&self) -> &FileSchema {
        &self.schema
    }

    pub(super) fn batch(&self, batch: usize) -> Result<&BatchMeta> {
        self.batches.get(batch).ok_or_else(|| Error::invalid_argument("the metadata of a batch is not loaded"))
    }

    /// Whether it is a stream that defines some dictionary more than once.
    pub(super) fn replaces_dictionaries(&self) -> bool {
        self.form == Form::Stream && self.epochs().is_ok_and(Epochs::replace_any)
    }

    pub(super) fn dictionary(&self, message: usize) -> Result<&BatchMeta> {
        self.dictionaries.get(message).ok_or_else(|| Error::invalid_argument("the metadata of a dictionary is not loaded"))
    }

    /// Which messages dictionaries are made of. Their metadata is loaded.
    pub(super) fn epochs(&self) -> Result<&Epochs> {
        if let Some(epochs) = self.epochs.get() {
            return Ok(epochs);
        }
        let messages = (0..self.dictionaries.blocks.len()).map(|index| self.dictionary(index)).collect::<Result<Vec<_>>>()?;
        let epochs = Epochs::new(&messages, self.form)?;
        Ok(self.epochs.get_or_init(|| epochs))
    }

    /// The zones of a column, if it has any.
    pub(super) fn zones(&self, column: usize) -> Result<Option<Vec<Zone>>> {
        self.zones.as_ref().map_or(Ok(None), |zones| zones.column(column))
    }

    /// How many nulls a column has in a batch, if its metadata says and is loaded.
    pub(super) fn null_count(&self, column: usize, batch: usize) -> Result<Option<u64>> {
        let Some(meta) = self.batches.get(batch) else { return Ok(None) };
        let count = meta.null_count(&self.schema.positions, column).map_err(|error| self.in_message(error, batch))?;
        Ok(count.map(|count| count as u64))
    }

    /// Bytes of a column's buffers in a batch, if its metadata says and is loaded.
    pub(super) fn bytes(&self, column: usize, batch: usize) -> Result<Option<u64>> {
        let bytes = self.batches.get(batch).map_or(Ok(None), |meta| meta.bytes(&self.schema.positions, column));
        bytes.map_err(|error| self.in_message(error, batch))
    }

    fn in_message(&self, error: Error, batch: usize) -> Error {
        let error = error.in_section(Section::Message);
        match self.spans.get(batch) {
            Some(span) => error.at(span.offset),
            None => error,
        }
    }
}
