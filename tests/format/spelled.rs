//! Arrays without dictionaries: which entries a dictionary has, and whether a null is one of them, is not part of what is stored.

use std::sync::Arc;

use arrow::array::{AnyDictionaryArray, Array, ArrayData, ArrayRef, MutableArrayData, cast::AsArray, make_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, UInt64Type, UnionFields};

/// The same values, with each dictionary at any level spelled out.
pub(crate) fn spelled(array: &ArrayRef) -> ArrayRef {
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        return spelled(&picked(dictionary.values(), dictionary));
    }
    let data = array.to_data();
    if data.child_data().is_empty() {
        return Arc::clone(array);
    }
    let children: Vec<ArrayData> = data.child_data().iter().map(|child| spelled(&make_array(child.clone())).to_data()).collect();
    let data_type = with_children(array.data_type(), &children);
    make_array(data.into_builder().data_type(data_type).child_data(children).build().unwrap())
}

/// The value of each key, one by one: kernels lose count of values without bytes.
fn picked(values: &ArrayRef, dictionary: &dyn AnyDictionaryArray) -> ArrayRef {
    let data = values.to_data();
    let mut picked = MutableArrayData::new(vec![&data], true, dictionary.len());
    for key in cast(dictionary.keys(), &DataType::UInt64).unwrap().as_primitive::<UInt64Type>() {
        match key.map(|key| usize::try_from(key).unwrap()) {
            Some(key) => picked.try_extend(0, key, key + 1).unwrap(),
            None => picked.try_extend_nulls(1).unwrap(),
        }
    }
    make_array(picked.freeze())
}

fn with_children(data_type: &DataType, children: &[ArrayData]) -> DataType {
    let retyped = |field: &Field, child: &ArrayData| -> FieldRef { Arc::new(field.clone().with_data_type(child.data_type().clone())) };
    match data_type {
        DataType::List(item) => DataType::List(retyped(item, &children[0])),
        DataType::LargeList(item) => DataType::LargeList(retyped(item, &children[0])),
        DataType::ListView(item) => DataType::ListView(retyped(item, &children[0])),
        DataType::LargeListView(item) => DataType::LargeListView(retyped(item, &children[0])),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(retyped(item, &children[0]), *size),
        DataType::Map(entries, sorted) => DataType::Map(retyped(entries, &children[0]), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().zip(children).map(|(field, child)| retyped(field, child)).collect()),
        DataType::RunEndEncoded(ends, values) => DataType::RunEndEncoded(Arc::clone(ends), retyped(values, &children[1])),
        DataType::Union(fields, mode) => {
            let fields = fields.iter().zip(children).map(|((id, field), child)| (id, retyped(field, child)));
            DataType::Union(fields.collect::<UnionFields>(), *mode)
        }
        other => other.clone(),
    }
}
