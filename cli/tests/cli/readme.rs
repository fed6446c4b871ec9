//! What the README says can be typed is typed here.

use std::fs;

use crate::common::Bench;

const README: &str = include_str!("../../../README.md");

/// The blocks of a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let begin = format!("```{language}\n");
    README.split(begin.as_str()).skip(1).map(|rest| rest.split_once("\n```").unwrap().0).collect()
}

#[test]
fn the_sql_of_the_readme_runs_as_it_stands() {
    let outputs: Vec<String> = blocks("sql")
        .into_iter()
        .map(|block| {
            let bench = Bench::new();
            fs::write(bench.path("readme.sql"), block).unwrap();
            bench.ok(&["--maxrows", "inf", "-f", "readme.sql"])
        })
        .collect();
    let [fermion, batches, rides, alkaid] = outputs.as_slice() else { panic!("{outputs:?}") };
    assert!(fermion.contains("pages_pruned_statistics") && fermion.contains("bytes_scanned"), "{fermion}");
    assert!(["| 10020 |", "| 10021 |", "| 10022 |"].iter().all(|row| batches.contains(row)) && !batches.contains("| 10023 |"), "{batches}");
    assert!(rides.contains("| [0] ") && rides.contains("| 5000 ") && rides.contains("| offsets "), "{rides}");
    assert!(alkaid.contains("| 100000 ") && alkaid.contains("| 142857 "), "{alkaid}");
}
