//! Column Metadata Blocks: where a column's chunks and pages are, and what is known about them.

mod build;
mod read;
mod wire;

pub use build::CmbBuilder;
pub use read::{Cmb, CmbExpect};
pub use wire::DescType;

use super::bloom::BloomDesc;
pub use super::schema::StreamType;
use super::stats::{Bounds, ZoneStats};

/// A stream's part of one stripe.
#[derive(Debug, Clone, PartialEq)]
pub enum Chunk {
    /// Nothing is stored. `VALIDITY`: all valid. `OFFSETS`: all lists are empty. `DATA`: all null, or no slots.
    Default,
    /// Nothing is stored, all slots are null. `VALIDITY` only.
    AllNull,
    /// Pages.
    Pages(Box<Pages>),
}

/// The pages of a chunk.
#[derive(Debug, Clone, PartialEq)]
pub struct Pages {
    /// First byte in the file.
    pub offset: u64,
    /// Bytes of all pages.
    pub length: u32,
    /// Statistics of the chunk; nothing is known ([`ZoneStats::UNKNOWN`]) where none are stored.
    pub stats: ZoneStats,
    /// Bytes of each page of the dictionary that the pages share, if they do; they come first.
    pub dictionary: Vec<u32>,
    /// The pages, one behind the other from `offset`, or the end of the dictionary, on; all sizes add up to `length`. Empty if only the pages
    /// themselves say (SIMPLE).
    pub pages: Vec<ChunkPage>,
    /// Exact or long bounds, where stored.
    pub bounds: Option<Bounds>,
    /// The bloom filter of the values, if there is one.
    pub filter: Option<BloomDesc>,
}

/// A page as the metadata knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkPage {
    /// Its bytes.
    pub size: u32,
    /// Its rows (slots of the stream; lists for `OFFSETS`). `None` for the only page of a chunk below a list, where only the page says.
    pub rows: Option<u32>,
    /// Its statistics.
    pub stats: ZoneStats,
}

#[cfg(test)]
mod tests;
