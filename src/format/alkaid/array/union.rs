//! Unions, and the nulls that they had before metadata V5.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UnionArray, make_array};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, UnionFields, UnionMode};

use super::reader::{Reader, first};
use crate::format::alkaid::batch::Node;
use crate::format::alkaid::schema::Shape;
use crate::format::array::{joined, may_be_copied, null_array, value_slots};
use crate::format::error::{Error, Result};

pub(super) fn union(reader: &mut Reader<'_>, node: Node, fields: &UnionFields, mode: UnionMode, shape: &Shape) -> Result<ArrayRef> {
    let nulls = if reader.old_bitmaps() { reader.nulls(node)? } else { None };
    let ids = reader.numbers::<i8>(node.length, "type ids")?;
    let offsets = match mode {
        UnionMode::Sparse => None,
        UnionMode::Dense => Some(reader.numbers::<i32>(node.length, "offsets")?),
    };
    let mut children = Vec::with_capacity(shape.children.len());
    for child in &shape.children {
        let child = reader.array(child)?;
        children.push(if mode == UnionMode::Sparse { first(child, node.length, "a sparse union")? } else { child });
    }
    let (ids, offsets, children) = match nulls {
        Some(nulls) => lowered(fields, &nulls, ids, offsets, children)?,
        None => (ids, offsets, children),
    };
    Ok(Arc::new(UnionArray::try_new(fields.clone(), ids, offsets, children)?))
}

type Parts = (ScalarBuffer<i8>, Option<ScalarBuffer<i32>>, Vec<ArrayRef>);

/// The nulls of a union become those of one of its children, as they are today. What ids and offsets said of them means nothing.
fn lowered(
    fields: &UnionFields,
    nulls: &NullBuffer,
    ids: ScalarBuffer<i8>,
    offsets: Option<ScalarBuffer<i32>>,
    children: Vec<ArrayRef>,
) -> Result<Parts> {
    let has_nulls = |data_type: &DataType| !matches!(data_type, DataType::Union(..) | DataType::RunEndEncoded(..));
    let found = fields.iter().enumerate().find(|(_, (_, field))| field.is_nullable() && has_nulls(field.data_type()));
    let (position, (id, _)) = found.ok_or_else(|| Error::unsupported("a union has nulls, and none of its children can have them"))?;
    let ids = ids.iter().zip(nulls.iter()).map(|(own, valid)| if valid { *own } else { id }).collect();
    let mut children = children;
    let Some(child) = children.get_mut(position) else {
        return Err(Error::invalid_file("a union has too few children"));
    };
    let Some(offsets) = offsets else {
        *child = masked(child, nulls)?;
        return Ok((ids, None, children));
    };
    let too_many = || Error::unsupported("a dense union has too many values");
    if !may_be_copied(value_slots(&child.to_data()), child.get_buffer_memory_size()) {
        return Err(too_many());
    }
    let null = i32::try_from(child.len()).map_err(|_| too_many())?;
    *child = joined(&[Arc::clone(child), null_array(child.data_type(), 1, 1)?])?.ok_or_else(too_many)?;
    let offsets = offsets.iter().zip(nulls.iter()).map(|(own, valid)| if valid { *own } else { null }).collect();
    Ok((ids, Some(offsets), children))
}

/// The array with nulls where `nulls` has them too.
fn masked(array: &ArrayRef, nulls: &NullBuffer) -> Result<ArrayRef> {
    if array.data_type().is_null() {
        return Ok(Arc::clone(array));
    }
    let both = NullBuffer::union(array.nulls(), Some(nulls));
    Ok(make_array(array.to_data().into_builder().nulls(both).build()?))
}
