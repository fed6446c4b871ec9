//! What a file is made of, and whether it is whole: for people to look at, not for queries.

mod layout;
mod parts;
mod verify;
mod whole;

pub use layout::{ColumnLayout, FileLayout, column_layout, file_layout};
pub use parts::{FilePart, InspectColumn, PartKind, file_parts};
pub use verify::VerifyColumn;
