//! Groups that are found by codes are those that the engine finds by strings, and what is asked of stored strings is the answer for their rows.
#![cfg(test)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::metadata::FieldMetadata;
use datafusion::error::Result;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext, character_length, col};
use datafusion_fermion::provider::{GroupsByCodes, TextByValue};

/// Rows of several stripes and pages: strings of few values, of many, in runs, all the same, all different, null now and then, with nothing but nulls, as binaries; and numbers.
const ROWS: &str = "SELECT value AS id, \
    CASE WHEN value % 11 = 0 THEN NULL ELSE 'kind ' || (value * 7919 % 13) END AS few, \
    CASE WHEN value % 101 = 7 THEN '' ELSE 'a word of more than twelve bytes ' || (value * 7919 % 2003) END AS many, \
    'run ' || (value / 700) AS runs, \
    'same' AS same, \
    'row ' || (value * 7919 % 30011) AS own, \
    CAST(NULL AS VARCHAR) AS nothing, \
    CAST('key ' || (value % 97) AS BYTEA) AS bytes, \
    CAST(value % 89 AS VARCHAR) AS digits, \
    CASE WHEN value % 40 = 39 THEN 'none' ELSE CAST(value % 40 AS VARCHAR) END AS part, \
    CASE WHEN value % 5 = 0 THEN NULL ELSE value % 1000 END AS n, \
    CAST(value % 77 AS DOUBLE) / 4 AS f \
    FROM generate_series(0, 29999) AS series(value)";

/// What is grouped by one column of strings, in an order that does not depend on the groups'.
const BY_CODES: [&str; 23] = [
    "SELECT few, count(*) FROM t GROUP BY few ORDER BY 1",
    "SELECT many, count(*), sum(n), min(f), max(id) FROM t GROUP BY many ORDER BY 1",
    "SELECT runs, count(n), avg(n) FROM t GROUP BY runs ORDER BY 1",
    "SELECT own, count(*), sum(id) FROM t GROUP BY own ORDER BY 1",
    "SELECT nothing, count(*), sum(id) FROM t GROUP BY nothing",
    "SELECT bytes, count(*) FROM t GROUP BY bytes ORDER BY 1",
    "SELECT DISTINCT many FROM t ORDER BY 1",
    "SELECT count(DISTINCT own) FROM t",
    "SELECT upper(few), count(*) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT regexp_replace(many, '[0-9]+$', ''), count(*), min(many), max(many), avg(length(many)) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT length(own), count(*) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT few IS NULL, count(*) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT coalesce(few, 'none'), count(*) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT few, count(*) FILTER (WHERE n > 500), sum(n) FILTER (WHERE few <> 'kind 3') FROM t GROUP BY few ORDER BY 1",
    "SELECT runs, count(DISTINCT id / 70), count(DISTINCT n), count(DISTINCT length(runs)), sum(id) FROM t GROUP BY runs ORDER BY 1",
    "SELECT few, count(*) FROM t WHERE few <> 'kind 3' GROUP BY few ORDER BY 1",
    "SELECT few, count(*) FROM t WHERE many LIKE '%77' GROUP BY few ORDER BY 1",
    "SELECT many, count(*) FROM t WHERE id BETWEEN 3000 AND 12345 AND n > 10 GROUP BY many ORDER BY 1",
    "SELECT many, sum(id) FROM t WHERE id % 2 = 0 GROUP BY many HAVING count(*) > 5 ORDER BY 1",
    "SELECT CAST(arrow_cast(few, 'Dictionary(Int32, Utf8)') AS VARCHAR), c FROM (SELECT arrow_cast(few, 'Dictionary(Int32, Utf8)') AS few, count(*) AS c FROM t GROUP BY 1) ORDER BY 1",
    "SELECT few, count(*) FROM t WHERE id < 0 GROUP BY few ORDER BY 1",
    "SELECT CAST(digits AS INT), count(*) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT few, count(*) AS c FROM t GROUP BY few ORDER BY c DESC, few LIMIT 3",
];

/// What is not: two columns or none, something in the way, or an aggregate that depends on the order. Of the strings that are cast, only digits are asked for.
const OTHERS: [&str; 9] = [
    "SELECT same, count(*), count(DISTINCT few) FROM t GROUP BY same",
    "SELECT count(DISTINCT few), count(DISTINCT many) FROM t",
    "SELECT CASE WHEN many LIKE '%1' THEN many ELSE few END, count(*) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT CAST(few AS INT), count(*) FROM (SELECT CASE WHEN id % 2 = 0 THEN NULL ELSE few END AS few FROM t WHERE id % 22 = 0) GROUP BY 1",
    "SELECT few, many, count(*) FROM t GROUP BY few, many ORDER BY 1, 2",
    "SELECT a.few, count(*) FROM t AS a JOIN t AS b ON a.id = b.id GROUP BY a.few ORDER BY 1",
    "SELECT few, array_agg(id ORDER BY id DESC)[1] FROM t GROUP BY few ORDER BY 1",
    "SELECT few, array_length(array_agg(id)) FROM t GROUP BY few ORDER BY 1",
    "SELECT few, count(*), sum(id) FROM (SELECT * FROM t WHERE id % 100 = 0 OR id >= 8200 ORDER BY id LIMIT 50) GROUP BY few ORDER BY 1",
];

/// What the scan asks of strings, and in how many columns it gives the answers out; the keys of some are found by codes.
const BY_VALUE: [(&str, usize); 32] = [
    ("SELECT n, avg(length(many)), count(*) FROM t GROUP BY n ORDER BY 1", 1),
    ("SELECT n, avg(length(many)), count(*) FROM t WHERE many <> '' GROUP BY n ORDER BY 1", 1),
    ("SELECT sum(length(few)), max(upper(few)), min(length(few)), count(upper(few)) FROM t", 2),
    ("SELECT sum(length(few)), max(upper(many)), min(encode(bytes, 'hex')), max(length(runs)), max(length(same)) FROM t", 5),
    (
        "SELECT count(coalesce(few, 'none')), max(coalesce(few, 'none')), count(few IS NULL), min(coalesce(nothing, 'x')), count(upper(nothing)) FROM t",
        4,
    ),
    ("SELECT n, max(coalesce(length(few), 77)) FROM t WHERE many LIKE '%7%' GROUP BY n ORDER BY 1", 1),
    ("SELECT count(*) FILTER (WHERE few LIKE '%3'), sum(n) FILTER (WHERE upper(many) LIKE '%77') FROM t", 2),
    ("SELECT n, upper(few), length(many), count(*) FROM t GROUP BY 1, 2, 3 ORDER BY 1, 2, 3", 2),
    ("SELECT sum(CASE WHEN few = 'kind 3' OR few = 'kind 5' THEN 1 ELSE 0 END), sum(CASE WHEN few LIKE '%7' THEN n END) FROM t", 2),
    ("SELECT few, avg(length(few)), max(upper(many)), count(*) FILTER (WHERE few LIKE '%1') FROM t GROUP BY few ORDER BY 1", 1),
    ("SELECT sum(length(few)), sum(length(many)) FROM t WHERE id BETWEEN 8000 AND 9100", 2),
    ("SELECT sum(length(few)), max(upper(many)) FROM t WHERE id % 999 = 5", 2),
    ("SELECT sum(length(few)), max(upper(many)) FROM t WHERE id < 0", 2),
    ("SELECT count(DISTINCT upper(few)), count(DISTINCT length(few)) FROM t", 2),
    ("SELECT sum(l) FROM (SELECT length(many) AS l, n FROM t WHERE n > 3) WHERE n < 500", 1),
    // Some strings are no numbers, but those are in none of these rows, or nobody wants them.
    ("SELECT sum(CAST(digits AS INT)) FROM t", 1),
    ("SELECT sum(CAST(part AS INT)) FROM t WHERE part <> 'none'", 1),
    ("SELECT n, sum(CAST(part AS INT)) FROM t WHERE id % 3 = 0 AND id % 40 <> 39 GROUP BY n ORDER BY 1", 1),
    ("SELECT sum(CASE WHEN id % 40 = 39 THEN 0 ELSE CAST(part AS INT) END) FROM t", 0),
    ("SELECT sum(CAST(part AS INT)) FILTER (WHERE part <> 'none') FROM t", 0),
    ("SELECT n, sum(length(part)) FILTER (WHERE upper(part) <> 'NONE') FROM t GROUP BY n ORDER BY 1", 2),
    ("SELECT sum(length(part)) FILTER (WHERE part <> 'none') FROM t", 0),
    // What is evaluated of some rows is left to them, but for what says of which.
    ("SELECT sum(CASE WHEN few = 'kind 3' OR id < 100 THEN n WHEN id > 1000 THEN length(many) ELSE -1 END) FROM t", 1),
    ("SELECT count(*) FILTER (WHERE id < 1000 AND many LIKE '%7'), count(*) FILTER (WHERE few LIKE '%3' AND many LIKE '%7') FROM t", 1),
    ("SELECT sum(coalesce(n, length(many))), sum(n + length(runs)) FROM t", 1),
    ("SELECT count(*) FILTER (WHERE id IN (id, -1, -2, CAST(part AS INT))), count(*) FILTER (WHERE id IN (length(many), n, -1, -2)) FROM t", 1),
    ("SELECT count(*) FILTER (WHERE length(many) IN (n, 33, 34, 35)) FROM t", 1),
    // The first rows depend on the order, and there are some behind them of which a question may fail.
    ("SELECT sum(id), sum(length(few)) FROM (SELECT id, few FROM t WHERE id % 100 = 0 OR id >= 8200 ORDER BY id LIMIT 50)", 0),
    ("SELECT sum(CAST(part AS INT)) FROM (SELECT part FROM t ORDER BY id LIMIT 30)", 0),
    ("SELECT array_length(array_agg(id)), sum(length(few)) FROM t", 0),
    // What else is used of it needs the strings, or it is about other columns, too, or it may come out otherwise each time.
    ("SELECT sum(length(few)), max(few), max(few || many) FROM t", 0),
    ("SELECT count(CASE WHEN random() > 2 THEN few END), max(length(few || CAST(id AS VARCHAR))) FROM t", 0),
];

/// More than there are stripes, so that some have no rows.
const PARTITIONS: usize = 8;

#[derive(Clone, Copy)]
struct Settings {
    batch_rows: usize,
    /// Smaller files are read by one partition, and their batches dealt out.
    split_from: usize,
    skip_after: usize,
    skip_ratio: f64,
}

const SETTINGS: [Settings; 3] = [
    Settings { batch_rows: 8192, split_from: 10 << 20, skip_after: 100_000, skip_ratio: 0.8 },
    Settings { batch_rows: 100, split_from: 0, skip_after: 100_000, skip_ratio: 0.8 },
    // Rows are soon handed on one by one.
    Settings { batch_rows: 1000, split_from: 0, skip_after: 500, skip_ratio: 0.01 },
];

fn session(with_rules: bool, settings: &Settings) -> Result<SessionContext> {
    let mut config = SessionConfig::new().with_target_partitions(PARTITIONS).with_batch_size(settings.batch_rows);
    let execution = &mut config.options_mut().execution;
    execution.skip_partial_aggregation_probe_rows_threshold = settings.skip_after;
    execution.skip_partial_aggregation_probe_ratio_threshold = settings.skip_ratio;
    config.options_mut().optimizer.repartition_file_min_size = settings.split_from;
    let mut state = SessionStateBuilder::new().with_config(config).with_default_features();
    if with_rules {
        state = state.with_physical_optimizer_rule(Arc::new(TextByValue)).with_physical_optimizer_rule(Arc::new(GroupsByCodes));
    }
    let context = SessionContext::new_with_state(state.build());
    datafusion_fermion::register(&context)?;
    Ok(context)
}

async fn plan(context: &SessionContext, sql: &str) -> Result<Arc<dyn ExecutionPlan>> {
    context.sql(sql).await?.create_physical_plan().await
}

fn is_by_codes(plan: &Arc<dyn ExecutionPlan>) -> bool {
    coded_part(plan).is_some()
}

/// The half of an aggregation that is by codes.
fn coded_part(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    if plan.name() == "CodedAggregateExec" { Some(Arc::clone(plan)) } else { plan.children().into_iter().find_map(coded_part) }
}

async fn answer(context: &SessionContext, plan: Arc<dyn ExecutionPlan>) -> Result<String> {
    let batches: Vec<RecordBatch> = collect(plan, context.task_ctx()).await?;
    Ok(pretty_format_batches(&batches)?.to_string())
}

async fn create(context: &SessionContext, path: &Path, word: &str) -> Result<()> {
    context.sql(&format!("CREATE EXTERNAL TABLE t STORED AS {word} LOCATION '{}'", path.display())).await?;
    Ok(())
}

async fn write(path: &Path) -> Result<()> {
    let options = "'fermion.stripe_rows' '9000', 'fermion.page_rows' '2000'";
    let copy = format!("COPY ({ROWS}) TO '{}' STORED AS FERMION OPTIONS ({options})", path.display());
    session(false, &SETTINGS[0])?.sql(&copy).await?.collect().await?;
    Ok(())
}

#[tokio::test]
async fn groups_by_codes_are_those_by_strings() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("t.fermion");
    write(&file).await?;
    for settings in &SETTINGS {
        let (strings, codes) = (session(false, settings)?, session(true, settings)?);
        create(&strings, &file, "FERMION").await?;
        create(&codes, &file, "FERMION").await?;
        let all = BY_CODES.iter().map(|sql| (*sql, true)).chain(OTHERS.iter().map(|sql| (*sql, false)));
        for (sql, by_codes) in all {
            let (expected, actual) = (plan(&strings, sql).await?, plan(&codes, sql).await?);
            assert_eq!((is_by_codes(&expected), is_by_codes(&actual)), (false, by_codes), "{sql}");
            let (expected, actual) = (answer(&strings, expected).await?, answer(&codes, actual).await?);
            assert_eq!(actual, expected, "{sql}, {} rows a batch", settings.batch_rows);
        }
    }
    Ok(())
}

/// In how many columns a scan gives out what was asked of strings.
fn answers(plan: &Arc<dyn ExecutionPlan>) -> usize {
    displayable(plan.as_ref()).indent(false).to_string().matches("by_value(").count()
}

#[tokio::test]
async fn what_is_asked_of_stored_strings_is_the_answer_for_their_rows() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("t.fermion");
    write(&file).await?;
    for settings in &SETTINGS {
        let (rows, values) = (session(false, settings)?, session(true, settings)?);
        create(&rows, &file, "FERMION").await?;
        create(&values, &file, "FERMION").await?;
        for (sql, columns) in BY_VALUE {
            let (expected, actual) = (plan(&rows, sql).await?, plan(&values, sql).await?);
            // A file that is not cut is read by one thread for all that ask, and some questions are left to these.
            let least = if settings.split_from > 0 { 0 } else { columns };
            assert!((least..=columns).contains(&answers(&actual)), "{sql}");
            assert_eq!(answers(&expected), 0);
            assert_eq!(answer(&values, actual).await?, answer(&rows, expected).await?, "{sql}, {} rows a batch", settings.batch_rows);
        }
        // An error is that of the rows.
        let sql = "SELECT sum(CAST(part AS INT)) FROM t";
        let error = answer(&values, plan(&values, sql).await?).await.unwrap_err().to_string();
        assert!(error.contains("Cannot cast string 'none'"), "{error}");
    }
    Ok(())
}

/// Where the batches of few threads that read are dealt out to more, strings are left to these that do not come again often enough, or are not known to.
#[tokio::test]
async fn what_more_threads_can_ask_is_asked_by_them() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (fermion, alkaid) = (dir.path().join("t.fermion"), dir.path().join("t.alkaid"));
    write(&fermion).await?;
    let copy = format!("COPY ({ROWS}) TO '{}' STORED AS ALKAID", alkaid.display());
    session(false, &SETTINGS[0])?.sql(&copy).await?.collect().await?;
    let of = |column: &str| format!("SELECT sum(length({column})), max(upper({column})), count(*) FILTER (WHERE {column} LIKE '%7') FROM t");
    let [whole, cut] = [&SETTINGS[0], &SETTINGS[1]];
    // Whether the file is read as a whole by one thread, for how many that ask, and in how many columns there are answers.
    for (file, word, settings, threads, column, columns) in [
        (&fermion, "FERMION", whole, 8, "few", 3),
        (&fermion, "FERMION", whole, 8, "many", 0),
        (&fermion, "FERMION", whole, 3, "many", 3),
        (&fermion, "FERMION", whole, 3, "own", 0),
        (&fermion, "FERMION", cut, 8, "own", 3),
        (&alkaid, "ALKAID", whole, 8, "few", 0),
        (&alkaid, "ALKAID", whole, 1, "few", 3),
    ] {
        let (rows, values) = (session(false, settings)?, session(true, settings)?);
        for context in [&rows, &values] {
            context.sql(&format!("SET datafusion.execution.target_partitions = {threads}")).await?;
            create(context, file, word).await?;
        }
        let sql = of(column);
        let (expected, actual) = (plan(&rows, &sql).await?, plan(&values, &sql).await?);
        assert_eq!((answers(&expected), answers(&actual)), (0, columns), "{word}, {threads} threads, {sql}");
        assert_eq!(answer(&values, actual).await?, answer(&rows, expected).await?, "{word}, {sql}");
    }
    Ok(())
}

/// By one partition, which aggregates in one step.
#[tokio::test]
async fn stored_strings_are_asked_in_one_step_too() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("t.fermion");
    write(&file).await?;
    let [rows, values] = [false, true].map(|with_rules| session(with_rules, &SETTINGS[0]));
    let (rows, values) = (rows?, values?);
    for context in [&rows, &values] {
        context.sql("SET datafusion.execution.target_partitions = 1").await?;
        create(context, &file, "FERMION").await?;
    }
    // Its first column says more than its type.
    let with_unit = "SELECT with_metadata(few, 'unit', 'm'), CAST(digits AS INT), count(*) FROM t GROUP BY 1, 2 ORDER BY 1, 2";
    for (sql, _) in BY_VALUE.into_iter().chain([(with_unit, 2)]) {
        let (expected, actual) = (plan(&rows, sql).await?, plan(&values, sql).await?);
        assert_eq!(actual.schema(), expected.schema(), "{sql}");
        assert_eq!(answer(&values, actual).await?, answer(&rows, expected).await?, "{sql}");
    }
    Ok(())
}

/// What a query says of its output is not lost.
#[tokio::test]
async fn the_metadata_of_an_alias_stays() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("t.fermion");
    write(&file).await?;
    let context = session(true, &SETTINGS[0])?;
    context.sql("SET datafusion.execution.target_partitions = 1").await?;
    create(&context, &file, "FERMION").await?;
    let unit = FieldMetadata::from(BTreeMap::from([("unit".to_owned(), "letters".to_owned())]));
    let letters = sum(character_length(col("few"))).alias_with_metadata("letters", Some(unit));
    let batches = context.table("t").await?.aggregate(vec![], vec![letters])?.collect().await?;
    assert_eq!(batches[0].schema().field(0).metadata()["unit"], "letters");
    let expected = context.sql("SELECT sum(length(few)) FROM t").await?.collect().await?;
    assert_eq!(batches[0].column(0), expected[0].column(0));
    Ok(())
}

/// A part of a lambda is about its variables, too.
#[tokio::test]
async fn lambdas_stay_whole() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("t.fermion");
    write(&file).await?;
    let mut answers = Vec::new();
    for with_rules in [false, true] {
        let context = session(with_rules, &SETTINGS[0])?;
        context.sql("SET datafusion.sql_parser.dialect = 'databricks'").await?;
        create(&context, &file, "FERMION").await?;
        let sql = "SELECT max(array_transform(make_array(n, id), x -> x + length(many))), sum(length(many)) FROM t";
        answers.push(answer(&context, plan(&context, sql).await?).await?);
    }
    assert_eq!(answers[0], answers[1]);
    Ok(())
}

/// Rows of fifty thousand strings in no order, of which each comes three times at most, of a quarter of that in their order, half of which come again before a trial is over, and of a thousand, which are stored once for many rows.
const ALONE: &str = "SELECT value AS id, CASE WHEN value % 10 = 0 THEN NULL ELSE value END AS n, 'the row of number ' || (value * 7919 % 50021) AS late, \
    'the row of number ' || (value % 12500) AS again, 'the row of number ' || (value * 7919 % 1009) AS soon FROM generate_series(0, 149999) AS series(value)";

#[tokio::test]
async fn strings_of_which_most_are_new_are_not_looked_up() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("t.fermion");
    let copy =
        format!("COPY ({ALONE}) TO '{}' STORED AS FERMION OPTIONS ('fermion.stripe_rows' '25000', 'fermion.page_rows' '8192')", file.display());
    session(false, &SETTINGS[0])?.sql(&copy).await?.collect().await?;
    let [strings, codes] = [false, true].map(|with_rules| session(with_rules, &Settings { split_from: 0, ..SETTINGS[0] }));
    let (strings, codes) = (strings?, codes?);
    for context in [&strings, &codes] {
        context.sql("SET datafusion.execution.target_partitions = 2").await?;
        create(context, &file, "FERMION").await?;
    }
    for (column, are_handed_on) in [("late", true), ("again", false), ("soon", false)] {
        let sql = format!(
            "SELECT {column}, count(*), count(n), avg(n), min({column}), max(length({column})), sum(id) FILTER (WHERE n % 3 = 0), \
             count(*) FILTER (WHERE {column} LIKE '%7') FROM t GROUP BY {column} ORDER BY 1"
        );
        let (expected, actual) = (plan(&strings, &sql).await?, plan(&codes, &sql).await?);
        let Some(first) = coded_part(&actual) else { panic!("not by codes") };
        let (expected, actual) = (answer(&strings, expected).await?, answer(&codes, actual).await?);
        assert!(actual == expected, "{column}");
        let handed_on = first.metrics().and_then(|metrics| metrics.sum_by_name("skipped_aggregation_rows")).map_or(0, |rows| rows.as_usize());
        assert_eq!(handed_on > 100_000, are_handed_on, "{column}: {handed_on} rows");
        assert!(are_handed_on || handed_on == 0, "{column}: {handed_on} rows");
    }
    Ok(())
}

/// The first half of counting `many`: rows that it gives, and the count of each value.
async fn counted(context: &SessionContext, file: &Path, memory: usize) -> Result<(usize, BTreeMap<Option<String>, i64>)> {
    create(context, file, "FERMION").await?;
    let plan = plan(context, "SELECT many, count(*) FROM t GROUP BY many").await?;
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(memory))).build_arc()?;
    let task = TaskContext::from(&context.state()).with_runtime(runtime);
    let Some(first) = coded_part(&plan) else { panic!("not by codes") };
    let (mut rows, mut counts) = (0, BTreeMap::new());
    for batch in collect(first, Arc::new(task)).await? {
        rows += batch.num_rows();
        let (keys, numbers) = (batch.column(0).as_string_view(), batch.column(1).as_primitive::<Int64Type>());
        for (key, number) in keys.iter().zip(numbers.values()) {
            *counts.entry(key.map(str::to_owned)).or_default() += number;
        }
    }
    Ok((rows, counts))
}

#[tokio::test]
async fn groups_go_out_early_where_memory_is_short() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("t.fermion");
    write(&file).await?;
    let settings = &SETTINGS[1];
    let (rows, expected) = counted(&session(true, settings)?, &file, 1 << 30).await?;
    let (more_rows, actual) = counted(&session(true, settings)?, &file, 100 << 10).await?;
    assert!(rows <= PARTITIONS * 2004 && more_rows > 2 * rows, "{rows} and {more_rows} rows");
    assert_eq!((actual.len(), actual.values().sum::<i64>()), (2004, 30_000));
    assert_eq!(actual, expected);
    // Of a batch at least.
    let (most_rows, actual) = counted(&session(true, settings)?, &file, 1 << 10).await?;
    assert!(most_rows > more_rows, "{most_rows} rows");
    assert_eq!(actual, expected);
    Ok(())
}

/// Four stripes, whose dictionaries have so many values that most come after the first batch: of each stripe its own, the same in all, and the same of another stripe in the
/// first rows alone.
const STRIPES: &str = "SELECT value AS id, \
    CASE WHEN value % 103 = 5 THEN NULL ELSE 'of one stripe ' || (value / 50000 * 50000 + value * 7919 % 12007) END AS own, \
    'of all stripes ' || (value * 7919 % 12007) AS shared, \
    'first ' || CASE WHEN value % 50000 < 8192 THEN value % 8192 ELSE value / 3 END AS first \
    FROM generate_series(0, 199999) AS series(value)";

#[tokio::test]
async fn values_of_large_dictionaries_are_not_all_looked_up() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("t.fermion");
    let sessions = [false, true].map(|with_rules| session(with_rules, &Settings { split_from: 0, ..SETTINGS[0] }));
    let [strings, codes] = sessions;
    let (strings, codes) = (strings?, codes?);
    let copy = format!("COPY ({STRIPES}) TO '{}' STORED AS FERMION OPTIONS ('fermion.stripe_rows' '50000')", file.display());
    strings.sql(&copy).await?.collect().await?;
    for context in [&strings, &codes] {
        context.sql("SET datafusion.execution.target_partitions = 2").await?;
        create(context, &file, "FERMION").await?;
    }
    for sql in [
        "SELECT own, count(*), sum(id) FROM t GROUP BY own ORDER BY 1",
        "SELECT shared, count(*), min(own) FROM t WHERE shared <> '' GROUP BY shared ORDER BY 1",
        "SELECT first, count(*), max(id) FROM t GROUP BY first ORDER BY 1",
        "SELECT count(*), count(own) FROM (SELECT DISTINCT own FROM t WHERE id % 3 > 0)",
        "SELECT right(own, 3), count(*) FROM t GROUP BY 1 ORDER BY 1",
    ] {
        let (expected, actual) = (plan(&strings, sql).await?, plan(&codes, sql).await?);
        assert_eq!((is_by_codes(&expected), is_by_codes(&actual)), (false, true), "{sql}");
        assert!(answer(&codes, actual).await? == answer(&strings, expected).await?, "{sql}");
    }
    // Each half of the table has all of the values, and some of them twice.
    let plan = plan(&codes, "SELECT shared, count(*) FROM t GROUP BY shared").await?;
    let Some(first) = coded_part(&plan) else { panic!("not by codes") };
    let rows: usize = collect(first, codes.task_ctx()).await?.iter().map(RecordBatch::num_rows).sum();
    assert!(rows > 2 * 12_007 + 1000 && rows < 4 * 12_007, "{rows} rows");
    Ok(())
}
