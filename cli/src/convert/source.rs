//! The rows of one or more files of a format, one file after the other.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::file_format::FileFormat;
use datafusion::error::{DataFusionError, Result as EngineResult};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionContext;
use futures::stream::{self, BoxStream, StreamExt};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use super::format::Format;
use super::plan::Input;
use super::progress::Progress;
use super::schema;
use crate::engine::{self, Rows};
use crate::error::{Doing, Error, Result, one_line};
use crate::store::CountingStore;

/// What Hive and its heirs call the folder of a null.
const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// Files that were opened and found to share a schema.
#[derive(Debug)]
pub(crate) struct Source {
    schema: SchemaRef,
    files: Vec<OpenFile>,
    bytes: u64,
    failure: Arc<OnceLock<String>>,
}

#[derive(Debug, Clone)]
struct OpenFile {
    input: Input,
    scan: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
}

impl Source {
    /// Reads schemas and plans the scans.
    pub(crate) async fn open(
        ctx: &SessionContext,
        store: &Arc<CountingStore>,
        (kind, format): (Format, &dyn FileFormat),
        inputs: &[Input],
    ) -> Result<Self> {
        let store: Arc<dyn ObjectStore> = Arc::<CountingStore>::clone(store);
        let mut metas = Vec::with_capacity(inputs.len());
        for input in inputs {
            metas.push(head(&store, &input.path).await?);
        }
        let bytes = metas.iter().map(|meta| meta.size).sum();
        let file_schema = schema::infer(ctx, &store, (kind, format), inputs, &metas).await?;
        let schema = with_partitions(&file_schema, inputs);
        let mut files = Vec::with_capacity(inputs.len());
        for (input, meta) in inputs.iter().zip(metas) {
            let scan = engine::scan(ctx, format, &file_schema, meta).await.doing(|| cannot_read(&input.path))?;
            files.push(OpenFile { input: input.clone(), scan, schema: Arc::clone(&schema) });
        }
        Ok(Self { schema, files, bytes, failure: Arc::default() })
    }

    /// The columns of all files together.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The size of the files.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Filled when a file turns out to be unreadable, so that a failed write can be told from a failed read.
    pub(crate) fn failure(&self) -> Arc<OnceLock<String>> {
        Arc::clone(&self.failure)
    }

    /// The rows, counted as they go by.
    pub(crate) fn into_rows(self, progress: Arc<Progress>) -> Rows {
        let Self { schema, files, failure, .. } = self;
        Rows::new(Arc::clone(&schema), move |context| {
            let (progress, failure) = (Arc::clone(&progress), Arc::clone(&failure));
            let batches = stream::iter(files.clone()).flat_map(move |file| {
                let (progress, failure) = (Arc::clone(&progress), Arc::clone(&failure));
                let path = file.input.path.clone();
                file.rows(&context).inspect(move |batch| match batch {
                    Ok(batch) => progress.add_rows(batch.num_rows()),
                    Err(error) => drop(failure.set(format!("{}: {}", cannot_read(&path), one_line(error)))),
                })
            });
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), batches))
        })
    }
}

impl OpenFile {
    fn rows(self, context: &Arc<TaskContext>) -> BoxStream<'static, EngineResult<RecordBatch>> {
        match self.scan.execute(0, Arc::clone(context)) {
            Ok(batches) => batches.map(move |batch| self.complete(batch?)).boxed(),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    }

    /// Adds the columns that stand in the names of folders.
    fn complete(&self, batch: RecordBatch) -> EngineResult<RecordBatch> {
        if batch.num_columns() == self.schema.fields().len() {
            return Ok(batch);
        }
        let rows = batch.num_rows();
        let mut columns = batch.columns().to_vec();
        for field in self.schema.fields().iter().skip(columns.len()) {
            let value = self.input.partitions.iter().find(|(key, _)| key == field.name()).map(|(_, value)| value.as_str());
            columns.push(match value {
                Some(value) if value != NULL_PARTITION => Arc::new(StringArray::from_iter_values(std::iter::repeat_n(value, rows))) as ArrayRef,
                _ => new_null_array(&DataType::Utf8, rows),
            });
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(DataFusionError::from)
    }
}

async fn head(store: &Arc<dyn ObjectStore>, path: &Path) -> Result<ObjectMeta> {
    let location = object_store::path::Path::from_absolute_path(path).map_err(|error| Error::failed(format!("{}: {error}", cannot_read(path))))?;
    store.head(&location).await.doing(|| cannot_read(path))
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read '{}'", path.display())
}

fn with_partitions(file_schema: &SchemaRef, inputs: &[Input]) -> SchemaRef {
    let keys = inputs.first().map(|input| input.partitions.as_slice()).unwrap_or_default();
    let missing: Vec<_> = keys.iter().filter(|(key, _)| file_schema.index_of(key).is_err()).collect();
    if missing.is_empty() {
        return Arc::clone(file_schema);
    }
    let added = missing.into_iter().map(|(key, _)| Arc::new(Field::new(key, DataType::Utf8, true)));
    let fields: Vec<_> = file_schema.fields().iter().map(Arc::clone).chain(added).collect();
    Arc::new(Schema::new_with_metadata(fields, file_schema.metadata().clone()))
}
