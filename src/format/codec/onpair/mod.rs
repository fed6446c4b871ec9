//! ONPAIR: text as codes of up to 2¹⁶ pieces that come again and again in it (Gargiulo and Venturini, arXiv:2508.02280). Smaller than ZSTD makes
//! most text and several times as fast to decode; a block is decoded without the others.
//!
//! Of TPC-H's comments at scale 1 it leaves 18 to 25 % in pages of the default size, lengths included, and ZSTD at level 3 22 to 29 %. FSST (Boncz et
//! al., PVLDB 13(11)), whose pieces are 8 bytes and no more than 255, left 1.4 times as much as ZSTD, which is why it is not here.
//!
//! `learner.rs` finds the pieces, called tokens, `trie.rs` writes text in them, and `memory.rs` knows when those of the page before will do.

mod learner;
mod memory;
mod tokens;
mod trie;

use std::ops::Range;
use std::sync::OnceLock;

use arrow::buffer::{BooleanBuffer, Buffer};

use super::buffer::{Kind, StoredBuffer};
use super::choose::Context;
use super::node::{EncodedNode, Node, Parts};
use super::plain::{BYTES_MAX, check_utf8, offsets_of, view};
use super::sample::{Cost, Sample, real};
use super::{BLOCK, COUNT_MAX, Decode, Encoding, EncodingId, Output, PType, Values};
use crate::format::{Error, Result};
pub use memory::Memory;
pub(super) use memory::Whose;
use memory::written_size;
use tokens::{TOKEN_MAX, Text, Written};

#[derive(Debug)]
pub(super) struct OnPair;

/// The most tokens: what a code of 16 bits can tell apart.
const TOKENS_MAX: usize = 1 << 16;
/// Text of which more is left by ZSTD has few pieces that come again, and what is larger than this as ONPAIR takes longer to read than as it is.
const LEFT_MAX: f64 = 0.65;

/// When no more than one value in so many is wanted, values are looked for code by code and no others are expanded. To pass by the codes of a block takes about as long as to expand them,
/// and each value that is picked its own time; what is saved is memory.
const FEW: usize = 128;

/// Codes expanded at a time.
const GROUP: usize = 8;
/// What a group may write to: its tokens, and what is stored beyond the last one's end.
const WINDOW: usize = (GROUP + 1) * TOKEN_MAX;

impl Encoding for OnPair {
    fn estimate(&self, sample: &Sample<'_>) -> Option<Cost> {
        sample.onpair_cost(sample.text_bytes(), real(sample.count())).filter(|_| sample.text_left() <= LEFT_MAX)
    }

    fn encode(&self, values: &Values, context: &Context<'_>) -> Result<Option<EncodedNode>> {
        let Values::Bytes(array) = values else { return Ok(None) };
        let memory = context.memory().filter(|_| !context.is_forced());
        let lengths = array.lengths().enumerate().filter(|(index, _)| !context.is_null(*index));
        let bytes = lengths.map(|(_, length)| length as usize).sum();
        if memory.is_some_and(|memory| memory.borrow_mut().passes_by(context.whose(), bytes)) {
            return Ok(None);
        }
        let text = Text::of(array, |index| context.is_null(index));
        // A token is no longer than that.
        let Some(text) = text.filter(|text| text.raw() <= COUNT_MAX * TOKEN_MAX) else { return Ok(None) };
        let Written { codes, starts, tokens, token_lengths } = match memory {
            Some(memory) => memory.borrow_mut().write(&text)?,
            None => Memory::default().write(&text)?,
        };
        let size = written_size(codes.len(), token_lengths.len(), tokens.len());
        let most = || Ok::<_, Error>(real(text.raw()) * context.sample(values)?.onpair_left().min(LEFT_MAX));
        let does_pay = codes.len() <= COUNT_MAX && (context.is_forced() || size < most()?);
        if let Some(memory) = memory {
            memory.borrow_mut().note(context.whose(), does_pay, bytes);
        }
        if !does_pay {
            return Ok(None);
        }
        let fixed = |ptype, bytes| Values::Fixed { ptype, bytes };
        let numbers = context.child(&[EncodingId::Dictionary, EncodingId::RunLength, EncodingId::Delta]);
        let children = vec![
            numbers.encode(&fixed(PType::U8, Buffer::from_vec(token_lengths)))?,
            numbers.encode(&fixed(PType::U16, Buffer::from_vec(codes)))?,
            context.child(&[]).encode(&fixed(PType::U32, Buffer::from_vec(text.lengths)))?,
            // Not DELTA: the trees of all children together have to fit into one of a page.
            numbers.unpatched().encode(&fixed(PType::U32, Buffer::from_vec(starts)))?,
        ];
        let buffers = vec![context.buffer(tokens, Kind::Text)];
        Ok(Some(EncodedNode { encoding: EncodingId::OnPair, ptype: PType::Bytes, count: values.len(), params: [0; 2], buffers, children }))
    }

    fn open(&self, mut parts: Parts) -> Result<Box<dyn Decode>> {
        parts.check(parts.ptype == PType::Bytes, "it is for strings")?;
        let ([bytes], [token_lengths, codes, lengths, starts]) = parts.take()?;
        parts.check(
            token_lengths.ptype() == PType::U8 && token_lengths.count() <= TOKENS_MAX,
            "its tokens do not have one U8 each, or are too many",
        )?;
        parts.check(bytes.len() <= TOKEN_MAX * token_lengths.count(), "its tokens are too long")?;
        parts.check(codes.ptype() == PType::U16, "its codes are not U16")?;
        parts.check(lengths.ptype() == PType::U32 && lengths.count() == parts.count, "its lengths are not one U32 per value")?;
        let blocks = parts.count.div_ceil(BLOCK);
        parts.check(starts.ptype() == PType::U32 && starts.count() == blocks, "its starts are not one U32 per block")?;
        Ok(Box::new(Coded { bytes, token_lengths, table: OnceLock::new(), codes, lengths, starts, utf8: parts.utf8 }))
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Token {
    bytes: [u8; TOKEN_MAX],
    length: usize,
}

#[derive(Debug)]
struct Table {
    tokens: Vec<Token>,
    /// Those of the tokens, side by side.
    lengths: Vec<u8>,
    ascii: bool,
}

impl Table {
    /// `None` if lengths and bytes contradict each other.
    fn read(lengths: &[u8], bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let mut tokens = Vec::with_capacity(lengths.len());
        for &length in lengths {
            let mut token = Token { length: usize::from(length), ..Token::default() };
            let bytes = rest.split_off(..token.length)?;
            token.bytes.get_mut(..token.length).filter(|bytes| !bytes.is_empty())?.copy_from_slice(bytes);
            tokens.push(token);
        }
        rest.is_empty().then(|| Self { tokens, lengths: lengths.to_vec(), ascii: bytes.is_ascii() })
    }

    /// Writes no more than some of the values that codes stand for, and gives where each of them is. `None` where the codes are not theirs.
    fn pick(&self, codes: &[u16], lengths: &[u32], wanted: impl Iterator<Item = usize>) -> Option<(Vec<u8>, Vec<Range<usize>>)> {
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
            while let Some(&code) = codes.get(next).filter(|code| at + self.length(**code) <= start) {
                at += self.length(code);
                next += 1;
            }
            // A value may begin within a token, and end within one that the next value needs again.
            let first = bytes.len() + (start - at);
            let (mut code, mut reached) = (next, at);
            while reached < end {
                let token = self.token(*codes.get(code)?);
                bytes.extend_from_slice(token.bytes.get(..token.length)?);
                reached += token.length;
                code += 1;
            }
            values.push(first..first + (end - start));
        }
        Some((bytes, values))
    }

    /// Writes what codes stand for at `at`, and gives the end of it; `None` where there is no such code, or no room and a window more for all.
    fn expand(&self, codes: &[u16], out: &mut [u8], mut at: usize) -> Option<usize> {
        if !self.has(codes) {
            return None;
        }
        let (groups, rest) = codes.as_chunks::<GROUP>();
        for group in groups {
            at += self.expand_group(group, out.get_mut(at..)?.first_chunk_mut()?);
        }
        for &code in rest {
            let token = self.token(code);
            out.get_mut(at..)?.first_chunk_mut::<TOKEN_MAX>()?.copy_from_slice(&token.bytes);
            at += token.length;
        }
        Some(at)
    }

    fn has(&self, codes: &[u16]) -> bool {
        codes.iter().copied().max().is_none_or(|greatest| usize::from(greatest) < self.tokens.len())
    }

    fn length(&self, code: u16) -> usize {
        self.lengths.get(usize::from(code)).map_or(0, |length| usize::from(*length))
    }

    /// Each token is stored as sixteen bytes, and the next one over those that are not its own.
    #[inline]
    fn expand_group(&self, group: &[u16; GROUP], window: &mut [u8; WINDOW]) -> usize {
        let mut end = 0;
        for &code in group {
            let token = self.token(code);
            // The remainder only tells the compiler what the lengths of tokens see to.
            let start = end % (GROUP * TOKEN_MAX);
            window[start..start + TOKEN_MAX].copy_from_slice(&token.bytes);
            end += token.length;
        }
        end
    }

    /// The token of a code that has been checked.
    #[inline]
    fn token(&self, code: u16) -> Token {
        self.tokens.get(usize::from(code)).copied().unwrap_or_default()
    }
}

#[derive(Debug)]
struct Coded {
    bytes: StoredBuffer,
    token_lengths: Node,
    table: OnceLock<Table>,
    codes: Node,
    lengths: Node,
    /// Where each block begins in the codes.
    starts: Node,
    utf8: bool,
}

impl Decode for Coded {
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        let first = blocks.start * BLOCK;
        let (bytes, offsets) = self.read_blocks(blocks)?;
        let bytes = Buffer::from_vec(bytes);
        let offsets = &offsets[range.start - first..=range.end - first];
        let (views, index) = out.views(std::slice::from_ref(&bytes))?;
        views.extend(offsets.iter().zip(&offsets[1..]).map(|(&start, &end)| view(&bytes, start, end - start, index)));
        Ok(())
    }

    fn decode_kept(&self, range: Range<usize>, keep: &BooleanBuffer, out: &mut Output) -> Result<()> {
        let block = range.start / BLOCK;
        // Of however few of a block, all of it is expanded.
        let expanded = BLOCK.min(self.lengths.count() - block * BLOCK);
        if keep.count_set_bits() > expanded / FEW {
            self.decode(range, out)?;
            return out.keep_last(keep);
        }
        let mut lengths = Output::new(PType::U32, BLOCK);
        self.lengths.decode(block * BLOCK..range.end, &mut lengths)?;
        let starts = self.code_starts(block..block + 1)?;
        let mut codes = Output::new(PType::U16, starts[1] - starts[0]);
        self.codes.decode(starts[0]..starts[1], &mut codes)?;
        let wanted = keep.set_indices().map(|index| range.start % BLOCK + index);
        let Some((bytes, values)) = self.table()?.pick(codes.words()?, lengths.words()?, wanted) else {
            return Err(Error::invalid_file(format!("the codes of block {block} do not stand for its values")));
        };
        let bytes = Buffer::from_vec(bytes);
        if self.utf8 && !self.table()?.ascii {
            let is_text = |value: &Range<usize>| bytes.get(value.clone()).is_some_and(|value| simdutf8::basic::from_utf8(value).is_ok());
            if !values.iter().all(is_text) {
                return Err(Error::invalid_file("a string is not UTF-8"));
            }
        }
        let offset = |at: usize| u32::try_from(at).map_err(|_| Error::invalid_file("the strings of a block pass 4 GiB"));
        let (views, index) = out.views(std::slice::from_ref(&bytes))?;
        for value in values {
            views.push(view(&bytes, offset(value.start)?, offset(value.len())?, index));
        }
        Ok(())
    }
}

impl Coded {
    fn table(&self) -> Result<&Table> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let table = Table::read(self.token_lengths.all()?.words::<u8>()?, self.bytes.bytes()?);
        let table = table.ok_or_else(|| Error::invalid_file("tokens are not as long as their lengths say, or longer than 16 bytes"))?;
        Ok(self.table.get_or_init(|| table))
    }

    /// The bytes of all values of these blocks, joined, and where each starts, and the end.
    fn read_blocks(&self, blocks: Range<usize>) -> Result<(Vec<u8>, Vec<u32>)> {
        let values = blocks.start * BLOCK..self.lengths.count().min(blocks.end * BLOCK);
        let mut lengths = Output::new(PType::U32, values.len());
        self.lengths.decode(values, &mut lengths)?;
        let lengths = lengths.words::<u32>()?;
        let starts = self.code_starts(blocks)?;
        let first = starts.first().map_or(0, |start| *start);
        let end = starts.last().map_or(0, |end| *end);
        let mut codes = Output::new(PType::U16, end - first);
        self.codes.decode(first..end, &mut codes)?;
        let codes = codes.words::<u16>()?;

        // Nothing is allocated for more than the codes can stand for.
        let total = lengths.iter().fold(0_usize, |total, &length| total.saturating_add(length as usize));
        if total > BYTES_MAX.min(codes.len() * TOKEN_MAX) {
            return Err(Error::invalid_file(format!("{} codes cannot stand for {total} bytes", codes.len())));
        }
        let mut bytes = vec![0; total + WINDOW];
        let (table, mut at) = (self.table()?, 0);
        for (block, lengths) in starts.windows(2).zip(lengths.chunks(BLOCK)) {
            let end = at + lengths.iter().map(|&length| length as usize).sum::<usize>();
            let codes = &codes[block[0] - first..block[1] - first];
            let damaged = || Error::invalid_file(format!("{} codes do not stand for {} bytes", codes.len(), end - at));
            at = table.expand(codes, &mut bytes, at).filter(|&found| found == end).ok_or_else(damaged)?;
        }
        bytes.truncate(total);
        let offsets = offsets_of(lengths);
        if self.utf8 && !table.ascii {
            check_utf8(&bytes, &offsets)?;
        }
        Ok((bytes, offsets))
    }

    /// Where the codes of these blocks begin, and the end of the last one's.
    fn code_starts(&self, blocks: Range<usize>) -> Result<Vec<usize>> {
        let starts = self.starts.all()?.words::<u32>()?;
        let count = self.codes.count();
        let bounds: Vec<usize> = (blocks.start..=blocks.end).map(|block| starts.get(block).map_or(count, |&start| start as usize)).collect();
        let is_whole = starts.first().is_none_or(|&start| start == 0);
        if is_whole && bounds.is_sorted() && bounds.last().is_none_or(|&end| end <= count) {
            Ok(bounds)
        } else {
            Err(Error::invalid_file(format!("the blocks {blocks:?} of ONPAIR have codes {bounds:?} of {count}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::BinaryViewArray;
    use bytes::Bytes;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::format::ErrorKind;
    use crate::format::codec::node::Encoded;
    use crate::format::codec::{Decoded, EncodeOptions, EncodingTree};

    /// A node by hand.
    #[derive(Clone)]
    struct Parts {
        tokens: Vec<&'static str>,
        codes: Vec<u16>,
        lengths: Vec<u32>,
        starts: Vec<u32>,
    }

    impl Parts {
        fn open(&self) -> Result<Node> {
            let context = Context::root(&EncodeOptions::default(), None);
            let child = |ptype, bytes| context.encode(&Values::Fixed { ptype, bytes });
            let token_lengths: Vec<u8> = self.tokens.iter().map(|token| u8::try_from(token.len()).unwrap()).collect();
            let encoded = Encoded::new(EncodedNode {
                encoding: EncodingId::OnPair,
                ptype: PType::Bytes,
                count: self.lengths.len(),
                params: [0; 2],
                buffers: vec![context.buffer(self.tokens.concat().into_bytes(), Kind::Text)],
                children: vec![
                    child(PType::U8, Buffer::from_vec(token_lengths))?,
                    child(PType::U16, Buffer::from_vec(self.codes.clone()))?,
                    child(PType::U32, Buffer::from_vec(self.lengths.clone()))?,
                    child(PType::U32, Buffer::from_vec(self.starts.clone()))?,
                ],
            })?;
            let mut page = Vec::new();
            encoded.write(&mut page);
            let body = Bytes::from(page).slice(encoded.tree().len().next_multiple_of(8)..);
            Node::open(&EncodingTree::read(encoded.tree())?, &body, true, None)
        }

        fn read(&self, range: Range<usize>) -> Result<Vec<String>> {
            let node = self.open()?;
            let mut out = Output::new(PType::Bytes, 0);
            node.decode(range, &mut out)?;
            let Decoded::Views { views, buffers } = out.finish() else { panic!("views") };
            let array = arrow::array::StringViewArray::try_new(views, buffers, None).unwrap();
            Ok(array.iter().map(|value| value.unwrap().to_owned()).collect())
        }

        #[track_caller]
        fn refused(&self, range: Range<usize>) {
            assert_eq!(self.read(range).unwrap_err().kind(), ErrorKind::InvalidFile);
        }
    }

    fn two_blocks() -> Parts {
        Parts {
            tokens: vec!["ab", "c"],
            codes: [vec![0; 1024], vec![1; 6]].concat(),
            lengths: [vec![2; 1024], vec![3; 2]].concat(),
            starts: vec![0, 1024],
        }
    }

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
    fn a_range_decodes_the_blocks_that_it_touches_and_no_others() {
        assert_eq!(two_blocks().read(1022..1026).unwrap(), ["ab", "ab", "ccc", "ccc"]);
        let mut damaged = two_blocks();
        damaged.codes[1025] = 9;
        assert_eq!(damaged.read(0..1024).unwrap().len(), 1024);
        damaged.refused(1023..1025);
        damaged.codes[1025] = 1;
        damaged.codes[3] = 9;
        assert_eq!(damaged.read(1024..1026).unwrap(), ["ccc", "ccc"]);
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
        assert!(table.pick(&[1, 3], &[4], [0].into_iter()).is_none(), "a code without a token");
        assert!(table.pick(&[1], &[5], [0].into_iter()).is_none(), "a value that is longer than its codes");
        assert!(table.pick(&[1], &[4], [1].into_iter()).is_none(), "a value that is not there");
        assert!(table.pick(&[1], &[u32::MAX, 1], [1].into_iter()).is_none());
    }

    #[test]
    fn blocks_and_lengths_that_contradict_each_other_are_refused() {
        for starts in [vec![1, 1024], vec![0, 1023], vec![0, 1031], vec![1024, 0], vec![u32::MAX; 2]] {
            Parts { starts, ..two_blocks() }.refused(0..1026);
        }
        for starts in [vec![], vec![0], vec![0, 1024, 1030]] {
            assert_eq!(Parts { starts, ..two_blocks() }.open().unwrap_err().kind(), ErrorKind::InvalidFile);
        }
        for length in [0, 1, 3, 1 << 20, u32::MAX] {
            let mut parts = two_blocks();
            parts.lengths[5] = length;
            let error = parts.read(5..6).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidFile);
            assert_eq!(error.to_string().contains("cannot stand"), length > 16 * 1024, "{error}");
        }
    }

    #[test]
    fn text_is_checked_unless_it_cannot_but_be_ascii() {
        let read = |tokens: &[&'static str], codes: &[u16], lengths: &[u32]| {
            Parts { tokens: tokens.to_vec(), codes: codes.to_vec(), lengths: lengths.to_vec(), starts: vec![0] }.read(0..lengths.len())
        };
        assert_eq!(read(&["ä"], &[0, 0], &[2, 2]).unwrap(), ["ä", "ä"]);
        assert_eq!(read(&["ä"], &[0, 0], &[1, 3]).unwrap_err().kind(), ErrorKind::InvalidFile);
    }

    #[test]
    fn whatever_is_encoded_comes_back() {
        let mut random = StdRng::seed_from_u64(6);
        for round in 0..200_usize {
            let alphabet = [1, 2, 3, 20, 255][round % 5];
            let count = [0, 1, 5, 1024, 3000][random.random_range(0..5)];
            let longest = [0, 3, 30, 300][round % 4];
            let mut text = |_| -> Vec<u8> {
                let length = random.random_range(0..=longest);
                (0..length).map(|_| u8::try_from(random.random_range(0..alphabet)).unwrap()).collect()
            };
            let texts: Vec<Vec<u8>> = (0..count).map(&mut text).collect();
            let values = Values::Bytes(BinaryViewArray::from_iter_values(&texts));
            let options = EncodeOptions { forced: Some(EncodingId::OnPair), ..EncodeOptions::default() };
            let node = Context::root(&options, None).encode(&values).unwrap();
            let encoded = Encoded::new(node).unwrap();
            let mut page = Vec::new();
            encoded.write(&mut page);
            let body = Bytes::from(page).slice(encoded.tree().len().next_multiple_of(8)..);
            let node = Node::open(&EncodingTree::read(encoded.tree()).unwrap(), &body, false, None).unwrap();
            let mut out = Output::new(PType::Bytes, count);
            node.decode(0..count, &mut out).unwrap();
            let Decoded::Views { views, buffers } = out.finish() else { panic!("views") };
            let found = BinaryViewArray::try_new(views, buffers, None).unwrap();
            assert_eq!(found.iter().map(|value| value.unwrap().to_vec()).collect::<Vec<_>>(), texts);
        }
    }
}
