//! Random types and random arrays of them: every Arrow type, nested in each other, nulls and extremes everywhere.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::*;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngCore, SeedableRng};

pub(crate) fn rng(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// Every type without children.
pub(crate) fn leaf_types() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![
        Null,
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Date32,
        Date64,
        Binary,
        LargeBinary,
        BinaryView,
        Utf8,
        LargeUtf8,
        Utf8View,
        FixedSizeBinary(0),
        FixedSizeBinary(5),
        FixedSizeBinary(16),
        Time32(TimeUnit::Second),
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Time64(TimeUnit::Nanosecond),
        Decimal32(9, 2),
        Decimal64(18, 0),
        Decimal128(38, 10),
        Decimal128(12, -2),
        Decimal256(76, 20),
        Interval(IntervalUnit::YearMonth),
        Interval(IntervalUnit::DayTime),
        Interval(IntervalUnit::MonthDayNano),
    ];
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        types.push(Timestamp(unit, None));
        types.push(Timestamp(unit, Some("+08:00".into())));
        types.push(Duration(unit));
    }
    types
}

/// A random type, with at most `depth` levels below it.
pub(crate) fn data_type(rng: &mut StdRng, depth: usize) -> DataType {
    if depth == 0 || rng.random_bool(0.3) {
        // Arrow's own kernels, which the tests compare with, lose count of values without bytes.
        let types: Vec<DataType> = leaf_types().into_iter().filter(|leaf| *leaf != DataType::FixedSizeBinary(0)).collect();
        return types.choose(rng).unwrap().clone();
    }
    let child = |rng: &mut StdRng, name: &str| Arc::new(Field::new(name, data_type(rng, depth - 1), true));
    match rng.random_range(0..11) {
        0 => DataType::List(child(rng, "item")),
        1 => DataType::LargeList(child(rng, "element")),
        2 => DataType::ListView(child(rng, "item")),
        3 => DataType::LargeListView(child(rng, "item")),
        4 => DataType::FixedSizeList(child(rng, "item"), rng.random_range(1..4)),
        5 | 6 => {
            let fields: Vec<_> = (0..rng.random_range(0..4)).map(|i| child(rng, &format!("f{i}"))).collect();
            DataType::Struct(fields.into())
        }
        7 => {
            let entries = vec![Field::new("keys", DataType::Utf8, false), Field::new("values", data_type(rng, depth - 1), true)];
            DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries.into()), false)), rng.random_bool(0.5))
        }
        8 => {
            let mode = if rng.random_bool(0.5) { UnionMode::Sparse } else { UnionMode::Dense };
            let fields: Vec<_> = (0..rng.random_range(1..4)).map(|i| child(rng, &format!("u{i}"))).collect();
            let ids: Vec<i8> = [3_i8, 0, 127].into_iter().take(fields.len()).collect();
            DataType::Union(UnionFields::try_new(ids, fields).unwrap(), mode)
        }
        9 => {
            let keys = [DataType::Int8, DataType::UInt8, DataType::Int16, DataType::UInt16, DataType::Int32, DataType::UInt64];
            let values = loop {
                // A null key of a union cannot be stored, and one of runs not be looked up by Arrow.
                let values = data_type(rng, depth - 1);
                if !has_no_nulls(&values) && !values.is_null() {
                    break values;
                }
            };
            DataType::Dictionary(Box::new(keys.choose(rng).unwrap().clone()), Box::new(values))
        }
        _ => {
            let ends = [DataType::Int16, DataType::Int32, DataType::Int64].choose(rng).unwrap().clone();
            let values = [DataType::Utf8, DataType::Int32, DataType::Float64, DataType::Boolean].choose(rng).unwrap().clone();
            DataType::RunEndEncoded(Arc::new(Field::new("run_ends", ends, false)), Arc::new(Field::new("values", values, true)))
        }
    }
}

fn has_no_nulls(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) | DataType::RunEndEncoded(..) => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_no_nulls(field.data_type())),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => has_no_nulls(item.data_type()),
        DataType::Dictionary(_, values) => has_no_nulls(values),
        _ => false,
    }
}

/// How nulls are spread.
fn nulls(rng: &mut StdRng, rows: usize, nullable: bool) -> Option<NullBuffer> {
    match rng.random_range(0..5) {
        _ if !nullable => None,
        0 | 1 => None,
        2 => Some(NullBuffer::new_null(rows)),
        3 => Some((0..rows).map(|_| rng.random_bool(0.9)).collect()),
        _ => Some((0..rows).map(|_| rng.random_bool(0.3)).collect()),
    }
}

/// A random array.
pub(crate) fn array(rng: &mut StdRng, data_type: &DataType, rows: usize, nullable: bool) -> ArrayRef {
    use DataType::*;
    let nulls = nulls(rng, rows, nullable);
    match data_type {
        Null => Arc::new(NullArray::new(rows)),
        Boolean => Arc::new(BooleanArray::new((0..rows).map(|_| rng.random_bool(0.5)).collect(), nulls)),
        Utf8 | LargeUtf8 | Utf8View => {
            let strings = StringArray::from_iter_values((0..rows).map(|_| text(rng)));
            let strings = StringArray::new(strings.offsets().clone(), strings.values().clone(), nulls);
            cast(&strings, data_type).unwrap()
        }
        Binary | LargeBinary | BinaryView => {
            let values: Vec<Option<Vec<u8>>> = (0..rows).map(|i| nulls.as_ref().is_none_or(|n| n.is_valid(i)).then(|| bytes(rng))).collect();
            cast(&BinaryArray::from_iter(values), data_type).unwrap()
        }
        FixedSizeBinary(width) => {
            let mut values = vec![0; rows * usize::try_from(*width).unwrap()];
            rng.fill_bytes(&mut values);
            Arc::new(FixedSizeBinaryArray::try_new_with_len(*width, Buffer::from_vec(values), nulls, rows).unwrap())
        }
        List(item) => {
            let (offsets, child) = list_parts::<i32>(rng, item, rows);
            Arc::new(ListArray::new(Arc::clone(item), offsets, child, nulls))
        }
        LargeList(item) => {
            let (offsets, child) = list_parts::<i64>(rng, item, rows);
            Arc::new(LargeListArray::new(Arc::clone(item), offsets, child, nulls))
        }
        ListView(item) => {
            let (offsets, sizes, child) = view_parts::<i32>(rng, item, rows);
            Arc::new(ListViewArray::new(Arc::clone(item), offsets, sizes, child, nulls))
        }
        LargeListView(item) => {
            let (offsets, sizes, child) = view_parts::<i64>(rng, item, rows);
            Arc::new(LargeListViewArray::new(Arc::clone(item), offsets, sizes, child, nulls))
        }
        FixedSizeList(item, size) => {
            let child = array(rng, item.data_type(), rows * usize::try_from(*size).unwrap(), item.is_nullable());
            Arc::new(FixedSizeListArray::try_new_with_length(Arc::clone(item), *size, child, nulls, rows).unwrap())
        }
        Map(entries, sorted) => {
            let (offsets, child) = list_parts::<i32>(rng, entries, rows);
            Arc::new(MapArray::new(Arc::clone(entries), offsets, child.as_struct().clone(), nulls, *sorted))
        }
        Struct(fields) => {
            let children = fields.iter().map(|field| array(rng, field.data_type(), rows, field.is_nullable())).collect();
            Arc::new(StructArray::try_new_with_length(fields.clone(), children, nulls, rows).unwrap())
        }
        Union(fields, mode) => union(rng, fields, *mode, rows),
        Dictionary(key, values) => {
            // Some entries are null, some the same, and some are not used.
            let entries = array(rng, values, 9, nullable);
            let keys: UInt8Array = (0..rows).map(|i| nulls.as_ref().is_none_or(|n| n.is_valid(i)).then(|| rng.random_range(0..7))).collect();
            let keys = cast(&keys, key).unwrap().to_data();
            make_array(keys.into_builder().data_type(data_type.clone()).child_data(vec![entries.to_data()]).build().unwrap())
        }
        RunEndEncoded(_, values) => {
            let runs = array(rng, values.data_type(), rows.div_ceil(3), true);
            let slots = UInt32Array::from_iter_values((0..u32::try_from(rows).unwrap()).map(|row| row / 3));
            cast(&arrow::compute::take(&runs, &slots, None).unwrap(), data_type).unwrap()
        }
        _ => fixed(rng, data_type, rows, nulls),
    }
}

fn fixed(rng: &mut StdRng, data_type: &DataType, rows: usize, nulls: Option<NullBuffer>) -> ArrayRef {
    let width = data_type.primitive_width().unwrap();
    let mut values = vec![0_u8; rows * width];
    // Constant, small, or any bits: extremes, NaNs and both zeros among them.
    match rng.random_range(0..4) {
        0 => {}
        1 => values.chunks_exact_mut(width).for_each(|value| value[0] = rng.random_range(0..20)),
        2 => values.chunks_exact_mut(width).zip(0_u16..).for_each(|(value, i)| value[0] = u8::try_from(i / 7 % 256).unwrap()),
        _ => {
            rng.fill_bytes(&mut values);
            for value in values.chunks_exact_mut(width) {
                match rng.random_range(0..8) {
                    0 => value.fill(0xff),
                    1 => value.fill(0),
                    2 => {
                        value.fill(0);
                        value[width - 1] = 0x80;
                    }
                    _ => {}
                }
            }
        }
    }
    if data_type.is_floating() && rng.random_bool(0.7) {
        without_nans(&mut values, width);
    }
    let data = ArrayData::builder(data_type.clone()).len(rows).add_buffer(Buffer::from_vec(values)).nulls(nulls).align_buffers(true);
    make_array(data.build().unwrap())
}

/// Takes a bit of the exponent off: with a NaN among them, nothing bounds floats.
fn without_nans(values: &mut [u8], width: usize) {
    values.chunks_exact_mut(width).for_each(|value| value[width - 1] &= !0x20);
}

fn text(rng: &mut StdRng) -> String {
    match rng.random_range(0..7) {
        0 => String::new(),
        1 => "short".to_owned(),
        2 => format!("exactly{:05}", rng.random_range(0..9)),
        3 => format!("Customer#{:09}", rng.random_range(0..1000)),
        4 => "日本語、中文，émoji 🦀".repeat(rng.random_range(1..6)),
        5 => (0..rng.random_range(0..40)).map(|_| rng.random_range('a'..='z')).collect(),
        _ => "x".repeat(rng.random_range(0..300)),
    }
}

fn bytes(rng: &mut StdRng) -> Vec<u8> {
    let mut bytes = vec![0; rng.random_range(0..40)];
    rng.fill_bytes(&mut bytes);
    if rng.random_bool(0.2) { vec![0xff; 20] } else { bytes }
}

fn list_parts<O: OffsetSizeTrait>(rng: &mut StdRng, item: &FieldRef, rows: usize) -> (OffsetBuffer<O>, ArrayRef) {
    let most = if rng.random_bool(0.2) { 1 } else { 5 };
    let lengths: Vec<usize> = (0..rows).map(|_| rng.random_range(0..most)).collect();
    let child = array(rng, item.data_type(), lengths.iter().sum(), item.is_nullable());
    (OffsetBuffer::from_lengths(lengths), child)
}

/// Views in any order, some shared.
fn view_parts<O: OffsetSizeTrait>(rng: &mut StdRng, item: &FieldRef, rows: usize) -> (ScalarBuffer<O>, ScalarBuffer<O>, ArrayRef) {
    let child = array(rng, item.data_type(), 20, item.is_nullable());
    let sizes: Vec<usize> = (0..rows).map(|_| rng.random_range(0..5)).collect();
    let offsets = sizes.iter().map(|size| O::usize_as(rng.random_range(0..=20 - size))).collect();
    (offsets, sizes.iter().map(|size| O::usize_as(*size)).collect(), child)
}

fn union(rng: &mut StdRng, fields: &UnionFields, mode: UnionMode, rows: usize) -> ArrayRef {
    let ids: Vec<i8> = fields.iter().map(|(id, _)| id).collect();
    let type_ids: Vec<i8> = (0..rows).map(|_| *ids.choose(rng).unwrap()).collect();
    let children: Vec<ArrayRef> = fields.iter().map(|(_, field)| array(rng, field.data_type(), rows.max(1), true)).collect();
    let (offsets, children) = match mode {
        UnionMode::Sparse => (None, children.into_iter().map(|child| child.slice(0, rows)).collect()),
        UnionMode::Dense => (Some((0..rows).map(|_| rng.random_range(0..i32::try_from(rows.max(1)).unwrap())).collect()), children),
    };
    Arc::new(UnionArray::try_new(fields.clone(), type_ids.into(), offsets, children).unwrap())
}

/// Random batches of a random schema.
pub(crate) fn table(seed: u64) -> (SchemaRef, Vec<RecordBatch>) {
    let mut rng = rng(seed);
    let columns = rng.random_range(0..6);
    let fields: Vec<Field> = (0..columns)
        .map(|i| {
            let nullable = rng.random_bool(0.8);
            let metadata = if rng.random_bool(0.3) { [("key".to_owned(), format!("value {i}"))].into() } else { Default::default() };
            Field::new(format!("column {i}"), data_type(&mut rng, 3), nullable).with_metadata(metadata)
        })
        .map(|field| if field.data_type().is_null() { field.with_nullable(true) } else { field })
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let batches = (0..rng.random_range(0..5)).map(|_| batch(&mut rng, &schema)).collect();
    (schema, batches)
}

fn batch(rng: &mut StdRng, schema: &SchemaRef) -> RecordBatch {
    let rows = *[0, 1, 2, 7, 100, 1023, 1024, 1025, 3000].choose(rng).unwrap();
    let skip = rng.random_range(0..3);
    let columns = schema.fields().iter().map(|field| array(rng, field.data_type(), rows + skip, field.is_nullable()).slice(skip, rows)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).unwrap()
}
