//! Casts by which statistics would mislead.
//!
//! Some make different numbers the same one, as of decimals to integers. The engine compares what is cast with a constant by comparing what it was before with that constant cast back, and does so to predicates and to what is asked of statistics. Of these casts
//! that finds fewer values than are equal afterwards, so neither may see them.
//!
//! Others do not keep the order of values: of a day's first and last time, midnight may lie between. The engine takes bounds of what is cast for the cast bounds.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, TryCastExpr};

/// Whether there is a cast in an expression over columns of a schema that makes different numbers the same.
pub(super) fn has_lossy_cast(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<bool> {
    has_cast(expr, schema, loses_digits)
}

/// Whether there is one of which bounds of what is cast do not tell those of the result, in the way in which the engine asks.
pub(super) fn has_misleading_cast(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<bool> {
    has_cast(expr, schema, |from, to| loses_digits(from, to) || !keeps_order(from, to))
}

fn has_cast(expr: &Arc<dyn PhysicalExpr>, schema: &Schema, is_bad: impl Fn(&DataType, &DataType) -> bool) -> Result<bool> {
    expr.exists(|node| {
        let cast = node.downcast_ref::<CastExpr>().map(|cast| (cast.expr(), cast.cast_type()));
        let cast = cast.or_else(|| node.downcast_ref::<TryCastExpr>().map(|cast| (cast.expr(), cast.cast_type())));
        cast.map_or(Ok(false), |(expr, to)| Ok(is_bad(&expr.data_type(schema)?, to)))
    })
}

/// Whether of two values the lesser is never cast to the greater. Only of what is known to be so.
fn keeps_order(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Date64, Dictionary, Duration, Null, RunEndEncoded, Time32, Time64, Timestamp};
    match (from, to) {
        (Dictionary(_, from), to) => keeps_order(from, to),
        (from, Dictionary(_, to)) => keeps_order(from, to),
        (RunEndEncoded(_, from), to) => keeps_order(from.data_type(), to),
        (from, RunEndEncoded(_, to)) => keeps_order(from, to.data_type()),
        (Null, _) => true,
        (from, to) if from == to => true,
        // How the leaves are cast, whoever compares them shows.
        (from, to) if from.is_nested() && to.is_nested() => true,
        (from, to) if is_number(from) && is_number(to) => true,
        (DataType::Boolean, to) => is_number(to),
        (from, to) if is_text(from) && is_text(to) || is_bytes(from) && is_bytes(to) => true,
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) | (Duration(_), Duration(_)) => true,
        (Date32 | Date64, Date32 | Date64 | Timestamp(..)) | (Timestamp(..), Timestamp(..)) => true,
        // Where clocks are put back at midnight, the day before begins again.
        (Timestamp(_, zone), Date32 | Date64) => zone.as_deref().is_none_or(|zone| zone == "UTC" || zone.starts_with(['+', '-'])),
        (from, Date32 | Date64 | Timestamp(..) | Duration(_)) => from.is_integer(),
        (Date32 | Date64 | Timestamp(..) | Duration(_) | Time32(_) | Time64(_), to) => to.is_integer(),
        _ => false,
    }
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_)) || is_text(data_type)
}

/// Of times, the engine knows itself; and of floats it does nothing of that kind.
fn loses_digits(from: &DataType, to: &DataType) -> bool {
    scale(from).zip(scale(to)).is_some_and(|(from, to)| to < from)
}

/// Digits behind the point.
fn scale(data_type: &DataType) -> Option<i8> {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    match data_type {
        DataType::Dictionary(_, of) => scale(of),
        DataType::RunEndEncoded(_, of) => scale(of.data_type()),
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => Some(*scale),
        other => other.is_integer().then_some(0),
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, TimeUnit};
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

    #[test]
    fn only_casts_that_keep_the_order_do_not_mislead() {
        use DataType::*;
        let zoned = |zone: &str| Timestamp(TimeUnit::Microsecond, Some(zone.into()));
        let time = Timestamp(TimeUnit::Nanosecond, None);
        let misleads = |from: &DataType, to: &DataType| {
            let schema = Schema::new(vec![Field::new("c", from.clone(), true)]);
            let cast: Arc<dyn PhysicalExpr> = Arc::new(CastExpr::new(col("c", &schema).unwrap(), to.clone(), None));
            has_misleading_cast(&cast, &schema).unwrap()
        };
        let words = |of: &DataType| Dictionary(Box::new(Int32), Box::new(of.clone()));
        for (from, to) in [
            (Int64, Boolean),
            (Float64, Boolean),
            (Decimal128(9, 2), Int64),
            (time.clone(), Time64(TimeUnit::Nanosecond)),
            (zoned("UTC"), Time32(TimeUnit::Second)),
            (zoned("America/St_Johns"), Date32),
            (Int64, Utf8),
            (Utf8View, Int64),
            (time.clone(), Utf8),
            (Date32, Utf8View),
        ] {
            assert!(misleads(&from, &to), "{from} to {to}");
            assert!(misleads(&words(&from), &to), "words of {from} to {to}");
        }
        for (from, to) in [
            (Int32, Int64),
            (Int64, Float32),
            (Float64, Int8),
            (Int64, Decimal128(20, 2)),
            (Boolean, Int8),
            (time.clone(), Date32),
            (zoned("UTC"), Date32),
            (zoned("+05:30"), Date64),
            (time.clone(), zoned("Europe/Berlin")),
            (zoned("Europe/Berlin"), Int64),
            (Date64, Date32),
            (Date32, time),
            (Int32, Date32),
            (Utf8, Utf8View),
            (Binary, Utf8),
            (Null, Int8),
        ] {
            assert!(!misleads(&from, &to), "{from} to {to}");
            assert!(!misleads(&from, &words(&to)), "{from} to words of {to}");
        }
    }
}
