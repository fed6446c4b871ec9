//! Groups of rows that follow each other are those that the engine finds row by row.
#![cfg(test)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_fermion::provider::GroupsByRuns;

const ROWS: i64 = 150_000;

/// Runs of three rows: of a user each, who comes back, of texts, short, long and null, of numbers with nulls, of floats with two zeros and what is no number. And rows without runs, of few, many and as many values as there are
/// rows. In the middle there are no runs of anything.
const TABLE: &str = "SELECT id, g AS n, g * 7919 % 1009 AS few, g * 7919 % 15013 AS who, id * 7919 % 150001 AS own, id * 7919 % 13 AS mixed, \
    CASE WHEN g % 5 = 0 THEN NULL WHEN g % 5 = 1 THEN '' WHEN g % 5 = 2 THEN 'short ' || (g % 7) ELSE 'a text of more than twelve bytes ' || (g % 1013) END AS text, \
    CASE WHEN g % 4 = 0 THEN NULL ELSE g % 31 END AS nulls, \
    CASE g % 6 WHEN 0 THEN 0.0 WHEN 1 THEN -0.0 WHEN 2 THEN CAST('NaN' AS DOUBLE) WHEN 3 THEN NULL ELSE g / 2.0 END AS float, \
    CASE g % 3 WHEN 0 THEN true WHEN 1 THEN false END AS flag, \
    CAST(g % 97 AS DECIMAL(12, 2)) AS amount, CAST(CAST(g % 400 AS INT) AS DATE) AS day, CAST('key ' || (g % 89) AS BYTEA) AS bytes \
    FROM (SELECT value AS id, CASE WHEN value BETWEEN 56000 AND 64999 THEN 100000 + value ELSE value / 3 END AS g FROM generate_series(0, 129999) AS series(value))";

/// What is grouped by runs, in an order that does not depend on the groups'.
const BY_RUNS: [&str; 25] = [
    "SELECT n, count(*) FROM t GROUP BY n ORDER BY 1",
    "SELECT few, count(*), sum(id), avg(id), min(own), max(text) FROM t GROUP BY few ORDER BY 1",
    "SELECT who, count(*), sum(id), avg(amount), min(text) FROM t GROUP BY who ORDER BY 1",
    "SELECT own, count(*), min(text) FROM t GROUP BY own ORDER BY 1",
    "SELECT mixed, count(*), sum(own) FROM t GROUP BY mixed ORDER BY 1",
    "SELECT text, count(*), count(text), sum(id) FROM t GROUP BY text ORDER BY 1",
    "SELECT nulls, count(*), count(nulls), sum(nulls) FROM t GROUP BY nulls ORDER BY 1",
    "SELECT float, count(*), sum(id) FROM t GROUP BY float ORDER BY 1, 3",
    "SELECT flag, amount, day, count(*), sum(id) FROM t GROUP BY flag, amount, day ORDER BY 1, 2, 3",
    "SELECT bytes, count(*), max(id) FROM t GROUP BY bytes ORDER BY 1",
    "SELECT who, text, count(*), min(id) FROM t GROUP BY who, text ORDER BY 1, 2",
    "SELECT who, who - 1, who - 2, count(*) FROM t GROUP BY 1, 2, 3 ORDER BY 1",
    "SELECT few % 100, length(text), sum(id) FROM t GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT few, count(DISTINCT who) FROM t GROUP BY few ORDER BY 1",
    "SELECT count(DISTINCT who) FROM t",
    "SELECT few, count(DISTINCT who), count(DISTINCT nulls), count(*), sum(id) FROM t GROUP BY few ORDER BY 1",
    "SELECT few % 7, round(corr(DISTINCT n, few), 9), count(*) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT mixed, count(DISTINCT n), count(DISTINCT own), count(nulls), count(DISTINCT who) FILTER (WHERE flag) FROM t GROUP BY mixed ORDER BY 1",
    "SELECT flag, text, count(DISTINCT nulls % 3), count(DISTINCT length(text)), max(own) FROM t WHERE few < 900 GROUP BY flag, text ORDER BY 1, 2",
    "SELECT few, count(*) FILTER (WHERE flag), sum(id) FILTER (WHERE text <> '') FROM t GROUP BY few ORDER BY 1",
    "SELECT who, count(*) FROM t WHERE id % 7 <> 0 GROUP BY who ORDER BY 1",
    "SELECT text, who, count(*) FROM t WHERE nulls > 5 GROUP BY text, who HAVING count(*) > 1 ORDER BY 1, 2",
    "SELECT who, mixed, count(*) FROM t GROUP BY who, mixed ORDER BY 1, 2",
    "SELECT who, sum(id) FROM t WHERE id < 0 GROUP BY who",
    "SELECT DISTINCT text, day FROM t ORDER BY 1, 2",
];

/// What is not: no keys, keys that cannot be compared with the row before, an aggregate that depends on the order, and an order that the engine groups by.
const OTHERS: [&str; 5] = [
    "SELECT count(*), sum(id) FROM t",
    "SELECT make_array(few), count(*) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT few, array_length(array_agg(id)) FROM t GROUP BY few ORDER BY 1",
    "SELECT few, who, count(*) FROM t GROUP BY GROUPING SETS ((few), (who)) ORDER BY 1, 2",
    "SELECT id, count(*) FROM t GROUP BY id ORDER BY 1",
];

#[derive(Clone, Copy)]
struct Settings {
    batch_rows: usize,
    partitions: usize,
    skip_after: usize,
    skip_ratio: f64,
}

const SETTINGS: [Settings; 3] = [
    Settings { batch_rows: 8192, partitions: 2, skip_after: 100_000, skip_ratio: 0.8 },
    // Runs are not looked up any more as soon as they are judged.
    Settings { batch_rows: 1000, partitions: 2, skip_after: usize::MAX, skip_ratio: 0.0 },
    // Rows are soon handed on one by one.
    Settings { batch_rows: 1000, partitions: 5, skip_after: 10_000, skip_ratio: 0.8 },
];

struct Table {
    _dir: tempfile::TempDir,
    file: PathBuf,
}

/// The rows of a query in a file.
async fn written(rows: &str) -> Result<Table> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("t.fermion");
    let options = "'fermion.stripe_rows' '25000', 'fermion.page_rows' '8192'";
    let copy = format!("COPY ({rows}) TO '{}' STORED AS FERMION OPTIONS ({options})", file.display());
    context(false, &SETTINGS[0])?.sql(&copy).await?.collect().await?;
    Ok(Table { _dir: dir, file })
}

fn context(by_runs: bool, settings: &Settings) -> Result<SessionContext> {
    let mut config = SessionConfig::new().with_target_partitions(settings.partitions).with_batch_size(settings.batch_rows);
    let execution = &mut config.options_mut().execution;
    execution.skip_partial_aggregation_probe_rows_threshold = settings.skip_after;
    execution.skip_partial_aggregation_probe_ratio_threshold = settings.skip_ratio;
    config.options_mut().optimizer.repartition_file_min_size = 0;
    let mut state = SessionStateBuilder::new().with_config(config).with_default_features();
    if by_runs {
        state = state.with_physical_optimizer_rule(Arc::new(GroupsByRuns));
    }
    let context = SessionContext::new_with_state(state.build());
    datafusion_fermion::register(&context)?;
    Ok(context)
}

async fn session(by_runs: bool, settings: &Settings, file: &Path) -> Result<SessionContext> {
    let context = context(by_runs, settings)?;
    context.sql(&format!("CREATE EXTERNAL TABLE t STORED AS FERMION LOCATION '{}'", file.display())).await?;
    Ok(context)
}

async fn plan(context: &SessionContext, sql: &str) -> Result<Arc<dyn ExecutionPlan>> {
    context.sql(sql).await?.create_physical_plan().await
}

/// The half of an aggregation that is by runs.
fn first_half(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    if plan.name() == "RunAggregateExec" { Some(Arc::clone(plan)) } else { plan.children().into_iter().find_map(first_half) }
}

async fn answer(context: &SessionContext, plan: Arc<dyn ExecutionPlan>) -> Result<String> {
    Ok(pretty_format_batches(&collect(plan, context.task_ctx()).await?)?.to_string())
}

#[tokio::test]
async fn groups_by_runs_are_those_by_rows() -> Result<()> {
    let table = written(TABLE).await?;
    for settings in &SETTINGS {
        let (rows, runs) = (session(false, settings, &table.file).await?, session(true, settings, &table.file).await?);
        let all = BY_RUNS.iter().map(|sql| (*sql, true)).chain(OTHERS.iter().map(|sql| (*sql, false)));
        for (sql, by_runs) in all {
            let (expected, actual) = (plan(&rows, sql).await?, plan(&runs, sql).await?);
            assert_eq!((first_half(&expected).is_some(), first_half(&actual).is_some()), (false, by_runs), "{sql}");
            assert_eq!(actual.schema(), expected.schema(), "{sql}");
            let (expected, actual) = (answer(&rows, expected).await?, answer(&runs, actual).await?);
            assert!(actual == expected, "{sql}, {} rows a batch", settings.batch_rows);
        }
    }
    // Some users come back who are not looked up.
    let (rows, _) = counted(&session(true, &SETTINGS[1], &table.file).await?, "who", 1 << 30).await?;
    assert!(rows > 2 * 15_013, "{rows} rows");
    Ok(())
}

/// How many rows the first half of a count of each key gives out, and the counts, with this much memory.
async fn counted(context: &SessionContext, key: &str, memory: usize) -> Result<(usize, BTreeMap<i64, i64>)> {
    let plan = plan(context, &format!("SELECT {key}, count(*) FROM t GROUP BY {key}")).await?;
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(memory))).build_arc()?;
    let task = TaskContext::from(&context.state()).with_runtime(runtime);
    let Some(first) = first_half(&plan) else { panic!("not by runs") };
    let (mut rows, mut counts) = (0, BTreeMap::new());
    for batch in collect(first, Arc::new(task)).await? {
        rows += batch.num_rows();
        let [keys, numbers] = [0, 1].map(|column| batch.column(column).as_primitive::<Int64Type>());
        keys.values().iter().zip(numbers.values()).for_each(|(key, number)| *counts.entry(*key).or_default() += number);
    }
    Ok((rows, counts))
}

/// The counts of keys in plain Rust.
fn counts(key: impl Fn(i64) -> i64) -> BTreeMap<i64, i64> {
    let mut counts = BTreeMap::new();
    (0..ROWS).for_each(|id| *counts.entry(key(id)).or_default() += 1);
    counts
}

/// Keys of runs of three rows: of each half the last ones are the first ones again, or they are of a thousand.
const AGAIN: &str = "SELECT value % 75000 / 3 % 20000 AS late, value / 3 % 1000 AS soon FROM generate_series(0, 149999) AS series(value)";

#[tokio::test]
async fn runs_are_not_looked_up_where_most_are_new() -> Result<()> {
    let table = written(AGAIN).await?;
    // A partition that has read its half reads on in the other's.
    let runs = session(true, &SETTINGS[0], &table.file).await?;
    let plenty = 1 << 30;

    let (soon, actual) = counted(&runs, "soon", plenty).await?;
    assert_eq!(actual, counts(|id| id / 3 % 1000));
    assert!(soon <= 2 * 1000, "{soon} rows");

    // Were all looked up, no partition would give out more than there are.
    let (late, actual) = counted(&runs, "late", plenty).await?;
    assert_eq!(actual, counts(|id| id % 75_000 / 3 % 20_000));
    assert!(late > 2 * 20_000 + 1000 && late < 50_000 + 100, "{late} rows");
    Ok(())
}

/// Keys of no runs, of fifty thousand or of a thousand.
const ALONE: &str = "SELECT value * 7919 % 50021 AS late, value * 7919 % 1009 AS soon FROM generate_series(0, 149999) AS series(value)";

#[tokio::test]
async fn rows_are_not_looked_up_where_most_are_new() -> Result<()> {
    let table = written(ALONE).await?;
    let runs = session(true, &SETTINGS[0], &table.file).await?;

    let (soon, actual) = counted(&runs, "soon", 1 << 30).await?;
    assert_eq!(actual, counts(|id| id * 7919 % 1009));
    assert!(soon <= 2 * 1009, "{soon} rows");

    // Were all looked up, no partition would give out more than there are: a hundred thousand of 150,000 rows, nearly all of which go out here.
    let (late, actual) = counted(&runs, "late", 1 << 30).await?;
    assert!(actual == counts(|id| id * 7919 % 50_021));
    assert!(late > 2 * 50_021 + 40_000, "{late} rows");
    Ok(())
}

#[tokio::test]
async fn groups_go_out_early_where_memory_is_short() -> Result<()> {
    let table = written(AGAIN).await?;
    let runs = session(true, &Settings { skip_ratio: 1.0, ..SETTINGS[1] }, &table.file).await?;
    for (key, expected) in [("soon", counts(|id| id / 3 % 1000)), ("late", counts(|id| id % 75_000 / 3 % 20_000))] {
        let (rows, actual) = counted(&runs, key, 1 << 30).await?;
        assert!(actual == expected, "{key}");
        let (more_rows, actual) = counted(&runs, key, 20 << 10).await?;
        assert!(more_rows > rows, "{key}: {rows} and {more_rows} rows");
        assert!(actual == expected, "{key}");
    }
    Ok(())
}
