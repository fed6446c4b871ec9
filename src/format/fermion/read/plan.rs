//! Which bytes a stripe needs: rows and columns to pages, pages to requests.

use std::collections::HashSet;
use std::ops::Range;

use arrow::datatypes::{DataType, UnionMode};

use super::meta::{ColumnMeta, FileMeta};
use crate::format::array::{Ranges, wanted_streams};
use crate::format::error::{Error, Result};
use crate::format::fermion::batches::BatchColumn;
use crate::format::fermion::cmb::{Chunk, Cmb, Pages};
use crate::format::fermion::stats::ZoneStats;
use crate::format::groups::Plan;
use crate::format::requests::{Fetched, requests};
use crate::format::scan::{ScanRequest, Section};

/// What to load of each column of a stripe.
#[derive(Debug)]
pub(super) struct StripePlan {
    pub(super) columns: Vec<ColumnPlan>,
    /// Requests in the order of the file; every page that had not been fetched lies in one of them.
    pub(super) requests: Vec<Range<u64>>,
}

#[derive(Debug, Clone)]
pub(super) enum ColumnPlan {
    /// Not to be read.
    Later,
    /// Null in every row.
    Null,
    /// A plan per stream.
    Streams(Vec<StreamPlan>),
    /// Follows from the batches of the stripe.
    Batches(BatchPlan),
}

/// The metadata of the batches of a stripe.
#[derive(Debug, Clone)]
pub(super) struct BatchPlan {
    pub(super) column: BatchColumn,
    /// Rows of the stripe.
    pub(super) rows: u32,
    /// Ids, where those are wanted, and lengths.
    pub(super) streams: Vec<StreamPlan>,
}

#[derive(Debug, Clone)]
pub(super) enum StreamPlan {
    /// Nothing is stored, see [`Chunk::Default`].
    Default,
    /// Nothing is stored, all slots are null.
    AllNull,
    /// These pages, and those of the dictionary that they may need. Each row has so many slots, if that is known.
    Pages { dictionary: Vec<Range<u64>>, pages: Vec<PagePlan>, slots_per_row: Option<usize> },
    /// A chunk whose pages are found by their own headers.
    Chunk(ChunkPlan),
    /// Of a part of the column that is left out.
    LeftOut,
}

/// A column to read.
#[derive(Debug)]
pub(super) struct WantedColumn {
    column: usize,
    /// Of each stream, whether it is needed, if not all are.
    streams: Option<Vec<bool>>,
    /// Which pages are needed is not known from the rows.
    counted: bool,
    of_batches: Option<BatchColumn>,
}

impl WantedColumn {
    /// A column of the file's type `file` that is read as `out`.
    pub(super) fn new(column: usize, file: &DataType, out: &DataType) -> Result<Self> {
        Ok(Self { column, streams: wanted_streams(file, out)?, counted: has_dense_union(file), of_batches: None })
    }

    /// A column that follows from the batches: where a row is among them is known by counting.
    pub(super) fn of_batches(column: usize, which: BatchColumn) -> Self {
        let streams = (which == BatchColumn::Index).then(|| vec![false, true]);
        Self { column, streams, counted: true, of_batches: Some(which) }
    }

    /// Whether where its values are is counted from the first row on.
    pub(super) fn has_dense_union(&self) -> bool {
        self.counted && self.of_batches.is_none()
    }

    fn wants(&self, stream: usize) -> bool {
        self.streams.as_ref().is_none_or(|streams| streams.get(stream) == Some(&true))
    }
}

#[derive(Debug, Clone)]
pub(super) struct PagePlan {
    pub(super) range: Range<u64>,
    /// The first slot of the page in the stripe.
    pub(super) first: usize,
    /// Its slots.
    pub(super) rows: u32,
    /// What is known of its values.
    pub(super) stats: ZoneStats,
}

/// A chunk of which only its pages say what they are.
#[derive(Debug, Clone)]
pub(super) struct ChunkPlan {
    pub(super) range: Range<u64>,
    /// Whether there is one, and no other behind it.
    pub(super) is_page: bool,
}

impl StripePlan {
    /// Plans to read `rows` of the columns. Their metadata must be loaded.
    pub(super) fn new(meta: &FileMeta, columns: &[WantedColumn], stripe: usize, rows: &Ranges) -> Result<Self> {
        check_apart(meta, columns, stripe)?;
        let plans = columns.iter().map(|column| plan_column(meta, column, stripe, rows)).collect::<Result<Vec<_>>>()?;
        let requests = requests(plans.iter().flat_map(ColumnPlan::ranges).collect());
        Ok(Self { columns: plans, requests })
    }

    /// Only the columns at some positions, if that leaves something worth leaving of the others.
    pub(super) fn to_select(&self, request: &ScanRequest) -> Option<Self> {
        let of = |selects: bool| self.columns.iter().enumerate().filter(move |(position, _)| request.selects_by(*position) == selects);
        let selecting: Vec<Range<u64>> = of(true).flat_map(|(_, plan)| plan.ranges()).collect();
        // A column may be read in two ways, whose pages are the same.
        let known: HashSet<&Range<u64>> = selecting.iter().collect();
        let others = of(false).flat_map(|(_, plan)| plan.ranges()).filter(|range| !known.contains(range));
        if !request.is_selective(others.map(|range| range.end - range.start).sum()) {
            return None;
        }
        let requests = requests(selecting);
        let only = |(position, plan): (usize, &ColumnPlan)| if request.selects_by(position) { plan.clone() } else { ColumnPlan::Later };
        Some(Self { columns: self.columns.iter().enumerate().map(only).collect(), requests })
    }

    /// The same without what has been fetched.
    pub(super) fn after(self, fetched: &Fetched) -> Self {
        let missing = self.columns.iter().flat_map(ColumnPlan::ranges).filter(|range| !fetched.has(range));
        let requests = requests(missing.collect());
        Self { requests, ..self }
    }

    /// Whether pages can be fetched when rows of theirs are read: what follows from batches is found out from all of them.
    pub(super) fn is_deferrable(&self) -> bool {
        !self.columns.iter().any(|column| matches!(column, ColumnPlan::Batches(_)))
    }
}

impl Plan for StripePlan {
    fn requests(&self) -> &[Range<u64>] {
        &self.requests
    }

    fn take_requests(&mut self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.requests)
    }
}

/// Refuses chunks that overlap, before anything is made of their pages: a few bytes that are those of many streams would take the memory of as many.
fn check_apart(meta: &FileMeta, columns: &[WantedColumn], stripe: usize) -> Result<()> {
    let mut places: Vec<(Range<u64>, [usize; 2])> = Vec::new();
    for wanted in columns.iter().filter(|wanted| wanted.of_batches.is_none()) {
        let Some(ColumnMeta::Cmb(cmb)) = meta.column(wanted.column)? else { continue };
        for stream in (0..cmb.streams().len()).filter(|stream| wanted.wants(*stream)) {
            let place = cmb.place(stream, stripe).map_err(|error| meta.in_cmb(error, wanted.column))?;
            places.extend(place.map(|place| (place, [wanted.column, stream])));
        }
    }
    places.sort_unstable_by_key(|(place, whose)| (place.start, place.end, *whose));
    // A column may be read in two ways.
    places.dedup();
    match places.windows(2).find(|pair| pair[1].0.start < pair[0].0.end) {
        Some(pair) => {
            let (place, [column, _]) = &pair[1];
            let error = Error::invalid_file(format!("a chunk of {} bytes at {} overlaps another", place.end - place.start, place.start));
            Err(meta.in_cmb(error.in_section(Section::ColumnMetadata), *column))
        }
        None => Ok(()),
    }
}

fn plan_column(meta: &FileMeta, wanted: &WantedColumn, stripe: usize, rows: &Ranges) -> Result<ColumnPlan> {
    match meta.column(wanted.column)? {
        None => Err(Error::invalid_argument("the metadata of a column is not loaded").in_section(Section::ColumnMetadata)),
        Some(ColumnMeta::AllNull) => Ok(ColumnPlan::Null),
        Some(ColumnMeta::Cmb(cmb)) => {
            let plan = |stream| match wanted.wants(stream) {
                true => plan_stream(&cmb, stream, stripe, rows, wanted.counted),
                false => Ok(StreamPlan::LeftOut),
            };
            let streams = (0..cmb.streams().len()).map(plan).collect::<Result<_>>();
            let plan = |streams| match wanted.of_batches {
                None => ColumnPlan::Streams(streams),
                Some(column) => ColumnPlan::Batches(BatchPlan { column, rows: meta.stripes().get(stripe).map_or(0, |stripe| stripe.rows), streams }),
            };
            streams.map(plan).map_err(|error| meta.in_cmb(error, wanted.column))
        }
    }
}

/// Where a row of a dense union stands in its children is known by counting the rows before it: all pages are needed.
fn has_dense_union(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(_, UnionMode::Dense) => true,
        DataType::Union(fields, UnionMode::Sparse) => fields.iter().any(|(_, field)| has_dense_union(field.data_type())),
        DataType::Struct(fields) => fields.iter().any(|field| has_dense_union(field.data_type())),
        DataType::FixedSizeList(item, _) => has_dense_union(item.data_type()),
        DataType::Dictionary(_, values) => has_dense_union(values),
        DataType::RunEndEncoded(_, values) => has_dense_union(values.data_type()),
        _ => false,
    }
}

fn plan_stream(cmb: &Cmb, stream: usize, stripe: usize, rows: &Ranges, counted: bool) -> Result<StreamPlan> {
    let slots_per_row = cmb.streams().nth(stream).filter(|_| !counted).and_then(|stream| stream.slots_per_row);
    let slots_per_row = slots_per_row.and_then(|slots| usize::try_from(slots).ok());
    Ok(match cmb.chunk(stream, stripe)? {
        Chunk::Default => StreamPlan::Default,
        Chunk::AllNull => StreamPlan::AllNull,
        Chunk::Pages(pages) if only_pages_say(&pages) => {
            let range = pages.offset..pages.offset + u64::from(pages.length);
            StreamPlan::Chunk(ChunkPlan { range, is_page: !pages.pages.is_empty() })
        }
        Chunk::Pages(pages) => plan_pages(&pages, slots_per_row, rows),
    })
}

/// Whether the pages' own headers say which rows they have, and nothing else does.
fn only_pages_say(chunk: &Pages) -> bool {
    chunk.pages.iter().all(|page| page.rows.is_none())
}

fn plan_pages(chunk: &Pages, slots_per_row: Option<usize>, rows: &Ranges) -> StreamPlan {
    let mut offset = chunk.offset;
    let mut dictionary: Vec<Range<u64>> = Vec::with_capacity(chunk.dictionary.len());
    for size in &chunk.dictionary {
        dictionary.push(offset..offset + u64::from(*size));
        offset += u64::from(*size);
    }
    let pages = wanted_pages(chunk, offset, slots_per_row, rows);
    if pages.is_empty() {
        dictionary.clear();
    }
    StreamPlan::Pages { dictionary, pages, slots_per_row }
}

/// The pages that hold a wanted row; below a list, where only the data says which those are, all pages.
fn wanted_pages(pages: &Pages, mut offset: u64, slots_per_row: Option<usize>, rows: &Ranges) -> Vec<PagePlan> {
    let mut first = 0;
    let mut wanted = Vec::with_capacity(pages.pages.len());
    for page in &pages.pages {
        let range = offset..offset + u64::from(page.size);
        offset = range.end;
        let rows_of_page = page.rows.unwrap_or_default();
        let plan = PagePlan { range, first, rows: rows_of_page, stats: page.stats };
        let slots = first..first.saturating_add(rows_of_page as usize);
        first = slots.end;
        if slots_per_row.is_none_or(|scale| overlaps(rows, scale, &slots)) {
            wanted.push(plan);
        }
    }
    wanted
}

/// Whether one of the rows has one of the slots.
fn overlaps(rows: &Ranges, scale: usize, slots: &Range<usize>) -> bool {
    let behind = rows.partition_point(|rows| rows.end.saturating_mul(scale) <= slots.start);
    rows.get(behind).is_some_and(|rows| rows.start.saturating_mul(scale) < slots.end)
}

impl ColumnPlan {
    fn ranges(&self) -> Vec<Range<u64>> {
        match self {
            Self::Later | Self::Null => Vec::new(),
            Self::Streams(streams) | Self::Batches(BatchPlan { streams, .. }) => streams.iter().flat_map(StreamPlan::ranges).collect(),
        }
    }
}

impl StreamPlan {
    fn ranges(&self) -> Vec<Range<u64>> {
        match self {
            Self::Default | Self::AllNull | Self::LeftOut => Vec::new(),
            Self::Pages { dictionary, pages, .. } => dictionary.iter().chain(pages.iter().map(|page| &page.range)).cloned().collect(),
            Self::Chunk(chunk) => vec![chunk.range.clone()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fermion::cmb::ChunkPage;

    #[test]
    fn only_pages_with_wanted_rows_are_read() {
        let page = |rows| ChunkPage { size: 8, rows: Some(rows), stats: ZoneStats::UNKNOWN };
        let (stats, pages) = (ZoneStats::UNKNOWN, vec![page(10), page(10), page(5)]);
        let mut pages = Pages { offset: 80, length: 24, stats, dictionary: Vec::new(), pages, bounds: None, filter: None };
        let check = |scale: Option<usize>, rows: &Ranges, expected: &[usize]| {
            let firsts: Vec<usize> = wanted_pages(&pages, 80, scale, rows).iter().map(|page| page.first).collect();
            assert_eq!(firsts, expected, "{scale:?} {rows:?}");
        };
        check(Some(1), &[0..25], &[0, 10, 20]);
        check(Some(1), &[10..20], &[10]);
        check(Some(1), &[9..10, 20..21], &[0, 20]);
        check(Some(5), &[2..4], &[10]);
        check(None, &[2..4], &[0, 10, 20]);
        check(Some(1), &[], &[]);
        // With the dictionary, which comes first, if there are any.
        (pages.length, pages.dictionary) = (64, vec![16, 24]);
        let fetched = |rows: &Ranges| plan_pages(&pages, Some(1), rows).ranges();
        assert_eq!(fetched(&[9..10, 20..21]), [80..96, 96..120, 120..128, 136..144]);
        assert_eq!(fetched(&[]), Vec::<Range<u64>>::new());
    }
}
