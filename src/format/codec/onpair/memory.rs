//! What pages of a stream know from those before them.

use std::sync::Arc;

use super::tokens::{Text, Tokens, Written};
use crate::format::Result;
use crate::format::codec::sample::real;

/// Tokens of an earlier page that need so much more for this page than for the one that they were learnt from are forgotten.
const WORSE: f64 = 1.1;

/// Tokens of smaller pages are not remembered: of ten thousand columns they would take more memory than the pages.
const REMEMBER_MIN: usize = 128 << 10;

/// How often the pages that are passed by become twice as many.
const PAUSE_DOUBLED: u32 = 3;

/// What was learnt from the pages before, for those behind them are often like them.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    learnt: Option<Arc<Learnt>>,
    /// Pages in a row that were smaller without tokens, and how many are left to be passed by for that: to learn tokens takes longer than all else.
    failures: u32,
    pause: u32,
    /// Bytes of the last of them. What does not pay in a small page, which has to name its tokens, too, may pay in a large one.
    failed: usize,
}

#[derive(Debug)]
struct Learnt {
    tokens: Tokens,
    /// What codes took of the page that they were learnt from.
    rate: f64,
}

impl Memory {
    /// Whether no page lies between the two from which anything was learnt.
    pub fn is_same(&self, other: &Self) -> bool {
        let tokens = |memory: &Self| memory.learnt.as_ref().map(Arc::as_ptr);
        (tokens(self), self.failures, self.pause) == (tokens(other), other.failures, other.pause)
    }

    /// Whether a page of so many bytes is not to be tried.
    pub(super) fn passes_by(&mut self, bytes: usize) -> bool {
        let passes_by = self.pause > 0 && bytes <= self.failed.saturating_mul(2);
        self.pause -= u32::from(passes_by);
        passes_by
    }

    /// Whether tokens have made a page of so many bytes smaller.
    pub(super) fn note(&mut self, has_paid: bool, bytes: usize) {
        (self.failures, self.pause, self.failed) = match has_paid {
            true => (0, 0, 0),
            false => (PAUSE_DOUBLED.min(self.failures + 1), 1 << self.failures, bytes),
        };
    }

    /// Writes a page, in the tokens of an earlier one if they suit it.
    pub(super) fn write(&mut self, text: &Text) -> Result<Written> {
        if let Some(learnt) = &self.learnt {
            let written = learnt.tokens.write(text);
            if rate_of(&written, text) <= learnt.rate * WORSE {
                return Ok(written);
            }
        }
        let tokens = Tokens::learn(text)?;
        let written = tokens.write(text);
        if text.raw() >= REMEMBER_MIN {
            self.learnt = Some(Arc::new(Learnt { rate: rate_of(&written, text), tokens }));
        }
        Ok(written)
    }
}

/// Bytes of codes for each byte of the text. Tokens are not counted: they would weigh more the smaller a page is, however well they suit it.
fn rate_of(written: &Written, text: &Text) -> f64 {
    codes_size(written.codes.len(), written.token_lengths.len()) / real(text.raw().max(1))
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
        let mut random = StdRng::seed_from_u64(first);
        let mut word = || format!("word{:03}", first + random.random_range(0..40_u64));
        let values: Vec<String> = (0..bytes / 24).map(|_| [word(), word(), word()].join(" ")).collect();
        Text::of(&BinaryViewArray::from_iter_values(values), |_| false).unwrap()
    }

    #[test]
    fn tokens_are_learnt_anew_only_when_the_text_changes() {
        let mut memory = Memory::default();
        memory.write(&sentences(100, 1000)).unwrap();
        assert!(memory.learnt.is_none());
        memory.write(&sentences(100, 200_000)).unwrap();
        let first = memory.clone();
        assert!(first.learnt.is_some());
        // A small page of the same text, and a large one; a small page of another text, of which nothing is remembered.
        for text in [sentences(100, 500), sentences(100, 400_000), sentences(100, 0), sentences(700, 3000)] {
            memory.write(&text).unwrap();
            assert!(memory.is_same(&first));
        }
        memory.write(&sentences(700, 200_000)).unwrap();
        assert!(!memory.is_same(&first));
    }

    #[test]
    fn pages_like_one_that_tokens_made_larger_are_passed_by_for_a_while() {
        let mut memory = Memory::default();
        let mut passed_by = Vec::new();
        for _ in 0..5 {
            memory.note(false, 1000);
            assert!(!memory.clone().passes_by(2001) && memory.clone().passes_by(2000));
            passed_by.push((0..).take_while(|_| memory.passes_by(500)).count());
        }
        assert_eq!(passed_by, [1, 2, 4, 8, 8]);
        let before = memory.clone();
        memory.note(true, 1000);
        assert!(!memory.is_same(&before) && !memory.passes_by(0));
        memory.note(false, 1000);
        assert!(memory.passes_by(1000) && !memory.passes_by(1000));
    }
}
