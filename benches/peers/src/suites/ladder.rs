//! Filters of many kinds that leave from one row in 100,000 to all of them.

use super::{Case, Check};
use crate::ladder::{AMOUNTS, CLASSES, CODES, FIRST_DAY, QUANTITIES, SHARES, WHOLE, marker, name};

/// Makes a filter for a share, by its index, of so many rows; `None` where the kind has none for it.
type Filter = fn(usize, u64, u64) -> Option<String>;

const FILTERS: [(&str, Filter); 8] = [
    ("int =", equal),
    ("int range", keys),
    ("string range", names),
    ("date range", days),
    ("decimal range", prices),
    ("in list", list),
    ("like", like),
    ("two columns", both),
];

/// The case's name ends in its share, after a comma.
pub(super) fn cases(table: &str, rows: usize) -> Vec<Case> {
    let rows = rows as u64;
    let mut cases = Vec::new();
    for (kind, filter) in FILTERS {
        for (index, share) in SHARES.into_iter().enumerate() {
            if let Some(filter) = filter(index, share, rows) {
                let sql = format!("select count(*), sum(quantity), max(amount), max(comment) from {table} where {filter}");
                cases.push(Case::new(format!("{kind}, {} %", share as f64 / 1000.0), Check::Rows, sql));
            }
        }
    }
    cases
}

fn equal(index: usize, _: u64, _: u64) -> Option<String> {
    (index < CLASSES).then(|| format!("class = {index}"))
}

fn keys(_: usize, share: u64, rows: u64) -> Option<String> {
    let (start, end) = range(share, rows);
    Some(format!("key >= {start} and key < {end}"))
}

fn names(_: usize, share: u64, rows: u64) -> Option<String> {
    let (start, end) = range(share, rows);
    Some(format!("name >= '{}' and name < '{}'", name(start), name(end)))
}

fn days(_: usize, share: u64, _: u64) -> Option<String> {
    let (start, end) = range(share, WHOLE);
    let date = |day: u64| format!("arrow_cast({}, 'Date32')", FIRST_DAY.saturating_add_unsigned(day));
    Some(format!("day >= {} and day < {}", date(start), date(end)))
}

fn prices(_: usize, share: u64, rows: u64) -> Option<String> {
    let (start, end) = range(share, rows);
    // A bare number with a point is a float to the engine.
    let price = |cents: u64| format!("cast('{}.{:02}' as decimal(15, 2))", cents / 100, cents % 100);
    Some(format!("price >= {} and price < {}", price(start), price(end)))
}

/// Keys as long as there are few, and codes then, so that the list does not cost more than the scan.
fn list(_: usize, share: u64, rows: u64) -> Option<String> {
    let codes = share * CODES / WHOLE;
    let (column, count, of) = if codes == 0 { ("key", (share * rows / WHOLE).max(1), rows) } else { ("code", codes, CODES) };
    let values: Vec<String> = (0..count).map(|index| (index * of / count).to_string()).collect();
    Some(format!("{column} in ({})", values.join(", ")))
}

fn like(index: usize, _: u64, _: u64) -> Option<String> {
    Some(format!("text like '%{}%'", marker(index)))
}

/// Numbers of two columns that have nothing to do with each other or the order of the rows, about as many of each.
fn both(_: usize, share: u64, _: u64) -> Option<String> {
    let left = share as f64 / WHOLE as f64;
    let quantity = (left.sqrt() * QUANTITIES as f64).ceil();
    let cents = left * QUANTITIES as f64 / quantity * AMOUNTS as f64;
    Some(format!("quantity <= {quantity} and amount < cast('{:.2}' as decimal(15, 2))", cents / 100.0))
}

/// As much as `share` of what is below `end`, from somewhere inside.
fn range(share: u64, end: u64) -> (u64, u64) {
    let length = end * share / WHOLE;
    let start = (end - length) / 3;
    (start, start + length)
}
