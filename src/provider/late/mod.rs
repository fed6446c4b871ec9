//! [`LateColumns`]: the first rows of an order are found by the columns that order them, and the others are read of those alone.
//!
//! `SELECT * FROM t ORDER BY a LIMIT 10` would read all columns wherever a batch has a row that is among the first ten so far, and keep ten rows of all that.

mod exec;

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{internal_datafusion_err, internal_err};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::functions::core::input_file_name;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use object_store::path::Path;

use self::exec::{LateColumnsExec, Place, Scans};
use super::aggregates::with_rule_before;
use super::source::FormatSource;

/// Of more rows, all columns are read at once: they are held together, and are likely to lie everywhere.
const ROWS_MAX: usize = 8192;

/// So many columns, or more, are read together, so that files are not opened again for a few.
const COLUMNS_MIN: usize = 16;

/// A rule for the physical optimizer, to stand before the one that gives a sort's filter to scans ([`with_rules`](super::with_rules) sees to that).
///
/// Where the first rows of an order are taken of a scan of one of our formats, the scan gives out the columns that order them and where the rows are, and of those that are left in the end the other
/// columns are read.
#[derive(Debug, Clone, Copy)]
pub struct LateColumns {
    /// Of tables of this machine with fewer bytes all columns are read at once: to go back to a file may be no less work.
    pub bytes_min: u64,
    /// The same of tables in a store, to which it takes a round to go back: as long as some ten megabytes take, where the store is far away.
    pub far_bytes_min: u64,
}

impl Default for LateColumns {
    fn default() -> Self {
        Self { bytes_min: 4 << 20, far_bytes_min: 32 << 20 }
    }
}

impl PhysicalOptimizerRule for LateColumns {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|plan| {
            if plan.is::<LateColumnsExec>() {
                return Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump));
            }
            let late = self.late(&plan, config)?;
            // What it is made of is not looked at again.
            Ok(late.map_or_else(|| Transformed::no(plan), |late| Transformed::new(Arc::new(late), true, TreeNodeRecursion::Jump)))
        })
        .data()
    }

    fn name(&self) -> &str {
        "LateColumns"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl LateColumns {
    /// Puts the rule where it has to stand.
    #[must_use]
    pub fn with(self, builder: SessionStateBuilder) -> SessionStateBuilder {
        with_rule_before(builder, &FilterPushdown::new_post_optimization(), Arc::new(self))
    }

    /// The same rows, of which some columns are read when they are known; `None` where there are no such.
    fn late(&self, plan: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Option<LateColumnsExec>> {
        let Some(top) = Top::of(plan) else { return Ok(None) };
        let Some((scan, files, source)) = scan(top.sort.input()) else { return Ok(None) };
        let bytes: u64 = files.file_groups.iter().flat_map(|group| group.iter()).map(|file| file.effective_size()).sum();
        let (first, rest) = split(&top, source, scan.schema().fields().len());
        let is_local = files.object_store_url == ObjectStoreUrl::local_filesystem();
        if bytes < if is_local { self.bytes_min } else { self.far_bytes_min } || rest.is_empty() {
            return Ok(None);
        }
        let (source, number) = source.with_row_numbers();
        let mut places = vec![ProjectionExpr { alias: number.name().to_owned(), expr: Arc::new(number) }];
        let names: HashSet<&Path> = files.file_groups.iter().flat_map(|group| group.iter()).map(|file| &file.object_meta.location).collect();
        if names.len() > 1 {
            let name = ScalarFunctionExpr::try_new(input_file_name(), Vec::new(), &Schema::empty(), Arc::new(config.clone()))?;
            places.push(ProjectionExpr { alias: name.name().to_owned(), expr: Arc::new(name) });
        }
        let found = FileScanConfigBuilder::from(files.clone()).with_source(Arc::new(source.with_columns(&first, &places))).build();
        let input = top.over(Arc::new(scan.clone().with_data_source(Arc::new(found))), &first)?;
        let together = rest.len().div_ceil(2 * config.execution.target_partitions).max(COLUMNS_MIN);
        let rows = source.of_rows();
        let late = rest.chunks(together).map(|columns| Arc::new(rows.with_columns(columns, &places)));
        let place = |column: usize| match first.binary_search(&column) {
            Ok(place) => Place::Found(place),
            Err(before) => Place::Late { scan: (column - before) / together, column: (column - before) % together },
        };
        let columns = (0..scan.schema().fields().len()).map(place).collect();
        Ok(Some(LateColumnsExec::new(plan, input, Scans::new(files, late.collect()), columns)))
    }
}

/// The columns of a scan that order its rows, with those that come of the same stored ones, or of none; and the others.
fn split(top: &Top<'_>, source: &FormatSource, columns: usize) -> (Vec<usize>, Vec<usize>) {
    let ordering = top.sort.expr().iter().flat_map(|item| collect_columns(&item.expr)).map(|column| column.index());
    let ordering: HashSet<usize> = ordering.collect();
    // Of one with parts, what is read for the order may not be what others are made of.
    let read = ordering.iter().flat_map(|column| source.made_of(*column)).filter(|stored| !source.has_parts(*stored));
    let read: HashSet<usize> = read.collect();
    (0..columns).partition(|column| ordering.contains(column) || source.made_of(*column).all(|stored| read.contains(&stored)))
}

/// The scan of one of our formats that a plan is.
fn scan(plan: &Arc<dyn ExecutionPlan>) -> Option<(&DataSourceExec, &FileScanConfig, &FormatSource)> {
    if plan.is::<CooperativeExec>() {
        let [input] = plan.children()[..] else { return None };
        return scan(input);
    }
    let scan = plan.downcast_ref::<DataSourceExec>()?;
    let (config, source) = scan.downcast_to_file_source::<FormatSource>()?;
    Some((scan, config, source))
}

/// What takes the first rows of an order.
struct Top<'a> {
    /// Out of several that each take them of a part.
    merge: Option<&'a SortPreservingMergeExec>,
    sort: &'a SortExec,
}

impl<'a> Top<'a> {
    fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        let is_few = |fetch: Option<usize>| fetch.is_some_and(|fetch| fetch <= ROWS_MAX);
        if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
            let sort = merge.input().downcast_ref::<SortExec>()?;
            return (is_few(merge.fetch()) && is_few(sort.fetch())).then_some(Self { merge: Some(merge), sort });
        }
        let sort = plan.downcast_ref::<SortExec>()?;
        (is_few(sort.fetch()) && plan.output_partitioning().partition_count() == 1).then_some(Self { merge: None, sort })
    }

    /// The same over a scan that begins with these columns.
    fn over(&self, scan: Arc<dyn ExecutionPlan>, columns: &[usize]) -> Result<Arc<dyn ExecutionPlan>> {
        let order = ordering_among(self.sort.expr(), columns)?;
        let sort = SortExec::new(order.clone(), scan).with_fetch(self.sort.fetch()).with_preserve_partitioning(self.sort.preserve_partitioning());
        let sort: Arc<dyn ExecutionPlan> = Arc::new(sort);
        Ok(match self.merge {
            Some(merge) => Arc::new(SortPreservingMergeExec::new(order, sort).with_fetch(merge.fetch())),
            None => sort,
        })
    }
}

/// The order in terms of some columns, which ascend and are all that it is about.
fn ordering_among(order: &LexOrdering, columns: &[usize]) -> Result<LexOrdering> {
    let among = |expr: Arc<dyn PhysicalExpr>| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        match columns.binary_search(&column.index()) {
            Ok(place) => Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as Arc<dyn PhysicalExpr>)),
            Err(_) => internal_err!("an order by a column that is not read for it"),
        }
    };
    let item = |item: &PhysicalSortExpr| Ok(PhysicalSortExpr::new(Arc::clone(&item.expr).transform_down(among).data()?, item.options));
    let items = order.iter().map(item).collect::<Result<Vec<_>>>()?;
    LexOrdering::new(items).ok_or_else(|| internal_datafusion_err!("an order by nothing"))
}
