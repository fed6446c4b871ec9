//! What a scan reads and what it leaves alone.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{BooleanBuffer, OffsetBuffer};
use arrow::compute::{concat_batches, filter};
use arrow::datatypes::*;
use bytes::Bytes;
use datafusion_fermion::format::ErrorKind;
use datafusion_fermion::format::alkaid::{AlkaidScan, Codec, Form, ScanRequest, WriterOptions};
use datafusion_fermion::format::scan::{Answer, Level, Morsel, Scan, Step};

use super::drive::{Store, read_all, request, write};
use crate::random;
use crate::select::{Selected, ids_of, numbered, rows_of};

/// Columns of numbers, of which a batch has 1,000 rows.
fn wide(columns: usize, batches: i64) -> (Bytes, RecordBatch) {
    let rows = batches * 1000;
    let column = |index: usize| -> ArrayRef { Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row * i64::try_from(index + 1).unwrap()))) };
    let batch = RecordBatch::try_from_iter((0..columns).map(|index| (format!("c{index}"), column(index)))).unwrap();
    let options = WriterOptions { batch_rows: 1000, statistics: false, ..Default::default() };
    (write(&batch.schema(), std::slice::from_ref(&batch), options).unwrap(), batch)
}

#[test]
fn only_the_buffers_of_wanted_columns_are_fetched() {
    let (file, batch) = wide(200, 3);
    let mut store = Store::new(&file);
    let meta = store.open(512 << 10).unwrap();
    store.bytes = 0;
    let read = store.scan(&meta, request(&meta, &[17, 150], 10_000), |_| unreachable!()).unwrap();
    assert!(concat_batches(&read[0].schema(), &read).unwrap() == batch.project(&[17, 150]).unwrap());
    assert!(store.bytes <= 3 * 2 * (8000 + 64), "{} bytes", store.bytes);
    // Rows alone need none.
    store.bytes = 0;
    let rows: usize = store.scan(&meta, request(&meta, &[], 10_000), |_| unreachable!()).unwrap().iter().map(RecordBatch::num_rows).sum();
    assert_eq!((rows, store.bytes), (3000, 0));
}

#[test]
fn opening_a_stream_steps_over_large_bodies_and_reads_small_ones_along() {
    let stream = |rows: i64, batch_rows| {
        let batch = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef)]).unwrap();
        write(&batch.schema(), &[batch], WriterOptions { form: Form::Stream, batch_rows, ..Default::default() }).unwrap()
    };
    // 40 bodies of 400 KB.
    let large = stream(2_000_000, 50_000);
    let mut store = Store::new(&large);
    assert_eq!(store.open(512 << 10).unwrap().row_count(), 2_000_000);
    assert!(store.bytes < large.len() / 4 && store.requests < 50, "{} bytes in {} requests", store.bytes, store.requests);
    // 20,000 bodies of 800 bytes.
    let small = stream(2_000_000, 100);
    let mut store = Store::new(&small);
    assert_eq!(store.open(512 << 10).unwrap().row_count(), 2_000_000);
    assert!(store.requests < 15 && store.bytes <= small.len() + (1 << 20), "{} bytes in {} requests", store.bytes, store.requests);
}

#[test]
fn a_file_of_ours_is_opened_without_the_metadata_of_batches() {
    let batch = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from_iter_values(0..1_000_000)) as ArrayRef)]).unwrap();
    let file = write(&batch.schema(), &[batch], WriterOptions { batch_rows: 10_000, ..Default::default() }).unwrap();
    let mut store = Store::new(&file);
    let meta = store.open(64 << 10).unwrap();
    assert_eq!((meta.row_count(), store.requests), (1_000_000, 2));
    let summary = meta.column_summary(0).unwrap();
    let bound = |bound: Option<(ArrayRef, bool)>| bound.map(|(array, exact)| (array.as_primitive::<Int64Type>().value(0), exact));
    assert_eq!((summary.null_count, bound(summary.min), bound(summary.max)), (Some(0), Some((0, true)), Some((999_999, true))));
}

fn with_text() -> (Bytes, RecordBatch) {
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter((0..4000).map(|row| (row % 100 != 7).then_some(row))));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values((0..4000).map(|row| format!("text {row:05}"))));
    let words: ArrayRef = Arc::new((0..4000).map(|row| Some(["a", "b", "c", "d"][row / 1000])).collect::<DictionaryArray<Int8Type>>());
    let nothing: ArrayRef = new_null_array(&DataType::Float64, 4000);
    let batch =
        RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("t", text, true), ("w", words, true), ("x", nothing, true)]).unwrap();
    (write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions { batch_rows: 1000, ..Default::default() }).unwrap(), batch)
}

#[test]
fn batches_are_pruned_by_the_zone_map() {
    let (file, batch) = with_text();
    let mut store = Store::new(&file);
    let meta = store.open(1 << 20).unwrap();
    let prune = ScanRequest { prune_columns: [0, 1, 2, 3].map(Into::into).into(), ..request(&meta, &[1], 10_000) };
    let mut seen = 0;
    let read = store.scan(&meta, prune, |zones| {
        seen += 1;
        assert_eq!((zones.level, zones.row_counts.values().as_ref()), (Level::Stripe, [1000; 4].as_slice()));
        let columns: Vec<usize> = zones.columns.iter().map(|column| column.column.column).collect();
        assert_eq!(columns, [0, 1, 2, 3]);
        assert_eq!(zones.columns[0].min.as_primitive::<Int32Type>().values(), &[0, 1000, 2000, 3000]);
        assert_eq!(zones.columns[0].max.as_primitive::<Int32Type>().values(), &[999, 1999, 2999, 3999]);
        assert_eq!(zones.columns[0].null_counts.values(), &[10; 4]);
        assert_eq!(zones.columns[1].max.as_string::<i32>().value(2), "text 02999");
        // Of a dictionary, only the values that a batch has.
        let words = zones.columns[2].min.as_dictionary::<Int8Type>().downcast_dict::<StringArray>().unwrap();
        assert_eq!(words.into_iter().flatten().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert_eq!((zones.columns[3].min.null_count(), zones.columns[3].null_counts.values().as_ref()), (4, [1000; 4].as_slice()));
        BooleanArray::from(vec![Some(false), None, Some(false), Some(true)])
    });
    let read = concat_batches(&Arc::new(batch.schema().project(&[1]).unwrap()), &read.unwrap()).unwrap();
    assert_eq!(seen, 1);
    assert!(
        read.slice(0, 1000) == batch.project(&[1]).unwrap().slice(1000, 1000)
            && read.slice(1000, 1000) == batch.project(&[1]).unwrap().slice(3000, 1000)
    );
}

#[test]
fn batches_are_asked_for_again_before_they_are_read() {
    let (file, batch) = with_text();
    let mut store = Store::new(&file);
    let meta = store.open(1 << 20).unwrap();
    let columns = [1, 2];
    for wanted in 0..16 {
        let is_wanted = |index: usize| wanted >> index & 1 == 1;
        let again = ScanRequest { prune_columns: vec![0.into()], prune_again: true, ..request(&meta, &columns, 10_000) };
        let mut asked = Vec::new();
        let read = store.scan(&meta, again, |zones| match zones.level {
            Level::Stripe => BooleanArray::from(vec![true; 4]),
            Level::Page => {
                assert_eq!(zones.row_counts.values(), &[1000]);
                let index = usize::try_from(zones.columns[0].min.as_primitive::<Int32Type>().value(0)).unwrap() / 1000;
                asked.push(index);
                BooleanArray::from(vec![is_wanted(index)])
            }
        });
        assert_eq!(asked, [0, 1, 2, 3]);
        let expected: Vec<_> =
            (0..4).filter(|index| is_wanted(*index)).map(|index| batch.project(&columns).unwrap().slice(index * 1000, 1000)).collect();
        assert!(read.unwrap() == expected, "{wanted:b}");
    }
}

#[test]
fn small_batches_are_fetched_together() {
    let column = |factor: i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values((0..100_000).map(|row| row * factor))) };
    let words: ArrayRef = Arc::new((0..100_000).map(|row| Some(["a", "b", "c", "d"][row / 1000 % 4])).collect::<DictionaryArray<Int8Type>>());
    let columns = (1..30).map(|factor| (format!("c{factor}"), column(factor))).chain([("w".to_owned(), words)]);
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    for form in [Form::File, Form::Stream] {
        let options = WriterOptions { form, batch_rows: 1000, ..Default::default() };
        let file = write(&batch.schema(), std::slice::from_ref(&batch), options).unwrap();
        let mut store = Store::new(&file);
        let meta = store.open(1 << 20).unwrap();
        let read = |store: &mut Store, columns: &[usize]| {
            let (requests, bytes) = (store.requests, store.bytes);
            let read = store.scan(&meta, request(&meta, columns, 10_000), |_| unreachable!()).unwrap();
            assert_eq!(read.len(), 100);
            assert!(concat_batches(&read[0].schema(), &read).unwrap() == batch.project(columns).unwrap(), "{form:?}");
            (store.requests - requests, store.bytes - bytes)
        };
        // Metadata of messages first.
        read(&mut store, &[0]);
        let (requests, bytes) = read(&mut store, &[0, 29]);
        assert!((200..210).contains(&requests), "{requests}");
        assert!((900_000..1_100_000).contains(&bytes), "{bytes}");
        let (requests, bytes) = read(&mut store, &(0..30).collect::<Vec<_>>());
        assert!(requests <= 110 && bytes < file.len(), "{requests} requests, {bytes} bytes");
        // Also where there is something to select by that is not worth it: then nothing is asked.
        let mut rounds = |asked: ScanRequest| {
            let before = store.rounds;
            assert_eq!(store.scan(&meta, asked, |_| unreachable!()).unwrap().len(), 100);
            store.rounds - before
        };
        let all = rounds(request(&meta, &[0, 29], 10_000));
        assert!(all < 10, "{all}");
        assert_eq!(rounds(ScanRequest { select_columns: vec![0], select_bytes: u64::MAX, ..request(&meta, &[0, 29], 10_000) }), all);
    }
}

#[test]
fn files_without_a_zone_map_know_their_nulls() {
    let (schema, batch) = {
        let (_, batch) = with_text();
        (batch.schema(), batch)
    };
    for (form, statistics) in [(Form::File, false), (Form::Stream, true)] {
        let file = write(&schema, std::slice::from_ref(&batch), WriterOptions { form, statistics, batch_rows: 1000, ..Default::default() }).unwrap();
        let meta = Store::new(&file).open(1 << 20).unwrap();
        assert!(!meta.has_zone_map());
        let nulls = |column| meta.column_summary(column).unwrap().null_count;
        assert_eq!([nulls(0), nulls(1), nulls(2), nulls(3)], [Some(40), Some(0), None, Some(4000)]);
        assert!(meta.column_summary(0).unwrap().min.is_none());
    }
}

#[test]
fn a_range_of_the_file_has_the_batches_that_begin_in_it() {
    for form in [Form::File, Form::Stream] {
        let (_, batch) = with_text();
        let file = write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions { form, batch_rows: 100, ..Default::default() }).unwrap();
        let mut store = Store::new(&file);
        let meta = store.open(1 << 20).unwrap();
        let length = file.len() as u64;
        let mut rows = Vec::new();
        for part in 0..7 {
            let range: Range<u64> = length * part / 7..length * (part + 1) / 7;
            rows.extend(store.scan(&meta, ScanRequest { range: Some(range), ..request(&meta, &[0, 1, 2, 3], 64) }, |_| unreachable!()).unwrap());
        }
        assert!(concat_batches(&batch.schema(), &rows).unwrap() == batch);
    }
}

#[test]
fn rows_are_selected_before_the_other_columns_are_fetched() {
    let (_, batch) = with_text();
    let batch = numbered(&batch.schema(), std::slice::from_ref(&batch)).unwrap();
    let file = write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions { batch_rows: 1000, ..Default::default() }).unwrap();
    let mut store = Store::new(&file);
    let meta = store.open(1 << 20).unwrap();
    let columns = [4, 0, 3, 1, 2];
    let mut read = |is_wanted: fn(i64) -> bool| {
        let mut selected = Selected::default();
        let asked = ScanRequest { select_columns: vec![1], ..request(&meta, &columns, 300) };
        store.bytes = 0;
        let read = store.scan_selected(&meta, asked, |_| unreachable!(), |morsel| Some(selected.select(morsel, 1, is_wanted))).unwrap();
        let ids = ids_of(&read, 1);
        let expected = rows_of(&batch.project(&columns).unwrap(), &ids).unwrap();
        assert!(concat_batches(&expected.schema(), &read).unwrap() == expected && selected.ids.iter().all(|id| ids.contains(id)));
        (ids.len(), store.bytes)
    };
    let (all, some, none) = (read(|_| true), read(|id| id == 1500), read(|_| false));
    assert_eq!([all.0, some.0, none.0], [4000, 1, 0]);
    // Of one batch in four, all columns are fetched.
    assert!(none.1 < some.1 && some.1 - none.1 < (all.1 - none.1) / 3, "{}, {} and {} bytes", none.1, some.1, all.1);
}

#[test]
fn batches_come_in_the_order_that_is_asked_for() {
    let (file, batch) = with_text();
    let mut store = Store::new(&file);
    let meta = store.open(1 << 20).unwrap();
    let mut scan = AlkaidScan::new(Arc::clone(&meta), ScanRequest { prune_columns: vec![0.into()], ..request(&meta, &[0], 10_000) }).unwrap();
    assert!(matches!(scan.step(Answer::Next).unwrap(), Step::Prune(_)));
    let mut answer = Answer::Visit(vec![3, 1]);
    let mut read = Vec::new();
    loop {
        answer = match scan.step(answer).unwrap() {
            Step::Fetch(fetches) => Answer::Fetched(
                fetches
                    .iter()
                    .map(|fetch| file.slice(usize::try_from(fetch.range.start).unwrap()..usize::try_from(fetch.range.end).unwrap()))
                    .collect(),
            ),
            Step::Decode(mut morsel) => {
                read.push(morsel.next_batch().unwrap().unwrap());
                Answer::Next
            }
            Step::Done => break,
            Step::Prune(_) | Step::Lookup(_) | Step::Select(_) => unreachable!(),
        };
    }
    let column = batch.project(&[0]).unwrap();
    assert!(read == [column.slice(3000, 1000), column.slice(1000, 1000)]);
    // Batches that there are not, and more than there are.
    for wrong in [vec![1000], vec![0; 1000]] {
        let mut scan = AlkaidScan::new(Arc::clone(&meta), ScanRequest { prune_columns: vec![0.into()], ..request(&meta, &[0], 10_000) }).unwrap();
        scan.step(Answer::Next).unwrap();
        assert_eq!(scan.step(Answer::Visit(wrong)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    // An answer to something else is refused.
    AlkaidScan::new(meta, request(&store.open(1 << 20).unwrap(), &[0], 1)).unwrap().step(Answer::Fetched(vec![])).unwrap_err();
}

/// The first morsel of a scan of all columns.
fn morsel(file: &Bytes, schema: Option<SchemaRef>, batch_rows: usize) -> Box<dyn Morsel> {
    let mut store = Store::new(file);
    let meta = store.open(1 << 20).unwrap();
    let columns: Vec<usize> = (0..meta.column_count()).collect();
    let mut asked = request(&meta, &columns, batch_rows);
    asked.schema = schema.unwrap_or(asked.schema);
    let mut scan = AlkaidScan::new(meta, asked).unwrap();
    let mut answer = Answer::Next;
    loop {
        answer = match scan.step(answer).unwrap() {
            Step::Fetch(fetches) => Answer::Fetched(
                fetches
                    .iter()
                    .map(|fetch| file.slice(usize::try_from(fetch.range.start).unwrap()..usize::try_from(fetch.range.end).unwrap()))
                    .collect(),
            ),
            Step::Decode(morsel) => return morsel,
            other => panic!("{other:?}"),
        };
    }
}

#[test]
fn dictionaries_give_their_codes() {
    let (file, batch) = with_text();
    let words = || Field::new("w", batch.column(2).data_type().clone(), true);
    let plain = |data_type| Field::new("w", data_type, true);
    for field in [words(), plain(DataType::Utf8), plain(DataType::Utf8View)] {
        let mut fields: Vec<Field> = batch.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        fields[2] = field;
        let out = fields[2].data_type().clone();
        let mut morsel = morsel(&file, Some(Arc::new(Schema::new(fields))), 700);
        let rows = morsel.next_rows(1);
        assert!(morsel.coded(2, &rows, 60).unwrap().is_none());
        assert!(morsel.coded(0, &rows, 1000).unwrap().is_none());
        let coded = morsel.coded(2, &rows, 500).unwrap().unwrap();
        assert_eq!((coded.parts.len(), coded.nulls.is_none()), (1, true));
        let part = &coded.parts[0];
        assert_eq!((part.values.data_type(), part.codes.len()), (&out, 700));
        let looked_up = arrow::compute::take(&part.values, &UInt32Array::from_iter_values(part.codes.iter()), None).unwrap();
        assert!(morsel.read(&[2], &rows).unwrap() == [looked_up]);
    }
}

#[test]
fn rows_are_picked_of_every_type() {
    for seed in 0..60 {
        let mut rng = random::rng(seed);
        let data_type = random::data_type(&mut rng, 2);
        if matches!(&data_type, DataType::Dictionary(_, values) if matches!(**values, DataType::Dictionary(..))) {
            continue;
        }
        let array = random::array(&mut rng, &data_type, 6000, true);
        let batch = RecordBatch::try_from_iter_with_nullable([("a", array, true)]).unwrap();
        let Ok(file) = write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions { compression: Some(Codec::Lz4), ..Default::default() })
        else {
            continue;
        };
        let mut morsel = morsel(&file, None, 4000);
        let mut at = 0;
        loop {
            let rows = morsel.next_rows(1);
            if rows.is_empty() {
                break;
            }
            let expected = batch.column(0).slice(at, rows.len());
            assert!(morsel.read(&[0], &rows).unwrap() == [Arc::clone(&expected)], "{data_type}");
            let keep: BooleanArray = (0..rows.len()).map(|row| Some(row % 3000 < 500 && row % 9 == 2)).collect();
            let kept = morsel.read_kept(0, &rows, keep.values()).unwrap().unwrap();
            assert!(kept == filter(&expected, &keep).unwrap(), "{data_type}");
            // The blocks with such rows, which are not next to each other.
            let (blocks, bits) = rows.blocks_with(keep.values());
            assert!(morsel.read_kept(0, &blocks, &bits).unwrap().unwrap() == Arc::clone(&kept), "{data_type}");
            assert!(blocks.len() < rows.len());
            let whole = morsel.read(&[0], &blocks).unwrap().pop().unwrap();
            assert!(filter(&whole, &BooleanArray::from(bits)).unwrap() == kept, "{data_type}");
            at += rows.len();
        }
        assert_eq!(at, 6000);
    }
}

#[test]
fn columns_are_read_as_types_like_theirs_and_no_others() {
    let (file, batch) = with_text();
    let meta = Store::new(&file).open(1 << 20).unwrap();
    let as_type = |column: usize, data_type: DataType| ScanRequest {
        schema: Arc::new(Schema::new(vec![Field::new("a", data_type, true)])),
        ..request(&meta, &[column], 10_000)
    };
    for (column, data_type) in
        [(1, DataType::Utf8View), (1, DataType::LargeUtf8), (1, DataType::Binary), (2, DataType::Utf8), (2, DataType::Utf8View)]
    {
        let read = Store::new(&file).scan(&meta, as_type(column, data_type.clone()), |_| unreachable!()).unwrap();
        let expected = arrow::compute::cast(batch.column(column), &data_type).unwrap();
        assert!(read.iter().enumerate().all(|(index, read)| read.column(0) == &expected.slice(index * 1000, 1000)), "{data_type}");
    }
    for (column, data_type) in [(0, DataType::Int64), (1, DataType::Int32), (0, DataType::Utf8)] {
        AlkaidScan::new(Arc::clone(&meta), as_type(column, data_type)).unwrap_err();
    }
}

#[test]
fn a_flipped_zone_map_is_no_zone_map() {
    let (file, _) = with_text();
    let key = b"fermion:zones:1";
    let at = file.windows(key.len()).position(|window| window == key).unwrap();
    let mut refused = 0;
    // Values of custom metadata are near their keys.
    for at in at.saturating_sub(400)..(at + 400).min(file.len()) {
        let mut broken = file.to_vec();
        broken[at] ^= 1;
        let broken = Bytes::from(broken);
        let mut store = Store::new(&broken);
        let Ok(meta) = store.open(1 << 20) else { continue };
        match meta.column_summary(1) {
            Err(_) => refused += 1,
            Ok(summary) => {
                let known = summary.max.map(|(array, _)| array.as_string::<i32>().value(0).to_owned());
                assert!(known.is_none_or(|known| known == "text 03999"));
            }
        }
    }
    assert!(refused > 50, "{refused}");
    assert_eq!(read_all(&file, 4000).unwrap().1.len(), 4);
}

#[test]
fn rows_of_runs_keep_the_names_of_their_fields() {
    let ends = Arc::new(Field::new("ends", DataType::Int32, false));
    let values = Arc::new(Field::new("of", DataType::Int64, false).with_metadata([("a".to_owned(), "b".to_owned())].into()));
    let runs = RunArray::<Int32Type>::try_new(&Int32Array::from(vec![3, 1000, 2000]), &Int64Array::from(vec![7, 8, 9])).unwrap();
    let runs = make_array(runs.to_data().into_builder().data_type(DataType::RunEndEncoded(ends, values)).build().unwrap());
    let batch = RecordBatch::try_from_iter([("r", Arc::clone(&runs))]).unwrap();
    let file = write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions::default()).unwrap();
    let mut morsel = morsel(&file, None, 4000);
    let rows = morsel.next_rows(1);
    let keep: BooleanBuffer = (0..2000).map(|row| row % 500 == 1).collect();
    let kept = morsel.read_kept(0, &rows, &keep).unwrap().unwrap();
    assert_eq!((kept.data_type(), kept.len()), (runs.data_type(), 4));
    let kept = kept.as_any().downcast_ref::<RunArray<Int32Type>>().unwrap().downcast::<Int64Array>().unwrap();
    assert_eq!(kept.into_iter().collect::<Vec<_>>(), [Some(7), Some(8), Some(9), Some(9)]);
}

#[test]
fn lists_of_very_many_values_are_counted_without_them() {
    let values: ArrayRef = Arc::new(BooleanArray::new(BooleanBuffer::new_unset((1 << 28) + 8), None));
    let length = i32::try_from(values.len()).unwrap();
    let list = ListArray::new(Arc::new(Field::new("item", DataType::Boolean, false)), OffsetBuffer::new(vec![0, 0, length].into()), values, None);
    let batch = RecordBatch::try_from_iter([("l", Arc::new(list) as ArrayRef)]).unwrap();
    let file = write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions { statistics: false, ..Default::default() }).unwrap();
    let counted = DataType::List(Arc::new(Field::new("item", DataType::Null, true)));
    let schema = Arc::new(Schema::new(vec![Field::new("l", counted, false)]));
    let read = morsel(&file, Some(schema), 10).next_batch().unwrap().unwrap();
    assert_eq!(read.column(0).as_list::<i32>().value_length(1), length);
}

#[test]
fn strings_that_are_written_out_are_so_for_fewer_rows() {
    let text = "x".repeat(1 << 20);
    let mut builder = StringViewBuilder::new();
    let block = builder.append_block(text.into_bytes().into());
    for _ in 0..160 {
        builder.try_append_view(block, 0, 1 << 20).unwrap();
    }
    let batch = RecordBatch::try_from_iter([("v", Arc::new(builder.finish()) as ArrayRef)]).unwrap();
    let file = write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions::default()).unwrap();
    let as_strings = Arc::new(Schema::new(vec![Field::new("v", DataType::Utf8, true)]));
    let (mut read, mut rows) = (morsel(&file, Some(as_strings), 1000), Vec::new());
    while let Some(batch) = read.next_batch().unwrap() {
        assert!(batch.column(0).as_string::<i32>().iter().flatten().all(|text| text.len() == 1 << 20));
        rows.push(batch.num_rows());
    }
    assert_eq!(rows, [80, 80]);
}
