//! Few of many values, looked up one by one.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow::array::BooleanBufferBuilder;

use super::node::Node;
use super::plain::rebase;
use super::values::mixed_up;
use super::words::{with_word, words_of};
use super::{BLOCK, Decoded, Output, PType};
use crate::format::Result;

/// Up to one value in so many is looked up by itself; to decode all then takes no longer. For each, a block of text may be decoded, and half a block of differences.
const RARE: usize = 512;
const RARE_TEXT: usize = 1024;

/// How many values have been looked up without decoding all.
#[derive(Debug, Default)]
pub(super) struct Picks(AtomicUsize);

impl Picks {
    /// Whether so many more are few of `count` values.
    pub(super) fn are_few(&self, more: usize, ptype: PType, count: usize) -> bool {
        let part = if ptype == PType::Bytes { RARE_TEXT } else { RARE };
        self.0.load(Relaxed).saturating_add(more) <= count / part
    }

    /// Whether so many more of a node's values are better looked up.
    pub(super) fn are_few_of(&self, more: usize, values: &Node) -> bool {
        values.ptype() != PType::Bool && !values.is_decoded() && self.are_few(more, values.ptype(), values.count())
    }

    /// Appends what codes stand for, which have been checked, in any order and often the same, as `decode` appends it of codes that ascend.
    pub(super) fn look_up(&self, codes: &[u32], out: &mut Output, decode: impl FnOnce(&[u32], &mut Output) -> Result<()>) -> Result<()> {
        self.0.fetch_add(codes.len(), Relaxed);
        let mut wanted = codes.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        let mut found = Output::new(out.ptype(), wanted.len());
        decode(&wanted, &mut found)?;
        let places = codes.iter().map(|code| wanted.partition_point(|other| other < code));
        match found.finish() {
            Decoded::Bool(_) => Err(mixed_up()),
            Decoded::Fixed(values) => with_word!(out.ptype().width().unwrap_or(1), T => {
                let values = words_of::<T>(&values)?;
                let slots = out.grow(codes.len())?;
                slots.iter_mut().zip(places).for_each(|(slot, place)| *slot = values.get(place).copied().unwrap_or_default());
                Ok(())
            }),
            Decoded::Views { views, buffers } => {
                let base = out.shared_buffers(&buffers)?;
                let (out, _) = out.views(&[])?;
                out.extend(places.map(|place| rebase(views.get(place).copied().unwrap_or_default(), base)));
                Ok(())
            }
        }
    }
}

/// Appends those values of a node whose codes are wanted, which ascend; `codes` are those of all its values. No more is decoded than the blocks that the wanted ones are in.
pub(super) fn decode_wanted(values: &Node, codes: Range<usize>, wanted: &[u32], out: &mut Output) -> Result<()> {
    let from = wanted.partition_point(|&code| (code as usize) < codes.start);
    let to = wanted.partition_point(|&code| (code as usize) < codes.end);
    let indexes: Vec<usize> = wanted.get(from..to).unwrap_or_default().iter().map(|&code| code as usize - codes.start).collect();
    for indexes in indexes.chunk_by(|a, b| a / BLOCK == b / BLOCK) {
        let (Some(first), Some(last)) = (indexes.first(), indexes.last()) else { continue };
        // Of numbers, what is between them; text is found within its block.
        let range = match values.ptype() {
            PType::Bytes => first / BLOCK * BLOCK..values.count().min((first / BLOCK + 1) * BLOCK),
            _ => *first..last + 1,
        };
        let mut keep = BooleanBufferBuilder::new(range.len());
        keep.append_n(range.len(), false);
        indexes.iter().for_each(|index| keep.set_bit(index - range.start, true));
        values.decode_kept(range, &keep.finish(), out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, BinaryViewArray};
    use arrow::buffer::{BooleanBuffer, Buffer};
    use bytes::Bytes;

    use super::super::choose::Context;
    use super::super::node::{Encoded, EncodedNode};
    use super::super::{EncodeOptions, EncodingId, EncodingTree, Values, encode};
    use super::*;
    use crate::format::ErrorKind;

    const COUNT: usize = 5000;

    fn words(word: impl Fn(usize) -> usize) -> Values {
        Values::Bytes(BinaryViewArray::from_iter_values((0..COUNT).map(|row| format!("the {:05}th word of many, ü", word(row)))))
    }

    fn numbers(number: impl Fn(usize) -> usize) -> Values {
        Values::Fixed {
            ptype: PType::U64,
            bytes: Buffer::from_vec((0..COUNT).map(|row| super::super::words::mix(number(row) as u64)).collect::<Vec<_>>()),
        }
    }

    fn open(values: &Values, forced: EncodingId) -> Node {
        opened(&encode(values, None, &EncodeOptions { forced: Some(forced), ..Default::default() }).unwrap())
    }

    fn opened(encoded: &Encoded) -> Node {
        let mut page = Vec::new();
        encoded.write(&mut page);
        let body = Bytes::from(page).slice(encoded.tree().len().next_multiple_of(8)..);
        Node::open(&EncodingTree::read(encoded.tree()).unwrap(), &body, true, None).unwrap()
    }

    fn list(out: Output) -> Vec<Vec<u8>> {
        match out.finish() {
            Decoded::Views { views, buffers } => {
                let array = BinaryViewArray::try_new(views, buffers, None).unwrap();
                (0..array.len()).map(|index| array.value(index).to_vec()).collect()
            }
            Decoded::Fixed(bytes) => bytes.chunks_exact(8).map(<[u8]>::to_vec).collect(),
            Decoded::Bool(_) => panic!("bits"),
        }
    }

    /// In whatever order and however often they are asked for, behind other values, until they are no longer few.
    #[test]
    fn few_values_are_those_that_all_have_in_their_places() {
        for (values, forced) in
            [(words(|row| row), EncodingId::OnPair), (words(|row| row), EncodingId::Plain), (numbers(|row| row), EncodingId::Plain)]
        {
            let (node, whole) = (open(&values, forced), open(&values, forced));
            let mut all = Output::new(values.ptype(), 0);
            whole.decode(0..COUNT, &mut all).unwrap();
            let (all, picks) = (list(all), Picks::default());
            let mut out = Output::new(values.ptype(), 0);
            whole.decode(7..8, &mut out).unwrap();
            let codes = [4321, 7, 4320, 7];
            let few = if values.ptype() == PType::Bytes { COUNT / RARE_TEXT } else { COUNT / RARE };
            for _ in 0..few / codes.len() {
                assert!(picks.are_few_of(codes.len(), &node));
                picks.look_up(&codes, &mut out, |wanted, out| decode_wanted(&node, 0..COUNT, wanted, out)).unwrap();
            }
            assert!(!picks.are_few_of(codes.len(), &node) && !node.is_decoded());
            let expected = [7].into_iter().chain(std::iter::repeat_n(codes, few / codes.len()).flatten());
            assert_eq!(list(out), expected.map(|code| all[code as usize].clone()).collect::<Vec<_>>());
            node.all().unwrap();
            assert!(!Picks::default().are_few_of(1, &node));
        }
    }

    /// What the other blocks hold is not noticed, as long as rows are few; it is by whoever decodes all.
    #[test]
    fn few_rows_of_dictionaries_and_runs_need_no_more_than_their_blocks() {
        const WRONG: usize = 2300;
        let word = |word: usize| if word == WRONG { vec![0xFE; 20] } else { format!("the {word:05}th word of many").into_bytes() };
        let words = Values::Bytes(BinaryViewArray::from_iter_values((0..2400).map(word)));
        let forced = |encoding| Context::root(&EncodeOptions { forced: Some(encoding), ..Default::default() }, None);
        let numbers = |ptype, bytes| forced(EncodingId::Plain).encode(&Values::Fixed { ptype, bytes }).unwrap();
        let words = || forced(EncodingId::OnPair).encode(&words).unwrap();
        let codes = numbers(PType::U16, Buffer::from_vec((0..4800_u16).map(|row| row / 2).collect::<Vec<_>>()));
        let ends = numbers(PType::U32, Buffer::from_vec((1..=2400_u32).map(|run| 2 * run).collect::<Vec<_>>()));
        for (encoding, children) in [(EncodingId::Dictionary, vec![codes, words()]), (EncodingId::RunLength, vec![words(), ends])] {
            let node = EncodedNode { encoding, ptype: PType::Bytes, count: 4800, params: [0; 2], buffers: Vec::new(), children };
            let node = opened(&Encoded::new(node).unwrap());
            let read = |row: usize| {
                let mut out = Output::new(PType::Bytes, 0);
                node.decode_kept(row..row + 1, &BooleanBuffer::new_set(1), &mut out).map(|()| list(out))
            };
            assert_eq!((read(2060).unwrap(), read(3).unwrap()), (vec![word(1030)], vec![word(1)]), "{encoding:?}");
            assert_eq!(read(2060).unwrap_err().kind(), ErrorKind::InvalidFile, "{encoding:?}");
        }
    }

    /// The same of codes of a page and of runs, of any rows.
    #[test]
    fn few_rows_of_dictionaries_and_runs_are_those_that_all_have() {
        let (spread, long) = (|row: usize| row * 7919 % 2400, |row: usize| row / 3 * 7919 % 5003);
        let cases = [
            (words(spread), EncodingId::Dictionary),
            (words(long), EncodingId::RunLength),
            (numbers(spread), EncodingId::Dictionary),
            (numbers(long), EncodingId::RunLength),
        ];
        for (values, forced) in cases {
            let mut all = Output::new(values.ptype(), 0);
            open(&values, forced).decode(0..COUNT, &mut all).unwrap();
            let all = list(all);
            for rows in [&[1030][..], &[0, 4999], &[2000, 2003], &[5, 1500, 4000]] {
                let node = open(&values, forced);
                let keep = BooleanBuffer::collect_bool(COUNT, |row| rows.contains(&row));
                let mut out = Output::new(values.ptype(), 0);
                node.decode_kept(0..COUNT, &keep, &mut out).unwrap();
                assert_eq!(list(out), rows.iter().map(|&row| all[row].clone()).collect::<Vec<_>>(), "{forced:?} {rows:?}");
            }
        }
    }

    #[test]
    fn codes_of_no_value_are_refused() {
        let context = Context::root(&EncodeOptions::default(), None);
        let mut codes: Vec<u16> = (0..2000).map(|row| row % 600).collect();
        codes[1500] = 600;
        let codes = Values::Fixed { ptype: PType::U16, bytes: Buffer::from_vec(codes) };
        for values in [numbers(|row| row), words(|row| row)] {
            let ptype = values.ptype();
            let children = vec![context.encode(&codes).unwrap(), context.encode(&values.slice(0, 600)).unwrap()];
            let node = EncodedNode { encoding: EncodingId::Dictionary, ptype, count: 2000, params: [0; 2], buffers: Vec::new(), children };
            let node = opened(&Encoded::new(node).unwrap());
            let read = |rows: Range<usize>| node.decode_kept(rows.clone(), &BooleanBuffer::new_set(rows.len()), &mut Output::new(ptype, 0));
            // One by one, and once all values are known.
            for length in [1, 500] {
                assert_eq!(read(1500..1500 + length).unwrap_err().kind(), ErrorKind::InvalidFile, "{ptype:?}, {length} rows");
                read(1500 - length..1500).unwrap();
            }
            assert!(!Picks::default().are_few(500, ptype, 600));
            // No more is asked of codes that nobody wants.
            let half = |first: usize| {
                let keep = BooleanBuffer::collect_bool(998, |row| row % 2 == first);
                node.decode_kept(1001..1999, &keep, &mut Output::new(ptype, 0)).map_err(|error| error.kind())
            };
            assert_eq!((half(0), half(1)), (Ok(()), Err(ErrorKind::InvalidFile)));
        }
    }
}
