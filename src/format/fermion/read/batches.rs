//! The columns that follow from the batches of a stripe: to which one a row belongs, and which one of it the row is.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array};
use arrow::buffer::{Buffer, ScalarBuffer};

use super::pages::{Expect, LoadedPage, LoadedStream, load_stream};
use super::plan::BatchPlan;
use crate::format::array::{Ranges, slots};
use crate::format::codec::{Decoded, PType};
use crate::format::error::{Error, Result};
use crate::format::fermion::batches::{BatchColumn, ID_STREAM, LENGTH_STREAM, STRIPE_BATCHES_MAX};
use crate::format::requests::Fetched;
use crate::format::scan::{Coded, CodedPart, Section};

/// The batches of a stripe as they are stored.
#[derive(Debug)]
pub(super) struct LoadedBatches {
    column: BatchColumn,
    /// Rows of the stripe.
    rows: u32,
    streams: Vec<LoadedStream>,
    checksums: bool,
    batches: OnceCell<Batches>,
}

/// The batches of a stripe.
#[derive(Debug)]
struct Batches {
    /// The row behind each, which is where the next one begins.
    ends: Vec<u32>,
    /// Their ids, where those are wanted.
    ids: Int64Array,
}

impl LoadedBatches {
    pub(super) fn new(plan: BatchPlan, fetched: &Fetched, checksums: bool) -> Result<Self> {
        let BatchPlan { column, rows, streams } = plan;
        let streams = streams.into_iter().map(|plan| load_stream(plan, fetched, false)).collect::<Result<_>>();
        let streams = streams.map_err(|error| error.in_section(Section::Data).in_column(column.name()))?;
        Ok(Self { column, rows, streams, checksums, batches: OnceCell::new() })
    }

    /// The rows of these ranges.
    pub(super) fn read(&self, ranges: &Ranges) -> Result<ArrayRef> {
        let batches = self.batches()?;
        Ok(match self.column {
            BatchColumn::Id => Arc::new(Int64Array::from(batches.spread(ranges, |batch, _, _| batches.ids.values().get(batch).copied())?)),
            BatchColumn::Index => Arc::new(Int32Array::from(batches.spread(ranges, |_, start, row| i32::try_from(row.checked_sub(start)?).ok())?)),
        })
    }

    /// The rows of these ranges as codes of ids, if those of the stripe are no more than `most` for so many rows.
    pub(super) fn coded(&self, ranges: &Ranges, most: usize) -> Result<Option<Coded>> {
        let batches = self.batches()?;
        let is_too_many = batches.ends.len().saturating_mul(slots(ranges)) > most.saturating_mul(self.rows as usize);
        if self.column != BatchColumn::Id || is_too_many {
            return Ok(None);
        }
        let codes = batches.spread(ranges, |batch, _, _| u32::try_from(batch).ok())?;
        // The same for all rows of the stripe.
        let part = CodedPart { page: 0, values: Arc::new(batches.ids.clone()), codes: codes.into() };
        Ok(Some(Coded { parts: vec![part], nulls: None }))
    }

    fn batches(&self) -> Result<&Batches> {
        if let Some(batches) = self.batches.get() {
            return Ok(batches);
        }
        let batches = self.decode().map_err(|error| error.in_section(Section::Data).in_column(self.column.name()))?;
        Ok(self.batches.get_or_init(|| batches))
    }

    fn decode(&self) -> Result<Batches> {
        let lengths = self.numbers(LENGTH_STREAM, PType::U32)?;
        let mut ends = Vec::with_capacity(lengths.len() / size_of::<u32>());
        let mut end = 0_u32;
        for length in lengths.typed_data::<u32>() {
            end = end.checked_add(*length).filter(|end| *length > 0 && *end <= self.rows).ok_or_else(|| self.miscounted())?;
            ends.push(end);
        }
        if end != self.rows {
            return Err(self.miscounted());
        }
        let ids = match self.column {
            BatchColumn::Id => self.numbers(ID_STREAM, PType::I64)?,
            BatchColumn::Index => Buffer::default(),
        };
        let ids = Int64Array::new(ScalarBuffer::from(ids), None);
        if self.column == BatchColumn::Id && ids.values().len() != ends.len() {
            return Err(Error::invalid_file(format!("{} batches have {} ids", ends.len(), ids.values().len())));
        }
        Ok(Batches { ends, ids })
    }

    fn miscounted(&self) -> Error {
        Error::invalid_file(format!("the lengths of the batches do not add up to the {} rows of the stripe, or one is 0", self.rows))
    }

    /// All of a stream.
    fn numbers(&self, stream: usize, ptype: PType) -> Result<Buffer> {
        let Some(LoadedStream::Pages(pages)) = self.streams.get(stream) else {
            return Err(Error::invalid_file(format!("stream {stream} of the batches is missing")));
        };
        let count = pages.pages().last().map_or(0, LoadedPage::end);
        if count > STRIPE_BATCHES_MAX {
            return Err(Error::invalid_file(format!("{count} batches in a stripe, which has {STRIPE_BATCHES_MAX} at most")));
        }
        let expect = Expect { ptype, text: false, extra: 0, checksums: self.checksums, are_rows: false };
        match pages.decode(&expect, &[0..count])? {
            Decoded::Fixed(numbers) => Ok(numbers),
            _ => Err(Error::invalid_file("ids and lengths of batches are not stored as numbers")),
        }
    }
}

impl Batches {
    /// A value for each row, of its batch's index and first row, and the row.
    fn spread<T: Copy>(&self, ranges: &Ranges, value: impl Fn(usize, u32, u32) -> Option<T>) -> Result<Vec<T>> {
        let mut out = Vec::with_capacity(slots(ranges));
        for range in ranges {
            self.spread_range(range, &value, &mut out).ok_or_else(|| Error::invalid_file(format!("no batches have the rows {range:?}")))?;
        }
        Ok(out)
    }

    fn spread_range<T: Copy>(&self, range: &Range<usize>, value: &impl Fn(usize, u32, u32) -> Option<T>, out: &mut Vec<T>) -> Option<()> {
        let (mut row, end) = (u32::try_from(range.start).ok()?, u32::try_from(range.end).ok()?);
        let mut batch = self.ends.partition_point(|end| *end <= row);
        let mut start = batch.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        while row < end {
            let batch_end = *self.ends.get(batch)?;
            for row in row..batch_end.min(end) {
                out.push(value(batch, start, row)?);
            }
            (row, start) = (batch_end, batch_end);
            batch += 1;
        }
        Some(())
    }
}
