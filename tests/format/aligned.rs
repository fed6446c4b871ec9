//! Stripes that lie in no more blocks of a file system than they have to.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use bytes::Bytes;
use datafusion_fermion::format::ErrorKind;
use datafusion_fermion::format::fermion::{OpenOptions, Writer, WriterOptions};

use crate::batches::{self, check_read};
use crate::bloom;
use crate::drive::{open, read_all, write};
use crate::inspect::{check_parts, verify};
use crate::random;
use crate::roundtrip::assert_same;

/// Checks where stripes are, and that what lies between them is zeros; gives the stripes that were moved.
fn check_stripes(file: &Bytes, block: u64) -> usize {
    let meta = open(file, &OpenOptions::default()).unwrap();
    let mut end = 8;
    let mut moved = 0;
    for stripe in meta.stripes() {
        let blocks = match stripe.length {
            0 => 0,
            length => (stripe.offset + length - 1) / block - stripe.offset / block + 1,
        };
        assert_eq!(blocks, stripe.length.div_ceil(block), "{stripe:?}");
        let between = &file[usize::try_from(end).unwrap()..usize::try_from(stripe.offset).unwrap()];
        assert!(between.iter().all(|byte| *byte == 0));
        assert!(between.is_empty() || (stripe.offset % block == 0 && stripe.length > 0));
        moved += usize::from(!between.is_empty());
        end = stripe.offset + stripe.length;
    }
    assert_eq!(verify(file).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new());
    check_parts(file);
    moved
}

#[test]
fn rows_of_stripes_that_were_moved_are_the_same() {
    let mut moved = 0;
    for seed in 0..60 {
        let (schema, batches) = random::table(seed);
        let block = [64, 4096, 1 << 16][usize::try_from(seed % 3).unwrap()];
        let options = WriterOptions { stripe_rows: 300, page_rows: 100, stripe_alignment: block, threads: 2, ..Default::default() };
        let Ok(file) = write(&schema, &batches, options) else { continue };
        moved += check_stripes(&file, block);
        assert_same(&schema, &batches, &read_all(&file, 100).unwrap().1);
    }
    assert!(moved > 50, "{moved}");
}

#[test]
fn filters_and_batches_move_with_their_stripe() {
    let batch = bloom::table(10_000);
    let block = 1 << 18;
    let file =
        write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions { stripe_alignment: block, ..bloom::options(&batch, 1000) }).unwrap();
    assert!(check_stripes(&file, block) > 0);
    assert_same(&batch.schema(), std::slice::from_ref(&batch), &read_all(&file, 100).unwrap().1);

    let (schema, in_batches) = batches::batches();
    let options = WriterOptions { stripe_rows: 20, page_rows: 10, stripe_alignment: 4096, batches: true, ..Default::default() };
    let file = batches::write(&schema, &in_batches, options).unwrap();
    assert!(check_stripes(&file, 4096) > 0);
    check_read(&file, &in_batches, 7);
}

#[test]
fn before_a_stripe_of_nulls_there_is_nothing() {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..30).map(|row| (row / 10 == 1).then_some(row * row))));
    let batch = RecordBatch::try_from_iter_with_nullable([("n", numbers, true)]).unwrap();
    let options = WriterOptions { stripe_rows: 10, page_rows: 10, stripe_alignment: 1 << 20, ..Default::default() };
    let file = write(&batch.schema(), std::slice::from_ref(&batch), options).unwrap();
    assert_eq!((check_stripes(&file, 1 << 20), file.len() < 2000), (0, true));
}

#[test]
fn a_size_that_is_none_is_refused() {
    for stripe_alignment in [1, 4100, 1 << 33] {
        let (schema, _) = random::table(0);
        let error = Writer::new(schema, WriterOptions { stripe_alignment, ..Default::default() }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}
