//! The loaded dictionary of a chunk: opened when the first page needs it that is read.

use std::cell::{OnceCell, RefCell};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use bytes::Bytes;

use crate::format::codec::ChunkDictionary;
use crate::format::error::Result;
use crate::format::fermion::page::{PageExpect, open_dictionary};
use crate::format::requests::Fetched;

/// Tells the values of the dictionary from those of any page.
pub(super) const DICTIONARY_PART: usize = usize::MAX;

#[derive(Debug)]
pub(super) struct LoadedDictionary {
    /// Where it is in the file.
    ranges: Vec<Range<u64>>,
    /// As many pages, once they have been fetched, and until the values are known.
    pages: RefCell<Vec<Bytes>>,
    values: OnceCell<Arc<ChunkDictionary>>,
    /// As an array of the type that the column is read as.
    array: OnceCell<ArrayRef>,
}

impl LoadedDictionary {
    /// `None` where the chunk has none.
    pub(super) fn load(ranges: Vec<Range<u64>>, fetched: &Fetched, deferred: bool) -> Result<Option<Self>> {
        if ranges.is_empty() {
            return Ok(None);
        }
        let is_later = deferred && !ranges.iter().all(|range| fetched.has(range));
        let pages = if is_later { Vec::new() } else { ranges.iter().map(|range| fetched.get(range)).collect::<Result<_>>()? };
        Ok(Some(Self { ranges, pages: pages.into(), values: OnceCell::new(), array: OnceCell::new() }))
    }

    /// What is still to be fetched: all or nothing.
    pub(super) fn missing(&self) -> impl Iterator<Item = Range<u64>> {
        let is_there = self.values.get().is_some() || !self.pages.borrow().is_empty();
        self.ranges.iter().filter(move |_| !is_there).cloned()
    }

    pub(super) fn page_count(&self) -> usize {
        self.ranges.len()
    }

    /// Takes the next of what is missing; what is there already is the same.
    pub(super) fn give(&self, bytes: Bytes) {
        let mut pages = self.pages.borrow_mut();
        if self.values.get().is_none() && pages.len() < self.ranges.len() {
            pages.push(bytes);
        }
    }

    pub(super) fn open(&self, expect: &PageExpect) -> Result<Arc<ChunkDictionary>> {
        if let Some(values) = self.values.get() {
            return Ok(Arc::clone(values));
        }
        let values = open_dictionary(&self.pages.borrow(), expect).map_err(|error| error.at(self.ranges.first().map_or(0, |range| range.start)))?;
        self.pages.take();
        Ok(Arc::clone(self.values.get_or_init(|| Arc::new(values))))
    }

    /// The values as an array, which `make` makes once.
    pub(super) fn array(&self, make: impl FnOnce() -> Result<ArrayRef>) -> Result<ArrayRef> {
        if let Some(array) = self.array.get() {
            return Ok(Arc::clone(array));
        }
        let array = make()?;
        Ok(Arc::clone(self.array.get_or_init(|| array)))
    }
}
