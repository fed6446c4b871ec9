//! A writer of rows that finds out by itself where their batches end.

use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{Int64Type, Schema, SchemaRef};
use bytes::Bytes;

use super::options::WriterOptions;
use super::writer::Writer;
use crate::format::error::{Error, Result};
use crate::format::fermion::batches::BatchColumn;
use crate::format::file::{FileWriter, Written};

/// Which rows are a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchBy {
    /// So many, with ids from 0 on.
    Rows(usize),
    /// Those that follow each other and have the same value of this column, an integer, which is the batch's id. A column `batch_index`, if there is one, has to
    /// count the rows of each batch from 0 on; a batch also begins where it is 0. Columns with the names of [`BatchColumn`]s are not stored as such.
    Column(String),
}

/// Writes a file of batches.
#[derive(Debug)]
pub struct BatchedWriter {
    writer: Writer,
    rule: Rule,
    /// Rows that were added last and are no batch yet.
    open: usize,
}

#[derive(Debug)]
enum Rule {
    Rows(usize),
    Column(ByColumn),
}

/// Columns of the rows, by their positions.
#[derive(Debug)]
struct ByColumn {
    id: usize,
    index: Option<usize>,
    stored: Vec<usize>,
    /// Of the rows that are no batch yet.
    open_id: i64,
}

impl BatchedWriter {
    /// Begins a file of rows of this schema.
    pub fn new(schema: SchemaRef, by: &BatchBy, options: WriterOptions) -> Result<Self> {
        let options = WriterOptions { batches: true, ..options };
        let (rule, schema) = match by {
            BatchBy::Rows(0) => return Err(Error::invalid_argument("a batch has at least one row")),
            BatchBy::Rows(rows) => (Rule::Rows(*rows), schema),
            BatchBy::Column(name) => {
                let rule = ByColumn::new(&schema, name)?;
                let stored = Arc::new(schema.project(&rule.stored)?);
                (Rule::Column(rule), stored)
            }
        };
        Ok(Self { writer: Writer::new(schema, options)?, rule, open: 0 })
    }

    fn push_by_rows(&mut self, batch: &RecordBatch, rows: usize) -> Result<()> {
        self.writer.add(batch)?;
        self.open += batch.num_rows();
        while self.open >= rows {
            self.end_batch(None, rows)?;
        }
        Ok(())
    }

    fn end_batch(&mut self, id: Option<i64>, rows: usize) -> Result<()> {
        self.open -= rows;
        self.writer.end_batch(id, rows)
    }

    /// Ends the batch that is open.
    fn end_open(&mut self) -> Result<()> {
        let id = if let Rule::Column(rule) = &self.rule { Some(rule.open_id) } else { None };
        if self.open == 0 { Ok(()) } else { self.end_batch(id, self.open) }
    }

    fn push_by_column(&mut self, batch: &RecordBatch) -> Result<()> {
        let Rule::Column(rule) = &self.rule else { return Ok(()) };
        let (ids, indexes) = (rule.ids(batch)?, rule.indexes(batch)?);
        let stored = batch.project(&rule.stored)?;
        // The rows that are looked at have to be there before their batches end.
        self.writer.add(&stored)?;
        for (row, id) in ids.values().iter().enumerate() {
            let index = indexes.as_ref().filter(|indexes| indexes.is_valid(row)).map(|indexes| indexes.value(row));
            let Rule::Column(rule) = &mut self.rule else { return Ok(()) };
            let is_new = rule.open_id != *id || index == Some(0);
            if is_new {
                let ended = std::mem::replace(&mut rule.open_id, *id);
                if self.open > 0 {
                    self.end_batch(Some(ended), self.open)?;
                }
            }
            if let Some(index) = index.filter(|index| usize::try_from(*index).ok() != Some(self.open)) {
                let message = format!(
                    "a row of batch {id} has the index {index} where {} follows: rows of a batch follow each other, counted from 0",
                    self.open
                );
                return Err(Error::invalid_argument(message).in_column(BatchColumn::Index.name()));
            }
            self.open += 1;
        }
        Ok(())
    }
}

impl ByColumn {
    fn new(schema: &Schema, name: &str) -> Result<Self> {
        let position = |name: &str| schema.fields().iter().position(|field| field.name() == name);
        let id = position(name).ok_or_else(|| Error::invalid_argument(format!("batch_column names {name:?}, which is no column")))?;
        if !schema.field(id).data_type().is_integer() {
            let message = format!("batch_column names a column of {}, and ids of batches are integers", schema.field(id).data_type());
            return Err(Error::invalid_argument(message).in_column(name));
        }
        let is_stored = |index: &usize| *index != id || name != BatchColumn::Id.name();
        let index = position(BatchColumn::Index.name());
        let stored = (0..schema.fields().len()).filter(is_stored).filter(|column| Some(*column) != index);
        Ok(Self { id, index, stored: stored.collect(), open_id: 0 })
    }

    fn ids(&self, batch: &RecordBatch) -> Result<Int64Array> {
        let ids = numbers(batch, self.id)?;
        if ids.null_count() > 0 {
            let error = Error::invalid_argument("a row without an id belongs to no batch, and in a file of batches each row belongs to one");
            return Err(error.in_column(batch.schema_ref().field(self.id).name()));
        }
        Ok(ids)
    }

    fn indexes(&self, batch: &RecordBatch) -> Result<Option<Int64Array>> {
        self.index.map(|index| numbers(batch, index)).transpose()
    }
}

fn numbers(batch: &RecordBatch, column: usize) -> Result<Int64Array> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let numbers = batch.columns().get(column).map(|column| cast_with_options(column, &arrow::datatypes::DataType::Int64, &options));
    let numbers = numbers.ok_or_else(|| Error::invalid_argument("a batch has too few columns"))?;
    let numbers = numbers.map_err(|error| Error::invalid_argument(error.to_string()).in_column(batch.schema_ref().field(column).name()))?;
    Ok(numbers.as_primitive::<Int64Type>().clone())
}

impl FileWriter for BatchedWriter {
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        match self.rule {
            Rule::Rows(rows) => self.push_by_rows(batch, rows),
            Rule::Column(_) => self.push_by_column(batch),
        }
    }

    fn take_bytes(&mut self) -> Vec<Bytes> {
        self.writer.take_bytes()
    }

    fn buffered_bytes(&self) -> usize {
        self.writer.buffered_bytes()
    }

    fn finish(mut self: Box<Self>) -> Result<(Vec<Bytes>, Written)> {
        self.end_open()?;
        FileWriter::finish(Box::new(self.writer))
    }
}
