//! Bounds: cut where they are long, and made arrays again.

use std::sync::Arc;

use arrow::array::{ArrayData, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, StringArray, make_array, new_null_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, IntervalUnit};
use half::f16;

use super::wire::{Bound, Zone};
use crate::format::array::bounds_as;
use crate::format::error::{Error, Result};

/// Longer strings and binaries are cut here.
const BYTES_MAX: usize = 64;

/// Which of the two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Min,
    Max,
}

impl Side {
    pub(crate) fn of(self, zone: &Zone) -> Option<&Bound> {
        match self {
            Self::Min => zone.min.as_ref(),
            Self::Max => zone.max.as_ref(),
        }
    }
}

/// The type of the values of a column that can have bounds: one with an order, or a dictionary or runs of one.
pub(crate) fn leaf_type(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::Dictionary(_, values) => leaf_type(values),
        DataType::RunEndEncoded(_, values) => leaf_type(values.data_type()),
        DataType::Null | DataType::Interval(IntervalUnit::DayTime | IntervalUnit::MonthDayNano) => None,
        DataType::FixedSizeBinary(width) => usize::try_from(*width).is_ok_and(|width| (1..=BYTES_MAX).contains(&width)).then_some(data_type),
        nested if nested.is_nested() => None,
        leaf => Some(leaf),
    }
}

/// A lower bound of at most [`BYTES_MAX`] bytes.
pub(super) fn lower(value: &[u8], is_text: bool) -> Bound {
    let cut = cut(value, is_text);
    Bound { bytes: cut.to_vec(), is_exact: cut.len() == value.len() }
}

/// An upper bound of at most [`BYTES_MAX`] bytes; `None` if what has been cut off cannot be made up for.
pub(super) fn upper(value: &[u8], is_text: bool) -> Option<Bound> {
    let prefix = cut(value, is_text);
    if prefix.len() == value.len() {
        return Some(Bound { bytes: value.to_vec(), is_exact: true });
    }
    let bytes = if is_text { next_text(std::str::from_utf8(prefix).ok()?)?.into_bytes() } else { next_bytes(prefix)? };
    Some(Bound { bytes, is_exact: false })
}

fn cut(value: &[u8], is_text: bool) -> &[u8] {
    let mut end = value.len().min(BYTES_MAX);
    // Not within a character, whose further bytes begin with the bits 10. Room is left for one that is longer.
    if is_text && end < value.len() {
        end -= 3;
        while end > 0 && value.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
            end -= 1;
        }
    }
    value.get(..end).unwrap_or(value)
}

/// The prefix with the last character that can be increased so, and without those behind it.
fn next_text(prefix: &str) -> Option<String> {
    prefix.char_indices().rev().find_map(|(at, last)| {
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32)?;
        Some(format!("{}{next}", prefix.get(..at)?))
    })
}

fn next_bytes(prefix: &[u8]) -> Option<Vec<u8>> {
    let at = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut next = prefix.get(..=at)?.to_vec();
    *next.last_mut()? += 1;
    Some(next)
}

/// NaN compares in more than one way, so that nothing bounds floats with one; the two zeros may be equal, so that one stands for both.
pub(super) fn widened(data_type: &DataType, min: Bound, max: Bound) -> (Option<Bound>, Option<Bound>) {
    let (Some(least), Some(greatest)) = (float(data_type, &min.bytes), float(data_type, &max.bytes)) else {
        return (Some(min), Some(max));
    };
    if least.is_nan() || greatest.is_nan() {
        return (None, None);
    }
    let with_sign = |bound: Bound, value: f64, negative: bool| {
        if value != 0.0 || value.is_sign_negative() == negative {
            return bound;
        }
        let mut bytes = bound.bytes;
        bytes.iter_mut().last().into_iter().for_each(|byte| *byte ^= 0x80);
        Bound { bytes, is_exact: false }
    };
    (Some(with_sign(min, least, true)), Some(with_sign(max, greatest, false)))
}

fn float(data_type: &DataType, bytes: &[u8]) -> Option<f64> {
    match data_type {
        DataType::Float16 => Some(f16::from_le_bytes(*bytes.first_chunk()?).to_f64()),
        DataType::Float32 => Some(f32::from_le_bytes(*bytes.first_chunk()?).into()),
        DataType::Float64 => Some(f64::from_le_bytes(*bytes.first_chunk()?)),
        _ => None,
    }
}

/// Bounds as an array of a column's type, with a null where there is none.
pub(crate) fn bound_array<'a>(data_type: &DataType, bounds: impl Iterator<Item = Option<&'a Bound>>) -> Result<ArrayRef> {
    let bounds: Vec<Option<&[u8]>> = bounds.map(|bound| bound.map(|bound| bound.bytes.as_slice())).collect();
    let Some(leaf) = leaf_type(data_type) else { return Ok(new_null_array(data_type, bounds.len())) };
    Ok(bounds_as(leaf_array(leaf, &bounds)?, data_type))
}

fn leaf_array(leaf: &DataType, bounds: &[Option<&[u8]>]) -> Result<ArrayRef> {
    let unfit = || Error::invalid_file("a bound does not fit the type of its column");
    match leaf {
        DataType::Boolean => {
            let value = |bytes: &[u8]| match bytes {
                [0] => Ok(false),
                [1] => Ok(true),
                _ => Err(unfit()),
            };
            Ok(Arc::new(bounds.iter().map(|bytes| bytes.map(value).transpose()).collect::<Result<BooleanArray>>()?))
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let value = |bytes| std::str::from_utf8(bytes).map_err(|_| Error::invalid_file("a bound of a string is not UTF-8"));
            let texts = bounds.iter().map(|bytes| bytes.map(value).transpose()).collect::<Result<StringArray>>()?;
            Ok(cast(&texts, leaf)?)
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Ok(cast(&bounds.iter().copied().collect::<BinaryArray>(), leaf)?),
        DataType::FixedSizeBinary(width) => Ok(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bounds.iter().copied(), *width)?)),
        fixed => {
            let width = fixed.primitive_width().ok_or_else(unfit)?;
            let mut values = Vec::with_capacity(bounds.len() * width);
            for bytes in bounds {
                match bytes {
                    Some(bytes) if bytes.len() != width => return Err(unfit()),
                    Some(bytes) => values.extend_from_slice(bytes),
                    None => values.resize(values.len() + width, 0),
                }
            }
            let nulls: NullBuffer = bounds.iter().map(Option::is_some).collect();
            let data = ArrayData::builder(fixed.clone()).len(bounds.len()).add_buffer(Buffer::from_slice_ref(&values)).nulls(Some(nulls));
            Ok(make_array(data.build()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::cast::AsArray;
    use arrow::array::{Array, Float64Array, StringViewArray};

    use crate::format::alkaid::zones::zone_of;

    #[test]
    fn long_values_are_cut_on_the_safe_side() {
        for text in ["z".repeat(100), "日本".repeat(50), "\u{10ffff}".repeat(40), "\u{d7ff}".repeat(40), "a".repeat(63) + "é"] {
            let low = lower(text.as_bytes(), true);
            assert!(low.bytes.as_slice() < text.as_bytes() && !low.is_exact && low.bytes.len() <= BYTES_MAX);
            std::str::from_utf8(&low.bytes).unwrap();
            match upper(text.as_bytes(), true) {
                Some(high) => {
                    assert!(std::str::from_utf8(&high.bytes).unwrap() > text.as_str() && !high.is_exact && high.bytes.len() <= BYTES_MAX, "{text}");
                }
                None => assert!(text.starts_with('\u{10ffff}')),
            }
        }
        assert_eq!(upper(&[0xff; 65], false), None);
        assert_eq!(upper(&[[1; 10].as_slice(), &[0xff; 60]].concat(), false).unwrap().bytes, [[1; 9].as_slice(), &[2]].concat());
        assert_eq!(lower(b"short", true), Bound { bytes: b"short".to_vec(), is_exact: true });
    }

    #[test]
    fn nan_and_zeros_bound_nothing_that_they_should_not() {
        let bounds = |values: Vec<f64>| {
            let zone = zone_of(&(Arc::new(Float64Array::from(values)) as ArrayRef)).unwrap();
            zone.min.zip(zone.max).map(|(min, max)| {
                (float(&DataType::Float64, &min.bytes).unwrap(), min.is_exact, float(&DataType::Float64, &max.bytes).unwrap(), max.is_exact)
            })
        };
        assert_eq!(bounds(vec![1.0, f64::NAN]), None);
        assert_eq!(bounds(vec![1.0, -f64::NAN]), None);
        assert_eq!(bounds(vec![-1.0, 2.0]), Some((-1.0, true, 2.0, true)));
        let (min, min_exact, max, max_exact) = bounds(vec![0.0]).unwrap();
        assert!(min.is_sign_negative() && !min_exact && max.is_sign_positive() && max_exact);
        assert_eq!(bounds(vec![]), None);
    }

    #[test]
    fn bounds_are_arrays_of_the_column_again() {
        let array: ArrayRef = Arc::new(StringViewArray::from(vec![Some("b"), None, Some("a")]));
        let zone = zone_of(&array).unwrap();
        assert_eq!(zone.null_count, Some(1));
        let min = bound_array(&DataType::Utf8View, [zone.min.as_ref(), None].into_iter()).unwrap();
        assert_eq!((min.as_string_view().value(0), min.is_null(1)), ("a", true));
        let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let bound = Bound { bytes: b"x".to_vec(), is_exact: true };
        assert_eq!(bound_array(&dictionary, [Some(&bound)].into_iter()).unwrap().data_type(), &dictionary);
        assert!(bound_array(&DataType::Int32, [Some(&bound)].into_iter()).is_err());
    }
}
