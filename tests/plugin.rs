//! Fermion through DataFusion, as a user has it: register, SQL, data frames, plans and metrics.
#![cfg(test)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::TableProvider;
use datafusion::common::stats::Precision;
use datafusion::config::ConfigOptions;
use datafusion::execution::context::SessionConfig;
use datafusion::physical_plan::metrics::MetricValue;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext, collect, displayable};
use datafusion::prelude::{SessionContext, col, lit};
use datafusion_fermion::provider::metrics;
use datafusion_fermion::{FermionDataFrameExt, FermionOptions, FermionReadOptions, FermionSessionExt, FermionTable, FermionWriteOptions, register};
use tempfile::TempDir;

/// A session with Fermion and an empty directory.
struct Session {
    context: SessionContext,
    directory: TempDir,
}

impl Session {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(configure: impl FnOnce(&mut ConfigOptions)) -> Self {
        let mut config = SessionConfig::new().with_target_partitions(4).with_information_schema(true);
        configure(config.options_mut());
        let context = SessionContext::new_with_config(config).enable_url_table();
        register(&context).unwrap();
        Self { context, directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory.path().display())
    }

    /// Runs statements in which `{}` is the directory.
    async fn try_sql(&self, sql: &str) -> datafusion::error::Result<Vec<RecordBatch>> {
        self.context.sql(&sql.replace("{}", &self.path(""))).await?.collect().await
    }

    async fn sql(&self, sql: &str) -> Vec<RecordBatch> {
        self.try_sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    async fn error(&self, sql: &str) -> String {
        match self.try_sql(sql).await {
            Ok(batches) => panic!("{sql}: no error but {batches:?}"),
            Err(error) => error.to_string(),
        }
    }

    /// The rows of a query as text.
    async fn rows(&self, sql: &str) -> Vec<String> {
        let table = pretty_format_batches(&self.sql(sql).await).unwrap().to_string();
        table.lines().skip(3).filter(|line| line.starts_with('|')).map(row_text).collect()
    }

    async fn check(&self, sql: &str, expected: &[&str]) {
        assert_eq!(self.rows(sql).await, expected, "{sql}");
    }

    async fn count(&self, sql: &str) -> i64 {
        self.sql(sql).await[0].column(0).as_primitive::<Int64Type>().value(0)
    }

    async fn plan(&self, sql: &str) -> Arc<dyn ExecutionPlan> {
        self.context.sql(&sql.replace("{}", &self.path(""))).await.unwrap().create_physical_plan().await.unwrap()
    }

    async fn explain(&self, sql: &str) -> String {
        displayable(self.plan(sql).await.as_ref()).indent(false).to_string()
    }

    /// Runs a query and gives the sums of its metrics.
    async fn metrics(&self, sql: &str) -> Metrics {
        let plan = self.plan(sql).await;
        let batches = collect(Arc::clone(&plan), self.context.task_ctx()).await.unwrap();
        let mut metrics = Metrics { rows: batches.iter().map(RecordBatch::num_rows).sum(), ..Metrics::default() };
        metrics.add(plan.as_ref());
        metrics
    }
}

fn row_text(line: &str) -> String {
    line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

/// Metrics of all scans of a plan.
#[derive(Debug, Default)]
struct Metrics {
    rows: usize,
    counts: BTreeMap<String, usize>,
    /// Pruned and matched.
    pruned: BTreeMap<String, (usize, usize)>,
}

impl Metrics {
    fn add(&mut self, plan: &dyn ExecutionPlan) {
        for metric in plan.metrics().iter().flat_map(|metrics| metrics.iter()) {
            match metric.value() {
                MetricValue::Count { name, count } => *self.counts.entry(name.to_string()).or_default() += count.value(),
                MetricValue::PruningMetrics { name, pruning_metrics } => {
                    let entry = self.pruned.entry(name.to_string()).or_default();
                    *entry = (entry.0 + pruning_metrics.pruned(), entry.1 + pruning_metrics.matched());
                }
                _ => {}
            }
        }
        plan.children().into_iter().for_each(|child| self.add(child.as_ref()));
    }

    fn count(&self, name: &str) -> usize {
        self.counts[name]
    }

    fn pruned(&self, name: &str) -> (usize, usize) {
        self.pruned[name]
    }
}

fn files_in(directory: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_in(&path));
        } else {
            files.push(path.display().to_string());
        }
    }
    files.sort();
    files
}

fn file_size(path: &str) -> usize {
    usize::try_from(std::fs::metadata(path).unwrap().len()).unwrap()
}

/// Sixteen columns `c0` to `c15` of 100,000 rows in 10 stripes of 10 pages; `c0` ascends from 0, the others do not.
async fn wide(session: &Session) {
    let columns: Vec<String> = (1..16).map(|index| format!("(value * 7919 * {index}) % 100003 as c{index}")).collect();
    let query = format!("select value as c0, {} from generate_series(0, 99999) order by value", columns.join(", "));
    let options = "options (stripe_rows 10000, page_rows 1000)";
    session.sql(&format!("copy ({query}) to '{{}}wide.fermion' stored as fermion {options}")).await;
    session
        .sql("create external table wide stored as fermion location '{}wide.fermion' options (eager_load_threshold 0, metadata_size_hint 1024)")
        .await;
}

#[tokio::test]
async fn what_is_copied_out_is_read_back() {
    let session = Session::new();
    let rows = "values (1, 'one', 1.5, true), (2, null, null, false), (null, 'drei', -0.5, null)";
    session.sql(&format!("copy ({rows}) to '{{}}x.fermion' stored as fermion")).await;
    session.sql("create external table x stored as fermion location '{}x.fermion'").await;
    session.check("select * from x order by column1", &["1 one 1.5 true", "2   false", " drei -0.5"]).await;
    session.check("select column2, column1 + 1 from '{}x.fermion' where column3 > 0", &["one 2"]).await;
}

#[tokio::test]
async fn strings_are_read_as_views_unless_told_otherwise() {
    let session = Session::new();
    let values = "select arrow_cast('x', 'Utf8') as s, arrow_cast(arrow_cast('y', 'Utf8'), 'Binary') as b";
    session.sql(&format!("copy ({values}) to '{{}}x.fermion' stored as fermion")).await;
    session.check("select arrow_typeof(s), arrow_typeof(b) from '{}x.fermion'", &["Utf8View BinaryView"]).await;
    session.sql("create external table x stored as fermion location '{}x.fermion' options (force_view_types false)").await;
    session.check("select arrow_typeof(s), arrow_typeof(b), s from x", &["Utf8 Binary x"]).await;
}

#[tokio::test]
async fn rows_are_inserted_into_new_files() {
    let session = Session::new();
    session.sql("create external table x (a int, s varchar) stored as fermion location '{}x/'").await;
    session.check("insert into x values (1, 'a'), (2, 'b')", &["2"]).await;
    session.check("insert into x select a + 10, s from x", &["2"]).await;
    session.check("select * from x order by a", &["1 a", "2 b", "11 a", "12 b"]).await;
    assert!(files_in(session.directory.path()).len() >= 2);
    assert!(session.error("insert overwrite x values (1, 'a')").await.contains("is not implemented for Fermion"));
}

#[tokio::test]
async fn partitions_are_directories_and_skip_files() {
    let session = Session::new();
    session.sql("copy (select value as a, 'p' || (value % 3) as p from generate_series(1, 9)) to '{}x/' stored as fermion partitioned by (p)").await;
    session.sql("create external table x stored as fermion partitioned by (p) location '{}x/'").await;
    session.check("select a, p from x where p = 'p1' order by a", &["1 p1", "4 p1", "7 p1"]).await;
    session.check("select p, sum(a) from x group by p order by p", &["p0 18", "p1 12", "p2 15"]).await;
    session.check("insert into x values (100, 'p9')", &["1"]).await;
    session.check("select a from x where p = 'p9'", &["100"]).await;
    let sql = "copy (select 1 as a, 'q' as p) to '{}y/' stored as fermion partitioned by (p) options (execution.keep_partition_by_columns true)";
    session.sql(sql).await;
    let file = files_in(&session.directory.path().join("y")).remove(0);
    session.check(&format!("select * from '{file}'"), &["1 q"]).await;
}

#[tokio::test]
async fn the_order_of_rows_is_recorded_and_used() {
    let session = Session::new();
    session.sql("create external table x (a int, \"B \"\"b\" int) stored as fermion with order (a desc, \"B \"\"b\") location '{}x/'").await;
    session.sql("insert into x values (1, 1), (3, 2), (2, 1), (3, 1)").await;
    let files = files_in(&session.directory.path().join("x"));
    assert_eq!(files.len(), 1);
    session.sql(&format!("create external table y stored as fermion location '{}'", files[0])).await;
    let sorted = session.explain("select * from y order by a desc, \"B \"\"b\"").await;
    assert!(sorted.contains("output_ordering=[a@0 DESC, B \"b@1 ASC NULLS LAST]") && !sorted.contains("SortExec"), "{sorted}");
    let other = session.explain("select * from y order by a").await;
    assert!(other.contains("SortExec"), "{other}");
    session.check("select * from y", &["3 1", "3 2", "2 1", "1 1"]).await;
    session.sql("copy (select a, a * a as b from y order by a) to '{}z.fermion' stored as fermion").await;
    let copied = session.explain("select * from '{}z.fermion' order by a").await;
    assert!(!copied.contains("SortExec"), "{copied}");
}

#[tokio::test]
async fn a_misspelt_option_is_an_error_that_lists_the_options() {
    let session = Session::new();
    for sql in ["copy (select 1) to '{}x.fermion' stored as fermion options (page_row 1)", "set fermion.page_row = 1"] {
        let error = session.error(sql).await;
        assert!(error.contains("there is no option \"page_row\" of fermion; there are: ahead_bytes, batch_column, batch_rows, bloom_filter_columns, bloom_filter_fpp, bloom_filters, buffer_bytes, checksums"), "{error}");
    }
    let error = session.error("copy (select 1) to '{}x.fermion' stored as fermion options (page_rows 0)").await;
    assert!(error.contains("page_rows is 0; it must be between 1 and"), "{error}");
    assert_eq!(files_in(session.directory.path()), Vec::<String>::new());
}

#[tokio::test]
async fn options_of_the_session_hold_until_a_statement_has_its_own() {
    let session = Session::new();
    session.sql("set fermion.stripe_rows = 10").await;
    session.check("select value from information_schema.df_settings where name = 'fermion.stripe_rows'", &["10"]).await;
    let stripes = async |session: &Session, options: &str| {
        session.sql(&format!("copy (select value as a from generate_series(1, 100)) to '{{}}x.fermion' stored as fermion {options}")).await;
        let metrics = session.metrics("select * from '{}x.fermion' where a = 5").await;
        std::fs::remove_file(session.path("x.fermion")).unwrap();
        metrics.pruned(metrics::STRIPES_PRUNED)
    };
    assert_eq!(stripes(&session, "").await, (9, 1));
    assert_eq!(stripes(&session, "options (fermion.stripe_rows 50)").await, (1, 1));
    register(&session.context).unwrap();
    assert_eq!(stripes(&session, "options ('format.stripe_rows' 20)").await, (4, 1));
    session.check("select value from information_schema.df_settings where name = 'fermion.stripe_rows'", &["10"]).await;
}

#[tokio::test]
async fn files_of_different_schemas_are_one_table() {
    let session = Session::new();
    session.sql("copy (select arrow_cast(1, 'Int32') as a, 'x' as b, 1.5 as gone) to '{}x/1.fermion' stored as fermion").await;
    session.sql("copy (select 'later' as c, 'y' as b, arrow_cast(2, 'Int64') as a) to '{}x/2.fermion' stored as fermion").await;
    session.sql("create external table x (a bigint, b varchar, c varchar, d int) stored as fermion location '{}x/'").await;
    session.check("select * from x order by a", &["1 x", "2 y later"]).await;
    session.check("select a + 1, c from x where a < 2", &["2"]).await;
    session.check("select count(*) from x where c is null", &["1"]).await;
    session.check("select b from x where d is null and c = 'later'", &["y"]).await;
    session.check("select min(a), max(a), count(c), count(d) from x", &["1 2 1 0"]).await;
}

#[tokio::test]
async fn a_query_costs_the_columns_stripes_and_pages_that_it_touches() {
    let session = Session::new();
    wide(&session).await;
    let size = file_size(&session.path("wide.fermion"));

    let all = session.metrics("select * from wide").await;
    assert_eq!(all.rows, 100_000);
    assert_eq!(all.count(metrics::COLUMN_METADATA_LOADED), 16);

    // Another table of the same file: its metadata is in the session's cache by now.
    let again = session.metrics("select * from wide").await;
    assert_eq!(again.count(metrics::COLUMN_METADATA_LOADED), 0);

    let session = Session::with(|options| options.optimizer.repartition_file_scans = false);
    wide(&session).await;
    let some = session.metrics("select c3, c7 from wide where c0 between 12345 and 12350").await;
    assert_eq!(some.rows, 6);
    assert_eq!(some.count(metrics::COLUMN_METADATA_LOADED), 3);
    assert_eq!(some.pruned(metrics::STRIPES_PRUNED), (9, 1));
    assert_eq!(some.pruned(metrics::PAGES_PRUNED), (9, 1));
    assert!(some.count(metrics::BYTES_SCANNED) * 10 < size, "{} of {size}", some.count(metrics::BYTES_SCANNED));
    assert_eq!(some.count(metrics::PREDICATE_EVALUATION_ERRORS), 0);

    let none = session.metrics("select c3 from wide where c0 > 1000000").await;
    assert_eq!((none.rows, none.count(metrics::BYTES_SCANNED)), (0, 0));

    let analyzed =
        pretty_format_batches(&session.sql("explain analyze select c3 from wide where c0 between 12345 and 12350").await).unwrap().to_string();
    for metric in ["stripes_pruned_statistics=10 total → 1 matched", "pages_pruned_statistics=10 total → 1 matched", "column_metadata_loaded=0"] {
        assert!(analyzed.contains(metric), "{metric}: {analyzed}");
    }
}

#[tokio::test]
async fn without_pruning_everything_is_read() {
    let session = Session::with(|options| options.optimizer.repartition_file_scans = false);
    wide(&session).await;
    session.sql("create external table plain stored as fermion location '{}wide.fermion' options (pruning false)").await;
    let metrics = session.metrics("select c3 from plain where c0 between 12345 and 12350").await;
    assert_eq!((metrics.rows, metrics.pruned(metrics::STRIPES_PRUNED)), (6, (0, 0)));
}

#[tokio::test]
async fn a_limit_reads_no_more_than_it_needs() {
    let session = Session::with(|options| options.optimizer.repartition_file_scans = false);
    wide(&session).await;
    let all = session.metrics("select c1, c2 from wide").await.count(metrics::BYTES_SCANNED);
    let session = Session::with(|options| options.optimizer.repartition_file_scans = false);
    wide(&session).await;
    let limited = session.metrics("select c1, c2 from wide limit 10").await;
    assert_eq!(limited.rows, 10);
    assert!(limited.count(metrics::BYTES_SCANNED) * 4 < all, "{} of {all}", limited.count(metrics::BYTES_SCANNED));
}

#[tokio::test]
async fn a_top_k_skips_what_can_no_longer_win() {
    let session = Session::with(|options| options.optimizer.repartition_file_scans = false);
    wide(&session).await;
    session.check("select c0 from wide order by c0 limit 3", &["0", "1", "2"]).await;
    // In memory, rows have no order that a query could rely on; so the sort stays.
    let ascending: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    let batch = RecordBatch::try_from_iter([("a", Arc::clone(&ascending)), ("b", ascending)]).unwrap();
    let options = FermionWriteOptions { stripe_rows: 10_000, page_rows: 1_000, ..Default::default() };
    session.context.read_batch(batch).unwrap().write_fermion(&session.path("x.fermion"), &[], options).await.unwrap();
    let metrics = session.metrics("select a, b from '{}x.fermion' order by a limit 3").await;
    assert_eq!(metrics.rows, 3);
    let (pruned, _) = metrics.pruned(metrics::PAGES_PRUNED);
    assert!(pruned > 50, "{metrics:?}");
}

#[tokio::test]
async fn a_join_prunes_its_probe_side() {
    let session = Session::with(|options| options.optimizer.repartition_file_scans = false);
    wide(&session).await;
    let sql = "select w.c1 from (values (55555), (55556)) as k(id) join wide w on w.c0 = k.id";
    let metrics = session.metrics(sql).await;
    assert_eq!(metrics.rows, 2);
    let (pruned, matched) = metrics.pruned(metrics::STRIPES_PRUNED);
    assert!(pruned >= 8 && matched <= 2, "{metrics:?}");
}

#[tokio::test]
async fn every_row_is_read_by_one_partition() {
    let session = Session::with(|options| options.optimizer.repartition_file_min_size = 0);
    wide(&session).await;
    let explain = session.explain("select c0 from wide where c1 >= 0").await;
    assert!(explain.contains("file_groups={4 groups"), "{explain}");
    session.check("select count(*), count(distinct c0), sum(c0) from wide where c1 >= 0", &["100000 100000 4999950000"]).await;
}

#[tokio::test]
async fn counts_and_bounds_are_known_without_a_scan() {
    let session = Session::new();
    session
        .sql("copy (select case when value > 0 then value end as a, 'v' || value as s from generate_series(0, 9)) to '{}x.fermion' stored as fermion")
        .await;
    for (query, expected) in [("count(*), count(a), min(a), max(a)", "10 9 1 9"), ("min(s), max(s)", "v0 v9")] {
        let sql = format!("select {query} from '{{}}x.fermion'");
        assert!(!session.explain(&sql).await.contains("DataSourceExec: file_groups"), "{query}");
        session.check(&sql, &[expected]).await;
    }
    session.check("select count(*) from '{}x.fermion' where s > 'v5'", &["4"]).await;
}

#[tokio::test]
async fn statistics_never_change_an_answer() {
    let session = Session::new();
    let doubles = "values ('NaN'::double), (1.5), (-0.0), (0.0), (null), ('Infinity'), ('-Infinity')";
    let texts = "values ('a'), (''), (null), (repeat('z', 100)), (repeat('z', 100) || 'a'), ('\u{10ffff}' || repeat('\u{10ffff}', 40))";
    for (name, values) in [("doubles", doubles), ("zeros", "values (-0.0::double), (0.0)"), ("texts", texts)] {
        let options = "stored as fermion options (page_rows 1, stripe_rows 2)";
        session.sql(&format!("create table memory_{name} as select column1 as a from ({values})")).await;
        session.sql(&format!("copy memory_{name} to '{{}}{name}.fermion' {options}")).await;
        session.sql(&format!("create external table {name} stored as fermion location '{{}}{name}.fermion'")).await;
        let literals: Vec<&str> = match name {
            "texts" => vec!["''", "'a'", "'zz'", "repeat('z', 100)", "repeat('z', 64)", "'\u{10ffff}'"],
            _ => vec!["0.0", "-0.0", "1.5", "'NaN'::double", "'Infinity'::double", "1e300"],
        };
        let predicates = literals
            .iter()
            .flat_map(|literal| ["=", "<>", "<", "<=", ">", ">=", "is distinct from"].map(|operator| format!("a {operator} {literal}")));
        for predicate in predicates.chain(["a is null", "a is not null", "true"].map(str::to_owned)) {
            for query in ["count(*), count(a)", "min(a), max(a)"] {
                let ask = async |table: &str| session.rows(&format!("select {query} from {table} where {predicate}")).await;
                assert_eq!(ask(name).await, ask(&format!("memory_{name}")).await, "{query} from {name} where {predicate}");
            }
        }
    }
}

#[tokio::test]
async fn rows_and_files_have_numbers_and_names() {
    let session = Session::with(|options| options.optimizer.repartition_file_min_size = 0);
    wide(&session).await;
    let sql = "select count(*) from (select file_row_index() as r, c0, c1 from wide) where r <> c0";
    assert_eq!(session.count(sql).await, 0);
    let sql = "select r, c0 from (select file_row_index() as r, c0 from wide where c0 in (3, 12345, 99999)) order by r";
    session.check(sql, &["3 3", "12345 12345", "99999 99999"]).await;
    session.check("select file_row_index() from wide order by c0 desc limit 1", &["99999"]).await;
    let name = session.sql("select distinct input_file_name() from wide").await;
    assert!(name[0].column(0).as_string::<i32>().value(0).ends_with("wide.fermion"));
}

#[tokio::test]
async fn plans_look_as_they_do_over_parquet() {
    let session = Session::with(|options| options.execution.parquet.pushdown_filters = true);
    session.sql("create external table f (a int, s varchar) stored as fermion location '{}f/'").await;
    session.sql("create external table p (a int, s varchar) stored as parquet location '{}p/'").await;
    for table in ["f", "p"] {
        session.sql(&format!("insert into {table} values (1, 'x'), (2, 'y')")).await;
    }
    for query in [
        "select s from {t} where a > 1 and s like 'x%'",
        "select a + 1 as b from {t} where a in (1, 2, 3)",
        "select * from {t} order by a desc, s limit 1",
        "select t.a from {t} as t join (values (1)) as v(i) on t.a = v.i",
    ] {
        let explain = async |table: &str| {
            let text = session.explain(&query.replace("{t}", table)).await;
            let generic = |word: &str| {
                if word.contains("file_groups") || word.ends_with(".parquet") || word.ends_with(".fermion") { String::new() } else { word.to_owned() }
            };
            let lines = text.lines().map(|line| line.split_once("]]}").map_or(line.to_owned(), |(_, rest)| rest.to_owned()));
            lines
                .map(|line| generic(&line))
                .collect::<Vec<_>>()
                .join("\n")
                .replace(", reverse_row_groups=true", "")
                .replace("file_type=parquet", "file_type=fermion")
        };
        assert_eq!(explain("f").await, explain("p").await, "{query}");
    }
}

/// Of all kinds of columns, at every density of the rows that pass, with what only a scan can count: rows, limits, numbers of rows.
#[tokio::test]
async fn a_filter_in_the_scan_gives_what_a_filter_above_it_gives() {
    let session = Session::new();
    let columns = "value AS id, value % 1000 AS n, concat('a long prefix ', value % 13) AS s, [value, NULL, value * 2] AS l, {a: value, b: [value]} AS st, \
                   arrow_cast(concat('key ', value % 5), 'Dictionary(Int32, Utf8)') AS d, CASE WHEN value % 3 = 0 THEN NULL ELSE value / 7.0 END AS f";
    session.sql(&format!("COPY (SELECT {columns} FROM range(20000)) TO '{{}}x.fermion' OPTIONS (stripe_rows 7000, page_rows 3000)")).await;
    for (table, option) in [("scan", true), ("above", false)] {
        let create = format!("CREATE EXTERNAL TABLE {table} STORED AS FERMION LOCATION '{{}}x.fermion' OPTIONS (pushdown_filters {option})");
        session.sql(&create).await;
    }
    let filters = [
        "n = 7",
        "n < 500 AND s LIKE '%1'",
        "n % 2 = 0 AND f IS NOT NULL AND id % 100 < 3",
        "n < 990",
        "s LIKE '%prefix 1%' AND n % 11 = 0",
        "d = 'key 3' AND n > 10",
        "id BETWEEN 6990 AND 7010",
        "n > 2000",
        "id % 1024 = 5 AND 100 / (id % 1024 - 4) = 100",
        "st['a'] = 77 OR array_has(l, 500)",
    ];
    for filter in filters {
        let queries = [
            format!("SELECT * FROM {{t}} WHERE {filter} ORDER BY id"),
            format!("SELECT l, st, d FROM {{t}} WHERE {filter} ORDER BY id"),
            format!("SELECT count(*), count(f), min(s) FROM {{t}} WHERE {filter}"),
            format!("SELECT count(*) FROM (SELECT s FROM {{t}} WHERE {filter} LIMIT 17)"),
            format!("SELECT n, id FROM {{t}} WHERE {filter} ORDER BY n DESC, id LIMIT 3"),
        ];
        for query in queries {
            let above = session.rows(&query.replace("{t}", "above")).await;
            assert_eq!(session.rows(&query.replace("{t}", "scan")).await, above, "{query}");
        }
    }
    // Numbers of rows, which the engine cannot give above a filter.
    let numbered = session.rows("SELECT file_row_index() - id, s FROM scan WHERE n % 9 = 7 AND n < 300 ORDER BY id").await;
    assert_eq!(numbered, session.rows("SELECT 0, s FROM above WHERE n % 9 = 7 AND n < 300 ORDER BY id").await);
    let plan = session.explain("SELECT id FROM scan WHERE n = 7").await;
    assert!(!plan.contains("FilterExec"), "{plan}");
    let metrics = session.metrics("SELECT s FROM scan WHERE n = 7").await;
    assert_eq!((metrics.rows, metrics.count(metrics::PUSHDOWN_ROWS_MATCHED), metrics.count(metrics::PUSHDOWN_ROWS_PRUNED)), (20, 20, 19_980));
}

#[tokio::test]
async fn a_statement_that_fails_leaves_no_file() {
    let session = Session::new();
    let failing = "select 10 / (value - 50000) as a from generate_series(1, 100000)";
    for target in ["x.fermion' stored as fermion", "y/' stored as fermion", "z/' stored as fermion partitioned by (p)"] {
        let failing = failing.replace(" from", ", value % 2 as p from");
        let error = session.error(&format!("copy ({failing}) to '{{}}{target}")).await;
        assert!(error.contains("Divide by zero"), "{error}");
    }
    assert_eq!(files_in(session.directory.path()), Vec::<String>::new());
}

#[tokio::test]
async fn damage_is_reported_with_the_files_name() {
    let session = Session::new();
    session.sql("copy (select value as a from generate_series(1, 1000)) to '{}x.fermion' stored as fermion").await;
    let path = session.path("x.fermion");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let error = session.error("select a from '{}x.fermion' where a > 3").await;
    assert!(error.contains("x.fermion: checksum mismatch") && error.contains("data, column \"a\", offset 8"), "{error}");
    std::fs::write(session.path("y.fermion"), &bytes[..bytes.len() - 1]).unwrap();
    let error = session.error("create external table y stored as fermion location '{}y.fermion'").await;
    assert!(error.contains("y.fermion: invalid file"), "{error}");
}

#[tokio::test]
async fn a_damaged_file_is_not_taken_from_the_cache_of_the_sound_one() {
    let session = Session::new();
    session.sql("copy (select 1 as a) to '{}x.fermion' stored as fermion").await;
    session.check("select * from '{}x.fermion'", &["1"]).await;
    std::fs::remove_file(session.path("x.fermion")).unwrap();
    session.sql("copy (select 2 as a, 3 as b) to '{}x.fermion' stored as fermion").await;
    session.check("select * from '{}x.fermion'", &["2 3"]).await;
}

fn numbers() -> RecordBatch {
    let a: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let b: ArrayRef = Arc::new(Int32Array::from_iter((0..1000).map(|row| (row % 7 != 0).then_some(row))));
    let s: ArrayRef = Arc::new(StringArray::from_iter_values((0..1000).map(|row| format!("value {row}"))));
    RecordBatch::try_from_iter([("a", a), ("b", b), ("s", s)]).unwrap()
}

/// The new file has its pages where the old one had them, so nothing but its identity tells that they are others.
#[tokio::test]
async fn a_file_replaced_under_a_table_is_never_read_as_the_old_one() {
    let (ours, theirs) = (Session::new(), Session::new());
    let put = |first: u32| format!("COPY (SELECT {first} + value % 7 AS a FROM range(1000)) TO '{}'", ours.path("t/x.fermion"));
    theirs.sql(&put(100)).await;
    ours.sql("CREATE EXTERNAL TABLE t STORED AS FERMION LOCATION '{}t/'").await;
    let count = "SELECT count(*) FROM t WHERE a < 107 AND a % 2 < 5";
    ours.check(count, &["1000"]).await;

    theirs.sql(&put(200)).await;
    let error = ours.error(count).await;
    assert!(error.contains("x.fermion") && error.contains("was replaced after the table listed it"), "{error}");
    ours.check(count, &["0"]).await;
    ours.check("SELECT min(a), max(a) FROM t", &["200 206"]).await;

    ours.sql(&put(300)).await;
    ours.check("SELECT a FROM t ORDER BY a LIMIT 1", &["300"]).await;
    std::fs::remove_file(ours.path("t/x.fermion")).unwrap();
    ours.error("SELECT a FROM t ORDER BY a LIMIT 1").await;
    ours.check("SELECT count(*) FROM t", &["0"]).await;
}

#[tokio::test]
async fn data_frames_are_written_and_read() {
    let session = Session::new();
    let frame = session.context.read_batch(numbers()).unwrap();
    let path = session.path("x.fermion");
    let options = FermionWriteOptions { stripe_rows: 100, zstd_level: None, ..Default::default() };
    let count = frame.clone().write_fermion(&path, &[], options).await.unwrap();
    assert_eq!(count[0].column(0).as_primitive::<arrow::datatypes::UInt64Type>().value(0), 1000);

    let read = session.context.read_fermion([&path], FermionReadOptions::default()).await.unwrap();
    assert_eq!(read.clone().filter(col("a").gt(lit(990))).unwrap().count().await.unwrap(), 9);
    let options = FermionReadOptions { force_view_types: false, ..Default::default() };
    session.context.register_fermion("x", &path, options).await.unwrap();
    let sorted = session.context.table("x").await.unwrap().sort(vec![col("a").sort(true, true)]).unwrap().collect().await.unwrap();
    assert_eq!(arrow::compute::concat_batches(&sorted[0].schema(), &sorted).unwrap().columns(), numbers().columns());

    frame.write_fermion(&session.path("by/"), &["b"], FermionWriteOptions::default()).await.unwrap();
    assert!(session.directory.path().join("by/b=5").is_dir());
}

#[tokio::test]
async fn a_table_needs_no_sql() {
    let session = Session::new();
    let frame = session.context.read_batch(numbers()).unwrap();
    frame.write_fermion(&session.path("x.fermion"), &[], FermionWriteOptions::default()).await.unwrap();
    let table = FermionTable::open(&session.context, session.path("x.fermion")).await.unwrap();
    let fields =
        [("a", DataType::Int64), ("b", DataType::Int32), ("s", DataType::Utf8View)].map(|(name, data_type)| Field::new(name, data_type, true));
    let nullable: Vec<DataType> = Schema::new(fields.to_vec()).fields().iter().map(|field| field.data_type().clone()).collect();
    assert_eq!(table.schema().fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>(), nullable);

    let plan = table.scan(&session.context.state(), Some(&vec![1]), &[], None).await.unwrap();
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).unwrap();
    assert_eq!(statistics.num_rows, Precision::Exact(1000));
    assert_eq!(statistics.column_statistics[0].null_count, Precision::Exact(143));
    session.context.register_table("x", Arc::new(table)).unwrap();
    session.check("select count(b) from x where a >= 500", &["429"]).await;

    let options = FermionOptions { read: FermionReadOptions { pruning: false, ..Default::default() }, ..Default::default() };
    std::fs::create_dir(session.path("d")).unwrap();
    std::fs::copy(session.path("x.fermion"), session.path("d/1.fermion")).unwrap();
    std::fs::write(session.path("d/notes.txt"), "not a table").unwrap();
    let directory = FermionTable::open_with_options(&session.context, [session.path("d/")], options).await.unwrap();
    session.context.register_table("d", Arc::new(directory)).unwrap();
    session.check("insert into d select * from x", &["1000"]).await;
    session.check("select count(*) from d", &["2000"]).await;
}
