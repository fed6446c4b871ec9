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

    /// Takes up to `limit` rows off the front of `rest`.
    pub(crate) fn take(rest: &mut VecDeque<Range<usize>>, limit: usize) -> Self {
        let mut taken = Vec::new();
        let mut missing = limit;
        while missing > 0 {
            let Some(range) = rest.pop_front() else { break };
            let cut = range.end.min(range.start + missing);
            if cut < range.end {
                rest.push_front(cut..range.end);
            }
            missing -= cut - range.start;
            taken.push(range.start..cut);
        }
        Self::new(taken)
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
        let mut rest = VecDeque::from([0..5, 10..12, 20..30]);
        let mut take = || Rows::take(&mut rest, 6).into_ranges();
        assert_eq!(take(), [0..5, 10..11]);
        assert_eq!(take(), [11..12, 20..25]);
        assert_eq!(take(), [25..30]);
        assert!(take().is_empty());
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
