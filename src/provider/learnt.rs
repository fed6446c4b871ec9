//! In which order conjuncts are asked: first what drops most rows in the least time, which is learnt while scanning.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::selection::SPARSE;

/// What asking a conjunct has cost so far, reading its columns included, about how many rows it was asked, and how many it has dropped.
#[derive(Debug, Default)]
pub(super) struct Learnt {
    nanos: AtomicU64,
    asked: AtomicU64,
    dropped: AtomicU64,
}

impl Learnt {
    pub(super) fn add(&self, time: Duration, asked: usize, dropped: usize) {
        self.nanos.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.asked.fetch_add(asked as u64, Relaxed);
        self.dropped.fetch_add(dropped as u64, Relaxed);
    }

    /// Whether so many rows pass, as far as is known, that columns are read as a whole.
    pub(super) fn passes_many(&self) -> bool {
        let (asked, dropped) = (self.asked.load(Relaxed), self.dropped.load(Relaxed));
        asked.saturating_sub(dropped) > asked / SPARSE as u64
    }

    /// Whether dropping a row costs clearly less than it does the other, both of which have been asked. What was asked later has had fewer rows to drop for the same
    /// blocks, so it is not thought cheaper than it is.
    fn is_cheaper_than(&self, other: &Self) -> bool {
        let [(nanos, dropped), (other_nanos, other_dropped)] =
            [self, other].map(|learnt| (u128::from(learnt.nanos.load(Relaxed)), u128::from(learnt.dropped.load(Relaxed))));
        nanos > 0 && other_nanos > 0 && 5 * nanos * other_dropped < 4 * other_nanos * dropped
    }
}

/// How often in a row the times that are passed by become twice as many.
const PAUSE_DOUBLED: u32 = 3;

/// Whether it has paid to look rows of a morsel up in the table of a join, or for text in stored values of a batch: the next are likely to be like the last.
#[derive(Debug, Default)]
pub(super) struct Trials(Mutex<Tried>);

#[derive(Debug, Default)]
struct Tried {
    /// Of what the join said at that time.
    generation: u64,
    /// How often in a row it has not paid, and how often it is still to be passed by for that.
    failures: u32,
    pause: u32,
}

impl Trials {
    /// Whether to do without this time. What a join says, it says for the `generation`th time.
    pub(super) fn passes_by(&self, generation: u64) -> bool {
        let mut tried = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passes_by = tried.generation == generation && tried.pause > 0;
        tried.pause -= u32::from(passes_by);
        passes_by
    }

    /// Takes note of what a trial has shown.
    pub(super) fn note(&self, generation: u64, may_pay: bool) {
        let mut tried = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = if tried.generation == generation { tried.failures } else { 0 };
        let failures = if may_pay { 0 } else { PAUSE_DOUBLED.min(before + 1) };
        *tried = Tried { generation, failures, pause: if may_pay { 0 } else { 1 << failures } };
    }
}

/// Where in `left`, the conjuncts that have not been asked yet, the one is that is asked next. `must_wait` says of those that may not be asked before all that stand before them.
pub(super) fn next(left: &[usize], learnt: &[Learnt], must_wait: impl Fn(usize) -> bool) -> usize {
    let mut next = 0;
    for (at, conjunct) in left.iter().enumerate().skip(1).filter(|(_, conjunct)| !must_wait(**conjunct)) {
        if learnt[*conjunct].is_cheaper_than(&learnt[left[next]]) {
            next = at;
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_pay_is_tried_less_and_less_until_it_does_or_changes() {
        let trials = Trials::default();
        let passed_by = |generation| (0..20).take_while(|_| trials.passes_by(generation)).count();
        let after = |generation, pays| {
            trials.note(generation, pays);
            passed_by(generation)
        };
        assert_eq!(passed_by(1), 0);
        assert_eq!([false, false, false, false, true, false].map(|pays| after(1, pays)), [2, 4, 8, 8, 0, 2]);
        trials.note(1, false);
        assert_eq!((passed_by(2), after(2, false)), (0, 2));
    }

    fn learnt(costs: &[(u64, usize)]) -> Vec<Learnt> {
        let learnt: Vec<Learnt> = costs.iter().map(|_| Learnt::default()).collect();
        learnt
            .iter()
            .zip(costs)
            .filter(|(_, (nanos, _))| *nanos > 0)
            .for_each(|(learnt, (nanos, dropped))| learnt.add(Duration::from_nanos(*nanos), 1000, *dropped));
        learnt
    }

    fn order(costs: &[(u64, usize)], waits: usize) -> Vec<usize> {
        let (learnt, mut left) = (learnt(costs), (0..costs.len()).collect::<Vec<_>>());
        std::iter::from_fn(|| (!left.is_empty()).then(|| left.remove(next(&left, &learnt, |conjunct| conjunct == waits)))).collect()
    }

    #[test]
    fn what_drops_rows_for_less_is_asked_first() {
        assert_eq!(order(&[(100, 10), (100, 50), (100, 20)], 9), [1, 2, 0]);
        assert_eq!(order(&[(100, 0), (100, 1)], 9), [1, 0]);
        // A little less is no reason, nor is what is not known.
        assert_eq!(order(&[(100, 10), (90, 10), (0, 0)], 9), [0, 1, 2]);
        assert_eq!(order(&[(0, 0), (1, 1000)], 9), [0, 1]);
        assert_eq!(order(&[(100, 0), (100, 0)], 9), [0, 1]);
    }

    #[test]
    fn many_pass_if_it_is_more_than_one_in_three() {
        let many = |asked, dropped| {
            let learnt = Learnt::default();
            learnt.add(Duration::from_nanos(1), asked, dropped);
            learnt.passes_many()
        };
        assert_eq!([many(0, 0), many(1000, 1000), many(999, 666), many(999, 665), many(1000, 0)], [false, false, false, true, true]);
    }

    #[test]
    fn what_may_fail_waits_for_what_stands_before_it() {
        assert_eq!(order(&[(100, 10), (100, 1000), (100, 20)], 1), [2, 0, 1]);
        assert_eq!(order(&[(100, 10), (100, 1000), (100, 20)], 9), [1, 2, 0]);
    }
}
