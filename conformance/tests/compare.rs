//! What a record says, and whether two runs of it say the same.

use datafusion_sqllogictest::{DFColumnType, df_value_validator, value_normalizer};
use sqllogictest::{ExpectedError, QueryExpect, Record, RecordOutput, StatementExpect};

use crate::rewrite::restore;

/// The error that stands for a panic; it is equal to nothing.
pub(crate) const PANIC: &str = "the engine panicked";

/// How the engine's errors begin, by kind. What is wrong with a file is one kind, whatever the file's format.
const KINDS: [(&str, &str); 13] = [
    ("Error during planning: ", "plan"),
    ("SQL error: ", "syntax"),
    ("Schema error: ", "schema"),
    ("This feature is not implemented: ", "not implemented"),
    ("Invalid or Unsupported Configuration: ", "configuration"),
    ("Execution error: ", "execution"),
    ("Arrow error: ", "execution"),
    ("Resources exhausted: ", "resources"),
    ("Object Store error: ", "store"),
    ("IO error: ", "store"),
    ("Parquet error: ", "file"),
    ("External error: ", "file"),
    ("Internal error: ", "internal"),
];

/// How the second run of a record relates to the first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Equal,
    /// The text of a plan; whether it is the same but for the format's name.
    Plan {
        same: bool,
    },
    Different(String),
    /// It never may, whatever is known of the record.
    Panic,
}

pub(crate) fn compare(
    record: &Record<DFColumnType>,
    sql: &str,
    baseline: &RecordOutput<DFColumnType>,
    again: &RecordOutput<DFColumnType>,
) -> Verdict {
    if error(again).is_some_and(|error| error.contains(PANIC)) {
        return Verdict::Panic;
    }
    match (error(baseline), error(again)) {
        (Some(base), Some(error)) if kind(&base) == kind(&error) || is_expected_error(record, &restore(&error)) => return Verdict::Equal,
        (Some(base), Some(error)) => return Verdict::Different(format!("it fails with\n    {error}\n  and should with\n    {base}")),
        (None, Some(error)) => return Verdict::Different(format!("it fails: {error}")),
        (Some(error), None) => return Verdict::Different(format!("it succeeds, and should fail: {error}")),
        (None, None) => {}
    }
    let (RecordOutput::Query { types: base_types, rows: base, .. }, RecordOutput::Query { types, rows, .. }) = (baseline, again) else {
        return Verdict::Equal;
    };
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| restore(cell)).collect()).collect();
    if is_plan(sql) {
        return Verdict::Plan { same: rows == *base };
    }
    if types != base_types {
        return Verdict::Different(format!("its columns are {types:?} and should be {base_types:?}"));
    }
    if rows == *base || is_expected(record, &rows) || (!is_ordered(sql) && sorted(&rows) == sorted(base)) {
        return Verdict::Equal;
    }
    Verdict::Different(first_difference(base, &rows))
}

fn error(output: &RecordOutput<DFColumnType>) -> Option<String> {
    match output {
        RecordOutput::Query { error, .. } | RecordOutput::Statement { error, .. } => error.as_ref().map(ToString::to_string),
        RecordOutput::System { error, .. } => error.as_ref().map(ToString::to_string),
        RecordOutput::Let { error, .. } => error.as_ref().map(ToString::to_string),
        _ => None,
    }
}

/// The kind whose words come first; an error may quote another.
fn kind(error: &str) -> Option<&'static str> {
    let found = KINDS.iter().filter_map(|(words, kind)| Some((error.find(words)?, *kind)));
    found.min().map(|(_, kind)| kind)
}

/// Whether it is the error that the suite asks for in words.
fn is_expected_error(record: &Record<DFColumnType>, error: &str) -> bool {
    match record {
        Record::Statement { expected: StatementExpect::Error(expected), .. } | Record::Query { expected: QueryExpect::Error(expected), .. } => {
            !matches!(expected, ExpectedError::Empty) && expected.is_match(error, None)
        }
        _ => false,
    }
}

fn is_plan(sql: &str) -> bool {
    sql.trim_start().get(..7).is_some_and(|word| word.eq_ignore_ascii_case("explain"))
}

/// Without `ORDER BY` an answer has no order, even where one run of one engine shows one.
fn is_ordered(sql: &str) -> bool {
    sql.to_ascii_lowercase().split_whitespace().collect::<Vec<_>>().join(" ").contains("order by")
}

/// Whether the suite's own expectation, which may leave parts open, is met.
fn is_expected(record: &Record<DFColumnType>, rows: &[Vec<String>]) -> bool {
    match record {
        Record::Query { expected: QueryExpect::Results { results, .. }, .. } => df_value_validator(value_normalizer, rows, results),
        _ => false,
    }
}

fn sorted(rows: &[Vec<String>]) -> Vec<&Vec<String>> {
    let mut rows: Vec<_> = rows.iter().collect();
    rows.sort_unstable();
    rows
}

fn first_difference(base: &[Vec<String>], rows: &[Vec<String>]) -> String {
    let at = base.iter().zip(rows).position(|(base, row)| base != row).unwrap_or(base.len().min(rows.len()));
    let show = |rows: &[Vec<String>]| rows.get(at).map_or("no row".to_owned(), |row| row.join(" "));
    format!("{} rows and {} expected; row {at} is\n    {}\n  and should be\n    {}", rows.len(), base.len(), show(rows), show(base))
}
