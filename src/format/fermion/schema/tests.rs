//! Schemas of every type, there and back; and schema areas that are not what a writer writes.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, Schema, TimeUnit, UnionFields, UnionMode};
use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::format::ErrorKind;
use crate::format::array::wanted_streams;
use crate::format::scan::Section;

const UNITS: [TimeUnit; 4] = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];

/// Every type without children.
pub(crate) fn leaf_types() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![Null, Boolean, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float16, Float32, Float64, Date32, Date64];
    types.extend([
        Decimal32(9, 2),
        Decimal64(18, -3),
        Decimal128(38, 38),
        Decimal256(76, 1),
        Binary,
        LargeBinary,
        BinaryView,
        Utf8,
        LargeUtf8,
        Utf8View,
    ]);
    types.extend([Time32(TimeUnit::Second), Time32(TimeUnit::Millisecond), Time64(TimeUnit::Microsecond), Time64(TimeUnit::Nanosecond)]);
    types.extend([IntervalUnit::YearMonth, IntervalUnit::DayTime, IntervalUnit::MonthDayNano].map(Interval));
    types.extend(UNITS.map(Duration));
    types.extend(UNITS.map(|unit| Timestamp(unit, None)));
    types.extend(UNITS.map(|unit| Timestamp(unit, Some("+01:30".into()))));
    types.extend([Timestamp(TimeUnit::Second, Some("".into())), FixedSizeBinary(0), FixedSizeBinary(16)]);
    types
}

fn any_field(data_type: impl Strategy<Value = DataType>) -> impl Strategy<Value = Field> {
    let metadata = prop::collection::hash_map("[a-c]{0,2}", "\\PC{0,4}", 0..3);
    ("\\PC{0,6}", data_type, any::<bool>(), any::<bool>(), metadata).prop_map(|(name, data_type, nullable, ordered, metadata)| {
        Field::new(name, data_type, nullable).with_dict_is_ordered(ordered).with_metadata(metadata)
    })
}

fn any_type() -> impl Strategy<Value = DataType> {
    prop::sample::select(leaf_types()).prop_recursive(4, 24, 4, |inner| {
        let field = any_field(inner.clone()).prop_map(Arc::new).boxed();
        let fields = prop::collection::vec(field.clone(), 0..4).boxed();
        let keys = prop::sample::select(vec![DataType::Int8, DataType::UInt16, DataType::Int32, DataType::UInt64]);
        let run_ends = prop::sample::select(vec![DataType::Int16, DataType::Int32, DataType::Int64]);
        prop_oneof![
            field.clone().prop_map(DataType::List),
            field.clone().prop_map(DataType::LargeList),
            field.clone().prop_map(DataType::ListView),
            field.clone().prop_map(DataType::LargeListView),
            (field.clone(), 0..9).prop_map(|(field, size)| DataType::FixedSizeList(field, size)),
            fields.clone().prop_map(|fields| DataType::Struct(Fields::from(fields))),
            (field.clone(), field.clone(), any::<bool>()).prop_map(|(key, value, sorted)| {
                DataType::Map(Arc::new(Field::new("entries", DataType::Struct(Fields::from(vec![key, value])), false)), sorted)
            }),
            (fields.prop_filter("a union has a type", |fields| !fields.is_empty()), any::<bool>(), 0_i8..100).prop_map(|(fields, dense, first)| {
                let mode = if dense { UnionMode::Dense } else { UnionMode::Sparse };
                let tags: Vec<i8> = (first..).step_by(3).take(fields.len()).collect();
                DataType::Union(UnionFields::try_new(tags, fields).unwrap(), mode)
            }),
            (keys, inner).prop_map(|(key, value)| DataType::Dictionary(Box::new(key), Box::new(value))),
            (run_ends, field).prop_map(|(run_ends, values)| DataType::RunEndEncoded(Arc::new(Field::new("run_ends", run_ends, false)), values)),
        ]
    })
}

fn any_schema() -> impl Strategy<Value = Schema> {
    let metadata = prop::collection::hash_map("[a-c]{0,2}", "\\PC{0,4}", 0..3);
    (prop::collection::vec(any_field(any_type()), 0..6), metadata).prop_map(|(fields, metadata)| Schema::new_with_metadata(fields, metadata))
}

fn open(bytes: &[u8], fields: usize) -> Result<SchemaArea, crate::format::Error> {
    SchemaArea::open(Bytes::copy_from_slice(bytes), u32::try_from(fields).unwrap())
}

fn sample() -> Schema {
    let point = DataType::Struct(Fields::from(vec![Field::new("x", DataType::Float64, false), Field::new("tags", leaf_list(), true)]));
    let fields = vec![
        Field::new("id", DataType::Int64, false),
        Field::new("größe", DataType::Decimal128(15, 2), true).with_metadata(HashMap::from([("ARROW:extension:name".into(), "x.y".into())])),
        Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into())), true),
        Field::new("point", point, true),
        Field::new("code", DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8)), true).with_dict_is_ordered(true),
    ];
    Schema::new_with_metadata(fields, HashMap::from([("owner".into(), "me".into())]))
}

fn leaf_list() -> DataType {
    DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_schema_is_read_back(schema in any_schema()) {
        let bytes = write_schema(&schema, &[(ORDERING_KEY, "a")]).unwrap();
        prop_assert_eq!(bytes.len() % 8, 0);
        let area = open(&bytes, schema.fields().len()).unwrap();
        for (index, field) in schema.fields().iter().enumerate() {
            let read = area.field(index).unwrap();
            prop_assert_eq!(&read, field);
            // Equality of fields passes over this one.
            prop_assert_eq!(read.dict_is_ordered(), field.dict_is_ordered());
            let first = schema.fields().iter().position(|other| other.name() == field.name());
            prop_assert_eq!(area.index_of(field.name()), first);
        }
        prop_assert_eq!(&*area.arrow_schema().unwrap(), &schema);
        prop_assert_eq!(area.property(ORDERING_KEY), Some("a"));
    }

    /// What is read in part is counted in the same streams as what is written.
    #[test]
    fn what_is_left_out_has_the_streams_of_its_type(data_type in any_type()) {
        let number = Field::new("number", DataType::Int8, true);
        let file = DataType::Struct(vec![Field::new("other", data_type, true), number.clone()].into());
        let wanted = wanted_streams(&file, &DataType::Struct(vec![number].into())).unwrap();
        let layout = stream_leaves(&file);
        prop_assert_eq!(layout.len(), streams(&file).len());
        let expected: Vec<bool> = (0..layout.len()).map(|stream| stream == 0 || stream + 2 >= layout.len()).collect();
        prop_assert_eq!(wanted, expected.contains(&false).then_some(expected));
    }
}

#[test]
fn every_leaf_type_is_read_back() {
    let fields: Vec<Field> = leaf_types().into_iter().enumerate().map(|(index, data_type)| Field::new(index.to_string(), data_type, true)).collect();
    let schema = Schema::new(fields);
    let area = open(&write_schema(&schema, &[]).unwrap(), schema.fields().len()).unwrap();
    assert_eq!(*area.arrow_schema().unwrap(), schema);
}

#[test]
fn own_keys_are_hidden_and_cannot_be_taken() {
    let schema = sample();
    let bytes = write_schema(&schema, &[(ORDERING_KEY, "id ASC NULLS LAST")]).unwrap();
    let area = open(&bytes, 5).unwrap();
    assert_eq!(area.property(ORDERING_KEY), Some("id ASC NULLS LAST"));
    assert_eq!((area.property("fermion.other"), area.property("owner")), (None, None));
    assert_eq!(*area.arrow_schema().unwrap(), schema);

    let taken = schema.clone().with_metadata(HashMap::from([("fermion.x".into(), "1".into())]));
    assert_eq!(write_schema(&taken, &[]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(write_schema(&schema, &[("owner", "x")]).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn types_that_cannot_be_are_refused_when_written() {
    let entries = |fields: Vec<Field>| Arc::new(Field::new("entries", DataType::Struct(Fields::from(fields)), false));
    let nested = (0..DEPTH_MAX).fold(DataType::Int8, |inner, _| DataType::List(Arc::new(Field::new("item", inner, true))));
    let bad = [
        DataType::Time32(TimeUnit::Nanosecond),
        DataType::Time64(TimeUnit::Second),
        DataType::FixedSizeBinary(-1),
        DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Int8, true)), -1),
        // Of these a single null is too much.
        DataType::FixedSizeBinary(i32::MAX),
        DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Int8, true)), i32::MAX),
        DataType::Decimal128(39, 0),
        DataType::Decimal32(0, 0),
        DataType::Decimal64(5, 6),
        DataType::Dictionary(Box::new(DataType::Utf8), Box::new(DataType::Utf8)),
        DataType::Map(entries(vec![Field::new("only", DataType::Int8, true)]), false),
        DataType::RunEndEncoded(Arc::new(Field::new("run_ends", DataType::UInt8, false)), Arc::new(Field::new("values", DataType::Int8, true))),
        nested,
    ];
    for data_type in bad {
        let schema = Schema::new(vec![Field::new("a", data_type.clone(), true)]);
        assert_eq!(write_schema(&schema, &[]).unwrap_err().kind(), ErrorKind::InvalidArgument, "{data_type}");
    }
}

#[test]
fn a_flipped_bit_is_an_error_or_another_schema_and_never_a_panic() {
    let bytes = write_schema(&sample(), &[]).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Err(error) = open(&flipped, 5).and_then(|area| area.arrow_schema()) {
            assert!(matches!(error.kind(), ErrorKind::InvalidFile | ErrorKind::UnsupportedVersion), "bit {bit}: {error}");
        }
    }
}

#[test]
fn every_cut_is_found() {
    let bytes = write_schema(&sample(), &[]).unwrap();
    let padding = bytes.iter().rev().take_while(|byte| **byte == 0).count();
    for length in 0..bytes.len() - padding {
        let error = open(&bytes[..length], 5).unwrap_err();
        assert_eq!((error.kind(), error.section()), (ErrorKind::InvalidFile, Some(Section::Schema)), "{length}");
    }
}

/// Offset of a field of a node in the area.
fn node_at(index: usize, field: usize) -> usize {
    32 + 40 * index + field
}

const CHILD_START: usize = 8;
const TYPE_ID: usize = 24;
const PARAM0: usize = 28;
const TAG: usize = 36;

#[test]
fn shared_children_and_cycles_are_refused() {
    // Nodes: 0 and 1 are lists of struct; a graph in which both point to node 2 would unfold.
    let list = |name: &str| Field::new(name, leaf_list(), true);
    let bytes = write_schema(&Schema::new(vec![list("a"), list("b")]), &[]).unwrap();
    for (node, start) in [(1, 2), (0, 0), (0, 3), (1, 1)] {
        let mut bad = bytes.clone();
        bad[node_at(node, CHILD_START)] = start;
        assert_eq!(open(&bad, 2).unwrap_err().kind(), ErrorKind::InvalidFile, "node {node} to {start}");
    }
    // Without columns, one node that is its own child.
    let mut alone = write_schema(&Schema::new(vec![list("")]), &[]).unwrap()[..72].to_vec();
    (alone[0], alone[4], alone[16], alone[node_at(0, CHILD_START)]) = (0, 1, 0, 0);
    assert!(open(&alone, 0).unwrap_err().to_string().contains("its own descendant"));
}

#[test]
fn strings_may_not_be_shared() {
    let mut bytes = write_schema(&Schema::new(vec![Field::new("abcd", DataType::Int8, true), Field::new("e", DataType::Int8, true)]), &[]).unwrap();
    bytes[node_at(1, 0)] = 0;
    bytes[node_at(1, 4)] = 4;
    assert_eq!(open(&bytes, 2).unwrap_err().kind(), ErrorKind::InvalidFile);
}

#[test]
fn hostile_parameters_are_errors_of_their_column() {
    let two = |name: &str| Field::new(name, DataType::Int8, true);
    let union = UnionFields::try_new([0, 1], [two("a"), two("b")]).unwrap();
    let run_ends = Arc::new(Field::new("run_ends", DataType::Int32, false));
    let pair = DataType::Struct(Fields::from(vec![two("k"), two("v")]));
    let cases: [(DataType, usize, [u8; 4], ErrorKind); 13] = [
        (DataType::FixedSizeBinary(4), node_at(0, PARAM0), [0xff; 4], ErrorKind::InvalidFile),
        (DataType::FixedSizeList(Arc::new(two("item")), 4), node_at(0, PARAM0), [0xff; 4], ErrorKind::InvalidFile),
        (DataType::Decimal128(10, 2), node_at(0, PARAM0), [39, 0, 0, 0], ErrorKind::InvalidFile),
        (DataType::Decimal128(10, 2), node_at(0, PARAM0 + 4), [0x7f, 0xff, 0xff, 0xff], ErrorKind::InvalidFile),
        (DataType::Union(union.clone(), UnionMode::Sparse), node_at(2, TAG), [0; 4], ErrorKind::InvalidFile),
        (DataType::Union(union.clone(), UnionMode::Sparse), node_at(2, TAG), [0xff; 4], ErrorKind::InvalidFile),
        (DataType::Union(union, UnionMode::Sparse), node_at(0, PARAM0), [2, 0, 0, 0], ErrorKind::UnsupportedVersion),
        (DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)), node_at(0, PARAM0), [37, 0, 0, 0], ErrorKind::InvalidFile),
        (DataType::RunEndEncoded(run_ends, Arc::new(two("values"))), node_at(1, TYPE_ID), [2, 0, 0, 0], ErrorKind::InvalidFile),
        (DataType::Map(Arc::new(Field::new("entries", pair, false)), false), node_at(1, TYPE_ID), [47, 0, 0, 0], ErrorKind::InvalidFile),
        (DataType::Int8, node_at(0, TYPE_ID), [51, 0, 0, 0], ErrorKind::UnsupportedVersion),
        // Unions without types.
        (DataType::Int8, node_at(0, TYPE_ID), [47, 0, 0, 0], ErrorKind::InvalidFile),
        (DataType::List(Arc::new(two("item"))), node_at(1, TYPE_ID), [47, 0, 0, 0], ErrorKind::InvalidFile),
    ];
    for (data_type, at, patch, kind) in cases {
        let mut bytes = write_schema(&Schema::new(vec![Field::new("col", data_type.clone(), true)]), &[]).unwrap();
        bytes[at..at + 4].copy_from_slice(&patch);
        let error = open(&bytes, 1).unwrap().field(0).unwrap_err();
        assert_eq!((error.kind(), error.column(), error.section()), (kind, Some("col"), Some(Section::Schema)), "{data_type}: {error}");
    }
}

#[test]
fn one_column_of_many_is_built_without_the_others() {
    let count = 100_000;
    let fields: Vec<Field> = (0..count).map(|index| Field::new(format!("c{index}"), DataType::Float32, true)).collect();
    let mut bytes = write_schema(&Schema::new(fields), &[]).unwrap();
    bytes[node_at(5, TYPE_ID)] = 99;
    let area = open(&bytes, count).unwrap();
    assert_eq!(*area.field(count - 1).unwrap(), Field::new("c99999", DataType::Float32, true));
    assert_eq!(area.index_of("c4711"), Some(4711));
    assert_eq!(area.index_of("c100000"), None);
    assert_eq!(area.field(5).unwrap_err().kind(), ErrorKind::UnsupportedVersion);
    assert_eq!(area.arrow_schema().unwrap_err().column(), Some("c5"));
    assert_eq!(area.field(count).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn streams_are_depth_first() {
    use StreamType::{Data, Offsets, Validity};
    let field = |data_type| Arc::new(Field::new("f", data_type, true));
    let pair = Fields::from(vec![Field::new("k", DataType::Utf8, false), Field::new("v", leaf_list(), true)]);
    let union = UnionFields::try_new([3, 7], [field(DataType::Int8), field(DataType::Null)]).unwrap();
    let table: [(DataType, Vec<StreamType>); 10] = [
        (DataType::Null, vec![]),
        (DataType::Boolean, vec![Validity, Data]),
        (DataType::Interval(IntervalUnit::MonthDayNano), vec![Validity, Data]),
        (DataType::Struct(Fields::empty()), vec![Validity]),
        (leaf_list(), vec![Validity, Offsets, Validity, Data]),
        (DataType::FixedSizeList(field(leaf_list()), 3), vec![Validity, Validity, Offsets, Validity, Data]),
        (DataType::Map(field(DataType::Struct(pair)), false), vec![Validity, Offsets, Validity, Validity, Data, Validity, Offsets, Validity, Data]),
        (DataType::Union(union, UnionMode::Dense), vec![Data, Validity, Data]),
        (DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)), vec![Validity, Data]),
        (DataType::RunEndEncoded(field(DataType::Int32), field(leaf_list())), vec![Validity, Offsets, Validity, Data]),
    ];
    for (data_type, expected) in table {
        assert_eq!(streams(&data_type), expected, "{data_type}");
        assert_eq!(stream_count(&data_type), expected.len());
    }
}

#[test]
fn slots_per_row_are_known_outside_of_lists() {
    let field = |data_type| Arc::new(Field::new("f", data_type, true));
    let inner = DataType::FixedSizeList(field(DataType::Struct(Fields::from(vec![field(DataType::Int8), field(leaf_list())]))), 5);
    let slots: Vec<Option<u64>> = stream_layout(&DataType::FixedSizeList(field(inner), 3)).iter().map(|stream| stream.slots_per_row).collect();
    assert_eq!(slots, [Some(1), Some(3), Some(15), Some(15), Some(15), Some(15), Some(15), None, None]);
    let union = UnionFields::try_new([0], [field(DataType::Int8)]).unwrap();
    let slots = |mode| stream_layout(&DataType::Union(union.clone(), mode)).last().unwrap().slots_per_row;
    assert_eq!((slots(UnionMode::Sparse), slots(UnionMode::Dense)), (Some(1), None));
}

#[test]
fn the_leaf_of_a_logical_type_is_what_it_holds() {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let run_ends = Arc::new(Field::new("run_ends", DataType::Int32, false));
    let runs = DataType::RunEndEncoded(run_ends, Arc::new(Field::new("values", dictionary.clone(), true)));
    assert_eq!(leaf_type(&dictionary), Some(&DataType::Utf8));
    assert_eq!(leaf_type(&runs), Some(&DataType::Utf8));
    assert_eq!((leaf_type(&leaf_list()), leaf_type(&DataType::Null)), (None, None));
}

#[test]
fn the_schema_of_many_columns_is_whoevers_has_asked_for_it() {
    for (columns, is_kept) in [(10, true), (3_000, false)] {
        let schema = Schema::new((0..columns).map(|column| Field::new(format!("c{column}"), DataType::Int8, true)).collect::<Vec<_>>());
        let area = SchemaArea::open(write_schema(&schema, &[]).unwrap().into(), columns).unwrap();
        let alone = area.memory_size();
        let built = area.arrow_schema().unwrap();
        assert!(*built == schema && Arc::ptr_eq(&built, &area.arrow_schema().unwrap()));
        let known = Arc::downgrade(&built);
        drop(built);
        assert_eq!((known.upgrade().is_some(), area.memory_size() > alone), (is_kept, is_kept));
        assert_eq!((area.field(7).unwrap().name().as_str(), area.arrow_schema().unwrap().as_ref()), ("c7", &schema));
    }
}

#[test]
fn names_that_cannot_be_read_are_refused_when_the_schema_is_opened() {
    let schema = Schema::new(vec![Field::new("é", DataType::Int8, true), Field::new("b", DataType::Int8, true)]);
    let bytes = write_schema(&schema, &[]).unwrap();
    let open = |bytes: &[u8]| SchemaArea::open(Bytes::copy_from_slice(bytes), 2).map_err(|error| error.to_string());
    assert_eq!(open(&bytes).unwrap().name(1), Some("b"));
    let name = bytes.windows(2).position(|window| window == "é".as_bytes()).unwrap();
    let first = size_of::<wire::SchemaHeader>();
    // Another byte, a name that begins in the middle of a character, one that is beyond the others.
    for (place, byte, why) in [(name + 1, b'x', "not UTF-8"), (first, 1, "within a character"), (first, 200, "beyond")] {
        let mut bytes = bytes.clone();
        bytes[place] = byte;
        let error = open(&bytes).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
