//! Whatever is looked up and whatever is not, the key of a row's group is the row's.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, StringViewArray, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Float64Type, Schema};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use super::super::first::first_of_runs;
use super::super::table::{Found, Groups, Keys};
use super::super::trial::Trial;
use super::RunGroups;

/// Short trials, which are over after a few batches.
const TRIAL: usize = 40;

/// A number, or null, and texts and a float that go along with it.
fn keys(numbers: &[Option<i64>]) -> Vec<ArrayRef> {
    let text = |number: &Option<i64>| {
        number.filter(|number| number % 3 > 0).map(|number| format!("{number} is the number {}", "#".repeat(if number % 2 == 0 { 0 } else { 20 })))
    };
    let float = |number: &Option<i64>| {
        number.map(|number| match number % 8 {
            0 => 0.0,
            4 => -0.0,
            _ => number as f64 / 2.0,
        })
    };
    vec![
        Arc::new(Int64Array::from(numbers.to_vec())),
        Arc::new(StringViewArray::from_iter(numbers.iter().map(text))),
        Arc::new(StringArray::from_iter(numbers.iter().map(text))),
        Arc::new(Float64Array::from_iter(numbers.iter().map(float))),
    ]
}

fn batch(numbers: &[Option<i64>]) -> RecordBatch {
    RecordBatch::try_new(schema(), keys(numbers)).unwrap()
}

fn schema() -> Arc<Schema> {
    let types = [DataType::Int64, DataType::Utf8View, DataType::Utf8, DataType::Float64];
    Arc::new(Schema::new(types.into_iter().enumerate().map(|(nth, data_type)| Field::new(format!("c{nth}"), data_type, true)).collect::<Vec<_>>()))
}

/// Groups by some columns of batches.
fn groups(columns: &[usize], ratio: f64) -> RunGroups {
    let schema = schema();
    let key = |column: &usize| {
        let name = schema.field(*column).name();
        (Arc::new(Column::new(name, *column)) as Arc<dyn PhysicalExpr>, name.clone())
    };
    let keys: Keys = columns.iter().map(key).collect();
    let fields: Vec<_> = columns.iter().map(|column| Arc::new(schema.field(*column).clone())).collect();
    RunGroups::new(keys, &fields, Trial::of(TRIAL, ratio)).unwrap()
}

/// Whether groups are found of a batch; otherwise its rows are handed on.
fn is_found(groups: &mut RunGroups, numbers: &[Option<i64>]) -> bool {
    matches!(groups.find(&batch(numbers), &mut Vec::new()).unwrap(), Found::Groups)
}

/// Whether rows of two arrays are the same, zeros too.
fn assert_same(left: &ArrayRef, right: &ArrayRef) {
    match left.as_primitive_opt::<Float64Type>() {
        // The engine takes both zeros for one.
        Some(left) => assert!(left.iter().eq(right.as_primitive::<Float64Type>())),
        None => assert_eq!(left.to_data(), right.to_data()),
    }
}

/// Batches of 50 rows: as they say, in runs of two, or none, of new numbers, or of the last ones once more.
fn batches() -> Vec<Vec<Option<i64>>> {
    let runs = |from: i64| (0..50).map(|row| from + row / 2).map(|number| (number % 10 > 0).then_some(number)).collect::<Vec<_>>();
    let alone = |from: i64| (0..50).map(|row| Some(from + row)).collect();
    let mut batches: Vec<_> = (0..8).map(|nth| runs(nth * 25)).collect();
    batches.extend([alone(150), alone(500), runs(100), runs(520), vec![], runs(700), vec![Some(3)], runs(0)]);
    batches
}

#[test]
fn the_key_of_a_group_is_that_of_its_rows() {
    for columns in [vec![0], vec![1], vec![2], vec![3], vec![0, 1, 2, 3], vec![3, 1]] {
        for ratio in [0.0, 0.5, 1.0] {
            let (mut found, mut handed_on) = (groups(&columns, ratio), 0);
            // Groups are taken out after so many batches.
            for taken in [20, 9, 3] {
                for part in batches().chunks(taken) {
                    let (mut rows, mut of_rows) = (Vec::new(), Vec::new());
                    for numbers in part {
                        let mut of_batch = Vec::new();
                        if let Found::InVain(handed) = found.find(&batch(numbers), &mut of_batch).unwrap() {
                            let all = keys(numbers);
                            let expected: Vec<_> = columns.iter().map(|column| Arc::clone(&all[*column])).collect();
                            assert_eq!(handed, expected);
                            handed_on += 1;
                            continue;
                        }
                        assert_eq!(of_batch.len(), numbers.len());
                        rows.extend(numbers.iter().copied());
                        of_rows.extend(of_batch);
                    }
                    let count = found.len();
                    let taken = found.take().unwrap();
                    assert_eq!((taken.len(), taken[0].len(), found.len()), (columns.len(), count, 0));
                    let all: HashSet<_> = of_rows.iter().collect();
                    assert_eq!(all.len(), count, "groups without rows");
                    let of_rows = UInt64Array::from_iter_values(of_rows.iter().map(|group| *group as u64));
                    for (keys, column) in taken.iter().zip(&columns) {
                        assert_same(&take(keys, &of_rows, None).unwrap(), &self::keys(&rows)[*column]);
                    }
                }
            }
            assert_eq!(handed_on > 0, ratio < 1.0, "{handed_on} batches were handed on, {ratio}");
        }
    }
}

#[test]
fn runs_are_looked_up_as_long_as_that_is_not_in_vain() {
    // How many groups there are of the numbers, of which some come twice.
    let count = |ratio| {
        let mut groups = groups(&[0], ratio);
        let numbers = batches().into_iter().filter(|numbers| is_found(&mut groups, numbers)).collect::<Vec<_>>().concat();
        (groups.len(), numbers.iter().collect::<HashSet<_>>().len(), groups.apart())
    };
    let (groups, differ, apart) = count(1.0);
    assert_eq!((groups, apart), (differ, 0));
    let (groups, differ, apart) = count(0.5);
    assert!(groups > differ && apart >= groups - differ, "{groups} of {differ}, {apart} of them apart");
}

#[test]
fn long_runs_are_looked_up() {
    let mut groups = groups(&[0], 0.0);
    for from in 0..20 {
        let numbers: Vec<_> = (0..50).map(|row| Some(from * 10 + row / 5)).collect();
        assert!(is_found(&mut groups, &numbers));
    }
    assert!(groups.apart() > 0);
    let before = groups.len();
    assert!(is_found(&mut groups, &[Some(3); 50]));
    assert_eq!(groups.len(), before);
    // Of just as many rows, too.
    assert!(is_found(&mut groups, &[Some(3); 8].into_iter().chain([Some(8); 8]).collect::<Vec<_>>()));
    assert_eq!(groups.len(), before);
}

/// So many rows of as many numbers.
fn alone(from: i64, rows: i64) -> Vec<Option<i64>> {
    (from..from + rows).map(Some).collect()
}

#[test]
fn rows_that_are_alone_are_looked_up_as_long_as_that_is_not_in_vain() {
    let found = |ratio, firsts: &[i64]| {
        let mut groups = groups(&[0], ratio);
        let found: Vec<_> = firsts.iter().map(|first| is_found(&mut groups, &alone(*first, 50))).collect();
        (found, groups.len(), groups.apart())
    };
    assert_eq!(found(0.8, &[0, 50, 100, 0]), (vec![true, true, false, false], 100, 0));
    assert_eq!(found(1.0, &[0, 50, 100, 0]), (vec![true; 4], 150, 0));
    assert_eq!(found(0.8, &[0, 20, 0, 70]), (vec![true; 4], 120, 0));
}

#[test]
fn numbers_that_come_again_after_others_are_found() {
    let mut groups = groups(&[0], 0.8);
    let found: Vec<_> = (0..30).map(|nth| is_found(&mut groups, &alone(nth * 50 % 100, 50))).collect();
    // Two are looked up, and rows are handed on until there have been 640 of them; then all are known.
    let handed_on: Vec<_> = (0..30).filter(|nth| !found[*nth]).collect();
    assert_eq!((handed_on, groups.len()), ((2..15).collect(), 100));
}

#[test]
fn runs_are_found_among_rows_that_are_handed_on() {
    // So many that the batches behind them are not searched.
    let mut groups = groups(&[0], 0.8);
    assert!(is_found(&mut groups, &alone(0, 100)) && is_found(&mut groups, &alone(100, 100)) && !is_found(&mut groups, &alone(200, 100)));
    assert!(is_found(&mut groups, &[Some(7); 100]));
    assert_eq!(groups.len(), 200);
}

#[test]
fn some_batches_behind_one_without_runs_are_not_searched() {
    let mut groups = groups(&[0], 1.0);
    let unsearched: Vec<_> = (0..18).map(|nth| (is_found(&mut groups, &alone(nth * 100, 100)), groups.unsearched).1).collect();
    assert_eq!(unsearched, [(0..=15).rev().collect(), vec![15, 14]].concat());
    // Few rows do not say what follows.
    let mut groups = self::groups(&[0], 1.0);
    assert!(is_found(&mut groups, &alone(0, 63)));
    assert_eq!(groups.unsearched, 0);
}

#[test]
fn after_groups_have_been_taken_out_rows_and_runs_are_looked_up_again() {
    let mut of_rows = groups(&[0], 0.8);
    let first: Vec<_> = (0..4).map(|nth| is_found(&mut of_rows, &alone(nth * 50, 50))).collect();
    of_rows.take().unwrap();
    // Twice as many this time.
    let second: Vec<_> = (0..5).map(|nth| is_found(&mut of_rows, &alone(nth * 50, 50))).collect();
    assert_eq!((first, second), (vec![true, true, false, false], vec![true, true, true, true, false]));

    let mut of_runs = groups(&[0], 0.0);
    let apart = |of_runs: &mut RunGroups| {
        let twice = |from: i64| (0..100).map(|row| Some(from + row / 2)).collect::<Vec<_>>();
        (0..5).map(|nth| (is_found(of_runs, &twice(nth * 50)), of_runs.apart()).1).collect::<Vec<_>>()
    };
    let first = apart(&mut of_runs);
    of_runs.take().unwrap();
    assert_eq!((first, apart(&mut of_runs)), (vec![0, 0, 50, 100, 150], vec![0, 0, 0, 0, 50]));
}

#[test]
fn a_run_begins_where_a_key_differs() {
    let first = |numbers: &[Option<i64>], columns: &[usize]| {
        let keys = keys(numbers);
        let keys: Vec<_> = columns.iter().map(|column| Arc::clone(&keys[*column])).collect();
        first_of_runs(None, &keys, numbers.len()).unwrap().map(|first| first.iter().collect::<Vec<_>>())
    };
    let [one, two, none] = [Some(1), Some(2), None];
    for columns in [&[0][..], &[1], &[2], &[3], &[0, 1, 2, 3]] {
        assert_eq!(
            first(&[one, one, two, two, two, none, none, one, one], columns).unwrap(),
            [true, false, true, false, false, true, false, true, false]
        );
        assert_eq!(first(&[one, two, one, one], columns), None, "most are runs of one");
        assert_eq!((first(&[], columns), first(&[one], columns)), (None, None));
    }
    // Texts are null where numbers are not, and the other way round they are the same.
    assert_eq!(first(&[Some(3), Some(6), Some(9)], &[1]).unwrap(), [true, false, false]);
    assert_eq!(first(&[Some(3), Some(3), Some(6), Some(6)], &[1, 0]).unwrap(), [true, false, true, false]);
}

#[test]
fn a_run_begins_where_a_group_differs() {
    let first = |groups: &[usize], numbers: &[Option<i64>]| {
        first_of_runs(Some(groups), &keys(numbers)[..1], groups.len()).unwrap().map(|first| first.iter().collect::<Vec<_>>())
    };
    let [one, two, none] = [Some(1), Some(2), None];
    assert_eq!(first(&[5, 5, 7, 7, 7, 7], &[one, one, one, one, two, two]).unwrap(), [true, false, true, false, true, false]);
    assert_eq!(first(&[0, 0, 0, 1, 1, 1], &[none, none, none, none, none, one]).unwrap(), [true, false, false, true, false, true]);
    assert_eq!(first(&[0, 1, 0, 1], &[one, one, one, one]), None, "most are runs of one");
    assert_eq!((first(&[], &[]), first(&[3], &[one])), (None, None));
}
