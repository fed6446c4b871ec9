//! Fermion tables for DataFusion.
#![deny(clippy::disallowed_methods)]

pub mod format;
#[cfg(feature = "datafusion")]
pub mod provider;

#[cfg(feature = "datafusion")]
pub use provider::{
    AlkaidOptions, AlkaidReadOptions, AlkaidTable, AlkaidWriteOptions, FermionDataFrameExt, FermionOptions, FermionReadOptions, FermionSessionExt,
    FermionTable, FermionWriteOptions, register, with_rules,
};

#[cfg(test)]
mod tidy;

#[doc = include_str!("../README.md")]
#[cfg(all(doctest, feature = "datafusion"))]
struct ReadmeDoctests;
