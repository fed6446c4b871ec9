//! Rows that wait to be written, in the batches that they came in.

use std::collections::VecDeque;

use arrow::array::RecordBatch;

use super::array::spelled_bytes;

/// Rows that wait, the first ones first.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Batches, and the bytes of each.
    batches: VecDeque<(RecordBatch, usize)>,
    rows: usize,
    bytes: usize,
}

impl Pending {
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
    }

    /// The first `rows` rows, or all if there are fewer.
    pub(crate) fn take(&mut self, rows: usize) -> Vec<RecordBatch> {
        let mut taken = Vec::new();
        let mut missing = rows;
        while missing > 0 {
            let Some((batch, bytes)) = self.batches.pop_front() else { break };
            let used = batch.num_rows().min(missing);
            // Its share. To look at all rows each time that some are cut off takes longer than to write them.
            let left = bytes / batch.num_rows().max(1) * (batch.num_rows() - used);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    fn batch(rows: i64) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        RecordBatch::try_from_iter([("n", numbers)]).unwrap()
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
