//! [`GroupsByCodes`]: strings are grouped by as they are stored, as codes of values.
//!
//! A column of a million strings of which a stripe stores the ten thousand that differ has each of the ten thousand looked up among the groups once, and of the million a number each. The
//! engine's grouping hashes and compares the strings of all rows.

mod exec;
mod keys;
mod table;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};

use self::exec::CodedAggregateExec;
use super::aggregates::{scan_of, takes_any_order, with_scan};
use super::codes_of::CodesOf;
use super::of_column::{OfColumn, text_column};

/// A rule for the physical optimizer, to stand behind those of the engine.
///
/// Where the first half of an aggregation stands above a scan of one of our formats, with nothing between that looks at rows, and groups by strings, the scan gives these out as codes, and the groups are found by them. What it
/// hands to the second half is the same. DataFusion lets no rule into a session that is there already, so it has to be given when the session is made:
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
        plan.transform_up(|plan| {
            let coded = plan.downcast_ref::<AggregateExec>().map(coded).transpose()?.flatten();
            Ok(coded.map_or_else(|| Transformed::no(plan), |coded| Transformed::yes(Arc::new(coded))))
        })
        .data()
    }

    fn name(&self) -> &str {
        "GroupsByCodes"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The aggregation by codes; `None` where there are none, or something that only the engine's does.
fn coded(aggregate: &AggregateExec) -> Result<Option<CodedAggregateExec>> {
    let Some(column) = coded_column(aggregate) else { return Ok(None) };
    let Some(input) = with_codes(aggregate.input(), column)? else { return Ok(None) };
    let group = aggregate.group_expr().expr()[0].clone();
    let key = OfColumn::new(&group.0, column, &aggregate.input_schema())?;
    Ok(Some(CodedAggregateExec::new(aggregate, input, group, key)?))
}

/// The column of strings that an aggregation groups by, if by no other, and it does nothing that only the engine's does.
pub(super) fn coded_column(aggregate: &AggregateExec) -> Option<usize> {
    let groups = aggregate.group_expr();
    let is_plain = *aggregate.mode() == AggregateMode::Partial
        && groups.is_single()
        && takes_any_order(aggregate)
        && aggregate.aggr_expr().iter().all(|function| function.groups_accumulator_supported());
    match groups.expr() {
        [(group, _)] if is_plain => text_column(group, &aggregate.input_schema()),
        _ => None,
    }
}

/// The scan with this column of its output as codes; `None` if it is not one that files store.
fn with_codes(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(source) = scan_of(plan) else { return Ok(None) };
    let Some(stored) = source.stored(column) else { return Ok(None) };
    let mut outputs = source.outputs().to_vec();
    outputs[column].expr = Arc::new(CodesOf::new(stored));
    with_scan(plan, source.with_outputs(outputs)).map(Some)
}
