//! Which zones to read: predicates evaluated on the zones' statistics.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_expr::{DynamicFilterTracking, PhysicalExpr};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use datafusion::physical_plan::metrics::{Count, PruningMetrics};

use super::metrics::FileMetrics;
use crate::format::scan::{Level, ZoneColumn, Zones};

/// A predicate on statistics, or `None` if statistics can say nothing about the predicate.
pub(super) fn pruning_predicate(
    predicate: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    max_in_list_size: usize,
    errors: &Count,
) -> Option<Arc<PruningPredicate>> {
    PruningPredicateBuilder::new()
        .with_file_schema(Arc::clone(schema))
        .with_error_counter(errors)
        .with_max_in_list_size(max_in_list_size)
        .build(Arc::clone(predicate))
}

/// Decides zone by zone for one file, always by the newest form of a predicate that changes while the query runs.
#[derive(Debug)]
pub(super) struct ZonePruner {
    predicate: Arc<dyn PhysicalExpr>,
    /// The columns that the predicate is about, in the file's types.
    schema: SchemaRef,
    /// Their indexes in the file.
    file_columns: Vec<usize>,
    max_in_list_size: usize,
    tracking: DynamicFilterTracking,
    current: Option<Arc<PruningPredicate>>,
    metrics: FileMetrics,
}

impl ZonePruner {
    /// `predicate` is in terms of `schema`, whose columns are `file_columns` of the file. `None` if it can never skip anything.
    pub(super) fn new(
        predicate: Arc<dyn PhysicalExpr>,
        schema: SchemaRef,
        file_columns: Vec<usize>,
        max_in_list_size: usize,
        metrics: FileMetrics,
    ) -> Option<Self> {
        // Before the predicate is built, so that no change is missed in between.
        let tracking = DynamicFilterTracking::classify(&predicate);
        let current = pruning_predicate(&predicate, &schema, max_in_list_size, &metrics.predicate_creation_errors);
        let may_change = matches!(tracking, DynamicFilterTracking::Watching(_));
        (current.is_some() || may_change).then_some(Self { predicate, schema, file_columns, max_in_list_size, tracking, current, metrics })
    }

    /// Columns of the file whose statistics are needed.
    pub(super) fn file_columns(&self) -> &[usize] {
        &self.file_columns
    }

    /// Which zones may have rows that the predicate keeps.
    pub(super) fn keep(&mut self, zones: &Zones) -> BooleanArray {
        let timer = self.metrics.statistics_eval_time.timer();
        if self.tracking.watcher().is_some_and(|tracker| tracker.changed()) {
            self.current = pruning_predicate(&self.predicate, &self.schema, self.max_in_list_size, &self.metrics.predicate_creation_errors);
        }
        let keep = match &self.current {
            Some(predicate) => predicate.prune(&ZoneStatistics { zones, pruner: self }).unwrap_or_else(|_| {
                self.metrics.predicate_evaluation_errors.add(1);
                vec![true; zone_count(zones)]
            }),
            None => vec![true; zone_count(zones)],
        };
        drop(timer);
        count(self.metric(zones.level), &keep);
        BooleanArray::from(keep)
    }

    fn metric(&self, level: Level) -> &PruningMetrics {
        match level {
            Level::Stripe => &self.metrics.stripes_pruned,
            Level::Page => &self.metrics.pages_pruned,
        }
    }
}

fn zone_count(zones: &Zones) -> usize {
    zones.row_counts.values().len()
}

fn count(metric: &PruningMetrics, keep: &[bool]) {
    let kept = keep.iter().filter(|keep| **keep).count();
    metric.add_matched(kept);
    metric.add_pruned(keep.len() - kept);
}

struct ZoneStatistics<'a> {
    zones: &'a Zones,
    pruner: &'a ZonePruner,
}

impl ZoneStatistics<'_> {
    fn column(&self, column: &Column) -> Option<&ZoneColumn> {
        let position = self.pruner.schema.index_of(column.name()).ok()?;
        let file_column = self.pruner.file_columns.get(position)?;
        self.zones.columns.iter().find(|zone| zone.column == *file_column)
    }
}

impl PruningStatistics for ZoneStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        Some(Arc::clone(&self.column(column)?.min))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        Some(Arc::clone(&self.column(column)?.max))
    }

    fn num_containers(&self) -> usize {
        zone_count(self.zones)
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        Some(Arc::new(self.column(column)?.null_counts.clone()))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(self.zones.row_counts.clone()))
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, UInt64Array};
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{self, DynamicFilterPhysicalExpr, binary, lit};
    use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("b", DataType::Int32, true)]))
    }

    fn column() -> Arc<dyn PhysicalExpr> {
        Arc::new(expressions::Column::new("b", 0))
    }

    fn greater_than(value: i32) -> Arc<dyn PhysicalExpr> {
        binary(column(), Operator::Gt, lit(value), &schema()).unwrap()
    }

    /// Zones of column 3 of the file with 0 to 9, 10 to 19, and unknown values.
    fn zones() -> Zones {
        Zones {
            level: Level::Page,
            row_counts: UInt64Array::from(vec![10, 10, 10]),
            columns: vec![ZoneColumn {
                column: 3,
                min: Arc::new(Int32Array::from(vec![Some(0), Some(10), None])),
                max: Arc::new(Int32Array::from(vec![Some(9), Some(19), None])),
                null_counts: UInt64Array::from(vec![Some(0), Some(0), None]),
            }],
        }
    }

    fn pruner(predicate: Arc<dyn PhysicalExpr>) -> Option<ZonePruner> {
        let metrics = FileMetrics::new(&ExecutionPlanMetricsSet::new(), 0, "x");
        ZonePruner::new(predicate, schema(), vec![3], 150, metrics)
    }

    #[test]
    fn zones_without_a_possible_row_are_skipped_and_counted_and_unknown_ones_kept() {
        let mut pruner = pruner(greater_than(9)).unwrap();
        assert_eq!(pruner.keep(&zones()), BooleanArray::from(vec![false, true, true]));
        assert_eq!((pruner.metrics.pages_pruned.pruned(), pruner.metrics.pages_pruned.matched()), (1, 2));
        assert_eq!((pruner.metrics.stripes_pruned.pruned(), pruner.metrics.stripes_pruned.matched()), (0, 0));
    }

    #[test]
    fn a_predicate_that_statistics_cannot_judge_makes_no_pruner() {
        assert!(pruner(lit(true)).is_none());
    }

    #[test]
    fn a_dynamic_filter_prunes_by_its_newest_form() {
        let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![column()], lit(true)));
        let mut pruner = pruner(Arc::clone(&filter) as _).unwrap();
        assert_eq!(pruner.keep(&zones()), BooleanArray::from(vec![true, true, true]));
        filter.update(greater_than(9)).unwrap();
        assert_eq!(pruner.keep(&zones()), BooleanArray::from(vec![false, true, true]));
        filter.update(greater_than(19)).unwrap();
        assert_eq!(pruner.keep(&zones()), BooleanArray::from(vec![false, false, true]));
    }
}
