//! What a condition about several columns says about the first of them: with that, most rows are dropped before another column is read.
//!
//! A sort by several columns asks of a row whether it comes before the last one that it keeps: `a < 5 OR (a = 5 AND b < 7)`. That is so of no row but those with `a <= 5`.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction};

use super::weaken::is_never_true;

type Expr = Arc<dyn PhysicalExpr>;

/// The column that comes first, if the condition is that of a sort or a join, which may change, about several.
pub(super) fn leading_column(expr: &Expr, schema: &Schema) -> Option<usize> {
    let dynamic = expr.downcast_ref::<DynamicFilterPhysicalExpr>()?;
    let column = only_column(dynamic.children().first()?)?;
    (schema.fields().len() > 1 && column < schema.fields().len()).then_some(column)
}

/// A condition about that column alone, which is the first then. It is true wherever `expr` is; `None` if nothing is known but that.
pub(super) fn about(expr: &Expr, column: usize) -> Option<Expr> {
    let about = part_about(expr, column)?;
    let moved = about.transform(|node| {
        Ok(match node.downcast_ref::<Column>() {
            Some(column) => Transformed::yes(Arc::new(Column::new(column.name(), 0)) as Expr),
            None => Transformed::no(node),
        })
    });
    moved.data().ok()
}

fn part_about(expr: &Expr, column: usize) -> Option<Expr> {
    match expr.downcast_ref::<BinaryExpr>() {
        Some(binary) if *binary.op() == Operator::And => {
            let parts: Vec<Expr> = [binary.left(), binary.right()].into_iter().filter_map(|side| part_about(side, column)).collect();
            (!parts.is_empty()).then(|| conjunction(parts))
        }
        Some(binary) if *binary.op() == Operator::Or => {
            let mut alternatives = Vec::new();
            add_alternatives(expr, column, &mut alternatives)?;
            alternatives.into_iter().reduce(|either, or| Arc::new(BinaryExpr::new(either, Operator::Or, or)))
        }
        _ => (only_column(expr) == Some(column)).then(|| Arc::clone(expr)),
    }
}

/// Adds what one of several conditions has to be, if all of them say something about the column.
fn add_alternatives(expr: &Expr, column: usize, alternatives: &mut Vec<Expr>) -> Option<()> {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == Operator::Or) {
        add_alternatives(binary.left(), column, alternatives)?;
        return add_alternatives(binary.right(), column, alternatives);
    }
    if is_never_true(expr) {
        return Some(());
    }
    let part = part_about(expr, column)?;
    match alternatives.iter_mut().find_map(|known| joined(known, &part).map(|joined| (known, joined))) {
        Some((known, joined)) => *known = joined,
        None => alternatives.push(part),
    }
    Some(())
}

/// One condition instead of two, of which one has to be true.
fn joined(one: &Expr, other: &Expr) -> Option<Expr> {
    if one == other {
        return Some(Arc::clone(one));
    }
    let (one, other) = (one.downcast_ref::<BinaryExpr>()?, other.downcast_ref::<BinaryExpr>()?);
    let operator = match (one.op(), other.op()) {
        (Operator::Lt | Operator::LtEq, Operator::Eq) => Operator::LtEq,
        (Operator::Gt | Operator::GtEq, Operator::Eq) => Operator::GtEq,
        _ => return None,
    };
    let is_of_the_same = one.left() == other.left() && one.right() == other.right();
    is_of_the_same.then(|| Arc::new(BinaryExpr::new(Arc::clone(one.left()), operator, Arc::clone(one.right()))) as Expr)
}

/// The column that an expression is about, if that is one.
fn only_column(expr: &Expr) -> Option<usize> {
    let columns = collect_columns(expr);
    if columns.len() > 1 { None } else { columns.iter().next().map(Column::index) }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int32Array, RecordBatch};
    use arrow::datatypes::{DataType, Field};
    use datafusion::common::ScalarValue;
    use datafusion::physical_expr::expressions::{binary, is_null, lit};

    use super::*;

    fn schema() -> Schema {
        Schema::new(["a", "b", "c"].map(|name| Field::new(name, DataType::Int32, true)).to_vec())
    }

    fn column(index: usize) -> Expr {
        Arc::new(Column::new(["a", "b", "c"][index], index))
    }

    fn compare(index: usize, operator: Operator, value: i32) -> Expr {
        binary(column(index), operator, lit(value), &schema()).unwrap()
    }

    fn all<const N: usize>(parts: [Expr; N]) -> Expr {
        parts.into_iter().reduce(|all, part| binary(all, Operator::And, part, &schema()).unwrap()).unwrap()
    }

    fn any<const N: usize>(parts: [Expr; N]) -> Expr {
        parts.into_iter().reduce(|any, part| binary(any, Operator::Or, part, &schema()).unwrap()).unwrap()
    }

    #[test]
    fn a_sort_bounds_its_first_column() {
        use Operator::{Eq, Gt, Lt};
        let sort = |operator| {
            let first = compare(0, operator, 5);
            let second = all([compare(0, Eq, 5), compare(1, Lt, 7)]);
            let third = all([all([compare(0, Eq, 5), compare(1, Eq, 7)]), compare(2, Gt, 9)]);
            [first, second, third]
        };
        assert_eq!(about(&any(sort(Lt)), 0).unwrap().to_string(), "a@0 <= 5");
        let [first, second, third] = sort(Gt);
        let nulls_first = any([is_null(column(0)).unwrap(), first]);
        assert_eq!(about(&any([nulls_first, second, third]), 0).unwrap().to_string(), "a@0 IS NULL OR a@0 >= 5");
        // The last one that it keeps is null: of those, only some.
        let null = || is_null(column(0)).unwrap();
        assert_eq!(about(&any([lit(false), all([null(), compare(1, Lt, 7)])]), 0).unwrap().to_string(), "a@0 IS NULL");
        assert!(about(&any([lit(false), lit(ScalarValue::Boolean(None))]), 0).is_none());
        // It says nothing about the others by themselves.
        assert!(about(&any(sort(Lt)), 1).is_none());
    }

    #[test]
    fn a_join_bounds_each_column() {
        use Operator::{GtEq, LtEq};
        let sum = binary(column(0), Operator::Plus, column(1), &schema()).unwrap();
        let join = all([compare(0, GtEq, 1), compare(0, LtEq, 5), compare(1, GtEq, 7), binary(sum, Operator::NotEq, lit(6), &schema()).unwrap()]);
        assert_eq!(about(&join, 0).unwrap().to_string(), "a@0 >= 1 AND a@0 <= 5");
        assert_eq!(about(&join, 1).unwrap().to_string(), "b@0 >= 7");
        assert!(about(&join, 2).is_none());
    }

    #[test]
    fn what_passes_all_passes_the_part() {
        use Operator::{Eq, Gt, GtEq, Lt};
        let values = [None, Some(4), Some(5), Some(6)];
        let rows: Vec<[Option<i32>; 3]> = (0..64).map(|row| [row / 16, row / 4 % 4, row % 4].map(|value| values[value])).collect();
        let array = |index: usize| Arc::new(rows.iter().map(|row| row[index]).collect::<Int32Array>()) as _;
        let batch = RecordBatch::try_new(Arc::new(schema()), vec![array(0), array(1), array(2)]).unwrap();
        let passing = |expr: &Expr, batch: &RecordBatch| -> Vec<bool> {
            let passed = expr.evaluate(batch).unwrap().into_array(batch.num_rows()).unwrap();
            passed.as_boolean().iter().map(|passed| passed == Some(true)).collect()
        };
        let null = |index| is_null(column(index)).unwrap();
        let conditions = [
            any([compare(0, Lt, 5), all([compare(0, Eq, 5), compare(1, Gt, 5)])]),
            any([null(0), compare(0, Gt, 5), all([compare(0, Eq, 5), any([null(1), compare(1, Lt, 5)])])]),
            any([all([compare(0, GtEq, 5), compare(1, Gt, 4)]), all([compare(0, Eq, 5), compare(2, Gt, 4)])]),
            all([any([compare(0, Lt, 5), compare(0, Eq, 6)]), compare(1, Lt, 6)]),
            any([compare(0, Lt, 5), compare(0, Eq, 6), compare(0, Lt, 6), compare(1, Lt, 0)]),
        ];
        let mut dropped = 0;
        for condition in &conditions {
            for index in 0..3 {
                let Some(part) = about(condition, index) else { continue };
                let alone = batch.project(&[index]).unwrap();
                let (passed, kept) = (passing(condition, &batch), passing(&part, &alone));
                assert!(passed.iter().zip(&kept).all(|(passed, kept)| !passed || *kept), "{condition}: {part}");
                dropped += kept.iter().filter(|kept| !**kept).count();
            }
        }
        assert!(dropped > 0);
    }

    #[test]
    fn the_first_of_several_columns_leads() {
        let dynamic = |children: Vec<Expr>| Arc::new(DynamicFilterPhysicalExpr::new(children, lit(true))) as Expr;
        assert_eq!(leading_column(&dynamic(vec![column(1), column(0)]), &schema()), Some(1));
        let sum = binary(column(0), Operator::Plus, column(1), &schema()).unwrap();
        assert_eq!(leading_column(&dynamic(vec![sum, column(0)]), &schema()), None);
        let one = Schema::new(vec![Field::new("a", DataType::Int32, true)]);
        assert_eq!(leading_column(&dynamic(vec![column(0)]), &one), None);
        assert_eq!(leading_column(&compare(0, Operator::Lt, 5), &schema()), None);
    }
}
