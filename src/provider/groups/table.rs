//! Groups, and what has been aggregated of each.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::FilterBuilder;
use arrow::datatypes::Schema;
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::functions_aggregate::count::Count;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use super::by::By;
use super::first::{can_have_runs, first_of_runs};
use crate::provider::by_value::ByValue;

/// What rows are grouped by, over the columns of the scan, and the names that it has.
pub(super) type Keys = Arc<[(Arc<dyn PhysicalExpr>, String)]>;

/// What is found of the rows of a batch.
pub(super) enum Found {
    /// The group of each.
    Groups,
    /// To look for groups is in vain. The keys of the rows.
    InVain(Vec<ArrayRef>),
}

/// The groups that rows have been found to belong to.
pub(super) trait Groups: Send {
    /// How many there are.
    fn len(&self) -> usize;

    /// Bytes that they take.
    fn size(&self) -> usize;

    /// The group of each row of a batch, unless that is in vain: rows are as well handed on without groups.
    fn find(&mut self, batch: &RecordBatch, groups: &mut Vec<usize>) -> Result<Found>;

    /// How many of them are as well taken out now as later, for they have not been looked up, and no row that follows is looked for among them.
    fn apart(&self) -> usize;

    /// Takes out the keys of all groups, by their numbers; none are left.
    fn take(&mut self) -> Result<Vec<ArrayRef>>;
}

/// What is to be aggregated.
#[derive(Debug, Clone)]
pub(super) struct Function {
    pub(super) function: Arc<AggregateFunctionExpr>,
    pub(super) args: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) filter: Option<Arc<dyn PhysicalExpr>>,
}

/// The groups of one partition.
pub(super) struct Table {
    keys: Keys,
    by: By,
    functions: Arc<[Function]>,
    groups: Box<dyn Groups>,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    /// The groups of the rows of a batch.
    of_rows: Vec<usize>,
}

impl Table {
    /// No groups yet, whose keys and aggregates go out with this schema; where more than the `ratio` of what is looked up are new, that is in vain.
    pub(super) fn new(keys: &Keys, by: &By, functions: &Arc<[Function]>, schema: &Schema, ratio: f64) -> Result<Self> {
        let groups = by.groups(keys, &schema.fields()[..keys.len()], ratio)?;
        let accumulators = accumulators(functions)?;
        let (keys, by, functions) = (Arc::clone(keys), by.clone(), Arc::clone(functions));
        Ok(Self { keys, by, functions, groups, accumulators, of_rows: Vec::new() })
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// How many of them have not been looked up.
    pub(super) fn apart(&self) -> usize {
        self.groups.apart()
    }

    /// Bytes that they take.
    pub(super) fn size(&self) -> usize {
        self.groups.size()
            + self.accumulators.iter().map(|accumulator| accumulator.size()).sum::<usize>()
            + self.of_rows.capacity() * size_of::<usize>()
    }

    /// Adds the rows of a batch; or, where that is in vain, hands each of them on as a group of its own.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<Option<Vec<ArrayRef>>> {
        if let Found::InVain(keys) = self.groups.find(batch, &mut self.of_rows)? {
            return self.one_by_one(keys, &self.by.rows(batch)?).map(Some);
        }
        let rows = self.by.rows_of_functions(batch)?;
        let count = self.groups.len();
        for (function, accumulator) in self.functions.iter().zip(&mut self.accumulators) {
            let (args, filter) = function.evaluate(&rows, batch)?;
            match function.unrepeated(&args, filter.as_ref(), &self.of_rows)? {
                Some((args, of_rows)) => accumulator.update_batch(&args, &of_rows, None, count)?,
                None => accumulator.update_batch(&args, &self.of_rows, filter.as_ref(), count)?,
            }
        }
        Ok(None)
    }

    /// Takes out the keys of all groups and what has been aggregated of them so far.
    pub(super) fn take(&mut self) -> Result<Vec<ArrayRef>> {
        let mut columns = self.groups.take()?;
        for accumulator in &mut self.accumulators {
            columns.extend(accumulator.state(EmitTo::All)?);
        }
        self.accumulators = accumulators(&self.functions)?;
        Ok(columns)
    }

    /// Each row of a batch as a group of its own.
    pub(super) fn passed_on(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let rows = self.by.rows(batch)?;
        self.one_by_one(evaluated(&self.keys, &rows)?, &rows)
    }

    /// Each row as a group of its own; rows of these keys, with all values as such.
    fn one_by_one(&self, keys: Vec<ArrayRef>, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let mut columns = keys;
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

    /// The arguments and groups of rows without those that repeat the row before, if they are many and it is known that they make no difference: not all functions do as `DISTINCT` says.
    fn unrepeated(&self, args: &[ArrayRef], filter: Option<&BooleanArray>, groups: &[usize]) -> Result<Option<(Vec<ArrayRef>, Vec<usize>)>> {
        let counts_distinct = self.function.is_distinct() && self.function.fun().inner().is::<Count>();
        if !counts_distinct || filter.is_some() || !args.iter().all(|arg| can_have_runs(arg.data_type())) {
            return Ok(None);
        }
        let Some(first) = first_of_runs(Some(groups), args, groups.len())? else { return Ok(None) };
        let of_first = first.set_indices().map(|row| groups[row]).collect();
        let first = FilterBuilder::new(&BooleanArray::new(first, None)).optimize().build();
        Ok(Some((args.iter().map(|arg| first.filter(arg)).collect::<Result<_, _>>()?, of_first)))
    }

    /// Of some rows, and the same rows with codes.
    fn evaluate(&self, rows: &RecordBatch, coded: &RecordBatch) -> Result<(Vec<ArrayRef>, Option<BooleanArray>)> {
        let evaluate = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(if expr.is::<ByValue>() { coded } else { rows })?.into_array(rows.num_rows());
        let args = self.args.iter().map(evaluate).collect::<Result<Vec<_>>>()?;
        let filter = self.filter.as_ref().map(|filter| Ok::<_, datafusion::error::DataFusionError>(as_boolean_array(&evaluate(filter)?)?.clone()));
        Ok((args, filter.transpose()?))
    }
}

/// What the rows of a batch are grouped by.
pub(super) fn evaluated(keys: &Keys, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    keys.iter().map(|(key, _)| key.evaluate(batch)?.into_array(batch.num_rows())).collect()
}

fn accumulators(functions: &[Function]) -> Result<Vec<Box<dyn GroupsAccumulator>>> {
    functions.iter().map(|function| function.function.create_groups_accumulator()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Float64Array, Int64Array};
    use arrow::datatypes::{DataType, Field, Int64Type};
    use datafusion::functions_aggregate::correlation::corr_udaf;
    use datafusion::functions_aggregate::count::count_udaf;
    use datafusion::logical_expr::AggregateUDF;
    use datafusion::physical_expr::aggregate::AggregateExprBuilder;
    use datafusion::physical_expr::expressions::Column;

    /// A function of the first columns, which are of this type.
    fn function(udaf: Arc<AggregateUDF>, data_type: &DataType, args: usize, is_distinct: bool) -> Function {
        let schema = Schema::new(["a", "b"].map(|name| Field::new(name, data_type.clone(), true)).to_vec());
        let args: Vec<Arc<dyn PhysicalExpr>> =
            (0..args).map(|column| Arc::new(Column::new(schema.field(column).name(), column)) as Arc<dyn PhysicalExpr>).collect();
        let builder = AggregateExprBuilder::new(udaf, args.clone()).schema(Arc::new(schema)).alias("f").with_distinct(is_distinct);
        Function { function: Arc::new(builder.build().unwrap()), args, filter: None }
    }

    #[test]
    fn values_that_repeat_in_a_group_are_not_counted_again() {
        let count = |is_distinct| function(count_udaf(), &DataType::Int64, 1, is_distinct);
        let numbers = [Some(1), Some(1), Some(1), None, None, Some(2), Some(2), Some(2), Some(1), Some(1)];
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter(numbers));
        let args = std::slice::from_ref(&numbers);
        let groups = [4, 4, 4, 4, 4, 4, 4, 5, 5, 5];
        let (values, of_values) = count(true).unrepeated(args, None, &groups).unwrap().unwrap();
        assert_eq!(values[0].as_primitive::<Int64Type>(), &Int64Array::from_iter([Some(1), None, Some(2), Some(2), Some(1)]));
        assert_eq!(of_values, [4, 4, 4, 5, 5]);

        assert!(count(false).unrepeated(args, None, &groups).unwrap().is_none());
        let filter = BooleanArray::from(vec![true; 10]);
        assert!(count(true).unrepeated(args, Some(&filter), &groups).unwrap().is_none());
        let alone: Vec<usize> = (0..10).collect();
        assert!(count(true).unrepeated(args, None, &alone).unwrap().is_none());
    }

    #[test]
    fn what_takes_no_notice_of_distinct_has_all_rows() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.5; 9]));
        let correlation = function(corr_udaf(), &DataType::Float64, 2, true);
        assert!(correlation.unrepeated(&[Arc::clone(&floats), floats], None, &[0; 9]).unwrap().is_none());
    }
}
