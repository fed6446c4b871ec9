//! The formats by themselves, with no engine: what is written is what is read, whatever the bytes.
#![cfg(test)]

mod ahead;
mod aligned;
mod alkaid;
mod batches;
mod bloom;
mod by_hand;
mod corruption;
mod deferred;
mod drive;
mod golden;
mod golden_types;
mod hostile;
mod inspect;
mod mended;
mod narrow;
mod no_cit;
mod numbered;
mod random;
mod rounds;
mod roundtrip;
mod select;
mod shared;
mod spelled;
mod totals;
