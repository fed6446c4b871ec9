//! Which rows of the file a batch is, for `file_row_index()`.
//!
//! A scan gives rows in the order of the file and leaves out exactly the zones that it was told to, so the caller can count along.

use std::collections::VecDeque;
use std::ops::Range;

use arrow::array::{BooleanArray, Int64Array, UInt64Array};
use datafusion::common::internal_err;
use datafusion::error::Result;

use crate::format::rows::Rows;
use crate::format::scan::{Level, Zones};

/// Runs of rows that the scan is still to give, in order.
#[derive(Debug, Clone)]
pub(super) struct RowCounter {
    /// Rows of stripes that were asked about by a filter, without those that are not read.
    decided: VecDeque<Range<u64>>,
    /// Rows of loaded pages, or of stripes without page zones.
    rows: VecDeque<Range<u64>>,
    /// Stripes not begun.
    stripes: VecDeque<Range<u64>>,
}

impl RowCounter {
    /// Will read these stripes.
    pub(super) fn new(stripes: Vec<Range<u64>>) -> Self {
        Self { decided: VecDeque::new(), rows: VecDeque::new(), stripes: stripes.into() }
    }

    /// Takes note of the zones that are kept.
    pub(super) fn keep(&mut self, zones: &Zones, keep: &BooleanArray) -> Result<()> {
        match zones.level {
            Level::Stripe => {
                if keep.len() != self.stripes.len() {
                    return internal_err!("{} stripes were expected and {} shown", self.stripes.len(), keep.len());
                }
                let mut kept = keep.iter();
                self.stripes.retain(|_| kept.next().flatten().unwrap_or(true));
            }
            Level::Page => {
                let Some(stripe) = self.stripes.pop_front() else {
                    return internal_err!("pages of more stripes than were expected");
                };
                self.rows.extend(kept_runs(stripe.start, &zones.row_counts, keep));
            }
        }
        Ok(())
    }

    /// Of the next `count` rows that have not been asked about, which are those of a stripe from its row `first` on, only these rows of the stripe will be read. All
    /// of them if that is not known.
    pub(super) fn select(&mut self, count: u64, first: usize, selected: Option<&Rows>) -> Result<()> {
        let runs = take([&mut self.rows, &mut self.stripes], count)?;
        let Some((selected, next)) = selected.zip(runs.front().map(|run| run.start)) else {
            self.decided.extend(runs);
            return Ok(());
        };
        let row = |of_stripe: usize| Some(next.checked_sub(u64::try_from(first).ok()?)? + u64::try_from(of_stripe).ok()?);
        for range in selected.ranges() {
            let Some((start, end)) = row(range.start).zip(row(range.end)) else { return internal_err!("rows before the first one") };
            self.decided.push_back(start..end);
        }
        Ok(())
    }

    /// The runs of the next `count` rows, which are about to be decoded.
    pub(super) fn take(&mut self, count: u64) -> Result<RowNumbers> {
        Ok(RowNumbers { runs: take([&mut self.decided, &mut self.rows, &mut self.stripes], count)? })
    }
}

/// The first `count` rows of queues of which each comes behind the one before.
fn take<const N: usize>(mut queues: [&mut VecDeque<Range<u64>>; N], mut count: u64) -> Result<VecDeque<Range<u64>>> {
    let mut runs = VecDeque::new();
    while count > 0 {
        let Some((queue, run)) = queues.iter_mut().find_map(|queue| queue.pop_front().map(|run| (queue, run))) else {
            return internal_err!("{count} rows more than were expected");
        };
        let middle = run.end.min(run.start.saturating_add(count));
        count -= middle - run.start;
        if middle < run.end {
            queue.push_front(middle..run.end);
        }
        runs.push_back(run.start..middle);
    }
    Ok(runs)
}

/// Numbers of the rows of one morsel, in order.
#[derive(Debug, Clone)]
pub(super) struct RowNumbers {
    runs: VecDeque<Range<u64>>,
}

impl RowNumbers {
    /// The numbers of the next `count` rows.
    pub(super) fn next(&mut self, count: usize) -> Result<Int64Array> {
        let mut numbers = Vec::with_capacity(count);
        while numbers.len() < count {
            let Some(run) = self.runs.front_mut() else {
                return internal_err!("a morsel has more rows than it said");
            };
            let wanted = u64::try_from(count - numbers.len()).unwrap_or(u64::MAX);
            let middle = run.end.min(run.start.saturating_add(wanted));
            numbers.extend((run.start..middle).map(u64::cast_signed));
            run.start = middle;
            if run.is_empty() {
                self.runs.pop_front();
            }
        }
        Ok(Int64Array::from(numbers))
    }
}

fn kept_runs(mut first: u64, row_counts: &UInt64Array, keep: &BooleanArray) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for (rows, keep) in row_counts.values().iter().zip(keep) {
        let end = first.saturating_add(*rows);
        if keep.unwrap_or(true) {
            match runs.last_mut() {
                Some(last) if last.end == first => last.end = end,
                _ => runs.push(first..end),
            }
        }
        first = end;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(level: Level, row_counts: &[u64]) -> Zones {
        Zones { level, row_counts: UInt64Array::from(row_counts.to_vec()), columns: vec![] }
    }

    #[test]
    fn rows_are_numbered_across_skipped_stripes_and_pages() {
        let mut counter = RowCounter::new(vec![0..10, 10..20, 20..30]);
        counter.keep(&zones(Level::Stripe, &[10, 10, 10]), &BooleanArray::from(vec![false, true, true])).unwrap();
        counter.keep(&zones(Level::Page, &[3, 3, 4]), &BooleanArray::from(vec![Some(true), Some(false), None])).unwrap();
        let mut numbers = counter.take(7).unwrap();
        assert_eq!(numbers.next(2).unwrap(), Int64Array::from(vec![10, 11]));
        assert_eq!(numbers.next(5).unwrap(), Int64Array::from(vec![12, 16, 17, 18, 19]));
        assert!(numbers.next(1).is_err());
        assert_eq!(counter.take(10).unwrap().next(10).unwrap(), Int64Array::from_iter_values(20..30));
        assert!(counter.take(1).is_err());
    }

    #[test]
    fn rows_that_are_selected_keep_their_numbers() {
        let mut counter = RowCounter::new(vec![100..200, 200..300, 300..400]);
        counter.keep(&zones(Level::Page, &[30, 30, 40]), &BooleanArray::from(vec![false, true, true])).unwrap();
        let rows = |ranges: &[Range<usize>]| Rows::new(ranges.to_vec());
        counter.select(70, 30, Some(&rows(&[35..40, 70..72]))).unwrap();
        assert_eq!(counter.take(7).unwrap().next(7).unwrap(), Int64Array::from(vec![135, 136, 137, 138, 139, 170, 171]));
        // Nothing of the next stripe, and of the last one, of which no pages were shown.
        counter.select(100, 0, Some(&rows(&[]))).unwrap();
        counter.select(100, 0, Some(&rows(&[99..100]))).unwrap();
        assert_eq!(counter.take(1).unwrap().next(1).unwrap(), Int64Array::from(vec![399]));
        assert!(counter.take(1).is_err());
    }

    #[test]
    fn stripes_may_all_be_asked_about_before_one_is_read() {
        let mut counter = RowCounter::new(vec![100..200, 200..300, 300..400, 400..500]);
        for _ in 0..3 {
            counter.keep(&zones(Level::Page, &[30, 30, 40]), &BooleanArray::from(vec![false, true, true])).unwrap();
        }
        let rows = |range: Range<usize>| Rows::new(vec![range]);
        counter.select(70, 30, Some(&rows(35..37))).unwrap();
        counter.select(70, 30, None).unwrap();
        counter.select(70, 30, Some(&rows(98..100))).unwrap();
        assert_eq!(counter.take(2).unwrap().next(2).unwrap(), Int64Array::from(vec![135, 136]));
        assert_eq!(counter.take(70).unwrap().next(70).unwrap(), Int64Array::from_iter_values(230..300));
        assert_eq!(counter.take(2).unwrap().next(2).unwrap(), Int64Array::from(vec![398, 399]));
        assert_eq!(counter.take(100).unwrap().next(100).unwrap(), Int64Array::from_iter_values(400..500));
        assert!(counter.select(1, 0, None).is_err());
    }

    #[test]
    fn without_zones_stripes_follow_each_other_and_may_come_in_parts() {
        let mut counter = RowCounter::new(vec![5..8, 8..10]);
        assert_eq!(counter.take(2).unwrap().next(2).unwrap(), Int64Array::from(vec![5, 6]));
        assert_eq!(counter.take(3).unwrap().next(3).unwrap(), Int64Array::from(vec![7, 8, 9]));
    }
}
