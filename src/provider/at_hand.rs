//! [`AtHand`]: rows whose pages are read when they are decoded.
//!
//! What the kernel has in memory need not be read ahead. A page that is read just before it is decoded is in a cache of the processor then, takes memory that the page before it has
//! left there, and is not read at all where no row of it is left.

use std::cell::RefCell;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use datafusion::error::Result;

use super::io::{AT_HAND_BYTES_MAX, ObjectReader};
use crate::format::array::with_nulls_in_keys;
use crate::format::error::{self, Error};
use crate::format::rows::Rows;
use crate::format::scan::{Coded, Fetch, Morsel, PagePlace, RowBounds};
use crate::format::search::Pieces;

/// A morsel that reads what is missing while it is decoded, if there is nothing to wait for.
#[derive(Debug)]
pub(super) struct AtHand {
    morsel: Box<dyn Morsel>,
    reader: ObjectReader,
    /// How many rows there were in the beginning.
    count: u64,
    /// The columns of which something is missing that has to be waited for.
    waiting: RefCell<Option<Vec<usize>>>,
}

/// Ranges are joined that have no more bytes in between: a call takes as long as to copy some thousands.
const GAP: u64 = 4 << 10;

/// Where something has to be waited for, it is read of so many times the rows that have been taken so far: of few rows little is read in vain, and of all that is seldom waited for.
const AHEAD: usize = 3;

/// What is missing of some columns of a morsel.
#[derive(Debug)]
pub(super) struct Missing {
    places: Vec<PagePlace>,
    fetches: Vec<Fetch>,
}

impl AtHand {
    pub(super) fn new(morsel: Box<dyn Morsel>, reader: ObjectReader) -> Self {
        Self { count: morsel.rows(), morsel, reader, waiting: RefCell::default() }
    }

    /// What has to be waited for, if that was the last error: what is missing of the columns that it was about, of these rows, which have been taken, and some of those to come.
    pub(super) fn waits_for(&self, rows: &Rows) -> Option<Missing> {
        let columns = self.waiting.take()?;
        let taken = usize::try_from(self.count.saturating_sub(self.morsel.rows())).unwrap_or(usize::MAX);
        let rest = self.morsel.rest(taken.saturating_mul(AHEAD));
        let rows = Rows::join(if self.morsel.is_backwards() { [rest, rows.clone()] } else { [rows.clone(), rest] });
        Some(self.missing(&columns, &rows, 0))
    }

    /// Has all of these columns waited for, if there is one that has to be: what was done before it is done again then, so once is enough.
    pub(super) fn wait_for_all(&self, columns: &[usize]) {
        if let Some(waiting) = &mut *self.waiting.borrow_mut() {
            *waiting = columns.to_vec();
        }
    }

    fn missing(&self, columns: &[usize], rows: &Rows, along: u64) -> Missing {
        let pages = self.morsel.missing(columns, rows, along);
        let (places, fetches) = pages.into_iter().map(|page| (page.place, page.fetch)).unzip();
        Missing { places, fetches }
    }

    /// Takes what was missing.
    pub(super) fn give(&self, missing: Missing, bytes: Vec<Bytes>) -> error::Result<()> {
        self.morsel.give(missing.places.into_iter().zip(bytes).collect())
    }

    /// Loads what these columns have of these rows.
    fn load(&self, columns: &[usize], rows: &Rows) -> error::Result<()> {
        // Backwards, what lies behind has been read. What is not needed may be all that is not in memory.
        let along = if self.is_backwards() { 0 } else { AT_HAND_BYTES_MAX };
        for (along, gap) in [(along, GAP), (0, 0)] {
            let missing = self.missing(columns, rows, along);
            if missing.fetches.is_empty() {
                return Ok(());
            }
            if let Some(bytes) = self.reader.fetch_at_hand(&missing.fetches, gap) {
                return self.give(missing, bytes);
            }
        }
        self.waiting.replace(Some(columns.to_vec()));
        Err(Error::eof("a page has to be waited for"))
    }
}

impl Missing {
    /// Reads it.
    pub(super) async fn fetch(&self, reader: &ObjectReader) -> Result<Vec<Bytes>> {
        reader.fetch(&self.fetches).await
    }
}

impl Morsel for AtHand {
    fn rows(&self) -> u64 {
        self.morsel.rows()
    }

    fn first_row(&self) -> u64 {
        self.morsel.first_row()
    }

    fn schema(&self) -> &SchemaRef {
        self.morsel.schema()
    }

    fn is_backwards(&self) -> bool {
        self.morsel.is_backwards()
    }

    fn next_rows(&mut self, batches: usize) -> Rows {
        self.morsel.next_rows(batches)
    }

    fn split(&mut self, rows: Rows) {
        self.morsel.split(rows);
    }

    fn read(&self, columns: &[usize], rows: &Rows) -> error::Result<Vec<ArrayRef>> {
        self.load(columns, rows)?;
        Ok(self.morsel.read(columns, rows)?.into_iter().map(with_nulls_in_keys).collect())
    }

    fn read_kept(&self, column: usize, rows: &Rows, keep: &BooleanBuffer) -> error::Result<Option<ArrayRef>> {
        self.load(&[column], rows)?;
        Ok(self.morsel.read_kept(column, rows, keep)?.map(with_nulls_in_keys))
    }

    fn coded(&self, column: usize, rows: &Rows, most: usize) -> error::Result<Option<Coded>> {
        self.load(&[column], rows)?;
        self.morsel.coded(column, rows, most)
    }

    fn find(&self, column: usize, rows: &Rows, most: usize, pieces: &Pieces) -> error::Result<Option<BooleanArray>> {
        self.load(&[column], rows)?;
        self.morsel.find(column, rows, most, pieces)
    }

    fn bounds(&self, column: usize, rows: &Rows) -> error::Result<Option<RowBounds>> {
        self.morsel.bounds(column, rows)
    }
}
