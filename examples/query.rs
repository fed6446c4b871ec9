//! SQL over a directory of Fermion files.
//!
//! ```text
//! cargo run --example query                              # over three small files that it makes
//! cargo run --example query -- DIR 'SELECT * FROM t'     # over your own, as the table t
//! ```
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::env;
use std::path::Path;

use arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;

#[tokio::main]
async fn main() -> Result<()> {
    let context = SessionContext::new();
    datafusion_fermion::register(&context)?;

    let scratch = tempfile::tempdir()?;
    let mut arguments = env::args().skip(1);
    let dir = arguments.next().unwrap_or_else(|| scratch.path().display().to_string());
    if dir == scratch.path().display().to_string() {
        make_files(&context, scratch.path()).await?;
    }

    context.sql(&format!("CREATE EXTERNAL TABLE t STORED AS FERMION LOCATION '{}/'", dir.trim_end_matches('/'))).await?;
    match arguments.next() {
        Some(sql) => show(&context, &sql).await,
        None => {
            show(&context, "SELECT city, count(*) AS days, max(degrees) AS hottest FROM t GROUP BY city ORDER BY city").await?;
            // Of three files one is read: see files_ranges_pruned_statistics and bytes_scanned.
            context.sql("SET datafusion.explain.analyze_level = 'summary'").await?;
            show(&context, "EXPLAIN ANALYZE SELECT day FROM t WHERE degrees > 38").await
        }
    }
}

/// One file per city, so that a query about one city has files to skip.
async fn make_files(context: &SessionContext, dir: &Path) -> Result<()> {
    for (city, warmth) in [("Bergen", 18), ("Lisbon", 29), ("Seville", 40)] {
        let rows = format!("SELECT '{city}' AS city, value AS day, value % {warmth} AS degrees FROM generate_series(1, 36500)");
        let copy = format!("COPY ({rows}) TO '{}/{city}.fermion' STORED AS FERMION", dir.display());
        context.sql(&copy).await?.collect().await?;
    }
    Ok(())
}

async fn show(context: &SessionContext, sql: &str) -> Result<()> {
    let batches = context.sql(sql).await?.collect().await?;
    println!("{sql}\n{}\n", pretty_format_batches(&batches)?);
    Ok(())
}
