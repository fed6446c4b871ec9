//! Lists, list views and maps.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, GenericListArray, GenericListViewArray, MapArray, OffsetSizeTrait};
use arrow::datatypes::FieldRef;

use super::reader::Reader;
use crate::format::alkaid::batch::Node;
use crate::format::alkaid::schema::Shape;
use crate::format::array::checked_offsets;
use crate::format::error::{Error, Result};

pub(super) fn list<O: OffsetSizeTrait>(reader: &mut Reader<'_>, node: Node, item: &FieldRef, child: &Shape) -> Result<ArrayRef> {
    let nulls = reader.nulls(node)?;
    let offsets = reader.offsets::<O>(node.length)?;
    let values = reader.array(child)?;
    let offsets = checked_offsets(offsets, values.len())?;
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(item), offsets, values, nulls)?))
}

pub(super) fn map(reader: &mut Reader<'_>, node: Node, entries: &FieldRef, sorted: bool, child: &Shape) -> Result<ArrayRef> {
    let nulls = reader.nulls(node)?;
    let offsets = reader.offsets::<i32>(node.length)?;
    let values = reader.array(child)?;
    let offsets = checked_offsets(offsets, values.len())?;
    let values = values.as_struct_opt().ok_or_else(|| Error::invalid_file("the entries of a map are no structs"))?.clone();
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, values, nulls, sorted)?))
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
