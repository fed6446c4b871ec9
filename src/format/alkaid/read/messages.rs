//! Loading the metadata of messages, as many as are wanted at once.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::meta::FileMeta;
use super::open::Known;
use crate::format::error::{Error, Result};
use crate::format::requests::{Fetched, requests};
use crate::format::scan::{Fetch, Load, Loading, Section};

/// A message of a file, by its place in the footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Dictionary(usize),
    Batch(usize),
}

/// Messages whose metadata is not there.
#[derive(Debug)]
pub(super) struct Wanted {
    messages: Vec<(Which, Range<u64>)>,
    requests: Vec<Range<u64>>,
}

impl Wanted {
    pub(super) fn new(meta: &FileMeta, messages: Vec<Which>) -> Self {
        let mut wanted =
            Self { messages: messages.into_iter().filter_map(|which| Some((which, meta.missing(which)?))).collect(), requests: Vec::new() };
        wanted.plan();
        wanted
    }

    fn plan(&mut self) {
        self.requests = requests(self.messages.iter().map(|(_, range)| range.clone()).collect());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn fetches(&self) -> Vec<Fetch> {
        self.requests.iter().map(|range| Fetch { range: range.clone(), section: Section::Message }).collect()
    }

    /// Takes those that are within what has been read already.
    pub(super) fn take_known(&mut self, meta: &FileMeta, known: &Known) -> Result<()> {
        let mut missing = Vec::new();
        for (which, range) in std::mem::take(&mut self.messages) {
            match known.get(range.start, range.end) {
                Some(bytes) => meta.insert(which, &bytes)?,
                None => missing.push((which, range)),
            }
        }
        self.messages = missing;
        self.plan();
        Ok(())
    }

    /// Takes what was fetched.
    pub(super) fn take(&mut self, meta: &FileMeta, fetched: Vec<Bytes>) -> Result<()> {
        let fetched = Fetched::new(std::mem::take(&mut self.requests), fetched).map_err(|error| error.in_section(Section::Message))?;
        for (which, range) in std::mem::take(&mut self.messages) {
            let bytes = if range.is_empty() { Bytes::new() } else { fetched.get(&range)? };
            meta.insert(which, &bytes)?;
        }
        Ok(())
    }
}

/// The loading of metadata of messages.
#[derive(Debug)]
pub struct LoadMessages {
    meta: Arc<FileMeta>,
    state: Option<Wanted>,
}

impl LoadMessages {
    pub(super) fn new(meta: Arc<FileMeta>, messages: Vec<Which>) -> Self {
        Self { state: Some(Wanted::new(&meta, messages)), meta }
    }
}

impl Load for LoadMessages {
    type Output = ();

    fn resume(&mut self, fetched: Vec<Bytes>) -> Result<Loading<()>> {
        let mut wanted = self.state.take().ok_or_else(|| Error::invalid_argument("the messages have been loaded already"))?;
        if !fetched.is_empty() || wanted.requests.is_empty() {
            wanted.take(&self.meta, fetched)?;
        }
        if wanted.is_empty() {
            return Ok(Loading::Ready(()));
        }
        let fetches = wanted.fetches();
        self.state = Some(wanted);
        Ok(Loading::Fetch(fetches))
    }
}
