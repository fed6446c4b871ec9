//! A column of a batch that has been fetched: decoded once, when a row of it is wanted, and then cut.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, BooleanBufferBuilder, GenericByteArray, UInt64Array, make_array, new_empty_array};
use arrow::buffer::{BooleanBuffer, OffsetBuffer};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{ArrowNativeType, ByteArrayType, DataType, Field};

use super::dictionaries::Dictionary;
use super::meta::FileMeta;
use crate::format::alkaid::array::{Encoding, Loaded, decode};
use crate::format::alkaid::schema::Shape;
use crate::format::array::{Mask, check_spelled, same_family, spelled_bytes, with_nulls_in_keys};
use crate::format::error::{Error, Result};
use crate::format::rows::Rows;
use crate::format::scan::{Coded, CodedPart, Section};

/// What it costs to evaluate something about the values of a dictionary, whatever they are, in values.
const PART_VALUES: usize = 64;

#[derive(Debug)]
pub(super) struct LoadedColumn {
    pub(super) meta: Arc<FileMeta>,
    pub(super) column: usize,
    /// The shape of what was fetched of it, if that is not all.
    pub(super) narrowed: Option<Arc<Shape>>,
    pub(super) out: DataType,
    pub(super) loaded: Loaded,
    pub(super) encoding: Encoding,
    pub(super) dictionaries: HashMap<i64, Arc<Dictionary>>,
    /// Where the body is in the file, for errors.
    pub(super) body_start: u64,
    pub(super) decoded: OnceCell<ArrayRef>,
}

impl LoadedColumn {
    /// The rows of these ranges.
    pub(super) fn read(&self, rows: &Rows) -> Result<ArrayRef> {
        self.placed(self.array().and_then(|array| self.converted(picked(array, rows.ranges(), None)?)))
    }

    /// Those of the rows that have a bit in `keep`.
    pub(super) fn read_kept(&self, rows: &Rows, keep: &BooleanBuffer) -> Result<ArrayRef> {
        self.placed(self.array().and_then(|array| self.converted(picked(array, rows.ranges(), Some(keep))?)))
    }

    /// The rows as codes of a dictionary of no more than `most` values, if that is what they are.
    pub(super) fn coded(&self, rows: &Rows, most: usize) -> Result<Option<Coded>> {
        self.placed(self.array().and_then(|array| self.coded_rows(array, rows, most)))
    }

    fn coded_rows(&self, array: &ArrayRef, rows: &Rows, most: usize) -> Result<Option<Coded>> {
        let Some(dictionary) = array.as_any_dictionary_opt() else { return Ok(None) };
        let values = dictionary.values();
        if values.is_empty() || values.len().saturating_add(PART_VALUES) > most {
            return Ok(None);
        }
        // Where the dictionary itself is wanted, its values are a dictionary with each of them once.
        let values = match &self.out {
            DataType::Dictionary(keys, of) if values.data_type() == &**of => match entries(keys, values)? {
                Some(entries) => entries,
                None => return Ok(None),
            },
            // What they are too large for may never be asked of them.
            _ => match self.converted(Arc::clone(values)) {
                Ok(values) => values,
                Err(_) => return Ok(None),
            },
        };
        let rows = picked(array, rows.ranges(), None)?;
        let Some(dictionary) = rows.as_any_dictionary_opt() else { return Ok(None) };
        let codes = dictionary.normalized_keys().into_iter().map(u32::try_from).collect::<Result<Vec<u32>, _>>();
        let Ok(codes) = codes else { return Ok(None) };
        Ok(Some(Coded { parts: vec![CodedPart { page: 0, values, codes: codes.into() }], nulls: rows.nulls().cloned() }))
    }

    fn array(&self) -> Result<&ArrayRef> {
        if let Some(array) = self.decoded.get() {
            return Ok(array);
        }
        let shape = match &self.narrowed {
            Some(narrowed) => narrowed,
            None => self.meta.shape(self.column)?,
        };
        let array = decode(&self.loaded, self.encoding, shape, &self.dictionaries)?;
        Ok(self.decoded.get_or_init(|| array))
    }

    /// The array in the type that the scan wants.
    fn converted(&self, array: ArrayRef) -> Result<ArrayRef> {
        converted(array, &self.out)
    }

    fn placed<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            let name = self.meta.field(self.column).map(|field| field.name().clone()).unwrap_or_default();
            error.in_section(Section::Data).in_column(&name).at(self.body_start)
        })
    }
}

/// Each value of a dictionary once, as a dictionary; `None` if its keys cannot number them.
fn entries(keys: &DataType, values: &ArrayRef) -> Result<Option<ArrayRef>> {
    let codes = UInt64Array::from_iter_values(0..values.len() as u64);
    let Ok(codes) = cast_with_options(&codes, keys, &CastOptions { safe: false, ..CastOptions::default() }) else { return Ok(None) };
    let data_type = DataType::Dictionary(Box::new(keys.clone()), Box::new(values.data_type().clone()));
    let data = codes.to_data().into_builder().data_type(data_type).child_data(vec![values.to_data()]).build()?;
    Ok(Some(make_array(data)))
}

/// Whether a column of the one type can be read as the other: strings and binaries as each other, dictionaries and runs as their values or the other way round.
pub(super) fn is_readable(file: &DataType, out: &DataType) -> bool {
    match (file, out) {
        (file, out) if file == out || same_family(file, out) => true,
        (DataType::Dictionary(_, values), out) => is_readable(values, out),
        (DataType::RunEndEncoded(_, values), out) => is_readable(values.data_type(), out),
        (file, DataType::Dictionary(_, values)) => is_readable(file, values),
        (file, DataType::RunEndEncoded(_, values)) => is_readable(file, values.data_type()),
        (file, out) => alike(file, out),
    }
}

/// Nested types whose children can be read as those of the other.
fn alike(file: &DataType, out: &DataType) -> bool {
    use DataType::{FixedSizeList, LargeList, LargeListView, List, ListView, Map, Struct};
    let item = |file: &Field, out: &Field| is_readable(file.data_type(), out.data_type());
    match (file, out) {
        (List(file), List(out)) | (LargeList(file), LargeList(out)) | (ListView(file), ListView(out)) => item(file, out),
        (LargeListView(file), LargeListView(out)) => item(file, out),
        (Map(file, sorted), Map(out, wanted)) => sorted == wanted && item(file, out),
        (FixedSizeList(file, size), FixedSizeList(out, wanted)) => size == wanted && item(file, out),
        (Struct(file), Struct(out)) => {
            file.len() == out.len() && file.iter().zip(out).all(|(file, out)| file.name() == out.name() && item(file, out))
        }
        _ => false,
    }
}

fn converted(array: ArrayRef, out: &DataType) -> Result<ArrayRef> {
    if array.data_type() == out {
        return Ok(array);
    }
    if is_spelled(array.data_type(), out) {
        check_spelled(spelled_bytes(&array), array.len())?;
    }
    let array = rebased(with_nulls_in_keys(array), out)?;
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let cast = cast_with_options(&array, out, &options);
    let unlike = |error| Error::invalid_argument(format!("a column of {} cannot be read as {out}: {error}", array.data_type()));
    let cast = cast.map_err(unlike)?;
    if cast.len() == array.len() { Ok(cast) } else { Err(Error::invalid_argument(format!("a column cannot be read as {out}"))) }
}

/// Whether values are written out one by one when they are read as another type: those of dictionaries and runs, and strings that were views. Of lists, all that a batch has are, however few
/// of its rows are read.
fn is_spelled(file: &DataType, out: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Dictionary, LargeBinary, LargeUtf8, RunEndEncoded, Struct, Utf8, Utf8View};
    match (file, out) {
        (file, out) if file == out => false,
        (Dictionary(..) | RunEndEncoded(..), _) | (Utf8View | BinaryView, Utf8 | Binary | LargeUtf8 | LargeBinary) => true,
        (Struct(file), Struct(out)) => file.iter().zip(out).any(|(file, out)| is_spelled(file.data_type(), out.data_type())),
        _ => false,
    }
}

/// Strings with offsets that smaller ones can hold, if they are to be read as those: rows far behind in a batch have great ones.
fn rebased(array: ArrayRef, out: &DataType) -> Result<ArrayRef> {
    let is_smaller = matches!(out, DataType::Utf8 | DataType::Binary);
    match array.data_type() {
        DataType::LargeUtf8 if is_smaller => Ok(Arc::new(from_zero(array.as_string::<i64>())?)),
        DataType::LargeBinary if is_smaller => Ok(Arc::new(from_zero(array.as_binary::<i64>())?)),
        _ => Ok(array),
    }
}

fn from_zero<T: ByteArrayType<Offset = i64>>(array: &GenericByteArray<T>) -> Result<GenericByteArray<T>> {
    let (first, end) = array.value_offsets().first().zip(array.value_offsets().last()).map_or((0, 0), |(first, end)| (*first, *end));
    if i32::try_from(end).is_ok() {
        return Ok(array.clone());
    }
    if i32::try_from(end - first).is_err() && array.len() > 1 {
        return Err(Error::too_many_rows(format!("the strings of a batch take {} bytes", end - first)));
    }
    moved(array, first, end)
}

fn moved<T: ByteArrayType<Offset = i64>>(array: &GenericByteArray<T>, first: i64, end: i64) -> Result<GenericByteArray<T>> {
    let lengths = array.value_offsets().windows(2).map(|pair| (pair[1] - pair[0]).as_usize());
    let values = array.values().slice_with_length(first.as_usize(), (end - first).as_usize());
    Ok(GenericByteArray::try_new(OffsetBuffer::from_lengths(lengths), values, array.nulls().cloned())?)
}

/// Rows of ascending ranges, and of those that have a bit in `keep`.
fn picked(array: &ArrayRef, ranges: &[Range<usize>], keep: Option<&BooleanBuffer>) -> Result<ArrayRef> {
    let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Ok(new_empty_array(array.data_type())) };
    if last.end > array.len() {
        return Err(Error::invalid_argument(format!("row {} of a batch of {}", last.end, array.len())));
    }
    let span = array.slice(first.start, last.end - first.start);
    let mask = match (ranges, keep) {
        ([_], None) => return Ok(span),
        ([_], Some(keep)) => keep.clone(),
        (ranges, keep) => spread(first.start, span.len(), ranges, keep),
    };
    if mask.len() != span.len() {
        return Err(Error::invalid_argument(format!("{} bits for {} rows", mask.len(), span.len())));
    }
    Mask::new(&mask).filter(&span)
}

/// The bits of ranges as bits of all rows between them.
fn spread(start: usize, length: usize, ranges: &[Range<usize>], keep: Option<&BooleanBuffer>) -> BooleanBuffer {
    let mut mask = BooleanBufferBuilder::new(length);
    let mut bit = 0;
    for range in ranges {
        mask.append_n((range.start - start).saturating_sub(mask.len()), false);
        match keep {
            Some(keep) if bit + range.len() <= keep.len() => mask.append_buffer(&keep.slice(bit, range.len())),
            _ => mask.append_n(range.len(), true),
        }
        bit += range.len();
    }
    mask.finish()
}

#[cfg(test)]
mod tests {
    use arrow::array::LargeStringArray;

    use super::*;

    #[test]
    fn strings_far_behind_in_a_batch_have_offsets_from_zero() {
        let all = LargeStringArray::from(vec![Some("a"), Some("bc"), None, Some(""), Some("def")]);
        for (start, length) in [(0, 5), (1, 4), (2, 2), (4, 1), (5, 0)] {
            let slice = all.slice(start, length);
            let offsets = slice.value_offsets();
            let moved = moved(&slice, offsets[0], offsets[length]).unwrap();
            assert_eq!((&moved, moved.value_offsets()[0]), (&slice, 0));
        }
    }
}
