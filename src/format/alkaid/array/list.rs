//! Lists, list views and maps.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, GenericListArray, GenericListViewArray, MapArray, OffsetSizeTrait, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::FieldRef;

use super::reader::Reader;
use crate::format::alkaid::batch::Node;
use crate::format::alkaid::schema::Shape;
use crate::format::array::checked_offsets;
use crate::format::error::{Error, Result};

pub(super) fn list<O: OffsetSizeTrait>(reader: &mut Reader<'_>, node: Node, item: &FieldRef, child: &Shape) -> Result<ArrayRef> {
    let nulls = reader.nulls(node)?;
    let offsets = reader.offsets::<O>(node.length)?;
    let in_offsets = reader.here();
    let values = reader.array(child)?;
    let offsets = checked_offsets(offsets, values.len()).map_err(in_offsets)?;
    let values = without_unused_nulls(values, item, || {
        let ranges = offsets.windows(2).filter_map(|pair| Some(pair.first()?.as_usize()..pair.last()?.as_usize()));
        used(ranges, nulls.as_ref())
    })?;
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(item), offsets, values, nulls)?))
}

/// The items of the lists that are not null.
fn used(lists: impl Iterator<Item = Range<usize>>, nulls: Option<&NullBuffer>) -> Vec<Range<usize>> {
    lists.enumerate().filter(|(list, _)| nulls.is_none_or(|nulls| nulls.is_valid(*list))).map(|(_, items)| items).collect()
}

/// Items of lists that have none that is null, though slots that no list uses may be.
fn without_unused_nulls(items: ArrayRef, item: &FieldRef, used: impl FnOnce() -> Vec<Range<usize>>) -> Result<ArrayRef> {
    let Some(nulls) = items.nulls().filter(|nulls| !item.is_nullable() && nulls.null_count() > 0) else { return Ok(items) };
    let are_valid = |items: Range<usize>| nulls.slice(items.start, items.len()).null_count() == 0;
    if !used().into_iter().all(are_valid) {
        return Err(Error::invalid_file(format!("lists of items that are never null have null ones ({})", item.name())));
    }
    Ok(make_array(items.to_data().into_builder().nulls(None).build()?))
}

pub(super) fn map(reader: &mut Reader<'_>, node: Node, entries: &FieldRef, sorted: bool, child: &Shape) -> Result<ArrayRef> {
    let nulls = reader.nulls(node)?;
    let offsets = reader.offsets::<i32>(node.length)?;
    let in_offsets = reader.here();
    let values = reader.array(child)?;
    let offsets = checked_offsets(offsets, values.len()).map_err(in_offsets)?;
    let values = values.as_struct_opt().ok_or_else(|| Error::invalid_file("the entries of a map are no structs"))?.clone();
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, values, nulls, sorted)?))
}

/// Lists in any order, which may share values.
pub(super) fn list_view<O: OffsetSizeTrait>(reader: &mut Reader<'_>, node: Node, item: &FieldRef, child: &Shape) -> Result<ArrayRef> {
    let nulls = reader.nulls(node)?;
    let offsets = reader.numbers::<O>(node.length, "offsets")?;
    let in_offsets = reader.here();
    let sizes = reader.numbers::<O>(node.length, "sizes")?;
    let values = reader.array(child)?;
    let is_within = |(offset, size): (&O, &O)| match (offset.to_usize(), size.to_usize()) {
        (Some(offset), Some(size)) => offset.checked_add(size).is_some_and(|end| end <= values.len()),
        _ => false,
    };
    if let Some(slot) = offsets.iter().zip(sizes.iter()).position(|pair| !is_within(pair)) {
        return Err(in_offsets(Error::invalid_file(format!("list {slot} is not within its {} values", values.len()))));
    }
    let values = without_unused_nulls(values, item, || {
        let ranges = offsets.iter().zip(sizes.iter()).map(|(offset, size)| offset.as_usize()..offset.as_usize() + size.as_usize());
        used(ranges, nulls.as_ref())
    })?;
    Ok(Arc::new(GenericListViewArray::<O>::try_new(Arc::clone(item), offsets, sizes, values, nulls)?))
}
