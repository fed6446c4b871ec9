//! Leaf arrays to values and back: which physical type stores which Arrow type.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, make_array};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, IntervalUnit};

use super::limits::check_bytes;
use super::views;
use crate::format::codec::{Decoded, PType, Values};
use crate::format::error::{Error, Result};

/// The physical type that stores a leaf type; `None` for the types that are not leaves.
pub(crate) fn leaf_ptype(data_type: &DataType) -> Option<PType> {
    Some(match data_type {
        DataType::Boolean => PType::Bool,
        DataType::Int8 => PType::I8,
        DataType::Int16 => PType::I16,
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) | DataType::Decimal32(..) | DataType::Interval(IntervalUnit::YearMonth) => {
            PType::I32
        }
        DataType::Int64 | DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(..) | DataType::Duration(_) | DataType::Decimal64(..) => {
            PType::I64
        }
        DataType::Decimal128(..) => PType::I128,
        DataType::Decimal256(..) => PType::I256,
        DataType::UInt8 => PType::U8,
        DataType::UInt16 => PType::U16,
        DataType::UInt32 => PType::U32,
        DataType::UInt64 | DataType::Interval(IntervalUnit::DayTime) => PType::U64,
        DataType::Float16 => PType::F16,
        DataType::Float32 => PType::F32,
        DataType::Float64 => PType::F64,
        DataType::Interval(IntervalUnit::MonthDayNano)
        | DataType::FixedSizeBinary(_)
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View => PType::Bytes,
        _ => return None,
    })
}

/// Whether the values must be UTF-8.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The values of a leaf array, without copying them where their layout already is the stored one.
pub(crate) fn leaf_values(array: &ArrayRef) -> Result<Values> {
    let ptype = leaf_ptype(array.data_type()).ok_or_else(|| Error::invalid_argument(format!("{} is not a leaf type", array.data_type())))?;
    match array.data_type() {
        DataType::Boolean => Ok(Values::Bool(array.as_boolean().values().clone())),
        DataType::Utf8 => Ok(Values::Bytes(without_nulls(BinaryViewArray::from(&as_binary::<i32>(array)?)))),
        DataType::LargeUtf8 => Ok(Values::Bytes(without_nulls(BinaryViewArray::from(&as_binary::<i64>(array)?)))),
        DataType::Binary => Ok(Values::Bytes(without_nulls(BinaryViewArray::from(array.as_binary::<i32>())))),
        DataType::LargeBinary => Ok(Values::Bytes(without_nulls(BinaryViewArray::from(array.as_binary::<i64>())))),
        DataType::Utf8View => Ok(Values::Bytes(without_nulls(array.as_string_view().clone().to_binary_view()))),
        DataType::BinaryView => Ok(Values::Bytes(without_nulls(array.as_binary_view().clone()))),
        DataType::FixedSizeBinary(_) | DataType::Interval(IntervalUnit::MonthDayNano) => Ok(Values::Bytes(fixed_as_views(array))),
        _ => Ok(Values::Fixed { ptype, bytes: fixed_bytes(array, ptype.width().unwrap_or(0)) }),
    }
}

fn as_binary<O: arrow::array::OffsetSizeTrait>(array: &ArrayRef) -> Result<arrow::array::GenericBinaryArray<O>> {
    let strings = array.as_string::<O>();
    Ok(arrow::array::GenericBinaryArray::try_new(strings.offsets().clone(), strings.values().clone(), strings.nulls().cloned())?)
}

/// The values of a null slot may be anything in Arrow, a view that points nowhere included: make them empty.
fn without_nulls(array: BinaryViewArray) -> BinaryViewArray {
    let (views, buffers, nulls) = array.into_parts();
    let views = match nulls {
        Some(nulls) if nulls.null_count() > 0 => {
            ScalarBuffer::from_iter(views.iter().zip(nulls.iter()).map(|(view, valid)| if valid { *view } else { 0 }))
        }
        _ => views,
    };
    views::binary(views, buffers.to_vec(), None)
}

/// The native bytes of a fixed-width array, without those before and behind a slice.
fn fixed_bytes(array: &ArrayRef, width: usize) -> Buffer {
    let data = array.to_data();
    match data.buffers() {
        [buffer, ..] => buffer.slice_with_length(data.offset() * width, data.len() * width),
        [] => Buffer::default(),
    }
}

fn fixed_as_views(array: &ArrayRef) -> BinaryViewArray {
    match array.as_fixed_size_binary_opt() {
        Some(fixed) => BinaryViewArray::from_iter_values((0..fixed.len()).map(|i| fixed.value(i))),
        None => BinaryViewArray::from_iter_values(fixed_bytes(array, 16).chunks_exact(16)),
    }
}

/// The array of decoded values, for a batch of `rows`.
pub(crate) fn leaf_array(data_type: &DataType, decoded: Decoded, nulls: Option<NullBuffer>, rows: usize) -> Result<ArrayRef> {
    match (data_type, decoded) {
        (DataType::Boolean, Decoded::Bool(values)) => Ok(Arc::new(BooleanArray::new(values, nulls))),
        (DataType::FixedSizeBinary(width), Decoded::Views { views, buffers }) => {
            let width_bytes = usize::try_from(*width).map_err(|_| Error::invalid_file("negative width of a fixed-size binary"))?;
            let slots = views.len();
            let bytes = gather_fixed(views, buffers, width_bytes, nulls.as_ref(), rows)?;
            Ok(Arc::new(FixedSizeBinaryArray::try_new_with_len(*width, bytes, nulls, slots)?))
        }
        (DataType::Interval(IntervalUnit::MonthDayNano), Decoded::Views { views, buffers }) => {
            fixed_array(data_type, views.len(), gather_fixed(views, buffers, 16, nulls.as_ref(), rows)?, nulls)
        }
        (_, Decoded::Views { views, buffers }) => views::array(data_type, views, buffers, nulls, rows),
        (_, Decoded::Fixed(bytes)) => {
            let width = leaf_ptype(data_type).and_then(PType::width).ok_or_else(|| mismatch(data_type))?;
            fixed_array(data_type, bytes.len() / width, bytes, nulls)
        }
        (_, Decoded::Bool(_)) => Err(mismatch(data_type)),
    }
}

fn fixed_array(data_type: &DataType, rows: usize, bytes: Buffer, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let data = arrow::array::ArrayData::builder(data_type.clone()).len(rows).add_buffer(bytes).nulls(nulls).align_buffers(true).build()?;
    Ok(make_array(data))
}

/// Values of one width, joined. Only a null slot's value may have been stored as empty.
fn gather_fixed(views: ScalarBuffer<u128>, buffers: Vec<Buffer>, width: usize, nulls: Option<&NullBuffer>, rows: usize) -> Result<Buffer> {
    check_bytes(views.len(), width, rows)?;
    let views = views::binary(views, buffers, None);
    let mut bytes: Vec<u8> = Vec::with_capacity(views.len().saturating_mul(width));
    for (slot, value) in views.iter().flatten().enumerate() {
        match value.len() {
            length if length == width => bytes.extend_from_slice(value),
            0 if nulls.is_some_and(|nulls| nulls.is_null(slot)) => bytes.resize(bytes.len() + width, 0),
            length => return Err(Error::invalid_file(format!("a value of {length} bytes in a column of {width} bytes"))),
        }
    }
    Ok(Buffer::from_vec(bytes))
}

fn mismatch(data_type: &DataType) -> Error {
    Error::invalid_file(format!("the stored values are not those of {data_type}"))
}
