//! From batches to bytes: batch → stripe → columns → streams → pages.

mod arena;
mod batched;
mod batches;
mod column;
mod cut;
mod options;
mod rounds;
mod sharing;
mod stream;
mod tail;
mod writer;

pub use batched::{BatchBy, BatchedWriter};
pub use options::WriterOptions;
pub use writer::{Summary, Writer};
