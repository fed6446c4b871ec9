//! Alkaid and Arrow IPC.

mod drive;
mod golden;
mod hostile;
mod json;
mod roundtrip;
mod scan;
