//! Offsets of lists and strings that another writer has put into a file.

use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::ArrowNativeType;

use crate::format::error::{Error, Result};

/// Offsets that begin at zero or later, never descend, and end within `limit`.
#[expect(unsafe_code, reason = "Arrow checks them one by one, and panics")]
pub(crate) fn checked_offsets<O: ArrowNativeType + PartialOrd>(offsets: ScalarBuffer<O>, limit: usize) -> Result<OffsetBuffer<O>> {
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else {
        return Err(Error::invalid_file("there are no offsets"));
    };
    // No branch, so that many are compared at once.
    let ascend = offsets.iter().zip(offsets.iter().skip(1)).fold(true, |ascend, (before, after)| ascend & (before <= after));
    if !ascend || *first < O::default() {
        return Err(Error::invalid_file("offsets are negative or descend"));
    }
    if last.to_usize().is_none_or(|last| last > limit) {
        return Err(Error::invalid_file(format!("offsets end at {last:?}, behind the {limit} values that there are")));
    }
    // SAFETY: there is at least one, the first is zero or more, and none is less than the one before.
    Ok(unsafe { OffsetBuffer::new_unchecked(offsets) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_checked() {
        let last = |offsets: OffsetBuffer<i32>| *offsets.last().unwrap();
        assert_eq!(last(checked_offsets(vec![0, 3, 3, 7].into(), 7).unwrap()), 7);
        assert_eq!(&checked_offsets(vec![2_i64, 3].into(), 7).unwrap()[..], [2, 3]);
        for (offsets, limit) in [(vec![], 9), (vec![-1, 3], 9), (vec![0, 4, 3], 9), (vec![0, 3, 10], 9), (vec![i32::MIN; 2], 9)] {
            assert!(checked_offsets(offsets.clone().into(), limit).is_err(), "{offsets:?}");
        }
    }

    #[test]
    fn offsets_that_descend_anywhere_are_found() {
        for length in [2, 3, 15, 16, 17, 100] {
            for place in 1..length {
                let mut offsets: Vec<i64> = (10..).take(length).collect();
                checked_offsets(offsets.clone().into(), 1000).unwrap();
                offsets[place] -= 2;
                assert!(checked_offsets(offsets.into(), 1000).is_err(), "{place} of {length}");
            }
        }
    }
}
