//! The tokens that pages of a stream know from those before them.

use std::sync::Arc;

use super::tokens::{Text, Tokens, Written};
use crate::format::Result;
use crate::format::codec::sample::real;

/// Tokens of an earlier page that need so much more for this page than for the one that they were learnt from are forgotten.
const WORSE: f64 = 1.08;

/// Bytes of a page by which it is judged whether tokens of an earlier one suit it. To write all of it in tokens that do not takes as long as in those that do.
const JUDGED_BYTES: usize = 32 << 10;

/// Tokens of smaller pages are not remembered: of ten thousand columns they would take more memory than the pages.
const REMEMBER_MIN: usize = 128 << 10;

/// How often the pages that are passed by become twice as many.
const PAUSE_DOUBLED: u32 = 3;

/// Tokens of the pages before, which often suit those behind them.
#[derive(Debug, Clone, Default)]
pub(in crate::format::codec) struct Memory {
    learnt: Option<Arc<Learnt>>,
    tries: [Tries; 2],
}

#[derive(Debug)]
struct Learnt {
    tokens: Tokens,
    /// Codes for each byte of the page that they were learnt from.
    rate: f64,
}

/// Of which values it is remembered whether tokens make them smaller.
#[derive(Debug, Clone, Copy)]
pub(in crate::format::codec) enum Whose {
    /// All of a page.
    Page,
    /// Those that another encoding leaves of a page.
    Rest,
}

/// How tokens have done. To learn them takes longer than all else that is done with a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Tries {
    /// Times in a row that tokens were not worth it.
    failures: u32,
    /// How many times they are not tried for that.
    pause: u32,
    /// Bytes of the text at the last failure. What does not pay in a small page, which has to name its tokens, too, may pay in a large one.
    failed: usize,
    /// They were tried for this page.
    now: bool,
}

impl Memory {
    /// What pages that all knew the same know together. A failure counts only where tokens paid for no page: what is worth it for one is not given up for another. Pages for which
    /// they were not tried do not count beside others.
    #[must_use]
    pub(in crate::format::codec) fn join(&self, pages: &[Self]) -> Self {
        let tries = |whose: usize| {
            let all = || pages.iter().map(|page| page.tries[whose]);
            let tries = all().filter(|tries| tries.now).min().or_else(|| all().min());
            Tries { now: false, ..tries.unwrap_or(self.tries[whose]) }
        };
        let pointer = |memory: &Self| memory.learnt.as_ref().map(Arc::as_ptr);
        let learnt = pages.iter().find(|page| page.learnt.is_some() && pointer(page) != pointer(self));
        let is_forgotten = !pages.is_empty() && pages.iter().all(|page| page.learnt.is_none());
        let learnt = learnt.map_or(if is_forgotten { &None } else { &self.learnt }, |page| &page.learnt);
        Self { learnt: learnt.clone(), tries: [tries(0), tries(1)] }
    }

    /// Bytes in memory.
    pub(in crate::format::codec) fn memory_size(&self) -> usize {
        self.learnt.as_ref().map_or(0, |learnt| learnt.tokens.memory_size())
    }

    /// Whether text of so many bytes is not to be tried.
    pub(super) fn passes_by(&mut self, whose: Whose, bytes: usize) -> bool {
        let tries = &mut self.tries[whose as usize];
        let passes_by = tries.pause > 0 && bytes <= tries.failed.saturating_mul(2);
        tries.pause -= u32::from(passes_by);
        passes_by
    }

    /// Takes note whether tokens have made text of so many bytes smaller. If they have not, others may.
    pub(super) fn note(&mut self, whose: Whose, has_paid: bool, bytes: usize) {
        let tries = &mut self.tries[whose as usize];
        *tries = match has_paid {
            true => Tries { now: true, ..Tries::default() },
            false => Tries { failures: PAUSE_DOUBLED.min(tries.failures + 1), pause: 1 << tries.failures, failed: bytes, now: true },
        };
        if !has_paid && bytes >= REMEMBER_MIN {
            self.learnt = None;
        }
    }

    /// Writes a page, in the tokens of an earlier one if they suit it.
    pub(super) fn write(&mut self, text: &Text) -> Result<Written> {
        if let Some(learnt) = &self.learnt {
            let part = text.part(JUDGED_BYTES);
            if rate_of(&learnt.tokens.write(&part), &part) <= learnt.rate * WORSE {
                return Ok(learnt.tokens.write(text));
            }
        }
        let tokens = Tokens::learn(text);
        let written = tokens.write(text);
        if text.raw() >= REMEMBER_MIN {
            self.learnt = Some(Arc::new(Learnt { rate: rate_of(&written, text), tokens }));
        }
        Ok(written)
    }
}

/// Codes for each byte of the text. Tokens are not counted: they would weigh more the smaller a page is, however well they suit it.
fn rate_of(written: &Written, text: &Text) -> f64 {
    real(written.codes.len()) / real(text.raw().max(1))
}

/// Bytes of codes and tokens, before ZSTD.
pub(super) fn written_size(codes: usize, tokens: usize, token_bytes: usize) -> f64 {
    codes_size(codes, tokens) + real(token_bytes)
}

fn codes_size(codes: usize, tokens: usize) -> f64 {
    real(codes) * f64::from(tokens.next_power_of_two().trailing_zeros()) / 8.0
}

#[cfg(test)]
mod tests {
    use arrow::array::BinaryViewArray;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// About so many bytes of sentences of words that are numbered from `first` on.
    fn sentences(first: u64, bytes: usize) -> Text {
        text_of(&values(first, bytes))
    }

    fn text_of(values: &[String]) -> Text {
        Text::of(&BinaryViewArray::from_iter_values(values), |_| false).unwrap()
    }

    fn values(first: u64, bytes: usize) -> Vec<String> {
        let mut random = StdRng::seed_from_u64(first);
        let mut word = || format!("word{:03}", first + random.random_range(0..40_u64));
        (0..bytes / 24).map(|_| [word(), word(), word()].join(" ")).collect()
    }

    fn is_same(one: &Memory, other: &Memory) -> bool {
        one.learnt.as_ref().map(Arc::as_ptr) == other.learnt.as_ref().map(Arc::as_ptr)
    }

    #[test]
    fn tokens_are_learnt_anew_only_when_the_text_changes() {
        let mut memory = Memory::default();
        memory.write(&sentences(100, 1000)).unwrap();
        assert!(memory.learnt.is_none() && memory.memory_size() == 0);
        memory.write(&sentences(100, 200_000)).unwrap();
        let first = memory.clone();
        assert!(first.learnt.is_some() && first.memory_size() > 1000);
        // A small page of the same text, and a large one; a small page of another text, of which nothing is remembered.
        for text in [sentences(100, 500), sentences(100, 400_000), sentences(100, 0), sentences(700, 3000)] {
            memory.write(&text).unwrap();
            assert!(is_same(&memory, &first));
        }
        memory.write(&sentences(700, 200_000)).unwrap();
        assert!(memory.learnt.is_some() && !is_same(&memory, &first));
    }

    #[test]
    fn a_page_that_is_only_in_part_like_the_one_before_is_learnt_from() {
        let mut memory = Memory::default();
        memory.write(&sentences(100, 200_000)).unwrap();
        let first = memory.clone();
        // The part that is judged is of values from all over the page.
        let page = |others: usize| text_of(&[values(100, 400_000 - others), values(700, others)].concat());
        memory.write(&page(4_000)).unwrap();
        assert!(is_same(&memory, &first));
        memory.write(&page(200_000)).unwrap();
        assert!(!is_same(&memory, &first));
    }

    #[test]
    fn pages_like_one_that_tokens_made_larger_are_passed_by_for_a_while() {
        let mut memory = Memory::default();
        let mut passed_by = Vec::new();
        for _ in 0..5 {
            memory.note(Whose::Page, false, 1000);
            assert!(!memory.clone().passes_by(Whose::Page, 2001) && memory.clone().passes_by(Whose::Page, 2000));
            assert!(!memory.passes_by(Whose::Rest, 1000));
            passed_by.push((0..).take_while(|_| memory.passes_by(Whose::Page, 500)).count());
        }
        assert_eq!(passed_by, [1, 2, 4, 8, 8]);
        memory.note(Whose::Rest, false, 1000);
        memory.note(Whose::Page, true, 1000);
        assert!(!memory.passes_by(Whose::Page, 0) && memory.passes_by(Whose::Rest, 1000));
    }

    #[test]
    fn pages_side_by_side_are_forgiven_one_failure_but_not_all() {
        let mut before = Memory::default();
        before.write(&sentences(100, 200_000)).unwrap();
        let failed = |memory: &Memory| {
            let mut memory = memory.clone();
            memory.note(Whose::Page, false, REMEMBER_MIN);
            memory
        };
        let mut paid = before.clone();
        paid.note(Whose::Page, true, 1000);
        let mut anew = before.clone();
        anew.write(&sentences(700, 200_000)).unwrap();
        let joined = before.join(&[failed(&before), paid.clone(), paid]);
        assert!(is_same(&joined, &before) && joined.tries == before.tries);
        assert!(is_same(&before.join(&[failed(&before), anew.clone(), before.clone()]), &anew));
        // One for which they were not tried says nothing.
        assert!(before.join(&[failed(&before), before.clone()]).passes_by(Whose::Page, 1));
        let joined = before.join(&[failed(&before), failed(&before)]);
        assert!(joined.learnt.is_none() && joined.clone().passes_by(Whose::Page, 1));
        let joined = before.join(&[]);
        assert!(is_same(&joined, &before) && joined.tries == before.tries);
    }
}
