//! Alkaid and Arrow IPC.

pub(crate) mod drive;
mod golden;
mod hostile;
mod json;
mod roundtrip;
mod scan;
