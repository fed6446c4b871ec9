//! Whether the sides give the same answer.

use arrow::array::RecordBatch;
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
    /// What all rows would add up to, if the query had no limit.
    Unlimited,
    /// One column of the rows.
    Column(&'static str),
}

/// What is kept of an answer.
pub(crate) enum Answer {
    Rows(Vec<RecordBatch>),
    Sum(Fingerprint),
}

impl Check {
    /// Asks one side.
    pub(crate) async fn answer(self, session: &Session, query: &Query) -> Result<Answer> {
        Ok(match self {
            Self::Rows => Answer::Rows(session.answer(query).await?),
            Self::Sum => Answer::Sum(session.fingerprint(query).await?),
            Self::Unlimited => Answer::Sum(session.fingerprint(&unlimited(query)).await?),
            Self::Column(column) => {
                let rows = session.answer(query).await?;
                Answer::Rows(rows.iter().map(|batch| only(batch, column)).collect::<Result<_>>()?)
            }
        })
    }
}

impl Answer {
    /// `Err` says how the two differ.
    pub(crate) fn agree(&self, other: &Self) -> Result<(), String> {
        match (self, other) {
            (Self::Rows(left), Self::Rows(right)) => agree::check(left, right),
            (Self::Sum(left), Self::Sum(right)) if left == right => Ok(()),
            (Self::Sum(left), Self::Sum(right)) => Err(format!("{left:?} and {right:?}")),
            _ => Err("answers of two kinds".to_owned()),
        }
    }
}

fn unlimited(query: &Query) -> Query {
    let without = |sql: &String| sql.split_once(" LIMIT ").map_or(sql.clone(), |(before, _)| before.to_owned());
    Query { name: query.name.clone(), statements: query.statements.iter().map(without).collect() }
}

fn only(batch: &RecordBatch, column: &str) -> Result<RecordBatch> {
    let index = batch.schema().index_of(column)?;
    batch.project(&[index]).map_err(DataFusionError::from)
}
