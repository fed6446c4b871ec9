//! What rules about aggregations, and others, above scans have in common.

use std::sync::Arc;

use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, InputOrderMode, Partitioning, ReplaceChildrenOptions};

use super::source::FormatSource;

/// The session with a rule in front of one of the engine's.
pub(super) fn with_rule_before(
    mut builder: SessionStateBuilder,
    next: &dyn PhysicalOptimizerRule,
    rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
) -> SessionStateBuilder {
    let rules = &mut builder.physical_optimizers().get_or_insert_default().rules;
    let place = rules.iter().position(|rule| rule.name() == next.name()).unwrap_or(rules.len());
    rules.insert(place, rule);
    builder
}

/// Functions that take any order without `ORDER BY` and show which one it was.
const ORDERED: [&str; 5] = ["array_agg", "string_agg", "first_value", "last_value", "nth_value"];

/// Whether the rows of an aggregation may come in any order, and nothing is told to the scan while it runs.
pub(super) fn takes_any_order(aggregate: &AggregateExec) -> bool {
    *aggregate.input_order_mode() == InputOrderMode::Linear
        && aggregate.limit_options().is_none()
        && aggregate.dynamic_expressions_produced().is_empty()
        && aggregate.aggr_expr().iter().all(|function| function.order_bys().is_empty() && !ORDERED.contains(&function.fun().name()))
}

/// The scan of one of our formats that makes the batches of a plan, if it gives all of its rows: which the first ones are depends on the order.
pub(super) fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&FormatSource> {
    config_of(plan).map(|(_, source)| source)
}

/// The same scan, and which files it reads.
pub(super) fn config_of(plan: &Arc<dyn ExecutionPlan>) -> Option<(&FileScanConfig, &FormatSource)> {
    let (config, source) = maker(plan).downcast_ref::<DataSourceExec>()?.downcast_to_file_source::<FormatSource>()?;
    config.limit.is_none().then_some((config, source))
}

/// The plan with `source` in the place of the one that [`scan_of`] finds; without one, the plan as it is.
pub(super) fn with_scan(plan: &Arc<dyn ExecutionPlan>, source: FormatSource) -> Result<Arc<dyn ExecutionPlan>> {
    match config_of(plan) {
        Some((config, _)) => with_config(plan, FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build()),
        None => Ok(Arc::clone(plan)),
    }
}

/// The plan with another scan in the place of the one that [`config_of`] finds.
pub(super) fn with_config(plan: &Arc<dyn ExecutionPlan>, config: FileScanConfig) -> Result<Arc<dyn ExecutionPlan>> {
    with_maker(plan, DataSourceExec::from_data_source(config))
}

/// What makes the batches of a plan, which may hand them on as they are.
pub(super) fn maker(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    handed_on(plan).map_or(plan, maker)
}

/// The plan with another one in the place of [`maker`].
pub(super) fn with_maker(plan: &Arc<dyn ExecutionPlan>, maker: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(input) = handed_on(plan) else { return Ok(maker) };
    let input = with_maker(input, maker)?;
    Arc::clone(plan).replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The input of a plan that hands on its batches as they are.
fn handed_on(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let is_in_turn = |exchange: &RepartitionExec| matches!(exchange.partitioning(), Partitioning::RoundRobinBatch(_));
    let hands_on = plan.is::<CooperativeExec>() || plan.downcast_ref::<RepartitionExec>().is_some_and(is_in_turn);
    let [input] = plan.children()[..] else { return None };
    hands_on.then_some(input)
}
