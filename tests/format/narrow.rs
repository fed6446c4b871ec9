//! Nested columns that are read in part: structs without some of their fields, lists without their values.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, NullArray, RecordBatch, RecordBatchOptions, StructArray, make_array};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef};
use datafusion_fermion::format::ErrorKind;
use datafusion_fermion::format::alkaid;
use datafusion_fermion::format::fermion::{FermionScan, OpenOptions, ScanRequest, WriterOptions};
use datafusion_fermion::format::scan::Section;
use proptest::prelude::*;
use rand::Rng;
use rand::rngs::StdRng;

use crate::alkaid::drive::{Store, write as write_alkaid};
use crate::drive::{open, scan, scan_selected, write};
use crate::random;
use crate::roundtrip::assert_same;

fn with_type(field: &Field, data_type: DataType) -> FieldRef {
    Arc::new(field.clone().with_data_type(data_type))
}

/// A random part of a type.
fn part_of(rng: &mut StdRng, data_type: &DataType) -> DataType {
    if rng.random_bool(0.2) {
        return data_type.clone();
    }
    let mut item = |item: &FieldRef| match rng.random_bool(0.4) {
        true => Arc::new(Field::new(item.name(), DataType::Null, true)),
        false => with_type(item, part_of(rng, item.data_type())),
    };
    match data_type {
        DataType::Struct(fields) => {
            let kept: Vec<_> = fields.iter().filter(|_| rng.random_bool(0.6)).collect();
            let fields: Vec<_> = kept.into_iter().map(|field| with_type(field, part_of(rng, field.data_type()))).collect();
            DataType::Struct(fields.into())
        }
        DataType::List(of) => DataType::List(item(of)),
        DataType::LargeList(of) => DataType::LargeList(item(of)),
        DataType::ListView(of) => DataType::ListView(item(of)),
        DataType::LargeListView(of) => DataType::LargeListView(item(of)),
        DataType::FixedSizeList(of, size) => DataType::FixedSizeList(item(of), *size),
        DataType::Map(entries, sorted) => {
            // Keys and values both.
            let DataType::Struct(fields) = entries.data_type() else { unreachable!("entries are a struct") };
            let values = with_type(&fields[1], part_of(rng, fields[1].data_type()));
            DataType::Map(with_type(entries, DataType::Struct(vec![Arc::clone(&fields[0]), values].into())), *sorted)
        }
        other => other.clone(),
    }
}

/// The slow twin: that part of an array in memory.
fn part(array: &ArrayRef, out: &DataType) -> ArrayRef {
    if array.data_type() == out {
        return Arc::clone(array);
    }
    let data = array.to_data();
    assert_eq!(data.offset(), 0, "children have their parent's rows");
    let child = |index: usize| make_array(data.child_data()[index].clone());
    let children: Vec<ArrayData> = match (array.data_type(), out) {
        (DataType::Struct(fields), DataType::Struct(wanted)) => {
            let position = |field: &FieldRef| fields.iter().position(|own| own.name() == field.name()).unwrap();
            wanted.iter().map(|field| part(&child(position(field)), field.data_type()).to_data()).collect()
        }
        (_, DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) | DataType::LargeListView(item))
        | (_, DataType::FixedSizeList(item, _) | DataType::Map(item, _)) => {
            let values = child(0);
            let no_values = *item.data_type() == DataType::Null && *values.data_type() != DataType::Null;
            vec![if no_values { NullArray::new(values.len()).to_data() } else { part(&values, item.data_type()).to_data() }]
        }
        (file, out) => panic!("{out} is no part of {file}"),
    };
    make_array(data.into_builder().data_type(out.clone()).child_data(children).build().unwrap())
}

fn parts(batch: &RecordBatch, schema: &SchemaRef) -> RecordBatch {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(array, field)| part(array, field.data_type())).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).unwrap()
}

fn check(seed: u64) {
    let (schema, batches) = random::table(seed);
    let mut rng = random::rng(seed ^ 3);
    let fields: Vec<_> = schema.fields().iter().map(|field| with_type(field, part_of(&mut rng, field.data_type()))).collect();
    let out: SchemaRef = Arc::new(Schema::new(fields));
    let expected: Vec<RecordBatch> = batches.iter().map(|batch| parts(batch, &out)).collect();
    let request = ScanRequest { batch_rows: rng.random_range(100..3000), ..ScanRequest::new((0..out.fields().len()).collect(), Arc::clone(&out)) };

    let options = WriterOptions { page_rows: 1024, stripe_rows: [1000, 3000][rng.random_range(0..2)], ..Default::default() };
    let file = write(&schema, &batches, options).unwrap();
    let meta = open(&file, &OpenOptions::default()).unwrap();
    assert_same(&out, &expected, &scan(&file, &meta, request.clone(), |_| unreachable!("nothing to prune by")).unwrap());

    let compression = [None, Some(alkaid::Codec::Zstd)][rng.random_range(0..2)];
    let file = match write_alkaid(&schema, &batches, alkaid::WriterOptions { compression, ..Default::default() }) {
        Ok(file) => file,
        // Alkaid has no dictionaries of dictionaries.
        Err(error) => return assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}"),
    };
    let mut store = Store::new(&file);
    let meta = store.open(1 << 20).unwrap();
    assert_same(&out, &expected, &store.scan(&meta, request, |_| unreachable!("nothing to prune by")).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..Default::default() })]

    #[test]
    fn a_part_of_a_column_is_that_part_of_it(seed: u64) {
        check(seed);
    }
}

/// A column of a number, long text, and a list of texts.
fn wide_struct() -> RecordBatch {
    let rows = 0..20_000_i64;
    let text = |row: i64| format!("{:x}", row.wrapping_mul(0x1E37_79B9_7F4A_7C15));
    let numbers: ArrayRef = Arc::new(arrow::array::Int64Array::from_iter_values(rows.clone()));
    let texts: ArrayRef = Arc::new(arrow::array::StringArray::from_iter_values(rows.clone().map(|row| text(row).repeat(3))));
    let mut lists = arrow::array::ListBuilder::new(arrow::array::StringBuilder::new());
    rows.for_each(|row| lists.append_value((0..row % 4).map(|item| Some(text(row + item)))));
    let lists: ArrayRef = Arc::new(lists.finish());
    let field = |name, array: &ArrayRef| Arc::new(Field::new(name, array.data_type().clone(), true));
    let column = StructArray::from(vec![(field("n", &numbers), numbers), (field("t", &texts), texts), (field("l", &lists), lists)]);
    RecordBatch::try_from_iter([("s", Arc::new(column) as ArrayRef)]).unwrap()
}

fn request(fields: Vec<Field>) -> ScanRequest {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Struct(fields.into()), false)]));
    ScanRequest::new(vec![0], schema)
}

fn some_parts() -> [(Vec<Field>, u64); 4] {
    let list = DataType::List(Arc::new(Field::new("item", DataType::Null, true)));
    let number = Field::new("n", DataType::Int64, true);
    [
        (vec![], 0),
        (vec![number.clone()], 160_000),
        (vec![Field::new("l", list.clone(), true)], 160_000),
        (vec![number, Field::new("l", list, true)], 320_000),
    ]
}

#[test]
fn what_is_left_out_is_not_fetched() {
    let batch = wide_struct();
    let file = write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions::default()).unwrap();
    let meta = open(&file, &OpenOptions::default()).unwrap();
    for (fields, most) in some_parts() {
        let mut bytes = 0;
        let count = |fetches: &[datafusion_fermion::format::scan::Fetch]| {
            bytes += fetches.iter().filter(|fetch| fetch.section == Section::Data).map(|fetch| fetch.range.end - fetch.range.start).sum::<u64>();
        };
        let request = request(fields);
        let out = Arc::clone(&request.schema);
        let read = scan_selected(&file, &meta, request, |_| unreachable!(), |_| unreachable!(), count).unwrap();
        assert_same(&out, &[parts(&batch, &out)], &read);
        assert!(bytes <= most, "{bytes} bytes of {out:?}");
    }
    let file = write_alkaid(&batch.schema(), std::slice::from_ref(&batch), alkaid::WriterOptions::default()).unwrap();
    for (fields, most) in some_parts() {
        let mut store = Store::new(&file);
        let meta = store.open(1 << 20).unwrap();
        let before = store.bytes;
        store.scan(&meta, request(fields), |_| unreachable!()).unwrap();
        // Offsets of 32 bits, and metadata of messages.
        assert!(store.bytes - before <= usize::try_from(most).unwrap() + 10_000, "{} bytes", store.bytes - before);
    }
}

#[test]
fn what_the_file_does_not_have_is_refused() {
    let batch = wide_struct();
    let wrong = [
        vec![Field::new("x", DataType::Int64, true)],
        vec![Field::new("l", DataType::Null, true)],
        vec![Field::new("t", DataType::Utf8, true), Field::new("n", DataType::Int64, true)],
    ];
    let file = write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions::default()).unwrap();
    let meta = open(&file, &OpenOptions::default()).unwrap();
    let alkaid_file = write_alkaid(&batch.schema(), std::slice::from_ref(&batch), alkaid::WriterOptions::default()).unwrap();
    let mut store = Store::new(&alkaid_file);
    let alkaid_meta = store.open(1 << 20).unwrap();
    for fields in wrong {
        let error = FermionScan::new(Arc::clone(&meta), request(fields.clone())).map(drop).unwrap_err();
        assert_eq!((error.kind(), error.column()), (ErrorKind::InvalidArgument, Some("s")), "{fields:?}");
        let error = alkaid::AlkaidScan::new(Arc::clone(&alkaid_meta), request(fields)).map(drop).unwrap_err();
        assert_eq!((error.kind(), error.column()), (ErrorKind::InvalidArgument, Some("s")));
    }
    let number = parts(&batch, &request(vec![Field::new("n", DataType::Int64, true)]).schema);
    let sum: i64 =
        arrow::compute::sum(arrow::array::AsArray::as_primitive::<Int64Type>(arrow::array::AsArray::as_struct(number.column(0)).column(0))).unwrap();
    assert_eq!(sum, 20_000 * 19_999 / 2);
}
