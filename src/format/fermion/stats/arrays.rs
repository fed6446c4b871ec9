//! Bounds as Arrow arrays, to prune by.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Decimal128Array, Decimal256Array, FixedSizeBinaryArray, LargeBinaryArray,
    LargeStringArray, PrimitiveArray, StringArray, StringViewArray, make_array, new_null_array,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalUnit, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type, i256,
};
use half::f16;

use super::bounds::{above, decimal_of, valid_prefix};
use super::collect::is_bytes;
use super::map::{f64_key, f64_of_key, prefix_of_key, u64_of_key};
use super::{Bounds, ZoneStats};
use crate::format::array::bounds_as;
use crate::format::error::{Error, Result};
use crate::format::fermion::schema::leaf_type;

/// Which of the two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The lower.
    Min,
    /// The upper.
    Max,
}

/// What is known of a zone.
type Zone<'a> = (ZoneStats, Option<&'a Bounds>);

/// The widest fixed-size binary with bounds: an array of them has a slot of that width per zone, known or not.
const FIXED_WIDTH_MAX: i32 = 256;

/// The [`leaf_type`] of a column whose zones can be shown as arrays; `None` for null and nested types and for very wide fixed-size binaries.
pub fn prunable_type(data_type: &DataType) -> Option<&DataType> {
    leaf_type(data_type).filter(|leaf| !matches!(leaf, DataType::FixedSizeBinary(width) if *width > FIXED_WIDTH_MAX))
}

/// The bounds of zones as an array of `data_type`, one slot per zone, null where unknown. No value of a zone is beyond its bound, though a bound that is not
/// exact may be no value. `data_type` has a [`prunable_type`]; types without an order give nulls.
pub fn bound_array<'a>(data_type: &DataType, zones: impl Iterator<Item = Zone<'a>>, which: Which) -> Result<ArrayRef> {
    let zones: Vec<Zone<'a>> = zones.collect();
    match prunable_type(data_type) {
        Some(leaf) => Ok(to_column_type(leaf_array(leaf, &zones, which)?, data_type)),
        None => Err(Error::invalid_argument(format!("zones of {data_type} have no bounds"))),
    }
}

/// Values of a column's [`leaf_type`] as an array of the column's type; nulls if they do not fit, say a dictionary with keys that are too narrow; and as
/// they are if not even nulls would, as in runs with ends that are too narrow.
pub fn to_column_type(leaf: ArrayRef, data_type: &DataType) -> ArrayRef {
    bounds_as(leaf, data_type)
}

/// Whether [`bound_array`] gives the exact least or greatest value for this zone.
pub fn bound_is_exact(data_type: &DataType, stats: &ZoneStats, bounds: Option<&Bounds>, which: Which) -> bool {
    let flag = if which == Which::Min { ZoneStats::MIN_EXACT } else { ZoneStats::MAX_EXACT };
    match leaf_type(data_type) {
        None => false,
        Some(leaf) if uses_bounds(leaf) && bounds.and_then(|bounds| known(bounds, which)).is_some() => {
            bounds.is_some_and(|bounds| bounds.flags() & flag != 0)
        }
        // Zero-padding hides where the value ended.
        Some(leaf) if is_bytes(leaf) => false,
        Some(leaf) => {
            // A zero that was widened is one that may not be there.
            let widened =
                leaf.is_floating() && stats.bounds().is_some_and(|(min, max)| widen_zero(if which == Which::Min { min } else { max }, which).1);
            stats.has(ZoneStats::HAS_BOUNDS | flag) && !stats.has(ZoneStats::HAS_NAN) && !widened
        }
    }
}

fn known(bounds: &Bounds, which: Which) -> Option<&[u8]> {
    match which {
        Which::Min => bounds.known_min(),
        Which::Max => bounds.known_max(),
    }
}

/// Types whose `Bounds` say more than the mapped i64.
fn uses_bounds(leaf: &DataType) -> bool {
    is_bytes(leaf) || matches!(leaf, DataType::Decimal128(..) | DataType::Decimal256(..))
}

fn leaf_array(leaf: &DataType, zones: &[Zone<'_>], which: Which) -> Result<ArrayRef> {
    use DataType::{
        Date32, Date64, Decimal32, Decimal64, Decimal128, Decimal256, Duration, Float16, Float32, Float64, Int8, Int16, Int32, Int64, Interval,
        Time32, Time64, Timestamp, UInt8, UInt16, UInt32, UInt64,
    };
    let keys = || zones.iter().map(move |(stats, _)| stats.bounds().map(|(min, max)| if which == Which::Min { min } else { max }));
    match leaf {
        DataType::Boolean => Ok(Arc::new(keys().map(|key| key.map(bool_of_key).transpose()).collect::<Result<BooleanArray>>()?)),
        Int8 => numbers::<Int8Type>(leaf, keys(), narrow),
        Int16 => numbers::<Int16Type>(leaf, keys(), narrow),
        Int32 | Date32 | Time32(_) | Decimal32(..) | Interval(IntervalUnit::YearMonth) => numbers::<Int32Type>(leaf, keys(), narrow),
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => numbers::<Int64Type>(leaf, keys(), narrow),
        UInt8 => numbers::<UInt8Type>(leaf, keys(), narrow),
        UInt16 => numbers::<UInt16Type>(leaf, keys(), narrow),
        UInt32 => numbers::<UInt32Type>(leaf, keys(), narrow),
        UInt64 => numbers::<UInt64Type>(leaf, keys(), |key| Ok(u64_of_key(key))),
        Float16 => numbers::<Float16Type>(leaf, float_keys(zones, which), |key| narrow_float(key, f16::from_f64, f16::to_f64)),
        Float32 => numbers::<Float32Type>(leaf, float_keys(zones, which), |key| narrow_float(key, f32_of_f64, f64::from)),
        Float64 => numbers::<Float64Type>(leaf, float_keys(zones, which), |key| narrow_float(key, |value| value, |value| value)),
        Decimal128(precision, scale) => {
            let values = zones.iter().map(|zone| decimal_bound(zone, which)?.map(|value| value.to_i128().ok_or_else(unfit)).transpose());
            Ok(Arc::new(values.collect::<Result<Decimal128Array>>()?.with_precision_and_scale(*precision, *scale)?))
        }
        Decimal256(precision, scale) => {
            let values = zones.iter().map(|zone| decimal_bound(zone, which));
            Ok(Arc::new(values.collect::<Result<Decimal256Array>>()?.with_precision_and_scale(*precision, *scale)?))
        }
        leaf if is_bytes(leaf) => bytes_array(leaf, zones, which),
        unordered => Ok(new_null_array(unordered, zones.len())),
    }
}

fn unfit() -> Error {
    Error::invalid_file("a bound does not fit the type of its column")
}

fn bool_of_key(key: i64) -> Result<bool> {
    match key {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(unfit()),
    }
}

fn narrow<T: TryFrom<i64>>(key: i64) -> Result<T> {
    T::try_from(key).map_err(|_| unfit())
}

/// An array of native values of `T` as `leaf`, which stores the same numbers.
fn numbers<T: ArrowPrimitiveType>(
    leaf: &DataType,
    keys: impl Iterator<Item = Option<i64>>,
    value: impl Fn(i64) -> Result<T::Native>,
) -> Result<ArrayRef> {
    let array = keys.map(|key| key.map(&value).transpose()).collect::<Result<Vec<Option<T::Native>>>>()?;
    let array: PrimitiveArray<T> = array.into_iter().collect();
    Ok(make_array(array.into_data().into_builder().data_type(leaf.clone()).build()?))
}

/// Keys of float bounds. NaN compares in more than one way, so with one among the values nothing is a bound; the two zeros may be equal, so one stands for both.
fn float_keys<'a>(zones: &'a [Zone<'a>], which: Which) -> impl Iterator<Item = Option<i64>> + 'a {
    zones.iter().map(move |(stats, _)| match stats.bounds() {
        Some((min, max)) if !stats.has(ZoneStats::HAS_NAN) => Some(widen_zero(if which == Which::Min { min } else { max }, which).0),
        _ => None,
    })
}

/// The key, but that of -0.0 for a min and that of 0.0 for a max of zero; and whether that made a difference.
fn widen_zero(key: i64, which: Which) -> (i64, bool) {
    let (negative, positive) = (f64_key(-0.0), f64_key(0.0));
    match which {
        Which::Min if key == positive => (negative, true),
        Which::Max if key == negative => (positive, true),
        _ => (key, false),
    }
}

fn narrow_float<T: Copy>(key: i64, narrow: impl Fn(f64) -> T, widen: impl Fn(T) -> f64) -> Result<T> {
    let value = f64_of_key(key);
    let narrowed = narrow(value);
    if value.is_nan() || widen(narrowed) != value { Err(unfit()) } else { Ok(narrowed) }
}

#[expect(clippy::cast_possible_truncation, reason = "what does not fit is refused by the caller, who widens it again")]
fn f32_of_f64(value: f64) -> f32 {
    value as f32
}

/// The bytes if there are any; else the key, which if it was moved still bounds on the side that it was moved away from.
fn decimal_bound((stats, bounds): &Zone<'_>, which: Which) -> Result<Option<i256>> {
    if let Some(bytes) = bounds.and_then(|bounds| known(bounds, which)) {
        return decimal_of(bytes).map(Some).ok_or_else(unfit);
    }
    let bound = stats.bounds().and_then(|(min, max)| match which {
        Which::Min => (stats.has(ZoneStats::MIN_EXACT) || min == i64::MAX).then_some(min),
        Which::Max => (stats.has(ZoneStats::MAX_EXACT) || max == i64::MIN).then_some(max),
    });
    Ok(bound.map(|key| i256::from_i128(i128::from(key))))
}

fn bytes_array(leaf: &DataType, zones: &[Zone<'_>], which: Which) -> Result<ArrayRef> {
    let is_text = matches!(leaf, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let values: Vec<Option<Vec<u8>>> = match leaf {
        DataType::FixedSizeBinary(width) => {
            let width = usize::try_from(*width).map_err(|_| unfit())?;
            zones.iter().map(|zone| fixed_width_bound(zone, width, which)).collect::<Result<_>>()?
        }
        _ => zones.iter().map(|zone| bytes_bound(zone, is_text, which)).collect(),
    };
    if is_text {
        return text_array(leaf, values);
    }
    let slices = values.iter().map(Option::as_deref);
    Ok(match leaf {
        DataType::Binary => Arc::new(slices.collect::<BinaryArray>()),
        DataType::LargeBinary => Arc::new(slices.collect::<LargeBinaryArray>()),
        DataType::FixedSizeBinary(width) => Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(slices, *width)?),
        _ => Arc::new(slices.collect::<BinaryViewArray>()),
    })
}

fn text_array(leaf: &DataType, values: Vec<Option<Vec<u8>>>) -> Result<ArrayRef> {
    let text = |value: Option<Vec<u8>>| value.map(String::from_utf8).transpose().map_err(|_| Error::invalid_file("a bound of a string is not UTF-8"));
    let values = values.into_iter().map(text);
    Ok(match leaf {
        DataType::Utf8 => Arc::new(values.collect::<Result<StringArray>>()?),
        DataType::LargeUtf8 => Arc::new(values.collect::<Result<LargeStringArray>>()?),
        _ => Arc::new(values.collect::<Result<StringViewArray>>()?),
    })
}

fn bytes_bound((stats, bounds): &Zone<'_>, is_text: bool, which: Which) -> Option<Vec<u8>> {
    if let Some(bytes) = bounds.and_then(|bounds| known(bounds, which)) {
        return Some(bytes.to_vec());
    }
    let (min, max) = stats.bounds()?;
    let prefix = prefix_of_key(if which == Which::Min { min } else { max });
    let prefix = if is_text { valid_prefix(&prefix) } else { &prefix };
    match which {
        // What was padding, or may have been, makes a lower bound no lower by its absence.
        Which::Min => prefix.get(..prefix.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)).map(<[u8]>::to_vec),
        Which::Max => above(prefix, is_text),
    }
}

/// A bound of exactly `width` bytes: a shorter prefix is filled up on the safe side.
fn fixed_width_bound((stats, bounds): &Zone<'_>, width: usize, which: Which) -> Result<Option<Vec<u8>>> {
    let (mut bound, fill) = match (bounds.and_then(|bounds| known(bounds, which)), stats.bounds(), which) {
        // A cut max has been increased already, so that zeros behind it keep it above.
        (Some(bytes), _, _) => (bytes.to_vec(), 0),
        (None, Some((min, _)), Which::Min) => (prefix_of_key(min).to_vec(), 0),
        (None, Some((_, max)), Which::Max) => (prefix_of_key(max).to_vec(), u8::MAX),
        (None, None, _) => return Ok(None),
    };
    if bounds.is_some_and(|bounds| known(bounds, which).is_some()) && bound.len() > width {
        return Err(unfit());
    }
    bound.resize(width, fill);
    Ok(Some(bound))
}
