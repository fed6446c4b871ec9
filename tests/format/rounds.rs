//! Pages are the same whoever encodes them, however the rows come and however many of them are encoded together.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, StringViewBuilder};
use bytes::Bytes;
use datafusion_fermion::format::fermion::inspect::{InspectColumn, PartKind};
use datafusion_fermion::format::fermion::{OpenOptions, WriterOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::drive::{load, open, read_all, write};
use crate::inspect::check_parts;
use crate::random;
use crate::roundtrip::assert_same;

/// The same rows in batches of so many at most.
fn cut(batches: &[RecordBatch], rows: usize) -> Vec<RecordBatch> {
    let cut = |batch: &RecordBatch| (0..batch.num_rows()).step_by(rows).map(|start| batch.slice(start, rows.min(batch.num_rows() - start))).collect();
    batches.iter().flat_map::<Vec<_>, _>(cut).collect()
}

/// Rows of the pages of a column without nulls.
fn page_rows(file: &Bytes, column: usize) -> Vec<u64> {
    let meta = open(file, &OpenOptions::default()).unwrap();
    let parts = load(file, InspectColumn::new(&meta, column)).unwrap();
    parts.into_iter().filter(|part| part.kind == PartKind::Page).filter_map(|part| part.slots).collect()
}

#[test]
fn files_are_the_same_for_any_threads_and_batches() {
    for seed in 0..40 {
        let (schema, batches) = random::table(seed);
        let options = WriterOptions { stripe_rows: 700, page_rows: 100, ..Default::default() };
        let Ok(file) = write(&schema, &batches, options.clone()) else { continue };
        for (threads, rows) in [(2, usize::MAX), (1, 37), (5, 37), (3, 1)] {
            let other = write(&schema, &cut(&batches, rows), WriterOptions { threads, ..options.clone() }).unwrap();
            assert!(other == file, "table {seed}, {threads} threads, batches of {rows}");
        }
    }
}

#[test]
fn pages_of_text_are_the_same_for_any_threads() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut text = |words: usize| (0..rng.random_range(1..words)).map(|_| format!("word{} ", rng.random_range(0..3000))).collect::<String>();
    let columns = [60, 4, 90].map(|words| Arc::new(StringViewArray::from_iter_values((0..9000).map(|_| text(words)))) as ArrayRef);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..9000));
    let batch = RecordBatch::try_from_iter(["a", "b", "c", "n"].into_iter().zip(columns.into_iter().chain([numbers]))).unwrap();
    // Several pages of a round, so much work that threads share them, and several rounds of a stripe.
    let options = WriterOptions { page_rows: 1000, page_bytes: 100_000, stripe_rows: 6000, ..Default::default() };
    let one = write(&batch.schema(), std::slice::from_ref(&batch), options.clone()).unwrap();
    assert_eq!(page_rows(&one, 3), [1000; 9]);
    assert!(page_rows(&one, 2).len() > 18);
    for threads in [2, 3, 8] {
        let more = write(&batch.schema(), &cut(std::slice::from_ref(&batch), 700), WriterOptions { threads, ..options.clone() }).unwrap();
        assert!(more == one, "{threads} threads");
    }
    check_parts(&one);
    assert_same(&batch.schema(), std::slice::from_ref(&batch), &read_all(&one, 1000).unwrap().1);
}

#[test]
fn pages_are_full_where_rows_are_large() {
    // The text of all rows is one, which a batch refers to: 20 MB a page.
    let mut texts = StringViewBuilder::new();
    let block = texts.append_block("x".repeat(20_000).into_bytes().into());
    (0..250).for_each(|_| texts.try_append_view(block, 0, 20_000).unwrap());
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..250));
    let batch = RecordBatch::try_from_iter([("n", numbers), ("text", Arc::new(texts.finish()) as ArrayRef)]).unwrap();
    let options = WriterOptions { page_rows: 1000, ..Default::default() };
    let file = write(&batch.schema(), &vec![batch.clone(); 14], options).unwrap();
    assert_eq!(page_rows(&file, 0), [1000, 1000, 1000, 500]);
}

#[test]
fn stripes_have_about_so_many_raw_bytes() {
    let stripes = |columns: usize, rows: i64, stripe_raw_bytes: usize| {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        let batch = RecordBatch::try_from_iter((0..columns).map(|column| (column.to_string(), Arc::clone(&numbers)))).unwrap();
        let options = WriterOptions { page_rows: 16 << 10, stripe_rows: 1 << 20, stripe_raw_bytes, ..Default::default() };
        let file = write(&batch.schema(), &cut(std::slice::from_ref(&batch), 10_000), options.clone()).unwrap();
        assert!(file == write(&batch.schema(), std::slice::from_ref(&batch), options).unwrap(), "the rows come all at once");
        let stripes = open(&file, &OpenOptions::default()).unwrap().stripes().iter().map(|stripe| stripe.rows >> 10).collect::<Vec<_>>();
        assert_same(&batch.schema(), std::slice::from_ref(&batch), &read_all(&file, 8192).unwrap().1);
        stripes
    };
    // Pages of 128 KiB, of which up to four are encoded together.
    assert_eq!(stripes(1, 200 << 10, 1 << 20), [128, 72]);
    assert_eq!(stripes(1, 200 << 10, 1 << 30), [200]);
    // Whatever is nearest: nine of them, or eleven.
    assert_eq!(stripes(1, 200 << 10, 1_200_000), [144, 56]);
    assert_eq!(stripes(1, 200 << 10, 1_400_000), [176, 24]);
    // No less than 256 KiB for each column.
    assert_eq!(stripes(1, 200 << 10, 1), [32, 32, 32, 32, 32, 32, 8]);
    assert_eq!(stripes(3, 200 << 10, 1), [32, 32, 32, 32, 32, 32, 8]);
    assert_eq!(stripes(3, 200 << 10, 1_200_000), [48, 48, 48, 48, 8]);
}
