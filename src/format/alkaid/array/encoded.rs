//! Dictionaries and runs.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayData, ArrayRef, DictionaryArray, make_array, new_empty_array};
use arrow::datatypes::{ArrowDictionaryKeyType, DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};

use super::reader::Reader;
use crate::format::alkaid::batch::Node;
use crate::format::alkaid::schema::Shape;
use crate::format::array::most;
use crate::format::error::{Error, Result};

pub(super) fn dictionary(reader: &mut Reader<'_>, node: Node, shape: &Shape, keys: &DataType, values: &DataType) -> Result<ArrayRef> {
    let codes = reader.fixed(node, keys)?;
    let id = shape.dictionary.ok_or_else(|| Error::invalid_file("a dictionary without an id"))?;
    let values = match reader.dictionaries.values(id)? {
        Some(values) => values,
        None if codes.null_count() == codes.len() => new_empty_array(values),
        None => return Err(Error::invalid_file(format!("dictionary {id} is used and nowhere defined"))),
    };
    match keys {
        DataType::Int8 => coded::<Int8Type>(&codes, values),
        DataType::Int16 => coded::<Int16Type>(&codes, values),
        DataType::Int32 => coded::<Int32Type>(&codes, values),
        DataType::Int64 => coded::<Int64Type>(&codes, values),
        DataType::UInt8 => coded::<UInt8Type>(&codes, values),
        DataType::UInt16 => coded::<UInt16Type>(&codes, values),
        DataType::UInt32 => coded::<UInt32Type>(&codes, values),
        _ => coded::<UInt64Type>(&codes, values),
    }
}

fn coded<K: ArrowDictionaryKeyType>(codes: &ArrayRef, values: ArrayRef) -> Result<ArrayRef> {
    let codes = codes.as_primitive_opt::<K>().ok_or_else(|| Error::invalid_file("the codes of a dictionary are not of its type"))?;
    // What no code can mean only makes kernels panic that want to number all values.
    let values = values.slice(0, values.len().min(most(&K::DATA_TYPE).saturating_add(1)));
    Ok(Arc::new(DictionaryArray::<K>::try_new(codes.clone(), values)?))
}

/// Runs: ends that ascend up to the length at least, and a value for each.
pub(super) fn runs(reader: &mut Reader<'_>, node: Node, shape: &Shape) -> Result<ArrayRef> {
    let [ends, values] = shape.children.as_slice() else {
        return Err(Error::invalid_file("a run-end encoded field has run ends and values"));
    };
    if reader.old_bitmaps() && reader.nulls(node)?.is_some_and(|nulls| nulls.null_count() > 0) {
        return Err(Error::unsupported("a run-end encoded field has nulls beside those of its values"));
    }
    let ends = reader.array(ends)?;
    let values = reader.array(values)?;
    if ends.is_empty() && node.length > 0 {
        return Err(Error::invalid_file(format!("there are no runs of {} slots", node.length)));
    }
    let data = ArrayData::builder(shape.data_type.clone()).len(node.length);
    Ok(make_array(data.add_child_data(ends.to_data()).add_child_data(values.to_data()).build()?))
}
