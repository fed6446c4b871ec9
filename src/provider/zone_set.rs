//! Which zones may have a value of a set.

use arrow::array::{Array, ArrayRef, UInt64Array, make_comparator};
use arrow::buffer::NullBuffer;
use arrow::compute::{SortOptions, cast, sort};
use arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::{Column, InListExpr, Literal};

use crate::format::scan::ZoneColumn;

/// The values of an IN list over a column, in order.
#[derive(Debug)]
pub(super) struct ZoneSet {
    /// The column's name in the schema of the predicate.
    pub(super) column: String,
    values: ArrayRef,
}

impl ZoneSet {
    /// `None` if the list is not of constants, or its order says nothing.
    pub(super) fn of(list: &InListExpr, schema: &Schema) -> Option<Self> {
        let column = list.expr().downcast_ref::<Column>()?;
        let data_type = schema.field_with_name(column.name()).ok()?.data_type();
        // IN tells -0.0 from 0.0 and bounds do not.
        if data_type.is_floating() || data_type.is_nested() {
            return None;
        }
        let values = list.list().iter().map(|value| value.downcast_ref::<Literal>().map(|literal| literal.value().clone()));
        let values: Vec<ScalarValue> = values.collect::<Option<Vec<_>>>()?.into_iter().filter(|value| !value.is_null()).collect();
        let values = sort(&ScalarValue::iter_to_array(values).ok()?, None).ok()?;
        (values.data_type() == data_type).then(|| Self { column: column.name().to_owned(), values })
    }

    /// The values.
    pub(super) fn values(&self) -> &ArrayRef {
        &self.values
    }

    /// Forgets the zones of so many rows each that have no value of the set: those of nulls, and those without one between their bounds.
    pub(super) fn prune(&self, zones: &ZoneColumn, rows: &UInt64Array, keep: &mut [bool]) {
        for (keep, (rows, nulls)) in keep.iter_mut().zip(rows.iter().zip(&zones.null_counts)) {
            *keep &= nulls.is_none() || nulls != rows;
        }
        // A string may be read as another type than the file has.
        let bounds = |bounds: &ArrayRef| cast(bounds, self.values.data_type()).ok();
        let (Some(min), Some(max)) = (bounds(&zones.min), bounds(&zones.max)) else { return };
        let compare = |bounds| make_comparator(&self.values, bounds, SortOptions::default()).ok();
        let (Some(with_min), Some(with_max)) = (compare(&min), compare(&max)) else { return };
        let slots: Vec<usize> = (0..self.values.len()).collect();
        // Of runs, nulls are among the values.
        let unknown = NullBuffer::union(min.logical_nulls().as_ref(), max.logical_nulls().as_ref());
        for (zone, keep) in keep.iter_mut().enumerate().filter(|(_, keep)| **keep) {
            if unknown.as_ref().is_none_or(|known| known.is_valid(zone)) {
                let first = slots.partition_point(|slot| with_min(*slot, zone).is_lt());
                *keep = first < slots.len() && with_max(first, zone).is_le();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, RunArray, StringArray, StringViewArray};
    use arrow::datatypes::{DataType, Field, Int32Type};
    use datafusion::physical_expr::PhysicalExpr;
    use datafusion::physical_expr::expressions::{in_list, lit};

    use super::*;

    fn set(data_type: &DataType, values: Vec<Arc<dyn PhysicalExpr>>) -> Option<ZoneSet> {
        let schema = Schema::new(vec![Field::new("a", data_type.clone(), true)]);
        let list = in_list(Arc::new(Column::new("a", 0)), values, &false, &schema).unwrap();
        ZoneSet::of(list.downcast_ref().unwrap(), &schema)
    }

    fn keep(set: &ZoneSet, min: ArrayRef, max: ArrayRef) -> Vec<bool> {
        let mut keep = vec![true; min.len()];
        let (null_counts, rows) = (UInt64Array::from(vec![0; min.len()]), UInt64Array::from(vec![7; min.len()]));
        set.prune(&ZoneColumn { column: 0.into(), min, max, null_counts }, &rows, &mut keep);
        keep
    }

    #[test]
    fn a_zone_is_kept_for_each_value_between_its_bounds_and_none_beside() {
        let set = set(&DataType::Int32, vec![lit(70), lit(5), lit(ScalarValue::Int32(None)), lit(30), lit(5)]).unwrap();
        let min = Int32Array::from(vec![Some(0), Some(5), Some(6), Some(30), Some(31), Some(71), None, Some(0), Some(-9)]);
        let max = Int32Array::from(vec![Some(4), Some(5), Some(29), Some(30), Some(69), Some(99), Some(1), None, Some(99)]);
        assert_eq!(keep(&set, Arc::new(min), Arc::new(max)), [false, true, false, true, false, false, true, true, true]);
    }

    #[test]
    fn strings_have_an_order_and_floats_are_left_alone() {
        let values = || vec![lit(ScalarValue::Utf8View(Some("b".into()))), lit(ScalarValue::Utf8View(Some("dd".into())))];
        let set_of_strings = set(&DataType::Utf8View, values()).unwrap();
        let strings = |values: [&str; 3]| -> ArrayRef { Arc::new(StringViewArray::from(values.to_vec())) };
        assert_eq!(keep(&set_of_strings, strings(["a", "c", "c"]), strings(["az", "d", "e"])), [false, false, true]);
        assert!(set(&DataType::Float64, vec![lit(0.0)]).is_none());
        let stored = |values: [&str; 3]| -> ArrayRef { Arc::new(StringArray::from(values.to_vec())) };
        assert_eq!(keep(&set_of_strings, stored(["a", "c", "c"]), stored(["az", "d", "e"])), [false, false, true]);
    }

    #[test]
    fn runs_of_unknown_bounds_are_kept() {
        let runs = |value: Option<i32>| -> ArrayRef {
            let values = Int32Array::from(vec![value]);
            Arc::new(RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2]), &values).unwrap())
        };
        let data_type = runs(None).data_type().clone();
        let value = |value: i32| lit(ScalarValue::try_from_array(&runs(Some(value)), 0).unwrap());
        let set = set(&data_type, vec![value(1), value(3)]).unwrap();
        assert_eq!(keep(&set, runs(None), runs(None)), [true, true]);
        assert_eq!(keep(&set, runs(Some(0)), runs(None)), [true, true]);
        assert_eq!(keep(&set, runs(Some(2)), runs(Some(2))), [false, false]);
    }

    #[test]
    fn a_zone_of_nulls_has_no_value_of_any_set() {
        let set = set(&DataType::Int32, vec![lit(1)]).unwrap();
        let unknown: ArrayRef = Arc::new(Int32Array::from(vec![None; 4]));
        let null_counts = UInt64Array::from(vec![Some(7), Some(6), None, Some(0)]);
        let mut keep = vec![true; 4];
        let zones = ZoneColumn { column: 0.into(), min: Arc::clone(&unknown), max: unknown, null_counts };
        set.prune(&zones, &UInt64Array::from(vec![7; 4]), &mut keep);
        assert_eq!(keep, [false, true, true, true]);
    }
}
