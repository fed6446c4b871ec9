//! The tokens of a page, and text that codes of them stand for.

use std::ops::Range;

use super::tokens::TOKEN_MAX;
use super::{GROUP, TOKENS_MAX};

/// What a group may write to: its tokens, and what is stored beyond the last one's end.
pub(super) const WINDOW: usize = (GROUP + 1) * TOKEN_MAX;

/// Tokens of a page, as a rule: what 11 bits can tell apart. So many take 32 KiB, which stay in a processor's nearest cache.
const MOST: usize = 1 << 11;

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
    fn token(&self, code: u16) -> (&[u8; TOKEN_MAX], usize) {
        // The remainder only tells the compiler what has been checked.
        let slot = usize::from(code) % N;
        (&self.bytes[slot], usize::from(self.lengths[slot]))
    }

    /// Bytes that the codes stand for, which are added up side by side.
    #[inline]
    fn length(&self, codes: &[u16; GROUP]) -> usize {
        codes.iter().map(|&code| usize::from(self.lengths[usize::from(code) % N])).sum()
    }

    /// Writes what checked codes stand for, and gives the end of it; `None` where there is no room and a window more for all.
    fn expand(&self, codes: &[u16], out: &mut [u8], mut at: usize) -> Option<usize> {
        let (groups, rest) = codes.as_chunks::<GROUP>();
        for group in groups {
            at += self.expand_group(group, out.get_mut(at..)?.first_chunk_mut()?);
        }
        for &code in rest {
            let (bytes, length) = self.token(code);
            *out.get_mut(at..)?.first_chunk_mut()? = *bytes;
            at += length;
        }
        Some(at)
    }

    /// Each token is stored as sixteen bytes, and the next one over those that are not its own.
    #[inline]
    fn expand_group(&self, group: &[u16; GROUP], window: &mut [u8; WINDOW]) -> usize {
        let mut end = 0;
        for &code in group {
            let (bytes, length) = self.token(code);
            // The remainder only tells the compiler what the lengths of tokens see to.
            let start = end % (GROUP * TOKEN_MAX);
            window[start..start + TOKEN_MAX].copy_from_slice(bytes);
            end += length;
        }
        end
    }

    /// See [`Table::pick`].
    fn pick(&self, codes: &[u16], lengths: &[u32], wanted: impl Iterator<Item = usize>) -> Option<(Vec<u8>, Vec<Range<usize>>)> {
        let (mut bytes, mut used, mut values) = (Vec::new(), 0, Vec::new());
        // The value and the byte that have been come to, and the code that this byte is in and where that one begins.
        let (mut value, mut start) = (0, 0_usize);
        let (mut next, mut at) = (0, 0_usize);
        for index in wanted {
            start += lengths.get(value..index)?.iter().map(|length| *length as usize).sum::<usize>();
            value = index;
            let end = start + *lengths.get(index)? as usize;
            if start == end {
                values.push(0..0);
                continue;
            }
            while let Some(group) = codes.get(next..).and_then(<[u16]>::first_chunk) {
                let length = self.length(group);
                if at + length > start {
                    break;
                }
                at += length;
                next += GROUP;
            }
            while let Some(length) = codes.get(next).map(|&code| self.token(code).1).filter(|length| at + length <= start) {
                at += length;
                next += 1;
            }
            // A value may begin within a token, and end within one that the next value needs again.
            let first = used + (start - at);
            let (mut code, mut reached) = (next, at);
            while reached < end {
                let (token, length) = self.token(*codes.get(code)?);
                if bytes.len() < used + TOKEN_MAX {
                    bytes.resize((bytes.len() * 2).max(used + TOKEN_MAX), 0);
                }
                *bytes.get_mut(used..)?.first_chunk_mut()? = *token;
                used += length;
                reached += length;
                code += 1;
            }
            values.push(first..first + (end - start));
        }
        bytes.truncate(used);
        Some((bytes, values))
    }
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

    /// Writes no more than some of the values that codes stand for, and gives where each of them is. `None` where the codes are not theirs.
    pub(super) fn pick(&self, codes: &[u16], lengths: &[u32], wanted: impl Iterator<Item = usize>) -> Option<(Vec<u8>, Vec<Range<usize>>)> {
        if !self.has(codes) {
            return None;
        }
        with_slots!(self.tokens, slots => slots.pick(codes, lengths, wanted))
    }

    /// Writes what codes stand for at `at`, and gives the end of it; `None` where there is no such code, or no room and a window more for all.
    pub(super) fn expand(&self, codes: &[u16], out: &mut [u8], at: usize) -> Option<usize> {
        if !self.has(codes) {
            return None;
        }
        with_slots!(self.tokens, slots => slots.expand(codes, out, at))
    }

    pub(super) fn has(&self, codes: &[u16]) -> bool {
        codes.iter().copied().max().is_none_or(|greatest| usize::from(greatest) < self.count)
    }

    /// The bytes of the token of a code that has been checked.
    #[inline]
    pub(super) fn length(&self, code: u16) -> usize {
        with_slots!(self.tokens, slots => slots.token(code).1)
    }

    /// The token of a code that has been checked.
    #[inline]
    pub(super) fn token(&self, code: u16) -> &[u8] {
        let (bytes, length) = with_slots!(self.tokens, slots => slots.token(code));
        bytes.get(..length).unwrap_or_default()
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
    }

    #[test]
    fn codes_make_exactly_what_was_promised() {
        let table = Table::read(&[1, 16], b"abcdefghijklmnopq").unwrap();
        let expand = |codes: &[u16], length: usize| {
            let mut out = vec![0; length + WINDOW];
            let end = table.expand(codes, &mut out, 0)?;
            out.truncate(end);
            Some(out)
        };
        assert_eq!(expand(&[], 0).unwrap(), b"");
        assert_eq!(expand(&[1, 0, 1], 33).unwrap(), b"bcdefghijklmnopqabcdefghijklmnopq");
        for count in 0..40 {
            let codes: Vec<u16> = (0..count).map(|index| index % 3 % 2).collect();
            let expected: Vec<u8> = codes.iter().flat_map(|&code| [&b"a"[..], &b"bcdefghijklmnopq"[..]][usize::from(code)].to_vec()).collect();
            assert_eq!(expand(&codes, expected.len()).unwrap(), expected);
        }
        assert_eq!(expand(&[2], 0), None);
        assert_eq!(expand(&[0, 0, 0, 0, 0, 0, 0, 2], 7), None);
        // More than there is room for is refused, and at the latest a window behind it.
        assert_eq!(expand(&[1; 80], 100), None);
    }

    #[test]
    fn values_are_picked_wherever_tokens_begin() {
        let table = Table::read(&[1, 4, 2], b"abcdexy").unwrap();
        // "bcde", "a", "xy", "bcde", "a" as values that do not keep to tokens.
        let (codes, lengths) = ([1, 0, 2, 1, 0], [3, 0, 2, 1, 0, 5, 1]);
        let text = ["bcd", "", "ea", "x", "", "ybcde", "a"];
        for bits in 0..1_u32 << text.len() {
            let wanted: Vec<usize> = (0..text.len()).filter(|index| bits >> index & 1 == 1).collect();
            let (bytes, values) = table.pick(&codes, &lengths, wanted.iter().copied()).unwrap();
            let found: Vec<&[u8]> = values.into_iter().map(|value| &bytes[value]).collect();
            assert_eq!(found, wanted.iter().map(|index| text[*index].as_bytes()).collect::<Vec<_>>());
        }
        // The same many times over, so that groups of codes are passed by.
        let (codes, lengths, text) = (codes.repeat(20), lengths.repeat(20), text.repeat(20));
        for (step, from) in (1..=140).flat_map(|step| [0, 1, step / 2, step - 1].map(|from| (step, from))) {
            let wanted = || (from..text.len()).step_by(step);
            let (bytes, values) = table.pick(&codes, &lengths, wanted()).unwrap();
            let found: Vec<&[u8]> = values.into_iter().map(|value| &bytes[value]).collect();
            assert_eq!(found, wanted().map(|index| text[index].as_bytes()).collect::<Vec<_>>(), "from {from}, each {step}th");
        }
        let short = &codes[..codes.len() - 3];
        assert!(table.pick(short, &lengths, [text.len() - 1].into_iter()).is_none(), "codes that end before a value");
        assert!(table.pick(&[1, 3], &[4], [0].into_iter()).is_none(), "a code without a token");
        assert!(table.pick(&[1], &[5], [0].into_iter()).is_none(), "a value that is longer than its codes");
        assert!(table.pick(&[1], &[4], [1].into_iter()).is_none(), "a value that is not there");
        assert!(table.pick(&[1], &[u32::MAX, 1], [1].into_iter()).is_none());
    }
}
