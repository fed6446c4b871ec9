#![doc = include_str!("SPEC.md")]

mod array;
mod batch;
mod compress;
mod flat;
mod footer;
mod frame;
mod lz4;
mod magic;
pub mod read;
mod schema;
mod swap;
pub mod write;
mod zones;

pub use crate::format::scan::{ColumnSummary, ScanRequest};
pub use compress::Codec;
pub use magic::Flavor;
pub use read::{AlkaidScan, FileMeta, Form, LoadMessages, Open, OpenOptions, Span};
pub use write::{Summary, Writer, WriterOptions};
