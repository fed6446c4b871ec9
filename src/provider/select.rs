//! Filtering rows before the columns that the filter is not about are fetched, so that they are fetched where rows are left.

use datafusion::error::Result;

use super::file::FileScan;
use super::filter::MorselFilter;
use super::selection::Fault;
use crate::format::rows::Rows;
use crate::format::scan::Morsel;

/// Blocks from all over a stripe that tell whether it is worth to filter all of it.
const SAMPLE: usize = 8;

impl FileScan {
    /// The rows of a stripe's blocks in which some row passes the filter; `None` where that would be most of them, or where it cannot be told now.
    pub(super) fn select(&mut self, mut morsel: Box<dyn Morsel>) -> Result<Option<Rows>> {
        let Some(filter) = self.filter.clone() else { return Ok(None) };
        let _timer = self.metrics.decoding_time.timer();
        let mut select = MorselSelect { rows: morsel.rows(), first: None, filter: MorselFilter::new(filter, self.metrics.clone()) };
        // What fails may never be asked: the rows before it may be all that the query wants. If it is, it fails again.
        let Ok(Some(selected)) = select.selected(morsel.as_mut()) else { return Ok(None) };
        if let Some(counter) = &mut self.rows {
            counter.select(select.rows, select.first.unwrap_or(0), &selected)?;
        }
        let dropped = usize::try_from(select.rows).unwrap_or(usize::MAX) - selected.len();
        select.filter.count(0, dropped);
        Ok(Some(selected))
    }
}

struct MorselSelect {
    rows: u64,
    first: Option<usize>,
    filter: MorselFilter,
}

impl MorselSelect {
    fn selected(&mut self, morsel: &mut dyn Morsel) -> Result<Option<Rows>, Fault> {
        let sample = morsel.sample(SAMPLE);
        if is_most(self.blocks(morsel, &sample)?.len(), sample.len()) {
            return Ok(None);
        }
        let mut selected = Vec::new();
        loop {
            let rows = morsel.next_rows();
            if rows.is_empty() {
                break;
            }
            self.first = self.first.or(rows.ranges().first().map(|range| range.start));
            match self.blocks(morsel, &rows) {
                Ok(blocks) => selected.push(blocks),
                Err(Fault::Format(error)) if error.is_splittable() && rows.len() > 1 => morsel.split(rows),
                Err(fault) => return Err(fault),
            }
        }
        let selected = Rows::join(selected);
        Ok((!is_most(selected.len(), usize::try_from(self.rows).unwrap_or(usize::MAX))).then_some(selected))
    }

    fn blocks(&mut self, morsel: &dyn Morsel, rows: &Rows) -> Result<Rows, Fault> {
        let selection = self.filter.select(morsel, rows)?;
        Ok(rows.blocks_with(&selection.passed()).0)
    }
}

/// Whether so many of all rows are so many that to leave out the others gains nothing.
fn is_most(some: usize, all: usize) -> bool {
    some > all / 4 * 3
}
