//! Everything that a table holds, decoded and dropped.

use super::{Case, Check};

pub(super) fn cases(table: &str) -> Vec<Case> {
    vec![Case::new(format!("`select * from {table}`"), Check::Sum, format!("select * from {table}"))]
}
