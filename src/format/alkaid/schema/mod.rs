//! The schema: Arrow's fields, and beside them what those do not say.

mod narrow;
mod read;
mod shape;
mod types;
mod write;

pub(super) use read::FileSchema;
pub(super) use shape::{Counts, Positions, Shape};
pub(super) use write::{SchemaWriter, dictionary_values};
