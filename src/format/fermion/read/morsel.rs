//! Loaded rows of a stripe, decoded batch by batch.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use bytes::Bytes;

use super::batches::LoadedBatches;
use super::column::{LoadedColumn, Loading};
use super::plan::ColumnPlan;
use crate::format::array::Ranges;
use crate::format::error::{Error, Result};
use crate::format::rows::{Rest, Rows};
use crate::format::scan::{Coded, Fetch, MissingPage, Morsel, PagePlace, RowBounds, ScanRequest, Section};
use crate::format::search::Pieces;

/// A column of which what is to be read has been loaded, or is when rows are read.
#[derive(Debug)]
pub(super) enum Loaded {
    Column(LoadedColumn),
    Batches(LoadedBatches),
}

impl Loaded {
    /// `None` if the plan is not to read it.
    pub(super) fn new(field: &FieldRef, out_type: &DataType, plan: ColumnPlan, load: &Loading<'_>) -> Result<Option<Self>> {
        let column = |streams| LoadedColumn::new(field, out_type, streams, load).map(Self::Column);
        match plan {
            ColumnPlan::Later => Ok(None),
            ColumnPlan::Null => column(None).map(Some),
            ColumnPlan::Streams(streams) => column(Some(streams)).map(Some),
            ColumnPlan::Batches(plan) => LoadedBatches::new(plan, load.fetched, load.checksums).map(|batches| Some(Self::Batches(batches))),
        }
    }

    fn release(&mut self, backwards: bool) {
        if let Self::Column(column) = self {
            column.release(backwards);
        }
    }

    fn retain(&mut self) {
        if let Self::Column(column) = self {
            column.retain();
        }
    }

    fn missing(&self, rows: &Ranges, along: u64) -> Vec<(usize, usize, Range<u64>)> {
        match self {
            Self::Column(column) => column.missing(rows, along),
            Self::Batches(_) => Vec::new(),
        }
    }

    fn give(&self, stream: usize, page: usize, bytes: Bytes) -> Result<()> {
        match self {
            Self::Column(column) => column.give(stream, page, bytes),
            Self::Batches(_) => Ok(()),
        }
    }

    fn read(&self, ranges: &Ranges) -> Result<ArrayRef> {
        match self {
            Self::Column(column) => column.read(ranges),
            Self::Batches(batches) => batches.read(ranges),
        }
    }

    fn read_kept(&self, ranges: &Ranges, keep: &BooleanBuffer) -> Result<Option<ArrayRef>> {
        match self {
            Self::Column(column) => column.read_kept(ranges, keep),
            Self::Batches(_) => Ok(None),
        }
    }

    fn bounds(&self, ranges: &Ranges) -> Result<Option<RowBounds>> {
        match self {
            Self::Column(column) => column.bounds(ranges),
            Self::Batches(_) => Ok(None),
        }
    }

    fn coded(&self, ranges: &Ranges, most: usize) -> Result<Option<Coded>> {
        match self {
            Self::Column(column) => column.coded(ranges, most),
            Self::Batches(batches) => batches.coded(ranges, most),
        }
    }

    fn find(&self, ranges: &Ranges, most: usize, pieces: &Pieces) -> Result<Option<BooleanArray>> {
        match self {
            Self::Column(column) => column.find(ranges, most, pieces),
            Self::Batches(_) => Ok(None),
        }
    }
}

#[derive(Debug)]
pub(super) struct StripeMorsel {
    schema: SchemaRef,
    /// `None` is not loaded yet.
    columns: Vec<Option<Loaded>>,
    /// The number in the file of the stripe's first row.
    first_row: u64,
    /// Rows of the stripe that are still to be decoded.
    rest: Rest,
    batch_rows: usize,
    /// Whether there may be pages that have not been fetched.
    deferred: bool,
}

impl StripeMorsel {
    pub(super) fn new(request: &ScanRequest, columns: Vec<Option<Loaded>>, first_row: u64, rest: Rest, deferred: bool) -> Self {
        Self { schema: Arc::clone(&request.schema), columns, first_row, rest, batch_rows: request.batch_rows, deferred }
    }

    fn column(&self, position: usize) -> Result<&Loaded> {
        let column = self.columns.get(position).ok_or_else(|| Error::invalid_argument("a column that the scan does not have"))?;
        column.as_ref().ok_or_else(|| Error::invalid_argument("a column that is not loaded yet"))
    }
}

impl Morsel for StripeMorsel {
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

    fn rest(&self, most: usize) -> Rows {
        self.rest.first(most)
    }

    fn missing(&self, columns: &[usize], rows: &Rows, along: u64) -> Vec<MissingPage> {
        let of_column = |&column: &usize| {
            let loaded = self.columns.get(column).and_then(Option::as_ref).filter(|_| self.deferred);
            let missing = loaded.map(|loaded| loaded.missing(rows.ranges(), along)).unwrap_or_default();
            let place = move |(stream, page, range)| MissingPage {
                place: PagePlace { column, stream, page },
                fetch: Fetch { range, section: Section::Data },
            };
            missing.into_iter().map(place)
        };
        columns.iter().flat_map(of_column).collect()
    }

    fn give(&self, pages: Vec<(PagePlace, Bytes)>) -> Result<()> {
        pages.into_iter().try_for_each(|(PagePlace { column, stream, page }, bytes)| self.column(column)?.give(stream, page, bytes))
    }

    fn next_rows(&mut self, batches: usize) -> Rows {
        let backwards = self.rest.is_backwards();
        self.columns.iter_mut().flatten().for_each(|column| column.release(backwards));
        self.rest.take(self.batch_rows.saturating_mul(batches))
    }

    fn split(&mut self, rows: Rows) {
        self.batch_rows = (rows.len() / 2).clamp(1, self.batch_rows);
        self.columns.iter_mut().flatten().for_each(Loaded::retain);
        self.rest.give_back(rows);
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

    fn find(&self, column: usize, rows: &Rows, most: usize, pieces: &Pieces) -> Result<Option<BooleanArray>> {
        self.column(column)?.find(rows.ranges(), most, pieces)
    }

    fn bounds(&self, column: usize, rows: &Rows) -> Result<Option<RowBounds>> {
        self.column(column)?.bounds(rows.ranges())
    }
}
