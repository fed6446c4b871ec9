//! Which rows of the file a batch is, for `file_row_index()`; and rows that are known by their numbers.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};

use crate::format::rows::Rows;

/// Of a file of a scan, that these rows are read and no others, by their numbers in it.
#[derive(Debug, Clone)]
pub(super) struct WantedRows(pub(super) Vec<Range<u64>>);

/// The numbers in the file of rows that are counted from its row number `first` on.
pub(super) fn numbers(first: u64, rows: &Rows) -> ArrayRef {
    let of_range = |range: &Range<usize>| (first + range.start as u64..first + range.end as u64).map(u64::cast_signed);
    Arc::new(Int64Array::from_iter_values(rows.ranges().iter().flat_map(of_range)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_from_the_first_of_their_stripe() {
        let numbers = numbers(100, &Rows::new(vec![3..5, 9..10]));
        assert_eq!(numbers.as_ref(), &Int64Array::from(vec![103, 104, 109]));
    }
}
