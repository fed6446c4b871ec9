//! From bytes to arrays: open → metadata → zones → plan → pages → batches.

mod batches;
mod column;
mod columns;
mod dictionary;
mod file;
mod lookup;
mod meta;
mod morsel;
mod open;
mod pages;
mod parts;
mod plan;
mod scan;
mod summary;
mod zones;

pub use columns::LoadColumns;
pub use meta::{ColumnMeta, FileMeta};
pub use open::{Open, OpenOptions};
pub use scan::FermionScan;

#[cfg(test)]
mod tests;
