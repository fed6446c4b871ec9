//! A table like ClickBench's `hits`, made from a seed: its 105 columns, its order, and about its skew, its lengths and its share of empty strings.
//!
//! What makes the real table easy or hard to compress is that most of its columns belong to something that many rows share: a site ("counter"), a user, a
//! visit. Here it is the same. A visit is a row of hits, each of which goes to a page of one site and comes from the one before.
//!
//! The column types are those that DataFusion sees after the casts that are usual with ClickBench's file: text is text, and `EventDate` a date. Times stay
//! the integers that they are there.

mod columns;
mod pages;
mod values;
mod visits;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use datafusion::datasource::MemTable;
use datafusion::error::Result;

use self::columns::COLUMNS;
use self::values::Row;

/// Everything here begins with it.
const SEED: u64 = 62;

const BATCH_ROWS: usize = 8192;

/// The table, as a single partition that keeps the order of its rows.
pub(crate) fn table(rows: usize) -> Result<MemTable> {
    let fields: Vec<Field> = COLUMNS.iter().map(|column| Field::new(column.name, column.data_type(), false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let mut batches = Vec::new();
    for hits in visits::hits(rows).chunks(BATCH_ROWS) {
        let rows: Vec<Row> = hits.iter().map(Row::of).collect();
        let columns = COLUMNS.iter().map(|column| column.array(&rows)).collect();
        batches.push(RecordBatch::try_new(Arc::clone(&schema), columns)?);
    }
    MemTable::try_new(schema, vec![batches])
}
