//! Text is looked for in codes: no more is expanded than what stands where a token holds the beginning of it.

use std::sync::OnceLock;

use arrow::array::BooleanBufferBuilder;
use memchr::memchr_iter;
use memchr::memmem::Finder;

use super::table::Table;
use super::tokens::TOKEN_MAX;
use super::{GROUP, TOKENS_MAX};
use crate::format::search::Pieces;

/// Where more than one code in so many is marked, it takes longer to look at those than to expand all.
const RARE: usize = 16;

/// What is longer is looked for in text: each code is compared with what may stand behind it.
const PIECE_MAX: usize = 256;

/// What a page's tokens have of the first of some pieces of text.
#[derive(Debug)]
pub(super) struct Marks {
    /// Of each code the length of its token, and whether the piece [begins](Self::BEGINS) in it. Codes without a token are shorter than any token.
    tokens: Box<[u8; TOKENS_MAX]>,
    /// Of each token, where.
    beginnings: Vec<Beginning>,
    /// Of so many bytes that the piece begins with, the most less than all that it begins with, too, and these end with.
    shorter: Vec<u8>,
    /// Whether few codes are marked, judged by those that were looked at first.
    are_rare: OnceLock<bool>,
}

/// Where a piece begins in a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beginning {
    Nowhere,
    /// The token ends with so many bytes of it, and no more.
    End(u8),
    /// All of it stands behind so many bytes, and nowhere else does another begin.
    Once(u8),
    /// In several places.
    Several,
}

impl Marks {
    const BEGINS: u8 = 1 << 7;

    pub(super) fn new(table: &Table, piece: &[u8]) -> Self {
        let beginnings = beginnings(table, piece);
        let mut tokens = Box::new([0; TOKENS_MAX]);
        for (mark, (length, beginning)) in tokens.iter_mut().zip(table.lengths().zip(&beginnings)) {
            *mark = length | if *beginning == Beginning::Nowhere { 0 } else { Self::BEGINS };
        }
        let are_rare = if piece.len() > PIECE_MAX { OnceLock::from(false) } else { OnceLock::new() };
        Self { tokens, beginnings, shorter: shorter(piece), are_rare }
    }

    /// Whether it takes less to look for the piece in codes like these than in what they stand for.
    pub(super) fn are_rare(&self, codes: &[u16]) -> bool {
        let is_marked = |code: &&u16| self.tokens[usize::from(**code)] >= Self::BEGINS;
        *self.are_rare.get_or_init(|| codes.iter().filter(is_marked).count() <= codes.len() / RARE)
    }

    /// Whether it is known to take more.
    pub(super) fn are_common(&self) -> bool {
        self.are_rare.get() == Some(&false)
    }

    /// Calls back with the index of each code that is marked and the bytes that stand before it, and gives the bytes of all.
    fn each_marked(&self, codes: &[u16], mut each: impl FnMut(usize, usize)) -> usize {
        const FLAGS: u64 = u64::from_le_bytes([Marks::BEGINS; GROUP]);
        let (groups, rest) = codes.as_chunks::<GROUP>();
        let mut at = 0;
        for (first, group) in (0..).step_by(GROUP).zip(groups) {
            let marks = u64::from_le_bytes(group.map(|code| self.tokens[usize::from(code)]));
            let lengths = marks & !FLAGS;
            let mut flags = marks & FLAGS;
            while flags != 0 {
                let index = flags.trailing_zeros() / u8::BITS;
                let before = lengths & ((1 << (index * u8::BITS)) - 1);
                each(first + index as usize, at + sum(before));
                flags &= flags - 1;
            }
            at += sum(lengths);
        }
        for (index, &code) in (codes.len() - rest.len()..).zip(rest) {
            let mark = self.tokens[usize::from(code)];
            if mark >= Self::BEGINS {
                each(index, at);
            }
            at += usize::from(mark % Self::BEGINS);
        }
        at
    }

    /// From the most bytes that a token ends with and the piece begins with to the least.
    fn ends(&self, most: u8) -> impl Iterator<Item = usize> {
        let next = |length: &u8| self.shorter.get(usize::from(*length)).copied().filter(|shorter| *shorter > 0);
        std::iter::successors(Some(most), next).map(usize::from)
    }
}

/// The sum of eight bytes, which is one: the lengths of eight tokens are no more than 128.
fn sum(bytes: u64) -> usize {
    (bytes.wrapping_mul(u64::from_le_bytes([1; 8])) >> (u64::BITS - u8::BITS)) as usize
}

fn beginnings(table: &Table, piece: &[u8]) -> Vec<Beginning> {
    let mut found = vec![Beginning::Nowhere; table.len()];
    let mut tokens = found.iter_mut().zip(table.lengths());
    // The token that has been come to, and where it starts and ends.
    let (mut token, mut start, mut end) = (None, 0, 0);
    for at in memchr_iter(piece.first().copied().unwrap_or_default(), table.bytes()) {
        while end <= at {
            let Some((next, length)) = tokens.next() else { return found };
            (start, end) = (end, end + usize::from(length));
            token = Some(next);
        }
        let (Some(known), Some(rest)) = (&mut token, table.bytes().get(at..end)) else { continue };
        // No more than `TOKEN_MAX`.
        let byte = |length: usize| u8::try_from(length).unwrap_or(u8::MAX);
        let (is_all, is_end) = (rest.starts_with(piece), piece.starts_with(rest));
        **known = match **known {
            Beginning::Nowhere if is_all => Beginning::Once(byte(at - start)),
            Beginning::Nowhere if is_end => Beginning::End(byte(rest.len())),
            Beginning::Once(_) if is_all || is_end => Beginning::Several,
            // Of what a token ends with, what was found first is the longest.
            known => known,
        };
    }
    found
}

/// Of each length up to a token's: the longest beginning of the piece that ends its first so many bytes and is shorter. The failure function of Knuth, Morris and Pratt.
fn shorter(piece: &[u8]) -> Vec<u8> {
    let of_length = |length: usize| {
        let beginning = piece.get(..length).unwrap_or_default();
        let ends = |other: &usize| piece.get(..*other).is_some_and(|other| beginning.ends_with(other));
        (1..length).rev().find(ends).and_then(|longest| u8::try_from(longest).ok()).unwrap_or_default()
    };
    (0..=piece.len().min(TOKEN_MAX)).map(of_length).collect()
}

/// What to look for anywhere, and what tokens have of it.
pub(super) struct Begin<'a> {
    pub(super) piece: &'a Finder<'static>,
    pub(super) marks: &'a Marks,
}

/// A block: the codes of its text, and the lengths of its values.
pub(super) struct Block<'a> {
    pub(super) table: &'a Table,
    pub(super) codes: &'a [u16],
    pub(super) lengths: &'a [u32],
}

impl Block<'_> {
    /// Sets the bits, from one on, of the values that have the pieces, the first of which stands anywhere. `None` where the codes are not theirs.
    pub(super) fn find(&self, pieces: &Pieces, begin: &Begin<'_>, first: usize, found: &mut BooleanBufferBuilder) -> Option<()> {
        let Begin { piece: finder, marks } = begin;
        let piece = finder.needle().len();
        // The value that has been come to, counted from one, where it ends, and where the last one ends in which the piece was found.
        let (mut value, mut end, mut known) = (0, 0, 0);
        let (mut window, mut rest) = (Vec::new(), Vec::new());
        let all = marks.each_marked(self.codes, |index, at| {
            if at + TOKEN_MAX <= known {
                return;
            }
            self.each_place(index, begin, &mut window, |offset| {
                let place = at + offset;
                while let Some(length) = self.lengths.get(value).filter(|_| end <= place) {
                    value += 1;
                    end += *length as usize;
                }
                // What stands in two values is in neither. What does not follow where a piece is found first does not where it is found again.
                if place >= known && place + piece <= end {
                    known = end;
                    let follows = pieces.is_one() || pieces.follow(self.text(index, offset + piece, end - place - piece, &mut rest));
                    found.set_bit(first + value - 1, follows);
                }
            });
        });
        let length = self.lengths.iter().map(|length| *length as usize).sum::<usize>();
        (all == length && self.table.has(self.codes)).then_some(())
    }

    /// The same where the only piece is this text and stands at the beginning, or is all.
    pub(super) fn find_beginning(&self, pieces: &Pieces, text: &[u8], first: usize, found: &mut BooleanBufferBuilder) -> Option<()> {
        if !self.table.has(self.codes) {
            return None;
        }
        // The code that has been come to, and where its token and the value begin.
        let (mut next, mut at, mut start) = (0, 0, 0);
        for (value, &length) in self.lengths.iter().enumerate() {
            if pieces.may_be_in(length as usize) {
                while let Some(&code) = self.codes.get(next).filter(|code| at + self.table.length(**code) <= start) {
                    at += self.table.length(code);
                    next += 1;
                }
                if self.stands_at(next, start - at, text) {
                    found.set_bit(first + value, true);
                }
            }
            start += length as usize;
        }
        let all = at + self.codes.get(next..)?.iter().map(|code| self.table.length(*code)).sum::<usize>();
        (all == start).then_some(())
    }

    /// Whether this text stands where the token of a code has left so many bytes behind.
    fn stands_at(&self, index: usize, skip: usize, text: &[u8]) -> bool {
        let Some(token) = self.codes.get(index).and_then(|code| self.table.token(*code).get(skip..)) else { return text.is_empty() };
        match text.strip_prefix(token) {
            Some(rest) => rest.is_empty() || self.goes_on(index + 1, rest),
            None => token.starts_with(text),
        }
    }

    /// Calls back with where the first piece begins in the token of a code, from the first place to the last.
    fn each_place(&self, index: usize, Begin { piece, marks }: &Begin<'_>, window: &mut Vec<u8>, mut each: impl FnMut(usize)) {
        let Some(&code) = self.codes.get(index) else { return };
        let length = self.table.length(code);
        match marks.beginnings.get(usize::from(code)).unwrap_or(&Beginning::Nowhere) {
            Beginning::Nowhere => {}
            Beginning::Once(offset) => each(usize::from(*offset)),
            Beginning::End(most) => {
                let goes_on = |end: &usize| piece.needle().get(*end..).is_some_and(|rest| self.goes_on(index + 1, rest));
                marks.ends(*most).filter(goes_on).for_each(|end| each(length - end));
            }
            Beginning::Several => {
                let text = self.text(index, 0, length + piece.needle().len() - 1, window);
                let mut from = 0;
                while let Some(next) = text.get(from..).and_then(|text| piece.find(text)) {
                    each(from + next);
                    from += next + 1;
                }
            }
        }
    }

    /// Up to so many bytes, from one of the token of a code on.
    fn text<'a>(&self, index: usize, skip: usize, length: usize, text: &'a mut Vec<u8>) -> &'a [u8] {
        text.clear();
        for &code in self.codes.get(index..).unwrap_or_default() {
            if text.len() >= skip + length {
                break;
            }
            text.extend_from_slice(self.table.token(code));
        }
        text.get(skip..text.len().min(skip + length)).unwrap_or_default()
    }

    /// Whether the text of the codes from one on begins with these bytes.
    fn goes_on(&self, index: usize, mut bytes: &[u8]) -> bool {
        for &code in self.codes.get(index..).unwrap_or_default() {
            let token = self.table.token(code);
            if bytes.len() <= token.len() {
                return token.starts_with(bytes);
            }
            match bytes.strip_prefix(token) {
                Some(rest) => bytes = rest,
                None => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::search::First;

    /// Which of the values that the codes stand for have the pieces of a pattern, and `None` where they do not stand for them.
    fn found(tokens: &[&str], codes: &[u16], lengths: &[u32], pattern: &str) -> Option<Vec<usize>> {
        let token_lengths: Vec<u8> = tokens.iter().map(|token| u8::try_from(token.len()).unwrap()).collect();
        let table = Table::read(&token_lengths, tokens.concat().as_bytes()).unwrap();
        let pieces = Pieces::of_like(pattern).unwrap();
        let mut found = BooleanBufferBuilder::new(0);
        found.append_n(lengths.len() + 1, false);
        let block = Block { table: &table, codes, lengths };
        match pieces.first() {
            First::Anywhere(piece) => block.find(&pieces, &Begin { piece, marks: &Marks::new(&table, piece.needle()) }, 1, &mut found)?,
            First::Begins(text) | First::Is(text) => block.find_beginning(&pieces, text, 1, &mut found)?,
        }
        assert!(!found.get_bit(0));
        Some(found.finish().set_indices().map(|index| index - 1).collect())
    }

    #[test]
    fn tokens_are_marked_in_which_a_needle_begins() {
        let tokens = ["goo", "x", "google", "agoo", "gle", "gog", "ggg", "goat", "oogl", "g", "xxgoogxx"];
        let lengths: Vec<u8> = tokens.iter().map(|token| u8::try_from(token.len()).unwrap()).collect();
        let table = Table::read(&lengths, tokens.concat().as_bytes()).unwrap();
        let marked = |piece: &str| {
            let marks = Marks::new(&table, piece.as_bytes());
            assert!(marks.tokens.iter().map(|mark| mark % Marks::BEGINS).eq(lengths.iter().copied().chain([0; TOKENS_MAX]).take(TOKENS_MAX)));
            tokens.iter().zip(&*marks.tokens).filter(|(_, mark)| **mark >= Marks::BEGINS).map(|(token, _)| *token).collect::<Vec<_>>()
        };
        assert_eq!(marked("google"), ["goo", "google", "agoo", "gog", "ggg", "g"]);
        assert_eq!(marked("xg"), ["x", "xxgoogxx"]);
        let marks = Marks::new(&table, b"ggg");
        let beginnings = [(2, Beginning::Nowhere), (5, Beginning::End(1)), (6, Beginning::Several), (9, Beginning::End(1))];
        assert_eq!(beginnings.map(|(token, _)| (token, marks.beginnings[token])), beginnings);
        assert_eq!(Marks::new(&table, b"oa").beginnings[7], Beginning::Once(1));
        assert_eq!(shorter(b"aabaaab"), [0, 0, 1, 0, 1, 2, 2, 3]);
        assert_eq!(marked("q"), [""; 0]);
    }

    #[test]
    fn a_needle_lies_in_one_value_whatever_the_tokens_are() {
        // "googlegoo", "gle", "", "gog", "oogle" as values that do not keep to tokens.
        let (tokens, codes) = (["goo", "gle", "g", "oogle"], [0, 1, 0, 1, 2, 0, 1]);
        assert_eq!(found(&tokens, &codes, &[9, 3, 0, 3, 4], "%google%").unwrap(), [0]);
        assert_eq!(found(&tokens, &codes, &[19], "%google%").unwrap(), [0]);
        assert_eq!(found(&tokens, &codes, &[1, 5, 1, 5, 7], "%oogle%").unwrap(), [1, 3, 4]);
        assert_eq!(found(&tokens, &codes, &[5, 1, 6, 1, 6], "%oogle%").unwrap(), [2, 4]);
        // Where the longest beginning of it leads nowhere, a shorter one may.
        assert_eq!(found(&["aa", "ab"], &[0, 1], &[4], "%aab%").unwrap(), [0]);
        assert_eq!(found(&["aa", "ab"], &[0, 1], &[1, 3], "%aab%").unwrap(), [1]);
        // Twice in a token, of which the first is cut in two.
        assert_eq!(found(&["ggggg"], &[0], &[1, 4], "%ggg%").unwrap(), [1]);
        assert_eq!(found(&["x", "aaaaaaaaaaaaaaaa"], &[1, 1, 1, 0], &[10, 36, 3], &format!("%{}%", "a".repeat(36))).unwrap(), [1]);
    }

    #[test]
    fn values_have_all_pieces_in_their_order() {
        let (tokens, lengths) = (["special ", "requests", "a"], [17, 17, 16]);
        let codes = [0, 1, 2, 1, 2, 0, 0, 1];
        assert_eq!(found(&tokens, &codes, &lengths, "%special%requests%").unwrap(), [0, 2]);
        assert_eq!(found(&tokens, &codes, &lengths, "%requests%special%").unwrap(), [1]);
        assert_eq!(found(&tokens, &codes, &lengths, "%special%requests").unwrap(), [2]);
    }

    #[test]
    fn values_begin_with_a_text_or_are_it_whatever_the_tokens_are() {
        // "googlegoo", "gle", "", "ggo", "ogle", "".
        let (tokens, codes, lengths) = (["goo", "gle", "g", "oogle"], [0, 1, 0, 1, 2, 0, 1], [9, 3, 0, 3, 4, 0]);
        let find = |pattern: &str| found(&tokens, &codes, &lengths, pattern).unwrap();
        assert_eq!((find("go%"), find("g%"), find("google%"), find("googleg%")), (vec![0], vec![0, 1, 3], vec![0], vec![0]));
        assert_eq!((find("gle"), find(""), find("ggo"), find("ogle"), find("oogle")), (vec![1], vec![2, 5], vec![3], vec![4], vec![]));
        assert!(find("x%").is_empty());
        for (codes, lengths) in [(&[0, 1][..], &[3][..]), (&[0, 1], &[5]), (&[0, 4], &[6]), (&[0], &[3, 3]), (&[], &[1])] {
            for pattern in ["goo", "goo%", "gle%"] {
                assert_eq!(found(&tokens, codes, lengths, pattern), None, "{codes:?} {lengths:?}");
            }
        }
    }

    #[test]
    fn codes_that_do_not_stand_for_the_values_are_refused() {
        for (codes, lengths) in [(&[0, 1][..], &[3][..]), (&[0, 1], &[5]), (&[0, 2], &[2]), (&[2], &[]), (&[0], &[u32::MAX, 1])] {
            assert_eq!(found(&["ab", "cd"], codes, lengths, "%a%"), None, "{codes:?} {lengths:?}");
        }
        assert_eq!(found(&["ab", "cd"], &[], &[], "%a%"), Some(Vec::new()));
        assert_eq!(found(&["ab", "cd"], &[1; 700], &[700; 2], "%dcdc%").unwrap(), [0, 1]);
        assert_eq!(found(&["ab", "cd"], &[&[1; 600][..], &[0], &[1; 600]].concat(), &[2; 1201], "%b%").unwrap(), [600]);
    }
}
