//! A table for filters that leave a known share of its rows. Each row has a rank, and every column that is filtered by follows from it; so the same filters
//! meet what they are after in one place where rows are sorted by rank, and everywhere where they are shuffled.

use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::error::Result;

use crate::random::{Random, shuffled};
use crate::words::{Script, words};

/// The shares of rows that filters leave, in parts of [`WHOLE`].
pub(crate) const SHARES: [u64; 10] = [1, 10, 100, 1_000, 10_000, 20_000, 33_000, 50_000, 90_000, WHOLE];
pub(crate) const WHOLE: u64 = 100_000;

/// `day` has [`WHOLE`] values from this one on, in days since 1970: 1850-01-01.
pub(crate) const FIRST_DAY: i64 = -43_830;
/// `code` has so many values.
pub(crate) const CODES: u64 = 1000;
/// `class` has a value for each of the first shares, by its index.
pub(crate) const CLASSES: usize = 7;
/// `quantity` and `amount`, which do not follow from the rank: the one from 1 to this, ...
pub(crate) const QUANTITIES: i64 = 50;
/// ... the other less than so many hundredths.
pub(crate) const AMOUNTS: u64 = 10_000_000;

const SEED: u64 = 7;
const BATCH_ROWS: usize = 8192;
const PRECISION: u8 = 15;
const SCALE: i8 = 2;

/// The table, as a single partition that keeps the order of its rows.
pub(crate) fn table(rows: usize, is_sorted: bool) -> Result<MemTable> {
    let rows = rows as u64;
    let ranks = if is_sorted { (0..rows).collect() } else { shuffled(rows, SEED) };
    let schema = schema();
    let batches = ranks.chunks(BATCH_ROWS).map(|ranks| Ok(RecordBatch::try_new(Arc::clone(&schema), columns(ranks, rows)?)?));
    let batches = batches.collect::<Result<_>>()?;
    MemTable::try_new(schema, vec![batches])
}

/// What `name` is at a rank. All begin alike, as numbered names do.
pub(crate) fn name(rank: u64) -> String {
    format!("user-{rank:09}")
}

/// What `text` contains where a share is met.
pub(crate) fn marker(share: usize) -> String {
    format!("needle{share}")
}

fn schema() -> SchemaRef {
    let decimal = DataType::Decimal128(PRECISION, SCALE);
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, false),
        Field::new("class", DataType::Int32, false),
        Field::new("code", DataType::Int32, false),
        Field::new("name", DataType::Utf8View, false),
        Field::new("text", DataType::Utf8View, false),
        Field::new("day", DataType::Date32, false),
        Field::new("price", decimal.clone(), false),
        Field::new("quantity", DataType::Int64, false),
        Field::new("amount", decimal, false),
        Field::new("comment", DataType::Utf8View, false),
    ]))
}

fn columns(ranks: &[u64], rows: u64) -> Result<Vec<ArrayRef>> {
    let each = || ranks.iter().copied();
    let part = move |rank: u64| rank * WHOLE / rows;
    let decimal = |array: Decimal128Array| array.with_precision_and_scale(PRECISION, SCALE);
    Ok(vec![
        Arc::new(Int64Array::from_iter_values(each().map(u64::cast_signed))),
        Arc::new(Int32Array::from_iter_values(each().map(|rank| class(part(rank))))),
        Arc::new(Int32Array::from_iter_values(each().map(|rank| small(rank * CODES / rows)))),
        Arc::new(StringViewArray::from_iter_values(each().map(name))),
        Arc::new(StringViewArray::from_iter_values(each().map(|rank| text(rank, part(rank))))),
        Arc::new(Date32Array::from_iter_values(each().map(|rank| small(part(rank).wrapping_add_signed(FIRST_DAY))))),
        Arc::new(decimal(Decimal128Array::from_iter_values(each().map(i128::from)))?),
        Arc::new(Int64Array::from_iter_values(each().map(|rank| of(rank, 1).between(1, QUANTITIES + 1)))),
        Arc::new(decimal(Decimal128Array::from_iter_values(each().map(|rank| i128::from(of(rank, 2).below(AMOUNTS)))))?),
        Arc::new(StringViewArray::from_iter_values(each().map(comment))),
    ])
}

/// The random numbers of one column of a row.
fn of(rank: u64, column: u64) -> Random {
    Random::of(&[SEED, column, rank])
}

/// A number that is small or less than zero.
fn small(number: u64) -> i32 {
    i32::try_from(number.cast_signed()).unwrap_or_default()
}

/// The classes lie one after the other, each as long as its share.
fn class(part: u64) -> i32 {
    let mut end = 0;
    let mut class = 0;
    for share in SHARES.iter().take(CLASSES) {
        end += share;
        class += i32::from(part >= end);
    }
    class
}

fn text(rank: u64, part: u64) -> String {
    let mut random = of(rank, 3);
    let mut text = String::new();
    words(&mut random, 3, Script::Latin, ' ', &mut text);
    for (index, share) in SHARES.iter().enumerate() {
        if part < *share {
            text.push(' ');
            text.push_str(&marker(index));
            text.push(' ');
            words(&mut random, 1, Script::Latin, ' ', &mut text);
        }
    }
    text
}

fn comment(rank: u64) -> String {
    let mut random = of(rank, 4);
    let count = 2 + random.below(6);
    let mut text = String::new();
    words(&mut random, count, Script::Latin, ' ', &mut text);
    text
}
