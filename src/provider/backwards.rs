//! Rows that are wanted in the opposite of the order in which files have them are read from the last one to the first, and not sorted.
//!
//! The engine asks a scan whether it can give an order while it plans, and can be told that the rows come about so: then it sorts them above. That they come
//! exactly so it takes for a promise about rows as they lie. So this rule looks at the finished plan and takes the sort away.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions};

use super::ordering::without_nulls;
use super::source::FormatSource;

/// Takes away sorts of all rows above scans of rows that are in the opposite order, which are read backwards instead.
#[derive(Debug, Default)]
pub struct Backwards;

impl PhysicalOptimizerRule for Backwards {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            // Of the first rows alone, stripes that may have better ones are passed by, wherever they are.
            let Some(sort) = plan.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none()) else { return Ok(Transformed::no(plan)) };
            Ok(match read_backwards(sort.input())? {
                Some(input) if is_ordered(&input, sort.expr())? => Transformed::yes(input),
                _ => Transformed::no(plan),
            })
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

fn is_ordered(plan: &Arc<dyn ExecutionPlan>, order: &LexOrdering) -> Result<bool> {
    plan.equivalence_properties().ordering_satisfy(order.iter().cloned())
}

/// The plan over its scan read backwards, if that is known to give the order that the scan was asked for.
fn read_backwards(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if plan.is::<CooperativeExec>() || plan.is::<FilterExec>() {
        let [input] = plan.children()[..] else { return Ok(None) };
        let Some(input) = read_backwards(input)? else { return Ok(None) };
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        return Arc::clone(plan).replace_children(vec![input], options).map(Some);
    }
    let Some(scan) = plan.downcast_ref::<DataSourceExec>() else { return Ok(None) };
    let Some((files, source)) = scan.downcast_to_file_source::<FormatSource>() else { return Ok(None) };
    let Some((source, order)) = source.backwards() else { return Ok(None) };
    let Some(order) = of_table(&order, &source).filter(|order| has_no_nulls_within(files, order)) else { return Ok(None) };
    if files.limit.is_some() || !scan.schema().fields().iter().all(|field| can_be_turned(field)) {
        return Ok(None);
    }
    let files = FileScanConfigBuilder::from(files.clone()).with_source(Arc::new(source)).with_output_ordering(vec![order]).build();
    Ok(Some(Arc::new(scan.clone().with_data_source(Arc::new(files)))))
}

/// An order of the output in terms of the table's columns. The engine finds them by their names, so that of other names nothing is known in the end.
fn of_table(order: &LexOrdering, source: &FormatSource) -> Option<LexOrdering> {
    let item = |item: &PhysicalSortExpr| {
        let output = source.outputs().get(item.expr.downcast_ref::<Column>()?.index())?;
        let column = output.expr.downcast_ref::<Column>()?;
        Some(PhysicalSortExpr::new(Arc::new(column.clone()), item.options))
    };
    LexOrdering::new(order.iter().map(item).collect::<Option<Vec<_>>>()?)
}

/// Whether no nulls come between those of one file and the next: the bounds by which the engine compares files do not say where they are.
fn has_no_nulls_within(files: &FileScanConfig, order: &LexOrdering) -> bool {
    let mut together = files.file_groups.iter().filter(|group| group.len() > 1).flat_map(|group| group.iter());
    together.all(|file| {
        let known = file.statistics.as_ref().and_then(|statistics| without_nulls(order.clone(), statistics));
        known.is_some_and(|known| known.len() == order.len())
    })
}

/// Whether Arrow's kernels turn the rows of all arrays of a type.
fn can_be_turned(field: &Field) -> bool {
    match field.data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _) => can_be_turned(item),
        DataType::FixedSizeList(item, length) => *length > 0 && can_be_turned(item),
        DataType::Struct(fields) => !fields.is_empty() && fields.iter().all(|field| can_be_turned(field)),
        DataType::FixedSizeBinary(length) => *length > 0,
        DataType::RunEndEncoded(..) => false,
        other => !other.is_nested(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{Fields, UnionFields, UnionMode};

    #[test]
    fn arrays_are_turned_where_every_row_takes_some_room() {
        let can = |data_type: DataType| can_be_turned(&Field::new("c", data_type, true));
        let item = |data_type: DataType| Arc::new(Field::new_list_field(data_type, true));
        let fields =
            |data_type: DataType| DataType::Struct(Fields::from(vec![Field::new("a", DataType::Int8, true), Field::new("b", data_type, true)]));
        let codes = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        for turned in [DataType::Utf8View, DataType::Null, DataType::FixedSizeBinary(1), DataType::Decimal256(40, 2), codes] {
            assert!(can(turned.clone()) && can(DataType::List(item(turned.clone()))) && can(fields(turned.clone())), "{turned}");
            assert!(can(DataType::FixedSizeList(item(turned.clone()), 2)), "{turned}");
        }
        let of_nothing = [
            DataType::FixedSizeBinary(0),
            DataType::FixedSizeList(item(DataType::Int8), 0),
            DataType::Struct(Fields::empty()),
            DataType::ListView(item(DataType::Int8)),
            DataType::Union(UnionFields::empty(), UnionMode::Dense),
            DataType::RunEndEncoded(Arc::new(Field::new("run_ends", DataType::Int16, false)), item(DataType::Int8)),
        ];
        for other in of_nothing {
            assert!(!can(other.clone()) && !can(DataType::LargeList(item(other.clone()))) && !can(fields(other.clone())), "{other}");
        }
    }
}
