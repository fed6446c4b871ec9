//! One schema for several files.
//!
//! Files that carry their types are merged as their format merges them. The types of text are guesses from each file's own rows: where
//! the guesses differ, the wider one holds for all.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::file_format::FileFormat;
use datafusion::prelude::SessionContext;
use object_store::{ObjectMeta, ObjectStore};

use super::format::Format;
use super::plan::Input;
use crate::error::{Doing, Error, Result, one_line};

/// The schema of all files together; when there is none, the error names the file that is to blame.
pub(super) async fn infer(
    ctx: &SessionContext,
    store: &Arc<dyn ObjectStore>,
    (kind, format): (Format, &dyn FileFormat),
    inputs: &[Input],
    metas: &[ObjectMeta],
) -> Result<SchemaRef> {
    let state = ctx.state();
    let mut schemas = Vec::with_capacity(metas.len());
    for (input, meta) in inputs.iter().zip(metas) {
        let schema = format.infer_schema(&state, store, std::slice::from_ref(meta)).await;
        schemas.push((input.path.as_path(), schema.doing(|| format!("cannot read '{}'", input.path.display()))?));
    }
    match (schemas.as_slice(), kind) {
        ([(_, schema)], _) => Ok(Arc::clone(schema)),
        (schemas, Format::Csv) => same_columns(schemas).and_then(|()| merge(schemas, csv_type)),
        (schemas, Format::Json) => merge(schemas, json_type),
        _ => {
            let merged = format.infer_schema(&state, store, metas).await;
            merged.map_err(|error| Error::failed(format!("the files do not share a schema: {}", one_line(&error))))
        }
    }
}

/// DataFusion reads the columns of CSV by position, whatever a file's header says.
fn same_columns(schemas: &[(&Path, SchemaRef)]) -> Result<()> {
    let names = |schema: &SchemaRef| schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    let mut all = schemas.iter().map(|(path, schema)| (path, names(schema)));
    let Some((first, expected)) = all.next() else { return Ok(()) };
    match all.find(|(_, names)| *names != expected) {
        Some((path, _)) => Err(Error::failed(format!("'{}' does not have the columns of '{}'", path.display(), first.display()))),
        None => Ok(()),
    }
}

/// All columns in the order in which they first appear.
fn merge(schemas: &[(&Path, SchemaRef)], common: fn(&DataType, &DataType) -> Option<DataType>) -> Result<SchemaRef> {
    let mut fields: Vec<Field> = Vec::new();
    for (path, schema) in schemas {
        for field in schema.fields() {
            let Some(known) = fields.iter_mut().find(|known| known.name() == field.name()) else {
                fields.push(field.as_ref().clone().with_nullable(true));
                continue;
            };
            let (before, here) = (known.data_type(), field.data_type());
            let data_type = if before == here { Some(here.clone()) } else { common(before, here) };
            let Some(data_type) = data_type else {
                return Err(Error::failed(format!("column '{}' is {here} in '{}' and {before} before", field.name(), path.display())));
            };
            *known = known.clone().with_data_type(data_type);
        }
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn json_type(a: &DataType, b: &DataType) -> Option<DataType> {
    match (a, b) {
        (DataType::Null, other) | (other, DataType::Null) => Some(other.clone()),
        (DataType::Int64, DataType::Float64) | (DataType::Float64, DataType::Int64) => Some(DataType::Float64),
        _ => None,
    }
}

/// As for JSON; and everything in CSV is text.
fn csv_type(a: &DataType, b: &DataType) -> Option<DataType> {
    json_type(a, b).or(Some(DataType::Utf8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: &[(&str, DataType)]) -> (&'static Path, SchemaRef) {
        let fields: Vec<_> = fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect();
        (Path::new("file"), Arc::new(Schema::new(fields)))
    }

    #[test]
    fn guesses_are_widened() {
        let schemas = [schema(&[("a", DataType::Int64), ("b", DataType::Null)]), schema(&[("a", DataType::Float64), ("b", DataType::Boolean)])];
        let expected = schema(&[("a", DataType::Float64), ("b", DataType::Boolean)]).1;
        assert_eq!(merge(&schemas, json_type).unwrap(), expected);
        assert_eq!(merge(&schemas, csv_type).unwrap(), expected);
    }

    #[test]
    fn only_csv_falls_back_to_text() {
        let schemas = [schema(&[("a", DataType::Boolean)]), schema(&[("a", DataType::Date32)])];
        assert_eq!(merge(&schemas, csv_type).unwrap(), schema(&[("a", DataType::Utf8)]).1);
        assert_eq!(merge(&schemas, json_type).unwrap_err().to_string(), "column 'a' is Date32 in 'file' and Boolean before");
    }

    #[test]
    fn csv_columns_must_be_the_same_ones() {
        let schemas = [schema(&[("a", DataType::Int64), ("b", DataType::Int64)]), schema(&[("b", DataType::Int64), ("a", DataType::Int64)])];
        assert_eq!(same_columns(&schemas).unwrap_err().to_string(), "'file' does not have the columns of 'file'");
    }
}
