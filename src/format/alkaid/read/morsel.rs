//! Fetched rows of a batch, given out batch by batch.

use arrow::array::ArrayRef;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::SchemaRef;

use super::column::LoadedColumn;
use crate::format::error::{Error, Result};
use crate::format::rows::{Rest, Rows};
use crate::format::scan::{Coded, Morsel};

#[derive(Debug)]
pub(super) struct BatchMorsel {
    pub(super) schema: SchemaRef,
    /// `None` is not loaded yet.
    pub(super) columns: Vec<Option<LoadedColumn>>,
    /// The number in the file of the batch's first row.
    pub(super) first_row: u64,
    /// Rows that are still to be given out.
    pub(super) rest: Rest,
    pub(super) batch_rows: usize,
}

impl BatchMorsel {
    fn column(&self, position: usize) -> Result<&LoadedColumn> {
        let column = self.columns.get(position).ok_or_else(|| Error::invalid_argument("a column that the scan does not have"))?;
        column.as_ref().ok_or_else(|| Error::invalid_argument("a column that is not loaded yet"))
    }
}

impl Morsel for BatchMorsel {
    fn rows(&self) -> u64 {
        self.rest.count()
    }

    fn first_row(&self) -> u64 {
        self.first_row
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn is_backwards(&self) -> bool {
        self.rest.is_backwards()
    }

    fn next_rows(&mut self, batches: usize) -> Rows {
        self.rest.take(self.batch_rows.saturating_mul(batches))
    }

    fn split(&mut self, rows: Rows) {
        self.batch_rows = (rows.len() / 2).clamp(1, self.batch_rows);
        self.rest.give_back(rows);
    }

    fn read(&self, columns: &[usize], rows: &Rows) -> Result<Vec<ArrayRef>> {
        columns.iter().map(|position| self.column(*position)?.read(rows)).collect()
    }

    fn read_kept(&self, column: usize, rows: &Rows, keep: &BooleanBuffer) -> Result<Option<ArrayRef>> {
        self.column(column)?.read_kept(rows, keep).map(Some)
    }

    fn coded(&self, column: usize, rows: &Rows, most: usize) -> Result<Option<Coded>> {
        self.column(column)?.coded(rows, most)
    }
}
