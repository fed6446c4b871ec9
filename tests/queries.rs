//! Random queries, of subqueries, joins, groups and first rows, give the rows that they give over the same table in memory, without a rule of this crate's.
#![cfg(test)]

use std::path::Path;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::execute_stream_partitioned;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_fermion::provider::LateColumns;
use futures::TryStreamExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Rows in the order of `id`, with strings of all sorts: few, many, in runs, each its own, or null.
const ROWS: &str = "SELECT value AS id, \
    CASE WHEN value % 11 = 0 THEN NULL ELSE 'kind ' || (value * 7919 % 13) END AS few, \
    CASE WHEN value % 101 = 7 THEN '' ELSE 'a word of more than twelve bytes ' || (value * 7919 % 503) END AS many, \
    'run ' || (value / 170) AS runs, \
    'row ' || (value * 7919 % 30011) AS own, \
    CASE WHEN value % 5 = 0 THEN NULL ELSE value * 31 % 1000 END AS n, \
    CASE WHEN value % 17 = 0 THEN NULL ELSE CAST(value * 13 % 997 AS DOUBLE) / 4 END AS f, \
    CAST(value / 40 AS INT) AS step, \
    make_array(value % 3, value % 7) AS list \
    FROM generate_series(0, 5999) AS series(value)";

const QUERIES: usize = 60;

/// How one side stores the table: its name, what it is copied by, and what it is declared by.
const SIDES: [(&str, &str, &str); 4] = [
    (
        "file",
        "COPY memory TO '{}/x.fermion' OPTIONS ('fermion.page_rows' '200', 'fermion.stripe_rows' '1700')",
        "STORED AS FERMION LOCATION '{}/x.fermion'",
    ),
    (
        "plain",
        "COPY memory TO '{}/plain.fermion' OPTIONS ('fermion.compression' 'fast', 'fermion.stripe_rows' '3000')",
        "STORED AS FERMION WITH ORDER (id) LOCATION '{}/plain.fermion'",
    ),
    (
        "files",
        "COPY (SELECT *, step / 40 AS part FROM memory) TO '{}/files/' STORED AS FERMION PARTITIONED BY (part) OPTIONS ('fermion.stripe_rows' '500')",
        "STORED AS FERMION PARTITIONED BY (part) LOCATION '{}/files/'",
    ),
    ("alkaid", "COPY memory TO '{}/x.alkaid' OPTIONS ('alkaid.batch_rows' '900')", "STORED AS ALKAID LOCATION '{}/x.alkaid'"),
];

/// What is compared of rows: `files` have a column more.
const COLUMNS: &str = "id, few, many, runs, own, n, f, step, list";

struct Queries(StdRng);

impl Queries {
    fn one(&mut self, of: &[&str]) -> String {
        (*of.choose(&mut self.0).unwrap()).to_owned()
    }

    fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    fn string(&mut self) -> String {
        self.one(&["few", "many", "runs", "own"])
    }

    /// An expression about one string.
    fn of_string(&mut self) -> String {
        let column = self.string();
        match self.below(8) {
            0 => format!("length({column})"),
            1 => format!("upper({column})"),
            2 => format!("right({column}, 2)"),
            3 => format!("coalesce({column}, 'none')"),
            4 => format!("CASE WHEN {column} LIKE '%3%' THEN 'three' WHEN {column} IS NULL THEN 'null' ELSE left({column}, 3) END"),
            5 => format!("{column} IS NULL"),
            6 => format!("regexp_replace({column}, '[0-9]+', '#')"),
            _ => format!("{column} || '!'"),
        }
    }

    fn number(&mut self) -> String {
        match self.below(7) {
            0 => "n".to_owned(),
            1 => "step".to_owned(),
            2 => format!("id % {}", 2 + self.below(50)),
            3 => "n + step".to_owned(),
            4 => format!("length({})", self.string()),
            5 => format!("CASE WHEN {} THEN n ELSE length({}) END", self.predicate(0), self.string()),
            _ => "array_length(list)".to_owned(),
        }
    }

    fn predicate(&mut self, depth: usize) -> String {
        if depth > 0 && self.below(2) == 0 {
            let (a, b) = (self.predicate(depth - 1), self.predicate(depth - 1));
            return match self.below(5) {
                0 => format!("NOT ({a})"),
                1 | 2 => format!("(({a}) AND ({b}))"),
                _ => format!("(({a}) OR ({b}))"),
            };
        }
        let (at, column) = (self.below(6000), self.string());
        match self.below(12) {
            0 => format!("id >= {at}"),
            1 => format!("id BETWEEN {at} AND {}", at + self.below(1500)),
            2 => format!("id % {} = 0", 1 + self.below(120)),
            3 => format!("{column} LIKE '%{}%'", self.below(40)),
            4 => format!("{column} = 'kind {}'", self.below(14)),
            5 => format!("{column} <> ''"),
            6 => format!("{column} IS NOT NULL"),
            7 => format!("n < {}", self.below(1000)),
            8 => format!("f >= {}.5", self.below(250)),
            9 => format!("step IN ({}, {}, {})", self.below(150), self.below(150), self.below(150)),
            10 => format!("{} > {}", self.number(), self.below(400)),
            _ => format!("{column} < 'kind 5'"),
        }
    }

    fn order(&mut self) -> String {
        let key = |queries: &mut Self| {
            let column = queries.one(&["n", "few", "many", "step", "runs", "length(many)", "f"]);
            format!("{column}{}{}, ", queries.one(&["", " DESC"]), queries.one(&["", " NULLS FIRST", " NULLS LAST"]))
        };
        let keys: String = (0..self.below(3)).map(|_| key(self)).collect();
        format!("{keys}id{}", self.one(&["", " DESC"]))
    }

    fn first(&mut self) -> String {
        let (limit, offset) = (1 + self.below(700), if self.below(3) == 0 { self.below(300) } else { 0 });
        format!("ORDER BY {} LIMIT {limit} OFFSET {offset}", self.order())
    }

    /// Rows of all columns.
    fn source(&mut self, depth: usize) -> String {
        if depth == 0 {
            return "(SELECT * FROM {t})".to_owned();
        }
        let of = self.source(depth - 1);
        let condition = self.predicate(2);
        match self.below(8) {
            0 | 1 => format!("(SELECT * FROM {of} WHERE {condition})"),
            2 => format!("(SELECT * FROM {of} WHERE {condition} {})", self.first()),
            3 => format!("(SELECT * FROM {of} {})", self.first()),
            4 => {
                let (key, kind) = (self.one(&["few", "step", "id", "runs"]), self.one(&["", "NOT "]));
                // `NOT IN` of nulls is never true.
                format!("(SELECT * FROM {of} WHERE {key} {kind}IN (SELECT {key} FROM {{t}} WHERE {key} IS NOT NULL AND {condition}))")
            }
            5 => {
                let key = self.one(&["id", "step", "few"]);
                let join = self.one(&["JOIN", "LEFT JOIN"]);
                format!(
                    "(SELECT a.* FROM {of} AS a {join} (SELECT {key} AS key, max(n) AS most FROM {{t}} WHERE {condition} GROUP BY {key}) AS b ON a.{key} = b.key WHERE most IS NULL OR most > 300)"
                )
            }
            6 => format!("(SELECT {COLUMNS} FROM {of} UNION ALL SELECT {COLUMNS} FROM {{t}} WHERE {condition})"),
            _ => format!(
                "(SELECT {COLUMNS} FROM (SELECT *, row_number() OVER (PARTITION BY {} ORDER BY id) AS place FROM {of}) WHERE place < 40)",
                self.one(&["few", "step", "length(many)"])
            ),
        }
    }

    fn aggregate(&mut self) -> String {
        let filter = if self.below(4) == 0 { format!(" FILTER (WHERE {})", self.predicate(1)) } else { String::new() };
        let call = match self.below(9) {
            0 => "count(*)".to_owned(),
            1 => format!("sum({})", self.number()),
            2 => format!("avg({})", self.number()),
            3 => format!("min({})", self.string()),
            4 => format!("max({})", self.of_string()),
            5 => format!("count({})", self.of_string()),
            6 => format!("count(DISTINCT {})", self.of_string()),
            7 => format!("max({})", self.number()),
            _ => "min(f)".to_owned(),
        };
        call + &filter
    }

    /// A query, and whether its rows have an order: of unions, two may be the same.
    fn query(&mut self) -> (String, bool) {
        let depth = self.below(4);
        let source = self.source(depth);
        let condition = self.predicate(2);
        let aggregates: Vec<String> = (0..1 + self.below(4)).map(|_| self.aggregate()).collect();
        let aggregates = aggregates.join(", ");
        let kind = self.below(10);
        let query = match kind {
            0 => format!("SELECT {COLUMNS} FROM {source} WHERE {condition}"),
            1 => format!("SELECT {}, {}, {} FROM {source} WHERE {condition}", self.of_string(), self.number(), self.of_string()),
            2 => format!("SELECT {aggregates} FROM {source} WHERE {condition}"),
            3 => format!("SELECT {COLUMNS} FROM {source} WHERE {condition} {}", self.first()),
            4 => format!("SELECT DISTINCT {}, {} FROM {source}", self.of_string(), self.number()),
            5 => format!("SELECT {} AS a, {aggregates} FROM {source} WHERE {condition} GROUP BY a", self.of_string()),
            // Of the first rows in the order that files have, of which few pass at the beginning and all at the end, with nothing between these and the groups.
            6 => {
                let condition = format!("id % {} = 0 OR id >= {}", 20 + self.below(100), self.below(6000));
                let first = format!("(SELECT * FROM {{t}} WHERE {condition} ORDER BY id LIMIT {})", 1 + self.below(200));
                format!("SELECT {} AS a, {aggregates} FROM {first} GROUP BY a", self.string())
            }
            7 => format!("SELECT {COLUMNS} FROM {source} WHERE {condition} ORDER BY id DESC"),
            // Of all rows, of which files may say it.
            8 => {
                let more = if self.below(4) == 0 { self.aggregate() } else { self.one(&["avg(n)", "count(few)", "count(*)"]) };
                format!("SELECT sum(step - {}), {more} FROM {{t}}", self.below(9))
            }
            _ => {
                let keys = [self.string(), self.number(), self.of_string()];
                let keys = &keys[..1 + self.below(3)];
                format!("SELECT {0}, {aggregates} FROM {source} WHERE {condition} GROUP BY {0} HAVING count(*) > {1}", keys.join(", "), self.below(3))
            }
        };
        (query, [3, 7].contains(&kind) && !source.contains("UNION"))
    }
}

async fn rows(context: &SessionContext, sql: &str, is_ordered: bool) -> Result<Vec<String>> {
    let batches = context.sql(sql).await?.collect().await?;
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in &batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options)).collect::<Result<Vec<_>, _>>()?;
        rows.extend((0..batch.num_rows()).map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|")));
    }
    if !is_ordered {
        rows.sort_unstable();
    }
    Ok(rows)
}

fn config(batch_rows: usize, split_from: usize) -> SessionConfig {
    let mut config = SessionConfig::new().with_target_partitions(3).with_batch_size(batch_rows);
    config.options_mut().optimizer.repartition_file_min_size = split_from;
    config
}

/// The table in memory, and a session with all rules of the same in files.
async fn sessions(dir: &Path, batch_rows: usize, split_from: usize) -> Result<(SessionContext, SessionContext)> {
    let memory = SessionContext::new_with_config(config(8192, 10 << 20));
    datafusion_fermion::register(&memory)?;
    memory.sql(&format!("CREATE TABLE memory AS {ROWS}")).await?.collect().await?;
    let state = SessionStateBuilder::new().with_config(config(batch_rows, split_from)).with_default_features();
    let state = LateColumns { bytes_min: 0, far_bytes_min: 0 }.with(datafusion_fermion::with_rules(state));
    let files = SessionContext::new_with_state(state.build());
    datafusion_fermion::register(&files)?;
    for (name, copy, create) in SIDES {
        memory.sql(&copy.replace("{}", &dir.display().to_string())).await?.collect().await?;
        files.sql(&format!("CREATE EXTERNAL TABLE {name} {}", create.replace("{}", &dir.display().to_string()))).await?;
    }
    Ok((memory, files))
}

async fn compare(seed: u64, count: usize, batch_rows: usize, split_from: usize) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (memory, files) = sessions(dir.path(), batch_rows, split_from).await?;
    let mut queries = Queries(StdRng::seed_from_u64(seed));
    let (mut with_rows, mut plans) = (0, String::new());
    for _ in 0..count {
        let (query, is_ordered) = queries.query();
        // The engine cannot plan all of them.
        let Ok(expected) = rows(&memory, &query.replace("{t}", "memory"), is_ordered).await else { continue };
        with_rows += usize::from(!expected.is_empty());
        for (name, ..) in SIDES {
            let actual = rows(&files, &query.replace("{t}", name), is_ordered).await;
            assert!(actual.as_ref().is_ok_and(|actual| *actual == expected), "seed {seed}, {name}: {query}\n{:?}\n{expected:?}", actual);
        }
        for (name, ..) in &SIDES[..2] {
            plans += &rows(&files, &format!("EXPLAIN {}", query.replace("{t}", name)), false).await?.join("");
        }
    }
    assert!(with_rows > count / 2, "only {with_rows} queries have rows");
    for rule in ["LateColumnsExec", "CodedAggregateExec", "RunAggregateExec", "by_value(", "backwards=true", "PlaceholderRowExec"] {
        assert!(plans.contains(rule), "no plan has {rule}");
    }
    Ok(())
}

/// What each of two partitions has of a table of 6,000 rows in this order, of which the first is read to its end when both have begun.
async fn ids_of_partitions(order: &str, sharing: bool) -> Result<[Vec<i64>; 2]> {
    let dir = tempfile::tempdir()?;
    let mut config = SessionConfig::new().with_target_partitions(2).with_batch_size(100);
    config.options_mut().optimizer.repartition_file_min_size = 0;
    config.options_mut().execution.enable_file_stream_work_stealing = sharing;
    let context = SessionContext::new_with_config(config);
    datafusion_fermion::register(&context)?;
    let path = dir.path().join("t.fermion").display().to_string();
    let rows = "SELECT value * 7919 % 6000 AS id, 'row ' || (value * 7919 % 30011) AS own FROM generate_series(0, 5999) AS series(value)";
    let copy = format!("COPY ({rows} {order}) TO '{path}' STORED AS FERMION OPTIONS ('fermion.stripe_rows' '300')");
    context.sql(&copy).await?.collect().await?;
    // Not all of the file is read to open it.
    context.sql(&format!("CREATE EXTERNAL TABLE t STORED AS FERMION LOCATION '{path}' OPTIONS (metadata_size_hint 1024)")).await?;
    let plan = context.sql("SELECT id, own FROM t").await?.create_physical_plan().await?;
    let scan = plan.downcast_ref::<DataSourceExec>().expect("the plan is a scan").data_source();
    assert_eq!(scan.output_partitioning().partition_count(), 2);
    // As the engine does below some limits.
    let scan = scan.with_preserve_order(false).unwrap_or_else(|| Arc::clone(scan));
    let mut streams = execute_stream_partitioned(Arc::new(DataSourceExec::new(scan)), context.task_ctx())?;
    let mut ids: [Vec<i64>; 2] = Default::default();
    let ids_of = |batch: RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
    for (stream, ids) in streams.iter_mut().zip(&mut ids) {
        ids.extend(stream.try_next().await?.map(ids_of).unwrap_or_default());
    }
    for (stream, ids) in streams.iter_mut().zip(&mut ids) {
        while let Some(batch) = stream.try_next().await? {
            ids.extend(ids_of(batch));
        }
    }
    let mut all = ids.concat();
    all.sort_unstable();
    assert_eq!(all, (0..6000).collect::<Vec<i64>>());
    Ok(ids)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_goes_on_with_what_another_has_left() -> Result<()> {
    let [first, second] = ids_of_partitions("", true).await?.map(|ids| ids.len());
    assert!(second <= 600, "{first} and {second}: of what it had begun, and of no more than a stripe beside");
    let [first, second] = ids_of_partitions("", false).await?.map(|ids| ids.len());
    assert!(first.abs_diff(second) <= 600, "{first} and {second}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rows_of_a_partition_stay_in_an_order_that_is_promised() -> Result<()> {
    for ids in ids_of_partitions("ORDER BY id", true).await? {
        assert!(ids.is_sorted(), "{ids:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_give_what_they_give_of_memory() -> Result<()> {
    compare(1, QUERIES, 8192, 10 << 20).await
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_in_small_batches_of_files_that_are_cut_do_so_too() -> Result<()> {
    compare(2, QUERIES, 150, 0).await
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_in_small_batches_of_whole_files_do_so_too() -> Result<()> {
    compare(4, QUERIES, 150, 10 << 20).await
}
