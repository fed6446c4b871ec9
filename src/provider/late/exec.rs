//! [`LateColumnsExec`]: columns of rows that are known by where they are.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::interleave;
use arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{Statistics, internal_datafusion_err, internal_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder, FileSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricValue, MetricsSet, RecordOutput};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, PlanProperties, ReplaceChildrenOptions, common,
};
use futures::stream::{self, TryStreamExt};

use crate::provider::rows::WantedRows;
use crate::provider::source::FormatSource;

/// Where a column of the output comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// From the rows that have been found.
    Found(usize),
    /// From what is read of them when all of them are known, by one of several scans.
    Late { scan: usize, column: usize },
}

/// Reads columns of the rows of its input.
#[derive(Debug, Clone)]
pub(super) struct LateColumnsExec {
    /// Some columns, and behind them where the rows are: the number in the file, and the file, if there are several.
    input: Arc<dyn ExecutionPlan>,
    late: Scans,
    columns: Arc<[Place]>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LateColumnsExec {
    /// In the place of `whole`.
    pub(super) fn new(whole: &Arc<dyn ExecutionPlan>, input: Arc<dyn ExecutionPlan>, late: Scans, columns: Arc<[Place]>) -> Self {
        Self { input, late, columns, properties: Arc::clone(whole.properties()), metrics: ExecutionPlanMetricsSet::new() }
    }

    fn names(&self) -> String {
        let schema = self.schema();
        let late = self.columns.iter().zip(schema.fields()).filter(|(place, _)| matches!(place, Place::Late { .. }));
        late.map(|(_, field)| field.name().as_str()).collect::<Vec<_>>().join(", ")
    }
}

impl DisplayAs for LateColumnsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => write!(f, "LateColumnsExec: columns=[{}]", self.names()),
            DisplayFormatType::TreeRender => writeln!(f, "columns={}", self.names()),
        }
    }
}

impl ExecutionPlan for LateColumnsExec {
    fn name(&self) -> &'static str {
        "LateColumnsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(&self, _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>, _: ReplaceChildrenOptions) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() && input.schema() == self.input.schema() => {
                Ok(Arc::new(Self { input, metrics: ExecutionPlanMetricsSet::new(), ..self.as_ref().clone() }))
            }
            _ => internal_err!("LateColumnsExec has one input of the schema that it was made for"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let late = Late {
            scans: self.late.clone(),
            columns: Arc::clone(&self.columns),
            schema: self.schema(),
            reservation: MemoryConsumer::new("LateColumns").register(context.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            context: Arc::clone(&context),
        };
        let late = Arc::new(late);
        let input = self.input.execute(partition, context)?;
        let rows = async move { late.complete(common::collect(input).await?).await };
        let rows = stream::once(rows).map_ok(|batches| stream::iter(batches.into_iter().map(Ok))).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    /// With what has been read late, but for what came out of that, which comes out of here again.
    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        for source in self.late.sources.iter() {
            let late = source.metrics().clone_inner();
            late.iter().filter(|metric| !is_of_output(metric.value())).for_each(|metric| metrics.push(Arc::clone(metric)));
        }
        Some(metrics)
    }
}

fn is_of_output(metric: &MetricValue) -> bool {
    matches!(metric, MetricValue::OutputRows(_) | MetricValue::OutputBytes(_) | MetricValue::OutputBatches(_))
}

/// What has to be read.
struct Late {
    scans: Scans,
    columns: Arc<[Place]>,
    schema: SchemaRef,
    context: Arc<TaskContext>,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
}

/// A row: the place of its file in the order of the names of files, and its number.
type RowPlace = (usize, i64);

impl Late {
    /// The rows with all columns.
    async fn complete(self: Arc<Self>, found: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
        let found: Vec<RecordBatch> = found.into_iter().filter(|batch| batch.num_rows() > 0).collect();
        let columns_found = self.columns.iter().filter(|place| matches!(place, Place::Found(_))).count();
        let places = found.iter().map(|batch| self.scans.places(batch, columns_found)).collect::<Result<Vec<_>>>()?;
        let wanted: BTreeSet<RowPlace> = places.iter().flatten().copied().collect();
        let groups = self.scans.groups(&wanted.into_iter().collect::<Vec<_>>(), self.context.session_config().target_partitions());
        let scans = (0..self.scans.sources.len()).map(|index| {
            let (late, groups) = (Arc::clone(&self), groups.clone());
            SpawnedTask::spawn(async move { late.read(index, groups).await })
        });
        let scans: Vec<SpawnedTask<Result<Read>>> = scans.collect();
        let mut read = Vec::with_capacity(scans.len());
        for scan in scans {
            read.push(scan.join_unwind().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??);
        }
        let _timer = self.metrics.elapsed_compute().timer();
        let assembled = found.iter().zip(&places).map(|(found, places)| self.assemble(found, places, &read));
        let assembled = assembled.collect::<Result<Vec<_>>>()?;
        Ok(assembled.into_iter().map(|batch| batch.record_output(&self.metrics)).collect())
    }

    /// Reads these rows by one of the scans.
    async fn read(&self, index: usize, groups: Vec<FileGroup>) -> Result<Read> {
        let columns = self.columns.iter().filter(|place| matches!(place, Place::Late { scan, .. } if *scan == index)).count();
        let mut read = Read::default();
        if groups.is_empty() {
            return Ok(read);
        }
        let source: Arc<dyn FileSource> = Arc::clone(&self.scans.sources[index]) as _;
        let scan = FileScanConfigBuilder::from(self.scans.config.clone()).with_source(source).with_file_groups(groups).build();
        let scan = CoalescePartitionsExec::new(DataSourceExec::from_data_source(scan));
        let mut batches = scan.execute(0, Arc::clone(&self.context))?;
        while let Some(batch) = batches.try_next().await? {
            self.reservation.try_grow(get_record_batch_memory_size(&batch))?;
            let rows = self.scans.places(&batch, columns)?.into_iter().enumerate();
            read.rows.extend(rows.map(|(row, place)| (place, (read.batches.len(), row))));
            read.batches.push(batch);
        }
        Ok(read)
    }

    /// Rows that have been found, in these places, with what has been read of them.
    fn assemble(&self, found: &RecordBatch, places: &[RowPlace], read: &[Read]) -> Result<RecordBatch> {
        let rows = read.iter().map(|read| read.rows_at(places)).collect::<Result<Vec<_>>>()?;
        let column = |place: &Place| match *place {
            Place::Found(column) => Ok(Arc::clone(found.column(column))),
            Place::Late { scan, column } => {
                let parts: Vec<&dyn Array> = read[scan].batches.iter().map(|batch| batch.column(column).as_ref()).collect();
                Ok(interleave(&parts, &rows[scan])?)
            }
        };
        let columns = self.columns.iter().map(column).collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(found.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// What one of the scans has read.
#[derive(Default)]
struct Read {
    batches: Vec<RecordBatch>,
    /// In which of them each row is, and where.
    rows: HashMap<RowPlace, (usize, usize)>,
}

impl Read {
    fn rows_at(&self, places: &[RowPlace]) -> Result<Vec<(usize, usize)>> {
        let row = |place| self.rows.get(place).copied().ok_or_else(|| internal_datafusion_err!("a row was not read"));
        places.iter().map(row).collect()
    }
}

/// Scans of the same files, each of some columns, and of where rows are, behind them.
#[derive(Debug, Clone)]
pub(super) struct Scans {
    /// Without files.
    config: FileScanConfig,
    sources: Arc<[Arc<FormatSource>]>,
    /// Each once, whole, by their names.
    files: Arc<[PartitionedFile]>,
}

/// Of fewer rows not one half is read beside the other.
const ROWS_MIN: usize = 4;

impl Scans {
    pub(super) fn new(files: &FileScanConfig, sources: Arc<[Arc<FormatSource>]>) -> Self {
        // What is known of the rows in all files, and promised of their order, does not hold for some of them.
        let config = FileScanConfigBuilder::from(files.clone())
            .with_file_groups(Vec::new())
            .with_limit(None)
            .with_preserve_order(false)
            .with_statistics(Statistics::default())
            .with_output_ordering(Vec::new())
            .with_output_partitioning(None)
            .build();
        let mut files: Vec<PartitionedFile> = files.file_groups.iter().flat_map(|group| group.iter().cloned()).collect();
        files.sort_by(|a, b| a.object_meta.location.cmp(&b.object_meta.location));
        files.dedup_by(|a, b| a.object_meta.location == b.object_meta.location);
        files.iter_mut().for_each(|file| file.range = None);
        Self { config, sources, files: files.into() }
    }

    /// Where the rows of a batch are, which is said behind its `columns`.
    fn places(&self, batch: &RecordBatch, columns: usize) -> Result<Vec<RowPlace>> {
        let lacks = || internal_datafusion_err!("it is not said where rows are");
        let mut places = batch.columns().iter().skip(columns);
        let rows = places.next().and_then(|rows| rows.as_primitive_opt::<Int64Type>()).ok_or_else(lacks)?;
        let Some(names) = places.next() else { return Ok(rows.values().iter().map(|row| (0, *row)).collect()) };
        let names = names.as_string_opt::<i32>().ok_or_else(lacks)?;
        let file = |name: Option<&str>| self.files.binary_search_by(|file| file.object_meta.location.as_ref().cmp(name.unwrap_or_default()));
        names.iter().zip(rows.values()).map(|(name, row)| Ok((file(name).map_err(|_| lacks())?, *row))).collect()
    }

    /// The files with these rows, which ascend, for as many threads as there are beside those that read other columns.
    fn groups(&self, rows: &[RowPlace], threads: usize) -> Vec<FileGroup> {
        let of_thread = rows.len().div_ceil(threads.div_ceil(self.sources.len().max(1)).max(1)).max(ROWS_MIN);
        let of_file = |rows: &[RowPlace]| {
            let (file, _) = rows.first()?;
            let rows = WantedRows(ranges(rows.iter().map(|(_, row)| row.cast_unsigned())));
            Some(self.files.get(*file)?.clone().with_extension(rows))
        };
        let group = |rows: &[RowPlace]| FileGroup::new(rows.chunk_by(|(a, _), (b, _)| a == b).filter_map(of_file).collect());
        rows.chunks(of_thread).map(group).collect()
    }
}

/// Rows that ascend, as ranges.
fn ranges(rows: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for row in rows {
        match ranges.last_mut() {
            Some(range) if range.end == row => range.end += 1,
            _ => ranges.push(row..row + 1),
        }
    }
    ranges
}
