//! Writing the schema.

use std::collections::HashMap;

use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit, UnionMode};
use arrow_ipc as fb;
use flatbuffers::{FlatBufferBuilder, ForwardsUOffset, UnionWIPOffset, Vector, WIPOffset};

use crate::format::alkaid::flat::DEPTH_MAX;
use crate::format::alkaid::magic::{Flavor, key_in_file};
use crate::format::array::check_null;
use crate::format::error::{Error, Result};

type KeyValues<'a> = WIPOffset<Vector<'a, ForwardsUOffset<fb::KeyValue<'a>>>>;
type Fields<'a> = WIPOffset<Vector<'a, ForwardsUOffset<fb::Field<'a>>>>;

/// Writes a schema. The dictionaries of its fields are numbered depth first, an outer one before those of its values.
#[derive(Debug)]
pub(crate) struct SchemaWriter {
    schema: SchemaRef,
    flavor: Flavor,
}

impl SchemaWriter {
    /// Of a schema that readers take: types do not nest too deep.
    pub(crate) fn new(schema: SchemaRef, flavor: Flavor) -> Result<Self> {
        // A field and its type are two tables, and four are around them.
        const LEVELS_MAX: usize = (64 - 4) / 2;
        const _: () = assert!(LEVELS_MAX < DEPTH_MAX);
        for field in schema.fields() {
            if levels(field.data_type()) > LEVELS_MAX {
                return Err(Error::invalid_argument(format!("types are nested in each other more than {LEVELS_MAX} times")).in_column(field.name()));
            }
            if has_double_dictionary(field.data_type()) {
                let message = "a dictionary of codes of another dictionary has no place in the schema; cast it to a dictionary of values";
                return Err(Error::invalid_argument(message).in_column(field.name()));
            }
            check_null(field.data_type()).map_err(|error| error.of_argument().in_column(field.name()))?;
        }
        Ok(Self { schema, flavor })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Appends the schema's table.
    pub(crate) fn write<'a>(&self, builder: &mut FlatBufferBuilder<'a>) -> WIPOffset<fb::Schema<'a>> {
        let mut next_id = 0;
        let schema: &Schema = &self.schema;
        let fields: Vec<_> = schema.fields().iter().map(|field| self.field(builder, field, &mut next_id)).collect();
        let fields = builder.create_vector(&fields);
        let custom_metadata = self.metadata(builder, schema.metadata());
        let args = fb::SchemaArgs { endianness: fb::Endianness::Little, fields: Some(fields), custom_metadata, features: None };
        fb::Schema::create(builder, &args)
    }

    fn field<'a>(&self, builder: &mut FlatBufferBuilder<'a>, field: &Field, next_id: &mut i64) -> WIPOffset<fb::Field<'a>> {
        let name = builder.create_string(field.name());
        let custom_metadata = self.metadata(builder, field.metadata());
        let mut dictionary = None;
        let mut values = field.data_type();
        if let DataType::Dictionary(keys, of) = field.data_type() {
            let (bits, signed) = integer(keys).unwrap_or((32, true));
            let int = fb::Int::create(builder, &fb::IntArgs { bitWidth: bits, is_signed: signed });
            let is_ordered = field.dict_is_ordered().unwrap_or(false);
            let args = fb::DictionaryEncodingArgs {
                id: *next_id,
                indexType: Some(int),
                isOrdered: is_ordered,
                dictionaryKind: fb::DictionaryKind::DenseArray,
            };
            *next_id += 1;
            dictionary = Some(fb::DictionaryEncoding::create(builder, &args));
            values = of;
        }
        let children = self.children(builder, values, next_id);
        let (type_type, type_) = table(builder, values);
        let args =
            fb::FieldArgs { name: Some(name), nullable: field.is_nullable(), type_type, type_: Some(type_), dictionary, children, custom_metadata };
        fb::Field::create(builder, &args)
    }

    fn children<'a>(&self, builder: &mut FlatBufferBuilder<'a>, data_type: &DataType, next_id: &mut i64) -> Option<Fields<'a>> {
        let children: Vec<_> = children_of(data_type).into_iter().map(|child| self.field(builder, child, next_id)).collect();
        Some(builder.create_vector(&children))
    }

    fn metadata<'a>(&self, builder: &mut FlatBufferBuilder<'a>, metadata: &HashMap<String, String>) -> Option<KeyValues<'a>> {
        let mut pairs: Vec<_> = metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        // The same file for the same table.
        pairs.sort_unstable();
        self.key_values(builder, pairs.into_iter())
    }

    /// Appends keys and values; nothing if there are none.
    pub(crate) fn key_values<'a, 'p>(
        &self,
        builder: &mut FlatBufferBuilder<'a>,
        pairs: impl Iterator<Item = (&'p str, &'p str)>,
    ) -> Option<KeyValues<'a>> {
        let mut tables = Vec::new();
        for (key, value) in pairs {
            let key = builder.create_string(&key_in_file(key, self.flavor));
            let value = builder.create_string(value);
            tables.push(fb::KeyValue::create(builder, &fb::KeyValueArgs { key: Some(key), value: Some(value) }));
        }
        (!tables.is_empty()).then(|| builder.create_vector(&tables))
    }
}

/// The child fields of a type that is no dictionary.
fn children_of(data_type: &DataType) -> Vec<&Field> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => vec![item.as_ref()],
        DataType::Struct(fields) => fields.iter().map(AsRef::as_ref).collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field.as_ref()).collect(),
        DataType::RunEndEncoded(ends, values) => vec![ends.as_ref(), values.as_ref()],
        _ => Vec::new(),
    }
}

/// For each dictionary of a type, in the order of their numbers, how many there are in it, itself included.
pub(crate) fn dictionary_values(data_type: &DataType) -> Vec<usize> {
    match data_type {
        DataType::Dictionary(_, values) => {
            let inner = dictionary_values(values);
            std::iter::once(inner.len() + 1).chain(inner).collect()
        }
        other => children_of(other).into_iter().flat_map(|child| dictionary_values(child.data_type())).collect(),
    }
}

fn levels(data_type: &DataType) -> usize {
    match data_type {
        DataType::Dictionary(_, values) => levels(values),
        other => 1 + children_of(other).into_iter().map(|child| levels(child.data_type())).max().unwrap_or(0),
    }
}

fn has_double_dictionary(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => matches!(**values, DataType::Dictionary(..)) || has_double_dictionary(values),
        other => children_of(other).into_iter().any(|child| has_double_dictionary(child.data_type())),
    }
}

fn integer(data_type: &DataType) -> Option<(i32, bool)> {
    Some(match data_type {
        DataType::Int8 => (8, true),
        DataType::Int16 => (16, true),
        DataType::Int32 => (32, true),
        DataType::Int64 => (64, true),
        DataType::UInt8 => (8, false),
        DataType::UInt16 => (16, false),
        DataType::UInt32 => (32, false),
        DataType::UInt64 => (64, false),
        _ => return None,
    })
}

type Table = (fb::Type, WIPOffset<UnionWIPOffset>);

/// The table of a type.
fn table(builder: &mut FlatBufferBuilder<'_>, data_type: &DataType) -> Table {
    use fb::Type;
    if let Some((bits, signed)) = integer(data_type) {
        return (Type::Int, fb::Int::create(builder, &fb::IntArgs { bitWidth: bits, is_signed: signed }).as_union_value());
    }
    let float = |builder: &mut FlatBufferBuilder<'_>, precision| {
        (Type::FloatingPoint, fb::FloatingPoint::create(builder, &fb::FloatingPointArgs { precision }).as_union_value())
    };
    let date = |builder: &mut FlatBufferBuilder<'_>, unit| (Type::Date, fb::Date::create(builder, &fb::DateArgs { unit }).as_union_value());
    match data_type {
        DataType::Float16 => float(builder, fb::Precision::HALF),
        DataType::Float32 => float(builder, fb::Precision::SINGLE),
        DataType::Float64 => float(builder, fb::Precision::DOUBLE),
        DataType::Date32 => date(builder, fb::DateUnit::DAY),
        DataType::Date64 => date(builder, fb::DateUnit::MILLISECOND),
        DataType::Decimal32(precision, scale) => decimal(builder, 32, *precision, *scale),
        DataType::Decimal64(precision, scale) => decimal(builder, 64, *precision, *scale),
        DataType::Decimal128(precision, scale) => decimal(builder, 128, *precision, *scale),
        DataType::Decimal256(precision, scale) => decimal(builder, 256, *precision, *scale),
        DataType::Time32(of) => (Type::Time, fb::Time::create(builder, &fb::TimeArgs { unit: unit(*of), bitWidth: 32 }).as_union_value()),
        DataType::Time64(of) => (Type::Time, fb::Time::create(builder, &fb::TimeArgs { unit: unit(*of), bitWidth: 64 }).as_union_value()),
        DataType::Timestamp(of, zone) => {
            let timezone = zone.as_ref().map(|zone| builder.create_string(zone));
            (Type::Timestamp, fb::Timestamp::create(builder, &fb::TimestampArgs { unit: unit(*of), timezone }).as_union_value())
        }
        DataType::Duration(of) => (Type::Duration, fb::Duration::create(builder, &fb::DurationArgs { unit: unit(*of) }).as_union_value()),
        DataType::Interval(of) => (Type::Interval, fb::Interval::create(builder, &fb::IntervalArgs { unit: interval_unit(*of) }).as_union_value()),
        other => table_of_bytes_or_nested(builder, other),
    }
}

fn table_of_bytes_or_nested(builder: &mut FlatBufferBuilder<'_>, data_type: &DataType) -> Table {
    use fb::Type;
    match data_type {
        DataType::Boolean => (Type::Bool, fb::Bool::create(builder, &fb::BoolArgs {}).as_union_value()),
        DataType::Utf8 => (Type::Utf8, fb::Utf8::create(builder, &fb::Utf8Args {}).as_union_value()),
        DataType::LargeUtf8 => (Type::LargeUtf8, fb::LargeUtf8::create(builder, &fb::LargeUtf8Args {}).as_union_value()),
        DataType::Utf8View => (Type::Utf8View, fb::Utf8View::create(builder, &fb::Utf8ViewArgs {}).as_union_value()),
        DataType::Binary => (Type::Binary, fb::Binary::create(builder, &fb::BinaryArgs {}).as_union_value()),
        DataType::LargeBinary => (Type::LargeBinary, fb::LargeBinary::create(builder, &fb::LargeBinaryArgs {}).as_union_value()),
        DataType::BinaryView => (Type::BinaryView, fb::BinaryView::create(builder, &fb::BinaryViewArgs {}).as_union_value()),
        DataType::FixedSizeBinary(width) => {
            (Type::FixedSizeBinary, fb::FixedSizeBinary::create(builder, &fb::FixedSizeBinaryArgs { byteWidth: *width }).as_union_value())
        }
        DataType::List(_) => (Type::List, fb::List::create(builder, &fb::ListArgs {}).as_union_value()),
        DataType::LargeList(_) => (Type::LargeList, fb::LargeList::create(builder, &fb::LargeListArgs {}).as_union_value()),
        DataType::ListView(_) => (Type::ListView, fb::ListView::create(builder, &fb::ListViewArgs {}).as_union_value()),
        DataType::LargeListView(_) => (Type::LargeListView, fb::LargeListView::create(builder, &fb::LargeListViewArgs {}).as_union_value()),
        DataType::FixedSizeList(_, size) => {
            (Type::FixedSizeList, fb::FixedSizeList::create(builder, &fb::FixedSizeListArgs { listSize: *size }).as_union_value())
        }
        DataType::Struct(_) => (Type::Struct_, fb::Struct_::create(builder, &fb::Struct_Args {}).as_union_value()),
        DataType::Map(_, sorted) => (Type::Map, fb::Map::create(builder, &fb::MapArgs { keysSorted: *sorted }).as_union_value()),
        DataType::Union(fields, mode) => {
            let ids: Vec<i32> = fields.iter().map(|(id, _)| i32::from(id)).collect();
            let ids = builder.create_vector(&ids);
            let mode = if *mode == UnionMode::Sparse { fb::UnionMode::Sparse } else { fb::UnionMode::Dense };
            (Type::Union, fb::Union::create(builder, &fb::UnionArgs { mode, typeIds: Some(ids) }).as_union_value())
        }
        DataType::RunEndEncoded(..) => (Type::RunEndEncoded, fb::RunEndEncoded::create(builder, &fb::RunEndEncodedArgs {}).as_union_value()),
        _ => (Type::Null, fb::Null::create(builder, &fb::NullArgs {}).as_union_value()),
    }
}

fn decimal(builder: &mut FlatBufferBuilder<'_>, bits: i32, precision: u8, scale: i8) -> Table {
    let args = fb::DecimalArgs { bitWidth: bits, precision: i32::from(precision), scale: i32::from(scale) };
    (fb::Type::Decimal, fb::Decimal::create(builder, &args).as_union_value())
}

fn unit(unit: TimeUnit) -> fb::TimeUnit {
    match unit {
        TimeUnit::Second => fb::TimeUnit::SECOND,
        TimeUnit::Millisecond => fb::TimeUnit::MILLISECOND,
        TimeUnit::Microsecond => fb::TimeUnit::MICROSECOND,
        TimeUnit::Nanosecond => fb::TimeUnit::NANOSECOND,
    }
}

fn interval_unit(unit: IntervalUnit) -> fb::IntervalUnit {
    match unit {
        IntervalUnit::YearMonth => fb::IntervalUnit::YEAR_MONTH,
        IntervalUnit::DayTime => fb::IntervalUnit::DAY_TIME,
        IntervalUnit::MonthDayNano => fb::IntervalUnit::MONTH_DAY_NANO,
    }
}
