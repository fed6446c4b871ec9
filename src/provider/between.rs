//! Comparisons of a column of integers, dates, times or decimals with constants, all at once: whether a value lies between two others.
//!
//! The engine compares once for each bound, and one by one.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};

use crate::format::array::integers::{first, limits, within};

/// The values of a type that pass: those from `low` to `high`, or all others.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Between {
    data_type: DataType,
    low: i128,
    high: i128,
    others: bool,
}

impl Between {
    /// A comparison of the only column of `schema` with a constant.
    pub(super) fn of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Self> {
        let [field] = schema.fields().as_ref() else { return None };
        let (low, high) = limits(field.data_type())?;
        let all = Self { data_type: field.data_type().clone(), low, high, others: false };
        let (operator, value) = all.comparison(expr.downcast_ref()?)?;
        Some(match operator {
            Operator::Eq => Self { low: value, high: value, ..all },
            Operator::NotEq => Self { low: value, high: value, others: true, ..all },
            Operator::GtEq => Self { low: value, ..all },
            Operator::Gt => Self { low: value.checked_add(1)?, ..all },
            Operator::LtEq => Self { high: value, ..all },
            Operator::Lt => Self { high: value.checked_sub(1)?, ..all },
            _ => return None,
        })
    }

    /// Whether all values between two that pass do so, too.
    pub(super) fn is_range(&self) -> bool {
        !self.others
    }

    /// Whether all values from those of `min` to those of `max`, one each, lie beside the range. What is not known may lie in it.
    pub(super) fn misses(&self, min: &ArrayRef, max: &ArrayRef) -> bool {
        let Some((least, greatest)) = limits(&self.data_type) else { return false };
        let reaches = Self { data_type: self.data_type.clone(), high: greatest, ..*self }.pass(max);
        let begins = Self { data_type: self.data_type.clone(), low: least, ..*self }.pass(min);
        let Some((reaches, begins)) = reaches.zip(begins) else { return false };
        let is_known = min.null_count() == 0 && max.null_count() == 0;
        is_known && (&reaches & &begins).count_set_bits() == 0
    }

    /// Leaves of a range what lies in this one, too.
    pub(super) fn narrow(&self, range: &mut Self) {
        (range.low, range.high) = (range.low.max(self.low), range.high.min(self.high));
    }

    /// How the column compares to what, if it were on the left.
    fn comparison(&self, binary: &BinaryExpr) -> Option<(Operator, i128)> {
        let is_column = |side: &Arc<dyn PhysicalExpr>| side.downcast_ref::<Column>().is_some_and(|column| column.index() == 0);
        let (operator, value) = match (is_column(binary.left()), is_column(binary.right())) {
            (true, false) => (*binary.op(), binary.right()),
            (false, true) => (binary.op().swap()?, binary.left()),
            _ => return None,
        };
        Some((operator, self.value(value.downcast_ref::<Literal>()?.value())?))
    }

    /// A constant of the type that is not null.
    fn value(&self, value: &ScalarValue) -> Option<i128> {
        if value.is_null() || value.data_type() != self.data_type {
            return None;
        }
        let array = value.to_array().ok()?;
        first(&array)
    }

    /// Which values of an array pass, if it is of the type. Null does not.
    pub(super) fn pass(&self, array: &ArrayRef) -> Option<BooleanBuffer> {
        if *array.data_type() != self.data_type {
            return None;
        }
        let within = within(array, self.low, self.high)?;
        let pass = if self.others { !&within } else { within };
        Some(match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => &pass & nulls.inner(),
            None => pass,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, BooleanArray, Int32Array};
    use arrow::compute::cast;
    use arrow::datatypes::{Field, TimeUnit};
    use arrow::record_batch::RecordBatch;
    use datafusion::physical_expr::expressions::{binary, col, lit};

    const OPERATORS: [Operator; 6] = [Operator::Eq, Operator::NotEq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];

    fn engine(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> BooleanBuffer {
        let passed = expr.evaluate(batch).unwrap().into_array(batch.num_rows()).unwrap();
        let passed: &BooleanArray = passed.as_boolean();
        passed.nulls().map_or(passed.values().clone(), |nulls| passed.values() & nulls.inner())
    }

    /// Values about 0 and the limits of the type, with nulls or without, cut.
    fn arrays(data_type: &DataType) -> Vec<ArrayRef> {
        let (low, high) = limits(data_type).unwrap();
        let number = |row: i128| [low + row, high - row, row - 30, (row * 7919) % 97][usize::try_from(row % 4).unwrap()].clamp(low, high);
        let values = |rows| (0..rows).map(number);
        let all = |rows: i128, nulls: bool| -> ArrayRef {
            let scalars = values(rows).enumerate().map(|(row, value)| scalar(data_type, (!nulls || row % 5 != 2).then_some(value)));
            ScalarValue::iter_to_array(scalars).unwrap()
        };
        [(1, false), (63, true), (64, false), (130, true), (300, false)]
            .into_iter()
            .flat_map(|(rows, nulls)| {
                let array = all(rows, nulls);
                [array.slice(array.len() / 3, array.len() - array.len() / 3), array]
            })
            .collect()
    }

    fn scalar(data_type: &DataType, value: Option<i128>) -> ScalarValue {
        let Some(value) = value else { return ScalarValue::try_from(data_type).unwrap() };
        let number: ScalarValue = match data_type {
            DataType::UInt64 => u64::try_from(value).unwrap().into(),
            DataType::Decimal128(precision, scale) => return ScalarValue::Decimal128(Some(value), *precision, *scale),
            DataType::Decimal32(precision, scale) => return ScalarValue::Decimal32(Some(i32::try_from(value).unwrap()), *precision, *scale),
            DataType::Decimal64(precision, scale) => return ScalarValue::Decimal64(Some(i64::try_from(value).unwrap()), *precision, *scale),
            DataType::Int8 | DataType::Int16 | DataType::UInt8 | DataType::UInt16 | DataType::Int32 | DataType::Date32 | DataType::Time32(_) => {
                i32::try_from(value).unwrap().into()
            }
            _ => i64::try_from(value).unwrap().into(),
        };
        ScalarValue::try_from_array(&cast(&number.to_array().unwrap(), data_type).unwrap(), 0).unwrap()
    }

    fn types() -> Vec<DataType> {
        use DataType::*;
        let seconds = TimeUnit::Second;
        let timestamps = [Timestamp(seconds, None), Timestamp(TimeUnit::Microsecond, Some("UTC".into())), Duration(seconds)];
        let times = [Date32, Date64, Time32(seconds), Time64(TimeUnit::Nanosecond)];
        let decimals = [Decimal32(9, 1), Decimal64(18, 2), Decimal128(38, 2)];
        let integers = [Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64];
        integers.into_iter().chain(times).chain(timestamps).chain(decimals).collect()
    }

    #[test]
    fn it_passes_what_the_engine_passes() {
        for data_type in types() {
            let schema = Arc::new(Schema::new(vec![Field::new("c", data_type.clone(), true)]));
            let column = || col("c", &schema).unwrap();
            let (low, high) = limits(&data_type).unwrap();
            let compare = |operator, value| binary(column(), operator, lit(scalar(&data_type, Some(value))), &schema).unwrap();
            let mut exprs = Vec::new();
            for value in [low, low + 1, 0, 41, high] {
                exprs.extend(OPERATORS.map(|operator| compare(operator, value)));
                exprs.push(binary(lit(scalar(&data_type, Some(value))), Operator::GtEq, column(), &schema).unwrap());
            }
            for array in arrays(&data_type) {
                let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(&array)]).unwrap();
                for expr in &exprs {
                    // What lies beyond the last value is the engine's to answer, of 128 bits alone.
                    let Some(between) = Between::of(expr, &schema) else {
                        assert_eq!(data_type.primitive_width(), Some(16), "{expr}");
                        continue;
                    };
                    assert_eq!(between.pass(&array).unwrap(), engine(expr, &batch), "{expr} of {} {data_type}", array.len());
                }
            }
        }
    }

    #[test]
    fn other_questions_are_the_engines() {
        let schema = Schema::new(vec![Field::new("c", DataType::Int32, true)]);
        let column = || col("c", &schema).unwrap();
        let compare = |operator, value| binary(column(), operator, lit(value), &schema).unwrap();
        let sum = binary(column(), Operator::Plus, lit(1), &schema).unwrap();
        for expr in [
            binary(sum, Operator::Lt, lit(5), &schema).unwrap(),
            binary(column(), Operator::Lt, column(), &schema).unwrap(),
            binary(compare(Operator::Lt, 1), Operator::Or, compare(Operator::Gt, 5), &schema).unwrap(),
            binary(column(), Operator::IsDistinctFrom, lit(5), &schema).unwrap(),
            binary(column(), Operator::Eq, lit(ScalarValue::Int32(None)), &schema).unwrap(),
            binary(compare(Operator::Lt, 9), Operator::And, compare(Operator::Gt, 5), &schema).unwrap(),
            column(),
        ] {
            assert_eq!(Between::of(&expr, &schema), None, "{expr}");
        }
        let floats = Schema::new(vec![Field::new("c", DataType::Float64, true)]);
        assert_eq!(Between::of(&binary(col("c", &floats).unwrap(), Operator::Lt, lit(1.0), &floats).unwrap(), &floats), None);
        let of_others = Between::of(&compare(Operator::Lt, 5), &schema).unwrap();
        assert_eq!(of_others.pass(&(Arc::new(arrow::array::Int64Array::from(vec![1])) as ArrayRef)), None);
        assert_eq!(of_others.pass(&(Arc::new(Int32Array::from(vec![4, 5])) as ArrayRef)).unwrap(), BooleanBuffer::from(vec![true, false]));
    }
}
