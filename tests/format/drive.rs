//! The caller's half of the conversation with the format, over a file in memory.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use datafusion_fermion::format::fermion::{FermionScan, FileMeta, Open, OpenOptions, ScanRequest, Writer, WriterOptions};
use datafusion_fermion::format::rows::Rows;
use datafusion_fermion::format::scan::{Answer, Coded, Fetch, Load, Loading, Morsel, Scan, Step, Zones};
use datafusion_fermion::format::{Error, Result};

/// The bytes of a file of these batches.
pub(crate) fn write(schema: &SchemaRef, batches: &[RecordBatch], options: WriterOptions) -> Result<Bytes> {
    let mut writer = Writer::new(Arc::clone(schema), options)?;
    let mut file = Vec::new();
    for batch in batches {
        writer.push(batch)?;
        writer.take_bytes().iter().for_each(|bytes| file.extend_from_slice(bytes));
    }
    let (rest, summary) = writer.finish()?;
    rest.iter().for_each(|bytes| file.extend_from_slice(bytes));
    assert_eq!(summary.bytes, file.len() as u64);
    assert_eq!(summary.rows, batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>());
    Ok(Bytes::from(file))
}

/// Whether the footer says that pages share a dictionary.
pub(crate) fn has_dictionaries(file: &[u8]) -> bool {
    const SETTINGS_FROM_END: usize = 88;
    file[file.len() - SETTINGS_FROM_END] & 1 == 1
}

pub(crate) fn fetch(file: &Bytes, fetches: &[Fetch]) -> Vec<Bytes> {
    let slice = |range: &Range<u64>| {
        assert!(range.start < range.end && range.end <= file.len() as u64, "{range:?} is not a part of a file of {} bytes", file.len());
        file.slice(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap())
    };
    fetches.iter().map(|fetch| slice(&fetch.range)).collect()
}

pub(crate) fn load<L: Load>(file: &Bytes, mut load: L) -> Result<L::Output> {
    let mut bytes = Vec::new();
    for _ in 0..100 {
        match load.resume(std::mem::take(&mut bytes))? {
            Loading::Fetch(fetches) => bytes = fetch(file, &fetches),
            Loading::Ready(output) => return Ok(output),
        }
    }
    panic!("the load does not end")
}

pub(crate) fn open(file: &Bytes, options: &OpenOptions) -> Result<Arc<FileMeta>> {
    Ok(Arc::new(load(file, Open::new(file.len() as u64, options)?)?))
}

/// Reads what is asked for, with pages fetched before rows are decoded and then when they are; `keep` answers the zones.
pub(crate) fn scan(
    file: &Bytes,
    meta: &Arc<FileMeta>,
    request: ScanRequest,
    mut keep: impl FnMut(&Zones) -> BooleanArray,
) -> Result<Vec<RecordBatch>> {
    let mut answers = Vec::new();
    let keep = |zones: &Zones| {
        answers.push(keep(zones));
        answers[answers.len() - 1].clone()
    };
    let batches = scan_selected(file, meta, request.clone(), keep, |_| unreachable!("nothing to select by"), |_| {});
    let mut answers = answers.into_iter();
    let again = |zones: &Zones| answers.next().unwrap_or_else(|| BooleanArray::from(vec![true; zones.row_counts.len()]));
    let deferred = scan_deferred(file, meta, request, again);
    // What is wrong with a page of which nothing is read is not seen.
    if let Ok(batches) = &batches {
        assert!(deferred.unwrap() == *batches, "pages that are fetched when rows are decoded are others");
    }
    batches
}

fn scan_deferred(file: &Bytes, meta: &Arc<FileMeta>, request: ScanRequest, mut keep: impl FnMut(&Zones) -> BooleanArray) -> Result<Vec<RecordBatch>> {
    let mut scan = FermionScan::new(Arc::clone(meta), request)?;
    let mut batches = Vec::new();
    let mut step = scan.step(Answer::Next)?;
    loop {
        let answer = match step {
            Step::Fetch(fetches) => match scan.defer()? {
                Some(next) => {
                    step = next;
                    continue;
                }
                None => Answer::Fetched(fetch(file, &fetches)),
            },
            Step::Prune(zones) => Answer::Keep(keep(&zones)),
            Step::Lookup(columns) => Answer::Lookup(vec![None; columns.len()]),
            Step::Select(_) => unreachable!("nothing to select by"),
            Step::Decode(morsel) => {
                let mut morsel = Deferred { morsel, file: file.clone() };
                while let Some(batch) = morsel.next_batch()? {
                    batches.push(batch);
                }
                Answer::Next
            }
            Step::Done => return Ok(batches),
        };
        step = scan.step(answer)?;
    }
}

/// The same; `select` answers the rows, and `fetched` sees what is asked for.
pub(crate) fn scan_selected(
    file: &Bytes,
    meta: &Arc<FileMeta>,
    request: ScanRequest,
    mut keep: impl FnMut(&Zones) -> BooleanArray,
    mut select: impl FnMut(&mut dyn Morsel) -> Option<Rows>,
    mut fetched: impl FnMut(&[Fetch]),
) -> Result<Vec<RecordBatch>> {
    let mut scan = FermionScan::new(Arc::clone(meta), request)?;
    let mut batches = Vec::new();
    let mut answer = Answer::Next;
    loop {
        answer = match scan.step(answer)? {
            Step::Fetch(fetches) => {
                fetched(&fetches);
                Answer::Fetched(fetch(file, &fetches))
            }
            Step::Prune(zones) => Answer::Keep(keep(&zones)),
            Step::Lookup(columns) => Answer::Lookup(vec![None; columns.len()]),
            Step::Select(mut morsel) => Answer::Select(select(morsel.as_mut())),
            Step::Decode(mut morsel) => {
                let mut rows = morsel.rows();
                while let Some(batch) = morsel.next_batch()? {
                    rows -= batch.num_rows() as u64;
                    assert_eq!(morsel.rows(), rows);
                    batches.push(batch);
                }
                assert_eq!(rows, 0);
                Answer::Next
            }
            Step::Done => return Ok(batches),
        };
    }
}

/// The first rows that are ready to be decoded; `deferred`, their pages are fetched when they are.
pub(crate) fn first_morsel(file: &Bytes, meta: &Arc<FileMeta>, request: ScanRequest, deferred: bool) -> Box<dyn Morsel> {
    let mut scan = FermionScan::new(Arc::clone(meta), request).unwrap();
    let mut step = scan.step(Answer::Next).unwrap();
    loop {
        step = match step {
            Step::Fetch(_) if deferred => scan.defer().unwrap().unwrap(),
            Step::Fetch(fetches) => scan.step(Answer::Fetched(fetch(file, &fetches))).unwrap(),
            Step::Decode(morsel) if deferred => return Box::new(Deferred { morsel, file: file.clone() }),
            Step::Decode(morsel) => return morsel,
            step => panic!("{step:?}"),
        };
    }
}

/// Rows whose pages are fetched when they are read.
#[derive(Debug)]
struct Deferred {
    morsel: Box<dyn Morsel>,
    file: Bytes,
}

impl Deferred {
    fn load(&self, columns: &[usize], rows: &Rows) -> Result<()> {
        let (places, fetches): (Vec<_>, Vec<_>) = self.morsel.missing(columns, rows, 10_000).into_iter().map(|page| (page.place, page.fetch)).unzip();
        self.morsel.give(places.into_iter().zip(fetch(&self.file, &fetches)).collect())?;
        assert_eq!(self.morsel.missing(columns, rows, 10_000), [], "what was given is asked for again");
        Ok(())
    }
}

impl Morsel for Deferred {
    fn rows(&self) -> u64 {
        self.morsel.rows()
    }

    fn first_row(&self) -> u64 {
        self.morsel.first_row()
    }

    fn schema(&self) -> &SchemaRef {
        self.morsel.schema()
    }

    fn next_rows(&mut self, batches: usize) -> Rows {
        self.morsel.next_rows(batches)
    }

    fn split(&mut self, rows: Rows) {
        self.morsel.split(rows);
    }

    fn read(&self, columns: &[usize], rows: &Rows) -> Result<Vec<ArrayRef>> {
        self.load(columns, rows)?;
        self.morsel.read(columns, rows)
    }

    fn read_kept(&self, column: usize, rows: &Rows, keep: &BooleanBuffer) -> Result<Option<ArrayRef>> {
        self.load(&[column], rows)?;
        self.morsel.read_kept(column, rows, keep)
    }

    fn coded(&self, column: usize, rows: &Rows, most: usize) -> Result<Option<Coded>> {
        self.load(&[column], rows)?;
        self.morsel.coded(column, rows, most)
    }
}

/// All rows of the file in its own types.
pub(crate) fn read_all(file: &Bytes, batch_rows: usize) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let meta = open(file, &OpenOptions::default())?;
    let schema = meta.schema()?;
    let request = ScanRequest { batch_rows, ..ScanRequest::new((0..meta.column_count()).collect(), Arc::clone(&schema)) };
    let batches = scan(file, &meta, request, |_| unreachable!("nothing to prune by"))?;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if rows as u64 != meta.row_count() {
        return Err(Error::invalid_file("the rows read are not the rows promised"));
    }
    Ok((schema, batches))
}
