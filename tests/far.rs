//! Files that have to be waited for, in a store that is not this machine, whose stripes are fetched together, or on a disk of it: filters, row numbers and limits give what
//! they give over batches in memory.
#![cfg(test)]

use std::ops::Range;
use std::sync::Arc;

use arrow::array::*;
use arrow::compute::concat_batches;
use bytes::Bytes;
use datafusion::datasource::MemTable;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_fermion::format::alkaid;
use datafusion_fermion::format::fermion::{FermionScan, Open, OpenOptions, ScanRequest, Writer, WriterOptions};
use datafusion_fermion::format::scan::{Answer, Fetch, Load, Loading, Scan, Step};
use datafusion_fermion::register;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};

const ROWS: i64 = 360_000;
const STRIPE: i64 = 36_000;

fn noise(row: i64) -> i64 {
    let mixed = (row.unsigned_abs() + 1).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed ^ mixed >> 29).wrapping_mul(0x94D0_49BB_1331_11EB).cast_signed()
}

/// Ten stripes. `kind` is 1 in all rows of the third, in none of the fifth, and in one of 10,000 of the others, else 0 or 2, which bounds do not tell apart. The noise is more than
/// a mebibyte in each.
fn table() -> RecordBatch {
    let kind = |row: i64| match (row / STRIPE, noise(row).rem_euclid(10_000)) {
        (2, _) => 1,
        (4, 0) => 0,
        (_, 0) => 1,
        (_, some) => some % 2 * 2,
    };
    let column = |of: &dyn Fn(i64) -> i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values((0..ROWS).map(of))) };
    let columns = [("id", column(&|row| row)), ("kind", column(&kind)), ("a", column(&noise)), ("b", column(&|row| noise(row + ROWS)))];
    let more = [("c", column(&|row| row % 7)), ("d", column(&|row| noise(row + 2 * ROWS))), ("e", column(&|row| noise(row + 3 * ROWS)))];
    RecordBatch::try_from_iter(columns.into_iter().chain(more)).unwrap()
}

/// The table as a file.
fn file(batch: &RecordBatch) -> Vec<Bytes> {
    let options = WriterOptions { stripe_rows: usize::try_from(STRIPE).unwrap(), page_rows: 4000, ..Default::default() };
    let mut writer = Writer::new(batch.schema(), options).unwrap();
    writer.push(batch).unwrap();
    writer.finish().unwrap().0
}

/// The table as an Arrow stream, with a batch for each stripe.
fn arrow_stream(batch: &RecordBatch) -> Vec<Bytes> {
    let options = alkaid::WriterOptions { form: alkaid::Form::Stream, batch_rows: usize::try_from(STRIPE).unwrap(), ..Default::default() };
    let mut writer = alkaid::Writer::new(batch.schema(), options).unwrap();
    writer.push(batch).unwrap();
    writer.finish().unwrap().0
}

/// A session in which the table `t` is the file at a place, and one in which it is in memory, where its rows have their numbers in a column.
async fn sessions_of(
    format: &str,
    place: &str,
    store: Option<Arc<dyn ObjectStore>>,
    batch: RecordBatch,
    partitions: usize,
    settings: &[&str],
) -> [SessionContext; 2] {
    let config = || {
        let mut config = SessionConfig::new().with_target_partitions(partitions);
        config.options_mut().optimizer.repartition_file_min_size = 1;
        config
    };
    let far = SessionContext::new_with_config(config());
    register(&far).unwrap();
    if let Some(store) = store {
        far.register_object_store(ObjectStoreUrl::parse("far://store").unwrap().as_ref(), store);
    }
    for setting in settings {
        far.sql(&format!("SET {format}.{setting}")).await.unwrap();
    }
    far.sql(&format!("CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{place}'")).await.unwrap();
    let near = SessionContext::new_with_config(config());
    near.register_table("t", Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap())).unwrap();
    [far, near]
}

/// The table `t` in a store of its own, and in memory.
async fn sessions(partitions: usize, settings: &[&str]) -> [SessionContext; 2] {
    let batch = table();
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    store.put(&Path::from("t.fermion"), file(&batch).into_iter().collect::<PutPayload>()).await.unwrap();
    sessions_of("fermion", "far://store/t.fermion", Some(store), batch, partitions, settings).await
}

/// The same as an Arrow stream.
async fn arrow_sessions(partitions: usize, settings: &[&str]) -> [SessionContext; 2] {
    let batch = table();
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    store.put(&Path::from("t.arrows"), arrow_stream(&batch).into_iter().collect::<PutPayload>()).await.unwrap();
    sessions_of("alkaid", "far://store/t.arrows", Some(store), batch, partitions, settings).await
}

async fn rows(session: &SessionContext, sql: &str) -> Vec<ArrayRef> {
    let frame = session.sql(sql).await.unwrap();
    let schema = Arc::new(frame.schema().as_arrow().clone());
    concat_batches(&schema, &frame.collect().await.unwrap()).unwrap().columns().to_vec()
}

/// A metric of the scans of a query.
async fn metric(session: &SessionContext, sql: &str, name: &str) -> usize {
    let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    datafusion::physical_plan::collect(Arc::clone(&plan), session.task_ctx()).await.unwrap();
    let mut plan = plan;
    while let Some(child) = plan.children().first().map(|child| Arc::clone(child)) {
        plan = child;
    }
    plan.metrics().unwrap().sum_by_name(name).unwrap().as_usize()
}

/// How often a query waits for bytes once a file is forgotten. The kernel reads ahead as soon as it is asked whether it has something: of a fast disk, all may be there before it is
/// needed, and it is tried again then.
#[cfg(target_os = "linux")]
async fn rounds_after(session: &SessionContext, sql: &str, forget: impl Fn()) -> usize {
    for _ in 0..20 {
        forget();
        match metric(session, sql, "request_rounds").await {
            0 => {}
            rounds => return rounds,
        }
    }
    0
}

const FILTERS: [&str; 4] = ["kind = 1", "kind = 1 AND c = 3", "kind = 0 AND a > 0", "kind = 2"];

/// Queries with this filter, and how many rows each gives if it says nothing of their order. The number of a row is its id.
fn queries(filter: &str) -> [(String, Option<usize>); 3] {
    [
        // Not by a column alone: stripes would be read in its order, one by one.
        (format!("SELECT id, a, b, c, d, e FROM t WHERE {filter} ORDER BY id + 0"), None),
        (format!("SELECT file_row_index() AS id, a, b, c, d, e FROM t WHERE {filter} ORDER BY id + 0"), None),
        (format!("SELECT a, b, d, e FROM t WHERE {filter} LIMIT 50"), Some(50)),
    ]
}

/// Asks both; `before` each time.
async fn check([far, near]: &[SessionContext; 2], context: &str, before: impl Fn()) {
    for filter in FILTERS {
        let [(sql, _), ..] = queries(filter);
        let expected = rows(near, &sql).await;
        for (sql, limit) in queries(filter) {
            before();
            let found = rows(far, &sql).await;
            match limit {
                None => assert!(found == expected, "{sql}, {context}"),
                Some(limit) => assert_eq!(found[0].len(), expected[0].len().min(limit), "{sql}, {context}"),
            }
        }
    }
}

#[tokio::test]
async fn rows_are_those_in_memory() {
    for (partitions, ahead_bytes) in [(1, 16 << 20), (3, 3 << 20), (1, 0)] {
        let sessions = sessions(partitions, &[&format!("ahead_bytes = {ahead_bytes}")]).await;
        check(&sessions, &format!("{ahead_bytes}, {partitions}"), || {}).await;
        let sessions = arrow_sessions(partitions, &[&format!("ahead_bytes = {ahead_bytes}")]).await;
        check(&sessions, &format!("Arrow, {ahead_bytes}, {partitions}"), || {}).await;
    }
}

/// The kernel has the file in memory, forgets some of it, and all: what has to be waited for is.
#[tokio::test]
#[cfg(target_os = "linux")]
async fn rows_of_a_file_that_the_kernel_has_forgotten_are_those_in_memory() {
    let batch = table();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("t.fermion");
    let bytes = file(&batch).concat();
    std::fs::write(&path, &bytes).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    file.sync_all().unwrap();
    let forget = |from: usize| {
        rustix::fs::fadvise(&file, from as u64, None, rustix::fs::Advice::DontNeed).unwrap();
    };
    for partitions in [1, 3] {
        let sessions = sessions_of("fermion", path.to_str().unwrap(), None, batch.clone(), partitions, &[]).await;
        check(&sessions, "at hand", || {}).await;
        check(&sessions, "the second half is forgotten", || forget(bytes.len() / 2)).await;
        check(&sessions, "all is forgotten", || forget(0)).await;
        let sql = "SELECT sum(a), sum(b), sum(d), sum(e) FROM t WHERE c = 3";
        let forgotten = rounds_after(&sessions[0], sql, || forget(0)).await;
        let known = metric(&sessions[0], sql, "request_rounds").await;
        assert!(known < forgotten, "{known}, {forgotten}");
    }
}

/// Where the pages of the first stripe are in a file.
#[cfg(target_os = "linux")]
fn pages(file: &Bytes, batch: &RecordBatch) -> Vec<Range<u64>> {
    fn load<L: Load>(file: &Bytes, mut load: L) -> L::Output {
        let bytes = |fetch: &Fetch| file.slice(usize::try_from(fetch.range.start).unwrap()..usize::try_from(fetch.range.end).unwrap());
        let mut fetched = Vec::new();
        loop {
            match load.resume(fetched).unwrap() {
                Loading::Fetch(fetches) => fetched = fetches.iter().map(bytes).collect(),
                Loading::Ready(output) => return output,
            }
        }
    }
    let meta = Arc::new(load(file, Open::new(file.len() as u64, &OpenOptions::default()).unwrap()));
    let columns: Vec<usize> = (0..batch.num_columns()).collect();
    load(file, meta.load_columns(&columns));
    let mut scan = FermionScan::new(meta, ScanRequest::new(columns, batch.schema())).unwrap();
    let Step::Fetch(fetches) = scan.step(Answer::Next).unwrap() else { panic!("nothing to fetch") };
    fetches.into_iter().map(|fetch| fetch.range).collect()
}

/// The kernel has the column of the filter in memory, and of the others no more than how their pages begin: they are waited for together, not one by one.
#[tokio::test]
#[cfg(target_os = "linux")]
async fn columns_that_the_kernel_has_forgotten_are_waited_for_together() {
    use std::os::unix::fs::FileExt;
    const ROWS: i64 = 36_000;
    let column = |of: &dyn Fn(i64) -> i64| Arc::new(Int64Array::from_iter_values((0..ROWS).map(of))) as ArrayRef;
    let noises = (0..30).map(|index| (format!("n{index}"), column(&|row| noise(row + index * ROWS))));
    let batch = RecordBatch::try_from_iter([("kind".to_owned(), column(&|row| noise(row) & 1))].into_iter().chain(noises)).unwrap();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("t.fermion");
    let bytes = Bytes::from(file(&batch).concat());
    std::fs::write(&path, &bytes).unwrap();
    let pages = pages(&bytes, &batch);
    let file = std::fs::File::open(&path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    let [far, near] = sessions_of("fermion", path.to_str().unwrap(), None, batch, 1, &["pushdown_filters = true"]).await;
    let sums = (0..30).map(|index| format!("sum(n{index})")).collect::<Vec<_>>().join(", ");
    let sql = format!("SELECT {sums} FROM t WHERE kind = 1");
    assert!(rows(&far, &sql).await == rows(&near, &sql).await);
    let forget = || {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        // Of the first column, which is a bit for each row, that is all.
        pages.iter().for_each(|page| file.read_exact_at(&mut [0], page.start).unwrap());
    };
    let rounds = rounds_after(&far, &sql, forget).await;
    assert!((1..=4).contains(&rounds), "{rounds}");
}

/// What all of that is for: few rounds, and no more bytes.
#[tokio::test]
async fn a_filter_takes_two_rounds() {
    let costs = async |settings: &[&str]| {
        let [far, _] = sessions(1, settings).await;
        let sql = "SELECT sum(a), sum(b), sum(d), sum(e) FROM t WHERE kind = 1";
        (metric(&far, sql, "request_rounds").await, metric(&far, sql, "bytes_scanned").await)
    };
    // The metadata of the columns came with the end of the file.
    let (rounds, bytes) = costs(&[]).await;
    assert_eq!(rounds, 2);
    // A stripe after the other: two rounds for each but the fifth, of which no row is left.
    let (rounds, one_by_one) = costs(&["ahead_bytes = 0", "pushdown_filters = true"]).await;
    assert!((10..=19).contains(&rounds) && bytes <= one_by_one, "{rounds}, {bytes}, {one_by_one}");
    let (rounds, whole) = costs(&["pushdown_filters = false"]).await;
    assert!(rounds == 1 && bytes < whole / 2, "{rounds}, {bytes}, {whole}");
}

/// The same of Arrow. Its batches have no bounds, so that rows of all of them are asked for.
#[tokio::test]
async fn batches_of_arrow_are_fetched_together() {
    let costs = async |sql: &str, settings: &[&str]| {
        let [far, near] = arrow_sessions(1, settings).await;
        assert!(rows(&far, sql).await == rows(&near, sql).await);
        (metric(&far, sql, "request_rounds").await, metric(&far, sql, "bytes_scanned").await)
    };
    let sums = "SELECT sum(a), sum(b), sum(d), sum(e) FROM t";
    // 11.5 MB, of which as many batches are fetched together as are one mebibyte, or sixteen.
    let (rounds, whole) = costs(sums, &[]).await;
    assert_eq!(rounds, 1);
    assert_eq!(costs(sums, &["ahead_bytes = 0"]).await, (10, whole));
    let filtered = format!("{sums} WHERE kind = 1");
    let (rounds, bytes) = costs(&filtered, &[]).await;
    assert_eq!(rounds, 2);
    // One batch has no rows.
    let (rounds, one_by_one) = costs(&filtered, &["ahead_bytes = 0", "pushdown_filters = true"]).await;
    assert!((10..=19).contains(&rounds) && bytes <= one_by_one, "{rounds}, {bytes}, {one_by_one}");
}

#[tokio::test]
async fn how_bytes_are_asked_for_is_explained() {
    let [far, _] = sessions(1, &["requests_in_flight = 3"]).await;
    let create =
        "CREATE EXTERNAL TABLE o STORED AS FERMION LOCATION 'far://store/t.fermion' OPTIONS (ahead_bytes 5, coalesce_gap 6, request_bytes 7)";
    far.sql(create).await.unwrap();
    let expected = "io=[metadata_size_hint=524288, eager_load_threshold=8388608, coalesce_gap=6, request_bytes=7, requests_in_flight=3, ahead_bytes=5, memory_map=false]";
    let plan = async |explain: &str| format!("{:?}", rows(&far, &format!("{explain} SELECT a FROM o WHERE c = 5")).await);
    assert!(plan("EXPLAIN VERBOSE").await.contains(expected));
    assert!(!plan("EXPLAIN").await.contains("io=["));
}
