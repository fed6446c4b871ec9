//! Values to dictionaries and run-end encoded arrays, which are stored as their values.

use std::collections::HashMap;
use std::hash::Hash;

use arrow::array::types::RunEndIndexType;
use arrow::array::{Array, ArrayData, ArrayRef, PrimitiveArray, RunArray, UInt64Array, make_array, make_comparator};
use arrow::compute::{CastOptions, SortOptions, cast, cast_with_options};
use arrow::datatypes::{ArrowNativeType, DataType, Int16Type, Int32Type, Int64Type};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::limits::{SLOT_BYTES, check_spelled, null_bytes};
use super::size::spelled_bytes;
use super::zero_width::taken;
use crate::format::error::{Error, Result};

/// A dictionary of the values, each once, for a batch of `rows`.
pub(super) fn dictionary(values: ArrayRef, out: &DataType, rows: usize) -> Result<ArrayRef> {
    let DataType::Dictionary(key, _) = out else {
        return Err(Error::invalid_argument(format!("{out} is not a dictionary")));
    };
    if !is_packed_by_arrow(values.data_type()) {
        // To find those that are equal, each is spelled out, and a page says a value once for any number of slots. A slot of nothing takes its part, too.
        check_spelled(null_bytes(values.data_type(), SLOT_BYTES), 1)?;
        check_spelled(spelled_bytes(&values).saturating_add(SLOT_BYTES.saturating_mul(nested_slots(&values.to_data()))), rows)?;
        return packed(&values, key, out);
    }
    match cast(&values, out) {
        Ok(dictionary) => Ok(dictionary),
        Err(ArrowError::DictionaryKeyOverflowError) => Err(too_many_values(key)),
        Err(error) => Err(error.into()),
    }
}

fn too_many_values(key: &DataType) -> Error {
    Error::too_many_rows(format!("a batch has more distinct values than {key} can number; read the column as its value type"))
}

/// The types that Arrow's cast makes dictionaries of, whatever `can_cast_types` says of the others.
fn is_packed_by_arrow(data_type: &DataType) -> bool {
    let is_text = matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let is_binary = matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    let is_time = data_type.is_temporal() && !matches!(data_type, DataType::Duration(_) | DataType::Interval(_));
    data_type.is_numeric() || is_text || is_binary || is_time
}

/// A dictionary of values of any type.
fn packed(values: &ArrayRef, key: &DataType, out: &DataType) -> Result<ArrayRef> {
    let (codes, firsts) = distinct(values)?;
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let keys = cast_with_options(&codes, key, &options).map_err(|_| too_many_values(key))?;
    let entries = match firsts.len() == values.len() {
        true => values.to_data(),
        false => taken(values, &firsts)?.to_data(),
    };
    let data = keys.to_data().into_builder().data_type(out.clone()).child_data(vec![entries]).build()?;
    Ok(make_array(data))
}

/// Slots of all arrays below an array, and its own.
fn nested_slots(data: &ArrayData) -> usize {
    data.child_data().iter().map(nested_slots).fold(data.len(), usize::saturating_add)
}

/// A code for each value that is not null, and where the value of each code first stands.
fn distinct(values: &ArrayRef) -> Result<(UInt64Array, UInt64Array)> {
    let field = SortField::new(values.data_type().clone());
    if RowConverter::supports_fields(std::slice::from_ref(&field)) {
        let rows = RowConverter::new(vec![field])?.convert_columns(std::slice::from_ref(values))?;
        return Ok(numbered(values, |slot| rows.row(slot), |_, _| true));
    }
    // Of values that contain dictionaries of nested values, Arrow makes no rows. Equal ones look the same, at least.
    let format = FormatOptions::new().with_display_error(true);
    let texts = ArrayFormatter::try_new(values, &format)?;
    Ok(numbered(values, |slot| texts.value(slot).to_string(), |one, other| values.slice(one, 1) == values.slice(other, 1)))
}

/// Numbers what has the same look and is the same, in the order of appearance.
fn numbered<K: Hash + Eq>(values: &ArrayRef, look: impl Fn(usize) -> K, same: impl Fn(usize, usize) -> bool) -> (UInt64Array, UInt64Array) {
    // What is null by one of its children, as a union is, has a null for an entry.
    let nulls = values.nulls();
    let mut firsts: Vec<usize> = Vec::new();
    let mut known: HashMap<K, Vec<usize>> = HashMap::new();
    let codes = (0..values.len()).map(|slot| {
        if nulls.is_some_and(|nulls| nulls.is_null(slot)) {
            return None;
        }
        let alike = known.entry(look(slot)).or_default();
        let code = alike.iter().copied().find(|code| firsts.get(*code).is_some_and(|first| same(*first, slot)));
        let code = code.unwrap_or_else(|| {
            alike.push(firsts.len());
            firsts.push(slot);
            firsts.len() - 1
        });
        Some(code as u64)
    });
    let codes: UInt64Array = codes.collect();
    (codes, firsts.iter().map(|first| *first as u64).collect::<Vec<_>>().into())
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
    let values = taken(values, &UInt64Array::from(starts))?;
    let runs = RunArray::<R>::try_new(&PrimitiveArray::<R>::from_iter_values(ends), &values)?;
    let data = runs.to_data().into_builder().data_type(out.clone()).build()?;
    Ok(make_array(data))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{FixedSizeListArray, ListArray, NullArray, StructArray, new_empty_array};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Field, FieldRef, Fields};

    use super::*;
    use crate::format::ErrorKind;

    fn field(data_type: DataType) -> FieldRef {
        Arc::new(Field::new("x", data_type, true))
    }

    fn dictionary_of(values: ArrayRef, rows: usize) -> Result<ArrayRef> {
        let out = DataType::Dictionary(Box::new(DataType::Int8), Box::new(values.data_type().clone()));
        dictionary(values, &out, rows)
    }

    #[test]
    fn a_null_that_takes_much_is_not_spelled_out() {
        let wide = || field(DataType::FixedSizeBinary(i32::MAX));
        let nested = |item| field(DataType::FixedSizeList(item, i32::MAX));
        let of = |item: FieldRef| -> ArrayRef {
            let items = new_empty_array(item.data_type());
            Arc::new(ListArray::new(item, OffsetBuffer::new(vec![0, 0].into()), items, None))
        };
        let many = field(DataType::Struct((0..100).map(|_| wide()).collect::<Fields>()));
        // A bit in an array, and far more in a row.
        let bits = field(DataType::FixedSizeList(field(DataType::Boolean), 1 << 27));
        for item in [wide(), many, nested(nested(field(DataType::Int64))), bits] {
            let error = dictionary_of(of(item), 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
        assert_eq!(dictionary_of(of(field(DataType::FixedSizeBinary(1 << 10))), 1).unwrap().len(), 1);
    }

    #[test]
    fn slots_of_nothing_are_counted() {
        let list = |size: i32| -> ArrayRef {
            Arc::new(FixedSizeListArray::new(field(DataType::Null), size, Arc::new(NullArray::new(usize::try_from(size).unwrap())), None))
        };
        assert_eq!(dictionary_of(list(1000), 1).unwrap().len(), 1);
        assert_eq!(dictionary_of(list(1 << 28), 1).unwrap_err().kind(), ErrorKind::InvalidArgument);
        // Of several rows, fewer may be less.
        let structs = |rows: usize| -> ArrayRef { Arc::new(StructArray::new_empty_fields(rows, None)) };
        assert!(dictionary_of(structs(1 << 24), 1 << 24).unwrap_err().is_splittable());
    }
}
