//! Collecting statistics of leaf arrays.

use arrow::array::{Array, ArrayData, AsArray, BooleanArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowNativeType, DataType, IntervalUnit, i256};
use half::f16;

use super::bounds::bytes_bounds;
use super::leaf::{bytes_min_max, valid_runs};
use super::map::{f64_key, prefix, saturate_i128, saturate_i256, u64_key};
use super::{Bounds, ZoneStats, leaf_bounds};

const EXACT: u32 = ZoneStats::MIN_EXACT | ZoneStats::MAX_EXACT;

/// The statistics of the values of a leaf array (not nested, no dictionary, no runs). Types without an order give a null count only.
pub fn leaf_stats(array: &dyn Array) -> ZoneStats {
    let found = match array.data_type() {
        DataType::Boolean => array.as_boolean_opt().map(of_booleans).unwrap_or_default(),
        data_type if is_bytes(data_type) => of_bytes(bytes_min_max(array)),
        data_type => of_fixed(data_type, &array.to_data(), array.nulls()),
    };
    with_nulls(found, array)
}

/// Those, and the bounds as bytes ([`leaf_bounds`]).
pub(crate) fn leaf_stats_and_bounds(array: &dyn Array) -> (ZoneStats, Option<Bounds>) {
    if !is_bytes(array.data_type()) {
        return (leaf_stats(array), leaf_bounds(array));
    }
    let found = bytes_min_max(array);
    (with_nulls(of_bytes(found), array), found.map(|(min, max)| bytes_bounds(min, max, array.data_type())))
}

fn with_nulls(found: Found, array: &dyn Array) -> ZoneStats {
    let mut stats = found.into_stats();
    if let Ok(null_count) = u32::try_from(array.null_count()) {
        stats.null_count = null_count;
        stats.flags |= ZoneStats::HAS_NULL_COUNT;
    }
    stats
}

/// Whether values are bytes, mapped by their prefix.
pub(crate) fn is_bytes(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

/// Mapped bounds while they are looked for.
#[derive(Debug, Default)]
struct Found {
    bounds: Option<(i64, i64)>,
    /// Of `MIN_EXACT`, `MAX_EXACT` and `HAS_NAN`.
    flags: u32,
}

impl Found {
    fn exact(bounds: Option<(i64, i64)>) -> Self {
        Self { bounds, flags: EXACT }
    }

    fn into_stats(self) -> ZoneStats {
        let nan = self.flags & ZoneStats::HAS_NAN;
        match self.bounds {
            Some((min, max)) => ZoneStats { min, max, null_count: 0, flags: self.flags | ZoneStats::HAS_BOUNDS },
            None => ZoneStats { flags: nan, ..ZoneStats::UNKNOWN },
        }
    }
}

fn of_fixed(data_type: &DataType, data: &ArrayData, nulls: Option<&NullBuffer>) -> Found {
    use DataType::{
        Date32, Date64, Decimal32, Decimal64, Decimal128, Decimal256, Duration, Float16, Float32, Float64, Int8, Int16, Int32, Int64, Interval,
        Time32, Time64, Timestamp, UInt8, UInt16, UInt32, UInt64,
    };
    match data_type {
        Int8 => of_integers::<i8>(data, nulls),
        Int16 => of_integers::<i16>(data, nulls),
        Int32 | Date32 | Time32(_) | Decimal32(..) | Interval(IntervalUnit::YearMonth) => of_integers::<i32>(data, nulls),
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => of_integers::<i64>(data, nulls),
        UInt8 => of_integers::<u8>(data, nulls),
        UInt16 => of_integers::<u16>(data, nulls),
        UInt32 => of_integers::<u32>(data, nulls),
        UInt64 => Found::exact(min_max(values::<u64>(data), nulls).map(|(min, max)| (u64_key(min), u64_key(max)))),
        Float16 => of_floats(values::<f16>(data), nulls, f16::to_f64),
        Float32 => of_floats(values::<f32>(data), nulls, f64::from),
        Float64 => of_floats(values::<f64>(data), nulls, |value| value),
        Decimal128(..) => saturated(min_max(values::<i128>(data), nulls), saturate_i128, i128::from),
        Decimal256(..) => saturated(min_max(values::<i256>(data), nulls), saturate_i256, |key| i256::from_i128(i128::from(key))),
        _no_order => Found::default(),
    }
}

pub(super) fn values<T: ArrowNativeType>(data: &ArrayData) -> &[T] {
    data.buffer::<T>(0).get(..data.len()).unwrap_or_default()
}

fn of_integers<T: ArrowNativeType + Ord + Into<i64>>(data: &ArrayData, nulls: Option<&NullBuffer>) -> Found {
    Found::exact(min_max(values::<T>(data), nulls).map(|(min, max)| (min.into(), max.into())))
}

/// The least and greatest valid value.
pub(super) fn min_max<T: Copy + Ord>(values: &[T], nulls: Option<&NullBuffer>) -> Option<(T, T)> {
    let mut found = None;
    valid_runs(values.len(), nulls, |run| {
        let Some(run) = values.get(run) else { return };
        let Some(first) = run.first() else { return };
        let (mut min, mut max) = found.unwrap_or((*first, *first));
        for value in run {
            min = min.min(*value);
            max = max.max(*value);
        }
        found = Some((min, max));
    });
    found
}

fn of_floats<T: Copy>(values: &[T], nulls: Option<&NullBuffer>, widen: impl Fn(T) -> f64) -> Found {
    // The least and greatest keys belong to NaNs, so no value has them.
    let (mut min, mut max) = (i64::MAX, i64::MIN);
    let mut has_nan = false;
    valid_runs(values.len(), nulls, |run| {
        for value in values.get(run).unwrap_or_default() {
            let value = widen(*value);
            let key = f64_key(value);
            let is_nan = value.is_nan();
            has_nan |= is_nan;
            min = min.min(if is_nan { i64::MAX } else { key });
            max = max.max(if is_nan { i64::MIN } else { key });
        }
    });
    let nan = if has_nan { ZoneStats::HAS_NAN } else { 0 };
    Found { bounds: (min <= max).then_some((min, max)), flags: EXACT | nan }
}

/// Decimals beyond 64 bits: a bound that had to be moved is not exact.
fn saturated<T: Copy + PartialEq>(found: Option<(T, T)>, saturate: impl Fn(T) -> i64, widen: impl Fn(i64) -> T) -> Found {
    let Some((min, max)) = found else { return Found::default() };
    let keys = (saturate(min), saturate(max));
    let min_flag = if widen(keys.0) == min { ZoneStats::MIN_EXACT } else { 0 };
    let max_flag = if widen(keys.1) == max { ZoneStats::MAX_EXACT } else { 0 };
    Found { bounds: Some(keys), flags: min_flag | max_flag }
}

fn of_booleans(array: &BooleanArray) -> Found {
    let valid = array.len() - array.null_count();
    let trues = array.true_count();
    Found::exact((valid > 0).then(|| (i64::from(trues == valid), i64::from(trues > 0))))
}

/// A prefix is never taken for exact: zero-padding hides where it ended.
fn of_bytes(found: Option<(&[u8], &[u8])>) -> Found {
    Found { bounds: found.map(|(min, max)| (u64_key(prefix(min)), u64_key(prefix(max)))), flags: 0 }
}
