//! What the values of an array are between.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::types::{ArrowPrimitiveType, RunEndIndexType};
use arrow::array::{Array, ArrayRef, BooleanArray, BooleanBufferBuilder, PrimitiveArray, RunArray, downcast_primitive_array};
use arrow::compute::{
    filter, max, max_binary, max_binary_view, max_boolean, max_fixed_size_binary, max_string, max_string_view, min, min_binary, min_binary_view,
    min_boolean, min_fixed_size_binary, min_string, min_string_view,
};
use arrow::datatypes::{DataType, Int16Type, Int32Type, Int64Type, ToByteSlice};

use super::bounds::{leaf_type, lower, upper, widened};
use super::wire::{Bound, Zone};
use crate::format::error::Result;

/// What is known of the rows of an array, the bytes that they take aside.
pub(crate) fn zone_of(array: &ArrayRef) -> Result<Zone> {
    let null_count = u32::try_from(array.logical_null_count()).ok();
    let (min, max) = match leaf_type(array.data_type()) {
        Some(_) => bounds_of(&used_values(array)?),
        None => (None, None),
    };
    Ok(Zone { min, max, null_count, bytes: None })
}

/// The values of a leaf type that rows have: those of a dictionary that have a code, those of runs within the array.
fn used_values(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(..) => {
            let Some(dictionary) = array.as_any_dictionary_opt() else { return Ok(Arc::clone(array)) };
            let values = dictionary.values();
            if values.is_empty() {
                return Ok(Arc::clone(values));
            }
            let mut used = BooleanBufferBuilder::new(values.len());
            used.append_n(values.len(), false);
            let nulls = dictionary.keys().nulls();
            for (row, code) in dictionary.normalized_keys().into_iter().enumerate() {
                if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                    used.set_bit(code, true);
                }
            }
            used_values(&filter(values, &BooleanArray::from(used.finish()))?)
        }
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => used_values(&runs::<Int16Type>(array)),
            DataType::Int32 => used_values(&runs::<Int32Type>(array)),
            _ => used_values(&runs::<Int64Type>(array)),
        },
        _ => Ok(Arc::clone(array)),
    }
}

fn runs<R: RunEndIndexType>(array: &ArrayRef) -> ArrayRef {
    array.as_any().downcast_ref::<RunArray<R>>().map_or_else(|| Arc::clone(array), RunArray::values_slice)
}

type Bounds = (Option<Bound>, Option<Bound>);

fn bounds_of(array: &ArrayRef) -> Bounds {
    let array = array.as_ref();
    downcast_primitive_array! {
        array => numbers(array),
        DataType::Boolean => {
            let array = array.as_boolean();
            let bound = |value: bool| Bound { bytes: vec![u8::from(value)], is_exact: true };
            (min_boolean(array).map(bound), max_boolean(array).map(bound))
        }
        DataType::Utf8 => texts(min_string(array.as_string::<i32>()), max_string(array.as_string::<i32>())),
        DataType::LargeUtf8 => texts(min_string(array.as_string::<i64>()), max_string(array.as_string::<i64>())),
        DataType::Utf8View => texts(min_string_view(array.as_string_view()), max_string_view(array.as_string_view())),
        DataType::Binary => bytes(min_binary(array.as_binary::<i32>()), max_binary(array.as_binary::<i32>())),
        DataType::LargeBinary => bytes(min_binary(array.as_binary::<i64>()), max_binary(array.as_binary::<i64>())),
        DataType::BinaryView => bytes(min_binary_view(array.as_binary_view()), max_binary_view(array.as_binary_view())),
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary();
            let bound = |value: &[u8]| Bound { bytes: value.to_vec(), is_exact: true };
            (min_fixed_size_binary(array).map(bound), max_fixed_size_binary(array).map(bound))
        }
        _ => (None, None),
    }
}

fn numbers<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> Bounds {
    let bound = |value: T::Native| Bound { bytes: value.to_byte_slice().to_vec(), is_exact: true };
    let (Some(least), Some(greatest)) = (min(array), max(array)) else { return (None, None) };
    widened(array.data_type(), bound(least), bound(greatest))
}

fn texts(least: Option<&str>, greatest: Option<&str>) -> Bounds {
    (least.map(|value| lower(value.as_bytes(), true)), greatest.and_then(|value| upper(value.as_bytes(), true)))
}

fn bytes(least: Option<&[u8]>, greatest: Option<&[u8]>) -> Bounds {
    (least.map(|value| lower(value, false)), greatest.and_then(|value| upper(value, false)))
}
