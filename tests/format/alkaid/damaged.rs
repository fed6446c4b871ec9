//! Each byte flipped, and each prefix cut, of files of this crate and of other writers: an error, or a right answer.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;
use bytes::Bytes;
use datafusion_fermion::format::alkaid::{Codec, Form, WriterOptions};
use datafusion_fermion::format::{Error, ErrorKind};

use super::drive::write;
use super::golden;
use super::hostile::read;

/// A small table with most layouts.
fn table() -> (SchemaRef, RecordBatch) {
    let rows = 12_i64;
    let words = ["a word that is longer than a view", "short", ""];
    let text = || (0..rows).map(|row| (row % 7 != 3).then(|| words[usize::try_from(row).unwrap() % 3]));
    let lists = (0..rows).map(|row| (row % 5 != 0).then(|| (0..row % 4).map(move |value| (value != 2).then_some(i32::try_from(row).unwrap()))));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let strings: ArrayRef = Arc::new(StringArray::from_iter(text()));
    let structs = StructArray::try_from(vec![("n", Arc::clone(&numbers)), ("s", Arc::clone(&strings))]).unwrap();
    let fields: UnionFields =
        [(3, Arc::new(Field::new("n", DataType::Int64, true))), (5, Arc::new(Field::new("s", DataType::Utf8, true)))].into_iter().collect();
    let ids: Vec<i8> = (0..rows).map(|row| if row % 2 == 0 { 3 } else { 5 }).collect();
    let offsets: Vec<i32> = (0..i32::try_from(rows).unwrap()).map(|row| row / 2).collect();
    let union = UnionArray::try_new(fields, ids.into(), Some(offsets.into()), vec![Arc::clone(&numbers), Arc::clone(&strings)]).unwrap();
    let runs = RunArray::<Int16Type>::try_new(&Int16Array::from(vec![3, 9, 12]), &StringArray::from(vec![Some("x"), None, Some("z")])).unwrap();
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let view = ListViewArray::new(item, (0..12).rev().collect(), vec![1; 12].into(), Arc::clone(&numbers), None);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", numbers),
        ("b", Arc::new(BooleanArray::from_iter((0..rows).map(|row| (row % 3 != 0).then_some(row % 2 == 0))))),
        ("s", strings),
        ("v", Arc::new(StringViewArray::from_iter(text()))),
        ("l", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
        ("lv", Arc::new(view)),
        ("st", Arc::new(structs)),
        ("u", Arc::new(union)),
        ("d", Arc::new(text().collect::<DictionaryArray<Int8Type>>())),
        ("r", Arc::new(runs)),
        ("f", Arc::new(Decimal128Array::from_iter_values((0..12).map(i128::from)))),
    ];
    let fields: Vec<Field> = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.into_iter().map(|(_, array)| array).collect()).unwrap();
    (schema, batch)
}

fn file(form: Form, compression: Option<Codec>) -> Bytes {
    let (schema, batch) = table();
    write(&schema, std::slice::from_ref(&batch), WriterOptions { form, compression, batch_rows: 8, alignment: 8, ..Default::default() }).unwrap()
}

/// What is read, with no more memory than so many times the file and what its columns need for themselves.
fn read_in_bounds(what: &str, file: &Bytes, length: usize) -> Result<Vec<RecordBatch>, Error> {
    let mut found = None;
    let taken = allocation_counter::measure(|| found = Some(read(file))).bytes_max;
    assert!(taken < 64 * (length as u64 + (16 << 10)), "{what}: {taken} bytes");
    found.unwrap()
}

/// Each byte flipped, in three ways. Some of that is noticed: one in so many, at least.
fn flip(what: &str, file: &Bytes, noticed: usize) {
    let is_refused = |(at, by): &(usize, u8)| {
        let mut broken = file.to_vec();
        broken[*at] ^= by;
        read_in_bounds(&format!("{what}, byte {at} by {by}"), &Bytes::from(broken), file.len()).is_err()
    };
    let refused = (0..file.len()).flat_map(|at| [0x01, 0x80, 0xff].map(|by| (at, by))).filter(is_refused).count() / 3;
    assert!(refused > file.len() / noticed, "{what}: {refused} of {} were noticed", file.len());
}

/// What a number in a file may claim to be: nothing, one, few, the largest and the smallest of four bytes.
const CLAIMS: [u32; 7] = [0, 1, 2, 100, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];

/// Each word of four bytes is another.
fn claim(what: &str, file: &Bytes) {
    for at in (0..file.len() - 3).step_by(4) {
        for claimed in CLAIMS {
            let mut broken = file.to_vec();
            broken[at..at + 4].copy_from_slice(&claimed.to_le_bytes());
            drop(read_in_bounds(&format!("{what}, {claimed} at {at}"), &Bytes::from(broken), file.len()));
        }
    }
}

/// Each prefix: of a file an error, and of a stream the batches before, at no more places than there are messages and ends.
fn cut(what: &str, file: &Bytes, is_stream: bool, most: usize) {
    let whole = read(file).unwrap();
    let mut ends = 0;
    for length in 0..file.len() {
        match read_in_bounds(&format!("{what} cut at {length}"), &file.slice(..length), file.len()) {
            Ok(batches) => {
                assert!(is_stream, "{what} cut at {length}");
                assert!(batches.iter().zip(&whole).all(|(batch, whole)| batch == whole), "{what} cut at {length}");
                ends += 1;
            }
            Err(error) => assert!(matches!(error.kind(), ErrorKind::InvalidFile | ErrorKind::Eof), "{what} cut at {length}: {error}"),
        }
    }
    assert!(ends <= most, "{what}: {ends}");
}

#[test]
fn a_flipped_byte_is_an_error_or_another_value() {
    for (form, compression) in [(Form::File, None), (Form::Stream, None), (Form::File, Some(Codec::Zstd)), (Form::Stream, Some(Codec::Lz4))] {
        flip(&format!("{form:?} {compression:?}"), &file(form, compression), 10);
    }
}

#[test]
fn a_number_that_is_another_is_an_error_or_another_value() {
    for (form, compression) in [(Form::File, None), (Form::Stream, None), (Form::File, Some(Codec::Zstd)), (Form::Stream, Some(Codec::Lz4))] {
        claim(&format!("{form:?} {compression:?}"), &file(form, compression));
    }
}

#[test]
fn a_number_of_others_that_is_another_is_an_error_or_another_value() {
    of_others().iter().for_each(|(name, file)| claim(name, file));
}

#[test]
fn every_prefix_of_a_file_is_refused_and_of_a_stream_it_ends_between_messages() {
    for (form, compression) in [(Form::File, None), (Form::Stream, None), (Form::File, Some(Codec::Lz4)), (Form::Stream, Some(Codec::Zstd))] {
        // Behind the schema, a dictionary, and each of three batches, and the four bytes before the end of the end.
        cut(&format!("{form:?} {compression:?}"), &file(form, compression), form == Form::Stream, 7);
    }
}

/// Files and streams of other writers that are not too large: of all versions, both endiannesses and both compressions.
fn of_others() -> Vec<(String, Bytes)> {
    const MOST: usize = 4000;
    // Of what is written today, a layout that the others do not have.
    let is_known = |name: &str| name.contains("cpp-21.0.0") && !name.contains("run_end_encoded");
    let files: Vec<_> = golden::files().into_iter().filter(|(name, file)| file.len() < MOST && !is_known(name)).collect();
    for kind in ["0.14.1", "0.17.1", "1.0.0-littleendian", "1.0.0-bigendian", "2.0.0-compression", "shareddict", "run_end_encoded"] {
        assert!(files.iter().any(|(name, _)| name.contains(kind)), "{kind}");
    }
    files
}

#[test]
fn a_flipped_byte_of_others_is_an_error_or_another_value() {
    of_others().iter().for_each(|(name, file)| flip(name, file, 20));
}

#[test]
fn every_prefix_of_others_is_refused_or_ends_between_messages() {
    // Behind each message, and in the middle of the end.
    of_others().iter().for_each(|(name, file)| cut(name, file, name.ends_with("stream"), 12));
}
