//! Reading a CMB.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use zerocopy::little_endian::U32;

use super::wire::{
    BoundsHeader, CmbHeader, DescType, FullChunkDesc, LENGTH_ALL_NULL, PageExt, PageMeta, SimpleChunkDesc, StreamMeta, StripeMeta, TOTALS,
    TRAILER_LENGTH, TotalsRecord, payload_offset, stream_directory_offset, stream_name,
};
use super::{Chunk, ChunkPage, Pages, StreamType};
use crate::format::array::{LEAF_DATA, LEAF_VALIDITY};
use crate::format::codec::DICTIONARY_PAGES_MAX;
use crate::format::error::{Error, Result};
use crate::format::fermion::bloom::BloomDesc;
use crate::format::fermion::schema::Stream;
use crate::format::fermion::stats::{BOUND_LENGTH_MAX, Bounds, Totals, ZoneStats};
use crate::format::fermion::stripes::Stripe;
use crate::format::scan::Section;
use crate::format::wire;

/// The header of a page is the least that a page can be.
const PAGE_SIZE_MIN: u32 = 16;

/// What a CMB has to agree with.
#[derive(Debug, Clone, Copy)]
pub struct CmbExpect<'a> {
    /// The streams of the column's type.
    pub streams: &'a [Stream],
    /// Whether the column is a plain sequence of values ([`leaf_type`](crate::format::fermion::schema::leaf_type)): only its DATA has a slot per row.
    pub is_leaf: bool,
    /// The stripes of the file.
    pub stripes: &'a Arc<[Stripe]>,
    /// Whether the CMB carries a CRC32.
    pub checksum: bool,
    /// Bytes of the file.
    pub file_length: u64,
}

/// A CMB whose head has been checked; chunks are checked as they are asked for.
#[derive(Debug)]
pub struct Cmb {
    /// All but the trailer.
    bytes: Bytes,
    streams: Vec<StreamDesc>,
    is_leaf: bool,
    totals: Option<Totals>,
    stripes: Arc<[Stripe]>,
    file_length: u64,
}

#[derive(Debug, Clone, Copy)]
struct StreamDesc {
    stream: Stream,
    desc_type: DescType,
    chunks_offset: usize,
}

impl Cmb {
    /// Reads a CMB.
    pub fn read(bytes: Bytes, expect: &CmbExpect<'_>) -> Result<Self> {
        Self::read_unplaced(bytes, expect).map_err(|error| error.in_section(Section::ColumnMetadata))
    }

    fn read_unplaced(bytes: Bytes, expect: &CmbExpect<'_>) -> Result<Self> {
        let body_length =
            bytes.len().checked_sub(TRAILER_LENGTH).ok_or_else(|| Error::invalid_file(format!("a CMB cannot have {} bytes", bytes.len())))?;
        if expect.checksum {
            let crc: &U32 = wire::read(&bytes, body_length, "the CRC32 of a CMB")?;
            if crc32fast::hash(wire::slice(&bytes, 0, body_length, "a CMB")?) != crc.get() {
                return Err(Error::checksum("a CMB does not match its CRC32"));
            }
        }
        let bytes = bytes.slice(..body_length);
        check_counts(&bytes, expect)?;
        let directory: &[StreamMeta] =
            wire::read_slice(&bytes, stream_directory_offset(expect.stripes.len()), expect.streams.len(), "the stream directory")?;
        let payload_offset = payload_offset(expect.stripes.len(), expect.streams.len());
        let streams = directory.iter().zip(expect.streams).map(|(meta, stream)| stream_desc(meta, *stream, payload_offset)).collect::<Result<_>>()?;
        let has_totals = expect.is_leaf && directory.get(LEAF_DATA).is_some_and(|meta| meta.flags.get() & TOTALS != 0);
        let totals = if has_totals { Some(read_totals(&bytes, payload_offset, expect)?) } else { None };
        Ok(Self { bytes, streams, is_leaf: expect.is_leaf, totals, stripes: Arc::clone(expect.stripes), file_length: expect.file_length })
    }

    /// The rows of each stripe, as a CMB of so many stripes counts them.
    pub fn row_counts(bytes: &[u8], stripes: usize) -> Result<impl ExactSizeIterator<Item = u32>> {
        let metas: &[StripeMeta] = wire::read_slice(bytes, size_of::<CmbHeader>(), stripes, "the stripes of a CMB")?;
        Ok(metas.iter().map(|meta| meta.row_count.get()))
    }

    /// The streams of the column.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = Stream> {
        self.streams.iter().map(|desc| desc.stream)
    }

    /// How the chunks of `stream` are described.
    pub fn desc_type(&self, stream: usize) -> Option<DescType> {
        self.streams.get(stream).map(|desc| desc.desc_type)
    }

    /// The part of `stream` in `stripe`.
    pub fn chunk(&self, stream: usize, stripe: usize) -> Result<Chunk> {
        self.checked_chunk(stream, stripe).map_err(|error| error.in_section(Section::ColumnMetadata))
    }

    fn checked_chunk(&self, stream: usize, stripe: usize) -> Result<Chunk> {
        let chunk = self.any_chunk(stream, stripe)?;
        let is_missing =
            self.is_leaf && stream == LEAF_DATA && chunk == Chunk::Default && self.stripes.get(stripe).is_some_and(|place| place.rows > 0);
        if is_missing && self.any_chunk(LEAF_VALIDITY, stripe)? == Chunk::Default {
            return Err(Error::invalid_file(format!("all rows of stripe {stripe} are valid, and none has a value")));
        }
        if let Chunk::Pages(pages) = &chunk
            && self.is_leaf
            && stream == LEAF_DATA
            && let Some(nulls @ 1..) = pages.stats.nulls()
            && self.any_chunk(LEAF_VALIDITY, stripe)? == Chunk::Default
        {
            return Err(Error::invalid_file(format!("all rows of stripe {stripe} are valid, and {nulls} of them are counted as null")));
        }
        Ok(chunk)
    }

    /// Where the bytes of `stream` in `stripe` are, if it has any.
    pub fn place(&self, stream: usize, stripe: usize) -> Result<Option<Range<u64>>> {
        let Some(desc) = self.streams.get(stream) else { return Ok(None) };
        let (offset, length) = match desc.desc_type {
            DescType::UseDefault | DescType::ForceNull => return Ok(None),
            DescType::Simple => {
                let simple: &SimpleChunkDesc = self.descriptor(desc, stripe)?;
                (simple.offset.get(), simple.length.get())
            }
            DescType::Full => {
                let full: &FullChunkDesc = self.descriptor(desc, stripe)?;
                (full.offset.get(), full.length.get())
            }
        };
        let is_stored = length != 0 && !(length == LENGTH_ALL_NULL && desc.stream.stream_type == StreamType::Validity);
        Ok(is_stored.then(|| offset..offset.saturating_add(u64::from(length))))
    }

    fn any_chunk(&self, stream: usize, stripe: usize) -> Result<Chunk> {
        let (Some(desc), Some(place)) = (self.streams.get(stream), self.stripes.get(stripe)) else {
            return Err(Error::invalid_argument(format!("there is no stream {stream} in a stripe {stripe}")));
        };
        self.read_chunk(desc, stripe, place)
    }

    /// Nulls of the column in `stripe`, if the metadata says.
    pub fn null_count(&self, stripe: usize) -> Result<Option<u64>> {
        let Some(StreamType::Validity) = self.stream_type(0) else { return Ok(None) };
        let rows = self.stripes.get(stripe).map(|stripe| u64::from(stripe.rows));
        match self.chunk(0, stripe)? {
            // Unless there are no values either.
            Chunk::Default if self.is_leaf => return self.chunk(LEAF_DATA, stripe).map(|_| Some(0)),
            Chunk::Default => return Ok(Some(0)),
            Chunk::AllNull => return Ok(rows),
            Chunk::Pages(pages) if pages.stats.nulls().is_some() => return Ok(pages.stats.nulls().map(u64::from)),
            Chunk::Pages(_) => {}
        }
        // The DATA of a plain column has a slot per row. In a nested column it counts something else.
        if !self.is_leaf {
            return Ok(None);
        }
        match self.chunk(LEAF_DATA, stripe)? {
            Chunk::Default | Chunk::AllNull => Ok(rows),
            Chunk::Pages(pages) => Ok(pages.stats.nulls().map(u64::from)),
        }
    }

    /// What is known of all values of a plain column.
    pub fn totals(&self) -> Option<&Totals> {
        self.totals.as_ref()
    }

    fn stream_type(&self, stream: usize) -> Option<StreamType> {
        self.streams.get(stream).map(|desc| desc.stream.stream_type)
    }

    /// Bytes in memory, with those that it was read from or without.
    pub fn memory_size(&self, with_bytes: bool) -> usize {
        size_of::<Self>() + if with_bytes { self.bytes.len() } else { 0 } + self.streams.len() * size_of::<StreamDesc>()
    }

    fn read_chunk(&self, desc: &StreamDesc, stripe: usize, place: &Stripe) -> Result<Chunk> {
        match desc.desc_type {
            DescType::UseDefault => Ok(Chunk::Default),
            DescType::ForceNull => Ok(Chunk::AllNull),
            DescType::Simple => {
                let simple: &SimpleChunkDesc = self.descriptor(desc, stripe)?;
                self.read_pages(desc, place, simple.offset.get(), simple.length.get(), |_| Ok(()))
            }
            DescType::Full => {
                let full: &FullChunkDesc = self.descriptor(desc, stripe)?;
                let slots = desc.stream.slots_per_row.and_then(|slots| slots.checked_mul(u64::from(place.rows)));
                let is_data = desc.stream.stream_type == StreamType::Data;
                self.read_pages(desc, place, full.offset.get(), full.length.get(), |pages| {
                    self.read_full(full, slots, pages)?;
                    pages.filter.iter().try_for_each(|filter| filter.check(&(place.offset..place.end())))?;
                    if full.flags.get() & ZoneStats::DICTIONARY != 0 { take_dictionary(pages, is_data) } else { Ok(()) }
                })
            }
        }
    }

    fn descriptor<T>(&self, desc: &StreamDesc, stripe: usize) -> Result<&T>
    where
        T: zerocopy::FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + zerocopy::Unaligned,
    {
        let offset = stripe.saturating_mul(size_of::<T>()).saturating_add(desc.chunks_offset);
        wire::read(&self.bytes, offset, "a chunk descriptor")
    }

    /// A chunk by its length: none, all null, or pages that `fill` completes.
    fn read_pages(&self, desc: &StreamDesc, place: &Stripe, offset: u64, length: u32, fill: impl FnOnce(&mut Pages) -> Result<()>) -> Result<Chunk> {
        match length {
            0 => Ok(Chunk::Default),
            LENGTH_ALL_NULL if desc.stream.stream_type == StreamType::Validity => Ok(Chunk::AllNull),
            _ => {
                self.check_place(place, offset, length)?;
                let mut pages =
                    Pages { offset, length, stats: ZoneStats::UNKNOWN, dictionary: Vec::new(), pages: Vec::new(), bounds: None, filter: None };
                fill(&mut pages)?;
                Ok(Chunk::Pages(Box::new(pages)))
            }
        }
    }

    fn check_place(&self, place: &Stripe, offset: u64, length: u32) -> Result<()> {
        let end = offset.saturating_add(u64::from(length));
        if end > self.file_length {
            return Err(Error::eof(format!("a chunk of {length} bytes at {offset} lies beyond the end of the file")));
        }
        if offset < place.offset || end > place.end() {
            return Err(Error::invalid_file(format!(
                "a chunk of {length} bytes at {offset} is not in its stripe, {}..{}",
                place.offset,
                place.end()
            )));
        }
        if !offset.is_multiple_of(8) || !length.is_multiple_of(8) {
            return Err(Error::invalid_file(format!("a chunk of {length} bytes at {offset} is not made of multiples of 8")));
        }
        Ok(())
    }

    fn read_full(&self, full: &FullChunkDesc, slots: Option<u64>, pages: &mut Pages) -> Result<()> {
        let flags = full.flags.get() & !ZoneStats::LAYOUT;
        pages.stats = checked_stats(full.chunk_min.get(), full.chunk_max.get(), full.null_count.get(), flags, slots)?;
        pages.pages = if full.num_pages.get() > 1 {
            self.read_page_metas(full, slots)?
        } else {
            let rows = slots.map(|slots| u32::try_from(slots).map_err(|_| Error::invalid_file(format!("a page cannot have {slots} rows"))));
            vec![ChunkPage { size: pages.length, rows: rows.transpose()?, stats: pages.stats }]
        };
        if full.bounds_offset.get() != 0 {
            (pages.bounds, pages.filter) = self.read_bounds(full.bounds_offset.get())?;
        }
        Ok(())
    }

    fn read_page_metas(&self, full: &FullChunkDesc, slots: Option<u64>) -> Result<Vec<ChunkPage>> {
        let start = payload_place(full.page_meta_offset.get())?;
        let count = full.num_pages.get() as usize;
        let metas: &[PageMeta] = wire::read_slice(&self.bytes, start, count, "the page metadata")?;
        let exts: &[PageExt] = if full.flags.get() & ZoneStats::PAGE_EXT != 0 {
            wire::read_slice(&self.bytes, start.saturating_add(size_of_val(metas)), count, "the page extensions")?
        } else {
            &[]
        };
        let mut pages = Vec::with_capacity(metas.len());
        let (mut size_total, mut rows_total) = (0_u64, 0_u64);
        for (index, meta) in metas.iter().enumerate() {
            let (size, rows) = (meta.page_size.get(), meta.row_count.get());
            if !size.is_multiple_of(8) || size < PAGE_SIZE_MIN {
                return Err(Error::invalid_file(format!("page {index} of a chunk cannot have {size} bytes")));
            }
            let (null_count, flags) = exts.get(index).map_or((0, 0), |ext| (ext.null_count.get(), ext.flags.get()));
            let stats = checked_stats(meta.min_val.get(), meta.max_val.get(), null_count, flags, Some(u64::from(rows)))?;
            size_total += u64::from(size);
            rows_total += u64::from(rows);
            pages.push(ChunkPage { size, rows: Some(rows), stats });
        }
        if size_total != u64::from(full.length.get()) {
            return Err(Error::invalid_file(format!("the pages of a chunk have {size_total} bytes, the chunk has {}", full.length)));
        }
        match slots {
            Some(slots) if slots != rows_total => {
                Err(Error::invalid_file(format!("the pages of a chunk have {rows_total} rows, the stripe {slots}")))
            }
            _ => Ok(pages),
        }
    }

    fn read_bounds(&self, offset: u32) -> Result<(Option<Bounds>, Option<BloomDesc>)> {
        let start = payload_place(offset)?;
        let header: &BoundsHeader = wire::read(&self.bytes, start, "bounds")?;
        let (min_length, max_length) = (header.min_length.get() as usize, header.max_length.get() as usize);
        if min_length.max(max_length) > BOUND_LENGTH_MAX {
            return Err(Error::invalid_file(format!("bounds of {min_length} and {max_length} bytes; {BOUND_LENGTH_MAX} are the most")));
        }
        let min_start = start.saturating_add(size_of::<BoundsHeader>());
        let max_start = min_start.saturating_add(min_length);
        let min = self.bytes.slice_ref(wire::slice(&self.bytes, min_start, min_length, "a lower bound")?);
        let max = self.bytes.slice_ref(wire::slice(&self.bytes, max_start, max_length, "an upper bound")?);
        let filter = match header.bloom_offset.get() {
            0 => None,
            offset => Some(*wire::read::<BloomDesc>(&self.bytes, payload_place(offset)?, "the place of a bloom filter")?),
        };
        let bounds = Bounds::from_parts(min, max, header.flags.get());
        let says_something = bounds.known_min().is_some() || bounds.known_max().is_some();
        Ok((says_something.then_some(bounds), filter))
    }
}

fn read_totals(bytes: &[u8], payload_offset: usize, expect: &CmbExpect<'_>) -> Result<Totals> {
    let offset = bytes.len().checked_sub(size_of::<TotalsRecord>()).filter(|offset| *offset >= payload_offset);
    let offset = offset.ok_or_else(|| Error::invalid_file("a CMB is too short to hold the totals of its column"))?;
    let totals = wire::read::<TotalsRecord>(bytes, offset, "the totals of a column")?.totals();
    let rows = expect.stripes.iter().map(|stripe| u64::from(stripe.rows)).sum::<u64>();
    match totals.distinct_count {
        Some(count) if count > rows => Err(Error::invalid_file(format!("{rows} rows cannot have {count} different values"))),
        _ => Ok(totals),
    }
}

fn check_counts(bytes: &[u8], expect: &CmbExpect<'_>) -> Result<()> {
    let header: &CmbHeader = wire::read(bytes, 0, "the header of a CMB")?;
    let (streams, stripes) = (header.num_streams.get() as usize, header.num_stripes.get() as usize);
    if (streams, stripes) != (expect.streams.len(), expect.stripes.len()) {
        return Err(Error::invalid_file(format!(
            "a CMB has {streams} streams and {stripes} stripes, the type of the column has {} and the file {}",
            expect.streams.len(),
            expect.stripes.len()
        )));
    }
    match Cmb::row_counts(bytes, stripes)?.zip(expect.stripes.iter()).position(|(rows, stripe)| rows != stripe.rows) {
        Some(index) => Err(Error::invalid_file(format!("a CMB and the stripe directory differ on the rows of stripe {index}"))),
        None => Ok(()),
    }
}

fn stream_desc(meta: &StreamMeta, stream: Stream, payload_offset: usize) -> Result<StreamDesc> {
    let name = stream_name(stream.stream_type);
    if meta.stream_type != stream.stream_type as u8 {
        return Err(Error::invalid_file(format!("a CMB has a stream of type {} where the type of the column has {name}", meta.stream_type)));
    }
    let desc_type = DescType::from_id(meta.desc_type)?;
    let chunks_offset = meta.chunks_offset.get() as usize;
    match desc_type {
        DescType::ForceNull if stream.stream_type != StreamType::Validity => {
            Err(Error::invalid_file(format!("a {name} stream cannot be FORCE_NULL")))
        }
        DescType::UseDefault | DescType::ForceNull if chunks_offset != 0 => {
            Err(Error::invalid_file(format!("a {name} stream without chunks has them at {chunks_offset}")))
        }
        DescType::Simple | DescType::Full if chunks_offset < payload_offset || !chunks_offset.is_multiple_of(8) => {
            Err(Error::invalid_file(format!("the chunks of a {name} stream cannot be at {chunks_offset}")))
        }
        _ => Ok(StreamDesc { stream, desc_type, chunks_offset }),
    }
}

/// The pages without rows that come first are the dictionary.
fn take_dictionary(pages: &mut Pages, is_data: bool) -> Result<()> {
    let count = pages.pages.iter().take_while(|page| page.rows == Some(0)).count();
    if !is_data || count == 0 || count == pages.pages.len() {
        return Err(Error::invalid_file("the dictionary of a chunk is missing, or the pages that it is for"));
    }
    if count > DICTIONARY_PAGES_MAX {
        return Err(Error::invalid_file(format!("a dictionary of {count} pages, of which there are {DICTIONARY_PAGES_MAX} at most")));
    }
    pages.dictionary = pages.pages.drain(..count).map(|page| page.size).collect();
    Ok(())
}

fn payload_place(offset: u32) -> Result<usize> {
    if offset.is_multiple_of(8) { Ok(offset as usize) } else { Err(Error::invalid_file(format!("metadata at {offset} is not at a multiple of 8"))) }
}

fn checked_stats(min: i64, max: i64, null_count: u32, flags: u32, slots: Option<u64>) -> Result<ZoneStats> {
    let stats = ZoneStats { min, max, null_count, flags };
    if stats.bounds().is_some_and(|(min, max)| min > max) {
        return Err(Error::invalid_file(format!("a lower bound {min} is above its upper bound {max}")));
    }
    if let (Some(nulls), Some(slots)) = (stats.nulls(), slots)
        && u64::from(nulls) > slots
    {
        return Err(Error::invalid_file(format!("{slots} slots cannot have {nulls} nulls")));
    }
    Ok(stats)
}
