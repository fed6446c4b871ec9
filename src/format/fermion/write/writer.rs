//! The writer: batches in, bytes out.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, SchemaRef};
use bytes::Bytes;

use super::arena::Arena;
use super::batches::{BatchWriter, Next, Room};
use super::column::ColumnWriter;
use super::options::WriterOptions;
use super::rounds::{Round, encode_closed, encode_rounds};
use super::stream::PageSettings;
use super::tail::write_tail;
use crate::format::array::Ends;
use crate::format::error::{Error, Result};
use crate::format::fermion::footer::MAGIC;
use crate::format::fermion::stripes::Stripe;
use crate::format::file::{FileWriter, Written};
use crate::format::parallel::in_parallel;
use crate::format::pending::Pending;

/// Pages are cut at multiples of this many rows even where the buffer is small.
const BLOCK: usize = 1024;

/// Pages of each column that are encoded together, and bytes of rows that are enough for that: columns do not wait for each other at the end of each page.
const ROUNDS: usize = 4;
const BYTES_AT_ONCE: usize = 32 << 20;

/// Bytes of rows that may wait for each of many columns, on average, even if that is more than the buffer: with less, what is known of a page takes more than what is in it.
const COLUMN_BYTES: usize = 2 << 10;
const MANY_COLUMNS: usize = 1_000;

/// Raw bytes of a stripe for each column, at least: 32,768 values of eight bytes.
const STRIPE_COLUMN_BYTES: usize = 256 << 10;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Rows.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Stripes.
    pub stripes: usize,
}

/// Writes a file: push batches of any size, take bytes.
///
/// Rows wait until they fill some pages ([`WriterOptions::page_rows`], or [`WriterOptions::buffer_bytes`] where rows are large), are encoded, and wait
/// as pages until they fill a stripe. Memory is bounded by twice the first, for rows that wait are copied to be encoded, and the stripe's encoded
/// size; of stripes that are taken, nothing is held but their metadata and, for each column, 1 KiB that counts different values, the pieces that text of it is made of, and how its last
/// page was encoded.
#[derive(Debug)]
pub struct Writer {
    schema: SchemaRef,
    options: WriterOptions,
    columns: Vec<ColumnWriter>,
    /// Of a file of batches.
    batches: Option<BatchWriter>,
    pending: Pending,
    arena: Arena,
    stripe_rows: usize,
    /// Raw bytes of these rows.
    stripe_raw_bytes: usize,
    stripes: Vec<Stripe>,
    out: Vec<Bytes>,
    position: u64,
    /// Some columns have rows that others do not: there is no file any more.
    failed: bool,
}

/// Rows that are encoded together, a page of each column or several.
#[derive(Default)]
struct Together<'a> {
    rounds: Vec<Round<'a>>,
    rows: usize,
    /// Raw bytes of all of them, and of the last page.
    bytes: usize,
    last_bytes: usize,
}

impl<'a> Together<'a> {
    /// Takes a page more, of the first `rows` rows that wait.
    fn take(&mut self, pending: &mut Pending, rows: usize, ends: Option<&'a Ends>) {
        let before = (pending.rows(), pending.bytes());
        self.rounds.push(Round { batches: pending.take(rows), ends });
        self.rows += before.0 - pending.rows();
        self.last_bytes = before.1.saturating_sub(pending.bytes());
        self.bytes = self.bytes.saturating_add(self.last_bytes);
    }
}

impl Writer {
    /// Begins a file of this schema.
    pub fn new(schema: SchemaRef, options: WriterOptions) -> Result<Self> {
        options.validate()?;
        options.check_filters(&schema)?;
        options.check_names(&schema)?;
        let batches = options.batches.then(|| BatchWriter::new(PageSettings::new(&options, false)));
        let settings = [false, true].map(|has_filter| Arc::new(PageSettings::new(&options, has_filter)));
        let [plain, filtered] = &settings;
        let column = |field: &FieldRef| {
            let settings = if options.has_filter(field.name()) { filtered } else { plain };
            ColumnWriter::new(Arc::clone(field), Arc::clone(settings))
        };
        let columns = schema.fields().iter().map(column).collect();
        Ok(Self {
            pending: Pending::joining(&schema),
            schema,
            options,
            columns,
            batches,
            arena: Arena::default(),
            stripe_rows: 0,
            stripe_raw_bytes: 0,
            stripes: Vec::new(),
            out: vec![Bytes::from_static(&MAGIC)],
            position: MAGIC.len() as u64,
            failed: false,
        })
    }

    /// Adds rows. The batch's columns must have the types of the schema. After an error of rows that could not be encoded there is no more to push or to finish.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.batches.is_some() {
            return Err(Error::invalid_argument("the rows of this file come in batches: append batches"));
        }
        self.add(batch)?;
        while self.has_much() {
            self.encode_pages(false)?;
        }
        if self.pending.bytes() >= self.buffer_bytes() {
            let whole = self.pending.rows() - self.pending.rows() % BLOCK;
            self.encode_rows(if whole > 0 { whole } else { self.pending.rows() }, None)?;
        }
        Ok(())
    }

    /// Adds rows as a batch to a file of batches ([`WriterOptions::batches`]): none of its columns is split over pages. Without an id, the batch gets one more
    /// than the greatest before.
    pub fn append_batch(&mut self, id: Option<i64>, batch: &RecordBatch) -> Result<()> {
        self.check_whole()?;
        self.check(batch)?;
        self.batches()?.push(id, batch.num_rows())?;
        self.pending.push(batch.clone());
        self.encode_much()
    }

    fn batches(&mut self) -> Result<&mut BatchWriter> {
        let missing = || Error::invalid_argument("a file whose rows come in batches is written with the option for it, WriterOptions::batches");
        self.batches.as_mut().ok_or_else(missing)
    }

    /// Adds rows, of which it is said later where their batches end ([`Self::end_batch`]); then what is a page can be encoded ([`Self::encode_much`]).
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check_whole()?;
        self.check(batch)?;
        if batch.num_rows() > 0 {
            self.pending.push(batch.clone());
        }
        Ok(())
    }

    /// Makes a batch of the first `rows` rows that belong to none yet.
    pub(super) fn end_batch(&mut self, id: Option<i64>, rows: usize) -> Result<()> {
        // Rows that are no batch cannot be written.
        self.batches()?.push(id, rows).inspect_err(|_| self.failed = true)
    }

    /// The greatest id of the batches so far.
    pub(super) fn greatest_batch_id(&self) -> Option<i64> {
        self.batches.as_ref().and_then(BatchWriter::greatest_id)
    }

    /// Encodes batches if they are a page, or too much to wait for one.
    pub(super) fn encode_much(&mut self) -> Result<()> {
        let is_too_much = self.pending.bytes() >= self.buffer_bytes();
        let is_page = self.batches()?.waiting_rows() >= self.options.page_rows;
        if is_page || is_too_much { self.encode_batches(is_too_much) } else { Ok(()) }
    }

    /// Encodes pages of whole batches, all of them or as long as pages are full.
    fn encode_batches(&mut self, flush: bool) -> Result<()> {
        loop {
            let Some(batches) = &mut self.batches else { return Ok(()) };
            let stripe = self.options.stripe_rows.saturating_sub(self.stripe_rows);
            match batches.next(Room { page: self.options.page_rows, stripe, is_empty: self.stripe_rows == 0, flush }) {
                Next::Wait => return Ok(()),
                Next::EndStripe => self.end_stripe()?,
                Next::Encode(ends) => self.encode_rows(ends.last().copied().unwrap_or(0), Some(&ends))?,
            }
        }
    }

    /// Takes the bytes that are ready; they follow those taken before.
    pub fn take_bytes(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.out)
    }

    /// Bytes held in memory, those that can be taken aside.
    pub fn buffered_bytes(&self) -> usize {
        self.pending.bytes() + self.stripe_bytes() + self.columns.iter().map(ColumnWriter::kept_bytes).sum::<usize>()
    }

    /// Ends the file and gives the bytes that have not been taken.
    pub fn finish(mut self) -> Result<(Vec<Bytes>, Summary)> {
        self.check_whole()?;
        match &self.batches {
            None => {
                while self.pending.rows() > 0 {
                    self.encode_pages(true)?;
                }
            }
            Some(_) => self.encode_batches(true)?,
        }
        if self.pending.rows() > 0 {
            return Err(Error::invalid_argument("there are rows that belong to no batch"));
        }
        self.end_stripe()?;
        let columns = std::mem::take(&mut self.columns);
        let tail = write_tail(&self.schema, columns, self.batches.as_ref(), &self.stripes, self.position, &self.options)?;
        self.position += tail.iter().map(|piece| piece.len() as u64).sum::<u64>();
        self.out.extend(tail);
        let rows = self.stripes.iter().map(|stripe| u64::from(stripe.rows)).sum();
        Ok((self.out, Summary { rows, bytes: self.position, stripes: self.stripes.len() }))
    }

    fn check_whole(&self) -> Result<()> {
        if self.failed { Err(Error::invalid_argument("an earlier error has left the file incomplete")) } else { Ok(()) }
    }

    fn check(&self, batch: &RecordBatch) -> Result<()> {
        let schema = batch.schema_ref();
        if schema.fields().len() != self.schema.fields().len() {
            let (have, want) = (schema.fields().len(), self.schema.fields().len());
            return Err(Error::invalid_argument(format!("a batch of {have} columns for a file of {want}")));
        }
        for (have, want) in batch.columns().iter().zip(self.schema.fields()) {
            if have.data_type() != want.data_type() {
                let message = format!("a batch has {} where the file has {}", have.data_type(), want.data_type());
                return Err(Error::invalid_argument(message).in_column(want.name()));
            }
        }
        Ok(())
    }

    /// Whether there are rows for as many pages as are encoded together, or for the end of the stripe.
    fn has_much(&self) -> bool {
        let page = self.options.page_rows;
        let enough = if self.pending.bytes() >= BYTES_AT_ONCE { page } else { page.saturating_mul(ROUNDS) };
        self.pending.rows() >= enough.min(self.options.stripe_rows - self.stripe_rows).max(1)
    }

    /// Encodes as many pages of what waits as are encoded together; at the end of the file the last of them may have fewer rows.
    fn encode_pages(&mut self, is_end: bool) -> Result<()> {
        let mut together = Together::default();
        while together.rounds.len() < ROUNDS && together.bytes < BYTES_AT_ONCE && !self.is_large(&together) {
            let page = self.options.page_rows.min(self.options.stripe_rows - self.stripe_rows - together.rows);
            let rows = self.pending.rows();
            if page == 0 || rows == 0 || rows < page && !is_end {
                break;
            }
            together.take(&mut self.pending, page, None);
        }
        self.encode_rounds(together)
    }

    /// Bytes of rows that may wait.
    fn buffer_bytes(&self) -> usize {
        let least = if self.columns.len() > MANY_COLUMNS { self.columns.len().saturating_mul(COLUMN_BYTES) } else { 0 };
        self.options.buffer_bytes.max(least)
    }

    /// What the stripe takes in memory: pages, and dictionaries that grow.
    fn stripe_bytes(&self) -> usize {
        self.columns.iter().map(|column| column.encoded_bytes() + column.growing_bytes()).sum()
    }

    /// Encodes the first `rows` pending rows, which are batches that end at `ends` if they come in batches, as one page of each column.
    fn encode_rows(&mut self, rows: usize, ends: Option<&Ends>) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let mut together = Together::default();
        together.take(&mut self.pending, rows, ends);
        self.encode_rounds(together)
    }

    /// Encodes rows, and ends the stripe if that fills it.
    fn encode_rounds(&mut self, together: Together<'_>) -> Result<()> {
        self.failed = true;
        encode_rounds(&mut self.columns, &together.rounds, self.options.threads, &mut self.arena)?;
        let is_large = self.is_large(&together);
        self.stripe_rows += together.rows;
        self.stripe_raw_bytes = self.stripe_raw_bytes.saturating_add(together.bytes);
        // Before the stripe is written, which takes memory, too.
        drop(together);
        if is_large || self.stripe_rows >= self.options.stripe_rows || self.stripe_bytes() >= self.options.stripe_bytes {
            self.end_stripe()?;
        }
        self.failed = false;
        Ok(())
    }

    /// Whether the stripe ends behind these rows: another page like the last of them would take it farther from the raw bytes that it is to have.
    fn is_large(&self, together: &Together<'_>) -> bool {
        let raw_bytes = self.options.stripe_raw_bytes.max(self.columns.len().saturating_mul(STRIPE_COLUMN_BYTES));
        self.stripe_raw_bytes.saturating_add(together.bytes).saturating_add(together.last_bytes / 2) >= raw_bytes
    }

    fn end_stripe(&mut self) -> Result<()> {
        if self.stripe_rows == 0 {
            return Ok(());
        }
        let failed = std::mem::replace(&mut self.failed, true);
        let (mut offset, first) = (self.position, self.out.len());
        let rows = u32::try_from(self.stripe_rows).map_err(|_| Error::invalid_argument("a stripe has too many rows"))?;
        in_parallel(self.columns.iter_mut().collect(), self.options.threads, ColumnWriter::close_stripe)?;
        encode_closed(&mut self.columns, self.options.threads, &mut self.arena)?;
        if let Some(batches) = &mut self.batches {
            batches.finish_stripe(&mut self.position, &mut self.out)?;
        }
        for column in &mut self.columns {
            column.finish_stripe(rows, &mut self.position, &mut self.out)?;
        }
        for column in &mut self.columns {
            column.write_filters(&mut self.position, &mut self.out)?;
        }
        let padding = padding(offset, self.position - offset, self.options.stripe_alignment);
        if padding > 0 {
            self.columns.iter_mut().for_each(|column| column.move_last_stripe(padding));
            self.batches.iter_mut().for_each(|batches| batches.move_last_stripe(padding));
            self.out.splice(first..first, zeros(padding)?);
            offset += padding;
            self.position += padding;
        }
        self.stripes.push(Stripe { offset, length: self.position - offset, rows });
        (self.stripe_rows, self.stripe_raw_bytes) = (0, 0);
        self.failed = failed;
        Ok(())
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

/// Bytes to leave out before a stripe of so many bytes, so that it lies in no more blocks than it has to.
fn padding(offset: u64, length: u64, block: u64) -> u64 {
    let Some(into) = offset.checked_rem(block) else { return 0 };
    // A stripe of nothing but nulls lies in no block.
    let is_better = length > 0 && (into + length).div_ceil(block) > length.div_ceil(block);
    if is_better { block - into } else { 0 }
}

/// So many zeros, in pieces that share their memory.
fn zeros(count: u64) -> Result<Vec<Bytes>> {
    let count = usize::try_from(count).map_err(|_| Error::invalid_argument("stripe_alignment is more than memory"))?;
    let piece = Bytes::from(vec![0; count.min(1 << 20)]);
    Ok((0..count).step_by(1 << 20).map(|start| piece.slice(..piece.len().min(count - start))).collect())
}
