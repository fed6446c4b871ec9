//! What takes the space in a file, by its metadata alone.

use std::ops::Range;

use crate::format::error::{Error, Result};
use crate::format::fermion::batches::BatchColumn;
use crate::format::fermion::cmb::Chunk;
use crate::format::fermion::footer::{SETTING_BLOOM_FILTERS, SETTING_DICTIONARIES};
use crate::format::fermion::read::{ColumnMeta, FileMeta};
use crate::format::scan::Section;

/// A file as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileLayout {
    /// Major and minor version.
    pub version: (u16, u16),
    /// Bytes of pages and bloom filters.
    pub data_bytes: u64,
    /// Bytes of the metadata of columns.
    pub column_metadata_bytes: u64,
    /// Bytes of names and types.
    pub schema_bytes: u64,
    /// Bytes of the index of the metadata of columns, the CIT; 0 if there is none.
    pub column_index_bytes: u64,
    /// Bytes of the list of stripes.
    pub stripe_directory_bytes: u64,
    /// Whether chunks may have dictionaries.
    pub has_dictionaries: bool,
    /// Whether chunks may have bloom filters.
    pub has_bloom_filters: bool,
    /// Whether rows come in batches.
    pub has_batches: bool,
}

/// What a file is made of.
pub fn file_layout(meta: &FileMeta) -> FileLayout {
    let footer = meta.footer();
    let length = |area: Range<u64>| area.end - area.start;
    FileLayout {
        version: footer.version,
        data_bytes: meta.stripes().iter().map(|stripe| stripe.length).sum(),
        column_metadata_bytes: length(footer.cmb_area()),
        schema_bytes: length(footer.schema_area()),
        column_index_bytes: length(footer.cit_area()),
        stripe_directory_bytes: length(footer.stripe_area()),
        has_dictionaries: footer.settings & SETTING_DICTIONARIES != 0,
        has_bloom_filters: footer.settings & SETTING_BLOOM_FILTERS != 0,
        has_batches: footer.has_batches(),
    }
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColumnLayout {
    /// Bytes of its pages.
    pub page_bytes: u64,
    /// Bytes of the dictionaries that pages share.
    pub dictionary_bytes: u64,
    /// Bytes of its bloom filters.
    pub bloom_filter_bytes: u64,
    /// Bytes of its metadata.
    pub metadata_bytes: u64,
}

/// What a column is made of; what batches are made of is shown with their ids. Its metadata must be loaded.
pub fn column_layout(meta: &FileMeta, column: usize) -> Result<ColumnLayout> {
    if meta.batch_column(column) == Some(BatchColumn::Index) {
        return Ok(ColumnLayout::default());
    }
    let range = meta.cmb_range(column)?;
    let mut layout = ColumnLayout { metadata_bytes: range.end - range.start, ..ColumnLayout::default() };
    let cmb = match meta.column(column)? {
        Some(ColumnMeta::Cmb(cmb)) => cmb,
        Some(ColumnMeta::AllNull) => return Ok(layout),
        None => return Err(Error::invalid_argument("the metadata of a column is not loaded").in_section(Section::ColumnMetadata)),
    };
    for stream in 0..cmb.streams().len() {
        for stripe in 0..meta.stripes().len() {
            if let Chunk::Pages(pages) = cmb.chunk(stream, stripe).map_err(|error| meta.in_cmb(error, column))? {
                let dictionary: u64 = pages.dictionary.iter().map(|size| u64::from(*size)).sum();
                layout.dictionary_bytes += dictionary;
                layout.page_bytes += u64::from(pages.length) - dictionary;
                layout.bloom_filter_bytes += pages.filter.map_or(0, |filter| filter.range().end - filter.range().start);
            }
        }
    }
    Ok(layout)
}
