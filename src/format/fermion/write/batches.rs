//! Rows in batches: how many of them make a page, and the metadata of those of a stripe.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, UInt32Array};
use bytes::Bytes;

use super::stream::PageSettings;
use crate::format::array::{Ends, leaf_values};
use crate::format::error::{Error, Result};
use crate::format::fermion::batches::{BATCH_ROWS_MAX, BATCH_STREAMS, STRIPE_BATCHES_MAX};
use crate::format::fermion::cmb::{Chunk, ChunkPage, CmbBuilder, Pages};
use crate::format::fermion::stats::leaf_stats;

/// A batch of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Batch {
    id: i64,
    rows: u32,
}

/// What to do with the batches that wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Wait for more.
    Wait,
    /// End the stripe, which has no room for the first one.
    EndStripe,
    /// Encode the first ones, which end at these rows.
    Encode(Ends),
}

/// Room for rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// In a page.
    pub(super) page: usize,
    /// In the stripe that is being filled.
    pub(super) stripe: usize,
    /// Whether that has no rows yet.
    pub(super) is_empty: bool,
    /// Whether no more batches will come, or none that could be waited for.
    pub(super) flush: bool,
}

/// The batches of a file that is written.
#[derive(Debug)]
pub(super) struct BatchWriter {
    waiting: VecDeque<Batch>,
    /// Rows of those that wait.
    waiting_rows: usize,
    /// Those of the stripe that is being filled.
    stripe: Vec<Batch>,
    metadata: CmbBuilder,
    next_id: i64,
    greatest_id: Option<i64>,
    settings: PageSettings,
}

impl BatchWriter {
    pub(super) fn new(settings: PageSettings) -> Self {
        let metadata = CmbBuilder::of_streams(BATCH_STREAMS.map(|stream| stream.stream_type).to_vec());
        Self { waiting: VecDeque::new(), waiting_rows: 0, stripe: Vec::new(), metadata, next_id: 0, greatest_id: None, settings }
    }

    /// Rows of the batches that wait.
    pub(super) fn waiting_rows(&self) -> usize {
        self.waiting_rows
    }

    /// The greatest id so far.
    pub(super) fn greatest_id(&self) -> Option<i64> {
        self.greatest_id
    }

    /// Adds a batch; without an id, it gets one more than the greatest before, at least 0.
    pub(super) fn push(&mut self, id: Option<i64>, rows: usize) -> Result<()> {
        let id = id.unwrap_or(self.next_id);
        let rows = u32::try_from(rows).ok().filter(|rows| (1..=BATCH_ROWS_MAX).contains(&(*rows as usize))).ok_or_else(|| {
            let message = format!("batch {id} has {rows} rows, and a page, over which no batch is split, has 1 to {BATCH_ROWS_MAX}");
            Error::invalid_argument(message + ": write it as several batches")
        })?;
        self.greatest_id = self.greatest_id.max(Some(id));
        self.next_id = self.next_id.max(id.saturating_add(1));
        self.waiting.push_back(Batch { id, rows });
        self.waiting_rows += rows as usize;
        Ok(())
    }

    /// Says what is next, and moves the batches that are to be encoded to the stripe.
    pub(super) fn next(&mut self, room: Room) -> Next {
        let limit = room.page.min(room.stripe).max(1);
        let most = STRIPE_BATCHES_MAX.saturating_sub(self.stripe.len());
        let mut ends = Vec::new();
        let mut rows = 0;
        for batch in self.waiting.iter().take(most) {
            // One that is larger than pages are gets one of its own.
            let is_alone = ends.is_empty() && (room.is_empty || rows + batch.rows as usize <= room.stripe);
            if rows + batch.rows as usize > limit && !is_alone {
                break;
            }
            rows += batch.rows as usize;
            ends.push(rows);
        }
        if self.waiting.is_empty() {
            return Next::Wait;
        }
        if ends.is_empty() {
            return Next::EndStripe;
        }
        let is_full = rows >= limit || ends.len() < self.waiting.len();
        if !is_full && !room.flush {
            return Next::Wait;
        }
        self.waiting_rows -= rows;
        self.stripe.extend(self.waiting.drain(..ends.len()));
        Next::Encode(ends.into())
    }

    /// Ends a stripe: ids and lengths go out as a page each.
    pub(super) fn finish_stripe(&mut self, position: &mut u64, out: &mut Vec<Bytes>) -> Result<()> {
        let stripe = std::mem::take(&mut self.stripe);
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(stripe.iter().map(|batch| batch.id)));
        let lengths: ArrayRef = Arc::new(UInt32Array::from_iter_values(stripe.iter().map(|batch| batch.rows)));
        let count = u32::try_from(stripe.len()).map_err(|_| Error::invalid_argument("a stripe has too many batches"))?;
        let chunks = [ids, lengths].iter().map(|numbers| self.chunk(numbers, count, position, out)).collect::<Result<_>>()?;
        self.metadata.push_stripe(count, chunks)
    }

    fn chunk(&self, numbers: &ArrayRef, count: u32, position: &mut u64, out: &mut Vec<Bytes>) -> Result<Chunk> {
        let bytes = self.settings.plain_page(leaf_values(numbers)?)?;
        let length = u32::try_from(bytes.len()).map_err(|_| Error::invalid_argument("a page passes 4 GiB"))?;
        // Also where no statistics are to be written: batches are found by them.
        let stats = leaf_stats(numbers.as_ref());
        let pages = vec![ChunkPage { size: length, rows: Some(count), stats }];
        let offset = *position;
        *position += u64::from(length);
        out.push(Bytes::from(bytes));
        Ok(Chunk::Pages(Box::new(Pages { offset, length, stats, dictionary: Vec::new(), pages, bounds: None, filter: None })))
    }

    /// Moves the stripe that was written last.
    pub(super) fn move_last_stripe(&mut self, by: u64) {
        self.metadata.move_last_stripe(by);
    }

    /// The metadata of all batches.
    pub(super) fn cmb(&self, checksums: bool) -> Result<Vec<u8>> {
        self.metadata.finish(None, checksums)
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::WriterOptions;
    use super::*;

    fn writer(rows: &[usize]) -> BatchWriter {
        let mut writer = BatchWriter::new(PageSettings::new(&WriterOptions::default(), false));
        rows.iter().for_each(|rows| writer.push(None, *rows).unwrap());
        writer
    }

    const ROOM: Room = Room { page: 10, stripe: 25, is_empty: true, flush: false };

    #[test]
    fn pages_are_filled_with_whole_batches() {
        let mut batches = writer(&[4, 4, 4, 12, 9, 1, 3]);
        let encode = |rows: &[usize]| Next::Encode(rows.into());
        assert_eq!(batches.next(ROOM), encode(&[4, 8]));
        assert_eq!(batches.next(ROOM), encode(&[4]));
        assert_eq!(batches.next(ROOM), encode(&[12]));
        assert_eq!(batches.next(ROOM), encode(&[9, 10]));
        assert_eq!(batches.next(ROOM), Next::Wait);
        assert_eq!(batches.next(Room { flush: true, ..ROOM }), encode(&[3]));
        assert_eq!(batches.next(Room { flush: true, ..ROOM }), Next::Wait);
        assert_eq!(batches.waiting_rows(), 0);
    }

    #[test]
    fn a_batch_goes_to_the_next_stripe_or_has_one_of_its_own() {
        let mut batches = writer(&[4, 30]);
        let room = Room { stripe: 3, is_empty: false, ..ROOM };
        assert_eq!(batches.next(room), Next::EndStripe);
        assert_eq!(batches.next(ROOM), Next::Encode([4].into()));
        assert_eq!(batches.next(Room { stripe: 21, is_empty: false, ..ROOM }), Next::EndStripe);
        assert_eq!(batches.next(ROOM), Next::Encode([30].into()));
    }

    #[test]
    fn ids_go_on_from_the_greatest_and_lengths_have_limits() {
        let mut batches = writer(&[1]);
        for (id, rows) in [(Some(7), 1), (None, 1), (Some(-3), BATCH_ROWS_MAX), (None, 1), (Some(i64::MAX), 1), (None, 1)] {
            batches.push(id, rows).unwrap();
        }
        let ids: Vec<i64> = batches.waiting.iter().map(|batch| batch.id).collect();
        assert_eq!(ids, [0, 7, 8, -3, 9, i64::MAX, i64::MAX]);
        for rows in [0, BATCH_ROWS_MAX + 1] {
            let error = batches.push(Some(5), rows).unwrap_err().to_string();
            assert!(error.contains("batch 5") && error.contains("write it as several batches"), "{error}");
        }
    }
}
