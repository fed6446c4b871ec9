//! One schema for several files.
//!
//! Columns are the same if they have the same name. Files that carry their types are merged into types that hold the values of all. The
//! types of text are guesses from each file's own rows: where the guesses differ, the wider one holds for all.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::datasource::file_format::FileFormat;
use datafusion::prelude::SessionContext;
use object_store::{ObjectMeta, ObjectStore};

use super::format::Format;
use super::plan::Input;
use super::widen::{self, Leaf};
use crate::error::{Doing, Error, Result};

/// The schema of all files together, and that by which each of them is read.
#[derive(Debug)]
pub(super) struct Schemas {
    pub(super) all: SchemaRef,
    pub(super) each: Vec<SchemaRef>,
}

/// Reads the schema of every file; when there is none for all, the error names the file that is to blame.
pub(super) async fn infer(
    ctx: &SessionContext,
    store: &Arc<dyn ObjectStore>,
    (kind, format): (Format, &dyn FileFormat),
    inputs: &[Input],
    metas: &[ObjectMeta],
) -> Result<Schemas> {
    let state = ctx.state();
    let mut each = Vec::with_capacity(metas.len());
    for (input, meta) in inputs.iter().zip(metas) {
        let schema = format.infer_schema(&state, store, std::slice::from_ref(meta)).await;
        each.push(schema.doing(|| format!("cannot read '{}'", input.path.display()))?);
    }
    let files: Vec<_> = inputs.iter().map(|input| input.path.as_path()).zip(&each).collect();
    let all = match kind {
        Format::Csv => merge(&files, widen::csv)?,
        Format::Json => merge(&files, widen::json)?,
        Format::Parquet | Format::Arrow | Format::Alkaid | Format::Fermion => merge(&files, widen::exactly)?,
    };
    if matches!(kind, Format::Csv | Format::Json) {
        // Text is read as what it will be: a number that turns out to be text elsewhere would not be the text that it was.
        each.iter_mut().for_each(|schema| *schema = retyped(schema, &all));
    }
    Ok(Schemas { all, each })
}

/// All columns in the order in which they first appear.
fn merge(files: &[(&Path, &SchemaRef)], leaf: Leaf) -> Result<SchemaRef> {
    let Some(((_, first), rest)) = files.split_first() else { return Ok(Arc::new(Schema::empty())) };
    if rest.iter().all(|(_, schema)| schema == first) {
        return Ok(Arc::clone(first));
    }
    // Each with the number of files that have it.
    let mut fields: Vec<(FieldRef, usize)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (path, schema) in files {
        check_names(path, schema)?;
        for here in schema.fields() {
            let place = *places.entry(here.name()).or_insert(fields.len());
            let Some((known, files)) = fields.get_mut(place) else {
                fields.push((Arc::clone(here), 1));
                continue;
            };
            *files += 1;
            let merged = widen::field(known, here, leaf);
            let (before, here) = (known.data_type(), here.data_type());
            *known =
                merged.ok_or_else(|| Error::failed(format!("column '{}' is {here} in '{}' and {before} before", known.name(), path.display())))?;
        }
    }
    let nullable =
        |(field, count): (FieldRef, usize)| if count == files.len() { field } else { Arc::new(field.as_ref().clone().with_nullable(true)) };
    let mut metadata = first.metadata().clone();
    metadata.retain(|key, value| rest.iter().all(|(_, schema)| schema.metadata().get(key) == Some(value)));
    Ok(Arc::new(Schema::new_with_metadata(fields.into_iter().map(nullable).collect::<Vec<_>>(), metadata)))
}

/// Columns are told apart by name.
fn check_names(path: &Path, schema: &Schema) -> Result<()> {
    let mut names = HashSet::new();
    match schema.fields().iter().find(|field| !names.insert(field.name())) {
        Some(field) => {
            Err(Error::failed(format!("'{}' has two columns '{}', which cannot be told apart in other files", path.display(), field.name())))
        }
        None => Ok(()),
    }
}

/// The columns of `schema` with the types that they have in `all`.
fn retyped(schema: &SchemaRef, all: &Schema) -> SchemaRef {
    let merged: HashMap<&str, &FieldRef> = all.fields().iter().map(|field| (field.name().as_str(), field)).collect();
    let field = |field: &FieldRef| Arc::clone(merged.get(field.name().as_str()).copied().unwrap_or(field));
    Arc::new(Schema::new_with_metadata(schema.fields().iter().map(field).collect::<Vec<_>>(), schema.metadata().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{DataType, Field};

    fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
        Arc::new(Schema::new(fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect::<Vec<_>>()))
    }

    fn merged(schemas: &[SchemaRef], leaf: Leaf) -> Result<SchemaRef> {
        merge(&schemas.iter().map(|schema| (Path::new("file"), schema)).collect::<Vec<_>>(), leaf)
    }

    #[test]
    fn guesses_are_widened() {
        let schemas = [schema(&[("a", DataType::Int64), ("b", DataType::Null)]), schema(&[("a", DataType::Float64), ("b", DataType::Boolean)])];
        let expected = schema(&[("a", DataType::Float64), ("b", DataType::Boolean)]);
        assert_eq!(merged(&schemas, widen::json).unwrap(), expected);
        assert_eq!(merged(&schemas, widen::csv).unwrap(), expected);
    }

    #[test]
    fn only_csv_falls_back_to_text() {
        let schemas = [schema(&[("a", DataType::Boolean)]), schema(&[("a", DataType::Date32)])];
        assert_eq!(merged(&schemas, widen::csv).unwrap(), schema(&[("a", DataType::Utf8)]));
        assert_eq!(merged(&schemas, widen::json).unwrap_err().to_string(), "column 'a' is Date32 in 'file' and Boolean before");
    }

    #[test]
    fn what_some_files_lack_is_nullable() {
        let required = |name| Field::new(name, DataType::Int32, false);
        let schemas = [Arc::new(Schema::new(vec![required("a"), required("b")])), Arc::new(Schema::new(vec![required("c"), required("a")]))];
        let expected = Schema::new(vec![required("a"), required("b").with_nullable(true), required("c").with_nullable(true)]);
        assert_eq!(*merged(&schemas, widen::exactly).unwrap(), expected);
    }

    #[test]
    fn two_columns_of_one_name_are_no_columns_by_name() {
        let twice = schema(&[("a", DataType::Int64), ("a", DataType::Int64)]);
        assert_eq!(merged(&[Arc::clone(&twice), Arc::clone(&twice)], widen::exactly).unwrap(), twice);
        let refusal = merged(&[twice, schema(&[("a", DataType::Int64)])], widen::exactly).unwrap_err().to_string();
        assert!(refusal.starts_with("'file' has two columns 'a'"), "{refusal}");
    }
}
