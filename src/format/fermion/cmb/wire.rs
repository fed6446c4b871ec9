//! The structs of a CMB, as in SPEC section 5.

use zerocopy::little_endian::{I64, I128, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::StreamType;
use crate::format::error::{Error, Result};
use crate::format::fermion::stats::Totals;

/// How the chunks of a stream are described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum DescType {
    /// `SimpleChunkDesc` per stripe: where it is.
    Simple = 0,
    /// `FullChunkDesc` per stripe: where it is, its pages and statistics.
    Full = 1,
    /// Every chunk is [`Chunk::Default`](super::Chunk::Default).
    UseDefault = 2,
    /// Every chunk is [`Chunk::AllNull`](super::Chunk::AllNull).
    ForceNull = 3,
}

impl DescType {
    pub(super) fn from_id(id: u8) -> Result<Self> {
        match id {
            0 => Ok(Self::Simple),
            1 => Ok(Self::Full),
            2 => Ok(Self::UseDefault),
            3 => Ok(Self::ForceNull),
            _ => Err(Error::unsupported(format!("descType {id} is unknown"))),
        }
    }
}

/// The `length` of a `VALIDITY` chunk that is null in all slots.
pub(super) const LENGTH_ALL_NULL: u32 = u32::MAX;

/// The flag of a stream whose [`TotalsRecord`] is the last of the payload.
pub(super) const TOTALS: u16 = 1;

/// The CRC32 and a zero at the end of a CMB.
pub(super) const TRAILER_LENGTH: usize = 8;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct CmbHeader {
    pub(super) num_streams: U32,
    pub(super) num_stripes: U32,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct StripeMeta {
    pub(super) row_count: U32,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct StreamMeta {
    pub(super) desc_type: u8,
    pub(super) stream_type: u8,
    pub(super) flags: U16,
    pub(super) chunks_offset: U32,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct SimpleChunkDesc {
    pub(super) offset: U64,
    pub(super) length: U32,
    pub(super) reserved: U32,
}

#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct FullChunkDesc {
    pub(super) offset: U64,
    pub(super) length: U32,
    pub(super) flags: U32,
    pub(super) chunk_min: I64,
    pub(super) chunk_max: I64,
    pub(super) null_count: U32,
    pub(super) num_pages: U32,
    pub(super) page_meta_offset: U32,
    pub(super) bounds_offset: U32,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct PageMeta {
    pub(super) page_size: U32,
    pub(super) row_count: U32,
    pub(super) min_val: I64,
    pub(super) max_val: I64,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct PageExt {
    pub(super) null_count: U32,
    pub(super) flags: U32,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct BoundsHeader {
    pub(super) min_length: U32,
    pub(super) max_length: U32,
    pub(super) flags: U32,
    pub(super) bloom_offset: U32,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct TotalsRecord {
    pub(super) distinct_count: U64,
    pub(super) flags: U32,
    pub(super) reserved: U32,
    pub(super) sum: I128,
}

impl TotalsRecord {
    const HAS_DISTINCT_COUNT: u32 = 1;
    const HAS_SUM: u32 = 1 << 1;

    pub(super) fn new(totals: &Totals) -> Self {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let flags = flag(totals.distinct_count.is_some(), Self::HAS_DISTINCT_COUNT) | flag(totals.sum.is_some(), Self::HAS_SUM);
        Self {
            distinct_count: totals.distinct_count.unwrap_or(0).into(),
            flags: flags.into(),
            reserved: 0.into(),
            sum: totals.sum.unwrap_or(0).into(),
        }
    }

    pub(super) fn totals(&self) -> Totals {
        let has = |flag| self.flags.get() & flag != 0;
        Totals {
            distinct_count: has(Self::HAS_DISTINCT_COUNT).then_some(self.distinct_count.get()),
            sum: has(Self::HAS_SUM).then_some(self.sum.get()),
        }
    }
}

const _: () = assert!(size_of::<CmbHeader>() == 8);
const _: () = assert!(size_of::<StripeMeta>() == 4);
const _: () = assert!(size_of::<StreamMeta>() == 8);
const _: () = assert!(size_of::<SimpleChunkDesc>() == 16);
const _: () = assert!(size_of::<FullChunkDesc>() == 48);
const _: () = assert!(size_of::<PageMeta>() == 24);
const _: () = assert!(size_of::<PageExt>() == 8);
const _: () = assert!(size_of::<BoundsHeader>() == 16);
const _: () = assert!(size_of::<TotalsRecord>() == 32);

/// Where the stream directory of a CMB of so many stripes begins.
pub(super) fn stream_directory_offset(num_stripes: usize) -> usize {
    let stripes = num_stripes.saturating_mul(size_of::<StripeMeta>()).saturating_add(size_of::<CmbHeader>());
    stripes.checked_next_multiple_of(8).unwrap_or(usize::MAX)
}

/// Where the payload of a CMB of so many stripes and streams begins.
pub(super) fn payload_offset(num_stripes: usize, num_streams: usize) -> usize {
    num_streams.saturating_mul(size_of::<StreamMeta>()).saturating_add(stream_directory_offset(num_stripes))
}

/// The name of a stream in errors.
pub(super) fn stream_name(stream_type: StreamType) -> &'static str {
    match stream_type {
        StreamType::Validity => "VALIDITY",
        StreamType::Offsets => "OFFSETS",
        StreamType::Data => "DATA",
        StreamType::BatchMeta => "BATCH_META",
    }
}
