//! Batches of one file as batches of all files together.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray, new_null_array};
use datafusion::arrow::compute::CastOptions;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::nested_struct::cast_column;
use datafusion::error::{DataFusionError, Result};

/// What Hive and its heirs call the folder of a null.
const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// Puts the columns of a file in order, makes them the types of all files, and fills in what the file does not have.
#[derive(Debug, Clone)]
pub(super) struct Adapter {
    schema: SchemaRef,
    columns: Arc<[Origin]>,
}

/// Where a column comes from.
#[derive(Debug)]
enum Origin {
    File(usize),
    /// The name of a folder.
    Text(String),
    Null,
}

impl Adapter {
    /// From batches of `file`, which lies in folders that hold `partitions`, to batches of `all`.
    pub(super) fn new(all: &SchemaRef, file: &Schema, partitions: &[(String, String)]) -> Self {
        let text = |name: &str| partitions.iter().find(|(key, value)| key == name && value != NULL_PARTITION).map(|(_, value)| value.clone());
        let mut places: HashMap<&str, usize> = HashMap::with_capacity(file.fields().len());
        for (index, field) in file.fields().iter().enumerate() {
            places.entry(field.name()).or_insert(index);
        }
        let origin = |(index, field): (usize, &Arc<Field>)| match places.get(field.name().as_str()) {
            // By position where that is the name's, for names may occur twice.
            Some(_) if file.fields().get(index).is_some_and(|here| here.name() == field.name()) => Origin::File(index),
            Some(first) => Origin::File(*first),
            None => text(field.name()).map_or(Origin::Null, Origin::Text),
        };
        Self { schema: Arc::clone(all), columns: all.fields().iter().enumerate().map(origin).collect() }
    }

    /// The same rows under the schema of all files.
    pub(super) fn adapt(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let columns = self.columns.iter().zip(self.schema.fields()).map(|(origin, field)| match origin {
            Origin::File(index) => cast(batch.column(*index), field),
            Origin::Text(value) => cast(&(Arc::new(StringArray::from_iter_values(std::iter::repeat_n(value, rows))) as ArrayRef), field),
            Origin::Null => Ok(new_null_array(field.data_type(), rows)),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns.collect::<Result<_>>()?, &options)?)
    }
}

fn cast(array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    if array.data_type() == field.data_type() {
        return Ok(Arc::clone(array));
    }
    // A value that does not fit is an error and no null.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_column(array, field.data_type(), &options).map_err(|error: DataFusionError| error.context(format!("column '{}'", field.name())))
}
