//! Type ids, and types from their parts. Arrow builds some types without looking, so what could panic later is refused here.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, IntervalUnit, TimeUnit, UnionFields, UnionMode};

use crate::format::error::{Error, Result};

/// Types without parameters and children.
const PLAIN: [(u16, DataType); 32] = [
    (0, DataType::Null),
    (1, DataType::Boolean),
    (2, DataType::Int8),
    (3, DataType::Int16),
    (4, DataType::Int32),
    (5, DataType::Int64),
    (6, DataType::UInt8),
    (7, DataType::UInt16),
    (8, DataType::UInt32),
    (9, DataType::UInt64),
    (10, DataType::Float16),
    (11, DataType::Float32),
    (12, DataType::Float64),
    (17, DataType::Date32),
    (18, DataType::Date64),
    (19, DataType::Time32(TimeUnit::Second)),
    (20, DataType::Time32(TimeUnit::Millisecond)),
    (21, DataType::Time64(TimeUnit::Microsecond)),
    (22, DataType::Time64(TimeUnit::Nanosecond)),
    (26, DataType::Duration(TimeUnit::Second)),
    (27, DataType::Duration(TimeUnit::Millisecond)),
    (28, DataType::Duration(TimeUnit::Microsecond)),
    (29, DataType::Duration(TimeUnit::Nanosecond)),
    (30, DataType::Interval(IntervalUnit::YearMonth)),
    (31, DataType::Interval(IntervalUnit::DayTime)),
    (32, DataType::Interval(IntervalUnit::MonthDayNano)),
    (33, DataType::Binary),
    (34, DataType::LargeBinary),
    (35, DataType::BinaryView),
    (37, DataType::Utf8),
    (38, DataType::LargeUtf8),
    (39, DataType::Utf8View),
];

const DECIMAL32: u16 = 13;
const DECIMAL64: u16 = 14;
const DECIMAL128: u16 = 15;
const DECIMAL256: u16 = 16;
const TIMESTAMP_SECOND: u16 = 23;
const TIMESTAMP_MILLISECOND: u16 = 24;
const TIMESTAMP_MICROSECOND: u16 = 25;
const TIMESTAMP_NANOSECOND: u16 = 50;
const FIXED_SIZE_BINARY: u16 = 36;
const LIST: u16 = 40;
const LARGE_LIST: u16 = 41;
const LIST_VIEW: u16 = 42;
const LARGE_LIST_VIEW: u16 = 43;
const FIXED_SIZE_LIST: u16 = 44;
const STRUCT: u16 = 45;
const MAP: u16 = 46;
const UNION: u16 = 47;
const DICTIONARY: u16 = 48;
const RUN_END_ENCODED: u16 = 49;

/// Bits of a node's `flags`.
pub(super) const NULLABLE: u16 = 1;
pub(super) const DICTIONARY_ORDERED: u16 = 1 << 1;
const KEYS_SORTED: u16 = 1 << 2;
const HAS_TIME_ZONE: u16 = 1 << 3;

/// What a node says about its type, children aside. A time zone is kept apart: `params` are then its place in the string pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TypeParts<'a> {
    pub(super) id: u16,
    pub(super) flags: u16,
    pub(super) params: [i32; 2],
    pub(super) time_zone: Option<&'a str>,
}

impl<'a> TypeParts<'a> {
    /// The parts of a type; refuses those that no file can hold.
    pub(super) fn of(data_type: &'a DataType) -> Result<Self> {
        let parts = |id| Self { id, flags: 0, params: [0, 0], time_zone: None };
        let with = |id, param0, param1| Self { params: [param0, param1], ..parts(id) };
        Ok(match data_type {
            DataType::Decimal32(precision, scale) => with(DECIMAL32, i32::from(*precision), i32::from(*scale)),
            DataType::Decimal64(precision, scale) => with(DECIMAL64, i32::from(*precision), i32::from(*scale)),
            DataType::Decimal128(precision, scale) => with(DECIMAL128, i32::from(*precision), i32::from(*scale)),
            DataType::Decimal256(precision, scale) => with(DECIMAL256, i32::from(*precision), i32::from(*scale)),
            DataType::Timestamp(unit, time_zone) => {
                let flags = if time_zone.is_some() { HAS_TIME_ZONE } else { 0 };
                Self { flags, time_zone: time_zone.as_deref(), ..parts(timestamp_id(*unit)) }
            }
            DataType::FixedSizeBinary(width) => with(FIXED_SIZE_BINARY, *width, 0),
            DataType::List(_) => parts(LIST),
            DataType::LargeList(_) => parts(LARGE_LIST),
            DataType::ListView(_) => parts(LIST_VIEW),
            DataType::LargeListView(_) => parts(LARGE_LIST_VIEW),
            DataType::FixedSizeList(_, size) => with(FIXED_SIZE_LIST, *size, 0),
            DataType::Struct(_) => parts(STRUCT),
            DataType::Map(_, keys_sorted) => Self { flags: if *keys_sorted { KEYS_SORTED } else { 0 }, ..parts(MAP) },
            DataType::Union(_, mode) => with(UNION, if *mode == UnionMode::Dense { 1 } else { 0 }, 0),
            DataType::Dictionary(key, _) => with(DICTIONARY, i32::from(plain_id(key)?), 0),
            DataType::RunEndEncoded(_, _) => parts(RUN_END_ENCODED),
            plain => parts(plain_id(plain)?),
        })
    }

    /// Whether `params` are the place of a time zone in the string pool.
    pub(super) fn has_time_zone(&self) -> bool {
        self.flags & HAS_TIME_ZONE != 0 && matches!(self.id, TIMESTAMP_SECOND..=TIMESTAMP_MICROSECOND | TIMESTAMP_NANOSECOND)
    }

    /// The type with these parts and these children (with their union type ids).
    pub(super) fn build(&self, children: Vec<(i32, FieldRef)>) -> Result<DataType> {
        let [param0, param1] = self.params;
        match self.id {
            TIMESTAMP_SECOND..=TIMESTAMP_MICROSECOND | TIMESTAMP_NANOSECOND => {
                no_children(&children)?;
                Ok(DataType::Timestamp(timestamp_unit(self.id), self.time_zone.map(Arc::from)))
            }
            DECIMAL32..=DECIMAL256 => {
                no_children(&children)?;
                decimal(self.id, param0, param1)
            }
            FIXED_SIZE_BINARY => {
                no_children(&children)?;
                Ok(DataType::FixedSizeBinary(not_negative(param0, "the width of a fixed-size binary")?))
            }
            LIST => Ok(DataType::List(only_child(children)?)),
            LARGE_LIST => Ok(DataType::LargeList(only_child(children)?)),
            LIST_VIEW => Ok(DataType::ListView(only_child(children)?)),
            LARGE_LIST_VIEW => Ok(DataType::LargeListView(only_child(children)?)),
            FIXED_SIZE_LIST => Ok(DataType::FixedSizeList(only_child(children)?, not_negative(param0, "the size of a fixed-size list")?)),
            STRUCT => Ok(DataType::Struct(children.into_iter().map(|(_, child)| child).collect())),
            MAP => map(only_child(children)?, self.flags & KEYS_SORTED != 0),
            UNION => union(children, param0),
            DICTIONARY => dictionary(param0, &only_child(children)?),
            RUN_END_ENCODED => run_end_encoded(children),
            id => {
                no_children(&children)?;
                plain_type(id).ok_or_else(|| Error::unsupported(format!("type id {id} is unknown")))
            }
        }
    }
}

fn plain_id(data_type: &DataType) -> Result<u16> {
    let found = PLAIN.iter().find(|(_, plain)| plain == data_type);
    found.map(|(id, _)| *id).ok_or_else(|| Error::invalid_argument(format!("the type {data_type} cannot be stored")))
}

fn plain_type(id: u16) -> Option<DataType> {
    PLAIN.iter().find(|(plain_id, _)| *plain_id == id).map(|(_, plain)| plain.clone())
}

fn timestamp_id(unit: TimeUnit) -> u16 {
    match unit {
        TimeUnit::Second => TIMESTAMP_SECOND,
        TimeUnit::Millisecond => TIMESTAMP_MILLISECOND,
        TimeUnit::Microsecond => TIMESTAMP_MICROSECOND,
        TimeUnit::Nanosecond => TIMESTAMP_NANOSECOND,
    }
}

fn timestamp_unit(id: u16) -> TimeUnit {
    match id {
        TIMESTAMP_SECOND => TimeUnit::Second,
        TIMESTAMP_MILLISECOND => TimeUnit::Millisecond,
        TIMESTAMP_MICROSECOND => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}

fn decimal(id: u16, param0: i32, param1: i32) -> Result<DataType> {
    let (build, precision_max): (fn(u8, i8) -> DataType, u8) = match id {
        DECIMAL32 => (DataType::Decimal32, 9),
        DECIMAL64 => (DataType::Decimal64, 18),
        DECIMAL128 => (DataType::Decimal128, 38),
        _ => (DataType::Decimal256, 76),
    };
    match (u8::try_from(param0), i8::try_from(param1)) {
        // A scale above the precision is refused by Arrow's arrays, and a large negative one means nothing.
        (Ok(precision @ 1..), Ok(scale)) if precision <= precision_max && param1 <= param0 && param1 >= -i32::from(precision_max) => {
            Ok(build(precision, scale))
        }
        _ => Err(Error::invalid_file(format!("a decimal of at most {precision_max} digits has no precision {param0} with scale {param1}"))),
    }
}

fn map(entries: FieldRef, keys_sorted: bool) -> Result<DataType> {
    match entries.data_type() {
        DataType::Struct(fields) if fields.len() == 2 => Ok(DataType::Map(entries, keys_sorted)),
        other => Err(Error::invalid_file(format!("the entries of a map are a struct of key and value, not {other}"))),
    }
}

fn union(children: Vec<(i32, FieldRef)>, mode: i32) -> Result<DataType> {
    let mode = match mode {
        0 => UnionMode::Sparse,
        1 => UnionMode::Dense,
        _ => return Err(Error::unsupported(format!("union mode {mode} is unknown"))),
    };
    // Arrow builds nulls of a union out of its first child, and panics where there is none.
    if children.is_empty() {
        return Err(Error::invalid_file("a union without types"));
    }
    let type_ids = children.iter().map(|(tag, _)| i8::try_from(*tag)).collect::<Result<Vec<_>, _>>();
    let type_ids = type_ids.map_err(|_| Error::invalid_file("a union's type id is not in 0..=127"))?;
    Ok(DataType::Union(UnionFields::try_new(type_ids, children.into_iter().map(|(_, child)| child))?, mode))
}

fn dictionary(key: i32, value: &FieldRef) -> Result<DataType> {
    let key = u16::try_from(key).ok().and_then(plain_type).filter(DataType::is_dictionary_key_type);
    let key = key.ok_or_else(|| Error::invalid_file("the keys of a dictionary are not integers"))?;
    Ok(DataType::Dictionary(Box::new(key), Box::new(value.data_type().clone())))
}

fn run_end_encoded(children: Vec<(i32, FieldRef)>) -> Result<DataType> {
    let children: [(i32, FieldRef); 2] =
        children.try_into().map_err(|children: Vec<_>| Error::invalid_file(format!("run-end encoding has 2 children, not {}", children.len())))?;
    let [(_, run_ends), (_, values)] = children;
    if !run_ends.data_type().is_run_ends_type() {
        return Err(Error::invalid_file(format!("run ends are Int16, Int32 or Int64, not {}", run_ends.data_type())));
    }
    Ok(DataType::RunEndEncoded(run_ends, values))
}

fn no_children(children: &[(i32, FieldRef)]) -> Result<()> {
    if children.is_empty() { Ok(()) } else { Err(Error::invalid_file(format!("a type without children has {}", children.len()))) }
}

fn only_child(mut children: Vec<(i32, FieldRef)>) -> Result<FieldRef> {
    match (children.pop(), children.len()) {
        (Some((_, child)), 0) => Ok(child),
        _ => Err(Error::invalid_file("a type with one child has none, or more than one")),
    }
}

fn not_negative(number: i32, what: &str) -> Result<i32> {
    if number >= 0 { Ok(number) } else { Err(Error::invalid_file(format!("{what} is {number}"))) }
}

/// The types that are the value or values of `data_type`, as a node's children: name, type, nullable, and whether it is a field of its own.
pub(super) fn child_fields(data_type: &DataType) -> Vec<Child<'_>> {
    match data_type {
        DataType::List(child)
        | DataType::LargeList(child)
        | DataType::ListView(child)
        | DataType::LargeListView(child)
        | DataType::FixedSizeList(child, _)
        | DataType::Map(child, _) => vec![Child::Field(0, child)],
        DataType::Struct(fields) => fields.iter().map(|field| Child::Field(0, field)).collect(),
        DataType::Union(fields, _) => fields.iter().map(|(tag, field)| Child::Field(i32::from(tag), field)).collect(),
        DataType::RunEndEncoded(run_ends, values) => vec![Child::Field(0, run_ends), Child::Field(0, values)],
        DataType::Dictionary(_, value) => vec![Child::Type(value)],
        _ => Vec::new(),
    }
}

/// A child of a type.
#[derive(Debug, Clone, Copy)]
pub(super) enum Child<'a> {
    /// A field, with its type id in a union.
    Field(i32, &'a FieldRef),
    /// The values of a dictionary, which have a type but no name.
    Type(&'a DataType),
}
