//! Lists, maps, fixed-size lists and unions from their streams.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{ArrayRef, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray, OffsetSizeTrait, UnionArray};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, FieldRef, UnionFields, UnionMode};

use super::assemble::{Assembler, Ranges, TypeCounts, add_types, slots};
use super::limits::{OFFSET_BYTES, check_bytes, check_slots};
use super::narrow::unlike;
use crate::format::codec::{Decoded, PType};
use crate::format::error::{Error, Result};

pub(super) fn list(assembler: &mut Assembler<'_>, file: &DataType, out: &DataType, ranges: &Ranges) -> Result<ArrayRef> {
    let (file_item, out_item) = (item(file)?, item(out)?);
    check_bytes(slots(ranges), OFFSET_BYTES, assembler.rows)?;
    let nulls = assembler.validity(ranges)?;
    let stream = assembler.stream();
    let (lengths, child_ranges) = child_ranges(assembler, stream, ranges)?;
    let child = assembler.items(file_item.data_type(), out_item.data_type(), &child_ranges)?;
    match out {
        DataType::List(field) => Ok(Arc::new(GenericListArray::<i32>::try_new(Arc::clone(field), offsets(&lengths)?, child, nulls)?)),
        DataType::LargeList(field) => Ok(Arc::new(GenericListArray::<i64>::try_new(Arc::clone(field), offsets(&lengths)?, child, nulls)?)),
        DataType::ListView(field) => list_view::<i32>(field, &lengths, child, nulls),
        DataType::LargeListView(field) => list_view::<i64>(field, &lengths, child, nulls),
        DataType::Map(field, sorted) => {
            let entries = child.as_struct_opt().ok_or_else(|| Error::invalid_file("the entries of a map are not a struct"))?;
            Ok(Arc::new(MapArray::try_new(Arc::clone(field), offsets(&lengths)?, entries.clone(), nulls, *sorted)?))
        }
        other => Err(unlike(file, other)),
    }
}

fn item(data_type: &DataType) -> Result<&FieldRef> {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::Map(field, _)
        | DataType::FixedSizeList(field, _) => Ok(field),
        other => Err(Error::invalid_argument(format!("{other} is not a list"))),
    }
}

/// The length of each list, and the ranges of the child that the lists cover.
fn child_ranges(assembler: &Assembler<'_>, stream: usize, ranges: &Ranges) -> Result<(Vec<usize>, Vec<Range<usize>>)> {
    let mut lengths = Vec::with_capacity(slots(ranges));
    let mut children = Vec::with_capacity(ranges.len());
    let (mut total, mut end) = (0_usize, 0);
    for range in ranges {
        let offsets = assembler.streams.offsets(stream, range.clone())?;
        for pair in offsets.windows(2) {
            let length = pair[1].checked_sub(pair[0]).and_then(|length| usize::try_from(length).ok());
            lengths.push(length.ok_or_else(|| Error::invalid_file("list offsets descend"))?);
        }
        if let (Some(first), Some(last)) = (offsets.first(), offsets.last()) {
            let index = |offset: i64| usize::try_from(offset).map_err(|_| Error::invalid_file("a list offset is negative"));
            let child = index(*first)?..index(*last)?;
            total = total.saturating_add(child.len());
            // Lists without values may say any place, and what is below counts on ranges that ascend.
            if !child.is_empty() {
                if child.start < end {
                    return Err(Error::invalid_file("list offsets descend"));
                }
                end = child.end;
                children.push(child);
            }
        }
    }
    check_slots(total, assembler.rows)?;
    Ok((lengths, children))
}

fn offsets<O: OffsetSizeTrait>(lengths: &[usize]) -> Result<OffsetBuffer<O>> {
    let total = lengths.iter().sum();
    match O::from_usize(total) {
        Some(_) => Ok(OffsetBuffer::from_lengths(lengths.iter().copied())),
        None => Err(Error::too_many_rows("the lists of a batch have too many values for their offsets")),
    }
}

fn list_view<O: OffsetSizeTrait>(field: &FieldRef, lengths: &[usize], child: ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let ends: OffsetBuffer<O> = offsets(lengths)?;
    let starts = ends.inner().slice(0, lengths.len());
    let sizes: ScalarBuffer<O> = ends.lengths().filter_map(O::from_usize).collect();
    Ok(Arc::new(GenericListViewArray::<O>::try_new(Arc::clone(field), starts, sizes, child, nulls)?))
}

pub(super) fn fixed_size_list(assembler: &mut Assembler<'_>, file: &DataType, out: &DataType, ranges: &Ranges) -> Result<ArrayRef> {
    let (DataType::FixedSizeList(file_item, file_size), DataType::FixedSizeList(out_item, size)) = (file, out) else {
        return Err(unlike(file, out));
    };
    let width = usize::try_from(*size).map_err(|_| Error::invalid_file("a fixed-size list of negative size"))?;
    if file_size != size {
        return Err(unlike(file, out));
    }
    check_slots(slots(ranges).saturating_mul(width), assembler.rows)?;
    let nulls = assembler.validity(ranges)?;
    let child_ranges = ranges.iter().filter(|range| !range.is_empty()).map(|range| scaled(range, width)).collect::<Result<Vec<_>>>()?;
    let child = assembler.items(file_item.data_type(), out_item.data_type(), &child_ranges)?;
    Ok(Arc::new(FixedSizeListArray::try_new_with_length(Arc::clone(out_item), *size, child, nulls, slots(ranges))?))
}

fn scaled(range: &Range<usize>, width: usize) -> Result<Range<usize>> {
    let scaled = range.start.checked_mul(width).zip(range.end.checked_mul(width));
    scaled.map(|(start, end)| start..end).ok_or_else(|| Error::invalid_file("the values of a fixed-size list cannot be numbered"))
}

pub(super) fn union(assembler: &mut Assembler<'_>, file: &DataType, out: &DataType, ranges: &Ranges) -> Result<ArrayRef> {
    let (DataType::Union(file_fields, file_mode), DataType::Union(out_fields, mode)) = (file, out) else {
        return Err(unlike(file, out));
    };
    if file_mode != mode || file_fields.len() != out_fields.len() {
        return Err(unlike(file, out));
    }
    check_bytes(slots(ranges), size_of::<i32>(), assembler.rows)?;
    let stream = assembler.stream();
    let ids = type_ids(assembler, stream, ranges)?;
    let dense = *mode == UnionMode::Dense;
    let before = if dense { Some(Occurrences::count(assembler, stream, ranges)?) } else { None };
    let mut children = Vec::with_capacity(out_fields.len());
    for ((id, file), (_, out)) in file_fields.iter().zip(out_fields.iter()) {
        let child_ranges = before.as_ref().map(|before| before.ranges_of(id));
        children.push(assembler.node(file.data_type(), out.data_type(), child_ranges.as_deref().unwrap_or(ranges))?);
    }
    let offsets = if dense { Some(dense_offsets(&ids, out_fields)?) } else { None };
    Ok(Arc::new(UnionArray::try_new(out_fields.clone(), ids.into(), offsets, children)?))
}

fn type_ids(assembler: &Assembler<'_>, stream: usize, ranges: &Ranges) -> Result<Vec<i8>> {
    match assembler.streams.data(stream, PType::I8, false, ranges)? {
        Some(Decoded::Fixed(ids)) => Ok(ids.typed_data::<i8>().to_vec()),
        None if slots(ranges) == 0 => Ok(Vec::new()),
        _ => Err(Error::invalid_file("the type ids of a union are missing")),
    }
}

/// How often each type id occurs before and in each range, which is where a dense union's children stand.
struct Occurrences {
    /// Per range: counts up to its start and up to its end.
    counts: Vec<(TypeCounts, TypeCounts)>,
}

impl Occurrences {
    /// Rows are read in their order, so what is counted up to the first one is kept for the next read.
    fn count(assembler: &Assembler<'_>, stream: usize, ranges: &Ranges) -> Result<Self> {
        let mut counts = Vec::with_capacity(ranges.len());
        let mut last: Option<(usize, TypeCounts)> = None;
        for range in ranges {
            let mut running = match last {
                None => assembler.streams.types_before(stream, range.start)?,
                Some((end, mut running)) => {
                    add_types(assembler.streams, stream, end..range.start, &mut running)?;
                    running
                }
            };
            let start = running;
            add_types(assembler.streams, stream, range.clone(), &mut running)?;
            counts.push((start, running));
            last = Some((range.end, running));
        }
        Ok(Self { counts })
    }

    fn ranges_of(&self, id: i8) -> Vec<Range<usize>> {
        let id = usize::try_from(id).unwrap_or(0);
        self.counts.iter().map(|(start, end)| start[id]..end[id]).collect()
    }
}

fn dense_offsets(ids: &[i8], fields: &UnionFields) -> Result<ScalarBuffer<i32>> {
    let mut next = [0_i32; 128];
    let known: Vec<i8> = fields.iter().map(|(id, _)| id).collect();
    let mut offsets = Vec::with_capacity(ids.len());
    for id in ids {
        let slot = usize::try_from(*id).ok().filter(|_| known.contains(id)).and_then(|id| next.get_mut(id));
        let slot = slot.ok_or_else(|| Error::invalid_file(format!("type id {id} is not one of the union's")))?;
        offsets.push(*slot);
        *slot += 1;
    }
    Ok(offsets.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ErrorKind;
    use crate::format::array::assemble::{Streams, assemble};
    use arrow::array::Array;
    use arrow::datatypes::Field;

    /// Lists of five values in two places, which need not ascend.
    #[derive(Debug)]
    struct Lists(i64);

    impl Streams for Lists {
        fn validity(&self, _stream: usize, _ranges: &Ranges) -> Result<Option<NullBuffer>> {
            Ok(None)
        }

        fn offsets(&self, _stream: usize, range: Range<usize>) -> Result<Vec<i64>> {
            Ok(if range.start == 0 { vec![0, 5] } else { vec![self.0, self.0 + 5] })
        }

        fn data(&self, _stream: usize, _ptype: PType, _text: bool, _ranges: &Ranges) -> Result<Option<Decoded>> {
            Ok(None)
        }

        fn types_before(&self, _stream: usize, _slot: usize) -> Result<TypeCounts> {
            Ok([0; 128])
        }
    }

    #[test]
    fn values_of_later_rows_stand_behind_those_of_earlier_ones() {
        let data_type = DataType::List(Arc::new(Field::new("item", DataType::Null, true)));
        let read = |second| assemble(&Lists(second), &data_type, &data_type, &[0..1, 7..8]);
        assert_eq!(read(5).unwrap().len(), 2);
        assert_eq!(read(4).unwrap_err().kind(), ErrorKind::InvalidFile);
    }

    #[test]
    fn places_that_cannot_be_numbered_are_an_error() {
        assert_eq!(scaled(&(3..5), 7).unwrap(), 21..35);
        for range in [usize::MAX..usize::MAX, 1..usize::MAX] {
            assert_eq!(scaled(&range, 2).unwrap_err().kind(), ErrorKind::InvalidFile);
        }
    }
}
