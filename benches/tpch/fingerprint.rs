//! What many rows add up to.

use std::hash::{DefaultHasher, Hash, Hasher};

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};

/// A sum over rows, for answers that are too long to keep. Without floats, whose last digits may differ.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    rows: usize,
    hash: u64,
}

impl Fingerprint {
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.rows += batch.num_rows();
        let fields = batch.schema().fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
        for row in RowConverter::new(fields)?.convert_columns(batch.columns())?.iter() {
            let mut hasher = DefaultHasher::new();
            row.as_ref().hash(&mut hasher);
            self.hash = self.hash.wrapping_add(hasher.finish());
        }
        Ok(())
    }
}
