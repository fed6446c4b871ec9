//! The same SQL over the same files, by DataFusion's own source and by this crate's, which reads files or has them mapped.

use std::path::Path;
use std::time::{Duration, Instant};

use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;

use crate::fingerprint::Fingerprint;
use crate::{Result, median, milliseconds};

/// What it is about, the file, and the query over `t`.
const QUERIES: [(&str, &str, &str); 10] = [
    ("all columns", "plain", "SELECT * FROM t"),
    ("all columns, LZ4", "lz4", "SELECT * FROM t"),
    ("all columns, ZSTD", "zstd", "SELECT * FROM t"),
    ("all columns, written by DataFusion", "theirs", "SELECT * FROM t"),
    ("2 of 100 columns", "wide", "SELECT sum(c3), max(c77) FROM t"),
    ("2 columns, ZSTD", "zstd", "SELECT sum(l_quantity), max(l_partkey) FROM t"),
    ("one row in 1,500, sorted", "plain", "SELECT * FROM t WHERE l_orderkey BETWEEN 500000 AND 501000"),
    ("one row in 70, not sorted", "plain", "SELECT * FROM t WHERE l_shipmode = 'AIR' AND l_quantity < 5"),
    ("the same, ZSTD", "zstd", "SELECT * FROM t WHERE l_shipmode = 'AIR' AND l_quantity < 5"),
    ("count", "plain", "SELECT count(*) FROM t"),
];

pub(crate) async fn compare(dir: &Path, partitions: usize, runs: usize, only: Option<&str>) -> Result<()> {
    println!("| query | DataFusion's Arrow source, ms | Alkaid, ms | faster by | Alkaid, mapped, ms | faster by |\n|---|--:|--:|--:|--:|--:|");
    for (name, file, query) in QUERIES.into_iter().filter(|(name, ..)| only.is_none_or(|only| only == *name)) {
        let config = SessionConfig::new().with_target_partitions(partitions);
        let theirs = SessionContext::new_with_config(config.clone());
        let [ours, mapped] = [config.clone(), config].map(SessionContext::new_with_config);
        datafusion_fermion::register(&ours)?;
        datafusion_fermion::register(&mapped)?;
        mapped.sql("SET alkaid.memory_map = true").await?;
        let sides = [theirs, ours, mapped];
        for side in &sides {
            let path = dir.join(format!("{file}.arrow"));
            side.sql(&format!("CREATE EXTERNAL TABLE t STORED AS ARROW LOCATION '{}'", path.display())).await?;
        }
        let expected = fingerprint(&sides[0], query).await?;
        for side in &sides[1..] {
            if fingerprint(side, query).await? != expected {
                return Err(format!("{name}: the answers differ").into());
            }
        }
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for run in 0..runs {
            for turn in 0..sides.len() {
                let side = (run + turn) % sides.len();
                times[side].push(run_once(&sides[side], query).await?);
            }
        }
        let [theirs, ours, mapped] = times.map(|times| milliseconds(median(times)));
        println!("| {name} | {theirs:.1} | {ours:.1} | {:.2} | {mapped:.1} | {:.2} |", theirs / ours, theirs / mapped);
    }
    Ok(())
}

async fn fingerprint(context: &SessionContext, query: &str) -> Result<Fingerprint> {
    let mut fingerprint = Fingerprint::default();
    let mut stream = context.sql(query).await?.execute_stream().await?;
    while let Some(batch) = stream.try_next().await? {
        fingerprint.add(&batch)?;
    }
    Ok(fingerprint)
}

async fn run_once(context: &SessionContext, query: &str) -> Result<Duration> {
    let start = Instant::now();
    let stream = context.sql(query).await?.execute_stream().await?;
    stream.try_for_each(|_| async { Ok(()) }).await?;
    Ok(start.elapsed())
}
