//! [`OffsetsAlone`]: scans read no values of lists of which a query, anywhere above, asks nothing but how long they are.
//!
//! A list keeps its place and its name on its way up, and only its type tells that its values are missing: nothing has to be rewritten but the scan, and a
//! mistake could not be a wrong answer.

mod joins;

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};

use self::joins::needs_of_joined;
use super::narrow::outside;
use super::offsets::offsets_type;
use super::source::FormatSource;

/// A rule for the physical optimizer, to stand behind all others.
///
/// A projection above a scan is part of the scan, which sees by itself that `array_length(l)` needs no values of `l`. Where an exchange, an aggregate,
/// a join, a union, a window or a sort stands between, it takes this rule to see it. DataFusion lets no rule into a session that is there already, so it has to be given when the
/// session is made:
///
/// ```
/// use std::sync::Arc;
/// use datafusion::execution::SessionStateBuilder;
/// use datafusion::prelude::SessionContext;
/// use datafusion_fermion::provider::OffsetsAlone;
///
/// let state = SessionStateBuilder::new().with_default_features().with_physical_optimizer_rule(Arc::new(OffsetsAlone)).build();
/// let context = SessionContext::new_with_state(state);
/// datafusion_fermion::register(&context)?;
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct OffsetsAlone;

impl PhysicalOptimizerRule for OffsetsAlone {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let all = Needs::all(&plan.schema());
        Ok(narrowed(plan, &all)?.data)
    }

    fn name(&self) -> &str {
        "OffsetsAlone"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Of each column whether its values are needed, or else at most its offsets.
#[derive(Debug, Clone)]
struct Needs(Vec<bool>);

impl Needs {
    fn all(schema: &Schema) -> Self {
        Self(vec![true; schema.fields().len()])
    }

    fn none(schema: &Schema) -> Self {
        Self(vec![false; schema.fields().len()])
    }

    fn of(&self, column: usize) -> bool {
        self.0.get(column).is_none_or(|needed| *needed)
    }

    fn add(&mut self, column: usize, is_needed: bool) {
        if let Some(needed) = self.0.get_mut(column) {
            *needed |= is_needed;
        }
    }

    fn add_expr(&mut self, expr: &Arc<dyn PhysicalExpr>, schema: &Schema) {
        if let Some(column) = expr.downcast_ref::<Column>() {
            self.add(column.index(), true);
        } else if outside(expr, schema).is_none_or(|inner| inner.downcast_ref::<Column>().is_none()) {
            expr.children().into_iter().for_each(|child| self.add_expr(child, schema));
        }
    }
}

/// The plan without the values of lists that are not among the `needs` of what is above it.
fn narrowed(plan: Arc<dyn ExecutionPlan>, needs: &Needs) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
        let narrowed = narrowed_scan(scan, needs)?;
        return Ok(narrowed.map_or_else(|| Transformed::no(plan), |scan| Transformed::yes(Arc::new(scan))));
    }
    let (children, is_narrowed) = narrowed_inputs(plan.as_ref(), needs)?;
    if is_narrowed { with_children(plan, children).map(Transformed::yes) } else { Ok(Transformed::no(plan)) }
}

/// The inputs of a plan, and whether any has changed.
fn narrowed_inputs(plan: &dyn ExecutionPlan, needs: &Needs) -> Result<(Vec<Arc<dyn ExecutionPlan>>, bool)> {
    let inputs = plan.children();
    let is_union = plan.is::<UnionExec>() || plan.is::<InterleaveExec>();
    let of_inputs = match inputs.as_slice() {
        _ if is_union => vec![needs.clone(); inputs.len()],
        [input] => vec![needs_of_input(plan, input, needs)?],
        _ => needs_of_joined(plan, needs).map_or_else(|| all_of(&inputs), Vec::from),
    };
    let narrowed = narrowed_each(&inputs, &of_inputs)?;
    // A union is of one type: what one of its inputs cannot leave out, none does.
    let is_uneven = |children: &[Arc<dyn ExecutionPlan>]| children.windows(2).any(|pair| !same_types(&pair[0].schema(), &pair[1].schema()));
    if is_union && is_uneven(&narrowed.0) { narrowed_each(&inputs, &all_of(&inputs)) } else { Ok(narrowed) }
}

fn narrowed_each(inputs: &[&Arc<dyn ExecutionPlan>], needs: &[Needs]) -> Result<(Vec<Arc<dyn ExecutionPlan>>, bool)> {
    let mut is_narrowed = false;
    let mut children = Vec::with_capacity(inputs.len());
    for (input, needs) in inputs.iter().zip(needs) {
        let child = narrowed(Arc::clone(input), needs)?;
        is_narrowed |= child.transformed;
        children.push(child.data);
    }
    Ok((children, is_narrowed))
}

fn all_of(inputs: &[&Arc<dyn ExecutionPlan>]) -> Vec<Needs> {
    inputs.iter().map(|input| Needs::all(&input.schema())).collect()
}

fn has_lists(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| offsets_type(field.data_type()).is_some())
}

fn same_types(a: &Schema, b: &Schema) -> bool {
    a.fields().iter().map(|field| field.data_type()).eq(b.fields().iter().map(|field| field.data_type()))
}

/// What a plan of one input, whose own columns are needed so far, needs of it.
fn needs_of_input(plan: &dyn ExecutionPlan, input: &Arc<dyn ExecutionPlan>, needs: &Needs) -> Result<Needs> {
    let schema = input.schema();
    if !has_lists(&schema) {
        return Ok(Needs::all(&schema));
    }
    let mut of_input = Needs::none(&schema);
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        for (index, item) in projection.expr().iter().enumerate() {
            match item.expr.downcast_ref::<Column>() {
                Some(column) => of_input.add(column.index(), needs.of(index)),
                None => of_input.add_expr(&item.expr, &schema),
            }
        }
        return Ok(of_input);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        // The later ones name columns of what the first one reads, and read something else.
        if aggregate.mode().input_mode() != AggregateInputMode::Raw {
            return Ok(Needs::all(&schema));
        }
    } else if let Some(projected) = plan.downcast_ref::<FilterExec>().and_then(|filter| filter.projection().as_ref()) {
        projected.iter().enumerate().for_each(|(index, column)| of_input.add(*column, needs.of(index)));
    } else if passes_on(plan) {
        of_input = needs.clone();
    } else {
        return Ok(Needs::all(&schema));
    }
    plan.apply_expressions(&mut |expr| {
        of_input.add_expr(expr, &schema);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(of_input)
}

/// Whether the plan's first columns are those of its input, and it does no more with them than its expressions say.
fn passes_on(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<FilterExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<WindowAggExec>()
        || plan.is::<BoundedWindowAggExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<BufferExec>()
}

fn with_children(plan: Arc<dyn ExecutionPlan>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    match (plan.downcast_ref::<ProjectionExec>(), children.as_slice()) {
        // With other children it would keep the types that it had.
        (Some(projection), [input]) => {
            let exprs = projection.expr().to_vec();
            Ok(Arc::new(ProjectionExec::try_new_with_schema_metadata(exprs, Arc::clone(input), &plan.schema())?))
        }
        _ => plan.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute)),
    }
}

/// The scan without values that are not needed; `None` if it needs all that it reads, or is of no format of ours.
fn narrowed_scan(scan: &DataSourceExec, needs: &Needs) -> Result<Option<DataSourceExec>> {
    let Some((config, source)) = scan.downcast_to_file_source::<FormatSource>() else { return Ok(None) };
    let Some(source) = source.without_values(|column| !needs.of(column))? else { return Ok(None) };
    let config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
    Ok(Some(scan.clone().with_data_source(Arc::new(config))))
}
