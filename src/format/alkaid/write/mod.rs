//! From batches to bytes: batch → record batch → nodes and buffers → compression → message.

mod dictionary;
mod encode;
mod message;
mod options;
mod slices;
mod writer;

pub use options::WriterOptions;
pub use writer::{Summary, Writer};
