//! From expressions over the table to expressions over the columns of one file.
//!
//! A table's files may lack columns, have them in another order or in another type. Everything here costs what the columns that are
//! *used* cost: a query of one column of a hundred thousand looks at one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{ColumnStatistics, ScalarValue, internal_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprSimplifier};
use datafusion::physical_expr_adapter::{DefaultPhysicalExprAdapterFactory, PhysicalExprAdapterFactory};

use super::lossy::has_lossy_cast;
use super::narrow::narrowed;
use super::schema::{ColumnFinder, Columns, Positions, is_read_as};

/// Where a column of a batch comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// This column of the file.
    File(usize),
    /// The number of the row in the file.
    RowIndex,
}

/// Expressions over columns of one file.
#[derive(Debug)]
pub(super) struct Adapted {
    /// The expressions, in terms of `schema`.
    pub(super) exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// The columns of the file that they use, in the order of `schema`.
    pub(super) file_columns: Vec<usize>,
    /// Those columns, and the row's number at the end if it is used.
    pub(super) schema: SchemaRef,
    /// Whether it is used.
    pub(super) uses_row_index: bool,
}

/// Rewrites expressions over `table` for a file with the columns `file`.
///
/// Partition columns must have been replaced by their values. `factory` is the user's own way to adapt, if there is one.
pub(super) fn adapt(
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    table: &TableSchema,
    file: &dyn Columns,
    positions: &Positions,
    factory: Option<&Arc<dyn PhysicalExprAdapterFactory>>,
) -> Result<Adapted> {
    let used = used_columns(&exprs, table.table_schema())?;
    let both = match factory {
        None => Schemas::of_used(&used, table, file, positions)?,
        // A user's adapter may look for a column under any name, so it is shown everything.
        Some(_) => Schemas::of_used(&all_columns(table), table, file, positions)?,
    };
    let exprs = both.rewrite(exprs, factory)?;
    both.compact(exprs)
}

/// The table's columns that the expressions use, by index.
fn used_columns(exprs: &[Arc<dyn PhysicalExpr>], table: &Schema) -> Result<BTreeMap<usize, FieldRef>> {
    let mut used = BTreeMap::new();
    let mut finder = ColumnFinder::new(table);
    for expr in exprs {
        expr.apply(|node| {
            if let Some(column) = node.downcast_ref::<Column>() {
                let Some(index) = finder.find(column.name(), column.index()) else {
                    return internal_err!("{column} is not a column of the table");
                };
                used.entry(index).or_insert_with(|| Arc::clone(&table.fields()[index]));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(used)
}

fn all_columns(table: &TableSchema) -> BTreeMap<usize, FieldRef> {
    let in_files = table.file_schema().fields().len();
    let partitions = table.table_partition_cols().len();
    let fields = table.table_schema().fields().iter().enumerate();
    fields.filter(|(index, _)| *index < in_files || *index >= in_files + partitions).map(|(index, field)| (index, Arc::clone(field))).collect()
}

/// The same columns as the table and as the file have them.
struct Schemas {
    logical: SchemaRef,
    physical: SchemaRef,
    /// Where the physical columns come from.
    sources: Vec<Source>,
}

impl Schemas {
    fn of_used(used: &BTreeMap<usize, FieldRef>, table: &TableSchema, file: &dyn Columns, positions: &Positions) -> Result<Self> {
        let in_files = table.file_schema().fields().len();
        let partitions = table.table_partition_cols().len();
        let mut finder = ColumnFinder::new(file);
        let mut physical: Vec<FieldRef> = Vec::with_capacity(used.len());
        let mut sources = Vec::with_capacity(used.len());
        for (index, field) in used {
            if *index < in_files {
                if let Some(column) = finder.find(field.name(), positions.of_column(*index)) {
                    physical.push(read_as(&file.field(column)?, field));
                    sources.push(Source::File(column));
                }
            } else if *index >= in_files + partitions {
                physical.push(Arc::clone(field));
                sources.push(Source::RowIndex);
            } else {
                return internal_err!("the partition column {} has no value", field.name());
            }
        }
        let logical: Vec<FieldRef> = used.values().map(Arc::clone).collect();
        let metadata = table.file_schema().metadata();
        Ok(Self {
            logical: Arc::new(Schema::new_with_metadata(logical, metadata.clone())),
            physical: Arc::new(Schema::new_with_metadata(physical, metadata.clone())),
            sources,
        })
    }

    /// The expressions in terms of the physical schema.
    fn rewrite(
        &self,
        exprs: Vec<Arc<dyn PhysicalExpr>>,
        factory: Option<&Arc<dyn PhysicalExprAdapterFactory>>,
    ) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        let default: Arc<dyn PhysicalExprAdapterFactory> = Arc::new(DefaultPhysicalExprAdapterFactory);
        let adapter = factory.unwrap_or(&default).create(Arc::clone(&self.logical), Arc::clone(&self.physical))?;
        // The adapter looks through the schemas for every column, so it is only asked where there is something to adapt.
        let different = self.different();
        let mut finder = ColumnFinder::new(self.physical.as_ref());
        let rewritten = exprs.into_iter().map(|expr| {
            let is_plain = factory.is_none() && !uses_any(&expr, &different);
            self.simplify(if is_plain { renumber(expr, &mut finder)? } else { adapter.rewrite(expr)? })
        });
        rewritten.collect()
    }

    /// Names of the columns that the file lacks or has as something else.
    fn different(&self) -> HashSet<&str> {
        let mut finder = ColumnFinder::new(self.physical.as_ref());
        let fields = self.logical.fields().iter().enumerate();
        let is_different = |(index, field): &(usize, &FieldRef)| {
            let found = finder.find(field.name(), *index);
            found.is_none_or(|found| self.physical.field(found) != field.as_ref())
        };
        fields.filter(is_different).map(|(_, field)| field.name().as_str()).collect()
    }

    fn simplify(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        if expr.downcast_ref::<Column>().is_some() {
            return Ok(expr);
        }
        if has_lossy_cast(&expr, &self.physical)? { Ok(expr) } else { PhysicalExprSimplifier::new(&self.physical).simplify(expr) }
    }

    /// Leaves out the columns that no expression uses any more, and the parts of nested ones that none asks for.
    fn compact(self, mut exprs: Vec<Arc<dyn PhysicalExpr>>) -> Result<Adapted> {
        let positions: Vec<usize> = used_columns(&exprs, &self.physical)?.into_keys().collect();
        let source = |position: &usize| self.sources.get(*position).copied();
        let file_columns = positions
            .iter()
            .filter_map(|position| match source(position) {
                Some(Source::File(column)) => Some(column),
                _ => None,
            })
            .collect();
        let uses_row_index = positions.iter().any(|position| source(position) == Some(Source::RowIndex));
        if positions.len() == self.physical.fields().len() {
            let schema = narrowed(&mut exprs, self.physical)?;
            return Ok(Adapted { exprs, file_columns, schema, uses_row_index });
        }
        let schema = Arc::new(self.physical.project(&positions)?);
        let mut finder = ColumnFinder::new(schema.as_ref());
        let mut exprs = exprs.into_iter().map(|expr| renumber(expr, &mut finder)).collect::<Result<Vec<_>>>()?;
        let schema = narrowed(&mut exprs, schema)?;
        Ok(Adapted { exprs, file_columns, schema, uses_row_index })
    }
}

/// The field that the scan is asked for: the table's wherever the file can be read as it without a cast.
fn read_as(file: &FieldRef, table: &FieldRef) -> FieldRef {
    if !is_read_as(file.data_type(), table.data_type()) {
        return Arc::clone(file);
    }
    if table.is_nullable() || !file.is_nullable() {
        return Arc::clone(table);
    }
    Arc::new(table.as_ref().clone().with_nullable(true))
}

fn uses_any(expr: &Arc<dyn PhysicalExpr>, names: &HashSet<&str>) -> bool {
    let uses = |node: &Arc<dyn PhysicalExpr>| Ok(node.downcast_ref::<Column>().is_some_and(|column| names.contains(column.name())));
    !names.is_empty() && expr.exists(uses).unwrap_or(true)
}

/// Points columns to where the finder has them.
fn renumber(expr: Arc<dyn PhysicalExpr>, finder: &mut ColumnFinder<'_>) -> Result<Arc<dyn PhysicalExpr>> {
    let renumbered = expr.transform_down(|node| {
        let Some(column) = node.downcast_ref::<Column>() else {
            return Ok(Transformed::no(node));
        };
        match finder.find(column.name(), column.index()) {
            Some(index) if index == column.index() => Ok(Transformed::no(node)),
            Some(index) => Ok(Transformed::yes(Arc::new(Column::new(column.name(), index)) as _)),
            None => internal_err!("{column} is not a column of the file"),
        }
    })?;
    Ok(renumbered.data)
}

/// The values of the columns that are the same in all rows of a file: those of its partition, and of `used` columns those whose statistics say so.
pub(super) fn constants(file: &PartitionedFile, table: &TableSchema, exprs: &[Arc<dyn PhysicalExpr>]) -> Result<HashMap<String, ScalarValue>> {
    let partition = table.table_partition_cols().iter().zip(&file.partition_values);
    let mut constants: HashMap<String, ScalarValue> = partition.map(|(field, value)| (field.name().clone(), value.clone())).collect();
    let Some(statistics) = &file.statistics else {
        return Ok(constants);
    };
    let rows = match statistics.num_rows {
        Precision::Exact(rows) => Some(rows),
        _ => None,
    };
    let in_files = table.file_schema().fields().len();
    for (index, field) in used_columns(exprs, table.table_schema())? {
        if let Some(column) = statistics.column_statistics.get(index).filter(|_| index < in_files)
            && let Some(value) = constant(column, rows, &field)
        {
            constants.insert(field.name().clone(), value);
        }
    }
    Ok(constants)
}

fn constant(column: &ColumnStatistics, rows: Option<usize>, field: &FieldRef) -> Option<ScalarValue> {
    let Precision::Exact(nulls) = column.null_count else {
        return None;
    };
    if rows == Some(nulls) {
        return ScalarValue::try_new_null(field.data_type()).ok();
    }
    match (&column.min_value, &column.max_value) {
        (Precision::Exact(min), Precision::Exact(max)) if nulls == 0 && min == max && !min.is_null() => min.cast_to(field.data_type()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, lit};

    fn column(name: &str, index: usize) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new(name, index))
    }

    fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
        Arc::new(Schema::new(fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect::<Vec<_>>()))
    }

    fn text(adapted: &Adapted) -> Vec<String> {
        adapted.exprs.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn equal_schemas_only_renumber_and_read_only_what_is_used() {
        let table = TableSchema::from(schema(&[("a", DataType::Int32), ("b", DataType::Utf8View), ("c", DataType::Int32)]));
        let file = schema(&[("a", DataType::Int32), ("b", DataType::Utf8), ("c", DataType::Int32)]);
        let sum = binary(column("c", 2), Operator::Plus, lit(1), table.table_schema()).unwrap();
        for factory in [None, Some(Arc::new(DefaultPhysicalExprAdapterFactory) as Arc<dyn PhysicalExprAdapterFactory>)] {
            let adapted = adapt(vec![Arc::clone(&sum), column("b", 1)], &table, file.as_ref(), &Positions::default(), factory.as_ref()).unwrap();
            assert_eq!(text(&adapted), ["c@1 + 1", "b@0"]);
            assert_eq!(adapted.file_columns, [1, 2]);
            assert_eq!(adapted.schema, schema(&[("b", DataType::Utf8View), ("c", DataType::Int32)]));
        }
    }

    #[test]
    fn missing_reordered_and_widened_columns_are_adapted() {
        let table = TableSchema::from(schema(&[("a", DataType::Int64), ("b", DataType::Int32), ("c", DataType::Int32)]));
        let file = schema(&[("c", DataType::Int32), ("x", DataType::Int32), ("a", DataType::Int32)]);
        let adapted = adapt(vec![column("a", 0), column("b", 1), column("c", 2)], &table, file.as_ref(), &Positions::default(), None).unwrap();
        assert_eq!(text(&adapted), ["CAST(a@0 AS Int64)", "NULL", "c@1"]);
        assert_eq!(adapted.file_columns, [2, 0]);
    }

    #[test]
    fn a_row_index_is_the_last_column_and_no_column_of_the_file() {
        let row = Arc::new(Field::new("row", DataType::Int64, true));
        let table = TableSchema::builder(schema(&[("a", DataType::Int32), ("b", DataType::Int32)])).with_virtual_columns(vec![row]).build();
        let file = schema(&[("a", DataType::Int32), ("b", DataType::Int32)]);
        let adapted = adapt(vec![column("row", 2), column("b", 1)], &table, file.as_ref(), &Positions::default(), None).unwrap();
        assert_eq!((text(&adapted), adapted.file_columns, adapted.uses_row_index), (vec!["row@1".to_owned(), "b@0".to_owned()], vec![1], true));
    }

    #[test]
    fn exact_statistics_of_one_value_are_a_constant() {
        let field = Arc::new(Field::new("a", DataType::Utf8View, true));
        let value = |text: &str| Precision::Exact(ScalarValue::Utf8(Some(text.to_owned())));
        let statistics = |nulls, min, max| ColumnStatistics::new_unknown().with_null_count(nulls).with_min_value(min).with_max_value(max);
        let view = ScalarValue::Utf8View(Some("x".to_owned()));
        assert_eq!(constant(&statistics(Precision::Exact(0), value("x"), value("x")), Some(3), &field), Some(view));
        assert_eq!(constant(&statistics(Precision::Exact(0), value("x"), value("y")), Some(3), &field), None);
        assert_eq!(constant(&statistics(Precision::Exact(1), value("x"), value("x")), Some(3), &field), None);
        assert_eq!(
            constant(&statistics(Precision::Exact(3), Precision::Absent, Precision::Absent), Some(3), &field),
            Some(ScalarValue::Utf8View(None))
        );
        assert_eq!(constant(&statistics(Precision::Inexact(3), Precision::Absent, Precision::Absent), Some(3), &field), None);
    }
}
