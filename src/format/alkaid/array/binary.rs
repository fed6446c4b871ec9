//! Strings and binaries.

use std::sync::Arc;

use arrow::array::{ArrayRef, GenericByteArray, GenericByteBuilder, GenericByteViewArray};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowNativeType, BinaryType, BinaryViewType, ByteArrayType, ByteViewType, DataType, LargeBinaryType, LargeUtf8Type, StringViewType, Utf8Type,
};

use super::reader::Reader;
use crate::format::alkaid::batch::Node;
use crate::format::array::{checked_joined, checked_offsets, checked_text};
use crate::format::error::{Error, Result};

pub(super) fn with_offsets(reader: &mut Reader<'_>, node: Node, data_type: &DataType) -> Result<ArrayRef> {
    match data_type {
        DataType::Utf8 => texts::<Utf8Type>(reader, node, checked_joined, text),
        DataType::LargeUtf8 => texts::<LargeUtf8Type>(reader, node, checked_joined, text),
        DataType::LargeBinary => texts::<LargeBinaryType>(reader, node, |_, _, _| None, binary),
        _ => texts::<BinaryType>(reader, node, |_, _, _| None, binary),
    }
}

/// What bytes are as a value of an array; `None` if they are none.
type Native<T> = fn(&[u8]) -> Option<&<T as ByteArrayType>::Native>;

/// An array without a look at each value, if that can be.
type Quick<T> = fn(&OffsetBuffer<<T as ByteArrayType>::Offset>, &Buffer, Option<&NullBuffer>) -> Option<GenericByteArray<T>>;

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

#[expect(clippy::unnecessary_wraps, reason = "strings have those that are none")]
fn binary(bytes: &[u8]) -> Option<&[u8]> {
    Some(bytes)
}

fn texts<T: ByteArrayType>(reader: &mut Reader<'_>, node: Node, quick: Quick<T>, native: Native<T>) -> Result<ArrayRef>
where
    T::Offset: ArrowNativeType,
{
    let nulls = reader.nulls(node)?;
    let offsets = reader.offsets::<T::Offset>(node.length)?;
    let in_offsets = reader.here();
    let values = reader.buffer(offsets.last().and_then(|end| end.to_usize()).unwrap_or(0))?;
    let offsets = checked_offsets(offsets, values.len()).map_err(in_offsets)?;
    let values = values.slice_with_length(0, offsets.last().map_or(0, |end| end.as_usize()));
    if let Some(array) = quick(&offsets, &values, nulls.as_ref()) {
        return Ok(Arc::new(array));
    }
    match GenericByteArray::<T>::try_new(offsets.clone(), values.clone(), nulls.clone()) {
        Ok(array) => Ok(Arc::new(array)),
        // What lies between values or below a null may be anything.
        Err(_) => Ok(Arc::new(copied::<T>(&offsets, &values, nulls.as_ref(), native)?)),
    }
}

/// The valid values and no other bytes.
fn copied<T: ByteArrayType>(
    offsets: &OffsetBuffer<T::Offset>,
    values: &Buffer,
    nulls: Option<&NullBuffer>,
    native: Native<T>,
) -> Result<GenericByteArray<T>> {
    let mut copied = GenericByteBuilder::<T>::with_capacity(offsets.len(), values.len());
    for (slot, pair) in offsets.windows(2).enumerate() {
        let bytes = pair.first().zip(pair.last()).and_then(|(start, end)| values.get(start.as_usize()..end.as_usize())).unwrap_or_default();
        match nulls.is_some_and(|nulls| nulls.is_null(slot)) {
            true => copied.append_null(),
            false => copied.append_value(native(bytes).ok_or_else(|| Error::invalid_file(format!("string {slot} is not UTF-8")))?),
        }
    }
    Ok(copied.finish())
}

pub(super) fn views(reader: &mut Reader<'_>, node: Node, data_type: &DataType) -> Result<ArrayRef> {
    let nulls = reader.nulls(node)?;
    let views = reader.raw_views(node.length)?;
    let in_views = reader.here();
    let buffers = reader.variadic(&views)?;
    let buffers: Arc<[Buffer]> = buffers.into();
    match data_type {
        DataType::Utf8View => match checked_text(&views, &buffers, nulls.as_ref()) {
            Some(array) => Ok(Arc::new(array)),
            None => viewed::<StringViewType>(views, buffers, nulls).map_err(in_views),
        },
        _ => viewed::<BinaryViewType>(views, buffers, nulls).map_err(in_views),
    }
}

fn viewed<T: ByteViewType>(views: ScalarBuffer<u128>, buffers: Arc<[Buffer]>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    match (GenericByteViewArray::<T>::try_new(views.clone(), Arc::clone(&buffers), nulls.clone()), nulls) {
        (Ok(array), _) => Ok(Arc::new(array)),
        // The view of a null may be anything.
        (Err(_), Some(nulls)) => {
            let views: ScalarBuffer<u128> = views.iter().zip(nulls.iter()).map(|(view, valid)| if valid { *view } else { 0 }).collect();
            Ok(Arc::new(GenericByteViewArray::<T>::try_new(views, buffers, Some(nulls))?))
        }
        (Err(error), None) => Err(error.into()),
    }
}
