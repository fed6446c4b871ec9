//! Conjuncts about one column that are answered without the engine, which does them value by value.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::Schema;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, IsNullExpr};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};

use super::between::Between;
use super::like::Like;
use super::one_of::OneOf;
use crate::format::scan::RowBounds;
use crate::format::search::Pieces;

/// Each pattern is looked for by itself, and the codes of text are read for each.
const SEARCHES_MAX: usize = 2;

/// What is asked of the values of a column; all has to be so.
#[derive(Debug)]
pub(super) struct Kernel {
    tests: Vec<Test>,
    /// Null passes, too.
    or_null: bool,
}

/// What the bounds of some values say of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// All pass.
    All,
    /// None does.
    None,
    /// Each has to be asked.
    Open,
}

#[derive(Debug)]
enum Test {
    Between(Between),
    OneOf(OneOf),
    Like(Box<Like>),
}

impl Kernel {
    /// What an expression asks of the only column of `schema`, if it is nothing but these.
    pub(super) fn of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Self> {
        if let Some(valid) = beside_null(expr) {
            return Self::of(valid, schema).map(|kernel| Self { or_null: true, ..kernel });
        }
        let (mut tests, mut range) = (Vec::new(), None);
        for part in split_conjunction(expr) {
            if let Some(between) = Between::of(part, schema) {
                match &mut range {
                    _ if !between.is_range() => tests.push(Test::Between(between)),
                    Some(range) => between.narrow(range),
                    None => range = Some(between),
                }
            } else if let Some(one_of) = OneOf::of(part, schema) {
                tests.push(Test::OneOf(one_of));
            } else {
                tests.push(Test::Like(Box::new(Like::of(part, schema)?)));
            }
        }
        tests.splice(..0, range.map(Test::Between));
        // It is soon known of what may stand anywhere whether it is better looked for in decoded text, and then nothing else is looked for in codes.
        tests.sort_by_key(|test| matches!(test, Test::Like(like) if !like.pieces().0.is_anywhere()));
        Some(Self { tests, or_null: false })
    }

    /// Where it asks whether values lie between two others, and nothing else: these.
    pub(super) fn range(&self) -> Option<&Between> {
        match self.tests.as_slice() {
            [Test::Between(between)] if between.is_range() => Some(between),
            _ => None,
        }
    }

    /// What bounds of pages say of the values there, if it asks for a range.
    pub(super) fn settled(&self, bounds: &RowBounds) -> Settled {
        let Some(range) = self.range() else { return Settled::Open };
        let has_no_nulls = bounds.null_counts.iter().all(|nulls| nulls == Some(0));
        let lies_within = |bound| range.pass(bound).is_some_and(|passed| passed.count_set_bits() == passed.len());
        if (has_no_nulls || self.or_null) && lies_within(&bounds.min) && lies_within(&bounds.max) {
            return Settled::All;
        }
        let is_outside = (has_no_nulls || !self.or_null) && range.misses(&bounds.min, &bounds.max);
        if is_outside { Settled::None } else { Settled::Open }
    }

    /// Which values of an array pass; `None` if it is not of the column's type, or the engine is faster.
    pub(super) fn pass(&self, array: &ArrayRef) -> Option<BooleanBuffer> {
        let mut passed: Option<BooleanBuffer> = None;
        for test in &self.tests {
            let pass = match test {
                Test::Between(between) => between.pass(array)?,
                Test::OneOf(one_of) => one_of.pass(array)?,
                Test::Like(like) => like.pass(array)?,
            };
            passed = Some(passed.map_or(pass.clone(), |passed| &passed & &pass));
        }
        let nulls = array.nulls().filter(|nulls| self.or_null && nulls.null_count() > 0);
        passed.map(|passed| nulls.map_or(passed.clone(), |nulls| &passed | &!nulls.inner()))
    }

    /// Whether it asks for pieces of text and nothing else, and not for so many that they are better looked for in text that is decoded once for all.
    pub(super) fn is_search(&self) -> bool {
        self.tests.len() <= SEARCHES_MAX && self.tests.iter().all(|test| matches!(test, Test::Like(_)))
    }

    /// Which rows pass if it asks for nothing but pieces of text, each of which `find` says of each row whether it has them; `None` where that is not known.
    pub(super) fn found<E>(&self, mut find: impl FnMut(&Pieces) -> Result<Option<BooleanArray>, E>) -> Result<Option<BooleanBuffer>, E> {
        let mut passed: Option<BooleanBuffer> = None;
        for test in &self.tests {
            let Test::Like(like) = test else { return Ok(None) };
            let (pieces, negated) = like.pieces();
            let Some(found) = find(pieces)? else { return Ok(None) };
            let pass = if negated { !found.values() } else { found.values().clone() };
            let pass = match found.nulls() {
                Some(nulls) if self.or_null => &pass | &!nulls.inner(),
                Some(nulls) => &pass & nulls.inner(),
                None => pass,
            };
            passed = Some(passed.map_or(pass.clone(), |passed| &passed & &pass));
        }
        Ok(passed)
    }
}

/// What is asked of the values that are not null, where those that are pass.
fn beside_null(expr: &Arc<dyn PhysicalExpr>) -> Option<&Arc<dyn PhysicalExpr>> {
    let either = expr.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == Operator::Or)?;
    let is_null =
        |side: &Arc<dyn PhysicalExpr>| side.downcast_ref::<IsNullExpr>().is_some_and(|is_null| is_null.arg().downcast_ref::<Column>().is_some());
    match (is_null(either.left()), is_null(either.right())) {
        (true, false) => Some(either.right()),
        (false, true) => Some(either.left()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int32Array, StringViewArray};
    use arrow::datatypes::{DataType, Field};
    use datafusion::common::ScalarValue;
    use datafusion::physical_expr::expressions::{binary, col, is_null, like, lit};

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

    #[test]
    fn what_is_found_is_what_passes() {
        let schema = Schema::new(vec![Field::new("c", DataType::Utf8View, true)]);
        let c = || col("c", &schema).unwrap();
        let pattern = |negated, text: &str| like(negated, false, c(), lit(ScalarValue::Utf8View(Some(text.to_owned()))), &schema).unwrap();
        let both = all(vec![pattern(false, "%google%"), pattern(true, "%.google.%")], &schema);
        let or_null = binary(is_null(c()).unwrap(), Operator::Or, Arc::clone(&both), &schema).unwrap();
        let strings: ArrayRef =
            Arc::new(StringViewArray::from(vec![Some("http://google/a"), Some("http://www.google.com/a"), None, Some("http://b/c/d/e/f")]));
        let mut asked = Vec::new();
        let mut found = |expr: &Arc<dyn PhysicalExpr>, most: usize| {
            let kernel = Kernel::of(expr, &schema).unwrap();
            let found = kernel.found(|pieces| {
                asked.push(pieces.key().to_string());
                let found = pieces.found_in(strings.as_string_view());
                Ok::<_, ()>((asked.len() < most).then(|| BooleanArray::new(found, strings.nulls().cloned())))
            });
            let found = found.unwrap();
            assert!(found.is_none() || found == kernel.pass(&strings));
            (kernel.is_search(), found.map(|found| found.set_indices().collect::<Vec<_>>()))
        };
        assert_eq!(found(&both, 9), (true, Some(vec![0])));
        assert_eq!(found(&or_null, 9), (true, Some(vec![0, 2])));
        assert_eq!(found(&both, 6), (true, None));
        let three = all(["%a%", "%b%", "%c%"].map(|text| pattern(false, text)).to_vec(), &schema);
        assert!(!Kernel::of(&three, &schema).unwrap().is_search());
        assert_eq!(asked, ["~%google%", "~%.google.%"].repeat(3));
    }

    #[test]
    fn bounds_settle_what_is_asked_of_ranges() {
        let schema = Schema::new(vec![Field::new("c", DataType::Int32, true)]);
        let c = || col("c", &schema).unwrap();
        let compare = |operator, value: i32| binary(c(), operator, lit(value), &schema).unwrap();
        let between = all(vec![compare(Operator::GtEq, 5), compare(Operator::Lt, 10)], &schema);
        let or_null = binary(is_null(c()).unwrap(), Operator::Or, Arc::clone(&between), &schema).unwrap();
        let kernels = [between, or_null, compare(Operator::NotEq, 7)].map(|expr| Kernel::of(&expr, &schema).unwrap());
        let settled = |min: &[Option<i32>], max: &[Option<i32>], nulls: &[Option<u64>]| {
            let bounds = |values: &[Option<i32>]| Arc::new(Int32Array::from(values.to_vec())) as ArrayRef;
            let bounds = RowBounds { rows: 0..1, min: bounds(min), max: bounds(max), null_counts: nulls.to_vec().into() };
            kernels.each_ref().map(|kernel| kernel.settled(&bounds))
        };
        let (some, none) = (Some(1), Some(0));
        assert_eq!(settled(&[Some(5)], &[Some(9)], &[none]), [Settled::All, Settled::All, Settled::Open]);
        assert_eq!(settled(&[Some(5)], &[Some(9)], &[some]), [Settled::Open, Settled::All, Settled::Open]);
        assert_eq!(settled(&[Some(5)], &[Some(10)], &[none]), [Settled::Open; 3]);
        assert_eq!(settled(&[Some(5), Some(8)], &[Some(9), Some(12)], &[none, none]), [Settled::Open; 3]);
        assert_eq!(settled(&[Some(10), Some(-2)], &[Some(10), Some(4)], &[none, none]), [Settled::None, Settled::None, Settled::Open]);
        assert_eq!(settled(&[Some(10)], &[Some(10)], &[some]), [Settled::None, Settled::Open, Settled::Open]);
        // Not known, or of nulls alone.
        assert_eq!(settled(&[Some(10)], &[Some(10)], &[None]), [Settled::None, Settled::Open, Settled::Open]);
        assert_eq!(settled(&[None, Some(5)], &[Some(9), Some(9)], &[none, none]), [Settled::Open; 3]);
        assert_eq!(settled(&[Some(0), Some(20)], &[Some(9), None], &[none, none]), [Settled::Open; 3]);
        assert_eq!(settled(&[None], &[None], &[some]), [Settled::Open; 3]);
    }

    #[test]
    fn null_passes_where_it_is_said_to() {
        let schema = Schema::new(vec![Field::new("c", DataType::Int32, true)]);
        let c = || col("c", &schema).unwrap();
        let greater = binary(c(), Operator::Gt, lit(5), &schema).unwrap();
        for expr in [
            binary(is_null(c()).unwrap(), Operator::Or, Arc::clone(&greater), &schema),
            binary(greater, Operator::Or, is_null(c()).unwrap(), &schema),
        ] {
            let kernel = Kernel::of(&expr.unwrap(), &schema).unwrap();
            let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(4), None, Some(6), None]));
            assert_eq!(kernel.pass(&values).unwrap().set_indices().collect::<Vec<_>>(), [1, 2, 3]);
            assert_eq!(kernel.pass(&values.slice(1, 2)).unwrap().set_indices().collect::<Vec<_>>(), [0, 1]);
        }
    }
}
