//! One column of the file: its streams, and the chunks they have written.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::FieldRef;
use bytes::Bytes;

use super::arena::Arena;
use super::stream::{PagePlace, PageSettings, PendingPage, StreamWriter};
use crate::format::array::{Ends, Piece, check_nulls, check_rows, join, shred, stream_ends};
use crate::format::error::{Error, Result};
use crate::format::fermion::bloom::BloomDesc;
use crate::format::fermion::cmb::{CmbBuilder, StreamType};
use crate::format::fermion::schema::{leaf_type, stream_leaves, streams};
use crate::format::fermion::stats::is_bytes;

/// A page of a column that has been taken to be encoded.
#[derive(Debug)]
pub(super) struct ColumnPage {
    field: FieldRef,
    settings: Arc<PageSettings>,
    page: PendingPage,
    stream: usize,
    place: PagePlace,
}

impl ColumnPage {
    pub(super) fn encode(&mut self) -> Result<()> {
        self.page.encode(&self.settings).map_err(|error| error.in_column(self.field.name()))
    }

    pub(super) fn work(&self) -> usize {
        self.page.work()
    }
}

#[derive(Debug)]
pub(super) struct ColumnWriter {
    field: FieldRef,
    streams: Vec<StreamWriter>,
    metadata: CmbBuilder,
    settings: Arc<PageSettings>,
    /// Each stream can say that all is null without storing anything, which the type ids of unions cannot.
    can_be_left_out: bool,
    may_be_large: bool,
}

impl ColumnWriter {
    pub(super) fn new(field: FieldRef, settings: Arc<PageSettings>) -> Self {
        let has_totals = settings.statistics() && leaf_type(field.data_type()).is_some();
        let stream = |kind| if has_totals && kind == StreamType::Data { StreamWriter::new(kind).with_totals() } else { StreamWriter::new(kind) };
        let streams: Vec<StreamWriter> = streams(field.data_type()).into_iter().map(stream).collect();
        let metadata = CmbBuilder::new(field.data_type());
        let leaves = stream_leaves(field.data_type());
        let can_be_left_out = leaves.iter().all(|(holds, leaf)| *holds != StreamType::Data || leaf.is_some());
        let may_be_large = field.data_type().is_nested() || leaves.iter().any(|(_, leaf)| leaf.is_some_and(is_bytes));
        Self { field, streams, metadata, settings, can_be_left_out, may_be_large }
    }

    /// Whether there are strings, binaries or lists in it, of which some rows may take longer to encode than all other columns.
    pub(super) fn may_be_large(&self) -> bool {
        self.may_be_large
    }

    /// Adds rows, which follow each other, to the stripe that is being filled, as pages that wait to be encoded. Where they come in batches, these end at `ends`.
    pub(super) fn push(&mut self, arrays: &[&ArrayRef], ends: Option<&Ends>) -> Result<()> {
        self.push_pieces(arrays, ends).map_err(|error| error.in_column(self.field.name()))
    }

    /// Takes those pages, which do not depend on each other.
    pub(super) fn take_unencoded(&mut self) -> Vec<ColumnPage> {
        let Self { field, streams, settings, .. } = self;
        let of_stream = |(stream, writer): (usize, &mut StreamWriter)| {
            let page = |(place, page)| ColumnPage { field: Arc::clone(field), settings: Arc::clone(settings), page, stream, place };
            writer.take_unencoded().map(page).collect::<Vec<_>>()
        };
        streams.iter_mut().enumerate().flat_map(of_stream).collect()
    }

    /// Puts one back, encoded.
    pub(super) fn put_back(&mut self, page: ColumnPage) {
        if let Some(stream) = self.streams.get_mut(page.stream) {
            stream.put_back(page.place, page.page);
        }
    }

    /// Adds what is known only at the end of the stripe to them.
    pub(super) fn close_stripe(&mut self) -> Result<()> {
        let Self { field, streams, settings, .. } = self;
        streams.iter_mut().try_for_each(|stream| stream.close_stripe(settings)).map_err(|error| error.in_column(field.name()))
    }

    /// Takes note that they are encoded.
    pub(super) fn settle(&mut self, arena: &mut Arena) {
        self.streams.iter_mut().for_each(|stream| stream.settle(arena));
    }

    fn push_pieces(&mut self, arrays: &[&ArrayRef], ends: Option<&Ends>) -> Result<()> {
        let pieces = arrays.iter().map(|array| {
            let pieces = shred(array)?;
            check_rows(array, &pieces)?;
            Ok(pieces)
        });
        let pieces = join(pieces.collect::<Result<_>>()?)?;
        check_nulls(&self.field, &pieces)?;
        if pieces.len() != self.streams.len() {
            return Err(Error::invalid_argument(format!("{} streams where the type has {}", pieces.len(), self.streams.len())));
        }
        let ends = ends.map(|ends| stream_ends(self.field.data_type(), &pieces, ends)).transpose()?;
        for (index, (stream, piece)) in self.streams.iter_mut().zip(&pieces).enumerate() {
            let ends = ends.as_ref().and_then(|ends| ends.get(index));
            match (stream.kind(), piece) {
                (StreamType::Validity, Piece::Validity { nulls, rows, .. }) => stream.push_validity(nulls.as_ref(), *rows, ends)?,
                (StreamType::Offsets, Piece::Offsets(offsets)) => stream.push_offsets(offsets, ends, &self.settings)?,
                (StreamType::Data, Piece::Data(array)) => stream.push_data(array, ends, &self.settings)?,
                (kind, piece) => return Err(Error::invalid_argument(format!("a {kind:?} stream cannot take {piece:?}"))),
            }
        }
        Ok(())
    }

    pub(super) fn encoded_bytes(&self) -> usize {
        self.streams.iter().map(StreamWriter::encoded_bytes).sum()
    }

    /// Bytes of dictionaries and filters that grow.
    pub(super) fn growing_bytes(&self) -> usize {
        self.streams.iter().map(StreamWriter::growing_bytes).sum()
    }

    /// Bytes that are held until the file ends, whatever stripes are taken.
    pub(super) fn kept_bytes(&self) -> usize {
        self.streams.iter().map(StreamWriter::kept_bytes).sum()
    }

    /// Whether the pages of any chunk share a dictionary.
    pub(super) fn has_dictionary(&self) -> bool {
        self.metadata.has_dictionary()
    }

    /// Whether any chunk has a bloom filter.
    pub(super) fn has_filter(&self) -> bool {
        self.metadata.has_filter()
    }

    /// Ends a stripe of `rows` rows: the streams go out one after the other.
    pub(super) fn finish_stripe(&mut self, rows: u32, position: &mut u64, out: &mut Vec<Bytes>) -> Result<()> {
        // Below nulls alone there is nothing to store.
        let is_null = self.can_be_left_out && self.streams.first().is_some_and(StreamWriter::is_all_null);
        let chunks = self.streams.iter_mut().map(|stream| match is_null {
            true => Ok(stream.leave_out()),
            false => stream.finish_stripe(position, &self.settings, out),
        });
        let chunks = chunks.collect::<Result<_>>();
        chunks.and_then(|chunks| self.metadata.push_stripe(rows, chunks)).map_err(|error| error.in_column(self.field.name()))
    }

    /// Writes the filters of the stripe that has been finished.
    pub(super) fn write_filters(&mut self, position: &mut u64, out: &mut Vec<Bytes>) -> Result<()> {
        for (index, stream) in self.streams.iter_mut().enumerate() {
            if let Some((bytes, blocks)) = stream.take_filter() {
                self.metadata.set_filter(index, BloomDesc::new(*position, blocks)).map_err(|error| error.in_column(self.field.name()))?;
                *position += bytes.len() as u64;
                out.push(Bytes::from(bytes));
            }
        }
        Ok(())
    }

    /// Moves the stripe that was written last.
    pub(super) fn move_last_stripe(&mut self, by: u64) {
        self.metadata.move_last_stripe(by);
    }

    /// The column's metadata block; empty when every row is null.
    pub(super) fn cmb(&self, checksums: bool) -> Result<Vec<u8>> {
        let totals = self.streams.iter().find_map(StreamWriter::totals);
        self.metadata.finish(totals.as_ref(), checksums).map_err(|error| error.in_column(self.field.name()))
    }
}
