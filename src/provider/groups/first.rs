//! [`first_of_runs`]: which rows begin a run.

use arrow::array::{Array, ArrayRef, AsArray, BooleanBufferBuilder};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp::distinct;
use arrow::datatypes::DataType;
use datafusion::error::Result;

/// Where runs have this many rows on average, at least, to find them and look at the first of each takes no longer than to look at all rows.
const ROWS_PER_RUN: f64 = 1.5;

/// Whether keys of a type can be compared with those of the row before.
pub(super) fn can_have_runs(data_type: &DataType) -> bool {
    let is_text = matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Binary | DataType::LargeBinary | DataType::BinaryView
    );
    data_type.is_primitive() || is_text || *data_type == DataType::Boolean
}

/// The first row, and which others differ from the row before in one of the keys or, if rows have them, in the group; `None` if that is most of them.
pub(super) fn first_of_runs(groups: Option<&[usize]>, keys: &[ArrayRef], rows: usize) -> Result<Option<BooleanBuffer>> {
    let Some(behind) = rows.checked_sub(1) else { return Ok(None) };
    let mut differ = match groups {
        Some(groups) => BooleanBuffer::collect_bool(behind, |row| groups[row] != groups[row + 1]),
        None => BooleanBuffer::new_unset(behind),
    };
    for keys in keys {
        if !is_worth_it(&differ) {
            return Ok(None);
        }
        differ = &differ | &differ_from_before(keys)?;
    }
    if !is_worth_it(&differ) {
        return Ok(None);
    }
    let mut first = BooleanBufferBuilder::new(rows);
    first.append(true);
    first.append_buffer(&differ);
    Ok(Some(first.finish()))
}

#[expect(clippy::cast_precision_loss, reason = "a ratio need not be exact")]
fn is_worth_it(differ: &BooleanBuffer) -> bool {
    let (runs, rows) = (differ.count_set_bits() + 1, differ.len() + 1);
    runs as f64 * ROWS_PER_RUN <= rows as f64
}

/// Which rows but the first have another key than the row before. Of long strings that lie in different places that may be said though they are equal.
fn differ_from_before(keys: &ArrayRef) -> Result<BooleanBuffer> {
    let behind = keys.len() - 1;
    let views = match keys.data_type() {
        DataType::Utf8View => Some(keys.as_string_view().views()),
        DataType::BinaryView => Some(keys.as_binary_view().views()),
        _ => None,
    };
    Ok(match views.filter(|_| keys.null_count() == 0) {
        Some(views) => BooleanBuffer::collect_bool(behind, |row| views[row] != views[row + 1]),
        None => distinct(&keys.slice(0, behind), &keys.slice(1, behind))?.into_parts().0,
    })
}
