//! Lists, list views and maps.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, GenericListArray, GenericListViewArray, MapArray, OffsetSizeTrait};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{ArrowNativeType, FieldRef};

use super::reader::Reader;
use crate::format::alkaid::batch::Node;
use crate::format::alkaid::schema::Shape;
use crate::format::error::{Error, Result};

pub(super) fn list<O: OffsetSizeTrait>(reader: &mut Reader<'_>, node: Node, item: &FieldRef, child: &Shape) -> Result<ArrayRef> {
    let nulls = reader.nulls(node)?;
    let offsets = reader.offsets::<O>(node.length)?;
    let values = reader.array(child)?;
    check_offsets(&offsets, values.len())?;
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(item), OffsetBuffer::new(offsets), values, nulls)?))
}

pub(super) fn map(reader: &mut Reader<'_>, node: Node, entries: &FieldRef, sorted: bool, child: &Shape) -> Result<ArrayRef> {
    let nulls = reader.nulls(node)?;
    let offsets = reader.offsets::<i32>(node.length)?;
    let values = reader.array(child)?;
    check_offsets(&offsets, values.len())?;
    let values = values.as_struct_opt().ok_or_else(|| Error::invalid_file("the entries of a map are no structs"))?.clone();
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), OffsetBuffer::new(offsets), values, nulls, sorted)?))
}

/// Lists in any order, which may share values.
pub(super) fn list_view<O: OffsetSizeTrait>(reader: &mut Reader<'_>, node: Node, item: &FieldRef, child: &Shape) -> Result<ArrayRef> {
    let nulls = reader.nulls(node)?;
    let offsets = reader.numbers::<O>(node.length, "offsets")?;
    let sizes = reader.numbers::<O>(node.length, "sizes")?;
    let values = reader.array(child)?;
    let is_within = |(offset, size): (&O, &O)| match (offset.to_usize(), size.to_usize()) {
        (Some(offset), Some(size)) => offset.checked_add(size).is_some_and(|end| end <= values.len()),
        _ => false,
    };
    if let Some(slot) = offsets.iter().zip(sizes.iter()).position(|pair| !is_within(pair)) {
        return Err(Error::invalid_file(format!("list {slot} is not within its {} values", values.len())));
    }
    Ok(Arc::new(GenericListViewArray::<O>::try_new(Arc::clone(item), offsets, sizes, values, nulls)?))
}

/// Offsets begin at zero or later, never descend, and end within `limit`. Gives the last.
pub(super) fn check_offsets<O: ArrowNativeType + PartialOrd>(offsets: &[O], limit: usize) -> Result<usize> {
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else {
        return Err(Error::invalid_file("there are no offsets"));
    };
    // No branch, so that many are compared at once.
    let ascend = offsets.iter().zip(offsets.iter().skip(1)).fold(true, |ascend, (before, after)| ascend & (before <= after));
    if !ascend || *first < O::default() {
        return Err(Error::invalid_file("offsets are negative or descend"));
    }
    match last.to_usize() {
        Some(last) if last <= limit => Ok(last),
        _ => Err(Error::invalid_file(format!("offsets end at {last:?}, behind the {limit} values that there are"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_checked() {
        assert_eq!(check_offsets(&[0, 3, 3, 7], 7).unwrap(), 7);
        assert_eq!(check_offsets(&[2_i64, 3], 7).unwrap(), 3);
        for (offsets, limit) in [(vec![], 9), (vec![-1, 3], 9), (vec![0, 4, 3], 9), (vec![0, 3, 10], 9), (vec![i32::MIN; 2], 9)] {
            assert!(check_offsets(&offsets, limit).is_err(), "{offsets:?}");
        }
    }
}
