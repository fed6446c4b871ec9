//! What is asked.

mod clickbench;
mod ladder;
mod lookup;
mod scan;
mod topk;

use crate::check::Check;
use crate::dataset::Dataset;
use crate::queries::{self, Query};

/// The names of all suites.
pub(crate) const SUITES: [&str; 6] = ["tpch", "topk", "random", "scan", "clickbench", "ladder"];

/// Queries that make one table of results.
pub(crate) struct Section {
    pub(crate) suite: &'static str,
    pub(crate) title: &'static str,
    pub(crate) cases: Vec<Case>,
}

/// A query, and what of its answer must be the same on all sides.
pub(crate) struct Case {
    pub(crate) query: Query,
    pub(crate) check: Check,
}

impl Case {
    fn new(name: String, check: Check, sql: String) -> Self {
        Self { query: Query { name, statements: vec![sql] }, check }
    }
}

/// What is asked of one dataset.
pub(crate) fn of(dataset: &Dataset) -> Vec<Section> {
    match *dataset {
        Dataset::Tpch { scale } => vec![
            Section { suite: "tpch", title: "TPC-H, 22 queries", cases: tpch() },
            Section { suite: "topk", title: "First rows of lineitem", cases: topk::cases() },
            Section { suite: "random", title: "Random rows of lineitem", cases: lookup::cases(scale) },
            Section { suite: "scan", title: "Scan of lineitem", cases: scan::cases("lineitem") },
        ],
        Dataset::Hits { .. } => vec![
            Section { suite: "clickbench", title: "ClickBench, 43 queries", cases: clickbench::cases() },
            Section { suite: "scan", title: "Scan of hits", cases: scan::cases("hits") },
        ],
        Dataset::Ladder { rows } => vec![
            Section { suite: "ladder", title: "Filters of sorted rows", cases: ladder::cases("sorted", rows) },
            Section { suite: "ladder", title: "Filters of shuffled rows", cases: ladder::cases("shuffled", rows) },
        ],
    }
}

fn tpch() -> Vec<Case> {
    queries::tpch().into_iter().map(|query| Case { query, check: Check::Rows }).collect()
}
