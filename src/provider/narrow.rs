//! Which parts of nested columns expressions use, so that the others are not read.
//!
//! A field that is taken out of a struct needs no other field of it; whether a struct or a list is null, and how long a list is, needs no values.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::physical_expr::expressions::{Column, IsNotNullExpr, IsNullExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::lengths::list_of_length;
use super::offsets::{OffsetsOf, offsets_type};

/// What is used of a value.
#[derive(Debug, Default)]
struct Use {
    /// All of it; else whether it is null, how long it is, and these fields.
    whole: bool,
    fields: BTreeMap<String, Use>,
}

/// The schema of what the expressions use of the columns of `schema`: structs without the fields, and lists without the values, that none asks for.
///
/// The expressions are made for it: what takes a field out of a struct promises that field's type.
pub(super) fn narrowed(exprs: &mut [Arc<dyn PhysicalExpr>], schema: SchemaRef) -> Result<SchemaRef> {
    if !schema.fields().iter().any(|field| field.data_type().is_nested()) {
        return Ok(schema);
    }
    let mut uses = Uses { schema: &schema, by_column: schema.fields().iter().map(|_| Use::default()).collect() };
    exprs.iter().for_each(|expr| uses.visit(expr));
    let fields: Fields = schema.fields().iter().zip(&uses.by_column).map(|(field, of_it)| of_it.narrowed_field(field)).collect();
    if fields == *schema.fields() {
        return Ok(schema);
    }
    let narrowed = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    for expr in exprs {
        *expr = Arc::clone(expr).transform_down(|node| of_narrowed(node, &narrowed))?.data;
    }
    Ok(narrowed)
}

/// What takes a field out of a struct of `schema`, with the type that the field has there.
fn of_narrowed(node: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
    if path(&node, schema).is_none() {
        return Ok(Transformed::no(node));
    }
    let Some(access) = ScalarFunctionExpr::try_downcast_func::<GetFieldFunc>(node.as_ref()) else { return Ok(Transformed::no(node)) };
    let (function, config) = (Arc::new(access.fun().clone()), Arc::new(access.config_options().clone()));
    let rebuilt = ScalarFunctionExpr::try_new(function, access.args().to_vec(), schema, config)?;
    if rebuilt.return_type() == access.return_type() {
        return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
    }
    Ok(Transformed::new(Arc::new(rebuilt), true, TreeNodeRecursion::Jump))
}

struct Uses<'a> {
    schema: &'a Schema,
    by_column: Vec<Use>,
}

impl Uses<'_> {
    fn visit(&mut self, expr: &Arc<dyn PhysicalExpr>) {
        if outside(expr, self.schema).is_some_and(|inner| self.part(inner).is_some()) {
            // Nothing in that part is used.
        } else if let Some(used) = self.part(expr) {
            used.whole = true;
        } else {
            expr.children().into_iter().for_each(|child| self.visit(child));
        }
    }

    /// The part of a column that an expression is, if it is one.
    fn part(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Option<&mut Use> {
        let (column, path) = path(expr, self.schema)?;
        let used = self.by_column.get_mut(column)?;
        Some(path.into_iter().fold(used, |used, name| used.fields.entry(name).or_default()))
    }
}

/// The value of which an expression over the columns of `schema` only asks whether it is null, or how long it is.
pub(super) fn outside<'a>(expr: &'a Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<&'a Arc<dyn PhysicalExpr>> {
    if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
        return Some(is_null.arg());
    }
    if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
        return Some(is_not_null.arg());
    }
    if let Some(offsets) = expr.downcast_ref::<OffsetsOf>() {
        return Some(offsets.lists());
    }
    list_of_length(expr, schema)
}

/// The column, and the names of the fields within fields, that an expression is.
pub(super) fn path(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<(usize, Vec<String>)> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return Some((column.index(), Vec::new()));
    }
    let access = ScalarFunctionExpr::try_downcast_func::<GetFieldFunc>(expr.as_ref())?;
    let (of, names) = access.args().split_first()?;
    let column = of.downcast_ref::<Column>()?.index();
    let mut data_type = schema.fields().get(column)?.data_type();
    let mut path = Vec::with_capacity(names.len());
    for name in names {
        let DataType::Struct(fields) = data_type else { return None };
        let name = name.downcast_ref::<Literal>()?.value().try_as_str()??;
        data_type = fields.find(name)?.1.data_type();
        path.push(name.to_owned());
    }
    Some((column, path))
}

impl Use {
    fn narrowed_field(&self, field: &FieldRef) -> FieldRef {
        match self.narrowed(field.data_type()) {
            Some(data_type) => Arc::new(field.as_ref().clone().with_data_type(data_type)),
            None => Arc::clone(field),
        }
    }

    /// The type without what is not used of it; `None` if all is.
    fn narrowed(&self, data_type: &DataType) -> Option<DataType> {
        if self.whole {
            return None;
        }
        let no_values = |item: &FieldRef| Arc::new(Field::new(item.name(), DataType::Null, true));
        match data_type {
            DataType::Struct(fields) => {
                let used = fields.iter().filter_map(|field| Some(self.fields.get(field.name())?.narrowed_field(field)));
                Some(DataType::Struct(used.collect()))
            }
            DataType::FixedSizeList(item, size) => Some(DataType::FixedSizeList(no_values(item), *size)),
            other => offsets_type(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::config::ConfigOptions;
    use datafusion::functions::core::get_field;
    use datafusion::functions_nested::length::array_length_udf;
    use datafusion::logical_expr::{Operator, ScalarUDF};
    use datafusion::physical_expr::expressions::{binary, col, is_null, lit};

    fn structure(fields: &[(&str, DataType)]) -> DataType {
        DataType::Struct(fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect())
    }

    fn list(item: DataType) -> DataType {
        DataType::List(Arc::new(Field::new_list_field(item, true)))
    }

    fn schema() -> SchemaRef {
        let inner = structure(&[("x", DataType::Int32), ("y", DataType::Int32)]);
        let all = structure(&[("i", inner), ("n", DataType::Int32), ("l", list(DataType::Int8))]);
        let fields = [("a", DataType::Int32), ("s", all), ("l", list(DataType::Int8))];
        Arc::new(Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec()))
    }

    fn call(function: Arc<ScalarUDF>, args: Vec<Arc<dyn PhysicalExpr>>) -> Arc<dyn PhysicalExpr> {
        Arc::new(ScalarFunctionExpr::try_new(function, args, &schema(), Arc::new(ConfigOptions::default())).unwrap())
    }

    fn field(names: &[&str]) -> Arc<dyn PhysicalExpr> {
        let names = names.iter().map(|name| lit(*name));
        call(get_field(), std::iter::once(col("s", &schema()).unwrap()).chain(names).collect())
    }

    /// The type of `s` that is left.
    fn left(exprs: &[Arc<dyn PhysicalExpr>]) -> DataType {
        narrowed(&mut exprs.to_vec(), schema()).unwrap().field(1).data_type().clone()
    }

    #[test]
    fn only_the_fields_that_are_named_are_left() {
        let x = structure(&[("x", DataType::Int32)]);
        assert_eq!(left(&[field(&["i", "x"])]), structure(&[("i", x.clone())]));
        let sum = binary(field(&["n"]), Operator::Plus, field(&["i", "x"]), &schema()).unwrap();
        assert_eq!(left(&[sum]), structure(&[("i", x), ("n", DataType::Int32)]));
        let whole = structure(&[("x", DataType::Int32), ("y", DataType::Int32)]);
        assert_eq!(left(&[field(&["i", "x"]), field(&["i"])]), structure(&[("i", whole)]));
        // What the inner access has promised is a struct of two fields.
        assert_eq!(left(&[call(get_field(), vec![field(&["i"]), lit("y")])]), left(&[field(&["i"])]));
    }

    #[test]
    fn whether_it_is_null_and_how_long_it_is_needs_no_values() {
        assert_eq!(left(&[is_null(col("s", &schema()).unwrap()).unwrap()]), structure(&[]));
        assert_eq!(left(&[is_null(field(&["i"])).unwrap()]), structure(&[("i", structure(&[]))]));
        assert_eq!(left(&[is_null(field(&["n"])).unwrap()]), structure(&[("n", DataType::Int32)]));
        let length = |args| narrowed(&mut [call(array_length_udf(), args)], schema()).unwrap().field(2).data_type().clone();
        let column = || col("l", &schema()).unwrap();
        assert_eq!(length(vec![column()]), list(DataType::Null));
        assert_eq!(length(vec![column(), lit(1_i64)]), list(DataType::Int8));
        assert_eq!(left(&[call(array_length_udf(), vec![field(&["l"])])]), structure(&[("l", list(DataType::Null))]));
    }

    #[test]
    fn what_takes_a_field_out_promises_what_is_left_of_it() {
        let mut exprs = [call(array_length_udf(), vec![field(&["l"])]), field(&["n"])];
        let schema = narrowed(&mut exprs, schema()).unwrap();
        let promised = |expr: &Arc<dyn PhysicalExpr>| expr.data_type(&schema).unwrap();
        assert_eq!(promised(exprs[0].children()[0]), list(DataType::Null));
        assert_eq!([promised(&exprs[0]), promised(&exprs[1])], [DataType::UInt64, DataType::Int32]);
    }

    #[test]
    fn what_is_used_as_a_whole_stays_so() {
        let all = schema();
        for exprs in [vec![col("s", &all).unwrap()], vec![field(&["n"]), col("s", &all).unwrap()]] {
            assert_eq!(left(&exprs), *all.field(1).data_type());
        }
    }
}
