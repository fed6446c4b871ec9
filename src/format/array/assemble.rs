//! The streams of a column to an array: the mirror of `shred`.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, NullArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Fields};

use super::leaf::{is_text, leaf_array, leaf_ptype};
use super::limits::{check_bytes, leaf_bytes};
use super::narrow::{listed_item, matched_fields, stream_count, unlike};
use super::nulls::null_array;
use super::{nested, wrap};
use crate::format::codec::{Decoded, PType};
use crate::format::error::{Error, Result};

/// Ranges of slots of one node, ascending, counted from the start of the stripe.
pub(crate) type Ranges = [Range<usize>];

/// The slots of all ranges.
pub(crate) fn slots(ranges: &Ranges) -> usize {
    ranges.iter().map(ExactSizeIterator::len).sum()
}

/// The streams of a column of a leaf type, as [`Assembler::leaf`] takes them.
pub(crate) const LEAF_VALIDITY: usize = 0;
/// See [`LEAF_VALIDITY`].
pub(crate) const LEAF_DATA: usize = 1;

/// The streams of one column in one stripe, by their index in the column's stream directory.
pub(crate) trait Streams {
    /// Nulls of the slots; `None` when all are valid.
    fn validity(&self, stream: usize, ranges: &Ranges) -> Result<Option<NullBuffer>>;

    /// The n + 1 offsets of n consecutive lists.
    fn offsets(&self, stream: usize, range: Range<usize>) -> Result<Vec<i64>>;

    /// Values of the slots; `None` when all are null.
    fn data(&self, stream: usize, ptype: PType, text: bool, ranges: &Ranges) -> Result<Option<Decoded>>;

    /// How often each type id of a union occurs before a slot.
    fn types_before(&self, stream: usize, slot: usize) -> Result<TypeCounts>;
}

/// How often each type id of a union occurs, by type id.
pub(crate) type TypeCounts = [usize; 128];

/// Type ids that are decoded at once to be counted.
const COUNTED_AT_ONCE: usize = 64 << 10;

/// Counts the type ids of a range.
pub(crate) fn add_types(streams: &dyn Streams, stream: usize, range: Range<usize>, counts: &mut TypeCounts) -> Result<()> {
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min(start.saturating_add(COUNTED_AT_ONCE));
        let Some(Decoded::Fixed(ids)) = streams.data(stream, PType::I8, false, std::slice::from_ref(&(start..end)))? else {
            return Err(Error::invalid_file("the type ids of a union are missing"));
        };
        for id in ids.typed_data::<i8>() {
            if let Some(count) = usize::try_from(*id).ok().and_then(|id| counts.get_mut(id)) {
                *count += 1;
            }
        }
        start = end;
    }
    Ok(())
}

/// Builds the rows of a column. `file` is its type in the file and `out` the wanted one: the same but for the flavour of strings and binaries,
/// for dictionaries and runs, which can be wanted or not, and for what is left out (see `narrow`).
pub(crate) fn assemble(streams: &dyn Streams, file: &DataType, out: &DataType, ranges: &Ranges) -> Result<ArrayRef> {
    Assembler { streams, next: 0, rows: slots(ranges) }.node(file, out, ranges)
}

/// Walks a type depth first, as the stream directory does.
pub(super) struct Assembler<'a> {
    pub(super) streams: &'a dyn Streams,
    next: usize,
    /// Rows of the column. More than one can be read in smaller batches, however many values one of them has.
    pub(super) rows: usize,
}

impl Assembler<'_> {
    pub(super) fn stream(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    pub(super) fn node(&mut self, file: &DataType, out: &DataType, ranges: &Ranges) -> Result<ArrayRef> {
        let file = stored(file);
        match out {
            DataType::Dictionary(_, values) => wrap::dictionary(self.node(file, values, ranges)?, out, self.rows),
            DataType::RunEndEncoded(_, values) => wrap::runs(&self.node(file, values.data_type(), ranges)?, out),
            DataType::Null if file == out => Ok(Arc::new(NullArray::new(slots(ranges)))),
            DataType::Struct(wanted) => match file {
                DataType::Struct(fields) => self.structure(fields, wanted, ranges),
                _ => Err(unlike(file, out)),
            },
            DataType::Union(..) => nested::union(self, file, out, ranges),
            DataType::FixedSizeList(..) => nested::fixed_size_list(self, file, out, ranges),
            DataType::List(_) | DataType::LargeList(_) | DataType::ListView(_) | DataType::LargeListView(_) | DataType::Map(..) => {
                nested::list(self, file, out, ranges)
            }
            _ => self.leaf(file, out, ranges),
        }
    }

    fn leaf(&mut self, file: &DataType, out: &DataType, ranges: &Ranges) -> Result<ArrayRef> {
        let ptype = leaf_ptype(file).ok_or_else(|| unlike(file, out))?;
        if file != out && !same_family(file, out) {
            return Err(unlike(file, out));
        }
        let slots = slots(ranges);
        check_bytes(slots, leaf_bytes(file), self.rows)?;
        let nulls = self.validity(ranges)?;
        let stream = self.stream();
        match self.streams.data(stream, ptype, is_text(out), ranges)? {
            Some(decoded) => leaf_array(out, decoded, nulls, self.rows),
            None if nulls.as_ref().map_or(0, NullBuffer::null_count) < slots => Err(Error::invalid_file("valid slots have no values")),
            None => null_array(out, slots, self.rows),
        }
    }

    pub(super) fn validity(&mut self, ranges: &Ranges) -> Result<Option<NullBuffer>> {
        let stream = self.stream();
        self.streams.validity(stream, ranges)
    }

    fn structure(&mut self, file: &Fields, out: &Fields, ranges: &Ranges) -> Result<ArrayRef> {
        let nulls = self.validity(ranges)?;
        let mut children = Vec::with_capacity(out.len());
        for (file, out) in file.iter().zip(matched_fields(file, out)?) {
            match out {
                Some(out) => children.push(self.node(file.data_type(), out.data_type(), ranges)?),
                None => self.skip(file.data_type()),
            }
        }
        Ok(Arc::new(StructArray::try_new_with_length(out.clone(), children, nulls, slots(ranges))?))
    }

    /// The values of lists, which may be left out.
    pub(super) fn items(&mut self, file: &DataType, out: &DataType, ranges: &Ranges) -> Result<ArrayRef> {
        match listed_item(file, out) {
            Some(out) => self.node(file, out, ranges),
            None => {
                self.skip(file);
                Ok(Arc::new(NullArray::new(slots(ranges))))
            }
        }
    }

    fn skip(&mut self, data_type: &DataType) {
        self.next += stream_count(data_type);
    }
}

/// The type whose streams are stored: dictionaries and runs are stored as their values.
pub(super) fn stored(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => stored(values),
        DataType::RunEndEncoded(_, values) => stored(values.data_type()),
        other => other,
    }
}

/// Strings can be read as any type of strings, binaries as any of binaries, and strings as binaries.
pub(crate) fn same_family(file: &DataType, out: &DataType) -> bool {
    let text = |t: &DataType| is_text(t);
    let binary = |t: &DataType| matches!(t, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    (text(file) && (text(out) || binary(out))) || (binary(file) && (binary(out) || text(out)))
}
