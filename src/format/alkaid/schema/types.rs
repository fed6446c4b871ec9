//! Types: a table of the schema to Arrow's type.

use std::sync::Arc;

use arrow::datatypes::{
    DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, Fields,
    IntervalUnit, TimeUnit, UnionFields, UnionMode,
};
use arrow_ipc as fb;

use crate::format::error::{Error, Result};

/// The type of a field with these children; that of the values, if there is a dictionary.
pub(super) fn data_type(field: &fb::Field<'_>, children: Vec<FieldRef>) -> Result<DataType> {
    let wanted =
        |found: Option<DataType>| found.ok_or_else(|| Error::invalid_file(format!("a field of type {:?} has no parameters", field.type_type())));
    match field.type_type() {
        fb::Type::List => Ok(DataType::List(one(children)?)),
        fb::Type::LargeList => Ok(DataType::LargeList(one(children)?)),
        fb::Type::ListView => Ok(DataType::ListView(one(children)?)),
        fb::Type::LargeListView => Ok(DataType::LargeListView(one(children)?)),
        fb::Type::FixedSizeList => {
            let size = field.type_as_fixed_size_list().map_or(-1, |list| list.listSize());
            not_negative(size, "the size of a fixed-size list")?;
            Ok(DataType::FixedSizeList(one(children)?, size))
        }
        fb::Type::Struct_ => Ok(DataType::Struct(children.into())),
        fb::Type::Map => map(one(children)?, field.type_as_map().is_some_and(|map| map.keysSorted())),
        fb::Type::Union => union(field.type_as_union(), children),
        fb::Type::RunEndEncoded => runs(children),
        _ if !children.is_empty() => Err(Error::invalid_file(format!("a field of type {:?} has children", field.type_type()))),
        fb::Type::Null => Ok(DataType::Null),
        fb::Type::Bool => Ok(DataType::Boolean),
        fb::Type::Utf8 => Ok(DataType::Utf8),
        fb::Type::LargeUtf8 => Ok(DataType::LargeUtf8),
        fb::Type::Utf8View => Ok(DataType::Utf8View),
        fb::Type::Binary => Ok(DataType::Binary),
        fb::Type::LargeBinary => Ok(DataType::LargeBinary),
        fb::Type::BinaryView => Ok(DataType::BinaryView),
        fb::Type::FixedSizeBinary => {
            let width = field.type_as_fixed_size_binary().map_or(-1, |binary| binary.byteWidth());
            not_negative(width, "the width of a fixed-size binary")?;
            Ok(DataType::FixedSizeBinary(width))
        }
        fb::Type::Int => wanted(field.type_as_int().map(|int| integer(&int)).transpose()?),
        fb::Type::FloatingPoint => wanted(field.type_as_floating_point().map(|float| floating(float.precision())).transpose()?),
        fb::Type::Decimal => wanted(field.type_as_decimal().map(|decimal| of_decimal(&decimal)).transpose()?),
        fb::Type::Date => wanted(field.type_as_date().map(|date| of_date(date.unit())).transpose()?),
        fb::Type::Time => wanted(field.type_as_time().map(|time| of_time(time.bitWidth(), time.unit())).transpose()?),
        fb::Type::Timestamp => wanted(field.type_as_timestamp().map(|timestamp| of_timestamp(&timestamp)).transpose()?),
        fb::Type::Duration => wanted(field.type_as_duration().map(|duration| unit(duration.unit()).map(DataType::Duration)).transpose()?),
        fb::Type::Interval => wanted(field.type_as_interval().map(|interval| of_interval(interval.unit())).transpose()?),
        fb::Type::NONE => Err(Error::invalid_file("a field has no type")),
        other => Err(Error::unsupported(format!("a field has type number {}, which this reader does not know", other.0))),
    }
}

/// The type of whole numbers.
pub(super) fn integer(int: &fb::Int<'_>) -> Result<DataType> {
    Ok(match (int.bitWidth(), int.is_signed()) {
        (8, true) => DataType::Int8,
        (16, true) => DataType::Int16,
        (32, true) => DataType::Int32,
        (64, true) => DataType::Int64,
        (8, false) => DataType::UInt8,
        (16, false) => DataType::UInt16,
        (32, false) => DataType::UInt32,
        (64, false) => DataType::UInt64,
        (bits, _) => return Err(Error::unsupported(format!("integers have 8, 16, 32 or 64 bits, not {bits}"))),
    })
}

fn not_negative(value: i32, what: &str) -> Result<()> {
    if value < 0 { Err(Error::invalid_file(format!("{what} is negative or missing"))) } else { Ok(()) }
}

fn one(children: Vec<FieldRef>) -> Result<FieldRef> {
    let [child] = <[FieldRef; 1]>::try_from(children)
        .map_err(|children| Error::invalid_file(format!("a list or map has one child, and this one {}", children.len())))?;
    Ok(child)
}

/// Neither an entry nor its key is ever null, whatever the schema says of them.
fn map(entries: FieldRef, sorted: bool) -> Result<DataType> {
    let not_a_map = || Error::invalid_file(format!("the entries of a map are {}, not a struct of keys and values", entries.data_type()));
    let DataType::Struct(fields) = entries.data_type() else { return Err(not_a_map()) };
    let [key, value] = fields.as_ref() else { return Err(not_a_map()) };
    let key = Arc::new(key.as_ref().clone().with_nullable(false));
    let fields: Fields = vec![key, Arc::clone(value)].into();
    let entries = entries.as_ref().clone().with_data_type(DataType::Struct(fields)).with_nullable(false);
    Ok(DataType::Map(Arc::new(entries), sorted))
}

fn union(union: Option<fb::Union<'_>>, children: Vec<FieldRef>) -> Result<DataType> {
    let union = union.ok_or_else(|| Error::invalid_file("a union has no parameters"))?;
    if children.is_empty() {
        return Err(Error::unsupported("a union of nothing has no values"));
    }
    let mode = match union.mode() {
        fb::UnionMode::Sparse => UnionMode::Sparse,
        fb::UnionMode::Dense => UnionMode::Dense,
        other => return Err(Error::unsupported(format!("a union has mode {}, which this reader does not know", other.0))),
    };
    let id = |id: i32| i8::try_from(id).ok().filter(|id| *id >= 0).ok_or_else(|| Error::invalid_file(format!("{id} is no type id of a union")));
    let ids: Vec<i8> = match union.typeIds() {
        Some(ids) => ids.iter().map(id).collect::<Result<_>>()?,
        None => (0..).take(children.len()).map(id).collect::<Result<_>>()?,
    };
    if ids.len() != children.len() {
        return Err(Error::invalid_file(format!("a union has {} type ids for {} children", ids.len(), children.len())));
    }
    Ok(DataType::Union(UnionFields::try_new(ids, children)?, mode))
}

fn runs(children: Vec<FieldRef>) -> Result<DataType> {
    let [ends, values] = <[FieldRef; 2]>::try_from(children)
        .map_err(|children| Error::invalid_file(format!("a run-end encoded field has run ends and values, not {} children", children.len())))?;
    match ends.data_type() {
        DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            let ends: Field = ends.as_ref().clone().with_nullable(false);
            Ok(DataType::RunEndEncoded(Arc::new(ends), values))
        }
        other => Err(Error::invalid_file(format!("run ends are Int16, Int32 or Int64, not {other}"))),
    }
}

fn floating(precision: fb::Precision) -> Result<DataType> {
    match precision {
        fb::Precision::HALF => Ok(DataType::Float16),
        fb::Precision::SINGLE => Ok(DataType::Float32),
        fb::Precision::DOUBLE => Ok(DataType::Float64),
        other => Err(Error::unsupported(format!("a float has precision {}, which this reader does not know", other.0))),
    }
}

fn of_decimal(decimal: &fb::Decimal<'_>) -> Result<DataType> {
    let wrong = || {
        Error::invalid_file(format!(
            "there are no decimals of {} bits, precision {} and scale {}",
            decimal.bitWidth(),
            decimal.precision(),
            decimal.scale()
        ))
    };
    let own = u8::try_from(decimal.precision()).map_err(|_| wrong())?;
    let scale = i8::try_from(decimal.scale()).map_err(|_| wrong())?;
    // Arrow has no decimals of more digits behind the point than there are, as others do; with zeros before them they are the same numbers.
    let precision = own.max(u8::try_from(scale).unwrap_or(0));
    let (most, data_type) = match decimal.bitWidth() {
        32 => (DECIMAL32_MAX_PRECISION, DataType::Decimal32(precision, scale)),
        64 => (DECIMAL64_MAX_PRECISION, DataType::Decimal64(precision, scale)),
        128 => (DECIMAL128_MAX_PRECISION, DataType::Decimal128(precision, scale)),
        256 => (DECIMAL256_MAX_PRECISION, DataType::Decimal256(precision, scale)),
        _ => return Err(wrong()),
    };
    if own > 0 && precision <= most { Ok(data_type) } else { Err(wrong()) }
}

fn of_date(unit: fb::DateUnit) -> Result<DataType> {
    match unit {
        fb::DateUnit::DAY => Ok(DataType::Date32),
        fb::DateUnit::MILLISECOND => Ok(DataType::Date64),
        other => Err(Error::unsupported(format!("dates have unit {}, which this reader does not know", other.0))),
    }
}

fn of_time(bits: i32, time_unit: fb::TimeUnit) -> Result<DataType> {
    match (bits, unit(time_unit)?) {
        (32, unit @ (TimeUnit::Second | TimeUnit::Millisecond)) => Ok(DataType::Time32(unit)),
        (64, unit @ (TimeUnit::Microsecond | TimeUnit::Nanosecond)) => Ok(DataType::Time64(unit)),
        (bits, unit) => Err(Error::invalid_file(format!("there are no times of {bits} bits in {unit:?}"))),
    }
}

fn of_timestamp(timestamp: &fb::Timestamp<'_>) -> Result<DataType> {
    let zone = timestamp.timezone().filter(|zone| !zone.is_empty());
    Ok(DataType::Timestamp(unit(timestamp.unit())?, zone.map(Arc::from)))
}

fn of_interval(unit: fb::IntervalUnit) -> Result<DataType> {
    match unit {
        fb::IntervalUnit::YEAR_MONTH => Ok(DataType::Interval(IntervalUnit::YearMonth)),
        fb::IntervalUnit::DAY_TIME => Ok(DataType::Interval(IntervalUnit::DayTime)),
        fb::IntervalUnit::MONTH_DAY_NANO => Ok(DataType::Interval(IntervalUnit::MonthDayNano)),
        other => Err(Error::unsupported(format!("intervals have unit {}, which this reader does not know", other.0))),
    }
}

fn unit(unit: fb::TimeUnit) -> Result<TimeUnit> {
    match unit {
        fb::TimeUnit::SECOND => Ok(TimeUnit::Second),
        fb::TimeUnit::MILLISECOND => Ok(TimeUnit::Millisecond),
        fb::TimeUnit::MICROSECOND => Ok(TimeUnit::Microsecond),
        fb::TimeUnit::NANOSECOND => Ok(TimeUnit::Nanosecond),
        other => Err(Error::unsupported(format!("times have unit {}, which this reader does not know", other.0))),
    }
}
