//! Arrays without dictionaries: which entries a dictionary has, and whether a null is one of them, is not part of what is stored.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, cast::AsArray, make_array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef, UnionFields};

/// The same values, with each dictionary at any level spelled out.
pub(crate) fn spelled(array: &ArrayRef) -> ArrayRef {
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        return spelled(&take(dictionary.values(), dictionary.keys(), None).unwrap());
    }
    let data = array.to_data();
    if data.child_data().is_empty() {
        return Arc::clone(array);
    }
    let children: Vec<ArrayData> = data.child_data().iter().map(|child| spelled(&make_array(child.clone())).to_data()).collect();
    let data_type = with_children(array.data_type(), &children);
    make_array(data.into_builder().data_type(data_type).child_data(children).build().unwrap())
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
