//! [`OfColumn`]: an expression about one column, apart from the rows that it comes with.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;

/// An expression about one column.
#[derive(Debug, Clone, Eq)]
pub(super) struct OfColumn {
    column: usize,
    /// The expression, over batches of the column alone.
    expr: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    /// What it is with the nulls that the column has.
    field: FieldRef,
}

impl OfColumn {
    /// An expression about no other column of `schema`.
    pub(super) fn new(expr: &Arc<dyn PhysicalExpr>, column: usize, schema: &Schema) -> Result<Self> {
        let field = expr.return_field(schema)?;
        let schema = Arc::new(Schema::new(vec![schema.field(column).clone().with_nullable(true)]));
        let moved = |node: Arc<dyn PhysicalExpr>| match node.downcast_ref::<Column>() {
            Some(column) => Ok(Transformed::yes(Arc::new(Column::new(column.name(), 0)) as Arc<dyn PhysicalExpr>)),
            None => Ok(Transformed::no(node)),
        };
        Ok(Self { column, expr: Arc::clone(expr).transform_up(moved).data()?, schema, field })
    }

    /// Where the column is.
    pub(super) fn column(&self) -> usize {
        self.column
    }

    pub(super) fn expr(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expr
    }

    /// The type of the column.
    pub(super) fn column_type(&self) -> &DataType {
        self.schema.field(0).data_type()
    }

    /// What the expression gives.
    pub(super) fn field(&self) -> &FieldRef {
        &self.field
    }

    pub(super) fn evaluate(&self, values: ArrayRef) -> Result<ArrayRef> {
        let count = values.len();
        self.expr.evaluate(&RecordBatch::try_new(Arc::clone(&self.schema), vec![values])?)?.into_array(count)
    }
}

impl PartialEq for OfColumn {
    fn eq(&self, other: &Self) -> bool {
        self.column == other.column && self.expr.eq(&other.expr) && self.schema == other.schema && self.field == other.field
    }
}

impl Hash for OfColumn {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.column.hash(state);
        self.expr.hash(state);
    }
}

/// The column of strings or binaries of which alone an expression is, always the same of the same value.
pub(super) fn text_column(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<usize> {
    let columns: Vec<Column> = collect_columns(expr).into_iter().collect();
    let [column] = columns.as_slice() else { return None };
    let is_text = matches!(
        schema.fields().get(column.index())?.data_type(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Binary | DataType::LargeBinary | DataType::BinaryView
    );
    (is_text && !is_volatile(expr)).then(|| column.index())
}
