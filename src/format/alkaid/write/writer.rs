//! The writer: batches in, bytes out.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;

use super::dictionary::Dictionaries;
use super::encode::{Encoder, Parts};
use super::message::{self, Body, Header};
use super::options::WriterOptions;
use crate::format::alkaid::footer::{Block, Footer};
use crate::format::alkaid::frame::CONTINUATION;
use crate::format::alkaid::read::Form;
use crate::format::alkaid::schema::SchemaWriter;
use crate::format::alkaid::zones::{Zone, ordering_entry, rows_entry, zone_of, zones_entry};
use crate::format::array;
use crate::format::error::{Error, Result};
use crate::format::file::{FileWriter, Written};
use crate::format::parallel::in_parallel;
use crate::format::pending::Pending;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Rows.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Record batches.
    pub batches: usize,
}

/// Writes a file or stream: push batches of any size, take bytes.
///
/// Rows wait until they fill a record batch ([`WriterOptions::batch_rows`], or [`WriterOptions::batch_bytes`] where rows are large). Memory is bounded
/// by twice that, and by what has been written of dictionaries.
#[derive(Debug)]
pub struct Writer {
    schema: SchemaWriter,
    options: WriterOptions,
    dictionaries: Dictionaries,
    pending: Pending,
    dictionary_blocks: Vec<Block>,
    batch_blocks: Vec<Block>,
    batch_rows: Vec<u32>,
    /// Zones of each column.
    zones: Vec<Vec<Zone>>,
    rows: u64,
    out: Vec<Bytes>,
    position: u64,
    /// No rows come any more.
    is_ending: bool,
    /// A part of a batch may have been written: there is no file any more.
    failed: bool,
}

impl Writer {
    /// Begins a file or stream of this schema.
    pub fn new(schema: SchemaRef, options: WriterOptions) -> Result<Self> {
        options.validate()?;
        let columns = schema.fields().len();
        let mut writer = Self {
            dictionaries: Dictionaries::new(&schema, options.form),
            schema: SchemaWriter::new(schema, options.flavor)?,
            pending: Pending::default(),
            dictionary_blocks: Vec::new(),
            batch_blocks: Vec::new(),
            batch_rows: Vec::new(),
            zones: vec![Vec::new(); if options.statistics && options.form == Form::File { columns } else { 0 }],
            rows: 0,
            out: Vec::new(),
            position: 0,
            is_ending: false,
            failed: false,
            options,
        };
        if writer.options.form == Form::File {
            writer.put(Bytes::copy_from_slice(&writer.options.flavor.header()));
        }
        let schema = message::schema(&writer.schema, writer.position, writer.options.alignment)?;
        writer.put(schema.into());
        Ok(writer)
    }

    /// Adds rows. The batch's columns must have the types of the schema. After an error of rows that could not be encoded there is no more to push or to finish.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check_whole()?;
        self.check(batch)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.pending.push(batch.clone());
        while self.pending.rows() >= self.options.batch_rows {
            self.write_rows(self.options.batch_rows)?;
        }
        if self.pending.bytes() >= self.options.batch_bytes {
            self.write_rows(self.pending.rows())?;
        }
        Ok(())
    }

    /// Takes the bytes that are ready; they follow those taken before.
    pub fn take_bytes(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.out)
    }

    /// Bytes held in memory, those that can be taken aside.
    pub fn buffered_bytes(&self) -> usize {
        self.pending.bytes()
    }

    /// Ends the file and gives the bytes that have not been taken.
    pub fn finish(mut self) -> Result<(Vec<Bytes>, Summary)> {
        self.check_whole()?;
        self.is_ending = true;
        self.write_rows(self.pending.rows())?;
        self.put(Bytes::from([CONTINUATION, [0; 4]].concat()));
        if self.options.form == Form::File {
            let footer = Footer::write(&self.schema, &self.dictionary_blocks, &self.batch_blocks, &self.zone_map())?;
            self.put(footer.into());
        }
        let summary = Summary { rows: self.rows, bytes: self.position, batches: self.batch_blocks.len() };
        Ok((self.out, summary))
    }

    fn put(&mut self, bytes: Bytes) {
        self.position += bytes.len() as u64;
        self.out.push(bytes);
    }

    fn check_whole(&self) -> Result<()> {
        if self.failed { Err(Error::invalid_argument("an earlier error has left the file incomplete")) } else { Ok(()) }
    }

    fn check(&self, batch: &RecordBatch) -> Result<()> {
        let (have, want) = (batch.columns(), self.schema.schema().fields());
        if have.len() != want.len() {
            return Err(Error::invalid_argument(format!("a batch of {} columns for a file of {}", have.len(), want.len())));
        }
        for (have, want) in have.iter().zip(want) {
            if have.data_type() != want.data_type() {
                let message = format!("a batch has {} where the file has {}", have.data_type(), want.data_type());
                return Err(Error::invalid_argument(message).in_column(want.name()));
            }
            if !want.is_nullable() && have.null_count() > 0 && !want.data_type().is_null() {
                return Err(Error::invalid_argument("there is a null in a column that is not nullable").in_column(want.name()));
            }
        }
        Ok(())
    }

    /// Writes the first `rows` pending rows: as one record batch, or as several if they cannot be joined.
    fn write_rows(&mut self, rows: usize) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        self.failed = true;
        let batches = self.pending.take(rows);
        match joined(self.schema.schema(), &batches) {
            Some(batch) => {
                if self.is_ending && self.batch_blocks.is_empty() {
                    self.dictionaries.leave_out_unused();
                }
                self.write_batch(&batch)?;
            }
            None => batches.iter().try_for_each(|batch| self.write_batch(batch))?,
        }
        self.failed = false;
        Ok(())
    }

    fn write_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut encoder = Encoder { parts: Parts::default(), dictionaries: &mut self.dictionaries, id: 0 };
        let mut sizes = Vec::with_capacity(batch.num_columns());
        for (column, field) in batch.columns().iter().zip(self.schema.schema().fields()) {
            let before = encoder.parts.buffers.len();
            encoder.array(column).map_err(|error| error.in_column(field.name()))?;
            sizes.push(encoder.parts.buffers.iter().skip(before).map(|buffer| buffer.len() as u64).sum());
        }
        let parts = encoder.parts;
        for update in self.dictionaries.take_updates() {
            let header = Header::Dictionary { id: update.id, is_delta: update.is_delta };
            let block = self.write_message(header, update.rows, update.parts)?;
            self.dictionary_blocks.push(block);
        }
        let block = self.write_message(Header::Records, batch.num_rows(), parts)?;
        self.batch_blocks.push(block);
        self.batch_rows.push(u32::try_from(batch.num_rows()).map_err(|_| Error::invalid_argument("a batch has too many rows"))?);
        self.rows += batch.num_rows() as u64;
        for (zones, (column, bytes)) in self.zones.iter_mut().zip(batch.columns().iter().zip(sizes)) {
            zones.push(Zone { bytes: Some(bytes), ..zone_of(column)? });
        }
        Ok(())
    }

    fn write_message(&mut self, header: Header, rows: usize, mut parts: Parts) -> Result<Block> {
        let mut buffers = std::mem::take(&mut parts.buffers);
        if let Some(codec) = self.options.compression {
            let compress = |buffer: &mut Buffer| {
                *buffer = codec.compress(buffer, self.options.zstd_level)?.into();
                Ok(())
            };
            in_parallel(buffers.iter_mut().collect(), self.options.threads, compress)?;
        }
        let alignment = self.options.alignment;
        let body = Body::new(buffers, self.options.compression, alignment)?;
        let offset = self.position;
        let metadata = message::batch(header, rows, &parts, &body, offset, alignment)?;
        let block = Block { offset, metadata_length: metadata.len() as u64, body_length: body.length };
        self.put(metadata.into());
        for buffer in body.buffers {
            let padding = buffer.len().next_multiple_of(alignment) - buffer.len();
            if !buffer.is_empty() {
                self.put(Bytes::from_owner(Owned(buffer)));
            }
            if padding > 0 {
                self.put(Bytes::from_static(&PADDING).slice(..padding));
            }
        }
        Ok(block)
    }

    fn zone_map(&self) -> Vec<(String, String)> {
        if self.zones.is_empty() {
            return Vec::new();
        }
        let columns = self.zones.iter().enumerate().map(|(column, zones)| zones_entry(column, zones));
        let ordering = self.options.ordering.iter().map(|ordering| ordering_entry(&self.batch_blocks, ordering));
        std::iter::once(rows_entry(&self.batch_blocks, &self.batch_rows)).chain(ordering).chain(columns).collect()
    }
}

/// What stands between a buffer and the next.
static PADDING: [u8; 64] = [0; 64];

/// A buffer as bytes, without a copy.
struct Owned(Buffer);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl FileWriter for Writer {
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        Self::push(self, batch)
    }

    fn take_bytes(&mut self) -> Vec<Bytes> {
        Self::take_bytes(self)
    }

    fn buffered_bytes(&self) -> usize {
        Self::buffered_bytes(self)
    }

    fn finish(self: Box<Self>) -> Result<(Vec<Bytes>, Written)> {
        let (bytes, Summary { rows, bytes: length, .. }) = Self::finish(*self)?;
        Ok((bytes, Written { rows, bytes: length }))
    }
}

/// One batch of several; `None` if Arrow cannot make one.
fn joined(schema: &SchemaRef, batches: &[RecordBatch]) -> Option<RecordBatch> {
    let column = |index: usize| {
        let parts: Vec<ArrayRef> = batches.iter().map(|batch| Arc::clone(batch.column(index))).collect();
        array::joined(&parts).ok().flatten()
    };
    let columns = (0..schema.fields().len()).map(column).collect::<Option<Vec<_>>>()?;
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(SchemaRef::clone(schema), columns, &options).ok()
}
