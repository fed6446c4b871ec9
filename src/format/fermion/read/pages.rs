//! The loaded pages of a stream in one stripe: a page is opened when a row of it is decoded.

use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Range;

use bytes::Bytes;

use super::dictionary::LoadedDictionary;
use super::plan::{ChunkPlan, PagePlan, StreamPlan};
use crate::format::array::{Ranges, TypeCounts, slots};
use crate::format::codec::{Decoded, Output, PType};
use crate::format::error::{Error, Result};
use crate::format::fermion::page::{Page, PageExpect, PageHeader};
use crate::format::fermion::stats::ZoneStats;
use crate::format::requests::Fetched;

/// Rows from which on those that are read are taken for a part of many.
const SHARED_ROWS: usize = 4 << 10;

/// A stream of a column in one stripe.
#[derive(Debug)]
pub(super) enum LoadedStream {
    Default,
    AllNull,
    LeftOut,
    Pages(LoadedPages),
}

/// The pages of a stream that have been loaded, in their order.
#[derive(Debug, Default)]
pub(super) struct LoadedPages {
    pub(super) dictionary: Option<LoadedDictionary>,
    /// Not before the chunk is there, where only that says which they are.
    pages: OnceCell<Vec<LoadedPage>>,
    /// What is still to be fetched.
    deferred: Deferred,
    /// The pages that may be open or have bytes: from one, and before another.
    open: Cell<(usize, usize)>,
    /// The slots that have been read of the rows that were taken last: from one, and before another.
    read: Cell<Option<(usize, usize)>>,
    /// Of type ids: how many there are of each before the first slot that was read last.
    pub(super) counted: RefCell<Option<Box<(usize, TypeCounts)>>>,
}

/// Which pages of a stream may not be there yet.
#[derive(Debug, Default)]
enum Deferred {
    /// None.
    #[default]
    Nothing,
    /// Any. Each row has so many slots; without a number, all pages are needed for any row.
    Pages { slots_per_row: Option<usize> },
    /// All of a chunk, which is needed for any row.
    Chunk(ChunkPlan),
}

/// A page that has been loaded, or that is when a row of it is read.
#[derive(Debug)]
pub(super) struct LoadedPage {
    /// First slot in the stripe.
    pub(super) first: usize,
    /// Slots; the page's own header says, and the metadata agrees.
    pub(super) rows: u32,
    /// Where the page is in the file.
    pub(super) range: Range<u64>,
    /// What the metadata says of its values.
    pub(super) stats: ZoneStats,
    pub(super) bytes: OnceCell<Bytes>,
    pub(super) page: OnceCell<Page>,
}

/// What every page of a stream has to be.
pub(super) struct Expect {
    pub(super) ptype: PType,
    pub(super) text: bool,
    pub(super) extra: u32,
    pub(super) checksums: bool,
    /// There is one value for each row.
    pub(super) are_rows: bool,
}

impl LoadedPages {
    pub(super) fn new(dictionary: Option<LoadedDictionary>, pages: Vec<LoadedPage>) -> Self {
        Self { dictionary, open: Cell::new((0, pages.len())), pages: pages.into(), ..Self::default() }
    }

    /// None as long as the chunk that says which they are is missing.
    pub(super) fn pages(&self) -> &[LoadedPage] {
        self.pages.get().map_or(&[], Vec::as_slice)
    }

    /// Adds what has to be fetched before these rows can be read, and as long as all of that is no more bytes than `along`, what comes right behind it: places in the file, and what
    /// [`Self::give`] knows each by.
    pub(super) fn missing(&self, rows: &Ranges, along: u64, missing: &mut Vec<(usize, Range<u64>)>) {
        match &self.deferred {
            Deferred::Pages { slots_per_row } => self.missing_pages(rows, *slots_per_row, along, missing),
            Deferred::Chunk(chunk) if self.pages.get().is_none() && !rows.is_empty() => missing.push((0, chunk.range.clone())),
            Deferred::Nothing | Deferred::Chunk(_) => {}
        }
    }

    /// Pages are counted from those of the dictionary on.
    fn missing_pages(&self, rows: &Ranges, slots_per_row: Option<usize>, along: u64, missing: &mut Vec<(usize, Range<u64>)>) {
        let before = missing.len();
        let (mut next, mut bytes, mut are_any) = (0, 0, false);
        let all = [0..usize::MAX];
        let (rows, scale) = slots_per_row.map_or((if rows.is_empty() { rows } else { &all }, 1), |scale| (rows, scale));
        for rows in rows {
            let first = self.index_of(rows.start.saturating_mul(scale)).max(next);
            next = self.first_from(rows.end.saturating_mul(scale)).max(first);
            are_any |= first < next;
            for (index, page) in (first..next).zip(&self.pages()[first..next]).filter(|(_, page)| !page.is_there()) {
                missing.push((self.dictionary_pages() + index, page.range.clone()));
                bytes += page.length();
            }
        }
        if missing.len() > before {
            self.add_along(next, along.saturating_sub(bytes), missing);
        }
        // Pages may be there without it, where others were fetched with them in between.
        if are_any {
            missing.extend(self.dictionary.iter().flat_map(LoadedDictionary::missing).enumerate());
        }
    }

    fn dictionary_pages(&self) -> usize {
        self.dictionary.as_ref().map_or(0, LoadedDictionary::page_count)
    }

    /// Adds up to so many bytes of what lies right behind what is to be fetched, from a page on.
    fn add_along(&self, next: usize, mut bytes: u64, missing: &mut Vec<(usize, Range<u64>)>) {
        for (index, page) in self.pages().iter().enumerate().skip(next) {
            let is_behind = missing.last().is_some_and(|(_, last)| last.end == page.range.start);
            if !is_behind || page.is_there() || page.length() > bytes {
                return;
            }
            bytes -= page.length();
            missing.push((self.dictionary_pages() + index, page.range.clone()));
        }
    }

    /// Takes what was [missing](Self::missing).
    pub(super) fn give(&self, index: usize, bytes: Bytes) -> Result<()> {
        if let Deferred::Chunk(chunk) = &self.deferred {
            let pages = pages_of(chunk, bytes)?;
            self.pages.get_or_init(|| pages);
            return Ok(());
        }
        match (index.checked_sub(self.dictionary_pages()), &self.dictionary) {
            (None, Some(dictionary)) => dictionary.give(bytes),
            (Some(index), _) => {
                if let Some(page) = self.pages().get(index) {
                    // What is there already is the same.
                    page.bytes.set(bytes).ok();
                    self.opens(index..index + 1);
                }
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// Takes note of pages that may be open. No rows beside a page of no rows are pages that end before they begin.
    fn opens(&self, pages: Range<usize>) {
        if !pages.is_empty() {
            let open = self.open.get();
            self.open.set(joined((open.0 < open.1).then_some(open), (pages.start, pages.end)));
        }
    }

    /// Opens a page, if it is not open.
    pub(super) fn open<'a>(&self, page: &'a LoadedPage, expect: &Expect) -> Result<&'a Page> {
        page.open(expect, self.dictionary.as_ref())
    }

    /// How many values the dictionary may have where a part of its own may have so many for these ranges: what is found out about its values serves
    /// all loaded pages, as a page's does the ranges.
    pub(super) fn most_shared(&self, ranges: &Ranges, most: usize) -> usize {
        // Of few rows, what is found out about the dictionary is not likely to be of use to others.
        if slots(ranges) < SHARED_ROWS {
            return most;
        }
        let span = ranges.first().zip(ranges.last()).map_or(1, |(first, last)| (last.end - first.start).max(1));
        let loaded: usize = self.pages().iter().map(|page| page.rows as usize).sum();
        most.saturating_mul(loaded) / span
    }

    /// The page of a slot, or the first one behind it.
    pub(super) fn index_of(&self, slot: usize) -> usize {
        self.pages().partition_point(|page| page.end() <= slot)
    }

    /// The pages from the one of the first slot of these ranges to the one of the last.
    pub(super) fn spanned(&self, ranges: &Ranges) -> &[LoadedPage] {
        let Some((first, last)) = ranges.first().zip(ranges.last()) else { return &[] };
        self.pages().get(self.index_of(first.start)..self.first_from(last.end)).unwrap_or_default()
    }

    /// The pages with slots of these ranges, and which of each page's slots those are.
    pub(super) fn pieces<'a>(&'a self, ranges: &'a Ranges) -> impl Iterator<Item = Result<(&'a LoadedPage, Range<usize>)>> {
        if let (Some(first), Some(last)) = (ranges.first(), ranges.last()) {
            self.read.set(Some(joined(self.read.get(), (first.start, last.end))));
            self.opens(self.index_of(first.start)..self.first_from(last.end));
        }
        ranges.iter().flat_map(move |range| {
            let mut index = self.index_of(range.start);
            let mut next = range.start;
            std::iter::from_fn(move || {
                while next < range.end {
                    let Some(page) = self.pages().get(index).filter(|page| page.first <= next) else {
                        next = range.end;
                        return Some(Err(missing_rows(range, self.pages())));
                    };
                    let local = next - page.first..range.end.min(page.end()) - page.first;
                    next = page.end();
                    index += 1;
                    // A page may have no rows.
                    if !local.is_empty() {
                        return Some(Ok((page, local)));
                    }
                }
                None
            })
        })
    }

    pub(super) fn decode(&self, expect: &Expect, ranges: &Ranges) -> Result<Decoded> {
        // Pages that say how many values they have come before the memory for those.
        self.pieces(ranges).try_for_each(|piece| {
            let (page, _) = piece?;
            self.open(page, expect).map(drop).map_err(|error| error.at(page.range.start))
        })?;
        let new = if expect.are_rows { Output::of_rows } else { Output::new };
        let mut out = new(expect.ptype, slots(ranges).saturating_add(expect.extra as usize));
        self.pieces(ranges).try_for_each(|piece| {
            let (page, local) = piece?;
            // An offsets page has one number more than it has slots, and so has the range decoded.
            let values = local.start..local.end + expect.extra as usize;
            self.open(page, expect).and_then(|page| page.decode(values, &mut out)).map_err(|error| error.at(page.range.start))
        })?;
        Ok(out.finish())
    }

    /// Closes the pages that end before the first slot that can still be read, or backwards, that begin behind the last one. One that is needed after all is
    /// opened again; where slots are rows, which come once, there is none, and their bytes go, too.
    pub(super) fn release(&mut self, backwards: bool, are_rows: bool) {
        let Some((start, end)) = self.read.take() else { return };
        let open = self.open.get();
        let (done, left) = if backwards {
            let from = self.first_from(start).clamp(open.0, open.1);
            (from..open.1, (open.0, from))
        } else {
            let to = self.index_of(end).clamp(open.0, open.1);
            (open.0..to, (to, open.1))
        };
        for page in self.pages.get_mut().and_then(|pages| pages.get_mut(done)).unwrap_or_default() {
            page.page.take();
            if are_rows {
                page.bytes.take();
            }
        }
        self.open.set(left);
    }

    /// Closes nothing: the rows that were taken last are to be taken again.
    pub(super) fn retain(&self) {
        self.read.set(None);
    }

    /// The first page that begins at a slot or behind it.
    fn first_from(&self, slot: usize) -> usize {
        self.pages().partition_point(|page| page.first < slot)
    }
}

fn missing_rows(range: &Range<usize>, pages: &[LoadedPage]) -> Error {
    let last = pages.last().map_or(0, LoadedPage::end);
    Error::invalid_file(format!("slots {range:?} are needed, but the pages at hand end at {last}"))
}

/// From the lesser start to the greater end.
fn joined(known: Option<(usize, usize)>, now: (usize, usize)) -> (usize, usize) {
    known.map_or(now, |known| (known.0.min(now.0), known.1.max(now.1)))
}

impl LoadedPage {
    pub(super) fn end(&self) -> usize {
        self.first.saturating_add(self.rows as usize)
    }

    fn is_there(&self) -> bool {
        self.bytes.get().is_some()
    }

    fn length(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn open(&self, expect: &Expect, dictionary: Option<&LoadedDictionary>) -> Result<&Page> {
        if let Some(page) = self.page.get() {
            return Ok(page);
        }
        let expect = PageExpect { ptype: expect.ptype, rows: Some(self.rows), extra: expect.extra, checksum: expect.checksums, utf8: expect.text };
        let bytes = self.bytes.get().ok_or_else(|| Error::invalid_argument("a page that is not loaded"))?;
        let page = Page::open_with(bytes, &expect, || dictionary.map(|dictionary| dictionary.open(&expect)).transpose())?;
        Ok(self.page.get_or_init(|| page))
    }
}

/// The pages of a stream, which have been fetched; where they are `deferred`, those that have not been are when they are needed.
pub(super) fn load_stream(plan: StreamPlan, fetched: &Fetched, deferred: bool) -> Result<LoadedStream> {
    match plan {
        StreamPlan::Default => Ok(LoadedStream::Default),
        StreamPlan::AllNull => Ok(LoadedStream::AllNull),
        StreamPlan::LeftOut => Ok(LoadedStream::LeftOut),
        StreamPlan::Chunk(chunk) => Ok(LoadedStream::Pages(load_chunk(chunk, fetched, deferred)?)),
        StreamPlan::Pages { dictionary, pages, slots_per_row } => {
            let dictionary = LoadedDictionary::load(dictionary, fetched, deferred)?;
            let pages = pages.into_iter().map(|page| load_page(page, fetched, deferred)).collect::<Result<_>>()?;
            let deferred = if deferred { Deferred::Pages { slots_per_row } } else { Deferred::Nothing };
            Ok(LoadedStream::Pages(LoadedPages { deferred, ..LoadedPages::new(dictionary, pages) }))
        }
    }
}

fn load_chunk(chunk: ChunkPlan, fetched: &Fetched, deferred: bool) -> Result<LoadedPages> {
    if deferred && !fetched.has(&chunk.range) {
        return Ok(LoadedPages { deferred: Deferred::Chunk(chunk), ..LoadedPages::default() });
    }
    Ok(LoadedPages::new(None, pages_of(&chunk, fetched.get(&chunk.range)?)?))
}

fn pages_of(chunk: &ChunkPlan, bytes: Bytes) -> Result<Vec<LoadedPage>> {
    let pages = walk_pages(bytes, chunk.range.start)?;
    if chunk.is_page && pages.len() != 1 {
        return Err(Error::invalid_file(format!("a chunk of one page has {}", pages.len())).at(chunk.range.start));
    }
    Ok(pages)
}

fn load_page(plan: PagePlan, fetched: &Fetched, deferred: bool) -> Result<LoadedPage> {
    let PagePlan { range, first, rows, stats } = plan;
    let bytes = if deferred && !fetched.has(&range) { OnceCell::new() } else { fetched.get(&range)?.into() };
    Ok(LoadedPage { first, rows, range, stats, bytes, page: OnceCell::new() })
}

fn row_count(header: &PageHeader) -> Result<u32> {
    u32::try_from(header.rows()).map_err(|_| Error::invalid_file("a page has too many rows"))
}

/// The pages of a chunk, one after the other.
pub(super) fn walk_pages(chunk: Bytes, offset: u64) -> Result<Vec<LoadedPage>> {
    let mut pages = Vec::new();
    let (mut at, mut first) = (0, 0_usize);
    while at < chunk.len() {
        let header = PageHeader::read(&chunk[at..])?;
        let (length, rows) = (header.length(), row_count(&header)?);
        let end = at.checked_add(length).filter(|end| length >= PageHeader::LENGTH && length.is_multiple_of(8) && *end <= chunk.len());
        let end = end.ok_or_else(|| Error::invalid_file(format!("a page of {length} bytes does not fit its chunk")).at(offset + at as u64))?;
        pages.push(LoadedPage {
            first,
            rows,
            range: offset + at as u64..offset + end as u64,
            stats: ZoneStats::UNKNOWN,
            bytes: chunk.slice(at..end).into(),
            page: OnceCell::new(),
        });
        first = first.saturating_add(rows as usize);
        at = end;
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(rows: &[u32]) -> LoadedPages {
        let mut first = 0;
        let page = rows.iter().map(|rows| {
            let page = LoadedPage {
                first,
                rows: *rows,
                range: 0..1,
                stats: ZoneStats::UNKNOWN,
                bytes: Bytes::from_static(b"0").into(),
                page: OnceCell::new(),
            };
            first += *rows as usize;
            page
        });
        LoadedPages::new(None, page.collect())
    }

    #[test]
    fn bytes_are_there_until_the_rows_behind_them_are_read() {
        let there = |pages: &LoadedPages| pages.pages().iter().map(LoadedPage::is_there).collect::<Vec<_>>();
        let read = |pages: &LoadedPages, rows: Range<usize>| pages.pieces(&[rows]).map(|piece| piece.unwrap().1.len()).sum::<usize>();
        let mut forwards = pages(&[10; 4]);
        // The first page is passed by.
        assert_eq!(read(&forwards, 15..20), 5);
        forwards.release(false, true);
        assert_eq!(there(&forwards), [false, false, true, true]);
        assert_eq!(read(&forwards, 25..32), 7);
        forwards.release(false, true);
        assert_eq!(there(&forwards), [false, false, false, true]);

        let mut backwards = pages(&[10; 4]);
        assert_eq!(read(&backwards, 20..25), 5);
        backwards.release(true, true);
        assert_eq!(there(&backwards), [true, true, false, false]);

        let mut again = pages(&[10; 4]);
        assert_eq!(read(&again, 15..20), 5);
        again.release(false, false);
        assert_eq!(there(&again), [true; 4]);
    }

    #[test]
    fn no_rows_beside_pages_of_no_rows_are_released() {
        for rows in [&[0, 5][..], &[0, 0], &[5, 0, 5], &[5, 0], &[0], &[]] {
            let end = rows.iter().sum::<u32>() as usize;
            for (at, backwards) in (0..=end).flat_map(|at| [(at, false), (at, true)]) {
                let mut pages = pages(rows);
                pages.open.set((0, 0));
                for _ in 0..2 {
                    assert_eq!(pages.pieces(&[at..at]).count(), 0);
                    pages.release(backwards, true);
                }
            }
        }
    }

    #[test]
    fn a_dictionary_is_missing_even_where_pages_are_there() {
        let page = |first: usize, bytes: OnceCell<Bytes>| {
            let at = 100 + first as u64;
            LoadedPage { first, rows: 10, range: at..at + 10, stats: ZoneStats::UNKNOWN, bytes, page: OnceCell::new() }
        };
        let dictionary = LoadedDictionary::load(vec![80..90, 90..100], &Fetched::default(), true).unwrap();
        let there = Bytes::from_static(b"0123456789");
        let pages = vec![page(0, OnceCell::new()), page(10, there.clone().into()), page(20, there.clone().into())];
        let pages = LoadedPages { deferred: Deferred::Pages { slots_per_row: Some(1) }, ..LoadedPages::new(dictionary, pages) };
        let check = |rows: &Ranges, expected: &[(usize, Range<u64>)]| {
            let mut missing = Vec::new();
            pages.missing(rows, 0, &mut missing);
            assert_eq!(missing, expected, "{rows:?}");
        };
        check(&[], &[]);
        check(&[15..16], &[(0, 80..90), (1, 90..100)]);
        check(&[5..6, 15..16], &[(2, 100..110), (0, 80..90), (1, 90..100)]);
        pages.give(0, there.clone()).unwrap();
        pages.give(1, there.clone()).unwrap();
        check(&[15..16], &[]);
        check(&[5..6], &[(2, 100..110)]);
        pages.give(2, there).unwrap();
        check(&[0..30], &[]);
    }

    #[test]
    fn what_comes_right_behind_is_read_along() {
        let mut loaded = pages(&[10; 5]).pages.into_inner().unwrap();
        for (index, page) in loaded.iter_mut().enumerate() {
            // There is something else between the last two.
            let at = 10 * index as u64 + u64::from(index == 4);
            (page.range, page.bytes) = (at..at + 10, OnceCell::new());
        }
        let pages = LoadedPages { deferred: Deferred::Pages { slots_per_row: Some(1) }, ..LoadedPages::new(None, loaded) };
        let along = |rows: Range<usize>, along| {
            let mut missing = Vec::new();
            pages.missing(&[rows], along, &mut missing);
            missing.into_iter().map(|(index, _)| index).collect::<Vec<_>>()
        };
        assert_eq!([along(0..1, 0), along(0..1, 19), along(0..1, 20)], [vec![0], vec![0], vec![0, 1]]);
        assert_eq!(along(5..15, 1000), [0, 1, 2, 3]);
        assert_eq!(along(45..46, 1000), [4]);
        pages.give(2, Bytes::from_static(b"0123456789")).unwrap();
        assert_eq!(along(5..15, 1000), [0, 1]);
    }
}
