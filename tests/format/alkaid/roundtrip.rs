//! What is written is what is read, by us and by the `arrow-ipc` crate; and what that writes is what we read.

use std::io::Cursor;
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::concat_batches;
use arrow::datatypes::*;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, MetadataVersion};
use bytes::Bytes;
use datafusion_fermion::format::ErrorKind;
use datafusion_fermion::format::alkaid::{Codec, Flavor, Form, WriterOptions};
use proptest::prelude::*;
use rand::Rng;

use super::drive::{Store, read_all, read_all_with, request, write};
use crate::random;

/// Whether the batches have the same rows, however they are cut.
pub(super) fn same_rows(one: &[RecordBatch], other: &[RecordBatch]) -> bool {
    let rows = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    if rows(one) != rows(other) {
        return false;
    }
    let (mut one, mut other) = (pieces(one), pieces(other));
    let (mut left, mut right) = (one.next(), other.next());
    while let (Some(a), Some(b)) = (&left, &right) {
        let count = a.num_rows().min(b.num_rows());
        for (one, other) in a.slice(0, count).columns().iter().zip(b.slice(0, count).columns()) {
            if one != other && !looks_the_same(one, other) {
                return false;
            }
        }
        let rest = |batch: &RecordBatch| (batch.num_rows() > count).then(|| batch.slice(count, batch.num_rows() - count));
        (left, right) = (rest(a).or_else(|| one.next()), rest(b).or_else(|| other.next()));
    }
    left.is_none() && right.is_none()
}

/// To Arrow, a code of a null and a code that is null are not the same.
fn looks_the_same(one: &ArrayRef, other: &ArrayRef) -> bool {
    let options = FormatOptions::new().with_null("null");
    let format = |array| ArrayFormatter::try_new(array, &options).unwrap();
    let (left, right) = (format(one.as_ref()), format(other.as_ref()));
    one.len() == other.len() && (0..one.len()).all(|row| left.value(row).to_string() == right.value(row).to_string())
}

fn pieces(batches: &[RecordBatch]) -> impl Iterator<Item = RecordBatch> + '_ {
    batches.iter().filter(|batch| batch.num_rows() > 0).cloned()
}

/// A dictionary of codes has no place in a schema.
fn is_writable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => !matches!(**values, DataType::Dictionary(..)) && is_writable(values),
        DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) | DataType::LargeListView(item) => is_writable(item.data_type()),
        DataType::FixedSizeList(item, _) | DataType::Map(item, _) => is_writable(item.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_writable(field.data_type())),
        DataType::Union(fields, _) => fields.iter().all(|(_, field)| is_writable(field.data_type())),
        _ => true,
    }
}

pub(super) fn table(seed: u64) -> Option<(SchemaRef, Vec<RecordBatch>)> {
    let (schema, batches) = random::table(seed);
    schema.fields().iter().all(|field| is_writable(field.data_type())).then_some((schema, batches))
}

fn options(seed: u64) -> WriterOptions {
    let mut rng = random::rng(seed);
    WriterOptions {
        form: if rng.random_bool(0.5) { Form::File } else { Form::Stream },
        flavor: if rng.random_bool(0.5) { Flavor::Alkaid } else { Flavor::Arrow },
        compression: [None, Some(Codec::Lz4), Some(Codec::Zstd)][rng.random_range(0..3)],
        batch_rows: [60, 1000, 1024, 65_536][rng.random_range(0..4)],
        batch_bytes: [10_000, 1 << 20, 1 << 30][rng.random_range(0..3)],
        alignment: if rng.random_bool(0.5) { 8 } else { 64 },
        statistics: rng.random_bool(0.7),
        threads: rng.random_range(1..3),
        ..Default::default()
    }
}

/// A wall: dictionaries of a file whose keys cannot number all values.
fn is_full(error: &datafusion_fermion::format::Error) -> bool {
    error.to_string().contains("can number")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_tables_come_back(seed in any::<u64>()) {
        let Some((schema, batches)) = table(seed) else { return Ok(()) };
        let options = options(seed);
        let file = match write(&schema, &batches, options.clone()) {
            Err(error) if is_full(&error) => return Ok(()),
            file => file.unwrap(),
        };
        let (read_schema, read) = read_all(&file, 1000).unwrap();
        prop_assert_eq!(&read_schema, &schema);
        prop_assert!(same_rows(&read, &batches), "{:?}", options);
        let (_, read) = read_all_with(&file, usize::MAX, 1).unwrap();
        prop_assert!(same_rows(&read, &batches), "opened with few bytes");
    }

    #[test]
    fn what_we_write_others_read(seed in any::<u64>()) {
        let Some((schema, batches)) = table(seed) else { return Ok(()) };
        let options = WriterOptions { flavor: Flavor::Arrow, ..options(seed) };
        let file = match write(&schema, &batches, options.clone()) {
            Err(error) if is_full(&error) => return Ok(()),
            file => file.unwrap(),
        };
        let cursor = Cursor::new(file.to_vec());
        let (twin_schema, read): (SchemaRef, Vec<RecordBatch>) = match options.form {
            Form::File => {
                let reader = FileReader::try_new(cursor, None).unwrap();
                (reader.schema(), reader.collect::<Result<_, _>>().unwrap())
            }
            Form::Stream => {
                let reader = StreamReader::try_new(cursor, None).unwrap();
                (reader.schema(), reader.collect::<Result<_, _>>().unwrap())
            }
        };
        prop_assert_eq!(&twin_schema, &schema);
        prop_assert!(same_rows(&read, &batches), "{:?}", options);
    }

    #[test]
    fn what_others_write_we_read(seed in any::<u64>()) {
        let Some((schema, batches)) = table(seed) else { return Ok(()) };
        let mut rng = random::rng(seed);
        let compression = [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)][rng.random_range(0..3)];
        let legacy = rng.random_bool(0.2) && compression.is_none() && schema.fields().iter().all(|field| !has_union(field.data_type()));
        let options = match legacy {
            true => IpcWriteOptions::try_new(8, true, MetadataVersion::V4).unwrap(),
            false => IpcWriteOptions::try_new([8, 64][rng.random_range(0..2)], false, MetadataVersion::V5).unwrap(),
        };
        let handling = if rng.random_bool(0.5) { DictionaryHandling::Delta } else { DictionaryHandling::Resend };
        let options = options.try_with_compression(compression).unwrap().with_dictionary_handling(handling);
        let mut file = Vec::new();
        let written = if rng.random_bool(0.5) {
            let mut writer = FileWriter::try_new_with_options(&mut file, &schema, options).unwrap();
            // It does not replace dictionaries in files.
            batches.iter().try_for_each(|batch| writer.write(batch)).and_then(|()| writer.finish())
        } else {
            let mut writer = StreamWriter::try_new_with_options(&mut file, &schema, options).unwrap();
            batches.iter().try_for_each(|batch| writer.write(batch)).and_then(|()| writer.finish())
        };
        if written.is_err() {
            return Ok(());
        }
        // Not all that it writes is what it was given.
        let cursor = Cursor::new(file.clone());
        let expected = match file.starts_with(b"ARROW1") {
            true => FileReader::try_new(cursor, None).unwrap().collect::<Result<Vec<_>, _>>(),
            false => StreamReader::try_new(cursor, None).unwrap().collect::<Result<Vec<_>, _>>(),
        };
        let Ok(expected) = expected else { return Ok(()) };
        let (read_schema, read) = read_all(&Bytes::from(file), 1000).unwrap();
        prop_assert_eq!(&read_schema, &schema);
        prop_assert!(same_rows(&read, &expected));
    }
}

fn has_union(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) => true,
        DataType::Dictionary(_, values) => has_union(values),
        DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) | DataType::LargeListView(item) => has_union(item.data_type()),
        DataType::FixedSizeList(item, _) | DataType::Map(item, _) => has_union(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_union(field.data_type())),
        DataType::RunEndEncoded(_, values) => has_union(values.data_type()),
        _ => false,
    }
}

#[test]
fn every_leaf_type_comes_back_in_every_form() {
    let mut rng = random::rng(1);
    for data_type in random::leaf_types() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", data_type.clone(), true)]));
        let array = random::array(&mut rng, &data_type, 300, true);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![array]).unwrap();
        for form in [Form::File, Form::Stream] {
            for compression in [None, Some(Codec::Lz4), Some(Codec::Zstd)] {
                let options = WriterOptions { form, compression, batch_rows: 128, ..Default::default() };
                let file = write(&schema, std::slice::from_ref(&batch), options).unwrap();
                let (read_schema, read) = read_all(&file, 50).unwrap();
                assert_eq!(read_schema, schema);
                assert!(same_rows(&read, std::slice::from_ref(&batch)), "{data_type} {form:?} {compression:?}");
            }
        }
    }
}

fn dictionary(values: &[&str], codes: &[Option<i8>]) -> ArrayRef {
    let codes = Int8Array::from(codes.to_vec());
    Arc::new(DictionaryArray::<Int8Type>::try_new(codes, Arc::new(StringArray::from(values.to_vec()))).unwrap())
}

fn batches_of(arrays: Vec<ArrayRef>) -> (SchemaRef, Vec<RecordBatch>) {
    let schema = Arc::new(Schema::new(vec![Field::new("d", arrays[0].data_type().clone(), true)]));
    let batches = arrays.into_iter().map(|array| RecordBatch::try_new(Arc::clone(&schema), vec![array]).unwrap()).collect();
    (schema, batches)
}

#[test]
fn dictionaries_grow_are_merged_and_are_replaced() {
    let arrays = vec![
        dictionary(&["a", "b"], &[Some(0), Some(1), None]),
        dictionary(&["a", "b", "c"], &[Some(2), Some(1), Some(0)]),
        dictionary(&["x", "c", "a"], &[Some(0), None, Some(2)]),
        dictionary(&["y"], &[Some(0), Some(0), None]),
    ];
    let (schema, batches) = batches_of(arrays);
    for form in [Form::File, Form::Stream] {
        let options = WriterOptions { form, flavor: Flavor::Arrow, batch_rows: 3, ..Default::default() };
        let file = write(&schema, &batches, options).unwrap();
        let (_, read) = read_all(&file, 3).unwrap();
        assert_eq!(read.len(), 4);
        assert!(same_rows(&read, &batches), "{form:?}");
        let values = |batch: &RecordBatch| batch.column(0).as_any_dictionary().values().len();
        let sizes: Vec<usize> = read.iter().map(values).collect();
        // A file has one dictionary, a stream one between replacements.
        assert_eq!(sizes, if form == Form::File { [5, 5, 5, 5] } else { [3, 3, 3, 1] });
    }
}

#[test]
fn dictionaries_of_dictionaries_keep_their_meaning() {
    let outer = |inner: ArrayRef| -> ArrayRef {
        let field = Field::new("d", inner.data_type().clone(), true);
        let codes = Int8Array::from_iter_values(0..i8::try_from(inner.len()).unwrap());
        let values = StructArray::new(vec![field].into(), vec![inner], None);
        Arc::new(DictionaryArray::<Int8Type>::try_new(codes, Arc::new(values)).unwrap())
    };
    // The second begins with the first, by another dictionary.
    let (schema, batches) = batches_of(vec![outer(dictionary(&["a", "b"], &[Some(0)])), outer(dictionary(&["c", "a"], &[Some(1), Some(0)]))]);
    for form in [Form::File, Form::Stream] {
        let options = WriterOptions { form, flavor: Flavor::Arrow, batch_rows: 1, ..Default::default() };
        let file = write(&schema, &batches, options).unwrap();
        assert!(same_rows(&read_all(&file, 3).unwrap().1, &batches), "{form:?}");
    }
}

#[test]
fn keys_that_are_too_narrow_for_a_file_are_wide_enough_for_a_stream() {
    let values = |from: usize| -> Vec<String> { (from..from + 100).map(|value| value.to_string()).collect() };
    let array = |from| {
        let values = values(from);
        dictionary(&values.iter().map(String::as_str).collect::<Vec<_>>(), &[Some(99), Some(0)])
    };
    let (schema, batches) = batches_of(vec![array(0), array(100)]);
    let options = |form| WriterOptions { form, batch_rows: 2, ..Default::default() };
    let error = write(&schema, &batches, options(Form::File)).unwrap_err();
    assert_eq!((error.kind(), error.column()), (ErrorKind::InvalidArgument, Some("d")));
    let file = write(&schema, &batches, options(Form::Stream)).unwrap();
    assert!(same_rows(&read_all(&file, 9).unwrap().1, &batches));
}

#[test]
fn what_cannot_be_joined_is_written_apart() {
    // Of which Arrow does not say that their codes are too many for their keys, but panics.
    let views = |part: usize| -> ArrayRef {
        let values = StringViewArray::from_iter_values((0..100).map(|value| format!("value {value} of {part}")));
        Arc::new(DictionaryArray::new(Int8Array::from_iter_values((0..100).rev()), Arc::new(values)))
    };
    let fixed = |part: usize| -> ArrayRef {
        let values: Vec<String> = (0..100).map(|value| format!("value {value} of {part}")).collect();
        let items = dictionary(&values.iter().map(String::as_str).collect::<Vec<_>>(), &[Some(3), None, Some(99), Some(0)]);
        Arc::new(FixedSizeListArray::new(Arc::new(Field::new("item", items.data_type().clone(), true)), 2, items, None))
    };
    for array in [&views as &dyn Fn(usize) -> ArrayRef, &fixed] {
        let (schema, batches) = batches_of(vec![array(0), array(1)]);
        let file = write(&schema, &batches, WriterOptions { form: Form::Stream, ..Default::default() }).unwrap();
        assert!(same_rows(&read_all(&file, 1000).unwrap().1, &batches));
        let error = write(&schema, &batches, WriterOptions::default()).unwrap_err();
        assert_eq!((error.kind(), error.column()), (ErrorKind::InvalidArgument, Some("d")), "{error}");
    }
    // Values of a dictionary that have dictionaries themselves.
    let nested = |part: usize| -> ArrayRef {
        let inner = views(part);
        let values = StructArray::new(vec![Field::new("d", inner.data_type().clone(), true)].into(), vec![inner], None);
        Arc::new(DictionaryArray::new(Int16Array::from_iter_values(0..100), Arc::new(values)))
    };
    let (schema, batches) = batches_of(vec![nested(0), nested(1)]);
    let error = write(&schema, &batches, WriterOptions::default()).unwrap_err();
    assert_eq!((error.kind(), error.column()), (ErrorKind::InvalidArgument, Some("d")), "{error}");
}

#[test]
fn batches_are_joined_and_cut() {
    let batch = |rows: i64| RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef)]).unwrap();
    let batches = [batch(10), batch(0), batch(25), batch(1)];
    let file = write(&batches[0].schema(), &batches, WriterOptions { batch_rows: 16, ..Default::default() }).unwrap();
    let meta = Store::new(&file).open(1 << 20).unwrap();
    assert_eq!(meta.spans().iter().map(|span| span.rows).collect::<Vec<_>>(), [16, 16, 4]);
    assert!(same_rows(&read_all(&file, 9).unwrap().1, &batches));
    let empty = write(&batches[0].schema(), &[], WriterOptions::default()).unwrap();
    assert_eq!(read_all(&empty, 9).unwrap().1.len(), 0);
    let nothing = write(&Arc::new(Schema::empty()), &[], WriterOptions { form: Form::Stream, ..Default::default() }).unwrap();
    assert_eq!(read_all(&nothing, 9).unwrap().0.fields().len(), 0);
}

#[test]
fn rows_without_columns_are_rows() {
    let schema = Arc::new(Schema::empty());
    let rows = RecordBatchOptions::new().with_row_count(Some(40));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), vec![], &rows).unwrap();
    for form in [Form::File, Form::Stream] {
        let file = write(&schema, &[batch.clone(), batch.clone()], WriterOptions { form, ..Default::default() }).unwrap();
        let (_, read) = read_all(&file, 50).unwrap();
        assert_eq!(read.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [50, 30]);
    }
}

#[test]
fn a_small_part_of_a_large_array_is_written_small() {
    let rows = 100_000;
    let text = StringViewArray::from_iter_values((0..rows).map(|row| format!("a value that is not so short, number {row}")));
    let ids = ScalarBuffer::from(vec![0_i8; rows]);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..i64::try_from(rows).unwrap()));
    let fields: UnionFields = [(0, Arc::new(Field::new("x", DataType::Int64, true)))].into_iter().collect();
    let offsets = (0..i32::try_from(rows).unwrap()).collect();
    let union = UnionArray::try_new(fields, ids, Some(offsets), vec![Arc::clone(&numbers)]).unwrap();
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let places: ScalarBuffer<i32> = (0..i32::try_from(rows).unwrap()).rev().collect();
    let view = ListViewArray::new(Arc::clone(&item), places, vec![1; rows].into(), Arc::clone(&numbers), None);
    let list = ListArray::new(item, OffsetBuffer::from_lengths(vec![1; rows]), numbers, None);
    let ends = PrimitiveArray::<Int32Type>::from_iter_values(1..=i32::try_from(rows).unwrap());
    let runs = RunArray::<Int32Type>::try_new(&ends, &text).unwrap();
    let arrays: Vec<ArrayRef> = vec![Arc::new(text), Arc::new(union), Arc::new(view), Arc::new(list), Arc::new(runs)];
    for array in arrays {
        let part = array.slice(50_000, 10);
        let batch = RecordBatch::try_from_iter_with_nullable([("a", Arc::clone(&part), true)]).unwrap();
        let file = write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions { statistics: false, ..Default::default() }).unwrap();
        assert!(file.len() < 5000, "{} of {}", file.len(), part.data_type());
        assert!(same_rows(&read_all(&file, 100).unwrap().1, &[batch]));
    }
}

#[test]
fn what_readers_would_not_take_is_not_written() {
    let schema = |data_type| Arc::new(Schema::new(vec![Field::new("a", data_type, true)]));
    let refused = |data_type| {
        let error = write(&schema(data_type), &[], WriterOptions::default()).unwrap_err();
        assert_eq!((error.kind(), error.column()), (ErrorKind::InvalidArgument, Some("a")), "{error}");
    };
    let dictionary = |values| DataType::Dictionary(Box::new(DataType::Int8), Box::new(values));
    refused(dictionary(dictionary(DataType::Utf8)));
    let nested = |depth| (0..depth).fold(DataType::Int8, |inner, _| DataType::List(Arc::new(Field::new("item", inner, true))));
    refused(nested(40));
    let file = write(&schema(nested(25)), &[], WriterOptions { flavor: Flavor::Arrow, ..Default::default() }).unwrap();
    assert_eq!(read_all(&file, 9).unwrap().0, schema(nested(25)));
    FileReader::try_new(Cursor::new(file.to_vec()), None).unwrap();
}

#[test]
fn a_writer_that_has_failed_makes_no_file() {
    use datafusion_fermion::format::alkaid::Writer;
    let field = Field::new("a", DataType::Int64, false);
    let batch = |value| {
        let schema = Arc::new(Schema::new(vec![field.clone().with_nullable(true)]));
        RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![value]))]).unwrap()
    };
    let mut writer = Writer::new(Arc::new(Schema::new(vec![field.clone()])), WriterOptions::default()).unwrap();
    writer.push(&batch(Some(1))).unwrap();
    // A batch that is refused does no harm.
    assert_eq!(writer.push(&batch(None)).unwrap_err().column(), Some("a"));
    let other = RecordBatch::try_from_iter([("a", Arc::new(Int8Array::from(vec![1])) as ArrayRef)]).unwrap();
    writer.push(&other).unwrap_err();
    assert_eq!(writer.finish().unwrap().1.rows, 1);
    // Half of one does.
    let (schema, batches) = batches_of(
        (0..2)
            .map(|from| {
                let values: Vec<String> = (from * 100..from * 100 + 100).map(|value| value.to_string()).collect();
                dictionary(&values.iter().map(String::as_str).collect::<Vec<_>>(), &[Some(99)])
            })
            .collect(),
    );
    let mut writer = Writer::new(schema, WriterOptions { batch_rows: 1, ..Default::default() }).unwrap();
    writer.push(&batches[0]).unwrap();
    writer.push(&batches[1]).unwrap_err();
    assert_eq!(writer.push(&batches[0]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(writer.finish().unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn masked_garbage_is_no_error() {
    // Null slots whose bytes are no text, and text between which there are bytes that are none.
    let bytes = Buffer::from_slice_ref(b"ok\xff\xfeyes\xff");
    let offsets = OffsetBuffer::new(vec![0, 2, 4, 7].into());
    let nulls = NullBuffer::from(vec![true, false, true]);
    let binary = BinaryArray::new(offsets, bytes, Some(nulls));
    let schema = |data_type| Arc::new(Schema::new(vec![Field::new("a", data_type, true)]));
    let batch = RecordBatch::try_new(schema(DataType::Binary), vec![Arc::new(binary)]).unwrap();
    let file = write(&schema(DataType::Binary), &[batch], WriterOptions { form: Form::Stream, ..Default::default() }).unwrap();
    // The same stream that says it is text.
    let text = write(&schema(DataType::Utf8), &[], WriterOptions { form: Form::Stream, ..Default::default() }).unwrap();
    let eos = 8;
    let schema_length = write(&schema(DataType::Binary), &[], WriterOptions { form: Form::Stream, ..Default::default() }).unwrap().len() - eos;
    let stream = Bytes::from([&text[..text.len() - eos], &file[schema_length..]].concat());
    let (_, read) = read_all(&stream, 9).unwrap();
    assert_eq!(read[0].column(0).as_string::<i32>(), &StringArray::from(vec![Some("ok"), None, Some("yes")]));
}

#[test]
fn alkaid_names_its_own_keys_and_arrow_its() {
    let metadata = [("ARROW:extension:name".to_owned(), "uuid".to_owned()), ("mine".to_owned(), "1".to_owned())];
    let field = Field::new("a", DataType::FixedSizeBinary(16), true).with_metadata(metadata.clone().into());
    let schema = Arc::new(Schema::new_with_metadata(vec![field], metadata.into()));
    for (flavor, own, other) in [(Flavor::Alkaid, "ALKAID:extension", "ARROW:extension"), (Flavor::Arrow, "ARROW:extension", "ALKAID:extension")] {
        for form in [Form::File, Form::Stream] {
            let file = write(&schema, &[], WriterOptions { form, flavor, ..Default::default() }).unwrap();
            let has = |key: &str| file.windows(key.len()).any(|window| window == key.as_bytes());
            assert!(has(own) && !has(other), "{flavor:?} {form:?}");
            assert_eq!(read_all(&file, 1).unwrap().0, schema);
        }
    }
}

#[test]
fn uncompressed_buffers_are_not_copied() {
    let (schema, batch) = {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let text: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..1000).map(|row| format!("a value that is long, {row}"))));
        let decimals: ArrayRef = Arc::new(Decimal128Array::from_iter_values(0..1000));
        let batch = RecordBatch::try_from_iter([("n", numbers), ("t", text), ("d", decimals)]).unwrap();
        (batch.schema(), batch)
    };
    let file = write(&schema, &[batch], WriterOptions::default()).unwrap();
    // In memory as it is in a file: from a multiple of 64 on.
    let mut padded = vec![0; file.len() + 64];
    let skip = padded.as_ptr().align_offset(64);
    padded[skip..skip + file.len()].copy_from_slice(&file);
    let file = Bytes::from(padded).slice(skip..skip + file.len());
    let within = file.as_ptr_range();
    let mut store = Store::new(&file);
    let meta = store.open(1 << 20).unwrap();
    let read = store.scan(&meta, request(&meta, &[0, 1, 2], 1000), |_| unreachable!()).unwrap();
    let joined = concat_batches(&schema, &read).unwrap();
    assert_eq!(joined.num_rows(), 1000);
    for column in read[0].columns() {
        for buffer in column.to_data().buffers() {
            assert!(within.contains(&buffer.as_ptr()), "{} was copied", column.data_type());
        }
    }
}
