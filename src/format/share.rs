//! [`Share`]: what is left of a file that several scans read side by side.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Rows of one stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The index of the stripe.
    pub stripe: usize,
    /// The rows, counted from the first one of the stripe.
    pub rows: Range<usize>,
    /// The first row of the stripe, counted from the first one of the file.
    pub stripe_start: u64,
}

/// What one of several scans of a file has to read: its own parts in their order, and then what others have not come to, from their ends.
///
/// Each part is read by one of them, and whatever they find in theirs, none is done as long as others that have begun have parts left.
#[derive(Debug, Clone)]
pub struct Share {
    /// What is left of each scan's own.
    left: Arc<Mutex<Vec<VecDeque<Part>>>>,
    own: usize,
}

impl Share {
    /// The shares of so many scans.
    #[must_use]
    pub fn of_scans(scans: usize) -> Vec<Self> {
        let left = Arc::new(Mutex::new(vec![VecDeque::new(); scans]));
        (0..scans).map(|own| Self { left: Arc::clone(&left), own }).collect()
    }

    /// Of a scan that shares with no other.
    pub(crate) fn alone() -> Self {
        Self { left: Arc::new(Mutex::new(vec![VecDeque::new()])), own: 0 }
    }

    /// Adds to the scan's own parts.
    pub(crate) fn add(&self, parts: impl IntoIterator<Item = Part>) {
        self.left()[self.own].extend(parts);
    }

    /// What the scan reads next.
    pub(crate) fn take(&self) -> Option<Part> {
        let mut left = self.left();
        let own = left[self.own].pop_front();
        own.or_else(|| left.iter_mut().max_by_key(|parts| parts.len())?.pop_back())
    }

    /// Whether nothing is left, of no scan.
    pub(crate) fn is_empty(&self) -> bool {
        self.left().iter().all(VecDeque::is_empty)
    }

    fn left(&self) -> MutexGuard<'_, Vec<VecDeque<Part>>> {
        // Nobody panics between two changes that belong together.
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(stripe: usize) -> Part {
        Part { stripe, rows: 0..10, stripe_start: 10 * stripe as u64 }
    }

    fn taken(share: &Share) -> Option<usize> {
        share.take().map(|part| part.stripe)
    }

    #[test]
    fn a_scan_that_is_done_goes_on_with_the_last_parts_of_others() {
        let shares = Share::of_scans(3);
        shares[0].add([part(0)]);
        shares[1].add((1..4).map(part));
        shares[2].add((4..9).map(part));
        assert_eq!((0..9).map(|_| taken(&shares[0])).collect::<Option<Vec<_>>>(), Some(vec![0, 8, 7, 6, 3, 5, 2, 4, 1]));
        assert_eq!(taken(&shares[0]), None);
        assert!(shares[1].is_empty() && taken(&shares[1]).is_none());
    }

    #[test]
    fn each_part_is_taken_once() {
        let shares = Share::of_scans(2);
        shares[0].add((0..3).map(part));
        shares[1].add((3..6).map(part));
        assert_eq!([1, 0, 1, 1, 1].map(|scan: usize| taken(&shares[scan])), [3, 0, 4, 5, 2].map(Some));
        assert!(!shares[1].is_empty());
        assert_eq!([0, 0].map(|scan: usize| taken(&shares[scan])), [Some(1), None]);
        assert!(shares[1].is_empty());
    }
}
