//! Text is looked for in codes: no more is expanded than what stands where a token holds the beginning of it.

use std::sync::OnceLock;

use arrow::array::BooleanBufferBuilder;
use memchr::memchr_iter;
use memchr::memmem::Finder;

use super::table::Table;
use super::tokens::TOKEN_MAX;
use super::{GROUP, TOKENS_MAX};
use crate::format::search::{First, Pieces};

/// Where more than one code in so many is marked, it takes longer to look at those than to expand all.
const RARE: usize = 16;

/// What is longer is looked for in text: each code is compared with what may stand behind it.
const PIECE_MAX: usize = 256;

/// What a page's tokens have of the first of some pieces of text.
#[derive(Debug)]
pub(super) struct Marks {
    /// Of each code whether the piece begins in its token.
    begins: Box<[bool; TOKENS_MAX]>,
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
    pub(super) fn new(table: &Table, piece: &[u8]) -> Self {
        let beginnings = beginnings(table, piece);
        let mut begins = Box::new([false; TOKENS_MAX]);
        for (begins, beginning) in begins.iter_mut().zip(&beginnings) {
            *begins = *beginning != Beginning::Nowhere;
        }
        let are_rare = if piece.len() > PIECE_MAX { OnceLock::from(false) } else { OnceLock::new() };
        Self { begins, beginnings, shorter: shorter(piece), are_rare }
    }

    /// Whether it takes less to look for the piece in codes like these than in what they stand for.
    pub(super) fn are_rare(&self, codes: &[u16]) -> bool {
        let is_marked = |code: &&u16| self.begins[usize::from(**code)];
        *self.are_rare.get_or_init(|| codes.iter().filter(is_marked).count() <= codes.len() / RARE)
    }

    /// Whether it is known to take more.
    pub(super) fn are_common(&self) -> bool {
        self.are_rare.get() == Some(&false)
    }

    /// Calls back with the index of each code that is marked.
    fn each_marked(&self, codes: &[u16], mut each: impl FnMut(usize)) {
        for (first, group) in (0..).step_by(GROUP).zip(codes.chunks(GROUP)) {
            // Most groups have none, and one look at all of them says so.
            if group.iter().fold(false, |any, &code| any | self.begins[usize::from(code)]) {
                (first..).zip(group).filter(|(_, code)| self.begins[usize::from(**code)]).for_each(|(index, _)| each(index));
            }
        }
    }

    /// From the most bytes that a token ends with and the piece begins with to the least.
    fn ends(&self, most: u8) -> impl Iterator<Item = usize> {
        let next = |length: &u8| self.shorter.get(usize::from(*length)).copied().filter(|shorter| *shorter > 0);
        std::iter::successors(Some(most), next).map(usize::from)
    }
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

/// Whether a value of so many codes may have the pieces.
pub(super) fn may_have(pieces: &Pieces, count: usize) -> bool {
    pieces.may_be_in_one_of(count..=count.saturating_mul(TOKEN_MAX))
}

/// What to look for anywhere, and what tokens have of it.
pub(super) struct Begin<'a> {
    pub(super) piece: &'a Finder<'static>,
    pub(super) marks: &'a Marks,
}

/// A block: the codes of its text, which all stand for tokens, and how many of them each value has.
pub(super) struct Block<'a> {
    pub(super) table: &'a Table,
    pub(super) codes: &'a [u16],
    pub(super) counts: &'a [u32],
}

impl Block<'_> {
    /// Sets the bits, from one on, of the values that have the pieces, the first of which stands anywhere.
    pub(super) fn find(&self, pieces: &Pieces, begin: &Begin<'_>, first: usize, found: &mut BooleanBufferBuilder) {
        let piece = begin.piece.needle().len();
        // The value that has been come to, counted from one, where it ends, and where the last one ends in which the piece was found.
        let (mut value, mut end, mut known) = (0, 0, 0);
        let mut rest = Vec::new();
        begin.marks.each_marked(self.codes, |index| {
            if index < known {
                return;
            }
            while let Some(count) = self.counts.get(value).filter(|_| end <= index) {
                value += 1;
                end += *count as usize;
            }
            let codes = self.codes.get(index..end).unwrap_or_default();
            let Some(offset) = self.first_place(codes, begin, &mut rest) else { return };
            // What does not follow where a piece is found first does not where it is found again.
            known = end;
            let follows = pieces.is_one() || pieces.follow(self.text(codes, offset + piece, usize::MAX, &mut rest));
            found.set_bit(first + value - 1, follows);
        });
    }

    /// The same where the only piece is this text and stands at the beginning, or is all.
    pub(super) fn find_beginning(&self, pieces: &Pieces, text: &[u8], first: usize, found: &mut BooleanBufferBuilder) {
        let mut rest = self.codes;
        let is_all = |codes: &[u16]| !matches!(pieces.first(), First::Is(_)) || self.table.length(codes) == text.len();
        for (value, &count) in self.counts.iter().enumerate() {
            let codes = rest.split_off(..count as usize).unwrap_or_default();
            if may_have(pieces, codes.len()) && self.goes_on(codes, text) && is_all(codes) {
                found.set_bit(first + value, true);
            }
        }
    }

    /// Where the first piece begins in the token of the first of the codes from one of a value on, if it does.
    fn first_place(&self, codes: &[u16], Begin { piece, marks }: &Begin<'_>, text: &mut Vec<u8>) -> Option<usize> {
        let (&code, others) = codes.split_first()?;
        let length = self.table.token(code).len();
        match marks.beginnings.get(usize::from(code))? {
            Beginning::Nowhere => None,
            Beginning::Once(offset) => Some(usize::from(*offset)),
            Beginning::End(most) => {
                let goes_on = |end: &usize| piece.needle().get(*end..).is_some_and(|rest| self.goes_on(others, rest));
                marks.ends(*most).find(goes_on).map(|end| length - end)
            }
            Beginning::Several => piece.find(self.text(codes, 0, length + piece.needle().len() - 1, text)),
        }
    }

    /// Up to so many bytes of what codes stand for, without those before them.
    fn text<'a>(&self, codes: &[u16], skip: usize, length: usize, text: &'a mut Vec<u8>) -> &'a [u8] {
        text.clear();
        for &code in codes {
            if text.len() >= skip.saturating_add(length) {
                break;
            }
            text.extend_from_slice(self.table.token(code));
        }
        text.get(skip..text.len().min(skip.saturating_add(length))).unwrap_or_default()
    }

    /// Whether what codes stand for begins with these bytes.
    fn goes_on(&self, codes: &[u16], mut bytes: &[u8]) -> bool {
        for &code in codes {
            let token = self.table.token(code);
            if bytes.len() <= token.len() {
                return token.starts_with(bytes);
            }
            match bytes.strip_prefix(token) {
                Some(rest) => bytes = rest,
                None => return false,
            }
        }
        bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the values that the codes stand for have the pieces of a pattern.
    fn found(tokens: &[&str], codes: &[u16], counts: &[u32], pattern: &str) -> Vec<usize> {
        let token_lengths: Vec<u8> = tokens.iter().map(|token| u8::try_from(token.len()).unwrap()).collect();
        let table = Table::read(&token_lengths, tokens.concat().as_bytes()).unwrap();
        let pieces = Pieces::of_like(pattern).unwrap();
        let mut found = BooleanBufferBuilder::new(0);
        found.append_n(counts.len() + 1, false);
        let block = Block { table: &table, codes, counts };
        match pieces.first() {
            First::Anywhere(piece) => block.find(&pieces, &Begin { piece, marks: &Marks::new(&table, piece.needle()) }, 1, &mut found),
            First::Begins(text) | First::Is(text) => block.find_beginning(&pieces, text, 1, &mut found),
        }
        assert!(!found.get_bit(0));
        found.finish().set_indices().map(|index| index - 1).collect()
    }

    #[test]
    fn tokens_are_marked_in_which_a_needle_begins() {
        let tokens = ["goo", "x", "google", "agoo", "gle", "gog", "ggg", "goat", "oogl", "g", "xxgoogxx"];
        let lengths: Vec<u8> = tokens.iter().map(|token| u8::try_from(token.len()).unwrap()).collect();
        let table = Table::read(&lengths, tokens.concat().as_bytes()).unwrap();
        let marked = |piece: &str| {
            let marks = Marks::new(&table, piece.as_bytes());
            assert!(!marks.begins[tokens.len()..].contains(&true));
            tokens.iter().zip(&*marks.begins).filter(|(_, begins)| **begins).map(|(token, _)| *token).collect::<Vec<_>>()
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
    fn a_needle_lies_in_one_value() {
        // "googlegoo", "gle", "", "g", "google".
        let (tokens, codes) = (["goo", "gle", "g", "oogle"], [0, 1, 0, 1, 2, 0, 1]);
        assert_eq!(found(&tokens, &codes, &[3, 1, 0, 1, 2], "%google%"), [0, 4]);
        assert_eq!(found(&tokens, &codes, &[3, 1, 0, 1, 2], "%egoo%"), [0]);
        assert_eq!(found(&tokens, &codes, &[7], "%google%"), [0]);
        assert_eq!(found(&tokens, &codes, &[1, 1, 2, 2, 1], "%oogle%"), [2]);
        assert_eq!(found(&tokens, &codes, &[1, 6], "%gg%"), [1]);
        // Where the longest beginning of it leads nowhere, a shorter one may.
        assert_eq!(found(&["aa", "ab"], &[0, 1], &[2], "%aab%"), [0]);
        assert_eq!(found(&["aa", "ab"], &[0, 1], &[1, 1], "%aab%"), [0; 0]);
        // Several times in a token.
        assert_eq!(found(&["ggggg", "gg-gg"], &[0, 1, 1, 0, 1], &[1, 1, 2, 1], "%ggg%"), [0, 2]);
        assert_eq!(found(&["x", "aaaaaaaaaaaaaaaa"], &[1, 1, 1, 0], &[3, 1], &format!("%{}%", "a".repeat(36))), [0]);
        assert_eq!(found(&["x", "aaaaaaaaaaaaaaaa"], &[1, 1, 1, 0], &[2, 2], &format!("%{}%", "a".repeat(36))), [0; 0]);
        assert_eq!(found(&["ab", "cd"], &[], &[], "%a%"), [0; 0]);
        assert_eq!(found(&["ab", "cd"], &[1; 700], &[350; 2], "%dcdc%"), [0, 1]);
        assert_eq!(found(&["ab", "cd"], &[&[1; 600][..], &[0], &[1; 600]].concat(), &[1; 1201], "%b%"), [600]);
    }

    #[test]
    fn values_have_all_pieces_in_their_order() {
        let (tokens, counts) = (["special ", "requests", "a"], [3, 3, 2]);
        let codes = [0, 1, 2, 1, 2, 0, 0, 1];
        assert_eq!(found(&tokens, &codes, &counts, "%special%requests%"), [0, 2]);
        assert_eq!(found(&tokens, &codes, &counts, "%requests%special%"), [1]);
        assert_eq!(found(&tokens, &codes, &counts, "%special%requests"), [2]);
        // Twice in a value, and what follows stands between the two.
        assert_eq!(found(&tokens, &[0, 2, 0, 1, 0, 0], &[4, 2], "%special%r%"), [0]);
        assert_eq!(found(&tokens, &[0, 1, 0], &[3], "%special%r%"), [0]);
    }

    #[test]
    fn values_begin_with_a_text_or_are_it_whatever_the_tokens_are() {
        // "googlegoo", "gle", "", "g", "google", "".
        let (tokens, codes, counts) = (["goo", "gle", "g", "oogle"], [0, 1, 0, 1, 2, 0, 1], [3, 1, 0, 1, 2, 0]);
        let find = |pattern: &str| found(&tokens, &codes, &counts, pattern);
        assert_eq!((find("go%"), find("g%"), find("google%"), find("googleg%")), (vec![0, 4], vec![0, 1, 3, 4], vec![0, 4], vec![0]));
        assert_eq!((find("gle"), find(""), find("g"), find("google"), find("oogle")), (vec![1], vec![2, 5], vec![3], vec![4], vec![]));
        assert_eq!((find("goo"), find("googl"), find("googlegoogle"), find("x%")), (vec![], vec![], vec![], vec![]));
        // As many codes can stand for no text so short, or so long.
        assert!(!may_have(&Pieces::of_text("gg"), 3) && may_have(&Pieces::of_text("gg"), 2));
        assert!(!may_have(&Pieces::of_text(&"g".repeat(17)), 1) && may_have(&Pieces::of_text(&"g".repeat(16)), 1));
    }
}
