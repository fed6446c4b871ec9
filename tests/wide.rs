//! Tables of so many columns that they are planned by those that a query uses: the same rows as from Parquet, and plans that know as much as those of narrow tables.
#![cfg(test)]

use std::fs::{File, create_dir_all};
use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{Field, Schema};
use arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_fermion::{FermionTable, format};
use tempfile::TempDir;

const COLUMNS: usize = 520;
const ROWS: i64 = 200;

/// Column `c0` ascends, every tenth is text with nulls, the others are numbers.
fn column(number: usize, file: i64) -> ArrayRef {
    let factor = i64::try_from(number).unwrap();
    let value = move |row: i64| (row * factor + file * 1000) % 97;
    match number {
        0 => Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| file * ROWS + row))),
        _ if number.is_multiple_of(10) => {
            Arc::new(StringViewArray::from_iter((0..ROWS).map(|row| (row % 7 != 0).then(|| format!("text {}", value(row))))))
        }
        _ => Arc::new(Int64Array::from_iter_values((0..ROWS).map(value))),
    }
}

/// Files do not agree: the second has no `c5` and one more column, the third has its columns in another order.
fn batch(file: i64) -> RecordBatch {
    let mut numbers: Vec<usize> = (0..COLUMNS).filter(|number| file != 1 || *number != 5).collect();
    if file == 2 {
        numbers.reverse();
    }
    let mut columns: Vec<(String, ArrayRef)> = numbers.into_iter().map(|number| (format!("c{number}"), column(number, file))).collect();
    if file == 1 {
        columns.push(("only".to_owned(), column(3, 7)));
    }
    let fields: Vec<Field> = columns.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, array)| array).collect()).unwrap()
}

fn write(folder: &Path) {
    for file in 0..3 {
        let batch = batch(file);
        let day = |format: &str| folder.join(format).join(format!("day={}", file % 2));
        let (fermion, parquet) = (day("fermion"), day("parquet"));
        create_dir_all(&fermion).unwrap();
        create_dir_all(&parquet).unwrap();
        let options = format::fermion::WriterOptions { stripe_rows: 50, ..Default::default() };
        let mut writer = format::fermion::Writer::new(batch.schema(), options).unwrap();
        writer.push(&batch).unwrap();
        let (bytes, _) = writer.finish().unwrap();
        std::fs::write(fermion.join(format!("{file}.fermion")), bytes.concat()).unwrap();
        let mut writer =
            parquet::arrow::ArrowWriter::try_new(File::create(parquet.join(format!("{file}.parquet"))).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }
}

/// The table `t` of either format, in sessions of their own.
async fn sessions(folder: &TempDir, settings: &[&str], clauses: &str) -> [SessionContext; 2] {
    write(folder.path());
    let sessions = ["fermion", "parquet"].map(|format| (format, SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2))));
    for (format, session) in &sessions {
        datafusion_fermion::register(session).unwrap();
        for setting in settings {
            session.sql(setting).await.unwrap();
        }
        let location = folder.path().join(format);
        let sql = format!("CREATE EXTERNAL TABLE t STORED AS {format} {clauses} LOCATION '{}/'", location.display());
        session.sql(&sql).await.unwrap();
    }
    sessions.map(|(_, session)| session)
}

async fn rows(session: &SessionContext, sql: &str) -> String {
    let batches = session.sql(sql).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

const QUERIES: [&str; 14] = [
    "SELECT count(*) FROM t",
    "SELECT count(c5), count(only), count(c10), min(c0), max(c0), min(c519), max(c510) FROM t",
    "SELECT c0, c519, c5, only FROM t WHERE c0 % 50 = 3 ORDER BY c0",
    "SELECT c519, c1, c0 FROM t WHERE c7 = 20 AND c10 LIKE '%5' ORDER BY c0",
    "SELECT only, c0 FROM t WHERE only IS NOT NULL ORDER BY c0 LIMIT 5",
    "SELECT c0 FROM t WHERE c5 IS NULL ORDER BY c0 DESC LIMIT 5",
    "SELECT day, count(*), sum(c33), min(c340) FROM t GROUP BY day ORDER BY day",
    "SELECT c0, day FROM t WHERE day = '1' AND c33 = 5 ORDER BY c0",
    "SELECT day FROM t WHERE day = '1' LIMIT 3",
    "SELECT sum(a.c1) FROM t a JOIN t b ON a.c0 = b.c0 + 1 WHERE b.c519 < 3",
    "SELECT c3 + c4 AS x, c3 FROM t ORDER BY c0 LIMIT 4",
    "SELECT sum(c1), c10 FROM t WHERE c0 > 590 GROUP BY c10 ORDER BY c10",
    "SELECT 1 FROM t WHERE c0 < 2",
    "SELECT * FROM t WHERE c0 = 250",
];

#[tokio::test]
async fn rows_are_those_of_parquet() {
    // Metadata of all columns with the file; or of those that are used.
    for settings in [&[][..], &["SET fermion.eager_load_threshold = 0"], &["SET datafusion.execution.collect_statistics = false"]] {
        let folder = TempDir::new().unwrap();
        let [fermion, parquet] = sessions(&folder, settings, "PARTITIONED BY (day)").await;
        for query in QUERIES {
            let expected = rows(&parquet, query).await;
            // Twice, since metadata has been loaded by then.
            for _ in 0..2 {
                assert_eq!(rows(&fermion, query).await, expected, "{query}, {settings:?}");
            }
        }
    }
}

/// A declared order, which names columns that the query does not; it is a promise of the statement's about the table, so it holds for columns that are left out.
#[tokio::test]
async fn declared_orders_hold() {
    let folder = TempDir::new().unwrap();
    let [fermion, _] = sessions(&folder, &["SET datafusion.execution.target_partitions = 1"], "PARTITIONED BY (day) WITH ORDER (c0)").await;
    let plan = |sql: &'static str| {
        let session = fermion.clone();
        async move { rows(&session, &format!("EXPLAIN {sql}")).await }
    };
    assert!(plan("SELECT c0, c9 FROM t ORDER BY c0").await.contains("output_ordering=[c0@0 ASC NULLS LAST]"));
    // Rows come in that order, whether the query names the column or not.
    assert!(plan("SELECT c9 FROM t").await.contains("projection=[c9]"));
    let unordered = rows(&fermion, "SELECT c9 FROM t WHERE day = '1'").await;
    assert_eq!(unordered, rows(&fermion, "SELECT c9 FROM t WHERE day = '1' ORDER BY c0").await);
    assert_eq!(
        rows(&fermion, "SELECT c9 FROM t WHERE c0 BETWEEN 198 AND 201").await,
        rows(&fermion, "SELECT c9 FROM t WHERE c0 BETWEEN 198 AND 201 ORDER BY c0").await
    );
    // A column that is not there is refused as before.
    let missing = format!("CREATE EXTERNAL TABLE u STORED AS FERMION WITH ORDER (nothing) LOCATION '{}/'", folder.path().join("fermion").display());
    assert!(fermion.sql(&missing).await.is_err());
}

/// What statistics say of the columns that are used is known without reading rows, of files whose metadata is not loaded as a whole, too.
#[tokio::test]
async fn statistics_of_used_columns_answer() {
    for settings in [&[][..], &["SET fermion.eager_load_threshold = 0"]] {
        let folder = TempDir::new().unwrap();
        let [fermion, parquet] = sessions(&folder, settings, "PARTITIONED BY (day)").await;
        let query = "SELECT count(*), count(c10), min(c0), max(c0), max(c519) FROM t";
        let plan = rows(&fermion, &format!("EXPLAIN {query}")).await;
        assert!(plan.contains("PlaceholderRowExec") && !plan.contains("DataSourceExec"), "{settings:?}\n{plan}");
        assert_eq!(rows(&fermion, query).await, rows(&parquet, query).await);
    }
}

/// A file without SQL is planned the same way, and what is inserted is seen by the next query.
#[tokio::test]
async fn other_ways_to_a_table() {
    let folder = TempDir::new().unwrap();
    let [fermion, parquet] = sessions(&folder, &[], "").await;
    let file = folder.path().join("fermion/day=0/2.fermion");
    let table = FermionTable::open(&fermion, file.display().to_string()).await.unwrap();
    fermion.register_table("one", Arc::new(table)).unwrap();
    let other = folder.path().join("parquet/day=0/2.parquet");
    parquet.sql(&format!("CREATE EXTERNAL TABLE one STORED AS PARQUET LOCATION '{}'", other.display())).await.unwrap();
    for query in ["SELECT sum(c1), sum(c519) FROM one", "SELECT c518, c2 FROM one WHERE c0 = 450"] {
        assert_eq!(rows(&fermion, query).await, rows(&parquet, query).await);
    }
    let count = "SELECT count(*), max(c0) FROM t";
    let before = rows(&fermion, count).await;
    assert_eq!(before, rows(&parquet, count).await);
    for session in [&fermion, &parquet] {
        session.sql("INSERT INTO t SELECT * FROM t WHERE c0 < 10").await.unwrap().collect().await.unwrap();
    }
    assert_ne!(rows(&fermion, count).await, before);
    assert_eq!(rows(&fermion, count).await, rows(&parquet, count).await);
    // `only`, and the folders' `day`.
    assert_eq!(fermion.table("t").await.unwrap().schema().fields().len(), COLUMNS + 2);
}

/// A file of `columns` columns, in a folder of its own, and where its metadata names one of them.
fn very_wide(columns: usize, named: &str) -> (TempDir, usize) {
    let folder = TempDir::new().unwrap();
    let column = |number: usize| (format!("c{number}"), Arc::new(Int32Array::from(vec![i32::try_from(number).unwrap(); 2])) as ArrayRef);
    let batch = RecordBatch::try_from_iter((0..columns).map(column)).unwrap();
    let mut writer = format::fermion::Writer::new(batch.schema(), format::fermion::WriterOptions::default()).unwrap();
    writer.push(&batch).unwrap();
    let bytes = writer.finish().unwrap().0.concat();
    let place = bytes.windows(named.len()).rposition(|window| window == named.as_bytes()).unwrap();
    std::fs::write(folder.path().join("t.fermion"), bytes).unwrap();
    (folder, place)
}

/// The schema of very many columns is the table's: it is not in the cache of files' metadata, is not read for each query, and goes with the table.
#[tokio::test]
async fn the_schema_goes_with_the_table() {
    const COLUMNS: usize = 30_000;
    let (folder, name) = very_wide(COLUMNS, "c29998");
    let file = folder.path().join("t.fermion");
    let session = SessionContext::new();
    datafusion_fermion::register(&session).unwrap();
    let create = format!("CREATE EXTERNAL TABLE t STORED AS FERMION LOCATION '{}'", file.display());
    session.sql(&create).await.unwrap();
    let query = "SELECT max(c17) + max(c29999) FROM t WHERE c3 = 3";
    let expected = rows(&session, query).await;
    assert!(expected.contains("30016"), "{expected}");
    let cached =
        || session.runtime_env().cache_manager.get_file_metadata_cache().list_entries().values().map(|entry| entry.size_bytes).sum::<usize>();
    let kept = cached();
    // The index of columns alone is 8 bytes for each, and a name is longer than that.
    assert!((8 * COLUMNS..12 * COLUMNS).contains(&kept), "{kept}");

    // Who reads the schema now finds a fault, though nothing says that the file is another.
    let modified = file.metadata().unwrap().modified().unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[name] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
    assert_eq!(rows(&session, query).await, expected);
    assert!(rows(&session, "SELECT max(c29998) FROM t").await.contains("29998"));
    // So does a plan, when the table is gone.
    let plan = session.sql(query).await.unwrap().create_physical_plan().await.unwrap();
    session.sql("DROP TABLE t").await.unwrap();
    let batches = datafusion::physical_plan::collect(plan, session.task_ctx()).await.unwrap();
    assert_eq!(pretty_format_batches(&batches).unwrap().to_string(), expected);
    let error = session.sql(&create).await.unwrap_err().to_string();
    assert!(error.contains("CRC32") && error.contains("schema"), "{error}");
}
