//! Metadata is flatbuffers: nothing of it is looked at before all of it has been verified.

use arrow_ipc::{Footer, KeyValue, Message, MetadataVersion, root_as_footer_with_opts, root_as_message_with_opts};
use flatbuffers::{ForwardsUOffset, InvalidFlatbuffer, Vector, VerifierOptions};

use super::magic::key_in_memory;
use crate::format::error::{Error, Result};

/// Types nest no deeper. A type is two tables, and a few are around them.
pub(super) const DEPTH_MAX: usize = 128;

/// The bytes that a table takes at least. More tables than have room are the same table many times.
const TABLE_MIN: usize = 4;

/// How often the bytes may be looked at: strings can be shared.
const SHARED_MAX: usize = 64;

fn options(bytes: &[u8]) -> VerifierOptions {
    VerifierOptions {
        max_depth: DEPTH_MAX,
        max_tables: bytes.len() / TABLE_MIN + 1,
        max_apparent_size: bytes.len().saturating_mul(SHARED_MAX),
        ignore_missing_null_terminator: true,
    }
}

/// The metadata of a message.
pub(super) fn message(bytes: &[u8]) -> Result<Message<'_>> {
    let message = root_as_message_with_opts(&options(bytes), bytes).map_err(|error| invalid("a message", &error))?;
    check_version(message.version())?;
    Ok(message)
}

/// The footer.
pub(super) fn footer(bytes: &[u8]) -> Result<Footer<'_>> {
    let footer = root_as_footer_with_opts(&options(bytes), bytes).map_err(|error| invalid("the footer", &error))?;
    // Some writers leave it out, which reads as V1. Older messages say so themselves.
    check_version(footer.version().max(MetadataVersion::V4))?;
    Ok(footer)
}

fn invalid(what: &str, error: &InvalidFlatbuffer) -> Error {
    let text = error.to_string();
    let reason = text.lines().next().unwrap_or_default().trim_end_matches('.');
    Error::invalid_file(format!("the metadata of {what} is damaged: {reason}"))
}

fn check_version(version: MetadataVersion) -> Result<()> {
    match version {
        MetadataVersion::V4 | MetadataVersion::V5 => Ok(()),
        MetadataVersion::V1 | MetadataVersion::V2 | MetadataVersion::V3 => {
            Err(Error::unsupported(format!("metadata {version:?} is older than Arrow 0.8; write the file again with a newer Arrow")))
        }
        other => Err(Error::unsupported(format!("metadata version {} is newer than this reader, which knows V4 and V5", i32::from(other.0) + 1))),
    }
}

/// Keys and values as they are known in memory, in the file's order. A key in Alkaid's namespace is known by Arrow's.
pub(super) fn key_values(list: Option<Vector<'_, ForwardsUOffset<KeyValue<'_>>>>) -> impl Iterator<Item = (String, String)> {
    list.into_iter().flatten().filter_map(|pair| Some((key_in_memory(pair.key()?), pair.value().unwrap_or_default().to_owned())))
}

/// A count or size that is stored with a sign.
pub(super) fn unsigned(value: i64, what: &str) -> Result<u64> {
    u64::try_from(value).map_err(|_| Error::invalid_file(format!("{what} is negative: {value}")))
}

/// The same, of something in memory.
pub(super) fn length(value: i64, what: &str) -> Result<usize> {
    usize::try_from(value).map_err(|_| Error::invalid_file(format!("{what} is negative: {value}")))
}
