//! Conjuncts about one column that are answered without the engine, which does them value by value.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::Schema;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};

use super::between::Between;
use super::like::Like;

/// What is asked of the values of a column; all has to be so.
#[derive(Debug)]
pub(super) struct Kernel {
    tests: Vec<Test>,
}

#[derive(Debug)]
enum Test {
    Between(Between),
    Like(Box<Like>),
}

impl Kernel {
    /// What an expression asks of the only column of `schema`, if it is nothing but these.
    pub(super) fn of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Self> {
        let (mut tests, mut range) = (Vec::new(), None);
        for part in split_conjunction(expr) {
            if let Some(between) = Between::of(part, schema) {
                match &mut range {
                    _ if between.is_of_others() => tests.push(Test::Between(between)),
                    Some(range) => between.narrow(range),
                    None => range = Some(between),
                }
            } else {
                tests.push(Test::Like(Box::new(Like::of(part, schema)?)));
            }
        }
        tests.splice(..0, range.map(Test::Between));
        Some(Self { tests })
    }

    /// Which values of an array pass; `None` if it is not of the column's type. Null does not.
    pub(super) fn pass(&self, array: &ArrayRef) -> Option<BooleanBuffer> {
        let mut passed: Option<BooleanBuffer> = None;
        for test in &self.tests {
            let pass = match test {
                Test::Between(between) => between.pass(array)?,
                Test::Like(like) => like.pass(array)?,
            };
            passed = Some(passed.map_or(pass.clone(), |passed| &passed & &pass));
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, StringViewArray};
    use arrow::datatypes::{DataType, Field};
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, col, like, lit};

    fn all(parts: Vec<Arc<dyn PhysicalExpr>>, schema: &Schema) -> Arc<dyn PhysicalExpr> {
        parts.into_iter().reduce(|all, part| binary(all, Operator::And, part, schema).unwrap()).unwrap()
    }

    #[test]
    fn ranges_are_one_test_and_others_one_each() {
        let schema = Schema::new(vec![Field::new("c", DataType::Int32, true)]);
        let compare = |operator, value: i32| binary(col("c", &schema).unwrap(), operator, lit(value), &schema).unwrap();
        let parts = vec![
            compare(Operator::NotEq, 6),
            compare(Operator::GtEq, 5),
            compare(Operator::NotEq, 8),
            compare(Operator::Lt, 10),
            compare(Operator::Lt, 12),
        ];
        let kernel = Kernel::of(&all(parts, &schema), &schema).unwrap();
        let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(4), Some(5), Some(6), Some(7), Some(8), Some(9), Some(10), None]));
        assert_eq!(kernel.pass(&values).unwrap().set_indices().collect::<Vec<_>>(), [1, 3, 5]);
        assert_eq!(kernel.tests.len(), 3);
        let sum = binary(col("c", &schema).unwrap(), Operator::Plus, lit(1), &schema).unwrap();
        let parts = vec![compare(Operator::Lt, 5), binary(sum, Operator::Lt, lit(3), &schema).unwrap()];
        assert!(Kernel::of(&all(parts, &schema), &schema).is_none());
    }

    #[test]
    fn texts_have_all_their_patterns() {
        let schema = Schema::new(vec![Field::new("c", DataType::Utf8View, true)]);
        let pattern = |negated, text: &str| {
            like(negated, false, col("c", &schema).unwrap(), lit(ScalarValue::Utf8View(Some(text.to_owned()))), &schema).unwrap()
        };
        let kernel = Kernel::of(&all(vec![pattern(false, "%google%"), pattern(true, "%.google.%")], &schema), &schema).unwrap();
        let values: ArrayRef =
            Arc::new(StringViewArray::from(vec![Some("http://google/a"), Some("http://www.google.com/a"), None, Some("http://b/c/d/e/f")]));
        assert_eq!(kernel.pass(&values).unwrap().set_indices().collect::<Vec<_>>(), [0]);
    }
}
