//! [`FormatSource`]: what the optimizer may ask of a scan of files, and the scan itself.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{internal_datafusion_err, internal_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::execution::cache::cache_manager::CacheManager;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::functions::core::file_row_index::FileRowIndexFunc;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{DynamicFilterTracking, EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr, conjunction};
use datafusion::physical_expr_adapter::rewrite::{expr_references_scalar_udf, rewrite_file_row_index_projection};
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::apply_expression_roots;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet};
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};
use datafusion_datasource::file_groups::FileGroupPartitioner;
use datafusion_datasource::morsel::Morselizer;
use object_store::ObjectStore;

use super::cache::{Held, cached};
use super::fallible::can_fail;
use super::file::ScanContext;
use super::kind::{Kind, Reading, Requests};
use super::lift::lifted;
use super::morsel::FileMorselizer;
use super::narrow::path;
use super::offsets::OffsetsOf;
use super::prune::pruning_predicate;
use super::ranges::between_stripes;
use super::schema::Positions;
use super::share::shared;
use super::sort::Reorder;
use super::{pushdown, sort};

/// The hidden column that `file_row_index()` becomes.
const ROW_INDEX: &str = "__datafusion_file_row_index";

/// A scan of files of one format, before it is split into partitions.
#[derive(Debug, Clone)]
pub struct FormatSource {
    kind: Kind,
    table: TableSchema,
    projection: ProjectionExprs,
    predicate: Option<Arc<dyn PhysicalExpr>>,
    batch_size: Option<usize>,
    positions: Positions,
    reading: Reading,
    caches: Option<Arc<CacheManager>>,
    held: Held,
    /// Files and stripes are read in the order of this, as far as statistics say.
    sort_order: Option<Reorder>,
    /// Rows come from the last one of a file to the first.
    backwards: bool,
    metrics: ExecutionPlanMetricsSet,
}

impl FormatSource {
    /// A scan of all columns of a table.
    pub(super) fn new(kind: Kind, table: TableSchema, reading: Reading) -> Self {
        let columns: Vec<usize> = (0..table.table_schema().fields().len()).collect();
        Self {
            kind,
            projection: ProjectionExprs::from_indices(&columns, table.table_schema()),
            table,
            positions: Positions::default(),
            predicate: None,
            batch_size: None,
            reading,
            caches: None,
            held: Held::default(),
            sort_order: None,
            backwards: false,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Reads with these options.
    #[must_use]
    pub(super) fn with_reading(mut self, reading: Reading) -> Self {
        self.reading = reading;
        self
    }

    /// Looks for the table's columns there first.
    #[must_use]
    pub(super) fn with_positions(mut self, positions: Positions) -> Self {
        self.positions = positions;
        self
    }

    /// Holds with its table what is not kept of files.
    #[must_use]
    pub(super) fn holding(mut self, held: Held) -> Self {
        self.held = held;
        self
    }

    /// Takes open files from the caches of a session, and puts them there.
    #[must_use]
    pub fn with_caches(mut self, caches: Arc<CacheManager>) -> Self {
        self.caches = Some(caches);
        self
    }

    /// Adds to the predicate by which zones are skipped.
    fn with_filters(&self, filters: impl IntoIterator<Item = Arc<dyn PhysicalExpr>>) -> Self {
        let mut source = self.clone();
        source.predicate = Some(conjunction(source.predicate.into_iter().chain(filters)));
        source
    }

    fn fmt_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(predicate) = &self.predicate {
            write!(f, ", predicate={predicate}")?;
        }
        if let Some(Reorder { order, .. }) = &self.sort_order {
            write!(f, ", sort_order_for_reorder=[{order}]")?;
        }
        if self.backwards {
            write!(f, ", backwards=true")?;
        }
        let Some(predicate) = &self.predicate else {
            return Ok(());
        };
        if DynamicFilterTracking::classify(predicate).contains_dynamic_filter() {
            // The stripe is to Fermion what the row group is to Parquet; one name for both keeps plans comparable.
            write!(f, ", dynamic_rg_pruning=eligible")?;
        }
        // What is shown is made for the table's schema. What prunes a file is made for that file's.
        if !self.reading.pruning {
            return Ok(());
        }
        let schema = self.table.table_schema();
        let columns: Vec<usize> = (0..schema.fields().len()).collect();
        let lifted = lifted(Arc::clone(predicate), Arc::clone(schema), &columns, schema.as_ref()).map_err(|_| fmt::Error)?;
        let pruning = pruning_predicate(&lifted.predicate, &lifted.schema, self.reading.max_in_list_size, &Count::new());
        if let Some(pruning) = pruning {
            let mut guarantees: Vec<String> = pruning.literal_guarantees().iter().map(ToString::to_string).collect();
            guarantees.sort();
            write!(f, ", pruning_predicate={}, required_guarantees=[{}]", pruning.predicate_expr(), guarantees.join(", "))?;
        }
        Ok(())
    }
}

impl FileSource for FormatSource {
    fn create_file_opener(&self, _store: Arc<dyn ObjectStore>, _config: &FileScanConfig, _partition: usize) -> Result<Arc<dyn FileOpener>> {
        internal_err!("FormatSource makes morsels and no openers")
    }

    fn create_morselizer(&self, store: Arc<dyn ObjectStore>, config: &FileScanConfig, partition: usize) -> Result<Box<dyn Morselizer>> {
        let in_order = !config.output_ordering.is_empty();
        let context = ScanContext {
            held: self.held.clone(),
            store,
            is_local: config.object_store_url == ObjectStoreUrl::local_filesystem(),
            caches: self.caches.clone(),
            kind: self.kind,
            reading: self.reading.clone(),
            table: self.table.clone(),
            positions: self.positions.clone(),
            projection: self.projection.clone(),
            predicate: self.predicate.clone(),
            expr_adapter: config.expr_adapter_factory.clone(),
            batch_rows: self.batch_size.ok_or_else(|| internal_datafusion_err!("FormatSource has no batch size"))?,
            limit: config.limit,
            sort_order: self.sort_order.clone().filter(|_| !in_order && !self.backwards),
            in_order,
            backwards: self.backwards,
            partition,
            metrics: self.metrics.clone(),
        };
        Ok(Box::new(FileMorselizer::new(context)))
    }

    fn table_schema(&self) -> &TableSchema {
        &self.table
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(Self { batch_size: Some(batch_size), ..self.clone() })
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.predicate.clone()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection)
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        self.kind.name
    }

    fn fmt_extra(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match format {
            DisplayFormatType::Default => self.fmt_line(f),
            DisplayFormatType::Verbose => {
                self.fmt_line(f)?;
                let Reading { requests, ahead_bytes, metadata_size_hint, eager_load_threshold, memory_map, .. } = &self.reading;
                let Requests { gap, bytes_max, in_flight } = requests;
                write!(f, ", io=[metadata_size_hint={metadata_size_hint}, eager_load_threshold={eager_load_threshold}, coalesce_gap={gap}, ")?;
                write!(f, "request_bytes={bytes_max}, requests_in_flight={in_flight}, ahead_bytes={ahead_bytes}, memory_map={memory_map}]")
            }
            DisplayFormatType::TreeRender => match &self.predicate {
                Some(predicate) => writeln!(f, "predicate={}", fmt_sql(predicate.as_ref())),
                None => Ok(()),
            },
        }
    }

    /// Cuts files into even ranges, between stripes where that is near.
    fn repartitioned(
        &self,
        target_partitions: usize,
        repartition_file_min_size: usize,
        output_ordering: Option<LexOrdering>,
        config: &FileScanConfig,
    ) -> Result<Option<FileScanConfig>> {
        if config.file_compression_type.is_compressed() || !self.supports_repartitioning() {
            return Ok(None);
        }
        let even = FileGroupPartitioner::new()
            .with_target_partitions(target_partitions)
            .with_repartition_file_min_size(repartition_file_min_size)
            .with_preserve_order_within_groups(output_ordering.is_some())
            .repartition_file_groups(&config.file_groups);
        let stripes_of = |file: &PartitionedFile| {
            let open = self.caches.as_ref().and_then(|caches| cached(caches, &file.object_meta, self.kind));
            open.map_or_else(Vec::new, |open| open.meta.stripe_ranges())
        };
        // As far as is known here: the session may forbid it.
        let are_shared = output_ordering.is_none() && !config.preserve_order;
        Ok(even.map(|groups| {
            let mut config = config.clone();
            config.file_groups = between_stripes(groups, are_shared, stripes_of);
            config
        }))
    }

    /// Keeps the filters over stored values, to skip files, stripes, pages and rows.
    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let result = FilterPushdownPropagation::with_parent_pushdown_result(vec![PushedDown::No; filters.len()]);
        let schema = self.table.schema_without_virtual_columns();
        // One that is not taken stays above, and what can fail behind it must not see rows that it removes.
        let mut is_guarded = false;
        let takes = filters.iter().map(|filter| {
            let takes = pushdown::is_about_stored_values(filter, schema) && !(is_guarded && can_fail(filter, schema));
            is_guarded |= !takes;
            takes
        });
        let takes: Vec<bool> = takes.collect();
        let kept: Vec<_> = filters.into_iter().zip(&takes).filter(|(_, takes)| **takes).map(|(filter, _)| filter).collect();
        if kept.is_empty() {
            return Ok(result);
        }
        let answer = |takes: bool| if takes && self.reading.pushdown_filters { PushedDown::Yes } else { PushedDown::No };
        let answers = takes.into_iter().map(answer).collect();
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(answers).with_updated_node(Arc::new(self.with_filters(kept))))
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
        properties: &EquivalenceProperties,
    ) -> Result<SortOrderPushdownResult<Arc<dyn FileSource>>> {
        Ok(match sort::judge(order, properties, self.table.file_schema())? {
            sort::Verdict::Sorted => SortOrderPushdownResult::Exact { inner: Arc::new(self.clone()) },
            sort::Verdict::Reorder(order) => SortOrderPushdownResult::Inexact { inner: Arc::new(Self { sort_order: Some(order), ..self.clone() }) },
            sort::Verdict::Leave => SortOrderPushdownResult::Unsupported,
        })
    }

    /// Is called once for an execution in which partitions take files from each other.
    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        shared(match &self.sort_order {
            Some(Reorder { order, .. }) => sort::reorder(files, order, self.table.table_schema()),
            None => files,
        })
    }

    /// Takes over any projection. `file_row_index()` becomes a hidden column, which the scan fills in.
    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        let mut source = self.clone();
        if projection.iter().any(|item| expr_references_scalar_udf::<FileRowIndexFunc>(&item.expr)) {
            let column = source.row_index_column();
            source.projection = rewrite_file_row_index_projection(&self.projection, projection, &column)?;
        } else {
            source.projection = self.projection.try_merge(projection)?;
        }
        Ok(Some(Arc::new(source)))
    }

    /// Visits the predicate, too: a join makes no dynamic filter for a scan that does not show that it has it.
    fn apply_expressions(&self, f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.predicate.iter().chain(self.projection.iter().map(|item| &item.expr)), f)
    }
}

impl FormatSource {
    /// The scan without the values of lists in the columns of its output that are `unneeded`; `None` if there are none to leave out.
    pub(super) fn without_values(&self, unneeded: impl Fn(usize) -> bool) -> Result<Option<Self>> {
        let schema = self.table.table_schema();
        let mut items = self.projection.iter().cloned().collect::<Vec<_>>();
        let mut is_narrowed = false;
        for (index, item) in items.iter_mut().enumerate() {
            let is_stored = path(&item.expr, schema).is_some();
            if is_stored
                && unneeded(index)
                && let Some(offsets) = OffsetsOf::new(Arc::clone(&item.expr), schema)?
            {
                item.expr = Arc::new(offsets);
                is_narrowed = true;
            }
        }
        Ok(is_narrowed.then(|| Self { projection: ProjectionExprs::new(items), ..self.clone() }))
    }

    /// What its output is made of.
    pub(super) fn outputs(&self) -> &[ProjectionExpr] {
        self.projection.as_ref()
    }

    /// The scan with another output.
    pub(super) fn with_outputs(&self, outputs: Vec<ProjectionExpr>) -> Self {
        Self { projection: ProjectionExprs::new(outputs), ..self.clone() }
    }

    /// The column that files store, if that is what a column of the output is.
    pub(super) fn stored(&self, output: usize) -> Option<Arc<dyn PhysicalExpr>> {
        let expr = &self.outputs().get(output)?.expr;
        let column = expr.downcast_ref::<Column>()?;
        self.stores(column.index()).then(|| Arc::clone(expr))
    }

    /// Whether a column of the table is one that files store.
    pub(super) fn stores(&self, column: usize) -> bool {
        column < self.table.file_schema().fields().len()
    }

    /// Rows of a file, and about how many values are stored of a column for them, each stripe having its own; if that is known without reading.
    pub(super) fn stored_values(&self, file: &PartitionedFile, column: usize) -> Option<(u64, u64)> {
        let meta = cached(self.caches.as_ref()?, &file.object_meta, self.kind)?.meta;
        let position = self.positions.of_column(column);
        let name = self.table.file_schema().fields().get(column)?.name();
        let is_there = meta.name(position).is_some_and(|found| found == name);
        // What is wrong with it is said when it is read.
        let summary = if is_there { meta.column_summary(position).ok()?? } else { return None };
        let (rows, stripes) = (meta.row_count(), meta.stripe_ranges().len() as u64);
        Some((rows, summary.distinct_count?.saturating_mul(stripes.max(1)).min(rows)))
    }

    /// The scan in the opposite direction, and the order of its rows, if that is known to be the one that was asked for.
    pub(super) fn backwards(&self) -> Option<(Self, LexOrdering)> {
        let order = self.sort_order.as_ref().filter(|order| order.is_opposite)?.order.clone();
        Some((Self { sort_order: None, backwards: !self.backwards, ..self.clone() }, order))
    }

    /// The scan of rows that are known, in whatever order.
    pub(super) fn of_rows(&self) -> Self {
        Self { predicate: None, sort_order: None, backwards: false, metrics: ExecutionPlanMetricsSet::new(), ..self.clone() }
    }

    /// The scan with the hidden column of row numbers.
    pub(super) fn with_row_numbers(&self) -> (Self, Column) {
        let mut source = self.clone();
        let column = source.row_index_column();
        (source, column)
    }

    /// The scan of these columns of its output, and behind them of what is at `places`.
    pub(super) fn with_columns(&self, columns: &[usize], places: &[ProjectionExpr]) -> Self {
        self.with_outputs(columns.iter().filter_map(|column| self.outputs().get(*column)).chain(places).cloned().collect())
    }

    /// The stored columns that a column of the output is made of.
    pub(super) fn made_of(&self, column: usize) -> impl Iterator<Item = usize> {
        let stored = self.table.file_schema().fields().len();
        let columns = self.outputs().get(column).map(|item| collect_columns(&item.expr)).unwrap_or_default();
        columns.into_iter().map(|column| column.index()).filter(move |index| *index < stored)
    }

    /// Whether a stored column is read in parts.
    pub(super) fn has_parts(&self, stored: usize) -> bool {
        self.table.file_schema().fields().get(stored).is_some_and(|field| field.data_type().is_nested())
    }

    /// The hidden column of row numbers, added to the table's schema if it is not there. It is the only virtual column there is.
    fn row_index_column(&mut self) -> Column {
        let before = self.table.schema_without_virtual_columns().fields().len();
        if let Some(field) = self.table.virtual_columns().first() {
            return Column::new(field.name(), before);
        }
        let name = free_name(self.table.table_schema());
        let field: FieldRef = Arc::new(Field::new(&name, DataType::Int64, true));
        self.table = TableSchema::builder(Arc::clone(self.table.file_schema()))
            .with_table_partition_cols(self.table.table_partition_cols().clone())
            .with_virtual_columns(vec![field])
            .build();
        Column::new(&name, before)
    }
}

/// A name for the hidden column that no column of the table has.
fn free_name(schema: &SchemaRef) -> String {
    let mut name = ROW_INDEX.to_owned();
    let mut suffix = 0;
    while schema.field_with_name(&name).is_ok() {
        suffix += 1;
        name = format!("{ROW_INDEX}_{suffix}");
    }
    name
}
