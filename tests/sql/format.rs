//! Arrow values as the text of an `.slt` file.
//!
//! The conventions of the format's other users hold: `NULL`, `(empty)`, column kinds of one letter, a plan's lines numbered and its
//! indentation as dashes. Floats are rounded to twelve places, because the order of a parallel sum is not fixed. Unlike elsewhere `-0`
//! keeps its sign, decimals keep their trailing zeros and control characters are escaped: a test of a file format wants to see them.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::Result;
use sqllogictest::ColumnType;

/// The letter of a column in the header of a query: B, D, I, P, R, T, or `?` for the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind(char);

impl ColumnType for Kind {
    fn from_char(letter: char) -> Option<Self> {
        "BDIPRT?".contains(letter).then_some(Self(letter))
    }

    fn to_char(&self) -> char {
        self.0
    }
}

pub(crate) fn kinds(schema: &Schema) -> Vec<Kind> {
    schema.fields().iter().map(|field| Kind(letter(field.data_type()))).collect()
}

fn letter(data_type: &DataType) -> char {
    match data_type {
        DataType::Boolean => 'B',
        DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => 'D',
        DataType::Timestamp(..) => 'P',
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => 'T',
        DataType::Dictionary(_, values) if letter(values) == 'T' => 'T',
        integer if integer.is_integer() => 'I',
        number if number.is_numeric() => 'R',
        _ => '?',
    }
}

pub(crate) fn text_rows(schema: &Schema, batches: &[RecordBatch]) -> Result<Vec<Vec<String>>> {
    let is_plan = schema.fields().iter().map(|field| field.name().as_str()).eq(["plan_type", "plan"]);
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| cell(column.as_ref(), row)).collect::<Result<Vec<_>>>()?;
            if is_plan {
                rows.extend(plan_rows(&cells));
            } else {
                rows.push(cells.iter().map(|text| escape(text)).collect());
            }
        }
    }
    Ok(rows)
}

/// One row per line of a plan, below one that names its type.
fn plan_rows(cells: &[String]) -> Vec<Vec<String>> {
    let (kind, plan) = (cells.first().cloned().unwrap_or_default(), cells.get(1).map_or("", |plan| plan.trim_end()));
    let numbered = plan.lines().enumerate().map(|(index, line)| {
        let text = line.trim_start();
        vec![format!("{:02}){}{text}", index.saturating_add(1), "-".repeat(line.len().saturating_sub(text.len())))]
    });
    std::iter::once(vec![kind]).chain(numbered).collect()
}

fn cell(array: &dyn Array, row: usize) -> Result<String> {
    if array.is_null(row) {
        return Ok("NULL".to_owned());
    }
    match array.data_type() {
        DataType::Float16 => Ok(float(array.as_primitive::<Float16Type>().value(row).into())),
        DataType::Float32 => Ok(float_text(&array.as_primitive::<Float32Type>().value(row).to_string())),
        DataType::Float64 => Ok(float(array.as_primitive::<Float64Type>().value(row))),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let key = dictionary.normalized_keys().get(row).copied().unwrap_or_default();
            cell(dictionary.values().as_ref(), key)
        }
        _ => {
            let options = FormatOptions::default().with_null("NULL");
            let text = ArrayFormatter::try_new(array, &options)?.value(row).to_string();
            Ok(if text.is_empty() { "(empty)".to_owned() } else { text })
        }
    }
}

fn float(value: f64) -> String {
    float_text(&value.to_string())
}

/// Rounds the shortest text of a float to twelve places.
fn float_text(text: &str) -> String {
    match text {
        "inf" => "Infinity".to_owned(),
        "-inf" => "-Infinity".to_owned(),
        _ => match (text.split_once('.'), text.parse::<f64>()) {
            (Some((_, fraction)), Ok(value)) if fraction.len() > 12 => {
                let rounded = format!("{value:.12}");
                let trimmed = rounded.trim_end_matches('0').trim_end_matches('.');
                if trimmed == "-0" { "0".to_owned() } else { trimmed.to_owned() }
            }
            _ => text.to_owned(),
        },
    }
}

/// A cell stays on its line.
fn escape(text: &str) -> String {
    let escape = |letter: char| if letter.is_control() { letter.escape_default().to_string() } else { letter.to_string() };
    text.chars().map(escape).collect()
}
