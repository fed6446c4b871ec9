//! What is stored of text as codes of tokens.

use std::ops::Range;
use std::sync::OnceLock;

use arrow::buffer::Buffer;

use super::super::buffer::{Kind, StoredBuffer};
use super::super::choose::Context;
use super::super::node::{EncodedNode, Node, Parts};
use super::super::plain::check_utf8;
use super::super::{BLOCK, EncodingId, Output, PType, Values};
use super::TOKENS_MAX;
use super::table::Table;
use super::tokens::{TOKEN_MAX, Written};
use crate::format::{Error, Result};

/// A node of text that has been written in tokens, with a number for each value.
pub(super) fn encode(encoding: EncodingId, text: Written, numbers: Vec<u32>, context: &Context<'_>) -> Result<EncodedNode> {
    let fixed = |ptype, bytes| Values::Fixed { ptype, bytes };
    let (child, count) = (context.child(&[EncodingId::Dictionary, EncodingId::RunLength, EncodingId::Delta]), numbers.len());
    let children = vec![
        child.encode(&fixed(PType::U8, Buffer::from_vec(text.token_lengths)))?,
        child.encode(&fixed(PType::U16, Buffer::from_vec(text.codes)))?,
        context.child(&[]).encode(&fixed(PType::U32, Buffer::from_vec(numbers)))?,
        // Not DELTA: the trees of all children together have to fit into one of a page.
        child.unpatched().encode(&fixed(PType::U32, Buffer::from_vec(text.starts)))?,
    ];
    let buffers = vec![context.buffer(text.tokens, Kind::Text)];
    Ok(EncodedNode { encoding, ptype: PType::Bytes, count, params: [0; 2], buffers, children })
}

/// Tokens, and the codes of all blocks.
#[derive(Debug)]
pub(super) struct Stored {
    bytes: StoredBuffer,
    token_lengths: Node,
    table: OnceLock<Table>,
    pub(super) codes: Node,
    /// Where each block begins in the codes.
    starts: Node,
    utf8: bool,
}

impl Stored {
    /// With what else there is: a number for each value.
    pub(super) fn open(parts: &mut Parts) -> Result<(Self, Node)> {
        parts.check(parts.ptype == PType::Bytes, "it is for strings")?;
        let ([bytes], [token_lengths, codes, numbers, starts]) = parts.take()?;
        parts.check(
            token_lengths.ptype() == PType::U8 && token_lengths.count() <= TOKENS_MAX,
            "its tokens do not have one U8 each, or are too many",
        )?;
        parts.check(bytes.len() <= TOKEN_MAX * token_lengths.count(), "its tokens are too long")?;
        parts.check(codes.ptype() == PType::U16, "its codes are not U16")?;
        parts.check(numbers.ptype() == PType::U32 && numbers.count() == parts.count, "its values do not have one U32 each")?;
        let blocks = parts.count.div_ceil(BLOCK);
        parts.check(starts.ptype() == PType::U32 && starts.count() == blocks, "its starts are not one U32 per block")?;
        Ok((Self { bytes, token_lengths, table: OnceLock::new(), codes, starts, utf8: parts.utf8 }, numbers))
    }

    pub(super) fn table(&self) -> Result<&Table> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let table = Table::read(self.token_lengths.all()?.words::<u8>()?, self.bytes.bytes()?);
        let table = table.ok_or_else(|| Error::invalid_file("tokens are not as long as their lengths say, or longer than 16 bytes"))?;
        Ok(self.table.get_or_init(|| table))
    }

    /// Where the codes of these blocks begin, and the end of the last one's.
    pub(super) fn code_starts(&self, blocks: Range<usize>) -> Result<Vec<usize>> {
        let starts = self.starts.all()?.words::<u32>()?;
        let count = self.codes.count();
        let bounds: Vec<usize> = (blocks.start..=blocks.end).map(|block| starts.get(block).map_or(count, |&start| start as usize)).collect();
        let is_whole = starts.first().is_none_or(|&start| start == 0);
        if is_whole && bounds.is_sorted() && bounds.last().is_none_or(|&end| end <= count) {
            Ok(bounds)
        } else {
            Err(Error::invalid_file(format!("the blocks {blocks:?} of text have codes {bounds:?} of {count}")))
        }
    }

    pub(super) fn read_codes(&self, range: Range<usize>) -> Result<Output> {
        let mut codes = Output::new(PType::U16, range.len());
        self.codes.decode(range, &mut codes)?;
        Ok(codes)
    }

    /// The bytes of values, joined, of which each has so many codes, and where each starts, and the end.
    pub(super) fn expand(&self, codes: &[u16], counts: &[u32]) -> Result<(Vec<u8>, Vec<u32>)> {
        let (bytes, offsets) = self.table()?.expand(codes, counts).ok_or_else(no_token)?;
        self.check(&bytes, &offsets)?;
        Ok((bytes, offsets))
    }

    /// Refuses values that are not text, where they have to be.
    pub(super) fn check(&self, bytes: &[u8], offsets: &[u32]) -> Result<()> {
        if self.utf8 && !self.table()?.ascii { check_utf8(bytes, offsets) } else { Ok(()) }
    }
}

pub(super) fn no_token() -> Error {
    Error::invalid_file("a code of text stands for no token")
}
