//! Which zones to read: predicates evaluated on the zones' statistics.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_expr::utils::Guarantee;
use datafusion::physical_expr::{DynamicFilterTracking, PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use datafusion::physical_plan::metrics::{Count, PruningMetrics};

use super::lossy::has_misleading_cast;
use super::metrics::FileMetrics;
use super::weaken::{set_of, weakened};
use super::zone_set::ZoneSet;
use crate::format::scan::{FieldPath, Level, ZoneColumn, Zones};

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
    /// Where they are in the file.
    file_columns: Vec<FieldPath>,
    max_in_list_size: usize,
    tracking: DynamicFilterTracking,
    current: Pruning,
    metrics: FileMetrics,
}

/// A predicate as it was at one time, as far as statistics can judge it.
#[derive(Debug, Default)]
struct Pruning {
    predicate: Option<Arc<PruningPredicate>>,
    /// IN lists: [`PruningPredicate`] takes a list value by value, and a long one not at all.
    sets: Vec<ZoneSet>,
}

/// More values than this are not looked up in bloom filters: for so many, one of them most likely seems to be there.
const LOOKUPS_MAX: usize = 50;

impl Pruning {
    fn of(predicate: &Arc<dyn PhysicalExpr>, schema: &SchemaRef, max_in_list_size: usize, errors: &Count) -> Self {
        let Ok(now) = snapshot_physical_expr(Arc::clone(predicate)) else {
            errors.add(1);
            return Self::default();
        };
        let (mut sets, mut others) = (Vec::new(), Vec::new());
        // Part by part: a conjunction is as deep as it is long.
        for part in split_conjunction(&now) {
            for conjunct in split_conjunction(&weakened(part, schema)) {
                if has_misleading_cast(conjunct, schema).unwrap_or(true) {
                    continue;
                }
                match set_of(conjunct).and_then(|list| ZoneSet::of(list, schema)) {
                    Some(set) => sets.push(set),
                    None => others.push(Arc::clone(conjunct)),
                }
            }
        }
        Self { predicate: pruning_predicate(&conjunction(others), schema, max_in_list_size, errors), sets }
    }

    /// The values of which every wanted row has one in a column, if they are known and few.
    fn values(&self, column: &str) -> Option<ArrayRef> {
        let of_sets = self.sets.iter().filter(|set| set.column == column).map(|set| Arc::clone(set.values()));
        let guarantees = self.predicate.iter().flat_map(|predicate| predicate.literal_guarantees());
        let guarantees = guarantees
            .filter(|guarantee| guarantee.guarantee == Guarantee::In && guarantee.column.name() == column && guarantee.literals.len() <= LOOKUPS_MAX);
        let of_guarantees = guarantees.filter_map(|guarantee| {
            let values = guarantee.literals.iter().filter(|value| !value.is_null()).cloned().collect::<Vec<_>>();
            ScalarValue::iter_to_array(values).ok()
        });
        of_sets.chain(of_guarantees).filter(|values| values.len() <= LOOKUPS_MAX).min_by_key(|values| values.len())
    }

    fn is_empty(&self) -> bool {
        self.predicate.is_none() && self.sets.is_empty()
    }
}

impl ZonePruner {
    /// `predicate` is in terms of `schema`, whose columns are `file_columns` of the file. `None` if it can never skip anything.
    pub(super) fn new(
        predicate: Arc<dyn PhysicalExpr>,
        schema: SchemaRef,
        file_columns: Vec<FieldPath>,
        max_in_list_size: usize,
        metrics: FileMetrics,
    ) -> Option<Self> {
        // Before the predicate is built, so that no change is missed in between.
        let tracking = DynamicFilterTracking::classify(&predicate);
        let current = Pruning::of(&predicate, &schema, max_in_list_size, &metrics.predicate_creation_errors);
        let may_change = matches!(tracking, DynamicFilterTracking::Watching(_));
        (!current.is_empty() || may_change).then_some(Self { predicate, schema, file_columns, max_in_list_size, tracking, current, metrics })
    }

    /// Columns of the file whose statistics are needed.
    pub(super) fn file_columns(&self) -> &[FieldPath] {
        &self.file_columns
    }

    /// Those columns of the file, and what they are called.
    pub(super) fn columns(&self) -> impl Iterator<Item = (&FieldPath, &str)> {
        self.file_columns.iter().zip(self.schema.fields().iter().map(|field| field.name().as_str()))
    }

    /// Which zones may have rows that the predicate keeps.
    pub(super) fn keep(&mut self, zones: &Zones) -> BooleanArray {
        let time = self.metrics.statistics_eval_time.clone();
        let _timer = time.timer();
        self.refresh();
        let mut keep = match &self.current.predicate {
            Some(predicate) => predicate.prune(&ZoneStatistics { zones, pruner: self }).unwrap_or_else(|_| {
                self.metrics.predicate_evaluation_errors.add(1);
                vec![true; zone_count(zones)]
            }),
            None => vec![true; zone_count(zones)],
        };
        for set in &self.current.sets {
            if let Some(column) = self.zones_of(&set.column, zones) {
                set.prune(column, &zones.row_counts, &mut keep);
            }
        }
        count(self.metric(zones.level), &keep);
        BooleanArray::from(keep)
    }

    fn refresh(&mut self) {
        if self.tracking.watcher().is_some_and(|tracker| tracker.changed()) {
            self.current = Pruning::of(&self.predicate, &self.schema, self.max_in_list_size, &self.metrics.predicate_creation_errors);
        }
    }

    /// Of columns of the file, the values of which every wanted row has one, where they are known.
    pub(super) fn values_of(&mut self, columns: &[usize]) -> Vec<Option<ArrayRef>> {
        self.refresh();
        let name = |column: usize| self.columns().find(|(path, _)| **path == FieldPath::from(column)).map(|(_, name)| name);
        columns.iter().map(|column| self.current.values(name(*column)?)).collect()
    }

    /// What is known of a column of the schema.
    fn zones_of<'a>(&self, column: &str, zones: &'a Zones) -> Option<&'a ZoneColumn> {
        let file_column = self.file_columns.get(self.schema.index_of(column).ok()?)?;
        zones.columns.iter().find(|zone| zone.column == *file_column)
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
        self.pruner.zones_of(column.name(), self.zones)
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
                column: 3.into(),
                min: Arc::new(Int32Array::from(vec![Some(0), Some(10), None])),
                max: Arc::new(Int32Array::from(vec![Some(9), Some(19), None])),
                null_counts: UInt64Array::from(vec![Some(0), Some(0), None]),
            }],
        }
    }

    fn pruner(predicate: Arc<dyn PhysicalExpr>) -> Option<ZonePruner> {
        let metrics = FileMetrics::new(&ExecutionPlanMetricsSet::new(), 0, "x");
        ZonePruner::new(predicate, schema(), vec![3.into()], 150, metrics)
    }

    #[test]
    fn zones_without_a_possible_row_are_skipped_and_counted_and_unknown_ones_kept() {
        let mut pruner = pruner(greater_than(9)).unwrap();
        assert_eq!(pruner.keep(&zones()), BooleanArray::from(vec![false, true, true]));
        assert_eq!((pruner.metrics.pages_pruned.pruned(), pruner.metrics.pages_pruned.matched()), (1, 2));
        assert_eq!((pruner.metrics.stripes_pruned.pruned(), pruner.metrics.stripes_pruned.matched()), (0, 0));
    }

    #[test]
    fn a_choice_between_sets_prunes_by_all_of_them() {
        let set = |values: &[i32]| expressions::in_list(column(), values.iter().map(|value| lit(*value)).collect(), &false, &schema()).unwrap();
        let by = expressions::is_null(column()).unwrap();
        let choice = |values: &[i32]| expressions::case(None, vec![(Arc::clone(&by), set(&[1000]))], Some(set(values))).unwrap();
        let keep = |values: &[i32]| pruner(choice(values)).unwrap().keep(&zones());
        assert_eq!(keep(&(5..500).map(|value| value * 3).collect::<Vec<_>>()), BooleanArray::from(vec![false, true, true]));
        assert_eq!(keep(&[4]), BooleanArray::from(vec![true, false, true]));
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
