//! The schema area: names and types of the columns, each readable without the others.

mod area;
mod shared;
mod streams;
mod types;
mod wire;
mod write;

pub use area::SchemaArea;
pub use shared::SharedSchemas;
pub use streams::{Stream, StreamType, leaf_type, stream_count, stream_layout, stream_leaves, streams};
pub use write::write_schema;

/// The schema entry that says how the rows are sorted.
pub const ORDERING_KEY: &str = "fermion.ordering";

/// Keys that start so are the format's own.
const OWN_KEYS: &str = "fermion.";

/// Levels of nested types that a reader follows.
pub const DEPTH_MAX: usize = 64;

#[cfg(test)]
mod tests;
