//! Whether batches are whole: none is split over two pages of a column.

use crate::format::error::{Error, Result};
use crate::format::fermion::cmb::{Chunk, Cmb};
use crate::format::fermion::read::{ColumnMeta, FileMeta};
use crate::format::scan::Section;

/// Refuses pages of a stripe that do not end where a batch does. `starts` are the first rows of its batches. The metadata of all columns must be loaded; streams of
/// which only the pages themselves know their rows are not looked at.
pub(super) fn check_whole(meta: &FileMeta, stripe: usize, starts: &[usize]) -> Result<()> {
    let rows = meta.stripes().get(stripe).map_or(0, |stripe| stripe.rows as usize);
    for column in 0..meta.stored_columns() {
        let Some(ColumnMeta::Cmb(cmb)) = meta.column(column)? else { continue };
        let split = split_row(&cmb, stripe, rows, starts).map_err(|error| meta.in_cmb(error, column))?;
        if let Some(row) = split {
            let error = Error::invalid_file(format!("a page ends before row {row} of stripe {stripe}, in the middle of a batch"));
            return Err(meta.in_cmb(error.in_section(Section::ColumnMetadata), column));
        }
    }
    Ok(())
}

/// A row before which a page ends, and no batch.
fn split_row(cmb: &Cmb, stripe: usize, rows: usize, starts: &[usize]) -> Result<Option<usize>> {
    for (index, stream) in cmb.streams().enumerate() {
        let Some(scale) = stream.slots_per_row.and_then(|slots| usize::try_from(slots).ok()).filter(|scale| *scale > 0) else { continue };
        let Chunk::Pages(pages) = cmb.chunk(index, stripe)? else { continue };
        let mut end = 0_usize;
        for page in &pages.pages {
            let Some(slots) = page.rows else { break };
            end = end.saturating_add(slots as usize);
            let row = end / scale;
            if !end.is_multiple_of(scale) || (row != rows && starts.binary_search(&row).is_err()) {
                return Ok(Some(row));
            }
        }
    }
    Ok(None)
}
