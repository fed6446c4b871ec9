//! No bytes make the reader panic, and none make it give a wrong answer while checksums are on.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use bytes::Bytes;
use datafusion_fermion::format::ErrorKind;
use datafusion_fermion::format::fermion::WriterOptions;

use crate::drive::{has_dictionaries, read_all, write};

/// The option that leaves the CIT out of small files.
const NO_CIT: usize = 4 << 20;

/// A small file with several stripes, pages, encodings, nulls and a list.
fn table() -> (SchemaRef, RecordBatch) {
    let rows = 150_i64;
    let lists = (0..rows).map(|i| (i % 5 != 0).then(|| (0..i % 4).map(move |v| (v != 2).then_some(i32::try_from(i + v).unwrap()))));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..rows))),
        ("text", Arc::new(StringArray::from_iter((0..rows).map(|i| (i % 7 != 3).then(|| format!("some text of a length {}", i % 10)))))),
        ("x", Arc::new(Float64Array::from_iter((0..rows).map(|i| (i % 3 != 0).then_some(i as f64 / 7.0))))),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
        ("address", Arc::new(StringArray::from_iter((0..rows).map(|i| (i % 6 != 3).then(|| format!("https://example.org/a/page/{}", i * i % 7)))))),
        ("none", arrow::array::new_null_array(&DataType::Int8, 150)),
    ];
    let fields: Vec<Field> = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.into_iter().map(|(_, array)| array).collect()).unwrap();
    (schema, batch)
}

fn file(checksums: bool, no_cit_below: usize) -> (Bytes, RecordBatch) {
    let (schema, batch) = table();
    let options = WriterOptions { page_rows: 40, stripe_rows: 100, checksums, no_cit_below, ..Default::default() };
    let file = write(&schema, std::slice::from_ref(&batch), options).unwrap();
    assert!(has_dictionaries(&file));
    (file, batch)
}

fn same(batches: &[RecordBatch], expected: &RecordBatch) -> bool {
    arrow::compute::concat_batches(expected.schema_ref(), batches).is_ok_and(|batch| batch == *expected)
}

#[test]
fn a_flipped_bit_is_an_error_or_does_not_matter() {
    let (with_cit, expected) = file(true, 0);
    for (file, at) in [with_cit, file(true, NO_CIT).0].iter().flat_map(|file| (0..file.len()).map(move |at| (file, at))) {
        for bit in [1, 0x80] {
            let mut broken = file.to_vec();
            broken[at] ^= bit;
            if let Ok((schema, batches)) = read_all(&Bytes::from(broken), 64) {
                assert!(schema == *expected.schema_ref() && same(&batches, &expected), "byte {at} ^ {bit:#x} changes the answer");
            }
        }
    }
}

#[test]
fn without_checksums_a_flipped_bit_does_not_panic() {
    let files = [0, NO_CIT].map(|no_cit_below| file(false, no_cit_below).0);
    let mut refused = 0;
    for (file, at) in files.iter().flat_map(|file| (0..file.len()).map(move |at| (file, at))) {
        for bit in [1, 0x80] {
            let mut broken = file.to_vec();
            broken[at] ^= bit;
            refused += usize::from(read_all(&Bytes::from(broken), 64).is_err());
        }
    }
    assert!(refused > 0, "no flipped bit was noticed");
}

#[test]
fn every_prefix_is_refused() {
    let files = [0, NO_CIT].map(|no_cit_below| file(true, no_cit_below).0);
    for (file, length) in files.iter().flat_map(|file| (0..file.len()).map(move |length| (file, length))) {
        let error = read_all(&file.slice(..length), 64).expect_err("a prefix is not a file");
        assert!(matches!(error.kind(), ErrorKind::InvalidFile | ErrorKind::Eof | ErrorKind::Checksum | ErrorKind::UnsupportedVersion), "{error}");
    }
}

#[test]
fn errors_name_their_place() {
    let (file, _) = file(true, 0);
    let mut broken = file.to_vec();
    broken[8 + 20] ^= 1;
    let error = read_all(&Bytes::from(broken), 64).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Checksum);
    assert_eq!((error.column(), error.offset()), (Some("id"), Some(8)));
    assert!(error.to_string().contains("data"), "{error}");

    let error = read_all(&Bytes::from_static(b"PAR1 something else that is long enough to hold a footer").slice(..), 64).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidFile);
    assert!(error.to_string().contains("not a Fermion file"), "{error}");
}
