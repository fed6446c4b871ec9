//! Which parts of nested columns expressions use, so that the others are not read.
//!
//! A field that is taken out of a struct needs no other field of it; whether a struct or a list is null, and how long a list is, needs no values.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::physical_expr::expressions::{Column, IsNotNullExpr, IsNullExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::lengths::list_of_length;

/// What is used of a value.
#[derive(Debug, Default)]
struct Use {
    /// All of it; else whether it is null, how long it is, and these fields.
    whole: bool,
    fields: BTreeMap<String, Use>,
}

/// The schema of what the expressions use of the columns of `schema`: structs without the fields, and lists without the values, that none asks for.
pub(super) fn narrowed(exprs: &[Arc<dyn PhysicalExpr>], schema: SchemaRef) -> SchemaRef {
    if !schema.fields().iter().any(|field| field.data_type().is_nested()) {
        return schema;
    }
    let mut uses = Uses { schema: &schema, by_column: schema.fields().iter().map(|_| Use::default()).collect() };
    exprs.iter().for_each(|expr| uses.visit(expr));
    let fields: Fields = schema.fields().iter().zip(&uses.by_column).map(|(field, of_it)| of_it.narrowed_field(field)).collect();
    if fields == *schema.fields() { schema } else { Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())) }
}

struct Uses<'a> {
    schema: &'a Schema,
    by_column: Vec<Use>,
}

impl Uses<'_> {
    fn visit(&mut self, expr: &Arc<dyn PhysicalExpr>) {
        if outside(expr, self.schema).is_some_and(|inner| inner.downcast_ref::<Column>().is_some()) {
            // Nothing in the column is used. Of a field that would not do: what takes it out of its struct has promised its type.
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
            DataType::List(item) => Some(DataType::List(no_values(item))),
            DataType::LargeList(item) => Some(DataType::LargeList(no_values(item))),
            DataType::FixedSizeList(item, size) => Some(DataType::FixedSizeList(no_values(item), *size)),
            _ => None,
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
        narrowed(exprs, schema()).field(1).data_type().clone()
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
        assert_eq!(left(&[is_null(field(&["i"])).unwrap()]), left(&[field(&["i"])]));
        assert_eq!(left(&[is_null(field(&["n"])).unwrap()]), structure(&[("n", DataType::Int32)]));
        let length = |args| narrowed(&[call(array_length_udf(), args)], schema()).field(2).data_type().clone();
        let column = || col("l", &schema()).unwrap();
        assert_eq!(length(vec![column()]), list(DataType::Null));
        assert_eq!(length(vec![column(), lit(1_i64)]), list(DataType::Int8));
        assert_eq!(left(&[call(array_length_udf(), vec![field(&["l"])])]), structure(&[("l", list(DataType::Int8))]));
    }

    #[test]
    fn what_is_used_as_a_whole_stays_so() {
        let all = schema();
        for exprs in [vec![col("s", &all).unwrap()], vec![field(&["n"]), col("s", &all).unwrap()]] {
            assert_eq!(left(&exprs), *all.field(1).data_type());
        }
    }
}
