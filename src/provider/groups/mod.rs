//! [`GroupsByCodes`] and [`GroupsByRuns`]: the groups of rows are found with fewer keys looked up.
//!
//! A column of a million strings of which a stripe stores the ten thousand that differ has each of the ten thousand looked up among the groups once, and of the million a number each. The
//! engine's grouping hashes and compares the strings of all rows.
//!
//! Where a user has five rows on average before the next one's come, as in a file that is sorted by users, or by time, the first of the five is looked up, and the others are not. Nor are they counted by a `count(DISTINCT user)` beside other aggregates.

mod by;
mod codes;
mod exec;
mod first;
mod numbers;
mod runs;
mod table;
mod trial;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};

use self::exec::PartialAggregateExec;
use self::first::can_have_runs;
use super::aggregates::{scan_of, takes_any_order, with_scan};
use super::codes_of::CodesOf;
use super::of_column::{OfColumn, text_column};

/// A rule for the physical optimizer, to stand behind those of the engine.
///
/// Where the first half of an aggregation stands above a scan of one of our formats, with nothing between that looks at rows, and groups by strings, the scan gives these out as codes, and the groups are found by them. Where that is in vain, rows are handed to the second half one by one: for good where the engine would, and for a while
/// where a larger part than `skip_partial_aggregation_probe_ratio_threshold` of some ten thousand rows that share no values was new, whatever the engine's threshold of rows is. DataFusion lets no rule into a session that is there already, so it has to be given when the session is made:
///
/// ```
/// use std::sync::Arc;
/// use datafusion::execution::SessionStateBuilder;
/// use datafusion::prelude::SessionContext;
/// use datafusion_fermion::provider::GroupsByCodes;
///
/// let state = SessionStateBuilder::new().with_default_features().with_physical_optimizer_rule(Arc::new(GroupsByCodes)).build();
/// let context = SessionContext::new_with_state(state);
/// datafusion_fermion::register(&context)?;
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct GroupsByCodes;

impl PhysicalOptimizerRule for GroupsByCodes {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        with_partial(plan, coded)
    }

    fn name(&self) -> &str {
        "GroupsByCodes"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A rule for the physical optimizer, to stand behind [`GroupsByCodes`].
///
/// Where the first half of an aggregation stands above a scan of one of our formats, with nothing between that looks at rows, rows that follow each other with the same keys are looked up once, and not at all where most are new: the second half joins groups that come twice. Where there are
/// none, rows are looked up one by one, as by the engine, and handed on for a while where most are new, as by [`GroupsByCodes`]. ([`with_rules`](super::with_rules) adds the rule to a session.)
#[derive(Debug, Clone, Copy, Default)]
pub struct GroupsByRuns;

impl PhysicalOptimizerRule for GroupsByRuns {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        with_partial(plan, by_runs)
    }

    fn name(&self) -> &str {
        "GroupsByRuns"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with others in the place of the engine's aggregations.
fn with_partial(
    plan: Arc<dyn ExecutionPlan>,
    partial: impl Fn(&AggregateExec) -> Result<Option<PartialAggregateExec>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| {
        let partial = plan.downcast_ref::<AggregateExec>().map(&partial).transpose()?.flatten();
        Ok(partial.map_or_else(|| Transformed::no(plan), |partial| Transformed::yes(Arc::new(partial))))
    })
    .data()
}

/// The aggregation by codes; `None` where there are none, or something that only the engine's does.
fn coded(aggregate: &AggregateExec) -> Result<Option<PartialAggregateExec>> {
    let Some(column) = coded_column(aggregate) else { return Ok(None) };
    let Some(input) = with_codes(aggregate.input(), column)? else { return Ok(None) };
    let key = OfColumn::new(&aggregate.group_expr().expr()[0].0, column, &aggregate.input_schema())?;
    Ok(Some(PartialAggregateExec::by_codes(aggregate, input, key)?))
}

/// The column of strings that an aggregation groups by, if by no other, and it does nothing that only the engine's does.
pub(super) fn coded_column(aggregate: &AggregateExec) -> Option<usize> {
    match aggregate.group_expr().expr() {
        [(group, _)] if is_plain(aggregate) => text_column(group, &aggregate.input_schema()),
        _ => None,
    }
}

/// Whether an aggregation is the first half of one, and does nothing that only the engine's does.
fn is_plain(aggregate: &AggregateExec) -> bool {
    *aggregate.mode() == AggregateMode::Partial
        && aggregate.group_expr().is_single()
        && takes_any_order(aggregate)
        && aggregate.aggr_expr().iter().all(|function| function.groups_accumulator_supported())
}

/// The aggregation by runs; `None` where keys cannot be compared with those of the row before, or something is done that only the engine does.
fn by_runs(aggregate: &AggregateExec) -> Result<Option<PartialAggregateExec>> {
    let schema = aggregate.schema();
    let keys = &schema.fields()[..aggregate.group_expr().expr().len().min(schema.fields().len())];
    let have_runs = !keys.is_empty() && keys.iter().all(|key| can_have_runs(key.data_type()));
    if !have_runs || !is_plain(aggregate) || scan_of(aggregate.input()).is_none() {
        return Ok(None);
    }
    PartialAggregateExec::by_runs(aggregate).map(Some)
}

/// The scan with this column of its output as codes; `None` if it is not one that files store.
fn with_codes(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(source) = scan_of(plan) else { return Ok(None) };
    let Some(stored) = source.stored(column) else { return Ok(None) };
    let mut outputs = source.outputs().to_vec();
    outputs[column].expr = Arc::new(CodesOf::new(stored));
    with_scan(plan, source.with_outputs(outputs)).map(Some)
}
