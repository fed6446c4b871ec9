//! Alkaid and Arrow IPC.

mod claims;
mod damaged;
mod dictionaries;
pub(crate) mod drive;
mod golden;
mod hostile;
mod json;
mod nulls;
mod roundtrip;
mod scan;
