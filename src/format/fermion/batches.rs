//! Files in batch mode: their rows come in batches, which have ids and are never split over pages (SPEC section 8).

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use bytes::Bytes;

use super::cmb::Cmb;
use super::schema::{Stream, StreamType};
use super::stripes::Stripe;
use crate::format::error::{Error, Result};

/// Batches of a stripe, at most: their ids are one page.
pub const STRIPE_BATCHES_MAX: usize = 1 << 20;

/// Rows of a batch, at most: a page has room for them.
pub const BATCH_ROWS_MAX: usize = 1 << 20;

/// The streams of the metadata of batches.
pub(super) const BATCH_STREAMS: [Stream; 2] = [Stream { stream_type: StreamType::BatchMeta, slots_per_row: Some(1) }; 2];
/// The ids, I64.
pub(super) const ID_STREAM: usize = 0;
/// The lengths, U32.
pub(super) const LENGTH_STREAM: usize = 1;

/// A column that follows from the batches that rows belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchColumn {
    /// The id of the batch.
    Id,
    /// The place of the row in it, from 0 on.
    Index,
}

impl BatchColumn {
    /// Both, in their order in the schema, where they come last.
    pub const ALL: [Self; 2] = [Self::Id, Self::Index];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Id => "batch_id",
            Self::Index => "batch_index",
        }
    }

    /// Its field.
    pub fn field(self) -> FieldRef {
        static FIELDS: LazyLock<[FieldRef; 2]> = LazyLock::new(|| {
            // Other files of a table may have no batches.
            let field = |column: BatchColumn, data_type| Arc::new(Field::new(column.name(), data_type, true));
            [field(BatchColumn::Id, DataType::Int64), field(BatchColumn::Index, DataType::Int32)]
        });
        Arc::clone(&FIELDS[self as usize])
    }
}

/// A name among those of the columns of a file that only a column of batches may have.
pub(super) fn reserved_name(fields: &Fields) -> Option<&'static str> {
    BatchColumn::ALL.map(BatchColumn::name).into_iter().find(|name| fields.iter().any(|field| field.name() == name))
}

/// The stripes of a file as the metadata of its batches counts them: a batch is a row.
pub(super) fn batch_stripes(bytes: &Bytes, stripes: &[Stripe]) -> Result<Arc<[Stripe]>> {
    let counts = Cmb::row_counts(bytes, stripes.len())?;
    let stripe = |(index, (stripe, count)): (usize, (&Stripe, u32))| {
        // A batch has a row at least.
        if count > stripe.rows || (count == 0) != (stripe.rows == 0) || count as usize > STRIPE_BATCHES_MAX {
            return Err(Error::invalid_file(format!("stripe {index} of {} rows cannot have {count} batches", stripe.rows)));
        }
        Ok(Stripe { rows: count, ..*stripe })
    };
    stripes.iter().zip(counts).enumerate().map(stripe).collect()
}
