//! What is written is what is read.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, Int32Array, RecordBatch, RecordBatchOptions, RunArray, StructArray, UInt32Array,
    make_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat, concat_batches, filter_record_batch};
use arrow::datatypes::{DataType, Field, Fields, Int8Type, Int32Type, Schema, SchemaRef, UnionMode};
use datafusion_fermion::format::ErrorKind;
use datafusion_fermion::format::codec::Compression;
use datafusion_fermion::format::fermion::{FermionScan, OpenOptions, ScanRequest, WriterOptions};
use datafusion_fermion::format::scan::{Answer, FieldPath, Level, Morsel, Scan, Step, ZoneColumn};
use proptest::prelude::*;
use rand::Rng;
use rand::rngs::StdRng;

use crate::drive::{first_morsel, has_dictionaries, open, read_all, scan, write};
use crate::random;
use crate::spelled::spelled;

fn options(seed: u64) -> WriterOptions {
    let mut rng = random::rng(seed);
    WriterOptions {
        page_rows: [1, 100, 1024, 2048, 1 << 20][rng.random_range(0..5)],
        page_bytes: [1, 1000, 20_000, 1 << 20][rng.random_range(0..4)],
        stripe_rows: [500, 2000, 5000, 1 << 20][rng.random_range(0..4)],
        stripe_bytes: [10_000, 1 << 20, 1 << 28][rng.random_range(0..3)],
        buffer_bytes: [1000, 1 << 20][rng.random_range(0..2)],
        compression: Compression::ALL[rng.random_range(0..3)],
        zstd_level: [None, Some(1), Some(3)][rng.random_range(0..3)],
        checksums: rng.random_bool(0.7),
        statistics: rng.random_bool(0.8),
        threads: rng.random_range(1..4),
        ordering: None,
        ..Default::default()
    }
}

fn address(number: u64) -> String {
    format!("https://example.org/{:x}/page/{number}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Values of few kinds in every page, nested in all ways; and now and then pages in which none comes again.
fn repetitive(seed: u64) -> (SchemaRef, RecordBatch) {
    let mut rng = random::rng(seed);
    let kinds = rng.random_range(3..200);
    let fresh = rng.random_range(0..4);
    let number = move |row: u64| if row / 500 % 4 < fresh { 1_000_000 + row } else { row.wrapping_mul(0x9E37_79B9) % 8191 % kinds };
    let rows = rng.random_range(1500..6000);
    let word = move |row: u64| (row % 9 != 4).then(|| address(number(row)));
    let words: ArrayRef = Arc::new(arrow::array::StringViewArray::from_iter((0..rows).map(word)));
    let numbers: ArrayRef = Arc::new(arrow::array::UInt64Array::from_iter((0..rows).map(|row| (row % 5 != 2).then(|| number(row) << 40 ^ 0x5555))));
    let lists = (0..rows).map(|row| (row % 8 != 1).then(|| (0..row % 4).map(move |item| word(row + item)).collect::<Vec<_>>()));
    let mut builder = arrow::array::ListBuilder::new(arrow::array::StringBuilder::new());
    lists.for_each(|list| match list {
        Some(list) => builder.append_value(list),
        None => builder.append_null(),
    });
    let strings = arrow::compute::cast(&words, &DataType::Utf8).unwrap();
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("struct", Arc::new(StructArray::from(vec![(Arc::new(Field::new("x", DataType::Utf8, true)), Arc::clone(&strings))]))),
        ("dictionary", arrow::compute::cast(&strings, &dictionary).unwrap()),
        ("binary", arrow::compute::cast(&strings, &DataType::LargeBinary).unwrap()),
        ("words", words),
        ("numbers", numbers),
        ("lists", Arc::new(builder.finish())),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap();
    (batch.schema(), batch)
}

fn check_repetitive(seed: u64) {
    let (schema, batch) = repetitive(seed);
    let mut rng = random::rng(seed);
    let options = WriterOptions {
        page_rows: [100, 256, 1024][rng.random_range(0..3)],
        stripe_rows: [1000, 3000, 10_000][rng.random_range(0..3)],
        ..options(seed)
    };
    let options = WriterOptions { page_bytes: 1 << 20, stripe_bytes: 1 << 28, buffer_bytes: 1 << 20, ..options };
    let file = write(&schema, std::slice::from_ref(&batch), options.clone()).unwrap();
    let (_, read) = read_all(&file, [100, 1000, 8192][rng.random_range(0..3)]).unwrap();
    assert_same(&schema, std::slice::from_ref(&batch), &read);
    check_zones_with(&schema, std::slice::from_ref(&batch), seed, options);
}

#[test]
fn pages_that_share_a_dictionary_come_back() {
    (0..60).for_each(check_repetitive);
    let has = |seed: &u64| {
        let (schema, batch) = repetitive(*seed);
        has_dictionaries(&write(&schema, &[batch], WriterOptions { page_rows: 256, ..Default::default() }).unwrap())
    };
    assert!((0..20).filter(has).count() > 10);
}

/// Whatever is asked of pages that share a dictionary is the same as of all rows, and what is known of its values is known once.
#[test]
fn a_dictionary_is_the_same_for_all_pages() {
    let rows = 20_000_u64;
    let words: ArrayRef = Arc::new(arrow::array::StringViewArray::from_iter_values((0..rows).map(|row| address(row * row % 3001))));
    let batch = RecordBatch::try_from_iter([("words", words)]).unwrap();
    let file = write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions { page_rows: 2048, ..Default::default() }).unwrap();
    let meta = open(&file, &OpenOptions::default()).unwrap();
    let request = ScanRequest { batch_rows: 5000, ..ScanRequest::new(vec![0], batch.schema()) };
    for deferred in [false, true] {
        check_dictionary(first_morsel(&file, &meta, request.clone(), deferred), &batch);
    }
}

fn check_dictionary(mut morsel: Box<dyn Morsel>, batch: &RecordBatch) {
    let (mut at, mut values): (usize, Option<ArrayRef>) = (0, None);
    loop {
        let taken = morsel.next_rows(1);
        if taken.is_empty() {
            break;
        }
        let expected = batch.column(0).slice(at, taken.len());
        // Few rows first, for which the dictionary is not decoded.
        let keep = BooleanBuffer::collect_bool(taken.len(), |row| row % 500 == 7);
        let kept = morsel.read_kept(0, &taken, &keep).unwrap().unwrap();
        assert_eq!(&kept, &arrow::compute::filter(&expected, &BooleanArray::from(keep)).unwrap());
        let coded = morsel.coded(0, &taken, 1500).unwrap().unwrap();
        assert_eq!(coded.parts.len(), 1);
        let known = values.get_or_insert_with(|| Arc::clone(&coded.parts[0].values));
        assert!(Arc::ptr_eq(known, &coded.parts[0].values));
        let codes = UInt32Array::from_iter_values(coded.parts[0].codes.iter());
        assert_eq!(&arrow::compute::take(known, &codes, None).unwrap(), &expected);
        assert!(morsel.coded(0, &taken, 10).unwrap().is_none());
        assert_eq!(&morsel.read(&[0], &taken).unwrap()[0], &expected);
        at += taken.len();
    }
    assert_eq!(at, batch.num_rows());
}

#[test]
fn stripes_that_there_are_not_are_not_visited() {
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..30));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let file = write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions { stripe_rows: 10, ..Default::default() }).unwrap();
    let meta = open(&file, &OpenOptions::default()).unwrap();
    let visit = |stripes: Vec<usize>| {
        let request = ScanRequest { prune_columns: vec![0.into()], batch_rows: 100, ..ScanRequest::new(vec![0], batch.schema()) };
        let mut scan = FermionScan::new(Arc::clone(&meta), request).unwrap();
        assert!(matches!(scan.step(Answer::Next).unwrap(), Step::Prune(zones) if zones.row_counts.len() == 3));
        scan.step(Answer::Visit(stripes)).map(|step| matches!(step, Step::Done))
    };
    assert!(!visit(vec![2, 0]).unwrap() && visit(vec![]).unwrap());
    for wrong in [vec![3], vec![0, 1, 2, 0]] {
        assert_eq!(visit(wrong).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

fn joined(schema: &SchemaRef, batches: &[RecordBatch]) -> Option<RecordBatch> {
    // Nothing can be concatenated of no columns but the number of rows.
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let columns: Option<Vec<ArrayRef>> = (0..schema.fields().len())
        .map(|i| {
            let arrays: Vec<ArrayRef> = batches.iter().map(|batch| spelled(batch.column(i))).collect();
            let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            if arrays.is_empty() { None } else { concat(&arrays).ok() }
        })
        .collect();
    let columns = columns?;
    let fields = schema.fields().iter().zip(&columns).map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns, &options).ok()
}

pub(crate) fn assert_same(schema: &SchemaRef, expected: &[RecordBatch], actual: &[RecordBatch]) {
    let rows = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(rows(expected), rows(actual));
    match (joined(schema, expected), joined(schema, actual)) {
        (Some(expected), Some(actual)) => {
            for (i, field) in schema.fields().iter().enumerate() {
                assert_eq!(expected.column(i), actual.column(i), "{field:?}");
            }
        }
        _ => assert_rows_same(schema, expected, actual),
    }
}

/// Slow twin for what Arrow cannot concatenate: row by row.
fn assert_rows_same(schema: &SchemaRef, expected: &[RecordBatch], actual: &[RecordBatch]) {
    let rows = |batches: &[RecordBatch]| -> Vec<RecordBatch> { batches.iter().flat_map(|b| (0..b.num_rows()).map(|i| b.slice(i, 1))).collect() };
    let (expected, actual) = (rows(expected), rows(actual));
    assert_eq!(expected.len(), actual.len());
    for (row, (expected, actual)) in expected.iter().zip(actual).enumerate() {
        for (i, field) in schema.fields().iter().enumerate() {
            assert_eq!(&spelled(expected.column(i)), &spelled(actual.column(i)), "row {row} of {field:?}");
        }
    }
}

fn check(seed: u64) {
    let (schema, batches) = random::table(seed);
    let file = write(&schema, &batches, options(seed)).unwrap();
    for batch_rows in [8192, 100] {
        let (read_schema, read) = read_all(&file, batch_rows).unwrap();
        assert_eq!(read_schema, schema);
        assert!(read.iter().all(|batch| batch.num_rows() <= batch_rows));
        assert_same(&schema, &batches, &read);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 0, ..Default::default() })]

    #[test]
    fn random_tables_come_back(seed in any::<u64>()) {
        check(seed);
    }

    #[test]
    fn zones_bound_their_rows_and_skipped_zones_are_missing(seed in any::<u64>()) {
        check_zones(seed);
    }
}

#[test]
fn every_leaf_type_comes_back() {
    for (seed, data_type) in (0..).zip(random::leaf_types()) {
        let mut rng = random::rng(seed);
        let schema = Arc::new(Schema::new(vec![Field::new("a", data_type.clone(), true)]));
        for rows in [0, 1, 1000, 5000] {
            let column = random::array(&mut rng, &data_type, rows, true);
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
            let file = write(&schema, std::slice::from_ref(&batch), WriterOptions { page_rows: 2048, ..Default::default() }).unwrap();
            let (_, read) = read_all(&file, 8192).unwrap();
            assert_same(&schema, &[batch], &read);
        }
    }
}

#[test]
fn values_without_bytes_keep_their_count() {
    let item = Arc::new(Field::new("item", DataType::FixedSizeBinary(0), true));
    let plain = [
        DataType::FixedSizeBinary(0),
        DataType::FixedSizeList(Arc::clone(&item), 0),
        DataType::List(Arc::clone(&item)),
        DataType::Struct(Fields::empty()),
        DataType::Struct(vec![Arc::clone(&item), Arc::new(Field::new("x", DataType::Int32, true))].into()),
    ];
    let dictionary = |values: &DataType| DataType::Dictionary(Box::new(DataType::Int8), Box::new(values.clone()));
    let runs = |values: &DataType| {
        let ends = Arc::new(Field::new("run_ends", DataType::Int32, false));
        DataType::RunEndEncoded(ends, Arc::new(Field::new("values", values.clone(), true)))
    };
    // The generator's own runs are made with a kernel that loses count of them.
    let array = |rng: &mut StdRng, data_type: &DataType, rows: usize| match data_type {
        DataType::RunEndEncoded(_, values) => {
            let ends = Int32Array::from_iter_values(1..=i32::try_from(rows).unwrap());
            let runs = RunArray::<Int32Type>::try_new(&ends, &random::array(rng, values.data_type(), rows, true)).unwrap();
            make_array(runs.to_data().into_builder().data_type(data_type.clone()).build().unwrap())
        }
        _ => random::array(rng, data_type, rows, true),
    };
    let types = plain.iter().flat_map(|values| [values.clone(), dictionary(values), runs(values)]);
    for data_type in types {
        let schema = Arc::new(Schema::new(vec![Field::new("a", data_type.clone(), true)]));
        let mut rng = random::rng(1);
        let batches: Vec<RecordBatch> =
            (1..4).map(|rows| RecordBatch::try_new(Arc::clone(&schema), vec![array(&mut rng, &data_type, rows)]).unwrap()).collect();
        let file = write(&schema, &batches, WriterOptions::default()).unwrap();
        let (_, read) = read_all(&file, 2).unwrap();
        assert_rows_same(&schema, &batches, &read);
        assert_eq!(read.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2, 2, 2], "{data_type}");
    }
}

#[test]
fn a_batch_is_cut_where_its_dictionary_would_overflow() {
    let numbers = |from: i32| -> ArrayRef { Arc::new(Int32Array::from_iter_values(from..from + 100)) };
    let structs = |from: i32| -> ArrayRef {
        let field = Field::new("x", DataType::Int32, true);
        Arc::new(StructArray::new(vec![field].into(), vec![numbers(from)], None))
    };
    let rows_of = |values: &dyn Fn(i32) -> ArrayRef| {
        let batch = |from| {
            let array = DictionaryArray::<Int8Type>::new((0..100).collect(), values(from));
            let schema = Arc::new(Schema::new(vec![Field::new("a", array.data_type().clone(), false)]));
            RecordBatch::try_new(schema, vec![Arc::new(array)]).unwrap()
        };
        let batches = [batch(0), batch(100), batch(200)];
        let schema = batches[0].schema();
        let file = write(&schema, &batches, WriterOptions::default()).unwrap();
        let (_, read) = read_all(&file, 8192).unwrap();
        assert_rows_same(&schema, &batches, &read);
        read.len()
    };
    for values in [&numbers as &dyn Fn(i32) -> ArrayRef, &structs] {
        assert!(rows_of(values) > 2, "300 values do not fit two dictionaries of 128");
    }
}

/// Reads with a random half of the zones skipped, and compares with the same rows filtered out of the table.
fn check_zones(seed: u64) {
    let (schema, batches) = random::table(seed);
    check_zones_of(&schema, &batches, seed);
}

fn check_zones_of(schema: &SchemaRef, batches: &[RecordBatch], seed: u64) {
    check_zones_with(schema, batches, seed, options(seed));
}

/// Reads the file in parts, as it would be on several threads.
fn check_zones_with(schema: &SchemaRef, batches: &[RecordBatch], seed: u64, options: WriterOptions) {
    let Ok(table) = concat_batches(schema, batches) else { return };
    let file = write(schema, batches, options).unwrap();
    let meta = open(&file, &OpenOptions { prefetch: seed % 2000 + 1, eager_load_threshold: seed % 3 * 1000 }).unwrap();
    let columns: Vec<usize> = (0..schema.fields().len()).collect();
    let mut rng = random::rng(seed ^ 1);
    let length = file.len() as u64;
    let mut cuts: Vec<u64> = (0..rng.random_range(0..4)).map(|_| rng.random_range(0..length)).chain([0, length]).collect();
    cuts.sort_unstable();
    let mut kept: Vec<bool> = Vec::new();
    let mut read = Vec::new();
    let mut row = 0;
    for range in cuts.windows(2).map(|cut| cut[0]..cut[1]) {
        let first_row = row;
        let rows: u64 = meta.parts(Some(&range)).iter().map(|part| part.rows.len() as u64).sum();
        let end_row = first_row + usize::try_from(rows).unwrap();
        let request = ScanRequest {
            prune_columns: paths(schema),
            range: Some(range),
            batch_rows: 777,
            ..ScanRequest::new(columns.clone(), Arc::clone(schema))
        };
        let part = scan(&file, &meta, request, |zones| {
            let mut keep = Vec::new();
            // Stripes are shown all at once, the pages of each when it is read.
            let mut start = if zones.level == Level::Stripe { first_row } else { row };
            for (zone, rows) in zones.row_counts.values().iter().enumerate() {
                let rows = usize::try_from(*rows).unwrap();
                zones.columns.iter().for_each(|column| check_bounds(column, zone, &table.slice(start, rows)));
                start += rows;
                if zones.level == Level::Page {
                    keep.push(rng.random_bool(0.5));
                    kept.extend(std::iter::repeat_n(keep[zone], rows));
                }
            }
            if zones.level == Level::Stripe {
                assert_eq!(start, end_row, "stripes cover every row");
                return BooleanArray::from(vec![true; zones.row_counts.len()]);
            }
            row = start;
            BooleanArray::from(keep)
        });
        read.extend(part.unwrap());
        row = end_row;
    }
    assert_eq!(row, table.num_rows(), "parts cover every row");
    if schema.fields().is_empty() {
        return;
    }
    assert_eq!(kept.len(), table.num_rows(), "zones cover every row");
    if let Ok(expected) = filter_record_batch(&table, &BooleanArray::from(kept)) {
        assert_same(schema, &[expected], &read);
    }
}

/// Stripes of many rows, which are cut in the middle.
#[test]
fn the_parts_of_a_stripe_are_the_stripe() {
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let text = DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8));
    let types = [DataType::Int32, DataType::Utf8, DataType::List(item(DataType::Int8)), DataType::FixedSizeList(item(DataType::Utf8View), 2), text];
    let fields: Vec<Field> = types.into_iter().enumerate().map(|(index, data_type)| Field::new(format!("c{index}"), data_type, true)).collect();
    let schema = Arc::new(Schema::new(fields));
    for seed in 0..8 {
        let rng = &mut random::rng(seed);
        let mut columns: Vec<ArrayRef> = schema.fields().iter().map(|field| random::array(rng, field.data_type(), 30_000, true)).collect();
        // The first column is null in the first half, so that a part of the stripe has as many nulls as rows, or none, and the stripe has not.
        columns[0] = Arc::new(Int32Array::from_iter((0..30_000).map(|row| (row >= 15_000).then_some(row))));
        let options = WriterOptions { stripe_rows: if seed % 2 == 0 { 20_000 } else { 30_000 }, page_rows: 900 << (seed % 4), ..Default::default() };
        check_zones_with(&schema, &[RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()], seed, options);
    }
}

/// All columns, and all fields within structs.
fn paths(schema: &Schema) -> Vec<FieldPath> {
    fn push(path: &FieldPath, data_type: &DataType, found: &mut Vec<FieldPath>) {
        found.push(path.clone());
        let DataType::Struct(fields) = data_type else { return };
        for (position, field) in fields.iter().enumerate() {
            let fields = [path.fields.as_slice(), &[position]].concat();
            push(&FieldPath { column: path.column, fields }, field.data_type(), found);
        }
    }
    let mut found = Vec::new();
    schema.fields().iter().enumerate().for_each(|(column, field)| push(&column.into(), field.data_type(), &mut found));
    found
}

/// Statistics say nothing that is not so.
fn check_bounds(column: &ZoneColumn, zone: usize, rows: &RecordBatch) {
    let top = rows.column(column.column.column);
    let values = column.column.fields.iter().fold(top, |array, field| array.as_struct().column(*field));
    // Below nulls alone, nothing is stored.
    let is_below_nulls = !column.column.fields.is_empty() && top.null_count() == top.len();
    if let Some(nulls) = column.null_counts.is_valid(zone).then(|| column.null_counts.value(zone)) {
        assert!(
            nulls == values.logical_null_count() as u64 || is_below_nulls && nulls == values.len() as u64,
            "{nulls} nulls of {}",
            values.data_type()
        );
    }
    let mut plain = spelled(values);
    if let DataType::RunEndEncoded(_, values) = plain.data_type() {
        plain = arrow::compute::cast(&plain, &values.data_type().clone()).unwrap();
    }
    for (bound, wrong) in [(&column.min, std::cmp::Ordering::Greater), (&column.max, std::cmp::Ordering::Less)] {
        if bound.is_null(zone) {
            continue;
        }
        let slots = UInt32Array::from(vec![u32::try_from(zone).unwrap()]);
        let bound = arrow::compute::cast(&arrow::compute::take(bound, &slots, None).unwrap(), plain.data_type()).unwrap();
        let compare = make_comparator(&bound, &plain, SortOptions::default()).unwrap();
        for row in (0..plain.len()).filter(|row| plain.is_valid(*row)) {
            assert_ne!(compare(0, row), wrong, "{bound:?} does not bound row {row} of {plain:?}");
        }
    }
}

use arrow::array::make_comparator;
use arrow::compute::SortOptions;

/// Where a value of a dense union stands is known by counting, and no list without values may disturb the count.
#[test]
fn unions_in_lists_are_found_when_pages_are_skipped() {
    let number = Arc::new(Field::new("number", DataType::UInt16, true));
    let text = Arc::new(Field::new("text", DataType::Utf8, true));
    let mut item = DataType::Union([(3, number), (5, text)].into_iter().collect(), UnionMode::Dense);
    for depth in 0..3 {
        // Zones are the pages of the second column.
        let schema = Arc::new(Schema::new(vec![Field::new("a", item.clone(), true), Field::new("b", DataType::Int32, true)]));
        for seed in 0..30 {
            let columns = schema.fields().iter().map(|field| random::array(&mut random::rng(seed), field.data_type(), 500, true)).collect();
            check_zones_of(&schema, &[RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()], seed);
        }
        let field = Arc::new(Field::new("item", item, true));
        item = if depth % 2 == 0 { DataType::ListView(field) } else { DataType::List(field) };
    }
}

/// Words, decimals in floats and skewed numbers, in each way of weighing bytes against time.
#[test]
fn a_file_is_as_small_as_it_was_asked_to_be() {
    let words = ["carefully", "final", "deposits", "sleep", "furiously", "among", "the", "ironic", "requests", "accounts"];
    let mut rng = random::rng(5);
    let rows = 50_000;
    let text: Vec<String> = (0..rows).map(|_| (0..5).map(|_| words[rng.random_range(0..10)]).collect::<Vec<_>>().join(" ")).collect();
    let floats = arrow::array::Float64Array::from_iter_values((0..rows).map(|_| f64::from(rng.random_range(0..1_000_000)) / 100.0));
    let skewed = Int32Array::from_iter_values((0..rows).map(|_| 1 << rng.random_range(0..20)));
    let columns: Vec<(&str, ArrayRef)> =
        vec![("text", Arc::new(arrow::array::StringArray::from_iter_values(text))), ("floats", Arc::new(floats)), ("skewed", Arc::new(skewed))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let sizes = Compression::ALL.map(|compression| {
        let options = WriterOptions { compression, zstd_level: compression.zstd_level(), ..Default::default() };
        let file = write(&batch.schema(), std::slice::from_ref(&batch), options).unwrap();
        let (schema, read) = read_all(&file, 8192).unwrap();
        assert_same(&schema, std::slice::from_ref(&batch), &read);
        file.len()
    });
    assert!(sizes[0] >= sizes[1] && sizes[1] > sizes[2], "{sizes:?}");
}

/// Text in pages that remember what was learnt from those before, beside numbers.
#[test]
fn the_bytes_do_not_depend_on_the_number_of_threads() {
    let words = ["carefully", "final", "deposits", "sleep", "furiously", "among", "the", "ironic", "requests", "accounts"];
    let mut rng = random::rng(3);
    let text: Vec<String> = (0..40_000).map(|_| (0..8).map(|_| words[rng.random_range(0..10)]).collect::<Vec<_>>().join(" ")).collect();
    let numbers = Int32Array::from_iter_values((0..40_000).map(|_| rng.random_range(0..1000)));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("numbers", Arc::new(numbers)),
        ("text", Arc::new(arrow::array::StringArray::from_iter_values(text))),
        ("addresses", Arc::new(arrow::array::StringArray::from_iter_values((0..40_000).map(|row| address(row * row % 3001))))),
        ("more", Arc::new(UInt32Array::from_iter_values(0..40_000))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let schema = batch.schema();
    let file = |threads| {
        write(&schema, std::slice::from_ref(&batch), WriterOptions { threads, stripe_rows: 25_000, page_bytes: 256 << 10, ..Default::default() })
            .unwrap()
    };
    let alone = file(1);
    assert!(has_dictionaries(&alone));
    for threads in [2, 3, 8] {
        assert!(file(threads) == alone, "{threads} threads");
    }
    let (_, read) = read_all(&alone, 8192).unwrap();
    assert_same(&schema, std::slice::from_ref(&batch), &read);
}

/// Pages of slots that are all valid, or all null, grow as long as those that follow are like them: over pushes, up to what a page may have, below lists, and not into other ones.
#[test]
fn slots_that_are_alike_are_one_page_until_others_come() {
    type Value = fn(usize) -> Option<i8>;
    let kinds: [(usize, Value); 6] = [
        ((1 << 20) + 5, |row| i8::try_from(row % 100).ok()),
        (3000, |_| None),
        (5000, |_| None),
        (1, |_| Some(1)),
        (7000, |row| (row % 3 == 0).then_some(2)),
        (9000, |_| Some(3)),
    ];
    let batches: Vec<RecordBatch> = kinds
        .iter()
        .map(|(rows, value)| {
            let values: ArrayRef = Arc::new((0..*rows).map(value).collect::<arrow::array::Int8Array>());
            let lists: ArrayRef =
                Arc::new(arrow::array::FixedSizeListArray::new(Arc::new(Field::new("item", DataType::Int8, true)), 1, Arc::clone(&values), None));
            RecordBatch::try_from_iter_with_nullable([("v", values, true), ("l", lists, true)]).unwrap()
        })
        .collect();
    let schema = batches[0].schema();
    let expected = concat_batches(&schema, &batches).unwrap();
    for page_rows in [4096, 1 << 20] {
        let file = write(&schema, &batches, WriterOptions { page_rows, stripe_rows: 1 << 22, ..Default::default() }).unwrap();
        let (_, read) = read_all(&file, 8192).unwrap();
        assert!(concat_batches(&schema, &read).unwrap() == expected, "{page_rows}");
    }
}

/// A few bytes may say that lists have very many items. They are refused before memory is taken for those.
#[test]
fn lists_that_name_too_many_items_take_no_memory() {
    let item = Arc::new(Field::new("item", DataType::Null, true));
    let nulls = Arc::new(arrow::array::NullArray::new(1 << 28));
    let lists: ArrayRef = Arc::new(arrow::array::LargeListViewArray::new(item, vec![0; 9].into(), vec![1 << 28; 9].into(), nulls, None));
    let batch = RecordBatch::try_from_iter([("l", lists)]).unwrap();
    let mut written = None;
    let options = WriterOptions { threads: 1, ..Default::default() };
    let taken = allocation_counter::measure(|| written = Some(write(&batch.schema(), std::slice::from_ref(&batch), options)));
    assert!(written.unwrap().unwrap_err().to_string().contains("too long"));
    assert!(taken.bytes_max > 0 && taken.bytes_max < 64 << 20, "{} bytes", taken.bytes_max);
}
