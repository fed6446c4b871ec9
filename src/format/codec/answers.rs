//! What has been found out for a pattern, kept as long as the values are.

use std::sync::{Arc, Mutex, PoisonError};

use crate::format::Result;
use crate::format::search::Pieces;

/// So many patterns are remembered: more than a query is likely to ask of a column.
const PATTERNS: usize = 16;

/// An answer for each of the patterns that were asked for last.
#[derive(Debug)]
pub(super) struct Answers<T>(Mutex<Vec<(Arc<str>, T)>>);

impl<T> Default for Answers<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Answers<T> {
    /// The answer for these pieces, which is found if it is not known.
    pub(super) fn get(&self, pieces: &Pieces, find: impl FnOnce() -> Result<T>) -> Result<T> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, answer)) = lock().iter().find(|(key, _)| key == pieces.key()) {
            return Ok(answer.clone());
        }
        let answer = find()?;
        let mut known = lock();
        known.truncate(PATTERNS - 1);
        known.insert(0, (Arc::clone(pieces.key()), answer.clone()));
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Error;

    #[test]
    fn what_was_asked_last_is_known() {
        let pieces: Vec<Pieces> = (0..20).map(|number| Pieces::of_like(&format!("%{number}%")).unwrap()).collect();
        let answers = Answers::default();
        let ask = |number: usize| {
            let mut is_new = false;
            let answer = answers.get(&pieces[number], || {
                is_new = true;
                Ok(number)
            });
            assert_eq!(answer.unwrap(), number);
            is_new
        };
        assert_eq!([0, 1, 0, 2, 3, 1].map(ask), [true, true, false, true, true, false]);
        assert!((4..PATTERNS).all(ask));
        // The first one goes.
        assert_eq!([PATTERNS, 1, 0].map(ask), [true, false, true]);
        assert!(answers.get(&pieces[19], || Err(Error::invalid_file("damaged"))).is_err());
        assert!(ask(19));
    }
}
