//! What a join says of the rows that it has a partner for, put so that it is cheap to ask and that statistics can answer.
//!
//! A join of partitions has a set of keys for each, and asks of a row whether its key is in that of its own partition: a CASE over the key's hash.
//! To hash the keys and to take a batch apart by them costs more than to look into all the sets, and a page has no hash. But a key that is in
//! one of the sets is in their union. Where there are tables instead of sets, each look into one costs as much as the join itself, and nothing
//! is known of their keys but the bounds.
//!
//! What is said here is true of every row of which the join's word is true, and of some others. The join drops those.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, InListExpr, Literal, in_list, lit};
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_plan::joins::HashTableLookupExpr;

type Expr = Arc<dyn PhysicalExpr>;

/// An expression without choices, that is true wherever `expr` is.
pub(super) fn weakened(expr: &Expr, schema: &Schema) -> Expr {
    if let Some(case) = expr.downcast_ref::<CaseExpr>() {
        let results = case.when_then_expr().iter().map(|(_, then)| then).chain(case.else_expr());
        let results: Vec<Expr> = results.map(|result| weakened(result, schema)).filter(|result| !is_never_true(result)).collect();
        return union_of_sets(&results, schema).unwrap_or_else(|| any_of(results));
    }
    match expr.downcast_ref::<BinaryExpr>() {
        Some(binary) if *binary.op() == Operator::And => {
            conjunction([binary.left(), binary.right()].map(|side| weakened(side, schema)).into_iter().filter(|side| !is_true(side)))
        }
        Some(binary) if *binary.op() == Operator::Or => or(weakened(binary.left(), schema), weakened(binary.right(), schema)),
        _ => Arc::clone(expr),
    }
}

/// Whether it looks rows up in the table of a join.
pub(super) fn has_lookup(expr: &Expr) -> bool {
    expr.exists(|node| Ok(node.downcast_ref::<HashTableLookupExpr>().is_some())).unwrap_or(true)
}

/// One set instead of several, if each of the alternatives is about a set of the same thing.
fn union_of_sets(alternatives: &[Expr], schema: &Schema) -> Option<Expr> {
    let sets = alternatives.iter().map(|alternative| split_conjunction(alternative).into_iter().find_map(set_of));
    let sets = sets.collect::<Option<Vec<&InListExpr>>>()?;
    let (first, others) = sets.split_first()?;
    if others.iter().any(|set| set.expr() != first.expr()) {
        return None;
    }
    let values = sets.iter().flat_map(|set| set.list()).cloned().collect();
    in_list(Arc::clone(first.expr()), values, &false, schema).ok()
}

/// What an expression is in, if that is a set.
pub(super) fn set_of(expr: &Expr) -> Option<&InListExpr> {
    expr.downcast_ref::<InListExpr>().filter(|set| !set.negated())
}

fn any_of(alternatives: Vec<Expr>) -> Expr {
    let is_choice = alternatives.len() > 1;
    let cheap = alternatives.into_iter().map(|alternative| if is_choice { without_lookups(&alternative) } else { alternative });
    cheap.reduce(or).unwrap_or_else(|| lit(false))
}

fn without_lookups(expr: &Expr) -> Expr {
    conjunction(split_conjunction(expr).into_iter().filter(|part| !has_lookup(part)).cloned())
}

fn or(left: Expr, right: Expr) -> Expr {
    if is_true(&left) || is_true(&right) { lit(true) } else { Arc::new(BinaryExpr::new(left, Operator::Or, right)) }
}

fn is_true(expr: &Expr) -> bool {
    literal(expr).is_some_and(|value| *value == ScalarValue::Boolean(Some(true)))
}

/// Whether it is false or null, whatever the row.
pub(super) fn is_never_true(expr: &Expr) -> bool {
    literal(expr).is_some_and(|value| *value == ScalarValue::Boolean(Some(false)) || value.is_null())
}

fn literal(expr: &Expr) -> Option<&ScalarValue> {
    expr.downcast_ref::<Literal>().map(Literal::value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field};
    use datafusion::physical_expr::expressions::{Column, binary, case};

    fn schema() -> Schema {
        Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)])
    }

    fn column(index: usize) -> Expr {
        Arc::new(Column::new(["a", "b"][index], index))
    }

    fn compare(index: usize, operator: Operator, value: i64) -> Expr {
        binary(column(index), operator, lit(value), &schema()).unwrap()
    }

    fn set(index: usize, values: &[i64]) -> Expr {
        in_list(column(index), values.iter().map(|value| lit(*value)).collect(), &false, &schema()).unwrap()
    }

    fn both(left: Expr, right: Expr) -> Expr {
        binary(left, Operator::And, right, &schema()).unwrap()
    }

    /// `CASE a WHEN 0 THEN ... WHEN 1 THEN ... ELSE ... END`
    fn choice(thens: &[Expr], otherwise: Option<Expr>) -> Expr {
        let branches = (0..).zip(thens).map(|(number, then)| (lit(number as i64), Arc::clone(then)));
        case(Some(column(0)), branches.collect(), otherwise).unwrap()
    }

    #[track_caller]
    fn check(expr: &Expr, expected: &str) {
        assert_eq!(weakened(expr, &schema()).to_string(), expected);
    }

    #[test]
    fn sets_of_the_same_column_are_joined() {
        let parts = [both(compare(1, Operator::Gt, 0), set(1, &[1, 2])), both(compare(1, Operator::Gt, 4), set(1, &[5]))];
        check(&choice(&parts, Some(lit(false))), "b@1 IN (SET) ([1, 2, 5])");
        check(&choice(&parts, None), "b@1 IN (SET) ([1, 2, 5])");
        check(&choice(&[set(1, &[1]), set(0, &[2])], None), "b@1 IN (SET) ([1]) OR a@0 IN (SET) ([2])");
    }

    #[test]
    fn what_may_be_anything_says_nothing() {
        check(&choice(&[set(1, &[1])], Some(lit(true))), "true");
        check(&choice(&[lit(false)], None), "false");
        let null_or = |expr| binary(datafusion::physical_expr::expressions::is_null(column(1)).unwrap(), Operator::Or, expr, &schema()).unwrap();
        check(&null_or(choice(&[set(1, &[1]), set(1, &[2])], None)), "b@1 IS NULL OR b@1 IN (SET) ([1, 2])");
        check(&null_or(choice(&[lit(true)], None)), "true");
    }

    #[test]
    fn what_is_no_choice_stays_as_it_is() {
        let plain = both(compare(0, Operator::Lt, 3), both(set(1, &[1]), compare(1, Operator::NotEq, 7)));
        check(&plain, &plain.to_string());
        check(
            &both(compare(0, Operator::Lt, 3), choice(&[compare(1, Operator::Gt, 1), compare(1, Operator::Lt, -1)], None)),
            "a@0 < 3 AND (b@1 > 1 OR b@1 < -1)",
        );
    }
}
