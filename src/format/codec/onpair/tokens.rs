//! Finding the tokens of a text, and writing it in them.

use std::ops::Range;

use super::learner::{BYTES, Lesson, Piece};
use super::trie::{LANES, Trie};
use crate::format::codec::BLOCK;
use arrow::array::{Array, BinaryViewArray};

/// Bytes of the longest token.
pub(super) const TOKEN_MAX: usize = 16;
/// Bytes that are learnt from: more than these hardly find better tokens.
const LEARN_MAX: usize = 256 << 10;
/// Steps so long lead to every value once, in an order as if by chance: a prime, and more than there are values.
const STRIDE: u64 = 2_654_435_761;
/// Ends each value while it is parsed: no UTF-8 has this byte.
pub(super) const END: u8 = 0xFF;

/// Strings, each with an end.
#[derive(Debug)]
pub(super) struct Text {
    bytes: Vec<u8>,
    pub(super) lengths: Vec<u32>,
}

impl Text {
    /// The values, of which nulls are empty; `None` if they are no text: binary values that have [`END`], or more than a page may have.
    pub(super) fn of(array: &BinaryViewArray, is_null: impl Fn(usize) -> bool) -> Option<Self> {
        let lengths = array.lengths().enumerate().map(|(index, length)| if is_null(index) { 0 } else { length as usize });
        let bytes = lengths.fold(array.len(), usize::saturating_add);
        if bytes - array.len() > super::BYTES_MAX {
            return None;
        }
        let mut text = Self { bytes: Vec::with_capacity(bytes), lengths: Vec::with_capacity(array.len()) };
        for index in 0..array.len() {
            let value: &[u8] = if is_null(index) { &[] } else { array.value(index) };
            text.bytes.extend_from_slice(value);
            text.bytes.push(END);
            text.lengths.push(u32::try_from(value.len()).ok()?);
        }
        let ends = text.bytes.iter().filter(|byte| **byte == END).count();
        (ends == array.len()).then_some(text)
    }

    /// Bytes of the values.
    pub(super) fn raw(&self) -> usize {
        self.bytes.len() - self.lengths.len()
    }

    /// About so many bytes of it, in values from all over it; or all.
    pub(super) fn part(&self, bytes: usize) -> Self {
        let step = self.raw().div_ceil(bytes.max(1)).max(1);
        let mut part = Self { bytes: Vec::new(), lengths: Vec::new() };
        for (value, length) in self.bounds().zip(&self.lengths).step_by(step) {
            part.bytes.extend_from_slice(&self.bytes[value]);
            part.bytes.push(END);
            part.lengths.push(*length);
        }
        part
    }

    /// Values from all over it, in no order, to learn from.
    fn lesson(&self) -> Lesson {
        let values: Vec<_> = self.bounds().collect();
        let mut lesson = Lesson::default();
        // As large a part of the text as it would be if every second, third or fourth value were taken.
        let mut left = self.raw() / self.raw().div_ceil(LEARN_MAX).max(1);
        let count = values.len() as u64;
        let places = (0..count).filter_map(|turn| usize::try_from(turn * STRIDE % count).ok());
        for value in places.filter_map(|place| values.get(place)) {
            let length = left.min(value.len());
            lesson.push(&self.bytes[value.start..value.start + length]);
            left -= length;
            if left == 0 {
                break;
            }
        }
        lesson
    }

    /// Where each value begins and ends.
    fn bounds(&self) -> impl Iterator<Item = Range<usize>> {
        let mut next = 0;
        self.lengths.iter().map(move |&length| {
            let start = next;
            next = start + length as usize + 1;
            start..next - 1
        })
    }

    /// About equal parts, of whole values.
    fn stretches(&self) -> [Range<usize>; LANES] {
        let mut starts = self.bounds().map(|value| value.start).chain([self.bytes.len()]);
        let mut end = 0;
        let mut lane = 0;
        [(); LANES].map(|()| {
            lane += 1;
            let start = end;
            let wanted = self.bytes.len() * lane / LANES;
            end = if wanted > start { starts.find(|&start| start >= wanted).unwrap_or(self.bytes.len()) } else { start };
            start..end
        })
    }
}

/// A text in codes of tokens that are its own.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) codes: Vec<u16>,
    /// How many of them each value has.
    pub(super) counts: Vec<u32>,
    /// Where the codes of each block of values begin.
    pub(super) starts: Vec<u32>,
    /// The tokens one behind the other, and how long each is.
    pub(super) tokens: Vec<u8>,
    pub(super) token_lengths: Vec<u8>,
}

/// Tokens to write text in: at each place of it, the longest that is there.
#[derive(Debug, Clone)]
pub(super) struct Tokens {
    /// Those of two bytes and more, in order, one behind the other, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    trie: Trie,
}

impl Tokens {
    pub(super) fn learn(text: &Text) -> Self {
        let pieces: Vec<_> = text.lesson().pieces().into_iter().map(Piece::to_vec).collect();
        Self::new(pieces.iter().map(Vec::as_slice).collect())
    }

    /// With a token for each byte, whether it is given or not.
    fn new(mut tokens: Vec<&[u8]>) -> Self {
        tokens.retain(|token| (2..=TOKEN_MAX).contains(&token.len()) && !token.contains(&END));
        tokens.sort_unstable();
        tokens.dedup();
        let ends = tokens.iter().scan(0, |end, token| {
            *end += token.len();
            Some(*end)
        });
        let coded: Vec<(&[u8], u16)> = tokens.iter().copied().zip(BYTES..).collect();
        Self { bytes: tokens.concat(), ends: ends.collect(), trie: Trie::new(&coded) }
    }

    fn count(&self) -> usize {
        usize::from(BYTES) + self.ends.len()
    }

    /// Bytes in memory.
    pub(super) fn memory_size(&self) -> usize {
        self.bytes.len() + size_of_val(self.ends.as_slice()) + self.trie.memory_size()
    }

    /// Writes the bytes of a token behind others, and gives how many they are.
    fn push(&self, code: usize, to: &mut Vec<u8>) -> usize {
        let Some(longer) = code.checked_sub(usize::from(BYTES)) else {
            to.extend(u8::try_from(code));
            return 1;
        };
        let token = longer.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[longer];
        to.extend_from_slice(&self.bytes[token.clone()]);
        token.len()
    }

    pub(super) fn write(&self, text: &Text) -> Written {
        let mut written = Written::default();
        let mut is_used = vec![false; self.count()];
        let parsed = self.trie.parse(&text.bytes, &text.stretches());
        written.codes.reserve_exact(parsed.iter().map(Vec::len).sum::<usize>() - text.lengths.len());
        written.counts.reserve_exact(text.lengths.len());
        let mut count = 0;
        for &code in parsed.iter().flatten() {
            if code != u16::from(END) {
                written.codes.push(code);
                is_used[usize::from(code)] = true;
                count += 1;
                continue;
            }
            written.counts.push(std::mem::take(&mut count));
        }
        let blocks = written.counts.chunks(BLOCK).map(|block| block.iter().sum::<u32>());
        written.starts = blocks.scan(0, |end, codes| Some(std::mem::replace(end, *end + codes))).collect();
        self.keep_used(&is_used, &mut written);
        written
    }

    /// Numbers the tokens anew, without those that no code stands for.
    fn keep_used(&self, is_used: &[bool], written: &mut Written) {
        let mut numbers = vec![0; self.count()];
        let used = is_used.iter().enumerate().filter(|(_, is_used)| **is_used).map(|(code, _)| code);
        for (number, code) in (0..).zip(used) {
            numbers[code] = number;
            let length = self.push(code, &mut written.tokens);
            written.token_lengths.push(u8::try_from(length).unwrap_or(u8::MAX));
        }
        written.codes.iter_mut().for_each(|code| *code = numbers[usize::from(*code)]);
    }
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

    /// What each code stands for.
    fn read(written: &Written) -> Vec<&[u8]> {
        let mut rest = &written.tokens[..];
        let tokens: Vec<&[u8]> = written.token_lengths.iter().map(|&length| rest.split_off(..usize::from(length)).unwrap()).collect();
        assert!(rest.is_empty());
        written.codes.iter().map(|&code| tokens[usize::from(code)]).collect()
    }

    #[test]
    fn the_longest_token_is_taken_everywhere() {
        let mut random = StdRng::seed_from_u64(8);
        for round in 0..200 {
            let alphabet = [1, 2, 3, 255][round % 4];
            let count = [0, 1, 7, 20, 1024, 2100][round % 6];
            let longest = [[0, 5, 60, 700], [0, 2, 4, 8]][usize::from(count > 20)][round % 11 % 4];
            let mut noise = |length: usize| -> Vec<u8> { (0..random.random_range(0..=length)).map(|_| random.random_range(0..alphabet)).collect() };
            let values: Vec<Vec<u8>> = (0..count).map(|_| noise(longest)).collect();
            let all = [values.concat(), noise(100), vec![END, 0, 0, END]].concat();
            let tokens: Vec<&[u8]> =
                (0..round * 2).map(|index| &all[index % all.len()..][..(index * 5 % 19).min(all.len() - index % all.len())]).collect();
            let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            let written = Tokens::new(tokens.clone()).write(&text(&values));
            let slowly: Vec<_> = values.iter().map(|value| write_slowly(&tokens, value)).collect();
            assert!(read(&written) == slowly.concat(), "round {round}");
            assert!(written.counts.iter().map(|count| *count as usize).eq(slowly.iter().map(Vec::len)));
            let blocks = slowly.chunks(BLOCK).map(|block| block.iter().map(Vec::len).sum::<usize>());
            let starts = blocks.scan(0, |end, codes| u32::try_from(std::mem::replace(end, *end + codes)).ok());
            assert_eq!(written.starts, starts.collect::<Vec<_>>());
        }
    }

    #[test]
    fn more_tokens_than_there_are_cells_for_are_not_used() {
        let mut random = StdRng::seed_from_u64(9);
        let tokens: Vec<Vec<u8>> = (0..9000).map(|_| (0..16).map(|_| random.random_range(0..END)).collect()).collect();
        let values: Vec<&[u8]> = tokens.iter().map(Vec::as_slice).collect();
        for (count, fits) in [(3000, true), (9000, false)] {
            let written = Tokens::new(values[..count].to_vec()).write(&text(&values[..count]));
            assert_eq!(written.codes.len() == count, fits);
            assert!(read(&written).concat() == values[..count].concat());
        }
    }

    #[test]
    fn values_that_have_the_end_are_no_text() {
        let of = |values: &[&[u8]]| Text::of(&BinaryViewArray::from_iter_values(values), |index| index == 1).is_some();
        assert!(of(&[]) && of(&[b""]) && of(&[b"\xFE\x00"]) && of(&[b"", b"\xFF"]));
        assert!(!of(&[b"\xFF"]) && !of(&[b"ab", b"", b"a\xFFb"]));
    }

    #[test]
    fn a_part_is_of_values_from_all_over() {
        let values: Vec<String> = (0..5000).map(|index| format!("value {index:04}")).collect();
        let values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
        let all = text(&values);
        let part = all.part(1000);
        assert_eq!((part.lengths, all.raw()), (vec![10; 100], 50_000));
        let expected: Vec<u8> = values.iter().step_by(50).flat_map(|value| [value, &[END][..]].concat()).collect();
        assert!(part.bytes == expected);
        assert!(all.part(50_000).bytes == all.bytes && all.part(usize::MAX).lengths == all.lengths);
        assert_eq!((all.part(0).raw(), text(&[]).part(1000).raw()), (10, 0));
    }

    #[test]
    fn what_is_learnt_from_text_is_its_words() {
        let values: Vec<&[u8]> = (0..4000).map(|index| if index % 3 == 0 { &b"carefully final"[..] } else { &b"final deposits"[..] }).collect();
        let text = text(&values);
        let written = Tokens::learn(&text).write(&text);
        assert!(written.codes.len() <= 3 * 4000, "{} codes", written.codes.len());
        assert_eq!(read(&written).concat(), values.concat());
    }
}
