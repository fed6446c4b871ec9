//! The first rows in some order, whole: what a filter that gets narrower while the query runs can skip.

use super::{Case, Check};

/// From a column that the file is sorted by to one that is text without any order.
const COLUMNS: [&str; 6] = ["l_orderkey", "l_shipdate", "l_extendedprice", "l_partkey", "l_shipmode", "l_comment"];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for column in COLUMNS {
        for direction in ["asc", "desc"] {
            for limit in [10, 100] {
                let sql = format!("select * from lineitem order by {column} {direction} limit {limit}");
                // Which of the rows that tie come out is anybody's choice.
                cases.push(Case::new(format!("{column} {direction}, {limit}"), Check::First(column), sql));
            }
        }
    }
    cases
}
