//! Which rows of which stripes belong to a range of the file's bytes.

use std::ops::Range;

use super::meta::FileMeta;
use crate::format::fermion::stripes::Stripe;
use crate::format::share::Part;

/// A stripe is cut at multiples of so many rows, so that blocks of encodings stay whole and few batches are short.
const CUT_ROWS: u64 = 8 << 10;

impl FileMeta {
    /// The rows that belong to a range of the file, or to all of it. Each row belongs to exactly one of several ranges that make up the file; a stripe that lies
    /// in two of them is cut in about the same proportion as its bytes.
    pub fn parts(&self, range: Option<&Range<u64>>) -> Vec<Part> {
        let mut stripe_start = 0;
        let mut parts = Vec::new();
        for (index, stripe) in self.stripes().iter().enumerate() {
            let rows = range.map_or(0..stripe.rows as usize, |range| first_row(stripe, range.start)..first_row(stripe, range.end));
            if !rows.is_empty() {
                parts.push(Part { stripe: index, rows, stripe_start });
            }
            stripe_start += u64::from(stripe.rows);
        }
        parts
    }
}

/// The first row of a stripe that belongs to what follows `offset`.
fn first_row(stripe: &Stripe, offset: u64) -> usize {
    if offset <= stripe.offset {
        return 0;
    }
    if offset >= stripe.end() {
        return stripe.rows as usize;
    }
    let row = u128::from(stripe.rows) * u128::from(offset - stripe.offset) / u128::from(stripe.length);
    let row = u64::try_from(row).unwrap_or(u64::MAX);
    usize::try_from(row - row % CUT_ROWS).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripe_is_cut_where_its_bytes_are() {
        let stripe = Stripe { offset: 1000, length: 100, rows: 100_000 };
        let cuts = [0, 1000, 1001, 1009, 1050, 1099, 1100, u64::MAX].map(|offset| first_row(&stripe, offset));
        assert_eq!(cuts, [0, 0, 0, 8192, 49_152, 98_304, 100_000, 100_000]);
        let small = Stripe { rows: 100, ..stripe };
        assert_eq!([1000, 1099, 1100].map(|offset| first_row(&small, offset)), [0, 0, 100]);
    }

    #[test]
    fn a_stripe_without_bytes_belongs_to_the_range_that_it_starts_in() {
        let stripe = Stripe { offset: 1000, length: 0, rows: 9 };
        assert_eq!([999, 1000, 1001].map(|offset| first_row(&stripe, offset)), [0, 0, 9]);
    }

    #[test]
    fn a_stripe_of_more_rows_than_bytes_does_not_overflow() {
        let stripe = Stripe { offset: 8, length: u64::MAX - 8, rows: u32::MAX };
        let cut = (u32::MAX - 8191) as usize;
        assert_eq!([u64::MAX - 1, u64::MAX].map(|offset| first_row(&stripe, offset)), [cut, u32::MAX as usize]);
    }
}
