//! Rounds of pages: rows that are a page of each column, or several where they are large.
//!
//! What a column learns from its pages is known to its next ones, so that its rounds follow each other. Columns do not wait for each other: at the end of each round one thread
//! would be busy with the pages that take longest, and the others with nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;

use super::arena::Arena;
use super::column::{ColumnPage, ColumnWriter};
use crate::format::array::Ends;
use crate::format::error::Result;
use crate::format::parallel::{Task, in_parallel_growing};

/// Bytes of numbers, or as much work, that are not worth being shared among threads: a page of wide decimals.
const WORK_AT_ONCE: usize = 1 << 20;

/// Rows that are encoded together, and where those of batches end.
#[derive(Debug)]
pub(super) struct Round<'a> {
    pub(super) batches: Vec<RecordBatch>,
    pub(super) ends: Option<&'a Ends>,
}

/// What there is to do for a column.
enum Work {
    /// To cut its next rows into pages.
    Cut(usize),
    /// To encode one of those.
    Encode(usize, Box<ColumnPage>),
}

/// Cuts the rows into pages and encodes them. Columns whose values may be large go first, and their pages are shared among threads; those of other columns fill the
/// gaps, each column as a whole: what has just been cut is in a cache.
pub(super) fn encode_rounds(columns: &mut [ColumnWriter], rounds: &[Round<'_>], threads: usize, arena: &mut Arena) -> Result<()> {
    let arena = Mutex::new(arena);
    let columns: Vec<_> = columns.iter_mut().map(|column| Mutex::new(Progress { column, round: 0, missing: 0 })).collect();
    let cuts = columns.iter().enumerate().map(|(index, column)| lock(column).next_cut(index));
    in_parallel_growing(cuts.collect::<Vec<_>>(), threads, |work| {
        let (index, encoded) = match work {
            Work::Cut(index) => (index, None),
            Work::Encode(index, mut page) => {
                page.encode()?;
                (index, Some(page))
            }
        };
        let Some(column) = columns.get(index) else { return Ok(Vec::new()) };
        let mut column = lock(column);
        match encoded {
            None => column.advance(index, rounds, &arena),
            Some(page) => Ok(column.put_back(index, *page, rounds, &arena)),
        }
    })
}

/// How far a column is.
struct Progress<'a> {
    column: &'a mut ColumnWriter,
    /// The next round to be cut.
    round: usize,
    /// Pages of the last one that have been taken and not been put back.
    missing: usize,
}

impl Progress<'_> {
    fn next_cut(&self, index: usize) -> Task<Work> {
        // How long the pages take is known when they are cut.
        Task { weight: if self.column.may_be_large() { usize::MAX } else { 0 }, task: Work::Cut(index) }
    }

    /// Goes on to pages that are worth being shared, or to the end.
    fn advance(&mut self, index: usize, rounds: &[Round<'_>], arena: &Mutex<&mut Arena>) -> Result<Vec<Task<Work>>> {
        while let Some(round) = rounds.get(self.round) {
            self.round += 1;
            let arrays: Vec<_> = round.batches.iter().map(|batch| batch.column(index)).collect();
            self.column.push(&arrays, round.ends)?;
            let pages = self.column.take_unencoded();
            if pages.iter().map(ColumnPage::work).sum::<usize>() > WORK_AT_ONCE {
                self.missing = pages.len();
                return Ok(pages.into_iter().map(|page| Task { weight: page.work(), task: Work::Encode(index, Box::new(page)) }).collect());
            }
            for mut page in pages {
                page.encode()?;
                self.column.put_back(page);
            }
            self.column.settle(&mut lock(arena));
        }
        Ok(Vec::new())
    }

    /// Takes note of a page that was encoded, and goes on when it is the last.
    fn put_back(&mut self, index: usize, page: ColumnPage, rounds: &[Round<'_>], arena: &Mutex<&mut Arena>) -> Vec<Task<Work>> {
        self.column.put_back(page);
        self.missing -= 1;
        if self.missing > 0 {
            return Vec::new();
        }
        self.column.settle(&mut lock(arena));
        rounds.get(self.round).map(|_| self.next_cut(index)).into_iter().collect()
    }
}

/// Encodes the pages that came of closing a stripe.
pub(super) fn encode_closed(columns: &mut [ColumnWriter], threads: usize, arena: &mut Arena) -> Result<()> {
    let taken = columns.iter_mut().enumerate().flat_map(|(index, column)| column.take_unencoded().into_iter().map(move |page| (index, page)));
    let pages: Vec<_> = taken.map(|(index, page)| Task { weight: page.work(), task: (index, page) }).collect();
    let threads = threads.min(pages.len());
    let columns: Vec<_> = columns.iter_mut().map(Mutex::new).collect();
    in_parallel_growing(pages, threads, |(index, mut page)| {
        page.encode()?;
        if let Some(column) = columns.get(index) {
            lock(column).put_back(page);
        }
        Ok(Vec::new())
    })?;
    columns.iter().for_each(|column| lock(column).settle(arena));
    Ok(())
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
