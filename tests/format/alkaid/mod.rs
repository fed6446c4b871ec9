//! Alkaid and Arrow IPC.

mod drive;
mod golden;
mod json;
mod roundtrip;
