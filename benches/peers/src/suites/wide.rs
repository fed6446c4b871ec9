//! Few columns of very many, in a session that has seen the table and in one that has not.

use super::{Case, Check};
use crate::queries::Query;
use crate::wide::{Kind, name, rows};

/// How many columns the widest of the queries wants.
const SOME: usize = 10;

pub(super) fn opening(columns: usize, files: usize) -> Vec<Case> {
    let first = warm(columns, files).into_iter().take(1).flat_map(|case| case.query.statements).collect();
    let queries = [("creating the table", vec![]), ("creating it, and one column", first)];
    queries.map(|(name, statements)| Case { query: Query { name: name.to_owned(), statements }, check: Check::Rows, is_first: true }).into()
}

/// One column of a kind in each of so many equal parts of the table, none of which begins in the middle of the kinds.
fn some(columns: usize, kind: Kind, offset: usize) -> Vec<String> {
    let part = columns / SOME / 10 * 10;
    (0..SOME).map(|index| name(kind, index * part + offset)).collect()
}

/// The columns that are read without an engine.
pub(crate) fn counts(columns: usize) -> Vec<String> {
    some(columns, Kind::Count, 3)
}

pub(super) fn warm(columns: usize, files: usize) -> Vec<Case> {
    let (times, counts, nothing) = (some(columns, Kind::Time, 0), counts(columns), some(columns, Kind::Nothing, 9));
    let middle = rows(columns, files) / 2;
    // Nobody knows this without the values.
    let all = counts.iter().map(|count| format!("bit_xor({count})")).collect::<Vec<_>>().join(", ");
    vec![
        Case::new("one column".to_owned(), Check::Rows, format!("select bit_xor({}) from wide", counts[SOME / 2])),
        Case::new("ten columns".to_owned(), Check::Rows, format!("select {all} from wide")),
        Case::new("one row of ten columns".to_owned(), Check::Rows, format!("select {} from wide where {} = {middle}", counts.join(", "), times[1])),
        Case::new("nothing".to_owned(), Check::Rows, format!("select count({}) from wide", nothing[1])),
    ]
}
