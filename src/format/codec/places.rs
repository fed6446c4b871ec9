//! Where in a page something holds.

use std::ops::Range;

/// Places that are found together.
const TOGETHER: usize = 256;

/// Calls back with the places of a range where something holds, in order, some at a time. There is no branch on whether it does: where that changes often, one would be foreseen wrongly as often.
pub(super) fn each_place(range: Range<usize>, holds: impl Fn(usize) -> bool, mut found: impl FnMut(&[usize])) {
    let mut places = [0; TOGETHER];
    for start in range.clone().step_by(TOGETHER) {
        let mut count = 0;
        for place in start..range.end.min(start + TOGETHER) {
            places[count] = place;
            count += usize::from(holds(place));
        }
        found(&places[..count]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::mix;
    use super::*;

    #[test]
    fn places_are_those_that_a_filter_leaves() {
        // Of all places, of one in so many as if by chance, and of none.
        for (range, part) in
            [(0..0, 1), (5..5, 1), (0..1, 1), (3..1000, 1), (3..1000, 2), (0..256, 3), (1..257, 50), (10..2000, 7), (10..3000, 200), (3..1000, 0)]
        {
            let holds = |place: usize| part > 0 && mix(place as u64).is_multiple_of(part);
            let mut places = Vec::new();
            each_place(range.clone(), holds, |found| places.extend_from_slice(found));
            assert_eq!(places, range.clone().filter(|place| holds(*place)).collect::<Vec<_>>(), "{range:?}, {part}");
            assert!(places.is_empty() == (range.is_empty() || part == 0), "{range:?}, {part}");
        }
    }
}
