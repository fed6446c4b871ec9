//! The loaded dictionary of a chunk: opened when the first page needs it that is read.

use std::cell::OnceCell;
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
    /// Where it is in the file, for errors.
    offset: u64,
    pages: Vec<Bytes>,
    values: OnceCell<Arc<ChunkDictionary>>,
    /// As an array of the type that the column is read as.
    array: OnceCell<ArrayRef>,
}

impl LoadedDictionary {
    /// `None` where the chunk has none.
    pub(super) fn load(plan: &[Range<u64>], fetched: &Fetched) -> Result<Option<Self>> {
        let Some(first) = plan.first() else { return Ok(None) };
        let pages = plan.iter().map(|range| fetched.get(range)).collect::<Result<_>>()?;
        Ok(Some(Self { offset: first.start, pages, values: OnceCell::new(), array: OnceCell::new() }))
    }

    pub(super) fn open(&self, expect: &PageExpect) -> Result<Arc<ChunkDictionary>> {
        if let Some(values) = self.values.get() {
            return Ok(Arc::clone(values));
        }
        let values = open_dictionary(&self.pages, expect).map_err(|error| error.at(self.offset))?;
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
