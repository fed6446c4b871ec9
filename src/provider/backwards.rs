//! Rows that are wanted in the opposite of the order in which files have them are read from the last one to the first, and not sorted.
//!
//! The engine asks a scan whether it can give an order while it plans, and can be told that the rows come about so: then it sorts them above. That they come
//! exactly so it takes for a promise about rows as they lie. So this rule looks at the finished plan and takes the sort away, where nothing stands between it and the
//! scan. Above filters that the scan does not take the engine does not ask.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions};

use super::aggregates::{config_of, with_config};
use super::ordering::without_nulls;
use super::source::FormatSource;

/// Takes away sorts of all rows above scans of rows that are in the opposite order, which are read backwards instead.
#[derive(Debug, Default)]
pub struct Backwards;

impl PhysicalOptimizerRule for Backwards {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|plan| {
            if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>()
                && let Some(input) = unsorted(merge.input())?
            {
                // Partitions run ahead of each other, as they did when they were sorted. The engine does so, too, where it takes a sort away; but what waits cannot be
                // written to disk, as what is sorted can, so it is no more than a sort would have set aside.
                let most = config.execution.sort_pushdown_buffer_capacity.min(config.execution.sort_spill_reservation_bytes);
                let buffer = BufferExec::new(input, most.max(1));
                let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                return Ok(Transformed::yes(Arc::clone(&plan).replace_children(vec![Arc::new(buffer)], options)?));
            }
            Ok(unsorted(&plan)?.map_or_else(|| Transformed::no(plan), Transformed::yes))
        })
        .data()
    }

    fn name(&self) -> &str {
        "Backwards"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What a sort is above, read so that it need not be sorted. Of the first rows alone that is not done: stripes that may have better ones are passed by, wherever they are.
fn unsorted(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(sort) = plan.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none()) else { return Ok(None) };
    let Some(input) = read_backwards(sort.input())? else { return Ok(None) };
    let is_sorted = input.equivalence_properties().ordering_satisfy(sort.expr().iter().cloned())?;
    Ok(is_sorted.then_some(input))
}

/// The plan over its scan read backwards, if that is known to give the order that the scan was asked for.
fn read_backwards(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some((files, source)) = config_of(plan) else { return Ok(None) };
    let Some((source, order)) = source.backwards() else { return Ok(None) };
    let Some(order) = of_table(&order, &source).filter(|order| has_no_nulls_between(files, order)) else { return Ok(None) };
    let files = FileScanConfigBuilder::from(files.clone()).with_source(Arc::new(source)).with_output_ordering(vec![order]).build();
    with_config(plan, files).map(Some)
}

/// An order of the output in terms of the table's columns.
fn of_table(order: &LexOrdering, source: &FormatSource) -> Option<LexOrdering> {
    let item = |item: &PhysicalSortExpr| {
        let output = source.outputs().get(item.expr.downcast_ref::<Column>()?.index())?;
        let column = output.expr.downcast_ref::<Column>()?;
        Some(PhysicalSortExpr::new(Arc::new(column.clone()), item.options))
    };
    LexOrdering::new(order.iter().map(item).collect::<Option<Vec<_>>>()?)
}

/// Whether no nulls come between those of one file and the next: the bounds by which the engine compares files do not say where they are.
fn has_no_nulls_between(files: &FileScanConfig, order: &LexOrdering) -> bool {
    let mut together = files.file_groups.iter().filter(|group| group.len() > 1).flat_map(|group| group.iter());
    together.all(|file| {
        let known = file.statistics.as_ref().and_then(|statistics| without_nulls(order.clone(), statistics));
        known.is_some_and(|known| known.len() == order.len())
    })
}
