//! The tokens of a page, and text that codes of them stand for.

use super::tokens::TOKEN_MAX;
use super::{GROUP, TOKENS_MAX};

/// What a group may write to: as many bytes as the longest token has, from wherever a token of it may begin, and one token more for the compiler to know so.
const WINDOW: usize = (GROUP + 1) * TOKEN_MAX;

/// Tokens of a page, as a rule: what 11 bits can tell apart. So many take 34 KiB, of which those that come often stay in a processor's nearest cache.
const MOST: usize = 1 << 11;

/// Codes that are expanded before it is noted where their values end, if these have no more: where the text of each ends is in the nearest cache then.
const CODES: usize = 2048;

/// Of so many groups of codes it is seen how long the text of all may be.
const SAMPLED: usize = 32;
/// It is taken to be longer than that by one part in so many, and made longer by as much where it is.
const SPARE_PART: usize = 16;

/// Tokens by their codes: as many bytes of each as the longest may have, and how many are its own.
#[derive(Debug)]
struct Slots<const N: usize> {
    bytes: Box<[[u8; TOKEN_MAX]; N]>,
    lengths: Box<[u8; N]>,
}

impl<const N: usize> Slots<N> {
    fn new(tokens: &[&[u8]]) -> Option<Self> {
        let mut bytes = vec![[0; TOKEN_MAX]; N];
        let mut lengths = vec![0; N];
        for ((slot, length), token) in bytes.iter_mut().zip(&mut lengths).zip(tokens) {
            slot.get_mut(..token.len())?.copy_from_slice(token);
            *length = u8::try_from(token.len()).ok()?;
        }
        Some(Self { bytes: bytes.into_boxed_slice().try_into().ok()?, lengths: lengths.into_boxed_slice().try_into().ok()? })
    }

    /// The bytes of the token of a code that has been checked, zeros behind them, and how many are its own.
    #[inline]
    fn token(&self, code: u16) -> (&[u8; TOKEN_MAX], u8) {
        // The remainder only tells the compiler what has been checked.
        let slot = usize::from(code) % N;
        (&self.bytes[slot], self.lengths[slot])
    }

    /// Bytes that checked codes stand for.
    fn length(&self, codes: &[u16]) -> usize {
        codes.iter().map(|&code| usize::from(self.token(code).1)).sum()
    }

    /// About as many as all codes stand for, judged by some.
    fn likely_length(&self, codes: &[u16]) -> usize {
        let groups = codes.chunks(GROUP);
        let step = groups.len().div_ceil(SAMPLED).max(1);
        let length = groups.step_by(step).map(|group| self.length(group)).sum::<usize>() * step;
        length + length / SPARE_PART
    }

    /// See [`Table::expand`].
    fn expand(&self, mut codes: &[u16], mut counts: &[u32]) -> Option<(Vec<u8>, Vec<u32>)> {
        let mut bytes = vec![0; self.likely_length(codes) + WINDOW];
        let mut offsets = Vec::with_capacity(counts.len() + 1);
        offsets.push(0);
        // Where the codes of some values begin, and each of them ends.
        let (mut at, mut ends) = (0, Vec::new());
        while !counts.is_empty() {
            let (values, count) = some_values(counts);
            let theirs = codes.split_off(..count)?;
            ends.resize(theirs.len() + 1, 0);
            at = self.expand_some(theirs, &mut bytes, at, &mut ends)?;
            let mut code = 0;
            for &count in counts.split_off(..values)? {
                code += count as usize;
                offsets.push(*ends.get(code)?);
            }
        }
        bytes.truncate(at as usize);
        // What is not used would stay as long as the text.
        if bytes.capacity() > 2 * (bytes.len() + WINDOW) {
            bytes.shrink_to_fit();
        }
        codes.is_empty().then_some((bytes, offsets))
    }

    /// Writes what codes stand for at `at`, and gives the end of it, where the first begins and each ends.
    fn expand_some(&self, codes: &[u16], bytes: &mut Vec<u8>, mut at: u32, ends: &mut [u32]) -> Option<u32> {
        let (first, ends) = ends.split_first_mut()?;
        *first = at;
        let ((groups, rest), (ends, last)) = (codes.as_chunks::<GROUP>(), ends.as_chunks_mut::<GROUP>());
        for (group, ends) in groups.iter().zip(ends) {
            at = self.expand_group(group, window(bytes, at)?, at, ends);
        }
        if !rest.is_empty() {
            // What the others stand for is written over, or cut off.
            let (mut group, mut ends) = ([0; GROUP], [0; GROUP]);
            group[..rest.len()].copy_from_slice(rest);
            self.expand_group(&group, window(bytes, at)?, at, &mut ends);
            last.copy_from_slice(ends.get(..rest.len())?);
            at = *last.last()?;
        }
        Some(at)
    }

    /// Each token is stored as sixteen bytes, and the next one over those that are not its own.
    #[inline]
    fn expand_group(&self, group: &[u16; GROUP], window: &mut [u8; WINDOW], at: u32, ends: &mut [u32; GROUP]) -> u32 {
        let mut length = 0;
        for (&code, end) in group.iter().zip(ends) {
            let (token, more) = self.token(code);
            // The remainder only tells the compiler what the lengths of tokens see to.
            let start = length as usize % (GROUP * TOKEN_MAX);
            window[start..start + TOKEN_MAX].copy_from_slice(token);
            length += u32::from(more);
            *end = at.wrapping_add(length);
        }
        at.wrapping_add(length)
    }
}

/// How many values have at most so many codes as are expanded together, or one that has more, and how many codes these are.
fn some_values(counts: &[u32]) -> (usize, usize) {
    let (mut values, mut codes) = (0, 0_usize);
    for &count in counts {
        if values > 0 && codes.saturating_add(count as usize) > CODES {
            break;
        }
        values += 1;
        codes = codes.saturating_add(count as usize);
    }
    (values, codes)
}

/// Room for a group's text at `at`, for which there may have to be more bytes.
#[inline]
fn window(bytes: &mut Vec<u8>, at: u32) -> Option<&mut [u8; WINDOW]> {
    let at = at as usize;
    if bytes.len() < at + WINDOW {
        // A group takes less than a window.
        bytes.reserve_exact((bytes.len() / SPARE_PART).max(WINDOW));
        bytes.resize(bytes.capacity(), 0);
    }
    bytes.get_mut(at..)?.first_chunk_mut()
}

/// The tokens of a page, few or more than that.
#[derive(Debug)]
enum Tokens {
    Few(Slots<MOST>),
    Many(Slots<TOKENS_MAX>),
}

/// Does the same with either.
macro_rules! with_slots {
    ($tokens:expr, $slots:ident => $work:expr) => {
        match &$tokens {
            Tokens::Few($slots) => $work,
            Tokens::Many($slots) => $work,
        }
    };
}

#[derive(Debug)]
pub(super) struct Table {
    /// The bytes of all tokens, one behind the other.
    bytes: Vec<u8>,
    tokens: Tokens,
    /// How many there are.
    count: usize,
    pub(super) ascii: bool,
}

impl Table {
    /// `None` if lengths and bytes contradict each other.
    pub(super) fn read(lengths: &[u8], bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let token = |length: &u8| rest.split_off(..usize::from(*length)).filter(|token| (1..=TOKEN_MAX).contains(&token.len()));
        let tokens = lengths.iter().map(token).collect::<Option<Vec<_>>>()?;
        if !rest.is_empty() || tokens.len() > TOKENS_MAX {
            return None;
        }
        let slots = if tokens.len() <= MOST { Tokens::Few(Slots::new(&tokens)?) } else { Tokens::Many(Slots::new(&tokens)?) };
        Some(Self { bytes: bytes.to_vec(), tokens: slots, count: tokens.len(), ascii: bytes.is_ascii() })
    }

    /// How many tokens there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The bytes of all tokens, one behind the other.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many of them each token has.
    pub(super) fn lengths(&self) -> impl Iterator<Item = u8> {
        with_slots!(self.tokens, slots => &slots.lengths[..self.count]).iter().copied()
    }

    /// The bytes of values, joined, of which each has so many codes, and where each starts, and the end. `None` where there is no such code, or another number of them.
    pub(super) fn expand(&self, codes: &[u16], counts: &[u32]) -> Option<(Vec<u8>, Vec<u32>)> {
        if !self.has(codes) {
            return None;
        }
        with_slots!(self.tokens, slots => slots.expand(codes, counts))
    }

    pub(super) fn has(&self, codes: &[u16]) -> bool {
        codes.iter().copied().max().is_none_or(|greatest| usize::from(greatest) < self.count)
    }

    /// Bytes that checked codes stand for.
    pub(super) fn length(&self, codes: &[u16]) -> usize {
        with_slots!(self.tokens, slots => slots.length(codes))
    }

    /// The token of a code that has been checked.
    #[inline]
    pub(super) fn token(&self, code: u16) -> &[u8] {
        let (bytes, length) = with_slots!(self.tokens, slots => slots.token(code));
        bytes.get(..usize::from(length)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_contradict_their_lengths_or_are_taken() {
        let read = |lengths: &[u8], bytes: &[u8]| Table::read(lengths, bytes).is_some();
        assert!(read(&[], b"") && read(&[1, 2], b"abc") && read(&[16; 300], &[b'x'; 4800]));
        assert!(!read(&[1], b"abc") && !read(&[1, 2], b"ab") && !read(&[1, 2], b"abcd"));
        assert!(!read(&[0], b"") && !read(&[17], &[b'x'; 17]) && !read(&[255], &[b'x'; 255]));
        assert!(read(&[1; TOKENS_MAX], &[b'x'; TOKENS_MAX]) && !read(&[1; TOKENS_MAX + 1], &[b'x'; TOKENS_MAX + 1]));
    }

    #[test]
    fn codes_make_the_values_that_they_are_counted_for() {
        let token = |code: u16| format!("{:x<1$}", code, 1 + usize::from(code) % 16).as_bytes()[..1 + usize::from(code) % 16].to_vec();
        // As many tokens as there are slots for in the nearest cache, and one more.
        for tokens in [2, MOST, MOST + 1] {
            let all: Vec<Vec<u8>> = (0..u16::try_from(tokens).unwrap()).map(token).collect();
            let lengths: Vec<u8> = all.iter().map(|token| u8::try_from(token.len()).unwrap()).collect();
            let table = Table::read(&lengths, &all.concat()).unwrap();
            assert_eq!((table.len(), table.bytes().len(), table.lengths().eq(lengths)), (tokens, all.concat().len(), true));
            for count in [0, 1, 2, 3, 7, 8, 9, 17, 200] {
                for values in [0, 1, 255, 256, 257, 768] {
                    let counts: Vec<u32> = (0..values).map(|value| [count, 0, count + 1][value % 3]).collect();
                    let total = usize::try_from(counts.iter().sum::<u32>()).unwrap();
                    let codes: Vec<u16> = (0..total).map(|index| u16::try_from(index * index / total.max(1) * 7 % tokens).unwrap()).collect();
                    let (bytes, offsets) = table.expand(&codes, &counts).unwrap();
                    let mut rest = codes.as_slice();
                    let expected = counts.iter().map(|&count| rest.split_off(..count as usize).unwrap());
                    let expected: Vec<Vec<u8>> =
                        expected.map(|codes| codes.iter().flat_map(|code| all[usize::from(*code)].clone()).collect()).collect();
                    let found = offsets.windows(2).map(|bounds| bytes[bounds[0] as usize..bounds[1] as usize].to_vec());
                    assert!(found.eq(expected), "{tokens} tokens, {values} values of {count} codes");
                    assert_eq!((offsets[0], offsets[values] as usize, offsets.len()), (0, bytes.len(), values + 1));
                }
            }
        }
    }

    #[test]
    fn there_is_room_for_more_text_than_a_part_of_it_promises_and_none_is_kept_for_less() {
        let table = Table::read(&[1, 16], &[b'x'; 17]).unwrap();
        // As many groups as are looked at, and between them others that are all short, or all long.
        let groups =
            |seen: u16, other: u16| (0..SAMPLED * 10).flat_map(|group| [if group % 10 == 0 { seen } else { other }; GROUP]).collect::<Vec<_>>();
        for (seen, other, length) in [(0, 1, SAMPLED * GROUP * 145), (1, 0, SAMPLED * GROUP * 25)] {
            for counts in [vec![u32::try_from(SAMPLED * 10 * GROUP).unwrap()], vec![1; SAMPLED * 10 * GROUP]] {
                let (bytes, offsets) = table.expand(&groups(seen, other), &counts).unwrap();
                assert!(bytes.iter().all(|byte| *byte == b'x') && offsets.is_sorted());
                assert_eq!((bytes.len(), offsets.last().map(|end| *end as usize)), (length, Some(length)));
                assert!(bytes.capacity() <= 2 * (length + WINDOW), "{} bytes for {length}", bytes.capacity());
            }
        }
    }

    #[test]
    fn values_are_taken_together_up_to_some_codes() {
        assert_eq!(some_values(&[]), (0, 0));
        assert_eq!(some_values(&[7; 1000]), (CODES / 7, CODES / 7 * 7));
        assert_eq!((some_values(&[u32::MAX, 1]), some_values(&[1, u32::MAX, 1])), ((1, u32::MAX as usize), (1, 1)));
    }

    #[test]
    fn codes_without_a_token_or_a_value_are_refused() {
        let table = Table::read(&[1, 4, 2], b"abcdexy").unwrap();
        assert_eq!(table.expand(&[1, 0, 2], &[2, 0, 1]).unwrap(), (b"bcdeaxy".to_vec(), vec![0, 5, 5, 7]));
        for (codes, counts) in
            [(&[3][..], &[1][..]), (&[0, 0, 0, 0, 0, 0, 0, 9], &[8]), (&[0], &[]), (&[0], &[2]), (&[0, 0], &[1]), (&[0], &[u32::MAX, 1])]
        {
            assert_eq!(table.expand(codes, counts), None, "{codes:?} {counts:?}");
        }
    }
}
