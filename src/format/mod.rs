//! The formats: from bytes to Arrow arrays and back, with no engine and no IO.

pub mod codes;
pub mod error;
pub mod file;
pub mod rows;
pub mod scan;
pub mod search;
pub mod share;

pub(crate) mod array;
pub(crate) mod bits;
mod groups;
mod parallel;
mod patience;
mod pending;
mod requests;
mod wire;
mod zstd;

pub mod alkaid;
pub mod codec;
pub mod fermion;

pub use error::{Error, ErrorKind, Result};
