//! `LIKE` over a column of strings, for patterns of pieces that stand anywhere: `'%special%requests%'`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Schema};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, LikeExpr, Literal};

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
        let like = expr.downcast_ref::<LikeExpr>().filter(|like| !like.case_insensitive() && *field.data_type() == DataType::Utf8View)?;
        like.expr().downcast_ref::<Column>().filter(|column| column.index() == 0)?;
        let pattern = like.pattern().downcast_ref::<Literal>()?.value().try_as_str()??;
        Some(Self { pieces: Pieces::of_like(pattern)?, negated: like.negated() })
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

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringViewArray;
    use arrow::datatypes::Field;
    use datafusion::common::ScalarValue;
    use datafusion::physical_expr::expressions::{col, like, lit};

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
        assert_eq!((passed(false, true, "%special%"), passed(false, false, "special%")), (None, None));
    }
}
