//! The buffers of a column to an Arrow array: checked, then taken as they are.

mod binary;
mod encoded;
mod list;
mod reader;
mod union;

pub(super) use reader::{Dictionaries, Encoding, Loaded, decode};
