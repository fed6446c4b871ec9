//! An array to the pieces of its streams.
//!
//! Where lists overlap or leave gaps, or a dictionary is spelled out, the rows of a child are not a slice of it. The rows wanted are then handed
//! down as indices, and only leaves are copied.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::types::RunEndIndexType;
use arrow::array::{Array, ArrayRef, BinaryViewArray, BooleanBufferBuilder, Int8Array, OffsetSizeTrait, RunArray, StringViewArray, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{ArrowNativeType, DataType, Int16Type, Int32Type, Int64Type};

use super::limits::{OFFSET_BYTES, leaf_bytes};
use super::zero_width::zero_width;
use crate::format::error::{Error, Result};

/// What an array adds to one stream. The pieces of an array come in the order of its type's stream directory.
#[derive(Debug)]
pub(crate) enum Piece {
    /// A bit per slot; `None` is all valid. And the values of fixed-size lists.
    Validity { nulls: Option<NullBuffer>, rows: usize, values: usize },
    /// n + 1 ascending numbers, the first 0.
    Offsets(Vec<i64>),
    /// A leaf array: its values (of strings and binaries, views) and, for the encoder, its nulls.
    Data(ArrayRef),
}

impl Piece {
    /// Slots, and what readers count for each.
    pub(super) fn size(&self) -> (usize, usize) {
        match self {
            Self::Validity { rows, .. } => (*rows, 0),
            Self::Offsets(offsets) => (offsets.len().saturating_sub(1), OFFSET_BYTES),
            Self::Data(array) => (array.len(), leaf_bytes(array.data_type())),
        }
    }

    /// The values of all lists, of which no stream needs to know where they are nulls without a type.
    pub(super) fn values(&self) -> usize {
        match self {
            Self::Offsets(offsets) => offsets.last().and_then(|last| usize::try_from(*last).ok()).unwrap_or(0),
            Self::Validity { values, .. } => *values,
            Self::Data(_) => 0,
        }
    }
}

/// Splits an array into its pieces.
pub(crate) fn shred(array: &ArrayRef) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    shred_rows(array, &Rows::All, &mut pieces)?;
    Ok(pieces)
}

/// The pieces of arrays that follow each other, each stream's joined.
pub(crate) fn join(arrays: Vec<Vec<Piece>>) -> Result<Vec<Piece>> {
    let mut streams: Vec<Vec<Piece>> = Vec::new();
    for pieces in arrays {
        streams.resize_with(pieces.len(), Vec::new);
        streams.iter_mut().zip(pieces).for_each(|(stream, piece)| stream.push(piece));
    }
    streams.into_iter().map(join_stream).collect()
}

fn join_stream(mut pieces: Vec<Piece>) -> Result<Piece> {
    if pieces.len() == 1
        && let Some(piece) = pieces.pop()
    {
        return Ok(piece);
    }
    match pieces.first() {
        Some(Piece::Validity { .. }) => Ok(join_validity(&pieces)),
        Some(Piece::Offsets(_)) => Ok(Piece::Offsets(join_offsets(&pieces))),
        _ => {
            let arrays = pieces.iter().filter_map(|piece| if let Piece::Data(array) = piece { Some(array.as_ref()) } else { None });
            join_data(&arrays.collect::<Vec<_>>()).map(Piece::Data)
        }
    }
}

fn join_validity(pieces: &[Piece]) -> Piece {
    let mut bits = BooleanBufferBuilder::new(0);
    for piece in pieces {
        match piece {
            Piece::Validity { nulls: Some(nulls), .. } => bits.append_buffer(nulls.inner()),
            Piece::Validity { nulls: None, rows, .. } => bits.append_n(*rows, true),
            _ => {}
        }
    }
    let nulls = NullBuffer::new(bits.finish());
    let values = pieces.iter().map(Piece::values).fold(0, usize::saturating_add);
    Piece::Validity { rows: nulls.len(), values, nulls: Some(nulls).filter(|nulls| nulls.null_count() > 0) }
}

fn join_offsets(pieces: &[Piece]) -> Vec<i64> {
    let mut joined = vec![0];
    for piece in pieces {
        if let Piece::Offsets(offsets) = piece {
            let base = joined.last().copied().unwrap_or(0);
            joined.extend(offsets.iter().skip(1).map(|offset| base + offset));
        }
    }
    joined
}

fn join_data(arrays: &[&dyn Array]) -> Result<ArrayRef> {
    match arrays.first().map(|array| array.data_type()) {
        Some(DataType::FixedSizeBinary(0)) => {
            let nulls = arrays.iter().flat_map(|array| (0..array.len()).map(|row| array.is_valid(row))).collect();
            zero_width(arrays.iter().map(|array| array.len()).sum(), Some(nulls))
        }
        _ => concat(arrays).map_err(|error| Error::invalid_argument(error.to_string())),
    }
}

/// The most items that are gathered at once. Those of a list that is named again and again take no memory before.
const PICKED_MAX: usize = 1 << 31;

/// Which rows of an array, in which order.
enum Rows {
    All,
    /// A null index is a null row.
    Picked(UInt64Array),
}

impl Rows {
    fn of(&self, array: &dyn Array) -> usize {
        match self {
            Self::All => array.len(),
            Self::Picked(rows) => rows.len(),
        }
    }

    /// The index in `array` of each row.
    fn indices(&self, array: &dyn Array) -> Vec<Option<usize>> {
        match self {
            Self::All => (0..array.len()).map(Some).collect(),
            Self::Picked(rows) => rows.iter().map(|row| row.and_then(|row| usize::try_from(row).ok())).collect(),
        }
    }

    fn nulls(&self, array: &dyn Array) -> Option<NullBuffer> {
        let nulls = match self {
            Self::All => array.nulls().cloned(),
            Self::Picked(_) => Some(self.indices(array).into_iter().map(|row| row.is_some_and(|row| array.is_valid(row))).collect()),
        };
        nulls.filter(|nulls| nulls.null_count() > 0)
    }

    fn pick(&self, array: &ArrayRef) -> Result<ArrayRef> {
        match self {
            Self::All => Ok(Arc::clone(array)),
            Self::Picked(rows) => match array.data_type() {
                DataType::FixedSizeBinary(0) => zero_width(rows.len(), self.nulls(array)),
                _ => Ok(take(array, rows, None)?),
            },
        }
    }
}

fn shred_rows(array: &ArrayRef, rows: &Rows, out: &mut Vec<Piece>) -> Result<()> {
    match array.data_type() {
        DataType::Null => return Ok(()),
        DataType::Dictionary(..) => return shred_dictionary(array, rows, out),
        DataType::RunEndEncoded(..) => return shred_runs(array, rows, out),
        DataType::Union(..) => return shred_union(array, rows, out),
        other => {
            let size = if let DataType::FixedSizeList(_, size) = other { usize::try_from(*size).unwrap_or(0) } else { 0 };
            out.push(Piece::Validity { nulls: rows.nulls(array), rows: rows.of(array), values: rows.of(array).saturating_mul(size) });
        }
    }
    match array.data_type() {
        DataType::Struct(_) => array.as_struct().columns().iter().try_for_each(|child| shred_rows(child, rows, out)),
        DataType::FixedSizeList(..) => shred_fixed_size_list(array, rows, out),
        DataType::List(_) => shred_list(array, array.as_list::<i32>().values(), array.as_list::<i32>().offsets(), rows, out),
        DataType::LargeList(_) => shred_list(array, array.as_list::<i64>().values(), array.as_list::<i64>().offsets(), rows, out),
        DataType::Map(..) => {
            let entries: ArrayRef = Arc::new(array.as_map().entries().clone());
            shred_list(array, &entries, array.as_map().offsets(), rows, out)
        }
        DataType::ListView(_) => {
            let list = array.as_list_view::<i32>();
            shred_spans(array, list.values(), |row| list.offsets()[row].as_usize()..(list.offsets()[row] + list.sizes()[row]).as_usize(), rows, out)
        }
        DataType::LargeListView(_) => {
            let list = array.as_list_view::<i64>();
            shred_spans(array, list.values(), |row| list.offsets()[row].as_usize()..(list.offsets()[row] + list.sizes()[row]).as_usize(), rows, out)
        }
        _ => {
            out.push(Piece::Data(rows.pick(&as_views(array))?));
            Ok(())
        }
    }
}

/// Strings and binaries as views, which share the bytes: repeated and joined as they are, they could take more memory than there is, and more
/// bytes than their offsets can count.
fn as_views(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8 => Arc::new(StringViewArray::from(array.as_string::<i32>())),
        DataType::LargeUtf8 => Arc::new(StringViewArray::from(array.as_string::<i64>())),
        DataType::Binary => Arc::new(BinaryViewArray::from(array.as_binary::<i32>())),
        DataType::LargeBinary => Arc::new(BinaryViewArray::from(array.as_binary::<i64>())),
        _ => Arc::clone(array),
    }
}

fn shred_dictionary(array: &ArrayRef, rows: &Rows, out: &mut Vec<Piece>) -> Result<()> {
    let dictionary = array.as_any_dictionary_opt().ok_or_else(|| Error::invalid_argument("not a dictionary array"))?;
    let keys = cast(&rows.pick(&dictionary.keys().slice(0, array.len()))?, &DataType::UInt64)?;
    shred_rows(dictionary.values(), &Rows::Picked(keys.as_primitive().clone()), out)
}

fn shred_runs(array: &ArrayRef, rows: &Rows, out: &mut Vec<Piece>) -> Result<()> {
    fn spell_out<R: RunEndIndexType>(array: &ArrayRef) -> Result<(ArrayRef, ArrayRef)> {
        let runs: &RunArray<R> = array.as_any().downcast_ref().ok_or_else(|| Error::invalid_argument("not a run-end encoded array"))?;
        let mut indices: Vec<u64> = Vec::with_capacity(runs.len());
        for (run, end) in (0..).zip(runs.run_ends().sliced_values()) {
            indices.resize(end.as_usize(), run);
        }
        Ok((runs.values_slice(), Arc::new(UInt64Array::from(indices))))
    }
    let DataType::RunEndEncoded(ends, _) = array.data_type() else {
        return Err(Error::invalid_argument("not a run-end encoded array"));
    };
    let (values, indices) = match ends.data_type() {
        DataType::Int16 => spell_out::<Int16Type>(array)?,
        DataType::Int32 => spell_out::<Int32Type>(array)?,
        _ => spell_out::<Int64Type>(array)?,
    };
    shred_rows(&values, &Rows::Picked(rows.pick(&indices)?.as_primitive().clone()), out)
}

fn shred_union(array: &ArrayRef, rows: &Rows, out: &mut Vec<Piece>) -> Result<()> {
    let union = array.as_union_opt().ok_or_else(|| Error::invalid_argument("not a union array"))?;
    let indices = rows.indices(array).into_iter().collect::<Option<Vec<usize>>>();
    let indices = indices.ok_or_else(|| Error::invalid_argument("a null of a dictionary of unions cannot be stored"))?;
    let ids: Vec<i8> = indices.iter().map(|row| union.type_id(*row)).collect();
    let DataType::Union(fields, _) = array.data_type() else {
        return Err(Error::invalid_argument("not a union array"));
    };
    out.push(Piece::Data(Arc::new(Int8Array::from(ids.clone()))));
    for (id, _) in fields.iter() {
        match union.offsets() {
            None => shred_rows(union.child(id), rows, out)?,
            Some(_) => {
                let of_child = indices.iter().zip(&ids).filter(|(_, of)| **of == id).map(|(row, _)| union.value_offset(*row) as u64);
                shred_rows(union.child(id), &Rows::Picked(UInt64Array::from_iter_values(of_child)), out)?;
            }
        }
    }
    Ok(())
}

fn shred_fixed_size_list(array: &ArrayRef, rows: &Rows, out: &mut Vec<Piece>) -> Result<()> {
    let list = array.as_fixed_size_list();
    let size = list.value_length().as_usize() as u64;
    let children = match rows {
        Rows::All => Rows::All,
        Rows::Picked(rows) if rows.len().saturating_mul(list.value_length().as_usize()) > PICKED_MAX => return Err(too_long()),
        Rows::Picked(rows) => Rows::Picked(rows.iter().flat_map(|row| (0..size).map(move |i| row.map(|row| row * size + i))).collect()),
    };
    shred_rows(list.values(), &children, out)
}

/// Lists whose values lie one behind the other, and are all wanted, are cut out of the child.
fn shred_list<O: OffsetSizeTrait>(array: &ArrayRef, values: &ArrayRef, offsets: &[O], rows: &Rows, out: &mut Vec<Piece>) -> Result<()> {
    let span = |row: usize| offsets[row].as_usize()..offsets[row + 1].as_usize();
    let has_gaps = || array.nulls().is_some_and(|nulls| (0..array.len()).any(|row| nulls.is_null(row) && !span(row).is_empty()));
    match (rows, offsets) {
        (Rows::All, [first, .., last]) if !has_gaps() => {
            let first = first.as_usize();
            let ends = offsets.iter().map(|end| i64::try_from(end.as_usize() - first).map_err(|_| too_long()));
            out.push(Piece::Offsets(ends.collect::<Result<_>>()?));
            shred_rows(&values.slice(first, last.as_usize() - first), &Rows::All, out)
        }
        _ => shred_spans(array, values, span, rows, out),
    }
}

/// Lists whose values are gathered.
fn shred_spans(array: &ArrayRef, values: &ArrayRef, span: impl Fn(usize) -> std::ops::Range<usize>, rows: &Rows, out: &mut Vec<Piece>) -> Result<()> {
    let span = |row: Option<usize>| row.filter(|row| array.is_valid(*row)).map_or(0..0, &span);
    let spans: Vec<_> = rows.indices(array).into_iter().map(span).collect();
    // Before anything is gathered: lists of a few bytes may name very many items.
    let count = spans.iter().fold(0_usize, |count, span| count.saturating_add(span.len()));
    if count > PICKED_MAX {
        return Err(too_long());
    }
    let mut offsets = Vec::with_capacity(spans.len() + 1);
    offsets.push(0);
    let mut picked: Vec<u64> = Vec::with_capacity(count);
    for span in spans {
        picked.extend(span.map(|index| index as u64));
        offsets.push(i64::try_from(picked.len()).map_err(|_| too_long())?);
    }
    out.push(Piece::Offsets(offsets));
    shred_rows(values, &Rows::Picked(UInt64Array::from(picked)), out)
}

fn too_long() -> Error {
    Error::invalid_argument("the lists of a batch are too long; write fewer rows at once")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BinaryArray, DictionaryArray, Int32Array, StringArray};
    use arrow::datatypes::Int32Type;

    #[test]
    fn lists_that_are_named_too_often_are_refused() {
        use arrow::array::{FixedSizeListArray, LargeListViewArray, NullArray};
        use arrow::datatypes::Field;
        let item = || Arc::new(Field::new("item", DataType::Null, true));
        let nulls = || Arc::new(NullArray::new(1 << 28));
        let list: ArrayRef = Arc::new(FixedSizeListArray::new(item(), 1 << 28, nulls(), None));
        let array: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0; 8192]), list));
        assert!(shred(&array).unwrap_err().to_string().contains("too long"));
        let views: ArrayRef = Arc::new(LargeListViewArray::new(item(), vec![0; 9].into(), vec![1 << 28; 9].into(), nulls(), None));
        assert!(shred(&views).unwrap_err().to_string().contains("too long"));
    }

    #[test]
    fn strings_are_repeated_and_joined_without_their_bytes() {
        let value = "x".repeat(72 << 10);
        let text: ArrayRef = Arc::new(StringArray::from(vec![value.as_str()]));
        let binary: ArrayRef = Arc::new(BinaryArray::from(vec![value.as_bytes()]));
        for values in [text, binary] {
            let buffer = values.to_data().buffers()[1].clone();
            let array: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0; 32_768]), values));
            let pieces = join(vec![shred(&array).unwrap(), shred(&array).unwrap()]).unwrap();
            let [Piece::Validity { .. }, Piece::Data(data)] = &pieces[..] else { panic!("{pieces:?}") };
            assert_eq!(data.len(), 65_536);
            // 4.8 GB, if they were copied.
            assert!(data.to_data().buffers()[1..].iter().all(|shared| shared.ptr_eq(&buffer)));
        }
    }
}
