//! Files without a Column Index Table.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use datafusion_fermion::format::ErrorKind;
use datafusion_fermion::format::fermion::inspect::file_layout;
use datafusion_fermion::format::fermion::{ColumnMeta, FileMeta, Open, OpenOptions, Writer, WriterOptions};
use datafusion_fermion::format::scan::{Load, Loading};

use crate::by_hand::{Column, I64, Node, Stream, Tree, data, file_with, valid};
use crate::drive::{fetch, open, read_all, write};
use crate::inspect::{check_parts, verify};
use crate::roundtrip::assert_same;
use crate::{batches, bloom, random};

const BELOW: usize = 4 << 20;

/// Checks that a file is whole, has no CIT, and what it saves by that beside the same one with it.
fn check(file: &Bytes, with_cit: &Bytes) {
    let [meta, other] = [file, with_cit].map(|file| open(file, &OpenOptions::default()).unwrap());
    assert!(!meta.footer().has_cit() && other.footer().has_cit());
    let nulls = (0..other.stored_columns()).filter(|column| matches!(other.column(*column).unwrap(), Some(ColumnMeta::AllNull))).count();
    let stored = other.stored_columns() - nulls;
    assert_eq!(with_cit.len() - file.len(), 8 * stored, "a CIT has 8 bytes for each column, and a length is a part of what a CMB has anyway");
    assert_eq!((file_layout(&meta).column_index_bytes, file_layout(&other).column_index_bytes), (0, 8 * other.stored_columns() as u64));
    for column in 0..meta.column_count() {
        let [summary, expected] = [&meta, &other].map(|meta| format!("{:?}", meta.column_summary(column).unwrap()));
        assert_eq!(summary, expected, "column {column}");
    }
    assert_eq!(verify(file).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new());
    check_parts(file);
}

#[test]
fn rows_are_the_same_and_the_index_is_saved() {
    for seed in 0..60 {
        let (schema, batches) = random::table(seed);
        let options = |no_cit_below| WriterOptions { stripe_rows: 1000, page_rows: 300, checksums: seed % 3 > 0, no_cit_below, ..Default::default() };
        let [file, with_cit] = [BELOW, 0].map(|no_cit_below| write(&schema, &batches, options(no_cit_below)).unwrap());
        check(&file, &with_cit);
        assert_same(&schema, &batches, &read_all(&file, 100).unwrap().1);
    }
}

#[test]
fn batches_and_filters_are_found_all_the_same() {
    let (schema, in_batches) = batches::batches();
    let options = |no_cit_below| WriterOptions { no_cit_below, ..batches::SMALL };
    let [file, with_cit] = [BELOW, 0].map(|no_cit_below| batches::write(&schema, &in_batches, options(no_cit_below)).unwrap());
    check(&file, &with_cit);
    batches::check_read(&file, &in_batches, 7);

    let batch = bloom::table(3000);
    let options = |no_cit_below| WriterOptions { no_cit_below, ..bloom::options(&batch, 1000) };
    let [file, with_cit] = [BELOW, 0].map(|no_cit_below| write(&batch.schema(), std::slice::from_ref(&batch), options(no_cit_below)).unwrap());
    check(&file, &with_cit);
    assert_same(&batch.schema(), std::slice::from_ref(&batch), &read_all(&file, 100).unwrap().1);
}

#[test]
fn files_of_no_rows_no_columns_and_nothing_but_nulls() {
    let nullable = |name: &str| Field::new(name, DataType::Int64, true);
    let schema: SchemaRef = Arc::new(Schema::new(vec![nullable("a"), nullable("b")]));
    let nulls = RecordBatch::try_new(Arc::clone(&schema), vec![new_null_array(&DataType::Int64, 9); 2]).unwrap();
    let no_columns =
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &RecordBatchOptions::new().with_row_count(Some(5))).unwrap();
    for batch in [nulls.clone(), nulls.slice(0, 0), no_columns] {
        for in_batches in [false, true] {
            let options = |no_cit_below| WriterOptions { no_cit_below, batches: in_batches, ..Default::default() };
            let write = |no_cit_below| match in_batches {
                true => {
                    batches::write(&batch.schema(), &[(Some(3), batch.clone())][..usize::from(batch.num_rows() > 0)], options(no_cit_below)).unwrap()
                }
                false => write(&batch.schema(), std::slice::from_ref(&batch), options(no_cit_below)).unwrap(),
            };
            let file = write(BELOW);
            check(&file, &write(0));
            let rows: usize = read_all(&file, 4).unwrap().1.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(rows, batch.num_rows());
        }
    }
}

/// Another writer's file, made from the specification alone.
#[test]
fn what_the_specification_says_is_what_is_read() {
    let columns = || {
        let column = |name, streams| Column(Node::new(name, 5, Vec::new()), streams);
        vec![
            column("nothing", Vec::<Stream>::new()),
            column("same", vec![valid(), data(&Tree::constant(I64, 3, 7))]),
            column("nothing either", Vec::new()),
            column("each", vec![valid(), data(&Tree::plain_i64(&[1, 2, 3]))]),
        ]
    };
    let [(schema, read), (schema_with_cit, with_cit)] = [false, true].map(|has_cit| read_all(&file_with(3, columns(), has_cit), 8).unwrap());
    assert_eq!(schema, schema_with_cit);
    assert_eq!(read, with_cit);
    let numbers = |values: [i64; 3]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
    let nothing = new_null_array(&DataType::Int64, 3);
    assert_eq!(read[0].columns(), [Arc::clone(&nothing), numbers([7; 3]), nothing, numbers([1, 2, 3])]);
    assert!(verify(&file_with(3, columns(), false)).unwrap().is_empty());
}

/// Opens with these bytes of prefetch and as lazily as can be; gives the reads that it took.
fn reads(file: &Bytes, prefetch: u64) -> (FileMeta, usize) {
    let mut opening = Open::new(file.len() as u64, &OpenOptions { prefetch, eager_load_threshold: 0 }).unwrap();
    let (mut bytes, mut reads) = (Vec::new(), 0);
    loop {
        match opening.resume(std::mem::take(&mut bytes)).unwrap() {
            Loading::Fetch(fetches) => {
                reads += fetches.len();
                bytes = fetch(file, &fetches);
            }
            Loading::Ready(meta) => return (meta, reads),
        }
    }
}

#[test]
fn it_takes_all_metadata_to_open_and_no_read_more_for_any_column() {
    let (schema, rows) = random::table(5);
    let file = write(&schema, &rows, WriterOptions { no_cit_below: BELOW, ..Default::default() }).unwrap();
    for prefetch in [0, 64, 128, 200, 1000, 1 << 20] {
        let (meta, reads) = reads(&file, prefetch);
        let covers_metadata = file.len() as u64 - prefetch.min(file.len() as u64) <= meta.footer().cmb_offset;
        assert_eq!(reads, if covers_metadata { 1 } else { 2 }, "{prefetch}");
        assert!(meta.metadata_is_eager());
        assert!((0..meta.column_count()).all(|column| meta.column(column).unwrap().is_some()));
    }
}

#[test]
fn much_metadata_has_a_cit() {
    let batch = bloom::table(500);
    let metadata = |no_cit_below| {
        let options = WriterOptions { no_cit_below, ..WriterOptions::default() };
        let meta = open(&write(&batch.schema(), std::slice::from_ref(&batch), options).unwrap(), &OpenOptions::default()).unwrap();
        (meta.footer().has_cit(), meta.footer().schema_offset - meta.footer().cmb_offset)
    };
    let (has_cit, bytes) = metadata(0);
    assert!(has_cit);
    let bytes = usize::try_from(bytes).unwrap();
    assert_eq!([bytes, bytes + 1].map(|below| metadata(below).0), [true, false]);
    for no_cit_below in [BELOW + 1, usize::MAX] {
        let error = Writer::new(batch.schema(), WriterOptions { no_cit_below, ..WriterOptions::default() }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("no_cit_below"), "{error}");
    }
}
