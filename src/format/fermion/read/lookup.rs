//! Looking values up in the bloom filters of a stripe.

use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::compute::cast;
use bytes::Bytes;

use super::meta::{ColumnMeta, FileMeta};
use crate::format::error::{Error, Result};
use crate::format::fermion::bloom::{BloomDesc, can_have_filter, hashes};
use crate::format::fermion::cmb::Chunk;
use crate::format::fermion::footer::SETTING_BLOOM_FILTERS;
use crate::format::fermion::schema::leaf_type;
use crate::format::requests::{Fetched, requests};
use crate::format::scan::{Fetch, Section};

/// The filters of a stripe, and what is looked up in them.
#[derive(Debug)]
pub(super) struct Lookup {
    filters: Vec<Filter>,
    requests: Vec<Range<u64>>,
}

#[derive(Debug)]
struct Filter {
    column: usize,
    desc: BloomDesc,
    /// Of the values of which wanted rows have one; `None` if they may have any.
    hashes: Option<Vec<u64>>,
}

impl Lookup {
    /// The filters that a stripe has of these columns; `None` if there are none.
    pub(super) fn of(meta: &FileMeta, columns: &[usize], stripe: usize) -> Result<Option<Self>> {
        if meta.settings() & SETTING_BLOOM_FILTERS == 0 {
            return Ok(None);
        }
        let mut filters = Vec::new();
        for column in columns {
            // Filters of other types say nothing.
            if !can_have_filter(meta.field(*column)?.data_type()) {
                continue;
            }
            let cmb = match meta.column(*column)? {
                Some(ColumnMeta::Cmb(cmb)) => cmb,
                Some(ColumnMeta::AllNull) => continue,
                None => return Err(Error::invalid_argument("the metadata of a column is not loaded").in_section(Section::ColumnMetadata)),
            };
            // What follows from batches has none.
            let Some(values) = meta.values_stream(*column).filter(|_| meta.batch_column(*column).is_none()) else { continue };
            let chunk = cmb.chunk(values, stripe).map_err(|error| meta.in_cmb(error, *column))?;
            if let Chunk::Pages(pages) = chunk
                && let Some(desc) = pages.filter
            {
                filters.push(Filter { column: *column, desc, hashes: None });
            }
        }
        Ok((!filters.is_empty()).then_some(Self { filters, requests: Vec::new() }))
    }

    /// The columns that the stripe has filters of.
    pub(super) fn columns(&self) -> Vec<usize> {
        self.filters.iter().map(|filter| filter.column).collect()
    }

    /// Takes the values of which wanted rows have one, of each of the columns.
    pub(super) fn take(&mut self, meta: &FileMeta, values: &[Option<ArrayRef>]) -> Result<()> {
        if values.len() != self.filters.len() {
            return Err(Error::invalid_argument(format!("values of {} columns, where {} were asked about", values.len(), self.filters.len())));
        }
        for (filter, values) in self.filters.iter_mut().zip(values) {
            let field = meta.field(filter.column)?;
            let Some((values, leaf)) = values.as_ref().zip(leaf_type(field.data_type())) else { continue };
            let values = cast(values, leaf).map_err(|error| Error::invalid_argument(error.to_string()).in_column(field.name()))?;
            filter.hashes = Some(hashes(&values)?);
        }
        let page = |filter: &Filter, hash: &u64| filter.desc.page(*hash);
        let pages = self.filters.iter().flat_map(|filter| filter.hashes.iter().flatten().map(move |hash| page(filter, hash)));
        self.requests = requests(pages.collect());
        Ok(())
    }

    /// Bytes that have to be read to know.
    pub(super) fn bytes(&self) -> u64 {
        self.requests.iter().map(|range| range.end - range.start).sum()
    }

    /// What has to be read to know.
    pub(super) fn fetches(&self) -> Vec<Fetch> {
        self.requests.iter().map(|range| Fetch { range: range.clone(), section: Section::BloomFilter }).collect()
    }

    /// Whether the stripe may have rows that are wanted.
    pub(super) fn may_match(self, meta: &FileMeta, bytes: Vec<Bytes>) -> Result<bool> {
        let fetched = Fetched::of(Section::BloomFilter, self.requests, bytes)?;
        for Filter { column, desc, hashes } in self.filters {
            let Some(hashes) = hashes else { continue };
            let may_have = |hash: u64| {
                let page = desc.page(hash);
                let found = fetched.get(&page).and_then(|bytes| desc.may_have(&bytes, hash, meta.has_checksums()));
                found.map_err(|error| meta.name_column(error.in_section(Section::BloomFilter), column).at(page.start))
            };
            let mut is_possible = false;
            for hash in hashes {
                is_possible = is_possible || may_have(hash)?;
            }
            if !is_possible {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
