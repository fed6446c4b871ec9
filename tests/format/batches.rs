//! Rows in batches: what was appended together is read together, from one page of each column.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat, concat_batches};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema, SchemaRef};
use bytes::Bytes;
use datafusion_fermion::format::fermion::cmb::StreamType;
use datafusion_fermion::format::fermion::inspect::{InspectColumn, PartKind};
use datafusion_fermion::format::fermion::{BatchBy, BatchedWriter, OpenOptions, ScanRequest, Writer, WriterOptions};
use datafusion_fermion::format::file::FileWriter;
use datafusion_fermion::format::scan::Section;
use datafusion_fermion::format::{Error, ErrorKind, Result};
use proptest::prelude::*;
use rand::Rng;

use crate::drive::{load, open, read_all, scan_selected};
use crate::inspect::{check_parts, parts, verify};
use crate::mended::Parts;
use crate::random;
use crate::roundtrip::assert_same;

/// The bytes of a file of these batches.
pub(crate) fn write(schema: &SchemaRef, batches: &[(Option<i64>, RecordBatch)], options: WriterOptions) -> Result<Bytes> {
    let mut writer = Writer::new(Arc::clone(schema), WriterOptions { batches: true, ..options })?;
    let mut file = Vec::new();
    for (id, batch) in batches {
        writer.append_batch(*id, batch)?;
        writer.take_bytes().iter().for_each(|bytes| file.extend_from_slice(bytes));
    }
    let (rest, summary) = writer.finish()?;
    rest.iter().for_each(|bytes| file.extend_from_slice(bytes));
    assert_eq!(summary.bytes, file.len() as u64);
    Ok(Bytes::from(file))
}

/// Batches of 1 to 40 rows with nulls, text and lists, 12 in all; their ids ascend, and one of them comes twice.
pub(crate) fn batches() -> (SchemaRef, Vec<(Option<i64>, RecordBatch)>) {
    let of = |rows: Range<i64>| {
        let lists = rows.clone().map(|i| (i % 5 != 0).then(|| (0..i % 4).map(move |v| (v != 2).then_some(i32::try_from(i + v).unwrap()))));
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("n", Arc::new(Int64Array::from_iter_values(rows.clone().map(|i| i * i)))),
            ("text", Arc::new(StringViewArray::from_iter(rows.clone().map(|i| (i % 7 != 3).then(|| format!("row {i} of all the rows")))))),
            ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
            ("none", new_null_array(&DataType::Int8, usize::try_from(rows.end - rows.start).unwrap())),
        ];
        let fields: Vec<Field> = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, array)| array).collect()).unwrap()
    };
    let mut start = 0;
    let lengths = [3, 2, 40, 1, 1, 17, 8, 25, 9, 30, 4, 12];
    let batch = |(index, length): (i64, i64)| {
        start += length;
        (Some(1000 + index - i64::from(index == 6)), of(start - length..start))
    };
    let batches: Vec<_> = (0..).zip(lengths).map(batch).collect();
    (batches[0].1.schema(), batches)
}

pub(crate) const SMALL: WriterOptions = WriterOptions {
    page_bytes: 400,
    page_rows: 32,
    stripe_rows: 60,
    stripe_alignment: 0,
    stripe_bytes: 1 << 20,
    stripe_raw_bytes: 1 << 20,
    buffer_bytes: 1 << 20,
    ordering: None,
    zstd_level: Some(3),
    compression: datafusion_fermion::format::codec::Compression::Balanced,
    checksums: true,
    statistics: true,
    threads: 1,
    bloom_filter_columns: Vec::new(),
    bloom_filter_fpp: 0.01,
    batches: true,
    no_cit_below: 0,
};

/// The slow obvious twin: ids and indexes row by row.
fn spelled(batches: &[(Option<i64>, RecordBatch)]) -> (Vec<i64>, Vec<i32>) {
    let (mut ids, mut indexes, mut next) = (Vec::new(), Vec::new(), 0);
    for (id, batch) in batches {
        let id = id.unwrap_or(next);
        next = next.max(id + 1);
        ids.extend(std::iter::repeat_n(id, batch.num_rows()));
        indexes.extend((0..).take(batch.num_rows()));
    }
    (ids, indexes)
}

pub(crate) fn check_read(file: &Bytes, batches: &[(Option<i64>, RecordBatch)], batch_rows: usize) {
    let (schema, read) = read_all(file, batch_rows).unwrap();
    let columns = schema.fields().len();
    assert_eq!(
        [columns - 2, columns - 1].map(|column| schema.field(column).clone()),
        [Field::new("batch_id", DataType::Int64, true), Field::new("batch_index", DataType::Int32, true)]
    );
    let all = |column: usize| concat(&read.iter().map(|batch| batch.column(column).as_ref()).collect::<Vec<_>>()).unwrap();
    let (ids, indexes) = spelled(batches);
    assert_eq!(all(columns - 2).as_primitive::<Int64Type>().values().to_vec(), ids);
    assert_eq!(all(columns - 1).as_primitive::<Int32Type>().values().to_vec(), indexes);
    let stored: Vec<usize> = (0..columns - 2).collect();
    let project = |batch: &RecordBatch| batch.project(&stored).unwrap();
    let expected: Vec<RecordBatch> = batches.iter().map(|(_, batch)| batch.clone()).collect();
    let stored_schema = Arc::new(schema.project(&stored).unwrap());
    if let [(_, first), ..] = batches {
        assert_eq!(first.schema(), stored_schema);
    }
    assert_same(&stored_schema, &expected, &read.iter().map(project).collect::<Vec<_>>());
}

/// Each page of slots that are rows ends with a batch.
fn check_whole(file: &Bytes, batches: &[(Option<i64>, RecordBatch)]) {
    let mut ends = BTreeSet::new();
    batches.iter().fold(0, |end, (_, batch)| {
        ends.insert(end + batch.num_rows() as u64);
        end + batch.num_rows() as u64
    });
    let meta = open(file, &OpenOptions::default()).unwrap();
    let firsts: Vec<u64> = meta.parts(None).iter().map(|part| part.stripe_start).collect();
    for (column, stream) in (0..meta.stored_columns()).flat_map(|column| [(column, 0), (column, 1)]) {
        let found = load(file, InspectColumn::new(&meta, column)).unwrap();
        let mut row = (usize::MAX, 0);
        for part in found.iter().filter(|part| part.kind == PartKind::Page && part.stream.is_some_and(|(of, _)| of == stream)) {
            let stripe = part.stripe.unwrap();
            row = if row.0 == stripe { row } else { (stripe, firsts[stripe]) };
            row.1 += part.slots.unwrap();
            assert!(ends.contains(&row.1), "column {column}, stream {stream}: a page ends before row {}", row.1);
        }
    }
}

#[test]
fn batches_are_read_as_they_were_appended() {
    let (schema, batches) = batches();
    let file = write(&schema, &batches, SMALL).unwrap();
    for batch_rows in [1, 7, 8192] {
        check_read(&file, &batches, batch_rows);
    }
    check_whole(&file, &batches);
    check_parts(&file);
    assert!(verify(&file).unwrap().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 0, ..Default::default() })]

    #[test]
    fn random_tables_in_random_batches_are_read_back_and_no_page_splits_one(seed: u64) {
        let (schema, rows) = random::table(seed);
        let mut rng = random::rng(seed ^ 9);
        let mut batches = Vec::new();
        for batch in rows {
            let mut start = 0;
            while start < batch.num_rows() {
                let most = [3, 50, 700][rng.random_range(0..3)];
                let rows = rng.random_range(1..=most).min(batch.num_rows() - start);
                batches.push((rng.random_bool(0.5).then(|| rng.random_range(-5..5000)), batch.slice(start, rows)));
                start += rows;
            }
        }
        let options = WriterOptions {
            page_bytes: [100, 4 << 10, 512 << 10][rng.random_range(0..3)],
            page_rows: [10, 256, 32 << 10][rng.random_range(0..3)],
            stripe_rows: [100, 1000, 1 << 20][rng.random_range(0..3)],
            buffer_bytes: [1 << 10, 64 << 20][rng.random_range(0..2)],
            checksums: rng.random_bool(0.5),
            ..WriterOptions::default()
        };
        let file = write(&schema, &batches, options).unwrap();
        if !batches.is_empty() {
            check_read(&file, &batches, rng.random_range(1..2000));
        }
        prop_assert_eq!(verify(&file).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new());
        check_parts(&file);
    }
}

fn noise(row: i64, scale: i64) -> i64 {
    row.wrapping_mul(scale << 40 | 0x1E37_79B9) ^ row.wrapping_mul(0x7F4A_7C15_F39C_C060)
}

/// Ids and lengths first, then one page of each column.
#[test]
fn one_batch_is_read_from_one_page() {
    let lengths = |index: i64| usize::try_from(index * 7 % 19 + 1).unwrap();
    let batches: Vec<_> = (0..1000)
        .map(|index| {
            let numbers = |scale: i64| -> ArrayRef {
                Arc::new(Int64Array::from_iter_values((0..).map(|i| noise(index * 1000 + i, scale)).take(lengths(index))))
            };
            (Some(5000 + index * 3), RecordBatch::try_from_iter([("a", numbers(77)), ("b", numbers(99))]).unwrap())
        })
        .collect();
    let file = write(&batches[0].1.schema(), &batches, WriterOptions { page_rows: 2048, stripe_rows: 4096, ..Default::default() }).unwrap();
    let meta = open(&file, &OpenOptions::default()).unwrap();
    let wanted = &batches[702];
    let request =
        ScanRequest { prune_columns: vec![2.into()], select_columns: vec![2], ..ScanRequest::new(vec![0, 1, 2, 3], meta.schema().unwrap()) };
    let mut fetched = Vec::new();
    let read = scan_selected(
        &file,
        &meta,
        request,
        |zones| {
            let (min, max) = (zones.columns[0].min.as_primitive::<Int64Type>(), zones.columns[0].max.as_primitive::<Int64Type>());
            assert_eq!(zones.columns[0].null_counts.null_count(), 0, "{:?}", zones.level);
            (0..zones.row_counts.len()).map(|zone| Some(min.value(zone) <= wanted.0.unwrap() && max.value(zone) >= wanted.0.unwrap())).collect()
        },
        |morsel| {
            let rows = morsel.next_rows(1);
            let coded = morsel.coded(2, &rows, 1 << 20).unwrap().unwrap();
            let [part] = &coded.parts[..] else { panic!("{coded:?}") };
            let ids = part.values.as_primitive::<Int64Type>();
            let all = morsel.read(&[2], &rows).unwrap();
            assert_eq!(
                part.codes.iter().map(|code| ids.value(code as usize)).collect::<Vec<_>>(),
                all[0].as_primitive::<Int64Type>().values().to_vec()
            );
            // Rows are selected by blocks.
            let keep: BooleanBuffer = part.codes.iter().map(|code| Some(ids.value(code as usize)) == wanted.0).collect();
            Some(rows.blocks_with(&keep).0)
        },
        |fetches| fetched.extend(fetches.iter().map(|fetch| fetch.range.end - fetch.range.start)),
    );
    let read = concat_batches(&meta.schema().unwrap(), &read.unwrap()).unwrap();
    let of_batch = arrow::compute::kernels::cmp::eq(&read.column(2), &Int64Array::new_scalar(wanted.0.unwrap())).unwrap();
    let read = arrow::compute::filter_record_batch(&read, &of_batch).unwrap();
    assert_eq!(read.project(&[0, 1]).unwrap().columns(), wanted.1.columns());
    // 10,000 rows of 16 bytes that cannot be compressed, of which a page of 2,048 numbers of each column is read, and ids and lengths.
    let bytes: u64 = fetched.iter().sum();
    assert!(file.len() > 155_000 && bytes < 2 * 2048 * 8 + 1000, "{fetched:?} of {}", file.len());
}

#[test]
fn bounds_and_counts_of_batches_are_those_of_the_metadata() {
    let (schema, batches) = batches();
    let file = write(&schema, &batches, SMALL).unwrap();
    let meta = open(&file, &OpenOptions::default()).unwrap();
    assert_eq!((meta.stored_columns(), meta.column_count(), meta.index_of("batch_id"), meta.index_of("batch_index")), (4, 6, Some(4), Some(5)));
    let summary = meta.column_summary(4).unwrap().unwrap();
    let bound = |bound: &Option<(ArrayRef, bool)>| bound.as_ref().map(|(value, exact)| (value.as_primitive::<Int64Type>().value(0), *exact));
    assert_eq!((summary.null_count, bound(&summary.min), bound(&summary.max)), (Some(0), Some((1000, true)), Some((1011, true))));
    assert_eq!(meta.column_summary(5).unwrap().unwrap().null_count, Some(0));
}

#[test]
fn files_without_rows_or_columns_have_batches_too() {
    let (schema, _) = batches();
    let (read, rows) = read_all(&write(&schema, &[], SMALL).unwrap(), 10).unwrap();
    assert_eq!((read.fields().len(), rows.len()), (6, 0));
    let none = Arc::new(Schema::empty());
    let rows = |rows| RecordBatch::try_new_with_options(Arc::clone(&none), vec![], &RecordBatchOptions::new().with_row_count(Some(rows))).unwrap();
    let batches = vec![(Some(7), rows(2)), (Some(9), rows(3))];
    check_read(&write(&none, &batches, SMALL).unwrap(), &batches, 10);
}

#[test]
fn what_is_no_batch_is_refused_and_the_file_goes_on() {
    let (schema, batches) = batches();
    let mut writer = Writer::new(Arc::clone(&schema), SMALL).unwrap();
    let refused = |result: Result<()>, text: &str| {
        let error = result.unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains(text), "{error}");
    };
    refused(writer.push(&batches[0].1), "append batches");
    refused(writer.append_batch(Some(4), &batches[0].1.slice(0, 0)), "batch 4 has 0 rows");
    for (id, batch) in &batches {
        writer.append_batch(*id, batch).unwrap();
    }
    let (bytes, _) = writer.finish().unwrap();
    check_read(&Bytes::from(bytes.concat()), &batches, 100);
    let mut ordinary = Writer::new(Arc::clone(&schema), WriterOptions::default()).unwrap();
    refused(ordinary.append_batch(None, &batches[0].1), "WriterOptions::batches");
    let named = Arc::new(Schema::new(vec![Field::new("batch_index", DataType::Int8, true)]));
    refused(Writer::new(named, SMALL).map(drop), "rename the column");
}

/// Of a column that is too much for a page.
#[test]
fn a_batch_that_no_page_can_hold_is_refused() {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>((0..3).map(|_| Some(vec![Some(1); 400_000])));
    let batch = RecordBatch::try_from_iter([("l", Arc::new(lists) as ArrayRef)]).unwrap();
    let error = write(&batch.schema(), &[(None, batch)], SMALL).unwrap_err();
    assert_eq!((error.kind(), error.column()), (ErrorKind::InvalidArgument, Some("l")));
    assert!(error.to_string().contains("1200000 values") && error.to_string().contains("make smaller batches"), "{error}");
}

fn batched(batch: &RecordBatch, by: &BatchBy, pieces: usize) -> Result<Bytes> {
    let mut writer = Box::new(BatchedWriter::new(batch.schema(), by, SMALL)?);
    for start in (0..batch.num_rows()).step_by(pieces) {
        writer.push(&batch.slice(start, pieces.min(batch.num_rows() - start)))?;
    }
    let (bytes, _) = FileWriter::finish(writer)?;
    Ok(Bytes::from(bytes.concat()))
}

#[test]
fn rows_are_put_into_batches_by_number_or_by_a_column() {
    let (_, batches) = batches();
    let table = concat_batches(&batches[0].1.schema(), batches.iter().map(|(_, batch)| batch)).unwrap();
    let of = |lengths: &[usize]| {
        let mut start = 0;
        let cut = |length: &usize| {
            start += length;
            (None, table.slice(start - length, *length))
        };
        lengths.iter().map(cut).collect::<Vec<_>>()
    };
    for pieces in [1, 5, 64, 1000] {
        check_read(&batched(&table, &BatchBy::Rows(50), pieces).unwrap(), &of(&[50, 50, 50, 2]), 1000);
        // With ids of their own, and indexes that tell two batches of one id apart.
        let (ids, indexes) = spelled(&batches);
        let with = |name: &str, index: Option<Vec<i32>>| {
            let mut columns: Vec<(String, ArrayRef)> = vec![(name.to_owned(), Arc::new(Int64Array::from(ids.clone())))];
            columns.extend(index.map(|index| ("batch_index".to_owned(), Arc::new(Int32Array::from(index)) as ArrayRef)));
            columns.extend(table.schema().fields().iter().zip(table.columns()).map(|(field, array)| (field.name().clone(), Arc::clone(array))));
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
        };
        let by = |name: &str| BatchBy::Column(name.to_owned());
        check_read(&batched(&with("batch_id", Some(indexes.clone())), &by("batch_id"), pieces).unwrap(), &batches, 1000);
        let mut joined = batches.clone();
        let second = joined.remove(6).1;
        joined[5].1 = concat_batches(&second.schema(), [&joined[5].1, &second]).unwrap();
        check_read(&batched(&with("batch_id", None), &by("batch_id"), pieces).unwrap(), &joined, 1000);
        // A column of another name stays.
        let named = with("request", None);
        let (schema, read) = read_all(&batched(&named, &by("request"), pieces).unwrap(), 1000).unwrap();
        assert_eq!(schema.fields().len(), 7);
        assert!(read.iter().all(|batch| batch.column(0) == batch.column_by_name("batch_id").unwrap()));
        // Rows out of order.
        let mut wrong = indexes;
        wrong.swap(3, 4);
        let error = batched(&with("batch_id", Some(wrong)), &by("batch_id"), pieces).unwrap_err().to_string();
        assert!(error.contains("has the index 1 where 0 follows"), "{error}");
    }
}

/// Rows with columns of these numbers.
fn numbered(columns: &[(&str, Vec<Option<i64>>)]) -> RecordBatch {
    let columns = columns.iter().map(|(name, values)| (*name, Arc::new(Int64Array::from(values.clone())) as ArrayRef, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

#[test]
fn rows_of_a_batch_that_have_come_apart_are_refused() {
    let by = BatchBy::Column("id".to_owned());
    let rows = |ids: &[i64]| numbered(&[("id", ids.iter().copied().map(Some).collect())]);
    batched(&rows(&[-5, -5, 3, 3, 9]), &by, 2).unwrap();
    for ids in [&[1, 1, 2, 2, 1][..], &[3, 2]] {
        let error = batched(&rows(ids), &by, 2).unwrap_err().to_string();
        assert!(error.contains("comes behind batch") && error.contains("ORDER BY"), "{error}");
    }
    // An index says for its own batch alone that it begins.
    let indexed = numbered(&[("id", [9, 3, 5, 9].map(Some).to_vec()), ("batch_index", vec![Some(0), Some(0), Some(0), None])]);
    assert!(batched(&indexed, &by, 10).unwrap_err().to_string().contains("batch 9 comes behind batch 9"));
    let constant = rows(&vec![7; (1 << 20) + 1]);
    let error = batched(&constant, &by, 1 << 20).unwrap_err().to_string();
    assert!(error.contains("batch 7 has more than 1048576 rows"), "{error}");
}

/// What the writer makes may be there as nulls, as where rows are inserted into a table of such files, or as what it makes.
#[test]
fn columns_of_batches_are_made_and_not_stored() {
    let some = |values: &[i64]| values.iter().copied().map(Some).collect::<Vec<_>>();
    let none = vec![None; 5];
    let rows = |ids: &[Option<i64>], indexes: &[Option<i64>]| {
        numbered(&[("n", some(&[0, 1, 2, 3, 4])), ("batch_id", ids.to_vec()), ("key", some(&[4, 4, 6, 6, 6])), ("batch_index", indexes.to_vec())])
    };
    let key = BatchBy::Column("key".to_owned());
    for (ids, indexes) in [(&none, &none), (&some(&[4, 4, 6, 6, 6]), &some(&[0, 1, 0, 1, 2]))] {
        let (schema, read) = read_all(&batched(&rows(ids, indexes), &key, 2).unwrap(), 10).unwrap();
        assert_eq!(schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["n", "key", "batch_id", "batch_index"]);
        let read = concat_batches(&schema, &read).unwrap();
        assert_eq!(read.column(2), read.column(1));
        assert_eq!(read.column(3).as_primitive::<Int32Type>().values().to_vec(), [0, 1, 0, 1, 2]);
    }
    let (schema, read) = read_all(&batched(&rows(&none, &none), &BatchBy::Rows(2), 3).unwrap(), 10).unwrap();
    let read = concat_batches(&schema, &read).unwrap();
    assert_eq!(read.column_by_name("batch_id").unwrap().as_primitive::<Int64Type>().values().to_vec(), [0, 0, 1, 1, 2]);
    let error = batched(&rows(&some(&[4, 4, 4, 6, 6]), &none), &key, 2).unwrap_err();
    assert_eq!(error.column(), Some("batch_id"));
    assert!(batched(&rows(&none, &none), &BatchBy::Column("batch_index".to_owned()), 2).is_err());
    let half: ArrayRef = Arc::new(Float64Array::from(vec![0.5]));
    let error = batched(&RecordBatch::try_from_iter([("batch_index", half)]).unwrap(), &BatchBy::Rows(2), 2).unwrap_err();
    assert_eq!(error.column(), Some("batch_index"));
    for rows in [0, (1 << 20) + 1] {
        assert!(batched(&numbered(&[("n", some(&[1]))]), &BatchBy::Rows(rows), 2).unwrap_err().to_string().contains(&rows.to_string()));
    }
}

/// After an error there is no file, and none that lacks rows.
#[test]
fn a_file_does_not_go_on_after_an_error() {
    let by = BatchBy::Column("id".to_owned());
    let rows = |ids: &[i64]| numbered(&[("id", ids.iter().copied().map(Some).collect())]);
    let mut writer = Box::new(BatchedWriter::new(rows(&[]).schema(), &by, SMALL).unwrap());
    writer.push(&rows(&[1, 2, 2])).unwrap();
    writer.push(&rows(&[2, 1, 5])).unwrap_err();
    writer.push(&rows(&[6])).unwrap_err();
    FileWriter::finish(writer).unwrap_err();
}

/// Rows that are many bytes wait for others, too, but as batches.
#[test]
fn large_rows_fill_pages_with_batches() {
    let text = |row: i64| format!("{row} {}", "x".repeat(1000));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..400).map(text)));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..400).map(|row| row / 4)));
    let batch = RecordBatch::try_from_iter([("id", ids), ("text", texts)]).unwrap();
    let by = BatchBy::Column("id".to_owned());
    let mut writer = Box::new(
        BatchedWriter::new(batch.schema(), &by, WriterOptions { buffer_bytes: 10_000, page_rows: 200, ..WriterOptions::default() }).unwrap(),
    );
    (0..4).for_each(|part| writer.push(&batch.slice(part * 100, 100)).unwrap());
    let file = Bytes::from(FileWriter::finish(writer).unwrap().0.concat());
    let of_ids = parts(&file).unwrap().into_iter().filter(|part| part.kind == PartKind::Page && part.stream == Some((1, StreamType::Data)));
    // Of each push a page, but for its last batch, which may go on and is in the next one; for each of two columns.
    assert_eq!(of_ids.count(), 2 * 5);
}

#[test]
fn columns_that_are_no_ids_are_refused() {
    let refused = |array: ArrayRef, by: &str| -> Error {
        let batch = RecordBatch::try_from_iter_with_nullable([("id", array, true)]).unwrap();
        batched(&batch, &BatchBy::Column(by.to_owned()), 10).unwrap_err()
    };
    assert!(refused(Arc::new(Int8Array::from(vec![1])), "other").to_string().contains("\"other\""));
    assert!(refused(Arc::new(StringArray::from(vec!["1"])), "id").to_string().contains("ids and indexes of batches are integers"));
    assert!(refused(Arc::new(Int8Array::from(vec![Some(1), None])), "id").to_string().contains("belongs to no batch"));
    assert_eq!(refused(Arc::new(UInt64Array::from(vec![u64::MAX])), "id").kind(), ErrorKind::InvalidArgument);
}

fn file(checksums: bool) -> (Bytes, Vec<RecordBatch>) {
    let (schema, batches) = batches();
    let file = write(&schema, &batches, WriterOptions { checksums, ..SMALL }).unwrap();
    let (_, read) = read_all(&file, 64).unwrap();
    (file, read)
}

#[test]
fn a_flipped_bit_is_an_error_or_does_not_matter() {
    for checksums in [true, false] {
        let (file, expected) = file(checksums);
        for (at, bit) in (0..file.len()).map(|at| (at, 1 << (at % 8))) {
            let mut broken = file.to_vec();
            broken[at] ^= bit;
            let broken = Bytes::from(broken);
            if let Ok((_, read)) = read_all(&broken, 64) {
                assert!(!checksums || read == expected, "byte {at} ^ {bit:#x} changes the answer");
            }
            if at % 8 == 0 {
                drop(verify(&broken));
            }
        }
    }
}

#[test]
fn every_prefix_is_refused() {
    let (file, _) = file(true);
    for length in 0..file.len() {
        read_all(&file.slice(..length), 64).expect_err("a prefix is not a file");
    }
}

/// Numbers changed to others that every checksum agrees with.
#[test]
fn metadata_of_batches_that_lies_is_found() {
    let (file, _) = file(false);
    let known = parts(&file).unwrap();
    let cmb = known.iter().find(|part| part.kind == PartKind::ColumnMetadata).unwrap().range.clone();
    let mend = Parts::of(&file);
    let lies = |at: u64, bytes: &[u8]| {
        let mut lying = file.to_vec();
        let at = usize::try_from(at).unwrap();
        lying[at..at + bytes.len()].copy_from_slice(bytes);
        mend.mend(&mut lying);
        let lying = Bytes::from(lying);
        let read = read_all(&lying, 64).map(|_| ());
        (read, verify(&lying).unwrap_or_else(|error| vec![error]))
    };
    // More batches in the first stripe than it has rows, and none.
    for count in [1000_u32, 0] {
        let (read, faults) = lies(cmb.start + 8, &count.to_le_bytes());
        assert_eq!(read.unwrap_err().section(), Some(Section::ColumnMetadata));
        assert!(faults.iter().any(|fault| fault.column() == Some("batch_id")), "{faults:?}");
    }
    // Ids of the second stripe that are not there are no ids that nobody has.
    let ids = known.iter().filter(|part| part.stream == Some((0, StreamType::BatchMeta))).nth(1).unwrap().range.clone();
    let place = file[usize::try_from(cmb.start).unwrap()..].windows(8).position(|bytes| bytes == ids.start.to_le_bytes()).unwrap() as u64;
    let mut lying = file.to_vec();
    let length = usize::try_from(cmb.start + place).unwrap() + 8;
    lying[length..length + 4].fill(0);
    mend.mend(&mut lying);
    let lying = Bytes::from(lying);
    let meta = open(&lying, &OpenOptions::default()).unwrap();
    assert_eq!(meta.column_summary(4).unwrap_err().column(), Some("batch_id"));
    assert!(read_all(&lying, 64).is_err());
    // The footer without the bit: the rows are there, and the batches are not.
    let settings = file.len() as u64 - 88;
    let mut without = file.to_vec();
    without[usize::try_from(settings).unwrap() + 4] &= !4;
    mend.mend(&mut without);
    let (schema, _) = read_all(&Bytes::from(without), 64).unwrap();
    assert!(schema.column_with_name("batch_id").is_none());
}

/// Batches of other lengths than those by which pages were cut.
#[test]
fn split_batches_are_a_fault() {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..40));
    let table = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let of = |lengths: [usize; 4], page_rows| {
        let mut start = 0;
        let cut = |length: usize| {
            start += length;
            (None, table.slice(start - length, length))
        };
        write(&table.schema(), &lengths.map(cut), WriterOptions { page_rows, ..SMALL }).unwrap()
    };
    let lengths = |file: &Bytes| {
        let of_batches = parts(file).unwrap().into_iter().filter(|part| part.stream.is_some_and(|(_, stream)| stream == StreamType::BatchMeta));
        let range = of_batches.max_by_key(|part| part.range.start).unwrap().range;
        usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()
    };
    let (cut, other) = (of([9, 11, 10, 10], 20), of([9, 10, 11, 10], 40));
    assert!(verify(&cut).unwrap().is_empty());
    let mut split = cut.to_vec();
    split[lengths(&cut)].copy_from_slice(&other[lengths(&other)]);
    let faults = verify(&Bytes::from(split)).unwrap();
    let [fault] = &faults[..] else { panic!("{faults:?}") };
    assert_eq!((fault.kind(), fault.column()), (ErrorKind::InvalidFile, Some("n")));
    assert!(fault.to_string().contains("before row 20 of stripe 0, in the middle of a batch"), "{fault}");
}
