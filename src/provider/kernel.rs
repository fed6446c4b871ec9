//! Conjuncts about one column that are answered without the engine, which does them value by value.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::Schema;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;

use super::between::Between;
use super::like::Like;

/// What is asked of the values of a column.
#[derive(Debug, Clone)]
pub(super) enum Kernel {
    Between(Between),
    Like(Box<Like>),
    Both(Box<[Self; 2]>),
}

impl Kernel {
    /// What an expression asks of the only column of `schema`, if it is one of these.
    pub(super) fn of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Self> {
        if let Some(between) = Between::of(expr, schema) {
            return Some(Self::Between(between));
        }
        match expr.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == Operator::And) {
            Some(both) => Some(Self::Both(Box::new([Self::of(both.left(), schema)?, Self::of(both.right(), schema)?]))),
            None => Like::of(expr, schema).map(|like| Self::Like(Box::new(like))),
        }
    }

    /// Which values of an array pass; `None` if it is not of the column's type. Null does not.
    pub(super) fn pass(&self, array: &ArrayRef) -> Option<BooleanBuffer> {
        match self {
            Self::Between(between) => between.pass(array),
            Self::Like(like) => like.pass(array),
            Self::Both(both) => Some(&both[0].pass(array)? & &both[1].pass(array)?),
        }
    }
}
