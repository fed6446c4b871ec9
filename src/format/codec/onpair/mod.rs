//! ONPAIR: text as codes of up to 2¹⁶ pieces that come again and again in it (Gargiulo and Venturini, arXiv:2508.02280). Smaller than ZSTD makes
//! most text and several times as fast to decode; a block is decoded without the others.
//!
//! Of TPC-H's comments at scale 1 it leaves 18 to 25 % in pages of the default size, lengths included, and ZSTD at level 3 22 to 29 %. FSST (Boncz et
//! al., PVLDB 13(11)), whose pieces are 8 bytes and no more than 255, left 1.4 times as much as ZSTD, which is why it is not here.
//!
//! `learner.rs` finds the pieces, called tokens, `trie.rs` writes text in them, and `memory.rs` knows when those of the page before will do.

mod find;
mod learner;
mod memory;
mod table;
mod tokens;
mod trie;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::{BooleanBuffer, Buffer};

use super::answers::Answers;
use super::buffer::{Kind, StoredBuffer};
use super::choose::Context;
use super::node::{EncodedNode, Node, Parts};
use super::plain::{BYTES_MAX, check_utf8, offsets_of, view};
use super::sample::{Cost, Sample, real};
use super::{BLOCK, COUNT_MAX, Decode, Encoding, EncodingId, Output, PType, Values};
use crate::format::search::{First, Pieces};
use crate::format::{Error, Result};
use find::{Begin, Block, Marks};
use memory::written_size;
pub(super) use memory::{Memory, Whose};
use table::{Table, WINDOW};
use tokens::{TOKEN_MAX, Text, Written};

#[derive(Debug)]
pub(super) struct OnPair;

/// The most tokens: what a code of 16 bits can tell apart.
const TOKENS_MAX: usize = 1 << 16;
/// Codes that are looked at together.
const GROUP: usize = 8;
/// Text of which more is left by ZSTD has few pieces that come again, and what is larger than this as ONPAIR takes longer to read than as it is.
const LEFT_MAX: f64 = 0.65;

/// When no more than one value in so many is wanted, values are looked for code by code and no others are expanded. To pass by the codes of a block takes less than to expand them, and each value that is picked its own time:
/// with one value in twenty, both take about as long.
const FEW: usize = 32;

impl Encoding for OnPair {
    fn estimate(&self, sample: &Sample<'_>) -> Option<Cost> {
        sample.onpair_cost(sample.text_bytes(), real(sample.count())).filter(|_| sample.text_left() <= LEFT_MAX)
    }

    fn encode(&self, values: &Values, context: &Context<'_>) -> Result<Option<EncodedNode>> {
        let Values::Bytes(array) = values else { return Ok(None) };
        let memory = context.tokens().filter(|_| !context.is_forced());
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
        Ok(Box::new(Coded { bytes, token_lengths, table: OnceLock::new(), marks: Answers::default(), codes, lengths, starts, utf8: parts.utf8 }))
    }
}

#[derive(Debug)]
struct Coded {
    bytes: StoredBuffer,
    token_lengths: Node,
    table: OnceLock<Table>,
    marks: Answers<Arc<Marks>>,
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
        let wanted = keep.set_indices().map(|index| range.start % BLOCK + index);
        // Of however few of a block, all of it is expanded.
        let expanded = BLOCK.min(self.lengths.count() - block * BLOCK);
        let count = keep.count_set_bits();
        if count > expanded / 2 {
            self.decode(range, out)?;
            return out.keep_last(keep);
        }
        let are_few = count <= expanded / FEW;
        let (bytes, values) = if are_few {
            let (codes, lengths) = (self.block_codes(block)?, self.block_lengths(block, range.end)?);
            self.table()?.pick(codes.words()?, lengths.words()?, wanted).ok_or_else(|| other_values(block))?
        } else {
            // The others' memory is free again before the next block is expanded.
            let (bytes, offsets) = self.read_blocks(block..block + 1)?;
            copied(&bytes, wanted.map(|index| offsets[index] as usize..offsets[index + 1] as usize).collect())
        };
        let bytes = Buffer::from_vec(bytes);
        if are_few && self.utf8 && !self.table()?.ascii {
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

    fn find(&self, range: Range<usize>, _most: usize, pieces: &Pieces) -> Result<Option<BooleanBuffer>> {
        if pieces.is_nothing() {
            let mut lengths = Output::new(PType::U32, range.len());
            self.lengths.decode(range, &mut lengths)?;
            return Ok(Some(lengths.words::<u32>()?.iter().map(|length| *length == 0).collect()));
        }
        let table = self.table()?;
        let marks = match pieces.first() {
            First::Anywhere(piece) => Some(self.marks.get(pieces, || Ok(Arc::new(Marks::new(table, piece.needle()))))?),
            // Where many begin so, all are expanded one by one to look for more in them.
            First::Begins(_) if !pieces.is_one() => return Ok(None),
            First::Begins(_) | First::Is(_) => None,
        };
        let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        let first = blocks.start * BLOCK;
        let end = self.lengths.count().min(blocks.end * BLOCK);
        let mut found = BooleanBufferBuilder::new(end - first);
        found.append_n(end - first, false);
        for block in blocks {
            let lengths = self.block_lengths(block, end.min((block + 1) * BLOCK))?;
            let lengths = lengths.words::<u32>()?;
            if !lengths.iter().any(|length| pieces.may_be_in(*length as usize)) {
                continue;
            }
            if marks.as_ref().is_some_and(|marks| marks.are_common()) {
                return Ok(None);
            }
            let codes = self.block_codes(block)?;
            let (values, at) = (Block { table, codes: codes.words()?, lengths }, block * BLOCK - first);
            let are_theirs = match (pieces.first(), &marks) {
                (First::Anywhere(piece), Some(marks)) => {
                    // Once for the page, so that it is said of all blocks that are looked at.
                    if !marks.are_rare(values.codes) {
                        return Ok(None);
                    }
                    values.find(pieces, &Begin { piece, marks }, at, &mut found)
                }
                (First::Begins(text) | First::Is(text), _) => values.find_beginning(pieces, text, at, &mut found),
                _ => return Ok(None),
            };
            are_theirs.ok_or_else(|| other_values(block))?;
        }
        Ok(Some(found.finish().slice(range.start - first, range.len())))
    }
}

/// Parts of some bytes, one behind the other, and where each is.
fn copied(bytes: &[u8], mut parts: Vec<Range<usize>>) -> (Vec<u8>, Vec<Range<usize>>) {
    let mut copied = Vec::with_capacity(parts.iter().map(Range::len).sum());
    for part in &mut parts {
        let start = copied.len();
        copied.extend_from_slice(&bytes[part.clone()]);
        *part = start..copied.len();
    }
    (copied, parts)
}

fn other_values(block: usize) -> Error {
    Error::invalid_file(format!("the codes of block {block} do not stand for its values"))
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

    /// The lengths of a block's values before one.
    fn block_lengths(&self, block: usize, end: usize) -> Result<Output> {
        let mut lengths = Output::new(PType::U32, BLOCK);
        self.lengths.decode(block * BLOCK..end, &mut lengths)?;
        Ok(lengths)
    }

    fn block_codes(&self, block: usize) -> Result<Output> {
        let starts = self.code_starts(block..block + 1)?;
        let mut codes = Output::new(PType::U16, starts[1] - starts[0]);
        self.codes.decode(starts[0]..starts[1], &mut codes)?;
        Ok(codes)
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

        /// Which of the values have the text; `None` if that is left to who reads them.
        fn find(&self, range: Range<usize>, text: &str) -> Result<Option<Vec<bool>>> {
            let found = self.open()?.find(range, 0, &Pieces::of_like(&format!("%{text}%")).unwrap())?;
            Ok(found.map(|found| found.iter().collect()))
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
            assert_eq!(self.find(range.clone(), "q").unwrap_err().kind(), ErrorKind::InvalidFile);
            // Of a whole block and a third of it, all of it is expanded.
            let steps: &[usize] = if range.len() > BLOCK { &[1, 3] } else { &[1] };
            for &step in steps {
                let keep = BooleanBuffer::collect_bool(range.len(), |index| index % step == 0);
                let kept = self.open().unwrap().decode_kept(range.clone(), &keep, &mut Output::new(PType::Bytes, 0));
                assert_eq!(kept.unwrap_err().kind(), ErrorKind::InvalidFile, "one in {step}");
            }
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
    fn text_is_found_in_codes_where_few_begin_with_it() {
        let parts = || Parts {
            tokens: vec!["go", "og", "le", "-"],
            codes: [vec![3; 1024], vec![3; 30], vec![0, 1, 2], vec![3; 30]].concat(),
            lengths: [vec![1; 1024], vec![20, 10, 6, 30]].concat(),
            starts: vec![0, 1024],
        };
        assert_eq!(parts().find(1023..1028, "google").unwrap().unwrap(), [false, false, false, true, false]);
        assert_eq!(parts().find(1026..1027, "ogle").unwrap().unwrap(), [true]);
        // Common pieces, and long ones, are better looked for in text.
        assert_eq!(parts().find(1023..1028, "-").unwrap(), None);
        let long = Parts { codes: [0, 1, 2].repeat(60), lengths: vec![360], starts: vec![0], ..parts() };
        assert_eq!(long.find(0..1, &"google".repeat(50)).unwrap(), None);
        // Those that no value is long enough for are in none, and their codes are not looked at.
        assert_eq!(long.find(0..1, &"google".repeat(61)).unwrap().unwrap(), [false]);
        assert_eq!(parts().find(1023..1028, &"-".repeat(31)).unwrap().unwrap(), [false; 5]);
        // As the first block is, so are the others taken to be.
        let page = parts().open().unwrap();
        let find = |range: Range<usize>| page.find(range, 0, &Pieces::of_like("%g%").unwrap()).unwrap().map(|found| found.count_set_bits());
        assert_eq!((find(0..10), find(1024..1028)), (Some(0), Some(1)));
        assert_eq!(parts().find(1024..1028, "g").unwrap().map(|found| found.len()), Some(4));
        let common = Parts { codes: [vec![3; 1024], vec![0; 31], vec![3]].concat(), lengths: [vec![1; 1024], vec![63]].concat(), ..parts() };
        assert_eq!((common.find(1024..1025, "g").unwrap(), common.find(0..1025, "g").unwrap().map(|found| found.len())), (None, Some(1025)));
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
        // What is not decoded is not checked.
        let parts = Parts { tokens: vec!["ä", "b"], codes: [vec![1; 30], vec![0, 0]].concat(), lengths: vec![30, 1, 3], starts: vec![0] };
        assert_eq!(parts.find(0..3, "ä").unwrap().unwrap(), [false, false, true]);
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
