//! [`OffsetsOf`]: lists without their values.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericListArray, NullArray, OffsetSizeTrait, RecordBatch};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;

/// The lists or maps that an expression gives, as lists of as many nulls. A scan of them reads no values.
#[derive(Debug, Eq)]
pub(super) struct OffsetsOf {
    lists: Arc<dyn PhysicalExpr>,
}

impl OffsetsOf {
    /// `lists` without values, if that is what it gives.
    pub(super) fn new(lists: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Option<Self>> {
        Ok(offsets_type(&lists.data_type(schema)?).map(|_| Self { lists }))
    }

    pub(super) fn lists(&self) -> &Arc<dyn PhysicalExpr> {
        &self.lists
    }
}

/// The type of lists or maps without their values; `None` if there are none to leave out.
pub(super) fn offsets_type(lists: &DataType) -> Option<DataType> {
    let no_values = |item: &FieldRef| Arc::new(Field::new(item.name(), DataType::Null, true));
    match lists {
        DataType::List(item) | DataType::LargeList(item) if *item.data_type() == DataType::Null => None,
        DataType::List(item) | DataType::Map(item, _) => Some(DataType::List(no_values(item))),
        DataType::LargeList(item) => Some(DataType::LargeList(no_values(item))),
        _ => None,
    }
}

/// The same for an array.
fn offsets_of(lists: ArrayRef) -> Result<ArrayRef> {
    let nulls = lists.nulls().cloned();
    match (offsets_type(lists.data_type()), lists.data_type()) {
        (Some(DataType::List(item)), DataType::List(_)) => without_values(item, lists.as_list::<i32>().offsets(), nulls),
        (Some(DataType::List(item)), DataType::Map(..)) => without_values(item, lists.as_map().offsets(), nulls),
        (Some(DataType::LargeList(item)), DataType::LargeList(_)) => without_values(item, lists.as_list::<i64>().offsets(), nulls),
        (None, DataType::List(_) | DataType::LargeList(_)) => Ok(lists),
        (_, other) => internal_err!("{other} is no type of lists that OffsetsOf knows"),
    }
}

fn without_values<O: OffsetSizeTrait>(item: FieldRef, offsets: &OffsetBuffer<O>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    // A part of an array has offsets that start behind zero, and they stay.
    let values = offsets.last().map_or(0, |end| end.as_usize());
    Ok(Arc::new(GenericListArray::try_new(item, offsets.clone(), Arc::new(NullArray::new(values)), nulls)?))
}

impl PartialEq for OffsetsOf {
    fn eq(&self, other: &Self) -> bool {
        self.lists.eq(&other.lists)
    }
}

impl Hash for OffsetsOf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.lists.hash(state);
    }
}

impl fmt::Display for OffsetsOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offsets_of({})", self.lists)
    }
}

impl PhysicalExpr for OffsetsOf {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        let lists = self.lists.data_type(schema)?;
        Ok(offsets_type(&lists).unwrap_or(lists))
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.lists.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let lists = self.lists.evaluate(batch)?.into_array(batch.num_rows())?;
        offsets_of(lists).map(ColumnarValue::Array)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.lists]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        match children.pop() {
            Some(lists) if children.is_empty() => Ok(Arc::new(Self { lists })),
            _ => internal_err!("OffsetsOf has one child"),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offsets_of(")?;
        self.lists.fmt_sql(f)?;
        write!(f, ")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Builder, LargeListBuilder, ListBuilder, MapBuilder, StringBuilder};
    use datafusion::physical_expr::expressions::col;

    const ROWS: [Option<i32>; 6] = [Some(2), None, Some(0), Some(3), Some(1), None];

    fn all() -> Vec<ArrayRef> {
        let (mut list, mut large) = (ListBuilder::new(Int32Builder::new()), LargeListBuilder::new(Int32Builder::new()));
        let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        for row in ROWS {
            for value in 0..row.unwrap_or(0) {
                list.values().append_value(value);
                large.values().append_value(value);
                map.keys().append_value(value.to_string());
                map.values().append_null();
            }
            list.append(row.is_some());
            large.append(row.is_some());
            map.append(row.is_some()).unwrap();
        }
        vec![Arc::new(list.finish()), Arc::new(large.finish()), Arc::new(map.finish())]
    }

    fn lengths(lists: &ArrayRef) -> Vec<Option<i32>> {
        let length = |row: usize| match lists.data_type() {
            DataType::LargeList(_) => lists.as_list::<i64>().value(row).len(),
            _ => lists.as_list::<i32>().value(row).len(),
        };
        (0..lists.len()).map(|row| lists.is_valid(row).then(|| i32::try_from(length(row)).unwrap())).collect()
    }

    #[test]
    fn lists_keep_their_lengths_and_nulls_and_lose_their_values() {
        for lists in all() {
            for (start, end) in [(0, 6), (1, 5), (3, 4), (2, 2)] {
                let part = lists.slice(start, end - start);
                let batch = RecordBatch::try_from_iter_with_nullable([("l", part, true)]).unwrap();
                let expr = OffsetsOf::new(col("l", &batch.schema()).unwrap(), &batch.schema()).unwrap().unwrap();
                let offsets = expr.evaluate(&batch).unwrap().into_array(batch.num_rows()).unwrap();
                assert_eq!(*offsets.data_type(), expr.data_type(&batch.schema()).unwrap());
                assert_eq!(lengths(&offsets), ROWS[start..end], "{} from {start} to {end}", lists.data_type());
                assert!(offsets_type(offsets.data_type()).is_none() && offsets.to_data().child_data()[0].data_type() == &DataType::Null);
                // There is nothing more to leave out.
                let batch = RecordBatch::try_from_iter_with_nullable([("l", offsets, true)]).unwrap();
                assert!(OffsetsOf::new(col("l", &batch.schema()).unwrap(), &batch.schema()).unwrap().is_none());
            }
        }
    }
}
