//! Loaded rows of a stripe, decoded batch by batch.

use std::collections::VecDeque;
use std::ops::Range;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;

use super::column::LoadedColumn;
use crate::format::error::{Error, Result};
use crate::format::scan::Morsel;

#[derive(Debug)]
pub(super) struct StripeMorsel {
    pub(super) schema: SchemaRef,
    pub(super) columns: Vec<LoadedColumn>,
    /// Rows of the stripe that are still to be decoded.
    pub(super) ranges: VecDeque<Range<usize>>,
    pub(super) batch_rows: usize,
}

impl Morsel for StripeMorsel {
    fn rows(&self) -> u64 {
        self.ranges.iter().map(|range| range.len() as u64).sum()
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let ranges = take_rows(&mut self.ranges, self.batch_rows);
            let rows: usize = ranges.iter().map(ExactSizeIterator::len).sum();
            if rows == 0 {
                return Ok(None);
            }
            match self.decode(&ranges, rows) {
                Err(error) if error.is_splittable() && rows > 1 => {
                    ranges.into_iter().rev().for_each(|range| self.ranges.push_front(range));
                    self.batch_rows = rows / 2;
                }
                result => return result.map(Some),
            }
        }
    }
}

impl StripeMorsel {
    fn decode(&self, ranges: &[Range<usize>], rows: usize) -> Result<RecordBatch> {
        let arrays = self.columns.iter().map(|column| column.read(ranges)).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(std::sync::Arc::clone(&self.schema), arrays, &options).map_err(Error::from)
    }
}

/// Takes up to `limit` rows off the front.
fn take_rows(ranges: &mut VecDeque<Range<usize>>, limit: usize) -> Vec<Range<usize>> {
    let mut taken = Vec::new();
    let mut missing = limit;
    while missing > 0 {
        let Some(range) = ranges.pop_front() else { break };
        let cut = range.end.min(range.start + missing);
        if cut < range.end {
            ranges.push_front(cut..range.end);
        }
        missing -= cut - range.start;
        taken.push(range.start..cut);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_cut_across_ranges() {
        let mut ranges = VecDeque::from([0..5, 10..12, 20..30]);
        assert_eq!(take_rows(&mut ranges, 6), [0..5, 10..11]);
        assert_eq!(take_rows(&mut ranges, 6), [11..12, 20..25]);
        assert_eq!(take_rows(&mut ranges, 6), [25..30]);
        assert!(take_rows(&mut ranges, 6).is_empty());
    }
}
