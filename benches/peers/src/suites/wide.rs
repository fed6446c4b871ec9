//! Few columns of very many, in a session that has seen the table and in one that has not.

use super::{Case, Check};
use crate::queries::Query;
use crate::wide::{Kind, name, rows};

/// How many columns the widest of the queries wants.
const SOME: usize = 10;

pub(super) fn opening(columns: usize) -> Vec<Case> {
    let first = warm(columns).into_iter().take(1).flat_map(|case| case.query.statements).collect();
    let queries = [("creating the table", vec![]), ("creating it, and one column", first)];
    queries.map(|(name, statements)| Case { query: Query { name: name.to_owned(), statements }, check: Check::Rows, is_first: true }).into()
}

pub(super) fn warm(columns: usize) -> Vec<Case> {
    // One column of a kind in each of so many equal parts of the table, none of which begins in the middle of the kinds.
    let part = columns / SOME / 10 * 10;
    let of = |kind, offset: usize| (0..SOME).map(move |index| name(kind, index * part + offset)).collect::<Vec<_>>();
    let (times, counts) = (of(Kind::Time, 0), of(Kind::Count, 3));
    let middle = rows(columns) / 2;
    let sums = counts.iter().map(|count| format!("sum({count})")).collect::<Vec<_>>().join(", ");
    vec![
        Case::new("one column".to_owned(), Check::Rows, format!("select sum({}) from wide", counts[SOME / 2])),
        Case::new("ten columns".to_owned(), Check::Rows, format!("select {sums} from wide")),
        Case::new("one row of ten columns".to_owned(), Check::Rows, format!("select {} from wide where {} = {middle}", counts.join(", "), times[1])),
        Case::new("nothing".to_owned(), Check::Rows, format!("select count({}) from wide", name(Kind::Nothing, part + 9))),
    ]
}
