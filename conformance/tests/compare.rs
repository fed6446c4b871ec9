//! What a record says, and whether two runs of it say the same.

use datafusion_sqllogictest::{DFColumnType, df_value_validator, value_normalizer};
use sqllogictest::{QueryExpect, Record, RecordOutput};

use crate::rewrite::restore;

/// The error that stands for a panic; it is equal to nothing.
pub(crate) const PANIC: &str = "the engine panicked";

/// How the second run of a record relates to the first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Equal,
    /// The text of a plan; whether it is the same but for the format's name.
    Plan {
        same: bool,
    },
    Different(String),
}

pub(crate) fn compare(
    record: &Record<DFColumnType>,
    sql: &str,
    baseline: &RecordOutput<DFColumnType>,
    again: &RecordOutput<DFColumnType>,
) -> Verdict {
    if let Some(error) = error(again).filter(|error| error.contains(PANIC)) {
        return Verdict::Different(error);
    }
    match (error(baseline), error(again)) {
        (Some(_), Some(_)) => return Verdict::Equal,
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
