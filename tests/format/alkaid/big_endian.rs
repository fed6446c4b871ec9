//! Bytes of a big-endian machine: what our writer makes of all types, each number turned by hand, is what it was.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow::array::*;
use arrow::compute::cast;
use arrow::datatypes::*;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_ipc as fb;
use bytes::Bytes;
use datafusion_fermion::format::alkaid::{Codec, Flavor, Form, WriterOptions};
use flatbuffers::{FlatBufferBuilder, WIPOffset};
use proptest::prelude::*;

use super::claims::framed;
use super::drive::{Store, read_all, read_all_with, request, write};
use crate::random;

const FORMS: [Form; 2] = [Form::File, Form::Stream];
const CODECS: [Option<Codec>; 3] = [None, Some(Codec::Lz4), Some(Codec::Zstd)];

/// The end of a stream: a message without metadata.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Widths of the numbers that a buffer repeats. A single byte has no order.
const BYTES: &[usize] = &[1];
const FOUR: &[usize] = &[4];
const EIGHT: &[usize] = &[8];

/// The widths of the numbers that a value is.
fn numbers(data_type: &DataType) -> &'static [usize] {
    use DataType::*;
    match data_type {
        Boolean | FixedSizeBinary(_) | Int8 | UInt8 => BYTES,
        Int16 | UInt16 | Float16 => &[2],
        Int32 | UInt32 | Float32 | Date32 | Time32(_) | Decimal32(..) | Interval(IntervalUnit::YearMonth) => FOUR,
        Int64 | UInt64 | Float64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => EIGHT,
        Decimal128(..) => &[16],
        Decimal256(..) => &[32],
        Interval(IntervalUnit::DayTime) => &[4, 4],
        Interval(IntervalUnit::MonthDayNano) => &[4, 4, 8],
        other => panic!("values of {other} are of no fixed width"),
    }
}

/// The buffers of a field without those of its children, but for views and what is behind them.
fn layout(data_type: &DataType) -> Vec<&'static [usize]> {
    use DataType::*;
    match data_type {
        Null | RunEndEncoded(..) => vec![],
        Struct(_) | FixedSizeList(..) | Union(_, UnionMode::Sparse) | BinaryView | Utf8View => vec![BYTES],
        List(_) | Map(..) | Union(_, UnionMode::Dense) => vec![BYTES, FOUR],
        LargeList(_) => vec![BYTES, EIGHT],
        ListView(_) => vec![BYTES, FOUR, FOUR],
        LargeListView(_) => vec![BYTES, EIGHT, EIGHT],
        Binary | Utf8 => vec![BYTES, FOUR, BYTES],
        LargeBinary | LargeUtf8 => vec![BYTES, EIGHT, BYTES],
        Dictionary(keys, _) => vec![BYTES, numbers(keys)],
        fixed => vec![BYTES, numbers(fixed)],
    }
}

/// The types of the children. Those of a dictionary's values are not with its codes.
fn children(data_type: &DataType) -> Vec<&DataType> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) | DataType::LargeListView(item) => vec![item.data_type()],
        DataType::FixedSizeList(item, _) | DataType::Map(item, _) => vec![item.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field.data_type()).collect(),
        DataType::RunEndEncoded(ends, values) => vec![ends.data_type(), values.data_type()],
        _ => vec![],
    }
}

/// Turns each number in items of these widths.
fn reverse(bytes: &mut [u8], widths: &[usize]) {
    let width: usize = widths.iter().sum();
    assert!(bytes.len().is_multiple_of(width), "{} bytes are no items of {width}", bytes.len());
    for item in bytes.chunks_exact_mut(width) {
        let mut at = 0;
        for width in widths {
            item[at..at + width].reverse();
            at += width;
        }
    }
}

/// The length of a little-endian view tells what is behind it: bytes, or the first of them and two numbers.
fn reverse_views(views: &mut [u8]) {
    assert!(views.len().is_multiple_of(16));
    for view in views.chunks_exact_mut(16) {
        let length = i32::from_le_bytes(view[..4].try_into().unwrap());
        view[..4].reverse();
        if length > 12 {
            reverse(&mut view[8..], FOUR);
        }
    }
}

/// Turns the numbers of a field and of its children, depth first.
fn turn<'a>(data_type: &DataType, buffers: &mut impl Iterator<Item = &'a mut Vec<u8>>, variadic: &mut impl Iterator<Item = i64>) {
    for widths in layout(data_type) {
        reverse(buffers.next().unwrap(), widths);
    }
    if matches!(data_type, DataType::BinaryView | DataType::Utf8View) {
        reverse_views(buffers.next().unwrap());
        for _ in 0..variadic.next().unwrap() {
            buffers.next().unwrap();
        }
    }
    for child in children(data_type) {
        turn(child, buffers, variadic);
    }
}

fn size(value: i64) -> usize {
    usize::try_from(value).unwrap()
}

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap()
}

/// The metadata and bodies of the messages of a file or stream.
fn messages(bytes: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut rest = bytes.strip_prefix(b"ARROW1\0\0").unwrap_or(bytes);
    let mut found = Vec::new();
    while !rest.starts_with(&END) {
        assert_eq!(rest[..4], END[..4]);
        let length = i32::from_le_bytes(rest[4..8].try_into().unwrap());
        let (metadata, behind) = rest[8..].split_at(usize::try_from(length).unwrap());
        let (body, behind) = behind.split_at(size(fb::root_as_message(metadata).unwrap().bodyLength()));
        found.push((metadata, body));
        rest = behind;
    }
    found
}

/// The types of dictionaries' values, by id.
fn dictionaries(field: &fb::Field<'_>, data_type: &DataType, found: &mut HashMap<i64, DataType>) {
    let values = match data_type {
        DataType::Dictionary(_, values) => {
            found.insert(field.dictionary().unwrap().id(), values.as_ref().clone());
            values.as_ref()
        }
        other => other,
    };
    for (child, data_type) in field.children().into_iter().flatten().zip(children(values)) {
        dictionaries(&child, data_type, found);
    }
}

/// A buffer as it is stored. Lengths are little-endian always.
fn stored(buffer: &[u8], codec: Option<Codec>, is_raw: bool) -> Vec<u8> {
    let prefixed = |length: i64, bytes: &[u8]| [length.to_le_bytes().as_slice(), bytes].concat();
    let length = signed(buffer.len());
    match codec {
        _ if buffer.is_empty() => Vec::new(),
        None => buffer.to_vec(),
        Some(_) if is_raw => prefixed(-1, buffer),
        Some(Codec::Lz4) => {
            let mut encoder = lz4::EncoderBuilder::new().build(Vec::new()).unwrap();
            encoder.write_all(buffer).unwrap();
            prefixed(length, &encoder.finish().0)
        }
        Some(Codec::Zstd) => prefixed(length, &zstd::bulk::compress(buffer, 1).unwrap()),
    }
}

/// A body, and where its buffers are. Of those that are compressed every third is not, which its length says.
fn body(buffers: &[Vec<u8>], codec: Option<Codec>) -> (Vec<fb::Buffer>, Vec<u8>) {
    let (mut places, mut body) = (Vec::new(), Vec::new());
    for (index, buffer) in buffers.iter().enumerate() {
        let stored = stored(buffer, codec, index % 3 == 2);
        places.push(fb::Buffer::new(signed(body.len()), signed(stored.len())));
        body.extend_from_slice(&stored);
        body.resize(body.len().next_multiple_of(8), 0);
    }
    (places, body)
}

/// The framed metadata of a batch like this one, whose buffers are in other places.
fn metadata(batch: &fb::RecordBatch<'_>, dictionary: Option<(i64, bool)>, places: &[fb::Buffer], body: &[u8], codec: Option<Codec>) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let nodes: Vec<fb::FieldNode> = batch.nodes().into_iter().flatten().copied().collect();
    let nodes = Some(builder.create_vector(&nodes));
    let buffers = Some(builder.create_vector(places));
    let variadic: Option<Vec<i64>> = batch.variadicBufferCounts().map(|counts| counts.iter().collect());
    let variadic = variadic.map(|counts| builder.create_vector(&counts));
    let compression = codec.map(|codec| {
        let codec = if codec == Codec::Lz4 { fb::CompressionType::LZ4_FRAME } else { fb::CompressionType::ZSTD };
        fb::BodyCompression::create(&mut builder, &fb::BodyCompressionArgs { codec, ..Default::default() })
    });
    let args = fb::RecordBatchArgs { length: batch.length(), nodes, buffers, compression, variadicBufferCounts: variadic };
    let records = fb::RecordBatch::create(&mut builder, &args);
    let (header_type, header) = match dictionary {
        None => (fb::MessageHeader::RecordBatch, records.as_union_value()),
        Some((id, is_delta)) => {
            let args = fb::DictionaryBatchArgs { id, data: Some(records), isDelta: is_delta };
            (fb::MessageHeader::DictionaryBatch, fb::DictionaryBatch::create(&mut builder, &args).as_union_value())
        }
    };
    let version = fb::MetadataVersion::V5;
    let args = fb::MessageArgs { version, header_type, header: Some(header), bodyLength: signed(body.len()), custom_metadata: None };
    let message = fb::Message::create(&mut builder, &args);
    builder.finish(message, None);
    framed(builder.finished_data())
}

/// How far a vector's length, which is before its items, is from the end of the metadata.
fn from_end(metadata: &[u8], items: &[u8]) -> u32 {
    let before = items.as_ptr().addr() - metadata.as_ptr().addr();
    u32::try_from(metadata.len() - before + 4).unwrap()
}

/// A schema with the fields of that of a message, whose order of bytes is the other. The builder has to be new.
fn big_schema<'a>(builder: &mut FlatBufferBuilder<'a>, metadata: &[u8]) -> WIPOffset<fb::Schema<'a>> {
    // A builder begins with the end and counts from there, so that the places of what is there first are known. Words keep it aligned.
    assert!(metadata.len().is_multiple_of(8));
    let words: Vec<u64> = metadata.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    builder.create_vector(&words);
    let message = fb::root_as_message(metadata).unwrap();
    let schema = message.header_as_schema().unwrap();
    let fields = schema.fields().map(|fields| WIPOffset::new(from_end(metadata, fields.bytes())));
    let custom_metadata = schema.custom_metadata().map(|pairs| WIPOffset::new(from_end(metadata, pairs.bytes())));
    fb::Schema::create(builder, &fb::SchemaArgs { endianness: fb::Endianness::Big, fields, custom_metadata, features: None })
}

/// The framed message of that schema.
fn schema_message(metadata: &[u8]) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let header = Some(big_schema(&mut builder, metadata).as_union_value());
    let (version, header_type) = (fb::MetadataVersion::V5, fb::MessageHeader::Schema);
    let message = fb::Message::create(&mut builder, &fb::MessageArgs { version, header_type, header, bodyLength: 0, custom_metadata: None });
    builder.finish(message, None);
    framed(builder.finished_data())
}

/// The footer of a file with that schema, its length and the magic.
fn ending(metadata: &[u8], dictionaries: &[fb::Block], batches: &[fb::Block]) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let schema = Some(big_schema(&mut builder, metadata));
    let dictionaries = Some(builder.create_vector(dictionaries));
    let batches = Some(builder.create_vector(batches));
    let version = fb::MetadataVersion::V5;
    let footer = fb::Footer::create(&mut builder, &fb::FooterArgs { version, schema, dictionaries, recordBatches: batches, custom_metadata: None });
    builder.finish(footer, None);
    let footer = builder.finished_data();
    let length = i32::try_from(footer.len()).unwrap();
    [footer, &length.to_le_bytes(), b"ARROW1"].concat()
}

/// The buffers of a batch in the other order.
fn turned(batch: &fb::RecordBatch<'_>, body: &[u8], types: &[&DataType]) -> Vec<Vec<u8>> {
    let contents = |buffer: &fb::Buffer| body[size(buffer.offset())..][..size(buffer.length())].to_vec();
    let mut buffers: Vec<Vec<u8>> = batch.buffers().into_iter().flatten().map(contents).collect();
    let mut variadic = batch.variadicBufferCounts().into_iter().flatten();
    let mut rest = buffers.iter_mut();
    for data_type in types {
        turn(data_type, &mut rest, &mut variadic);
    }
    assert!(rest.next().is_none() && variadic.next().is_none(), "buffers of no field");
    buffers
}

/// The same file or stream as a machine of the other order would have written it. What is given is not compressed.
fn big_endian(little: &[u8], schema: &Schema, codec: Option<Codec>) -> Bytes {
    let is_file = little.starts_with(b"ARROW1");
    let messages = messages(little);
    let first = messages[0].0;
    let mut values = HashMap::new();
    let fields = fb::root_as_message(first).unwrap().header_as_schema().unwrap().fields().unwrap();
    for (field, of) in fields.iter().zip(schema.fields()) {
        dictionaries(&field, of.data_type(), &mut values);
    }
    let mut out = if is_file { b"ARROW1\0\0".to_vec() } else { Vec::new() };
    out.extend_from_slice(&schema_message(first));
    let (mut of_dictionaries, mut of_batches) = (Vec::new(), Vec::new());
    for (bytes, contents) in &messages[1..] {
        let message = fb::root_as_message(bytes).unwrap();
        let (batch, dictionary) = match message.header_as_dictionary_batch() {
            Some(values) => (values.data().unwrap(), Some((values.id(), values.isDelta()))),
            None => (message.header_as_record_batch().unwrap(), None),
        };
        assert!(batch.compression().is_none());
        let types: Vec<&DataType> = match dictionary {
            Some((id, _)) => vec![&values[&id]],
            None => schema.fields().iter().map(|field| field.data_type()).collect(),
        };
        let (places, body) = body(&turned(&batch, contents, &types), codec);
        let metadata = metadata(&batch, dictionary, &places, &body, codec);
        let blocks = if dictionary.is_some() { &mut of_dictionaries } else { &mut of_batches };
        blocks.push(fb::Block::new(signed(out.len()), i32::try_from(metadata.len()).unwrap(), signed(body.len())));
        out.extend_from_slice(&metadata);
        out.extend_from_slice(&body);
    }
    out.extend_from_slice(&END);
    if is_file {
        out.extend_from_slice(&ending(first, &of_dictionaries, &of_batches));
    }
    Bytes::from(out)
}

/// To Arrow, a NaN is not what it is; its text is.
fn same(one: &ArrayRef, other: &ArrayRef) -> bool {
    let options = FormatOptions::new().with_null("null");
    let texts = |array: &ArrayRef| -> Vec<String> {
        let format = ArrayFormatter::try_new(array.as_ref(), &options).unwrap();
        (0..array.len()).map(|row| format.value(row).to_string()).collect()
    };
    one == other || texts(one) == texts(other)
}

fn assert_same(what: &str, have: &[RecordBatch], want: &[RecordBatch]) {
    assert_eq!(have.len(), want.len(), "{what}");
    for (have, want) in have.iter().zip(want) {
        assert_eq!(have.num_rows(), want.num_rows(), "{what}");
        for (have, want) in have.columns().iter().zip(want.columns()) {
            assert!(same(have, want), "{what}, {}:\n{have:?}\n{want:?}", have.data_type());
        }
    }
}

/// Reads what our writer wrote, and the same of the other order: all at once, and in small parts after opening with next to nothing.
fn check(little: &Bytes, schema: &SchemaRef) {
    let twins = CODECS.map(|codec| (format!("big-endian, {codec:?}"), big_endian(little, schema, codec)));
    for (batch_rows, prefetch) in [(usize::MAX, 1 << 20), (50, 1)] {
        let (_, want) = read_all_with(little, batch_rows, prefetch).unwrap();
        for (what, big) in &twins {
            let (read_schema, have) = read_all_with(big, batch_rows, prefetch).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(&read_schema, schema, "{what}");
            assert_same(what, &have, &want);
        }
    }
}

/// A batch is no larger than `batch_rows`.
fn options(form: Form, batch_rows: usize) -> WriterOptions {
    WriterOptions { form, flavor: Flavor::Arrow, batch_rows, ..Default::default() }
}

fn field(name: &str, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type, true))
}

fn dictionary(keys: DataType, values: DataType) -> DataType {
    DataType::Dictionary(Box::new(keys), Box::new(values))
}

/// Every layout around an item.
fn around(item: &DataType) -> Vec<DataType> {
    use DataType::*;
    let named = |name: &str| field(name, item.clone());
    let entries = vec![Arc::new(Field::new("keys", Utf8, false)), named("values")];
    let mut types = vec![
        List(named("item")),
        LargeList(named("item")),
        ListView(named("item")),
        LargeListView(named("item")),
        FixedSizeList(named("item"), 3),
        Struct(vec![named("a"), field("n", Int16), named("b")].into()),
        Map(Arc::new(Field::new("entries", Struct(entries.into()), false)), false),
    ];
    for mode in [UnionMode::Sparse, UnionMode::Dense] {
        let fields = UnionFields::try_new(vec![3_i8, 0], vec![named("a"), field("n", Int64)]).unwrap();
        types.push(Union(fields, mode));
    }
    // A dictionary of codes has no place in a schema.
    if !matches!(item, Dictionary(..)) {
        types.extend([Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64].map(|keys| dictionary(keys, item.clone())));
    }
    types
}

/// Every type, and every layout.
fn types() -> Vec<DataType> {
    use DataType::*;
    let mut types = random::leaf_types();
    for item in [Int16, Utf8, BinaryView, Interval(IntervalUnit::MonthDayNano), Decimal256(76, 20), dictionary(UInt16, Int64)] {
        types.extend(around(&item));
    }
    for ends in [Int16, Int32, Int64] {
        for values in [Utf8, Int32, Float64, Boolean] {
            let runs = RunEndEncoded(Arc::new(Field::new("run_ends", ends.clone(), false)), field("values", values));
            types.push(List(field("item", runs.clone())));
            types.push(runs);
        }
    }
    // Dictionaries whose values have dictionaries.
    let structs = Struct(vec![field("d", dictionary(UInt16, Utf8)), field("n", Int64)].into());
    types.push(dictionary(Int64, structs));
    types.push(dictionary(UInt8, List(field("item", dictionary(Int32, Decimal128(38, 10))))));
    types
}

/// A column of each type. What is null is another for every seed.
fn wide(seed: u64) -> (SchemaRef, RecordBatch) {
    let mut rng = random::rng(seed);
    let pair = |key: &str| HashMap::from([(key.to_owned(), "a value".to_owned())]);
    let fields: Vec<Field> = types()
        .into_iter()
        .enumerate()
        .map(|(index, of)| Field::new(format!("column {index}"), of, true).with_metadata(pair("of a field")))
        .collect();
    let columns = fields.iter().map(|field| random::array(&mut rng, field.data_type(), 300, true)).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, pair("of the schema")));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    (schema, batch)
}

#[test]
fn every_type_comes_back_from_big_endian_bytes() {
    for seed in 0..6 {
        let (schema, batch) = wide(seed);
        for form in FORMS {
            check(&write(&schema, std::slice::from_ref(&batch), options(form, 128)).unwrap(), &schema);
        }
    }
}

#[test]
fn columns_are_turned_whether_or_not_others_are_read() {
    let (schema, batch) = wide(7);
    let little = write(&schema, &[batch], options(Form::File, 128)).unwrap();
    for codec in CODECS {
        let mut stores = [Store::new(&big_endian(&little, &schema, codec)), Store::new(&little)];
        let metas = [0, 1].map(|store: usize| stores[store].open(1 << 20).unwrap());
        for column in 0..schema.fields().len() {
            let [have, want] = [0, 1].map(|store: usize| {
                let request = request(&metas[store], &[column], 1000);
                stores[store].scan(&metas[store], request, |_| unreachable!("nothing to prune by")).unwrap()
            });
            assert_same(&format!("column {column} alone, {codec:?}"), &have, &want);
        }
    }
}

#[test]
fn dictionaries_that_grow_and_are_replaced_are_big_endian_too() {
    const LARGE: i64 = 1 << 40;
    let data_type = dictionary(DataType::Int16, DataType::Int64);
    let schema = Arc::new(Schema::new(vec![Field::new("d", data_type, true)]));
    let batch = |values: &[i64], codes: [Option<i16>; 3]| {
        let values = Arc::new(Int64Array::from(values.to_vec()));
        let array = DictionaryArray::<Int16Type>::try_new(Int16Array::from(codes.to_vec()), values).unwrap();
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(array)]).unwrap()
    };
    let batches = [
        batch(&[10, 2000], [Some(1), None, Some(0)]),
        batch(&[10, 2000, LARGE], [Some(2), Some(1), Some(0)]),
        batch(&[-7, LARGE], [Some(1), Some(0), None]),
    ];
    let expected = Int64Array::from(vec![Some(2000), None, Some(10), Some(LARGE), Some(2000), Some(10), Some(LARGE), Some(-7), None]);
    for form in FORMS {
        let little = write(&schema, &batches, options(form, 3)).unwrap();
        check(&little, &schema);
        for codec in CODECS {
            let (_, read) = read_all(&big_endian(&little, &schema, codec), 3).unwrap();
            let values: Vec<Option<i64>> = read
                .iter()
                .flat_map(|batch| cast(batch.column(0), &DataType::Int64).unwrap().as_primitive::<Int64Type>().iter().collect::<Vec<_>>())
                .collect();
            assert_eq!(Int64Array::from(values), expected, "{form:?} {codec:?}");
        }
    }
}

#[test]
fn tables_without_rows_or_columns_have_an_order_too() {
    let (schema, batch) = wide(8);
    let none = Arc::new(Schema::empty());
    for form in FORMS {
        check(&write(&schema, &[], options(form, 9)).unwrap(), &schema);
        check(&write(&schema, &[batch.slice(0, 1)], options(form, 9)).unwrap(), &schema);
        check(&write(&none, &[], options(form, 9)).unwrap(), &none);
    }
}

/// The twin that all other tests compare with is big-endian indeed.
#[test]
fn numbers_begin_with_their_highest_byte() {
    let numbers = [1_i64, -2, 1 << 40];
    let batch = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(numbers.to_vec())) as ArrayRef)]).unwrap();
    let has = |file: &[u8], bytes: &[u8]| file.windows(bytes.len()).any(|window| window == bytes);
    for form in FORMS {
        let little = write(&batch.schema(), std::slice::from_ref(&batch), options(form, 9)).unwrap();
        let big = big_endian(&little, &batch.schema(), None);
        let (of_little, of_big) = (numbers.map(i64::to_le_bytes).concat(), numbers.map(i64::to_be_bytes).concat());
        assert!(has(&little, &of_little) && !has(&little, &of_big));
        assert!(has(&big, &of_big) && !has(&big, &of_little));
        let (_, read) = read_all(&big, 9).unwrap();
        assert_eq!(read[0].column(0).as_primitive::<Int64Type>().values(), &numbers);
    }
}

#[test]
fn values_of_several_numbers_are_turned_number_by_number() {
    let turned = |data_type: DataType, value: &[u8]| {
        let mut buffers = [Vec::new(), value.to_vec()];
        turn(&data_type, &mut buffers.iter_mut(), &mut std::iter::once(0));
        buffers[1].clone()
    };
    let day_time = turned(DataType::Interval(IntervalUnit::DayTime), &[1, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(day_time, [0, 0, 0, 1, 0, 0, 0, 2]);
    let month_day_nano = turned(DataType::Interval(IntervalUnit::MonthDayNano), &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(month_day_nano, [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3]);
    assert_eq!(turned(DataType::Decimal128(38, 0), &5_i128.to_le_bytes()), 5_i128.to_be_bytes());
    let short = turned(DataType::Utf8View, &[12, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    assert_eq!(short, [0, 0, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    let long = turned(DataType::Utf8View, &[13, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0, 9, 0, 0, 0]);
    assert_eq!(long, [0, 0, 0, 13, 1, 2, 3, 4, 0, 0, 0, 5, 0, 0, 0, 9]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_tables_come_back_from_big_endian_bytes(seed in any::<u64>(), is_file in any::<bool>()) {
        let (schema, batches) = random::table(seed);
        let form = if is_file { Form::File } else { Form::Stream };
        // Dictionaries of codes cannot be written, nor those of a file that are too large together.
        if let Ok(little) = write(&schema, &batches, options(form, 1000)) {
            check(&little, &schema);
        }
    }
}
