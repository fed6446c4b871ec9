//! [`GroupsByCodes`]: strings are grouped by as they are stored, as codes of values.
//!
//! A column of a million strings of which a stripe stores the ten thousand that differ has each of the ten thousand looked up among the groups once, and of the million a number each. The
//! engine's grouping hashes and compares the strings of all rows.

mod exec;
mod keys;
mod table;

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, InputOrderMode, Partitioning, ReplaceChildrenOptions};

use self::exec::CodedAggregateExec;
use self::keys::Key;
use super::source::FormatSource;

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
    let groups = aggregate.group_expr();
    let is_plain = *aggregate.mode() == AggregateMode::Partial
        && groups.is_single()
        && *aggregate.input_order_mode() == InputOrderMode::Linear
        && aggregate.limit_options().is_none()
        && aggregate.dynamic_expressions_produced().is_empty()
        && aggregate.aggr_expr().iter().all(|function| function.order_bys().is_empty() && function.groups_accumulator_supported());
    if !is_plain {
        return Ok(None);
    }
    let [group] = groups.expr() else { return Ok(None) };
    let schema = aggregate.input_schema();
    let Some(column) = column_of_text(&group.0, &schema) else { return Ok(None) };
    let Some(input) = with_codes(aggregate.input(), column)? else { return Ok(None) };
    Ok(Some(CodedAggregateExec::new(aggregate, input, group.clone(), Key::new(&group.0, column, &schema)?)))
}

/// The column of strings of which alone an expression is, always the same of the same string.
fn column_of_text(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<usize> {
    let columns: Vec<Column> = collect_columns(expr).into_iter().collect();
    let [column] = columns.as_slice() else { return None };
    let is_text = matches!(
        schema.fields().get(column.index())?.data_type(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Binary | DataType::LargeBinary | DataType::BinaryView
    );
    (is_text && !is_volatile(expr)).then(|| column.index())
}

/// The scan with this column as codes; `None` if it does not store it.
fn with_codes(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let is_in_turn = |exchange: &RepartitionExec| matches!(exchange.partitioning(), Partitioning::RoundRobinBatch(_));
    if plan.is::<CooperativeExec>() || plan.downcast_ref::<RepartitionExec>().is_some_and(is_in_turn) {
        let [input] = plan.children()[..] else { return Ok(None) };
        let Some(input) = with_codes(input, column)? else { return Ok(None) };
        return Arc::clone(plan).replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute)).map(Some);
    }
    let Some(scan) = plan.downcast_ref::<DataSourceExec>() else { return Ok(None) };
    let Some((config, source)) = scan.downcast_to_file_source::<FormatSource>() else { return Ok(None) };
    let Some(source) = source.with_codes(column) else { return Ok(None) };
    let config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
    Ok(Some(Arc::new(scan.clone().with_data_source(Arc::new(config)))))
}
