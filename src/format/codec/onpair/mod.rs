//! ONPAIR: text as codes of up to 2¹⁶ pieces that come again and again in it (Gargiulo and Venturini, arXiv:2508.02280). Smaller than ZSTD makes
//! most text and several times as fast to decode; a block is decoded without the others.
//!
//! Of TPC-H's comments at scale 1 it left 18 to 25 % in pages of the default size, with lengths in bytes, and ZSTD at level 3 22 to 29 %. FSST (Boncz et
//! al., PVLDB 13(11)), whose pieces are 8 bytes and no more than 255, left 1.4 times as much as ZSTD, which is why it is not here.
//!
//! `learner.rs` finds the pieces, called tokens, `trie.rs` writes text in them, and `memory.rs` knows when those of the page before will do. `lengths.rs` reads what earlier versions wrote.

mod find;
mod learner;
mod lengths;
mod memory;
mod stored;
mod table;
mod tokens;
mod trie;

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::{BooleanBuffer, Buffer};

use super::answers::Answers;
use super::choose::Context;
use super::node::{EncodedNode, Node, Parts};
use super::plain::{BYTES_MAX, view};
use super::sample::{Cost, Sample, real};
use super::{BLOCK, COUNT_MAX, Decode, Encoding, EncodingId, Output, PType, Values};
use crate::format::search::{First, Pieces};
use crate::format::{Error, Result};
use find::{Begin, Block, Marks};
pub(super) use lengths::OnPairLengths;
use memory::written_size;
pub(super) use memory::{Memory, Whose};
use stored::{Stored, no_token};
use tokens::{TOKEN_MAX, Text};

#[derive(Debug)]
pub(super) struct OnPair;

/// The most tokens: what a code of 16 bits can tell apart.
const TOKENS_MAX: usize = 1 << 16;
/// Codes that are expanded, or looked at, together.
const GROUP: usize = 8;
/// Text of which more is left by ZSTD has few pieces that come again, and what is larger than this as ONPAIR takes longer to read than as it is.
const LEFT_MAX: f64 = 0.65;

/// Where more than one value of a block in so many is wanted, all are expanded.
const MOST_PART: usize = 2;
/// The codes of so few values of a block are unpacked by themselves.
const SINGLE: usize = 8;
/// Many values have no more codes, and so many are copied at once.
const FEW: usize = 8;

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
        let mut written = match memory {
            Some(memory) => memory.borrow_mut().write(&text)?,
            None => Memory::default().write(&text)?,
        };
        let size = written_size(written.codes.len(), written.token_lengths.len(), written.tokens.len());
        let most = || Ok::<_, Error>(real(text.raw()) * context.sample(values)?.onpair_left().min(LEFT_MAX));
        let does_pay = written.codes.len() <= COUNT_MAX && (context.is_forced() || size < most()?);
        if let Some(memory) = memory {
            memory.borrow_mut().note(context.whose(), does_pay, bytes);
        }
        if !does_pay {
            return Ok(None);
        }
        let counts = mem::take(&mut written.counts);
        stored::encode(EncodingId::OnPair, written, counts, context).map(Some)
    }

    fn open(&self, mut parts: Parts) -> Result<Box<dyn Decode>> {
        let (stored, counts) = Stored::open(&mut parts)?;
        Ok(Box::new(Coded { stored, counts, marks: Answers::default() }))
    }
}

#[derive(Debug)]
struct Coded {
    stored: Stored,
    /// How many codes each value has.
    counts: Node,
    marks: Answers<Arc<Marks>>,
}

impl Decode for Coded {
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        let first = blocks.start * BLOCK;
        let block = self.read(blocks)?;
        let counts = block.counts.words::<u32>()?;
        let codes_of = |counts: &[u32]| counts.iter().map(|&count| count as usize).sum::<usize>();
        let (before, counts) = (&counts[..range.start - first], &counts[range.start - first..range.end - first]);
        let start = block.codes.start + codes_of(before);
        let codes = self.stored.read_codes(start..start + codes_of(counts))?;
        let (bytes, offsets) = self.stored.expand(codes.words()?, counts)?;
        push_views(bytes, &offsets, out)
    }

    /// Unless most of a block are kept, no others are expanded, and take memory.
    fn decode_kept(&self, range: Range<usize>, keep: &BooleanBuffer, out: &mut Output) -> Result<()> {
        let number = range.start / BLOCK;
        let count = keep.count_set_bits();
        if count > BLOCK.min(self.counts.count() - number * BLOCK) / MOST_PART {
            self.decode(range, out)?;
            return out.keep_last(keep);
        }
        let block = self.read(number..number + 1)?;
        let wanted = keep.set_indices().map(|index| range.start % BLOCK + index);
        let (codes, counts) = if count <= SINGLE { self.single_codes(&block, wanted)? } else { self.picked_codes(&block, wanted)? };
        let (bytes, offsets) = self.stored.expand(&codes, &counts)?;
        push_views(bytes, &offsets, out)
    }

    fn find(&self, range: Range<usize>, _most: usize, pieces: &Pieces) -> Result<Option<BooleanBuffer>> {
        if pieces.is_nothing() {
            let mut counts = Output::new(PType::U32, range.len());
            self.counts.decode(range, &mut counts)?;
            return Ok(Some(counts.words::<u32>()?.iter().map(|count| *count == 0).collect()));
        }
        let table = self.stored.table()?;
        let marks = match pieces.first() {
            First::Anywhere(piece) => Some(self.marks.get(pieces, || Ok(Arc::new(Marks::new(table, piece.needle()))))?),
            // Where many begin so, all are expanded one by one to look for more in them.
            First::Begins(_) if !pieces.is_one() => return Ok(None),
            First::Begins(_) | First::Is(_) => None,
        };
        let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        let first = blocks.start * BLOCK;
        let end = self.counts.count().min(blocks.end * BLOCK);
        let mut found = BooleanBufferBuilder::new(end - first);
        found.append_n(end - first, false);
        for number in blocks {
            let block = self.read(number..number + 1)?;
            let counts = block.counts.words::<u32>()?;
            if !counts.iter().any(|count| find::may_have(pieces, *count as usize)) {
                continue;
            }
            if marks.as_ref().is_some_and(|marks| marks.are_common()) {
                return Ok(None);
            }
            let codes = self.stored.read_codes(block.codes)?;
            let (values, at) = (Block { table, codes: codes.words()?, counts }, number * BLOCK - first);
            if !table.has(values.codes) {
                return Err(no_token());
            }
            match (pieces.first(), &marks) {
                (First::Anywhere(piece), Some(marks)) => {
                    // Once for the page, so that it is said of all blocks that are looked at.
                    if !marks.are_rare(values.codes) {
                        return Ok(None);
                    }
                    values.find(pieces, &Begin { piece, marks }, at, &mut found);
                }
                (First::Begins(text) | First::Is(text), _) => values.find_beginning(pieces, text, at, &mut found),
                _ => return Ok(None),
            }
        }
        Ok(Some(found.finish().slice(range.start - first, range.len())))
    }
}

/// Adds values that lie one behind the other.
fn push_views(bytes: Vec<u8>, offsets: &[u32], out: &mut Output) -> Result<()> {
    let bytes = Buffer::from_vec(bytes);
    let (views, index) = out.views(std::slice::from_ref(&bytes))?;
    views.extend(offsets.iter().zip(&offsets[1..]).map(|(&start, &end)| view(&bytes, start, end - start, index)));
    Ok(())
}

/// Blocks of values: where their codes are, and how many each value has.
struct Counted {
    codes: Range<usize>,
    counts: Output,
}

impl Coded {
    /// The values of these blocks, which have all codes of each.
    fn read(&self, blocks: Range<usize>) -> Result<Counted> {
        let values = blocks.start * BLOCK..self.counts.count().min(blocks.end * BLOCK);
        let mut counts = Output::new(PType::U32, values.len());
        self.counts.decode(values, &mut counts)?;
        let starts = self.stored.code_starts(blocks.clone())?;
        for ((number, codes), counts) in blocks.zip(starts.windows(2)).zip(counts.words::<u32>()?.chunks(BLOCK)) {
            let total = counts.iter().fold(0_usize, |total, &count| total.saturating_add(count as usize));
            if total != codes[1] - codes[0] {
                return Err(Error::invalid_file(format!("the values of block {number} have {total} codes, and it has {}", codes[1] - codes[0])));
            }
        }
        let codes = starts.first().copied().unwrap_or_default()..starts.last().copied().unwrap_or_default();
        Ok(Counted { codes, counts })
    }

    /// Codes of some values of a block, and how many each has. They are read one by one.
    fn single_codes(&self, block: &Counted, wanted: impl Iterator<Item = usize>) -> Result<(Vec<u16>, Vec<u32>)> {
        let counts = block.counts.words::<u32>()?;
        let (mut codes, mut kept) = (Output::new(PType::U16, 0), Vec::new());
        let (mut value, mut start) = (0, block.codes.start);
        for index in wanted {
            start += counts[value..index].iter().sum::<u32>() as usize;
            value = index;
            self.stored.codes.decode(start..start + counts[index] as usize, &mut codes)?;
            kept.push(counts[index]);
        }
        Ok((codes.words()?.to_vec(), kept))
    }

    /// The same out of all codes of the block.
    fn picked_codes(&self, block: &Counted, wanted: impl Iterator<Item = usize>) -> Result<(Vec<u16>, Vec<u32>)> {
        let all = self.stored.read_codes(block.codes.clone())?;
        let (all, counts) = (all.words::<u16>()?, block.counts.words::<u32>()?);
        let starts: Vec<usize> = counts.iter().scan(0, |end, &count| Some(mem::replace(end, *end + count as usize))).collect();
        let mut codes = Vec::with_capacity(all.len() + FEW);
        let kept = wanted.map(|index| {
            let (start, count) = (starts[index], counts[index] as usize);
            // To copy always as many, and cut off what is too much, takes less than to copy just as many as there are.
            match all.get(start..).and_then(<[u16]>::first_chunk::<FEW>) {
                Some(few) if count <= FEW => {
                    codes.extend_from_slice(few);
                    codes.truncate(codes.len() - FEW + count);
                }
                // All are there: `read` has seen to it.
                _ => codes.extend_from_slice(all.get(start..start + count).unwrap_or_default()),
            }
            counts[index]
        });
        let kept = kept.collect();
        Ok((codes, kept))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::BinaryViewArray;
    use bytes::Bytes;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::tokens::Written;
    use super::*;
    use crate::format::ErrorKind;
    use crate::format::codec::node::Encoded;
    use crate::format::codec::{Decoded, EncodeOptions, EncodingTree};

    /// A node by hand.
    #[derive(Clone)]
    struct Parts {
        tokens: Vec<&'static [u8]>,
        codes: Vec<u16>,
        counts: Vec<u32>,
        starts: Vec<u32>,
    }

    impl Parts {
        fn open(&self) -> Result<Node> {
            let token_lengths = self.tokens.iter().map(|token| u8::try_from(token.len()).unwrap()).collect();
            let Self { codes, starts, .. } = self.clone();
            let written = Written { codes, starts, tokens: self.tokens.concat(), token_lengths, counts: Vec::new() };
            let options = EncodeOptions::default();
            let node = stored::encode(EncodingId::OnPair, written, self.counts.clone(), &Context::root(&options, None))?;
            let encoded = Encoded::new(node)?;
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
            for pattern in ["%q%", "q%", "qqqq"] {
                let found = self.open().unwrap().find(range.clone(), 0, &Pieces::of_like(pattern).unwrap());
                assert_eq!(found.unwrap_err().kind(), ErrorKind::InvalidFile, "{pattern}");
            }
            // Of a whole block all values are expanded, of a third of it those, and of some their codes are read one by one.
            let steps: &[usize] = if range.len() >= BLOCK { &[1, 3, 300] } else { &[1] };
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
            tokens: vec![b"ab", b"c"],
            codes: [vec![0; 1024], vec![1; 6]].concat(),
            counts: [vec![1; 1024], vec![3; 2]].concat(),
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
    fn as_many_values_as_are_kept_come_back() {
        // Two blocks and a part of one, some of whose values are empty.
        let words: [&[u8]; 3] = [b"ab", b"c", b"longer"];
        let counts: Vec<u32> = (0..2500).map(|value| [0, 1, 3, 8, 12, 9, 0][value % 7]).collect();
        let total = counts.iter().sum::<u32>();
        let starts = counts.chunks(BLOCK).scan(0, |end, block| Some(mem::replace(end, *end + block.iter().sum::<u32>()))).collect();
        let parts = Parts { tokens: words.to_vec(), codes: (0..total).map(|code| u16::try_from(code * 7 % 3).unwrap()).collect(), counts, starts };
        let (node, all) = (parts.open().unwrap(), parts.read(0..2500).unwrap());
        for (start, count) in [(0, 1024), (1024, 1024), (1030, 900), (2048, 452), (2060, 7)] {
            for kept in [1, SINGLE, SINGLE + 1, 226, 227, 512, 513, count] {
                for shift in [0, 1, count.saturating_sub(kept) / 2, count.saturating_sub(kept)] {
                    let keep = BooleanBuffer::collect_bool(count, |index| (shift..shift + kept).contains(&(index * 5 % count)));
                    let mut out = Output::new(PType::Bytes, 0);
                    node.decode_kept(start..start + count, &keep, &mut out).unwrap();
                    let Decoded::Views { views, buffers } = out.finish() else { panic!("views") };
                    let found = arrow::array::StringViewArray::try_new(views, buffers, None).unwrap();
                    let expected: Vec<&str> = keep.set_indices().map(|index| all[start + index].as_str()).collect();
                    assert!(found.iter().map(Option::unwrap).eq(expected), "{kept} of {count} from {start}, {shift}");
                }
            }
        }
    }

    #[test]
    fn text_is_found_in_codes_where_few_begin_with_it() {
        let parts = || Parts {
            tokens: vec![b"go", b"og", b"le", b"-"],
            codes: [vec![3; 1024], vec![3; 30], vec![0, 1, 2], vec![3; 30]].concat(),
            counts: [vec![1; 1024], vec![20, 10, 3, 30]].concat(),
            starts: vec![0, 1024],
        };
        assert_eq!(parts().find(1023..1028, "google").unwrap().unwrap(), [false, false, false, true, false]);
        assert_eq!(parts().find(1026..1027, "ogle").unwrap().unwrap(), [true]);
        // Common pieces, and long ones, are better looked for in text.
        assert_eq!(parts().find(1023..1028, "-").unwrap(), None);
        let long = Parts { codes: [0, 1, 2].repeat(60), counts: vec![180], starts: vec![0], ..parts() };
        assert_eq!(long.find(0..1, &"google".repeat(50)).unwrap(), None);
        // Those that no value can be long enough for are in none, and their codes are not looked at.
        assert_eq!(long.find(0..1, &"-".repeat(180 * TOKEN_MAX)).unwrap(), None);
        assert_eq!(long.find(0..1, &"-".repeat(180 * TOKEN_MAX + 1)).unwrap().unwrap(), [false]);
        // As the first block is, so are the others taken to be.
        let page = parts().open().unwrap();
        let find = |range: Range<usize>| page.find(range, 0, &Pieces::of_like("%g%").unwrap()).unwrap().map(|found| found.count_set_bits());
        assert_eq!((find(0..10), find(1024..1028)), (Some(0), Some(1)));
        assert_eq!(parts().find(1024..1028, "g").unwrap().map(|found| found.len()), Some(4));
        let common = Parts { codes: [vec![3; 1024], vec![0; 31], vec![3]].concat(), counts: [vec![1; 1024], vec![32]].concat(), ..parts() };
        assert_eq!((common.find(1024..1025, "g").unwrap(), common.find(0..1025, "g").unwrap().map(|found| found.len())), (None, Some(1025)));
    }

    #[test]
    fn blocks_and_counts_that_contradict_each_other_are_refused() {
        for starts in [vec![1, 1024], vec![0, 1023], vec![0, 1031], vec![1024, 0], vec![u32::MAX; 2]] {
            Parts { starts, ..two_blocks() }.refused(0..1026);
        }
        for starts in [vec![], vec![0], vec![0, 1024, 1030]] {
            assert_eq!(Parts { starts, ..two_blocks() }.open().unwrap_err().kind(), ErrorKind::InvalidFile);
        }
        for count in [0, 2, 3, 1 << 20, u32::MAX] {
            let mut parts = two_blocks();
            parts.counts[5] = count;
            let error = parts.read(7..8).unwrap_err();
            assert!(error.to_string().contains(&format!("block 0 have {} codes, and it has 1024", 1023 + u64::from(count))), "{error}");
            parts.refused(7..8);
            // Sums do not wrap around.
            parts.counts[6] = 2_u32.wrapping_sub(count);
            assert_eq!(parts.read(7..8).is_ok(), count <= 2);
        }
        let mut damaged = two_blocks();
        (0..1024).step_by(3).for_each(|code| damaged.codes[code] = 9);
        damaged.refused(0..1024);
    }

    #[test]
    fn text_is_checked_unless_it_cannot_but_be_ascii() {
        let parts = |counts: &[u32]| Parts { tokens: vec![b"\xC3", b"\xA4"], codes: vec![0, 1, 0, 1], counts: counts.to_vec(), starts: vec![0] };
        assert_eq!(parts(&[2, 2]).read(0..2).unwrap(), ["ä", "ä"]);
        assert_eq!(parts(&[1, 3]).read(0..2).unwrap_err().kind(), ErrorKind::InvalidFile);
        // Those that are wanted are checked, and no others.
        let third = |counts: &[u32], wanted: usize| {
            let mut out = Output::new(PType::Bytes, 0);
            let keep = BooleanBuffer::collect_bool(3, |index| index == wanted);
            parts(counts).open().unwrap().decode_kept(0..3, &keep, &mut out).is_ok()
        };
        assert!(third(&[2, 1, 1], 0) && !third(&[2, 1, 1], 1) && !third(&[2, 1, 1], 2));
        // Text is looked for in values that are none.
        let codes = [vec![2; 30], vec![0, 1, 0, 1]].concat();
        let parts = Parts { tokens: vec![b"\xC3", b"\xA4", b"b"], codes, counts: vec![30, 1, 3], starts: vec![0] };
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
