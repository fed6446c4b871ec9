//! Filtering rows before the columns that the filter is not about are fetched, so that they are fetched where rows are left.

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;

use super::file::FileScan;
use super::filter::MorselFilter;
use super::selection::Fault;
use crate::format::rows::Rows;
use crate::format::scan::Morsel;

/// After so many batches, or all, it is not given up any more, and what has been found out is used.
const TRIAL_BATCHES: usize = 2;

impl FileScan {
    /// The rows of a stripe's blocks in which some row passes the filter; `None` where that is most of the first ones, or where it cannot be told now.
    pub(super) fn select(&mut self, mut morsel: Box<dyn Morsel>) -> Option<Rows> {
        let Some(Found { blocks, passed }) = self.found(morsel.as_mut()) else {
            self.passed.push_back(None);
            return None;
        };
        if !blocks.is_empty() {
            // Of no rows there is no morsel either.
            self.passed.push_back(Some(passed));
        }
        Some(blocks)
    }

    fn found(&self, morsel: &mut dyn Morsel) -> Option<Found> {
        let _timer = self.metrics.decoding_time.timer();
        let mut filter = MorselFilter::new(self.filter.clone()?, self.metrics.clone());
        let count = morsel.rows();
        // What fails may never be asked: the rows before it may be all that the query wants. If it is, it fails again.
        let found = found(&mut filter, morsel).ok().flatten()?;
        filter.count(0, usize::try_from(count).unwrap_or(usize::MAX) - found.blocks.len());
        Some(found)
    }
}

/// What a filter leaves of a stripe.
struct Found {
    blocks: Rows,
    /// A bit for each row of the blocks.
    passed: BooleanBuffer,
}

fn found(filter: &mut MorselFilter, morsel: &mut dyn Morsel) -> Result<Option<Found>, Fault> {
    let (mut blocks, mut passed) = (Vec::new(), BooleanBufferBuilder::new(0));
    let mut asked = 0;
    loop {
        let rows = morsel.next_rows(1);
        if rows.is_empty() {
            return Ok(Some(Found { blocks: Rows::join(blocks), passed: passed.finish() }));
        }
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
