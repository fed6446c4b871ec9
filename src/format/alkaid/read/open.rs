//! Opening: a file by its footer, a stream by walking over its messages.

use bytes::Bytes;

use super::messages::{Wanted, Which};
use super::meta::FileMeta;
use super::stream::Walk;
use crate::format::alkaid::footer::{ENDING_MAX, Footer};
use crate::format::alkaid::magic::{Flavor, HEADER_LENGTH};
use crate::format::error::{Error, Result};
use crate::format::scan::{Fetch, Load, Loading, Section};

/// How much to read when a file is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// Bytes at the end of a file, or at the beginning of a stream, to read first.
    pub prefetch: u64,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { prefetch: 512 << 10 }
    }
}

/// The opening of a file or stream, which it tells apart by itself.
#[derive(Debug)]
pub struct Open {
    file_length: u64,
    options: OpenOptions,
    state: State,
}

#[derive(Debug)]
enum State {
    Begin,
    /// Waits for the first bytes, if the last ones do not hold them, and for those from here on.
    Ends(u64),
    /// Waits for the footer, which begins here and ends there.
    Footer(Flavor, u64, u64),
    /// Waits for the metadata of messages.
    Messages(Box<FileMeta>, Wanted),
    Walk(Box<Walk>),
    Done,
}

/// Bytes of the file, from an offset on.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) start: u64,
    pub(super) bytes: Bytes,
}

impl Known {
    /// The bytes of a range, if they are all there.
    pub(super) fn get(&self, start: u64, end: u64) -> Option<Bytes> {
        let from = usize::try_from(start.checked_sub(self.start)?).ok()?;
        let to = usize::try_from(end.checked_sub(self.start)?).ok()?;
        (from <= to && to <= self.bytes.len()).then(|| self.bytes.slice(from..to))
    }
}

impl Open {
    /// Begins to open a file of `file_length` bytes.
    pub fn new(file_length: u64, options: &OpenOptions) -> Result<Self> {
        if file_length < HEADER_LENGTH as u64 {
            return Err(Error::invalid_file(format!("{file_length} bytes are too few for an Alkaid or Arrow file or stream")).at(0));
        }
        Ok(Self { file_length, options: options.clone(), state: State::Begin })
    }

    fn fetch_ends(&mut self) -> Loading<FileMeta> {
        let length = self.options.prefetch.clamp(ENDING_MAX as u64, self.file_length.max(ENDING_MAX as u64));
        let start = self.file_length.saturating_sub(length);
        let fetch = |range| Fetch { range, section: Section::Footer };
        let tail = fetch(start..self.file_length);
        self.state = State::Ends(start);
        Loading::Fetch(if start == 0 { vec![tail] } else { vec![fetch(0..(HEADER_LENGTH as u64).min(start)), tail] })
    }

    fn read_ends(&mut self, start: u64, fetched: &[Bytes]) -> Result<Loading<FileMeta>> {
        let (Some(head), Some(tail)) = (fetched.first(), fetched.last()) else {
            return Err(Error::invalid_argument("the ends of the file were asked for"));
        };
        let known = Known { start, bytes: tail.clone() };
        let head: Vec<u8> = if start == 0 { head.to_vec() } else { [head.as_ref(), tail.as_ref()].concat() };
        match (Flavor::of_head(&head), Footer::ending(tail)) {
            (Some(flavor), Some((ending, length))) if flavor == ending => {
                let footer_end = self.file_length - flavor.magic().len() as u64 - 4;
                let length = length.map_err(|error| error.in_section(Section::Footer).at(footer_end))?;
                let footer_start = footer_end.checked_sub(length).filter(|start| *start >= HEADER_LENGTH as u64);
                let footer_start = footer_start.ok_or_else(|| {
                    Error::eof(format!("a footer of {length} bytes does not fit into the file")).in_section(Section::Footer).at(footer_end)
                })?;
                match known.get(footer_start, footer_end) {
                    Some(footer) => self.read_footer(flavor, footer_start, &footer, Some(known)),
                    None => {
                        self.state = State::Footer(flavor, footer_start, footer_end);
                        Ok(Loading::Fetch(vec![Fetch { range: footer_start..footer_end, section: Section::Footer }]))
                    }
                }
            }
            (Some(flavor), _) => {
                let magic = String::from_utf8_lossy(flavor.magic());
                let message = format!("the file begins with {magic} and does not end with it: it has been cut, or is still being written");
                Err(Error::invalid_file(message).in_section(Section::Footer).at(self.file_length))
            }
            (None, _) if head.starts_with(b"FEA1") => {
                Err(Error::unsupported("this is a Feather V1 file; read it with pyarrow and write it as Arrow").at(0))
            }
            (None, _) => {
                let known = if start == 0 { known } else { Known { start: 0, bytes: Bytes::new() } };
                self.walk(Box::new(Walk::new(self.file_length, self.options.prefetch, known)), None)
            }
        }
    }

    fn read_footer(&mut self, flavor: Flavor, start: u64, bytes: &[u8], known: Option<Known>) -> Result<Loading<FileMeta>> {
        let footer = Footer::read(bytes, start).map_err(|error| error.in_section(Section::Footer).at(start))?;
        let meta = FileMeta::of_file(footer, flavor, self.file_length)?;
        if meta.knows_rows() {
            return Ok(Loading::Ready(meta));
        }
        let mut wanted = Wanted::new(&meta, meta.all_messages());
        if let Some(known) = known {
            wanted.take_known(&meta, &known)?;
        }
        self.ready(meta, wanted)
    }

    fn ready(&mut self, meta: FileMeta, wanted: Wanted) -> Result<Loading<FileMeta>> {
        if wanted.is_empty() {
            return meta.count_rows().map(Loading::Ready);
        }
        let fetches = wanted.fetches();
        self.state = State::Messages(Box::new(meta), wanted);
        Ok(Loading::Fetch(fetches))
    }

    fn walk(&mut self, mut walk: Box<Walk>, fetched: Option<Bytes>) -> Result<Loading<FileMeta>> {
        match walk.resume(fetched)? {
            Some(range) => {
                self.state = State::Walk(walk);
                Ok(Loading::Fetch(vec![Fetch { range, section: Section::Message }]))
            }
            None => walk.finish().map(Loading::Ready),
        }
    }
}

impl Load for Open {
    type Output = FileMeta;

    fn resume(&mut self, mut fetched: Vec<Bytes>) -> Result<Loading<FileMeta>> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Begin => Ok(self.fetch_ends()),
            State::Ends(start) => self.read_ends(start, &fetched),
            State::Footer(flavor, start, end) => match fetched.pop() {
                Some(footer) if footer.len() as u64 == end - start => self.read_footer(flavor, start, &footer, None),
                _ => Err(Error::eof("the footer was asked for").in_section(Section::Footer).at(start)),
            },
            State::Messages(meta, mut wanted) => {
                wanted.take(&meta, fetched)?;
                self.ready(*meta, wanted)
            }
            State::Walk(walk) => self.walk(walk, fetched.pop()),
            State::Done => Err(Error::invalid_argument("the file has been opened already")),
        }
    }
}

/// All messages of a file: dictionaries, then batches.
pub(super) fn all(dictionaries: usize, batches: usize) -> Vec<Which> {
    (0..dictionaries).map(Which::Dictionary).chain((0..batches).map(Which::Batch)).collect()
}
