//! The walk over the messages of a stream. Each says where the next one begins, and nothing else does.

use std::ops::Range;

use bytes::Bytes;

use super::meta::{FileMeta, Messages};
use super::open::Known;
use crate::format::alkaid::batch::{BatchMeta, Kind};
use crate::format::alkaid::flat;
use crate::format::alkaid::footer::Block;
use crate::format::alkaid::frame::{FRAME_MAX, Frame};
use crate::format::alkaid::schema::FileSchema;
use crate::format::error::{Error, Result};
use crate::format::scan::Section;

/// Messages that are so long on average are stepped over, shorter ones are read along.
const STEP_OVER: u64 = 256 << 10;

/// What is read of a message that is stepped over, if the last one's metadata was not longer.
const HEAD: u64 = 8 << 10;

/// The most that is read at once.
const AHEAD_MAX: u64 = 8 << 20;

/// The walk.
#[derive(Debug)]
pub(super) struct Walk {
    file_length: u64,
    /// Where the next message begins.
    at: u64,
    known: Known,
    /// How much to read at once where messages are short.
    ahead: u64,
    /// Messages so far, and the longest metadata.
    count: u64,
    metadata_max: u64,
    schema: Option<FileSchema>,
    batches: Messages,
    dictionaries: Messages,
}

impl Walk {
    /// Begins to walk, with the bytes that are known.
    pub(super) fn new(file_length: u64, ahead: u64, known: Known) -> Self {
        let ahead = ahead.clamp(HEAD, AHEAD_MAX);
        let (batches, dictionaries) = (Messages::default(), Messages::default());
        Self { file_length, at: 0, known, ahead, count: 0, metadata_max: 0, schema: None, batches, dictionaries }
    }

    /// Walks as far as the bytes reach. Gives the range that is needed next, or `None` at the end.
    pub(super) fn resume(&mut self, fetched: Option<Bytes>) -> Result<Option<Range<u64>>> {
        if let Some(bytes) = fetched {
            self.known = Known { start: self.at, bytes };
        }
        let walked = self.walk();
        // Bytes of bodies are not wanted any more.
        if !matches!(walked, Ok(Some(_))) {
            self.known.bytes = Bytes::new();
        }
        walked.map_err(|error| error.in_section(Section::Message).at(self.at))
    }

    fn walk(&mut self) -> Result<Option<Range<u64>>> {
        while self.at < self.file_length {
            let left = self.file_length - self.at;
            let here = self.known.get(self.at, self.known.start + self.known.bytes.len() as u64).unwrap_or_default();
            let Some(frame) = Frame::read(&here)? else {
                if left <= here.len() as u64 {
                    return Err(self.cut());
                }
                return Ok(Some(self.range(FRAME_MAX as u64)));
            };
            let Frame::Message { skip, .. } = frame else { return Ok(None) };
            let end = frame.metadata_end();
            if end as u64 > left {
                return Err(self.cut());
            }
            match here.get(skip..end) {
                Some(metadata) => self.message(&Bytes::copy_from_slice(metadata), end as u64)?,
                None => return Ok(Some(self.range(end as u64))),
            }
        }
        Ok(None)
    }

    /// What to read next, `needed` bytes at least.
    fn range(&mut self, needed: u64) -> Range<u64> {
        let average = self.at.checked_div(self.count).unwrap_or(0);
        let wanted = if average >= STEP_OVER {
            HEAD.max(self.metadata_max)
        } else {
            self.ahead = (self.ahead * 2).min(AHEAD_MAX);
            self.ahead
        };
        self.at..self.at.saturating_add(wanted.max(needed)).min(self.file_length)
    }

    /// Takes the metadata of a message of which `length` bytes come before its body.
    fn message(&mut self, metadata: &Bytes, length: u64) -> Result<()> {
        let body_start = self.at + length;
        let end = match &self.schema {
            None => {
                let message = flat::message(metadata)?;
                let schema = message.header_as_schema().ok_or_else(|| Error::invalid_file("the stream does not begin with a schema"))?;
                self.schema = Some(FileSchema::read(&schema)?);
                body_start.checked_add(flat::unsigned(message.bodyLength(), "the length of a body")?).ok_or_else(|| self.cut())?
            }
            Some(_) => {
                let meta = BatchMeta::read(metadata.clone(), body_start)?;
                let end = meta.body.end;
                let block = Block { offset: self.at, metadata_length: length, body_length: end - body_start };
                match meta.kind {
                    Kind::Records => self.batches.push(block, meta),
                    Kind::Dictionary { .. } => self.dictionaries.push(block, meta),
                }
                end
            }
        };
        if end > self.file_length {
            return Err(self.cut());
        }
        self.at = end;
        self.count += 1;
        self.metadata_max = self.metadata_max.max(length);
        Ok(())
    }

    fn cut(&self) -> Error {
        Error::eof(match self.at {
            0 => "this is not an Alkaid or Arrow file or stream, or has been cut within its first message",
            _ => "the stream ends within a message: it has been cut, or is still being written",
        })
    }

    /// What was found.
    pub(super) fn finish(self) -> Result<FileMeta> {
        let schema = self.schema.ok_or_else(|| Error::invalid_file("this is not an Alkaid or Arrow file or stream: it has no schema").at(0))?;
        FileMeta::of_stream(schema, self.file_length, self.batches, self.dictionaries)
    }
}
