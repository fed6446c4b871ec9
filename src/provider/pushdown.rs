//! Which filters a scan keeps: those over stored values of flat columns.
//!
//! The rules are those of DataFusion's Parquet source, so that plans over the same table in either format look the same; and whether a column of any type is null, and how long its lists are.

use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::functions::core::file_row_index::FileRowIndexFunc;
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::functions::core::input_file_name::InputFileNameFunc;
use datafusion::physical_expr::expressions::{Column, IsNotNullExpr, IsNullExpr};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_adapter::rewrite::expr_references_scalar_udf;
use datafusion::physical_expr_common::physical_expr::is_volatile;

use std::sync::Arc;

use super::narrow::outside;

/// Functions of lists that a filter may use.
const LIST_PREDICATES: [&str; 3] = ["array_has", "array_has_all", "array_has_any"];

/// Whether all columns of the filter are in `schema` (partition columns included, virtual ones not) and none is nested, except for
/// flat fields taken out of structs and lists in filters that are made for lists; and nothing is asked that only a projection is given: where a
/// row comes from. Nor may it be volatile: a scan that makes a column of `random()` would make it again to filter by it.
pub(super) fn is_about_stored_values(filter: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let asks_for_place = expr_references_scalar_udf::<FileRowIndexFunc>(filter) || expr_references_scalar_udf::<InputFileNameFunc>(filter);
    if asks_for_place || is_volatile(filter) {
        return false;
    }
    let lists_allowed = has_list_predicate(filter);
    let mut allowed = true;
    let visited = filter.apply(|node| {
        if is_flat_field_access(node, schema) || is_about_no_values(node, schema) {
            return Ok(TreeNodeRecursion::Jump);
        }
        if let Some(column) = node.downcast_ref::<Column>()
            && !is_flat_column(column, schema, lists_allowed)
        {
            allowed = false;
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    visited.is_ok() && allowed
}

fn is_flat_column(column: &Column, schema: &Schema, lists_allowed: bool) -> bool {
    let by_index = schema.fields().get(column.index()).filter(|field| field.name() == column.name());
    let Some(field) = by_index.or_else(|| schema.fields().find(column.name()).map(|(_, field)| field)) else {
        return false;
    };
    match field.data_type() {
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => lists_allowed,
        data_type => !data_type.is_nested(),
    }
}

/// `s['x']['y']` of a column `s` of the schema, with a flat value.
fn is_flat_field_access(node: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let Some(access) = ScalarFunctionExpr::try_downcast_func::<GetFieldFunc>(node.as_ref()) else {
        return false;
    };
    let column = access.args().first().and_then(|arg| arg.downcast_ref::<Column>());
    column.is_some_and(|column| schema.fields().find(column.name()).is_some()) && !access.return_type().is_nested()
}

/// Whether a column or a field of one is null, or how long its lists are: what is known without its values.
fn is_about_no_values(node: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let Some(inner) = outside(node, schema) else { return false };
    let access = ScalarFunctionExpr::try_downcast_func::<GetFieldFunc>(inner.as_ref());
    let of = access.map_or(Some(inner), |access| access.args().first());
    of.and_then(|of| of.downcast_ref::<Column>()).is_some_and(|column| schema.fields().find(column.name()).is_some())
}

fn has_list_predicate(filter: &Arc<dyn PhysicalExpr>) -> bool {
    filter.downcast_ref::<IsNullExpr>().is_some()
        || filter.downcast_ref::<IsNotNullExpr>().is_some()
        || filter.downcast_ref::<ScalarFunctionExpr>().is_some_and(|function| LIST_PREDICATES.contains(&function.name()))
        || filter.children().iter().any(|child| has_list_predicate(child))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{Field, Fields};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::binary;
    use datafusion::physical_expr::expressions::{is_null, lit};

    #[test]
    fn flat_columns_of_the_schema_are_kept_and_nested_or_unknown_ones_are_not() {
        let item = Arc::new(Field::new("item", DataType::Int32, true));
        let schema = Schema::new(vec![
            Field::new("a", DataType::Int32, true),
            Field::new("s", DataType::Struct(Fields::from(vec![Field::new("x", DataType::Int32, true)])), true),
            Field::new("l", DataType::List(item), true),
        ]);
        let column = |name: &str, index| Arc::new(Column::new(name, index)) as Arc<dyn PhysicalExpr>;
        let cases = [
            (binary(column("a", 0), Operator::Gt, lit(1), &schema).unwrap(), true),
            (is_null(column("a", 7)).unwrap(), true),
            (is_null(column("s", 1)).unwrap(), true),
            (binary(column("s", 1), Operator::Eq, column("s", 1), &schema).unwrap(), false),
            (is_null(column("l", 2)).unwrap(), true),
            (column("l", 2), false),
            (column("unknown", 0), false),
            (lit(true), true),
        ];
        for (filter, expected) in cases {
            assert_eq!(is_about_stored_values(&filter, &schema), expected, "{filter}");
        }
    }
}
