//! Batches out of loaded rows: decoded, filtered, projected.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::BatchCoalescer;
use arrow::datatypes::{DataType, Schema};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::metrics::Time;
use futures::StreamExt;
use futures::stream::{self, BoxStream};

use super::at_hand::{AtHand, Missing};
use super::codes_of::CodeReader;
use super::file::BatchProjector;
use super::filter::MorselFilter;
use super::io::ObjectReader;
use super::rows::numbers;
use super::selection::{Fault, kept_rows};
use crate::format::Error;
use crate::format::array::taken;
use crate::format::rows::Rows;
use crate::format::scan::Morsel;

/// Decodes the rows of one stripe.
#[derive(Debug)]
pub(super) struct BatchDecoder {
    pub(super) morsel: AtHand,
    /// Rows that were taken, and could not be read before something else is.
    pub(super) taken: Option<Rows>,
    pub(super) projector: Arc<BatchProjector>,
    pub(super) codes: CodeReader,
    pub(super) reader: ObjectReader,
    pub(super) time: Time,
    pub(super) filter: Option<FilteredOutput>,
    /// The last row of each batch comes first, as its batches do.
    pub(super) backwards: bool,
}

/// What a decoder has.
pub(super) enum Next {
    Batch(RecordBatch),
    /// Nothing until this has been read and [given](AtHand::give) to it.
    Waits(Missing),
    /// Nothing of many rows.
    Nothing,
    End,
}

/// After so many rows without one that passes others on the same thread, and whoever ends the query, get a turn.
const FRUITLESS: usize = 512 << 10;

/// The rows of so many batches are filtered at once where few of them pass. What is read at once need not be copied to be joined, and shares what it does not store row by row.
const BATCHES: usize = 8;

/// Of fewer rows nothing is gained by that; and pages that are still passed by as a whole, for a filter that changes, should be taken one by one.
const FEWEST: usize = 64;

impl BatchDecoder {
    /// The rest of the batches; waits for what is not in memory.
    pub(super) fn into_stream(self) -> BoxStream<'static, Result<RecordBatch>> {
        let batches = stream::try_unfold(self, |mut decoder| async move {
            loop {
                match decoder.next()? {
                    Next::Batch(batch) => return Ok(Some((batch, decoder))),
                    Next::End => return Ok(None),
                    Next::Nothing => tokio::task::yield_now().await,
                    Next::Waits(missing) => {
                        let reader = decoder.reader.clone();
                        let bytes = missing.fetch(&reader).await?;
                        decoder.morsel.give(missing, bytes).map_err(|error| decoder.reader.fault(error))?;
                    }
                }
            }
        });
        batches.boxed()
    }

    fn next(&mut self) -> Result<Next> {
        let next = match self.filter.take() {
            None => self.next_of_all()?,
            Some(mut output) => {
                let next = self.next_of_passed(&mut output);
                self.filter = Some(output);
                next?
            }
        };
        Ok(match next {
            Next::Batch(batch) => Next::Batch(self.projector.project(&batch)?),
            other => other,
        })
    }

    fn take_rows(&mut self, batches: usize) -> Rows {
        self.taken.take().unwrap_or_else(|| self.morsel.next_rows(batches))
    }

    /// What is next after these rows could not be read; `None` if parts of them are.
    fn recover(&mut self, rows: Rows, error: Error) -> Result<Option<Next>> {
        if let Some(missing) = self.morsel.waits_for(&rows) {
            self.taken = Some(rows);
            return Ok(Some(Next::Waits(missing)));
        }
        if error.is_splittable() && rows.len() > 1 {
            self.morsel.split(rows);
            return Ok(None);
        }
        Err(self.reader.fault(error))
    }

    fn next_of_all(&mut self) -> Result<Next> {
        let columns: Vec<usize> = (0..self.morsel.schema().fields().len()).collect();
        loop {
            let rows = self.take_rows(1);
            if rows.is_empty() {
                return Ok(Next::End);
            }
            let timer = self.time.timer();
            let arrays = self.codes.read_all(&self.morsel, &columns, &rows);
            drop(timer);
            let arrays = match arrays {
                Ok(arrays) => arrays,
                Err(error) => match self.recover(rows, error)? {
                    Some(next) => return Ok(next),
                    None => continue,
                },
            };
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            let batch = RecordBatch::try_new_with_options(Arc::clone(&self.projector.coded.file), arrays, &options)?;
            let numbers = self.row_numbers(&rows);
            let batch = self.projector.input(batch, true, numbers)?;
            return Ok(Next::Batch(if self.backwards { turned(&batch).map_err(|fault| self.fault(fault))? } else { batch }));
        }
    }

    fn next_of_passed(&mut self, output: &mut FilteredOutput) -> Result<Next> {
        let mut fruitless = 0;
        while fruitless < FRUITLESS {
            if let Some(batch) = output.pop() {
                return Ok(Next::Batch(batch));
            }
            let rows = self.take_rows(output.batches);
            if rows.is_empty() {
                return Ok(output.finish()?.map_or(Next::End, Next::Batch));
            }
            let time = self.time.clone();
            let passed = {
                let _timer = time.timer();
                self.passed(&mut output.filter, &rows)
            };
            // Few rows may be as much work as many, if they had to be split.
            fruitless += rows.len().max(FRUITLESS / 64);
            match passed {
                Ok(passed) => output.push(rows.len(), passed)?,
                Err(Fault::Format(error)) => {
                    if let Some(next) = self.recover(rows, error)? {
                        return Ok(next);
                    }
                    output.take_one_by_one();
                }
                Err(Fault::Engine(error)) => return Err(error),
            }
        }
        Ok(Next::Nothing)
    }

    /// The columns of the projection, and which of their rows pass if not all.
    fn passed(&mut self, filter: &mut MorselFilter, rows: &Rows) -> Result<Option<Passed>, Fault> {
        let mut selection = filter.select(&self.morsel, rows)?;
        if selection.count == 0 {
            filter.count(0, rows.len());
            return Ok(None);
        }
        let batch = selection.output(&self.morsel, &self.projector, &mut self.codes);
        let (batch, is_coded) = batch.inspect_err(|_| self.morsel.wait_for_all(&self.projector.columns))?;
        filter.count(selection.count, rows.len() - selection.count);
        let numbers = self.row_numbers(rows).map(|numbers| selection.shorten(numbers)).transpose()?;
        let (batch, mask) = (self.projector.input(batch, is_coded, numbers)?, selection.mask());
        if !self.backwards {
            return Ok(Some(Passed { batch, mask, is_coded }));
        }
        let passed = match &mask {
            Some(mask) => kept_rows(&batch, mask.values())?,
            None => batch,
        };
        Ok(Some(Passed { batch: turned(&passed)?, mask: None, is_coded }))
    }

    fn fault(&self, fault: Fault) -> DataFusionError {
        match fault {
            Fault::Format(error) => self.reader.fault(error),
            Fault::Engine(error) => error,
        }
    }

    fn row_numbers(&self, rows: &Rows) -> Option<ArrayRef> {
        self.projector.uses_row_index.then(|| numbers(self.morsel.first_row(), rows))
    }
}

/// The rows, the last one first.
fn turned(batch: &RecordBatch) -> Result<RecordBatch, Fault> {
    let places = UInt64Array::from_iter_values((0..batch.num_rows() as u64).rev());
    let arrays = batch.columns().iter().map(|array| taken(array, &places)).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), arrays, &options)?)
}

/// Columns of the projection, and which of their rows pass if not all.
struct Passed {
    batch: RecordBatch,
    mask: Option<BooleanArray>,
    /// Whether some are codes.
    is_coded: bool,
}

/// What passes a filter, in batches that are worth their overhead.
#[derive(Debug)]
pub(super) struct FilteredOutput {
    filter: MorselFilter,
    /// The rows of how many batches to filter next, and the most that it may be.
    batches: usize,
    most: usize,
    /// Joins small batches, where arrays of all types can be joined.
    coalescer: Option<BatchCoalescer>,
    /// A batch that goes out as it is.
    ready: Option<RecordBatch>,
}

impl FilteredOutput {
    pub(super) fn new(filter: MorselFilter, projector: &BatchProjector, batch_rows: usize) -> Self {
        let schema = &projector.plain.input;
        let coalescer = (!schema.fields().is_empty() && can_be_joined(schema))
            .then(|| BatchCoalescer::new(Arc::clone(schema), batch_rows).with_biggest_coalesce_batch_size(Some(batch_rows / 2)));
        Self { filter, batches: 1, most: BATCHES, coalescer, ready: None }
    }

    /// Rows of several batches have been too many for one array.
    fn take_one_by_one(&mut self) {
        (self.batches, self.most) = (1, 1);
    }

    /// Takes what has passed of so many rows. Codes are not joined, and overtake what waits to be: who asks for them does not ask for rows in their order.
    fn push(&mut self, rows: usize, passed: Option<Passed>) -> Result<()> {
        let Some(Passed { batch, mask, is_coded }) = passed else {
            self.batches = 1;
            return Ok(());
        };
        let count = mask.as_ref().map_or(batch.num_rows(), BooleanArray::true_count);
        self.batches = if count < FEWEST { 1 } else { (rows / count).clamp(1, self.most) };
        match (self.coalescer.as_mut().filter(|_| !is_coded), mask) {
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
