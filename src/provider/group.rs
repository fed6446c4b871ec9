//! Rows that go to the same file, although a statement that writes several gives them batch by batch to whichever is next.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};

/// Which rows, that follow each other, belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grouping {
    /// So many.
    Rows(usize),
    /// Those with the same value of the column `of`; where there is a column `from_zero`, a group also begins where it is 0.
    Runs {
        /// A column's name.
        of: String,
        /// A column's name.
        from_zero: &'static str,
    },
}

/// The same rows, in batches none of which ends within a group.
pub(super) fn whole_groups(input: SendableRecordBatchStream, grouping: Grouping) -> SendableRecordBatchStream {
    let schema = input.schema();
    let mut open = Open { grouping, parts: Vec::new(), rows: 0 };
    // After the last batch comes the group that is still open.
    let items = input.map(|batch| batch.map(Some)).chain(stream::iter([Ok(None)]));
    let whole = items.map(move |item| match item? {
        Some(batch) => open.push(batch),
        None => open.join(None),
    });
    let batches = whole.map_ok(|batches| stream::iter(batches.into_iter().map(Ok))).try_flatten();
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

/// The rows of the last group, which may go on.
struct Open {
    grouping: Grouping,
    parts: Vec<RecordBatch>,
    rows: usize,
}

impl Open {
    fn push(&mut self, batch: RecordBatch) -> Result<Vec<RecordBatch>> {
        if batch.num_rows() == 0 {
            return Ok(Vec::new());
        }
        let rows = batch.num_rows();
        let Some(Range { start: first, end: last }) = self.starts(&batch)? else {
            self.rows += rows;
            self.parts.push(batch);
            return Ok(Vec::new());
        };
        // Only what is open has to be copied.
        let mut whole = self.join(Some(batch.slice(0, first)))?;
        if last > first {
            whole.push(batch.slice(first, last - first));
        }
        if last < rows {
            self.rows = rows - last;
            self.parts.push(batch.slice(last, rows - last));
        }
        Ok(whole)
    }

    /// The group that is open, and rows that end it.
    fn join(&mut self, end: Option<RecordBatch>) -> Result<Vec<RecordBatch>> {
        self.rows = 0;
        let parts: Vec<RecordBatch> = self.parts.drain(..).chain(end).filter(|part| part.num_rows() > 0).collect();
        let Some(first) = parts.first() else { return Ok(Vec::new()) };
        if parts.len() == 1 { Ok(parts) } else { Ok(vec![concat_batches(&first.schema(), &parts)?]) }
    }

    /// The first and the last row of a batch with which a group begins, or behind which one ends.
    fn starts(&self, batch: &RecordBatch) -> Result<Option<Range<usize>>> {
        match &self.grouping {
            Grouping::Rows(size) => {
                let size = (*size).max(1);
                let first = (size - self.rows % size) % size;
                let last = batch.num_rows().checked_sub(first).map(|behind| first + behind / size * size);
                Ok(last.map(|last| first..last))
            }
            Grouping::Runs { of, from_zero } => self.run_starts(batch, of, from_zero),
        }
    }

    fn run_starts(&self, batch: &RecordBatch, of: &str, from_zero: &str) -> Result<Option<Range<usize>>> {
        // What is wrong with the column is said by the writer.
        let Some(ids) = batch.column_by_name(of) else { return Ok(Some(0..batch.num_rows())) };
        let rows = batch.num_rows();
        let changes = distinct(&ids.slice(1, rows - 1), &ids.slice(0, rows - 1))?;
        let before = self.parts.last().and_then(|part| part.column_by_name(of).map(|ids| ids.slice(part.num_rows() - 1, 1)));
        let is_new = match &before {
            Some(before) => distinct(before, &ids.slice(0, 1))?.value(0),
            None => true,
        };
        let indexes = batch.column_by_name(from_zero).map(as_numbers).transpose()?;
        let begins = |row: &usize| {
            let changed = if *row == 0 { is_new } else { changes.value(row - 1) };
            changed || indexes.as_ref().is_some_and(|indexes| indexes.is_valid(*row) && indexes.value(*row) == 0)
        };
        let first = (0..rows).find(begins);
        Ok(first.map(|first| first..(first..rows).rev().find(begins).unwrap_or(first)))
    }
}

fn as_numbers(array: &ArrayRef) -> Result<Int64Array> {
    Ok(cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int32Array;

    use super::*;

    fn batch(ids: &[i64], indexes: Option<&[i32]>) -> RecordBatch {
        let mut columns: Vec<(&str, ArrayRef)> = vec![("id", Arc::new(Int64Array::from(ids.to_vec())))];
        columns.extend(indexes.map(|indexes| ("index", Arc::new(Int32Array::from(indexes.to_vec())) as ArrayRef)));
        RecordBatch::try_from_iter(columns).unwrap()
    }

    async fn grouped(batches: Vec<RecordBatch>, grouping: Grouping) -> Vec<Vec<i64>> {
        let schema = batches[0].schema();
        let input = RecordBatchStreamAdapter::new(schema, stream::iter(batches.into_iter().map(Ok)));
        let whole: Vec<RecordBatch> = whole_groups(Box::pin(input), grouping).try_collect().await.unwrap();
        whole.iter().map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
    }

    #[tokio::test]
    async fn groups_are_not_split_over_batches() {
        let ids = |batches: &[&[i64]]| batches.iter().map(|ids| batch(ids, None)).collect::<Vec<_>>();
        let runs = Grouping::Runs { of: "id".to_owned(), from_zero: "index" };
        let check = |batches: &[&[i64]]| grouped(ids(batches), runs.clone());
        assert_eq!(check(&[&[1, 1, 2], &[2, 2], &[], &[2, 3, 3, 4], &[5]]).await, [vec![1, 1], vec![2, 2, 2, 2], vec![3, 3], vec![4], vec![5]]);
        assert_eq!(check(&[&[1], &[2], &[3]]).await, [[1], [2], [3]]);
        assert_eq!(check(&[&[7, 7], &[7]]).await, [[7, 7, 7]]);
        assert!(check(&[&[]]).await.is_empty());
        let indexed = vec![batch(&[1, 1, 1], Some(&[0, 1, 0])), batch(&[1, 1, 1], Some(&[1, 0, 1])), batch(&[1], Some(&[2]))];
        assert_eq!(grouped(indexed, runs.clone()).await, [vec![1, 1], vec![1, 1], vec![1, 1, 1]]);
    }

    #[tokio::test]
    async fn groups_of_a_number_of_rows_are_whole_but_the_last() {
        let numbers: Vec<i64> = (0..23).collect();
        for size in [1, 2, 5, 7, 23, 100] {
            for cut in [1, 3, 10, 23] {
                let batches = numbers.chunks(cut).map(|ids| batch(ids, None)).collect();
                let whole = grouped(batches, Grouping::Rows(size)).await;
                assert_eq!(whole.concat(), numbers);
                let (_, all_but_last) = whole.split_last().unwrap();
                assert!(all_but_last.iter().all(|rows| rows.len() % size == 0), "{size} {cut}: {whole:?}");
            }
        }
    }
}
