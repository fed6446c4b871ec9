//! The loaded streams of a column in one stripe: pages are opened when a row of theirs is decoded.

use std::ops::Range;

use arrow::array::cast::AsArray;
use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::filter;
use arrow::datatypes::{DataType, FieldRef};
use bytes::Bytes;

use super::dictionary::DICTIONARY_PART;
use super::pages::{Expect, LoadedPage, LoadedPages, LoadedStream, load_stream};
use super::plan::StreamPlan;
use crate::format::array::{
    LEAF_DATA, LEAF_VALIDITY, Ranges, Streams, TypeCounts, add_types, assemble, is_text, leaf_array, leaf_ptype, null_array, same_family, slots,
};
use crate::format::codec::{Decoded, HELD_MAX, Output, PType};
use crate::format::codes::Codes;
use crate::format::error::{Error, Result};
use crate::format::fermion::stats::{Which, bound_array, prunable_type};
use crate::format::requests::Fetched;
use crate::format::rows::BLOCK;
use crate::format::scan::{Coded, CodedPart, RowBounds, Section};
use crate::format::search::Pieces;

/// What it costs to evaluate something about the values of a page, whatever they are, in values.
const PART_VALUES: usize = 64;

/// How the pages of a stripe are loaded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loading<'a> {
    pub(super) fetched: &'a Fetched,
    /// Whether those that have not been fetched are fetched when rows of theirs are read.
    pub(super) deferred: bool,
    pub(super) checksums: bool,
}

#[derive(Debug)]
pub(super) struct LoadedColumn {
    name: String,
    file_type: DataType,
    out_type: DataType,
    /// `None`: null in every row.
    streams: Option<Vec<LoadedStream>>,
    checksums: bool,
}

impl LoadedColumn {
    /// A column of these streams; without any, it is null in every row.
    pub(super) fn new(field: &FieldRef, out_type: &DataType, streams: Option<Vec<StreamPlan>>, load: &Loading<'_>) -> Result<Self> {
        let Loading { fetched, deferred, checksums } = *load;
        let load = |plan| load_stream(plan, fetched, deferred).map_err(|error| error.in_section(Section::Data).in_column(field.name()));
        let streams = streams.map(|streams| streams.into_iter().map(load).collect::<Result<Vec<_>>>()).transpose()?;
        Ok(Self { name: field.name().clone(), file_type: field.data_type().clone(), out_type: out_type.clone(), streams, checksums })
    }

    /// What has to be fetched before these rows can be read: the stream, what that knows it by, and where it is.
    pub(super) fn missing(&self, rows: &Ranges, along: u64) -> Vec<(usize, usize, Range<u64>)> {
        let of_stream = |(stream, pages): (usize, &LoadedStream)| {
            let mut missing = Vec::new();
            if let LoadedStream::Pages(pages) = pages {
                pages.missing(rows, along, &mut missing);
            }
            missing.into_iter().map(move |(page, range)| (stream, page, range))
        };
        self.streams.iter().flatten().enumerate().flat_map(of_stream).collect()
    }

    /// Takes what was [missing](Self::missing).
    pub(super) fn give(&self, stream: usize, page: usize, bytes: Bytes) -> Result<()> {
        let LoadedStream::Pages(pages) = self.stream(stream)? else { return Ok(()) };
        pages.give(page, bytes).map_err(|error| error.in_section(Section::Data).in_column(&self.name))
    }

    /// The rows of these ranges.
    pub(super) fn read(&self, ranges: &Ranges) -> Result<ArrayRef> {
        let read = match self.streams {
            None => null_array(&self.out_type, slots(ranges), slots(ranges)),
            Some(_) => assemble(self, &self.file_type, &self.out_type, ranges),
        };
        read.map_err(|error| error.in_section(Section::Data).in_column(&self.name))
    }

    /// Those of the rows of these ranges that have a bit in `keep`; `None` where columns of this type have to be read as a whole.
    pub(super) fn read_kept(&self, ranges: &Ranges, keep: &BooleanBuffer) -> Result<Option<ArrayRef>> {
        let Some(ptype) = self.leaf() else { return Ok(None) };
        self.kept_leaf(ptype, ranges, keep).map_err(|error| error.in_section(Section::Data).in_column(&self.name))
    }

    fn kept_leaf(&self, ptype: PType, ranges: &Ranges, keep: &BooleanBuffer) -> Result<Option<ArrayRef>> {
        let LoadedStream::Pages(pages) = self.stream(LEAF_DATA)? else { return Ok(None) };
        let count = keep.count_set_bits();
        let mut out = Output::of_rows(ptype, count.saturating_add(BLOCK));
        let mut bit = 0;
        let expect = self.expect(ptype, is_text(&self.out_type), 0);
        for piece in pages.pieces(ranges) {
            let (page, local) = piece?;
            let bits = keep.slice(bit, local.len());
            bit += local.len();
            pages.open(page, &expect).and_then(|page| page.decode_kept(local, &bits, &mut out)).map_err(|error| error.at(page.range.start))?;
        }
        let nulls = self.validity(LEAF_VALIDITY, ranges)?.map(|nulls| kept_bits(nulls.inner(), keep)).transpose()?;
        leaf_array(&self.out_type, out.finish(), nulls.map(NullBuffer::new), count).map(Some)
    }

    /// How values lie, where they are one per row.
    fn leaf(&self) -> Option<PType> {
        let is_leaf = self.streams.is_some() && (self.file_type == self.out_type || same_family(&self.file_type, &self.out_type));
        leaf_ptype(&self.out_type).filter(|_| is_leaf)
    }

    /// Forgets what has been decompressed of pages that no row needs any more, and where slots are rows their bytes, too: those behind the rows that were read are the ones to come, or
    /// backwards those before.
    pub(super) fn release(&mut self, backwards: bool) {
        let are_rows = self.leaf().is_some();
        for stream in self.streams.iter_mut().flatten() {
            if let LoadedStream::Pages(pages) = stream {
                pages.release(backwards, are_rows);
            }
        }
    }

    /// The rows that were taken last are to be taken again: their pages stay.
    pub(super) fn retain(&mut self) {
        for stream in self.streams.iter_mut().flatten() {
            if let LoadedStream::Pages(pages) = stream {
                pages.retain();
            }
        }
    }

    /// The rows of these ranges as codes of values, if that is how they are stored and those are no more than `most`; a page counts as some too.
    pub(super) fn coded(&self, ranges: &Ranges, most: usize) -> Result<Option<Coded>> {
        let Some(ptype) = self.leaf() else { return Ok(None) };
        self.coded_leaf(ptype, ranges, most).map_err(|error| error.in_section(Section::Data).in_column(&self.name))
    }

    fn coded_leaf(&self, ptype: PType, ranges: &Ranges, most: usize) -> Result<Option<Coded>> {
        let LoadedStream::Pages(pages) = self.stream(LEAF_DATA)? else { return Ok(None) };
        let expect = self.expect(ptype, is_text(&self.out_type), 0);
        let mut parts: Vec<CodedPart> = Vec::new();
        let (mut left, mut held) = (most, 0_usize);
        for piece in pages.pieces(ranges) {
            let (page, local) = piece?;
            let opened = pages.open(page, &expect).map_err(|error| error.at(page.range.start))?;
            let shared = pages.dictionary.as_ref().filter(|_| opened.is_shared());
            let (id, most) = if shared.is_some() { (DICTIONARY_PART, pages.most_shared(ranges, most)) } else { (page.first, left) };
            let known = parts.last_mut().filter(|part| part.page == id);
            let mut codes = Codes::default();
            let values = opened.coded(local, most, known.map_or(&mut codes, |part| &mut part.codes)).map_err(|error| error.at(page.range.start))?;
            let Some(values) = values else { return Ok(None) };
            if codes.is_empty() {
                continue;
            }
            // The values may be more than a batch has room for, or one that only nulls have may not be of the type.
            let array = || leaf_array(&self.out_type, values, None, 1);
            let values = match shared {
                Some(dictionary) => dictionary.array(array),
                None => array(),
            };
            let Ok(values) = values else { return Ok(None) };
            if shared.is_none() {
                let Some(after) = left.checked_sub(values.len() + PART_VALUES) else { return Ok(None) };
                left = after;
                held = held.saturating_add(values.get_buffer_memory_size());
                if held > HELD_MAX {
                    return Ok(None);
                }
            }
            parts.push(CodedPart { page: id, values, codes });
        }
        Ok(Some(Coded { parts, nulls: self.validity(LEAF_VALIDITY, ranges)? }))
    }

    /// Which of the rows of these ranges have strings with some pieces of text in them, if that takes less than to read them, or is known of values that others share, of which there are
    /// no more than `most`.
    pub(super) fn find(&self, ranges: &Ranges, most: usize, pieces: &Pieces) -> Result<Option<BooleanArray>> {
        // What is read as text without having been written as such has to be looked at.
        if !(is_text(&self.file_type) && is_text(&self.out_type)) || self.leaf() != Some(PType::Bytes) {
            return Ok(None);
        }
        self.find_in_leaf(ranges, most, pieces).map_err(|error| error.in_section(Section::Data).in_column(&self.name))
    }

    fn find_in_leaf(&self, ranges: &Ranges, most: usize, pieces: &Pieces) -> Result<Option<BooleanArray>> {
        let LoadedStream::Pages(pages) = self.stream(LEAF_DATA)? else { return Ok(None) };
        let expect = self.expect(PType::Bytes, true, 0);
        let mut found = BooleanBufferBuilder::new(slots(ranges));
        for piece in pages.pieces(ranges) {
            let (page, local) = piece?;
            let opened = pages.open(page, &expect).map_err(|error| error.at(page.range.start))?;
            let most = if opened.is_shared() { pages.most_shared(ranges, most) } else { most };
            let in_page = opened.find(local, most, pieces).map_err(|error| error.at(page.range.start))?;
            let Some(in_page) = in_page else { return Ok(None) };
            found.append_buffer(&in_page);
        }
        Ok(Some(BooleanArray::new(found.finish(), self.validity(LEAF_VALIDITY, ranges)?)))
    }

    /// What the metadata says of the values in the pages of these ranges, if there is one for each row.
    pub(super) fn bounds(&self, ranges: &Ranges) -> Result<Option<RowBounds>> {
        if self.leaf().is_none() || self.file_type != self.out_type || prunable_type(&self.file_type).is_none() {
            return Ok(None);
        }
        let LoadedStream::Pages(pages) = self.stream(LEAF_DATA)? else { return Ok(None) };
        let pages = pages.spanned(ranges);
        let Some((first, last)) = pages.first().zip(pages.last()) else { return Ok(None) };
        let bound = |which| bound_array(&self.file_type, pages.iter().map(|page| (page.stats, None)), which);
        let null_counts = pages.iter().map(|page| page.stats.nulls().map(u64::from)).collect();
        Ok(Some(RowBounds { rows: first.first..last.end(), min: bound(Which::Min)?, max: bound(Which::Max)?, null_counts }))
    }

    fn stream(&self, stream: usize) -> Result<&LoadedStream> {
        match self.streams.as_ref().and_then(|streams| streams.get(stream)) {
            Some(LoadedStream::LeftOut) => Err(left_out(stream)),
            Some(stream) => Ok(stream),
            None => Err(Error::invalid_file(format!("stream {stream} is missing"))),
        }
    }

    fn expect(&self, ptype: PType, text: bool, extra: u32) -> Expect {
        Expect { ptype, text, extra, checksums: self.checksums, are_rows: self.leaf().is_some() }
    }
}

fn left_out(stream: usize) -> Error {
    Error::invalid_argument(format!("stream {stream} was left out"))
}

/// The bits of those that are kept.
fn kept_bits(bits: &BooleanBuffer, keep: &BooleanBuffer) -> Result<BooleanBuffer> {
    let kept = filter(&BooleanArray::from(bits.clone()), &BooleanArray::from(keep.clone()))?;
    Ok(kept.as_boolean().values().clone())
}

impl Streams for LoadedColumn {
    fn validity(&self, stream: usize, ranges: &Ranges) -> Result<Option<NullBuffer>> {
        match self.stream(stream)? {
            LoadedStream::Default => Ok(None),
            LoadedStream::LeftOut => Err(left_out(stream)),
            LoadedStream::AllNull => Ok(Some(NullBuffer::new_null(slots(ranges)))),
            LoadedStream::Pages(pages) => match pages.decode(&self.expect(PType::Bool, false, 0), ranges)? {
                Decoded::Bool(bits) => Ok(Some(NullBuffer::new(bits)).filter(|nulls| nulls.null_count() > 0)),
                _ => Err(Error::invalid_file("validity is not stored as bits")),
            },
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
            LoadedStream::Pages(pages) => pages.decode(&self.expect(ptype, text, 0), ranges).map(Some),
            LoadedStream::Default | LoadedStream::AllNull => Ok(None),
            LoadedStream::LeftOut => Err(left_out(stream)),
        }
    }

    fn types_before(&self, stream: usize, slot: usize) -> Result<TypeCounts> {
        let LoadedStream::Pages(pages) = self.stream(stream)? else {
            return if slot == 0 { Ok([0; 128]) } else { Err(Error::invalid_file("the type ids of a union are missing")) };
        };
        let known = pages.counted.take().filter(|known| known.0 <= slot);
        let (from, mut counts) = known.map_or((0, [0; 128]), |known| *known);
        add_types(self, stream, from..slot, &mut counts)?;
        pages.counted.replace(Some(Box::new((slot, counts))));
        Ok(counts)
    }
}

impl LoadedColumn {
    /// Each page repeats the last offset of the page before it.
    fn decode_offsets(&self, pages: &LoadedPages, range: Range<usize>) -> Result<Vec<i64>> {
        let mut offsets: Vec<i64> = Vec::new();
        let mut next = range.start;
        while next < range.end {
            let part = next..pages.pages().get(pages.index_of(next)).map_or(range.end, LoadedPage::end).min(range.end);
            let Decoded::Fixed(numbers) = pages.decode(&self.expect(PType::I64, false, 1), std::slice::from_ref(&part))? else {
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

#[cfg(test)]
mod tests {
    use super::super::pages::walk_pages;
    use super::*;
    use crate::format::ErrorKind;
    use crate::format::codec::{EncodeOptions, Values, encode};
    use crate::format::fermion::page::write_page;
    use crate::format::fermion::stats::ZoneStats;
    use arrow::array::AsArray;
    use arrow::buffer::Buffer;
    use arrow::datatypes::{Field, Int64Type, UnionFields, UnionMode};
    use std::cell::OnceCell;
    use std::sync::Arc;

    const ROWS: usize = 1000;

    fn page(first: usize, ptype: PType, bytes: Buffer) -> LoadedPage {
        let rows = u32::try_from(ROWS).unwrap();
        let encoded = encode(&Values::Fixed { ptype, bytes }, None, &EncodeOptions::default()).unwrap();
        let bytes = Bytes::from(write_page(&encoded, rows, true));
        LoadedPage { first, rows, range: 8..8 + bytes.len() as u64, stats: ZoneStats::UNKNOWN, bytes: bytes.into(), page: OnceCell::new() }
    }

    fn column(data_type: DataType, streams: Vec<LoadedStream>) -> LoadedColumn {
        LoadedColumn { name: "a".to_owned(), file_type: data_type.clone(), out_type: data_type, streams: Some(streams), checksums: true }
    }

    /// Ten pages of the numbers from 0 on.
    fn numbers() -> Vec<LoadedPage> {
        let numbers = |first: usize| (first..first + ROWS).map(|number| i64::try_from(number).unwrap()).collect::<Vec<_>>();
        (0..10).map(|index| index * ROWS).map(|first| page(first, PType::I64, Buffer::from_vec(numbers(first)))).collect()
    }

    fn open_pages(column: &LoadedColumn, stream: usize) -> Vec<usize> {
        let LoadedStream::Pages(pages) = column.stream(stream).unwrap() else { panic!("no pages") };
        pages.pages().iter().filter(|page| page.page.get().is_some()).map(|page| page.first / ROWS).collect()
    }

    #[test]
    fn pages_are_closed_behind_the_rows_that_are_read() {
        let mut column = column(DataType::Int64, vec![LoadedStream::Default, LoadedStream::Pages(LoadedPages::new(None, numbers()))]);
        let mut batch = |ranges: &Ranges, again: bool, expected: &[usize]| {
            column.release(false);
            for _ in 0..2 {
                let read = column.read(ranges).unwrap();
                let wanted: Vec<i64> = ranges.iter().flat_map(Clone::clone).map(|row| i64::try_from(row).unwrap()).collect();
                assert_eq!(read.as_primitive::<Int64Type>().values().to_vec(), wanted);
            }
            assert_eq!(open_pages(&column, 1), expected);
            if again {
                column.retain();
            }
        };
        batch(&[0..1500], false, &[0, 1]);
        batch(&[1500..3500], true, &[1, 2, 3]);
        // Given back, and taken in two halves.
        batch(&[1500..2500], false, &[1, 2, 3]);
        batch(&[2500..3500], false, &[2, 3]);
        batch(&[3500..3600, 5000..5100, 9999..10_000], false, &[3, 5, 9]);
        column.release(false);
        assert_eq!(open_pages(&column, 1), [0; 0]);
    }

    #[test]
    fn backwards_pages_are_closed_behind_the_last_row() {
        let mut column = column(DataType::Int64, vec![LoadedStream::Default, LoadedStream::Pages(LoadedPages::new(None, numbers()))]);
        let mut batch = |ranges: &Ranges, expected: &[usize]| {
            column.release(true);
            column.read(ranges).unwrap();
            assert_eq!(open_pages(&column, 1), expected);
        };
        batch(&[8500..10_000], &[8, 9]);
        batch(&[7000..8500], &[7, 8]);
        batch(&[6500..7000], &[6]);
        batch(&[10..20, 3000..3100, 6400..6500], &[0, 3, 6]);
        column.release(true);
        assert_eq!(open_pages(&column, 1), [0]);
    }

    #[test]
    fn type_ids_are_counted_once() {
        let ids =
            |first: usize| page(first, PType::I8, Buffer::from_vec((0..ROWS).map(|row| i8::try_from(row % 4 / 3).unwrap()).collect::<Vec<_>>()));
        let pages = || LoadedStream::Pages(LoadedPages::new(None, (0..10).map(|index| ids(index * ROWS)).collect()));
        let fields = [(0, Arc::new(Field::new("x", DataType::Null, true))), (1, Arc::new(Field::new("y", DataType::Int64, true)))];
        let data_type = DataType::Union(fields.into_iter().collect::<UnionFields>(), UnionMode::Dense);
        let mut column = column(data_type, vec![pages(), LoadedStream::Default, LoadedStream::Pages(LoadedPages::new(None, numbers()))]);
        for start in [0, 2000, 2000, 6000] {
            column.release(false);
            let read = column.read(&[start..start + 2000]).unwrap();
            let child = read.as_union().child(1).as_primitive::<Int64Type>();
            assert_eq!((child.len(), child.value(0)), (500, i64::try_from(start / 4).unwrap()));
            let LoadedStream::Pages(pages) = column.stream(0).unwrap() else { panic!("no pages") };
            let counted = pages.counted.borrow();
            let (slot, counts) = &**counted.as_ref().unwrap();
            assert_eq!((*slot, counts[0], counts[1]), (start, start / 4 * 3, start / 4));
        }
        // Nothing before what the last read began with was looked at again.
        assert!(open_pages(&column, 0).iter().all(|page| *page >= 2));
    }

    #[test]
    fn pages_that_cannot_be_are_refused() {
        let header = |length: u32| {
            let mut bytes = numbers().remove(0).bytes.into_inner().unwrap().to_vec();
            bytes[4..8].copy_from_slice(&length.to_le_bytes());
            walk_pages(bytes.into(), 800)
        };
        for length in [0, 8, 20, u32::MAX] {
            let error = header(length).unwrap_err();
            assert_eq!((error.kind(), error.offset()), (ErrorKind::InvalidFile, Some(800)), "{length}");
        }
        assert_eq!(walk_pages(numbers().remove(0).bytes.into_inner().unwrap(), 800).unwrap().len(), 1);
    }
}
