//! `=`, `<>` and `LIKE` over a column of strings, for patterns of pieces of text: `'%special%requests%'`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Schema};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, LikeExpr, Literal};

use crate::format::search::Pieces;

/// Strings that have pieces in them, or those that have not.
#[derive(Debug)]
pub(super) struct Like {
    pieces: Pieces,
    negated: bool,
}

impl Like {
    /// The pattern of an expression about the only column of `schema`.
    pub(super) fn of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Self> {
        let [field] = schema.fields().as_ref() else { return None };
        if *field.data_type() != DataType::Utf8View {
            return None;
        }
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            let negated = match binary.op() {
                Operator::Eq => false,
                Operator::NotEq => true,
                _ => return None,
            };
            let text = match (is_column(binary.left()), is_column(binary.right())) {
                (true, false) => text_of(binary.right())?,
                (false, true) => text_of(binary.left())?,
                _ => return None,
            };
            return Some(Self { pieces: Pieces::of_text(text), negated });
        }
        let like = expr.downcast_ref::<LikeExpr>().filter(|like| !like.case_insensitive() && is_column(like.expr()))?;
        Some(Self { pieces: Pieces::of_like(text_of(like.pattern())?)?, negated: like.negated() })
    }

    /// What strings have in them that pass, and whether it is those that have it not.
    pub(super) fn pieces(&self) -> (&Pieces, bool) {
        (&self.pieces, self.negated)
    }

    /// Which strings of an array pass, if that is what it has. Null does not.
    pub(super) fn pass(&self, array: &ArrayRef) -> Option<BooleanBuffer> {
        let strings = array.as_string_view_opt()?;
        let found = self.pieces.found_in(strings);
        let pass = if self.negated { !&found } else { found };
        Some(match strings.nulls() {
            Some(nulls) => &pass & nulls.inner(),
            None => pass,
        })
    }
}

fn is_column(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<Column>().is_some_and(|column| column.index() == 0)
}

/// A constant that is not null.
fn text_of(expr: &Arc<dyn PhysicalExpr>) -> Option<&str> {
    expr.downcast_ref::<Literal>()?.value().try_as_str()?
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringViewArray;
    use arrow::datatypes::Field;
    use datafusion::common::ScalarValue;
    use datafusion::physical_expr::expressions::{binary, col, like, lit};

    #[test]
    fn patterns_of_pieces_are_looked_for_and_others_are_the_engines() {
        let schema = Schema::new(vec![Field::new("c", DataType::Utf8View, true)]);
        let strings: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a special request"), None, Some("requests, special"), Some("")]));
        let passed = |negated, insensitive, pattern: &str| {
            let expr = like(negated, insensitive, col("c", &schema).unwrap(), lit(ScalarValue::Utf8View(Some(pattern.to_owned()))), &schema).unwrap();
            Like::of(&expr, &schema).map(|like| like.pass(&strings).unwrap().iter().collect::<Vec<_>>())
        };
        assert_eq!(passed(false, false, "%special%request%"), Some(vec![true, false, false, false]));
        assert_eq!(passed(true, false, "%special%request%"), Some(vec![false, false, true, true]));
        assert_eq!(passed(false, false, "request%"), Some(vec![false, false, true, false]));
        assert_eq!(passed(true, false, "a special request"), Some(vec![false, false, true, true]));
        assert_eq!((passed(false, true, "%special%"), passed(false, false, "%special"), passed(false, false, "special_")), (None, None, None));
    }

    #[test]
    fn strings_are_compared_with_a_constant_on_either_side() {
        let schema = Schema::new(vec![Field::new("c", DataType::Utf8View, true)]);
        let strings: ArrayRef = Arc::new(StringViewArray::from(vec![Some("special"), None, Some("specially made"), Some("")]));
        let column = || col("c", &schema).unwrap();
        let text = |text: Option<&str>| lit(ScalarValue::Utf8View(text.map(str::to_owned)));
        let passed = |left, operator, right| {
            let expr = binary(left, operator, right, &schema).unwrap();
            Like::of(&expr, &schema).map(|like| like.pass(&strings).unwrap().iter().collect::<Vec<_>>())
        };
        assert_eq!(passed(column(), Operator::Eq, text(Some("special"))), Some(vec![true, false, false, false]));
        assert_eq!(passed(text(Some("specially made")), Operator::Eq, column()), Some(vec![false, false, true, false]));
        assert_eq!(passed(column(), Operator::NotEq, text(Some(""))), Some(vec![true, false, true, false]));
        let others = [(column(), Operator::Lt, text(Some("a"))), (column(), Operator::Eq, text(None)), (column(), Operator::Eq, column())];
        assert!(others.into_iter().all(|(left, operator, right)| passed(left, operator, right).is_none()));
    }
}
