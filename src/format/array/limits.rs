//! What one row may hold and what one batch may take: a few bytes of a file can stand for any number of values, and nobody's memory is that large.

use arrow::array::ArrayData;
use arrow::datatypes::{DataType, FieldRef};

use super::leaf::leaf_ptype;
use crate::format::codec::PType;
use crate::format::error::{Error, Result};

/// The most slots that one row has in a stream (SPEC section 9). Writers refuse more, and readers do.
pub(crate) const ROW_SLOTS_MAX: usize = 1 << 28;

/// The most bytes that the slots of one row take in a stream (SPEC section 9); a batch of several rows that takes more is read in smaller ones.
pub(crate) const ROW_BYTES_MAX: usize = 1 << 30;

/// Above this, a batch of several rows is read in smaller ones.
const BATCH_SLOTS_MAX: usize = 1 << 24;

/// Above this, values that have to be written out are so in smaller batches.
const BATCH_SPELLED_MAX: usize = 1 << 27;

/// What a list counts for beside its values.
pub(crate) const OFFSET_BYTES: usize = 16;

/// What it takes to spell a slot out, whatever is in it; the view or the offset and validity of a string.
pub(crate) const SLOT_BYTES: usize = 16;

/// What a value of a leaf type counts for: its width, or that of the view by which it is read.
pub(crate) fn leaf_bytes(data_type: &DataType) -> usize {
    const VIEW: usize = size_of::<u128>();
    match (data_type, leaf_ptype(data_type)) {
        (DataType::FixedSizeBinary(width), _) => usize::try_from(*width).unwrap_or(usize::MAX).max(VIEW),
        (_, Some(PType::Bytes)) => VIEW,
        (_, Some(ptype)) => ptype.width().unwrap_or(0),
        (_, None) => 0,
    }
}

/// Of an array that has to be copied: the slots that are values, of all below it together. Each may come to take a byte, even if it takes none in the file. The values of a dictionary are
/// another's affair.
pub(crate) fn value_slots(data: &ArrayData) -> usize {
    let below = match data.data_type() {
        DataType::Dictionary(..) => 0,
        _ => data.child_data().iter().map(value_slots).fold(0, usize::saturating_add),
    };
    below.max(data.len())
}

/// Whether so many values may be copied: they are not more than one row may have, or not more than their bytes have bits.
pub(crate) fn may_be_copied(slots: usize, bytes: usize) -> bool {
    slots <= ROW_SLOTS_MAX || slots / 8 <= bytes
}

/// Refuses values of a list or fixed-size list that are too many for a batch of `rows`.
pub(crate) fn check_slots(slots: usize, rows: usize) -> Result<()> {
    match slots {
        slots if slots > BATCH_SLOTS_MAX && rows > 1 => Err(Error::too_many_rows("the lists of a batch have too many values")),
        slots if slots > ROW_SLOTS_MAX => Err(Error::invalid_file(format!("a row of {slots} values; {ROW_SLOTS_MAX} are the most"))),
        _ => Ok(()),
    }
}

/// Refuses values that take so many bytes when each is written out, where that is too much for a batch of `rows`.
pub(crate) fn check_spelled(bytes: usize, rows: usize) -> Result<()> {
    match bytes {
        bytes if bytes > BATCH_SPELLED_MAX && rows > 1 => Err(Error::too_many_rows(format!("the values of a batch take {bytes} bytes"))),
        bytes if bytes > ROW_BYTES_MAX => {
            Err(Error::invalid_argument(format!("the values of one row take {bytes} bytes; read the column as the value type of its dictionaries")))
        }
        _ => Ok(()),
    }
}

/// Refuses slots of so many bytes each that take too much for a batch of `rows`.
pub(crate) fn check_bytes(slots: usize, width: usize, rows: usize) -> Result<()> {
    match slots.saturating_mul(width) {
        bytes if bytes <= ROW_BYTES_MAX => Ok(()),
        bytes if rows > 1 => Err(Error::too_many_rows(format!("the values of a batch take {bytes} bytes"))),
        bytes => Err(Error::invalid_file(format!("the values of a row take {bytes} bytes; {ROW_BYTES_MAX} are the most"))),
    }
}

/// Bytes of a null of a type, or of one of its items, when it is spelled out and no slot takes less than `least`. Arrow makes one for each struct and union, even where there is no row.
pub(crate) fn null_bytes(data_type: &DataType, least: usize) -> usize {
    let null_bytes = |data_type: &DataType| null_bytes(data_type, least);
    let each = |fields: &mut dyn Iterator<Item = &FieldRef>| fields.map(|field| null_bytes(field.data_type())).fold(least, usize::saturating_add);
    match data_type {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).unwrap_or(0).max(least),
        DataType::FixedSizeList(item, size) => null_bytes(item.data_type()).saturating_mul(usize::try_from(*size).unwrap_or(0)).max(least),
        DataType::Struct(fields) => each(&mut fields.iter()),
        DataType::Union(fields, _) => each(&mut fields.iter().map(|(_, field)| field)),
        DataType::Dictionary(_, values) => null_bytes(values),
        DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) | DataType::LargeListView(item) | DataType::Map(item, _) => {
            each(&mut std::iter::once(item))
        }
        DataType::RunEndEncoded(_, values) => each(&mut std::iter::once(values)),
        DataType::Null | DataType::Boolean => least,
        leaf => leaf.primitive_width().unwrap_or(SLOT_BYTES).max(least),
    }
}

/// Refuses types of which a single null, or one of an item, is more than a row may hold: the engine makes such, be a column of no rows.
pub(crate) fn check_null(data_type: &DataType) -> Result<()> {
    match null_bytes(data_type, 1) {
        bytes if bytes > ROW_BYTES_MAX => Err(Error::invalid_file(format!(
            "a null of its type or of its items takes {bytes} bytes; {ROW_BYTES_MAX} are the most that a row may take"
        ))),
        _ => Ok(()),
    }
}
