//! The tokens of a page, and text that codes of them stand for.

use std::ops::Range;

use super::GROUP;
use super::tokens::TOKEN_MAX;

/// What a group may write to: its tokens, and what is stored beyond the last one's end.
pub(super) const WINDOW: usize = (GROUP + 1) * TOKEN_MAX;

/// Where a token is: its first byte, and in the lowest bits its length.
#[derive(Debug, Clone, Copy, Default)]
struct Place(u32);

impl Place {
    const LENGTH_BITS: u32 = 5;

    #[inline]
    fn start(self) -> usize {
        (self.0 >> Self::LENGTH_BITS) as usize
    }

    #[inline]
    fn length(self) -> usize {
        (self.0 & ((1 << Self::LENGTH_BITS) - 1)) as usize
    }
}

#[derive(Debug)]
pub(super) struct Table {
    /// The bytes of all tokens, and behind them as many as the longest may have.
    bytes: Vec<u8>,
    /// Of each token.
    places: Vec<Place>,
    pub(super) ascii: bool,
}

impl Table {
    /// `None` if lengths and bytes contradict each other.
    pub(super) fn read(lengths: &[u8], bytes: &[u8]) -> Option<Self> {
        let mut start = 0_u32;
        let mut places = Vec::with_capacity(lengths.len());
        for &length in lengths {
            let length = u32::from(length);
            // There are no more than 2¹⁶ tokens, so that their ends need no more than 21 bits.
            if length == 0 || length as usize > TOKEN_MAX || start > u32::MAX >> (Place::LENGTH_BITS + 1) {
                return None;
            }
            places.push(Place(start << Place::LENGTH_BITS | length));
            start += length;
        }
        if start as usize != bytes.len() {
            return None;
        }
        let mut padded = Vec::with_capacity(bytes.len() + TOKEN_MAX);
        padded.extend_from_slice(bytes);
        padded.resize(bytes.len() + TOKEN_MAX, 0);
        Some(Self { bytes: padded, places, ascii: bytes.is_ascii() })
    }

    /// How many tokens there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The bytes of all tokens, one behind the other.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.bytes.len().saturating_sub(TOKEN_MAX)).unwrap_or_default()
    }

    /// How many of them each token has.
    pub(super) fn lengths(&self) -> impl Iterator<Item = u8> {
        // No token is longer than `TOKEN_MAX`.
        self.places.iter().map(|place| u8::try_from(place.length()).unwrap_or(u8::MAX))
    }

    /// Writes no more than some of the values that codes stand for, and gives where each of them is. `None` where the codes are not theirs.
    pub(super) fn pick(&self, codes: &[u16], lengths: &[u32], wanted: impl Iterator<Item = usize>) -> Option<(Vec<u8>, Vec<Range<usize>>)> {
        if !self.has(codes) {
            return None;
        }
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
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
            // Lengths of several are added up side by side, as those of one after the other are not.
            while let Some(group) = codes.get(next..next + GROUP) {
                let length: usize = group.iter().map(|code| self.length(*code)).sum();
                if at + length > start {
                    break;
                }
                at += length;
                next += GROUP;
            }
            while let Some(&code) = codes.get(next).filter(|code| at + self.length(**code) <= start) {
                at += self.length(code);
                next += 1;
            }
            // A value may begin within a token, and end within one that the next value needs again.
            let first = bytes.len() + (start - at);
            let (mut code, mut reached) = (next, at);
            while reached < end {
                let token = self.token(*codes.get(code)?);
                bytes.extend_from_slice(token);
                reached += token.len();
                code += 1;
            }
            values.push(first..first + (end - start));
        }
        Some((bytes, values))
    }

    /// Writes what codes stand for at `at`, and gives the end of it; `None` where there is no such code, or no room and a window more for all.
    pub(super) fn expand(&self, codes: &[u16], out: &mut [u8], mut at: usize) -> Option<usize> {
        if !self.has(codes) {
            return None;
        }
        let (groups, rest) = codes.as_chunks::<GROUP>();
        for group in groups {
            at += self.expand_group(group, out.get_mut(at..)?.first_chunk_mut()?);
        }
        for &code in rest {
            let (bytes, length) = self.window(code);
            out.get_mut(at..)?.first_chunk_mut::<TOKEN_MAX>()?.copy_from_slice(bytes);
            at += length;
        }
        Some(at)
    }

    pub(super) fn has(&self, codes: &[u16]) -> bool {
        codes.iter().copied().max().is_none_or(|greatest| usize::from(greatest) < self.places.len())
    }

    pub(super) fn length(&self, code: u16) -> usize {
        self.place(code).length()
    }

    /// Each token is stored as sixteen bytes, and the next one over those that are not its own.
    #[inline]
    fn expand_group(&self, group: &[u16; GROUP], window: &mut [u8; WINDOW]) -> usize {
        let mut end = 0;
        for &code in group {
            let (bytes, length) = self.window(code);
            // The remainder only tells the compiler what the lengths of tokens see to.
            let start = end % (GROUP * TOKEN_MAX);
            window[start..start + TOKEN_MAX].copy_from_slice(bytes);
            end += length;
        }
        end
    }

    /// Where the token of a code is that has been checked.
    #[inline]
    fn place(&self, code: u16) -> Place {
        self.places.get(usize::from(code)).copied().unwrap_or_default()
    }

    /// The token of a code that has been checked, what lies behind it up to the length of the longest, and its length.
    #[inline]
    fn window(&self, code: u16) -> (&[u8; TOKEN_MAX], usize) {
        let place = self.place(code);
        let bytes = self.bytes.get(place.start()..).and_then(<[u8]>::first_chunk).unwrap_or(&[0; TOKEN_MAX]);
        (bytes, place.length())
    }

    /// The token of a code that has been checked.
    #[inline]
    pub(super) fn token(&self, code: u16) -> &[u8] {
        let place = self.place(code);
        self.bytes.get(place.start()..place.start() + place.length()).unwrap_or_default()
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
