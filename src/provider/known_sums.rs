//! [`KnownSums`]: sums and averages of all rows of a table, out of what its files say of themselves.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::FileSource;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{Operator, StatisticsArgs};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;

use super::aggregates::{config_of, with_rule_before_filters};

/// The digits of whole numbers as decimals.
const DIGITS: u8 = 38;

/// A rule for the physical optimizer, which has its place among those of the engine: [`KnownSums::with`].
///
/// Files of Fermion have the sum of each of their columns of whole numbers and decimals. So an aggregation of all rows, with no filter and no groups, reads none of them if it asks for sums of
/// such columns, `SUM(c + 7)` and `SUM(c - 7)` among them, averages of those that are of whole numbers, and what the engine answers by statistics itself: counts, minima and maxima. The engine
/// is not told that the sums are exact (`stats.rs` says why), so it would not answer by them.
///
/// An average is the exact sum by the count, so it may be nearer than that of rows whose sum passes 2⁵³, which is rounded for each row.
#[derive(Debug, Clone, Copy, Default)]
pub struct KnownSums;

impl KnownSums {
    /// Puts the rule where it has to stand: scans have their columns by then, but no filters that change while they run.
    #[must_use]
    pub fn with(self, builder: SessionStateBuilder) -> SessionStateBuilder {
        with_rule_before_filters(builder, Arc::new(self))
    }
}

impl PhysicalOptimizerRule for KnownSums {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|plan| match plan.downcast_ref::<AggregateExec>().map(known_row).transpose()?.flatten() {
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
fn known_row(aggregate: &AggregateExec) -> Result<Option<Vec<ProjectionExpr>>> {
    let Some(first) = first_half(aggregate) else { return Ok(None) };
    let Some((files, source)) = config_of(first.input()) else { return Ok(None) };
    let table = with_exact_sums(files.statistics());
    if !matches!(table.num_rows, Precision::Exact(_)) || first.aggr_expr().is_empty() {
        return Ok(None);
    }
    let (outputs, schema) = (source.outputs(), first.input_schema());
    let output = ProjectionExprs::new(outputs.to_vec()).project_statistics(table.clone(), &schema)?;
    let known = Known { table, table_schema: Arc::clone(source.table_schema().table_schema()), outputs, output, schema };
    let value = |function: &Arc<AggregateFunctionExpr>| {
        let value = known.value(function)?;
        Some(ProjectionExpr { expr: Arc::new(Literal::new(value)), alias: function.name().to_owned() })
    };
    Ok(first.aggr_expr().iter().map(value).collect())
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

/// Those of our files are, but say that they are not.
fn with_exact_sums(mut statistics: Statistics) -> Statistics {
    for column in &mut statistics.column_statistics {
        if let Precision::Inexact(sum) = std::mem::take(&mut column.sum_value) {
            column.sum_value = Precision::Exact(sum);
        }
    }
    statistics
}

/// What is known of all rows of a scan.
struct Known<'a> {
    table: Statistics,
    table_schema: SchemaRef,
    /// The columns that the scan gives, over those of the table ...
    outputs: &'a [ProjectionExpr],
    /// ... and what is known of them, and they are.
    output: Statistics,
    schema: SchemaRef,
}

impl Known<'_> {
    fn value(&self, function: &AggregateFunctionExpr) -> Option<ScalarValue> {
        let (exprs, field) = (function.expressions(), function.field());
        let (is_distinct, return_type) = (function.is_distinct(), field.data_type());
        let by_engine = function.fun().value_from_stats(&StatisticsArgs { statistics: &self.output, return_type, is_distinct, exprs: &exprs });
        let ([expr], false, None) = (exprs.as_slice(), is_distinct, &by_engine) else { return by_engine };
        match (function.fun().name(), return_type) {
            // The engine knows no nulls of what is cast.
            ("count", DataType::Int64) => scalar(self.total(expr)?.count, return_type),
            ("sum", DataType::Int64 | DataType::UInt64) => scalar(self.total(expr)?.sum, return_type),
            ("avg", DataType::Float64) => {
                let cast = expr.downcast_ref::<CastExpr>().filter(|cast| *cast.cast_type() == DataType::Float64)?;
                let Total { sum, count, .. } = self.total(cast.expr())?;
                #[expect(clippy::cast_precision_loss, reason = "as near as an average can be")]
                let average = sum as f64 / count as f64;
                Some(ScalarValue::Float64(Some(average)))
            }
            _ => None,
        }
    }

    /// What an expression over the columns of the scan comes to.
    fn total(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Total> {
        total(expr, &self.schema, &|output| {
            let expr = &self.outputs.get(output)?.expr;
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
    match value.cast_to(&DataType::Decimal128(DIGITS, 0)).ok()? {
        ScalarValue::Decimal128(number, ..) => number,
        _ => None,
    }
}

/// A number in a type of whole numbers that has it.
fn scalar(of: i128, data_type: &DataType) -> Option<ScalarValue> {
    let value = ScalarValue::Decimal128(Some(of), DIGITS, 0).cast_to(data_type).ok()?;
    (whole(&value) == Some(of)).then_some(value)
}
