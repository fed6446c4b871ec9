//! Values to dictionaries and run-end encoded arrays, which are stored as their values.

use arrow::array::types::RunEndIndexType;
use arrow::array::{Array, ArrayRef, PrimitiveArray, RunArray, UInt64Array, make_comparator};
use arrow::compute::{SortOptions, can_cast_types, cast, take};
use arrow::datatypes::{ArrowNativeType, DataType, Int16Type, Int32Type, Int64Type};
use arrow::error::ArrowError;

use crate::format::error::{Error, Result};

/// A dictionary of the values. Types that Arrow's cast does not know get a dictionary with an entry per slot.
pub(super) fn dictionary(values: ArrayRef, out: &DataType) -> Result<ArrayRef> {
    let (DataType::Dictionary(key, _), true) = (out, can_cast_types(values.data_type(), out)) else {
        return identity_dictionary(values, out);
    };
    match cast(&values, out) {
        Ok(dictionary) => Ok(dictionary),
        Err(ArrowError::DictionaryKeyOverflowError) => {
            Err(Error::too_many_rows(format!("a batch has more distinct values than {key} can number; read the column as its value type")))
        }
        Err(error) => Err(error.into()),
    }
}

fn identity_dictionary(values: ArrayRef, out: &DataType) -> Result<ArrayRef> {
    let DataType::Dictionary(key, _) = out else {
        return Err(Error::invalid_argument(format!("{out} is not a dictionary")));
    };
    let slots: UInt64Array = (0_u64..).take(values.len()).enumerate().map(|(i, slot)| values.is_valid(i).then_some(slot)).collect();
    let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
    let keys = arrow::compute::cast_with_options(&slots, key, &options)
        .map_err(|_| Error::too_many_rows(format!("a batch has more values than {key} can number; read the column as its value type")))?;
    let data = keys.to_data().into_builder().data_type(out.clone()).child_data(vec![values.to_data()]).build()?;
    Ok(arrow::array::make_array(data))
}

/// Runs of equal neighbours.
pub(super) fn runs(values: &ArrayRef, out: &DataType) -> Result<ArrayRef> {
    let DataType::RunEndEncoded(ends, _) = out else {
        return Err(Error::invalid_argument(format!("{out} is not run-end encoded")));
    };
    match ends.data_type() {
        DataType::Int16 => typed_runs::<Int16Type>(values, out),
        DataType::Int32 => typed_runs::<Int32Type>(values, out),
        _ => typed_runs::<Int64Type>(values, out),
    }
}

fn typed_runs<R: RunEndIndexType>(values: &ArrayRef, out: &DataType) -> Result<ArrayRef> {
    let same = make_comparator(values, values, SortOptions::default()).ok();
    let starts_run = |i: usize| i == 0 || same.as_ref().is_none_or(|same| same(i - 1, i).is_ne());
    let starts: Vec<u64> = (0_u64..).zip(0..values.len()).filter(|(_, i)| starts_run(*i)).map(|(start, _)| start).collect();
    let ends = starts.iter().skip(1).copied().chain((!starts.is_empty()).then_some(values.len() as u64));
    let ends: Vec<R::Native> = ends
        .map(|end| usize::try_from(end).ok().and_then(R::Native::from_usize))
        .collect::<Option<_>>()
        .ok_or_else(|| Error::too_many_rows("a batch has more rows than its run ends can number"))?;
    let values = take(values, &UInt64Array::from(starts), None)?;
    let runs = RunArray::<R>::try_new(&PrimitiveArray::<R>::from_iter_values(ends), &values)?;
    let data = runs.to_data().into_builder().data_type(out.clone()).build()?;
    Ok(arrow::array::make_array(data))
}
