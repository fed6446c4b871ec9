//! Whether a file is whole: every checksum, count and bound.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, make_comparator};
use arrow::compute::{SortOptions, cast, concat_batches};
use arrow::datatypes::{FieldRef, Schema};
use bytes::Bytes;

use crate::format::error::{Error, Result};
use crate::format::fermion::bloom::{BloomDesc, hashes};
use crate::format::fermion::cmb::Chunk;
use crate::format::fermion::read::{ColumnMeta, FermionScan, FileMeta, LoadColumns};
use crate::format::fermion::schema::leaf_type;
use crate::format::scan::{Answer, Fetch, FieldPath, Level, Load, Loading, Morsel, Scan, ScanRequest, Section, Step, ZoneColumn, Zones};

/// The stream of values of a column that is not nested; validity comes first.
const LEAF_DATA: usize = 1;

/// Reads all of a column, and finds its faults: one for each stripe at most, for what follows a fault cannot be trusted.
#[derive(Debug)]
pub struct VerifyColumn {
    meta: Arc<FileMeta>,
    field: FieldRef,
    column: usize,
    state: State,
    stripe: usize,
    faults: Vec<Error>,
}

#[derive(Debug)]
enum State {
    Metadata(LoadColumns),
    Scan(Box<StripeScan>),
    Filter { filter: BloomDesc, rows: RecordBatch },
    Done,
}

/// The scan of a stripe, and what it has given.
#[derive(Debug)]
struct StripeScan {
    scan: FermionScan,
    zones: Option<Zones>,
    batches: Vec<RecordBatch>,
}

impl VerifyColumn {
    /// Begins with a column of an open file.
    pub fn new(meta: &Arc<FileMeta>, column: usize) -> Result<Self> {
        let state = State::Metadata(meta.load_columns(&[column]));
        Ok(Self { field: meta.field(column)?, meta: Arc::clone(meta), column, state, stripe: 0, faults: Vec::new() })
    }

    fn next_stripe(&mut self) -> Result<Loading<Vec<Error>>> {
        loop {
            if self.stripe >= self.meta.stripes().len() {
                return Ok(Loading::Ready(std::mem::take(&mut self.faults)));
            }
            let request = ScanRequest {
                prune_columns: vec![FieldPath::from(self.column)],
                ..ScanRequest::new(vec![self.column], Arc::new(Schema::new(vec![Arc::clone(&self.field)])))
            };
            let scan = FermionScan::of_stripe(Arc::clone(&self.meta), request, self.stripe)?;
            let scan = Box::new(StripeScan { scan, zones: None, batches: Vec::new() });
            if let Some(loading) = self.scan(scan, Answer::Next) {
                return Ok(loading);
            }
        }
    }

    /// Goes on with the scan of a stripe; `None` when that is over.
    fn scan(&mut self, mut scan: Box<StripeScan>, answer: Answer) -> Option<Loading<Vec<Error>>> {
        match scan.run(answer) {
            Ok(Some(fetches)) => {
                self.state = State::Scan(scan);
                Some(Loading::Fetch(fetches))
            }
            Ok(None) => self.check_rows(*scan),
            Err(error) => {
                self.fault(error);
                None
            }
        }
    }

    fn fault(&mut self, error: Error) {
        self.faults.push(error.in_column(self.field.name()));
        self.stripe += 1;
    }

    /// Compares rows with what the metadata says of them; asks for the filter, if there is one.
    fn check_rows(&mut self, scan: StripeScan) -> Option<Loading<Vec<Error>>> {
        let found = self.rows_and_filter(scan);
        match found {
            Ok((rows, Some(filter))) => {
                self.state = State::Filter { filter, rows };
                Some(Loading::Fetch(vec![Fetch { range: filter.range(), section: Section::BloomFilter }]))
            }
            Ok((_, None)) => {
                self.stripe += 1;
                None
            }
            Err(error) => {
                self.fault(error);
                None
            }
        }
    }

    fn rows_and_filter(&self, scan: StripeScan) -> Result<(RecordBatch, Option<BloomDesc>)> {
        let schema = Arc::new(Schema::new(vec![Arc::clone(&self.field)]));
        let expected = self.meta.stripes().get(self.stripe).map_or(0, |stripe| stripe.rows as usize);
        let count: usize = scan.batches.iter().map(RecordBatch::num_rows).sum();
        if count != expected {
            return Err(Error::invalid_file(format!("stripe {} has {count} rows, and its metadata says {expected}", self.stripe)));
        }
        // What cannot be joined has no bounds either.
        let Ok(rows) = concat_batches(&schema, &scan.batches) else { return Ok((RecordBatch::new_empty(schema), None)) };
        if let Some(column) = scan.zones.as_ref().and_then(|zones| zones.columns.first().map(|column| (zones, column))) {
            check_zones(column.0, column.1, rows.column(0)).map_err(|error| error.in_section(Section::ColumnMetadata))?;
        }
        Ok((rows, self.filter()?))
    }

    fn filter(&self) -> Result<Option<BloomDesc>> {
        let Some(ColumnMeta::Cmb(cmb)) = self.meta.column(self.column)? else { return Ok(None) };
        if leaf_type(self.field.data_type()).is_none() {
            return Ok(None);
        }
        match cmb.chunk(LEAF_DATA, self.stripe)? {
            Chunk::Pages(pages) => Ok(pages.filter),
            Chunk::Default | Chunk::AllNull => Ok(None),
        }
    }

    fn check_filter(&self, filter: BloomDesc, rows: &RecordBatch, bytes: &[Bytes]) -> Result<()> {
        let [bytes] = bytes else { return Err(Error::invalid_argument("one bloom filter was asked for")) };
        let leaf = leaf_type(self.field.data_type()).ok_or_else(|| Error::invalid_file("a nested column has a bloom filter"))?;
        let start = filter.range().start;
        for hash in hashes(&cast(rows.column(0), leaf)?)? {
            let page = filter.page(hash);
            let index = |offset: u64| usize::try_from(offset - start).map_err(|_| Error::eof("a page is too far away"));
            let part = bytes.get(index(page.start)?..index(page.end)?).ok_or_else(|| Error::eof("a page of a bloom filter is missing"))?;
            if !filter.may_have(part, hash, self.meta.has_checksums()).map_err(|error| error.at(page.start))? {
                return Err(Error::invalid_file("a value is not in the bloom filter of its chunk").at(page.start));
            }
        }
        Ok(())
    }
}

impl Load for VerifyColumn {
    type Output = Vec<Error>;

    fn resume(&mut self, fetched: Vec<Bytes>) -> Result<Loading<Self::Output>> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Metadata(mut load) => match load.resume(fetched) {
                Ok(Loading::Fetch(fetches)) => {
                    self.state = State::Metadata(load);
                    return Ok(Loading::Fetch(fetches));
                }
                Ok(Loading::Ready(())) => {}
                Err(error) => return Ok(Loading::Ready(vec![error.in_column(self.field.name())])),
            },
            State::Scan(scan) => {
                if let Some(loading) = self.scan(scan, Answer::Fetched(fetched)) {
                    return Ok(loading);
                }
            }
            State::Filter { filter, rows } => match self.check_filter(filter, &rows, &fetched) {
                Ok(()) => self.stripe += 1,
                Err(error) => self.fault(error.in_section(Section::BloomFilter)),
            },
            State::Done => return Err(Error::invalid_argument("the column has been looked at already")),
        }
        self.next_stripe()
    }
}

impl StripeScan {
    /// Runs until bytes are needed, or to the end.
    fn run(&mut self, mut answer: Answer) -> Result<Option<Vec<Fetch>>> {
        loop {
            answer = match self.scan.step(answer)? {
                Step::Fetch(fetches) => return Ok(Some(fetches)),
                Step::Prune(zones) => {
                    let all = BooleanArray::from(vec![true; zones.row_counts.len()]);
                    if zones.level == Level::Page {
                        self.zones = Some(zones);
                    }
                    Answer::Keep(all)
                }
                Step::Lookup(columns) => Answer::Lookup(vec![None; columns.len()]),
                Step::Select(_) => Answer::Select(None),
                Step::Decode(mut morsel) => {
                    self.decode(morsel.as_mut())?;
                    Answer::Next
                }
                Step::Done => return Ok(None),
            };
        }
    }

    fn decode(&mut self, morsel: &mut dyn Morsel) -> Result<()> {
        while let Some(batch) = morsel.next_batch()? {
            self.batches.push(batch);
        }
        Ok(())
    }
}

/// No value is beyond its zone's bounds, and nulls are as many as were counted.
fn check_zones(zones: &Zones, column: &ZoneColumn, values: &ArrayRef) -> Result<()> {
    let mut start = 0;
    for (zone, rows) in zones.row_counts.values().iter().enumerate() {
        let rows = usize::try_from(*rows).unwrap_or(usize::MAX).min(values.len() - start);
        let part = values.slice(start, rows);
        start += rows;
        let nulls = part.logical_null_count() as u64;
        if column.null_counts.is_valid(zone) && column.null_counts.value(zone) != nulls {
            let counted = column.null_counts.value(zone);
            return Err(Error::invalid_file(format!("{rows} rows before row {start} of the stripe have {nulls} nulls, and {counted} were counted")));
        }
        for (bounds, wrong, what) in [(&column.min, Ordering::Less, "below its lower"), (&column.max, Ordering::Greater, "above its upper")] {
            if bounds.is_valid(zone) && has_value(&part, bounds, zone, wrong)? {
                return Err(Error::invalid_file(format!("one of {rows} rows before row {start} of the stripe is {what} bound")));
            }
        }
    }
    Ok(())
}

/// Whether a value compares so with a bound.
fn has_value(values: &ArrayRef, bounds: &ArrayRef, zone: usize, wrong: Ordering) -> Result<bool> {
    let leaf = leaf_type(bounds.data_type()).unwrap_or(bounds.data_type());
    let (values, bounds) = (cast(values, leaf)?, cast(bounds, leaf)?);
    let compare = make_comparator(&values, &bounds, SortOptions::default())?;
    Ok((0..values.len()).any(|row| values.is_valid(row) && compare(row, zone) == wrong))
}
