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
    use arrow::compute::{cast, sort};
    use arrow::datatypes::{DataType, Field, TimeUnit};
    use arrow::record_batch::RecordBatch;
    use datafusion::common::ScalarValue;
    use datafusion::physical_expr::expressions::{binary, col, in_list, is_not_null, is_null, like, lit, not};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

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

    const OPERATORS: [Operator; 6] = [Operator::Eq, Operator::NotEq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];
    const PIECES: [&str; 6] = ["a", "b", "ab", ".", "é", "google"];
    /// Patterns of two pieces that are looked for here.
    const PATTERNS: [&str; 8] = ["1", "1%", "%1%", "1%2", "%1%2", "%1%2%", "1%2%1", "%%1%"];
    const OTHER_PATTERNS: [&str; 4] = ["%", "%1", "1_", "%1_2%"];

    /// Random questions about a column of numbers or of text, and random values.
    struct Questions {
        schema: Schema,
        random: StdRng,
        /// The least and the greatest number.
        limits: (i32, i32),
    }

    impl Questions {
        fn new(seed: u64, data_type: DataType, limits: (i32, i32)) -> Self {
            Self { schema: Schema::new(vec![Field::new("c", data_type, true)]), random: StdRng::seed_from_u64(seed), limits }
        }

        fn data_type(&self) -> &DataType {
            self.schema.field(0).data_type()
        }

        fn is_text(&self) -> bool {
            *self.data_type() == DataType::Utf8View
        }

        fn column(&self) -> Arc<dyn PhysicalExpr> {
            col("c", &self.schema).unwrap()
        }

        fn pick<T: Copy>(&mut self, of: &[T]) -> T {
            of[self.random.random_range(0..of.len())]
        }

        /// One of few, so that they meet, or a limit.
        fn number(&mut self) -> i32 {
            let (least, greatest) = self.limits;
            let other = self.random.random_range(0..25);
            self.pick(&[least, greatest, other, other, other, other])
        }

        /// Of pieces that patterns have, too; half of them so short that they meet.
        fn text(&mut self) -> String {
            let most = self.pick(&[2, 9]);
            (0..self.random.random_range(0..most)).map(|_| self.pick(&PIECES)).collect()
        }

        fn values(&mut self, rows: usize, has_nulls: bool) -> ArrayRef {
            let nulls = if has_nulls { 0.2 } else { 0.0 };
            if self.is_text() {
                let texts: StringViewArray = (0..rows).map(|_| (!self.random.random_bool(nulls)).then(|| self.text())).collect();
                return Arc::new(texts);
            }
            let numbers: Int32Array = (0..rows).map(|_| (!self.random.random_bool(nulls)).then(|| self.number())).collect();
            cast(&numbers, self.data_type()).unwrap()
        }

        fn constant(&mut self) -> Arc<dyn PhysicalExpr> {
            lit(ScalarValue::try_from_array(&self.values(1, false), 0).unwrap())
        }

        fn comparison(&mut self) -> Arc<dyn PhysicalExpr> {
            let count = if self.is_text() { 2 } else { OPERATORS.len() };
            let (operator, column, constant) = (self.pick(&OPERATORS[..count]), self.column(), self.constant());
            let (left, right) = if self.random.random_bool(0.5) { (column, constant) } else { (constant, column) };
            binary(left, operator, right, &self.schema).unwrap()
        }

        fn between(&mut self) -> Arc<dyn PhysicalExpr> {
            let bounds = [Operator::GtEq, Operator::LtEq].map(|operator| binary(self.column(), operator, self.constant(), &self.schema).unwrap());
            all(bounds.to_vec(), &self.schema)
        }

        fn list(&mut self, negated: bool) -> Arc<dyn PhysicalExpr> {
            let mut values: Vec<_> = (0..self.pick(&[1, 3, 9, 30])).map(|_| self.constant()).collect();
            if self.random.random_bool(0.2) {
                values.push(lit(ScalarValue::try_from(self.data_type()).unwrap()));
            }
            in_list(self.column(), values, &negated, &self.schema).unwrap()
        }

        fn pattern(&mut self, patterns: &[&str]) -> Arc<dyn PhysicalExpr> {
            let (one, two) = (self.pick(&PIECES), self.pick(&PIECES));
            let text = self.pick(patterns).replace('1', one).replace('2', two);
            like(self.random.random_bool(0.3), false, self.column(), lit(ScalarValue::Utf8View(Some(text))), &self.schema).unwrap()
        }

        /// One that is answered here.
        fn question(&mut self) -> Arc<dyn PhysicalExpr> {
            match (self.random.random_range(0..3), self.is_text()) {
                (0, _) => self.comparison(),
                (_, true) => self.pattern(&PATTERNS),
                (1, false) => self.between(),
                _ => self.list(false),
            }
        }

        /// One that is the engine's.
        fn other(&mut self) -> Arc<dyn PhysicalExpr> {
            match (self.random.random_range(0..5), self.is_text()) {
                (0, _) => not(self.comparison()).unwrap(),
                (1, _) => is_null(self.column()).unwrap(),
                (2, _) => is_not_null(self.column()).unwrap(),
                (3, _) => binary(self.comparison(), Operator::Or, self.question(), &self.schema).unwrap(),
                (_, true) => self.pattern(&OTHER_PATTERNS),
                _ => self.list(true),
            }
        }

        /// Some at once, where null may pass, and whether they are answered here.
        fn any(&mut self) -> (Arc<dyn PhysicalExpr>, bool) {
            let mut parts: Vec<_> = (0..self.random.random_range(1..5)).map(|_| self.question()).collect();
            let is_answered = self.random.random_bool(0.9);
            if !is_answered {
                let at = self.random.random_range(0..=parts.len());
                parts.insert(at, self.other());
            }
            let (parts, null) = (all(parts, &self.schema), is_null(self.column()).unwrap());
            let expr = match self.random.random_range(0..4) {
                0 => binary(null, Operator::Or, parts, &self.schema).unwrap(),
                1 => binary(parts, Operator::Or, null, &self.schema).unwrap(),
                _ => parts,
            };
            (expr, is_answered)
        }
    }

    fn questions() -> impl Iterator<Item = Questions> {
        let columns = [
            (DataType::Int8, (-128, 127)),
            (DataType::UInt8, (0, 255)),
            (DataType::Int32, (i32::MIN, i32::MAX)),
            (DataType::Int64, (-9, 99)),
            (DataType::Date32, (-9, 99)),
            (DataType::Timestamp(TimeUnit::Millisecond, None), (-9, 99)),
            (DataType::Decimal128(20, 0), (-9, 99)),
            (DataType::Utf8View, (0, 0)),
        ];
        (0..).zip(columns).map(|(seed, (data_type, limits))| Questions::new(seed, data_type, limits))
    }

    fn engine(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> BooleanBuffer {
        let passed = expr.evaluate(batch).unwrap().into_array(batch.num_rows()).unwrap();
        let passed: &BooleanArray = passed.as_boolean();
        passed.nulls().map_or(passed.values().clone(), |nulls| passed.values() & nulls.inner())
    }

    #[test]
    fn random_questions_pass_what_the_engine_does() {
        for mut questions in questions() {
            let (long, short) = (questions.values(1100, true), questions.values(300, false));
            let arrays = [long.slice(13, 500), long.slice(0, 0), long, short];
            let schema = Arc::new(questions.schema.clone());
            let batches = arrays.map(|array| RecordBatch::try_new(Arc::clone(&schema), vec![array]).unwrap());
            for _ in 0..200 {
                let (expr, is_answered) = questions.any();
                let kernel = Kernel::of(&expr, &schema);
                assert_eq!(kernel.is_some(), is_answered, "{expr}");
                let Some(kernel) = kernel else { continue };
                for batch in &batches {
                    assert_eq!(kernel.pass(batch.column(0)).unwrap(), engine(&expr, batch), "{expr} of {}", batch.num_rows());
                }
            }
        }
    }

    /// The bounds of one page of these values.
    fn bounds(values: &ArrayRef) -> RowBounds {
        // Nulls are sorted to the front.
        let (sorted, nulls, last) = (sort(values, None).unwrap(), values.null_count(), values.len() - 1);
        RowBounds { rows: 0..values.len(), min: sorted.slice(nulls.min(last), 1), max: sorted.slice(last, 1), null_counts: vec![nulls as u64].into() }
    }

    #[test]
    fn what_bounds_settle_of_random_questions_is_what_passes() {
        for mut questions in questions() {
            let (mut of_all, mut of_none) = (0, 0);
            for _ in 0..300 {
                let (expr, _) = questions.any();
                let Some(kernel) = Kernel::of(&expr, &questions.schema) else { continue };
                let rows = questions.pick(&[1, 2, 3]);
                let values = questions.values(rows, true);
                let passed = kernel.pass(&values).unwrap().count_set_bits();
                match kernel.settled(&bounds(&values)) {
                    Settled::All => {
                        assert_eq!(passed, rows, "{expr} of {values:?}");
                        of_all += 1;
                    }
                    Settled::None => {
                        assert_eq!(passed, 0, "{expr} of {values:?}");
                        of_none += 1;
                    }
                    Settled::Open => {}
                }
            }
            // Bounds of strings settle nothing.
            let is_text = questions.schema.field(0).data_type() == &DataType::Utf8View;
            assert_eq!([of_all > 0, of_none > 0], [!is_text; 2], "{of_all} and {of_none} of {}", questions.schema);
        }
    }
}
