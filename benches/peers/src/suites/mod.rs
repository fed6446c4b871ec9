//! What is asked.

mod clickbench;
mod ladder;
mod lookup;
mod scan;
mod topk;
pub(crate) mod wide;

use crate::check::Check;
use crate::dataset::Dataset;
use crate::queries::{self, Query};

/// The names of all suites.
pub(crate) const SUITES: [&str; 7] = ["tpch", "topk", "random", "scan", "clickbench", "ladder", "wide"];

/// Queries that make one table of results.
pub(crate) struct Section {
    pub(crate) suite: &'static str,
    pub(crate) title: String,
    pub(crate) cases: Vec<Case>,
}

/// A query, and what of its answer must be the same on all sides.
pub(crate) struct Case {
    pub(crate) query: Query,
    pub(crate) check: Check,
    /// Asked of a session that has never seen the table. Its time is that of creating the table, too.
    pub(crate) is_first: bool,
}

impl Case {
    fn new(name: String, check: Check, sql: String) -> Self {
        Self { query: Query { name, statements: vec![sql] }, check, is_first: false }
    }
}

/// What is asked of one dataset.
pub(crate) fn of(dataset: &Dataset) -> Vec<Section> {
    match *dataset {
        Dataset::Tpch { scale } => vec![
            Section { suite: "tpch", title: "TPC-H, 22 queries".to_owned(), cases: tpch() },
            Section { suite: "topk", title: "First rows of lineitem".to_owned(), cases: topk::cases() },
            Section { suite: "random", title: "Random rows of lineitem".to_owned(), cases: lookup::cases(scale) },
            Section { suite: "scan", title: "Scan of lineitem".to_owned(), cases: scan::cases("lineitem") },
        ],
        Dataset::Hits { .. } => vec![
            Section { suite: "clickbench", title: "ClickBench, 43 queries".to_owned(), cases: clickbench::cases() },
            Section { suite: "scan", title: "Scan of hits".to_owned(), cases: scan::cases("hits") },
        ],
        Dataset::Ladder { rows } => vec![
            Section { suite: "ladder", title: "Filters of sorted rows".to_owned(), cases: ladder::cases("sorted", rows) },
            Section { suite: "ladder", title: "Filters of shuffled rows".to_owned(), cases: ladder::cases("shuffled", rows) },
        ],
        Dataset::Wide { columns, files } => {
            let of = if files == 1 { String::new() } else { format!(", {files} files") };
            vec![
                Section { suite: "wide", title: format!("Opening {columns} columns{of}"), cases: wide::opening(columns, files) },
                Section { suite: "wide", title: format!("Some of {columns} columns{of}"), cases: wide::warm(columns, files) },
            ]
        }
    }
}

fn tpch() -> Vec<Case> {
    queries::tpch().into_iter().map(|query| Case { query, check: Check::Rows, is_first: false }).collect()
}
