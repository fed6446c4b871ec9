//! Strings that have some pieces of text in them: looked for in the buffers that strings share, and not in one string after the other.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::StringViewArray;
use arrow::buffer::{BooleanBuffer, Buffer};
use memchr::memmem::Finder;

/// The longest view that has its string within itself.
const INLINE: usize = 12;

/// The most bytes that are searched at once, beyond the end of the string that is asked about.
const AHEAD: usize = 1 << 16;

/// Pieces that a string has in it one behind the other, and what it ends with.
#[derive(Debug)]
pub struct Pieces {
    pattern: Arc<str>,
    first: Finder<'static>,
    others: Vec<Finder<'static>>,
    end: Vec<u8>,
}

impl Pieces {
    /// `LIKE` patterns that begin with `%`, have another one behind some text, and ask for nothing but text. Behind the last `%` stands what strings end with. `None` for others.
    pub fn of_like(pattern: &str) -> Option<Self> {
        let pieces = pattern.strip_prefix('%').filter(|rest| !rest.contains(['_', '\\']))?;
        let (middle, end) = pieces.rsplit_once('%')?;
        let mut middle = middle.split('%').filter(|piece| !piece.is_empty()).map(|piece| Finder::new(piece).into_owned());
        Some(Self { pattern: pattern.into(), first: middle.next()?, others: middle.collect(), end: end.as_bytes().to_vec() })
    }

    /// The pattern, which tells them from others.
    pub(crate) fn pattern(&self) -> &Arc<str> {
        &self.pattern
    }

    /// The one that stands before the others.
    pub(super) fn first(&self) -> &Finder<'static> {
        &self.first
    }

    /// Whether there is no other, and strings may end with anything.
    pub(super) fn is_one(&self) -> bool {
        self.others.is_empty() && self.end.is_empty()
    }

    /// Which strings have them. Of null it says something, too.
    pub fn found_in(&self, strings: &StringViewArray) -> BooleanBuffer {
        self.found_in_views(strings.views(), strings.data_buffers())
    }

    /// The same of strings as views; one that does not lie in its buffer has none.
    pub(super) fn found_in_views(&self, views: &[u128], buffers: &[Buffer]) -> BooleanBuffer {
        let mut cursor = Cursor { pieces: self, buffer: usize::MAX, last: 0..0, clear: 0, hit: false, window: 0 };
        BooleanBuffer::collect_bool(views.len(), |row| {
            let view = views[row];
            // Length, prefix, buffer, offset: 32 bits each, from the lowest.
            let part = |at: u32| (view >> (32 * at) & 0xFFFF_FFFF) as usize;
            let length = part(0);
            if length <= INLINE {
                let bytes = view.to_le_bytes();
                return self.are_in(&bytes[4..4 + length]);
            }
            let (buffer, start) = (part(2), part(3));
            buffers.get(buffer).is_some_and(|bytes| cursor.are_in(bytes, buffer, start..start + length))
        })
    }

    fn are_in(&self, string: &[u8]) -> bool {
        self.first.find(string).is_some_and(|at| self.follow(&string[at + self.first.needle().len()..]))
    }

    /// Whether a string that stands behind the first piece has the others and ends as it should.
    pub(super) fn follow(&self, mut rest: &[u8]) -> bool {
        for piece in &self.others {
            let Some(at) = piece.find(rest) else { return false };
            rest = &rest[at + piece.needle().len()..];
        }
        // To compare no bytes with those of an empty vector takes a processor with AVX-512 a hundred times as long as to compare some: it reads, under a mask, where there is no memory.
        self.end.is_empty() || rest.ends_with(&self.end)
    }
}

/// How far a buffer has been searched for the first piece.
struct Cursor<'a> {
    pieces: &'a Pieces,
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

impl Cursor<'_> {
    fn are_in(&mut self, bytes: &[u8], buffer: usize, string: Range<usize>) -> bool {
        let length = self.pieces.first.needle().len();
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
            let found = self.pieces.first.find(&bytes[self.clear..end]);
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
        let patterns = ["%a%", "%aba%", "%ab%ba%", "%aa%aa%a%b%", "%é%", "%bé%a", "%a%aa", "%%b%%a%", "%aaaaaaaaaaaaaaaaaa%", "%a%é%aé", "%aaab%"];
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
    fn what_lies_between_sparse_strings_is_not_searched() {
        let pieces = Pieces::of_like("%x%").unwrap();
        let buffer = vec![b'a'; 1 << 16];
        let searched = |step: usize| {
            let mut cursor = Cursor { pieces: &pieces, buffer: 0, last: 0..0, clear: 0, hit: false, window: 0 };
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
        for pattern in ["", "%", "%%", "a", "a%", "%a", "a%b%", "%a_%", "%a\\%b%"] {
            assert!(Pieces::of_like(pattern).is_none(), "{pattern}");
        }
    }
}
