//! Finding the tokens of a text, and writing it in them.

use arrow::array::{Array, BinaryViewArray};
use onpair::{Config, DEFAULT_CONFIG, MAX_TOKEN_SIZE, MaxDictBits, Parser, Rows, Threshold};

use crate::format::{Error, Result};

/// Bytes of the longest token.
pub(super) const TOKEN_MAX: usize = MAX_TOKEN_SIZE;
/// Learning takes as long as writing, and from more than this hardly finds better tokens.
const LEARN_MAX: usize = 256 << 10;
/// A page names its own tokens, so twice as many would not pay in one of the usual size.
const TOKEN_BITS: u8 = 11;
/// Slots of the hash table for each token.
const SLOTS_PER_TOKEN: usize = 4;

/// Strings one behind the other.
#[derive(Debug, Default)]
pub(super) struct Text {
    /// The bytes, and as many more as a token may have.
    bytes: Vec<u8>,
    pub(super) lengths: Vec<u32>,
}

impl Text {
    /// The values, of which nulls are empty; `None` if they are too much for a page.
    pub(super) fn of(array: &BinaryViewArray, is_null: impl Fn(usize) -> bool) -> Option<Self> {
        let mut text = Self { bytes: Vec::new(), lengths: Vec::with_capacity(array.len()) };
        for index in 0..array.len() {
            let value: &[u8] = if is_null(index) { &[] } else { array.value(index) };
            text.bytes.extend_from_slice(value);
            text.lengths.push(u32::try_from(value.len()).ok()?);
        }
        text.bytes.resize(text.bytes.len() + TOKEN_MAX, 0);
        (text.raw() <= super::BYTES_MAX).then_some(text)
    }

    pub(super) fn raw(&self) -> usize {
        self.bytes.len() - TOKEN_MAX
    }
}

/// Every `step`-th string of a text, to learn from.
struct Lesson<'a> {
    values: Vec<&'a [u8]>,
}

impl<'a> Lesson<'a> {
    fn of(text: &'a Text) -> Self {
        let step = text.raw().div_ceil(LEARN_MAX).max(1);
        let mut start = 0;
        let values = text.lengths.iter().map(|&length| {
            start += length as usize;
            &text.bytes[start - length as usize..start]
        });
        Self { values: values.step_by(step).collect() }
    }
}

impl Rows for Lesson<'_> {
    fn num_rows(&self) -> usize {
        self.values.len()
    }

    fn total_bytes(&self) -> usize {
        self.values.iter().map(|value| value.len()).sum()
    }

    fn row(&self, index: usize) -> &[u8] {
        self.values[index]
    }
}

/// Tokens to write text in: at each place of it, the longest that is there.
#[derive(Debug, Clone)]
pub(super) struct Tokens {
    /// By code, the bytes as the low ones of a number, and how many they are.
    keys: Vec<u128>,
    lengths: Vec<u8>,
    /// The code of each byte by itself.
    bytes: Vec<u16>,
    /// By the first two bytes, a bit for each length (less one) of which there is a token.
    lengths_by_start: Vec<u16>,
    /// Codes of longer tokens plus one, by their hash; 0 is a free slot.
    slots: Vec<u16>,
}

/// What is left of 16 bytes when only the first so many count.
const HEADS: [u128; TOKEN_MAX + 1] = {
    let mut masks = [0; TOKEN_MAX + 1];
    let mut length = 1;
    while length <= TOKEN_MAX {
        masks[length] = u128::MAX >> (8 * (TOKEN_MAX - length));
        length += 1;
    }
    masks
};

impl Tokens {
    pub(super) fn learn(text: &Text) -> Result<Self> {
        let refused = |_| Error::invalid_argument("the tokens of a text cannot be learnt");
        let max_dict_bits = MaxDictBits::new(TOKEN_BITS).map_err(refused)?;
        let config = Config { max_dict_bits, threshold: Threshold::new(1.0).map_err(refused)?, ..DEFAULT_CONFIG };
        let found = Parser::train_rows(&Lesson::of(text), config);
        let ends = found.dict.offsets().windows(2);
        Ok(Self::new(ends.map(|ends| &found.dict.bytes()[ends[0] as usize..ends[1] as usize])))
    }

    /// With a token for each byte, whether it is given or not.
    fn new<'a>(tokens: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut all = Self { keys: Vec::new(), lengths: Vec::new(), bytes: Vec::new(), lengths_by_start: vec![1; 1 << 16], slots: Vec::new() };
        for byte in 0..=u8::MAX {
            all.bytes.push(u16::from(byte));
            all.keys.push(u128::from(byte));
            all.lengths.push(1);
        }
        for token in tokens.filter(|token| (2..=TOKEN_MAX).contains(&token.len())) {
            let mut key = [0; TOKEN_MAX];
            key[..token.len()].copy_from_slice(token);
            all.keys.push(u128::from_le_bytes(key));
            all.lengths.push(u8::try_from(token.len()).unwrap_or(0));
        }
        all.slots = vec![0; (SLOTS_PER_TOKEN * all.keys.len()).next_power_of_two()];
        for code in usize::from(u8::MAX) + 1..all.keys.len().min(usize::from(u16::MAX)) {
            all.insert(code);
        }
        all
    }

    fn insert(&mut self, code: usize) {
        let (key, length) = (self.keys[code], usize::from(self.lengths[code]));
        let mut slot = self.slot(key, length);
        while self.slots[slot] != 0 {
            slot = (slot + 1) % self.slots.len();
        }
        self.slots[slot] = u16::try_from(code + 1).unwrap_or(0);
        self.lengths_by_start[usize::from(start_of(key))] |= 1 << (length - 1);
    }

    /// Where a token of these bytes is looked for first.
    #[expect(clippy::cast_possible_truncation, reason = "a hash")]
    fn slot(&self, key: u128, length: usize) -> usize {
        const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
        let mixed = (key as u64 ^ ((key >> 64) as u64).rotate_left(23) ^ length as u64).wrapping_mul(MIX);
        (mixed >> 40) as usize & (self.slots.len() - 1)
    }

    fn find(&self, key: u128, length: usize) -> Option<u16> {
        let mut slot = self.slot(key, length);
        loop {
            let code = self.slots[slot].checked_sub(1)?;
            if self.keys[usize::from(code)] == key && usize::from(self.lengths[usize::from(code)]) == length {
                return Some(code);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    /// The longest token at the beginning of 16 bytes of which only `room` count, and its length. There is one of at least a byte.
    #[inline]
    fn longest(&self, text: u128, room: usize) -> (u16, usize) {
        let fitting = u16::MAX >> (TOKEN_MAX - room.min(TOKEN_MAX));
        let mut lengths = self.lengths_by_start[usize::from(start_of(text))] & fitting;
        while lengths > 1 {
            let length = TOKEN_MAX - lengths.leading_zeros() as usize;
            if let Some(code) = self.find(text & HEADS[length], length) {
                return (code, length);
            }
            lengths &= !(1 << (length - 1));
        }
        (self.bytes[usize::from(start_of(text) & 0xFF)], 1)
    }

    /// The text in codes, and where those of each string begin.
    pub(super) fn write(&self, text: &Text) -> (Vec<u16>, Vec<u32>) {
        let (mut codes, mut starts) = (Vec::with_capacity(text.raw() / 4), Vec::with_capacity(text.lengths.len()));
        let mut at = 0;
        for &length in &text.lengths {
            starts.push(u32::try_from(codes.len()).unwrap_or(u32::MAX));
            let end = at + length as usize;
            while at < end {
                let Some(head) = text.bytes[at..].first_chunk() else { break };
                let (code, length) = self.longest(u128::from_le_bytes(*head), end - at);
                codes.push(code);
                at += length;
            }
        }
        (codes, starts)
    }

    /// Those that have a code: their lengths and joined bytes. Numbers the codes anew.
    pub(super) fn used(&self, codes: &mut [u16]) -> (Vec<u8>, Vec<u8>) {
        let mut numbers = vec![None; self.keys.len()];
        codes.iter().for_each(|&code| numbers[usize::from(code)] = Some(0));
        let (mut lengths, mut bytes) = (Vec::new(), Vec::new());
        for (code, number) in numbers.iter_mut().enumerate().filter(|(_, number)| number.is_some()) {
            *number = u16::try_from(lengths.len()).ok();
            lengths.push(self.lengths[code]);
            bytes.extend_from_slice(&self.keys[code].to_le_bytes()[..usize::from(self.lengths[code])]);
        }
        codes.iter_mut().for_each(|code| *code = numbers[usize::from(*code)].unwrap_or(*code));
        (lengths, bytes)
    }
}

/// The first two bytes.
#[expect(clippy::cast_possible_truncation, reason = "the low bytes are the first")]
fn start_of(text: u128) -> u16 {
    text as u16
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn text(values: &[&[u8]]) -> Text {
        Text::of(&BinaryViewArray::from_iter_values(values), |_| false).unwrap()
    }

    /// The slow twin of [`Tokens::write`]: every token is tried at every place.
    fn write_slowly(tokens: &[&[u8]], value: &[u8]) -> Vec<Vec<u8>> {
        let mut rest = value;
        let mut found = Vec::new();
        while !rest.is_empty() {
            let longest = tokens.iter().filter(|token| (2..=16).contains(&token.len()) && rest.starts_with(token)).max_by_key(|token| token.len());
            found.push(rest.split_off(..longest.map_or(1, |token| token.len())).unwrap().to_vec());
        }
        found
    }

    #[test]
    fn the_longest_token_is_taken_everywhere() {
        let mut random = StdRng::seed_from_u64(8);
        for round in 0..300 {
            let alphabet = [1, 2, 3, 256][round % 4];
            let mut noise = |length: usize| -> Vec<u8> { (0..length).map(|_| u8::try_from(random.random_range(0..alphabet)).unwrap()).collect() };
            let values: Vec<Vec<u8>> = (0..20).map(|index| noise(index * 7 % 60)).collect();
            let all = values.concat();
            let mut tokens: Vec<&[u8]> =
                (0..round).map(|index| &all[index % all.len()..][..(index * 5 % 19).min(all.len() - index % all.len())]).collect();
            tokens.sort_unstable();
            tokens.dedup();
            let writer = Tokens::new(tokens.iter().copied());
            let (codes, starts) = writer.write(&text(&values.iter().map(Vec::as_slice).collect::<Vec<_>>()));
            let written = |codes: &[u16]| -> Vec<Vec<u8>> {
                let bytes = |code: u16| writer.keys[usize::from(code)].to_le_bytes()[..usize::from(writer.lengths[usize::from(code)])].to_vec();
                codes.iter().map(|&code| bytes(code)).collect()
            };
            for (index, value) in values.iter().enumerate() {
                let end = starts.get(index + 1).map_or(codes.len(), |&end| end as usize);
                assert_eq!(written(&codes[starts[index] as usize..end]), write_slowly(&tokens, value));
            }
        }
    }

    #[test]
    fn what_is_learnt_from_text_is_its_words() {
        let values: Vec<&[u8]> = (0..4000).map(|index| if index % 3 == 0 { &b"carefully final"[..] } else { &b"final deposits"[..] }).collect();
        let text = text(&values);
        let (mut codes, _) = Tokens::learn(&text).unwrap().write(&text);
        assert!(codes.len() <= 3 * 4000, "{} codes", codes.len());
        let (lengths, bytes) = Tokens::learn(&text).unwrap().used(&mut codes);
        assert_eq!(lengths.iter().map(|&length| usize::from(length)).sum::<usize>(), bytes.len());
        assert_eq!(codes.iter().map(|&code| usize::from(lengths[usize::from(code)])).sum::<usize>(), text.raw());
    }
}
