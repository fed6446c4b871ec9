//! [`PartialAggregateExec`]: the first half of an aggregation.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions, apply_expression_roots,
};
use futures::StreamExt;
use futures::stream;

use super::by::{By, Coded};
use super::table::{Function, Keys, Table};
use crate::provider::by_value::ByValue;
use crate::provider::of_column::{OfColumn, text_column};

/// What [`AggregateExec`] does before rows are exchanged, over a scan of one of our formats, with fewer keys looked up.
#[derive(Debug, Clone)]
pub(super) struct PartialAggregateExec {
    input: Arc<dyn ExecutionPlan>,
    keys: Keys,
    by: By,
    functions: Arc<[Function]>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl PartialAggregateExec {
    /// By the codes of the column that the only key is about, which `input` gives out as such.
    pub(super) fn by_codes(aggregate: &AggregateExec, input: Arc<dyn ExecutionPlan>, key: OfColumn) -> Result<Self> {
        let (schema, column) = (aggregate.input_schema(), key.column());
        let functions = functions(aggregate, |expr| by_value(expr, column, &schema))?;
        let by = By::Codes(Coded::new(key, schema, &functions));
        Ok(Self::new(aggregate, input, by, functions))
    }

    /// By rows that follow each other.
    pub(super) fn by_runs(aggregate: &AggregateExec) -> Result<Self> {
        let functions = functions(aggregate, |expr| Ok(Arc::clone(expr)))?;
        Ok(Self::new(aggregate, Arc::clone(aggregate.input()), By::Runs, functions))
    }

    fn new(aggregate: &AggregateExec, input: Arc<dyn ExecutionPlan>, by: By, functions: Arc<[Function]>) -> Self {
        Self {
            input,
            keys: aggregate.group_expr().expr().into(),
            by,
            functions,
            schema: aggregate.schema(),
            properties: Arc::clone(aggregate.properties()),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

/// What is aggregated, of expressions in the place of those of the plan.
fn functions(aggregate: &AggregateExec, expr: impl Fn(&Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>>) -> Result<Arc<[Function]>> {
    let function = |(function, filter): (&Arc<AggregateFunctionExpr>, &Option<Arc<dyn PhysicalExpr>>)| {
        let args = function.expressions().iter().map(&expr).collect::<Result<Vec<_>>>()?;
        Ok(Function { function: Arc::clone(function), args, filter: filter.as_ref().map(&expr).transpose()? })
    };
    aggregate.aggr_expr().iter().zip(aggregate.filter_expr()).map(function).collect()
}

/// An expression about nothing but the column of codes, evaluated of what these stand for.
fn by_value(expr: &Arc<dyn PhysicalExpr>, column: usize, schema: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
    if expr.is::<Column>() || text_column(expr, schema) != Some(column) {
        return Ok(Arc::clone(expr));
    }
    let codes = Arc::new(Column::new(schema.field(column).name(), column));
    Ok(Arc::new(ByValue::new(codes, OfColumn::new(expr, column, schema)?)))
}

impl DisplayAs for PartialAggregateExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |of_key: fn(&(Arc<dyn PhysicalExpr>, String)) -> String| self.keys.iter().map(of_key).collect::<Vec<_>>().join(", ");
        let functions = self.functions.iter().map(|function| function.function.name()).collect::<Vec<_>>().join(", ");
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                let keys = list(|(expr, name)| format!("{expr} as {name}"));
                write!(f, "{}: mode=Partial, gby=[{keys}], aggr=[{functions}]", self.name())?;
                self.by.codes().map_or(Ok(()), |codes| write!(f, ", codes=[{codes}]"))
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "mode=Partial")?;
                writeln!(f, "group_by={}", list(|(_, name)| name.clone()))?;
                writeln!(f, "aggr={functions}")?;
                self.by.codes().map_or(Ok(()), |codes| writeln!(f, "codes={codes}"))
            }
        }
    }
}

impl ExecutionPlan for PartialAggregateExec {
    fn name(&self) -> &'static str {
        self.by.plan_name()
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
        apply_expression_roots(self.keys.iter().map(|(key, _)| key).chain(self.functions.iter().flat_map(Function::exprs)), f)
    }

    fn replace_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>, _: ReplaceChildrenOptions) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() && input.schema() == self.input.schema() => {
                Ok(Arc::new(Self { input, metrics: ExecutionPlanMetricsSet::new(), ..self.as_ref().clone() }))
            }
            _ => internal_err!("an aggregation has one input of the schema that it was made for"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let execution = &context.session_config().options().execution;
        let aggregation = Aggregation {
            input: self.input.execute(partition, Arc::clone(&context))?,
            table: Table::new(&self.keys, &self.by, &self.functions, &self.schema, execution.skip_partial_aggregation_probe_ratio_threshold)?,
            schema: self.schema(),
            batch_rows: context.session_config().batch_size(),
            probe: Probe {
                rows: 0,
                after: execution.skip_partial_aggregation_probe_rows_threshold,
                ratio: execution.skip_partial_aggregation_probe_ratio_threshold,
                skipped: MetricBuilder::new(&self.metrics).counter("skipped_aggregation_rows", partition),
            },
            reservation: MemoryConsumer::new(format!("{}[{partition}]", self.name())).with_can_spill(true).register(context.memory_pool()),
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

/// How many groups that have not been looked up, and bytes of them, go out together: they need not wait for each other.
const GROUPS_APART: usize = 1 << 17;
const BYTES_APART: usize = 32 << 20;

/// The aggregation of one partition.
struct Aggregation {
    input: SendableRecordBatchStream,
    table: Table,
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
    /// That were grouped since groups went out last.
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
                    // No rows need no groups, and nobody has to be handed them.
                    Some(batch) if batch.num_rows() == 0 => {}
                    Some(batch) => {
                        if let Some(rows) = self.group(&batch)? {
                            return Ok(Some(rows));
                        }
                    }
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

    /// Adds the rows of a batch to groups, unless they are better passed on.
    fn group(&mut self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        if let Some(columns) = self.table.add(batch)? {
            return self.handed_on(columns, batch.num_rows()).map(Some);
        }
        self.probe.rows += batch.num_rows();
        if self.table.apart() == 0 && self.probe.is_in_vain(self.table.len()) {
            self.emit(Some(State::PassingOn))?;
        } else if self.is_full() {
            // The other half joins groups that come twice.
            self.emit(Some(State::Grouping))?;
            self.probe.rows = 0;
        }
        Ok(None)
    }

    /// Whether groups go out before all rows have come: there is no memory for more, or they might as well.
    fn is_full(&mut self) -> bool {
        let (size, groups, apart) = (self.table.size(), self.table.len(), self.table.apart());
        let has_room = self.reservation.try_resize(size).is_ok();
        let of_apart = size.checked_div(groups).unwrap_or(0).saturating_mul(apart);
        groups > 0 && (!has_room || apart >= GROUPS_APART || of_apart >= BYTES_APART)
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
        self.handed_on(self.table.passed_on(batch)?, batch.num_rows())
    }

    /// So many rows, which have not been grouped, as they go out.
    fn handed_on(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        self.probe.skipped.add(rows);
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?.record_output(&self.metrics))
    }
}
