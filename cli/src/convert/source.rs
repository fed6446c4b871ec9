//! The rows of one or more files of a format, one file after the other.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::datasource::file_format::FileFormat;
use datafusion::error::Result as EngineResult;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionContext;
use futures::stream::{self, BoxStream, StreamExt};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use super::adapt::Adapter;
use super::format::Format;
use super::losses::Losses;
use super::plan::Input;
use super::progress::Progress;
use super::schema;
use crate::engine::{self, Rows};
use crate::error::{Doing, Error, Result, one_line_after};
use crate::store::CountingStore;

/// Files that were opened and found to share a schema.
#[derive(Debug)]
pub(crate) struct Source {
    schema: SchemaRef,
    files: Vec<OpenFile>,
    bytes: u64,
    rows: Option<u64>,
    ordering: Option<LexOrdering>,
    failure: Arc<OnceLock<String>>,
}

#[derive(Debug, Clone)]
struct OpenFile {
    input: Input,
    scan: Arc<dyn ExecutionPlan>,
    adapter: Adapter,
}

impl Source {
    /// Reads schemas and plans the scans: each file by its own schema, for readers know columns by position.
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
        let schemas = schema::infer(ctx, &store, (kind, format), inputs, &metas).await?;
        let schema = with_partitions(&schemas.all, inputs);
        let mut known = Known { rows: Some(0), ordering: None };
        let mut files = Vec::with_capacity(inputs.len());
        for ((input, meta), own) in inputs.iter().zip(metas).zip(&schemas.each) {
            known = known.and(Known::of(ctx, &store, format, own, &meta).await);
            let scan = engine::scan(ctx, format, own, meta).await.doing(|| cannot_read(&input.path))?;
            files.push(OpenFile { input: input.clone(), scan, adapter: Adapter::new(&schema, own, &input.partitions) });
        }
        // Files in order are not in order one after the other, and Parquet speaks of each row group by itself.
        let ordering = known.ordering.filter(|_| files.len() == 1 && kind == Format::Fermion);
        Ok(Self { schema, files, bytes, rows: known.rows, ordering, failure: Arc::default() })
    }

    /// The columns of all files together.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The size of the files.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many rows there are, if the files say so.
    pub(crate) fn rows(&self) -> Option<u64> {
        self.rows
    }

    /// The order of the rows, if it is known.
    pub(crate) fn ordering(&self) -> Option<LexOrdering> {
        self.ordering.clone()
    }

    /// Filled when a file turns out to be unreadable, so that a failed write can be told from a failed read.
    pub(crate) fn failure(&self) -> Arc<OnceLock<String>> {
        Arc::clone(&self.failure)
    }

    /// The rows, counted and looked at as they go by.
    pub(crate) fn into_rows(self, progress: Arc<Progress>, losses: Arc<Losses>) -> Rows {
        let Self { schema, files, failure, .. } = self;
        Rows::new(Arc::clone(&schema), move |context| {
            let (progress, losses, failure) = (Arc::clone(&progress), Arc::clone(&losses), Arc::clone(&failure));
            let batches = stream::iter(files.clone()).flat_map(move |file| {
                let (progress, losses, failure) = (Arc::clone(&progress), Arc::clone(&losses), Arc::clone(&failure));
                let what = cannot_read(&file.input.path);
                file.rows(&context).inspect(move |batch| match batch {
                    Ok(batch) => {
                        progress.add_rows(batch.num_rows());
                        losses.look(batch);
                    }
                    Err(error) => drop(failure.set(format!("{what}: {}", one_line_after(&what, error)))),
                })
            });
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), batches))
        })
    }
}

/// What a file says about its rows.
#[derive(Debug)]
struct Known {
    rows: Option<u64>,
    ordering: Option<LexOrdering>,
}

impl Known {
    /// Nothing is known where it cannot be read: the scan will say why.
    async fn of(ctx: &SessionContext, store: &Arc<dyn ObjectStore>, format: &dyn FileFormat, schema: &SchemaRef, meta: &ObjectMeta) -> Self {
        let Ok(found) = format.infer_stats_and_ordering(&ctx.state(), store, Arc::clone(schema), meta).await else {
            return Self { rows: None, ordering: None };
        };
        let rows = match found.statistics.num_rows {
            Precision::Exact(rows) => u64::try_from(rows).ok(),
            _ => None,
        };
        Self { rows, ordering: found.ordering }
    }

    fn and(self, next: Self) -> Self {
        Self { rows: self.rows.zip(next.rows).map(|(a, b)| a + b), ordering: next.ordering }
    }
}

impl OpenFile {
    fn rows(self, context: &Arc<TaskContext>) -> BoxStream<'static, EngineResult<RecordBatch>> {
        match self.scan.execute(0, Arc::clone(context)) {
            Ok(batches) => batches.map(move |batch| self.adapter.adapt(&batch?)).boxed(),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
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
