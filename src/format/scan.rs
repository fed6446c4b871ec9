//! What a format and its caller say to each other.
//!
//! A format never reads a file. Opening one is a [`Load`] and reading it is a [`Scan`]: state machines that say which bytes they need next
//! and are given them. The caller decides where bytes come from, how requests are merged, what runs in parallel, and which zones to skip.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array, make_comparator};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;

use super::codes::Codes;
use super::error::{Error, Result};
use super::rows::Rows;
use super::search::Pieces;
use super::share::Share;

/// The part of a file that bytes belong to, for errors and for accounting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Section {
    /// The fixed-size end of the file, or a guess at the bytes before it.
    Footer,
    /// The serialized schema.
    Schema,
    /// The index of column metadata (CIT).
    ColumnIndex,
    /// The list of stripes.
    StripeDirectory,
    /// The metadata of messages (schema, record batches, dictionaries).
    Message,
    /// The metadata of a column (CMB).
    ColumnMetadata,
    /// Pages, or the bodies of record batches.
    Data,
    /// The values of dictionaries.
    Dictionary,
    /// The bloom filter of a chunk.
    BloomFilter,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Footer => "footer",
            Self::Schema => "schema",
            Self::ColumnIndex => "column index",
            Self::StripeDirectory => "stripe directory",
            Self::Message => "message",
            Self::ColumnMetadata => "column metadata",
            Self::Data => "data",
            Self::Dictionary => "dictionary",
            Self::BloomFilter => "bloom filter",
        })
    }
}

/// A request for bytes of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// The bytes wanted, never empty and never beyond the end of the file.
    pub range: Range<u64>,
    /// What they are.
    pub section: Section,
}

/// The next step of a [`Load`].
#[derive(Debug)]
pub enum Loading<T> {
    /// Give these bytes to the next [`Load::resume`], in this order.
    Fetch(Vec<Fetch>),
    /// Nothing more is needed.
    Ready(T),
}

/// Something that is made from bytes of the file, over as many fetches as it takes.
pub trait Load {
    /// What is made.
    type Output;

    /// Takes the bytes of the last [`Loading::Fetch`] (none at first) and says what is next.
    fn resume(&mut self, fetched: Vec<Bytes>) -> Result<Loading<Self::Output>>;
}

impl<L: Load + ?Sized> Load for Box<L> {
    type Output = L::Output;

    fn resume(&mut self, fetched: Vec<Bytes>) -> Result<Loading<Self::Output>> {
        self.as_mut().resume(fetched)
    }
}

/// What is known about a column over the whole file.
#[derive(Debug, Clone, Default)]
pub struct ColumnSummary {
    /// Nulls, if known.
    pub null_count: Option<u64>,
    /// A lower bound as an array of one value of the column's type, and whether it is the least value itself. `None` if unknown, or if there is no valid value.
    pub min: Option<(ArrayRef, bool)>,
    /// An upper bound, and whether it is the greatest value itself.
    pub max: Option<(ArrayRef, bool)>,
    /// How many different valid values there are, about.
    pub distinct_count: Option<u64>,
    /// The exact sum of the valid values of a column of integers or decimals (of these, unscaled). `None` if unknown, or if there is no valid value.
    pub sum: Option<i128>,
    /// Bytes of the valid values of a column of strings or binaries.
    pub value_bytes: Option<u64>,
    /// Bytes of the column's buffers before they were compressed, and whether these are all: those of dictionaries are aside.
    pub array_bytes: Option<(u64, bool)>,
}

/// A column of the file's schema, or a field within the structs of one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldPath {
    /// The column.
    pub column: usize,
    /// The field of the column, the field of that field, and so on, by their positions. Empty is the column itself.
    pub fields: Vec<usize>,
}

impl From<usize> for FieldPath {
    fn from(column: usize) -> Self {
        Self { column, fields: Vec::new() }
    }
}

/// What to read of a file.
#[derive(Debug, Clone)]
pub struct ScanRequest {
    /// Columns to read, in the order of the output.
    pub columns: Vec<usize>,
    /// Types of those columns in the output: the file's own, but strings and binaries may be read as any type of either, and dictionaries and
    /// run-end encoded columns as their values or the other way round. What is not wanted may be left out, and is then not fetched: structs may have
    /// fewer fields, those that are left in the file's order, and lists of anything may be lists of `Null`, which have lengths but no values.
    pub schema: SchemaRef,
    /// Columns, and fields of structs, whose statistics the caller prunes by; without any, there is no [`Step::Prune`].
    pub prune_columns: Vec<FieldPath>,
    /// Columns, by their indexes in the file's schema, of which the caller may know all values that wanted rows have; without any, there is no
    /// [`Step::Lookup`].
    pub lookup_columns: Vec<usize>,
    /// Positions in `columns` of those by whose values the caller tells which rows it wants; without any, there is no [`Step::Select`].
    pub select_columns: Vec<usize>,
    /// Ask for it only where so many bytes of other columns of a stripe could be left unread.
    pub select_bytes: u64,
    /// The same of all stripes of a Fermion file that are fetched together, where they can be fetched whole within [`Self::ahead_bytes`]: that takes less time than a second round for little.
    pub select_bytes_together: u64,
    /// Fetch the next stripes together, up to so many bytes: over a network, one request after the other takes longer than all at once. Where rows are selected, first the
    /// columns to select by are fetched of all of them, then what is left.
    /// Their pages are pruned when they are fetched, so that nothing should be known later by which more of them could be.
    pub ahead_bytes: u64,
    /// Read the rows that belong to this range of the file: of several ranges that make up the file, each row belongs to one. `None` reads all.
    pub range: Option<Range<u64>>,
    /// Where other scans read other ranges of a Fermion file: go on with what they have left. `None` reads this range alone.
    pub share: Option<Share>,
    /// Read these rows and no others, by their numbers in the file: ranges that ascend. `None` reads all.
    pub rows: Option<Vec<Range<u64>>>,
    /// Which rows to give first, batch by batch; those of a batch stay in the order of the file, and so does [`Step::Select`]. `None` is the order of the file throughout.
    pub first: Option<FirstRows>,
    /// What the caller says of zones changes while it reads: ask again before the rows of a stripe are given, of a stripe that has no pages with bounds of their own as one page.
    pub prune_again: bool,
    /// Rows of a batch.
    pub batch_rows: usize,
}

impl ScanRequest {
    /// All rows of these columns.
    pub fn new(columns: Vec<usize>, schema: SchemaRef) -> Self {
        Self {
            columns,
            schema,
            prune_columns: Vec::new(),
            lookup_columns: Vec::new(),
            select_columns: Vec::new(),
            select_bytes: 0,
            select_bytes_together: 0,
            ahead_bytes: 0,
            range: None,
            share: None,
            rows: None,
            first: None,
            prune_again: false,
            batch_rows: 8192,
        }
    }

    /// Refuses what no file can be asked.
    pub(crate) fn validate(&self) -> Result<()> {
        if self.columns.len() != self.schema.fields().len() {
            return Err(Error::invalid_argument("the scan's schema does not have the columns of the scan"));
        }
        if self.select_columns.iter().any(|position| *position >= self.columns.len()) {
            return Err(Error::invalid_argument("the scan does not have the columns to select by"));
        }
        if self.batch_rows == 0 {
            return Err(Error::invalid_argument("a batch has at least one row"));
        }
        let rows = self.rows.as_deref().unwrap_or_default();
        if !rows.is_sorted_by(|before, after| before.end <= after.start) || rows.iter().any(Range::is_empty) {
            return Err(Error::invalid_argument("the rows to read do not ascend"));
        }
        Ok(())
    }

    /// What is to be read of these ranges of rows, which are counted from the file's row number `first` on.
    pub(crate) fn wanted_of(&self, first: u64, ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
        let Some(wanted) = &self.rows else { return ranges };
        let place = |row: u64| usize::try_from(row.saturating_sub(first)).unwrap_or(usize::MAX);
        let of_range = |range: Range<usize>| {
            let from = wanted.partition_point(|wanted| place(wanted.end) <= range.start);
            let wanted = wanted.iter().skip(from).map(|wanted| place(wanted.start)..place(wanted.end));
            wanted.take_while(move |wanted| wanted.start < range.end).map(move |wanted| wanted.start.max(range.start)..wanted.end.min(range.end))
        };
        ranges.into_iter().flat_map(of_range).collect()
    }

    /// The columns that are read, pruned by or looked up in, each once.
    pub(crate) fn used_columns(&self) -> Vec<usize> {
        let pruned = self.prune_columns.iter().map(|path| path.column);
        let mut columns: Vec<usize> = self.columns.iter().chain(&self.lookup_columns).copied().chain(pruned).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Whether the column at a position says which rows are wanted.
    pub(crate) fn selects_by(&self, position: usize) -> bool {
        self.select_columns.contains(&position)
    }

    /// Whether there is something to select by, and so many bytes of the other columns are worth to ask.
    pub(crate) fn is_selective(&self, other_bytes: u64) -> bool {
        !self.select_columns.is_empty() && other_bytes > 0 && other_bytes >= self.select_bytes
    }
}

/// Which rows are wanted first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirstRows {
    /// The last ones: all of the file is read from its end.
    Last,
    /// For a caller that may stop early, of each stripe those with the least or greatest values.
    Extreme {
        /// Of this column, one of [`ScanRequest::prune_columns`].
        column: FieldPath,
        /// The greatest.
        greatest: bool,
        /// Whether these are the last of a stripe whose bounds do not tell.
        last: bool,
    },
}

impl FirstRows {
    /// Whether a stripe is read from its end, by its zones, if it has any: the last one is better than the first.
    pub(crate) fn are_last(&self, zones: Option<&Zones>) -> bool {
        match self {
            Self::Last => true,
            Self::Extreme { column, greatest, last } => last_is_better(column, *greatest, zones).unwrap_or(*last),
        }
    }
}

fn last_is_better(column: &FieldPath, greatest: bool, zones: Option<&Zones>) -> Option<bool> {
    let zone = zones?.columns.iter().find(|zone| zone.column == *column)?;
    let bounds = if greatest { &zone.max } else { &zone.min };
    let last = bounds.len().checked_sub(1)?;
    // Of runs, nulls are among the values.
    let unknown = bounds.logical_nulls();
    if unknown.is_some_and(|known| known.is_null(0) || known.is_null(last)) {
        return None;
    }
    match make_comparator(bounds, bounds, SortOptions::default()).ok()?(last, 0) {
        Ordering::Greater => Some(greatest),
        Ordering::Less => Some(!greatest),
        Ordering::Equal => None,
    }
}

/// How coarse a [`Zones`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// A zone is a stripe (or record batch, or page of rows) that is skipped or read as a whole.
    Stripe,
    /// A zone is a run of rows within a stripe over which every page of the columns asked for is the same.
    Page,
}

/// Statistics of consecutive zones of rows: which of them can be skipped?
#[derive(Debug, Clone)]
pub struct Zones {
    /// What a zone is.
    pub level: Level,
    /// Rows of each zone.
    pub row_counts: UInt64Array,
    /// Statistics of the columns that the scan was asked to prune by.
    pub columns: Vec<ZoneColumn>,
}

impl Zones {
    /// Some of them, at another level.
    pub(crate) fn slice(&self, level: Level, start: usize, count: usize) -> Self {
        let column = |column: &ZoneColumn| ZoneColumn {
            column: column.column.clone(),
            min: column.min.slice(start, count),
            max: column.max.slice(start, count),
            null_counts: column.null_counts.slice(start, count),
        };
        Self { level, row_counts: self.row_counts.slice(start, count), columns: self.columns.iter().map(column).collect() }
    }
}

/// Statistics of one column, one slot per zone; a null slot is an unknown number.
#[derive(Debug, Clone)]
pub struct ZoneColumn {
    /// Which column it is, as the scan was asked.
    pub column: FieldPath,
    /// Lower bounds, of the column's type; of runs, whose ends may not be able to number them, perhaps of that of its values.
    pub min: ArrayRef,
    /// Upper bounds, of the same type.
    pub max: ArrayRef,
    /// Nulls.
    pub null_counts: UInt64Array,
}

/// The caller's part of the conversation.
#[derive(Debug)]
pub enum Answer {
    /// Begin, or go on after [`Step::Decode`].
    Next,
    /// The bytes of the last [`Step::Fetch`], in its order.
    Fetched(Vec<Bytes>),
    /// Which zones of the last [`Step::Prune`] to read: `true` keeps a zone. Null is read as `true`.
    Keep(BooleanArray),
    /// The stripes of the last [`Step::Prune`] of stripes to read, by their index in it, in the order to read them.
    Visit(Vec<usize>),
    /// Of each column of the last [`Step::Lookup`], the values of which each wanted row has one; `None` if they may have others.
    Lookup(Vec<Option<ArrayRef>>),
    /// The rows of the last [`Step::Select`] to read: those that are wanted, and as many others as the caller likes. `None` is all, and the next step of
    /// that kind comes later.
    Select(Option<Rows>),
}

/// The scan's part of the conversation.
#[derive(Debug)]
pub enum Step {
    /// Fetch these bytes.
    Fetch(Vec<Fetch>),
    /// Say which of these zones to read.
    Prune(Zones),
    /// The next stripe can be asked whether it has some values of these columns: say which.
    Lookup(Vec<usize>),
    /// Of these rows the columns to select by are loaded and no others: say which of them to read.
    Select(Box<dyn Morsel>),
    /// These rows are loaded and ready to decode, on any thread, while the scan goes on.
    Decode(Box<dyn Morsel>),
    /// No more rows.
    Done,
}

/// A scan of a file: answer its steps until it is done.
pub trait Scan: Send + fmt::Debug {
    /// Takes the answer to the last step and says what is next.
    fn step(&mut self, answer: Answer) -> Result<Step>;

    /// Goes on without the bytes of the last [`Step::Fetch`], if those can be fetched when rows are read ([`Morsel::missing`]), with the next step. `None` if it has to be answered.
    fn defer(&mut self) -> Result<Option<Step>> {
        Ok(None)
    }

    /// Whether it is known, without a step, that nothing follows what was handed over to be decoded.
    fn is_over(&self) -> bool;

    /// What came of the values that were looked up so far.
    fn lookups(&self) -> Lookups {
        Lookups::default()
    }
}

/// Stripes that were asked for values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lookups {
    /// Those that may have them.
    pub kept: usize,
    /// Those that have none, and are not read.
    pub skipped: usize,
}

/// A column as codes.
#[derive(Debug, Clone)]
pub struct Coded {
    /// Consecutive rows, in the order of the file.
    pub parts: Vec<CodedPart>,
    /// Which rows are null; their codes mean nothing.
    pub nulls: Option<NullBuffer>,
}

/// Statistics of the pages that some rows lie in, of one column; a null slot is an unknown number.
#[derive(Debug, Clone)]
pub struct RowBounds {
    /// All rows of those pages, as the morsel counts them.
    pub rows: Range<usize>,
    /// Lower bounds, of the column's type, one for each page.
    pub min: ArrayRef,
    /// Upper bounds, of the column's type.
    pub max: ArrayRef,
    /// Nulls.
    pub null_counts: UInt64Array,
}

/// Rows whose codes stand for the same values.
#[derive(Debug, Clone)]
pub struct CodedPart {
    /// Tells the values of one part from those of another, within a morsel and a column: parts of the same page have the same, and so have those
    /// of all pages that share a dictionary.
    pub page: usize,
    /// What the codes stand for, of the column's type.
    pub values: ArrayRef,
    /// An index into `values` for each row.
    pub codes: Codes,
}

/// Pages that a morsel does not have yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingPage {
    /// By what the morsel knows them.
    pub place: PagePlace,
    /// Where they are.
    pub fetch: Fetch,
}

/// Whose pages some bytes are: the same bytes may be asked for twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PagePlace {
    /// The column of the scan, by its position in it.
    pub column: usize,
    /// The stream of the column.
    pub stream: usize,
    /// The page of the stream, as the format counts them.
    pub page: usize,
}

/// Rows to be decoded, without any IO once they are loaded. They are loaded when they are handed over, unless the scan was told to [defer](Scan::defer) that.
pub trait Morsel: Send + fmt::Debug {
    /// How many rows are left to decode.
    fn rows(&self) -> u64;

    /// The number in the file of the row that [`Rows`] count as the first.
    fn first_row(&self) -> u64;

    /// The columns of the scan.
    fn schema(&self) -> &SchemaRef;

    /// Whether the last rows come first ([`ScanRequest::first`]).
    fn is_backwards(&self) -> bool {
        false
    }

    /// What has to be fetched and [given](Self::give) before these columns can be read of some of the rows that were taken last, or are still to be taken; and of each column, if that is
    /// not more bytes than `along`, what lies behind it.
    fn missing(&self, _columns: &[usize], _rows: &Rows, _along: u64) -> Vec<MissingPage> {
        Vec::new()
    }

    /// Takes all that was [missing](Self::missing), before it is asked again.
    fn give(&self, _pages: Vec<(PagePlace, Bytes)>) -> Result<()> {
        Ok(())
    }

    /// Up to so many of the rows that are taken next, if something can be missing of them.
    fn rest(&self, _most: usize) -> Rows {
        Rows::default()
    }

    /// Takes as many rows as so many batches have, to be read; none after the last.
    fn next_rows(&mut self, batches: usize) -> Rows;

    /// Gives rows back that are too many for one array; from now on, half as many are taken at once.
    fn split(&mut self, rows: Rows);

    /// Columns of the scan, by their positions in it, for some of the rows that were taken last. Any column may be read any number of times.
    fn read(&self, columns: &[usize], rows: &Rows) -> Result<Vec<ArrayRef>>;

    /// One column, of those of some of the rows that were taken last that have a bit in `keep`, which has one for each. `None` where a column can
    /// only be read as a whole.
    fn read_kept(&self, column: usize, rows: &Rows, keep: &BooleanBuffer) -> Result<Option<ArrayRef>>;

    /// One column, of some of the rows that were taken last, as codes of the few values that are stored for them: no more than `most` in each
    /// part, or in proportion where the values serve more rows of the morsel. `None` where they are not stored so.
    fn coded(&self, column: usize, rows: &Rows, most: usize) -> Result<Option<Coded>>;

    /// Which of some of the rows that were taken last have strings with some pieces of text in them; null where the column is. `None` where that is found out by reading them, or by
    /// looking at more than `most` values that are [stored as codes](Self::coded). What is not read is not checked: strings to be UTF-8, and that lengths and codes agree.
    fn find(&self, _column: usize, _rows: &Rows, _most: usize, _pieces: &Pieces) -> Result<Option<BooleanArray>> {
        Ok(None)
    }

    /// What is known of the values that some of the rows that were taken last have of a column, without reading them. `None` if nothing is.
    fn bounds(&self, _column: usize, _rows: &Rows) -> Result<Option<RowBounds>> {
        Ok(None)
    }

    /// The next batch of all columns, or `None` after the last.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let columns: Vec<usize> = (0..self.schema().fields().len()).collect();
        loop {
            let rows = self.next_rows(1);
            if rows.is_empty() {
                return Ok(None);
            }
            match self.read(&columns, &rows) {
                Err(error) if error.is_splittable() && rows.len() > 1 => self.split(rows),
                Err(error) => return Err(error),
                Ok(arrays) => {
                    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
                    let batch = RecordBatch::try_new_with_options(Arc::clone(self.schema()), arrays, &options);
                    return batch.map(Some).map_err(Error::from);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int32Array, RunArray};
    use arrow::datatypes::Int32Type;

    #[test]
    fn the_better_end_of_a_stripe_comes_first_and_else_what_was_guessed() {
        let are_last = |greatest, last, min: Vec<Option<i32>>, max: Vec<Option<i32>>| {
            let null_counts = UInt64Array::from(vec![None; min.len()]);
            let column = ZoneColumn { column: 3.into(), min: Arc::new(Int32Array::from(min)), max: Arc::new(Int32Array::from(max)), null_counts };
            let zones = Zones { level: Level::Page, row_counts: UInt64Array::from(vec![1; column.min.len()]), columns: vec![column] };
            FirstRows::Extreme { column: 3.into(), greatest, last }.are_last(Some(&zones))
        };
        for guess in [false, true] {
            let up = |greatest| are_last(greatest, guess, vec![Some(1), Some(0), Some(7)], vec![Some(3), None, Some(9)]);
            let down = |greatest| are_last(greatest, guess, vec![Some(7), None, Some(1)], vec![Some(9), Some(99), Some(3)]);
            assert_eq!([up(true), up(false), down(true), down(false)], [true, false, false, true]);
            let unknown = [
                are_last(true, guess, vec![Some(1), Some(1)], vec![Some(3), Some(3)]),
                are_last(true, guess, vec![Some(1)], vec![Some(3)]),
                are_last(true, guess, Vec::new(), Vec::new()),
                are_last(true, guess, vec![Some(1), Some(2)], vec![Some(3), None]),
                are_last(false, guess, vec![None, Some(2)], vec![Some(3), Some(3)]),
                FirstRows::Extreme { column: 3.into(), greatest: true, last: guess }.are_last(None),
            ];
            assert_eq!(unknown, [guess; 6]);
        }
        let runs: ArrayRef = Arc::new(RunArray::<Int32Type>::try_new(&Int32Array::from(vec![1, 2]), &Int32Array::from(vec![None, Some(1)])).unwrap());
        let column = ZoneColumn { column: 0.into(), min: Arc::clone(&runs), max: runs, null_counts: UInt64Array::from(vec![0, 0]) };
        let zones = Zones { level: Level::Page, row_counts: UInt64Array::from(vec![1, 1]), columns: vec![column] };
        let guessed = |last| FirstRows::Extreme { column: 0.into(), greatest: true, last }.are_last(Some(&zones));
        assert_eq!([guessed(false), guessed(true)], [false, true]);
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, 0.5]));
        let column = ZoneColumn { column: 0.into(), min: Arc::clone(&floats), max: floats, null_counts: UInt64Array::from(vec![0, 0]) };
        let zones = Zones { level: Level::Page, row_counts: UInt64Array::from(vec![1, 1]), columns: vec![column] };
        let first = |column: usize| FirstRows::Extreme { column: column.into(), greatest: true, last: false }.are_last(Some(&zones));
        assert_eq!([first(0), first(1)], [true, false]);
    }
}
