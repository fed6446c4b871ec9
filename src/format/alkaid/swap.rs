//! Big-endian values to little-endian ones.

use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, IntervalUnit};

/// The widths of the numbers that a value of a type of fixed width is made of.
pub(super) fn units(data_type: &DataType) -> &'static [usize] {
    match data_type {
        DataType::Interval(IntervalUnit::DayTime) => &[4, 4],
        DataType::Interval(IntervalUnit::MonthDayNano) => &[4, 4, 8],
        other => match other.primitive_width() {
            Some(2) => &[2],
            Some(4) => &[4],
            Some(8) => &[8],
            Some(16) => &[16],
            Some(32) => &[32],
            _ => &[1],
        },
    }
}

/// Turns each number around; `units` are the widths of those of one value.
pub(super) fn swapped(buffer: &Buffer, units: &[usize]) -> Buffer {
    if units == [1] {
        return buffer.clone();
    }
    let mut bytes = buffer.to_vec();
    let width = units.iter().sum::<usize>().max(1);
    for mut value in bytes.chunks_exact_mut(width) {
        for unit in units {
            let (number, rest) = std::mem::take(&mut value).split_at_mut(*unit);
            number.reverse();
            value = rest;
        }
    }
    Buffer::from_slice_ref(&bytes)
}

/// The same of views: a short one holds its bytes, a long one a prefix of them and two numbers.
pub(super) fn swapped_views(buffer: &Buffer) -> Buffer {
    const VIEW: usize = 16;
    const INLINE_MAX: u32 = 12;
    let mut bytes = buffer.to_vec();
    for view in bytes.chunks_exact_mut(VIEW) {
        if let Some(length) = view.first_chunk_mut::<4>() {
            length.reverse();
            let is_long = u32::from_le_bytes(*length) > INLINE_MAX;
            view.chunks_exact_mut(4).skip(2).filter(|_| is_long).for_each(<[u8]>::reverse);
        }
    }
    Buffer::from_slice_ref(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_turned_around_one_by_one() {
        let bytes: Vec<u8> = (0..16).collect();
        let swap = |units: &[usize]| swapped(&Buffer::from_slice_ref(&bytes), units).to_vec();
        assert_eq!(swap(&[1]), bytes);
        assert_eq!(swap(&[2])[..4], [1, 0, 3, 2]);
        assert_eq!(swap(&[4, 4])[..8], [3, 2, 1, 0, 7, 6, 5, 4]);
        assert_eq!(swap(&[4, 4, 8]), [3, 2, 1, 0, 7, 6, 5, 4, 15, 14, 13, 12, 11, 10, 9, 8]);
        assert_eq!(swap(&[16]), bytes.iter().rev().copied().collect::<Vec<_>>());
    }

    #[test]
    fn the_bytes_of_views_stay() {
        let short = [&[0, 0, 0, 3][..], b"abc", &[0; 9]].concat();
        let long = [&[0, 0, 0, 13][..], b"abcd", &[0, 0, 0, 1], &[0, 0, 1, 2]].concat();
        let views = swapped_views(&Buffer::from_slice_ref([short, long].concat()));
        assert_eq!(views.as_slice()[..16], *[&[3, 0, 0, 0][..], b"abc", &[0; 9]].concat());
        assert_eq!(views.as_slice()[16..], *[&[13, 0, 0, 0][..], b"abcd", &[1, 0, 0, 0], &[2, 1, 0, 0]].concat());
    }
}
