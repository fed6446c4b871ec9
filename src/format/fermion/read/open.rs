//! Opening a file: the footer, and what it points to, in one fetch or two.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::meta::FileMeta;
use crate::format::error::{Error, Result};
use crate::format::fermion::footer::{Footer, HEADER_LENGTH, MAGIC};
use crate::format::fermion::schema::SharedSchemas;
use crate::format::scan::{Fetch, Load, Loading, Section};
use crate::format::wire;

/// How much to read when a file is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// Bytes at the end of the file to read first. If that covers the metadata, opening takes one read.
    pub prefetch: u64,
    /// Load the metadata of all columns at once if it has at most this many bytes. That of a file without a CIT, which is not much, always is.
    pub eager_load_threshold: u64,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { prefetch: 512 << 10, eager_load_threshold: 8 << 20 }
    }
}

/// The opening of a file.
#[derive(Debug)]
pub struct Open {
    file_length: u64,
    options: OpenOptions,
    schemas: Arc<SharedSchemas>,
    state: State,
}

#[derive(Debug)]
enum State {
    Begin,
    /// Waits for the end of the file, from this offset on.
    Tail(u64),
    /// Waits for the metadata before `tail`.
    Metadata {
        footer: Footer,
        start: u64,
        tail: Bytes,
    },
    Done,
}

impl Open {
    /// Begins to open a file of `file_length` bytes.
    pub fn new(file_length: u64, options: &OpenOptions) -> Result<Self> {
        if file_length < HEADER_LENGTH + Footer::LENGTH as u64 {
            // Says the same as a footer that cannot be read.
            Footer::read(&[], file_length)?;
        }
        Ok(Self { file_length, options: options.clone(), schemas: Arc::default(), state: State::Begin })
    }

    /// Shares the schema with other files that are open and have the same one.
    #[must_use]
    pub fn sharing(self, schemas: &Arc<SharedSchemas>) -> Self {
        Self { schemas: Arc::clone(schemas), ..self }
    }

    fn fetch_tail(&mut self) -> Loading<FileMeta> {
        let start = self.file_length - self.options.prefetch.clamp(Footer::LENGTH as u64, self.file_length);
        self.state = State::Tail(start);
        Loading::Fetch(vec![Fetch { range: start..self.file_length, section: Section::Footer }])
    }

    fn read_tail(&mut self, tail_start: u64, tail: &Bytes) -> Result<Loading<FileMeta>> {
        let footer = Footer::read(tail, self.file_length)?;
        if tail_start == 0 && wire::slice(tail, 0, MAGIC.len(), "the header")? != MAGIC {
            return Err(Error::invalid_file("this is not a Fermion file: it does not begin with FERMION1").at(0));
        }
        // Without a CIT it takes all CMBs to find one.
        let is_eager = !footer.has_cit() || footer.schema_offset - footer.cmb_offset <= self.options.eager_load_threshold;
        let needed_start = if is_eager { footer.cmb_offset } else { footer.schema_offset };
        // CMBs that the prefetch happens to cover are kept, data is not.
        let kept_start = tail_start.max(footer.cmb_offset);
        let kept = part_of(tail, tail_start, kept_start)?;
        if kept_start <= needed_start {
            return FileMeta::new(footer, self.file_length, kept_start, &kept, &self.schemas).map(Loading::Ready);
        }
        self.state = State::Metadata { footer, start: needed_start, tail: kept };
        let section = if is_eager { Section::ColumnMetadata } else { Section::Schema };
        Ok(Loading::Fetch(vec![Fetch { range: needed_start..kept_start, section }]))
    }

    fn read_metadata(&self, footer: Footer, start: u64, fetched: &Bytes, tail: &Bytes) -> Result<Loading<FileMeta>> {
        let mut joined = BytesMut::with_capacity(fetched.len() + tail.len());
        joined.extend_from_slice(fetched);
        joined.extend_from_slice(tail);
        FileMeta::new(footer, self.file_length, start, &joined.freeze(), &self.schemas).map(Loading::Ready)
    }
}

impl Load for Open {
    type Output = FileMeta;

    fn resume(&mut self, fetched: Vec<Bytes>) -> Result<Loading<FileMeta>> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Begin => Ok(self.fetch_tail()),
            State::Tail(start) => {
                let tail = only(fetched, self.file_length - start)?;
                self.read_tail(start, &tail)
            }
            State::Metadata { footer, start, tail } => {
                let wanted = self.file_length - start - tail.len() as u64;
                let fetched = only(fetched, wanted)?;
                self.read_metadata(footer, start, &fetched, &tail)
            }
            State::Done => Err(Error::invalid_argument("the file has been opened already")),
        }
    }
}

/// The one fetched piece, which must have the length that was asked for.
fn only(mut fetched: Vec<Bytes>, length: u64) -> Result<Bytes> {
    match (fetched.pop(), fetched.len()) {
        (Some(bytes), 0) if bytes.len() as u64 == length => Ok(bytes),
        (bytes, others) => {
            let pieces = others + usize::from(bytes.is_some());
            Err(Error::invalid_argument(format!(
                "{length} bytes were asked for, not {pieces} pieces, the last of {} bytes",
                bytes.map_or(0, |b| b.len())
            )))
        }
    }
}

fn part_of(bytes: &Bytes, bytes_start: u64, from: u64) -> Result<Bytes> {
    let skip = usize::try_from(from - bytes_start).ok().filter(|skip| *skip <= bytes.len());
    skip.map(|skip| bytes.slice(skip..)).ok_or_else(|| Error::invalid_file("the metadata begins beyond the end of the file"))
}
