//! One stream of a column: pages gather until the stripe ends, then they are its chunk.

use arrow::array::{Array, ArrayRef};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::DataType;
use bytes::Bytes;

use super::cut::{even, page_lengths};
use super::options::WriterOptions;
use crate::format::array::leaf_values;
use crate::format::codec::{EncodeOptions, Memory, PType, Values, encode_next};
use crate::format::error::{Error, Result};
use crate::format::fermion::cmb::{Chunk, ChunkPage, Pages, StreamType};
use crate::format::fermion::page::write_page;
use crate::format::fermion::stats::{Bounds, ZoneStats, leaf_bounds, leaf_stats};

/// Settings of the pages of a stream.
#[derive(Debug, Clone)]
pub(super) struct PageSettings {
    page_bytes: usize,
    page_rows: usize,
    checksums: bool,
    statistics: bool,
    encode: EncodeOptions,
}

impl PageSettings {
    pub(super) fn new(options: &WriterOptions) -> Self {
        Self {
            page_bytes: options.page_bytes,
            page_rows: options.page_rows,
            checksums: options.checksums,
            statistics: options.statistics,
            encode: options.encode(),
        }
    }

    fn page(&self, page: &Unencoded, rows: usize, memory: &Memory) -> Result<(Vec<u8>, Memory)> {
        let rows = u32::try_from(rows).map_err(|_| Error::invalid_argument("a page has too many rows"))?;
        let (encoded, memory) = encode_next(&page.values, page.nulls.as_ref(), &self.encode, memory)?;
        Ok((write_page(&encoded, rows, self.checksums), memory))
    }
}

/// The pages of a stream in the stripe that is being filled.
#[derive(Debug)]
pub(super) struct StreamWriter {
    kind: StreamType,
    pages: Vec<PendingPage>,
    encoded_bytes: usize,
    /// Slots in this stripe.
    rows: usize,
    /// DATA: whether any slot is valid. OFFSETS: the last offset, which is where the next lists begin.
    any_valid: bool,
    next_offset: i64,
    bounds: Option<Option<Bounds>>,
    /// The first page that is not encoded.
    unencoded: usize,
    memory: Memory,
}

/// A page that waits to be encoded, or for the end of its stripe.
#[derive(Debug)]
pub(super) struct PendingPage {
    rows: usize,
    stats: ZoneStats,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// With what is known from pages before it.
    Values(Unencoded, Memory),
    /// With what is known from this page and those before it, until the next page is told.
    Bytes(Vec<u8>, Memory),
    /// Validity that needs no page if the whole stripe is like it.
    Uniform(bool),
}

/// Values of a page. The slots of nulls mean nothing.
#[derive(Debug)]
struct Unencoded {
    values: Values,
    nulls: Option<NullBuffer>,
}

impl PendingPage {
    /// Encodes the page, if it is not.
    pub(super) fn encode(&mut self, settings: &PageSettings) -> Result<()> {
        if let Body::Values(values, memory) = &self.body {
            let (bytes, memory) = settings.page(values, self.rows, memory)?;
            self.body = Body::Bytes(bytes, memory);
        }
        Ok(())
    }

    /// About how long it takes to encode, in comparison with others.
    pub(super) fn work(&self) -> usize {
        match &self.body {
            // To write text in tokens takes several times as long as to pack numbers.
            Body::Values(Unencoded { values: values @ Values::Bytes(_), .. }, _) => 8 * values.raw_bytes(),
            Body::Values(Unencoded { values, .. }, _) => values.raw_bytes(),
            Body::Bytes(..) | Body::Uniform(_) => 0,
        }
    }
}

impl StreamWriter {
    pub(super) fn new(kind: StreamType) -> Self {
        Self {
            kind,
            pages: Vec::new(),
            encoded_bytes: 0,
            rows: 0,
            any_valid: false,
            next_offset: 0,
            bounds: None,
            unencoded: 0,
            memory: Memory::default(),
        }
    }

    pub(super) fn kind(&self) -> StreamType {
        self.kind
    }

    /// Bytes of the pages that wait for the end of the stripe.
    pub(super) fn encoded_bytes(&self) -> usize {
        self.encoded_bytes
    }

    /// The pages that wait to be encoded.
    pub(super) fn unencoded(&mut self) -> impl Iterator<Item = &mut PendingPage> {
        self.pages.iter_mut().skip(self.unencoded)
    }

    /// Takes note that they are encoded: what the first of them learnt that learnt anything is known to the next.
    pub(super) fn settle(&mut self) {
        let before = self.memory.clone();
        for page in self.pages.iter_mut().skip(self.unencoded) {
            if let Body::Bytes(bytes, memory) = &mut page.body {
                self.encoded_bytes += bytes.len();
                let learnt = std::mem::take(memory);
                if self.memory.is_same(&before) {
                    self.memory = learnt;
                }
            }
        }
        self.unencoded = self.pages.len();
    }

    pub(super) fn push_validity(&mut self, nulls: Option<&NullBuffer>, rows: usize) {
        let mut start = 0;
        for rows in even(rows, WriterOptions::PAGE_ROWS_MAX) {
            let nulls = nulls.map(|nulls| nulls.slice(start, rows));
            let body = match nulls {
                Some(nulls) if nulls.null_count() == rows => Body::Uniform(false),
                Some(nulls) if nulls.null_count() > 0 => self.values(Values::Bool(nulls.into_inner()), None),
                _ => Body::Uniform(true),
            };
            self.add(rows, ZoneStats::UNKNOWN, body);
            start += rows;
        }
    }

    fn values(&self, values: Values, nulls: Option<NullBuffer>) -> Body {
        Body::Values(Unencoded { values, nulls }, self.memory.clone())
    }

    /// Lists end where `offsets`, which begin at 0, say.
    pub(super) fn push_offsets(&mut self, offsets: &[i64], settings: &PageSettings) {
        let base = self.next_offset;
        let mut start = 0;
        for rows in even(offsets.len().saturating_sub(1), settings.page_rows) {
            let page: Vec<i64> = offsets.iter().skip(start).take(rows + 1).map(|offset| offset + base).collect();
            self.next_offset = page.last().copied().unwrap_or(base);
            let values = Values::Fixed { ptype: PType::I64, bytes: Buffer::from_vec(page) };
            let body = self.values(values, None);
            self.add(rows, ZoneStats::UNKNOWN, body);
            start += rows;
        }
    }

    pub(super) fn push_data(&mut self, array: &ArrayRef, settings: &PageSettings) -> Result<()> {
        let values = leaf_values(array)?;
        let mut start = 0;
        for rows in page_lengths(&values, settings.page_bytes, settings.page_rows) {
            let slice = array.slice(start, rows);
            let body = self.values(values.slice(start, rows), slice.nulls().cloned());
            let stats = if settings.statistics { leaf_stats(slice.as_ref()) } else { ZoneStats::UNKNOWN };
            if settings.statistics {
                self.merge_bounds(leaf_bounds(slice.as_ref()), &stats, array.data_type());
            }
            self.any_valid |= slice.null_count() < rows;
            self.add(rows, stats, body);
            start += rows;
        }
        Ok(())
    }

    /// A page of nulls alone says nothing about the bounds of the chunk.
    fn merge_bounds(&mut self, page: Option<Bounds>, stats: &ZoneStats, data_type: &DataType) {
        if page.is_none() && stats.bounds().is_none() {
            return;
        }
        self.bounds = Some(match self.bounds.take() {
            None => page,
            Some(Some(chunk)) => page.map(|page| chunk.merge(&page, data_type)),
            Some(None) => None,
        });
    }

    fn add(&mut self, rows: usize, stats: ZoneStats, body: Body) {
        self.rows += rows;
        self.pages.push(PendingPage { rows, stats, body });
    }

    /// Ends the stripe: the pages go out, at `position`, and the chunk that describes them comes back.
    pub(super) fn finish_stripe(&mut self, position: &mut u64, settings: &PageSettings, out: &mut Vec<Bytes>) -> Result<Chunk> {
        let stream = std::mem::replace(self, Self::new(self.kind));
        self.memory = stream.memory.clone();
        let uniform = |valid: bool| stream.pages.iter().all(|page| matches!(page.body, Body::Uniform(v) if v == valid));
        match stream.kind {
            StreamType::Validity if uniform(true) => return Ok(Chunk::Default),
            StreamType::Validity if uniform(false) => return Ok(Chunk::AllNull),
            StreamType::Offsets if stream.next_offset == 0 => return Ok(Chunk::Default),
            StreamType::Data if !stream.any_valid => return Ok(Chunk::Default),
            _ => {}
        }
        let start = *position;
        let mut pages = Vec::with_capacity(stream.pages.len());
        for page in stream.pages {
            let bytes = match page.body {
                Body::Bytes(bytes, _) => bytes,
                Body::Values(values, memory) => settings.page(&values, page.rows, &memory)?.0,
                Body::Uniform(valid) => {
                    let values = Values::Bool(constant_bits(valid, page.rows));
                    settings.page(&Unencoded { values, nulls: None }, page.rows, &Memory::default())?.0
                }
            };
            pages.push(ChunkPage { size: width(bytes.len())?, rows: Some(width(page.rows)?), stats: page.stats });
            *position += bytes.len() as u64;
            out.push(Bytes::from(bytes));
        }
        let length = u32::try_from(*position - start).ok().filter(|length| *length < u32::MAX);
        let length = length.ok_or_else(|| Error::invalid_argument("a chunk passes 4 GiB; write smaller stripes (stripe_rows, stripe_bytes)"))?;
        Ok(Chunk::Pages(Pages { offset: start, length, stats: chunk_stats(&pages), pages, bounds: stream.bounds.flatten() }))
    }
}

fn chunk_stats(pages: &[ChunkPage]) -> ZoneStats {
    let rows = |page: &ChunkPage| u64::from(page.rows.unwrap_or(0));
    let mut zones = pages.iter().map(|page| (page.stats, rows(page)));
    let first = zones.next().unwrap_or((ZoneStats::UNKNOWN, 0));
    zones.fold(first, |(chunk, chunk_rows), (page, page_rows)| (chunk.merge(chunk_rows, &page, page_rows), chunk_rows + page_rows)).0
}

fn constant_bits(valid: bool, rows: usize) -> BooleanBuffer {
    if valid { BooleanBuffer::new_set(rows) } else { BooleanBuffer::new_unset(rows) }
}

fn width(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| Error::invalid_argument("a page passes 4 GiB"))
}
