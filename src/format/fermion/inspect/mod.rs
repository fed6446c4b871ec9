//! What a file is made of, and whether it is whole: for people to look at, not for queries.

mod parts;
mod verify;

pub use parts::{FilePart, InspectColumn, PartKind, file_parts};
pub use verify::VerifyColumn;
