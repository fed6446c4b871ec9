//! Arrow's integration JSON: a schema, dictionaries and batches, as text.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayData, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::*;
use serde_json::Value;

/// The contents of a file.
pub(crate) struct Contents {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

/// Reads the text.
pub(crate) fn read(text: &str) -> Contents {
    let root: Value = serde_json::from_str(text).unwrap();
    let fields: Vec<Field> = list(&root["schema"], "fields").iter().map(field).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata(&root["schema"])));
    let mut reader = Reader { dictionaries: HashMap::new() };
    // A dictionary may need another that comes later.
    let definitions: HashMap<i64, &Value> = list(&root, "dictionaries").iter().map(|value| (value["id"].as_i64().unwrap(), value)).collect();
    for column in list(&root["schema"], "fields") {
        reader.define(column, &definitions);
    }
    let batches = list(&root, "batches").iter().map(|batch| {
        let columns = schema.fields().iter().zip(list(&root["schema"], "fields")).zip(list(batch, "columns"));
        let columns = columns.map(|((field, of), column)| reader.array(field.data_type(), of, column)).collect();
        let rows = RecordBatchOptions::new().with_row_count(Some(count(batch)));
        RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &rows).unwrap()
    });
    Contents { batches: batches.collect(), schema }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn count(value: &Value) -> usize {
    usize::try_from(value["count"].as_u64().unwrap()).unwrap()
}

fn metadata(value: &Value) -> HashMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    list(value, "metadata").iter().map(|pair| (text(&pair["key"]), text(&pair["value"]))).collect()
}

fn field(value: &Value) -> Field {
    let children: Vec<Field> = list(value, "children").iter().map(field).collect();
    let values = data_type(&value["type"], children);
    let dictionary = &value["dictionary"];
    let of_field = match dictionary.is_object() {
        true => DataType::Dictionary(Box::new(data_type(&dictionary["indexType"], Vec::new())), Box::new(values)),
        false => values,
    };
    let nullable = value["nullable"].as_bool().unwrap();
    let ordered = dictionary["isOrdered"].as_bool().unwrap_or(false);
    Field::new(value["name"].as_str().unwrap(), of_field, nullable).with_dict_is_ordered(ordered).with_metadata(metadata(value))
}

fn data_type(value: &Value, children: Vec<Field>) -> DataType {
    let number = |key: &str| i32::try_from(value[key].as_i64().unwrap()).unwrap();
    let unit = || match value["unit"].as_str().unwrap() {
        "SECOND" => TimeUnit::Second,
        "MILLISECOND" => TimeUnit::Millisecond,
        "MICROSECOND" => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    };
    let child = || Arc::new(children[0].clone());
    match value["name"].as_str().unwrap() {
        "null" => DataType::Null,
        "bool" => DataType::Boolean,
        "int" => match (number("bitWidth"), value["isSigned"].as_bool().unwrap()) {
            (8, true) => DataType::Int8,
            (16, true) => DataType::Int16,
            (32, true) => DataType::Int32,
            (64, true) => DataType::Int64,
            (8, false) => DataType::UInt8,
            (16, false) => DataType::UInt16,
            (32, false) => DataType::UInt32,
            _ => DataType::UInt64,
        },
        "floatingpoint" if value["precision"] == "SINGLE" => DataType::Float32,
        "floatingpoint" => DataType::Float64,
        "decimal" => {
            let (precision, scale) = (u8::try_from(number("precision")).unwrap(), i8::try_from(number("scale")).unwrap());
            match value["bitWidth"].as_i64().unwrap_or(128) {
                32 => DataType::Decimal32(precision, scale),
                64 => DataType::Decimal64(precision, scale),
                128 => DataType::Decimal128(precision, scale),
                _ => DataType::Decimal256(precision, scale),
            }
        }
        "date" if value["unit"] == "DAY" => DataType::Date32,
        "date" => DataType::Date64,
        "time" if number("bitWidth") == 32 => DataType::Time32(unit()),
        "time" => DataType::Time64(unit()),
        "timestamp" => DataType::Timestamp(unit(), value["timezone"].as_str().map(Into::into)),
        "duration" => DataType::Duration(unit()),
        "interval" if value["unit"] == "YEAR_MONTH" => DataType::Interval(IntervalUnit::YearMonth),
        "interval" if value["unit"] == "DAY_TIME" => DataType::Interval(IntervalUnit::DayTime),
        "interval" => DataType::Interval(IntervalUnit::MonthDayNano),
        "utf8" => DataType::Utf8,
        "largeutf8" => DataType::LargeUtf8,
        "binary" => DataType::Binary,
        "largebinary" => DataType::LargeBinary,
        "utf8view" => DataType::Utf8View,
        "binaryview" => DataType::BinaryView,
        "listview" => DataType::ListView(child()),
        "largelistview" => DataType::LargeListView(child()),
        "runendencoded" => DataType::RunEndEncoded(child(), Arc::new(children[1].clone())),
        "fixedsizebinary" => DataType::FixedSizeBinary(number("byteWidth")),
        "list" => DataType::List(child()),
        "largelist" => DataType::LargeList(child()),
        "fixedsizelist" => DataType::FixedSizeList(child(), number("listSize")),
        "struct" => DataType::Struct(children.into()),
        "map" => DataType::Map(child(), value["keysSorted"].as_bool().unwrap()),
        "union" => {
            let ids: Vec<i8> = list(value, "typeIds").iter().map(|id| i8::try_from(id.as_i64().unwrap()).unwrap()).collect();
            let mode = if value["mode"] == "SPARSE" { UnionMode::Sparse } else { UnionMode::Dense };
            DataType::Union(UnionFields::try_new(ids, children).unwrap(), mode)
        }
        other => panic!("a type called {other}"),
    }
}

struct Reader {
    dictionaries: HashMap<i64, ArrayRef>,
}

impl Reader {
    /// Reads the dictionaries of a field, inner ones first.
    fn define(&mut self, of: &Value, definitions: &HashMap<i64, &Value>) {
        list(of, "children").iter().for_each(|child| self.define(child, definitions));
        let Some(id) = of["dictionary"]["id"].as_i64() else { return };
        let DataType::Dictionary(_, values) = field(of).data_type().clone() else { unreachable!() };
        let column = &list(&definitions[&id]["data"], "columns")[0];
        let array = self.values(&values, of, column);
        self.dictionaries.insert(id, array);
    }

    fn array(&self, data_type: &DataType, of: &Value, column: &Value) -> ArrayRef {
        let DataType::Dictionary(keys, _) = data_type else { return self.values(data_type, of, column) };
        let values = &self.dictionaries[&of["dictionary"]["id"].as_i64().unwrap()];
        let codes = self.values(keys, &Value::Null, column).to_data().into_builder().data_type(data_type.clone());
        make_array(codes.child_data(vec![values.to_data()]).build().unwrap())
    }

    fn values(&self, data_type: &DataType, of: &Value, column: &Value) -> ArrayRef {
        use DataType::*;
        let rows = count(column);
        let children = || -> Vec<ArrayData> {
            let types: Vec<DataType> = match data_type {
                List(item) | LargeList(item) | ListView(item) | LargeListView(item) | FixedSizeList(item, _) | Map(item, _) => {
                    vec![item.data_type().clone()]
                }
                RunEndEncoded(ends, values) => vec![ends.data_type().clone(), values.data_type().clone()],
                Struct(fields) => fields.iter().map(|field| field.data_type().clone()).collect(),
                Union(fields, _) => fields.iter().map(|(_, field)| field.data_type().clone()).collect(),
                _ => Vec::new(),
            };
            let columns = types.iter().zip(list(of, "children")).zip(list(column, "children"));
            columns.map(|((data_type, of), column)| self.array(data_type, of, column).to_data()).collect()
        };
        let has_nulls = !matches!(data_type, Null | Union(..) | RunEndEncoded(..));
        let nulls = has_nulls.then(|| list(column, "VALIDITY").iter().map(|bit| bit.as_i64().unwrap() == 1).collect::<NullBuffer>());
        let data = ArrayData::builder(data_type.clone()).len(rows).nulls(nulls);
        let data = match data_type {
            Null => data,
            Boolean => data.add_buffer(list(column, "DATA").iter().map(|bit| bit.as_bool().unwrap_or_else(|| bit == 1)).collect()),
            Utf8 | Binary => data.add_buffer(offsets::<i32>(column)).add_buffer(bytes(data_type, column)),
            LargeUtf8 | LargeBinary => data.add_buffer(offsets::<i64>(column)).add_buffer(bytes(data_type, column)),
            FixedSizeBinary(_) => data.add_buffer(bytes(data_type, column)),
            List(_) | Map(..) => data.add_buffer(offsets::<i32>(column)).child_data(children()),
            LargeList(_) => data.add_buffer(offsets::<i64>(column)).child_data(children()),
            ListView(_) => data.add_buffer(numbers::<i32>(column, "OFFSET")).add_buffer(numbers::<i32>(column, "SIZE")).child_data(children()),
            LargeListView(_) => data.add_buffer(numbers::<i64>(column, "OFFSET")).add_buffer(numbers::<i64>(column, "SIZE")).child_data(children()),
            Utf8View | BinaryView => {
                let buffers = list(column, "VARIADIC_DATA_BUFFERS").iter().map(|buffer| Buffer::from_vec(from_hex(buffer.as_str().unwrap())));
                data.add_buffer(views(data_type, column)).add_buffers(buffers.collect::<Vec<_>>())
            }
            Struct(_) | FixedSizeList(..) | RunEndEncoded(..) => data.child_data(children()),
            Union(_, UnionMode::Sparse) => data.add_buffer(numbers::<i8>(column, "TYPE_ID")).child_data(children()),
            Union(_, UnionMode::Dense) => {
                data.add_buffer(numbers::<i8>(column, "TYPE_ID")).add_buffer(numbers::<i32>(column, "OFFSET")).child_data(children())
            }
            Interval(IntervalUnit::DayTime) => {
                let part = |value: &Value, key: &str| i32::try_from(value[key].as_i64().unwrap()).unwrap();
                let days = list(column, "DATA").iter().flat_map(|value| [part(value, "days"), part(value, "milliseconds")]);
                data.add_buffer(Buffer::from_vec(days.collect::<Vec<i32>>()))
            }
            Interval(IntervalUnit::MonthDayNano) => {
                let part = |value: &Value, key: &str| i32::try_from(value[key].as_i64().unwrap()).unwrap();
                let value =
                    |value: &Value| IntervalMonthDayNano::new(part(value, "months"), part(value, "days"), value["nanoseconds"].as_i64().unwrap());
                data.add_buffer(Buffer::from_vec(list(column, "DATA").iter().map(value).collect::<Vec<_>>()))
            }
            Float32 => {
                let values = list(column, "DATA").iter().map(|value| value.to_string().parse().unwrap());
                data.add_buffer(Buffer::from_vec(values.collect::<Vec<f32>>()))
            }
            Float64 => data.add_buffer(Buffer::from_vec(list(column, "DATA").iter().map(|value| value.as_f64().unwrap()).collect::<Vec<_>>())),
            Decimal256(..) => {
                let values: Vec<i256> = list(column, "DATA").iter().map(|value| i256::from_string(value.as_str().unwrap()).unwrap()).collect();
                data.add_buffer(Buffer::from_vec(values))
            }
            fixed => data.add_buffer(match fixed.primitive_width().unwrap() {
                1 => numbers::<i8>(column, "DATA"),
                2 => numbers::<i16>(column, "DATA"),
                4 => numbers::<i32>(column, "DATA"),
                8 => numbers::<i64>(column, "DATA"),
                _ => numbers::<i128>(column, "DATA"),
            }),
        };
        make_array(data.align_buffers(true).build().unwrap())
    }
}

/// Whole numbers, as numbers or as text, in so many bits.
fn numbers<T: ArrowNativeType + WrappingFrom>(column: &Value, key: &str) -> Buffer {
    let number = |value: &Value| match value {
        Value::String(text) => T::wrapping_from(text.parse().unwrap()),
        value => T::wrapping_from(value.as_i64().map_or_else(|| i128::from(value.as_u64().unwrap()), i128::from)),
    };
    Buffer::from_vec(list(column, key).iter().map(number).collect::<Vec<T>>())
}

/// A number that fits, or that does when it is read as one without a sign.
trait WrappingFrom {
    fn wrapping_from(value: i128) -> Self;
}

macro_rules! wrapping_from {
    ($($signed:ty, $unsigned:ty);*) => {
        $(impl WrappingFrom for $signed {
            fn wrapping_from(value: i128) -> Self {
                Self::try_from(value).unwrap_or_else(|_| <$unsigned>::try_from(value).unwrap().cast_signed())
            }
        })*
    };
}

wrapping_from!(i8, u8; i16, u16; i32, u32; i64, u64; i128, u128);

fn offsets<T: ArrowNativeType + WrappingFrom>(column: &Value) -> Buffer {
    if list(column, "OFFSET").is_empty() { Buffer::from_vec(vec![T::default()]) } else { numbers::<T>(column, "OFFSET") }
}

fn from_hex(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
}

/// Views: a length, and the bytes or the first of them and where they are.
fn views(data_type: &DataType, column: &Value) -> Buffer {
    let view = |value: &Value| {
        let number = |key: &str| u32::try_from(value[key].as_u64().unwrap()).unwrap().to_le_bytes();
        let mut view = number("SIZE").to_vec();
        match value["INLINED"].as_str() {
            Some(text) if *data_type == DataType::Utf8View => view.extend(text.as_bytes()),
            Some(hex) => view.extend(from_hex(hex)),
            None => {
                view.extend([from_hex(value["PREFIX_HEX"].as_str().unwrap()), number("BUFFER_INDEX").to_vec(), number("OFFSET").to_vec()].concat())
            }
        }
        view.resize(16, 0);
        view
    };
    Buffer::from_vec(list(column, "VIEWS").iter().flat_map(view).collect::<Vec<u8>>())
}

fn bytes(data_type: &DataType, column: &Value) -> Buffer {
    let is_text = matches!(data_type, DataType::Utf8 | DataType::LargeUtf8);
    let value = |value: &Value| match (value.as_str().unwrap(), is_text) {
        (text, true) => text.as_bytes().to_vec(),
        (hex, false) => from_hex(hex),
    };
    Buffer::from_vec(list(column, "DATA").iter().flat_map(value).collect::<Vec<u8>>())
}
