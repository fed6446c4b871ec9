//! The Fermion format by itself, with no engine: what is written is what is read, whatever the bytes.
#![cfg(test)]

mod corruption;
mod drive;
mod golden;
mod random;
mod roundtrip;
