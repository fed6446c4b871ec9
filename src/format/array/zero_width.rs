//! Values without bytes, of which Arrow's kernels lose count: they take an array's length from its bytes, or from its nulls if there are any left. For the kernels, each of them becomes a byte.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{
    Array, ArrayData, ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray, Int8Array, PrimitiveArray, StructArray,
    make_array, new_empty_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::{FilterBuilder, FilterPredicate, concat, take};
use arrow::datatypes::{DataType, FieldRef, UnionMode};

use crate::format::error::{Error, Result};

/// So many of them.
pub(super) fn zero_width(rows: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    Ok(Arc::new(FixedSizeBinaryArray::try_new_with_len(0, Buffer::default(), nulls, rows)?))
}

/// Which slots are wanted. To make one costs as much as to filter a column.
#[derive(Debug)]
pub(crate) struct Mask(FilterPredicate);

impl Mask {
    pub(crate) fn new(bits: &BooleanBuffer) -> Self {
        Self(FilterBuilder::new(&BooleanArray::new(bits.clone(), None)).optimize().build())
    }

    /// How many slots are wanted.
    pub(crate) fn count(&self) -> usize {
        self.0.count()
    }

    /// The slots of an array that are wanted.
    pub(crate) fn filter(&self, array: &ArrayRef) -> Result<ArrayRef> {
        match array.data_type() {
            // Field by field, so that those with a width are left alone.
            DataType::Struct(fields) if has_zero_width(array.data_type()) => {
                let columns = array.as_struct().columns().iter().map(|column| self.filter(column)).collect::<Result<_>>()?;
                let nulls = array.nulls().map(|nulls| self.0.filter(&BooleanArray::new(nulls.inner().clone(), None))).transpose()?;
                let nulls = nulls.map(|nulls| NullBuffer::new(nulls.as_boolean().values().clone()));
                Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, self.count())?))
            }
            DataType::FixedSizeBinary(_) | DataType::RunEndEncoded(..) | DataType::Union(_, UnionMode::Sparse) => {
                restored(&self.0.filter(&widened(array)?)?, array.data_type())
            }
            // Of all others the kernel picks codes, offsets or one slot after the other, and counts them.
            _ => Ok(self.0.filter(array)?),
        }
    }
}

/// The slots at these places.
pub(crate) fn taken<T: ArrowPrimitiveType>(array: &ArrayRef, places: &PrimitiveArray<T>) -> Result<ArrayRef> {
    restored(&take(&widened(array)?, places, None)?, array.data_type())
}

/// Arrays of one type one behind the other.
pub(super) fn concatenated(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let Some(first) = arrays.first() else { return Err(Error::invalid_argument("no arrays to join")) };
    let wide = arrays.iter().map(widened).collect::<Result<Vec<_>>>()?;
    restored(&concat(&wide.iter().map(AsRef::as_ref).collect::<Vec<_>>())?, first.data_type())
}

/// The same slots with a byte for each value without a width, at every depth.
fn widened(array: &ArrayRef) -> Result<ArrayRef> {
    if !has_zero_width(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    Ok(make_array(retyped(&array.to_data(), &wide_type(array.data_type()))?))
}

/// What a kernel has made of slots of this type, as that. Of runs, kernels forget what the fields are called.
fn restored(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    Ok(make_array(retyped(&array.to_data(), data_type)?))
}

fn retyped(data: &ArrayData, data_type: &DataType) -> Result<ArrayData> {
    let (rows, nulls) = (data.len(), || data.nulls().cloned());
    match (data.data_type(), data_type) {
        (own, wanted) if own == wanted => Ok(data.clone()),
        (DataType::FixedSizeBinary(0) | DataType::FixedSizeList(_, 0), DataType::Int8) => {
            Ok(Int8Array::new(vec![0; rows].into(), nulls()).into_data())
        }
        (DataType::Int8, DataType::FixedSizeBinary(0)) => Ok(zero_width(rows, nulls())?.to_data()),
        (DataType::Int8, DataType::FixedSizeList(item, 0)) => {
            let items = new_empty_array(item.data_type());
            Ok(FixedSizeListArray::try_new_with_length(Arc::clone(item), 0, items, nulls(), rows)?.into_data())
        }
        _ => {
            let children = data.child_data().iter().zip(child_types(data_type));
            let children = children.map(|(child, data_type)| retyped(child, data_type)).collect::<Result<_>>()?;
            Ok(data.clone().into_builder().data_type(data_type.clone()).child_data(children).build()?)
        }
    }
}

fn wide_type(data_type: &DataType) -> DataType {
    use DataType::{Dictionary, FixedSizeBinary, FixedSizeList, Int8, LargeList, LargeListView, List, ListView, Map, RunEndEncoded, Struct, Union};
    let wide = |field: &FieldRef| -> FieldRef { Arc::new(field.as_ref().clone().with_data_type(wide_type(field.data_type()))) };
    match data_type {
        FixedSizeBinary(0) | FixedSizeList(_, 0) => Int8,
        FixedSizeList(item, size) => FixedSizeList(wide(item), *size),
        List(item) => List(wide(item)),
        LargeList(item) => LargeList(wide(item)),
        ListView(item) => ListView(wide(item)),
        LargeListView(item) => LargeListView(wide(item)),
        Map(entries, sorted) => Map(wide(entries), *sorted),
        Struct(fields) => Struct(fields.iter().map(wide).collect()),
        Union(fields, mode) => Union(fields.iter().map(|(id, field)| (id, wide(field))).collect(), *mode),
        Dictionary(keys, values) => Dictionary(keys.clone(), Box::new(wide_type(values))),
        RunEndEncoded(ends, values) => RunEndEncoded(Arc::clone(ends), wide(values)),
        other => other.clone(),
    }
}

/// The types of the children of an array.
fn child_types(data_type: &DataType) -> Vec<&DataType> {
    use DataType::{Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Map, RunEndEncoded, Struct, Union};
    match data_type {
        List(item) | LargeList(item) | ListView(item) | LargeListView(item) | FixedSizeList(item, _) | Map(item, _) => vec![item.data_type()],
        Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        Union(fields, _) => fields.iter().map(|(_, field)| field.data_type()).collect(),
        Dictionary(_, values) => vec![values],
        RunEndEncoded(ends, values) => vec![ends.data_type(), values.data_type()],
        _ => Vec::new(),
    }
}

fn has_zero_width(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeBinary(0) | DataType::FixedSizeList(_, 0) => true,
        other => child_types(other).into_iter().any(has_zero_width),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, Int32Array, ListArray, ListViewArray, RunArray, UInt32Array, UnionArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Field, Int32Type, UnionFields};

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

    fn mask(keep: impl IntoIterator<Item = bool>) -> Mask {
        Mask::new(&keep.into_iter().collect())
    }

    fn field(data_type: &DataType) -> FieldRef {
        Arc::new(Field::new("own name", data_type.clone(), true))
    }

    /// Their type, how many they are, and what they look like; which has to be valid.
    fn look(array: &ArrayRef) -> (DataType, Vec<String>) {
        array.to_data().validate_full().unwrap();
        let text = |slot| arrow::util::display::array_value_to_string(array, slot).unwrap();
        (array.data_type().clone(), (0..array.len()).map(text).collect())
    }

    #[test]
    fn wherever_they_are_the_right_ones_are_picked() {
        let five = five();
        let of = field(five.data_type());
        let ends = Arc::new(Field::new("ends", DataType::Int32, false));
        let runs = RunArray::<Int32Type>::try_new(&Int32Array::from(vec![1, 2, 3, 4, 5]), &five).unwrap().to_data();
        let runs = runs.into_builder().data_type(DataType::RunEndEncoded(ends, Arc::clone(&of))).build().unwrap();
        let empty = FixedSizeListArray::try_new_with_length(field(&DataType::Int64), 0, new_empty_array(&DataType::Int64), five.nulls().cloned(), 5);
        let arrays: [ArrayRef; 6] = [
            Arc::new(ListArray::new(Arc::clone(&of), OffsetBuffer::from_lengths([1; 5]), Arc::clone(&five), None)),
            Arc::new(ListViewArray::new(of, vec![4, 3, 2, 1, 0].into(), vec![1; 5].into(), Arc::clone(&five), None)),
            Arc::new(DictionaryArray::new(Int8Array::from(vec![4, 3, 2, 1, 0]), Arc::clone(&five))),
            make_array(runs),
            Arc::new(empty.unwrap()),
            Arc::new(StructArray::new_empty_fields(5, five.nulls().cloned())),
        ];
        let structs = arrays.clone().map(|array| Arc::new(StructArray::from(vec![(field(array.data_type()), array)])) as ArrayRef);
        for array in arrays.into_iter().chain(structs).chain(within()) {
            let (data_type, all) = look(&array);
            let at = |places: &[usize]| (data_type.clone(), places.iter().map(|place| all[*place].clone()).collect::<Vec<_>>());
            assert_eq!(look(&mask([true, false, true, true, false]).filter(&array).unwrap()), at(&[0, 2, 3]));
            assert_eq!(look(&mask([false, true, true]).filter(&array.slice(2, 3)).unwrap()), at(&[3, 4]));
            assert_eq!(look(&taken(&array, &UInt32Array::from(vec![4, 0, 0])).unwrap()), at(&[4, 0, 0]));
            assert_eq!(look(&concatenated(&[array.slice(2, 2), array.slice(0, 1)]).unwrap()), at(&[2, 3, 0]));
        }
    }

    #[test]
    fn lists_that_share_items_go_on_sharing_them() {
        const MANY: usize = 1000;
        let items = zero_width(MANY, None).unwrap();
        let (starts, sizes) = (vec![0; MANY].into(), vec![i32::try_from(MANY).unwrap(); MANY].into());
        let views: ArrayRef = Arc::new(ListViewArray::new(field(items.data_type()), starts, sizes, items, None));
        let both: ArrayRef = Arc::new(StructArray::from(vec![
            (field(views.data_type()), views),
            (field(&DataType::FixedSizeBinary(0)), zero_width(MANY, None).unwrap()),
        ]));
        let filtered = mask((0..MANY).map(|row| row % 2 == 0)).filter(&both).unwrap();
        let views = filtered.as_struct().column(0).as_list_view::<i32>();
        assert_eq!((views.len(), views.values().len()), (MANY / 2, MANY));
    }
}
