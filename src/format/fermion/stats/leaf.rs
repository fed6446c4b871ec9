//! Walking the valid values of leaf arrays.

use std::ops::Range;

use arrow::array::{Array, ArrayAccessor, AsArray, GenericByteViewArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ByteViewType, DataType};

use super::map::prefix;
use crate::format::codec::view_length;

/// Calls `visit` with each run of valid slots.
pub(super) fn valid_runs(len: usize, nulls: Option<&NullBuffer>, mut visit: impl FnMut(Range<usize>)) {
    match nulls {
        Some(nulls) if nulls.null_count() > 0 => nulls.valid_slices().for_each(|(start, end)| visit(start..end)),
        _ => visit(0..len),
    }
}

/// The least and greatest valid value of an array of strings or binaries.
pub(super) fn bytes_min_max(array: &dyn Array) -> Option<(&[u8], &[u8])> {
    match array.data_type() {
        DataType::Utf8View => view_min_max(array.as_string_view_opt()?),
        DataType::BinaryView => view_min_max(array.as_binary_view_opt()?),
        _ => plain_min_max(array),
    }
}

/// Most values are settled by comparing the four bytes of them that are in their views.
fn view_min_max<T: ByteViewType>(array: &GenericByteViewArray<T>) -> Option<(&[u8], &[u8])> {
    let views = array.views();
    // What has the view of a bound is that bound; what has its four bytes may be less or greater.
    let mut found: Option<[(u32, u128, &[u8]); 2]> = None;
    valid_runs(array.len(), array.nulls(), |run| {
        for index in run {
            let Some(&view) = views.get(index) else { return };
            let head = head_of(view);
            let value = || array.value(index).as_ref();
            let Some([min, max]) = &mut found else {
                found = Some([(head, view, value()); 2]);
                continue;
            };
            // Without a branch between the first two: where few values differ, only both together are predictable.
            if (head <= min.0) & (view != min.1) && value() < min.2 {
                *min = (head, view, value());
            }
            if (head >= max.0) & (view != max.1) && value() > max.2 {
                *max = (head, view, value());
            }
        }
    });
    found.map(|[min, max]| (min.2, max.2))
}

/// The first four bytes of a view's value, zero-padded: a number in the order of the bytes.
#[expect(clippy::cast_possible_truncation, reason = "the bits that they are in")]
fn head_of(view: u128) -> u32 {
    ((view >> 32) as u32).swap_bytes()
}

/// Most values are settled by comparing prefixes.
fn plain_min_max(array: &dyn Array) -> Option<(&[u8], &[u8])> {
    let mut found = None;
    for_each_valid_bytes(array, |bytes| {
        let value = (prefix(bytes), bytes);
        match &mut found {
            None => found = Some((value, value)),
            Some((min, max)) => {
                if value < *min {
                    *min = value;
                } else if value > *max {
                    *max = value;
                }
            }
        }
    });
    found.map(|((_, min), (_, max))| (min, max))
}

/// How many bytes the valid values of an array of strings or binaries have.
pub(super) fn valid_bytes(array: &dyn Array) -> i128 {
    let views = match array.data_type() {
        DataType::Utf8View => array.as_string_view_opt().map(|array| array.views()),
        DataType::BinaryView => array.as_binary_view_opt().map(|array| array.views()),
        _ => None,
    };
    let mut bytes = 0_u64;
    match views {
        Some(views) => valid_runs(array.len(), array.nulls(), |run| {
            bytes += views.get(run).unwrap_or_default().iter().map(|view| view_length(*view) as u64).sum::<u64>();
        }),
        None => for_each_valid_bytes(array, |value| bytes += value.len() as u64),
    }
    i128::from(bytes)
}

/// Calls `visit` with each valid value of an array of strings or binaries; does nothing for views, which have faster ways, and others.
fn for_each_valid_bytes<'a>(array: &'a dyn Array, visit: impl FnMut(&'a [u8])) {
    match array.data_type() {
        DataType::Utf8 => each(array, array.as_string_opt::<i32>(), str::as_bytes, visit),
        DataType::LargeUtf8 => each(array, array.as_string_opt::<i64>(), str::as_bytes, visit),
        DataType::Binary => each(array, array.as_binary_opt::<i32>(), |value| value, visit),
        DataType::LargeBinary => each(array, array.as_binary_opt::<i64>(), |value| value, visit),
        DataType::FixedSizeBinary(_) => each(array, array.as_fixed_size_binary_opt(), |value| value, visit),
        _ => {}
    }
}

fn each<'a, T, A>(array: &'a dyn Array, typed: Option<A>, bytes: impl Fn(&'a T) -> &'a [u8], mut visit: impl FnMut(&'a [u8]))
where
    T: ?Sized + 'a,
    A: ArrayAccessor<Item = &'a T>,
{
    let Some(typed) = typed else { return };
    valid_runs(array.len(), array.nulls(), |run| run.for_each(|index| visit(bytes(typed.value(index)))));
}

#[cfg(test)]
mod tests {
    use arrow::array::{StringArray, StringViewArray};

    use super::*;

    #[test]
    fn views_have_the_bounds_and_bytes_of_plain_strings() {
        let words = [
            "",
            "\0",
            "a",
            "a\0",
            "abcd",
            "abcd\0",
            "abcde",
            "abcd longer than a view",
            "abcd longer than a viez",
            "\u{10FFFF} and some more bytes",
            "\u{10FFFF}",
        ];
        let mut some = 0;
        for chosen in 0..1_u32 << words.len() {
            let mut values: Vec<&str> = (0..words.len()).filter(|index| chosen >> index & 1 == 1).map(|index| words[index]).collect();
            let turn = usize::try_from(chosen).unwrap() % values.len().max(1);
            values.rotate_left(turn);
            // Between valid ones, a null that holds what would be the greatest.
            values.insert(values.len() / 2, "\u{10FFFF}\u{10FFFF} of nobody");
            let nulls = NullBuffer::from((0..values.len()).map(|index| index != (values.len() - 1) / 2).collect::<Vec<_>>());
            let plain: StringArray = values.iter().zip(&nulls).map(|(value, valid)| valid.then_some(*value)).collect();
            let (views, buffers, _) = StringViewArray::from(values).into_parts();
            let views = StringViewArray::new(views, buffers, Some(nulls));
            let binary = views.clone().to_binary_view();
            assert_eq!(bytes_min_max(&views), plain_min_max(&plain), "{plain:?}");
            assert_eq!(bytes_min_max(&binary), plain_min_max(&plain), "{plain:?}");
            let bytes: i128 = plain.iter().flatten().map(|word| word.len() as i128).sum();
            assert_eq!([valid_bytes(&views), valid_bytes(&binary), valid_bytes(&plain)], [bytes; 3]);
            let tail = views.slice(1, views.len() - 1);
            assert_eq!(bytes_min_max(&tail), plain_min_max(&plain.slice(1, plain.len() - 1)), "{plain:?}");
            some += usize::from(bytes_min_max(&tail).is_some());
        }
        assert!(some > 2000);
    }
}
