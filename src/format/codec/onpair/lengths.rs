//! ONPAIR_LENGTHS: text as codes, with the length of each value in bytes. Earlier versions wrote it; it is read.
//!
//! Where a value's codes are is not known before the lengths of all tokens before it in its block have been added up, which is why ONPAIR has how many codes each value has. Here all are expanded, and
//! text is not looked for in codes.

use std::ops::Range;

use arrow::buffer::BooleanBuffer;

use super::super::choose::Context;
use super::super::node::{EncodedNode, Node, Parts};
use super::super::plain::offsets_of;
use super::super::sample::{Cost, Sample};
use super::super::{BLOCK, COUNT_MAX, Decode, Encoding, EncodingId, Output, PType, Values};
use super::stored::{self, Stored, no_token};
use super::tokens::{TOKEN_MAX, Text};
use super::{Memory, push_views};
use crate::format::{Error, Result};

#[derive(Debug)]
pub(in crate::format::codec) struct OnPairLengths;

impl Encoding for OnPairLengths {
    fn estimate(&self, _: &Sample<'_>) -> Option<Cost> {
        None
    }

    /// Only where it is asked for, so that what is read is tested.
    fn encode(&self, values: &Values, context: &Context<'_>) -> Result<Option<EncodedNode>> {
        let (Values::Bytes(array), true) = (values, context.is_forced()) else { return Ok(None) };
        let text = Text::of(array, |index| context.is_null(index));
        let Some(text) = text.filter(|text| text.raw() <= COUNT_MAX * TOKEN_MAX) else { return Ok(None) };
        let written = Memory::default().write(&text)?;
        if written.codes.len() > COUNT_MAX {
            return Ok(None);
        }
        stored::encode(EncodingId::OnPairLengths, written, text.lengths, context).map(Some)
    }

    fn open(&self, mut parts: Parts) -> Result<Box<dyn Decode>> {
        let (stored, lengths) = Stored::open(&mut parts)?;
        Ok(Box::new(Coded { stored, lengths }))
    }
}

#[derive(Debug)]
struct Coded {
    stored: Stored,
    /// The bytes of each value.
    lengths: Node,
}

impl Decode for Coded {
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        let (bytes, offsets) = self.read(range)?;
        push_views(bytes, &offsets, out)
    }

    /// The others' memory is free again before the next block is expanded.
    fn decode_kept(&self, range: Range<usize>, keep: &BooleanBuffer, out: &mut Output) -> Result<()> {
        let (all, offsets) = self.read(range)?;
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        for index in keep.set_indices() {
            bytes.extend_from_slice(&all[offsets[index] as usize..offsets[index + 1] as usize]);
            ends.push(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        }
        push_views(bytes, &ends, out)
    }
}

impl Coded {
    /// The bytes of the blocks of these values, and where in them each of these starts, and the end.
    fn read(&self, range: Range<usize>) -> Result<(Vec<u8>, Vec<u32>)> {
        let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        let values = blocks.start * BLOCK..self.lengths.count().min(blocks.end * BLOCK);
        let mut lengths = Output::new(PType::U32, values.len());
        self.lengths.decode(values.clone(), &mut lengths)?;
        let lengths = lengths.words::<u32>()?;

        let starts = self.stored.code_starts(blocks.clone())?;
        let counts: Vec<u32> = starts.windows(2).map(|bounds| u32::try_from(bounds[1] - bounds[0]).unwrap_or(u32::MAX)).collect();
        let codes = self.stored.read_codes(starts.first().copied().unwrap_or_default()..starts.last().copied().unwrap_or_default())?;
        // A value may begin and end within a token, but a block does not.
        let (bytes, ends) = self.stored.table()?.expand(codes.words()?, &counts).ok_or_else(no_token)?;
        for ((block, ends), lengths) in blocks.zip(ends.windows(2)).zip(lengths.chunks(BLOCK)) {
            let length: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
            if length != u64::from(ends[1] - ends[0]) {
                return Err(Error::invalid_file(format!("the values of block {block} have {length} bytes, and its codes {}", ends[1] - ends[0])));
            }
        }
        let offsets = offsets_of(lengths);
        self.stored.check(&bytes, &offsets)?;
        Ok((bytes, offsets[range.start - values.start..=range.end - values.start].to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::node::Encoded;
    use super::super::super::{Decoded, EncodeOptions, EncodingTree};
    use super::super::tokens::Written;
    use super::*;
    use crate::format::ErrorKind;

    /// The values of a range of a page of these codes.
    fn read(tokens: &[&[u8]], codes: &[u16], lengths: &[u32], starts: &[u32], range: Range<usize>) -> Result<Vec<String>> {
        let token_lengths = tokens.iter().map(|token| u8::try_from(token.len()).unwrap()).collect();
        let written = Written { codes: codes.to_vec(), starts: starts.to_vec(), tokens: tokens.concat(), token_lengths, counts: Vec::new() };
        let options = EncodeOptions::default();
        let node = stored::encode(EncodingId::OnPairLengths, written, lengths.to_vec(), &Context::root(&options, None))?;
        let encoded = Encoded::new(node).unwrap();
        let mut page = Vec::new();
        encoded.write(&mut page);
        let body = bytes::Bytes::from(page).slice(encoded.tree().len().next_multiple_of(8)..);
        let mut out = Output::new(PType::Bytes, 0);
        Node::open(&EncodingTree::read(encoded.tree())?, &body, true, None)?.decode(range, &mut out)?;
        let Decoded::Views { views, buffers } = out.finish() else { panic!("views") };
        let array = arrow::array::StringViewArray::try_new(views, buffers, None).unwrap();
        Ok(array.iter().map(|value| value.unwrap().to_owned()).collect())
    }

    const TOKENS: [&[u8]; 3] = [b"ab", b"c", "ä".as_bytes()];

    #[test]
    fn values_need_not_begin_with_a_token() {
        let (codes, lengths) = ([vec![0; 1024], vec![1, 0, 1, 0, 2]].concat(), [vec![2; 1024], vec![2, 0, 4, 2]].concat());
        assert_eq!(read(&TOKENS, &codes, &lengths, &[0, 1024], 1023..1028).unwrap(), ["ab", "ca", "", "bcab", "ä"]);
        assert_eq!(read(&TOKENS, &codes, &lengths, &[0, 1024], 1026..1027).unwrap(), ["bcab"]);
        assert_eq!(read(&TOKENS, &[], &[0; 3], &[0], 0..3).unwrap(), [""; 3]);
        assert_eq!(read(&TOKENS, &[0, 2], &[3, 1], &[0], 0..2).unwrap_err().kind(), ErrorKind::InvalidFile);
    }

    #[test]
    fn blocks_and_lengths_that_contradict_each_other_are_refused() {
        let (codes, lengths) = ([vec![0; 1024], vec![1; 6]].concat(), [vec![2; 1024], vec![3; 2]].concat());
        let refused = |codes: &[u16], lengths: &[u32], starts: &[u32]| {
            assert_eq!(read(&TOKENS, codes, lengths, starts, 0..lengths.len()).unwrap_err().kind(), ErrorKind::InvalidFile);
        };
        assert_eq!(read(&TOKENS, &codes, &lengths, &[0, 1024], 1022..1026).unwrap(), ["ab", "ab", "ccc", "ccc"]);
        for starts in [&[1, 1024][..], &[0, 1023], &[0, 1031], &[1024, 0], &[u32::MAX; 2], &[0], &[0, 1024, 1030]] {
            refused(&codes, &lengths, starts);
        }
        for length in [0, 1, 3, 1 << 20, u32::MAX] {
            let mut lengths = lengths.clone();
            lengths[5] = length;
            refused(&codes, &lengths, &[0, 1024]);
        }
        // Sums do not wrap around.
        let mut wrapped = lengths.clone();
        (wrapped[5], wrapped[6]) = (u32::MAX, 5);
        refused(&codes, &wrapped, &[0, 1024]);
        // Not all of one block, and as much more of the other.
        let mut shifted = lengths.clone();
        (shifted[5], shifted[1024]) = (3, 2);
        refused(&codes, &shifted, &[0, 1024]);
        let mut codes = codes;
        codes[1025] = 9;
        refused(&codes, &lengths, &[0, 1024]);
        // Of another block.
        assert_eq!(read(&TOKENS, &codes, &lengths, &[0, 1024], 0..1024).unwrap(), ["ab"; 1024]);
    }
}
