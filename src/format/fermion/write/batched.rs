//! A writer of rows that finds out by itself where their batches end.

use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Int64Type, Schema, SchemaRef};
use bytes::Bytes;

use super::options::WriterOptions;
use super::writer::Writer;
use crate::format::error::{Error, Result};
use crate::format::fermion::batches::{BATCH_ROWS_MAX, BatchColumn};
use crate::format::file::{FileWriter, Written};

/// Which rows are a batch. Columns of the rows that are called as [`BatchColumn`]s are what the file makes of its batches, and are not stored: what is in them
/// has to be that, or null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchBy {
    /// So many, with ids from 0 on.
    Rows(usize),
    /// Those that follow each other and have the same value of this column, an integer, which is the batch's id. Ids ascend, so that it is seen where rows of a
    /// batch come apart; unless there is a column `batch_index`, with which a batch begins where it is 0, and goes on as it counts.
    Column(String),
}

/// Writes a file of batches.
#[derive(Debug)]
pub struct BatchedWriter {
    writer: Writer,
    rule: Rule,
    /// The batch of the rows that were added last, which may go on.
    open: Option<Open>,
    /// What came after an error is unknown.
    failed: bool,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    id: i64,
    rows: usize,
}

#[derive(Debug)]
struct Rule {
    /// Rows of a batch; else the next two columns say.
    rows: Option<usize>,
    key: Option<usize>,
    index: Option<usize>,
    /// A column that has to have the id of the batch.
    id: Option<usize>,
    /// The columns that are stored.
    stored: Vec<usize>,
}

impl BatchedWriter {
    /// Begins a file of rows of this schema.
    pub fn new(schema: SchemaRef, by: &BatchBy, options: WriterOptions) -> Result<Self> {
        let options = WriterOptions { batches: true, ..options };
        let rule = Rule::new(&schema, by)?;
        let stored = Arc::new(schema.project(&rule.stored)?);
        Ok(Self { writer: Writer::new(stored, options)?, rule, open: None, failed: false })
    }

    fn push_rows(&mut self, batch: &RecordBatch) -> Result<()> {
        let [keys, ids, indexes] = self.rule.numbers(batch)?;
        self.writer.add(&batch.project(&self.rule.stored)?)?;
        let value =
            |numbers: &Option<Int64Array>, row: usize| numbers.as_ref().filter(|numbers| numbers.is_valid(row)).map(|numbers| numbers.value(row));
        for row in 0..batch.num_rows() {
            let (key, index) = (value(&keys, row), value(&indexes, row));
            if self.open.is_some_and(|open| self.rule.ends(open, key, index)) {
                self.end_batch()?;
            }
            let open = match self.open {
                Some(open) => Open { rows: open.rows + 1, ..open },
                None => Open { id: self.begin_batch(key, index)?, rows: 1 },
            };
            self.check_row(open, value(&ids, row), index)?;
            self.open = Some(open);
        }
        // A batch that ends with these rows.
        if self.open.is_some_and(|open| Some(open.rows) == self.rule.rows) {
            self.end_batch()?;
        }
        self.writer.encode_much()
    }

    /// The id of a batch whose first row this is.
    fn begin_batch(&self, key: Option<i64>, index: Option<i64>) -> Result<i64> {
        let greatest = self.writer.greatest_batch_id();
        let Some(id) = key else { return Ok(greatest.map_or(0, |greatest| greatest.saturating_add(1))) };
        if let Some(greatest) = greatest.filter(|greatest| index.is_none() && *greatest >= id) {
            return Err(Error::invalid_argument(format!(
                "batch {id} comes behind batch {greatest}, so that rows of one may be elsewhere: write them in the order of their ids (ORDER BY), \
                 or with a column batch_index, which counts the rows of each batch from 0 on"
            )));
        }
        Ok(id)
    }

    fn check_row(&self, open: Open, id: Option<i64>, index: Option<i64>) -> Result<()> {
        let row = open.rows - 1;
        if let Some(index) = index.filter(|index| usize::try_from(*index).ok() != Some(row)) {
            let message = format!("a row of batch {} has the index {index} where {row} follows: rows of a batch are counted from 0 on", open.id);
            let advice = match self.rule.rows {
                Some(_) => "; leave the column out, or let batch_column name the ids",
                None => " and follow each other (ORDER BY batch_id, batch_index)",
            };
            return Err(Error::invalid_argument(message + advice).in_column(BatchColumn::Index.name()));
        }
        if let Some(id) = id.filter(|id| *id != open.id) {
            let message = format!("a row of batch {} says that it is of batch {id}: leave the column out, or let batch_column name it", open.id);
            return Err(Error::invalid_argument(message).in_column(BatchColumn::Id.name()));
        }
        if open.rows > BATCH_ROWS_MAX {
            let message =
                format!("batch {} has more than {BATCH_ROWS_MAX} rows, and no batch is split over pages: write it as several batches", open.id);
            return Err(Error::invalid_argument(message));
        }
        Ok(())
    }

    fn end_batch(&mut self) -> Result<()> {
        match self.open.take() {
            Some(Open { id, rows }) => self.writer.end_batch(Some(id), rows),
            None => Ok(()),
        }
    }
}

impl Rule {
    fn new(schema: &Schema, by: &BatchBy) -> Result<Self> {
        let position = |name: &str| schema.fields().iter().position(|field| field.name() == name);
        let [id, index] = BatchColumn::ALL.map(|column| position(column.name()));
        let (rows, key) = match by {
            BatchBy::Rows(rows @ 1..=BATCH_ROWS_MAX) => (Some(*rows), None),
            BatchBy::Rows(rows) => return Err(Error::invalid_argument(format!("a batch cannot have {rows} rows, but 1 to {BATCH_ROWS_MAX}"))),
            BatchBy::Column(name) if name == BatchColumn::Index.name() => {
                return Err(Error::invalid_argument("batch_index counts the rows of a batch, and is not its id").in_column(name));
            }
            BatchBy::Column(name) => {
                let missing = || Error::invalid_argument(format!("batch_column names {name:?}, which is no column of the file"));
                (None, Some(position(name).ok_or_else(missing)?))
            }
        };
        for column in [key, id, index].into_iter().flatten() {
            let field = schema.field(column);
            if !field.data_type().is_integer() && *field.data_type() != DataType::Null {
                let message = format!("ids and indexes of batches are integers, and not {}", field.data_type());
                return Err(Error::invalid_argument(message).in_column(field.name()));
            }
        }
        let stored = (0..schema.fields().len()).filter(|column| Some(*column) != id && Some(*column) != index).collect();
        Ok(Self { rows, key, index, id, stored })
    }

    /// Keys, ids and indexes of rows.
    fn numbers(&self, batch: &RecordBatch) -> Result<[Option<Int64Array>; 3]> {
        let of = |column: Option<usize>| column.map(|column| numbers(batch, column)).transpose();
        let keys = of(self.key)?;
        if let Some((column, _)) = self.key.zip(keys.as_ref()).filter(|(_, keys)| keys.null_count() > 0) {
            let error = Error::invalid_argument("a row without an id belongs to no batch, and in a file of batches each row belongs to one");
            return Err(error.in_column(batch.schema_ref().field(column).name()));
        }
        Ok([keys, of(self.id)?, of(self.index)?])
    }

    /// Whether a row does not belong to the batch that is open.
    fn ends(&self, open: Open, key: Option<i64>, index: Option<i64>) -> bool {
        match self.rows {
            Some(rows) => open.rows == rows,
            None => key != Some(open.id) || index == Some(0),
        }
    }
}

fn numbers(batch: &RecordBatch, column: usize) -> Result<Int64Array> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let numbers = batch.columns().get(column).map(|column| cast_with_options(column, &DataType::Int64, &options));
    let numbers = numbers.ok_or_else(|| Error::invalid_argument("a batch has too few columns"))?;
    let numbers = numbers.map_err(|error| Error::invalid_argument(error.to_string()).in_column(batch.schema_ref().field(column).name()))?;
    Ok(numbers.as_primitive::<Int64Type>().clone())
}

impl FileWriter for BatchedWriter {
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.failed {
            return Err(Error::invalid_argument("an earlier error has left the file incomplete"));
        }
        self.failed = true;
        self.push_rows(batch)?;
        self.failed = false;
        Ok(())
    }

    fn take_bytes(&mut self) -> Vec<Bytes> {
        self.writer.take_bytes()
    }

    fn buffered_bytes(&self) -> usize {
        self.writer.buffered_bytes()
    }

    fn finish(mut self: Box<Self>) -> Result<(Vec<Bytes>, Written)> {
        if self.failed {
            return Err(Error::invalid_argument("an earlier error has left the file incomplete"));
        }
        self.end_batch()?;
        FileWriter::finish(Box::new(self.writer))
    }
}
