//! Columns that nothing is ordered by, read of the first rows alone: the same rows as without that, however files are cut and put together.
#![cfg(test)]

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_fermion::provider::LateColumns;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use tempfile::TempDir;

const SIZES: &str = "'fermion.stripe_rows' '9000', 'fermion.page_rows' '1000'";
const ROWS: &str = "SELECT value AS id, named_struct('a', value % 1009, 'b', concat('b', value)) AS st, (value * 7919) % 100003 AS r, concat('number ', value) AS s, value % 7 AS x, value * 2 AS file_row_index,
    arrow_cast(concat('k', value % 30000), 'Dictionary(UInt32, Utf8)') AS k FROM generate_series(1, 20000) AS series(value)";

/// A session that cuts all files for so many threads; batches have `batch_rows` rows.
fn session(is_late: bool, batch_rows: usize, threads: usize) -> SessionContext {
    session_of(is_late.then_some(LateColumns { bytes_min: 0, far_bytes_min: 0 }), batch_rows, threads)
}

fn session_of(late: Option<LateColumns>, batch_rows: usize, threads: usize) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(threads).with_batch_size(batch_rows);
    config.options_mut().optimizer.repartition_file_min_size = 0;
    let mut state = SessionStateBuilder::new().with_config(config).with_default_features();
    if let Some(late) = late {
        state = late.with(state);
    }
    let context = SessionContext::new_with_state(state.build());
    datafusion_fermion::register(&context).unwrap();
    context
}

/// The rows, and whether columns were read late.
async fn answer(context: &SessionContext, sql: &str) -> (String, bool) {
    let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    let is_late = displayable(plan.as_ref()).indent(false).to_string().contains("LateColumnsExec");
    let rows: Vec<RecordBatch> = collect(plan, context.task_ctx()).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    (pretty_format_batches(&rows).unwrap().to_string(), is_late)
}

/// Tables `one` and `many`, of the same rows in one file and in three.
async fn write(dir: &TempDir, word: &str) {
    let context = session(false, 8192, 4);
    let extension = word.to_lowercase();
    let copy = |rows: String, name: &str| {
        let options = if word == "FERMION" { SIZES } else { "'alkaid.batch_rows' '3000'" };
        format!("COPY ({rows}) TO '{}/{name}.{extension}' STORED AS {word} OPTIONS ({options})", dir.path().display())
    };
    // So many that they are read by several scans.
    let more: String = (1..=40).map(|column| format!(", id * {column} % 1013 AS c{column}")).collect();
    let of_rows = |from: u32, to: u32| format!("SELECT *{more} FROM ({ROWS}) WHERE id > {from} AND id <= {to}");
    let files = [("one/a", 0, 20_000), ("many/a b%20ü", 0, 10_000), ("many/b", 10_000, 10_500), ("many/c=1,d", 10_500, 20_000)];
    for (name, from, to) in files {
        context.sql(&copy(of_rows(from, to), name)).await.unwrap().collect().await.unwrap();
    }
}

async fn create(context: &SessionContext, dir: &TempDir, word: &str) {
    for name in ["one", "many"] {
        let sql = format!("CREATE EXTERNAL TABLE {name} STORED AS {word} LOCATION '{}/{name}/'", dir.path().display());
        context.sql(&sql).await.unwrap();
    }
}

/// Questions with one answer, and of how many threads columns are read late.
const QUESTIONS: [(&str, &[usize]); 17] = [
    ("SELECT * FROM t ORDER BY r LIMIT 10", &[1, 4]),
    ("SELECT * FROM t WHERE x = 3 ORDER BY r DESC LIMIT 200 OFFSET 3", &[1, 4]),
    ("SELECT k, s FROM t ORDER BY x, id DESC LIMIT 100", &[1, 4]),
    ("SELECT s, file_row_index FROM t ORDER BY length(s), -id LIMIT 300", &[1, 4]),
    ("SELECT upper(s), id + 1, r FROM t ORDER BY r % 1000, r LIMIT 20", &[1, 4]),
    ("SELECT st['b'], st['a'], id, s FROM t ORDER BY st['a'], r LIMIT 30", &[1, 4]),
    ("SELECT c3, c17, c33, c40, s, file_row_index() FROM t ORDER BY c5, r LIMIT 30", &[1, 4]),
    ("SELECT st['b'] FROM t ORDER BY st['a'], r LIMIT 30", &[1, 4]),
    // As many as are held together.
    ("SELECT id, s, st, c7 FROM t ORDER BY r LIMIT 8192", &[1, 4]),
    // A limit below. All rows that it can leave have the same answer.
    ("SELECT * FROM (SELECT * FROM t WHERE r < 700 LIMIT 5000) ORDER BY r LIMIT 10", &[1]),
    ("SELECT * FROM (SELECT * FROM t LIMIT 20000) ORDER BY r DESC LIMIT 10", &[1]),
    ("SELECT id, sum(r) OVER (ORDER BY id) FROM (SELECT * FROM t ORDER BY r LIMIT 9) ORDER BY id", &[1, 4]),
    // Nothing is left to read.
    ("SELECT r, r + 1 AS next, 7 AS seven FROM t ORDER BY r LIMIT 3", &[]),
    ("SELECT id FROM t ORDER BY id + r LIMIT 3", &[]),
    ("SELECT count(*) FROM t ORDER BY 1 LIMIT 3", &[]),
    // More than are held together, or all.
    ("SELECT id, s FROM t ORDER BY r LIMIT 8193", &[]),
    ("SELECT id, s FROM t ORDER BY r", &[]),
];

async fn check(word: &str) {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, word).await;
    for (batch_rows, threads) in [(8192, 4), (1000, 4), (8192, 1)] {
        let (late, plain) = (session(true, batch_rows, threads), session(false, batch_rows, threads));
        create(&late, &dir, word).await;
        create(&plain, &dir, word).await;
        for (question, expected) in QUESTIONS {
            for table in ["one", "many"] {
                let sql = question.replace("FROM t", &format!("FROM {table}"));
                let (rows, is_late) = answer(&late, &sql).await;
                assert_eq!(rows, answer(&plain, &sql).await.0, "{word}: {sql}");
                assert_eq!(is_late, expected.contains(&threads), "{word}, {threads} threads: {sql}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fermion_files_give_the_same_first_rows_late() {
    check("FERMION").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn alkaid_files_give_the_same_first_rows_late() {
    check("ALKAID").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_record_batches_gives_the_same_first_rows_late() {
    check("ARROWS").await;
}

/// Any rows will do, but of each row the columns have to be its own.
#[tokio::test(flavor = "multi_thread")]
async fn rows_in_no_order_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "FERMION").await;
    let late = session(true, 8192, 4);
    create(&late, &dir, "FERMION").await;
    for order in ["random()", "x"] {
        let sql = format!(
            "SELECT count(*) FROM (SELECT * FROM many ORDER BY {order} LIMIT 300) WHERE s = concat('number ', id) AND r = (id * 7919) % 100003"
        );
        let (rows, is_late) = answer(&late, &sql).await;
        assert!(is_late && rows.contains("| 300 "), "{rows}");
    }
}

#[tokio::test]
async fn a_store_has_a_threshold_of_its_own() {
    let rows = format!("COPY ({ROWS}) TO 'far://store/x.fermion' STORED AS FERMION");
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let dir = tempfile::tempdir().unwrap();
    for (bytes_min, far_bytes_min) in [(0, u64::MAX), (u64::MAX, 0)] {
        let context = session_of(Some(LateColumns { bytes_min, far_bytes_min }), 8192, 4);
        context.register_object_store(ObjectStoreUrl::parse("far://store").unwrap().as_ref(), Arc::clone(&store));
        for (place, bytes_min) in [("far://store".to_owned(), far_bytes_min), (dir.path().display().to_string(), bytes_min)] {
            context.sql(&rows.replace("far://store", &place)).await.unwrap().collect().await.unwrap();
            context.sql("DROP TABLE IF EXISTS t").await.unwrap();
            context.sql(&format!("CREATE EXTERNAL TABLE t STORED AS FERMION LOCATION '{place}/x.fermion'")).await.unwrap();
            let (_, is_late) = answer(&context, "SELECT * FROM t ORDER BY r LIMIT 10").await;
            assert_eq!(is_late, bytes_min == 0, "{place}");
        }
    }
}
