//! Arrays that are parts of larger ones, with no more than their part.

use arrow::array::types::RunEndIndexType;
use arrow::array::{Array, ArrayRef, Int32Array, OffsetSizeTrait, RunArray, UnionArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{ArrowNativeType, DataType};

use crate::format::array::taken;
use crate::format::error::{Error, Result};

/// Offsets from zero on, and what they were before: the first and the last.
pub(super) fn offsets<O: OffsetSizeTrait>(offsets: &[O]) -> (Buffer, usize, usize) {
    let first = offsets.first().copied().unwrap_or_default();
    let last = offsets.last().copied().unwrap_or_default();
    let moved: Vec<O> = offsets.iter().map(|offset| *offset - first).collect();
    (Buffer::from_vec(moved), first.as_usize(), last.as_usize())
}

/// The offsets of views into the part of their child that they use, and where that is.
pub(super) fn list_view<O: OffsetSizeTrait>(offsets: &[O], sizes: &[O]) -> (Vec<O>, usize, usize) {
    let used = || offsets.iter().zip(sizes).filter(|(_, size)| **size > O::zero());
    let first = used().map(|(offset, _)| *offset).min().unwrap_or_default();
    let last = used().map(|(offset, size)| offset.as_usize() + size.as_usize()).max().unwrap_or(0);
    let moved = offsets.iter().zip(sizes).map(|(offset, size)| if *size > O::zero() { *offset - first } else { O::zero() });
    (moved.collect(), first.as_usize(), last.max(first.as_usize()))
}

/// The offsets of a dense union into the parts of its children that it uses, and those. Within a child, offsets ascend, as the format demands.
pub(super) fn dense_union(union: &UnionArray) -> Result<(Vec<i32>, Vec<ArrayRef>)> {
    let DataType::Union(fields, _) = union.data_type() else { return Err(Error::invalid_argument("this is no union")) };
    let missing = || Error::invalid_argument("a dense union has offsets for all of its rows");
    let offsets = union.offsets().ok_or_else(missing)?;
    let mut moved = offsets.to_vec();
    let mut children = Vec::new();
    for (id, _) in fields.iter() {
        let own = || union.type_ids().iter().zip(offsets.iter()).filter(|(of, _)| **of == id).map(|(_, offset)| *offset);
        if !own().is_sorted() {
            let order = Int32Array::from_iter_values(own());
            let child = union.child(id);
            children.push(taken(child, &order)?);
            let places = moved.iter_mut().zip(union.type_ids().iter()).filter(|(_, of)| **of == id);
            (0..).zip(places).for_each(|(place, (offset, _))| *offset = place);
            continue;
        }
        let (first, last) = (own().min().unwrap_or(0), own().max());
        let count = last.map_or(0, |last| last.as_usize() + 1 - first.as_usize());
        children.push(union.child(id).slice(first.as_usize(), count));
        for (offset, _) in moved.iter_mut().zip(union.type_ids().iter()).filter(|(_, of)| **of == id) {
            *offset -= first;
        }
    }
    Ok((moved, children))
}

/// The ends of the runs within an array, and the values of those.
pub(super) fn runs<R: RunEndIndexType>(array: &ArrayRef) -> Result<(Vec<R::Native>, ArrayRef)> {
    let runs = array.as_any().downcast_ref::<RunArray<R>>().ok_or_else(|| Error::invalid_argument("run ends are not of their type"))?;
    let ends: Vec<R::Native> = runs.run_ends().sliced_values().collect();
    if runs.is_empty() {
        return Ok((Vec::new(), runs.values().slice(0, 0)));
    }
    Ok((ends, runs.values_slice()))
}
