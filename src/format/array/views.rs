//! Strings and binaries from views.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryViewArray, GenericByteArray, OffsetSizeTrait, StringViewArray};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, ByteArrayType, DataType, GenericBinaryType, GenericStringType};

use crate::format::error::{Error, Result};

/// A binary array of views that a page has made (or that an array has been taken apart into): every view lies in its buffer.
#[expect(unsafe_code, reason = "checking every view again would cost as much as making it")]
pub(crate) fn binary(views: ScalarBuffer<u128>, buffers: Vec<Buffer>, nulls: Option<NullBuffer>) -> BinaryViewArray {
    // SAFETY: `codec` makes a view only after checking that its bytes lie within the buffer it names, with the length and prefix that Arrow's
    // layout demands, and an existing array's views have been checked by Arrow. The zero view is the empty value.
    unsafe { BinaryViewArray::new_unchecked(views, buffers, nulls) }
}

/// The same of strings, whose bytes the page has checked to be UTF-8.
#[expect(unsafe_code, reason = "checking every string again would cost as much as decoding it")]
fn text(views: ScalarBuffer<u128>, buffers: Vec<Buffer>, nulls: Option<NullBuffer>) -> StringViewArray {
    // SAFETY: as in `binary`; and a page that is opened as text has checked that its bytes are UTF-8 and that no value starts or ends within a
    // character, so that each view is UTF-8.
    unsafe { StringViewArray::new_unchecked(views, buffers, nulls) }
}

/// An array of any string or binary type.
pub(crate) fn array(data_type: &DataType, views: ScalarBuffer<u128>, buffers: Vec<Buffer>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    Ok(match data_type {
        DataType::Utf8View => Arc::new(text(views, buffers, nulls)),
        DataType::BinaryView => Arc::new(binary(views, buffers, nulls)),
        DataType::Utf8 => Arc::new(joined::<GenericStringType<i32>>(views, buffers, nulls)?),
        DataType::LargeUtf8 => Arc::new(joined::<GenericStringType<i64>>(views, buffers, nulls)?),
        DataType::Binary => Arc::new(joined::<GenericBinaryType<i32>>(views, buffers, nulls)?),
        DataType::LargeBinary => Arc::new(joined::<GenericBinaryType<i64>>(views, buffers, nulls)?),
        other => return Err(Error::invalid_file(format!("strings are stored where {other} is expected"))),
    })
}

/// Copies the values one behind the other, as the types with offsets want them.
fn joined<T: ByteArrayType>(views: ScalarBuffer<u128>, buffers: Vec<Buffer>, nulls: Option<NullBuffer>) -> Result<GenericByteArray<T>>
where
    T::Offset: OffsetSizeTrait,
{
    let views = binary(views, buffers, None);
    let total: usize = (0..views.len()).map(|i| views.value(i).len()).sum();
    let mut bytes: Vec<u8> = Vec::with_capacity(total);
    let mut offsets = vec![T::Offset::default()];
    offsets.reserve(views.len());
    for value in views.iter().flatten() {
        bytes.extend_from_slice(value);
        offsets.push(T::Offset::from_usize(bytes.len()).ok_or_else(|| Error::too_many_rows("the strings of a batch pass 2 GiB"))?);
    }
    Ok(GenericByteArray::try_new(OffsetBuffer::new(offsets.into()), Buffer::from_vec(bytes), nulls)?)
}
