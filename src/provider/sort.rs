//! What a wanted order of rows can change in a scan.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::compute::{SortOptions, sort_to_indices};
use arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalSortExpr};

use crate::format::scan::{FieldPath, FirstRows, Zones};

/// What a scan does about a wanted order.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// Rows come in that order as it is.
    Sorted,
    /// Files and stripes can be read in about that order, which lets a `LIMIT` above find its rows early.
    Reorder(Reorder),
    /// Nothing.
    Leave,
}

/// In which order files, stripes and their rows are read that a `LIMIT` above finds its rows in early.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reorder {
    /// As far as statistics say.
    pub(super) order: LexOrdering,
    /// Where they do not, the last rows of a stripe come first: they are in the opposite order, or, where nobody has said in which they are, more likely in that one.
    pub(super) backwards: bool,
    /// Whether the rows of each partition are in the opposite order throughout.
    pub(super) is_opposite: bool,
}

/// Judges as DataFusion's Parquet source does.
pub(super) fn judge(order: &[PhysicalSortExpr], properties: &EquivalenceProperties, file_schema: &Schema) -> Result<Verdict> {
    let Some(wanted) = LexOrdering::new(order.iter().cloned()) else {
        return Ok(Verdict::Leave);
    };
    if properties.ordering_satisfy(order.iter().cloned())? {
        return Ok(Verdict::Sorted);
    }
    // Sorted by a prefix of the order is worth more than about sorted by all of it: a sort above then works prefix by prefix.
    for length in 1..order.len() {
        if properties.ordering_satisfy(order.iter().take(length).cloned())? {
            return Ok(Verdict::Leave);
        }
    }
    let first = wanted.first().expr.downcast_ref::<Column>();
    let is_stored = first.is_some_and(|column| file_schema.fields().find(column.name()).is_some());
    if !is_stored {
        return Ok(Verdict::Leave);
    }
    let first = wanted.first();
    let known = properties.oeq_class().iter().map(LexOrdering::first).find(|known| known.expr.eq(&first.expr));
    let backwards = known.map_or(first.options.descending, |known| known.options.descending != first.options.descending);
    let opposite = order.iter().map(|item| PhysicalSortExpr::new(Arc::clone(&item.expr), !item.options));
    let is_opposite = properties.ordering_satisfy(opposite)?;
    Ok(Verdict::Reorder(Reorder { order: wanted, backwards, is_opposite }))
}

/// Orders files by the least values of the leading columns of `order`; files without statistics come last.
pub(super) fn reorder(mut files: Vec<PartitionedFile>, order: &LexOrdering, table: &Schema) -> Vec<PartitionedFile> {
    let columns = order.iter().map_while(|item| Some((item.expr.downcast_ref::<Column>()?, item.options.descending)));
    let keys: Vec<_> = columns.map_while(|(column, descending)| Some((table.fields().find(column.name())?.0, descending))).collect();
    files.sort_by(|a, b| {
        let by_key = keys.iter().map(|(column, descending)| compare(least(a, *column), least(b, *column), *descending));
        by_key.fold(Ordering::Equal, Ordering::then)
    });
    files
}

/// In which order stripes come that a `LIMIT` above finds its rows in early.
#[derive(Debug)]
pub(super) struct StripeOrder {
    /// The column of the file that rows are wanted in the order of.
    column: FieldPath,
    descending: bool,
    backwards: bool,
}

impl StripeOrder {
    /// By the leading column of `order`, if it is among those columns of the file that zones are known of.
    pub(super) fn of<'a>(reorder: &Reorder, mut known: impl Iterator<Item = (&'a FieldPath, &'a str)>) -> Option<Self> {
        let first = reorder.order.first();
        let wanted = first.expr.downcast_ref::<Column>()?.name();
        let (column, _) = known.find(|(_, name)| *name == wanted)?;
        Some(Self { column: column.clone(), descending: first.options.descending, backwards: reorder.backwards })
    }

    /// Which rows of a stripe come first.
    pub(super) fn first_rows(&self) -> FirstRows {
        FirstRows::Extreme { column: self.column.clone(), greatest: self.descending, last: self.backwards }
    }

    /// The stripes to read, those with the first values first; `None` if nothing is known of their values.
    pub(super) fn visit(&self, stripes: &Zones, keep: &BooleanArray) -> Option<Vec<usize>> {
        let column = stripes.columns.iter().find(|zone| zone.column == self.column)?;
        let bounds = if self.descending { &column.max } else { &column.min };
        let options = SortOptions { descending: self.descending, nulls_first: false };
        let sorted = sort_to_indices(bounds, Some(options), None).ok()?;
        Some(sorted.values().iter().map(|index| *index as usize).filter(|index| keep.value(*index)).collect())
    }
}

fn least(file: &PartitionedFile, column: usize) -> Option<&ScalarValue> {
    file.statistics.as_ref()?.column_statistics.get(column)?.min_value.get_value()
}

fn compare(a: Option<&ScalarValue>, b: Option<&ScalarValue>, descending: bool) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => {
            let ordering = a.partial_cmp(b).unwrap_or(Ordering::Equal);
            if descending { ordering.reverse() } else { ordering }
        }
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use arrow::array::{Int32Array, UInt64Array};
    use arrow::datatypes::{DataType, Field};
    use datafusion::common::stats::Precision;
    use datafusion::common::{ColumnStatistics, Statistics};

    use crate::format::scan::{Level, ZoneColumn};

    fn schema() -> Arc<Schema> {
        Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Int32, true)]))
    }

    fn by(name: &str, index: usize, descending: bool) -> PhysicalSortExpr {
        PhysicalSortExpr::new(Arc::new(Column::new(name, index)), SortOptions { descending, nulls_first: true })
    }

    #[test]
    fn sorted_is_sorted_a_prefix_is_left_alone_and_the_rest_is_reordered() {
        let mut properties = EquivalenceProperties::new(schema());
        properties.add_ordering([by("a", 0, false)]);
        let judge = |order: &[PhysicalSortExpr]| judge(order, &properties, &schema()).unwrap();
        assert_eq!(judge(&[by("a", 0, false)]), Verdict::Sorted);
        assert_eq!(judge(&[by("a", 0, false), by("b", 1, false)]), Verdict::Leave);
        let descending = [by("a", 0, true)];
        let reorder = |order: &[PhysicalSortExpr], backwards, is_opposite| {
            Verdict::Reorder(Reorder { order: LexOrdering::new(order.to_vec()).unwrap(), backwards, is_opposite })
        };
        // The nulls have to be on the other side, too.
        assert_eq!(judge(&descending), reorder(&descending, true, false));
        let opposite = [PhysicalSortExpr::new(Arc::new(Column::new("a", 0)), SortOptions { descending: true, nulls_first: false })];
        assert_eq!(judge(&opposite), reorder(&opposite, true, true));
        let more = [opposite[0].clone(), by("b", 1, true)];
        assert_eq!(judge(&more), reorder(&more, true, false));
        assert_eq!(
            [judge(&[by("b", 1, true)]), judge(&[by("b", 1, false)])],
            [reorder(&[by("b", 1, true)], true, false), reorder(&[by("b", 1, false)], false, false)]
        );
        assert_eq!(judge(&[by("not stored", 2, false)]), Verdict::Leave);
        assert_eq!(judge(&[]), Verdict::Leave);
    }

    #[test]
    fn stripes_come_by_their_first_values_and_unknown_ones_last() {
        let zones = Zones {
            level: Level::Stripe,
            row_counts: UInt64Array::from(vec![10; 4]),
            columns: vec![ZoneColumn {
                column: 1.into(),
                min: Arc::new(Int32Array::from(vec![Some(5), None, Some(1), Some(3)])),
                max: Arc::new(Int32Array::from(vec![Some(6), None, Some(9), Some(4)])),
                null_counts: UInt64Array::from(vec![0; 4]),
            }],
        };
        let visit = |name, descending, keep: [bool; 4]| {
            let paths = [7.into(), 1.into()];
            let known = paths.iter().zip(["a", "b"]);
            let order = LexOrdering::new([by(name, 0, descending)]).unwrap();
            let order = StripeOrder::of(&Reorder { order, backwards: descending, is_opposite: false }, known)?;
            order.visit(&zones, &BooleanArray::from(keep.to_vec()))
        };
        assert_eq!(visit("b", false, [true; 4]), Some(vec![2, 3, 0, 1]));
        assert_eq!(visit("b", true, [true; 4]), Some(vec![2, 0, 3, 1]));
        assert_eq!(visit("b", true, [true, true, false, true]), Some(vec![0, 3, 1]));
        assert_eq!(visit("a", true, [true; 4]), None);
        assert_eq!(visit("c", true, [true; 4]), None);
    }

    #[test]
    fn files_come_by_their_least_values_and_unknown_ones_last() {
        let file = |name: &str, min: Option<i32>| {
            let min = min.map_or(Precision::Absent, |min| Precision::Exact(ScalarValue::Int32(Some(min))));
            let column = ColumnStatistics::new_unknown().with_min_value(min);
            let statistics = Statistics { num_rows: Precision::Absent, total_byte_size: Precision::Absent, column_statistics: vec![column] };
            PartitionedFile::new(name, 1).with_statistics(Arc::new(statistics))
        };
        let names = |descending| {
            let files = vec![file("none", None), file("two", Some(2)), file("one", Some(1)), file("three", Some(3))];
            let sorted = reorder(files, &LexOrdering::new([by("a", 0, descending)]).unwrap(), &schema());
            sorted.iter().map(|file| file.object_meta.location.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(false), ["one", "two", "three", "none"]);
        assert_eq!(names(true), ["three", "two", "one", "none"]);
    }
}
