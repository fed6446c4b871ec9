//! [`SinkOf`] a format: batches in, files out.
//!
//! Encoding runs on threads for blocking work, beside whatever makes the input; bytes go to the store as they become ready. No file is completed
//! before all files are written and the input has ended well: a failed statement leaves nothing behind, as far as the store can forget uploads.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::config::ConfigNonZeroUsize;
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
use futures::future::{Either, select};
use object_store::ObjectStore;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use tokio::sync::mpsc::Receiver;

use arrow::array::RecordBatch;

use super::cache::forget_listing;
use super::error::in_file;
use super::kind::{TableFormat, Writing};
use super::ordering;
use super::upload::Upload;
use crate::format::file::{FileWriter, Written};

/// Batches, and bytes of them, that gather while others are encoded: what makes them is not kept waiting, and each trip to another thread is for more rows.
const BATCHES_AT_ONCE: usize = 16;
const BYTES_AT_ONCE: usize = 16 << 20;

/// Writes files of a format for `COPY` and `INSERT`.
pub struct SinkOf<F: TableFormat> {
    config: FileSinkConfig,
    options: F::WriteOptions,
    /// What the names of files end with that are not named by the statement.
    extension: &'static str,
    /// The sort order of every file.
    ordering: Option<String>,
    metrics: ExecutionPlanMetricsSet,
    written: Mutex<Vec<(Path, Written)>>,
}

impl<F: TableFormat> SinkOf<F> {
    /// Writes rows that come in the order `order`.
    pub(super) fn new(config: FileSinkConfig, options: F::WriteOptions, extension: &'static str, order: Option<&LexRequirement>) -> Self {
        let is_dropped = |name: &str| !config.keep_partition_by_columns && config.table_partition_cols.iter().any(|(column, _)| column == name);
        let is_made = |name: &str| F::made_columns(&options).contains(&name);
        let ordering = order.and_then(|order| ordering::to_text(order, is_dropped, is_made));
        Self { config, options, extension, ordering, metrics: ExecutionPlanMetricsSet::new(), written: Mutex::new(Vec::new()) }
    }

    /// The files that were written, in no order.
    pub fn written(&self) -> Vec<(Path, Written)> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn writer(&self, path: &Path, context: &TaskContext) -> Result<Box<dyn FileWriter>> {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        let known = F::EXTENSIONS.iter().find(|known| **known == extension);
        let threads = context.session_config().target_partitions();
        let writing = Writing { extension: known.unwrap_or(&self.extension), threads, ordering: self.ordering.as_deref() };
        F::writer(get_writer_schema(&self.config), &self.options, &writing).map_err(|error| in_file(path, error))
    }

    fn file_metrics(&self) -> (Count, Count, Time) {
        let builder = || MetricBuilder::new(&self.metrics);
        (builder().global_counter("rows_written"), builder().global_counter("bytes_written"), builder().elapsed_compute(0))
    }
}

impl<F: TableFormat> fmt::Debug for SinkOf<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkOf").field("config", &self.config).field("options", &self.options).finish_non_exhaustive()
    }
}

impl<F: TableFormat> DisplayAs for SinkOf<F> {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "{}Sink(file_groups=", F::TITLE)?;
                FileGroupDisplay(&self.config.file_group).fmt_as(format, f)?;
                write!(f, ")")
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "format: {}", F::NAME)?;
                write!(f, "file={}", self.config.original_url)
            }
        }
    }
}

#[async_trait]
impl<F: TableFormat> DataSink for SinkOf<F> {
    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn schema(&self) -> &SchemaRef {
        self.config.output_schema()
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        if F::needs_one_file(&self.options) {
            return FileSink::write_all(self, data, &with_one_file(context)?).await;
        }
        FileSink::write_all(self, data, context).await
    }
}

#[async_trait]
impl<F: TableFormat> FileSink for SinkOf<F> {
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
        let buffer = context.session_config().options().execution.objectstore_writer_buffer_size;
        let mut tasks = JoinSet::new();
        while let Some((path, batches)) = file_stream_rx.recv().await {
            let upload = Upload::new(BufWriter::with_capacity(Arc::clone(&object_store), path.clone(), buffer));
            let reservation = MemoryConsumer::new(format!("{}Sink[{path}]", F::TITLE)).register(context.memory_pool());
            let writer = self.writer(&path, context);
            let file = File { path, elapsed: elapsed.clone(), reservation };
            tasks.spawn(file.write(writer, batches, upload));
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

/// The same, where a statement writes one file, and not several that take its batches in turn.
fn with_one_file(context: &Arc<TaskContext>) -> Result<Arc<TaskContext>> {
    let mut config = context.session_config().clone();
    config.options_mut().execution.minimum_parallel_output_files = ConfigNonZeroUsize::try_new(1)?;
    config.options_mut().execution.soft_max_rows_per_output_file = ConfigNonZeroUsize::try_new(usize::MAX)?;
    Ok(Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        config,
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    )))
}

/// A file whose bytes are with the store, but which the store has not been told to show.
struct Uploaded {
    path: Path,
    upload: Upload,
    result: Result<Written>,
}

/// Waits for all files and for the end of the input. Then completes every file, or, if anything went wrong, none.
async fn finish(mut tasks: JoinSet<Uploaded>, demux_task: SpawnedTask<Result<()>>) -> Result<Vec<(Path, Written)>> {
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
    for upload in uploads {
        match &outcome {
            Ok(()) => outcome = upload.complete().await,
            // The first error is the one that matters.
            Err(_) => upload.abort().await,
        }
    }
    outcome.map(|()| complete)
}

/// A file that is written.
struct File {
    path: Path,
    elapsed: Time,
    reservation: MemoryReservation,
}

impl File {
    async fn write(self, writer: Result<Box<dyn FileWriter>>, batches: Receiver<RecordBatch>, mut upload: Upload) -> Uploaded {
        let result = self.encode(writer, batches, &mut upload).await;
        Uploaded { path: self.path, upload, result }
    }

    async fn encode(&self, writer: Result<Box<dyn FileWriter>>, mut batches: Receiver<RecordBatch>, upload: &mut Upload) -> Result<Written> {
        let mut writer = writer?;
        let mut ready = Vec::new();
        while !ready.is_empty() || batches.recv_many(&mut ready, BATCHES_AT_ONCE).await > 0 {
            // The writer goes to the thread and comes back, so that a thread is taken only while there is something to encode:
            // a statement may write more files at once than there are threads.
            let encoding = self.blocking(std::mem::take(&mut ready), writer, push);
            let (next, bytes) = meanwhile(encoding, gather(&mut batches, &mut ready)).await?;
            writer = next;
            self.reservation.try_resize(writer.buffered_bytes())?;
            upload.put(&bytes).await?;
        }
        let (summary, bytes) = self.blocking((), writer, |(), writer| writer.finish().map(|(bytes, summary)| (summary, bytes))).await?;
        upload.put(&bytes).await?;
        upload.end().await?;
        Ok(summary)
    }

    async fn blocking<I: Send + 'static, T: Send + 'static>(
        &self,
        input: I,
        writer: Box<dyn FileWriter>,
        work: impl FnOnce(I, Box<dyn FileWriter>) -> crate::format::Result<T> + Send + 'static,
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

fn push(batches: Vec<RecordBatch>, mut writer: Box<dyn FileWriter>) -> crate::format::Result<(Box<dyn FileWriter>, Vec<Bytes>)> {
    for batch in &batches {
        writer.push(batch)?;
    }
    let bytes = writer.take_bytes();
    Ok((writer, bytes))
}

/// Takes batches as they come, until there are enough or there will be no more.
async fn gather(batches: &mut Receiver<RecordBatch>, ready: &mut Vec<RecordBatch>) {
    let mut bytes = 0_usize;
    while ready.len() < BATCHES_AT_ONCE && bytes < BYTES_AT_ONCE {
        let Some(batch) = batches.recv().await else { return };
        // Slices count as all that they are cut from: rather too much than too little.
        bytes = bytes.saturating_add(batch.get_array_memory_size());
        ready.push(batch);
    }
}

/// Waits for `work`, and for `other` no longer than that.
async fn meanwhile<T>(work: impl Future<Output = T>, other: impl Future<Output = ()>) -> T {
    let (work, other) = (pin!(work), pin!(other));
    match select(work, other).await {
        Either::Left((done, _)) => done,
        Either::Right(((), work)) => work.await,
    }
}
