//! What is known about a column over the whole file.

use arrow::array::{Array, ArrayRef};
use arrow::compute::{SortOptions, sort_to_indices};
use arrow::datatypes::DataType;

use super::meta::{ColumnMeta, FileMeta};
use crate::format::error::{Error, Result};
use crate::format::fermion::cmb::{Chunk, Cmb};
use crate::format::fermion::schema::leaf_type;
use crate::format::fermion::stats::{Bounds, Which, ZoneStats, bound_array, bound_is_exact, is_bytes, prunable_type, to_column_type};
use crate::format::scan::ColumnSummary;

/// A stripe with at least one valid value.
type Zone = (ZoneStats, Option<Bounds>);

pub(super) fn of_column(file: &FileMeta, index: usize, column: &ColumnMeta) -> Result<ColumnSummary> {
    let field = file.field(index)?;
    let data_type = field.data_type();
    let is_of_batches = file.batch_column(index).is_some();
    let cmb = match column {
        ColumnMeta::AllNull => return Ok(ColumnSummary { null_count: Some(file.row_count()), distinct_count: Some(0), ..ColumnSummary::default() }),
        ColumnMeta::Cmb(cmb) => cmb,
    };
    let nulls =
        (0..file.stripes().len()).map(|stripe| if is_of_batches { Ok(Some(0)) } else { cmb.null_count(stripe) }).collect::<Result<Vec<_>>>()?;
    let null_count = nulls.iter().copied().sum();
    let mut summary = ColumnSummary { null_count, ..ColumnSummary::default() };
    if let (Some(leaf), Some(totals)) = (leaf_type(data_type), cmb.totals()) {
        summary.distinct_count = totals.distinct_count;
        (summary.sum, summary.value_bytes) =
            if is_bytes(leaf) { (None, totals.sum.and_then(|bytes| u64::try_from(bytes).ok())) } else { (totals.sum, None) };
    }
    if let Some(leaf) = prunable_type(data_type)
        && let Some(stream) = file.values_stream(index)
        && let Some(zones) = zones_with_values(file, cmb, (stream, is_of_batches), &nulls)?
    {
        summary.min = extreme(leaf, data_type, &zones, Which::Min)?;
        summary.max = extreme(leaf, data_type, &zones, Which::Max)?;
    }
    Ok(summary)
}

/// Statistics of the stripes in which a plain column has a valid value; `None` if one of them has no bounds.
fn zones_with_values(file: &FileMeta, cmb: &Cmb, (stream, is_of_batches): (usize, bool), nulls: &[Option<u64>]) -> Result<Option<Vec<Zone>>> {
    let mut zones = Vec::new();
    for (index, (stripe, nulls)) in file.stripes().iter().zip(nulls).enumerate() {
        if *nulls == Some(u64::from(stripe.rows)) {
            continue;
        }
        match cmb.chunk(stream, index)? {
            Chunk::Default | Chunk::AllNull if is_of_batches => {
                return Err(Error::invalid_file(format!("the batches of stripe {index} are missing")));
            }
            Chunk::Default | Chunk::AllNull => {}
            Chunk::Pages(pages) if pages.stats.bounds().is_some() || pages.bounds.is_some() => zones.push((pages.stats, pages.bounds)),
            Chunk::Pages(_) => return Ok(None),
        }
    }
    Ok(Some(zones))
}

/// The least of the lower bounds, or the greatest of the upper ones. If that one is exact it is the column's, because no value of another zone is beyond it.
fn extreme(leaf: &DataType, data_type: &DataType, zones: &[Zone], which: Which) -> Result<Option<(ArrayRef, bool)>> {
    let array = bound_array(leaf, zones.iter().map(|(stats, bounds)| (*stats, bounds.as_ref())), which)?;
    if array.is_empty() || array.null_count() > 0 {
        return Ok(None);
    }
    let order = SortOptions { descending: which == Which::Max, nulls_first: false };
    let first = sort_to_indices(&array, Some(order), Some(1))?;
    let Some(index) = first.values().first().map(|index| *index as usize) else { return Ok(None) };
    let is_exact = zones.get(index).is_some_and(|(stats, bounds)| bound_is_exact(leaf, stats, bounds.as_ref(), which));
    Ok(Some((to_column_type(array.slice(index, 1), data_type), is_exact)))
}
