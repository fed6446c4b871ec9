//! Values without bytes, of which Arrow's kernels lose count: they take an array's length from its bytes, or from its nulls if there are any left.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, FixedSizeBinaryArray, make_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;

use crate::format::error::{Error, Result};

/// So many of them.
pub(super) fn zero_width(rows: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    Ok(Arc::new(FixedSizeBinaryArray::try_new_with_len(0, Buffer::default(), nulls, rows)?))
}

/// Whether there are such values in a type.
pub(super) fn has_zero_width(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeBinary(width) => *width == 0,
        DataType::FixedSizeList(item, size) => *size == 0 || has_zero_width(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_zero_width(field.data_type())),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_zero_width(field.data_type())),
        DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) | DataType::LargeListView(item) | DataType::Map(item, _) => {
            has_zero_width(item.data_type())
        }
        DataType::Dictionary(_, values) => has_zero_width(values),
        DataType::RunEndEncoded(_, values) => has_zero_width(values.data_type()),
        _ => false,
    }
}

/// What a kernel picked out of values of a type, of which there should be so many: if there are not, no null was picked. Of runs, kernels forget what the fields are called.
pub(crate) fn counted(picked: ArrayRef, count: usize, data_type: &DataType) -> Result<ArrayRef> {
    match data_type {
        DataType::FixedSizeBinary(0) if picked.len() != count => zero_width(count, None),
        DataType::RunEndEncoded(..) if picked.data_type() != data_type => {
            let values = picked.to_data().child_data().get(1).cloned();
            let values = values.filter(|values| Some(values.data_type()) == run_values(data_type));
            values.ok_or_else(|| Error::invalid_argument(format!("{} were picked of {data_type}", picked.data_type())))?;
            Ok(make_array(picked.to_data().into_builder().data_type(data_type.clone()).build()?))
        }
        _ => Ok(picked),
    }
}

fn run_values(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::RunEndEncoded(_, values) => Some(values.data_type()),
        _ => None,
    }
}
