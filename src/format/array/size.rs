//! What the rows of an array take when they are written out, before encoding.

use arrow::array::cast::AsArray;
use arrow::array::types::RunEndIndexType;
use arrow::array::{Array, ArrayRef, OffsetSizeTrait, RunArray, UnionArray};
use arrow::datatypes::{ArrowNativeType, DataType, Int16Type, Int32Type, Int64Type};

/// Bytes of a string's length or a list's end.
const LENGTH_BYTES: usize = 4;

/// Bytes of the rows of an array: not of the buffers that they are cut from, and with the values of dictionaries and runs as often as they occur.
/// Where lists skip values of their child or repeat them, all values are taken to be of average size.
pub(crate) fn spelled_bytes(array: &ArrayRef) -> usize {
    let nulls = if array.nulls().is_some() { array.len().div_ceil(8) } else { 0 };
    nulls.saturating_add(values_bytes(array))
}

fn values_bytes(array: &ArrayRef) -> usize {
    let rows = array.len();
    match array.data_type() {
        DataType::Null => 0,
        DataType::Boolean => rows.div_ceil(8),
        DataType::FixedSizeBinary(width) => rows.saturating_mul(usize::try_from(*width).unwrap_or(0)),
        DataType::Utf8 => text_bytes(array.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => text_bytes(array.as_string::<i64>().value_offsets()),
        DataType::Binary => text_bytes(array.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => text_bytes(array.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => view_bytes(array.as_string_view().lengths()),
        DataType::BinaryView => view_bytes(array.as_binary_view().lengths()),
        DataType::Struct(_) => array.as_struct().columns().iter().map(spelled_bytes).fold(0, usize::saturating_add),
        DataType::FixedSizeList(..) => spelled_bytes(array.as_fixed_size_list().values()),
        DataType::List(_) => list_bytes(array.as_list::<i32>().value_offsets(), array.as_list::<i32>().values()),
        DataType::LargeList(_) => list_bytes(array.as_list::<i64>().value_offsets(), array.as_list::<i64>().values()),
        DataType::Map(..) => {
            let entries: ArrayRef = std::sync::Arc::new(array.as_map().entries().clone());
            list_bytes(array.as_map().value_offsets(), &entries)
        }
        DataType::ListView(_) => list_view_bytes(array.as_list_view::<i32>().value_sizes(), array.as_list_view::<i32>().values()),
        DataType::LargeListView(_) => list_view_bytes(array.as_list_view::<i64>().value_sizes(), array.as_list_view::<i64>().values()),
        DataType::Union(..) => union_bytes(array.as_union()),
        DataType::Dictionary(..) => dictionary_bytes(array),
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => run_bytes::<Int16Type>(array),
            DataType::Int32 => run_bytes::<Int32Type>(array),
            _ => run_bytes::<Int64Type>(array),
        },
        fixed => rows.saturating_mul(fixed.primitive_width().unwrap_or(0)),
    }
}

fn text_bytes<O: OffsetSizeTrait>(offsets: &[O]) -> usize {
    let ends = offsets.first().zip(offsets.last());
    let bytes = ends.map_or(0, |(first, last)| last.as_usize() - first.as_usize());
    bytes + (offsets.len().saturating_sub(1)) * LENGTH_BYTES
}

/// A view says its length, and nothing shorter says the length of many.
fn view_bytes(lengths: impl ExactSizeIterator<Item = u32>) -> usize {
    lengths.map(|length| length as usize + LENGTH_BYTES).sum()
}

fn list_bytes<O: OffsetSizeTrait>(offsets: &[O], values: &ArrayRef) -> usize {
    let Some((first, last)) = offsets.first().zip(offsets.last()) else { return 0 };
    let (first, last) = (first.as_usize(), last.as_usize());
    spelled_bytes(&values.slice(first, last - first)).saturating_add(offsets.len() * LENGTH_BYTES)
}

fn list_view_bytes<O: OffsetSizeTrait>(sizes: &[O], values: &ArrayRef) -> usize {
    part_bytes(values, sizes.iter().map(|size| size.as_usize()).sum()).saturating_add(sizes.len() * LENGTH_BYTES)
}

/// Bytes of so many values of average size.
fn part_bytes(values: &ArrayRef, count: usize) -> usize {
    let bytes = (spelled_bytes(values) as u128 * count as u128).checked_div(values.len() as u128);
    usize::try_from(bytes.unwrap_or(0)).unwrap_or(usize::MAX)
}

fn union_bytes(union: &UnionArray) -> usize {
    let DataType::Union(fields, _) = union.data_type() else { return 0 };
    let children = fields.iter().map(|(id, _)| match union.offsets() {
        None => spelled_bytes(union.child(id)),
        Some(_) => part_bytes(union.child(id), union.type_ids().iter().filter(|of| **of == id).count()),
    });
    children.fold(union.len(), usize::saturating_add)
}

fn dictionary_bytes(array: &ArrayRef) -> usize {
    let Some(dictionary) = array.as_any_dictionary_opt() else { return 0 };
    let values = dictionary.values();
    match value_lengths(values) {
        // Keys of nulls may be anything, and Arrow normalizes none where there is nothing that they could mean.
        Some(lengths) if lengths.is_empty() => 0,
        Some(lengths) => dictionary.normalized_keys().into_iter().filter_map(|key| lengths.get(key)).fold(0, |sum, bytes| sum.saturating_add(*bytes)),
        None => part_bytes(values, array.len()),
    }
}

fn run_bytes<R: RunEndIndexType>(array: &ArrayRef) -> usize {
    let Some(runs) = array.as_any().downcast_ref::<RunArray<R>>() else { return 0 };
    let values = runs.values_slice();
    let Some(lengths) = value_lengths(&values) else { return part_bytes(&values, runs.len()) };
    let mut start = 0;
    let spelled = runs.run_ends().sliced_values().zip(lengths).map(|(end, bytes)| {
        let count = end.as_usize() - start;
        start = end.as_usize();
        bytes.saturating_mul(count)
    });
    spelled.fold(0, usize::saturating_add)
}

/// The bytes of each value where they differ; `None` where they are all of a width, or nested.
fn value_lengths(values: &ArrayRef) -> Option<Vec<usize>> {
    let of_offsets = |lengths: Vec<usize>| Some(lengths.into_iter().map(|length| length + LENGTH_BYTES).collect());
    match values.data_type() {
        DataType::Utf8 => of_offsets(values.as_string::<i32>().offsets().lengths().collect()),
        DataType::LargeUtf8 => of_offsets(values.as_string::<i64>().offsets().lengths().collect()),
        DataType::Binary => of_offsets(values.as_binary::<i32>().offsets().lengths().collect()),
        DataType::LargeBinary => of_offsets(values.as_binary::<i64>().offsets().lengths().collect()),
        DataType::Utf8View => of_offsets(values.as_string_view().lengths().map(|length| length as usize).collect()),
        DataType::BinaryView => of_offsets(values.as_binary_view().lengths().map(|length| length as usize).collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow::array::{DictionaryArray, Int8Array, Int32Array, Int64Array, ListArray, StringArray, StringViewArray, UInt8Array};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Field, Int8Type};

    fn check(array: impl Array + 'static, expected: usize) {
        let array: ArrayRef = Arc::new(array);
        assert_eq!(spelled_bytes(&array), expected, "{:?}", array.data_type());
    }

    #[test]
    fn bytes_are_those_of_the_rows() {
        let long = "x".repeat(1000);
        check(Int32Array::from(vec![1, 2, 3]), 12);
        check(Int32Array::from(vec![Some(1), None, None]), 13);
        check(StringArray::from(vec!["ab", &long, &long]).slice(0, 2), 1002 + 8);
        check(StringViewArray::from(vec!["ab", &long, &long]).slice(1, 2), 2008);
        check(DictionaryArray::<Int8Type>::new(Int8Array::from(vec![0, 1, 1]), Arc::new(StringArray::from(vec!["ab", &long]))), 2002 + 12);
        check(RunArray::<Int32Type>::try_new(&Int32Array::from(vec![1, 5]), &StringArray::from(vec!["ab", &long])).unwrap().slice(0, 3), 2002 + 12);
        check(DictionaryArray::<Int8Type>::new(Int8Array::from(vec![None, None]), Arc::new(StringArray::from(Vec::<&str>::new()))), 1);
        check(DictionaryArray::<Int8Type>::new(Int8Array::from(vec![0; 10]), Arc::new(Int64Array::from(vec![7]))), 80);
        let item = Arc::new(Field::new("item", DataType::UInt8, true));
        let list = ListArray::new(item, OffsetBuffer::from_lengths([10, 20, 30]), Arc::new(UInt8Array::from(vec![0; 1000])), None);
        check(list.slice(1, 1), 20 + 8);
    }
}
