//! Reading and writing single files through DataFusion's formats, in the order of their rows.
//!
//! Plans are built here by hand and not from SQL: no optimizer splits, reorders or interleaves anything, so that rows come out as
//! they went in, and a path is a path, whatever characters it holds.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::UInt64Array;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{exec_datafusion_err, plan_datafusion_err};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::listing::{ListingTableUrl, PartitionedFile};
use datafusion::datasource::physical_plan::{FileGroup, FileOutputMode, FileScanConfigBuilder, FileSinkConfig};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use object_store::ObjectMeta;
use url::Url;

/// Statement options by key, as the OPTIONS clause gives them.
pub(crate) type Options = HashMap<String, String>;

/// The format that the session knows as `name`, set up with `options`.
pub(crate) fn format(ctx: &SessionContext, name: &str, options: &Options) -> Result<Arc<dyn FileFormat>> {
    let state = ctx.state();
    let factory = state.get_file_format_factory(name).ok_or_else(|| plan_datafusion_err!("the session has no format {name}"))?;
    factory.create(&state, options)
}

/// A plan of one partition that reads one file from its first row to its last.
pub(crate) async fn scan(ctx: &SessionContext, format: &dyn FileFormat, schema: &SchemaRef, file: ObjectMeta) -> Result<Arc<dyn ExecutionPlan>> {
    let source = format.file_source(TableSchema::from(Arc::clone(schema)));
    let files = FileGroup::new(vec![PartitionedFile::new_from_meta(file)]);
    let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), source).with_file_group(files).build();
    format.create_physical_plan(&ctx.state(), config).await
}

/// Makes the stream of rows to write once the engine asks for it.
type OpenRows = dyn Fn(Arc<TaskContext>) -> SendableRecordBatchStream + Send + Sync;

/// Rows on their way to a writer.
pub(crate) struct Rows {
    schema: SchemaRef,
    open: Box<OpenRows>,
}

impl Rows {
    /// Rows of `schema`, made by `open`.
    pub(crate) fn new(schema: SchemaRef, open: impl Fn(Arc<TaskContext>) -> SendableRecordBatchStream + Send + Sync + 'static) -> Self {
        Self { schema, open: Box::new(open) }
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        (self.open)(context)
    }
}

/// Writes `rows`, which come in the order `ordering`, as the one file `path` (absolute) and returns how many there were.
pub(crate) async fn write(ctx: &SessionContext, format: &dyn FileFormat, rows: Rows, ordering: Option<LexOrdering>, path: &Path) -> Result<u64> {
    let schema = Arc::clone(rows.schema());
    let input = StreamingTableExec::try_new(Arc::clone(&schema), vec![Arc::new(rows)], None, [], false, None)?;
    let url = Url::from_file_path(path).map_err(|()| exec_datafusion_err!("{} is not an absolute path", path.display()))?;
    let url = ListingTableUrl::try_new(url, None)?;
    let config = FileSinkConfig {
        original_url: url.to_string(),
        object_store_url: ObjectStoreUrl::local_filesystem(),
        file_group: FileGroup::default(),
        table_paths: vec![url],
        output_schema: schema,
        table_partition_cols: vec![],
        insert_op: InsertOp::Append,
        keep_partition_by_columns: false,
        file_extension: format.get_ext(),
        file_output_mode: FileOutputMode::SingleFile,
    };
    let plan = format.create_writer_physical_plan(Arc::new(input), &ctx.state(), config, ordering.map(LexRequirement::from)).await?;
    let counts = collect(plan, ctx.task_ctx()).await?;
    let count = counts.first().and_then(|batch| batch.column(0).as_any().downcast_ref::<UInt64Array>()).filter(|counts| !counts.is_empty());
    count.map(|counts| counts.value(0)).ok_or_else(|| exec_datafusion_err!("the writer gave no count of rows"))
}
