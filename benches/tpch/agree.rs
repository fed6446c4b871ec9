//! Whether two answers are the same, in whatever order their rows come.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Two sums of the same floats differ by the order of the additions, never by more than this.
const RELATIVE_TOLERANCE: f64 = 1e-9;

/// Digits by which floats are sorted: few, so that two that are nearly the same sort alike.
const SORT_DIGITS: usize = 6;

#[derive(Debug, Clone, PartialEq, PartialOrd)]
enum Cell {
    Text(String),
    /// What it is sorted by, and the number.
    Float(String, f64),
}

/// `Err` says how the answers differ.
pub(crate) fn check(left: &[RecordBatch], right: &[RecordBatch]) -> Result<(), String> {
    let left = sorted(left).map_err(|error| error.to_string())?;
    let right = sorted(right).map_err(|error| error.to_string())?;
    if left.len() != right.len() {
        return Err(format!("{} rows and {} rows", left.len(), right.len()));
    }
    match left.iter().zip(&right).find(|(left, right)| !rows_agree(left, right)) {
        Some((left, right)) => Err(format!("{left:?} and {right:?}")),
        None => Ok(()),
    }
}

fn rows_agree(left: &[Cell], right: &[Cell]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).all(|cells| match cells {
            (Cell::Float(_, a), Cell::Float(_, b)) => {
                a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= RELATIVE_TOLERANCE * a.abs().max(b.abs())
            }
            (a, b) => a == b,
        })
}

fn sorted(batches: &[RecordBatch]) -> Result<Vec<Vec<Cell>>, ArrowError> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|column| cells(column)).collect::<Result<Vec<_>, _>>()?;
        rows.extend((0..batch.num_rows()).map(|row| columns.iter().filter_map(|column| column.get(row).cloned()).collect::<Vec<_>>()));
    }
    rows.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    Ok(rows)
}

fn cells(column: &dyn Array) -> Result<Vec<Cell>, ArrowError> {
    let options = FormatOptions::default().with_null("NULL");
    let formatter = ArrayFormatter::try_new(column, &options)?;
    Ok(match column.data_type() {
        DataType::Float64 => {
            let floats = column.as_primitive::<Float64Type>();
            floats
                .iter()
                .map(|value| value.map_or_else(|| Cell::Text("NULL".to_owned()), |value| Cell::Float(format!("{value:.SORT_DIGITS$e}"), value)))
                .collect()
        }
        _ => (0..column.len()).map(|row| Cell::Text(formatter.value(row).to_string())).collect(),
    })
}
