//! Fields of structs as columns of their own, for statistics are theirs and not their struct's.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use super::narrow::path;
use super::schema::Columns;
use crate::format::scan::FieldPath;

/// A predicate about columns, and fields of structs that have become columns behind them.
pub(super) struct Lifted {
    pub(super) predicate: Arc<dyn PhysicalExpr>,
    pub(super) schema: SchemaRef,
    /// Where each column of `schema` is in the file.
    pub(super) paths: Vec<FieldPath>,
}

/// Puts a column in the place of each field that the predicate takes out of a struct. The columns of `schema` are `file_columns` of `file`.
pub(super) fn lifted(predicate: Arc<dyn PhysicalExpr>, schema: SchemaRef, file_columns: &[usize], file: &dyn Columns) -> Result<Lifted> {
    let mut fields: Vec<FieldRef> = schema.fields().to_vec();
    let mut paths: Vec<FieldPath> = file_columns.iter().map(|column| (*column).into()).collect();
    if paths.len() != fields.len() || !fields.iter().any(|field| matches!(field.data_type(), DataType::Struct(_))) {
        return Ok(Lifted { predicate, schema, paths });
    }
    let lifted = predicate.transform_down(|node| {
        let Some((column, names)) = path(&node, &schema).filter(|(_, names)| !names.is_empty()) else { return Ok(Transformed::no(node)) };
        let Some((path, field)) = file_columns.get(column).and_then(|column| found(&file.field(*column).ok()?, *column, &names)) else {
            return Ok(Transformed::no(node));
        };
        let index = paths.iter().position(|known| *known == path).unwrap_or_else(|| {
            let name = free_name(&fields, schema.field(column).name(), &names);
            fields.push(Arc::new(Field::new(name, field.data_type().clone(), true)));
            paths.push(path);
            fields.len() - 1
        });
        Ok(Transformed::new(Arc::new(Column::new(fields[index].name(), index)) as _, true, TreeNodeRecursion::Jump))
    })?;
    Ok(Lifted { predicate: lifted.data, schema: Arc::new(Schema::new(fields)), paths })
}

/// Where a column of the file has a field that is not nested.
fn found(field: &FieldRef, column: usize, names: &[String]) -> Option<(FieldPath, FieldRef)> {
    let mut field = field;
    let mut path = FieldPath::from(column);
    for name in names {
        let DataType::Struct(fields) = field.data_type() else { return None };
        let (position, found) = fields.find(name)?;
        path.fields.push(position);
        field = found;
    }
    (!field.data_type().is_nested()).then(|| (path, Arc::clone(field)))
}

/// As it is written in SQL, and not the name of another column.
fn free_name(fields: &[FieldRef], column: &str, names: &[String]) -> String {
    let mut name = names.iter().fold(column.to_owned(), |name, field| format!("{name}['{field}']"));
    while fields.iter().any(|field| *field.name() == name) {
        name.push('\'');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::config::ConfigOptions;
    use datafusion::functions::core::get_field;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::ScalarFunctionExpr;
    use datafusion::physical_expr::expressions::{binary, col, lit};

    fn structure(fields: &[(&str, DataType)]) -> DataType {
        DataType::Struct(fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect())
    }

    #[test]
    fn fields_become_columns_where_the_file_has_them() {
        let all = structure(&[("x", DataType::Int8), ("i", structure(&[("y", DataType::Int8), ("z", DataType::Int32)]))]);
        let taken = Field::new("s['i']['z']", DataType::Int32, true);
        let file = Schema::new(vec![taken.clone(), Field::new("a", DataType::Int32, true), Field::new("s", all, true)]);
        // Only what the predicate uses is read of it.
        let part = Field::new("s", structure(&[("i", structure(&[("z", DataType::Int32)]))]), true);
        let schema = Arc::new(Schema::new(vec![part, taken]));
        let args = vec![col("s", &schema).unwrap(), lit("i"), lit("z")];
        let z: Arc<dyn PhysicalExpr> = Arc::new(ScalarFunctionExpr::try_new(get_field(), args, &schema, Arc::new(ConfigOptions::default())).unwrap());
        let sum = binary(Arc::clone(&z), Operator::Plus, z, &schema).unwrap();
        let predicate = binary(sum, Operator::Gt, col("s['i']['z']", &schema).unwrap(), &schema).unwrap();
        let lifted = lifted(predicate, schema, &[2, 0], &file).unwrap();
        assert_eq!(lifted.predicate.to_string(), "s['i']['z']'@2 + s['i']['z']'@2 > s['i']['z']@1");
        assert_eq!(lifted.paths, [2.into(), 0.into(), FieldPath { column: 2, fields: vec![1, 1] }]);
        assert_eq!(lifted.schema.field(2).data_type(), &DataType::Int32);
    }
}
