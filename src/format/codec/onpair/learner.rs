//! Which pieces a text is made of, found in one pass (Gargiulo and Venturini, arXiv:2508.02280, section 3): two that stand side by side often enough are one from then on.
//!
//! How often that is changes on the way, so that pieces are found all over the text and not only where it begins. A lesson is some hundred thousand bytes, and nearly all time is spent
//! on branches that are foreseen wrongly: what says that there is no use in looking, or does without a branch, is worth its memory.

use std::hint::select_unpredictable;

use super::tokens::{END, TOKEN_MAX};

/// Codes below are those of single bytes.
pub(super) const BYTES: u16 = 256;
/// The most codes. A page names its own tokens, so twice as many would not pay in one of the usual size.
const CODES_MAX: usize = 1 << CODE_BITS;
const CODE_BITS: u32 = 11;

/// Parts of a lesson after each of which it is looked at how many pieces it gave.
const PARTS: usize = 32;
/// How many times as many as they should be, or as few, are far too many, and far too few.
const TOO_MANY: usize = 2;
const TOO_FEW: usize = 4;

/// Strings to learn from, one behind the other, each with an [`END`].
#[derive(Debug, Default)]
pub(super) struct Lesson {
    bytes: Vec<u8>,
}

impl Lesson {
    pub(super) fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.bytes.push(END);
    }

    /// The pieces of two bytes and more, no two of them equal.
    pub(super) fn pieces(mut self) -> Vec<Piece> {
        let length = self.bytes.len();
        // The last piece is looked for in as many bytes as others.
        self.bytes.resize(length + TOKEN_MAX, END);
        let mut learner = Learner { pieces: Pieces::new(), pairs: Pairs::new(), often: OFTEN_MIN, before: None };
        let mut at = 0;
        for part in 1..=PARTS {
            let known = learner.pieces.all.len();
            at = learner.read(&self.bytes, at, length * part / PARTS);
            let found = learner.pieces.all.len();
            learner.keep_pace(found - known, (PIECES_MAX - found) / (PARTS - part + 1));
        }
        learner.pieces.all
    }
}

/// Some bytes, the first of them the lowest, and zeros above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    bytes: u128,
    length: usize,
}

impl Piece {
    /// The first bytes of `window`, one or more.
    fn of(window: u128, length: usize) -> Self {
        Self { bytes: window & u128::MAX >> (8 * (TOKEN_MAX - length)), length }
    }

    pub(super) fn to_vec(self) -> Vec<u8> {
        self.bytes.to_le_bytes().into_iter().take(self.length).collect()
    }

    #[expect(clippy::cast_possible_truncation, reason = "takes both halves")]
    fn hash(self) -> u64 {
        let (low, high) = (self.bytes as u64, (self.bytes >> 64) as u64);
        let mixed = (low ^ high.rotate_left(29) ^ self.length as u64).wrapping_mul(SPREAD);
        mixed ^ mixed >> 32
    }
}

/// Bits of a number times this are spread upwards.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

struct Learner {
    pieces: Pieces,
    pairs: Pairs,
    /// How often a pair has to have been seen to be a piece.
    often: u32,
    /// The code before this place of the text, if it is of the same value, and how many bytes it stands for.
    before: Option<(u16, usize)>,
}

impl Learner {
    /// Goes over the text from `at` up to `end` or the first code behind it, and gives the place; or as long as there is room for pieces.
    fn read(&mut self, text: &[u8], mut at: usize, end: usize) -> usize {
        while at < end && self.pieces.all.len() < PIECES_MAX {
            let Some(window) = window(text, at) else { break };
            if first_byte(window) == END {
                self.before = None;
                at += 1;
                continue;
            }
            let (code, length) = self.pieces.longest(window);
            at += length;
            let pair = self.before.filter(|(_, before)| before + length <= TOKEN_MAX);
            self.before = Some((code, length));
            let Some((before, before_length)) = pair else { continue };
            if self.pairs.count(before, code) < self.often {
                continue;
            }
            self.pairs.forget(before, code);
            let length = before_length + length;
            // The text was in view from there on when the code before was found.
            self.before = self::window(text, at - length).and_then(|window| self.pieces.add(Piece::of(window, length))).map(|code| (code, length));
        }
        at
    }

    /// Asks for more of a pair where a part of the text gave far more pieces than it should, and for less where it gave far fewer.
    fn keep_pace(&mut self, found: usize, wanted: usize) {
        if found > TOO_MANY * wanted {
            self.often = (self.often + 1).min(COUNT_MAX);
        } else if found * TOO_FEW < wanted {
            self.often = (self.often - 1).max(OFTEN_MIN);
        }
    }
}

/// The bytes of the longest piece that there may be at a place.
fn window(text: &[u8], at: usize) -> Option<u128> {
    text.get(at..)?.first_chunk().map(|window| u128::from_le_bytes(*window))
}

#[expect(clippy::cast_possible_truncation, reason = "the lowest")]
fn first_byte(window: u128) -> u8 {
    window as u8
}

const PIECES_MAX: usize = CODES_MAX - BYTES as usize;
/// Slots of the table of pieces, a quarter of which are taken at most.
const SLOTS: usize = CODES_MAX * 4;
const FREE: u16 = u16::MAX;
/// Bits of the hashes of how pieces begin.
const START_BITS: u32 = 14;

/// The pieces so far.
struct Pieces {
    all: Vec<Piece>,
    /// Open addressing with linear probing: the number of a piece.
    slots: Vec<u16>,
    /// By two bytes: the code of the piece that they are, or of the first of them; and whether any piece of three begins so.
    short: Vec<(u16, bool)>,
    /// By a hash of the first four bytes, and of the first eight: a bit for each length of pieces that begin so, and are that long or longer.
    middle: Vec<u32>,
    long: Vec<u32>,
}

impl Pieces {
    fn new() -> Self {
        Self {
            all: Vec::with_capacity(PIECES_MAX),
            slots: vec![FREE; SLOTS],
            short: (0..=u16::MAX).map(|pair| (pair % BYTES, false)).collect(),
            middle: vec![0; 1 << START_BITS],
            long: vec![0; 1 << START_BITS],
        }
    }

    /// The code of the longest piece, or else of the byte, that is at the beginning of `window`, and how many bytes it stands for.
    #[inline]
    fn longest(&self, window: u128) -> (u16, usize) {
        let mut lengths = self.middle[start_of_four(window)] | self.long[start_of_eight(window)];
        while let Some(length) = lengths.checked_ilog2() {
            let piece = Piece::of(window, length as usize);
            if let Ok(number) = self.find(piece) {
                return (BYTES + number, piece.length);
            }
            lengths ^= 1 << length;
        }
        let (code, has_three) = self.short[start_of_two(window)];
        match has_three.then(|| self.find(Piece::of(window, 3))) {
            Some(Ok(number)) => (BYTES + number, 3),
            _ => (code, if code < BYTES { 1 } else { 2 }),
        }
    }

    /// The number of a piece, or the slot for it.
    fn find(&self, piece: Piece) -> Result<u16, usize> {
        let mut slot = usize::try_from(piece.hash() % SLOTS as u64).unwrap_or(0);
        loop {
            match self.slots[slot] {
                FREE => return Err(slot),
                number if self.all.get(usize::from(number)) == Some(&piece) => return Ok(number),
                _ => slot = (slot + 1) % SLOTS,
            }
        }
    }

    /// Takes a piece in that there is room for, and gives its code.
    fn add(&mut self, piece: Piece) -> Option<u16> {
        let code = BYTES + u16::try_from(self.all.len()).ok()?;
        match self.find(piece) {
            Ok(number) => return Some(BYTES + number),
            Err(slot) => self.slots[slot] = code - BYTES,
        }
        match piece.length {
            2 => self.short[start_of_two(piece.bytes)].0 = code,
            3 => self.short[start_of_two(piece.bytes)].1 = true,
            4..8 => self.middle[start_of_four(piece.bytes)] |= 1 << piece.length,
            _ => self.long[start_of_eight(piece.bytes)] |= 1 << piece.length,
        }
        self.all.push(piece);
        Some(code)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lowest two bytes")]
fn start_of_two(window: u128) -> usize {
    usize::from(window as u16)
}

fn start_of_four(window: u128) -> usize {
    upper_bits(u64::try_from(window & 0xFFFF_FFFF).unwrap_or(0))
}

fn start_of_eight(window: u128) -> usize {
    upper_bits(u64::try_from(window & 0xFFFF_FFFF_FFFF_FFFF).unwrap_or(0))
}

fn upper_bits(start: u64) -> usize {
    usize::try_from(start.wrapping_mul(SPREAD) >> (64 - START_BITS)).unwrap_or(0)
}

/// The least and the most that a pair has to have been seen.
const OFTEN_MIN: u32 = 2;
const COUNT_MAX: u32 = (1 << COUNT_BITS) - 1;
const COUNT_BITS: u32 = 8;
const PAIR_BITS: u32 = 16;

/// How often codes have stood side by side. Of pairs that have the same slot, one takes it when the other has not come in for long.
struct Pairs {
    /// Both codes, and above 0 how often.
    slots: Vec<u32>,
}

impl Pairs {
    fn new() -> Self {
        Self { slots: vec![0; 1 << PAIR_BITS] }
    }

    /// How often there has been this pair, now included. Nobody counts one further than [`COUNT_MAX`]: it is a piece by then, and forgotten.
    #[inline]
    fn count(&mut self, one: u16, other: u16) -> u32 {
        let (pair, slot) = self.slot(one, other);
        let (is_same, count) = (*slot >> COUNT_BITS == pair, *slot & COUNT_MAX);
        let taken = select_unpredictable(count > 1, slot.wrapping_sub(1), pair << COUNT_BITS | 1);
        *slot = select_unpredictable(is_same, slot.wrapping_add(1), taken);
        select_unpredictable(is_same, count + 1, 1)
    }

    fn forget(&mut self, one: u16, other: u16) {
        *self.slot(one, other).1 = 0;
    }

    fn slot(&mut self, one: u16, other: u16) -> (u32, &mut u32) {
        let pair = u32::from(one) << CODE_BITS | u32::from(other);
        let slot = usize::try_from(u64::from(pair).wrapping_mul(SPREAD) >> (64 - PAIR_BITS)).unwrap_or(0);
        (pair, &mut self.slots[slot])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use onpair::{Config, DEFAULT_CONFIG, MaxDictBits, Parser, Threshold};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// The slow twin: every piece is tried at every place, and every pair is counted.
    fn pieces_slowly(values: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let text: Vec<u8> = values.iter().flat_map(|value| [value, &[END][..]].concat()).collect();
        let (mut pieces, mut pairs, mut often) = (Vec::<Vec<u8>>::new(), HashMap::<_, u32>::new(), OFTEN_MIN);
        let (mut at, mut before) = (0, Vec::new());
        for part in 1..=PARTS {
            let known = pieces.len();
            while at < text.len() * part / PARTS && pieces.len() < PIECES_MAX {
                if text[at] == END {
                    before = Vec::new();
                    at += 1;
                    continue;
                }
                let longest = pieces.iter().filter(|piece| text[at..].starts_with(piece)).max_by_key(|piece| piece.len());
                let piece = longest.cloned().unwrap_or_else(|| vec![text[at]]);
                at += piece.len();
                let pair = (std::mem::replace(&mut before, piece.clone()), piece);
                let joined = [&pair.0[..], &pair.1].concat();
                if pair.0.is_empty() || joined.len() > TOKEN_MAX {
                    continue;
                }
                let count = pairs.entry(pair.clone()).or_default();
                *count += 1;
                if *count >= often {
                    pairs.remove(&pair);
                    pieces.push(joined.clone());
                    before = joined;
                }
            }
            let (found, wanted) = (pieces.len() - known, (PIECES_MAX - pieces.len()) / (PARTS - part + 1));
            often = if found > 2 * wanted {
                often + 1
            } else if found * 4 < wanted {
                OFTEN_MIN.max(often - 1)
            } else {
                often
            };
        }
        pieces
    }

    fn pieces(values: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut lesson = Lesson::default();
        values.iter().for_each(|value| lesson.push(value));
        lesson.pieces().into_iter().map(Piece::to_vec).collect()
    }

    #[test]
    fn pieces_are_those_that_are_found_slowly() {
        let mut random = StdRng::seed_from_u64(7);
        for round in 0..120 {
            let (count, longest) = ([0, 1, 3, 40, 400][round % 5], [0, 1, 16, 17, 50][round % 4]);
            let alphabet = [1, 2, 4, 255][round % 3];
            let values: Vec<Vec<u8>> =
                (0..count).map(|_| (0..random.random_range(0..=longest)).map(|_| random.random_range(0..alphabet)).collect()).collect();
            // Few enough pairs for each to have a slot of its own, nearly always.
            assert_eq!(pieces(&values), pieces_slowly(&values), "round {round}");
        }
    }

    #[test]
    fn pieces_of_much_text_are_different_and_no_longer_than_they_may_be() {
        let mut random = StdRng::seed_from_u64(8);
        let values: Vec<Vec<u8>> = (0..20_000).map(|_| (0..random.random_range(0..30)).map(|_| random.random_range(b'a'..b'k')).collect()).collect();
        // Behind very many empty values, all pieces are in the last part, and there is no room for more.
        let late = [vec![Vec::new(); 31 * 320_000], values.clone()].concat();
        for (values, least) in [(values, PIECES_MAX * 3 / 4), (late, PIECES_MAX)] {
            let pieces = pieces(&values);
            assert!((least..=PIECES_MAX).contains(&pieces.len()), "{} pieces", pieces.len());
            assert_eq!(pieces.iter().collect::<HashSet<_>>().len(), pieces.len());
            assert!(pieces.iter().all(|piece| (2..=TOKEN_MAX).contains(&piece.len()) && !piece.contains(&END)));
        }
    }

    #[test]
    fn a_pair_takes_the_slot_of_one_that_comes_no_more() {
        let mut pairs = Pairs::new();
        let mut slot = |one, other| std::ptr::from_ref(pairs.slot(one, other).1);
        let (one, other) =
            (1..2048).flat_map(|one| (0..2048).map(move |other| (one, other))).find(|pair| slot(pair.0, pair.1) == slot(0, 7)).unwrap();
        assert_eq!([0; 3].map(|_| pairs.count(0, 7)), [1, 2, 3]);
        // The first two of these take from the three.
        assert_eq!([0; 4].map(|_| pairs.count(one, other)), [1, 1, 1, 2]);
        assert_eq!([0; 2].map(|_| pairs.count(0, 7)), [1, 1]);
        pairs.forget(0, 7);
        assert_eq!(pairs.count(0, 7), 1);
    }

    /// Codes of values, each the longest token, and the bytes of tokens.
    fn size(tokens: &HashSet<Vec<u8>>, values: &[Vec<u8>]) -> usize {
        let code = |rest: &[u8]| (2..=TOKEN_MAX.min(rest.len())).rev().find(|length| tokens.contains(&rest[..*length])).unwrap_or(1);
        let codes = values.iter().map(|value| {
            let mut at = 0;
            std::iter::from_fn(|| (at < value.len()).then(|| at += code(&value[at..]))).count()
        });
        codes.sum::<usize>() * 11 / 8 + tokens.iter().map(Vec::len).sum::<usize>()
    }

    /// Another implementation of the same paper.
    #[test]
    fn text_becomes_as_small_as_with_the_pieces_that_others_find() {
        let mut random = StdRng::seed_from_u64(9);
        let words: Vec<String> = (0..1500).map(|_| (0..random.random_range(2..9)).map(|_| random.random_range('a'..='z')).collect()).collect();
        let mut word = || words[random.random_range(0..words.len()) * random.random_range(0..words.len()) / words.len()].as_str();
        let values: Vec<Vec<u8>> = (0..8000).map(|_| ["https://", word(), ".org/", word(), "/", word()].concat().into_bytes()).collect();
        let (rows, threshold) = (values.iter().map(Vec::as_slice).collect::<Vec<_>>(), Threshold::new(1.0).unwrap());
        let found = Parser::train_rows(rows.as_slice(), Config { max_dict_bits: MaxDictBits::new(11).unwrap(), threshold, ..DEFAULT_CONFIG });
        let theirs = found.dict.offsets().windows(2).map(|ends| found.dict.bytes()[ends[0] as usize..ends[1] as usize].to_vec());
        let (ours, theirs) = (size(&pieces(&values).into_iter().collect(), &values), size(&theirs.collect(), &values));
        assert!(ours * 100 <= theirs * 102, "{ours} bytes, and {theirs}");
    }
}
