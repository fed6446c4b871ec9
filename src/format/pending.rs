//! Rows that wait to be written, in the batches that they came in.

use std::collections::VecDeque;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::buffer::Buffer;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Schema};

use super::array::spelled_bytes;

/// Bytes of a column up to which it is worth being copied together with that of another batch: to keep an array takes some hundreds, whatever is in it.
const SMALL: usize = 1 << 10;
/// Buffers of an array of views that is joined with another, at most.
const VIEW_BUFFERS_MAX: usize = 8;

/// Rows that wait, the first ones first.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Batches, and the bytes of each.
    batches: VecDeque<(RecordBatch, usize)>,
    rows: usize,
    bytes: usize,
    /// Batches of small columns are joined.
    joins_small: bool,
}

impl Pending {
    /// Rows of this schema, whose batches are joined where they are small.
    pub(crate) fn joining(schema: &Schema) -> Self {
        Self { joins_small: schema.fields().iter().all(|field| can_be_joined(field.data_type())), ..Self::default() }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the rows, not of the buffers they are cut from.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn push(&mut self, batch: RecordBatch) {
        let bytes = batch.columns().iter().map(spelled_bytes).fold(0, usize::saturating_add);
        self.rows += batch.num_rows();
        self.bytes = self.bytes.saturating_add(bytes);
        self.batches.push_back((batch, bytes));
        while self.joins_small && self.batches.len() >= 2 && self.join_small() {}
    }

    /// Makes one of the last two batches, if their columns are small and the first is not much larger: what is joined again and again is copied often.
    fn join_small(&mut self) -> bool {
        let (Some((last, last_bytes)), Some((before, before_bytes))) = (self.batches.pop_back(), self.batches.pop_back()) else { return false };
        let is_small = |bytes: usize| bytes / last.num_columns().max(1) < SMALL;
        let is_worth_it = is_small(last_bytes) && is_small(before_bytes) && before_bytes / 2 <= last_bytes;
        let joined = match is_worth_it && last.columns().iter().chain(before.columns()).all(has_few_buffers) {
            true => concat_batches(last.schema_ref(), [&before, &last]).ok(),
            false => None,
        };
        match joined {
            Some(joined) => {
                self.batches.push_back((joined, before_bytes.saturating_add(last_bytes)));
                true
            }
            None => {
                self.batches.extend([(before, before_bytes), (last, last_bytes)]);
                false
            }
        }
    }

    /// The first `rows` rows, or all if there are fewer.
    pub(crate) fn take(&mut self, rows: usize) -> Vec<RecordBatch> {
        let mut taken = Vec::new();
        let mut missing = rows;
        while missing > 0 {
            let Some((batch, bytes)) = self.batches.pop_front() else { break };
            let used = batch.num_rows().min(missing);
            // Its share. To look at all rows each time that some are cut off takes longer than to write them.
            let left = bytes as u128 * (batch.num_rows() - used) as u128 / batch.num_rows().max(1) as u128;
            let left = usize::try_from(left).unwrap_or(bytes);
            if used < batch.num_rows() {
                self.batches.push_front((batch.slice(used, batch.num_rows() - used), left));
            }
            self.bytes = self.bytes.saturating_sub(bytes - left);
            self.rows -= used;
            missing -= used;
            taken.push(batch.slice(0, used));
        }
        taken
    }
}

/// Whether arrays of the type can be joined whatever is in them. Dictionaries may have more values together than their keys can count, and lists of nothing more items, at which Arrow
/// may panic; and tables of very many columns have plain ones.
fn can_be_joined(data_type: &DataType) -> bool {
    !data_type.is_nested() && !matches!(data_type, DataType::Dictionary(..) | DataType::RunEndEncoded(..))
}

/// Whether an array refers to few buffers: those of views that are joined add up.
fn has_few_buffers(array: &ArrayRef) -> bool {
    let of_views = |buffers: &[Buffer]| buffers.len() <= VIEW_BUFFERS_MAX;
    let strings = array.as_string_view_opt().is_none_or(|views| of_views(views.data_buffers()));
    strings && array.as_binary_view_opt().is_none_or(|views| of_views(views.data_buffers()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;
    use arrow::datatypes::Field;

    use super::*;

    fn batch(rows: i64) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        RecordBatch::try_from_iter([("n", numbers)]).unwrap()
    }

    #[test]
    fn small_batches_are_joined_and_their_rows_stay_in_order() {
        let mut pending = Pending::joining(batch(1).schema_ref());
        let lengths = |pending: &Pending| pending.batches.iter().map(|(batch, _)| batch.num_rows()).collect::<Vec<_>>();
        for (rows, expected) in
            [(1, vec![1]), (1, vec![2]), (1, vec![3]), (1, vec![3, 1]), (1, vec![5]), (2000, vec![5, 2000]), (5, vec![5, 2000, 5])]
        {
            pending.push(batch(rows));
            assert_eq!(lengths(&pending), expected);
        }
        assert_eq!((pending.rows(), pending.bytes()), (2010, 2010 * 8));
        let expected: Vec<i64> = [0; 5].into_iter().chain(0..2000).chain(0..5).collect();
        let taken: Vec<ArrayRef> = pending.take(2010).iter().map(|batch| Arc::clone(batch.column(0))).collect();
        let taken = arrow::compute::concat(&taken.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap();
        assert_eq!(taken.as_ref(), &Int64Array::from(expected));
        // Where nobody asked for it, batches stay as they came: they may have dictionaries of their own.
        let mut apart = Pending::default();
        (0..3).for_each(|_| apart.push(batch(1)));
        assert_eq!(lengths(&apart), [1, 1, 1]);
    }

    #[test]
    fn buffers_of_views_do_not_pile_up() {
        use arrow::array::StringViewArray;
        let mut pending = Pending::joining(&Schema::new(vec![Field::new("t", DataType::Utf8View, true)]));
        for row in 0..1000 {
            let views: ArrayRef = Arc::new(StringViewArray::from_iter_values([format!("more than twelve bytes, {row}")]));
            pending.push(RecordBatch::try_from_iter([("t", views)]).unwrap());
        }
        let buffers = pending.batches.iter().map(|(batch, _)| batch.column(0).as_string_view().data_buffers().len());
        assert!(buffers.max().unwrap() <= 2 * VIEW_BUFFERS_MAX && pending.batches.len() < 300);
        assert_eq!(pending.take(1000).iter().map(RecordBatch::num_rows).sum::<usize>(), 1000);
    }

    #[test]
    fn what_cannot_be_joined_stays_apart() {
        use arrow::array::{Array, DictionaryArray, Int8Array, RunArray, StringViewArray, StructArray};
        use arrow::datatypes::Int32Type;
        // Of which Arrow does not say that they are too many, but panics.
        let values = |from: usize| StringViewArray::from_iter_values((from..from + 100).map(|value| format!("{value}")));
        let dictionary = |from: usize| -> ArrayRef { Arc::new(DictionaryArray::new(Int8Array::from_iter_values(0..100), Arc::new(values(from)))) };
        let structure = |from: usize| -> ArrayRef {
            let dictionary = dictionary(from);
            Arc::new(StructArray::from(vec![(Arc::new(Field::new("d", dictionary.data_type().clone(), true)), dictionary)]))
        };
        let runs =
            |from: usize| -> ArrayRef { Arc::new(RunArray::<Int32Type>::try_new(&(1..=100).collect::<Vec<_>>().into(), &dictionary(from)).unwrap()) };
        for column in [&dictionary as &dyn Fn(usize) -> ArrayRef, &structure, &runs] {
            let batches = [0, 100].map(|from| RecordBatch::try_from_iter([("d", column(from))]).unwrap());
            let mut pending = Pending::joining(batches[0].schema_ref());
            batches.into_iter().for_each(|batch| pending.push(batch));
            assert_eq!(pending.take(200).len(), 2);
        }
    }

    #[test]
    fn rows_are_taken_in_their_order_and_so_are_their_bytes() {
        let mut pending = Pending::default();
        [3, 0, 10].into_iter().for_each(|rows| pending.push(batch(rows)));
        let bytes = pending.bytes();
        let lengths = |batches: Vec<RecordBatch>| batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>();
        assert_eq!((pending.rows(), bytes), (13, 104));
        assert_eq!(lengths(pending.take(5)), [3, 0, 2]);
        assert_eq!((pending.rows(), pending.bytes()), (8, 64));
        let rest = pending.take(100);
        assert_eq!(rest[0].column(0).as_ref(), batch(10).column(0).slice(2, 8).as_ref());
        assert_eq!((lengths(rest), pending.rows(), pending.bytes()), (vec![8], 0, 0));
    }
}
