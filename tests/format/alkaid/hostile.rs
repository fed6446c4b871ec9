//! No bytes make the reader panic, or take memory that the file has not earned.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;
use arrow_ipc as fb;
use bytes::Bytes;
use datafusion_fermion::format::alkaid::WriterOptions;
use datafusion_fermion::format::scan::Section;
use datafusion_fermion::format::{Error, ErrorKind};
use flatbuffers::FlatBufferBuilder;

use super::claims::{Claims, framed, ints, of_ints, stream, stream_of};
use super::drive::{Store, read_all, read_all_with, write};

/// Reads, and looks at every value of what was read.
pub(super) fn read(file: &Bytes) -> Result<Vec<RecordBatch>, Error> {
    let (schema, batches) = read_all(file, 100)?;
    for batch in &batches {
        assert_eq!(batch.schema(), schema);
        for column in batch.columns() {
            column.to_data().validate_full().unwrap();
        }
    }
    Ok(batches)
}

#[test]
fn what_is_no_file_is_refused_and_named() {
    for (bytes, text) in [
        (b"".as_slice(), "too few"),
        (b"PAR1 and something behind it", ""),
        (b"FEA1 and something behind it", "Feather V1"),
        (b"ARROW1\0\0 and nothing behind it", "does not end with it"),
        (b"ALKAID1\0 and another magic ARROW1", "does not end with it"),
        (&[0; 64], "no schema"),
        (&[0xff; 64], "-1 bytes"),
    ] {
        for prefetch in [1, 1 << 20] {
            let error = read_all_with(&Bytes::copy_from_slice(bytes), 1, prefetch).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}

fn refused(data_type: DataType, messages: &[Claims]) -> Error {
    let error = read(&stream(data_type, messages)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InvalidFile | ErrorKind::Eof | ErrorKind::UnsupportedVersion), "{error}");
    error
}

#[test]
fn claims_that_the_body_does_not_keep_are_refused() {
    assert_eq!(read(&stream(DataType::Int32, &[ints()])).unwrap()[0].column(0).as_primitive::<Int32Type>().values(), &[1, 2, 3, 4]);
    let lies: Vec<Claims> = vec![
        Claims { rows: -1, ..ints() },
        Claims { rows: 5, ..ints() },
        Claims { rows: i64::MAX, ..ints() },
        Claims { nodes: vec![(-4, 0)], ..ints() },
        Claims { nodes: vec![(5, 0)], ..ints() },
        Claims { rows: i64::from(i32::MAX), nodes: vec![(i64::from(i32::MAX), 0)], ..ints() },
        Claims { nodes: vec![(4, -2)], ..ints() },
        Claims { nodes: vec![(4, 5)], ..ints() },
        Claims { nodes: vec![(4, 1)], ..ints() },
        // A bitmap without nulls, and with another number of them.
        Claims { nodes: vec![(4, 1)], buffers: vec![(0, 1), (8, 16)], body: [vec![0x0f; 8], of_ints(&[1, 2, 3, 4])].concat(), ..ints() },
        Claims { nodes: vec![(4, 3)], buffers: vec![(0, 1), (8, 16)], body: [vec![0x0b; 8], of_ints(&[1, 2, 3, 4])].concat(), ..ints() },
        Claims { nodes: vec![], ..ints() },
        Claims { nodes: vec![(4, 0), (4, 0)], ..ints() },
        Claims { buffers: vec![(0, 16)], ..ints() },
        Claims { buffers: vec![(0, 0), (-8, 16)], ..ints() },
        Claims { buffers: vec![(0, 0), (0, -16)], ..ints() },
        Claims { buffers: vec![(0, 0), (8, 16)], ..ints() },
        Claims { buffers: vec![(0, 0), (i64::MAX, 16)], ..ints() },
        Claims { buffers: vec![(0, 0), (0, i64::MAX)], ..ints() },
        Claims { nodes: vec![(4, 1)], buffers: vec![(0, 8), (4, 12)], ..ints() },
        Claims { variadic: vec![1], ..ints() },
        Claims { body_length: Some(-1), ..ints() },
        Claims { body_length: Some(i64::MAX), ..ints() },
        Claims { body_length: Some(17), ..ints() },
        Claims { version: fb::MetadataVersion::V3, ..ints() },
        Claims { version: fb::MetadataVersion(9), ..ints() },
        Claims { zstd: true, ..ints() },
    ];
    for (index, lie) in lies.into_iter().enumerate() {
        let broken = stream(DataType::Int32, &[lie]);
        assert!(read(&broken).is_err(), "lie {index}");
    }
    let error = refused(DataType::Int32, &[Claims { nodes: vec![(4, 1)], buffers: vec![(0, 8), (4, 12)], ..ints() }]);
    assert!(error.to_string().contains("overlap"), "{error}");
}

#[test]
fn a_few_compressed_bytes_do_not_claim_much_memory() {
    for claim in [1_i64 << 20, 1 << 40, i64::MAX] {
        let body = [claim.to_le_bytes().to_vec(), vec![0; 8]].concat();
        let claims = Claims { buffers: vec![(0, 0), (0, 16)], body, zstd: true, ..ints() };
        let error = refused(DataType::Int32, &[claims]);
        assert_eq!((error.section(), error.column()), (Some(Section::Data), Some("a")), "{error}");
    }
}

fn list(offsets: &[i32], values: i64) -> Claims {
    let rows = i64::try_from(offsets.len()).unwrap() - 1;
    let body = of_ints(offsets);
    let length = i64::try_from(4 * offsets.len()).unwrap();
    Claims { rows, nodes: vec![(rows, 0), (values, values)], buffers: vec![(0, 0), (0, length)], body, ..Default::default() }
}

#[test]
fn offsets_views_codes_and_runs_are_checked() {
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let of_nulls = DataType::List(item(DataType::Null));
    assert_eq!(read(&stream(of_nulls.clone(), &[list(&[0, 2, 2, 5], 5)])).unwrap()[0].num_rows(), 3);
    for offsets in [[0, 2, 1, 5], [-1, 2, 2, 5], [0, 2, 2, 6], [0, 0, 0, i32::MAX], [i32::MIN, 0, 0, 0]] {
        refused(of_nulls.clone(), &[list(&offsets, 5)]);
    }
    // List views may be in any order, but not beyond.
    let views = |offsets: [i32; 2], sizes: [i32; 2]| Claims {
        rows: 2,
        nodes: vec![(2, 0), (5, 5)],
        buffers: vec![(0, 0), (0, 8), (8, 8)],
        body: of_ints(&[offsets, sizes].concat()),
        ..Default::default()
    };
    let of_views = DataType::ListView(item(DataType::Null));
    assert_eq!(read(&stream(of_views.clone(), &[views([3, 0], [2, 5])])).unwrap()[0].num_rows(), 2);
    for (offsets, sizes) in [([3, 0], [3, 1]), ([-1, 0], [1, 1]), ([0, 0], [-1, 1]), ([i32::MAX, 0], [i32::MAX, 1])] {
        refused(of_views.clone(), &[views(offsets, sizes)]);
    }
    // Strings.
    let text = |offsets: [i32; 3], bytes: &[u8; 8]| {
        let body = [of_ints(&[offsets[0], offsets[1], offsets[2], 0]), bytes.to_vec()].concat();
        Claims { rows: 2, nodes: vec![(2, 0)], buffers: vec![(0, 0), (0, 12), (16, 8)], body, ..Default::default() }
    };
    assert_eq!(read(&stream(DataType::Utf8, &[text([0, 3, 8], b"abcdefgh")])).unwrap()[0].column(0).as_string::<i32>().value(1), "defgh");
    refused(DataType::Utf8, &[text([0, 3, 9], b"abcdefgh")]);
    refused(DataType::Utf8, &[text([0, 4, 3], b"abcdefgh")]);
    refused(DataType::Utf8, &[text([0, 3, 8], b"abc\xffefgh")]);
    refused(DataType::Utf8, &[text([0, 3, 8], "ab√fgh".as_bytes().try_into().unwrap())]);
    // Views.
    let view = |numbers: [i32; 4]| {
        let body = [of_ints(&numbers), b"a text of sixteen bytes.".to_vec()].concat();
        Claims { rows: 1, nodes: vec![(1, 0)], buffers: vec![(0, 0), (0, 16), (16, 24)], variadic: vec![1], body, ..Default::default() }
    };
    let prefix = i32::from_le_bytes(*b"a te");
    assert_eq!(read(&stream(DataType::Utf8View, &[view([16, prefix, 0, 0])])).unwrap()[0].column(0).as_string_view().value(0), "a text of sixtee");
    for numbers in
        [[16, prefix, 1, 0], [16, prefix, 0, 9], [16, 0, 0, 0], [16, prefix, -1, 0], [16, prefix, 0, -1], [-16, prefix, 0, 0], [2, -1, 0, 0]]
    {
        refused(DataType::Utf8View, &[view(numbers)]);
    }
    let claims = Claims { variadic: vec![i64::MAX], ..view([16, prefix, 0, 0]) };
    refused(DataType::Utf8View, &[claims]);
    refused(DataType::Utf8View, &[Claims { variadic: vec![-1], ..view([16, prefix, 0, 0]) }]);
    // Runs.
    let runs = |ends: [i32; 2], rows: i64| Claims {
        rows,
        nodes: vec![(rows, 0), (2, 0), (2, 2)],
        buffers: vec![(0, 0), (0, 8)],
        body: of_ints(&ends),
        ..Default::default()
    };
    let ends = Arc::new(Field::new("run_ends", DataType::Int32, false));
    let of_runs = DataType::RunEndEncoded(ends, Arc::new(Field::new("values", DataType::Null, true)));
    assert_eq!(read(&stream(of_runs.clone(), &[runs([2, 5], 5)])).unwrap()[0].num_rows(), 5);
    for (ends, rows) in [([2, 5], 6), ([5, 5], 5), ([5, 2], 2), ([0, 5], 5), ([-1, 5], 5)] {
        refused(of_runs.clone(), &[runs(ends, rows)]);
    }
}

#[test]
fn slots_that_take_no_bytes_are_not_any_number() {
    let many = 1 << 44;
    let field = |name: &str, data_type, nullable| Arc::new(Field::new(name, data_type, nullable));
    // As many as there are rows, and a few below each.
    let nulls = |rows: i64| Claims { rows, nodes: vec![(rows, rows)], ..Default::default() };
    assert_eq!(read_all(&stream(DataType::Null, &[nulls(1 << 30)]), 1 << 30).unwrap().1[0].num_rows(), 1 << 30);
    let fixed = |rows: i64, items| Claims { rows, nodes: vec![(rows, 0), (items, items)], buffers: vec![(0, 0)], ..Default::default() };
    let of_fixed = |size| DataType::FixedSizeList(field("item", DataType::Null, true), size);
    assert_eq!(read(&stream(of_fixed(1000), &[fixed(3, 3000)])).unwrap()[0].num_rows(), 3);
    refused(of_fixed(1 << 29), &[fixed(8192, 8192 << 29)]);
    refused(of_fixed(1), &[fixed(1, many)]);
    // One list, whose values may be more than it has.
    let list = |nodes: Vec<(i64, i64)>, buffers: Vec<(i64, i64)>, rest: &[i32]| {
        let body = of_ints(&[&[0, 5], rest].concat());
        let nodes = [vec![(1, 0)], nodes].concat();
        Claims { rows: 1, nodes, buffers: [vec![(0, 0), (0, 8)], buffers].concat(), body, ..Default::default() }
    };
    let of = |data_type| DataType::List(field("item", data_type, true));
    let structure = of(DataType::Struct(vec![field("n", DataType::Null, false)].into()));
    refused(structure, &[list(vec![(many, 0), (many, many)], vec![(0, 0)], &[])]);
    let empty = of(DataType::Struct(Fields::empty()));
    assert_eq!(read(&stream(empty.clone(), &[list(vec![(7, 0)], vec![(0, 0)], &[])])).unwrap()[0].num_rows(), 1);
    refused(empty, &[list(vec![(many, 0)], vec![(0, 0)], &[])]);
    let runs = of(DataType::RunEndEncoded(field("run_ends", DataType::Int32, false), field("values", DataType::Null, true)));
    assert_eq!(read(&stream(runs.clone(), &[list(vec![(5, 0), (1, 0), (1, 1)], vec![(0, 0), (8, 4)], &[9])])).unwrap()[0].num_rows(), 1);
    refused(runs, &[list(vec![(many, 0), (1, 0), (1, 1)], vec![(0, 0), (8, 4)], &[9])]);
    refused(of(DataType::FixedSizeBinary(0)), &[list(vec![(many, 0)], vec![(0, 0), (0, 0)], &[])]);
}

#[test]
fn items_that_are_never_null_may_be_where_no_list_has_them() {
    let item = || Arc::new(Field::new("item", DataType::Int32, false));
    // Items null, 7, 8, null. The first list is null, and has one of them.
    let items = |validity: u8, rest: &[i32]| {
        [vec![validity, 0, 0, 0, 0, 0, 0, 0], of_ints(rest), vec![0b0110, 0, 0, 0, 0, 0, 0, 0], of_ints(&[0, 7, 8, 0])].concat()
    };
    let list = |offsets: [i32; 3]| Claims {
        rows: 2,
        nodes: vec![(2, 1), (4, 2)],
        buffers: vec![(0, 1), (8, 12), (24, 1), (32, 16)],
        body: items(0b10, &[offsets[0], offsets[1], offsets[2], 0]),
        ..Default::default()
    };
    let values = |data_type, claims| {
        let batches = read_all(&stream(data_type, &[claims]), 9)?.1;
        let column = batches[0].column(0);
        let items = column.as_list_opt::<i32>().map_or_else(|| column.as_list_view::<i32>().value(1), |lists| lists.value(1));
        assert!(column.is_null(0));
        Ok::<_, Error>(items.as_primitive::<Int32Type>().values().to_vec())
    };
    assert_eq!(values(DataType::List(item()), list([0, 1, 3])).unwrap(), [7, 8]);
    let view = |offset, size| Claims {
        buffers: vec![(0, 1), (8, 8), (16, 8), (24, 1), (32, 16)],
        body: items(0b10, &[0, offset, 1, size]),
        ..list([0, 1, 3])
    };
    assert_eq!(values(DataType::ListView(item()), view(1, 2)).unwrap(), [7, 8]);
    for (data_type, claims) in
        [(DataType::List(item()), list([0, 1, 4])), (DataType::List(item()), list([0, 0, 2])), (DataType::ListView(item()), view(2, 2))]
    {
        let error = values(data_type, claims).unwrap_err();
        assert!(error.to_string().contains("never null"), "{error}");
    }
}

#[test]
fn dictionaries_that_are_too_much_together_are_refused() {
    // Each has a list of 2^25 nulls, which take no bytes.
    let items = 1 << 25;
    let of_lists = DataType::List(Arc::new(Field::new("item", DataType::Null, true)));
    let data_type = DataType::Dictionary(Box::new(DataType::Int32), Box::new(of_lists));
    let values = |is_delta| Claims {
        rows: 1,
        nodes: vec![(1, 0), (items, items)],
        buffers: vec![(0, 0), (0, 8)],
        body: of_ints(&[0, i32::try_from(items).unwrap()]),
        dictionary: Some((0, is_delta)),
        ..Default::default()
    };
    let messages = |deltas: usize| [vec![values(false)], vec![values(true); deltas], vec![Claims { body: of_ints(&[0; 4]), ..ints() }]].concat();
    let read_lengths = |file: &Bytes| read_all(file, 100).map(|(_, batches)| batches[0].column(0).as_any_dictionary().values().len());
    assert_eq!(read_lengths(&stream(data_type.clone(), &messages(6))).unwrap(), 7);
    let error = read_lengths(&stream(data_type, &messages(8))).unwrap_err();
    assert_eq!((error.kind(), error.section()), (ErrorKind::InvalidFile, Some(Section::Dictionary)), "{error}");
    assert!(error.to_string().contains("dictionary 0"), "{error}");
    // Values that are nothing but nulls.
    let of_nulls = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Null));
    let nulls = |count: i64| Claims { rows: count, nodes: vec![(count, count)], dictionary: Some((0, false)), ..Default::default() };
    let codes = || Claims { body: of_ints(&[0; 4]), ..ints() };
    assert_eq!(read_lengths(&stream(of_nulls.clone(), &[nulls(1 << 28), codes()])).unwrap(), 1 << 28);
    let error = read_lengths(&stream(of_nulls, &[nulls(1 << 31), codes()])).unwrap_err();
    assert_eq!((error.kind(), error.section()), (ErrorKind::InvalidFile, Some(Section::Dictionary)), "{error}");
}

#[test]
fn values_of_many_fields_that_take_no_bytes_are_as_many() {
    let fields = |count: usize| (0..count).map(|field| Field::new(field.to_string(), DataType::FixedSizeBinary(0), true)).collect::<Fields>();
    let read = |count: usize, rows: i64| {
        let data_type = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Struct(fields(count))));
        // A struct has its own validity, and each of its fields that and its bytes.
        let (nodes, buffers) = (vec![(rows, 0); count + 1], vec![(0, 0); 2 * count + 1]);
        let values =
            |is_delta| Claims { rows, nodes: nodes.clone(), buffers: buffers.clone(), dictionary: Some((0, is_delta)), ..Default::default() };
        let codes = Claims { body: of_ints(&[0; 4]), ..ints() };
        read_all(&stream(data_type, &[values(false), values(true), codes]), 100)
            .map(|(_, batches)| batches[0].column(0).as_any_dictionary().values().len())
    };
    assert_eq!(read(64, 1 << 10).unwrap(), 2 << 10);
    let error = read(64, 1 << 22).unwrap_err();
    assert_eq!((error.kind(), error.section()), (ErrorKind::InvalidFile, Some(Section::Dictionary)), "{error}");
    assert!(error.to_string().contains("536870912 values in 0 bytes"), "{error}");
}

#[test]
fn a_null_that_takes_much_is_refused_before_there_is_one() {
    let of_lists = |size: i32| {
        schema_message(|builder| {
            let of = (fb::Type::Null, fb::Null::create(builder, &fb::NullArgs {}).as_union_value());
            let child = field_of(builder, of, &[], None);
            let list = fb::FixedSizeList::create(builder, &fb::FixedSizeListArgs { listSize: size }).as_union_value();
            vec![field_of(builder, (fb::Type::FixedSizeList, list), &[child], None)]
        })
    };
    assert!(read(&of_lists(1 << 20)).unwrap().is_empty());
    let error = read(&of_lists(i32::MAX)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidFile, "{error}");
    let schema = Schema::new(vec![Field::new("a", DataType::FixedSizeBinary(i32::MAX), true)]);
    assert!(write(&Arc::new(schema), &[], WriterOptions::default()).unwrap_err().to_string().starts_with("invalid argument: a null of its type"));
}

#[test]
fn compression_is_where_arrow_0_17_says_it() {
    let raw = of_ints(&[1, 2, 3, 4]);
    let mut lz4 = lz4::EncoderBuilder::new().build(Vec::new()).unwrap();
    std::io::Write::write_all(&mut lz4, &raw).unwrap();
    let frames = [lz4.finish().0, zstd::bulk::compress(&raw, 1).unwrap()];
    let [lz4, zstd] = frames.map(|frame| [&16_i64.to_le_bytes(), frame.as_slice()].concat());
    let claims = |body: &[u8], name: &'static str, version| Claims {
        buffers: vec![(0, 0), (0, i64::try_from(body.len()).unwrap())],
        body: body.to_vec(),
        metadata: vec![("a", "b"), ("ARROW:experimental_compression", name)],
        version,
        ..ints()
    };
    let (v4, v5) = (fb::MetadataVersion::V4, fb::MetadataVersion::V5);
    let values = |claims| read(&stream(DataType::Int32, &[claims])).unwrap()[0].column(0).as_primitive::<Int32Type>().values().to_vec();
    for (body, name) in [(&lz4, "LZ4_FRAME"), (&lz4, "lz4"), (&zstd, "ZSTD"), (&zstd, "zstd"), (&raw, "UNCOMPRESSED")] {
        assert_eq!(values(claims(body, name, v4)), [1, 2, 3, 4], "{name}");
    }
    // Newer messages say it in another place.
    assert_eq!(values(claims(&raw, "ZSTD", v5)), [1, 2, 3, 4]);
    let error = refused(DataType::Int32, &[claims(&raw, "BROTLI", v4)]);
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
}

#[test]
fn messages_have_metadata_of_their_own() {
    let metadata = vec![("mine", "1"), ("ALKAID:theirs", "2"), ("mine too", "")];
    let meta = Store::new(&stream(DataType::Int32, &[ints(), Claims { metadata, ..ints() }])).open(1 << 20).unwrap();
    let read = |batch| meta.batch_metadata(batch).unwrap().unwrap();
    let expected = [("mine", "1"), ("ARROW:theirs", "2"), ("mine too", "")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!([read(0), read(1)], [[].into(), expected.into()]);
}

#[test]
fn a_footer_names_each_message_once() {
    let batch = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from_iter_values(0..8)) as ArrayRef)]).unwrap();
    let options = WriterOptions { batch_rows: 4, statistics: false, ..Default::default() };
    let file = write(&batch.schema(), std::slice::from_ref(&batch), options).unwrap();
    let spans = Store::new(&file).open(1 << 20).unwrap().spans().to_vec();
    // Where the footer names them: one behind the other.
    const BLOCK: usize = 24;
    let offsets = [&spans[0].offset.to_le_bytes(), [0; BLOCK - 8].as_slice(), &spans[1].offset.to_le_bytes()].concat();
    let names = |window: &[u8]| window[..8] == offsets[..8] && window[BLOCK..] == offsets[BLOCK..];
    let first = file.windows(offsets.len()).rposition(names).unwrap();
    let second = first + BLOCK;
    let patched = |at: usize, from: &[u8]| {
        let mut patched = file.to_vec();
        patched[at..at + from.len()].copy_from_slice(from);
        Bytes::from(patched)
    };
    assert_eq!(read(&patched(first, &file[first..first + BLOCK])).unwrap().len(), 2);
    // The same twice, and one that begins within the other.
    for broken in [patched(second, &file[first..first + BLOCK]), patched(second, &(spans[1].offset - 8).to_le_bytes())] {
        let error = read(&broken).unwrap_err();
        assert_eq!((error.kind(), error.section()), (ErrorKind::InvalidFile, Some(Section::Footer)), "{error}");
        assert!(error.to_string().contains("overlap"), "{error}");
    }
    // Batches may be named in any order.
    let turned = {
        let mut turned = patched(first, &file[second..second + BLOCK]).to_vec();
        turned[second..second + BLOCK].copy_from_slice(&file[first..first + BLOCK]);
        Bytes::from(turned)
    };
    let values: Vec<i64> = read(&turned).unwrap().iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    assert_eq!(values, [4, 5, 6, 7, 0, 1, 2, 3]);
}

#[test]
fn nulls_of_more_slots_than_rows_are_not_counted() {
    let summary = |claims: Claims| Store::new(&stream(DataType::Int32, &[claims])).open(1 << 20).unwrap().column_summary(0);
    assert_eq!(summary(ints()).unwrap().null_count, Some(0));
    let error = summary(Claims { nodes: vec![(1_000_000, 999_999)], ..ints() }).unwrap_err();
    assert_eq!((error.kind(), error.column()), (ErrorKind::InvalidFile, Some("a")), "{error}");
}

fn dictionary_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Int32))
}

#[test]
fn dictionaries_are_where_they_should_be() {
    let values = |id, is_delta| Claims { dictionary: Some((id, is_delta)), ..ints() };
    let codes = |codes: &[i32; 4]| Claims { body: of_ints(codes), ..ints() };
    let read_codes = |messages: &[Claims]| read(&stream(dictionary_type(), messages));
    assert_eq!(read_codes(&[values(0, false), codes(&[3, 0, 1, 2])]).unwrap()[0].num_rows(), 4);
    assert!(read_codes(&[values(0, false), codes(&[4, 0, 1, 2])]).is_err());
    assert!(read_codes(&[values(0, false), codes(&[-1, 0, 1, 2])]).is_err());
    assert_eq!(read_codes(&[values(0, false), values(0, true), codes(&[7, 0, 1, 2])]).unwrap()[0].num_rows(), 4);
    // Never defined, only added to, or of no field.
    assert!(read_codes(&[codes(&[0; 4])]).is_err());
    assert!(read_codes(&[values(0, true), codes(&[0; 4])]).is_err());
    assert!(read_codes(&[values(7, false), codes(&[0; 4])]).is_err());
    assert!(read_codes(&[codes(&[0; 4]), values(0, false)]).is_err());
    // Nulls need no dictionary, and may come before it.
    let nulls = Claims { nodes: vec![(4, 4)], buffers: vec![(0, 1), (8, 16)], body: vec![0; 24], ..ints() };
    assert_eq!(read_codes(std::slice::from_ref(&nulls)).unwrap()[0].column(0).null_count(), 4);
    assert_eq!(read_codes(&[nulls, values(0, false), codes(&[3; 4])]).unwrap().len(), 2);
}

/// A schema's message with fields that the writer would not write.
fn schema_message(fields: impl Fn(&mut FlatBufferBuilder<'static>) -> Vec<flatbuffers::WIPOffset<fb::Field<'static>>>) -> Bytes {
    let mut builder = FlatBufferBuilder::new();
    let fields = fields(&mut builder);
    let fields = builder.create_vector(&fields);
    let schema = fb::Schema::create(&mut builder, &fb::SchemaArgs { fields: Some(fields), ..Default::default() });
    let header = Some(schema.as_union_value());
    let args =
        fb::MessageArgs { version: fb::MetadataVersion::V5, header_type: fb::MessageHeader::Schema, header, bodyLength: 0, custom_metadata: None };
    let message = fb::Message::create(&mut builder, &args);
    builder.finish(message, None);
    Bytes::from(framed(builder.finished_data()))
}

type Table = flatbuffers::WIPOffset<flatbuffers::UnionWIPOffset>;

fn field_of(
    builder: &mut FlatBufferBuilder<'static>,
    (type_type, type_): (fb::Type, Table),
    children: &[flatbuffers::WIPOffset<fb::Field<'static>>],
    dictionary: Option<i64>,
) -> flatbuffers::WIPOffset<fb::Field<'static>> {
    let children = builder.create_vector(children);
    let dictionary = dictionary.map(|id| fb::DictionaryEncoding::create(builder, &fb::DictionaryEncodingArgs { id, ..Default::default() }));
    let args = fb::FieldArgs { type_type, type_: Some(type_), children: Some(children), dictionary, ..Default::default() };
    fb::Field::create(builder, &args)
}

#[test]
fn schemas_that_mean_nothing_are_refused() {
    let utf8 = |builder: &mut FlatBufferBuilder<'static>| (fb::Type::Utf8, fb::Utf8::create(builder, &fb::Utf8Args {}).as_union_value());
    let list = |builder: &mut FlatBufferBuilder<'static>| (fb::Type::List, fb::List::create(builder, &fb::ListArgs {}).as_union_value());
    // A dictionary whose values use itself: its values are text for one field and lists for another.
    let cyclic = schema_message(|builder| {
        let of = utf8(builder);
        let child = field_of(builder, of, &[], Some(0));
        let of = list(builder);
        vec![field_of(builder, of, &[child], Some(0))]
    });
    let error = read(&cyclic).unwrap_err();
    assert!(error.to_string().contains("dictionary 0"), "{error}");
    // Types in types in types.
    let deep = schema_message(|builder| {
        let of = utf8(builder);
        let leaf = field_of(builder, of, &[], None);
        vec![(0..1000).fold(leaf, |child, _| {
            let of = list(builder);
            field_of(builder, of, &[child], None)
        })]
    });
    assert_eq!(read(&deep).unwrap_err().kind(), ErrorKind::InvalidFile);
    // Each twice the one below it: few tables, and a tree of very many.
    let wide = schema_message(|builder| {
        let of = utf8(builder);
        let leaf = field_of(builder, of, &[], None);
        vec![(0..40).fold(leaf, |child, _| {
            let of = (fb::Type::Struct_, fb::Struct_::create(builder, &fb::Struct_Args {}).as_union_value());
            field_of(builder, of, &[child, child], None)
        })]
    });
    assert_eq!(read(&wide).unwrap_err().kind(), ErrorKind::InvalidFile);
    // Parameters of no type.
    type Make = fn(&mut FlatBufferBuilder<'static>) -> (fb::Type, Table);
    let odd: [Make; 11] = [
        |builder| (fb::Type::Int, fb::Int::create(builder, &fb::IntArgs { bitWidth: 24, is_signed: true }).as_union_value()),
        |builder| (fb::Type::Decimal, fb::Decimal::create(builder, &fb::DecimalArgs { precision: 39, scale: 0, bitWidth: 128 }).as_union_value()),
        |builder| (fb::Type::Decimal, fb::Decimal::create(builder, &fb::DecimalArgs { precision: 0, scale: 0, bitWidth: 128 }).as_union_value()),
        |builder| (fb::Type::Decimal, fb::Decimal::create(builder, &fb::DecimalArgs { precision: 1, scale: 39, bitWidth: 128 }).as_union_value()),
        |builder| (fb::Type::Union, fb::Union::create(builder, &fb::UnionArgs { mode: fb::UnionMode::Sparse, typeIds: None }).as_union_value()),
        |builder| (fb::Type::FixedSizeBinary, fb::FixedSizeBinary::create(builder, &fb::FixedSizeBinaryArgs { byteWidth: -1 }).as_union_value()),
        |builder| (fb::Type::FixedSizeList, fb::FixedSizeList::create(builder, &fb::FixedSizeListArgs { listSize: 2 }).as_union_value()),
        |builder| (fb::Type::Map, fb::Map::create(builder, &fb::MapArgs { keysSorted: false }).as_union_value()),
        |builder| (fb::Type::RunEndEncoded, fb::RunEndEncoded::create(builder, &fb::RunEndEncodedArgs {}).as_union_value()),
        |builder| (fb::Type::Time, fb::Time::create(builder, &fb::TimeArgs { unit: fb::TimeUnit::SECOND, bitWidth: 64 }).as_union_value()),
        |builder| (fb::Type(99), fb::Null::create(builder, &fb::NullArgs {}).as_union_value()),
    ];
    for (index, make) in odd.iter().enumerate() {
        let file = schema_message(|builder| {
            let of = make(builder);
            vec![field_of(builder, of, &[], None)]
        });
        let error = read(&file).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::InvalidFile | ErrorKind::UnsupportedVersion), "{index}: {error}");
    }
}

#[test]
fn decimals_of_more_digits_behind_the_point_than_there_are_are_the_same_numbers() {
    let one = Claims { rows: 1, nodes: vec![(1, 0)], buffers: vec![(0, 0), (0, 16)], body: of_ints(&[-7, -1, -1, -1]), ..Default::default() };
    let (schema, batches) = read_all(&stream(DataType::Decimal128(1, 4), &[one]), 100).unwrap();
    assert_eq!(*schema.field(0).data_type(), DataType::Decimal128(4, 4));
    assert_eq!(arrow::util::display::array_value_to_string(batches[0].column(0), 0).unwrap(), "-0.0007");
}

#[test]
fn a_union_of_old_has_nulls_of_its_own() {
    let fields: UnionFields = [(0, Arc::new(Field::new("x", DataType::Int32, true)))].into_iter().collect();
    let v4 = fb::MetadataVersion::V4;
    // Validity 1011; type ids, of which that of the null is of no child; values.
    let body = [vec![0b1011, 0, 0, 0, 0, 0, 0, 0], vec![0, 0, 9, 0, 0, 0, 0, 0], of_ints(&[1, 2, 3, 4])].concat();
    let buffers = vec![(0, 1), (8, 4), (16, 0), (16, 16)];
    let sparse = Claims { rows: 4, nodes: vec![(4, 1), (4, 0)], buffers, body, version: v4, ..Default::default() };
    let body = [vec![0b1011, 0, 0, 0, 0, 0, 0, 0], vec![0, 0, 9, 0, 0, 0, 0, 0], of_ints(&[0, 1, 99, 2]), of_ints(&[1, 2, 4])].concat();
    let buffers = vec![(0, 1), (8, 4), (16, 16), (32, 0), (32, 12)];
    let dense = Claims { rows: 4, nodes: vec![(4, 1), (3, 0)], buffers, body, version: v4, ..Default::default() };
    for (mode, claims) in [(UnionMode::Sparse, sparse), (UnionMode::Dense, dense)] {
        let batches = read(&stream(DataType::Union(fields.clone(), mode), &[claims])).unwrap();
        let union = batches[0].column(0).as_union();
        let values: Vec<Option<i32>> = (0..4)
            .map(|row| {
                let value = union.value(row);
                value.as_primitive::<Int32Type>().iter().next().unwrap()
            })
            .collect();
        assert_eq!(values, [Some(1), Some(2), None, Some(4)], "{mode:?}");
    }
}

#[test]
fn a_null_of_a_union_of_old_may_be_more_than_a_row_may_have() {
    let list = DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Int8, true)), 1 << 29);
    let fields: UnionFields = [(0, Arc::new(Field::new("x", list, true)))].into_iter().collect();
    // One null row; the type id and the offset that it has not.
    let buffers = [(0, 1), (8, 1), (16, 4)].into_iter().chain(vec![(24, 0); 3]).collect();
    let claims =
        Claims { rows: 1, nodes: vec![(1, 1), (0, 0), (0, 0)], buffers, body: vec![0; 24], version: fb::MetadataVersion::V4, ..Default::default() };
    let error = read(&stream(DataType::Union(fields, UnionMode::Dense), &[claims])).unwrap_err();
    assert!(error.to_string().contains("are the most"), "{error}");
}

#[test]
fn values_that_no_code_can_mean_are_left_out() {
    let data_type = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Int32));
    let values = Claims {
        rows: 300,
        nodes: vec![(300, 0)],
        buffers: vec![(0, 0), (0, 1200)],
        body: of_ints(&(0..300).collect::<Vec<_>>()),
        dictionary: Some((0, false)),
        ..Default::default()
    };
    let codes = Claims { rows: 4, nodes: vec![(4, 0)], buffers: vec![(0, 0), (0, 4)], body: vec![127, 0, 5, 1, 0, 0, 0, 0], ..Default::default() };
    let batches = read(&stream(data_type, &[values, codes])).unwrap();
    let dictionary = batches[0].column(0).as_dictionary::<Int8Type>();
    assert_eq!((dictionary.keys().values().as_ref(), dictionary.values().len()), ([127, 0, 5, 1].as_slice(), 128));
}

#[test]
fn columns_have_buffers_of_their_own() {
    for (second, overlaps) in [((16, 16), false), ((8, 16), true), ((0, 16), true), ((0, 32), true)] {
        let body = of_ints(&[1, 2, 3, 4, 5, 6, 7, 8]);
        let claims = Claims { rows: 4, nodes: vec![(4, 0); 2], buffers: vec![(0, 0), (0, 16), (0, 0), second], body, ..Default::default() };
        match read(&stream_of(vec![DataType::Int32, DataType::Int32], &[claims])) {
            Ok(batches) => assert_eq!((overlaps, batches[0].column(1).as_primitive::<Int32Type>().value(0)), (false, 5)),
            Err(error) => assert!(overlaps && error.to_string().contains("overlap"), "{second:?}: {error}"),
        }
    }
}

#[test]
fn what_is_wrong_is_named_by_the_place_of_its_buffer() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7; 4]));
    let words: ArrayRef = Arc::new(StringArray::from(vec!["one", "two", "three", "four"]));
    let batch = RecordBatch::try_from_iter([("n", numbers), ("w", words)]).unwrap();
    let file = write(&batch.schema(), &[batch], WriterOptions::default()).unwrap();
    let place_of = |bytes: &[u8]| file.windows(bytes.len()).position(|window| window == bytes).unwrap();
    let offsets = place_of(&[0_i32, 3, 6, 11, 15].map(i32::to_le_bytes).concat());
    let text = place_of(b"onetwothreefour");
    for (at, place) in [(offsets + 4, offsets), (text + 5, text)] {
        let mut broken = file.to_vec();
        broken[at] = 0xff;
        let error = read(&Bytes::from(broken)).unwrap_err();
        assert_eq!((error.offset(), error.section(), error.column()), (Some(place as u64), Some(Section::Data), Some("w")), "{error}");
    }
}
