//! Nulls that are values of a dictionary.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, DictionaryArray, GenericListArray, OffsetSizeTrait, PrimitiveArray, StructArray, downcast_dictionary_array};
use arrow::datatypes::{ArrowDictionaryKeyType, DataType};

/// The array with such nulls as nulls of its keys, which are the only ones that some of Arrow's kernels look for: without, a cast to views would make empty strings of them. Those of
/// dictionaries in structs and lists, too; but not what a union has for null, which says more than that.
pub(crate) fn with_nulls_in_keys(array: ArrayRef) -> ArrayRef {
    let changed = match array.data_type() {
        DataType::Dictionary(_, values) if !matches!(**values, DataType::Union(..)) => {
            let array = array.as_ref();
            downcast_dictionary_array!(array => masked(array), _ => None)
        }
        DataType::Struct(_) => of_fields(array.as_struct()),
        DataType::List(_) => of_items(array.as_list::<i32>()),
        DataType::LargeList(_) => of_items(array.as_list::<i64>()),
        _ => None,
    };
    changed.unwrap_or(array)
}

fn masked<K: ArrowDictionaryKeyType>(array: &DictionaryArray<K>) -> Option<ArrayRef> {
    if !array.values().is_nullable() {
        return None;
    }
    let keys = PrimitiveArray::try_new(array.keys().values().clone(), array.logical_nulls()).ok()?;
    Some(Arc::new(DictionaryArray::<K>::try_new(keys, Arc::clone(array.values())).ok()?))
}

/// What cannot have nulls stays what it is.
fn of_fields(array: &StructArray) -> Option<ArrayRef> {
    let columns: Vec<ArrayRef> = array.columns().iter().map(|column| with_nulls_in_keys(Arc::clone(column))).collect();
    if columns.iter().zip(array.columns()).all(|(new, old)| Arc::ptr_eq(new, old)) {
        return None;
    }
    Some(Arc::new(StructArray::try_new(array.fields().clone(), columns, array.nulls().cloned()).ok()?))
}

fn of_items<O: OffsetSizeTrait>(array: &GenericListArray<O>) -> Option<ArrayRef> {
    let items = with_nulls_in_keys(Arc::clone(array.values()));
    let (DataType::List(field) | DataType::LargeList(field)) = array.data_type() else { return None };
    if Arc::ptr_eq(&items, array.values()) {
        return None;
    }
    Some(Arc::new(GenericListArray::<O>::try_new(Arc::clone(field), array.offsets().clone(), items, array.nulls().cloned()).ok()?))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int8Array, StringArray, UnionArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::compute::cast;
    use arrow::datatypes::{Field, Int8Type, UnionFields};

    use super::*;

    fn dictionary(values: ArrayRef) -> ArrayRef {
        Arc::new(DictionaryArray::<Int8Type>::new(Int8Array::from(vec![Some(1), Some(0), None, Some(2), Some(1)]), values))
    }

    fn words() -> ArrayRef {
        dictionary(Arc::new(StringArray::from(vec![Some("a"), None, Some("")])))
    }

    fn texts(array: &ArrayRef) -> Vec<Option<String>> {
        let texts = cast(array, &DataType::Utf8View).unwrap();
        texts.as_string_view().iter().map(|text| text.map(str::to_owned)).collect()
    }

    #[test]
    fn casts_find_nulls_wherever_dictionaries_are() {
        let expected = [None, Some("a"), None, Some(""), None].map(|text| text.map(str::to_owned));
        assert_eq!(texts(&with_nulls_in_keys(words())), expected);
        let field = Arc::new(Field::new("d", words().data_type().clone(), true));
        let structs: ArrayRef = Arc::new(StructArray::from(vec![(Arc::clone(&field), words())]));
        let offsets = OffsetBuffer::from_lengths([2, 3]);
        let items = Arc::new(Field::new("item", structs.data_type().clone(), true));
        let lists: ArrayRef = Arc::new(GenericListArray::<i64>::new(items, offsets, structs, None));
        assert_eq!(texts(with_nulls_in_keys(lists).as_list::<i64>().values().as_struct().column(0)), expected);
    }

    #[test]
    fn what_has_no_such_nulls_stays_what_it_is() {
        let union = UnionFields::try_new([0], [Field::new("a", DataType::Int8, true)]).unwrap();
        let numbers: ArrayRef = Arc::new(Int8Array::from(vec![Some(1), None, Some(3)]));
        let unions = UnionArray::try_new(union, vec![0, 0, 0].into(), None, vec![numbers]).unwrap();
        let never_null: ArrayRef =
            Arc::new(StructArray::from(vec![(Arc::new(Field::new("d", DataType::Int8, false)), Arc::new(Int8Array::from(vec![1, 2])) as ArrayRef)]));
        for array in [dictionary(Arc::new(StringArray::from(vec!["a", "b", "c"]))), dictionary(Arc::new(unions)), never_null] {
            assert!(Arc::ptr_eq(&with_nulls_in_keys(Arc::clone(&array)), &array));
        }
    }
}
