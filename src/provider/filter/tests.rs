//! What is asked of which rows, and what is read for it.

use super::*;
use std::cell::RefCell;

use arrow::array::{BooleanArray, Int32Array, StringViewArray, UInt64Array};
use arrow::datatypes::Field;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, binary, col, like, lit};
use datafusion::physical_plan::joins::join_hash_map::JoinHashMapU32;
use datafusion::physical_plan::joins::{HashTableLookupExpr, Map, SeededRandomState};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;

use crate::format::error;
use crate::format::scan::RowBounds;
use crate::format::search::Pieces;

/// The numbers of the rows, in pages of ten rows, of which the third one's bounds are not known, and the fourth has a null.
#[derive(Debug)]
struct Numbers {
    schema: SchemaRef,
    reads: RefCell<Vec<Range<usize>>>,
}

impl Morsel for Numbers {
    fn rows(&self) -> u64 {
        0
    }

    fn first_row(&self) -> u64 {
        0
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn next_rows(&mut self, _batches: usize) -> Rows {
        Rows::default()
    }

    fn split(&mut self, _rows: Rows) {}

    /// All columns are the same.
    fn read(&self, columns: &[usize], rows: &Rows) -> error::Result<Vec<ArrayRef>> {
        self.reads.borrow_mut().extend(rows.ranges().iter().cloned());
        let numbers = rows.ranges().iter().cloned().flatten().map(|row| (row != 35).then(|| i32::try_from(row).unwrap()));
        let numbers: ArrayRef = Arc::new(numbers.collect::<Int32Array>());
        Ok(vec![numbers; columns.len()])
    }

    fn read_kept(&self, _column: usize, _rows: &Rows, _keep: &BooleanBuffer) -> error::Result<Option<ArrayRef>> {
        Ok(None)
    }

    fn coded(&self, _column: usize, _rows: &Rows, _most: usize) -> error::Result<Option<Coded>> {
        Ok(None)
    }

    fn bounds(&self, _column: usize, rows: &Rows) -> error::Result<Option<RowBounds>> {
        let (first, last) = (rows.ranges()[0].start / 10, (rows.ranges()[rows.ranges().len() - 1].end - 1) / 10);
        let bound =
            |row: usize| Arc::new((first..=last).map(|page| (page != 2).then(|| i32::try_from(page * 10 + row).unwrap())).collect::<Int32Array>());
        let null_counts = (first..=last).map(|page| Some(u64::from(page == 3))).collect::<UInt64Array>();
        Ok(Some(RowBounds { rows: first * 10..last * 10 + 10, min: bound(0), max: bound(9), null_counts }))
    }
}

fn conjunct(expr: Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Conjunct {
    let kernel = Kernel::of(&expr, schema).map(Arc::new);
    Conjunct {
        expr,
        kernel,
        schema: Arc::clone(schema),
        columns: vec![0],
        is_optional: false,
        is_by_value: true,
        can_fail: false,
        column_of_several: None,
    }
}

fn morsel_filter(conjuncts: Vec<Conjunct>) -> MorselFilter {
    MorselFilter::new(Arc::new(RowFilter::new(conjuncts, 0)), FileMetrics::new(&ExecutionPlanMetricsSet::new(), 0, ""))
}

#[test]
fn what_the_bounds_of_pages_settle_is_not_read() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("n", DataType::Int32, true)]));
    let compare = |operator, value: i32| binary(col("n", &schema).unwrap(), operator, lit(value), &schema).unwrap();
    let batches = [0..6, 6..14, 14..20, 20..26, 26..32, 32..40, 40..46, 46..50];
    let check = |expr: Arc<dyn PhysicalExpr>, passing: Range<usize>, read: &[usize]| {
        let morsel = Numbers { schema: Arc::clone(&schema), reads: RefCell::default() };
        let mut filter = morsel_filter(vec![conjunct(expr, &schema)]);
        for batch in &batches {
            let passed = filter.select(&morsel, &Rows::new(vec![batch.clone()])).unwrap().passed();
            let expected = batch.clone().map(|row| passing.contains(&row) && row != 35);
            assert_eq!(passed, expected.collect::<Vec<_>>().into(), "{batch:?}");
        }
        assert_eq!(morsel.reads.into_inner(), read.iter().map(|batch| batches[*batch].clone()).collect::<Vec<_>>());
    };
    // Not known, and with a null: from row 20 to 39.
    check(compare(Operator::GtEq, 0), 0..50, &[3, 4, 5]);
    check(compare(Operator::Gt, 9), 10..50, &[1, 3, 4, 5]);
    check(compare(Operator::Gt, 10), 11..50, &[1, 2, 3, 4, 5]);
    check(compare(Operator::Gt, 100), 0..0, &[3, 4]);
    check(binary(compare(Operator::GtEq, 5), Operator::And, compare(Operator::Lt, 50), &schema).unwrap(), 5..50, &[0, 1, 3, 4, 5]);
    // Between two values that are not 7, there may be one that is.
    check(binary(compare(Operator::NotEq, 70), Operator::And, compare(Operator::GtEq, 0), &schema).unwrap(), 0..50, &[0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn where_bounds_settle_one_conjunct_no_other_is_asked() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("n", DataType::Int32, true)]));
    let number = || col("n", &schema).unwrap();
    let even = binary(binary(number(), Operator::Modulo, lit(2), &schema).unwrap(), Operator::Eq, lit(0), &schema).unwrap();
    let large = binary(number(), Operator::GtEq, lit(15), &schema).unwrap();
    let morsel = Numbers { schema: Arc::clone(&schema), reads: RefCell::default() };
    let mut filter = morsel_filter(vec![conjunct(even, &schema), conjunct(large, &schema)]);
    let mut passed = |rows: Range<usize>| filter.select(&morsel, &Rows::new(vec![rows])).unwrap().passed().count_set_bits();
    assert_eq!([passed(0..10), passed(10..20), passed(40..50)], [0, 2, 5]);
    assert_eq!(morsel.reads.borrow().first(), Some(&(10..20)), "nothing was read of rows that are all too small");
}

#[test]
fn the_first_column_of_a_sort_by_two_is_asked_first() {
    let schema: SchemaRef = Arc::new(Schema::new(["n", "m"].map(|name| Field::new(name, DataType::Int32, true)).to_vec()));
    let compare = |name: &str, operator, value: i32| binary(col(name, &schema).unwrap(), operator, lit(value), &schema).unwrap();
    let both = |one, operator, other| binary(one, operator, other, &schema).unwrap();
    // All rows before `n`, and that one if it is also below `m`.
    let before = |n: i32, m: i32| {
        let tie = both(compare("n", Operator::Eq, n), Operator::And, compare("m", Operator::Lt, m));
        both(compare("n", Operator::Lt, n), Operator::Or, tie)
    };
    let changing = Arc::new(DynamicFilterPhysicalExpr::new(vec![col("n", &schema).unwrap(), col("m", &schema).unwrap()], lit(true)));
    let whole = Conjunct { is_optional: true, is_by_value: false, columns: vec![0, 1], ..conjunct(Arc::clone(&changing) as _, &schema) };
    let morsel = Numbers { schema: Arc::clone(&schema), reads: RefCell::default() };
    let mut conjuncts = Vec::new();
    add_conjunct(whole, &mut conjuncts);
    assert_eq!(conjuncts.iter().map(|conjunct| conjunct.columns.clone()).collect::<Vec<_>>(), [vec![0], vec![0, 1]]);
    let mut filter = morsel_filter(conjuncts);
    let mut passed = |rows: Range<usize>| filter.select(&morsel, &Rows::new(vec![rows])).unwrap().passed().count_set_bits();
    assert_eq!(passed(0..3), 3);
    changing.update(before(5, 6)).unwrap();
    assert_eq!([passed(3..10), passed(10..20), passed(40..50)], [3, 0, 0]);
    changing.update(before(12, 12)).unwrap();
    assert_eq!(passed(10..16), 2);
    assert!(morsel.reads.borrow().iter().all(|rows| rows.end <= 16), "{:?}", morsel.reads);
    assert!(!morsel.reads.borrow().contains(&(10..20)), "the bounds of the first have settled it");
}

#[test]
fn what_was_settled_is_forgotten_when_the_filter_changes() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("n", DataType::Int32, true)]));
    let number = col("n", &schema).unwrap();
    let at_least = |value: i32| binary(Arc::clone(&number), Operator::GtEq, lit(value), &schema).unwrap();
    let changing = Arc::new(DynamicFilterPhysicalExpr::new(vec![Arc::clone(&number)], at_least(5)));
    let conjunct = Conjunct { is_optional: true, kernel: None, ..conjunct(Arc::clone(&changing) as _, &schema) };
    let morsel = Numbers { schema: Arc::clone(&schema), reads: RefCell::default() };
    let mut filter = morsel_filter(vec![conjunct]);
    let mut passed = |rows: Range<usize>| filter.select(&morsel, &Rows::new(vec![rows])).unwrap().passed().count_set_bits();
    assert_eq!(passed(10..13), 3);
    changing.update(at_least(100)).unwrap();
    assert_eq!(passed(13..16), 0);
    changing.update(at_least(16)).unwrap();
    assert_eq!(passed(16..20), 4);
    assert_eq!(morsel.reads.into_inner(), [16..20], "bounds have settled the others");
}

#[test]
fn a_join_whose_table_has_dropped_few_rows_of_a_morsel_is_not_asked_about_the_next_ones() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("n", DataType::Int32, true)]));
    let number = col("n", &schema).unwrap();
    let table = Arc::new(Map::HashMap(Box::new(JoinHashMapU32::with_capacity(1))));
    let lookup = HashTableLookupExpr::new(vec![Arc::clone(&number)], SeededRandomState::with_seed(1), table, "lookup".to_owned());
    let lookup: Arc<dyn PhysicalExpr> = Arc::new(lookup);
    // The table is empty: nothing passes that has to be in it.
    let or_below = |end: i32| {
        let below = binary(Arc::clone(&number), Operator::Lt, lit(end), &schema).unwrap();
        binary(Arc::clone(&lookup), Operator::Or, below, &schema).unwrap()
    };
    let changing = Arc::new(DynamicFilterPhysicalExpr::new(vec![Arc::clone(&number)], or_below(10_000)));
    let conjunct = Conjunct { is_optional: true, kernel: None, ..conjunct(Arc::clone(&changing) as _, &schema) };
    let filter = Arc::new(RowFilter::new(vec![conjunct], 0));
    // What is read of a morsel, and the rows that are left.
    let select = || {
        let morsel = Numbers { schema: Arc::clone(&schema), reads: RefCell::default() };
        let mut filter = MorselFilter::new(Arc::clone(&filter), FileMetrics::new(&ExecutionPlanMetricsSet::new(), 0, ""));
        let mut passed = |rows: Range<usize>| filter.select(&morsel, &Rows::new(vec![rows])).unwrap().passed().count_set_bits();
        let passed = passed(0..TRIAL_ROWS) + passed(TRIAL_ROWS..TRIAL_ROWS + 100);
        (morsel.reads.into_inner().len(), passed)
    };
    // One of the numbers is null. The second half is not asked about, nor are the next two morsels, and then it is tried again.
    let all = TRIAL_ROWS + 100;
    assert_eq!([(); 5].map(|()| select()), [(1, all - 1), (0, all), (0, all), (1, all - 1), (0, all)]);
    // It says something else, of which it is not known whether that pays, until it is.
    changing.update(or_below(20)).unwrap();
    assert_eq!([(); 3].map(|()| select()), [(2, 20); 3]);
}

/// Numbers of rows as text, of which each with a nine in it is known without reading any where `is_known`.
#[derive(Debug)]
struct Texts {
    schema: SchemaRef,
    is_known: bool,
    asked: RefCell<Vec<&'static str>>,
}

impl Texts {
    fn new(schema: &SchemaRef, is_known: bool) -> Self {
        Self { schema: Arc::clone(schema), is_known, asked: RefCell::default() }
    }

    fn texts(&self, rows: &Rows) -> StringViewArray {
        let text = |row: usize| (row % 10 != 3).then(|| row.to_string());
        rows.ranges().iter().cloned().flatten().map(text).collect()
    }
}

impl Morsel for Texts {
    fn rows(&self) -> u64 {
        0
    }

    fn first_row(&self) -> u64 {
        0
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn next_rows(&mut self, _batches: usize) -> Rows {
        Rows::default()
    }

    fn split(&mut self, _rows: Rows) {}

    fn read(&self, _columns: &[usize], rows: &Rows) -> error::Result<Vec<ArrayRef>> {
        self.asked.borrow_mut().push("read");
        Ok(vec![Arc::new(self.texts(rows))])
    }

    fn read_kept(&self, _column: usize, _rows: &Rows, _keep: &BooleanBuffer) -> error::Result<Option<ArrayRef>> {
        Ok(None)
    }

    fn coded(&self, _column: usize, _rows: &Rows, _most: usize) -> error::Result<Option<Coded>> {
        self.asked.borrow_mut().push("coded");
        Ok(None)
    }

    fn find(&self, _column: usize, rows: &Rows, _most: usize, pieces: &Pieces) -> error::Result<Option<BooleanArray>> {
        self.asked.borrow_mut().push("find");
        let texts = self.texts(rows);
        Ok(self.is_known.then(|| BooleanArray::new(pieces.found_in(&texts), texts.nulls().cloned())))
    }
}

#[test]
fn text_is_found_unread_unless_most_rows_are_read_anyway() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, true)]));
    let pattern =
        |negated, text: &str| like(negated, false, col("s", &schema).unwrap(), lit(ScalarValue::Utf8View(Some(text.to_owned()))), &schema).unwrap();
    let rows = |from: usize| Rows::new(vec![from..from + 100]);
    // Which rows pass of one hundred after the other, and what was asked for that.
    let select = |morsel: &Texts, exprs: Vec<Arc<dyn PhysicalExpr>>, output_columns: usize| {
        let conjuncts = exprs.into_iter().map(|expr| conjunct(expr, &schema)).collect();
        let mut filter =
            MorselFilter::new(Arc::new(RowFilter::new(conjuncts, output_columns)), FileMetrics::new(&ExecutionPlanMetricsSet::new(), 0, ""));
        let passed = [0, 100].map(|from| filter.select(morsel, &rows(from)).unwrap().passed().set_indices().collect::<Vec<_>>());
        (passed, morsel.asked.take())
    };
    let texts = |from: usize, passes: fn(&str) -> bool| {
        (from..from + 100).filter(|row| row % 10 != 3 && passes(&row.to_string())).map(|row| row - from).collect::<Vec<_>>()
    };
    let both = |passes: fn(&str) -> bool| [0, 100].map(|from| texts(from, passes));
    let (known, unknown) = (Texts::new(&schema, true), Texts::new(&schema, false));
    for output_columns in [0, 1] {
        assert_eq!(select(&known, vec![pattern(false, "%9%")], output_columns), (both(|text| text.contains('9')), vec!["find", "find"]));
    }
    // Most pass: the second time that is known.
    let has_no_nine = both(|text| !text.contains('9'));
    assert_eq!(select(&known, vec![pattern(true, "%9%")], 0), (has_no_nine.clone(), vec!["find", "find"]));
    assert_eq!(select(&known, vec![pattern(true, "%9%")], 1), (has_no_nine.clone(), vec!["find", "coded", "read"]));
    assert_eq!(select(&unknown, vec![pattern(true, "%9%")], 0), (has_no_nine, vec!["find", "coded", "read", "coded", "read"]));
    // What a few rows are asked is asked of the blocks that they are in.
    let (passed, asked) = select(&known, vec![pattern(false, "%9%"), pattern(false, "%8%")], 0);
    assert_eq!((passed, asked), (both(|text| text.contains('9') && text.contains('8')), vec!["find"; 4]));
}

#[test]
fn what_is_looked_for_in_vain_is_looked_for_less_often() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, true)]));
    let pattern = like(false, false, col("s", &schema).unwrap(), lit(ScalarValue::Utf8View(Some("%9%".to_owned()))), &schema).unwrap();
    let mut filter = morsel_filter(vec![conjunct(pattern, &schema)]);
    let mut is_looked_for = |morsel: &Texts| {
        filter.select(morsel, &Rows::new(vec![0..100])).unwrap();
        morsel.asked.take().contains(&"find")
    };
    let (known, unknown) = (Texts::new(&schema, true), Texts::new(&schema, false));
    let in_vain: Vec<usize> = (0..30).filter(|_| is_looked_for(&unknown)).collect();
    assert_eq!(in_vain, [0, 3, 8, 17, 26]);
    // Once it is found there, it is looked for each time.
    let found: Vec<usize> = (0..10).filter(|_| is_looked_for(&known)).collect();
    assert_eq!(found, [5, 6, 7, 8, 9]);
}

#[test]
fn a_null_does_not_pass() {
    let passed: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]));
    assert_eq!(rows_that_pass(ColumnarValue::Array(passed), 3).unwrap(), BooleanBuffer::from(vec![true, false, false]));
    let constant = |value| rows_that_pass(ColumnarValue::Scalar(ScalarValue::Boolean(value)), 2).unwrap();
    assert_eq!([constant(Some(true)), constant(Some(false)), constant(None)].map(|keep| keep.count_set_bits()), [2, 0, 0]);
}
