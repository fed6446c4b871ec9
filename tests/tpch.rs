//! The 22 queries of TPC-H over Fermion give the rows that they give over Parquet, at scale factor 0.1.
#![cfg(test)]

#[path = "../benches/tpch/agree.rs"]
mod agree;
#[path = "../benches/tpch/data.rs"]
mod data;
#[path = "../benches/tpch/queries.rs"]
mod queries;

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::queries::Query;

const SCALE: f64 = 0.1;

/// Small stripes and pages, so that there are many of them to skip.
const FORMATS: [(&str, &str); 2] = [("parquet", ""), ("fermion", "OPTIONS (stripe_rows 50000, page_rows 8192)")];

#[tokio::test(flavor = "multi_thread")]
async fn the_22_queries_agree_with_parquet() {
    let dir = tempfile::tempdir().unwrap();
    let source = session();
    for table in data::TABLES {
        source.register_table(table, Arc::new(data::table(table, SCALE).unwrap())).unwrap();
    }
    let mut sessions = Vec::new();
    for (format, options) in FORMATS {
        sessions.push(written(&source, dir.path(), format, options).await);
    }
    let mut empty = Vec::new();
    for query in queries::tpch() {
        let parquet = answer(&sessions[0], &query).await;
        let fermion = answer(&sessions[1], &query).await;
        if parquet.iter().all(|batch| batch.num_rows() == 0) {
            empty.push(query.name.clone());
        }
        agree::check(&parquet, &fermion).unwrap_or_else(|difference| panic!("{}: {difference}", query.name));
    }
    assert_eq!(empty, Vec::<String>::new(), "queries whose agreement says nothing");
}

/// Of `lineitem`, with what its rows say when they are read back.
#[tokio::test(flavor = "multi_thread")]
async fn compression_is_a_choice_between_bytes_and_time() {
    let dir = tempfile::tempdir().unwrap();
    let context = session();
    // So that rows are written in one order.
    run(&context, "SET datafusion.execution.target_partitions = 1").await;
    context.register_table("source", Arc::new(data::table("lineitem", SCALE / 10.0).unwrap())).unwrap();
    let sums = |table: &str| {
        format!(
            "SELECT l_returnflag, count(*), sum(l_orderkey), sum(l_extendedprice), min(l_shipdate), max(l_comment), sum(length(l_comment)) FROM {table} \
             GROUP BY l_returnflag ORDER BY l_returnflag"
        )
    };
    let expected = run(&context, &sums("source")).await;
    let mut sizes = Vec::new();
    for options in ["OPTIONS ('fermion.compression' 'fast')", "", "OPTIONS (compression balanced)", "OPTIONS (compression small)"] {
        let file = dir.path().join(format!("{}.fermion", sizes.len()));
        run(&context, &format!("COPY source TO '{}' STORED AS FERMION {options}", file.display())).await;
        run(&context, &format!("CREATE OR REPLACE EXTERNAL TABLE written STORED AS FERMION LOCATION '{}'", file.display())).await;
        agree::check(&expected, &run(&context, &sums("written")).await).unwrap_or_else(|difference| panic!("{options}: {difference}"));
        sizes.push(std::fs::metadata(&file).unwrap().len());
    }
    let [fast, default, balanced, small] = sizes[..] else { panic!("{sizes:?}") };
    assert!(fast > balanced && balanced == default && balanced > small, "{sizes:?}");
}

fn session() -> SessionContext {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(4));
    datafusion_fermion::register(&context).unwrap();
    context
}

/// A session whose tables are files of this format.
async fn written(source: &SessionContext, dir: &Path, format: &str, options: &str) -> SessionContext {
    let context = session();
    for table in data::TABLES {
        let file = dir.join(format!("{table}.{format}")).display().to_string();
        run(source, &format!("COPY {table} TO '{file}' STORED AS {format} {options}")).await;
        run(&context, &format!("CREATE EXTERNAL TABLE {table} STORED AS {format} LOCATION '{file}'")).await;
    }
    context
}

/// The rows of the one statement that has some.
async fn answer(context: &SessionContext, query: &Query) -> Vec<RecordBatch> {
    let mut answer = Vec::new();
    for statement in &query.statements {
        let batches = run(context, statement).await;
        if batches.iter().any(|batch| batch.num_columns() > 0) {
            answer = batches;
        }
    }
    answer
}

async fn run(context: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    let frame = context.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    frame.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}
