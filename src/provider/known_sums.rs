//! [`KnownSums`]: sums and averages of all rows of a table, out of what its files say of themselves.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::FileSource;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::{Operator, StatisticsArgs};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::aggregate_statistics::AggregateStatistics;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;

use super::aggregates::{config_of, with_rule_before};

/// A rule for the physical optimizer, which has its place among those of the engine: [`KnownSums::with`].
///
/// Files of Fermion have the sum of each of their columns of whole numbers and decimals. So an aggregation of all rows, with no filter and no groups, reads none of them if it asks for sums of
/// such columns, `SUM(c + 7)` and `SUM(c - 7)` among them, averages of those that are of whole numbers, and what the engine answers by statistics of columns: counts, minima and maxima. The engine
/// is not told that the sums are exact (`stats.rs` says why), so it would not answer by them.
///
/// An average is the exact sum, as a float, by the count. The engine adds up floats, so where values or sums of some of them pass 2⁵³, its average is rounded for each row, and another: mostly in the
/// last digits, but where large values of both signs make up for each other, in all.
///
/// As with what the engine answers by statistics, no file is opened: of one that was replaced since it was listed, by others than this session, the sums are those of before.
#[derive(Debug, Clone, Copy, Default)]
pub struct KnownSums;

impl KnownSums {
    /// Puts the rule where it has to stand: with the one by which the engine answers by statistics, before minima and maxima give scans filters that change while they run.
    #[must_use]
    pub fn with(self, builder: SessionStateBuilder) -> SessionStateBuilder {
        with_rule_before(builder, &AggregateStatistics::new(), Arc::new(self))
    }
}

impl PhysicalOptimizerRule for KnownSums {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|plan| match plan.downcast_ref::<AggregateExec>().and_then(known_row) {
            Some(row) => {
                let row = ProjectionExec::try_new(row, Arc::new(PlaceholderRowExec::new(plan.schema())))?;
                Ok(Transformed::yes(Arc::new(row)))
            }
            None => Ok(Transformed::no(plan)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "KnownSums"
    }

    /// What is known to be there is not nullable any more, as where the engine answers by statistics.
    fn schema_check(&self) -> bool {
        false
    }
}

/// What an aggregation gives, if all of that is known.
fn known_row(aggregate: &AggregateExec) -> Option<Vec<ProjectionExpr>> {
    let first = first_half(aggregate)?;
    let projection = first.input().downcast_ref::<ProjectionExec>();
    let (files, source) = config_of(projection.map_or(first.input(), ProjectionExec::input))?;
    let table = with_exact_sums(files.statistics());
    if !matches!(table.num_rows, Precision::Exact(_)) || first.aggr_expr().is_empty() {
        return None;
    }
    let outputs = ProjectionExprs::new(source.outputs().to_vec());
    let outputs = match projection {
        Some(projection) => outputs.try_merge(projection.projection_expr()).ok()?,
        None => outputs,
    };
    let output = of_columns(&table, &outputs);
    let known = Known { table, table_schema: Arc::clone(source.table_schema().table_schema()), outputs, output, schema: first.input_schema() };
    let value = |function: &Arc<AggregateFunctionExpr>| {
        let value = known.value(function)?;
        Some(ProjectionExpr { expr: Arc::new(Literal::new(value)), alias: function.name().to_owned() })
    };
    first.aggr_expr().iter().map(value).collect()
}

/// The part of an aggregation that sees rows, if it is one of all of them.
fn first_half(aggregate: &AggregateExec) -> Option<&AggregateExec> {
    let first = match aggregate.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => aggregate,
        AggregateMode::Final => {
            let input = aggregate.input();
            let input = input.downcast_ref::<CoalescePartitionsExec>().filter(|merge| merge.fetch().is_none()).map_or(input, |merge| merge.input());
            input.downcast_ref::<AggregateExec>().filter(|first| *first.mode() == AggregateMode::Partial)?
        }
        _ => return None,
    };
    let is_of_all = first.group_expr().is_true_no_grouping() && first.filter_expr().iter().all(Option::is_none);
    is_of_all.then_some(first)
}

/// Sums of our files are exact, but say that they are not: those of columns whose bounds and nulls are. A program that gives a scan statistics of its own has to keep to that.
fn with_exact_sums(mut statistics: Statistics) -> Statistics {
    for column in &mut statistics.column_statistics {
        let is_exact = [column.null_count.is_exact(), column.min_value.is_exact(), column.max_value.is_exact()] == [Some(true); 3];
        let sum = column.sum_value.get_value().filter(|_| is_exact).cloned();
        column.sum_value = sum.map_or(Precision::Absent, Precision::Exact);
    }
    statistics
}

/// What is known of outputs that are columns. Of others the engine would take it for known, too: that the least number is the least when it is a string.
fn of_columns(table: &Statistics, outputs: &ProjectionExprs) -> Statistics {
    let column = |output: &ProjectionExpr| table.column_statistics.get(output.expr.downcast_ref::<Column>()?.index()).cloned();
    let column_statistics = outputs.iter().map(|output| column(output).unwrap_or_default()).collect();
    Statistics { num_rows: table.num_rows, total_byte_size: Precision::Absent, column_statistics }
}

/// What is known of all rows of a scan.
struct Known {
    table: Statistics,
    table_schema: SchemaRef,
    /// The columns that an aggregation is over, over those of the table ...
    outputs: ProjectionExprs,
    /// ... what is known of them ...
    output: Statistics,
    /// ... and what they are.
    schema: SchemaRef,
}

impl Known {
    fn value(&self, function: &AggregateFunctionExpr) -> Option<ScalarValue> {
        let (exprs, field) = (function.expressions(), function.field());
        let (is_distinct, return_type) = (function.is_distinct(), field.data_type());
        let by_engine = function.fun().value_from_stats(&StatisticsArgs { statistics: &self.output, return_type, is_distinct, exprs: &exprs });
        let ([expr], false, None) = (exprs.as_slice(), is_distinct, &by_engine) else { return by_engine };
        let which = function.fun().inner();
        if which.is::<Count>() {
            return scalar(self.total(expr)?.count, return_type);
        }
        if which.is::<Sum>() {
            return scalar(self.total(expr)?.sum, return_type);
        }
        let cast = expr.downcast_ref::<CastExpr>().filter(|cast| which.is::<Avg>() && *cast.cast_type() == DataType::Float64)?;
        let Total { sum, count, .. } = self.total(cast.expr())?;
        #[expect(clippy::cast_precision_loss, reason = "rounded as a float is")]
        let average = sum as f64 / count as f64;
        Some(ScalarValue::Float64(Some(average)))
    }

    /// What an expression over these columns comes to.
    fn total(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Total> {
        total(expr, &self.schema, &|output| {
            let expr = &self.outputs.as_ref().get(output)?.expr;
            total(expr, &self.table_schema, &|column| Total::of(self.table.column_statistics.get(column)?, self.table.num_rows))
        })
    }
}

/// All values of a column of whole numbers that are not null, of which there is at least one.
struct Total {
    sum: i128,
    count: i128,
    bounds: RangeInclusive<i128>,
}

impl Total {
    fn of(column: &ColumnStatistics, rows: Precision<usize>) -> Option<Self> {
        let (Precision::Exact(rows), Precision::Exact(nulls)) = (rows, column.null_count) else { return None };
        let (Precision::Exact(least), Precision::Exact(greatest)) = (&column.min_value, &column.max_value) else { return None };
        let count = i128::try_from(rows.checked_sub(nulls)?).ok().filter(|count| *count > 0)?;
        let Precision::Exact(sum) = &column.sum_value else { return None };
        Some(Self { bounds: whole(least)?..=whole(greatest)?, sum: number(sum)?, count })
    }

    /// With a number added to each.
    fn plus(self, number: i128) -> Option<Self> {
        let (sum, bounds) = (self.sum.checked_add(self.count.checked_mul(number)?)?, self.bounds);
        Some(Self { sum, bounds: bounds.start().checked_add(number)?..=bounds.end().checked_add(number)?, ..self })
    }

    /// If a type has all of the values: others would wrap around, or fail.
    fn within(self, data_type: &DataType) -> Option<Self> {
        let fits = |value: &i128| scalar(*value, data_type).is_some();
        (fits(self.bounds.start()) && fits(self.bounds.end())).then_some(self)
    }
}

/// What casts, sums and differences of a column and constants come to.
fn total(expr: &Arc<dyn PhysicalExpr>, schema: &Schema, column: &dyn Fn(usize) -> Option<Total>) -> Option<Total> {
    if let Some(of) = expr.downcast_ref::<Column>() {
        return column(of.index());
    }
    let constant = |expr: &Arc<dyn PhysicalExpr>| whole(expr.downcast_ref::<Literal>()?.value());
    let changed = if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        total(cast.expr(), schema, column)?
    } else {
        let binary = expr.downcast_ref::<BinaryExpr>()?;
        match (binary.op(), constant(binary.left()), constant(binary.right())) {
            (Operator::Plus, None, Some(number)) => total(binary.left(), schema, column)?.plus(number)?,
            (Operator::Plus, Some(number), None) => total(binary.right(), schema, column)?.plus(number)?,
            (Operator::Minus, None, Some(number)) => total(binary.left(), schema, column)?.plus(-number)?,
            _ => return None,
        }
    };
    changed.within(&expr.data_type(schema).ok()?)
}

/// A number of a type of whole numbers.
fn whole(value: &ScalarValue) -> Option<i128> {
    number(value).filter(|_| value.data_type().is_integer())
}

fn number(value: &ScalarValue) -> Option<i128> {
    match value.cast_to(&DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0)).ok()? {
        ScalarValue::Decimal128(number, ..) => number,
        _ => None,
    }
}

/// A number in a type of whole numbers that has it.
fn scalar(of: i128, data_type: &DataType) -> Option<ScalarValue> {
    let value = ScalarValue::Decimal128(Some(of), DECIMAL128_MAX_PRECISION, 0).cast_to(data_type).ok()?;
    (whole(&value) == Some(of)).then_some(value)
}
