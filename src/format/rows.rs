//! Rows that are read together.

use std::collections::VecDeque;
use std::ops::Range;

use arrow::buffer::BooleanBuffer;

use super::bits::span;

/// Rows of a block: FRAME packs, DELTA restarts, and everything decodes in blocks.
pub(crate) const BLOCK: usize = 1024;

/// Ranges of rows of a morsel, ascending.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rows {
    ranges: Vec<Range<usize>>,
    len: usize,
}

impl Rows {
    /// These ranges, which ascend and do not overlap.
    pub(crate) fn new(ranges: Vec<Range<usize>>) -> Self {
        let len = ranges.iter().map(ExactSizeIterator::len).sum();
        Self { ranges, len }
    }

    /// One after the other, as they ascend.
    #[must_use]
    pub fn join(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for range in parts.into_iter().flat_map(Self::into_ranges) {
            match ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        Self::new(ranges)
    }

    /// The ranges, if they ascend and lie within others that do.
    pub(crate) fn within(self, outer: &[Range<usize>]) -> Option<Vec<Range<usize>>> {
        let mut outer = outer.iter().peekable();
        let mut end = 0;
        for range in &self.ranges {
            while outer.next_if(|outer| outer.end <= range.start).is_some() {}
            let lies_within = outer.peek().is_some_and(|outer| outer.start <= range.start && range.end <= outer.end);
            if !lies_within || range.is_empty() || range.start < end {
                return None;
            }
            end = range.end;
        }
        Some(self.ranges)
    }

    /// Whether all lie in a range.
    #[cfg(feature = "datafusion")]
    pub(crate) fn lie_in(&self, outer: &Range<usize>) -> bool {
        let span = self.ranges.first().zip(self.ranges.last());
        span.is_none_or(|(first, last)| outer.start <= first.start && last.end <= outer.end)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    pub(crate) fn into_ranges(self) -> Vec<Range<usize>> {
        self.ranges
    }

    /// The blocks that have a row that is kept, and which of their rows are. Blocks are what pages decode as a whole, so this is what is read
    /// if only the kept rows are wanted; but what comes before the first of them and behind the last, where other blocks are left out, may lie in other pages and
    /// is no part of it. `keep` has a bit per row.
    #[must_use]
    pub fn blocks_with(&self, keep: &BooleanBuffer) -> (Self, BooleanBuffer) {
        let mut runs: Vec<Run> = Vec::new();
        let mut bit = 0;
        for range in &self.ranges {
            let mut at = range.start;
            while at < range.end {
                let end = range.end.min((at / BLOCK + 1) * BLOCK);
                if let Some(kept) = span(&keep.slice(bit, end - at)) {
                    match runs.last_mut() {
                        Some(run) if run.block_end == at => run.go_on(bit, &kept, end),
                        _ => runs.push(Run { rows: at + kept.start..at + kept.end, bits: bit + kept.start..bit + kept.end, block_end: end }),
                    }
                }
                bit += end - at;
                at = end;
            }
        }
        let mut kept = arrow::array::BooleanBufferBuilder::new(runs.iter().map(|run| run.rows.len()).sum());
        runs.iter().for_each(|run| kept.append_buffer(&keep.slice(run.bits.start, run.bits.len())));
        (Self::new(runs.into_iter().map(|run| run.rows).collect()), kept.finish())
    }
}

/// Rows that are still to be taken: the first ones next, or backwards the last ones. What is taken at once ascends either way.
#[derive(Debug)]
pub(crate) struct Rest {
    ranges: VecDeque<Range<usize>>,
    backwards: bool,
}

impl Rest {
    /// These ranges, which ascend and do not overlap.
    pub(crate) fn new(ranges: impl Into<VecDeque<Range<usize>>>, backwards: bool) -> Self {
        Self { ranges: ranges.into(), backwards }
    }

    pub(crate) fn is_backwards(&self) -> bool {
        self.backwards
    }

    /// Up to `limit` rows, those that are taken next.
    pub(crate) fn first(&self, limit: usize) -> Rows {
        Self { ranges: self.ranges.clone(), backwards: self.backwards }.take(limit)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.ranges.iter().map(|range| range.len() as u64).sum()
    }

    /// Takes up to `limit` rows.
    pub(crate) fn take(&mut self, limit: usize) -> Rows {
        let mut taken = VecDeque::new();
        let mut missing = limit;
        while missing > 0 {
            let Some(range) = (if self.backwards { self.ranges.pop_back() } else { self.ranges.pop_front() }) else { break };
            let count = missing.min(range.len());
            missing -= count;
            if self.backwards {
                let cut = range.end - count;
                taken.push_front(cut..range.end);
                self.put_back(range.start..cut);
            } else {
                let cut = range.start + count;
                taken.push_back(range.start..cut);
                self.put_back(cut..range.end);
            }
        }
        Rows::new(taken.into())
    }

    /// Gives back the rows that were taken last.
    pub(crate) fn give_back(&mut self, rows: Rows) {
        let ranges = rows.into_ranges().into_iter();
        if self.backwards { ranges.for_each(|range| self.put_back(range)) } else { ranges.rev().for_each(|range| self.put_back(range)) }
    }

    fn put_back(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        if self.backwards { self.ranges.push_back(range) } else { self.ranges.push_front(range) }
    }
}

/// Rows from the first kept one of a block to the last one of a block behind it, between which no block is left out.
struct Run {
    rows: Range<usize>,
    /// Their bits.
    bits: Range<usize>,
    block_end: usize,
}

impl Run {
    /// The next block begins at `bit` and has these kept bits.
    fn go_on(&mut self, bit: usize, kept: &Range<usize>, block_end: usize) {
        self.rows.end = self.block_end + kept.end;
        self.bits.end = bit + kept.end;
        self.block_end = block_end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_cut_across_ranges() {
        let mut rest = Rest::new([0..5, 10..12, 20..30], false);
        assert_eq!((rest.count(), rest.take(6).into_ranges()), (17, vec![0..5, 10..11]));
        assert_eq!(rest.first(3).into_ranges(), [11..12, 20..22]);
        let again = rest.take(6);
        assert_eq!(again.ranges(), [11..12, 20..25]);
        rest.give_back(again);
        assert_eq!([rest.take(6).into_ranges(), rest.take(6).into_ranges()], [vec![11..12, 20..25], vec![25..30]]);
        assert!(rest.take(6).is_empty() && rest.count() == 0);
    }

    #[test]
    fn backwards_the_last_rows_come_first() {
        let mut rest = Rest::new([0..5, 10..12, 20..30], true);
        assert_eq!(rest.take(6).into_ranges(), [vec![24..30]].concat());
        assert_eq!(rest.first(3).into_ranges(), [21..24]);
        let again = rest.take(6);
        assert_eq!(again.ranges(), [10..12, 20..24]);
        rest.give_back(again);
        assert_eq!([rest.take(3).into_ranges(), rest.take(4).into_ranges()], [vec![21..24], vec![4..5, 10..12, 20..21]]);
        assert_eq!((rest.take(6).into_ranges(), rest.count()), (vec![0..4], 0));
    }

    #[test]
    fn parts_are_joined_and_must_lie_within() {
        let joined = |parts: &[Range<usize>]| Rows::join(parts.iter().map(|part| Rows::new(vec![part.clone()])));
        assert_eq!(joined(&[0..5, 5..9, 12..13]).into_ranges(), [0..9, 12..13]);
        let within = |parts: &[Range<usize>]| joined(parts).within(&[0..10, 20..30]);
        assert_eq!(within(&[0..3, 5..10, 20..21, 22..30]), Some(vec![0..3, 5..10, 20..21, 22..30]));
        assert_eq!(within(&[]), Some(vec![]));
        for outside in [[5..11, 20..21], [20..21, 5..6], [5..7, 6..8], [15..16, 20..21], [25..26, 29..31]] {
            assert_eq!(within(&outside), None, "{outside:?}");
        }
    }

    #[test]
    fn only_blocks_with_a_kept_row_are_read() {
        let rows = Rows::new(vec![100..2000, 2048..5000]);
        let keep_at = |wanted: &[usize]| {
            let all = rows.ranges().iter().flat_map(Clone::clone);
            let keep: BooleanBuffer = all.map(|row| wanted.contains(&row)).collect();
            let (blocks, kept) = rows.blocks_with(&keep);
            let read: Vec<usize> = blocks.ranges().iter().flat_map(Clone::clone).collect();
            assert_eq!(read.len(), kept.len());
            let found: Vec<usize> = read.iter().zip(&kept).filter(|(_, kept)| *kept).map(|(row, _)| *row).collect();
            assert_eq!(found, wanted);
            blocks.into_ranges()
        };
        assert_eq!(keep_at(&[100]), vec![100..101]);
        assert_eq!(keep_at(&[110, 1023, 1024, 1990]), vec![110..1991]);
        assert_eq!(keep_at(&[1999, 2048, 2050, 4200, 4999]), [1999..2000, 2048..2051, 4200..5000]);
        // Of a block between others all rows are read.
        assert_eq!(keep_at(&[2100, 3500, 4100]), vec![2100..4101]);
        assert!(keep_at(&[]).is_empty());
    }
}
