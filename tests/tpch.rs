//! The 22 queries of TPC-H over Fermion give the rows that they give over Parquet, at scale factor 0.1.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use tpchgen::generators::*;
use tpchgen_arrow::*;

const SCALE: f64 = 0.1;
const TABLES: [&str; 8] = ["nation", "region", "part", "supplier", "partsupp", "customer", "orders", "lineitem"];

fn table(name: &str) -> Vec<RecordBatch> {
    fn collect(batches: impl Iterator<Item = Result<RecordBatch, arrow::error::ArrowError>>) -> Vec<RecordBatch> {
        batches.collect::<Result<_, _>>().unwrap()
    }
    match name {
        "nation" => collect(NationArrow::new(NationGenerator::new(SCALE, 1, 1))),
        "region" => collect(RegionArrow::new(RegionGenerator::new(SCALE, 1, 1))),
        "part" => collect(PartArrow::new(PartGenerator::new(SCALE, 1, 1))),
        "supplier" => collect(SupplierArrow::new(SupplierGenerator::new(SCALE, 1, 1))),
        "partsupp" => collect(PartSuppArrow::new(PartSuppGenerator::new(SCALE, 1, 1))),
        "customer" => collect(CustomerArrow::new(CustomerGenerator::new(SCALE, 1, 1))),
        "orders" => collect(OrderArrow::new(OrderGenerator::new(SCALE, 1, 1))),
        _ => collect(LineItemArrow::new(LineItemGenerator::new(SCALE, 1, 1))),
    }
}

async fn run(ctx: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    ctx.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// A session whose tables are files of this format, written with `COPY`.
async fn session(dir: &std::path::Path, format: &str) -> SessionContext {
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(4));
    datafusion_fermion::register(&ctx).unwrap();
    for name in TABLES {
        let batches = table(name);
        let memory = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
        ctx.register_table("made", Arc::new(memory)).unwrap();
        let file = dir.join(format!("{name}.{format}"));
        let options = if format == "fermion" { "OPTIONS ('fermion.stripe_rows' '50000', 'fermion.page_rows' '8192')" } else { "" };
        run(&ctx, &format!("COPY made TO '{}' STORED AS {format} {options}", file.display())).await;
        ctx.deregister_table("made").unwrap();
        run(&ctx, &format!("CREATE EXTERNAL TABLE {name} STORED AS {format} LOCATION '{}'", file.display())).await;
    }
    ctx
}

/// A row as text; sums of floats depend on the order of the rows, so floats are rounded.
fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows: Vec<String> = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| row_text(batch, row))).collect();
    rows.sort_unstable();
    rows
}

fn row_text(batch: &RecordBatch, row: usize) -> String {
    let options = FormatOptions::default();
    let cell = |array: &ArrayRef| match array.data_type() {
        DataType::Float64 => format!("{:.4e}", array.as_primitive::<Float64Type>().value(row)),
        _ => ArrayFormatter::try_new(array.as_ref(), &options).unwrap().value(row).to_string(),
    };
    batch.columns().iter().map(cell).collect::<Vec<_>>().join("|")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_22_queries_agree_with_parquet() {
    let dir = tempfile::tempdir().unwrap();
    let fermion = session(dir.path(), "fermion").await;
    let parquet = session(dir.path(), "parquet").await;
    for number in 1..=22 {
        let sql = tpchgen::q_and_a::queries::query(number).unwrap();
        let (mut expected, mut actual) = (Vec::new(), Vec::new());
        for statement in sql.split(';').filter(|statement| !statement.trim().is_empty()) {
            expected.extend(run(&parquet, statement).await);
            actual.extend(run(&fermion, statement).await);
        }
        let (expected, actual) = (rows(&expected), rows(&actual));
        assert!(!expected.is_empty() || [15, 18, 20].contains(&number), "query {number} has no rows");
        assert_eq!(expected, actual, "query {number}");
    }
}
