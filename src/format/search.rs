//! Strings that have some pieces of text in them. What may stand anywhere is looked for in the buffers that strings share, and not in one string after the other.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use arrow::array::StringViewArray;
use arrow::buffer::{BooleanBuffer, Buffer};
use memchr::memmem::Finder;

/// The longest view that has its string within itself.
const INLINE: usize = 12;

/// The most bytes that are searched at once, beyond the end of the string that is asked about.
const AHEAD: usize = 1 << 16;

/// Strings that are looked at together: a word of bits says which have what is looked for.
const GROUP: usize = 64;
/// Where as many of a group have it, those of the next one are searched one by one: there is next to nothing to be passed by at once.
const DENSE: u32 = 48;

/// Pieces that a string has in it one behind the other, and what it ends with.
#[derive(Debug)]
pub struct Pieces {
    /// Tells them from others.
    key: Arc<str>,
    first: First,
    others: Vec<Finder<'static>>,
    end: Vec<u8>,
}

/// The piece that stands before all others.
#[derive(Debug)]
pub(super) enum First {
    Anywhere(Box<Finder<'static>>),
    /// At the beginning of a string.
    Begins(Vec<u8>),
    /// All of a string: there are no others.
    Is(Vec<u8>),
}

impl Pieces {
    /// `LIKE` patterns that ask for nothing but text, and not only for what strings end with, which stands behind the last `%`. `None` for others.
    pub fn of_like(pattern: &str) -> Option<Self> {
        if pattern.contains(['_', '\\']) {
            return None;
        }
        let Some((begin, rest)) = pattern.split_once('%') else { return Some(Self::of_text(pattern)) };
        let (middle, end) = rest.rsplit_once('%').unwrap_or(("", rest));
        let mut middle = middle.split('%').filter(|piece| !piece.is_empty()).map(|piece| Finder::new(piece).into_owned());
        let first = if begin.is_empty() { First::Anywhere(Box::new(middle.next()?)) } else { First::Begins(begin.as_bytes().to_vec()) };
        Some(Self { key: format!("~{pattern}").into(), first, others: middle.collect(), end: end.as_bytes().to_vec() })
    }

    /// Strings that are this one.
    pub fn of_text(text: &str) -> Self {
        Self { key: format!("={text}").into(), first: First::Is(text.as_bytes().to_vec()), others: Vec::new(), end: Vec::new() }
    }

    /// What tells them from others.
    pub(crate) fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// The one that stands before the others.
    pub(super) fn first(&self) -> &First {
        &self.first
    }

    /// Whether there is no other, and strings may end with anything.
    pub(super) fn is_one(&self) -> bool {
        self.others.is_empty() && self.end.is_empty()
    }

    /// Whether the first of them may stand anywhere in a string.
    pub fn is_anywhere(&self) -> bool {
        matches!(self.first, First::Anywhere(_))
    }

    /// Whether it is the empty string that is looked for.
    pub(super) fn is_nothing(&self) -> bool {
        matches!(&self.first, First::Is(text) if text.is_empty())
    }

    /// Whether a string of so many bytes may have them.
    pub(super) fn may_be_in(&self, length: usize) -> bool {
        self.may_be_in_one_of(length..=length)
    }

    /// Whether a string of so many bytes at least, and at most, may have them.
    pub(super) fn may_be_in_one_of(&self, lengths: RangeInclusive<usize>) -> bool {
        match &self.first {
            First::Anywhere(piece) => piece.needle().len() <= *lengths.end(),
            First::Begins(begin) => begin.len() <= *lengths.end(),
            First::Is(text) => lengths.contains(&text.len()),
        }
    }

    /// Which strings have them. Of null it says something, too.
    pub fn found_in(&self, strings: &StringViewArray) -> BooleanBuffer {
        self.found_in_views(strings.views(), strings.data_buffers())
    }

    /// The same of strings as views; one that does not lie in its buffer has none.
    pub(super) fn found_in_views(&self, views: &[u128], buffers: &[Buffer]) -> BooleanBuffer {
        match &self.first {
            First::Anywhere(first) => self.found_anywhere(first, views, buffers),
            First::Begins(text) | First::Is(text) => {
                let head = Head::of(text);
                BooleanBuffer::collect_bool(views.len(), |row| {
                    head.begins(views[row])
                        && match View::of(views[row]) {
                            View::Inline(bytes, length) => self.are_in(&bytes[..length]),
                            View::Shared { buffer, string } => {
                                self.may_be_in(string.len())
                                    && buffers.get(buffer).and_then(|bytes| bytes.get(string)).is_some_and(|string| self.are_in(string))
                            }
                        }
                })
            }
        }
    }

    fn found_anywhere(&self, first: &Finder<'static>, views: &[u128], buffers: &[Buffer]) -> BooleanBuffer {
        let mut cursor = Cursor::new(self, first);
        let mut found: Vec<u64> = Vec::with_capacity(views.len().div_ceil(GROUP));
        for group in views.chunks(GROUP) {
            let is_dense = found.last().is_some_and(|last| last.count_ones() >= DENSE);
            let in_view = |view: &u128| match View::of(*view) {
                View::Inline(bytes, length) => self.are_in(&bytes[..length]),
                View::Shared { buffer, string } if is_dense => {
                    let string = buffers.get(buffer).and_then(|bytes| bytes.get(string));
                    string.is_some_and(|string| self.are_anywhere_in(first, string))
                }
                View::Shared { buffer, string } => buffers.get(buffer).is_some_and(|bytes| cursor.are_in(bytes, buffer, string)),
            };
            let bits = group.iter().map(in_view).zip(0..);
            found.push(bits.fold(0, |word, (is_in, bit)| word | u64::from(is_in) << bit));
        }
        BooleanBuffer::new(Buffer::from_vec(found), 0, views.len())
    }

    /// Whether a string has them.
    pub(super) fn are_in(&self, string: &[u8]) -> bool {
        match &self.first {
            First::Anywhere(first) => self.are_anywhere_in(first, string),
            First::Begins(text) => string.strip_prefix(text.as_slice()).is_some_and(|rest| self.follow(rest)),
            First::Is(text) => string.len() == text.len() && ends_with(string, text),
        }
    }

    fn are_anywhere_in(&self, first: &Finder<'static>, string: &[u8]) -> bool {
        first.find(string).is_some_and(|at| self.is_one() || self.follow(&string[at + first.needle().len()..]))
    }

    /// Whether a string that stands behind the first piece has the others and ends as it should.
    pub(super) fn follow(&self, mut rest: &[u8]) -> bool {
        for piece in &self.others {
            let Some(at) = piece.find(rest) else { return false };
            rest = &rest[at + piece.needle().len()..];
        }
        ends_with(rest, &self.end)
    }
}

/// To compare no bytes with those of an empty vector takes a processor with AVX-512 a hundred times as long as to compare some: it reads, under a mask, where there is no memory.
fn ends_with(string: &[u8], end: &[u8]) -> bool {
    end.is_empty() || string.ends_with(end)
}

/// Where a string is.
enum View {
    /// In the view, and so long.
    Inline([u8; INLINE], usize),
    Shared {
        buffer: usize,
        string: Range<usize>,
    },
}

impl View {
    fn of(view: u128) -> Self {
        // Length, prefix, buffer, offset: 32 bits each, from the lowest.
        let part = |at: u32| (view >> (32 * at) & 0xFFFF_FFFF) as usize;
        let length = part(0);
        if length <= INLINE {
            let [_, _, _, _, bytes @ ..] = view.to_le_bytes();
            return Self::Inline(bytes, length);
        }
        Self::Shared { buffer: part(2), string: part(3)..part(3) + length }
    }
}

/// The bytes of a text that are in views of strings that begin with it.
struct Head {
    bits: u128,
    mask: u128,
}

impl Head {
    const BYTES: usize = 4;

    fn of(text: &[u8]) -> Self {
        let bytes = text.iter().take(Self::BYTES);
        let of_all = |byte: fn(u8) -> u8| bytes.clone().rev().fold(0, |bits, of| bits << 8 | u128::from(byte(*of))) << 32;
        Self { bits: of_all(|byte| byte), mask: of_all(|_| u8::MAX) }
    }

    fn begins(&self, view: u128) -> bool {
        view & self.mask == self.bits
    }
}

/// How far a buffer has been searched for the first piece.
struct Cursor<'a> {
    pieces: &'a Pieces,
    first: &'a Finder<'static>,
    buffer: usize,
    /// Where the last string began and ended.
    last: Range<usize>,
    /// From the beginning of the last string up to here no match begins.
    clear: usize,
    /// One begins here.
    hit: bool,
    /// Bytes to search at once. Strings that lie close behind each other make it longer.
    window: usize,
}

impl<'a> Cursor<'a> {
    fn new(pieces: &'a Pieces, first: &'a Finder<'static>) -> Self {
        Self { pieces, first, buffer: usize::MAX, last: 0..0, clear: 0, hit: false, window: 0 }
    }

    fn are_in(&mut self, bytes: &[u8], buffer: usize, string: Range<usize>) -> bool {
        let length = self.first.needle().len();
        let Some(last) = string.end.checked_sub(length).filter(|last| *last >= string.start && string.end <= bytes.len()) else { return false };
        if buffer != self.buffer || string.start < self.last.start {
            (self.buffer, self.clear, self.hit, self.window) = (buffer, 0, false, 0);
        } else if string.start.saturating_sub(self.last.end) > string.len() {
            // More lies between the strings than in them.
            self.window = 0;
        }
        self.last = string.clone();
        if self.clear < string.start {
            (self.clear, self.hit) = (string.start, false);
        }
        if !self.hit && self.clear <= last {
            let end = bytes.len().min(string.end.max(self.clear + self.window));
            let found = self.first.find(&bytes[self.clear..end]);
            self.hit = found.is_some();
            self.clear = found.map_or(end - length + 1, |at| self.clear + at);
            self.window = AHEAD.min(2 * self.window.max(string.len()));
        }
        self.hit && self.clear <= last && self.pieces.follow(&bytes[self.clear + length..string.end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, AsArray, StringViewBuilder, UInt32Array};
    use arrow::compute::{concat, take};

    /// Words of few letters, so that pieces overlap strings' borders, in several buffers; in the order of the buffers, and in others.
    fn strings() -> Vec<StringViewArray> {
        let make = |salt: usize, block: u32| {
            let mut builder = StringViewBuilder::new().with_fixed_block_size(block);
            for row in 0..700_usize {
                let length = [3, 12, 13, 40, 200][row * 7 % 5];
                let letter = |at: usize| ['a', 'b', 'é', 'a'][(at * at * 31 + row * 17 + salt + at * row) / 3 % 4];
                builder.append_value((0..length).map(letter).collect::<String>());
            }
            builder.append_null();
            builder.append_value("");
            builder.finish()
        };
        let (one, two) = (make(0, 1 << 20), make(5, 600));
        let both = concat(&[&one, &two]).unwrap();
        let order = |step: usize| UInt32Array::from_iter_values((0..both.len()).map(|row| u32::try_from(row * step % both.len()).unwrap()));
        let orders = [1, 2, 3, 701, both.len() - 1].map(|step| take(&both, &order(step), None).unwrap());
        [one.slice(100, 500), two].into_iter().chain(orders.iter().map(|array| array.as_string_view().clone())).collect()
    }

    #[test]
    fn what_is_found_is_like_the_pattern() {
        let patterns = [
            "",
            "a",
            "aba%",
            "a%b%a",
            "abab%b%",
            "bé%",
            "%a%",
            "%aba%",
            "%ab%ba%",
            "%aa%aa%a%b%",
            "%a%b%",
            "%é%a%a%",
            "%é%",
            "%bé%a",
            "%a%aa",
            "%%b%%a%",
            "%aaaaaaaaaaaaaaaaaa%",
            "%a%é%aé",
            "%aaab%",
        ];
        for pattern in patterns {
            let pieces = Pieces::of_like(pattern).unwrap();
            for strings in strings() {
                let expected = arrow::compute::like(&strings, &StringViewArray::new_scalar(pattern)).unwrap();
                let found = pieces.found_in(&strings);
                let found: Vec<Option<bool>> = found.iter().enumerate().map(|(row, found)| strings.is_valid(row).then_some(found)).collect();
                assert_eq!(found, expected.iter().collect::<Vec<_>>(), "{pattern}");
            }
        }
    }

    #[test]
    fn a_text_is_itself_and_nothing_else() {
        for strings in strings() {
            let texts = [0, 1, 2, 3, 4, strings.len() - 1].map(|row| strings.value(row));
            for text in texts.into_iter().chain(["", "a", "a%", "_"]) {
                let expected = strings.iter().map(|string| string.is_some_and(|string| string == text)).collect::<BooleanBuffer>();
                let found = Pieces::of_text(text).found_in(&strings);
                let found: BooleanBuffer = (0..strings.len()).map(|row| found.value(row) && strings.is_valid(row)).collect();
                assert_eq!(found, expected, "{text}");
            }
        }
        assert_ne!(Pieces::of_text("a%").key(), Pieces::of_like("a%").unwrap().key());
    }

    #[test]
    fn what_lies_between_sparse_strings_is_not_searched() {
        let pieces = Pieces::of_like("%x%").unwrap();
        let buffer = vec![b'a'; 1 << 16];
        let searched = |step: usize| {
            let First::Anywhere(first) = pieces.first() else { panic!("a piece") };
            let mut cursor = Cursor { buffer: 0, ..Cursor::new(&pieces, first) };
            let beyond = (0..50).map(|row| row * step..row * step + 100).map(|string| {
                assert!(!cursor.are_in(&buffer, 0, string.clone()));
                cursor.clear - string.end
            });
            beyond.max().unwrap()
        };
        assert_eq!(searched(1000), 0);
        assert!(searched(100) > 1000);
    }

    #[test]
    fn other_patterns_are_not_pieces() {
        for pattern in ["%", "%%", "%a", "a_", "%a_%", "a\\%", "%a\\%b%"] {
            assert!(Pieces::of_like(pattern).is_none(), "{pattern}");
        }
    }
}
