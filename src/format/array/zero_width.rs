//! Values without bytes, of which Arrow's kernels lose count: they take an array's length from its bytes, or from its nulls if there are any left.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeBinaryArray, MutableArrayData, PrimitiveArray, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::{FilterBuilder, FilterPredicate, concat, take};
use arrow::datatypes::{ArrowNativeType, DataType};

use crate::format::error::{Error, Result};

/// So many of them.
pub(super) fn zero_width(rows: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    Ok(Arc::new(FixedSizeBinaryArray::try_new_with_len(0, Buffer::default(), nulls, rows)?))
}

/// Whether there are such values in a type.
fn has_zero_width(data_type: &DataType) -> bool {
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

/// Which slots are wanted. To make one costs as much as to filter a column.
#[derive(Debug)]
pub(crate) struct Mask {
    bits: BooleanBuffer,
    predicate: FilterPredicate,
}

impl Mask {
    pub(crate) fn new(bits: &BooleanBuffer) -> Self {
        Self { bits: bits.clone(), predicate: FilterBuilder::new(&BooleanArray::new(bits.clone(), None)).optimize().build() }
    }

    /// How many slots are wanted.
    pub(crate) fn count(&self) -> usize {
        self.predicate.count()
    }

    /// The slots of an array that are wanted.
    pub(crate) fn filter(&self, array: &ArrayRef) -> Result<ArrayRef> {
        if is_within(array.data_type()) {
            return pieces(&[array], self.bits.set_slices().map(|(start, end)| (0, start, end)), self.count());
        }
        counted(self.predicate.filter(array)?, self.count(), array.data_type())
    }
}

/// The slots at these places.
pub(crate) fn taken<T: ArrowPrimitiveType>(array: &ArrayRef, places: &PrimitiveArray<T>) -> Result<ArrayRef> {
    if is_within(array.data_type()) {
        return pieces(&[array], places.values().iter().map(|place| (0, place.as_usize(), place.as_usize() + 1)), places.len());
    }
    counted(take(array, places, None)?, places.len(), array.data_type())
}

/// Arrays of one type one behind the other.
pub(super) fn concatenated(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let rows = arrays.iter().map(Array::len).sum();
    match arrays.first() {
        Some(first) if is_within(first.data_type()) => {
            let all = arrays.iter().enumerate().map(|(index, array)| (index, 0, array.len()));
            pieces(&arrays.iter().collect::<Vec<_>>(), all, rows)
        }
        Some(first) => counted(concat(&arrays.iter().map(AsRef::as_ref).collect::<Vec<_>>())?, rows, first.data_type()),
        None => Err(Error::invalid_argument("no arrays to join")),
    }
}

/// Whether there are such values below others, where nobody can mend their count afterwards.
fn is_within(data_type: &DataType) -> bool {
    !matches!(data_type, DataType::FixedSizeBinary(_)) && has_zero_width(data_type)
}

/// Slots of arrays: which array, from where, to where. This counts them at every depth, and is slower than the kernels.
fn pieces(arrays: &[&ArrayRef], pieces: impl Iterator<Item = (usize, usize, usize)>, count: usize) -> Result<ArrayRef> {
    let data: Vec<_> = arrays.iter().map(|array| array.to_data()).collect();
    let mut picked = MutableArrayData::new(data.iter().collect(), false, count);
    for (array, start, end) in pieces {
        picked.try_extend(array, start, end)?;
    }
    Ok(make_array(picked.freeze()))
}

/// What a kernel picked out of values of a type, of which there should be so many: if there are not, no null was picked. Of runs, kernels forget what the fields are called.
fn counted(picked: ArrayRef, count: usize, data_type: &DataType) -> Result<ArrayRef> {
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

#[cfg(test)]
mod tests {
    use arrow::array::{Array, StructArray, UInt32Array, UnionArray};
    use arrow::datatypes::{Field, UnionFields};

    use super::*;

    /// Five of them, of which two are null.
    fn five() -> ArrayRef {
        zero_width(5, Some(vec![true, false, true, true, false].into())).unwrap()
    }

    fn within() -> [ArrayRef; 2] {
        let field = Arc::new(Field::new("x", DataType::FixedSizeBinary(0), true));
        let structs = StructArray::from(vec![(Arc::clone(&field), five())]);
        let fields: UnionFields = [(0, field)].into_iter().collect();
        [Arc::new(structs), Arc::new(UnionArray::try_new(fields, vec![0_i8; 5].into(), None, vec![five()]).unwrap())]
    }

    /// Rows, and those of them that are null at the bottom.
    fn shape(array: &ArrayRef) -> (usize, Option<usize>) {
        let data = array.to_data();
        data.validate_full().unwrap();
        let bottom = data.child_data().first().unwrap_or(&data);
        assert_eq!(bottom.len(), array.len());
        (array.len(), bottom.nulls().map(NullBuffer::null_count))
    }

    #[test]
    fn they_are_as_many_as_are_picked() {
        for array in [five()].into_iter().chain(within()) {
            let kept = |keep: [bool; 5]| shape(&Mask::new(&BooleanBuffer::from(keep.to_vec())).filter(&array).unwrap());
            assert_eq!(kept([false, true, true, false, false]), (2, Some(1)), "{}", array.data_type());
            // No null was picked, which is when kernels lose count.
            let (rows, nulls) = kept([true, false, true, true, false]);
            assert_eq!((rows, nulls.unwrap_or(0)), (3, 0), "{}", array.data_type());
            let (rows, nulls) = shape(&taken(&array, &UInt32Array::from(vec![3, 0, 0, 2])).unwrap());
            assert_eq!((rows, nulls.unwrap_or(0)), (4, 0), "{}", array.data_type());
            let valid = || array.slice(2, 2);
            let (rows, nulls) = shape(&concatenated(&[valid(), valid(), valid()]).unwrap());
            assert_eq!((rows, nulls.unwrap_or(0)), (6, 0), "{}", array.data_type());
        }
    }
}
