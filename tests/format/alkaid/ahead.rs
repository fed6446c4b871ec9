//! Record batches that are fetched together, so that it takes few rounds to a store far away.

use std::sync::Arc;

use arrow::array::*;
use arrow::compute::concat_batches;
use arrow::datatypes::*;
use bytes::Bytes;
use datafusion_fermion::format::alkaid::{AlkaidScan, Codec, Form, ScanRequest, WriterOptions};
use datafusion_fermion::format::scan::{Level, Morsel};
use proptest::prelude::*;
use rand::Rng;

use super::drive::{Store, request, write};
use super::roundtrip::table;
use crate::random;
use crate::select::{Selected, ids_of, numbered, rows_of};

const ROWS: i64 = 20_000;

/// Twenty batches of numbers and of words, which in a stream are others from every third batch on.
fn words(form: Form) -> (RecordBatch, Bytes) {
    let column = |of: fn(i64) -> i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values((0..ROWS).map(of))) };
    let batch = |from: i64| {
        let words: Vec<String> = (from..from + 1000).map(|row| format!("word {} of {}", row % 1000 % 7, row / 3000)).collect();
        let words: ArrayRef = Arc::new(words.iter().map(String::as_str).collect::<DictionaryArray<Int16Type>>());
        let place = usize::try_from(from).unwrap();
        RecordBatch::try_from_iter([("id", column(|row| row).slice(place, 1000)), ("n", column(|row| row * 7).slice(place, 1000)), ("w", words)])
            .unwrap()
    };
    let batches: Vec<RecordBatch> = (0..ROWS).step_by(1000).map(batch).collect();
    let options = WriterOptions { form, batch_rows: 1000, compression: Some(Codec::Lz4), ..Default::default() };
    let file = write(&batches[0].schema(), &batches, options).unwrap();
    (concat_batches(&batches[0].schema(), &batches).unwrap(), file)
}

#[test]
fn rows_are_the_same_and_rounds_are_few() {
    for form in [Form::File, Form::Stream] {
        let (batch, file) = words(form);
        let mut store = Store::new(&file);
        let meta = store.open(64 << 10).unwrap();
        // The metadata of messages is there from now on.
        store.scan(&meta, request(&meta, &[2], 10_000), |_| unreachable!()).unwrap();
        let mut read = |ahead_bytes, is_wanted: Option<fn(i64) -> bool>| {
            let select_columns = if is_wanted.is_some() { vec![0] } else { Vec::new() };
            let asked = ScanRequest { ahead_bytes, select_columns, ..request(&meta, &[0, 1, 2], 10_000) };
            let mut selected = Selected::default();
            let before = store.rounds;
            let select = |morsel: &mut dyn Morsel| Some(selected.select(morsel, 0, is_wanted.unwrap()));
            let read = store.scan_selected(&meta, asked, |_| unreachable!(), select).unwrap();
            (concat_batches(&batch.schema(), &read).unwrap(), store.rounds - before)
        };
        let (whole, rounds) = read(1 << 30, None);
        assert!(whole == batch && rounds == 1, "{form:?}: {rounds}");
        // Of every other batch there are rows. One by one that takes a round for each, and one for half of them.
        let is_wanted: fn(i64) -> bool = |id| id / 1000 % 2 == 1 && id % 1000 < 3;
        let [together, few, one_by_one] = [1 << 30, 40_000, 0].map(|ahead| read(ahead, Some(is_wanted)));
        assert_eq!((together.1, one_by_one.1), (2, 30), "{form:?}");
        assert!((4..20).contains(&few.1), "{form:?}: {}", few.1);
        let ids = ids_of(std::slice::from_ref(&one_by_one.0), 0);
        assert!((0..ROWS).filter(|id| is_wanted(*id)).all(|id| ids.contains(&id)));
        let expected = rows_of(&batch, &ids).unwrap();
        assert!([&together.0, &few.0, &one_by_one.0].iter().all(|read| **read == expected), "{form:?}");
    }
}

/// What a filter that has changed does not want of a group is not read, and nothing that others need goes with it.
#[test]
fn batches_of_a_group_are_asked_for_again() {
    for form in [Form::File, Form::Stream] {
        let (batch, file) = words(form);
        let mut store = Store::new(&file);
        let meta = store.open(64 << 10).unwrap();
        for every in 1..8 {
            let again = ScanRequest { prune_columns: vec![0.into()], prune_again: true, ..request(&meta, &[0, 2], 10_000) };
            let mut asked = 0;
            let read = store.scan(&meta, again, |zones| {
                asked += usize::from(zones.level == Level::Page);
                BooleanArray::from(vec![zones.level == Level::Stripe || asked % every == 0; zones.row_counts.len()])
            });
            let read = read.unwrap();
            assert_eq!(asked, 20);
            let kept: Vec<RecordBatch> = (1..=20).filter(|place| place % every == 0).map(|place| batch.slice((place - 1) * 1000, 1000)).collect();
            let kept = concat_batches(&batch.schema(), &kept).unwrap().project(&[0, 2]).unwrap();
            assert!(concat_batches(&kept.schema(), &read).unwrap() == kept, "{form:?}, one of {every}");
        }
    }
}

/// Of batches that do not fit into one group, too, none is fetched that is not wanted when its group's turn comes.
#[test]
fn batches_that_are_not_wanted_any_more_are_not_fetched() {
    let rows = 40 * 50_000;
    let batch = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef)]).unwrap();
    let file = write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions { batch_rows: 50_000, ..Default::default() }).unwrap();
    let mut store = Store::new(&file);
    let meta = store.open(64 << 10).unwrap();
    store.scan(&meta, request(&meta, &[0], 50_000), |_| unreachable!()).unwrap();
    for ahead_bytes in [0, 600_000, 2 << 20] {
        let again = ScanRequest { prune_columns: vec![0.into()], prune_again: true, ahead_bytes, ..request(&meta, &[0], 50_000) };
        store.bytes = 0;
        let mut asked = Vec::new();
        let read = store.scan(&meta, again, |zones| {
            let first = zones.columns[0].min.as_primitive::<Int64Type>().value(0);
            if zones.level == Level::Page {
                asked.push(first / 50_000);
            }
            BooleanArray::from(vec![zones.level == Level::Stripe || first < 100_000; zones.row_counts.len()])
        });
        assert_eq!(read.unwrap().len(), 2);
        assert_eq!(asked, (0..40).collect::<Vec<_>>());
        // A batch has 400 KB.
        assert!(store.bytes < 3_000_000, "{ahead_bytes}: {} bytes", store.bytes);
    }
}

/// Texts that take little in the file and much in memory: no more of them are kept than are used.
#[test]
fn dictionaries_of_batches_that_have_been_read_are_given_back() {
    let column = |row: usize| -> ArrayRef {
        let text = format!("{row}{}", "x".repeat(1 << 20));
        Arc::new(DictionaryArray::<Int8Type>::new(Int8Array::from(vec![0; 3]), Arc::new(StringArray::from(vec![text]))))
    };
    let batches: Vec<RecordBatch> = (0..60).map(|row| RecordBatch::try_from_iter([("t", column(row))]).unwrap()).collect();
    let options = WriterOptions { form: Form::Stream, batch_rows: 3, compression: Some(Codec::Zstd), ..Default::default() };
    let file = write(&batches[0].schema(), &batches, options).unwrap();
    assert!(file.len() < 100_000);
    let mut store = Store::new(&file);
    let meta = store.open(1 << 20).unwrap();
    let mut scan = AlkaidScan::new(Arc::clone(&meta), ScanRequest { ahead_bytes: 1 << 20, ..request(&meta, &[0], 10) }).unwrap();
    let mut values = 0;
    let taken = allocation_counter::measure(|| values = store.drain(&mut scan, |batch| batch.column(0).as_dictionary::<Int8Type>().values().len()));
    assert_eq!(values, 60);
    assert!(taken.bytes_max < 8 << 20, "{} bytes", taken.bytes_max);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn groups_of_random_tables_have_the_rows_that_are_selected(seed in any::<u64>()) {
        let Some((schema, batches)) = table(seed) else { return Ok(()) };
        let Some(batch) = numbered(&schema, &batches).filter(|batch| batch.num_rows() > 0) else { return Ok(()) };
        let mut rng = random::rng(seed ^ 5);
        let options = WriterOptions {
            form: if rng.random_bool(0.5) { Form::File } else { Form::Stream },
            batch_rows: [50, 300, 1000][rng.random_range(0..3)],
            ..Default::default()
        };
        let Ok(file) = write(&batch.schema(), std::slice::from_ref(&batch), options) else { return Ok(()) };
        let mut store = Store::new(&file);
        let meta = store.open(1 << 20).unwrap();
        let last = batch.num_columns() - 1;
        let columns: Vec<usize> = (0..=last).rev().collect();
        let every = rng.random_range(1..2000);
        let ahead_bytes = [0, 10_000, 100_000, 1 << 30][rng.random_range(0..4)];
        // The ids are the last of these columns; sometimes another is read with them, for which it is asked, too.
        let select_columns = if rng.random_bool(0.5) { vec![last] } else { vec![last / 2, last] };
        let select_columns = if select_columns[0] == select_columns[select_columns.len() - 1] { vec![last] } else { select_columns };
        let asked = ScanRequest { ahead_bytes, select_columns, ..request(&meta, &columns, 700) };
        let mut selected = Selected::default();
        let read = store.scan_selected(&meta, asked, |_| unreachable!(), |morsel| Some(selected.select(morsel, last, |id| id % every == 0))).unwrap();
        let ids = ids_of(&read, last);
        prop_assert!((0..i64::try_from(batch.num_rows()).unwrap()).filter(|id| id % every == 0).all(|id| ids.binary_search(&id).is_ok()));
        let Some(expected) = rows_of(&batch.project(&columns).unwrap(), &ids) else { return Ok(()) };
        let mut from = 0;
        for part in &read {
            let expected = expected.slice(from, part.num_rows());
            prop_assert!(super::roundtrip::same_rows(std::slice::from_ref(part), &[expected]), "seed {seed}");
            from += part.num_rows();
        }
    }
}
