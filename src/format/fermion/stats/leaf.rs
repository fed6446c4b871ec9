//! Walking the valid values of leaf arrays.

use std::ops::Range;

use arrow::array::{Array, ArrayAccessor, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

/// Calls `visit` with each run of valid slots.
pub(super) fn valid_runs(len: usize, nulls: Option<&NullBuffer>, mut visit: impl FnMut(Range<usize>)) {
    match nulls {
        Some(nulls) if nulls.null_count() > 0 => nulls.valid_slices().for_each(|(start, end)| visit(start..end)),
        _ => visit(0..len),
    }
}

/// Calls `visit` with each valid value of an array of strings or binaries; does nothing for others.
pub(super) fn for_each_valid_bytes<'a>(array: &'a dyn Array, visit: impl FnMut(&'a [u8])) {
    match array.data_type() {
        DataType::Utf8 => each(array, array.as_string_opt::<i32>(), str::as_bytes, visit),
        DataType::LargeUtf8 => each(array, array.as_string_opt::<i64>(), str::as_bytes, visit),
        DataType::Utf8View => each(array, array.as_string_view_opt(), str::as_bytes, visit),
        DataType::Binary => each(array, array.as_binary_opt::<i32>(), |value| value, visit),
        DataType::LargeBinary => each(array, array.as_binary_opt::<i64>(), |value| value, visit),
        DataType::BinaryView => each(array, array.as_binary_view_opt(), |value| value, visit),
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
