//! [`TextByValue`]: what a query asks of strings, the scan asks once of each string that is stored.
//!
//! Of a million URLs of which a stripe stores the ten thousand that differ, `avg(length("URL"))` needs ten thousand lengths, and no URL.

mod expr;

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::{FileGroup, FileSource};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, PhysicalGroupBy};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::aggregates::{config_of, maker, scan_of, takes_any_order, with_maker, with_scan};
use super::codes_of::CodesOf;
use super::fallible::can_fail;
use super::groups::coded_column;
use super::of_column::{OfColumn, text_column};
use super::source::FormatSource;

pub(super) use self::expr::ByValue;

/// A rule for the physical optimizer, to stand behind those of the engine and before [`GroupsByCodes`](super::GroupsByCodes).
///
/// Where an aggregation stands above a scan of one of our formats, and uses a column of strings in nothing but expressions about that column alone, the scan evaluates these, once for each string that a page or a stripe
/// stores. Where the batches of few threads that read are dealt out to more, only if strings are known to come again so often that these have no more to do. ([`with_rules`](super::with_rules) adds the rule to a session.)
#[derive(Debug, Clone, Copy, Default)]
pub struct TextByValue;

impl PhysicalOptimizerRule for TextByValue {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let by_value = plan.downcast_ref::<AggregateExec>().map(by_value).transpose()?.flatten();
            Ok(by_value.map_or_else(|| Transformed::no(plan), |by_value| Transformed::yes(Arc::new(by_value))))
        })
        .data()
    }

    fn name(&self) -> &str {
        "TextByValue"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The aggregation over a scan that evaluates what it asks of strings; `None` where it asks nothing, or more.
fn by_value(aggregate: &AggregateExec) -> Result<Option<AggregateExec>> {
    let is_reversed = aggregate.aggr_expr().iter().any(|function| function.is_reversed());
    if aggregate.mode().input_mode() != AggregateInputMode::Raw
        || aggregate.group_expr().has_grouping_set()
        || is_reversed
        || !takes_any_order(aggregate)
    {
        return Ok(None);
    }
    let schema = aggregate.input_schema();
    let exprs = evaluated(aggregate);
    if let Some(projection) = maker(aggregate.input()).downcast_ref::<ProjectionExec>() {
        let is_column = |output: usize| projection.expr()[output].expr.is::<Column>();
        let (items, answers) = asked(projection.expr(), &exprs, is_column, &schema)?;
        let Some(projected) = projected(&items, projection.input())? else { return Ok(None) };
        return over(aggregate, with_maker(aggregate.input(), Arc::new(projected))?, &answers);
    }
    let Some(source) = scan_of(aggregate.input()) else { return Ok(None) };
    // Groups by one column of strings are found by its codes.
    let coded = coded_column(aggregate);
    let is_asked = |output: usize| coded != Some(output) && is_better_in_scan(aggregate.input(), output);
    let (outputs, answers) = asked(source.outputs(), &exprs, is_asked, &schema)?;
    let Some(source) = wrapped(&source.with_outputs(outputs))? else { return Ok(None) };
    over(aggregate, with_scan(aggregate.input(), source)?, &answers)
}

/// What an aggregation evaluates, and whether of all rows: those that a function's filter drops may be dropped before.
fn evaluated(aggregate: &AggregateExec) -> Vec<Evaluated> {
    let schema = aggregate.input_schema();
    // Where there are groups, arguments are evaluated of all rows, but nobody promises that.
    let of_all = |arg: &Arc<dyn PhysicalExpr>| !aggregate.group_expr().is_empty() && !can_fail(arg, &schema);
    let groups = aggregate.group_expr().expr().iter().map(|(expr, _)| (Arc::clone(expr), true));
    let functions = aggregate.aggr_expr().iter().zip(aggregate.filter_expr());
    let args = functions.flat_map(|(function, filter)| {
        let args = function.expressions().into_iter();
        args.map(move |arg| (Arc::clone(&arg), filter.is_none() || of_all(&arg)))
    });
    let filters = aggregate.filter_expr().iter().flatten().map(|filter| (Arc::clone(filter), true));
    groups.chain(args).chain(filters).collect()
}

fn evaluated_items(items: &[ProjectionExpr]) -> Vec<Evaluated> {
    items.iter().map(|item| (Arc::clone(&item.expr), true)).collect()
}

/// The same of a projection.
fn projected(items: &[ProjectionExpr], input: &Arc<dyn ExecutionPlan>) -> Result<Option<ProjectionExec>> {
    let Some(source) = scan_of(input) else { return Ok(None) };
    let (outputs, answers) = asked(source.outputs(), &evaluated_items(items), |output| is_better_in_scan(input, output), &input.schema())?;
    let Some(source) = wrapped(&source.with_outputs(outputs))? else { return Ok(None) };
    ProjectionExec::try_new(answers.put_into_all(items)?, with_scan(input, source)?).map(Some)
}

/// Whether what a plan above a scan asks of a column of its output is better asked by the scan: a column that files store, and where more threads would ask than read, these are known to have no more values each than
/// those would have rows.
fn is_better_in_scan(plan: &Arc<dyn ExecutionPlan>, output: usize) -> bool {
    let Some((config, source)) = config_of(plan) else { return false };
    let Some(stored) = source.stored(output) else { return false };
    let partitions = |plan: &Arc<dyn ExecutionPlan>| plan.output_partitioning().partition_count() as u64;
    let (above, reading) = (partitions(plan), partitions(maker(plan)));
    if above <= reading {
        return true;
    }
    let Some(column) = stored.downcast_ref::<Column>().map(Column::index) else { return false };
    let files = config.file_groups.iter().flat_map(FileGroup::iter);
    let stored: Option<Vec<_>> = files.map(|file| source.stored_values(file, column)).collect();
    let total = |(rows, values): (u64, u64), (more_rows, more_values)| (rows.saturating_add(more_rows), values.saturating_add(more_values));
    stored.is_some_and(|files| {
        let (rows, values) = files.into_iter().fold((0, 0), total);
        values.saturating_mul(above) <= rows.saturating_mul(reading)
    })
}

/// The aggregation over another input, which gives some answers out; `None` if it would not be the same.
fn over(aggregate: &AggregateExec, input: Arc<dyn ExecutionPlan>, answers: &Answers) -> Result<Option<AggregateExec>> {
    let groups = aggregate.group_expr();
    let group = |(expr, name): &(Arc<dyn PhysicalExpr>, String)| Ok((answers.put_into(expr)?, name.clone()));
    let group_exprs = groups.expr().iter().map(group).collect::<Result<Vec<_>>>()?;
    let groups = PhysicalGroupBy::new(group_exprs, groups.null_expr().to_vec(), groups.groups().to_vec(), false);
    let schema = input.schema();
    let functions = aggregate.aggr_expr().iter().map(|function| function_over(function, answers, &schema)).collect::<Result<Vec<_>>>()?;
    // What a query has said of a column of its output is not known here.
    if functions.iter().zip(aggregate.aggr_expr()).any(|(over, function)| over.field() != function.field()) {
        return Ok(None);
    }
    let filters = aggregate.filter_expr().iter().map(|filter| filter.as_ref().map(|filter| answers.put_into(filter)).transpose());
    let filters = filters.collect::<Result<Vec<_>>>()?;
    AggregateExec::try_new(*aggregate.mode(), groups, functions, filters, input, schema).map(Some)
}

/// The function with other arguments, over an input of this schema.
fn function_over(function: &AggregateFunctionExpr, answers: &Answers, schema: &SchemaRef) -> Result<Arc<AggregateFunctionExpr>> {
    let args = function.expressions().iter().map(|arg| answers.put_into(arg)).collect::<Result<Vec<_>>>()?;
    let over = AggregateExprBuilder::new(Arc::new(function.fun().clone()), args)
        .schema(Arc::clone(schema))
        .alias(function.name())
        .human_display(function.human_display().unwrap_or_default())
        .human_display_alias(function.human_display_alias().unwrap_or_default())
        .with_ignore_nulls(function.ignore_nulls())
        .with_distinct(function.is_distinct());
    over.build().map(Arc::new)
}

/// What a projection gives out where it evaluates what expressions ask of some of its columns, of strings, that are not used otherwise: in the place of those columns, and behind all others.
fn asked(
    outputs: &[ProjectionExpr],
    exprs: &[Evaluated],
    is_asked: impl Fn(usize) -> bool,
    schema: &SchemaRef,
) -> Result<(Vec<ProjectionExpr>, Answers)> {
    let mut outputs = outputs.to_vec();
    let mut answers = Answers::default();
    for (column, questions) in Uses::of(exprs, schema).asked().filter(|(column, _)| is_asked(*column)) {
        let stored = Arc::clone(&outputs[column].expr);
        for (nth, question) in questions.into_iter().enumerate() {
            let of_stored =
                |node: Arc<dyn PhysicalExpr>| if node.is::<Column>() { Transformed::yes(Arc::clone(&stored)) } else { Transformed::no(node) };
            let expr = Arc::clone(&question).transform_up(|node| Ok(of_stored(node))).data()?;
            let output = ProjectionExpr { expr, alias: question.to_string() };
            let place = if nth == 0 { column } else { outputs.len() };
            answers.0.push((question, Arc::new(Column::new(&output.alias, place))));
            if nth == 0 { outputs[place] = output } else { outputs.push(output) }
        }
    }
    Ok((outputs, answers))
}

/// Has the scan read columns of strings as codes that it uses for nothing but expressions about each alone; `None` if there are no such.
fn wrapped(source: &FormatSource) -> Result<Option<FormatSource>> {
    let schema = source.table_schema().table_schema();
    let mut answers = Answers::default();
    for (column, questions) in Uses::of(&evaluated_items(source.outputs()), schema).asked().filter(|(column, _)| source.stores(*column)) {
        let codes: Arc<dyn PhysicalExpr> = Arc::new(CodesOf::new(Arc::new(Column::new(schema.field(column).name(), column))));
        for question in questions {
            let answer = ByValue::new(Arc::clone(&codes), OfColumn::new(&question, column, schema)?);
            answers.0.push((question, Arc::new(answer)));
        }
    }
    if answers.0.is_empty() {
        return Ok(None);
    }
    Ok(Some(source.with_outputs(answers.put_into_all(source.outputs())?)))
}

/// An expression, and whether it is evaluated of all rows.
type Evaluated = (Arc<dyn PhysicalExpr>, bool);

/// What expressions use of columns.
struct Uses<'a> {
    schema: &'a Schema,
    by_column: Vec<Use>,
}

#[derive(Clone, Default)]
struct Use {
    /// The values themselves.
    is_whole: bool,
    /// What is asked of them.
    questions: Vec<Arc<dyn PhysicalExpr>>,
}

impl<'a> Uses<'a> {
    fn of(exprs: &[Evaluated], schema: &'a Schema) -> Self {
        let mut uses = Self { schema, by_column: vec![Use::default(); schema.fields().len()] };
        exprs.iter().for_each(|(expr, is_certain)| uses.visit(expr, *is_certain));
        uses
    }

    /// Notes what an expression uses. Only of one that is evaluated of all rows it is a question, if that `is_certain`.
    fn visit(&mut self, expr: &Arc<dyn PhysicalExpr>, is_certain: bool) {
        if expr.is::<Column>() || expr.is::<ByValue>() {
            collect_columns(expr).iter().for_each(|column| self.by_column[column.index()].is_whole = true);
        } else if let Some(column) = text_column(expr, self.schema).filter(|_| is_certain) {
            let questions = &mut self.by_column[column].questions;
            if !questions.contains(expr) {
                questions.push(Arc::clone(expr));
            }
        } else {
            let certain = if is_certain { certain_children(expr) } else { 0 };
            expr.children().into_iter().enumerate().for_each(|(nth, child)| self.visit(child, nth < certain));
        }
    }

    /// The columns of strings of which nothing else is used, and what is asked of each.
    fn asked(self) -> impl Iterator<Item = (usize, Vec<Arc<dyn PhysicalExpr>>)> {
        let uses = self.by_column.into_iter().enumerate();
        uses.filter(|(_, used)| !used.is_whole && !used.questions.is_empty()).map(|(column, used)| (column, used.questions))
    }
}

/// How many children of an expression, the first ones, are evaluated of all rows that it is evaluated of. The others may depend on what those say, as behind `AND`, or be about something else than rows, as in a lambda.
fn certain_children(expr: &Arc<dyn PhysicalExpr>) -> usize {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return if matches!(binary.op(), Operator::And | Operator::Or) { 1 } else { 2 };
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        return if call.fun().short_circuits() { 0 } else { call.args().len() };
    }
    if expr.is::<InListExpr>() || expr.is::<LikeExpr>() {
        return 2;
    }
    let is_of_one = expr.is::<CaseExpr>()
        || expr.is::<CastExpr>()
        || expr.is::<TryCastExpr>()
        || expr.is::<NotExpr>()
        || expr.is::<NegativeExpr>()
        || expr.is::<IsNullExpr>()
        || expr.is::<IsNotNullExpr>();
    usize::from(is_of_one)
}

/// What stands for expressions.
#[derive(Default)]
struct Answers(Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>);

impl Answers {
    fn put_into(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let answered = |node: Arc<dyn PhysicalExpr>| match self.0.iter().find(|(question, _)| question.eq(&node)) {
            Some((_, answer)) => Ok(Transformed::new(Arc::clone(answer), true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(node)),
        };
        Arc::clone(expr).transform_down(answered).data()
    }

    fn put_into_all(&self, items: &[ProjectionExpr]) -> Result<Vec<ProjectionExpr>> {
        let item = |item: &ProjectionExpr| Ok(ProjectionExpr { expr: self.put_into(&item.expr)?, alias: item.alias.clone() });
        items.iter().map(item).collect()
    }
}
