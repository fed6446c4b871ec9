//! Values of which a column may have more at once than its type can number.

use arrow::array::{ArrayRef, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::DataType;

/// Bounds of a column's leaf type as an array of the column's type. Where they are too many for its keys, nothing is known; and where not even nulls are few enough for its run ends, they
/// stay what they are.
pub(crate) fn bounds_as(leaf: ArrayRef, data_type: &DataType) -> ArrayRef {
    if leaf.data_type() == data_type {
        return leaf;
    }
    match (cast(&leaf, data_type), data_type) {
        (Ok(bounds), _) => bounds,
        (Err(_), DataType::RunEndEncoded(..)) => leaf,
        (Err(_), _) => new_null_array(data_type, leaf.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int32Array;
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn bounds_that_are_too_many_for_a_type_are_no_panic() {
        let bounds = |count: i32| -> ArrayRef { Arc::new(Int32Array::from_iter_values(0..count)) };
        let runs = DataType::RunEndEncoded(Field::new("run_ends", DataType::Int16, false).into(), Field::new("values", DataType::Int32, true).into());
        let keys = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Int32));
        assert_eq!((bounds_as(bounds(9), &runs).data_type(), bounds_as(bounds(9), &keys).data_type()), (&runs, &keys));
        let many = bounds_as(bounds(40_000), &runs);
        assert_eq!((many.data_type(), many.len(), many.null_count()), (&DataType::Int32, 40_000, 0));
        let many = bounds_as(bounds(300), &keys);
        assert_eq!((many.data_type(), many.len(), many.null_count()), (&keys, 300, 300));
    }
}
