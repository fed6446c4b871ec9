//! Whether a file is whole: its checksums, counts, bounds and sums.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, make_comparator};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, FieldRef, Int32Type, Schema, i256};
use bytes::Bytes;

use super::whole::check_whole;
use crate::format::error::{Error, Result};
use crate::format::fermion::batches::BatchColumn;
use crate::format::fermion::bloom::{BloomDesc, can_have_filter, hashes};
use crate::format::fermion::cmb::Chunk;
use crate::format::fermion::read::{ColumnMeta, FermionScan, FileMeta, LoadColumns};
use crate::format::fermion::schema::leaf_type;
use crate::format::fermion::stats::{Which, bound_is_exact, sum_of};
use crate::format::scan::{Answer, Fetch, FieldPath, Level, Load, Loading, Morsel, Scan, ScanRequest, Section, Step, ZoneColumn, Zones};

/// Reads all rows of a column, and finds its faults: one for each stripe at most, for what follows a fault cannot be trusted. Of each stripe, it compares all values with the
/// bounds and null counts of pages and of the stripe, those of fields within structs, too, and looks them up in the bloom filter. Where there is a
/// sum of the column, it is that of the values.
#[derive(Debug)]
pub struct VerifyColumn {
    meta: Arc<FileMeta>,
    field: FieldRef,
    column: usize,
    state: State,
    stripe: usize,
    /// Of the valid values of all stripes so far; `None` if there are none.
    sum: Option<i256>,
    faults: Vec<Error>,
}

#[derive(Debug)]
enum State {
    Metadata(LoadColumns),
    Filter(BloomDesc),
    Scan(Box<StripeScan>),
    Done,
}

impl VerifyColumn {
    /// Begins with a column of an open file.
    pub fn new(meta: &Arc<FileMeta>, column: usize) -> Result<Self> {
        // Of batches it is seen that no column splits them.
        let columns = if meta.batch_column(column) == Some(BatchColumn::Id) { (0..meta.column_count()).collect() } else { vec![column] };
        let state = State::Metadata(meta.load_columns(&columns));
        Ok(Self { field: meta.field(column)?, meta: Arc::clone(meta), column, state, stripe: 0, sum: None, faults: Vec::new() })
    }

    /// Begins with the next stripe, by its filter if it has one.
    fn next_stripe(&mut self) -> Result<Loading<Vec<Error>>> {
        while self.stripe < self.meta.stripes().len() {
            let loading = match self.filter() {
                Ok(Some(filter)) => {
                    self.state = State::Filter(filter);
                    return Ok(Loading::Fetch(vec![Fetch { range: filter.range(), section: Section::BloomFilter }]));
                }
                Ok(None) => self.begin(None),
                Err(error) => Err(error),
            };
            match loading {
                Ok(Some(loading)) => return Ok(loading),
                Ok(None) => self.stripe += 1,
                Err(error) => self.fault(error),
            }
        }
        if self.faults.is_empty()
            && let Err(error) = self.check_sum()
        {
            self.faults.push(error.in_column(self.field.name()));
        }
        Ok(Loading::Ready(std::mem::take(&mut self.faults)))
    }

    /// What the sum of the column is said to be.
    fn said_sum(&self) -> Result<Option<i128>> {
        match self.meta.column(self.column)? {
            Some(ColumnMeta::Cmb(cmb)) => Ok(cmb.totals().and_then(|totals| totals.sum)),
            _ => Ok(None),
        }
    }

    fn check_sum(&self) -> Result<()> {
        let Some(said) = self.said_sum()? else { return Ok(()) };
        let found = self.sum.map_or_else(|| "none".to_owned(), |sum| sum.to_string());
        if found == said.to_string() {
            return Ok(());
        }
        let error = Error::invalid_file(format!("the sum of the column is said to be {said}, and is {found}"));
        Err(error.in_section(Section::ColumnMetadata))
    }

    fn begin(&mut self, filter: Option<Filter>) -> Result<Option<Loading<Vec<Error>>>> {
        let mut paths = Vec::new();
        leaves(&self.column.into(), self.field.data_type(), &mut paths);
        let mut columns = vec![self.column];
        if self.meta.batch_column(self.column) == Some(BatchColumn::Id) {
            columns.push(self.column + 1);
        }
        let fields = columns.iter().map(|column| self.meta.field(*column)).collect::<Result<Vec<_>>>()?;
        let request = ScanRequest { prune_columns: paths, ..ScanRequest::new(columns, Arc::new(Schema::new(fields))) };
        let scan = FermionScan::of_stripe(Arc::clone(&self.meta), request, self.stripe)?;
        let exact = self.exact_bounds()?;
        let sums = self.said_sum()?.is_some();
        self.run(
            Box::new(StripeScan { scan, zones: Vec::new(), filter, exact, row: 0, has_values: false, sums, sum: None, starts: Vec::new() }),
            Answer::Next,
        )
    }

    /// Goes on with the scan of a stripe; `None` when that is over.
    fn run(&mut self, mut scan: Box<StripeScan>, answer: Answer) -> Result<Option<Loading<Vec<Error>>>> {
        match scan.run(answer)? {
            Some(fetches) => {
                self.state = State::Scan(scan);
                Ok(Some(Loading::Fetch(fetches)))
            }
            None => {
                let rows = self.meta.stripes().get(self.stripe).map_or(0, |stripe| stripe.rows as usize);
                scan.check_end(rows)?;
                self.sum = added(self.sum, scan.sum);
                if self.meta.batch_column(self.column) == Some(BatchColumn::Id) {
                    check_whole(&self.meta, self.stripe, &scan.starts)?;
                }
                Ok(None)
            }
        }
    }

    fn fault(&mut self, error: Error) {
        self.faults.push(error.in_column(self.field.name()));
        self.stripe += 1;
    }

    fn chunk(&self) -> Result<Option<Chunk>> {
        match self.meta.column(self.column)? {
            Some(ColumnMeta::Cmb(cmb)) => self.meta.values_stream(self.column).map(|stream| cmb.chunk(stream, self.stripe)).transpose(),
            _ => Ok(None),
        }
    }

    fn filter(&self) -> Result<Option<BloomDesc>> {
        match self.chunk()? {
            Some(Chunk::Pages(pages)) if can_have_filter(self.field.data_type()) && self.meta.batch_column(self.column).is_none() => Ok(pages.filter),
            _ => Ok(None),
        }
    }

    /// The bounds of the stripe that are said to be values.
    fn exact_bounds(&self) -> Result<Vec<Which>> {
        let (Some(Chunk::Pages(pages)), Some(leaf)) = (self.chunk()?, leaf_type(self.field.data_type())) else { return Ok(Vec::new()) };
        let is_exact = |which: &Which| bound_is_exact(leaf, &pages.stats, pages.bounds.as_ref(), *which);
        Ok([Which::Min, Which::Max].into_iter().filter(is_exact).collect())
    }
}

impl Load for VerifyColumn {
    type Output = Vec<Error>;

    fn resume(&mut self, fetched: Vec<Bytes>) -> Result<Loading<Self::Output>> {
        let loading = match std::mem::replace(&mut self.state, State::Done) {
            State::Metadata(mut load) => match load.resume(fetched) {
                Ok(Loading::Fetch(fetches)) => {
                    self.state = State::Metadata(load);
                    return Ok(Loading::Fetch(fetches));
                }
                Ok(Loading::Ready(())) => return self.next_stripe(),
                Err(error) => return Ok(Loading::Ready(vec![error.in_column(self.field.name())])),
            },
            State::Filter(desc) => Filter::new(desc, fetched, self.meta.has_checksums()).and_then(|filter| self.begin(Some(filter))),
            State::Scan(scan) => self.run(scan, Answer::Fetched(fetched)),
            State::Done => return Err(Error::invalid_argument("the column has been looked at already")),
        };
        match loading {
            Ok(Some(loading)) => return Ok(loading),
            Ok(None) => self.stripe += 1,
            Err(error) => self.fault(error),
        }
        self.next_stripe()
    }
}

/// The sum of the valid values, if there are any.
fn sum(values: &ArrayRef) -> Result<Option<i256>> {
    let Some(leaf) = leaf_type(values.data_type()).filter(|_| values.logical_null_count() < values.len()) else { return Ok(None) };
    Ok(sum_of(&cast(values, leaf)?))
}

fn added(before: Option<i256>, more: Option<i256>) -> Option<i256> {
    before.map_or(more, |before| Some(more.map_or(before, |more| before.wrapping_add(more))))
}

/// The leaves of a column that statistics are of: itself, or those within its structs.
fn leaves(path: &FieldPath, data_type: &DataType, found: &mut Vec<FieldPath>) {
    let DataType::Struct(fields) = data_type else {
        found.push(path.clone());
        return;
    };
    for (position, field) in fields.iter().enumerate() {
        let fields = path.fields.iter().copied().chain([position]).collect();
        leaves(&FieldPath { column: path.column, fields }, field.data_type(), found);
    }
}

/// A bloom filter whose pages are intact.
#[derive(Debug)]
struct Filter {
    desc: BloomDesc,
    bytes: Bytes,
}

impl Filter {
    fn new(desc: BloomDesc, fetched: Vec<Bytes>, checksums: bool) -> Result<Self> {
        let [bytes] = fetched.as_slice() else { return Err(Error::invalid_argument("one bloom filter was asked for")) };
        desc.check_pages(bytes, checksums).map_err(|error| error.in_section(Section::BloomFilter))?;
        Ok(Self { desc, bytes: bytes.clone() })
    }

    fn check(&self, values: &ArrayRef) -> Result<()> {
        let Some(leaf) = leaf_type(values.data_type()) else { return Ok(()) };
        let start = self.desc.range().start;
        let index = |offset: u64| usize::try_from(offset - start).map_err(|_| Error::eof("a page is too far away"));
        for hash in hashes(&cast(values, leaf)?)? {
            let page = self.desc.page(hash);
            let part = self.bytes.get(index(page.start)?..index(page.end)?).ok_or_else(|| Error::eof("a page of a bloom filter is missing"))?;
            if !self.desc.may_have(part, hash, false)? {
                let error = Error::invalid_file("a value is not in the bloom filter of its chunk");
                return Err(error.in_section(Section::BloomFilter).at(page.start));
            }
        }
        Ok(())
    }
}

/// The scan of a stripe, and what its values are compared with.
#[derive(Debug)]
struct StripeScan {
    scan: FermionScan,
    zones: Vec<Checked>,
    filter: Option<Filter>,
    /// Bounds of the stripe that have not been seen among the values, and should be.
    exact: Vec<Which>,
    /// Rows that have been read.
    row: usize,
    has_values: bool,
    /// Whether to add up the values.
    sums: bool,
    /// See [`VerifyColumn::sum`].
    sum: Option<i256>,
    /// Rows with which batches begin, where those are looked at.
    starts: Vec<usize>,
}

/// What the metadata says of zones, and what was counted in them.
#[derive(Debug)]
struct Checked {
    zones: Zones,
    /// The row behind each zone.
    ends: Vec<usize>,
    /// Of each column, the nulls of each zone.
    nulls: Vec<Vec<u64>>,
}

impl StripeScan {
    /// Runs until bytes are needed, or to the end.
    fn run(&mut self, mut answer: Answer) -> Result<Option<Vec<Fetch>>> {
        loop {
            answer = match self.scan.step(answer)? {
                Step::Fetch(fetches) => return Ok(Some(fetches)),
                Step::Prune(zones) => {
                    let all = BooleanArray::from(vec![true; zones.row_counts.len()]);
                    self.zones.push(Checked::new(zones));
                    Answer::Keep(all)
                }
                Step::Lookup(columns) => Answer::Lookup(vec![None; columns.len()]),
                Step::Select(_) => Answer::Select(None),
                Step::Decode(mut morsel) => {
                    self.check_rows(morsel.as_mut())?;
                    Answer::Next
                }
                Step::Done => return Ok(None),
            };
        }
    }

    /// Batch by batch: not all arrays can be joined, nor should they.
    fn check_rows(&mut self, morsel: &mut dyn Morsel) -> Result<()> {
        while let Some(batch) = morsel.next_batch()? {
            let values = batch.column(0);
            let rows = self.row..self.row + batch.num_rows();
            for checked in &mut self.zones {
                checked.add(values, &rows)?;
            }
            self.has_values |= values.logical_null_count() < values.len();
            if let Some(indexes) = batch.columns().get(1).and_then(|indexes| indexes.as_primitive_opt::<Int32Type>()) {
                let first = |(row, index): (usize, &i32)| (*index == 0).then_some(rows.start + row);
                self.starts.extend(indexes.values().iter().enumerate().filter_map(first));
            }
            self.see_exact(values)?;
            if self.sums {
                self.sum = added(self.sum, sum(values)?);
            }
            if let Some(filter) = &self.filter {
                filter.check(values)?;
            }
            self.row = rows.end;
        }
        Ok(())
    }

    fn see_exact(&mut self, values: &ArrayRef) -> Result<()> {
        let Some(column) = self.zones.iter().find(|checked| checked.zones.level == Level::Stripe).and_then(|checked| checked.zones.columns.first())
        else {
            return Ok(());
        };
        let mut unseen = Vec::new();
        for which in std::mem::take(&mut self.exact) {
            let bounds = if which == Which::Min { &column.min } else { &column.max };
            if bounds.is_valid(0) && !has_value(values, bounds, 0, Ordering::Equal)? {
                unseen.push(which);
            }
        }
        self.exact = unseen;
        Ok(())
    }

    fn check_end(&self, rows: usize) -> Result<()> {
        if self.row != rows {
            return Err(Error::invalid_file(format!("a stripe has {} rows, and its metadata says {rows}", self.row)));
        }
        if let Some(which) = self.exact.first().filter(|_| self.has_values) {
            let bound = if *which == Which::Min { "least" } else { "greatest" };
            return Err(Error::invalid_file(format!("the {bound} value that is said to be in the stripe is not")).in_section(Section::ColumnMetadata));
        }
        self.zones.iter().try_for_each(Checked::check_nulls).map_err(|error| error.in_section(Section::ColumnMetadata))
    }
}

impl Checked {
    fn new(zones: Zones) -> Self {
        let mut end = 0_usize;
        let ends = zones.row_counts.values().iter().map(|rows| {
            end = end.saturating_add(usize::try_from(*rows).unwrap_or(usize::MAX));
            end
        });
        let ends: Vec<usize> = ends.collect();
        Self { nulls: zones.columns.iter().map(|_| vec![0; ends.len()]).collect(), zones, ends }
    }

    /// Compares these rows of the stripe with the bounds of their zones, and counts nulls.
    fn add(&mut self, column: &ArrayRef, rows: &Range<usize>) -> Result<()> {
        for (zones, nulls) in self.zones.columns.iter().zip(&mut self.nulls) {
            let values = within(column, &zones.column.fields)?;
            let first = self.ends.partition_point(|end| *end <= rows.start);
            let mut start = rows.start;
            for (zone, (end, nulls)) in self.ends.iter().zip(nulls).enumerate().skip(first) {
                let part = values.slice(start - rows.start, (*end).min(rows.end) - start);
                *nulls += part.logical_null_count() as u64;
                check_bounds(zones, zone, &part).map_err(|error| error.in_section(Section::ColumnMetadata))?;
                start += part.len();
                if start == rows.end {
                    break;
                }
            }
        }
        Ok(())
    }

    fn check_nulls(&self) -> Result<()> {
        for (zones, nulls) in self.zones.columns.iter().zip(&self.nulls) {
            for ((counted, nulls), end) in zones.null_counts.iter().zip(nulls).zip(&self.ends) {
                if let Some(counted) = counted.filter(|counted| counted != nulls) {
                    return Err(Error::invalid_file(format!(
                        "the rows before row {end} of the stripe have {nulls} nulls, and {counted} were counted"
                    )));
                }
            }
        }
        Ok(())
    }
}

/// A field within the structs of a column.
fn within(column: &ArrayRef, fields: &[usize]) -> Result<ArrayRef> {
    fields.iter().try_fold(Arc::clone(column), |array, field| {
        let child = array.as_struct_opt().and_then(|array| array.columns().get(*field).cloned());
        child.ok_or_else(|| Error::invalid_file("a struct has too few fields"))
    })
}

/// No value is beyond its zone's bounds.
fn check_bounds(zones: &ZoneColumn, zone: usize, values: &ArrayRef) -> Result<()> {
    for (bounds, wrong, what) in [(&zones.min, Ordering::Less, "below its lower"), (&zones.max, Ordering::Greater, "above its upper")] {
        if bounds.is_valid(zone) && has_value(values, bounds, zone, wrong)? {
            return Err(Error::invalid_file(format!("a value is {what} bound")));
        }
    }
    Ok(())
}

/// Whether a value compares so with a bound.
fn has_value(values: &ArrayRef, bounds: &ArrayRef, zone: usize, wrong: Ordering) -> Result<bool> {
    let leaf = leaf_type(bounds.data_type()).unwrap_or(bounds.data_type());
    let (values, bounds) = (cast(values, leaf)?, cast(&bounds.slice(zone, 1), leaf)?);
    let compare = make_comparator(&values, &bounds, SortOptions::default())?;
    Ok((0..values.len()).any(|row| values.is_valid(row) && compare(row, 0) == wrong))
}
