//! Parquet files of other writers, converted to Fermion with SQL: the same schema, the same values.
#![cfg(test)]

use std::path::{Path, PathBuf};

use arrow::array::{Array, RecordBatch};
use arrow::compute::concat_batches;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};

/// Data made by other software, which stands beside the checkout where the tests of the project itself are run.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data/parquet")
}

const FILES: [&str; 15] = [
    "alltypes_plain.parquet",
    "alltypes_tiny_pages.parquet",
    "binary_truncated_min_max.parquet",
    "delta_binary_packed.parquet",
    "delta_byte_array.parquet",
    "float16_nonzeros_and_nans.parquet",
    "int64_decimal.parquet",
    "list_columns.parquet",
    "nested_lists.snappy.parquet",
    "nested_maps.snappy.parquet",
    "nested_structs.rust.parquet",
    "nonnullable.impala.parquet",
    "null_list.parquet",
    "nullable.impala.parquet",
    "nulls.snappy.parquet",
];

/// Exactly the file's own types, in the order of its rows.
fn context() -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(1)
        .set_bool("datafusion.execution.parquet.schema_force_view_types", false)
        .set_bool("datafusion.execution.parquet.skip_metadata", false);
    let ctx = SessionContext::new_with_config(config);
    datafusion_fermion::register(&ctx).unwrap();
    ctx
}

async fn sql(ctx: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    ctx.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

async fn check(source: &Path, options: &str) {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x.fermion");
    let ctx = context();
    ctx.register_parquet("source", source.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
    sql(&ctx, &format!("COPY source TO '{}' STORED AS FERMION OPTIONS ({options})", target.display())).await;
    let location = target.display();
    sql(&ctx, &format!("CREATE EXTERNAL TABLE target STORED AS FERMION OPTIONS ('fermion.force_view_types' 'false') LOCATION '{location}'")).await;

    let frame = ctx.table("source").await.unwrap();
    let schema = std::sync::Arc::clone(frame.schema().inner());
    let expected = concat_batches(&schema, &frame.collect().await.unwrap()).unwrap();
    let frame = ctx.table("target").await.unwrap();
    assert_eq!(frame.schema().inner().fields(), schema.fields(), "{}", source.display());
    let actual = concat_batches(&schema, &frame.collect().await.unwrap()).unwrap();
    assert_eq!(expected.num_rows(), actual.num_rows());
    for (i, field) in schema.fields().iter().enumerate() {
        assert_eq!(expected.column(i).to_data(), actual.column(i).to_data(), "{} {field:?}", source.display());
    }
}

#[tokio::test]
async fn files_of_other_writers_keep_their_values() {
    if !folder().exists() {
        eprintln!("{} is not here: nothing to compare", folder().display());
        return;
    }
    for name in FILES {
        check(&folder().join(name), "'fermion.page_rows' '1024'").await;
        check(&folder().join(name), "'fermion.page_rows' '3', 'fermion.stripe_rows' '10', 'fermion.zstd_level' 'none'").await;
    }
}
