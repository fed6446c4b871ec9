//! Rows that are selected by one column before the others are fetched.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringViewArray, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{Field, Int64Type, Schema, SchemaRef};
use bytes::Bytes;
use datafusion_fermion::format::ErrorKind;
use datafusion_fermion::format::fermion::{FermionScan, OpenOptions, ScanRequest, WriterOptions};
use datafusion_fermion::format::rows::Rows;
use datafusion_fermion::format::scan::{Answer, Fetch, Morsel, Scan, Section, Step};
use rand::Rng;

use crate::drive::{fetch, open, read_all, scan_selected, write};
use crate::random;
use crate::roundtrip::assert_same;

/// What a selection found.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    /// The ids of the rows to be read, in their order.
    pub(crate) ids: Vec<i64>,
    /// Those of all rows that it was asked about.
    asked: Vec<i64>,
}

impl Selected {
    /// Takes the blocks that have a row whose id is wanted. The id is the column at `position`.
    pub(crate) fn select(&mut self, morsel: &mut dyn Morsel, position: usize, is_wanted: impl Fn(i64) -> bool) -> Rows {
        let ids = |rows: &Rows, morsel: &dyn Morsel| morsel.read(&[position], rows).unwrap()[0].as_primitive::<Int64Type>().values().to_vec();
        let mut parts = Vec::new();
        loop {
            let rows = morsel.next_rows(1);
            if rows.is_empty() {
                break Rows::join(parts);
            }
            let asked = ids(&rows, morsel);
            let keep: BooleanBuffer = asked.iter().copied().map(&is_wanted).collect();
            self.asked.extend(asked);
            let (blocks, _) = rows.blocks_with(&keep);
            self.ids.extend(ids(&blocks, morsel));
            parts.push(blocks);
        }
    }
}

/// A number that says nothing of those beside it.
pub(crate) fn noise(row: u64) -> u64 {
    row.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ row.wrapping_mul(0xBF58_476D_1CE4_E5B9).rotate_left(31)
}

/// The table with a number for each row in front, and behind it a column that takes some bytes.
pub(crate) fn numbered(schema: &SchemaRef, batches: &[RecordBatch]) -> Option<RecordBatch> {
    let batch = concat_batches(schema, batches).ok()?;
    let rows = i64::try_from(batch.num_rows()).unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let last: ArrayRef = Arc::new((0..batch.num_rows() as u64).map(noise).collect::<UInt64Array>());
    let field = |name, array: &ArrayRef| Arc::new(Field::new(name, array.data_type().clone(), false));
    let fields: Vec<_> = [&[field("id", &ids)], schema.fields().as_ref(), &[field("noise", &last)]].concat();
    let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    RecordBatch::try_new(Arc::new(schema), [&[ids], batch.columns(), &[last]].concat()).ok()
}

/// The ids of rows that were read.
pub(crate) fn ids_of(read: &[RecordBatch], position: usize) -> Vec<i64> {
    read.iter().flat_map(|batch| batch.column(position).as_primitive::<Int64Type>().values().to_vec()).collect()
}

pub(crate) fn rows_of(batch: &RecordBatch, ids: &[i64]) -> Option<RecordBatch> {
    take_record_batch(batch, &Int64Array::from(ids.to_vec())).ok()
}

fn check(seed: u64) {
    let (schema, batches) = random::table(seed);
    let Some(batch) = numbered(&schema, &batches).filter(|batch| batch.num_rows() > 0) else { return };
    let mut rng = random::rng(seed ^ 2);
    let options = WriterOptions { page_rows: 1024, stripe_rows: [1000, 3000, 1 << 20][rng.random_range(0..3)], ..Default::default() };
    let file = write(&batch.schema(), std::slice::from_ref(&batch), options).unwrap();
    let meta = open(&file, &OpenOptions::default()).unwrap();
    // The columns in any order, the ids somewhere among them.
    let mut columns: Vec<usize> = (1..batch.num_columns()).collect();
    let position = rng.random_range(0..=columns.len());
    columns.insert(position, 0);
    let every = rng.random_range(1..4000);
    let request = ScanRequest {
        select_columns: vec![position],
        batch_rows: rng.random_range(100..3000),
        ..ScanRequest::new(columns.clone(), Arc::new(batch.schema().project(&columns).unwrap()))
    };
    let mut selected = Selected::default();
    let read = scan_selected(
        &file,
        &meta,
        request,
        |_| unreachable!("nothing to prune by"),
        |morsel| Some(selected.select(morsel, position, |id| id % every == 0)),
        |_| {},
    );
    let read = read.unwrap();
    assert!(!selected.asked.is_empty());
    let ids = ids_of(&read, position);
    // Of stripes that it was not asked about, all.
    let all = 0..i64::try_from(batch.num_rows()).unwrap();
    let is_read = |id: &i64| selected.asked.binary_search(id).is_err() || selected.ids.binary_search(id).is_ok();
    assert!(ids == all.clone().filter(is_read).collect::<Vec<_>>(), "seed {seed}");
    assert!(all.filter(|id| id % every == 0).all(|id| ids.binary_search(&id).is_ok()), "seed {seed}");
    let Some(expected) = rows_of(&batch.project(&columns).unwrap(), &ids) else { return };
    assert_same(&expected.schema(), &[expected], &read);
}

#[test]
fn the_rows_that_are_selected_are_those_that_are_read() {
    (0..80).for_each(check);
}

/// 20 pages of ids and of texts that take the most of the file.
fn texts() -> (Bytes, RecordBatch) {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..20_480));
    let text = |row: u64| format!("{:x}{:x}", noise(row), noise(row + 1_000_000));
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..20_480).map(text)));
    let batch = RecordBatch::try_from_iter([("id", ids), ("text", texts)]).unwrap();
    (write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions { page_rows: 1024, ..Default::default() }).unwrap(), batch)
}

fn request(batch: &RecordBatch) -> ScanRequest {
    ScanRequest { select_columns: vec![0], ..ScanRequest::new(vec![0, 1], batch.schema()) }
}

/// The bytes of pages that a scan fetches when it is answered so, and how many rows it gives.
fn fetched(request: ScanRequest, select: impl Fn(&mut dyn Morsel) -> Option<Rows>) -> (u64, usize) {
    let (file, _) = texts();
    let meta = open(&file, &OpenOptions::default()).unwrap();
    let bytes = RefCell::new(0);
    let count = |fetches: &[Fetch]| {
        let data = fetches.iter().filter(|fetch| fetch.section == Section::Data);
        *bytes.borrow_mut() += data.map(|fetch| fetch.range.end - fetch.range.start).sum::<u64>();
    };
    let read = scan_selected(&file, &meta, request, |_| unreachable!(), select, count).unwrap();
    (bytes.into_inner(), read.iter().map(RecordBatch::num_rows).sum())
}

#[test]
fn what_is_not_selected_is_not_fetched() {
    let (_, batch) = texts();
    let of = |is_wanted: fn(i64) -> bool| fetched(request(&batch), |morsel| Some(Selected::default().select(morsel, 0, is_wanted)));
    let (all, rows) = fetched(request(&batch), |_| None);
    assert_eq!(rows, 20_480);
    let (one, rows) = of(|id| id == 5000);
    assert_eq!(rows, 1);
    let (none, rows) = of(|_| false);
    assert_eq!(rows, 0);
    // The ids are fetched in any case, and of twenty pages of texts one.
    assert!(none < all / 10 && none < one && one - none < (all - none) / 15, "{none}, {one} and {all} bytes");
    let (scattered, rows) = of(|id| id % 1000 == 0);
    // Of each batch of 8,192 from the first to the last, for no block between them is without one.
    assert!(rows == 8001 + 7001 + 3001 && scattered == all, "{rows} rows, {scattered} of {all} bytes");
}

/// What is left of several stripes for a second round is one round.
#[test]
fn stripes_that_are_fetched_together_are_asked_about_together() {
    let (_, batch) = texts();
    let options = WriterOptions { page_rows: 1024, stripe_rows: 4096, ..Default::default() };
    let file = write(&batch.schema(), std::slice::from_ref(&batch), options).unwrap();
    let meta = open(&file, &OpenOptions::default()).unwrap();
    let all = file.len() as u64;
    // A fifth is of one stripe, and nearly all of it of texts.
    for (select_bytes_together, ahead_bytes, is_asked) in
        [(all / 2, 2 * all, true), (2 * all, 2 * all, false), (2 * all, all / 2, true), (all / 10, 0, true)]
    {
        let request = ScanRequest { ahead_bytes, select_bytes_together, ..request(&batch) };
        let asked = Cell::new(false);
        let select = |morsel: &mut dyn Morsel| {
            asked.set(true);
            Some(Selected::default().select(morsel, 0, |id| id == 5000))
        };
        let read = scan_selected(&file, &meta, request, |_| unreachable!(), select, |_| {}).unwrap();
        let rows: usize = read.iter().map(RecordBatch::num_rows).sum();
        assert_eq!((asked.get(), rows), (is_asked, if is_asked { 1 } else { 20_480 }), "{select_bytes_together} of {ahead_bytes} bytes");
    }
}

#[test]
fn it_is_not_asked_where_there_is_little_to_gain() {
    let (_, batch) = texts();
    let never = |request| fetched(request, |_| panic!("asked"));
    assert_eq!(never(ScanRequest { select_bytes: 1 << 30, ..request(&batch) }).1, 20_480);
    assert_eq!(never(ScanRequest { select_columns: vec![0, 1], ..request(&batch) }).1, 20_480);
    assert_eq!(never(ScanRequest { select_columns: vec![], ..request(&batch) }).1, 20_480);
}

/// The first stripe of the texts and the scan that asks what to read of it.
fn asking(file: &Bytes, request: ScanRequest) -> (FermionScan, Box<dyn Morsel>) {
    let mut scan = FermionScan::new(open(file, &OpenOptions::default()).unwrap(), request).unwrap();
    let mut answer = Answer::Next;
    loop {
        answer = match scan.step(answer).unwrap() {
            Step::Fetch(fetches) => Answer::Fetched(fetch(file, &fetches)),
            Step::Select(morsel) => return (scan, morsel),
            step => panic!("{step:?}"),
        };
    }
}

#[test]
fn wrong_answers_and_requests_are_errors() {
    let (file, batch) = texts();
    let meta = open(&file, &OpenOptions::default()).unwrap();
    let no_such = ScanRequest { select_columns: vec![2], ..request(&batch) };
    assert_eq!(FermionScan::new(meta, no_such).unwrap_err().kind(), ErrorKind::InvalidArgument);
    // A column that is not loaded.
    let (_, mut morsel) = asking(&file, request(&batch));
    let rows = morsel.next_rows(1);
    assert_eq!(morsel.read(&[1], &rows).unwrap_err().kind(), ErrorKind::InvalidArgument);
    // Rows of another stripe, which this one does not have.
    let (schema, longer) = (batch.schema(), concat_batches(&batch.schema(), [&batch, &batch]).unwrap());
    let (_, mut other) = asking(&write(&schema, &[longer], WriterOptions::default()).unwrap(), request(&batch));
    let rows = Rows::join(std::iter::from_fn(|| Some(other.next_rows(1)).filter(|rows| !rows.is_empty())));
    let (mut scan, _) = asking(&file, request(&batch));
    assert_eq!(scan.step(Answer::Select(Some(rows))).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let (mut scan, _) = asking(&file, request(&batch));
    assert_eq!(scan.step(Answer::Keep(BooleanArray::from(vec![true]))).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(read_all(&file, 8192).unwrap().1.iter().map(RecordBatch::num_rows).sum::<usize>(), 20_480);
}
