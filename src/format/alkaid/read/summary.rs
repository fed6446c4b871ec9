//! Statistics: of batches, to prune by, and of the whole file.

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::{SortOptions, sort_to_indices};
use arrow::datatypes::DataType;

use super::meta::FileMeta;
use crate::format::alkaid::zones::{Side, Zone, bound_array, leaf_type};
use crate::format::error::Result;
use crate::format::scan::{ColumnSummary, FieldPath, Level, ZoneColumn, Zones};

/// One zone per batch.
pub(super) fn batch_zones(meta: &FileMeta, columns: &[FieldPath], batches: &[usize]) -> Result<Zones> {
    let rows = batches.iter().filter_map(|batch| meta.spans().get(*batch)).map(|span| span.rows);
    let mut zones = Zones { level: Level::Stripe, row_counts: UInt64Array::from_iter_values(rows), columns: Vec::new() };
    // Nothing is recorded of fields within structs.
    for path in columns.iter().filter(|path| path.fields.is_empty()) {
        let field = meta.field(path.column)?;
        if leaf_type(field.data_type()).is_some() {
            let known = known_zones(meta, path.column, field.data_type(), batches).and_then(|known| zone_column(path, field.data_type(), &known));
            zones.columns.push(known.map_err(|error| error.in_column(field.name()))?);
        }
    }
    Ok(zones)
}

/// What is known of a column in these batches.
fn known_zones(meta: &FileMeta, column: usize, data_type: &DataType, batches: &[usize]) -> Result<Vec<Zone>> {
    if let Some(zones) = meta.zones(column)? {
        return Ok(batches.iter().map(|batch| zones.get(*batch).cloned().unwrap_or_default()).collect());
    }
    let zone =
        |batch: &usize| Ok(Zone { null_count: null_count(meta, column, data_type, *batch)?, bytes: meta.bytes(column, *batch)?, ..Zone::default() });
    batches.iter().map(zone).collect()
}

/// The nulls that a batch's own metadata counts, where those are all that there are.
fn null_count(meta: &FileMeta, column: usize, data_type: &DataType, batch: usize) -> Result<Option<u32>> {
    match data_type {
        DataType::Null => Ok(meta.spans().get(batch).and_then(|span| u32::try_from(span.rows).ok())),
        // A null may be a value of a dictionary, of a run, or of a child.
        DataType::Dictionary(..) | DataType::RunEndEncoded(..) | DataType::Union(..) => Ok(None),
        _ => Ok(meta.null_count(column, batch)?.and_then(|count| u32::try_from(count).ok())),
    }
}

fn zone_column(path: &FieldPath, data_type: &DataType, zones: &[Zone]) -> Result<ZoneColumn> {
    let bounds = |side: Side| bound_array(data_type, zones.iter().map(|zone| side.of(zone)));
    let null_counts = zones.iter().map(|zone| zone.null_count.map(u64::from)).collect();
    Ok(ZoneColumn { column: path.clone(), min: bounds(Side::Min)?, max: bounds(Side::Max)?, null_counts })
}

/// What is known about a column over the whole file.
pub(super) fn of_column(meta: &FileMeta, column: usize, data_type: &DataType) -> Result<ColumnSummary> {
    let all: Vec<usize> = (0..meta.spans().len()).filter(|batch| meta.spans().get(*batch).is_some_and(|span| span.rows > 0)).collect();
    let zones = known_zones(meta, column, data_type, &all)?;
    let null_count = zones.iter().map(|zone| zone.null_count.map(u64::from)).sum();
    let rows = all.iter().filter_map(|batch| meta.spans().get(*batch)).map(|span| span.rows);
    let valued: Vec<&Zone> =
        zones.iter().zip(rows).filter(|(zone, rows)| zone.null_count.map(u64::from) != Some(*rows)).map(|(zone, _)| zone).collect();
    let bytes = zones.iter().map(|zone| zone.bytes).try_fold(0_u64, |sum, bytes| sum.checked_add(bytes?));
    let has_dictionaries = !meta.file_schema().dictionaries_of(meta.shape(column)?).is_empty();
    Ok(ColumnSummary {
        null_count,
        min: extreme(data_type, &valued, Side::Min)?,
        max: extreme(data_type, &valued, Side::Max)?,
        array_bytes: bytes.map(|bytes| (bytes, !has_dictionaries)),
        ..ColumnSummary::default()
    })
}

/// The least of the lower bounds, or the greatest of the upper ones. If that one is exact it is the column's, because no value of another batch is beyond it.
fn extreme(data_type: &DataType, zones: &[&Zone], side: Side) -> Result<Option<(ArrayRef, bool)>> {
    let Some(leaf) = leaf_type(data_type) else { return Ok(None) };
    let array = bound_array(leaf, zones.iter().map(|zone| side.of(zone)))?;
    if array.is_empty() || array.null_count() > 0 {
        return Ok(None);
    }
    let order = SortOptions { descending: side == Side::Max, nulls_first: false };
    let first = sort_to_indices(&array, Some(order), Some(1))?;
    let Some(zone) = first.values().first().and_then(|index| zones.get(*index as usize)) else { return Ok(None) };
    let bound = side.of(zone);
    bound.map(|bound| Ok((bound_array(data_type, std::iter::once(Some(bound)))?, bound.is_exact))).transpose()
}
