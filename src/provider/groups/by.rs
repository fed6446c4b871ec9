//! [`By`]: the ways to find groups.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::take;
use arrow::datatypes::{Field, SchemaRef, UInt32Type};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;

use super::codes::CodedGroups;
use super::runs::RunGroups;
use super::table::{Function, Groups, Keys};
use super::trial::Trial;
use crate::provider::by_value::ByValue;
use crate::provider::codes_of::has_each_its_own;
use crate::provider::of_column::OfColumn;

/// How the groups of rows are found.
#[derive(Debug, Clone)]
pub(super) enum By {
    /// By the codes of the column of strings that they are about.
    Codes(Coded),
    /// By the first of the rows that follow each other with the same keys.
    Runs,
}

/// A column of batches that is codes, and what these stand for.
#[derive(Debug, Clone)]
pub(super) struct Coded {
    key: OfColumn,
    /// Of batches with values instead.
    schema: SchemaRef,
    /// Whether functions need values.
    are_used: bool,
}

impl Coded {
    /// Batches of `schema` whose column of the key comes as codes.
    pub(super) fn new(key: OfColumn, schema: SchemaRef, functions: &[Function]) -> Self {
        let is_used = |expr: &Arc<dyn PhysicalExpr>| !expr.is::<ByValue>() && collect_columns(expr).iter().any(|used| used.index() == key.column());
        let are_used = functions.iter().flat_map(Function::exprs).any(is_used);
        Self { key, schema, are_used }
    }

    /// The rows of a batch, with values.
    fn rows(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = batch.columns().to_vec();
        let column = &mut columns[self.key.column()];
        if let Some(codes) = column.as_dictionary_opt::<UInt32Type>() {
            *column = if has_each_its_own(codes) { Arc::clone(codes.values()) } else { take(codes.values(), codes.keys(), None)? };
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

impl By {
    /// No groups yet; keys are of these fields. Where more than the `ratio` of what is looked up are new, that is in vain.
    pub(super) fn groups(&self, keys: &Keys, fields: &[Arc<Field>], ratio: f64) -> Result<Box<dyn Groups>> {
        let trial = Trial::new(ratio);
        Ok(match self {
            Self::Codes(coded) => Box::new(CodedGroups::new(coded.key.clone(), fields, trial)?),
            Self::Runs => Box::new(RunGroups::new(Arc::clone(keys), fields, trial)?),
        })
    }

    /// The rows of a batch, with all values as such.
    pub(super) fn rows(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        match self {
            Self::Codes(coded) => coded.rows(batch),
            Self::Runs => Ok(batch.clone()),
        }
    }

    /// The same, of what functions need.
    pub(super) fn rows_of_functions(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        match self {
            Self::Codes(coded) if coded.are_used => coded.rows(batch),
            _ => Ok(batch.clone()),
        }
    }

    /// The name of a plan that does so.
    pub(super) fn plan_name(&self) -> &'static str {
        match self {
            Self::Codes(_) => "CodedAggregateExec",
            Self::Runs => "RunAggregateExec",
        }
    }

    /// The name of the column of codes.
    pub(super) fn codes(&self) -> Option<&str> {
        match self {
            Self::Codes(coded) => Some(coded.schema.field(coded.key.column()).name()),
            Self::Runs => None,
        }
    }
}
