//! Batches out of loaded rows: decoded, filtered, projected.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::BatchCoalescer;
use arrow::datatypes::{DataType, Schema};
use datafusion::error::Result;
use datafusion::physical_plan::metrics::Time;

use super::file::BatchProjector;
use super::filter::MorselFilter;
use super::io::ObjectReader;
use super::rows::RowNumbers;
use super::selection::{Fault, kept_rows};
use crate::format::rows::Rows;
use crate::format::scan::Morsel;

/// Decodes the loaded rows of one stripe.
#[derive(Debug)]
pub(super) struct BatchDecoder {
    pub(super) morsel: Box<dyn Morsel>,
    pub(super) rows: Option<RowNumbers>,
    pub(super) projector: Arc<BatchProjector>,
    pub(super) reader: ObjectReader,
    pub(super) time: Time,
    pub(super) filter: Option<FilteredOutput>,
}

impl BatchDecoder {
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        let batch = match self.filter.take() {
            None => self.next_of_all()?,
            Some(mut output) => {
                let batch = self.next_of_passed(&mut output);
                self.filter = Some(output);
                batch?
            }
        };
        batch.map(|batch| self.projector.project(&batch)).transpose()
    }

    fn next_of_all(&mut self) -> Result<Option<RecordBatch>> {
        let timer = self.time.timer();
        let batch = self.morsel.next_batch().map_err(|error| self.reader.fault(error))?;
        drop(timer);
        let Some(batch) = batch else {
            return Ok(None);
        };
        let rows = self.row_numbers(batch.num_rows())?;
        self.projector.input(batch, rows).map(Some)
    }

    fn next_of_passed(&mut self, output: &mut FilteredOutput) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = output.pop() {
                return Ok(Some(batch));
            }
            let rows = self.morsel.next_rows();
            if rows.is_empty() {
                return output.finish();
            }
            let time = self.time.clone();
            let passed = {
                let _timer = time.timer();
                self.passed(&mut output.filter, &rows)
            };
            match passed {
                Ok(None) => {}
                Ok(Some((batch, mask))) => output.push(batch, mask)?,
                Err(Fault::Format(error)) if error.is_splittable() && rows.len() > 1 => self.morsel.split(rows),
                Err(Fault::Format(error)) => return Err(self.reader.fault(error)),
                Err(Fault::Engine(error)) => return Err(error),
            }
        }
    }

    /// The columns of the projection, and which of their rows pass if not all.
    fn passed(&mut self, filter: &mut MorselFilter, rows: &Rows) -> Result<Option<(RecordBatch, Option<BooleanArray>)>, Fault> {
        let mut selection = filter.select(self.morsel.as_ref(), rows)?;
        if selection.count == 0 {
            filter.count(0, rows.len());
            self.row_numbers(rows.len())?;
            return Ok(None);
        }
        let batch = selection.batch(self.morsel.as_ref(), &self.projector.columns, &self.projector.file_schema)?;
        filter.count(selection.count, rows.len() - selection.count);
        let numbers = self.row_numbers(rows.len())?.map(|numbers| selection.shorten(numbers)).transpose()?;
        Ok(Some((self.projector.input(batch, numbers)?, selection.mask())))
    }

    fn row_numbers(&mut self, count: usize) -> Result<Option<ArrayRef>> {
        self.rows.as_mut().map(|rows| Ok(Arc::new(rows.next(count)?) as ArrayRef)).transpose()
    }
}

/// What passes a filter, in batches that are worth their overhead.
#[derive(Debug)]
pub(super) struct FilteredOutput {
    filter: MorselFilter,
    /// Joins small batches, where arrays of all types can be joined.
    coalescer: Option<BatchCoalescer>,
    /// A batch that goes out as it is.
    ready: Option<RecordBatch>,
}

impl FilteredOutput {
    pub(super) fn new(filter: MorselFilter, projector: &BatchProjector, batch_rows: usize) -> Self {
        let schema = &projector.input;
        let coalescer = (!schema.fields().is_empty() && can_be_joined(schema))
            .then(|| BatchCoalescer::new(Arc::clone(schema), batch_rows).with_biggest_coalesce_batch_size(Some(batch_rows / 2)));
        Self { filter, coalescer, ready: None }
    }

    fn push(&mut self, batch: RecordBatch, mask: Option<BooleanArray>) -> Result<()> {
        match (&mut self.coalescer, mask) {
            (Some(coalescer), Some(mask)) => coalescer.push_batch_with_filter(batch, &mask)?,
            (Some(coalescer), None) => coalescer.push_batch(batch)?,
            (None, Some(mask)) => self.ready = Some(kept_rows(&batch, mask.values())?),
            (None, None) => self.ready = Some(batch),
        }
        Ok(())
    }

    fn pop(&mut self) -> Option<RecordBatch> {
        self.ready.take().or_else(|| self.coalescer.as_mut()?.next_completed_batch())
    }

    /// The last batch, if there is one.
    fn finish(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(coalescer) = &mut self.coalescer {
            coalescer.finish_buffered_batch()?;
        }
        Ok(self.pop())
    }
}

/// Whether no array can be too much for its type when it is joined to another, as dictionaries can for their keys and lists for their offsets.
fn can_be_joined(schema: &Schema) -> bool {
    schema.fields().iter().all(|field| match field.data_type() {
        DataType::Utf8 | DataType::Binary | DataType::FixedSizeBinary(0) | DataType::Dictionary(..) | DataType::RunEndEncoded(..) => false,
        data_type => !data_type.is_nested(),
    })
}
