//! [`CodedAggregateExec`]: the first half of an aggregation, over codes.

use std::fmt;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::take;
use arrow::datatypes::{SchemaRef, UInt32Type};
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions, apply_expression_roots,
};
use futures::StreamExt;
use futures::stream;

use super::table::{Function, Table};
use crate::provider::by_value::ByValue;
use crate::provider::codes_of::has_each_its_own;
use crate::provider::of_column::{OfColumn, text_column};

/// What [`AggregateExec`] does before rows are exchanged, over a scan that gives the column that is grouped by out as codes.
#[derive(Debug, Clone)]
pub(super) struct CodedAggregateExec {
    input: Arc<dyn ExecutionPlan>,
    /// What rows are grouped by, over the columns of the scan, and its name.
    group: (Arc<dyn PhysicalExpr>, String),
    key: OfColumn,
    functions: Arc<[Function]>,
    rows: Rows,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// How batches become rows of values.
#[derive(Debug, Clone)]
struct Rows {
    /// The column of codes.
    column: usize,
    /// With its values instead.
    schema: SchemaRef,
    /// Whether functions need these.
    are_used: bool,
}

impl CodedAggregateExec {
    pub(super) fn new(
        aggregate: &AggregateExec,
        input: Arc<dyn ExecutionPlan>,
        group: (Arc<dyn PhysicalExpr>, String),
        key: OfColumn,
    ) -> Result<Self> {
        let (schema, column) = (aggregate.input_schema(), key.column());
        let by_value = |expr: &Arc<dyn PhysicalExpr>| by_value(expr, column, &schema);
        let function = |(function, filter): (&Arc<AggregateFunctionExpr>, &Option<Arc<dyn PhysicalExpr>>)| {
            let args = function.expressions().iter().map(by_value).collect::<Result<Vec<_>>>()?;
            Ok(Function { function: Arc::clone(function), args, filter: filter.as_ref().map(by_value).transpose()? })
        };
        let functions = aggregate.aggr_expr().iter().zip(aggregate.filter_expr()).map(function).collect::<Result<Arc<[Function]>>>()?;
        let is_used = |expr: &Arc<dyn PhysicalExpr>| !expr.is::<ByValue>() && collect_columns(expr).iter().any(|used| used.index() == column);
        let are_used = functions.iter().flat_map(Function::exprs).any(is_used);
        Ok(Self {
            input,
            group,
            key,
            functions,
            rows: Rows { column, schema, are_used },
            schema: aggregate.schema(),
            properties: Arc::clone(aggregate.properties()),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

/// An expression about nothing but the column of codes, evaluated of what these stand for.
fn by_value(expr: &Arc<dyn PhysicalExpr>, column: usize, schema: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
    if expr.is::<Column>() || text_column(expr, schema) != Some(column) {
        return Ok(Arc::clone(expr));
    }
    let codes = Arc::new(Column::new(schema.field(column).name(), column));
    Ok(Arc::new(ByValue::new(codes, OfColumn::new(expr, column, schema)?)))
}

impl Rows {
    /// The rows of a batch, with values.
    fn of(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = batch.columns().to_vec();
        if let Some(codes) = columns[self.column].as_dictionary_opt::<UInt32Type>() {
            columns[self.column] = if has_each_its_own(codes) { Arc::clone(codes.values()) } else { take(codes.values(), codes.keys(), None)? };
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// The same, without the values where functions do not need them.
    fn of_functions(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        if self.are_used { self.of(batch) } else { Ok(batch.clone()) }
    }
}

impl DisplayAs for CodedAggregateExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (expr, name) = &self.group;
        let functions = self.functions.iter().map(|function| function.function.name()).collect::<Vec<_>>().join(", ");
        let codes = self.rows.schema.field(self.rows.column).name();
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "CodedAggregateExec: mode=Partial, gby=[{expr} as {name}], aggr=[{functions}], codes=[{codes}]")
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "mode=Partial")?;
                writeln!(f, "group_by={name}")?;
                writeln!(f, "aggr={functions}")?;
                writeln!(f, "codes={codes}")
            }
        }
    }
}

impl ExecutionPlan for CodedAggregateExec {
    fn name(&self) -> &'static str {
        "CodedAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(&self, f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
        apply_expression_roots(std::iter::once(&self.group.0).chain(self.functions.iter().flat_map(Function::exprs)), f)
    }

    fn replace_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>, _: ReplaceChildrenOptions) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() && input.schema() == self.input.schema() => {
                Ok(Arc::new(Self { input, metrics: ExecutionPlanMetricsSet::new(), ..self.as_ref().clone() }))
            }
            _ => internal_err!("CodedAggregateExec has one input of the schema that it was made for"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let execution = &context.session_config().options().execution;
        let aggregation = Aggregation {
            input: self.input.execute(partition, Arc::clone(&context))?,
            table: Table::new(self.key.clone(), Arc::clone(&self.schema.fields()[0]), Arc::clone(&self.functions))?,
            group: Arc::clone(&self.group.0),
            rows: self.rows.clone(),
            schema: self.schema(),
            batch_rows: context.session_config().batch_size(),
            probe: Probe {
                rows: 0,
                after: execution.skip_partial_aggregation_probe_rows_threshold,
                ratio: execution.skip_partial_aggregation_probe_ratio_threshold,
                skipped: MetricBuilder::new(&self.metrics).counter("skipped_aggregation_rows", partition),
            },
            reservation: MemoryConsumer::new(format!("CodedAggregate[{partition}]")).register(context.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            state: State::Grouping,
        };
        let batches =
            stream::try_unfold(aggregation, |mut aggregation| async move { Ok(aggregation.next().await?.map(|batch| (batch, aggregation))) });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The aggregation of one partition.
struct Aggregation {
    input: SendableRecordBatchStream,
    table: Table,
    /// What rows are grouped by, over the columns of the scan.
    group: Arc<dyn PhysicalExpr>,
    rows: Rows,
    schema: SchemaRef,
    batch_rows: usize,
    probe: Probe,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
    state: State,
}

enum State {
    Grouping,
    /// Groups go out from this row on, and then come more, or `None`.
    Emitting(RecordBatch, usize, Option<Box<State>>),
    /// Rows are handed on without groups, of which there were as many.
    PassingOn,
    Done,
}

/// Whether grouping is worth it: rows that make a group each are grouped once, behind the exchange.
struct Probe {
    rows: usize,
    /// Asked of so many rows and more.
    after: usize,
    ratio: f64,
    skipped: Count,
}

impl Probe {
    #[expect(clippy::cast_precision_loss, reason = "a ratio need not be exact")]
    fn is_in_vain(&self, groups: usize) -> bool {
        self.rows >= self.after && groups as f64 / self.rows as f64 > self.ratio
    }
}

impl Aggregation {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            match &mut self.state {
                State::Emitting(batch, from, then) => {
                    if *from < batch.num_rows() {
                        let part = batch.slice(*from, self.batch_rows.min(batch.num_rows() - *from));
                        *from += part.num_rows();
                        return Ok(Some(part.record_output(&self.metrics)));
                    }
                    self.state = then.take().map_or(State::Done, |then| *then);
                    self.reservation.free();
                }
                State::Grouping => match self.input.next().await.transpose()? {
                    Some(batch) => self.group(&batch)?,
                    None => self.emit(None)?,
                },
                State::PassingOn => match self.input.next().await.transpose()? {
                    Some(batch) => return self.pass_on(&batch).map(Some),
                    None => self.state = State::Done,
                },
                State::Done => return Ok(None),
            }
        }
    }

    fn group(&mut self, batch: &RecordBatch) -> Result<()> {
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        self.table.add(batch, &self.rows.of_functions(batch)?)?;
        self.probe.rows += batch.num_rows();
        if self.probe.is_in_vain(self.table.len()) {
            self.emit(Some(State::PassingOn))?;
        } else if self.reservation.try_resize(self.table.size()).is_err() && self.table.len() > 0 {
            // The other half joins groups that come twice.
            self.emit(Some(State::Grouping))?;
            self.probe.rows = 0;
        }
        Ok(())
    }

    /// All groups go out and are forgotten, and then comes something else, or nothing.
    fn emit(&mut self, then: Option<State>) -> Result<()> {
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        if self.table.len() == 0 {
            // The engine's tables do not all have nothing to give.
            self.state = then.unwrap_or(State::Done);
            return Ok(());
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), self.table.take()?)?;
        // What is left is what goes out.
        self.reservation.shrink(self.reservation.size().saturating_sub(batch.get_array_memory_size()));
        self.state = State::Emitting(batch, 0, then.map(Box::new));
        Ok(())
    }

    fn pass_on(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        self.probe.skipped.add(batch.num_rows());
        let columns = self.table.passed_on(&self.group, &self.rows.of(batch)?)?;
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?.record_output(&self.metrics))
    }
}
