//! Fermion tables for DataFusion.
#![deny(clippy::disallowed_methods)]

pub mod format;
#[cfg(feature = "datafusion")]
pub mod provider;

#[cfg(feature = "datafusion")]
pub use provider::{FermionDataFrameExt, FermionOptions, FermionReadOptions, FermionSessionExt, FermionTable, FermionWriteOptions, register};
