//! Columns of nulls that no stream stores.

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::{DataType, UnionMode};

use super::limits::{OFFSET_BYTES, check_bytes, check_slots, leaf_bytes};
use crate::format::error::{Error, Result};

/// An array of nulls: `slots` of them for a batch of `rows`.
pub(crate) fn null_array(data_type: &DataType, slots: usize, rows: usize) -> Result<ArrayRef> {
    check(data_type, slots, rows)?;
    Ok(new_null_array(data_type, slots))
}

/// Arrow builds nulls without looking at what they take, and panics where they cannot be counted.
fn check(data_type: &DataType, slots: usize, rows: usize) -> Result<()> {
    match data_type {
        DataType::Struct(fields) => fields.iter().try_for_each(|field| check(field.data_type(), slots, rows)),
        DataType::FixedSizeList(item, size) => {
            let values = slots.saturating_mul(usize::try_from(*size).unwrap_or(usize::MAX));
            check_slots(values, rows)?;
            check(item.data_type(), values, rows)
        }
        DataType::Union(fields, mode) => {
            // Of a dense union, all slots are the first child's.
            let used = if *mode == UnionMode::Sparse { fields.len() } else { 1 };
            check_bytes(slots, size_of::<u64>(), rows)?;
            fields.iter().take(used).try_for_each(|(_, field)| check(field.data_type(), slots, rows))
        }
        DataType::RunEndEncoded(ends, values) => {
            let most = match ends.data_type() {
                DataType::Int16 => usize::from(i16::MAX.cast_unsigned()),
                DataType::Int32 => i32::MAX.cast_unsigned() as usize,
                _ => usize::MAX,
            };
            if slots > most {
                return Err(Error::too_many_rows("a batch has more rows than its run ends can number"));
            }
            check(values.data_type(), slots.min(1), rows)
        }
        DataType::Null => Ok(()),
        nested if nested.is_nested() => check_bytes(slots, OFFSET_BYTES, rows),
        DataType::Dictionary(..) => check_bytes(slots, size_of::<u64>(), rows),
        leaf => check_bytes(slots, leaf_bytes(leaf), rows),
    }
}
