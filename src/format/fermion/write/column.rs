//! One column of the file: its streams, and the chunks they have written.

use std::time::{Duration, Instant};

use arrow::array::ArrayRef;
use arrow::datatypes::FieldRef;
use bytes::Bytes;

use super::stream::{PageSettings, StreamWriter};
use crate::format::array::{Piece, check_nulls, check_rows, join, shred};
use crate::format::error::{Error, Result};
use crate::format::fermion::cmb::{CmbBuilder, StreamType};
use crate::format::fermion::schema::streams;

#[derive(Debug)]
pub(super) struct ColumnWriter {
    field: FieldRef,
    streams: Vec<StreamWriter>,
    metadata: CmbBuilder,
    settings: PageSettings,
    /// How long it took to encode the last rows.
    last_time: Duration,
}

impl ColumnWriter {
    pub(super) fn new(field: FieldRef, settings: PageSettings) -> Self {
        let streams: Vec<StreamWriter> = streams(field.data_type()).into_iter().map(StreamWriter::new).collect();
        let metadata = CmbBuilder::new(field.data_type());
        Self { field, streams, metadata, settings, last_time: Duration::ZERO }
    }

    /// Encodes rows, which follow each other, into the stripe that is being filled.
    pub(super) fn encode(&mut self, arrays: &[&ArrayRef]) -> Result<()> {
        let start = Instant::now();
        let encoded = self.encode_pieces(arrays);
        self.last_time = start.elapsed();
        encoded.map_err(|error| error.in_column(self.field.name()))
    }

    /// How long the next rows are likely to take.
    pub(super) fn expected_time(&self) -> Duration {
        self.last_time
    }

    fn encode_pieces(&mut self, arrays: &[&ArrayRef]) -> Result<()> {
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
        for (stream, piece) in self.streams.iter_mut().zip(&pieces) {
            match (stream.kind(), piece) {
                (StreamType::Validity, Piece::Validity { nulls, rows }) => stream.push_validity(nulls.as_ref(), *rows, &self.settings)?,
                (StreamType::Offsets, Piece::Offsets(offsets)) => stream.push_offsets(offsets, &self.settings)?,
                (StreamType::Data, Piece::Data(array)) => stream.push_data(array, &self.settings)?,
                (kind, piece) => return Err(Error::invalid_argument(format!("a {kind:?} stream cannot take {piece:?}"))),
            }
        }
        Ok(())
    }

    pub(super) fn encoded_bytes(&self) -> usize {
        self.streams.iter().map(StreamWriter::encoded_bytes).sum()
    }

    /// Ends a stripe of `rows` rows: the streams go out one after the other.
    pub(super) fn finish_stripe(&mut self, rows: u32, position: &mut u64, out: &mut Vec<Bytes>) -> Result<()> {
        let chunks = self.streams.iter_mut().map(|stream| stream.finish_stripe(position, &self.settings, out)).collect::<Result<_>>();
        chunks.and_then(|chunks| self.metadata.push_stripe(rows, chunks)).map_err(|error| error.in_column(self.field.name()))
    }

    /// The column's metadata block; empty when every row is null.
    pub(super) fn cmb(&self, checksums: bool) -> Result<Vec<u8>> {
        self.metadata.finish(checksums).map_err(|error| error.in_column(self.field.name()))
    }
}
