//! Strings and binaries from views.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryViewArray, ByteView, GenericByteArray, GenericStringArray, MAX_INLINE_VIEW_LEN, OffsetSizeTrait, StringViewArray,
};
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

/// Strings as another writer has put them into a file, if a quick look shows that they are what Arrow demands. `None` does not say that they are not: bytes that belong to no
/// value, and views of nulls, may be anything.
#[expect(unsafe_code, reason = "Arrow checks string by string, which takes longer than reading them")]
pub(crate) fn checked_text(views: &ScalarBuffer<u128>, buffers: &Arc<[Buffer]>, nulls: Option<&NullBuffer>) -> Option<StringViewArray> {
    let texts = buffers.iter().map(|buffer| simd_text(buffer)).collect::<Option<Vec<_>>>()?;
    if nulls.is_some_and(|nulls| nulls.len() != views.len()) || !views.iter().all(|view| is_text_view(*view, &texts)) {
        return None;
    }
    // SAFETY: each view is either at most 12 bytes of UTF-8 and zeros behind them, or names a buffer and a range of it that begins with the view's prefix, and that
    // begins and ends at characters of a buffer that is UTF-8; there are as many bits of validity as views.
    Some(unsafe { StringViewArray::new_unchecked(views.clone(), Arc::clone(buffers), nulls.cloned()) })
}

/// The same of strings that lie one behind the other.
#[expect(unsafe_code, reason = "Arrow checks string by string, which takes longer than reading them")]
pub(crate) fn checked_joined<O: OffsetSizeTrait>(
    offsets: &OffsetBuffer<O>,
    values: &Buffer,
    nulls: Option<&NullBuffer>,
) -> Option<GenericStringArray<O>> {
    let last = offsets.last()?.as_usize();
    let bytes = values.get(..last)?;
    let is_text = bytes.is_ascii() || simd_text(bytes).is_some_and(|text| offsets.iter().all(|offset| text.is_char_boundary(offset.as_usize())));
    if !is_text || nulls.is_some_and(|nulls| nulls.len() != offsets.len() - 1) {
        return None;
    }
    // SAFETY: an `OffsetBuffer` ascends from zero or more, its last lies within the values, which are cut off there and UTF-8, each begins and ends at a character, and
    // there are as many bits of validity as values.
    Some(unsafe { GenericStringArray::new_unchecked(offsets.clone(), values.slice_with_length(0, last), nulls.cloned()) })
}

fn simd_text(bytes: &[u8]) -> Option<&str> {
    simdutf8::basic::from_utf8(bytes).ok()
}

/// Whether it is a view of one of these texts, or holds its text itself.
fn is_text_view(view: u128, texts: &[&str]) -> bool {
    const HIGH_BITS: u128 = 0x8080_8080_8080_8080_8080_8080;
    let ByteView { length, prefix, buffer_index, offset } = view.into();
    if length <= MAX_INLINE_VIEW_LEN {
        let bytes = view >> 32;
        let behind = bytes >> (8 * length);
        let is_text = || std::str::from_utf8(&bytes.to_le_bytes()[..length as usize]).is_ok();
        return behind == 0 && (bytes & HIGH_BITS == 0 || is_text());
    }
    let (start, end) = (offset as usize, offset as usize + length as usize);
    // A range that begins or ends within a character has no text.
    let text = texts.get(buffer_index as usize).and_then(|text| text.get(start..end));
    text.is_some_and(|text| text.as_bytes().starts_with(&prefix.to_le_bytes()))
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
    use arrow::array::{StringArray, StringViewBuilder};

    use super::*;
    use crate::format::ErrorKind;

    /// Values of all lengths and widths of characters, and two buffers.
    fn texts() -> StringViewArray {
        let words = ["", "a", "äöü", "twelve bytes", "thirteen byte", "日本語日本語", "日本語", "🦀🦀🦀", "🦀🦀🦀🦀🦀", "long, and ends with é"];
        let mut builder = StringViewBuilder::new().with_fixed_block_size(40);
        words.iter().for_each(|word| builder.append_value(word));
        builder.finish()
    }

    /// The quick look is never content with what Arrow's own check refuses, whichever bit of views or buffers is another.
    #[test]
    fn what_the_quick_look_takes_arrow_takes() {
        let whole = texts();
        assert!(whole.data_buffers().len() > 1);
        assert_eq!(checked_text(whole.views(), &whole.data_buffers().into(), None).unwrap(), whole);
        let (mut taken, mut refused) = (0, 0);
        let mut compare = |views: ScalarBuffer<u128>, buffers: Vec<Buffer>| {
            let quick = checked_text(&views, &buffers.clone().into(), None);
            let slow = StringViewArray::try_new(views, buffers, None);
            match (&quick, &slow) {
                (Some(quick), Ok(slow)) => assert_eq!(quick, slow),
                (Some(quick), Err(error)) => panic!("{quick:?} is taken, though {error}"),
                (None, _) => {}
            }
            *(if quick.is_some() { &mut taken } else { &mut refused }) += 1;
        };
        for slot in 0..whole.len() {
            for bit in 0..128 {
                let mut views = whole.views().to_vec();
                views[slot] ^= 1 << bit;
                compare(views.into(), whole.data_buffers().to_vec());
            }
        }
        for (index, buffer) in whole.data_buffers().iter().enumerate() {
            for bit in 0..8 * buffer.len() {
                let mut bytes = buffer.to_vec();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let mut buffers = whole.data_buffers().to_vec();
                buffers[index] = Buffer::from_vec(bytes);
                compare(whole.views().clone(), buffers);
            }
        }
        assert!(taken > 100 && refused > 500, "{taken} {refused}");
        let nulls = NullBuffer::new_valid(whole.len() - 1);
        assert!(checked_text(whole.views(), &whole.data_buffers().into(), Some(&nulls)).is_none());
    }

    #[test]
    fn what_the_quick_look_takes_of_joined_strings_arrow_takes() {
        let whole = StringArray::from_iter(texts().iter());
        let (offsets, bytes, _) = whole.clone().into_parts();
        assert_eq!(checked_joined(&offsets, &bytes, None).unwrap(), whole);
        let part = whole.slice(2, 5);
        assert_eq!(checked_joined(part.offsets(), part.values(), None).unwrap(), part);
        // Before the first there may be anything, but not for Arrow; behind the last, too.
        let garbage = Buffer::from_vec(vec![0xff, b'a', 0xff]);
        assert!(checked_joined(&OffsetBuffer::new(vec![1, 2].into()), &garbage, None).is_none());
        let array = checked_joined(&OffsetBuffer::new(vec![0, 1].into()), &garbage.slice(1), None).unwrap();
        assert_eq!((array.value(0), array.values().len()), ("a", 1));
        let (mut taken, mut refused) = (0, 0);
        let mut compare = |offsets: &OffsetBuffer<i32>, bytes: Buffer| {
            let quick = checked_joined(offsets, &bytes, None);
            match (&quick, StringArray::try_new(offsets.clone(), bytes, None)) {
                (Some(quick), Ok(slow)) => assert_eq!(*quick, slow),
                (Some(quick), Err(error)) => panic!("{quick:?} is taken, though {error}"),
                (None, _) => {}
            }
            *(if quick.is_some() { &mut taken } else { &mut refused }) += 1;
        };
        for slot in 1..offsets.len() - 1 {
            for end in offsets[slot - 1]..=offsets[slot + 1] {
                let mut moved = offsets.to_vec();
                moved[slot] = end;
                compare(&OffsetBuffer::new(moved.into()), bytes.clone());
            }
        }
        for bit in 0..8 * bytes.len() {
            let mut other = bytes.to_vec();
            other[bit / 8] ^= 1 << (bit % 8);
            compare(&offsets, Buffer::from_vec(other));
        }
        compare(&offsets, bytes.slice_with_length(0, bytes.len() - 1));
        assert!(taken > 100 && refused > 100, "{taken} {refused}");
        assert!(checked_joined(&offsets, &bytes, Some(&NullBuffer::new_valid(3))).is_none());
    }

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
