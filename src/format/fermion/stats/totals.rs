//! What is known of the values of a column over the whole file.

use arrow::array::{Array, ArrayData, ArrayRef};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowNativeType, DataType, i256};

use super::collect::{is_bytes, values};
use super::leaf::{valid_bytes, valid_runs};
use crate::format::codec::{Cardinality, Values};

/// Totals of a column (SPEC section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// How many different valid values there are, about.
    pub distinct_count: Option<u64>,
    /// Of integers and decimals of at most 38 digits, the exact sum of the valid ones, unscaled; of strings and binaries, the bytes of the valid ones.
    pub sum: Option<i128>,
}

/// Adds up a column while it is written.
#[derive(Debug, Default)]
pub struct TotalsBuilder {
    distinct: Cardinality,
    /// In more bits than a sum can need: what is out of range on the way may be in range at the end.
    sum: i256,
    has_sum: bool,
    valid: u64,
}

impl TotalsBuilder {
    /// Adds a leaf array, but for what its values are.
    pub(crate) fn push(&mut self, array: &ArrayRef) {
        if let Some(sum) = sum_of(array) {
            self.sum = self.sum.wrapping_add(sum);
            self.has_sum = true;
        }
        self.valid += (array.len() - array.null_count()) as u64;
    }

    /// Adds the valid ones of values of what is pushed: all of them, or each at least once.
    pub(crate) fn see(&mut self, values: &Values, nulls: Option<&NullBuffer>) {
        self.distinct.push(values, nulls);
    }

    /// The totals of what was added.
    pub fn finish(&self) -> Totals {
        let has_sum = self.has_sum && self.valid > 0;
        Totals { distinct_count: Some(self.distinct.estimate().min(self.valid)), sum: if has_sum { self.sum.to_i128() } else { None } }
    }

    /// Bytes in memory.
    pub(crate) fn memory_size(&self) -> usize {
        self.distinct.memory_size()
    }
}

/// The sum of the valid values of a leaf array as [`Totals::sum`] counts it; `None` if the type has none. It is far from the ends of 256 bits.
pub fn sum_of(array: &ArrayRef) -> Option<i256> {
    use DataType::{Decimal32, Decimal64, Decimal128, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    let (data, nulls) = (&array.to_data(), array.nulls());
    let short = match array.data_type() {
        Int8 => sum_of_short(data, nulls, |value: i8| i64::from(value)),
        Int16 => sum_of_short(data, nulls, |value: i16| i64::from(value)),
        Int32 | Decimal32(..) => sum_of_short(data, nulls, |value: i32| i64::from(value)),
        UInt8 => sum_of_short(data, nulls, |value: u8| i64::from(value)),
        UInt16 => sum_of_short(data, nulls, |value: u16| i64::from(value)),
        UInt32 => sum_of_short(data, nulls, |value: u32| i64::from(value)),
        Int64 | Decimal64(..) => sum(data, nulls, |value: i64| i128::from(value)),
        UInt64 => sum(data, nulls, |value: u64| i128::from(value)),
        Decimal128(..) => {
            let halves = [sum(data, nulls, |value: i128| value >> 64), sum(data, nulls, |value: i128| value & i128::from(u64::MAX))];
            let [high, low] = halves.map(i256::from_i128);
            return Some((high << 64_u8).wrapping_add(low));
        }
        data_type if is_bytes(data_type) => valid_bytes(array.as_ref()),
        _ => return None,
    };
    Some(i256::from_i128(short))
}

/// Of values of at most 64 bits: so many as there can be do not overflow 128.
fn sum<T: ArrowNativeType>(data: &ArrayData, nulls: Option<&NullBuffer>, widen: impl Fn(T) -> i128) -> i128 {
    let mut sum = 0;
    valid_runs(data.len(), nulls, |run| {
        sum += values::<T>(data).get(run).unwrap_or_default().iter().map(|value| widen(*value)).sum::<i128>();
    });
    sum
}

/// Of values of at most 32 bits: so many as an array can have do not overflow 64.
fn sum_of_short<T: ArrowNativeType>(data: &ArrayData, nulls: Option<&NullBuffer>, widen: impl Fn(T) -> i64) -> i128 {
    let mut sum = 0;
    valid_runs(data.len(), nulls, |run| {
        let run = values::<T>(data).get(run).unwrap_or_default();
        sum += run.chunks(1 << 30).map(|chunk| i128::from(chunk.iter().map(|value| widen(*value)).sum::<i64>())).sum::<i128>();
    });
    sum
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, FixedSizeBinaryArray, Float64Array, Int8Array, Int64Array,
        StringArray, StringViewArray, UInt32Array, UInt64Array,
    };

    use super::*;
    use crate::format::array::leaf_values;

    fn total(arrays: &[ArrayRef]) -> Totals {
        let mut builder = TotalsBuilder::default();
        for array in arrays {
            builder.push(array);
            builder.see(&leaf_values(array).unwrap(), array.nulls());
        }
        builder.finish()
    }

    #[test]
    fn sums_are_of_valid_values_alone_and_exact() {
        let decimals = |values: Vec<i128>| Arc::new(Decimal128Array::from(values).with_data_type(DataType::Decimal128(38, 2))) as ArrayRef;
        let of = |sum: i128| Some(i256::from_i128(sum));
        let cases: [(ArrayRef, Option<i256>); 12] = [
            (Arc::new(Int8Array::from(vec![Some(-128), None, Some(-128), Some(1)])), of(-255)),
            (Arc::new(UInt32Array::from(vec![u32::MAX, u32::MAX])), of(8_589_934_590)),
            (Arc::new(Int64Array::from(vec![Some(i64::MAX), None, Some(i64::MAX)])), of(18_446_744_073_709_551_614)),
            (Arc::new(UInt64Array::from(vec![u64::MAX, 1])), of(18_446_744_073_709_551_616)),
            (decimals(vec![i128::MAX, 1]), of(i128::MAX).map(|max| max.wrapping_add(i256::ONE))),
            (decimals(vec![i128::MAX, -1, -5, i128::MIN]), of(-7)),
            (decimals(vec![i128::MIN, i128::MIN]), of(i128::MIN).map(|min| min.wrapping_add(min))),
            (Arc::new(Decimal256Array::from(vec![i256::from(7), i256::from(-9)])), None),
            (Arc::new(StringArray::from(vec![Some("ä"), None, Some("longer than a view holds")])), of(26)),
            (Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size([Some([1_u8; 5]), None].into_iter(), 5).unwrap()), of(5)),
            (Arc::new(Float64Array::from(vec![1.0])), None),
            (Arc::new(Date32Array::from(vec![1])), None),
        ];
        for (array, expected) in cases {
            assert_eq!(sum_of(&array), expected, "{array:?}");
            let rows = (0..array.len()).try_fold(i256::ZERO, |sum, row| Some(sum.wrapping_add(sum_of(&array.slice(row, 1))?)));
            assert_eq!(rows, expected, "{array:?}");
        }
    }

    #[test]
    fn totals_add_up_over_arrays() {
        let text = |values: Vec<Option<&str>>| Arc::new(StringViewArray::from(values)) as ArrayRef;
        let totals = total(&[text(vec![Some("a"), None]), text(vec![Some("a"), Some("a word of more than twelve bytes")])]);
        assert_eq!(totals, Totals { distinct_count: Some(2), sum: Some(34) });
        let decimal = |value: i128| Arc::new(Decimal128Array::from(vec![value]).with_data_type(DataType::Decimal128(38, 0))) as ArrayRef;
        let (max, min) = (decimal(i128::MAX), decimal(i128::MIN));
        assert_eq!(total(&[Arc::clone(&max), Arc::clone(&max)]), Totals { distinct_count: Some(1), sum: None });
        // Out of range on the way, and not at the end.
        assert_eq!(total(&[Arc::clone(&max), max, min]), Totals { distinct_count: Some(2), sum: Some(i128::MAX - 1) });
        // No value has no sum: in SQL it is null.
        assert_eq!(total(&[Arc::new(Int64Array::new_null(3))]), Totals { distinct_count: Some(0), sum: None });
        assert_eq!(total(&[Arc::new(BooleanArray::from(vec![true, false, true]))]), Totals { distinct_count: Some(2), sum: None });
        assert_eq!(total(&[Arc::new(BinaryArray::from(vec![b"\xff".as_slice(), b""]))]), Totals { distinct_count: Some(2), sum: Some(1) });
    }
}
