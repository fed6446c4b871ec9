//! One stream of a column: pages gather until the stripe ends, then they are its chunk.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::take;
use arrow::datatypes::DataType;
use bytes::Bytes;

use super::arena::Arena;
use super::cut::{batch_page_lengths, even, page_lengths, whole};
use super::options::WriterOptions;
use super::sharing::{Coded, Sharing};
use crate::format::array::{Ends, binary_views, leaf_values};
use crate::format::codec::{ChunkDictionary, Decoded, EncodeOptions, Memory, Output, PType, Values, encode_codes, encode_next};
use crate::format::error::{Error, Result};
use crate::format::fermion::bloom::BloomBuilder;
use crate::format::fermion::cmb::{Chunk, ChunkPage, Pages, StreamType};
use crate::format::fermion::page::{Page, PageExpect, write_page};
use crate::format::fermion::stats::{Bounds, Totals, TotalsBuilder, ZoneStats, leaf_stats_and_bounds};

/// Where no more than one value in so many differs from all before it, few do.
const FEW_PART: usize = 4;

/// Settings of the pages of a stream.
#[derive(Debug, Clone)]
pub(super) struct PageSettings {
    page_bytes: usize,
    page_rows: usize,
    checksums: bool,
    statistics: bool,
    encode: EncodeOptions,
    /// For the pages of dictionaries.
    dictionary: EncodeOptions,
    /// The part of wrong answers that a bloom filter of the values may give, if there is to be one.
    filter: Option<f64>,
}

impl PageSettings {
    pub(super) fn new(options: &WriterOptions, has_filter: bool) -> Self {
        Self {
            filter: has_filter.then_some(options.bloom_filter_fpp),
            page_bytes: options.page_bytes,
            page_rows: options.page_rows,
            checksums: options.checksums,
            statistics: options.statistics,
            encode: options.encode(),
            dictionary: options.encode_dictionary(),
        }
    }

    /// Whether statistics are to be written.
    pub(super) fn statistics(&self) -> bool {
        self.statistics
    }

    fn coded_page(&self, codes: &[u32], ptype: PType) -> Result<Vec<u8>> {
        let encoded = encode_codes(codes, ptype, &self.encode)?;
        Ok(write_page(&encoded, width(codes.len())?, self.checksums))
    }

    /// A page of values that are all valid and have no other pages to learn from.
    pub(super) fn plain_page(&self, values: Values) -> Result<Vec<u8>> {
        let rows = values.len();
        self.page(&Unencoded { values, nulls: None }, rows, &Memory::default()).map(|(bytes, _)| bytes)
    }

    fn page(&self, page: &Unencoded, rows: usize, memory: &Memory) -> Result<(Vec<u8>, Memory)> {
        let rows = width(rows)?;
        // A page without rows is one of a dictionary.
        let options = if rows == 0 { &self.dictionary } else { &self.encode };
        let (encoded, memory) = encode_next(&page.values, page.nulls.as_ref(), options, memory)?;
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
    memory: Memory,
    sharing: Sharing,
    /// Pages of the dictionary that other pages share.
    dictionary: Vec<PendingPage>,
    dictionary_memory: Memory,
    filter: BloomBuilder,
    /// The filter of the stripe that is closed, and its blocks.
    built_filter: Option<(Vec<u8>, u32)>,
    /// Of all stripes, where they are wanted.
    totals: Option<TotalsBuilder>,
}

/// Where a page of a stream is.
#[derive(Debug, Clone, Copy)]
pub(super) enum PagePlace {
    Page(usize),
    Dictionary(usize),
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
    Values(Box<(Unencoded, Memory)>),
    /// With what is known from this page and those before it, until the next page is told.
    Bytes(Vec<u8>, Option<Box<Memory>>),
    /// Codes of the chunk's dictionary.
    Codes(Vec<u32>, Box<Shared>),
    /// The same encoded.
    Shared(Vec<u8>, Box<Shared>),
    /// Encoded, until the end of the stripe.
    Kept(Bytes),
    /// Validity that needs no page if the whole stripe is like it.
    Uniform(bool),
}

/// Values of a page. The slots of nulls mean nothing.
#[derive(Debug)]
struct Unencoded {
    values: Values,
    nulls: Option<NullBuffer>,
}

/// What is known of a page that shares a dictionary, should it have to do without.
#[derive(Debug, Clone)]
struct Shared {
    ptype: PType,
    nulls: Option<NullBuffer>,
}

impl PendingPage {
    /// Encodes the page, if it is not.
    pub(super) fn encode(&mut self, settings: &PageSettings) -> Result<()> {
        match &mut self.body {
            Body::Values(unencoded) => {
                let (values, memory) = unencoded.as_ref();
                let (bytes, memory) = settings.page(values, self.rows, memory)?;
                self.body = Body::Bytes(bytes, Some(Box::new(memory)));
            }
            Body::Codes(codes, shared) => {
                self.body = Body::Shared(settings.coded_page(codes, shared.ptype)?, shared.clone());
            }
            Body::Bytes(..) | Body::Shared(..) | Body::Kept(_) | Body::Uniform(_) => {}
        }
        Ok(())
    }

    fn waits(&self) -> bool {
        matches!(self.body, Body::Values(..) | Body::Codes(..))
    }

    fn encoded_bytes(&self) -> usize {
        match &self.body {
            Body::Bytes(bytes, _) | Body::Shared(bytes, _) => bytes.len(),
            Body::Kept(bytes) => bytes.len(),
            Body::Values(..) | Body::Codes(..) | Body::Uniform(_) => 0,
        }
    }

    /// Takes the values of a page that shares them from the dictionary, and encodes them by themselves: those of all pages at once would be the whole stripe.
    fn unshare(&mut self, dictionary: &Arc<ChunkDictionary>, settings: &PageSettings, memory: &Memory) -> Result<()> {
        if matches!(self.body, Body::Codes(..)) {
            self.encode(settings)?;
        }
        if let Body::Shared(bytes, shared) = &mut self.body {
            let Shared { ptype, nulls, .. } = shared.as_mut();
            let expect = PageExpect { ptype: *ptype, rows: None, extra: 0, checksum: false, utf8: false };
            let page = Page::open_with(&Bytes::from(std::mem::take(bytes)), &expect, || Ok(Some(Arc::clone(dictionary))))?;
            let mut out = Output::new(*ptype, page.len());
            page.decode(0..page.len(), &mut out)?;
            let values = decoded_values(*ptype, out.finish());
            self.body = Body::Values(Box::new((Unencoded { values, nulls: nulls.take() }, memory.clone())));
            self.encode(settings)?;
        }
        Ok(())
    }

    /// About how long it takes to encode, in comparison with others.
    pub(super) fn work(&self) -> usize {
        match &self.body {
            // To write text in tokens takes several times as long as to pack numbers.
            Body::Values(unencoded) => match &unencoded.0.values {
                values @ Values::Bytes(_) => 8 * values.raw_bytes(),
                values => values.raw_bytes(),
            },
            Body::Codes(codes, _) => size_of_val(codes.as_slice()),
            Body::Bytes(..) | Body::Shared(..) | Body::Kept(_) | Body::Uniform(_) => 0,
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
            memory: Memory::default(),
            sharing: Sharing::default(),
            dictionary: Vec::new(),
            dictionary_memory: Memory::default(),
            filter: BloomBuilder::default(),
            built_filter: None,
            totals: None,
        }
    }

    /// Adds up the values.
    pub(super) fn with_totals(mut self) -> Self {
        self.totals = Some(TotalsBuilder::default());
        self
    }

    /// What they have added up to.
    pub(super) fn totals(&self) -> Option<Totals> {
        self.totals.as_ref().map(TotalsBuilder::finish)
    }

    /// Bytes that are held until the file ends.
    pub(super) fn kept_bytes(&self) -> usize {
        self.totals.as_ref().map_or(0, TotalsBuilder::memory_size) + self.memory.memory_size() + self.dictionary_memory.memory_size()
    }

    pub(super) fn kind(&self) -> StreamType {
        self.kind
    }

    /// Bytes of the pages that wait for the end of the stripe.
    pub(super) fn encoded_bytes(&self) -> usize {
        self.encoded_bytes
    }

    /// Takes the pages that wait to be encoded.
    pub(super) fn take_unencoded(&mut self) -> impl Iterator<Item = (PagePlace, PendingPage)> {
        let pages = self.pages.iter_mut().enumerate().map(|(index, page)| (PagePlace::Page(index), page));
        let dictionary = self.dictionary.iter_mut().enumerate().map(|(index, page)| (PagePlace::Dictionary(index), page));
        let waiting = pages.chain(dictionary).filter(|(_, page)| page.waits());
        waiting.map(|(place, page)| {
            let left = PendingPage { rows: page.rows, stats: page.stats, body: Body::Kept(Bytes::new()) };
            (place, std::mem::replace(page, left))
        })
    }

    /// Puts a page back to its place.
    pub(super) fn put_back(&mut self, place: PagePlace, page: PendingPage) {
        let left = match place {
            PagePlace::Page(index) => self.pages.get_mut(index),
            PagePlace::Dictionary(index) => self.dictionary.get_mut(index),
        };
        if let Some(left) = left {
            *left = page;
        }
    }

    /// Takes note that they are encoded: what they learnt is known to the next.
    pub(super) fn settle(&mut self, arena: &mut Arena) {
        learn(&mut self.memory, &mut self.pages, arena);
        learn(&mut self.dictionary_memory, &mut self.dictionary, arena);
        self.encoded_bytes = self.pages.iter().chain(&self.dictionary).map(PendingPage::encoded_bytes).sum();
    }

    /// Bytes of the dictionary and the filter that grow.
    pub(super) fn growing_bytes(&self) -> usize {
        self.sharing.memory_size() + self.filter.memory_size()
    }

    /// The filter of the chunk that has been finished last, and its blocks.
    pub(super) fn take_filter(&mut self) -> Option<(Vec<u8>, u32)> {
        self.built_filter.take()
    }

    /// No more pages will come: what is left of the dictionary is its last page, unless it is better to do without.
    pub(super) fn close_stripe(&mut self, settings: &PageSettings) -> Result<()> {
        self.add_dictionary(true, settings)?;
        self.sharing = self.sharing.next_chunk();
        let filter = std::mem::take(&mut self.filter);
        self.built_filter = settings.filter.and_then(|false_positives| filter.finish(false_positives, settings.checksums));
        Ok(())
    }

    /// Adds the next pages of the dictionary, if there are any; or takes the dictionary away, if it has not been worth it.
    fn add_dictionary(&mut self, is_last: bool, settings: &PageSettings) -> Result<()> {
        if self.sharing.is_in_vain(is_last) {
            self.dictionary.clear();
            let Some(values) = self.sharing.take()? else { return Ok(()) };
            let dictionary = Arc::new(ChunkDictionary::of(&values));
            return self.pages.iter_mut().try_for_each(|page| page.unshare(&dictionary, settings, &self.memory));
        }
        while let Some(values) = self.sharing.next_page(is_last)? {
            let body = Body::Values(Box::new((Unencoded { values, nulls: None }, self.dictionary_memory.clone())));
            self.dictionary.push(PendingPage { rows: 0, stats: ZoneStats::UNKNOWN, body });
        }
        Ok(())
    }

    /// Adds slots. Those of batches come with where each batch ends, and none is split over pages.
    pub(super) fn push_validity(&mut self, nulls: Option<&NullBuffer>, rows: usize, ends: Option<&Ends>) -> Result<()> {
        let mut start = 0;
        for rows in slot_pages(rows, ends, WriterOptions::PAGE_ROWS_MAX)? {
            let nulls = nulls.map(|nulls| nulls.slice(start, rows));
            let body = match nulls {
                Some(nulls) if nulls.null_count() == rows => Body::Uniform(false),
                Some(nulls) if nulls.null_count() > 0 => self.values(Values::Bool(nulls.into_inner()), None),
                _ => Body::Uniform(true),
            };
            if !self.extend_uniform(rows, &body) {
                self.add(rows, ZoneStats::UNKNOWN, body);
            }
            start += rows;
        }
        Ok(())
    }

    fn values(&self, values: Values, nulls: Option<NullBuffer>) -> Body {
        Body::Values(Box::new((Unencoded { values, nulls }, self.memory.clone())))
    }

    /// Lists end where `offsets`, which begin at 0, say.
    pub(super) fn push_offsets(&mut self, offsets: &[i64], ends: Option<&Ends>, settings: &PageSettings) -> Result<()> {
        let base = self.next_offset;
        let mut start = 0;
        for rows in slot_pages(offsets.len().saturating_sub(1), ends, settings.page_rows)? {
            let page: Vec<i64> = offsets.iter().skip(start).take(rows + 1).map(|offset| offset + base).collect();
            self.next_offset = page.last().copied().unwrap_or(base);
            let values = Values::Fixed { ptype: PType::I64, bytes: Buffer::from_vec(page) };
            let body = self.values(values, None);
            self.add(rows, ZoneStats::UNKNOWN, body);
            start += rows;
        }
        Ok(())
    }

    pub(super) fn push_data(&mut self, array: &ArrayRef, ends: Option<&Ends>, settings: &PageSettings) -> Result<()> {
        let values = leaf_values(array)?;
        if settings.filter.is_some() {
            self.filter.push(&values, array.nulls());
        }
        if let Some(totals) = &mut self.totals {
            totals.push(array);
        }
        let mut start = 0;
        let pages = match ends {
            None => page_lengths(&values, settings.page_bytes, settings.page_rows),
            Some(ends) => batch_page_lengths(&values, ends, settings.page_bytes, settings.page_rows)?,
        };
        for rows in pages {
            let slice = array.slice(start, rows);
            let (body, firsts) = self.data(values.slice(start, rows), slice.nulls().cloned(), settings)?;
            let (stats, bounds) = if settings.statistics { stats_and_bounds(&slice, firsts)? } else { (ZoneStats::UNKNOWN, None) };
            if settings.statistics {
                self.merge_bounds(bounds, &stats, array.data_type());
            }
            self.any_valid |= slice.null_count() < rows;
            self.add(rows, stats, body);
            start += rows;
        }
        self.add_dictionary(false, settings)
    }

    /// A page of these values, and where each of them is first, if that is known.
    fn data(&mut self, values: Values, nulls: Option<NullBuffer>, settings: &PageSettings) -> Result<(Body, Option<Vec<u32>>)> {
        let coded = self.sharing.codes(&values, nulls.as_ref(), &settings.encode)?;
        if let Some(totals) = &mut self.totals {
            match &coded {
                // What the dictionary has, has been seen.
                Some(coded) => totals.see(&coded.new, None),
                None => totals.see(&values, nulls.as_ref()),
            }
        }
        Ok(match coded {
            Some(Coded { codes, firsts, .. }) => {
                let shared = Shared { ptype: values.ptype(), nulls: nulls.map(|nulls| copied(&nulls)) };
                (Body::Codes(codes, Box::new(shared)), Some(firsts))
            }
            None => (self.values(values, nulls), None),
        })
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

    /// Makes the last page longer if slots are all like its own: of very many columns, pages that say nothing take more memory than what they are about.
    fn extend_uniform(&mut self, rows: usize, body: &Body) -> bool {
        let Some(last) = self.pages.last_mut().filter(|last| last.rows + rows <= WriterOptions::PAGE_ROWS_MAX) else { return false };
        let is_alike = matches!((&last.body, body), (Body::Uniform(last), Body::Uniform(more)) if last == more);
        if is_alike {
            last.rows += rows;
            self.rows += rows;
        }
        is_alike
    }

    fn add(&mut self, rows: usize, stats: ZoneStats, body: Body) {
        if self.pages.is_empty() {
            self.pages.reserve_exact(1);
        }
        self.rows += rows;
        self.pages.push(PendingPage { rows, stats, body });
    }

    /// Whether it says that all slots of the stripe are null.
    pub(super) fn is_all_null(&self) -> bool {
        self.kind == StreamType::Validity && self.is_uniform(false)
    }

    /// Whether all pages are of slots that are all valid, or all null.
    fn is_uniform(&self, valid: bool) -> bool {
        self.pages.iter().all(|page| matches!(page.body, Body::Uniform(v) if v == valid))
    }

    /// Forgets the stripe, in which everything is null.
    pub(super) fn leave_out(&mut self) -> Chunk {
        let stream = std::mem::replace(self, Self::new(self.kind));
        (self.memory, self.dictionary_memory, self.sharing, self.totals) = (stream.memory, stream.dictionary_memory, stream.sharing, stream.totals);
        if self.kind == StreamType::Validity { Chunk::AllNull } else { Chunk::Default }
    }

    /// Ends the stripe: the pages go out, at `position`, and the chunk that describes them comes back.
    pub(super) fn finish_stripe(&mut self, position: &mut u64, settings: &PageSettings, out: &mut Vec<Bytes>) -> Result<Chunk> {
        let stream = std::mem::replace(self, Self::new(self.kind));
        let [all_valid, all_null] = [true, false].map(|valid| stream.is_uniform(valid));
        self.memory = stream.memory.clone();
        self.dictionary_memory = stream.dictionary_memory.clone();
        self.sharing = stream.sharing;
        self.built_filter = stream.built_filter;
        self.totals = stream.totals;
        match stream.kind {
            StreamType::Validity if all_valid => return Ok(Chunk::Default),
            StreamType::Validity if all_null => return Ok(Chunk::AllNull),
            StreamType::Offsets if stream.next_offset == 0 => return Ok(Chunk::Default),
            StreamType::Data if !stream.any_valid => return Ok(Chunk::Default),
            _ => {}
        }
        let start = *position;
        let dictionary_pages = stream.dictionary.len();
        let mut pages = Vec::with_capacity(dictionary_pages + stream.pages.len());
        for page in stream.dictionary.into_iter().chain(stream.pages) {
            let bytes = match page.body {
                Body::Bytes(bytes, _) | Body::Shared(bytes, _) => bytes.into(),
                Body::Kept(bytes) => bytes,
                Body::Values(unencoded) => settings.page(&unencoded.0, page.rows, &unencoded.1)?.0.into(),
                Body::Codes(codes, shared) => settings.coded_page(&codes, shared.ptype)?.into(),
                Body::Uniform(valid) => settings.plain_page(Values::Bool(constant_bits(valid, page.rows)))?.into(),
            };
            pages.push(ChunkPage { size: width(bytes.len())?, rows: Some(width(page.rows)?), stats: page.stats });
            *position += bytes.len() as u64;
            out.push(bytes);
        }
        let length = u32::try_from(*position - start).ok().filter(|length| *length < u32::MAX);
        let length = length
            .ok_or_else(|| Error::invalid_argument("a chunk passes 4 GiB; write smaller stripes (stripe_rows, stripe_bytes, stripe_raw_bytes)"))?;
        let dictionary = pages.drain(..dictionary_pages).map(|page| page.size).collect();
        Ok(Chunk::Pages(Box::new(Pages {
            offset: start,
            length,
            stats: chunk_stats(&pages),
            dictionary,
            pages,
            bounds: stream.bounds.flatten(),
            filter: None,
        })))
    }
}

/// Pages of slots that take next to nothing.
fn slot_pages(slots: usize, ends: Option<&Ends>, page_rows: usize) -> Result<Vec<usize>> {
    ends.map_or_else(|| Ok(even(slots, page_rows)), |ends| whole(ends, |_| 0, usize::MAX, page_rows))
}

/// What the pages that have just been encoded learnt is known to the next.
fn learn(memory: &mut Memory, pages: &mut [PendingPage], arena: &mut Arena) {
    let mut learnt = Vec::new();
    for page in pages {
        if let Body::Bytes(bytes, memory) = &mut page.body {
            learnt.extend(memory.take().map(|memory| *memory));
            page.body = Body::Kept(arena.keep(std::mem::take(bytes)));
        }
    }
    *memory = memory.join(&learnt);
}

/// A slice would keep what it is cut from in memory, which may be a batch, until the stripe ends.
fn copied(nulls: &NullBuffer) -> NullBuffer {
    let bits = nulls.inner().sliced();
    NullBuffer::new(BooleanBuffer::new(Buffer::from(bits.as_slice()), 0, nulls.len()))
}

fn decoded_values(ptype: PType, decoded: Decoded) -> Values {
    match decoded {
        Decoded::Bool(bits) => Values::Bool(bits),
        Decoded::Fixed(bytes) => Values::Fixed { ptype, bytes },
        Decoded::Views { views, buffers } => Values::Bytes(binary_views(views, buffers, None)),
    }
}

/// Of few different values it is enough to look at each once.
fn stats_and_bounds(page: &ArrayRef, firsts: Option<Vec<u32>>) -> Result<(ZoneStats, Option<Bounds>)> {
    match firsts.filter(|firsts| page.null_count() == 0 && firsts.len() * FEW_PART <= page.len()) {
        Some(firsts) => Ok(leaf_stats_and_bounds(&take(page, &UInt32Array::from(firsts), None)?)),
        None => Ok(leaf_stats_and_bounds(page)),
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

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, StringViewArray};

    use super::*;

    #[test]
    fn each_of_few_values_is_looked_at_once() {
        let text = |row: u32| (!row.is_multiple_of(7)).then(|| format!("a value of more than twelve bytes, {}", row % 7));
        let strings: [ArrayRef; 2] = [
            Arc::new(StringViewArray::from_iter_values((0..90).map(|row| text(row + 1).unwrap_or_default()))),
            Arc::new((0..90).map(text).collect::<StringViewArray>()),
        ];
        let numbers: ArrayRef = Arc::new(Float64Array::from_iter_values((0..90).map(|row| [1.5, f64::NAN, -0.0][row % 3])));
        for (array, different) in [(&strings[0], 7), (&strings[1], 7), (&numbers, 3)] {
            for firsts in [None, Some((0..different).collect()), Some((0..90).collect())] {
                assert_eq!(stats_and_bounds(array, firsts).unwrap(), leaf_stats_and_bounds(array), "{array:?}");
            }
        }
        // What is not pointed at is not looked at.
        assert_ne!(stats_and_bounds(&strings[0], Some(vec![0, 1])).unwrap(), leaf_stats_and_bounds(&strings[0]));
    }
}
