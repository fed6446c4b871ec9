//! What may be written: no null where the schema has none, and no row that readers would refuse.

use std::slice::Iter;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef};

use super::assemble::stored;
use super::limits::{ROW_BYTES_MAX, ROW_SLOTS_MAX};
use super::shred::{Piece, shred};
use crate::format::error::{Error, Result};

/// Refuses a null in a field that is not nullable: Arrow would not make an array of what was written.
pub(crate) fn check_nulls(field: &Field, pieces: &[Piece]) -> Result<()> {
    // A dictionary's null may be one of its values, and Arrow minds; a run's always is one, and it does not.
    let nullable = field.is_nullable() || matches!(field.data_type(), DataType::RunEndEncoded(..));
    Walk { pieces: pieces.iter() }.node(field.name(), field.data_type(), nullable, None)
}

/// Walks a type depth first, and the pieces of its streams with it.
struct Walk<'a> {
    pieces: Iter<'a, Piece>,
}

impl Walk<'_> {
    /// Nulls below those of `mask` do not count.
    fn node(&mut self, name: &str, data_type: &DataType, nullable: bool, mask: Option<&NullBuffer>) -> Result<()> {
        let stored = stored(data_type);
        if let DataType::Null = stored {
            return Ok(());
        }
        let first = self.pieces.next();
        if let DataType::Union(fields, _) = stored {
            // A union has no nulls of its own, and Arrow lets its children have them.
            return fields.iter().try_for_each(|(_, field)| self.node(field.name(), field.data_type(), true, None));
        }
        let Some(Piece::Validity { nulls, .. }) = first else {
            return Err(Error::invalid_argument(format!("{name} has no validity")));
        };
        if let (false, Some(nulls)) = (nullable, nulls)
            && mask.is_none_or(|mask| !mask.contains(nulls))
        {
            return Err(Error::invalid_argument(format!("there is a null in {name:?}, which is not nullable")));
        }
        match stored {
            DataType::Struct(fields) => fields.iter().try_for_each(|field| self.child(field, nulls.as_ref())),
            DataType::FixedSizeList(item, size) => {
                let size = usize::try_from(*size).unwrap_or(0);
                self.child(item, nulls.as_ref().map(|nulls| nulls.expand(size)).as_ref())
            }
            DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) | DataType::LargeListView(item) | DataType::Map(item, _) => {
                self.pieces.next();
                self.child(item, None)
            }
            _leaf => {
                self.pieces.next();
                Ok(())
            }
        }
    }

    fn child(&mut self, field: &FieldRef, mask: Option<&NullBuffer>) -> Result<()> {
        self.node(field.name(), field.data_type(), field.is_nullable(), mask)
    }
}

/// Refuses a row with more values than a reader takes (SPEC section 9). `pieces` are those of `array`.
pub(crate) fn check_rows(array: &ArrayRef, pieces: &[Piece]) -> Result<()> {
    let fits = |piece: &Piece| {
        let (slots, width) = piece.size();
        slots.max(piece.values()) <= ROW_SLOTS_MAX && slots.saturating_mul(width) <= ROW_BYTES_MAX
    };
    // What fits together fits row by row.
    if pieces.iter().all(fits) {
        return Ok(());
    }
    match array.len() {
        0 | 1 => Err(Error::invalid_argument(format!(
            "a row has more than {ROW_SLOTS_MAX} values in its lists, or values of more than {ROW_BYTES_MAX} bytes"
        ))),
        rows => [array.slice(0, rows / 2), array.slice(rows / 2, rows - rows / 2)].iter().try_for_each(|half| check_rows(half, &shred(half)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow::array::{
        DictionaryArray, FixedSizeBinaryArray, FixedSizeListArray, Int8Array, Int32Array, ListArray, NullArray, RunArray, StringArray, StructArray,
        UnionArray,
    };
    use arrow::buffer::{Buffer, OffsetBuffer};
    use arrow::datatypes::{Int8Type, Int32Type, UnionFields};

    fn nulls(nullable: bool, array: &ArrayRef) -> Result<()> {
        check_nulls(&Field::new("a", array.data_type().clone(), nullable), &shred(array).unwrap())
    }

    /// Two keys, of which the second means a null.
    fn hidden_null() -> ArrayRef {
        let values: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None]));
        Arc::new(DictionaryArray::<Int8Type>::new(Int8Array::from(vec![0, 1]), values))
    }

    #[test]
    fn a_null_is_refused_where_arrow_refuses_to_read_it() {
        let plain: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
        for array in [plain, hidden_null()] {
            nulls(true, &array).unwrap();
            let error = nulls(false, &array).unwrap_err();
            assert_eq!(error.to_string(), "invalid argument: there is a null in \"a\", which is not nullable");
        }
        let runs: ArrayRef = Arc::new(RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2]), &Int32Array::from(vec![None::<i32>])).unwrap());
        nulls(false, &runs).unwrap();
    }

    #[test]
    fn a_null_below_a_null_is_none() {
        let field = |nullable| Arc::new(Field::new("x", DataType::Int32, nullable));
        let child: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
        let masked = StructArray::new(vec![field(false)].into(), vec![Arc::clone(&child)], Some(vec![true, false].into()));
        nulls(true, &(Arc::new(masked) as ArrayRef)).unwrap();
        let union = UnionArray::try_new(UnionFields::try_new([0], [field(false)]).unwrap(), vec![0, 0].into(), None, vec![child]).unwrap();
        nulls(false, &(Arc::new(union) as ArrayRef)).unwrap();
    }

    #[test]
    fn a_null_among_the_values_of_a_nested_dictionary_is_found() {
        // Arrow's checked builder looks at keys only.
        let dictionary = hidden_null();
        let item = Field::new("x", dictionary.data_type().clone(), false);
        let data_type = DataType::Struct(vec![item].into());
        let data = arrow::array::ArrayData::builder(data_type).len(2).add_child_data(dictionary.to_data()).build().unwrap();
        assert!(nulls(true, &arrow::array::make_array(data)).unwrap_err().to_string().contains("\"x\""));
    }

    #[test]
    fn rows_that_no_reader_takes_are_refused() {
        let check = |array: &ArrayRef| check_rows(array, &shred(array).unwrap());
        let list = |lengths: &[usize]| -> ArrayRef {
            let values: ArrayRef = Arc::new(NullArray::new(lengths.iter().sum()));
            let item = Arc::new(Field::new("item", DataType::Null, true));
            Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(lengths.iter().copied()), values, None))
        };
        check(&list(&[ROW_SLOTS_MAX, ROW_SLOTS_MAX, 7])).unwrap();
        for lengths in [&[ROW_SLOTS_MAX + 1][..], &[1, 2, ROW_SLOTS_MAX + 1, 3]] {
            let error = check(&list(lengths)).unwrap_err();
            assert!(error.to_string().contains("268435456 values"), "{error}");
        }
        let fixed = |size: usize| -> ArrayRef {
            let item = Arc::new(Field::new("item", DataType::Null, true));
            Arc::new(FixedSizeListArray::new(item, i32::try_from(size).unwrap(), Arc::new(NullArray::new(2 * size)), None))
        };
        check(&fixed(ROW_SLOTS_MAX)).unwrap();
        assert!(check(&fixed(ROW_SLOTS_MAX + 1)).is_err());
        let empty = |width, rows| -> ArrayRef { Arc::new(FixedSizeBinaryArray::try_new_with_len(width, Buffer::default(), None, rows).unwrap()) };
        check(&empty(0, 100)).unwrap();
    }
}
