//! Lists of constants that a column of integers, dates, times or decimals is compared with: `IN`.
//!
//! The engine looks each value up in a hash table. Neighbours often lie close together, and then few of the constants lie among them, or none does; elsewhere a table of bits that fits into a cache
//! says of most values that they are none.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Schema};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, InListExpr, Literal};

use crate::format::array::integers::{List, first, limits};

/// The values of a type that pass.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OneOf {
    data_type: DataType,
    values: List,
}

impl OneOf {
    /// Whether the only column of `schema` is one of some constants. One that is null is never equal to anything.
    pub(super) fn of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Self> {
        let [field] = schema.fields().as_ref() else { return None };
        limits(field.data_type())?;
        let list = expr.downcast_ref::<InListExpr>().filter(|list| !list.negated())?;
        list.expr().downcast_ref::<Column>().filter(|column| column.index() == 0)?;
        let mut values = Vec::with_capacity(list.len());
        for value in list.list() {
            let value = value.downcast_ref::<Literal>()?.value();
            if value.is_null() {
                continue;
            }
            let array = value.to_array().ok().filter(|array| array.data_type() == field.data_type())?;
            values.push(first(&array)?);
        }
        Some(Self { data_type: field.data_type().clone(), values: List::new(values) })
    }

    /// Which values of an array pass, if it is of the type and that is sooner known here than to the engine. Null does not.
    pub(super) fn pass(&self, array: &ArrayRef) -> Option<BooleanBuffer> {
        if *array.data_type() != self.data_type {
            return None;
        }
        let pass = self.values.find_in(array)?;
        Some(match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => &pass & nulls.inner(),
            None => pass,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, BooleanArray, Int32Array, Int64Array};
    use arrow::compute::cast;
    use arrow::datatypes::{Field, TimeUnit};
    use arrow::record_batch::RecordBatch;
    use datafusion::common::ScalarValue;
    use datafusion::physical_expr::expressions::{col, in_list, lit};

    fn engine(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> BooleanBuffer {
        let passed = expr.evaluate(batch).unwrap().into_array(batch.num_rows()).unwrap();
        let passed: &BooleanArray = passed.as_boolean();
        passed.nulls().map_or(passed.values().clone(), |nulls| passed.values() & nulls.inner())
    }

    /// Numbers as values of a type.
    fn of_type(numbers: &Int32Array, data_type: &DataType) -> ArrayRef {
        // Times of 64 bits are made of such numbers alone.
        let stored = if data_type.primitive_width() == Some(8) { DataType::Int64 } else { DataType::Int32 };
        cast(&cast(numbers, &stored).unwrap(), data_type).unwrap()
    }

    /// Numbers from 0 to about 100 that ascend slowly, with nulls or without, cut.
    fn arrays(data_type: &DataType) -> Vec<ArrayRef> {
        let array = |rows: i32, nulls: bool| {
            let numbers = (0..rows).map(|row| (!nulls || row % 5 != 2).then_some(row * 100 / rows));
            of_type(&numbers.collect(), data_type)
        };
        let arrays = [(1, false), (100, true), (1024, false), (5000, true), (5000, false)].map(|(rows, nulls)| array(rows, nulls));
        arrays.into_iter().flat_map(|array| [array.slice(array.len() / 3, array.len() - array.len() / 3), array]).collect()
    }

    fn types() -> Vec<DataType> {
        use DataType::*;
        use TimeUnit::*;
        let integers = [Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64];
        let times = [Date32, Date64, Time32(Second), Time32(Millisecond), Time64(Microsecond), Time64(Nanosecond)];
        let zone = Some("UTC".into());
        let timestamps = [Timestamp(Second, None), Timestamp(Millisecond, None), Timestamp(Microsecond, zone), Timestamp(Nanosecond, None)];
        let durations = [Second, Millisecond, Microsecond, Nanosecond].map(Duration);
        let decimals = [Decimal32(9, 1), Decimal64(12, 0), Decimal64(18, 2), Decimal128(20, 0), Decimal128(38, 2)];
        integers.into_iter().chain(times).chain(timestamps).chain(durations).chain(decimals).collect()
    }

    #[test]
    fn it_passes_what_the_engine_does() {
        for data_type in types() {
            let schema = Schema::new(vec![Field::new("c", data_type.clone(), true)]);
            for list in [vec![], vec![7], vec![99, 3, 3, 120], (0..100).step_by(7).collect(), (20..80).collect()] {
                for has_null in [false, true] {
                    let scalar = |value: i32| ScalarValue::try_from_array(&of_type(&Int32Array::from(vec![value]), &data_type), 0);
                    let mut values: Vec<_> = list.iter().map(|value| lit(scalar(*value).unwrap())).collect();
                    values.extend(has_null.then(|| lit(ScalarValue::try_from(&data_type).unwrap())));
                    let expr = in_list(col("c", &schema).unwrap(), values.clone(), &false, &schema).unwrap();
                    let one_of = OneOf::of(&expr, &schema).unwrap();
                    for array in arrays(&data_type) {
                        let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![Arc::clone(&array)]).unwrap();
                        assert_eq!(one_of.pass(&array).unwrap(), engine(&expr, &batch), "{data_type} in {list:?}");
                    }
                    let negated = in_list(col("c", &schema).unwrap(), values, &true, &schema).unwrap();
                    assert_eq!(OneOf::of(&negated, &schema), None);
                }
            }
        }
    }

    #[test]
    fn constants_are_found_among_far_values() {
        let schema = Schema::new(vec![Field::new("c", DataType::Int64, true)]);
        let numbers = |count: i64, step: i64| (0..count).map(move |index| (index * 7919 % count - count / 2) * step);
        let expr = |count| in_list(col("c", &schema).unwrap(), numbers(count, 30_000_003).map(lit).collect(), &false, &schema).unwrap();
        let array = |step| Arc::new(Int64Array::from_iter_values(numbers(5003, step))) as ArrayRef;
        for count in [9, 100, 1000, 30_000] {
            let (expr, expected) = (expr(count), usize::try_from(count.min(5003)).unwrap());
            let one_of = OneOf::of(&expr, &schema).unwrap();
            for (step, expected) in [(30_000_003, expected), (3, 1), (i64::MAX / 2502, 1)] {
                let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![array(step)]).unwrap();
                let passed = one_of.pass(&array(step)).unwrap();
                assert_eq!((passed.count_set_bits(), &passed), (expected, &engine(&expr, &batch)), "{count} constants, steps of {step}");
            }
        }
        // More than are looked up here.
        let one_of = OneOf::of(&expr(50_000), &schema).unwrap();
        assert!(one_of.pass(&array(30_000_003)).is_none() && one_of.pass(&array(3)).is_some());
        assert!(one_of.pass(&(Arc::new(Int32Array::from(vec![1])) as ArrayRef)).is_none());
    }
}
