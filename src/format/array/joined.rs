//! Joining arrays. Where they are more together than their type can number, Arrow may say so, and may panic.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef};
use arrow::datatypes::{DataType, UnionMode};

use super::zero_width::concatenated;
use crate::format::error::Result;

/// Arrays of one type as one; `None` if items, codes or runs are too many for that.
pub(crate) fn joined(arrays: &[ArrayRef]) -> Result<Option<ArrayRef>> {
    if let [one] = arrays {
        return Ok(Some(Arc::clone(one)));
    }
    if arrays.is_empty() {
        return Ok(None);
    }
    let parts: Vec<ArrayData> = arrays.iter().map(Array::to_data).collect();
    if !fit(&parts.iter().collect::<Vec<_>>(), true) {
        return Ok(None);
    }
    let rows = arrays.iter().map(Array::len).sum::<usize>();
    Ok(Some(concatenated(arrays)?).filter(|joined| joined.len() == rows))
}

/// Whether the parts can be joined. Where Arrow `merges` dictionaries, it does so by their values, and says if these are too many.
fn fit(parts: &[&ArrayData], merges: bool) -> bool {
    let Some(data_type) = parts.first().map(|part| part.data_type()) else { return true };
    let is_merged = merges && matches!(data_type, DataType::Dictionary(_, values) if can_be_merged(values));
    let merges = merges && !matches!(data_type, DataType::FixedSizeList(..) | DataType::Union(..) | DataType::Dictionary(..));
    let slots = |data: &mut dyn Iterator<Item = &ArrayData>| data.map(ArrayData::len).fold(0, usize::saturating_add);
    let children = |index: usize| parts.iter().filter_map(move |part| part.child_data().get(index));
    let count = parts.first().map_or(0, |part| part.child_data().len());
    let fits = match data_type {
        DataType::List(_) | DataType::ListView(_) | DataType::Map(..) => slots(&mut children(0)) <= most(&DataType::Int32),
        DataType::Union(_, UnionMode::Dense) => (0..count).all(|child| slots(&mut children(child)) <= most(&DataType::Int32)),
        DataType::RunEndEncoded(ends, _) => slots(&mut parts.iter().copied()) <= most(ends.data_type()),
        DataType::Dictionary(..) if is_merged => true,
        DataType::Dictionary(keys, _) => slots(&mut children(0)) <= most(keys) || are_same(&children(0).collect::<Vec<_>>()),
        _ => true,
    };
    fits && (0..count).all(|child| fit(&children(child).collect::<Vec<_>>(), merges))
}

/// The greatest number that a type of keys, offsets or run ends has.
pub(crate) fn most(data_type: &DataType) -> usize {
    let bits = match data_type {
        DataType::Int8 => 7,
        DataType::UInt8 => 8,
        DataType::Int16 => 15,
        DataType::UInt16 => 16,
        DataType::Int32 => 31,
        DataType::UInt32 => 32,
        _ => return usize::MAX,
    };
    (1 << bits) - 1
}

fn can_be_merged(values: &DataType) -> bool {
    values.is_primitive() || matches!(values, DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary)
}

fn are_same(values: &[&ArrayData]) -> bool {
    values.windows(2).all(|pair| pair[0].ptr_eq(pair[1]))
}

#[cfg(test)]
mod tests {
    use arrow::array::*;
    use arrow::buffer::{OffsetBuffer, ScalarBuffer};
    use arrow::datatypes::{Field, Int16Type, UnionFields};

    use super::*;

    /// Whether two and three of such arrays can be joined, and are what they were.
    fn joins(array: impl Fn(usize) -> ArrayRef) -> [bool; 2] {
        [2, 3].map(|count| {
            let parts: Vec<ArrayRef> = (0..count).map(&array).collect();
            let Some(all) = joined(&parts).unwrap() else { return false };
            assert_eq!(all.len(), parts.iter().map(|part| part.len()).sum::<usize>());
            all.to_data().validate_full().unwrap();
            let mut at = 0;
            for part in &parts {
                // Equal by their values, not by their codes.
                assert_eq!(&all.slice(at, part.len()), part);
                at += part.len();
            }
            true
        })
    }

    /// Fifty codes of values that no other part has.
    fn dictionary(values: impl Fn(Vec<String>) -> ArrayRef) -> impl Fn(usize) -> ArrayRef {
        move |part| {
            let values = values((0..50).map(|value| format!("value {value} of {part}")).collect());
            Arc::new(DictionaryArray::new(Int8Array::from_iter_values(0..50), values))
        }
    }

    #[test]
    fn codes_that_are_too_many_are_not_joined() {
        let views = dictionary(|values| Arc::new(StringViewArray::from(values)));
        let text = dictionary(|values| Arc::new(StringArray::from(values)));
        assert_eq!(joins(&views), [true, false]);
        let within = |inner: &dyn Fn(usize) -> ArrayRef, part: usize| -> ArrayRef {
            let items = inner(part);
            let field = Arc::new(Field::new("item", items.data_type().clone(), true));
            Arc::new(FixedSizeListArray::new(field, 2, items, None))
        };
        // Below a fixed-size list dictionaries are not merged; elsewhere Arrow says itself that there are too many.
        assert_eq!(joins(|part| within(&text, part)), [true, false]);
        assert!(joined(&[0, 1, 2].map(&text)).is_err());
        let one = text(0);
        assert_eq!(joins(|_| within(&|_| Arc::clone(&one), 0)), [true, true]);
        let structure = |part: usize| -> ArrayRef {
            let inner = views(part);
            Arc::new(StructArray::from(vec![(Arc::new(Field::new("d", inner.data_type().clone(), true)), inner)]))
        };
        assert_eq!(joins(structure), [true, false]);
        // Nor does it matter what stands beside them.
        let beside = |part: usize| -> ArrayRef {
            let (inner, nothing) = (text(part), FixedSizeBinaryArray::try_new_with_len(0, Vec::<u8>::new().into(), None, 50).unwrap());
            let field = |name: &str, data_type: &DataType| Arc::new(Field::new(name, data_type.clone(), true));
            Arc::new(StructArray::from(vec![
                (field("d", inner.data_type()), Arc::clone(&inner)),
                (field("n", nothing.data_type()), Arc::new(nothing) as ArrayRef),
            ]))
        };
        assert!(joined(&[0, 1].map(beside)).unwrap().is_some_and(|all| all.len() == 100));
        assert!(joined(&[0, 1, 2].map(beside)).is_err());
        // Nor are they below a dictionary of what is not merged itself.
        let coded = |part: usize| -> ArrayRef {
            let items = text(part);
            let field = Arc::new(Field::new("item", items.data_type().clone(), true));
            let lists = ListArray::new(field, OffsetBuffer::new(vec![0, 50].into()), items, None);
            Arc::new(DictionaryArray::new(Int8Array::from(vec![0, 0]), Arc::new(lists)))
        };
        assert_eq!(joins(coded), [true, false]);
    }

    #[test]
    fn items_that_are_too_many_are_not_joined() {
        const MANY: i32 = 1_000_000_000;
        let nulls = || Arc::new(NullArray::new(usize::try_from(MANY).unwrap())) as ArrayRef;
        let item = || Arc::new(Field::new("item", DataType::Null, true));
        let fits = |array: ArrayRef| [2, 3].map(|count| joined(&vec![Arc::clone(&array); count]).unwrap().is_some());
        let list = ListArray::new(item(), OffsetBuffer::new(vec![0, MANY].into()), nulls(), None);
        assert_eq!(fits(Arc::new(list)), [true, false]);
        let large = LargeListArray::new(item(), OffsetBuffer::new(vec![0, i64::from(MANY)].into()), nulls(), None);
        assert_eq!(fits(Arc::new(large)), [true, true]);
        let view = ListViewArray::new(item(), vec![0].into(), vec![MANY].into(), nulls(), None);
        assert_eq!(fits(Arc::new(view)), [true, false]);
        let fields: UnionFields = [(0, Arc::new(Field::new("x", DataType::Null, true)))].into_iter().collect();
        let union = UnionArray::try_new(fields, ScalarBuffer::from(vec![0_i8]), Some(vec![0].into()), vec![nulls()]).unwrap();
        assert_eq!(fits(Arc::new(union)), [true, false]);
    }

    #[test]
    fn runs_that_are_too_long_are_not_joined() {
        let runs =
            |_| -> ArrayRef { Arc::new(RunArray::<Int16Type>::try_new(&Int16Array::from(vec![15_000]), &StringArray::from(vec!["x"])).unwrap()) };
        assert_eq!(joined(&[0, 1].map(runs)).unwrap().map(|all| all.len()), Some(30_000));
        assert!(joined(&[0, 1, 2].map(runs)).unwrap().is_none());
    }

    #[test]
    fn values_without_a_width_are_counted() {
        let parts = [3, 4].map(|rows| Arc::new(FixedSizeBinaryArray::try_new_with_len(0, Vec::<u8>::new().into(), None, rows).unwrap()) as ArrayRef);
        assert_eq!(joined(&parts).unwrap().map(|all| all.len()), Some(7));
    }
}
