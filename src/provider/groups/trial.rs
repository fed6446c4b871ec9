//! [`Trial`]: whether it is in vain to look up keys.

/// How many keys are looked up before as many more say whether that is in vain, the first time, and the most.
const FIRST: usize = 8192;
const LONGEST: usize = 16 * FIRST;

/// Where it is in vain, so many times as many rows are handed on before as many more are looked up: of 17 rows one, and so keys are found that come again after very many others.
const HANDED_ON_TIMES: usize = 16;

/// What is found of keys that are looked up.
#[derive(Clone)]
pub(super) struct Trial {
    /// So many are looked up first, of which most are new, and then as many that are judged by.
    length: usize,
    /// To look up more is in vain where a larger part of those was new.
    ratio: f64,
    /// How many of the first ones have been.
    first: usize,
    /// And of the others.
    judged: usize,
    were_new: usize,
    is_in_vain: bool,
    /// How many rows have been handed on since that was found.
    handed_on: usize,
}

impl Trial {
    /// The first one.
    pub(super) fn new(ratio: f64) -> Self {
        Self::of(FIRST, ratio)
    }

    pub(super) fn of(length: usize, ratio: f64) -> Self {
        Self { length, ratio, first: 0, judged: 0, were_new: 0, is_in_vain: false, handed_on: 0 }
    }

    /// Takes note of so many keys, of which some were new.
    #[expect(clippy::cast_precision_loss, reason = "a ratio need not be exact")]
    pub(super) fn note(&mut self, looked_up: usize, new: usize) {
        if self.first < self.length {
            self.first += looked_up;
            return;
        }
        self.judged += looked_up;
        self.were_new += new;
        if self.judged >= self.length {
            self.is_in_vain = self.were_new as f64 > self.ratio * self.judged as f64;
            (self.judged, self.were_new) = (0, 0);
        }
    }

    /// Whether most keys are new.
    pub(super) fn is_in_vain(&self) -> bool {
        self.is_in_vain
    }

    /// Whether so many rows more are handed on, which counts them. After many of them it is not in vain any more, and some are looked up again.
    pub(super) fn hand_on(&mut self, rows: usize) -> bool {
        if self.handed_on >= HANDED_ON_TIMES * self.length {
            (self.is_in_vain, self.handed_on) = (false, 0);
        }
        if self.is_in_vain {
            self.handed_on += rows;
        }
        self.is_in_vain
    }

    /// Begins another one, of no groups. Where it was in vain just now, the next one is longer: what is new to fewer groups need not be to more.
    pub(super) fn renew(&mut self) {
        let length = if self.is_in_vain { LONGEST.min(2 * self.length) } else { self.length };
        *self = Self::of(length, self.ratio);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_vain(length: usize) -> Trial {
        let mut trial = Trial::of(length, 0.8);
        trial.note(length, 0);
        trial.note(length, length);
        trial
    }

    #[test]
    fn it_is_judged_by_what_comes_after_the_first() {
        let mut trial = Trial::of(100, 0.8);
        trial.note(100, 100);
        assert!(!trial.is_in_vain());
        trial.note(100, 80);
        assert!(!trial.is_in_vain());
        trial.note(60, 60);
        assert!(!trial.is_in_vain(), "too early");
        trial.note(40, 21);
        assert!(trial.is_in_vain());
        // What is looked up though it is in vain may say otherwise.
        trial.note(100, 80);
        assert!(!trial.is_in_vain());
        assert!(in_vain(100).is_in_vain());
    }

    #[test]
    fn the_next_is_longer_after_one_that_was_in_vain() {
        let lengths = |mut trial: Trial| {
            let first = trial.length;
            trial.renew();
            assert!(!trial.is_in_vain());
            trial.note(trial.length, trial.length);
            trial.note(trial.length - 1, trial.length - 1);
            assert!(!trial.is_in_vain());
            (first, trial.length)
        };
        assert_eq!(lengths(in_vain(100)), (100, 200));
        assert_eq!(lengths(in_vain(LONGEST)), (LONGEST, LONGEST));
        assert_eq!(lengths(Trial::of(100, 0.8)), (100, 100));
    }

    #[test]
    fn rows_are_handed_on_until_there_have_been_many() {
        let mut trial = Trial::of(100, 0.8);
        assert!(!trial.hand_on(1600));
        assert!(!trial.hand_on(1));
        let mut trial = in_vain(100);
        assert!(trial.hand_on(1));
        assert!(trial.hand_on(1598));
        assert!(trial.hand_on(1));
        assert!(!trial.hand_on(1));
        // As many more are judged, and none before them.
        trial.note(99, 99);
        assert!(!trial.hand_on(1));
        trial.note(1, 1);
        assert!(trial.hand_on(1600) && !trial.hand_on(1));
        trial.note(100, 80);
        assert!(!trial.hand_on(1));
    }
}
