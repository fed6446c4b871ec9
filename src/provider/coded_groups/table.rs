//! Groups, and what has been aggregated of each.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::Field;
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use super::keys::Groups;
use crate::provider::by_value::ByValue;
use crate::provider::of_column::OfColumn;

/// What is to be aggregated.
#[derive(Debug, Clone)]
pub(super) struct Function {
    pub(super) function: Arc<AggregateFunctionExpr>,
    pub(super) args: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) filter: Option<Arc<dyn PhysicalExpr>>,
}

/// The groups of one partition.
pub(super) struct Table {
    key: OfColumn,
    key_field: Arc<Field>,
    functions: Arc<[Function]>,
    groups: Groups,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    /// The groups of the rows of a batch.
    of_rows: Vec<usize>,
}

impl Table {
    /// No groups yet; keys have the type of `key_field`.
    pub(super) fn new(key: OfColumn, key_field: Arc<Field>, functions: Arc<[Function]>) -> Result<Self> {
        let groups = Groups::new(key.clone(), &key_field)?;
        let accumulators = accumulators(&functions)?;
        Ok(Self { key, key_field, functions, groups, accumulators, of_rows: Vec::new() })
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Bytes that they take.
    pub(super) fn size(&self) -> usize {
        self.groups.size()
            + self.accumulators.iter().map(|accumulator| accumulator.size()).sum::<usize>()
            + self.of_rows.capacity() * size_of::<usize>()
    }

    /// Adds the rows of `batch`, which are those of `rows` with codes.
    pub(super) fn add(&mut self, batch: &RecordBatch, rows: &RecordBatch) -> Result<()> {
        self.groups.find(batch, &mut self.of_rows)?;
        let count = self.groups.len();
        for (function, accumulator) in self.functions.iter().zip(&mut self.accumulators) {
            let (args, filter) = function.evaluate(rows, batch)?;
            accumulator.update_batch(&args, &self.of_rows, filter.as_ref(), count)?;
        }
        Ok(())
    }

    /// Takes out the keys of all groups and what has been aggregated of them so far.
    pub(super) fn take(&mut self) -> Result<Vec<ArrayRef>> {
        let mut columns = vec![self.groups.take()?];
        for accumulator in &mut self.accumulators {
            columns.extend(accumulator.state(EmitTo::All)?);
        }
        self.groups = Groups::new(self.key.clone(), &self.key_field)?;
        self.accumulators = accumulators(&self.functions)?;
        Ok(columns)
    }

    /// Each row as a group of its own; `rows` has all values as such.
    pub(super) fn passed_on(&self, key: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let mut columns = vec![key.evaluate(rows)?.into_array(rows.num_rows())?];
        for (function, accumulator) in self.functions.iter().zip(&self.accumulators) {
            let (args, filter) = function.evaluate(rows, rows)?;
            columns.extend(accumulator.convert_to_state(&args, filter.as_ref())?);
        }
        Ok(columns)
    }
}

impl Function {
    pub(super) fn exprs(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.args.iter().chain(&self.filter)
    }

    /// Of some rows, and the same rows with codes.
    fn evaluate(&self, rows: &RecordBatch, coded: &RecordBatch) -> Result<(Vec<ArrayRef>, Option<BooleanArray>)> {
        let evaluate = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(if expr.is::<ByValue>() { coded } else { rows })?.into_array(rows.num_rows());
        let args = self.args.iter().map(evaluate).collect::<Result<Vec<_>>>()?;
        let filter = self.filter.as_ref().map(|filter| Ok::<_, datafusion::error::DataFusionError>(as_boolean_array(&evaluate(filter)?)?.clone()));
        Ok((args, filter.transpose()?))
    }
}

fn accumulators(functions: &[Function]) -> Result<Vec<Box<dyn GroupsAccumulator>>> {
    functions.iter().map(|function| function.function.create_groups_accumulator()).collect()
}
