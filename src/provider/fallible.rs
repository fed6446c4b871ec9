//! Which expressions can fail for some rows.
//!
//! A filter above another one sees only rows that passed that one: `WHERE b <> 0` guards a division above it. When both are evaluated in one
//! scan, what can fail must not see rows that an earlier conjunct has removed.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::functions::string::contains::ContainsFunc;
use datafusion::functions::string::ends_with::EndsWithFunc;
use datafusion::functions::string::lower::LowerFunc;
use datafusion::functions::string::octet_length::OctetLengthFunc;
use datafusion::functions::string::starts_with::StartsWithFunc;
use datafusion::functions::string::upper::UpperFunc;
use datafusion::functions::unicode::character_length::CharacterLengthFunc;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr, TryCastExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

/// Whether evaluating the expression may be an error for the values of some row. `true` where it is not known.
pub(super) fn can_fail(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    node_can_fail(expr, schema) || expr.children().into_iter().any(|child| can_fail(child, schema))
}

fn node_can_fail(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return !compares(*binary.op());
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return !cast.expr().data_type(schema).is_ok_and(|from| widens(&from, cast.cast_type()));
    }
    let is_total = is_total_function(expr.as_ref())
        || expr.downcast_ref::<Column>().is_some()
        || expr.downcast_ref::<Literal>().is_some()
        || expr.downcast_ref::<IsNullExpr>().is_some()
        || expr.downcast_ref::<IsNotNullExpr>().is_some()
        || expr.downcast_ref::<NotExpr>().is_some()
        || expr.downcast_ref::<InListExpr>().is_some()
        || expr.downcast_ref::<LikeExpr>().is_some()
        || expr.downcast_ref::<TryCastExpr>().is_some()
        || expr.downcast_ref::<CaseExpr>().is_some()
        // What it says changes, but always about its children.
        || expr.downcast_ref::<DynamicFilterPhysicalExpr>().is_some();
    !is_total
}

/// Whether it is one of the functions about strings that have an answer for any.
fn is_total_function(expr: &dyn PhysicalExpr) -> bool {
    let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() else { return false };
    let function = function.fun().inner();
    function.is::<CharacterLengthFunc>()
        || function.is::<OctetLengthFunc>()
        || function.is::<LowerFunc>()
        || function.is::<UpperFunc>()
        || function.is::<StartsWithFunc>()
        || function.is::<EndsWithFunc>()
        || function.is::<ContainsFunc>()
}

fn compares(operator: Operator) -> bool {
    use Operator::{And, Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq, Or};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom | And | Or)
}

/// Whether every value of one type has its like in the other.
fn widens(from: &DataType, to: &DataType) -> bool {
    let is_string = |t: &DataType| matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match (from.primitive_width(), to.primitive_width()) {
        _ if from == to || (is_string(from) && is_string(to)) => true,
        (Some(_), Some(_)) if from.is_integer() && to.is_floating() => true,
        (Some(a), Some(b)) if from.is_integer() && to.is_integer() => a < b && (from.is_unsigned_integer() || to.is_signed_integer()),
        (Some(a), Some(b)) => from.is_floating() && to.is_floating() && a < b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;
    use datafusion::config::ConfigOptions;
    use datafusion::functions::string::{repeat, upper};
    use datafusion::functions::unicode::character_length;
    use datafusion::physical_expr::expressions::{binary, cast, in_list, lit};

    #[test]
    fn divisions_and_narrowing_casts_can_fail_and_comparisons_cannot() {
        let schema = Schema::new(vec![Field::new("i", DataType::Int32, true), Field::new("s", DataType::Utf8, true)]);
        let column = |name: &str, index| Arc::new(Column::new(name, index)) as Arc<dyn PhysicalExpr>;
        let (i, s) = (|| column("i", 0), || column("s", 1));
        let of = |left, operator, right| binary(left, operator, right, &schema).unwrap();
        let to = |expr, data_type| cast(expr, &schema, data_type).unwrap();
        let call = |function, args| {
            let call = ScalarFunctionExpr::try_new(function, args, &schema, Arc::new(ConfigOptions::default())).unwrap();
            Arc::new(call) as Arc<dyn PhysicalExpr>
        };
        let cases = [
            (call(character_length(), vec![s()]), false),
            (of(call(character_length(), vec![call(upper(), vec![s()])]), Operator::Gt, lit(3)), false),
            (call(upper(), vec![call(repeat(), vec![s(), lit(1_i64 << 40)])]), true),
            (of(i(), Operator::Gt, lit(3)), false),
            (of(of(i(), Operator::Gt, lit(3)), Operator::And, of(s(), Operator::Eq, lit("x"))), false),
            (of(of(lit(100), Operator::Divide, i()), Operator::Gt, lit(3)), true),
            (of(to(i(), DataType::Int64), Operator::Gt, lit(3_i64)), false),
            (of(to(i(), DataType::Int16), Operator::Gt, lit(3_i16)), true),
            (of(to(i(), DataType::UInt64), Operator::Gt, lit(3_u64)), true),
            (of(to(s(), DataType::Int32), Operator::Gt, lit(3)), true),
            (of(to(s(), DataType::Utf8View), Operator::Eq, to(lit("x"), DataType::Utf8View)), false),
            (in_list(i(), vec![lit(1), lit(2)], &false, &schema).unwrap(), false),
            (in_list(to(s(), DataType::Int32), vec![lit(1), lit(2)], &false, &schema).unwrap(), true),
            (Arc::new(DynamicFilterPhysicalExpr::new(vec![i()], lit(true))), false),
            (Arc::new(DynamicFilterPhysicalExpr::new(vec![to(s(), DataType::Int32)], lit(true))), true),
        ];
        for (expr, expected) in cases {
            assert_eq!(can_fail(&expr, &schema), expected, "{expr}");
        }
    }
}
