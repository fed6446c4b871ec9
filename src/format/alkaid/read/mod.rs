//! From bytes to arrays: open → messages → zones → plan → buffers → batches.

mod column;
mod dictionaries;
mod file;
mod kept;
mod messages;
mod meta;
mod morsel;
mod open;
mod plan;
mod scan;
mod stream;
mod summary;

pub use messages::LoadMessages;
pub use meta::{FileMeta, Form, Span};
pub use open::{Open, OpenOptions};
pub use scan::AlkaidScan;
