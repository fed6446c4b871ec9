//! [`LastCodes`]: codes that have been looked at, for whoever reads the values of the same rows next.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::Output;
use super::values::mixed_up;
use super::words::Word;
use crate::format::Result;

/// The codes of the range that was looked at last, which have been checked.
#[derive(Debug, Default)]
pub(super) struct LastCodes(Mutex<Option<(Range<usize>, Arc<Output>)>>);

impl LastCodes {
    /// Remembers the codes of a range instead of those of another.
    pub(super) fn set(&self, range: Range<usize>, codes: Output) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((range, Arc::new(codes)));
    }

    /// The codes of a range, if all of them are known; a part of it is not enough.
    pub(super) fn get(&self, range: &Range<usize>) -> Option<Known> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, codes) = last.as_ref().filter(|(known, _)| known.start <= range.start && range.end <= known.end)?;
        Some(Known { codes: Arc::clone(codes), range: range.start - known.start..range.end - known.start })
    }
}

/// Codes that are known, and where among them those are that were asked for.
pub(super) struct Known {
    codes: Arc<Output>,
    range: Range<usize>,
}

impl Known {
    pub(super) fn words<C: Word>(&self) -> Result<&[C]> {
        self.codes.words()?.get(self.range.clone()).ok_or_else(mixed_up)
    }
}

#[cfg(test)]
mod tests {
    use super::super::PType;
    use super::*;

    #[test]
    fn parts_of_the_last_range_are_known() {
        let last = LastCodes::default();
        let codes = |from: u16, count: usize| {
            let mut codes = Output::new(PType::U16, count);
            codes.grow::<u16>(count).unwrap().iter_mut().zip(from..).for_each(|(slot, code)| *slot = code);
            codes
        };
        let get = |range: Range<usize>| last.get(&range).map(|known| known.words::<u16>().unwrap().to_vec());
        assert_eq!(get(0..0), None);
        last.set(100..110, codes(7, 10));
        assert_eq!([get(100..110), get(103..105), get(110..110)], [Some((7..17).collect()), Some(vec![10, 11]), Some(vec![])]);
        assert_eq!([get(99..101), get(109..111), get(0..1000)], [None, None, None]);
        assert!(last.get(&(100..110)).unwrap().words::<u32>().is_err());
        last.set(5..6, codes(1, 1));
        assert_eq!([get(5..6), get(103..105)], [Some(vec![1]), None]);
    }
}
