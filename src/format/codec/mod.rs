//! Encodings: from values to the encoding tree of a page, and from any range of it back to values.
//!
//! Reading order: `values` is what goes in and out, `node` the tree, one file per encoding behind the traits of this file, `choose` picks among
//! them, and `memory` knows what was picked for the page before. A new encoding is a file and a line in the table below.

mod values;
mod words;

mod buffer;
mod node;

mod alp;
mod alp_rd;
mod bitmap;
mod constant;
mod delta;
mod dictionary;
mod first_seen;
mod frame;
mod narrow;
mod onpair;
mod plain;
mod planes;
mod run_length;

mod answers;
mod cardinality;
mod choose;
mod chunk;
mod compression;
mod distinct;
mod growing;
mod last_codes;
mod memory;
mod pack;
mod picks;
mod places;
mod sample;

#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::ops::Range;

use arrow::buffer::{BooleanBuffer, NullBuffer};

use super::codes::Codes;
use super::rows::BLOCK;
use super::search::Pieces;
use super::{Error, Result};
use choose::Context;
use node::{EncodedNode, Parts};
use sample::{Cost, Sample};

pub(crate) use cardinality::Cardinality;
pub(crate) use chunk::{ChunkDictionary, DICTIONARY_PAGES_MAX};
pub use compression::Compression;
pub(crate) use distinct::view_length;
pub(crate) use growing::{DictionaryBuilder, PageCosts};
pub use memory::Memory;
pub(crate) use node::Node;
pub use node::{BufferInfo, COUNT_MAX, Encoded, EncodingTree};
pub(crate) use values::HELD_MAX;
pub use values::{Decoded, Output, PType, Values};

macro_rules! encodings {
    ($($(#[$doc:meta])* $Name:ident = $id:literal, $name:literal, $implementation:expr;)*) => {
        /// An encoding. The numbers are those of the format.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum EncodingId {
            $($(#[$doc])* $Name = $id,)*
        }

        impl EncodingId {
            /// Every encoding.
            pub const ALL: &[Self] = &[$(Self::$Name),*];

            /// The encoding of this number in a file.
            pub fn from_id(id: u8) -> Result<Self> {
                match id {
                    $($id => Ok(Self::$Name),)*
                    _ => Err(Error::unsupported(format!("encoding {id} is not known"))),
                }
            }

            /// The encoding's name in the specification.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$Name => $name,)*
                }
            }

            fn implementation(self) -> &'static dyn Encoding {
                match self {
                    $(Self::$Name => &$implementation,)*
                }
            }
        }
    };
}

encodings! {
    /// The values as they are.
    Plain = 0, "PLAIN", plain::Plain;
    /// One value, said once.
    Constant = 1, "CONSTANT", constant::Constant;
    /// Each run's value and end.
    RunLength = 2, "RUN_LENGTH", run_length::RunLength;
    /// Codes of distinct values.
    Dictionary = 3, "DICTIONARY", dictionary::Dictionary;
    /// Differences from one reference, in as few bits as most of them need.
    Frame = 4, "FRAME", frame::Frame;
    /// Differences from value to value.
    Delta = 5, "DELTA", delta::Delta;
    /// The same integers in a narrower type.
    Narrow = 6, "NARROW", narrow::Narrow;
    /// A bit per boolean.
    Bitmap = 7, "BITMAP", bitmap::Bitmap;
    /// Floats with few decimal digits as integers.
    Alp = 8, "ALP", alp::Alp;
    /// The front bits of floats, and the rest.
    AlpRd = 9, "ALP_RD", alp_rd::AlpRd;
    /// The same as ONPAIR, as earlier versions wrote it.
    OnPairLengths = 10, "ONPAIR_LENGTHS", onpair::OnPairLengths;
    /// The bytes of integers, place by place.
    Planes = 11, "PLANES", planes::Planes;
    /// Numbers of what is seen for the first time, and those of what has been seen.
    FirstSeen = 12, "FIRST_SEEN", first_seen::FirstSeen;
    /// Codes of pieces of text that come again.
    OnPair = 13, "ONPAIR", onpair::OnPair;
}

impl EncodingId {
    /// The encoding's number in a file.
    pub fn id(self) -> u8 {
        self as u8
    }

    /// Whether the number of values may be beyond [`COUNT_MAX`], because nothing is stored or allocated per value.
    fn is_unlisted(self) -> bool {
        matches!(self, Self::Constant | Self::RunLength)
    }
}

/// What an encoding does. An encoding is chosen by `estimate`, applied by `encode`, and undone by what `open` returns.
trait Encoding: Sync {
    /// What the values would cost in this encoding, judged by a sample of them; `None` where it is of no use or not defined.
    fn estimate(&self, sample: &Sample<'_>) -> Option<Cost>;

    /// The values in this encoding; `None` where it is not defined for them, or turns out to be of no use. All children are encoded by a context, in the order in which the node has
    /// them: [`Memory`] counts on it.
    fn encode(&self, values: &Values, context: &Context<'_>) -> Result<Option<EncodedNode>>;

    /// Checks that the parts of a node fit each other.
    fn open(&self, parts: Parts) -> Result<Box<dyn Decode>>;
}

/// A node's decoder.
trait Decode: Debug + Send + Sync {
    /// Appends the values of a range that is not empty and within the node, at a cost that follows the range and not the node. What has to be
    /// done once per page is done once and kept. A range of one value is a look-up.
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()>;

    /// Appends those values of a range within a block that have a bit in `keep`, of which there is at least one.
    fn decode_kept(&self, range: Range<usize>, keep: &BooleanBuffer, out: &mut Output) -> Result<()> {
        self.decode(range, out)?;
        out.keep_last(keep)
    }

    /// Appends a code for each value of such a range, and gives the values that the codes stand for, where no more than `most` are stored for
    /// all values of the node. Elsewhere `None`, and nothing is appended. The values of a node are always the same ones, whatever the range and `most`:
    /// what has been found out about them is looked up by codes of other ranges.
    fn coded(&self, _range: Range<usize>, _most: usize, _codes: &mut Codes) -> Result<Option<Decoded>> {
        Ok(None)
    }

    /// Which strings of such a range have some pieces of text in them, where that takes less than to decode them, or no more than `most` are looked at, whose answers
    /// are kept. Elsewhere `None`. Whether they are UTF-8, and lengths that settle it agree with the rest, is not looked at: that is when they are decoded.
    fn find(&self, _range: Range<usize>, _most: usize, _pieces: &Pieces) -> Result<Option<BooleanBuffer>> {
        Ok(None)
    }
}

/// How to encode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodeOptions {
    /// The level of ZSTD, where it pays; `None` for never.
    pub zstd_level: Option<i32>,
    /// What a byte is worth.
    pub compression: Compression,
    /// Use this encoding for the root, whatever it costs: for tests and benchmarks.
    pub forced: Option<EncodingId>,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        Self { zstd_level: Compression::Balanced.zstd_level(), compression: Compression::Balanced, forced: None }
    }
}

/// Encodes the values of a page in whatever is cheapest to store and to decode. The slots of nulls may come back as anything.
pub fn encode(values: &Values, validity: Option<&NullBuffer>, options: &EncodeOptions) -> Result<Encoded> {
    encode_next(values, validity, options, &Memory::default()).map(|(encoded, _)| encoded)
}

/// The same of one of many pages, with what was learnt from those before it; and what is to be remembered for those behind it.
pub fn encode_next(values: &Values, validity: Option<&NullBuffer>, options: &EncodeOptions, memory: &Memory) -> Result<(Encoded, Memory)> {
    if values.len() > COUNT_MAX {
        return Err(Error::invalid_argument(format!("a page of {} values; {COUNT_MAX} are the most", values.len())));
    }
    if validity.is_some_and(|validity| validity.len() != values.len()) {
        return Err(Error::invalid_argument("there are not as many validity bits as values"));
    }
    let validity = validity.filter(|validity| validity.null_count() > 0);
    let filled = validity.map(|validity| sample::fill_forward(values, validity)).transpose()?;
    let (node, memory) = memory.encode(filled.as_ref().unwrap_or(values), Context::root(options, validity))?;
    Ok((Encoded::new(node)?, memory))
}

/// How long the chooser reckons that it takes to decode all of the values in an encoding, in nanoseconds; `None` if that is of no use for them. What it really takes is in
/// `benches/codec.rs`.
pub fn reckoned_nanos(values: &Values, encoding: EncodingId, options: &EncodeOptions) -> Result<Option<f64>> {
    let sample = Context::root(options, None).sample(values)?;
    Ok(encoding.implementation().estimate(&sample).map(|cost| cost.nanos))
}

/// Encodes a page as codes of its chunk's dictionary, of which there is at least one. Each page is judged by itself: the fuller the dictionary is, the fewer codes are new.
pub(crate) fn encode_codes(codes: &[u32], ptype: PType, options: &EncodeOptions) -> Result<Encoded> {
    let codes = Context::root(options, None).of_codes().encode(&dictionary::chunk_codes(codes))?;
    Encoded::new(dictionary::coded(codes, ptype))
}

/// Whether a dictionary that serves other pages too could make a page of these values cheaper, judged by a sample of them.
pub(crate) fn may_share(values: &Values, validity: Option<&NullBuffer>, options: &EncodeOptions) -> Result<bool> {
    Ok(growing::may_share(&Context::root(options, validity).sample(values)?))
}
