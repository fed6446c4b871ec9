//! A table of very many columns, of which a query wants few: features of a model, sensors of a machine. One column in ten holds nothing.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringViewArray, new_null_array};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::MemTable;
use datafusion::error::Result;

use crate::random::{Random, mix};

/// Values of the whole table, so that a wider one is as large.
const VALUES: usize = 40_000_000;
/// Stripes, or row groups, that its rows are written in.
const PARTS: usize = 4;
/// Columns of different kinds, which repeat.
const KINDS: usize = 10;
const SEED: u64 = 11;

/// Rows of one of so many files.
pub(crate) fn rows(columns: usize, files: usize) -> usize {
    (VALUES / columns / files).max(PARTS)
}

pub(crate) fn part_rows(columns: usize, files: usize) -> usize {
    rows(columns, files).div_ceil(PARTS)
}

/// A column, by its kind and which of them it is.
pub(crate) fn name(kind: Kind, index: usize) -> String {
    format!("{}_{index}", kind.name())
}

/// What columns hold.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// The number of the row: the table is sorted by each of these.
    Time,
    Measure,
    Label,
    Count,
    Flag,
    Nothing,
}

/// What the columns are, over and over.
const ORDER: [Kind; KINDS] =
    [Kind::Time, Kind::Measure, Kind::Label, Kind::Count, Kind::Flag, Kind::Measure, Kind::Measure, Kind::Count, Kind::Label, Kind::Nothing];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Measure => "measure",
            Self::Label => "label",
            Self::Count => "count",
            Self::Flag => "flag",
            Self::Nothing => "nothing",
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Time => DataType::Int64,
            Self::Measure | Self::Nothing => DataType::Float64,
            Self::Label => DataType::Utf8View,
            Self::Count => DataType::Int32,
            Self::Flag => DataType::Boolean,
        }
    }

    fn values(self, column: usize, rows: usize) -> ArrayRef {
        let mut random = Random::of(&[SEED, column as u64]);
        let rows_of = 0..rows as u64;
        match self {
            Self::Time => Arc::new(Int64Array::from_iter_values(rows_of.map(u64::cast_signed))),
            Self::Measure => Arc::new(Float64Array::from_iter_values(rows_of.map(|_| random.between(-1_000_000, 1_000_000) as f64 / 100.0))),
            Self::Label => Arc::new(StringViewArray::from_iter_values(rows_of.map(|_| format!("label {:x}", mix(random.below(100)))))),
            Self::Count => Arc::new(Int32Array::from_iter_values(rows_of.map(|_| i32::try_from(random.skewed(0, 15)).unwrap_or_default()))),
            Self::Flag => Arc::new(BooleanArray::from_iter(rows_of.map(|_| Some(random.chance(100_000))))),
            Self::Nothing => new_null_array(&self.data_type(), rows),
        }
    }
}

fn kinds(columns: usize) -> impl Iterator<Item = (usize, Kind)> {
    ORDER.into_iter().cycle().take(columns).enumerate()
}

fn batch(columns: usize, files: usize) -> Result<RecordBatch> {
    let fields: Vec<Field> = kinds(columns).map(|(index, kind)| Field::new(name(kind, index), kind.data_type(), true)).collect();
    let values = kinds(columns).map(|(index, kind)| kind.values(index, rows(columns, files)));
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), values.collect())?)
}

/// The rows of one of so many files.
pub(crate) fn file(columns: usize, files: usize) -> Result<MemTable> {
    let batch = batch(columns, files)?;
    MemTable::try_new(batch.schema(), vec![vec![batch]])
}

/// The rows of all files.
pub(crate) fn table(columns: usize, files: usize) -> Result<MemTable> {
    let batch = batch(columns, files)?;
    MemTable::try_new(batch.schema(), vec![vec![batch; files]])
}
