//! Pages that are fetched when rows of theirs are decoded: those that the rows need, and a little behind them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, ListArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{Field, Int64Type, Schema};
use bytes::Bytes;
use datafusion_fermion::format::fermion::{FermionScan, FileMeta, OpenOptions, ScanRequest, WriterOptions};
use datafusion_fermion::format::rows::Rows;
use datafusion_fermion::format::scan::{Answer, Fetch, MissingPage, Morsel, PagePlace, Scan, Section, Step};

use crate::drive::{fetch, open, scan, write};

const ROWS: usize = 40_000;

/// Numbers that pages of 2,048 rows take more than 8 KiB for, words of a dictionary, lists; with nulls.
fn table() -> RecordBatch {
    let mixed = |row: usize| (row ^ 0xff51_afd7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = move |row: usize| i64::try_from((mixed(row) ^ mixed(row) >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 8).unwrap();
    let numbers: ArrayRef = Arc::new((0..ROWS).map(|row| (row % 10 != 3).then(|| number(row))).collect::<Int64Array>());
    let words: ArrayRef = Arc::new(arrow::array::StringViewArray::from_iter_values((0..ROWS as u64).map(|row| word(row * row % 3001))));
    let list = |row: usize| (row % 7 != 2).then(|| (0..row % 5).map(move |slot| Some(number(row + slot))));
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>((0..ROWS).map(list)));
    RecordBatch::try_from_iter([("numbers", numbers), ("words", words), ("lists", lists)]).unwrap()
}

fn word(number: u64) -> String {
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn file(table: &RecordBatch) -> (Bytes, Arc<FileMeta>) {
    let file = write(&table.schema(), std::slice::from_ref(table), WriterOptions { page_rows: 2048, ..Default::default() }).unwrap();
    let meta = open(&file, &OpenOptions::default()).unwrap();
    (file, meta)
}

fn deferred(meta: &Arc<FileMeta>, request: ScanRequest) -> Box<dyn Morsel> {
    let mut scan = FermionScan::new(Arc::clone(meta), request).unwrap();
    let Step::Fetch(_) = scan.step(Answer::Next).unwrap() else { panic!("nothing to fetch") };
    let Step::Decode(morsel) = scan.defer().unwrap().expect("can be deferred") else { panic!("nothing to decode") };
    assert!(scan.defer().unwrap().is_none(), "nothing was asked for");
    morsel
}

/// Bytes that are read along.
const ALONG: u64 = 64 << 10;

fn give(file: &Bytes, morsel: &dyn Morsel, missing: Vec<MissingPage>) {
    let (places, fetches): (Vec<PagePlace>, Vec<Fetch>) = missing.into_iter().map(|page| (page.place, page.fetch)).unzip();
    morsel.give(places.into_iter().zip(fetch(file, &fetches)).collect()).unwrap();
}

fn length(missing: &[MissingPage]) -> u64 {
    missing.iter().map(|page| page.fetch.range.end - page.fetch.range.start).sum()
}

#[test]
fn only_what_rows_need_is_missing_and_a_little_behind_it() {
    let table = table();
    let (file, meta) = file(&table);
    let request = ScanRequest { batch_rows: ROWS, ..ScanRequest::new(vec![0, 1, 2], table.schema()) };
    let mut morsel = deferred(&meta, request);
    assert_eq!(morsel.rest(usize::MAX).len(), ROWS);
    let rows = morsel.next_rows(1);
    assert_eq!((rows.len(), morsel.rest(usize::MAX).len()), (ROWS, 0));
    assert!(morsel.missing(&[], &rows, ALONG).is_empty() && morsel.missing(&[0, 1, 2], &Rows::default(), ALONG).is_empty());
    let part = |wanted: &dyn Fn(usize) -> bool| rows.blocks_with(&BooleanBuffer::collect_bool(ROWS, wanted)).0;

    // A row of the fourth page and one of the sixth: the validity as a whole, two pages, and what lies behind the last of them up to 64 KiB.
    let few = part(&|row| row == 7000 || row == 11_000);
    assert!(morsel.read(&[0], &few).is_err(), "nothing is there");
    let missing = morsel.missing(&[0], &few, ALONG);
    assert!(missing.iter().all(|page| page.fetch.section == Section::Data && page.place.column == 0));
    let pages: Vec<usize> = missing.iter().filter(|page| page.place.stream == 1).map(|page| page.place.page).collect();
    let size = length(&missing[1..2]);
    let needed = morsel.missing(&[0], &few, 0);
    assert_eq!(needed.iter().filter(|page| page.place.stream == 1).map(|page| page.place.page).collect::<Vec<_>>(), [3, 5]);
    let along = usize::try_from(ALONG / size).unwrap() - 2;
    assert!(size > 8 << 10 && along > 1, "{size}");
    assert_eq!(pages, [3].into_iter().chain(5..6 + along).collect::<Vec<_>>());
    give(&file, morsel.as_ref(), missing);
    assert!(morsel.missing(&[0], &few, ALONG).is_empty());
    assert!(morsel.missing(&[0], &part(&|row| (11_000..13_000).contains(&row)), ALONG).is_empty(), "what lies behind is there");
    let expected = arrow::compute::take(table.column(0), &Int64Array::from(vec![7000, 11_000]), None).unwrap();
    assert_eq!(&morsel.read(&[0], &few).unwrap()[0], &expected);

    // All of them: what is there already is not missing.
    let missing = morsel.missing(&[0, 1, 2], &rows, ALONG);
    assert!(!missing.iter().any(|page| page.place == PagePlace { column: 0, stream: 1, page: 3 }));
    give(&file, morsel.as_ref(), missing);
    assert!(morsel.missing(&[0, 1, 2], &rows, ALONG).is_empty());
    let read = morsel.read(&[0, 1, 2], &rows).unwrap();
    assert!(read.iter().zip(table.columns()).all(|(read, written)| read == written));
}

#[test]
fn a_column_that_is_read_twice_has_its_pages_twice() {
    let table = table();
    let (file, meta) = file(&table);
    let fields: Vec<Field> = [0, 1, 0, 1].iter().map(|column: &usize| table.schema().field(*column).clone()).collect();
    let request = ScanRequest { batch_rows: 3000, ..ScanRequest::new(vec![0, 1, 0, 1], Arc::new(Schema::new(fields))) };
    let batches = scan(&file, &meta, request, |_| unreachable!("nothing to prune by")).unwrap();
    let read = arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap();
    for (read, column) in read.columns().iter().zip([0, 1, 0, 1]) {
        assert_eq!(read, table.column(column));
    }
}

#[test]
fn pages_are_gone_when_their_rows_are_done() {
    let table = table();
    let (file, meta) = file(&table);
    let mut morsel = deferred(&meta, ScanRequest { batch_rows: 5000, ..ScanRequest::new(vec![0], table.schema().project(&[0]).unwrap().into()) });
    let first = morsel.next_rows(1);
    give(&file, morsel.as_ref(), morsel.missing(&[0], &first, ALONG));
    assert_eq!(&morsel.read(&[0], &first).unwrap()[0], &table.column(0).slice(0, 5000));
    assert!(morsel.missing(&[0], &first, ALONG).is_empty());
    let second = morsel.next_rows(1);
    // Two pages of the first 5,000 rows have been done, the third has rows that come now.
    let missing = morsel.missing(&[0], &first, ALONG);
    assert_eq!(missing.iter().map(|page| page.place.page).collect::<Vec<_>>(), [0, 1]);
    give(&file, morsel.as_ref(), morsel.missing(&[0], &second, ALONG));
    assert_eq!(&morsel.read(&[0], &second).unwrap()[0], &table.column(0).slice(5000, 5000));
}
