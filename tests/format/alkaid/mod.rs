//! Alkaid and Arrow IPC.

mod ahead;
mod big_endian;
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
mod sizes;
