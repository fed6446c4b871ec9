//! Where in each stream of a column groups of rows end.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Int8Type, UnionFields, UnionMode};

use super::shred::Piece;
use crate::format::error::{Error, Result};

/// Ascending: behind which slots groups end.
pub(crate) type Ends = Arc<[usize]>;

/// For each stream of a column of this type, which are these pieces, the slot behind each group of rows that end at the rows `ends`.
pub(crate) fn stream_ends(data_type: &DataType, pieces: &[Piece], ends: &Ends) -> Result<Vec<Ends>> {
    let mut walk = Walk { pieces, found: Vec::with_capacity(pieces.len()) };
    walk.visit(data_type, ends)?;
    Ok(walk.found)
}

/// Goes through the streams as [`shred`](super::shred()) makes them.
struct Walk<'a> {
    pieces: &'a [Piece],
    found: Vec<Ends>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, data_type: &DataType, ends: &Ends) -> Result<()> {
        match data_type {
            DataType::Null => Ok(()),
            DataType::Dictionary(_, values) => self.visit(values, ends),
            DataType::RunEndEncoded(_, values) => self.visit(values.data_type(), ends),
            DataType::Union(fields, mode) => self.visit_union(fields, *mode, ends),
            DataType::Struct(fields) => {
                self.next(ends)?;
                fields.iter().try_for_each(|field| self.visit(field.data_type(), ends))
            }
            DataType::FixedSizeList(item, size) => {
                self.next(ends)?;
                let size = usize::try_from(*size).unwrap_or(0);
                self.visit(item.data_type(), &ends.iter().map(|end| end.saturating_mul(size)).collect())
            }
            DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) | DataType::LargeListView(item) | DataType::Map(item, _) => {
                self.next(ends)?;
                let Piece::Offsets(offsets) = self.next(ends)? else { return Err(unlike()) };
                let end = |list: &usize| offsets.get(*list).and_then(|end| usize::try_from(*end).ok()).ok_or_else(unlike);
                let of_values = ends.iter().map(end).collect::<Result<Ends>>()?;
                self.visit(item.data_type(), &of_values)
            }
            _ => {
                self.next(ends)?;
                self.next(ends).map(drop)
            }
        }
    }

    fn visit_union(&mut self, fields: &UnionFields, mode: UnionMode, ends: &Ends) -> Result<()> {
        let Piece::Data(ids) = self.next(ends)? else { return Err(unlike()) };
        let ids = ids.as_primitive_opt::<Int8Type>().ok_or_else(unlike)?;
        for (id, field) in fields.iter() {
            let of_child = if mode == UnionMode::Sparse { Arc::clone(ends) } else { occurrences(ids.values(), id, ends) };
            self.visit(field.data_type(), &of_child)?;
        }
        Ok(())
    }

    /// The next stream, whose groups end here.
    fn next(&mut self, ends: &Ends) -> Result<&'a Piece> {
        let piece = self.pieces.get(self.found.len()).ok_or_else(unlike)?;
        self.found.push(Arc::clone(ends));
        Ok(piece)
    }
}

/// How often an id occurs before each end.
fn occurrences(ids: &[i8], id: i8, ends: &Ends) -> Ends {
    let (mut row, mut count) = (0, 0);
    let counted = ends.iter().map(|end| {
        count += ids.get(row..*end).unwrap_or_default().iter().filter(|of| **of == id).count();
        row = *end;
        count
    });
    counted.collect()
}

fn unlike() -> Error {
    Error::invalid_argument("the streams are not those of the type")
}

#[cfg(test)]
mod tests {
    use super::super::shred;
    use super::*;
    use crate::format::fermion::schema::streams;
    use arrow::array::{ArrayRef, Int32Array, ListArray, RecordBatch, StructArray, UnionArray};
    use arrow::buffer::{OffsetBuffer, ScalarBuffer};
    use arrow::datatypes::Field;

    /// Groups end where the pieces of the first rows alone end.
    fn check(array: ArrayRef) {
        let ends: Ends = Arc::from([1, 4, 4, 6]);
        let data_type = array.data_type().clone();
        let found = stream_ends(&data_type, &shred(&array).unwrap(), &ends).unwrap();
        assert_eq!(found.len(), streams(&data_type).len());
        for (group, end) in ends.iter().enumerate() {
            let first: Vec<usize> = shred(&array.slice(0, *end)).unwrap().iter().map(|piece| piece.size().0).collect();
            assert_eq!(found.iter().map(|ends| ends[group]).collect::<Vec<_>>(), first, "{data_type} {end}");
        }
    }

    #[test]
    fn groups_end_where_their_rows_do() {
        let numbers = |count: i32| -> ArrayRef { Arc::new(Int32Array::from_iter((0..count).map(|i| (i % 3 > 0).then_some(i)))) };
        let item = |array: &ArrayRef| Arc::new(Field::new("item", array.data_type().clone(), true));
        let list = |values: ArrayRef, lengths: [usize; 6]| -> ArrayRef {
            Arc::new(ListArray::new(item(&values), OffsetBuffer::from_lengths(lengths), values, None))
        };
        let lists = list(numbers(12), [3, 0, 1, 2, 6, 0]);
        check(numbers(6));
        check(Arc::clone(&lists));
        check(list(Arc::clone(&lists).slice(0, 6), [0, 2, 0, 3, 1, 0]));
        let batch = RecordBatch::try_from_iter([("a", numbers(6)), ("l", Arc::clone(&lists))]).unwrap();
        check(Arc::new(StructArray::from(batch)));
        let halves: ArrayRef = Arc::new(arrow::array::FixedSizeListArray::new(item(&numbers(12)), 2, numbers(12), None));
        check(halves);
        let fields: UnionFields = [(3, item(&numbers(1))), (5, item(&lists))].into_iter().collect();
        let ids = ScalarBuffer::from(vec![5_i8, 3, 3, 5, 5, 3]);
        let dense =
            UnionArray::try_new(fields.clone(), ids.clone(), Some(ScalarBuffer::from(vec![0, 0, 1, 1, 2, 2])), vec![numbers(3), lists.slice(0, 3)]);
        check(Arc::new(dense.unwrap()));
        check(Arc::new(UnionArray::try_new(fields, ids, None, vec![numbers(6), lists]).unwrap()));
    }
}
