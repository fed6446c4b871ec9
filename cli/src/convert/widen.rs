//! The type that holds the values of two types, without loss; `None` where there is none.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};

/// How two types that are not nested become one.
pub(super) type Leaf = fn(&DataType, &DataType) -> Option<DataType>;

/// The common type of two, by `leaf` wherever they are not nested.
pub(super) fn common(a: &DataType, b: &DataType, leaf: Leaf) -> Option<DataType> {
    use DataType::{Dictionary, LargeList, List, Null, Struct};
    match (a, b) {
        _ if a == b => Some(a.clone()),
        (Null, other) | (other, Null) => Some(other.clone()),
        (Struct(a), Struct(b)) => Some(Struct(fields(a, b, leaf)?)),
        (List(a), List(b)) => Some(List(field(a, b, leaf)?)),
        (LargeList(a), LargeList(b)) => Some(LargeList(field(a, b, leaf)?)),
        (Dictionary(_, values), other) | (other, Dictionary(_, values)) => common(values, other, leaf),
        _ => leaf(a, b),
    }
}

/// One field for both, under the first one's name.
pub(super) fn field(a: &Field, b: &Field, leaf: Leaf) -> Option<FieldRef> {
    let data_type = common(a.data_type(), b.data_type(), leaf)?;
    let merged = a.clone().with_data_type(data_type).with_nullable(a.is_nullable() || b.is_nullable());
    // What one of them says of itself may be wrong for the other.
    Some(Arc::new(if a.metadata() == b.metadata() { merged } else { merged.with_metadata(Default::default()) }))
}

/// Fields by name; what one side lacks is null there.
fn fields(a: &Fields, b: &Fields, leaf: Leaf) -> Option<Fields> {
    let absent = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
    let mut merged: Vec<FieldRef> = Vec::with_capacity(a.len());
    for here in a {
        merged.push(match b.find(here.name()) {
            Some((_, there)) => field(here, there, leaf)?,
            None => absent(here),
        });
    }
    merged.extend(b.iter().filter(|field| a.find(field.name()).is_none()).map(absent));
    Some(merged.into())
}

/// For files that carry their types: only what loses nothing.
pub(super) fn exactly(a: &DataType, b: &DataType) -> Option<DataType> {
    numbers(a, b).or_else(|| decimals(a, b)).or_else(|| texts(a, b)).or_else(|| times(a, b))
}

/// For guesses from the rows of JSON.
pub(super) fn json(a: &DataType, b: &DataType) -> Option<DataType> {
    match (a, b) {
        (DataType::Int64, DataType::Float64) | (DataType::Float64, DataType::Int64) => Some(DataType::Float64),
        _ => None,
    }
}

/// As for JSON; and everything in CSV is text.
pub(super) fn csv(a: &DataType, b: &DataType) -> Option<DataType> {
    json(a, b).or(Some(DataType::Utf8))
}

/// Bits of an integer, and whether it has a sign.
fn integer(data_type: &DataType) -> Option<(u32, bool)> {
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

fn signed(bits: u32) -> Option<DataType> {
    [(8, DataType::Int8), (16, DataType::Int16), (32, DataType::Int32), (64, DataType::Int64)]
        .into_iter()
        .find(|(own, _)| *own >= bits)
        .map(|(_, t)| t)
}

/// Bits of a float's integers, which it holds exactly.
fn float(data_type: &DataType) -> Option<u32> {
    Some(match data_type {
        DataType::Float16 => 11,
        DataType::Float32 => 24,
        DataType::Float64 => 53,
        _ => return None,
    })
}

fn float_of(bits: u32) -> Option<DataType> {
    [(11, DataType::Float16), (24, DataType::Float32), (53, DataType::Float64)].into_iter().find(|(own, _)| *own >= bits).map(|(_, t)| t)
}

fn numbers(a: &DataType, b: &DataType) -> Option<DataType> {
    match ((integer(a), float(a)), (integer(b), float(b))) {
        ((Some((bits, sign)), _), (Some((other, other_sign)), _)) if sign == other_sign => Some(if bits > other { a.clone() } else { b.clone() }),
        ((Some((bits, true)), _), (Some((unsigned, false)), _)) | ((Some((unsigned, false)), _), (Some((bits, true)), _)) => {
            signed(bits.max(unsigned * 2))
        }
        ((_, Some(bits)), (_, Some(other))) => float_of(bits.max(other)),
        ((Some((integer, _)), _), (_, Some(float))) | ((_, Some(float)), (Some((integer, _)), _)) => float_of(integer.max(float)),
        _ => None,
    }
}

/// The digits that a decimal may have at most, its own digits, and those after the point.
fn decimal(data_type: &DataType) -> Option<(u8, u8, i8)> {
    Some(match data_type {
        DataType::Decimal32(digits, scale) => (9, *digits, *scale),
        DataType::Decimal64(digits, scale) => (18, *digits, *scale),
        DataType::Decimal128(digits, scale) => (38, *digits, *scale),
        DataType::Decimal256(digits, scale) => (76, *digits, *scale),
        _ => return None,
    })
}

fn decimals(a: &DataType, b: &DataType) -> Option<DataType> {
    let ((max_a, digits_a, scale_a), (max_b, digits_b, scale_b)) = (decimal(a)?, decimal(b)?);
    let before = |digits: u8, scale: i8| i16::from(digits) - i16::from(scale);
    let scale = scale_a.max(scale_b);
    let digits = before(digits_a, scale_a).max(before(digits_b, scale_b)) + i16::from(scale);
    let digits = u8::try_from(digits).ok()?;
    match digits.max(max_a).max(max_b) {
        9 => Some(DataType::Decimal32(digits, scale)),
        10..=18 => Some(DataType::Decimal64(digits, scale)),
        19..=38 => Some(DataType::Decimal128(digits, scale)),
        39..=76 => Some(DataType::Decimal256(digits, scale)),
        _ => None,
    }
}

fn texts(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    match (a, b) {
        (LargeUtf8, Utf8 | Utf8View) | (Utf8 | Utf8View, LargeUtf8) => Some(LargeUtf8),
        (Utf8, Utf8View) | (Utf8View, Utf8) => Some(Utf8),
        (LargeBinary, Binary | BinaryView) | (Binary | BinaryView, LargeBinary) => Some(LargeBinary),
        (Binary, BinaryView) | (BinaryView, Binary) => Some(Binary),
        _ => None,
    }
}

/// The finer unit; a time that it cannot hold is an error when it is met.
fn times(a: &DataType, b: &DataType) -> Option<DataType> {
    match (a, b) {
        (DataType::Timestamp(unit, zone), DataType::Timestamp(other, other_zone)) if zone == other_zone => {
            Some(DataType::Timestamp(finer(*unit, *other), zone.clone()))
        }
        (DataType::Duration(unit), DataType::Duration(other)) => Some(DataType::Duration(finer(*unit, *other))),
        _ => None,
    }
}

fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    a.max(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::{
        Date32, Decimal128, Decimal256, Duration, Float32, Float64, Int8, Int16, Int32, Int64, LargeUtf8, Timestamp, UInt8, UInt32, UInt64, Utf8,
        Utf8View,
    };

    #[test]
    fn types_that_differ_become_one_that_loses_nothing() {
        let cases = [
            (Int8, Int32, Some(Int32)),
            (UInt8, Int8, Some(Int16)),
            (UInt32, Int8, Some(Int64)),
            (UInt64, Int64, None),
            (Int16, Float32, Some(Float32)),
            (Int32, Float32, Some(Float64)),
            (Int64, Float64, None),
            (Float32, Float64, Some(Float64)),
            (Decimal128(10, 2), Decimal128(12, 5), Some(Decimal128(13, 5))),
            (Decimal128(38, 0), Decimal128(38, 10), Some(Decimal256(48, 10))),
            (Utf8, LargeUtf8, Some(LargeUtf8)),
            (Utf8View, Utf8, Some(Utf8)),
            (Timestamp(TimeUnit::Second, None), Timestamp(TimeUnit::Microsecond, None), Some(Timestamp(TimeUnit::Microsecond, None))),
            (Timestamp(TimeUnit::Second, None), Timestamp(TimeUnit::Second, Some("UTC".into())), None),
            (Duration(TimeUnit::Nanosecond), Duration(TimeUnit::Second), Some(Duration(TimeUnit::Nanosecond))),
            (Date32, Utf8, None),
        ];
        for (a, b, expected) in cases {
            assert_eq!(common(&a, &b, exactly), expected, "{a} and {b}");
            assert_eq!(common(&b, &a, exactly), expected, "{b} and {a}");
        }
    }

    #[test]
    fn nested_types_are_merged_by_name() {
        let list = |fields: &[(&str, DataType, bool)]| {
            let fields: Fields = fields.iter().map(|(name, data_type, nullable)| Field::new(*name, data_type.clone(), *nullable)).collect();
            DataType::List(Arc::new(Field::new("item", DataType::Struct(fields), true)))
        };
        let (a, b) = (list(&[("x", Int8, false), ("y", Utf8, false)]), list(&[("z", Int8, false), ("x", Int16, false)]));
        assert_eq!(common(&a, &b, exactly), Some(list(&[("x", Int16, false), ("y", Utf8, true), ("z", Int8, true)])));
    }
}
