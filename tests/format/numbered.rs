//! Rows that are read by their numbers, and morsels that say which theirs are.

use std::ops::Range;

use arrow::array::{Int64Array, RecordBatch};
use datafusion_fermion::format::ErrorKind;
use datafusion_fermion::format::alkaid::WriterOptions as AlkaidOptions;
use datafusion_fermion::format::fermion::{OpenOptions, ScanRequest, WriterOptions};
use datafusion_fermion::format::scan::Zones;
use rand::Rng;

use crate::alkaid::drive::{self as alkaid, Store};
use crate::drive::{first_morsel, open, scan, write};
use crate::random;
use crate::roundtrip::assert_same;
use crate::select::{ids_of, noise, numbered, rows_of};

/// Some ranges of rows that ascend, the last of which may end behind the table.
fn some_rows(rng: &mut impl Rng, rows: usize) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    let mut next = rng.random_range(0..=rows as u64);
    let longest = [2, 100, 5000][rng.random_range(0..3)];
    while next < rows as u64 && ranges.len() < 40 {
        let end = next + rng.random_range(1..longest);
        ranges.push(next..end);
        next = end + rng.random_range(0..longest);
    }
    ranges
}

fn ids(rows: &[Range<u64>], all: usize) -> Vec<i64> {
    rows.iter().cloned().flatten().filter(|row| *row < all as u64).map(u64::cast_signed).collect()
}

fn assert_rows(read: &[RecordBatch], table: &RecordBatch, expected: &[i64], seed: u64) {
    assert!(ids_of(read, 0) == expected, "seed {seed}: {:?}", ids_of(read, 0));
    let Some(expected) = rows_of(table, expected) else { return };
    assert_same(&expected.schema(), &[expected], read);
}

/// Whether it was done with both formats.
fn check(seed: u64) -> bool {
    let (schema, batches) = random::table(seed);
    let Some(table) = numbered(&schema, &batches) else { return false };
    let mut rng = random::rng(seed ^ 3);
    let rows = some_rows(&mut rng, table.num_rows());
    let options = WriterOptions { page_rows: 100, stripe_rows: [1000, 3000, 1 << 20][rng.random_range(0..3)], ..Default::default() };
    let file = write(&table.schema(), std::slice::from_ref(&table), options).unwrap();
    let meta = open(&file, &OpenOptions::default()).unwrap();
    let columns: Vec<usize> = (0..table.num_columns()).collect();
    let request = ScanRequest {
        rows: Some(rows.clone()),
        batch_rows: rng.random_range(1..3000),
        prune_columns: if rng.random_bool(0.5) { vec![0.into()] } else { Vec::new() },
        ..ScanRequest::new(columns, table.schema())
    };
    // Each stripe's part of the file by itself, as on as many threads.
    let cut = rng.random_range(0..=file.len() as u64);
    let keep_all = |zones: &Zones| vec![true; zones.row_counts.len()].into();
    let part = |range| scan(&file, &meta, ScanRequest { range: Some(range), ..request.clone() }, keep_all).unwrap();
    let read = [part(0..cut), part(cut..u64::MAX)].concat();
    assert_rows(&read, &table, &ids(&rows, table.num_rows()), seed);

    // Not all types have a place in it.
    let options = AlkaidOptions { batch_rows: 700, ..Default::default() };
    let Ok(file) = alkaid::write(&table.schema(), std::slice::from_ref(&table), options) else { return false };
    let mut store = Store::new(&file);
    let meta = store.open(512 << 10).unwrap();
    let read = store.scan(&meta, request, keep_all).unwrap();
    assert_rows(&read, &table, &ids(&rows, table.num_rows()), seed);
    true
}

#[test]
fn rows_are_read_by_their_numbers() {
    let both = (0..60).filter(|seed| check(*seed)).count();
    assert!(both > 30, "{both} tables in both formats");
}

pub(crate) fn numbers(rows: i64) -> RecordBatch {
    RecordBatch::try_from_iter([("id", std::sync::Arc::new(Int64Array::from_iter_values(0..rows)) as _)]).unwrap()
}

#[test]
fn only_pages_with_such_rows_are_fetched() {
    let column = Int64Array::from_iter_values((0..64 << 10).map(|row| noise(row).cast_signed()));
    let table = RecordBatch::try_from_iter([("noise", std::sync::Arc::new(column) as _)]).unwrap();
    let file = write(&table.schema(), std::slice::from_ref(&table), WriterOptions { page_rows: 1024, ..Default::default() }).unwrap();
    let meta = open(&file, &OpenOptions::default()).unwrap();
    let bytes = |rows: Vec<Range<u64>>| {
        let request = ScanRequest { rows: Some(rows), ..ScanRequest::new(vec![0], table.schema()) };
        let mut bytes = 0;
        let read = crate::drive::scan_selected(
            &file,
            &meta,
            request,
            |_| unreachable!(),
            |_| unreachable!(),
            |fetches| {
                bytes += fetches.iter().map(|fetch| fetch.range.end - fetch.range.start).sum::<u64>();
            },
        );
        (read.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), bytes)
    };
    let page = 1024 * 8..1024 * 9;
    let (rows, one) = bytes(vec![5000..5001]);
    assert!(rows == 1 && page.contains(&one), "{one} bytes");
    let (rows, two) = bytes(vec![5000..5001, 5100..5101, 60_000..60_002]);
    assert!(rows == 4 && two == 2 * one, "{two} bytes");
    assert_eq!(bytes(vec![1 << 40..1 << 41]), (0, 0));
}

#[test]
fn rows_that_do_not_ascend_are_refused() {
    let table = numbers(10);
    let file = write(&table.schema(), std::slice::from_ref(&table), WriterOptions::default()).unwrap();
    let meta = open(&file, &OpenOptions::default()).unwrap();
    let read = |rows: &[Range<u64>]| {
        let request = ScanRequest { rows: Some(rows.to_vec()), ..ScanRequest::new(vec![0], table.schema()) };
        scan(&file, &meta, request, |_| unreachable!())
    };
    for rows in [&[3..4, 1..2][..], &[0..2, 1..3], &[5..5]] {
        assert_eq!(read(rows).unwrap_err().kind(), ErrorKind::InvalidArgument, "{rows:?}");
    }
    assert_eq!(ids_of(&read(&[1..2, 2..4, 9..50]).unwrap(), 0), [1, 2, 3, 9]);
    assert_eq!(ids_of(&read(&[]).unwrap(), 0), [0; 0]);
}

#[test]
fn a_morsel_says_which_row_of_the_file_is_its_first() {
    let table = numbers(10_000);
    let file = write(&table.schema(), std::slice::from_ref(&table), WriterOptions { stripe_rows: 3000, ..Default::default() }).unwrap();
    let meta = open(&file, &OpenOptions::default()).unwrap();
    for (row, first) in [(0, 0), (2999, 0), (3000, 3000), (8000, 6000), (9999, 9000)] {
        let request = ScanRequest { rows: Some(vec![row..row + 1]), ..ScanRequest::new(vec![0], table.schema()) };
        let mut morsel = first_morsel(&file, &meta, request, false);
        assert_eq!(morsel.first_row(), first);
        assert_eq!(ids_of(&[morsel.next_batch().unwrap().unwrap()], 0), [row.cast_signed()]);
    }
}
