//! The queries of the demonstration, and what one run of them costs.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::metrics::MetricValue;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use tpchgen::q_and_a::queries;

use super::data::{self, TABLES};
use crate::context;
use crate::error::{Doing, Error, Result};

/// Runs after the first, which warms up.
const RUNS: usize = 3;

/// A query to compare by.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) sql: String,
}

/// TPC-H queries with the parameters of the specification's validation runs.
pub(crate) fn tpch() -> Vec<Query> {
    let query = |name, text: &str, what, parameters: &[(&str, &str)], tail: &str| {
        let sql = text.trim().trim_end_matches(';').to_owned();
        let sql = parameters.iter().fold(sql, |sql, (from, to)| sql.replace(from, to)) + tail;
        Query { name, what, sql }
    };
    vec![
        query("Q1", queries::Q1, "summary of nearly all rows", &[(":1", "90"), (" (3)", "")], ""),
        query("Q3", queries::Q3, "three-way join, top ten", &[(":1", "BUILDING"), (":2", "1995-03-15")], " limit 10"),
        query("Q6", queries::Q6, "sum of a year's discounts", &[(":1", "1994-01-01"), (":2", "0.06"), (":3", "24")], ""),
        query("Q12", queries::Q12, "join, counts by ship mode", &[(":1", "MAIL"), (":2", "SHIP"), (":3", "1994-01-01")], ""),
        query("Q14", queries::Q14, "join, share of promotions", &[(":1", "1995-09-01")], ""),
    ]
}

/// The lines of one order out of the middle of the table.
pub(crate) fn needle(order: i64) -> Query {
    let sql = format!("select * from lineitem where l_orderkey = {order} order by l_linenumber");
    Query { name: "one", what: "all columns of one order", sql }
}

/// One format's tables, in a session of their own: no cache is shared between the formats.
pub(crate) struct Side {
    ctx: SessionContext,
}

/// What a query gave and what it cost.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) batches: Vec<RecordBatch>,
    /// The median of the warm runs.
    pub(crate) time: Duration,
    /// Read by its scans in the first run.
    pub(crate) bytes: u64,
    /// Pages skipped by their statistics, of those looked at.
    pub(crate) pages: (usize, usize),
}

impl Side {
    /// Opens the tables of `dir`.
    pub(crate) async fn open(dir: &Path, format: &str) -> Result<Self> {
        let ctx = context::session(SessionConfig::new(), Arc::default())?;
        for table in TABLES {
            ctx.sql(&create_table(dir, format, table, table)).await.doing(|| format!("cannot open {table} as {format}"))?;
        }
        Ok(Self { ctx })
    }

    /// The key of an order about half way through the table.
    pub(crate) async fn middle_order(&self) -> Result<i64> {
        let sql = "select min(l_orderkey) from lineitem where l_orderkey >= (select max(l_orderkey) / 2 from lineitem)";
        let batches = self.ctx.sql(sql).await?.collect().await?;
        let keys = batches.first().and_then(|batch| batch.column(0).as_any().downcast_ref::<Int64Array>());
        keys.and_then(|keys| keys.iter().next().flatten()).ok_or_else(|| Error::failed("lineitem has no rows"))
    }

    /// Runs a query once for its costs and [`RUNS`] times for its time.
    pub(crate) async fn run(&self, query: &Query) -> Result<Outcome> {
        let mut outcome = self.run_once(query).await?;
        let mut times = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            times.push(self.run_once(query).await?.time);
        }
        times.sort_unstable();
        outcome.time = times.get(RUNS / 2).copied().unwrap_or_default();
        Ok(outcome)
    }

    async fn run_once(&self, query: &Query) -> Result<Outcome> {
        let started = Instant::now();
        let failed = || format!("{} failed", query.name);
        let plan = self.ctx.sql(&query.sql).await.doing(failed)?.create_physical_plan().await.doing(failed)?;
        let batches = collect(Arc::clone(&plan), self.ctx.task_ctx()).await.doing(failed)?;
        Ok(Outcome { batches, time: started.elapsed(), bytes: bytes(&plan), pages: pages(&plan) })
    }
}

impl Outcome {
    /// The rows as text, which is how the formats' answers are compared: exactly, but whatever types hold the strings.
    pub(crate) fn text(&self) -> Result<String> {
        Ok(pretty_format_batches(&self.batches)?.to_string())
    }
}

/// The statement that makes `table` of a file of the demonstration.
pub(crate) fn create_table(dir: &Path, format: &str, file: &str, table: &str) -> String {
    let place = data::file(dir, format, file).display().to_string().replace('\'', "''");
    format!("CREATE EXTERNAL TABLE {table} STORED AS {} LOCATION '{place}'", format.to_uppercase())
}

/// Sums what all scans below `plan` have read.
fn bytes(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let here = plan.metrics().and_then(|metrics| metrics.sum_by_name("bytes_scanned")).map_or(0, |bytes| bytes.as_usize() as u64);
    here + plan.children().into_iter().map(bytes).sum::<u64>()
}

/// Sums the page pruning of all scans below `plan`: pages skipped, pages looked at.
fn pages(plan: &Arc<dyn ExecutionPlan>) -> (usize, usize) {
    let mut total = (0, 0);
    for metric in plan.metrics().iter().flat_map(|metrics| metrics.iter()) {
        if let MetricValue::PruningMetrics { name, pruning_metrics } = metric.value()
            && name.contains("pages_pruned")
        {
            total.0 += pruning_metrics.pruned();
            total.1 += pruning_metrics.pruned() + pruning_metrics.matched();
        }
    }
    for child in plan.children() {
        let below = pages(child);
        total = (total.0 + below.0, total.1 + below.1);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_parameter_is_left_open() {
        for query in tpch() {
            let open = query.sql.as_bytes().windows(2).any(|pair| pair[0] == b':' && pair[1].is_ascii_digit());
            assert!(!open, "{}", query.sql);
        }
    }
}
