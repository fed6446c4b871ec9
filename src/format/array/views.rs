//! Strings and binaries from views.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryViewArray, GenericByteArray, OffsetSizeTrait, StringViewArray};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, ByteArrayType, DataType, GenericBinaryType, GenericStringType};

use super::limits::ROW_BYTES_MAX;
use crate::format::error::{Error, Result};

/// The most bytes of strings that are copied for one row; `i32` offsets cannot say more.
const ROW_JOINED_MAX: usize = (1 << 31) - 1;

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

/// An array of any string or binary type, for a batch of `rows`.
pub(crate) fn array(
    data_type: &DataType,
    views: ScalarBuffer<u128>,
    buffers: Vec<Buffer>,
    nulls: Option<NullBuffer>,
    rows: usize,
) -> Result<ArrayRef> {
    Ok(match data_type {
        DataType::Utf8View => Arc::new(text(views, buffers, nulls)),
        DataType::BinaryView => Arc::new(binary(views, buffers, nulls)),
        DataType::Utf8 => Arc::new(joined::<GenericStringType<i32>>(views, buffers, nulls, rows)?),
        DataType::LargeUtf8 => Arc::new(joined::<GenericStringType<i64>>(views, buffers, nulls, rows)?),
        DataType::Binary => Arc::new(joined::<GenericBinaryType<i32>>(views, buffers, nulls, rows)?),
        DataType::LargeBinary => Arc::new(joined::<GenericBinaryType<i64>>(views, buffers, nulls, rows)?),
        other => return Err(Error::invalid_file(format!("strings are stored where {other} is expected"))),
    })
}

/// Copies the values one behind the other, as the types with offsets want them.
fn joined<T: ByteArrayType>(views: ScalarBuffer<u128>, buffers: Vec<Buffer>, nulls: Option<NullBuffer>, rows: usize) -> Result<GenericByteArray<T>>
where
    T::Offset: OffsetSizeTrait,
{
    let views = binary(views, buffers, None);
    let total = check_joined(views.lengths().map(u64::from).sum(), rows)?;
    let mut bytes: Vec<u8> = Vec::with_capacity(total);
    let mut offsets = vec![T::Offset::default()];
    offsets.reserve(views.len());
    for value in views.iter().flatten() {
        bytes.extend_from_slice(value);
        offsets.push(T::Offset::from_usize(bytes.len()).ok_or_else(|| Error::invalid_argument("the strings of a batch pass 2 GiB"))?);
    }
    Ok(GenericByteArray::try_new(OffsetBuffer::new(offsets.into()), Buffer::from_vec(bytes), nulls)?)
}

/// A page says a value once, for any number of slots: what the copies take is looked at before they are made.
fn check_joined(total: u64, rows: usize) -> Result<usize> {
    let total_bytes = usize::try_from(total).unwrap_or(usize::MAX);
    match total_bytes {
        bytes if bytes > ROW_BYTES_MAX && rows > 1 => Err(Error::too_many_rows(format!("the strings of a batch take {bytes} bytes"))),
        bytes if bytes > ROW_JOINED_MAX => {
            Err(Error::invalid_argument(format!("the strings of one row take {bytes} bytes as copies; read the column as views")))
        }
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ErrorKind;

    #[test]
    fn copies_that_pass_the_limits_are_not_begun() {
        // A string of 1 MiB, said 4,096 times by as many views.
        let value = vec![b'a'; 1 << 20];
        let one = BinaryViewArray::from_iter_values([&value]);
        let views: ScalarBuffer<u128> = vec![one.views()[0]; 4096].into();
        for data_type in [DataType::Utf8, DataType::LargeUtf8, DataType::Binary, DataType::LargeBinary] {
            let error = |rows| array(&data_type, views.clone(), one.data_buffers().to_vec(), None, rows).unwrap_err();
            assert!(error(4096).is_splittable(), "{data_type}");
            assert_eq!((error(1).kind(), error(1).is_splittable()), (ErrorKind::InvalidArgument, false), "{data_type}");
            assert_eq!(array(&data_type, views.slice(0, 3), one.data_buffers().to_vec(), None, 3).unwrap().len(), 3);
        }
        assert_eq!(array(&DataType::Utf8View, views, one.data_buffers().to_vec(), None, 1).unwrap().len(), 4096);
    }
}
