//! Casts that make different numbers the same one, as of decimals to integers.
//!
//! The engine compares what is cast with a constant by comparing what it was before with that constant cast back, and does so to predicates and to what is asked of statistics. Of these casts
//! that finds fewer values than are equal afterwards, so neither may see them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, TryCastExpr};

/// Whether there is such a cast in an expression over columns of a schema.
pub(super) fn has_lossy_cast(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<bool> {
    expr.exists(|node| {
        let cast = node.downcast_ref::<CastExpr>().map(|cast| (cast.expr(), cast.cast_type()));
        let cast = cast.or_else(|| node.downcast_ref::<TryCastExpr>().map(|cast| (cast.expr(), cast.cast_type())));
        cast.map_or(Ok(false), |(expr, to)| Ok(loses_digits(&expr.data_type(schema)?, to)))
    })
}

/// Of times, the engine knows itself; and of floats it does nothing of that kind.
fn loses_digits(from: &DataType, to: &DataType) -> bool {
    scale(from).zip(scale(to)).is_some_and(|(from, to)| to < from)
}

/// Digits behind the point.
fn scale(data_type: &DataType) -> Option<i8> {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    match data_type {
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => Some(*scale),
        other => other.is_integer().then_some(0),
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, cast, col, lit, try_cast};

    use super::*;

    #[test]
    fn casts_to_fewer_digits_are_found_wherever_they_are() {
        let schema = Schema::new(vec![Field::new("d", DataType::Decimal128(12, 3), true), Field::new("i", DataType::Int32, true)]);
        let column = |name: &str| col(name, &schema).unwrap();
        let is_found = |expr: Arc<dyn PhysicalExpr>, constant: i64| {
            let constant = cast(lit(constant), &schema, expr.data_type(&schema).unwrap()).unwrap();
            has_lossy_cast(&binary(expr, Operator::Lt, constant, &schema).unwrap(), &schema).unwrap()
        };
        for to in [DataType::Int32, DataType::UInt8, DataType::Decimal128(20, 2), DataType::Decimal64(9, 0), DataType::Decimal256(40, -1)] {
            assert!(is_found(cast(column("d"), &schema, to.clone()).unwrap(), 1), "{to}");
            assert!(is_found(try_cast(column("d"), &schema, to.clone()).unwrap(), 1), "{to}");
        }
        for to in [DataType::Decimal128(4, 3), DataType::Decimal256(40, 7)] {
            assert!(!is_found(cast(column("d"), &schema, to).unwrap(), 1));
        }
        for to in [DataType::Int8, DataType::Int64, DataType::Decimal128(20, 2)] {
            assert!(!is_found(cast(column("i"), &schema, to).unwrap(), 1));
        }
        assert!(!is_found(column("d"), 1));
    }
}
