//! What the engine knows of a file before reading it.
//!
//! Rows are always known. The rest costs the metadata of every column, so it is known where that is small, and of a table that has only the columns that a query uses, whose
//! metadata the scan will load anyway, unless the file turns out not to be read.

use arrow::array::{Array, ArrayRef};
use arrow::compute::can_cast_types;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, DecimalType, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::error::Result;

use super::cache::OpenFile;
use super::io::ObjectReader;
use super::kind::Reading;
use super::schema::{ColumnFinder, Columns, FileColumns, Positions, is_read_as};

/// Digits by which the sum of decimals is longer than they are.
const SUM_DIGITS: u8 = 10;

/// Statistics of a file, whose metadata may be loaded up to the threshold for that, in terms of the table's columns (those in files, not those of partitions).
pub(super) async fn statistics(
    reader: &ObjectReader,
    open: &OpenFile,
    table: &SchemaRef,
    positions: &Positions,
    reading: &Reading,
) -> Result<Statistics> {
    let fault = |error| reader.fault(error);
    let file = FileColumns { meta: open.meta.as_ref(), reader };
    let columns: Vec<usize> = if open.meta.is_eager() && !positions.are_of_used_columns() {
        (0..open.meta.column_count()).collect()
    } else {
        let mut finder = ColumnFinder::new(&file);
        let fields = table.fields().iter().enumerate();
        fields.filter_map(|(index, field)| finder.find(field.name(), positions.of_column(index))).collect()
    };
    if positions.are_of_used_columns() || open.meta.unloaded_bytes(&columns).map_err(fault)? <= reading.eager_load_threshold {
        open.load_columns(reader, &columns).await?;
    }
    from_metadata(&file, table, positions, reading.estimates)
}

fn from_metadata(file: &FileColumns<'_>, table: &Schema, positions: &Positions, estimates: bool) -> Result<Statistics> {
    let rows = usize::try_from(file.meta.row_count()).unwrap_or(usize::MAX);
    let mut finder = ColumnFinder::new(file);
    let mut column_statistics = Vec::with_capacity(table.fields().len());
    for (index, field) in table.fields().iter().enumerate() {
        let mut column = match finder.find(field.name(), positions.of_column(index)) {
            Some(column) => known_column(file, column, field.data_type(), estimates)?,
            None => ColumnStatistics::new_unknown().with_null_count(Precision::Exact(rows)),
        };
        if let Some(bytes) = fixed_size(field.data_type(), rows) {
            column.byte_size = Precision::Exact(bytes);
        }
        column_statistics.push(column);
    }
    let is_known = estimates || table.fields().iter().all(|field| field.data_type().primitive_width().is_some());
    let total_byte_size = if is_known { total(&column_statistics) } else { Precision::Absent };
    Ok(Statistics { num_rows: Precision::Exact(rows), total_byte_size, column_statistics })
}

/// Statistics of a column that the file has; nothing is known if its metadata is not loaded.
fn known_column(file: &FileColumns<'_>, column: usize, table: &DataType, estimates: bool) -> Result<ColumnStatistics> {
    let mut statistics = ColumnStatistics::new_unknown();
    let FileColumns { meta, reader } = *file;
    let Some(summary) = meta.column_summary(column).map_err(|error| reader.fault(error))? else {
        return Ok(statistics);
    };
    let field = file.field(column)?;
    let file = field.data_type();
    if let Some(nulls) = summary.null_count.and_then(|nulls| usize::try_from(nulls).ok()) {
        statistics.null_count = Precision::Exact(nulls);
    }
    statistics.min_value = bound(summary.min, file, table);
    statistics.max_value = bound(summary.max, file, table);
    let count = |count: Option<u64>| count.and_then(|count| usize::try_from(count).ok());
    // The sum is exact; but the engine hands what is exact on through joins as it is (apache/datafusion#22761), and would answer sums above them with it.
    let sum = summary.sum.filter(|_| is_read_as(file, table)).and_then(|sum| sum_value(sum, table));
    statistics.sum_value = sum.map_or(Precision::Absent, Precision::Inexact);
    if estimates {
        statistics.distinct_count = count(summary.distinct_count).map_or(Precision::Absent, Precision::Inexact);
        let bytes = count(summary.value_bytes).and_then(|bytes| size_of_strings(table, bytes, usize::try_from(meta.row_count()).ok()?));
        statistics.byte_size = bytes.map_or(Precision::Absent, Precision::Inexact);
    }
    if let Some((bytes, exact)) = summary.array_bytes {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        statistics.byte_size = if exact && file == table { Precision::Exact(bytes) } else { Precision::Inexact(bytes) };
    }
    Ok(statistics)
}

/// A sum of whole numbers with as many digits as there are, for that of several files may have more than the type of SQL's, and some of them make up for others; of decimals in that type,
/// unless it passes it. Other types have none.
fn sum_value(sum: i128, table: &DataType) -> Option<ScalarValue> {
    use DataType::{Decimal128, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    match *table {
        Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 => Decimal128Type::is_valid_decimal_precision(sum, DECIMAL128_MAX_PRECISION)
            .then_some(ScalarValue::Decimal128(Some(sum), DECIMAL128_MAX_PRECISION, 0)),
        Decimal128(precision, scale) => {
            let precision = precision.saturating_add(SUM_DIGITS).min(DECIMAL128_MAX_PRECISION);
            Decimal128Type::is_valid_decimal_precision(sum, precision).then_some(ScalarValue::Decimal128(Some(sum), precision, scale))
        }
        _ => None,
    }
}

/// A least or greatest value in the table's type, and exact only if it is known to be a value and the type keeps it as it is.
fn bound(value: Option<(ArrayRef, bool)>, file: &DataType, table: &DataType) -> Precision<ScalarValue> {
    let Some((array, exact)) = value.filter(|(array, _)| array.len() == 1 && array.is_valid(0)) else {
        return Precision::Absent;
    };
    if !keeps_order(file, table) {
        return Precision::Absent;
    }
    let cast = ScalarValue::try_from_array(&array, 0).and_then(|value| value.cast_to(table));
    match cast {
        Ok(value) if value.is_null() => Precision::Absent,
        Ok(value) if exact && is_read_as(file, table) => Precision::Exact(value),
        Ok(value) => Precision::Inexact(value),
        Err(_) => Precision::Absent,
    }
}

/// Whether a cast from one type to the other never turns a smaller value into a greater.
fn keeps_order(file: &DataType, table: &DataType) -> bool {
    is_read_as(file, table) || (file.is_numeric() && table.is_numeric() && can_cast_types(file, table))
}

/// Bytes of a column in memory, where its type says.
fn fixed_size(data_type: &DataType, rows: usize) -> Option<usize> {
    data_type.primitive_width().and_then(|width| width.checked_mul(rows))
}

/// Bytes of strings or binaries in memory, about: their own, and those that say where each is.
fn size_of_strings(data_type: &DataType, bytes: usize, rows: usize) -> Option<usize> {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    let place = match data_type {
        Utf8 | Binary => size_of::<i32>(),
        LargeUtf8 | LargeBinary => size_of::<i64>(),
        Utf8View | BinaryView => size_of::<u128>(),
        _ => return None,
    };
    rows.checked_mul(place)?.checked_add(bytes)
}

/// Bytes of all columns in memory. Where texts are among them the engine does not make them those of the columns that a query reads, and holds a side of a join for large
/// that is not; without them it goes by rows.
fn total(columns: &[ColumnStatistics]) -> Precision<usize> {
    columns.iter().fold(Precision::Exact(0), |total, column| total.add(&column.byte_size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int32Array, StringArray};

    fn one(array: impl Array + 'static, exact: bool) -> Option<(ArrayRef, bool)> {
        Some((Arc::new(array), exact))
    }

    #[test]
    fn bounds_are_exact_only_in_a_type_that_keeps_them() {
        let int = || one(Int32Array::from(vec![7]), true);
        assert_eq!(bound(int(), &DataType::Int32, &DataType::Int32), Precision::Exact(ScalarValue::Int32(Some(7))));
        assert_eq!(bound(int(), &DataType::Int32, &DataType::Int64), Precision::Inexact(ScalarValue::Int64(Some(7))));
        assert_eq!(bound(int(), &DataType::Int32, &DataType::Utf8), Precision::Absent);
        assert_eq!(bound(one(Int32Array::from(vec![7]), false), &DataType::Int32, &DataType::Int32), Precision::Inexact(ScalarValue::Int32(Some(7))));
        assert_eq!(bound(one(Float64Array::from(vec![None]), true), &DataType::Float64, &DataType::Float64), Precision::Absent);
        assert_eq!(
            bound(one(StringArray::from(vec!["x"]), true), &DataType::Utf8, &DataType::Utf8View),
            Precision::Exact(ScalarValue::Utf8View(Some("x".to_owned())))
        );
        assert_eq!(bound(None, &DataType::Int32, &DataType::Int32), Precision::Absent);
    }
}
