//! Building a CMB.

use arrow::datatypes::DataType;
use zerocopy::IntoBytes;

use super::wire::{
    BoundsHeader, CmbHeader, DescType, FullChunkDesc, LENGTH_ALL_NULL, PageExt, PageMeta, SimpleChunkDesc, StreamMeta, StripeMeta, TOTALS,
    TotalsRecord, payload_offset,
};
use super::{Chunk, ChunkPage, Pages, StreamType};
use crate::format::array::LEAF_DATA;
use crate::format::error::{Error, Result};
use crate::format::fermion::bloom::BloomDesc;
use crate::format::fermion::schema::streams;
use crate::format::fermion::stats::{Bounds, Totals, ZoneStats};
use crate::format::wire::{ceil8, pad8};

/// Collects the chunks of a column and writes its CMB.
#[derive(Debug)]
pub struct CmbBuilder {
    streams: Vec<StreamType>,
    row_counts: Vec<u32>,
    /// By stripe, then by stream.
    chunks: Vec<Chunk>,
}

impl CmbBuilder {
    /// A builder for a column of this type.
    pub fn new(data_type: &DataType) -> Self {
        Self::of_streams(streams(data_type))
    }

    /// A builder of these streams.
    pub fn of_streams(streams: Vec<StreamType>) -> Self {
        Self { streams, row_counts: Vec::new(), chunks: Vec::new() }
    }

    /// The streams of the column, in the order of the chunks of a stripe.
    pub fn streams(&self) -> &[StreamType] {
        &self.streams
    }

    /// Adds a stripe: one chunk per stream, in stream order.
    pub fn push_stripe(&mut self, row_count: u32, chunks: Vec<Chunk>) -> Result<()> {
        if chunks.len() != self.streams.len() {
            return Err(Error::invalid_argument(format!("a stripe of this column has {} chunks, not {}", self.streams.len(), chunks.len())));
        }
        for (stream, chunk) in self.streams.iter().zip(&chunks) {
            check_chunk(*stream, chunk)?;
        }
        self.row_counts.push(row_count);
        self.chunks.extend(chunks);
        Ok(())
    }

    /// Adds the filter of a stream's last chunk, which is behind all chunks of its stripe.
    pub fn set_filter(&mut self, stream: usize, filter: BloomDesc) -> Result<()> {
        let last = self.chunks.len().checked_sub(self.streams.len()).and_then(|first| self.chunks.get_mut(first + stream));
        match last {
            Some(Chunk::Pages(pages)) if self.streams.get(stream) == Some(&StreamType::Data) => {
                pages.filter = Some(filter);
                Ok(())
            }
            _ => Err(Error::invalid_argument("only a chunk of DATA with values has a bloom filter")),
        }
    }

    /// Says that all that the last stripe has of the column lies so many bytes further on.
    pub fn move_last_stripe(&mut self, by: u64) {
        let first = self.chunks.len().saturating_sub(self.streams.len());
        for chunk in self.chunks.iter_mut().skip(first) {
            if let Chunk::Pages(pages) = chunk {
                pages.offset += by;
                pages.filter = pages.filter.take().map(|filter| filter.moved(by));
            }
        }
    }

    /// Whether the pages of a chunk share a dictionary.
    pub fn has_dictionary(&self) -> bool {
        self.chunks.iter().any(|chunk| matches!(chunk, Chunk::Pages(pages) if !pages.dictionary.is_empty()))
    }

    /// Whether a chunk has a bloom filter.
    pub fn has_filter(&self) -> bool {
        self.chunks.iter().any(|chunk| matches!(chunk, Chunk::Pages(pages) if pages.filter.is_some()))
    }

    /// The bytes of the CMB, a multiple of 8; none if the column is null in every row. Totals are those of a plain sequence of values.
    pub fn finish(&self, totals: Option<&Totals>, checksum: bool) -> Result<Vec<u8>> {
        if self.is_null_in_every_row() {
            return Ok(Vec::new());
        }
        let mut payload = Payload::new(payload_offset(self.row_counts.len(), self.streams.len()), self);
        let mut directory = Vec::with_capacity(self.streams.len());
        for (index, stream) in self.streams.iter().enumerate() {
            let desc_type = desc_type(*stream, self.chunks_of(index));
            let chunks_offset = payload.push_stream(desc_type, self.chunks_of(index))?;
            directory.push(StreamMeta {
                desc_type: desc_type as u8,
                stream_type: *stream as u8,
                flags: if totals.is_some() && index == LEAF_DATA { TOTALS } else { 0 }.into(),
                chunks_offset: chunks_offset.into(),
            });
        }
        let header = CmbHeader { num_streams: u32_of(self.streams.len())?.into(), num_stripes: u32_of(self.row_counts.len())?.into() };
        let mut out = header.as_bytes().to_vec();
        for row_count in &self.row_counts {
            out.extend_from_slice(StripeMeta { row_count: (*row_count).into() }.as_bytes());
        }
        pad8(&mut out);
        out.extend_from_slice(directory.as_bytes());
        out.extend_from_slice(&payload.descs);
        out.extend_from_slice(&payload.pool);
        if let Some(totals) = totals {
            out.extend_from_slice(TotalsRecord::new(totals).as_bytes());
        }
        let crc = if checksum { crc32fast::hash(&out) } else { 0 };
        out.extend_from_slice(&u64::from(crc).to_le_bytes());
        u32_of(out.len())?;
        Ok(out)
    }

    /// Null throughout: no streams at all (the null type), or a first `VALIDITY` stream that is null wherever there are rows.
    fn is_null_in_every_row(&self) -> bool {
        match self.streams.first() {
            None => true,
            // Type ids of unions are stored all the same.
            Some(StreamType::Validity) => {
                let is_null = |(rows, chunk): (&u32, &Chunk)| *rows == 0 || *chunk == Chunk::AllNull;
                self.row_counts.iter().zip(self.chunks_of(0)).all(is_null) && !self.chunks.iter().any(|chunk| matches!(chunk, Chunk::Pages(_)))
            }
            Some(_) => self.row_counts.iter().all(|rows| *rows == 0),
        }
    }

    fn chunks_of(&self, stream: usize) -> impl Iterator<Item = &Chunk> + Clone {
        self.chunks.iter().skip(stream).step_by(self.streams.len())
    }
}

fn check_chunk(stream: StreamType, chunk: &Chunk) -> Result<()> {
    match chunk {
        Chunk::AllNull if stream != StreamType::Validity => Err(Error::invalid_argument("only a VALIDITY chunk can be all null")),
        Chunk::Pages(pages) if pages.length == 0 || pages.length == LENGTH_ALL_NULL => {
            Err(Error::invalid_argument(format!("a chunk cannot have {} bytes", pages.length)))
        }
        Chunk::Pages(pages) if !pages.dictionary.is_empty() && (stream != StreamType::Data || pages.pages.is_empty()) => {
            Err(Error::invalid_argument("only pages of DATA share a dictionary"))
        }
        Chunk::Pages(pages) if pages.dictionary.len() + pages.pages.len() > 1 && pages.pages.iter().any(|page| page.rows.is_none()) => {
            Err(Error::invalid_argument("a page of several has to know its rows"))
        }
        _ => Ok(()),
    }
}

fn desc_type<'a>(stream: StreamType, mut chunks: impl Iterator<Item = &'a Chunk> + Clone) -> DescType {
    if chunks.clone().all(|chunk| *chunk == Chunk::Default) {
        return DescType::UseDefault;
    }
    match stream {
        StreamType::Validity if chunks.all(|chunk| *chunk == Chunk::AllNull) => DescType::ForceNull,
        StreamType::Validity | StreamType::Offsets => DescType::Simple,
        StreamType::Data | StreamType::BatchMeta => DescType::Full,
    }
}

/// The payload: first all descriptors, then the page metadata and bounds that they point to.
struct Payload {
    descs: Vec<u8>,
    descs_offset: usize,
    pool: Vec<u8>,
    pool_offset: usize,
}

impl Payload {
    fn new(offset: usize, builder: &CmbBuilder) -> Self {
        let stripes = builder.row_counts.len();
        let descs_length: usize = (0..builder.streams.len())
            .zip(&builder.streams)
            .map(|(index, stream)| match desc_type(*stream, builder.chunks_of(index)) {
                DescType::Simple => stripes * size_of::<SimpleChunkDesc>(),
                DescType::Full => stripes * size_of::<FullChunkDesc>(),
                DescType::UseDefault | DescType::ForceNull => 0,
            })
            .sum();
        Self { descs: Vec::with_capacity(descs_length), descs_offset: offset, pool: Vec::new(), pool_offset: offset + descs_length }
    }

    fn push_stream<'a>(&mut self, desc_type: DescType, chunks: impl Iterator<Item = &'a Chunk>) -> Result<u32> {
        let offset = u32_of(self.descs_offset + self.descs.len())?;
        match desc_type {
            DescType::UseDefault | DescType::ForceNull => return Ok(0),
            DescType::Simple => chunks.for_each(|chunk| self.push_simple(chunk)),
            DescType::Full => {
                for chunk in chunks {
                    self.push_full(chunk)?;
                }
            }
        }
        Ok(offset)
    }

    fn push_simple(&mut self, chunk: &Chunk) {
        let (offset, length) = match chunk {
            Chunk::Default => (0, 0),
            Chunk::AllNull => (0, LENGTH_ALL_NULL),
            Chunk::Pages(pages) => (pages.offset, pages.length),
        };
        let desc = SimpleChunkDesc { offset: offset.into(), length: length.into(), reserved: 0.into() };
        self.descs.extend_from_slice(desc.as_bytes());
    }

    fn push_full(&mut self, chunk: &Chunk) -> Result<()> {
        let desc = match chunk {
            Chunk::Pages(pages) => self.full_desc(pages)?,
            Chunk::Default | Chunk::AllNull => FullChunkDesc::default(),
        };
        self.descs.extend_from_slice(desc.as_bytes());
        Ok(())
    }

    fn full_desc(&mut self, pages: &Pages) -> Result<FullChunkDesc> {
        let mut flags = pages.stats.flags & !ZoneStats::LAYOUT;
        let mut page_meta_offset = 0;
        let dictionary = pages.dictionary.iter().map(|&size| ChunkPage { size, rows: Some(0), stats: ZoneStats::UNKNOWN });
        let all: Vec<ChunkPage> = dictionary.chain(pages.pages.iter().copied()).collect();
        if !pages.dictionary.is_empty() {
            flags |= ZoneStats::DICTIONARY;
        }
        if all.len() > 1 {
            page_meta_offset = self.pool_position()?;
            if self.push_page_metas(&all) {
                flags |= ZoneStats::PAGE_EXT;
            }
        }
        let bounds_offset = match (&pages.bounds, &pages.filter) {
            (None, None) => 0,
            (bounds, filter) => self.push_bounds(bounds.as_ref(), filter.as_ref())?,
        };
        Ok(FullChunkDesc {
            offset: pages.offset.into(),
            length: pages.length.into(),
            flags: flags.into(),
            chunk_min: pages.stats.min.into(),
            chunk_max: pages.stats.max.into(),
            null_count: pages.stats.null_count.into(),
            num_pages: u32_of(all.len().max(1))?.into(),
            page_meta_offset: page_meta_offset.into(),
            bounds_offset: bounds_offset.into(),
        })
    }

    /// Writes the pages, and says whether their `PageExt` follow: where nothing is known about any page there is nothing to extend.
    fn push_page_metas(&mut self, pages: &[ChunkPage]) -> bool {
        for page in pages {
            let meta = PageMeta {
                page_size: page.size.into(),
                row_count: page.rows.unwrap_or_default().into(),
                min_val: page.stats.min.into(),
                max_val: page.stats.max.into(),
            };
            self.pool.extend_from_slice(meta.as_bytes());
        }
        let has_ext = pages.iter().any(|page| page.stats.flags != 0);
        for page in pages.iter().filter(|_| has_ext) {
            let ext = PageExt { null_count: page.stats.null_count.into(), flags: page.stats.flags.into() };
            self.pool.extend_from_slice(ext.as_bytes());
        }
        has_ext
    }

    /// Bounds that are not known have no bytes.
    fn push_bounds(&mut self, bounds: Option<&Bounds>, filter: Option<&BloomDesc>) -> Result<u32> {
        let bloom_offset = match filter {
            Some(filter) => {
                let position = self.pool_position()?;
                self.pool.extend_from_slice(filter.as_bytes());
                position
            }
            None => 0,
        };
        let position = self.pool_position()?;
        let (min, max) = bounds.map_or((&[][..], &[][..]), |bounds| (&bounds.min, &bounds.max));
        let header = BoundsHeader {
            min_length: u32_of(min.len())?.into(),
            max_length: u32_of(max.len())?.into(),
            flags: bounds.map_or(0, Bounds::flags).into(),
            bloom_offset: bloom_offset.into(),
        };
        self.pool.extend_from_slice(header.as_bytes());
        self.pool.extend_from_slice(min);
        self.pool.extend_from_slice(max);
        self.pool.resize(ceil8(self.pool.len()), 0);
        Ok(position)
    }

    fn pool_position(&self) -> Result<u32> {
        u32_of(self.pool_offset + self.pool.len())
    }
}

fn u32_of(number: usize) -> Result<u32> {
    u32::try_from(number).map_err(|_| Error::invalid_argument("the metadata of a column exceeds 4 GiB"))
}
