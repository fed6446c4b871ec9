#![doc = include_str!("SPEC.md")]

pub mod batches;
pub mod bloom;
pub mod cit;
pub mod cmb;
pub mod footer;
pub mod inspect;
pub mod page;
pub mod read;
pub mod schema;
pub mod stats;
pub mod stripes;
pub mod write;

pub use crate::format::scan::{ColumnSummary, ScanRequest};
pub use read::{ColumnMeta, FermionScan, FileMeta, LoadColumns, Open, OpenOptions};
pub use write::{BatchBy, BatchedWriter, Summary, Writer, WriterOptions};
