//! Whether the sides give the same answer.

use std::fmt::Debug;

use arrow::array::{RecordBatch, Scalar};
use arrow::compute::filter_record_batch;
use arrow::compute::kernels::cmp::neq;
use datafusion::error::{DataFusionError, Result};

use crate::agree;
use crate::fingerprint::Fingerprint;
use crate::queries::Query;
use crate::session::Session;

/// What of an answer must be the same.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Check {
    /// The rows, in any order; floats may differ in their last digits.
    Rows,
    /// What the rows add up to: for too many of them to keep.
    Sum,
    /// What all rows would add up to, if the query had no limit, and how many there are with it.
    Unlimited,
    /// The column that the first rows are ordered by; and the whole rows, but for those that tie with the last.
    First(&'static str),
}

/// What is kept of an answer.
pub(crate) enum Answer {
    Rows(Vec<RecordBatch>),
    Sum(Fingerprint),
    Limited { all: Fingerprint, count: usize },
    First { column: Vec<RecordBatch>, rows: Vec<RecordBatch> },
}

impl Check {
    /// Asks one side.
    pub(crate) async fn answer(self, session: &Session, query: &Query) -> Result<Answer> {
        Ok(match self {
            Self::Rows => Answer::Rows(session.answer(query).await?),
            Self::Sum => Answer::Sum(session.fingerprint(query).await?),
            Self::Unlimited => {
                let count = session.answer(query).await?.iter().map(RecordBatch::num_rows).sum();
                Answer::Limited { all: session.fingerprint(&unlimited(query)).await?, count }
            }
            Self::First(column) => {
                let rows = session.answer(query).await?;
                let rows: Vec<_> = rows.into_iter().filter(|batch| batch.num_rows() > 0).collect();
                let last = rows.last().map(|batch| only(batch, column)).transpose()?;
                let before = rows.iter().map(|batch| before(batch, column, last.as_ref())).collect::<Result<_>>()?;
                Answer::First { column: rows.iter().map(|batch| only(batch, column)).collect::<Result<_>>()?, rows: before }
            }
        })
    }
}

impl Answer {
    /// `Err` says how the two differ.
    pub(crate) fn agree(&self, other: &Self) -> Result<(), String> {
        match (self, other) {
            (Self::Rows(left), Self::Rows(right)) => agree::check(left, right),
            (Self::Sum(left), Self::Sum(right)) => same(left, right),
            (Self::Limited { all, count }, Self::Limited { all: other, count: other_count }) => {
                same(all, other)?;
                same(count, other_count)
            }
            (Self::First { column, rows }, Self::First { column: other, rows: other_rows }) => {
                agree::check(column, other)?;
                agree::check(rows, other_rows)
            }
            _ => Err("answers of two kinds".to_owned()),
        }
    }
}

fn same<T: PartialEq + Debug>(left: &T, right: &T) -> Result<(), String> {
    if left == right { Ok(()) } else { Err(format!("{left:?} and {right:?}")) }
}

/// The rows that do not tie with the last one of `last`.
fn before(batch: &RecordBatch, column: &str, last: Option<&RecordBatch>) -> Result<RecordBatch> {
    let Some(last) = last else { return Ok(batch.clone()) };
    let least = Scalar::new(last.column(0).slice(last.num_rows() - 1, 1));
    let is_before = neq(only(batch, column)?.column(0), &least)?;
    Ok(filter_record_batch(batch, &is_before)?)
}

fn unlimited(query: &Query) -> Query {
    let without = |sql: &String| sql.split_once(" LIMIT ").map_or(sql.clone(), |(before, _)| before.to_owned());
    Query { name: query.name.clone(), statements: query.statements.iter().map(without).collect() }
}

fn only(batch: &RecordBatch, column: &str) -> Result<RecordBatch> {
    let index = batch.schema().index_of(column)?;
    batch.project(&[index]).map_err(DataFusionError::from)
}
