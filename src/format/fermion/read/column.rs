//! The loaded streams of a column in one stripe: pages are opened when a row of theirs is decoded.

use std::cell::OnceCell;
use std::ops::Range;

use arrow::array::{ArrayRef, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, FieldRef};
use bytes::Bytes;

use super::plan::{ColumnPlan, Fetched, StreamPlan};
use crate::format::array::{LEAF_DATA, LEAF_VALIDITY, Ranges, Streams, assemble, is_text, leaf_array, leaf_ptype, slots};
use crate::format::codec::{Decoded, Output, PType};
use crate::format::error::{Error, Result};
use crate::format::fermion::page::{Page, PageExpect, PageHeader};
use crate::format::scan::{Coded, CodedPart, Section};

#[derive(Debug)]
pub(super) struct LoadedColumn {
    name: String,
    file_type: DataType,
    out_type: DataType,
    /// `None`: null in every row.
    streams: Option<Vec<LoadedStream>>,
    checksums: bool,
}

#[derive(Debug)]
enum LoadedStream {
    Default,
    AllNull,
    Pages(Vec<LoadedPage>),
}

#[derive(Debug)]
struct LoadedPage {
    /// First slot in the stripe.
    first: usize,
    /// Slots; the page's own header says, and the metadata agrees.
    rows: u32,
    /// Where the page is in the file, for errors.
    offset: u64,
    bytes: Bytes,
    page: OnceCell<Page>,
}

impl LoadedColumn {
    pub(super) fn new(field: &FieldRef, out_type: &DataType, plan: ColumnPlan, fetched: &Fetched, checksums: bool) -> Result<Self> {
        let streams = match plan {
            ColumnPlan::Null => None,
            ColumnPlan::Streams(streams) => {
                let load = |plan| load_stream(plan, fetched).map_err(|error| error.in_section(Section::Data).in_column(field.name()));
                Some(streams.into_iter().map(load).collect::<Result<Vec<_>>>()?)
            }
        };
        Ok(Self { name: field.name().clone(), file_type: field.data_type().clone(), out_type: out_type.clone(), streams, checksums })
    }

    /// The rows of these ranges.
    pub(super) fn read(&self, ranges: &Ranges) -> Result<ArrayRef> {
        if self.streams.is_none() {
            return Ok(new_null_array(&self.out_type, slots(ranges)));
        }
        assemble(self, &self.file_type, &self.out_type, ranges).map_err(|error| error.in_section(Section::Data).in_column(&self.name))
    }

    /// The rows of these ranges as codes of no more than `most` values in each page, if that is how they are stored.
    pub(super) fn coded(&self, ranges: &Ranges, most: usize) -> Result<Option<Coded>> {
        let leaf = leaf_ptype(&self.file_type).filter(|_| self.streams.is_some() && leaf_ptype(&self.out_type).is_some());
        let Some(ptype) = leaf else { return Ok(None) };
        self.coded_leaf(ptype, ranges, most).map_err(|error| error.in_section(Section::Data).in_column(&self.name))
    }

    fn coded_leaf(&self, ptype: PType, ranges: &Ranges, most: usize) -> Result<Option<Coded>> {
        let LoadedStream::Pages(pages) = self.stream(LEAF_DATA)? else { return Ok(None) };
        let expect = self.expect(ptype, is_text(&self.out_type), 0);
        let mut parts: Vec<CodedPart> = Vec::new();
        for piece in pieces(pages, ranges) {
            let (page, local) = piece?;
            let coded = |codes: &mut Vec<u32>| page.open(&expect)?.coded(local.clone(), most, codes);
            let known = parts.last_mut().filter(|part| part.page == page.first);
            let mut codes = Vec::new();
            let values = coded(known.map_or(&mut codes, |part| &mut part.codes)).map_err(|error| error.at(page.offset))?;
            let Some(values) = values else { return Ok(None) };
            if !codes.is_empty() {
                parts.push(CodedPart { page: page.first, values: leaf_array(&self.out_type, values, None)?, codes });
            }
        }
        Ok(Some(Coded { parts, nulls: self.validity(LEAF_VALIDITY, ranges)? }))
    }

    fn stream(&self, stream: usize) -> Result<&LoadedStream> {
        let found = self.streams.as_ref().and_then(|streams| streams.get(stream));
        found.ok_or_else(|| Error::invalid_file(format!("stream {stream} is missing")))
    }

    fn decode(&self, pages: &[LoadedPage], expect: &Expect, ranges: &Ranges, out: &mut Output) -> Result<()> {
        pieces(pages, ranges).try_for_each(|piece| {
            let (page, local) = piece?;
            page.decode(local, expect, out).map_err(|error| error.at(page.offset))
        })
    }

    fn expect(&self, ptype: PType, text: bool, extra: u32) -> Expect {
        Expect { ptype, text, extra, checksums: self.checksums }
    }
}

/// What every page of a stream has to be.
struct Expect {
    ptype: PType,
    text: bool,
    extra: u32,
    checksums: bool,
}

/// The pages with slots of these ranges, and which of each page's slots those are.
fn pieces<'a>(pages: &'a [LoadedPage], ranges: &'a Ranges) -> impl Iterator<Item = Result<(&'a LoadedPage, Range<usize>)>> {
    ranges.iter().flat_map(move |range| {
        let mut index = pages.partition_point(|page| page.end() <= range.start);
        let mut next = range.start;
        std::iter::from_fn(move || {
            if next >= range.end {
                return None;
            }
            let Some(page) = pages.get(index).filter(|page| page.first <= next) else {
                next = range.end;
                return Some(Err(missing_rows(range, pages)));
            };
            let local = next - page.first..range.end.min(page.end()) - page.first;
            next = page.end();
            index += 1;
            Some(Ok((page, local)))
        })
    })
}

fn missing_rows(range: &Range<usize>, pages: &[LoadedPage]) -> Error {
    let last = pages.last().map_or(0, LoadedPage::end);
    Error::invalid_file(format!("slots {range:?} are needed, but the pages at hand end at {last}"))
}

impl LoadedPage {
    fn end(&self) -> usize {
        self.first.saturating_add(self.rows as usize)
    }

    /// Decodes slots of this page; an offsets page has one number more than it has slots, and so has the range decoded.
    fn decode(&self, local: Range<usize>, expect: &Expect, out: &mut Output) -> Result<()> {
        self.open(expect)?.decode(local.start..local.end + expect.extra as usize, out)
    }

    fn open(&self, expect: &Expect) -> Result<&Page> {
        if let Some(page) = self.page.get() {
            return Ok(page);
        }
        let expect = PageExpect { ptype: expect.ptype, rows: Some(self.rows), extra: expect.extra, checksum: expect.checksums, utf8: expect.text };
        let page = Page::open(&self.bytes, &expect)?;
        Ok(self.page.get_or_init(|| page))
    }
}

fn load_stream(plan: StreamPlan, fetched: &Fetched) -> Result<LoadedStream> {
    match plan {
        StreamPlan::Default => Ok(LoadedStream::Default),
        StreamPlan::AllNull => Ok(LoadedStream::AllNull),
        StreamPlan::Chunk(range) => Ok(LoadedStream::Pages(walk_pages(fetched.get(&range)?, range.start)?)),
        StreamPlan::Pages(plans) => {
            let load = |plan: super::plan::PagePlan| {
                let bytes = fetched.get(&plan.range)?;
                let rows = match plan.rows {
                    Some(rows) => rows,
                    None => row_count(&PageHeader::read(&bytes)?)?,
                };
                Ok(LoadedPage { first: plan.first, rows, offset: plan.range.start, bytes, page: OnceCell::new() })
            };
            Ok(LoadedStream::Pages(plans.into_iter().map(load).collect::<Result<_>>()?))
        }
    }
}

fn row_count(header: &PageHeader) -> Result<u32> {
    u32::try_from(header.rows()).map_err(|_| Error::invalid_file("a page has too many rows"))
}

/// The pages of a chunk, one after the other.
fn walk_pages(chunk: Bytes, offset: u64) -> Result<Vec<LoadedPage>> {
    let mut pages = Vec::new();
    let (mut at, mut first) = (0, 0_usize);
    while at < chunk.len() {
        let header = PageHeader::read(&chunk[at..])?;
        let (length, rows) = (header.length(), row_count(&header)?);
        let end = at.checked_add(length).filter(|end| length > 0 && *end <= chunk.len());
        let end = end.ok_or_else(|| Error::invalid_file(format!("a page of {length} bytes does not fit its chunk")).at(offset + at as u64))?;
        pages.push(LoadedPage { first, rows, offset: offset + at as u64, bytes: chunk.slice(at..end), page: OnceCell::new() });
        first = first.saturating_add(rows as usize);
        at = end;
    }
    Ok(pages)
}

impl Streams for LoadedColumn {
    fn validity(&self, stream: usize, ranges: &Ranges) -> Result<Option<NullBuffer>> {
        match self.stream(stream)? {
            LoadedStream::Default => Ok(None),
            LoadedStream::AllNull => Ok(Some(NullBuffer::new_null(slots(ranges)))),
            LoadedStream::Pages(pages) => {
                let mut out = Output::new(PType::Bool, slots(ranges));
                self.decode(pages, &self.expect(PType::Bool, false, 0), ranges, &mut out)?;
                match out.finish() {
                    Decoded::Bool(bits) => Ok(Some(NullBuffer::new(bits)).filter(|nulls| nulls.null_count() > 0)),
                    _ => Err(Error::invalid_file("validity is not stored as bits")),
                }
            }
        }
    }

    fn offsets(&self, stream: usize, range: Range<usize>) -> Result<Vec<i64>> {
        match self.stream(stream)? {
            LoadedStream::Pages(pages) if !range.is_empty() => self.decode_offsets(pages, range),
            _ => Ok(vec![0; range.len() + 1]),
        }
    }

    fn data(&self, stream: usize, ptype: PType, text: bool, ranges: &Ranges) -> Result<Option<Decoded>> {
        match self.stream(stream)? {
            LoadedStream::Pages(pages) => {
                let mut out = Output::new(ptype, slots(ranges));
                self.decode(pages, &self.expect(ptype, text, 0), ranges, &mut out)?;
                Ok(Some(out.finish()))
            }
            LoadedStream::Default | LoadedStream::AllNull => Ok(None),
        }
    }
}

impl LoadedColumn {
    /// Each page repeats the last offset of the page before it.
    fn decode_offsets(&self, pages: &[LoadedPage], range: Range<usize>) -> Result<Vec<i64>> {
        let mut offsets: Vec<i64> = Vec::with_capacity(range.len() + 1);
        let mut next = range.start;
        while next < range.end {
            let index = pages.partition_point(|page| page.end() <= next);
            let part = next..pages.get(index).map_or(range.end, LoadedPage::end).min(range.end);
            let mut out = Output::new(PType::I64, part.len() + 1);
            self.decode(pages, &self.expect(PType::I64, false, 1), std::slice::from_ref(&part), &mut out)?;
            let Decoded::Fixed(numbers) = out.finish() else {
                return Err(Error::invalid_file("offsets are not stored as numbers"));
            };
            let numbers: &[i64] = numbers.typed_data();
            match (offsets.pop(), numbers.first()) {
                (Some(last), Some(first)) if last != *first => return Err(Error::invalid_file("the offsets of two pages do not meet")),
                _ => offsets.extend_from_slice(numbers),
            }
            next = part.end;
        }
        Ok(offsets)
    }
}
