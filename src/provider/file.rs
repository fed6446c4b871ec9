//! One file of a scan: from the engine's [`PartitionedFile`] to a running [`Scan`].

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::SchemaRef;
use datafusion::common::{ScalarValue, internal_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::execution::cache::cache_manager::CacheManager;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::projection::{ProjectionExprs, Projector};
use datafusion::physical_expr::{DynamicFilterTracking, PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_expr_adapter::{PhysicalExprAdapterFactory, replace_columns_with_literals, rewrite::rewrite_input_file_name_in_projection};
use datafusion::physical_optimizer::pruning::FilePruner;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use object_store::ObjectStore;

use super::adapt::{adapt, constants};
use super::cache::{self, Held, OpenFile};
use super::codes_of::CodedColumns;
use super::filter::{Filtering, RowFilter, ScanColumns};
use super::io::{Counting, ObjectReader, byte_range};
use super::kind::{Kind, Reading};
use super::lift::{Lifted, lifted};
use super::lossy::has_misleading_cast;
use super::metrics::FileMetrics;
use super::prune::ZonePruner;
use super::rows::WantedRows;
use super::schema::{Columns, FileColumns, Positions};
use super::sort::{Reorder, StripeOrder};
use crate::format::scan::{Answer, Fetch, FieldPath, FirstRows, Lookups, Scan, ScanRequest, Step};
use crate::format::share::Share;

/// So many bytes are worth a second round to the store, once it is known that they are needed: about what a store far away sends in the time that a
/// request takes.
const SELECT_BYTES: u64 = 4 << 20;
/// Where stripes are fetched together, the second round is one for many of them. One that leaves fewer bytes for it is fetched whole.
const SELECT_BYTES_EACH: u64 = 1 << 20;
/// The same of a file of this machine, where a call takes microseconds.
const SELECT_BYTES_LOCAL: u64 = 256 << 10;

/// What is the same for all files of one partition of a scan.
#[derive(Debug)]
pub(super) struct ScanContext {
    pub(super) store: Arc<dyn ObjectStore>,
    /// Whether the store is the file system of this machine.
    pub(super) is_local: bool,
    pub(super) caches: Option<Arc<CacheManager>>,
    pub(super) held: Held,
    pub(super) kind: Kind,
    pub(super) reading: Reading,
    pub(super) table: TableSchema,
    pub(super) positions: Positions,
    pub(super) projection: ProjectionExprs,
    pub(super) predicate: Option<Arc<dyn PhysicalExpr>>,
    pub(super) expr_adapter: Option<Arc<dyn PhysicalExprAdapterFactory>>,
    pub(super) batch_rows: usize,
    pub(super) limit: Option<usize>,
    /// The rows' order is promised: they come in that of the file, or in the opposite one. The engine may share files nevertheless, where it has forgotten why.
    pub(super) in_order: bool,
    /// Stripes are read in about this order.
    pub(super) sort_order: Option<Reorder>,
    /// All rows come from the last one to the first.
    pub(super) backwards: bool,
    pub(super) partition: usize,
    pub(super) metrics: ExecutionPlanMetricsSet,
}

impl ScanContext {
    /// How many bytes are fetched ahead, and how many of other columns are worth a round of their own to the columns to select by. If the scan is not `is_steady`, who knows
    /// what will be wanted when the next stripe's turn comes?
    fn rounds(&self, is_steady: bool) -> (u64, u64) {
        match (self.is_local, if is_steady { self.reading.ahead_bytes } else { 0 }) {
            (true, _) => (0, SELECT_BYTES_LOCAL),
            (false, 0) => (0, SELECT_BYTES),
            (false, ahead) => (ahead, SELECT_BYTES_EACH),
        }
    }
}

/// A file, before it is opened.
pub(super) struct PreparedFile {
    context: Arc<ScanContext>,
    range: Option<Range<u64>>,
    share: Option<Share>,
    rows: Option<Vec<Range<u64>>>,
    reader: ObjectReader,
    metrics: FileMetrics,
    output: SchemaRef,
    projection: ProjectionExprs,
    predicate: Option<Arc<dyn PhysicalExpr>>,
    pruner: Option<FilePruner>,
}

impl PreparedFile {
    /// Puts what is known of the file (partition values, constant columns, its name) into the expressions.
    pub(super) fn new(context: Arc<ScanContext>, file: PartitionedFile) -> Result<Self> {
        let name = file.object_meta.location.to_string();
        let metrics = FileMetrics::new(&context.metrics, context.partition, &name);
        // From the expressions as they are in the plan: a literal in a column's place may be of another type.
        let output = Arc::new(context.projection.project_schema(context.table.table_schema())?);

        let mut exprs: Vec<_> = context.projection.iter().map(|item| Arc::clone(&item.expr)).collect();
        exprs.extend(context.predicate.clone());
        let constants = constants(&file, &context.table, &exprs)?;
        let literals = |expr: Arc<dyn PhysicalExpr>| if constants.is_empty() { Ok(expr) } else { replace_columns_with_literals(expr, &constants) };
        let projection = context.projection.clone().try_map_exprs(literals)?;
        let projection = rewrite_input_file_name_in_projection(projection, &name)?;
        let predicate = context.predicate.clone().map(literals).transpose()?;

        let errors = &metrics.predicate_creation_errors;
        let pruned_by = predicate.as_ref().filter(|_| context.reading.pruning).map(|predicate| {
            let misleads = |conjunct: &&Arc<dyn PhysicalExpr>| has_misleading_cast(conjunct, context.table.table_schema()).unwrap_or(true);
            conjunction(split_conjunction(predicate).into_iter().filter(|conjunct| !misleads(conjunct)).cloned())
        });
        let pruner = pruned_by.and_then(|predicate| FilePruner::try_new(predicate, context.table.file_schema(), &file, errors.clone()));
        let range = file.range.as_ref().map(byte_range);
        let share = file.extension::<Share>().filter(|_| !context.in_order).cloned();
        let rows = file.extension::<WantedRows>().map(|rows| rows.0.clone());
        let reader = ObjectReader::new(Arc::clone(&context.store), Arc::new(file.object_meta), context.reading.requests)
            .caching(context.caches.clone())
            .local(context.is_local)
            .mapping(context.reading.memory_map)
            .counting(Counting::of(&metrics));
        Ok(Self { context, range, share, rows, reader, metrics, output, projection, predicate, pruner })
    }

    /// Whether statistics and partition values say, by now, that no row of the file is wanted.
    pub(super) fn is_pruned(&mut self) -> Result<bool> {
        let pruned = match &mut self.pruner {
            Some(pruner) => pruner.should_prune()?,
            None => false,
        };
        if pruned {
            self.metrics.files_pruned.add_pruned(1);
        } else {
            self.metrics.files_pruned.add_matched(1);
        }
        Ok(pruned)
    }

    /// Reads the file's metadata, of all columns if that is not much.
    pub(super) async fn open(&self) -> Result<OpenFile> {
        let _timer = self.metrics.metadata_load_time.timer();
        let (open, opened_now) = cache::open(&self.reader, self.context.kind, &self.context.reading).await?;
        self.context.held.hold(&open);
        if opened_now && open.meta.is_eager() {
            self.metrics.column_metadata_loaded.add(open.meta.column_count());
        }
        Ok(open)
    }

    /// Plans the scan; `None` if no row can be wanted.
    pub(super) fn scan(self, open: OpenFile) -> Result<Option<FileScan>> {
        let Self { context, range, share, rows, reader, metrics, output, projection, predicate, pruner } = self;
        let columns = FileColumns { meta: open.meta.as_ref(), reader: &reader };
        let mut projected = Projected::new(&context, &projection, &columns, output)?;
        let filter = match predicate.as_ref().filter(|_| context.reading.pushdown_filters) {
            Some(predicate) => match RowFilter::plan(&context, predicate, &columns, &mut projected.scan)? {
                Filtering::All => None,
                Filtering::Some(filter) => Some(Arc::new(filter)),
                Filtering::None => return Ok(nothing(&metrics)),
            },
            None => None,
        };
        let is_changing =
            predicate.as_ref().is_some_and(|predicate| matches!(DynamicFilterTracking::classify(predicate), DynamicFilterTracking::Watching(_)));
        let zone_pruner = match predicate.filter(|_| context.reading.pruning) {
            Some(predicate) => match zone_pruner(&context, predicate, &columns, &metrics)? {
                Pruning::Nothing => None,
                Pruning::Zones(pruner) => Some(*pruner),
                Pruning::Everything => return Ok(nothing(&metrics)),
            },
            None => None,
        };
        // How many rows pass is known when they have been filtered. Backwards, the last pages of a stripe would have to be kept, and not the first.
        let limit = context.limit.filter(|_| filter.is_none() && !context.backwards);
        let prune_columns = match &zone_pruner {
            Some(pruner) => pruner.file_columns().to_vec(),
            None if limit.is_some() => projected.column_with_zones().map(FieldPath::from).into_iter().collect(),
            None => Vec::new(),
        };
        let stripe_order = context.sort_order.as_ref().and_then(|order| StripeOrder::of(order, zone_pruner.as_ref()?.columns()));
        let has_place = |path: &&FieldPath| path.fields.is_empty();
        let lookup_columns = match zone_pruner.as_ref().filter(|_| context.reading.bloom_filters) {
            Some(pruner) => pruner.file_columns().iter().filter(has_place).map(|path| path.column).collect(),
            None => Vec::new(),
        };
        // As far as the scan knows, nobody stops early, or finds out while it is read what else is not wanted. On this machine a request takes no time to speak of.
        let is_steady = context.limit.is_none() && context.sort_order.is_none() && !is_changing;
        let (ahead_bytes, select_bytes) = context.rounds(is_steady);
        let request = ScanRequest {
            prune_columns,
            lookup_columns,
            select_columns: filter.as_ref().map(|filter| filter.columns()).unwrap_or_default(),
            select_bytes,
            select_bytes_together: if ahead_bytes > 0 { SELECT_BYTES } else { 0 },
            ahead_bytes,
            range,
            share,
            rows,
            first: if context.backwards { Some(FirstRows::Last) } else { stripe_order.as_ref().map(StripeOrder::first_rows) },
            prune_again: is_changing,
            batch_rows: context.batch_rows,
            ..ScanRequest::new(projected.scan.file_columns, projected.scan.schema)
        };
        let unloaded = open.not_loaded(&reader, &request.used_columns())?;
        let scan = Arc::clone(&open.meta).scan(request).map_err(|error| reader.fault(error))?;
        let rows_left = limit.map(|limit| u64::try_from(limit).unwrap_or(u64::MAX));
        Ok(Some(FileScan {
            scan,
            open,
            unloaded,
            reader,
            metrics,
            pruner,
            zone_pruner,
            stripe_order,
            filter,
            passed: VecDeque::new(),
            lookups: Lookups::default(),
            batch_rows: context.batch_rows,
            backwards: context.backwards,
            projector: Arc::new(projected.projector),
            rows_left,
        }))
    }
}

/// A file that is being read.
pub(super) struct FileScan {
    scan: Box<dyn Scan>,
    open: OpenFile,
    /// Columns whose metadata has to be loaded first.
    unloaded: Vec<usize>,
    pub(super) reader: ObjectReader,
    pub(super) metrics: FileMetrics,
    /// Judges the whole file, for filters that become known while it is read.
    pub(super) pruner: Option<FilePruner>,
    pub(super) zone_pruner: Option<ZonePruner>,
    /// The order of stripes, if it is not that of the file.
    pub(super) stripe_order: Option<StripeOrder>,
    pub(super) filter: Option<Arc<RowFilter>>,
    /// Of the morsels of stripes that the filter was asked about before they were fetched, in their order: of each row whether it has passed, if that is known.
    pub(super) passed: VecDeque<Option<BooleanBuffer>>,
    /// What has been counted of the values that were looked up.
    lookups: Lookups,
    pub(super) batch_rows: usize,
    /// Whether rows come from the last one to the first.
    pub(super) backwards: bool,
    pub(super) projector: Arc<BatchProjector>,
    /// How many rows the query still wants at most.
    pub(super) rows_left: Option<u64>,
}

impl FileScan {
    /// Whether nothing follows what has been handed over.
    pub(super) fn is_over(&self) -> bool {
        self.scan.is_over()
    }

    /// Gives the scan an answer, and counts what it made of it.
    pub(super) fn step(&mut self, answer: Answer) -> Result<Step> {
        let step = self.scan.step(answer).map_err(|error| self.reader.fault(error))?;
        let now = self.scan.lookups();
        self.metrics.bloom_filters.add(now.skipped - self.lookups.skipped, now.kept - self.lookups.kept);
        self.lookups = now;
        Ok(step)
    }

    /// Goes on without what the last step asked for, if that is likely in memory when it is needed.
    pub(super) fn defer(&mut self, fetches: &[Fetch]) -> Result<Option<Step>> {
        if !self.reader.has_at_hand(fetches) {
            return Ok(None);
        }
        self.scan.defer().map_err(|error| self.reader.fault(error))
    }

    /// Whether all metadata that the scan needs is there.
    pub(super) fn is_ready(&self) -> bool {
        self.unloaded.is_empty()
    }

    /// Loads it, together with other scans of the file.
    pub(super) async fn make_ready(&mut self) -> Result<()> {
        let _timer = self.metrics.metadata_load_time.timer();
        let loaded = self.open.load_columns(&self.reader, &std::mem::take(&mut self.unloaded)).await?;
        if loaded > 0 {
            self.metrics.column_metadata_loaded.add(loaded);
            cache::keep(&self.reader, &self.open);
        }
        Ok(())
    }
}

/// What a predicate can do for a file.
enum Pruning {
    Nothing,
    Zones(Box<ZonePruner>),
    Everything,
}

fn zone_pruner(context: &ScanContext, predicate: Arc<dyn PhysicalExpr>, file: &dyn Columns, metrics: &FileMetrics) -> Result<Pruning> {
    let adapted = adapt(vec![predicate], &context.table, file, &context.positions, context.expr_adapter.as_ref())?;
    let Some(predicate) = adapted.exprs.into_iter().next() else {
        return internal_err!("a predicate has got lost");
    };
    if is_never_true(&predicate) {
        return Ok(Pruning::Everything);
    }
    if adapted.file_columns.is_empty() {
        return Ok(Pruning::Nothing);
    }
    let Lifted { predicate, schema, paths } = lifted(predicate, adapted.schema, &adapted.file_columns, file)?;
    let pruner = ZonePruner::new(predicate, schema, paths, context.reading.max_in_list_size, metrics.clone());
    Ok(pruner.map_or(Pruning::Nothing, |pruner| Pruning::Zones(Box::new(pruner))))
}

pub(super) fn is_never_true(predicate: &Arc<dyn PhysicalExpr>) -> bool {
    predicate.downcast_ref::<Literal>().is_some_and(|literal| matches!(literal.value(), ScalarValue::Boolean(None | Some(false)) | ScalarValue::Null))
}

/// The projection in terms of one file.
struct Projected {
    scan: ScanColumns,
    projector: BatchProjector,
}

impl Projected {
    fn new(context: &ScanContext, projection: &ProjectionExprs, file: &dyn Columns, output: SchemaRef) -> Result<Self> {
        let exprs = projection.iter().map(|item| Arc::clone(&item.expr)).collect();
        let adapted = adapt(exprs, &context.table, file, &context.positions, context.expr_adapter.as_ref())?;
        let mut exprs = adapted.exprs.into_iter();
        let projection = projection.clone().try_map_exprs(|expr| Ok(exprs.next().unwrap_or(expr)))?;
        let projector = projection.make_projector(&adapted.schema)?;
        let codes = CodedColumns::of(&projection.iter().map(|item| Arc::clone(&item.expr)).collect::<Vec<_>>(), &adapted.schema);
        let files: Vec<usize> = (0..adapted.file_columns.len()).collect();
        let scan_schema = if adapted.uses_row_index { Arc::new(adapted.schema.project(&files)?) } else { Arc::clone(&adapted.schema) };
        Ok(Self {
            projector: BatchProjector {
                columns: files,
                coded: Schemas { file: codes.schema(&scan_schema), input: codes.schema(&adapted.schema) },
                plain: Schemas { file: Arc::clone(&scan_schema), input: adapted.schema },
                codes,
                uses_row_index: adapted.uses_row_index,
                projector,
                output,
            },
            scan: ScanColumns { file_columns: adapted.file_columns, schema: scan_schema },
        })
    }
}

impl Projected {
    /// A column whose pages say where a limit is reached. The pages of one are enough; an empty projection fetches nothing anyway.
    fn column_with_zones(&self) -> Option<usize> {
        let mut columns = self.scan.file_columns.iter().zip(self.scan.schema.fields());
        columns.find(|(_, field)| !field.data_type().is_nested()).map(|(column, _)| *column)
    }
}

/// Makes batches of the query out of batches of the file.
#[derive(Debug)]
pub(super) struct BatchProjector {
    /// The columns of the scan that it is about: the first ones.
    pub(super) columns: Vec<usize>,
    /// Those of them that are read as codes.
    pub(super) codes: CodedColumns,
    /// What they are read as, with codes.
    pub(super) coded: Schemas,
    /// The same without.
    pub(super) plain: Schemas,
    /// Whether the number of the row is a column, too.
    pub(super) uses_row_index: bool,
    projector: Projector,
    output: SchemaRef,
}

#[derive(Debug)]
pub(super) struct Schemas {
    pub(super) file: SchemaRef,
    /// The same, and the number of the row at the end if it is used.
    pub(super) input: SchemaRef,
}

impl BatchProjector {
    /// Adds the numbers of the rows, if the projection asks for them.
    pub(super) fn input(&self, batch: RecordBatch, is_coded: bool, rows: Option<ArrayRef>) -> Result<RecordBatch> {
        let schemas = if is_coded { &self.coded } else { &self.plain };
        match rows {
            Some(rows) => with_column(&batch, Arc::clone(&schemas.input), rows),
            None => Ok(batch),
        }
    }

    /// Evaluates the projection.
    pub(super) fn project(&self, input: &RecordBatch) -> Result<RecordBatch> {
        let count = RecordBatchOptions::new().with_row_count(Some(input.num_rows()));
        let projected = self.projector.project_batch(input)?;
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.output), projected.columns().to_vec(), &count)?)
    }
}

fn with_column(batch: &RecordBatch, schema: SchemaRef, column: ArrayRef) -> Result<RecordBatch> {
    let count = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let mut columns = batch.columns().to_vec();
    columns.push(column);
    Ok(RecordBatch::try_new_with_options(schema, columns, &count)?)
}

/// No scan: the predicate is never true in the file, which was counted as read before its columns were known.
fn nothing(metrics: &FileMetrics) -> Option<FileScan> {
    metrics.files_pruned.add_pruned(1);
    metrics.files_pruned.subtract_matched(1);
    None
}
