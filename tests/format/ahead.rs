//! Stripes that are fetched together, so that it takes few rounds to a store far away.

use arrow::array::*;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Int64Type};
use bytes::Bytes;
use datafusion_fermion::format::fermion::{OpenOptions, ScanRequest, WriterOptions};
use datafusion_fermion::format::scan::Zones;
use std::sync::Arc;

use crate::drive::{open, scan_selected, write};
use crate::select::Selected;

const ROWS: i64 = 20_000;

/// Ten stripes of two pages each, of ids and of numbers that take 8 bytes each.
fn table() -> (RecordBatch, Bytes) {
    let spread = |row: u64| (row ^ row >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let noise = |row: i64| spread(spread(row.unsigned_abs() + 1)).cast_signed();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(noise)));
    let batch = RecordBatch::try_from_iter([("id", ids), ("number", numbers)]).unwrap();
    let options = WriterOptions { stripe_rows: 2000, page_rows: 1000, ..WriterOptions::default() };
    let file = write(&batch.schema(), std::slice::from_ref(&batch), options).unwrap();
    (batch, file)
}

/// The rows that are read, and how many rounds that takes.
fn read(file: &Bytes, ahead_bytes: u64, of: impl Fn(ScanRequest) -> ScanRequest, keep: impl FnMut(&Zones) -> BooleanArray) -> (RecordBatch, usize) {
    let meta = open(file, &OpenOptions::default()).unwrap();
    let schema = meta.schema().unwrap();
    let request = of(ScanRequest { ahead_bytes, ..ScanRequest::new(vec![0, 1], Arc::clone(&schema)) });
    let mut rounds = 0;
    let mut selected = Selected::default();
    let select = |morsel: &mut dyn datafusion_fermion::format::scan::Morsel| Some(selected.select(morsel, 0, |id| id % 2000 < 100));
    let batches = scan_selected(file, &meta, request, keep, select, |_| rounds += 1).unwrap();
    (concat_batches(&schema, &batches).unwrap(), rounds)
}

#[test]
fn rows_are_the_same_and_rounds_are_few() {
    let (batch, file) = table();
    let whole = |ahead| read(&file, ahead, |request| request, |_| unreachable!());
    // A stripe takes a bit more than 16,000 bytes.
    for (ahead, rounds) in [(0, 10), (10_000, 10), (40_000, 5), (60_000, 4), (1 << 30, 1)] {
        let (read, found) = whole(ahead);
        assert_eq!((read == batch, found), (true, rounds), "{ahead}");
    }
}

#[test]
fn only_pages_that_are_kept_are_fetched_ahead() {
    let (batch, file) = table();
    let is_wanted = |id: i64| !(4500..11_500).contains(&id);
    for (ahead, rounds) in [(0, 8), (1 << 30, 1)] {
        let by_id = |request: ScanRequest| ScanRequest { prune_columns: vec![0.into()], ..request };
        let (read, found) = read(&file, ahead, by_id, |zones| {
            let bounds = |array: &ArrayRef| array.as_primitive::<Int64Type>().values().to_vec();
            let (min, max) = (bounds(&zones.columns[0].min), bounds(&zones.columns[0].max));
            min.iter().zip(max).map(|(min, max)| Some(is_wanted(*min) || is_wanted(max))).collect()
        });
        let expected = concat_batches(&batch.schema(), &[batch.slice(0, 5000), batch.slice(11_000, 9000)]).unwrap();
        assert_eq!((read == expected, found), (true, rounds), "{ahead}");
    }
}

/// However small they are, and however many: nothing is planned without end.
#[test]
fn very_many_stripes_are_fetched_in_groups() {
    let batch = RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from_iter_values(0..ROWS)) as ArrayRef),
        ("number", new_null_array(&DataType::Int64, 20_000)),
    ]);
    let batch = batch.unwrap();
    let file = write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions { stripe_rows: 1, ..WriterOptions::default() }).unwrap();
    let (rows, rounds) = read(&file, 1 << 30, |request| request, |_| unreachable!());
    assert!(rows.column(0) == batch.column(0) && rounds < 400, "{rounds}");
}

/// What is selected by is fetched of many stripes together, and then what is left of them.
#[test]
fn stripes_of_which_rows_are_selected_are_fetched_in_two_rounds() {
    let (batch, file) = table();
    let expected: Vec<RecordBatch> = (0..10).map(|stripe| batch.slice(stripe * 2000, 100)).collect();
    let expected = concat_batches(&batch.schema(), &expected).unwrap();
    // Ids take little, and a page of the numbers 8,000 bytes and a bit.
    for (ahead, rounds) in [(0, 20), (40_000, 1 + 3), (1 << 30, 2)] {
        let by_id = |request: ScanRequest| ScanRequest { select_columns: vec![0], ..request };
        let (read, found) = read(&file, ahead, by_id, |_| unreachable!());
        assert_eq!((read == expected, found), (true, rounds), "{ahead}");
    }
}
