//! What the README says can be typed is typed here.

use std::fs;

use crate::common::Bench;

const README: &str = include_str!("../../../README.md");

/// The first block of a language.
fn block(language: &str) -> &'static str {
    let (_, rest) = README.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("\n```").unwrap().0
}

#[test]
fn the_sql_of_the_readme_runs_as_it_stands() {
    let bench = Bench::new();
    fs::write(bench.path("readme.sql"), block("sql")).unwrap();
    let out = bench.ok(&["--maxrows", "inf", "-f", "readme.sql"]);
    assert!(out.contains("pages_pruned_statistics") && out.contains("bytes_scanned"), "{out}");
}
