//! [`FermionSink`]: batches in, files out.
//!
//! Encoding runs on threads for blocking work, beside whatever makes the input; bytes go to the store as they become ready. No file is completed
//! before all files are written and the input has ended well: a failed statement leaves nothing behind, as far as the store can forget uploads.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::runtime::{JoinSet, SpawnedTask};
use datafusion::datasource::file_format::write::demux::DemuxedStreamReceiver;
use datafusion::datasource::file_format::write::get_writer_schema;
use datafusion::datasource::physical_plan::{FileSink, FileSinkConfig};
use datafusion::datasource::sink::DataSink;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use datafusion_datasource::display::FileGroupDisplay;
use object_store::ObjectStore;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc::Receiver;

use arrow::array::RecordBatch;

use super::cache::forget_listing;
use super::error::in_file;
use super::options::FermionWriteOptions;
use super::ordering;
use super::source::NAME;
use crate::format::fermion::{Summary, Writer, WriterOptions};

/// Batches that are encoded without a pause.
const BATCHES_AT_ONCE: usize = 16;

/// Writes Fermion files for `COPY` and `INSERT`.
pub struct FermionSink {
    config: FileSinkConfig,
    options: FermionWriteOptions,
    /// The sort order of every file.
    ordering: Option<String>,
    metrics: ExecutionPlanMetricsSet,
    written: Mutex<Vec<(Path, Summary)>>,
}

impl FermionSink {
    /// Writes rows that come in the order `order`.
    pub fn new(config: FileSinkConfig, options: FermionWriteOptions, order: Option<&LexRequirement>) -> Self {
        let is_dropped = |name: &str| !config.keep_partition_by_columns && config.table_partition_cols.iter().any(|(column, _)| column == name);
        let ordering = order.and_then(|order| ordering::to_text(order, is_dropped));
        Self { config, options, ordering, metrics: ExecutionPlanMetricsSet::new(), written: Mutex::new(Vec::new()) }
    }

    /// The files that were written, in no order.
    pub fn written(&self) -> Vec<(Path, Summary)> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn writer_options(&self, context: &TaskContext) -> WriterOptions {
        self.options.writer_options(context.session_config().target_partitions(), self.ordering.clone())
    }

    fn file_metrics(&self) -> (Count, Count, Time) {
        let builder = || MetricBuilder::new(&self.metrics);
        (builder().global_counter("rows_written"), builder().global_counter("bytes_written"), builder().elapsed_compute(0))
    }
}

impl fmt::Debug for FermionSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FermionSink").field("config", &self.config).field("options", &self.options).finish_non_exhaustive()
    }
}

impl DisplayAs for FermionSink {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "FermionSink(file_groups=")?;
                FileGroupDisplay(&self.config.file_group).fmt_as(format, f)?;
                write!(f, ")")
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "format: {NAME}")?;
                write!(f, "file={}", self.config.original_url)
            }
        }
    }
}

#[async_trait]
impl DataSink for FermionSink {
    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn schema(&self) -> &SchemaRef {
        self.config.output_schema()
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        FileSink::write_all(self, data, context).await
    }
}

#[async_trait]
impl FileSink for FermionSink {
    fn config(&self) -> &FileSinkConfig {
        &self.config
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        context: &Arc<TaskContext>,
        demux_task: SpawnedTask<Result<()>>,
        mut file_stream_rx: DemuxedStreamReceiver,
        object_store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        let (rows_written, bytes_written, elapsed) = self.file_metrics();
        let schema = get_writer_schema(&self.config);
        let buffer = context.session_config().options().execution.objectstore_writer_buffer_size;
        let mut tasks = JoinSet::new();
        while let Some((path, batches)) = file_stream_rx.recv().await {
            let upload = BufWriter::with_capacity(Arc::clone(&object_store), path.clone(), buffer);
            let reservation = MemoryConsumer::new(format!("FermionSink[{path}]")).register(context.memory_pool());
            let file = FileWriter { path, schema: Arc::clone(&schema), options: self.writer_options(context), elapsed: elapsed.clone(), reservation };
            tasks.spawn(file.write(batches, upload));
        }
        let outcome = finish(tasks, demux_task).await?;
        for (path, summary) in &outcome {
            forget_listing(&context.runtime_env().cache_manager, path);
            rows_written.add(usize::try_from(summary.rows).unwrap_or(usize::MAX));
            bytes_written.add(usize::try_from(summary.bytes).unwrap_or(usize::MAX));
            self.written.lock().unwrap_or_else(PoisonError::into_inner).push((path.clone(), *summary));
        }
        Ok(outcome.iter().map(|(_, summary)| summary.rows).sum())
    }
}

/// A file whose bytes are with the store, but which the store has not been told to show.
struct Uploaded {
    path: Path,
    upload: BufWriter,
    result: Result<Summary>,
}

/// Waits for all files and for the end of the input. Then completes every file, or, if anything went wrong, none.
async fn finish(mut tasks: JoinSet<Uploaded>, demux_task: SpawnedTask<Result<()>>) -> Result<Vec<(Path, Summary)>> {
    let mut files = Vec::new();
    while let Some(joined) = tasks.join_next().await {
        files.push(joined.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?);
    }
    let demuxed = demux_task.join_unwind().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error))).and_then(|result| result);
    let mut failure = None;
    let mut complete = Vec::with_capacity(files.len());
    let mut uploads = Vec::with_capacity(files.len());
    for file in files {
        match file.result {
            Ok(summary) => complete.push((file.path, summary)),
            Err(error) => failure = failure.or(Some(error)),
        }
        uploads.push(file.upload);
    }
    // A file that fails stops the input, too, so the file's own error is the one to tell.
    let mut outcome = failure.map_or(demuxed, Err);
    for mut upload in uploads {
        if outcome.is_ok() {
            outcome = upload.shutdown().await.map_err(DataFusionError::from);
        } else {
            // The first error is the one that matters.
            let _ = upload.abort().await;
        }
    }
    outcome.map(|()| complete)
}

/// Writes one file.
struct FileWriter {
    path: Path,
    schema: SchemaRef,
    options: WriterOptions,
    elapsed: Time,
    reservation: MemoryReservation,
}

impl FileWriter {
    async fn write(self, batches: Receiver<RecordBatch>, mut upload: BufWriter) -> Uploaded {
        let result = self.encode(batches, &mut upload).await;
        Uploaded { path: self.path, upload, result }
    }

    async fn encode(&self, mut batches: Receiver<RecordBatch>, upload: &mut BufWriter) -> Result<Summary> {
        let mut writer = Writer::new(Arc::clone(&self.schema), self.options.clone()).map_err(|error| in_file(&self.path, error))?;
        let mut ready = Vec::new();
        while batches.recv_many(&mut ready, BATCHES_AT_ONCE).await > 0 {
            // The writer goes to the thread and comes back, so that a thread is taken only while there is something to encode:
            // a statement may write more files at once than there are threads.
            let (next, bytes) = self.blocking(std::mem::take(&mut ready), writer, push).await?;
            writer = next;
            self.reservation.try_resize(writer.buffered_bytes())?;
            put(upload, bytes).await?;
        }
        let (summary, bytes) = self.blocking((), writer, |(), writer| writer.finish().map(|(bytes, summary)| (summary, bytes))).await?;
        put(upload, bytes).await?;
        Ok(summary)
    }

    async fn blocking<I: Send + 'static, T: Send + 'static>(
        &self,
        input: I,
        writer: Writer,
        work: impl FnOnce(I, Writer) -> crate::format::Result<T> + Send + 'static,
    ) -> Result<T> {
        let elapsed = self.elapsed.clone();
        let task = SpawnedTask::spawn_blocking(move || {
            let _timer = elapsed.timer();
            work(input, writer)
        });
        let result = task.join_unwind().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
        result.map_err(|error| in_file(&self.path, error))
    }
}

fn push(batches: Vec<RecordBatch>, mut writer: Writer) -> crate::format::Result<(Writer, Vec<Bytes>)> {
    for batch in &batches {
        writer.push(batch)?;
    }
    let bytes = writer.take_bytes();
    Ok((writer, bytes))
}

async fn put(upload: &mut BufWriter, bytes: Vec<Bytes>) -> Result<()> {
    for bytes in bytes {
        upload.put(bytes).await?;
    }
    Ok(())
}
