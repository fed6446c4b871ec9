//! Filtering rows before the columns that the filter is not about are fetched, so that they are fetched where rows are left.

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;
use datafusion::error::Result;

use super::file::FileScan;
use super::filter::MorselFilter;
use super::selection::Fault;
use crate::format::rows::Rows;
use crate::format::scan::Morsel;

/// After so many batches, or all, it is not given up any more, and what has been found out is used.
const TRIAL_BATCHES: usize = 2;

impl FileScan {
    /// The rows of a stripe's blocks in which some row passes the filter; `None` where that is most of the first ones, or where it cannot be told now.
    pub(super) fn select(&mut self, mut morsel: Box<dyn Morsel>) -> Result<Option<Rows>> {
        self.passed = None;
        let Some(filter) = self.filter.clone() else { return Ok(None) };
        let _timer = self.metrics.decoding_time.timer();
        let mut filter = MorselFilter::new(filter, self.metrics.clone());
        let count = morsel.rows();
        // What fails may never be asked: the rows before it may be all that the query wants. If it is, it fails again.
        let Ok(Some(Found { first, blocks, passed })) = found(&mut filter, morsel.as_mut()) else { return Ok(None) };
        if let Some(counter) = &mut self.rows {
            counter.select(count, first, &blocks)?;
        }
        filter.count(0, usize::try_from(count).unwrap_or(usize::MAX) - blocks.len());
        // Of no rows there is no morsel either, and what comes next is of another stripe.
        self.passed = (!blocks.is_empty()).then_some(passed);
        Ok(Some(blocks))
    }
}

/// What a filter leaves of a stripe.
struct Found {
    /// The stripe's first row.
    first: usize,
    blocks: Rows,
    /// A bit for each row of the blocks.
    passed: BooleanBuffer,
}

fn found(filter: &mut MorselFilter, morsel: &mut dyn Morsel) -> Result<Option<Found>, Fault> {
    let mut first = None;
    let (mut blocks, mut passed) = (Vec::new(), BooleanBufferBuilder::new(0));
    let mut asked = 0;
    loop {
        let rows = morsel.next_rows();
        if rows.is_empty() {
            return Ok(Some(Found { first: first.unwrap_or(0), blocks: Rows::join(blocks), passed: passed.finish() }));
        }
        first = first.or(rows.ranges().first().map(|range| range.start));
        let selection = match filter.select(morsel, &rows) {
            Err(Fault::Format(error)) if error.is_splittable() && rows.len() > 1 => {
                morsel.split(rows);
                continue;
            }
            selection => selection?,
        };
        let (some, bits) = rows.blocks_with(&selection.passed());
        blocks.push(some);
        passed.append_buffer(&bits);
        asked += rows.len();
        if morsel.rows() > 0 && blocks.len() <= TRIAL_BATCHES && passed.len() > asked / 4 * 3 {
            return Ok(None);
        }
    }
}
