//! The files that both sides read.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use tpchgen::generators::LineItemGenerator;
use tpchgen_arrow::LineItemArrow;

use crate::Result;

/// Columns of the wide table.
const WIDE: i64 = 100;

/// Names of the files, and the options that they are written with.
const LINEITEM: [(&str, &str); 3] = [("plain", "none"), ("lz4", "lz4"), ("zstd", "zstd")];

pub(crate) async fn write(dir: &Path, scale: f64) -> Result<()> {
    // Rows of several partitions would be written as they come.
    let config = SessionConfig::new().with_repartition_file_scans(false).with_round_robin_repartition(false);
    let ours = SessionContext::new_with_config(config.clone());
    datafusion_fermion::register(&ours)?;
    let theirs = SessionContext::new_with_config(config);
    for (name, batches) in [("lineitem", lineitem(scale)?), ("wide", wide(scale)?)] {
        let schema = batches.first().map(RecordBatch::schema).ok_or("no rows")?;
        let table = Arc::new(MemTable::try_new(schema, vec![batches])?);
        ours.register_table(name, Arc::clone(&table) as _)?;
        theirs.register_table(name, table)?;
    }
    for (file, compression) in LINEITEM {
        let path = dir.join(format!("{file}.arrow"));
        let sql = format!("COPY lineitem TO '{}' STORED AS ALKAID OPTIONS (compression {compression})", path.display());
        ours.sql(&sql).await?.collect().await?;
    }
    let path = dir.join("wide.arrow");
    ours.sql(&format!("COPY wide TO '{}' STORED AS ALKAID", path.display())).await?.collect().await?;
    let path = dir.join("theirs.arrow");
    theirs.sql(&format!("COPY lineitem TO '{}' STORED AS ARROW", path.display())).await?.collect().await?;
    Ok(())
}

/// Strings as most writers of Arrow files have them, not as views.
fn lineitem(scale: f64) -> Result<Vec<RecordBatch>> {
    let batches = LineItemArrow::new(LineItemGenerator::new(scale, 1, 1)).with_batch_size(8192);
    batches.map(|batch| without_views(&batch?)).collect()
}

fn without_views(batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    let columns = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => cast(column, &DataType::Utf8),
        _ => Ok(Arc::clone(column)),
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>, _>>()?;
    let fields = columns.iter().zip(schema.fields()).map(|(column, field)| field.as_ref().clone().with_data_type(column.data_type().clone()));
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns)?)
}

fn wide(scale: f64) -> Result<Vec<RecordBatch>> {
    let rows: i64 = format!("{:.0}", scale * 1e6).parse()?;
    let schema = Arc::new(Schema::new((0..WIDE).map(|column| Field::new(format!("c{column}"), DataType::Int64, false)).collect::<Vec<_>>()));
    let batch = |start: i64| {
        let column = |column: i64| -> ArrayRef {
            let numbers = (start..rows.min(start + 8192)).map(|row| row.wrapping_mul(column + 7) % 1_000_003);
            Arc::new(Int64Array::from_iter_values(numbers))
        };
        Ok(RecordBatch::try_new(Arc::clone(&schema), (0..WIDE).map(column).collect())?)
    };
    (0..rows).step_by(8192).map(batch).collect()
}
