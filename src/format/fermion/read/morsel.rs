//! Loaded rows of a stripe, decoded batch by batch.

use std::collections::VecDeque;
use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::SchemaRef;

use super::column::LoadedColumn;
use crate::format::array::Ranges;
use crate::format::error::{Error, Result};
use crate::format::rows::Rows;
use crate::format::scan::{Coded, Morsel};

#[derive(Debug)]
pub(super) struct StripeMorsel {
    schema: SchemaRef,
    /// `None` is not loaded yet.
    columns: Vec<Option<LoadedColumn>>,
    /// Rows of the stripe that are still to be decoded.
    ranges: VecDeque<Range<usize>>,
    batch_rows: usize,
}

impl StripeMorsel {
    pub(super) fn new(schema: SchemaRef, columns: Vec<Option<LoadedColumn>>, ranges: &Ranges, batch_rows: usize) -> Self {
        Self { schema, columns, ranges: ranges.to_vec().into(), batch_rows }
    }

    fn column(&self, position: usize) -> Result<&LoadedColumn> {
        let column = self.columns.get(position).ok_or_else(|| Error::invalid_argument("a column that the scan does not have"))?;
        column.as_ref().ok_or_else(|| Error::invalid_argument("a column that is not loaded yet"))
    }
}

impl Morsel for StripeMorsel {
    fn rows(&self) -> u64 {
        self.ranges.iter().map(|range| range.len() as u64).sum()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn next_rows(&mut self) -> Rows {
        self.columns.iter_mut().flatten().for_each(LoadedColumn::release);
        Rows::take(&mut self.ranges, self.batch_rows)
    }

    fn split(&mut self, rows: Rows) {
        self.batch_rows = (rows.len() / 2).max(1);
        self.columns.iter_mut().flatten().for_each(LoadedColumn::retain);
        rows.into_ranges().into_iter().rev().for_each(|range| self.ranges.push_front(range));
    }

    fn read(&self, columns: &[usize], rows: &Rows) -> Result<Vec<ArrayRef>> {
        columns.iter().map(|position| self.column(*position)?.read(rows.ranges())).collect()
    }

    fn read_kept(&self, column: usize, rows: &Rows, keep: &BooleanBuffer) -> Result<Option<ArrayRef>> {
        self.column(column)?.read_kept(rows.ranges(), keep)
    }

    fn coded(&self, column: usize, rows: &Rows, most: usize) -> Result<Option<Coded>> {
        self.column(column)?.coded(rows.ranges(), most)
    }
}
