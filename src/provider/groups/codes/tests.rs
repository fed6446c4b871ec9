//! Whether rows share values or not, the key of a row's group is the row's, and so are the keys of rows that are handed on.

use arrow::array::StringViewArray;
use arrow::datatypes::{DataType, Schema};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use super::*;
use crate::provider::codes_of::{codes_type, each_its_own};

/// Short trials, which are over after two batches.
const TRIAL: usize = 40;

fn groups(ratio: f64) -> CodedGroups {
    let field = Arc::new(Field::new("c", DataType::Utf8View, true));
    let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("c", 0));
    let key = OfColumn::new(&column, 0, &Arc::new(Schema::new(vec![Arc::clone(&field)]))).unwrap();
    CodedGroups::new(key, &[field], Trial::of(TRIAL, ratio)).unwrap()
}

/// Texts of numbers, of which each seventh is null.
fn texts(numbers: impl Iterator<Item = usize>) -> StringViewArray {
    numbers.map(|number| (number % 7 != 3).then(|| format!("the text of number {number}"))).collect()
}

fn batch(codes: ArrayRef) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("c", codes_type(&DataType::Utf8View), true)]);
    RecordBatch::try_new(Arc::new(schema), vec![codes]).unwrap()
}

/// Fifty rows of as many numbers, of which each has its own value.
fn own(from: usize) -> (RecordBatch, StringViewArray) {
    let texts = texts(from..from + 50);
    (batch(each_its_own(Arc::new(texts.clone())).unwrap()), texts)
}

/// Fifty rows that share ten values.
fn shared(from: usize) -> (RecordBatch, StringViewArray) {
    let codes = UInt32Array::from_iter((0..50).map(|row| (row % 9 > 0).then_some(row * 3 % 10)));
    let values: ArrayRef = Arc::new(texts(from..from + 10));
    let rows = take(&values, &codes, None).unwrap().as_string_view().clone();
    (batch(Arc::new(DictionaryArray::new(codes, values))), rows)
}

/// Which of the batches were handed on. All others have the groups that they should have.
fn handed_on(ratio: f64, batches: &[(RecordBatch, StringViewArray)]) -> Vec<usize> {
    let (mut groups, mut handed_on, mut found) = (groups(ratio), Vec::new(), Vec::new());
    for (index, (batch, rows)) in batches.iter().enumerate() {
        let mut of_batch = Vec::new();
        match groups.find(batch, &mut of_batch).unwrap() {
            Found::Groups => found.push((of_batch, rows)),
            Found::InVain(keys) => {
                assert_eq!(keys[0].as_string_view(), rows);
                handed_on.push(index);
            }
        }
    }
    let count = groups.len();
    let keys = groups.take().unwrap().remove(0);
    assert_eq!((keys.len(), groups.len()), (count, 0));
    for (of_rows, rows) in found {
        let of_rows = UInt32Array::from_iter_values(of_rows.iter().map(|group| u32::try_from(*group).unwrap()));
        assert_eq!(take(&keys, &of_rows, None).unwrap().as_string_view(), rows);
    }
    handed_on
}

#[test]
fn rows_that_share_no_values_are_looked_up_as_long_as_that_is_not_in_vain() {
    let batches = [own(0), own(100), own(200), shared(100), own(0), shared(1000)];
    assert_eq!(handed_on(1.0, &batches), [0; 0]);
    assert_eq!(handed_on(0.5, &batches), [2, 4]);
    // What was looked up before comes again.
    assert_eq!(handed_on(0.5, &[own(0), own(10), shared(500), own(20), own(5), own(10)]), [0; 0]);
    assert_eq!(handed_on(0.5, &[own(0), own(10), own(200), own(20)]), [3]);
}

#[test]
fn they_are_looked_up_again_once_groups_have_been_taken_out() {
    let mut groups = groups(0.5);
    let mut find = |from: usize| matches!(groups.find(&own(from).0, &mut Vec::new()).unwrap(), Found::Groups);
    assert_eq!([0, 100, 200].map(&mut find), [true, true, false]);
    groups.take().unwrap();
    // The next trial takes twice as many.
    let mut find = |from: usize| matches!(groups.find(&own(from).0, &mut Vec::new()).unwrap(), Found::Groups);
    assert_eq!([0, 100, 200, 300, 400].map(&mut find), [true, true, true, true, false]);
}
