//! Some rows out of millions, by a list of keys.

use tpchgen::generators::{OrderGenerator, PartGenerator};

use super::{Case, Check};
use crate::random::Random;

/// Parts of which the lines, about 30 of each, are about a thousand rows all over the table.
const PARTS: usize = 33;

pub(super) fn cases(scale: f64) -> Vec<Case> {
    let orders = OrderGenerator::calculate_row_count(scale, 1, 1);
    let parts = PartGenerator::calculate_row_count(scale, 1, 1);
    let order_keys = |count| keys(count, orders).map(OrderGenerator::make_order_key);
    let mut cases: Vec<Case> =
        [1, 10, 100, 1000].map(|count| case(format!("lines of {count} orders"), format!("l_orderkey in ({})", list(order_keys(count))))).into();
    // Each order has a first line, so these are as many rows as orders.
    cases.push(case("1000 rows".to_owned(), format!("l_linenumber = 1 and l_orderkey in ({})", list(order_keys(1000)))));
    let part_keys = list(keys(PARTS, parts));
    cases.push(case("1000 rows, not by the order of the file".to_owned(), format!("l_partkey in ({part_keys})")));
    let values = order_keys(1000).map(|key| format!("({key})")).collect::<Vec<_>>().join(", ");
    let join = format!("select lineitem.* from lineitem join (values {values}) as wanted (key) on l_orderkey = key");
    cases.push(Case::new("lines of 1000 orders, by a join".to_owned(), Check::Sum, join));
    cases
}

fn case(name: String, filter: String) -> Case {
    Case::new(name, Check::Sum, format!("select * from lineitem where {filter}"))
}

/// Numbers from 1 to `last`.
fn keys(count: usize, last: i64) -> impl Iterator<Item = i64> {
    let mut random = Random::of(&[count as u64]);
    (0..count).map(move |_| random.between(1, last + 1))
}

fn list(keys: impl Iterator<Item = i64>) -> String {
    keys.map(|key| key.to_string()).collect::<Vec<_>>().join(", ")
}
