//! Rows in the opposite of their order: the same as sorted, whatever their types are and however files are cut and put together.
#![cfg(test)]

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, DictionaryArray, FixedSizeBinaryArray, FixedSizeListArray, Int8Array, Int32Array, Int64Array, ListViewArray, MapBuilder,
    RecordBatch, RunArray, StringArray, StringBuilder, StringViewArray, StructArray, UnionArray,
};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int32Type, Schema, UnionFields};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::Result;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use tempfile::TempDir;

const ROWS: usize = 1000;
const NUMBERS: &str = "SELECT value AS id FROM generate_series(1, 1000)";
/// How small files of each format are cut.
const FORMATS: [(&str, &str); 2] = [("FERMION", "'fermion.stripe_rows' '300', 'fermion.page_rows' '70'"), ("ALKAID", "'alkaid.batch_rows' '90'")];

fn session(threads: usize, batch_rows: usize) -> Result<SessionContext> {
    let mut config = SessionConfig::new().with_target_partitions(threads).with_batch_size(batch_rows);
    config.options_mut().optimizer.repartition_file_min_size = 0;
    let state = SessionStateBuilder::new().with_config(config).with_default_features();
    let context = SessionContext::new_with_state(datafusion_fermion::with_rules(state).build());
    datafusion_fermion::register(&context)?;
    Ok(context)
}

/// The first and the second of a union by turns.
fn union(is_dense: bool, numbers: &ArrayRef) -> UnionArray {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("text {row}"))));
    let fields: UnionFields =
        [(0, Arc::new(Field::new("n", DataType::Int64, true))), (1, Arc::new(Field::new("s", DataType::Utf8, true)))].into_iter().collect();
    let types = (0..ROWS).map(|row| i8::from(row % 3 == 0)).collect::<Vec<_>>();
    let offsets = is_dense.then(|| (0..ROWS).map(|row| i32::try_from(row).unwrap()).collect::<Vec<_>>().into());
    UnionArray::try_new(fields, types.into(), offsets, vec![Arc::clone(numbers), texts]).unwrap()
}

fn map() -> ArrayRef {
    let mut map = MapBuilder::new(None, StringBuilder::new(), arrow::array::Int64Builder::new());
    for row in 0..ROWS {
        for key in 0..row % 3 {
            map.keys().append_value(format!("key {key}"));
            map.values().append_value(i64::try_from(row).unwrap());
        }
        map.append(row % 11 != 0).unwrap();
    }
    Arc::new(map.finish())
}

/// Structs that are null, of values without a width and of runs.
fn deep(numbers: &ArrayRef) -> ArrayRef {
    let nulls = || Some((0..ROWS).map(|row| row % 6 != 0).collect::<Vec<_>>().into());
    let bytes: ArrayRef = Arc::new(FixedSizeBinaryArray::try_new_with_len(0, arrow::buffer::Buffer::default(), nulls(), ROWS).unwrap());
    let ends = Int32Array::from_iter_values((1..=ROWS / 4).map(|end| i32::try_from(end * 4).unwrap()));
    let runs: ArrayRef = Arc::new(RunArray::try_new(&ends, &numbers.slice(0, ROWS / 4)).unwrap());
    let empty: ArrayRef = Arc::new(StructArray::new_empty_fields(ROWS, None));
    let fields = [("bytes", bytes), ("runs", runs), ("empty", empty)];
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) =
        fields.into_iter().map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array)).unzip();
    Arc::new(StructArray::new(fields.into(), arrays, nulls()))
}

/// `id` and columns of all sorts, values without a width among them.
fn columns() -> Vec<(&'static str, ArrayRef)> {
    let all = 0..ROWS;
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter(all.clone().map(|row| (row % 7 != 0).then_some(i64::try_from(row * 3).unwrap()))));
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter(all.clone().map(|row| (row % 5 != 0).then(|| format!("a text of some length {row}")))));
    let item = |data_type: DataType| -> FieldRef { Arc::new(Field::new_list_field(data_type, true)) };
    let ends = Int32Array::from_iter_values((1..=ROWS / 4).map(|end| i32::try_from(end * 4).unwrap()));
    let keys = Int32Array::from_iter(all.clone().map(|row| (row % 9 != 0).then_some(i32::try_from(row % 40).unwrap())));
    let codes = DictionaryArray::<Int32Type>::new(keys, Arc::new(StringArray::from_iter_values((0..40).map(|key| format!("kind {key}")))));
    let starts: Vec<i32> = all.clone().map(|row| i32::try_from(ROWS - row - 1).unwrap()).collect();
    let fields = Fields::from(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8View, true)]);
    vec![
        ("id", Arc::new(Int64Array::from_iter_values(all.map(|row| i64::try_from(row).unwrap())))),
        ("parts", Arc::new(StructArray::new(fields, vec![Arc::clone(&numbers), Arc::clone(&texts)], None))),
        ("bytes", Arc::new(FixedSizeBinaryArray::try_new_with_len(0, arrow::buffer::Buffer::default(), None, ROWS).unwrap())),
        (
            "nothings",
            Arc::new(
                FixedSizeListArray::try_new_with_length(item(DataType::Int8), 0, Arc::new(Int8Array::from(Vec::<i8>::new())), None, ROWS).unwrap(),
            ),
        ),
        ("deep", deep(&numbers)),
        ("pairs", Arc::new(FixedSizeListArray::new(item(DataType::Int64), 1, Arc::clone(&numbers), None))),
        ("views", Arc::new(ListViewArray::new(item(DataType::Int64), starts.into(), vec![1; ROWS].into(), Arc::clone(&numbers), None))),
        ("dense", Arc::new(union(true, &numbers))),
        ("sparse", Arc::new(union(false, &numbers))),
        ("runs", Arc::new(RunArray::try_new(&ends, &texts.slice(0, ROWS / 4)).unwrap())),
        ("codes", Arc::new(codes)),
        ("map", map()),
        ("numbers", numbers),
        ("texts", texts),
    ]
}

fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut lines = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        lines.extend((0..batch.num_rows()).map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|")));
    }
    lines
}

/// The plan of a query, in which rows are read backwards.
async fn planned(context: &SessionContext, sql: &str) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    let text = displayable(plan.as_ref()).indent(false).to_string();
    assert!(text.contains("backwards=true") && !text.contains("SortExec"), "{sql}: {text}");
    Ok(plan)
}

/// The rows of such a plan.
async fn backwards(context: &SessionContext, sql: &str) -> Result<Vec<String>> {
    Ok(lines(&collect(planned(context, sql).await?, context.task_ctx()).await?))
}

/// `table` is `query` in a folder of that name, of one file for each of `queries`.
async fn store(context: &SessionContext, dir: &TempDir, (format, options): (&str, &str), table: &str, order: &str, queries: &[&str]) -> Result<()> {
    let (folder, extension) = (format!("{}/{format}/{table}", dir.path().display()), format.to_lowercase());
    for (number, query) in queries.iter().enumerate() {
        let copy = format!("COPY ({query}) TO '{folder}/{number}.{extension}' STORED AS {format} OPTIONS ({options})");
        context.sql(&copy).await?.collect().await?;
    }
    context.sql(&format!("CREATE EXTERNAL TABLE {table} STORED AS {format} WITH ORDER ({order}) LOCATION '{folder}/'")).await?;
    Ok(())
}

#[tokio::test]
async fn rows_of_all_types_are_turned() -> Result<()> {
    for (threads, batch_rows) in [(1, 64), (1, 8192), (3, 50)] {
        let mut columns = columns();
        // The engine's merge of several parts fails for lists of no values.
        columns.retain(|(name, _)| threads == 1 || *name != "nothings");
        let fields: Vec<Field> = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, array)| array).collect())?;
        let mut expected = lines(std::slice::from_ref(&rows));
        expected.reverse();
        for format in FORMATS {
            let (context, dir) = (session(threads, batch_rows)?, tempfile::tempdir()?);
            context.register_batch("memory", rows.clone())?;
            store(&context, &dir, format, "t", "id", &["SELECT * FROM memory"]).await?;
            assert_eq!(backwards(&context, "SELECT * FROM t ORDER BY id DESC").await?, expected, "{format:?}");
            let few: Vec<String> = expected.iter().filter(|line| line.split('|').next().unwrap().ends_with('7')).cloned().collect();
            assert_eq!(few.len(), ROWS / 10);
            assert_eq!(backwards(&context, "SELECT * FROM t WHERE id % 10 = 7 ORDER BY id DESC").await?, few, "{format:?}");
            // Of what is asked of columns, they are turned, too.
            let nothings = if threads == 1 { "cardinality(nothings)" } else { "0" };
            let asked = format!("SELECT id, bytes IS NULL, {nothings}, dense IS NULL FROM t ORDER BY id DESC");
            let answers: Vec<String> = (0..ROWS).rev().map(|row| format!("{row}|false|0|{}", row % 3 != 0 && row % 7 == 0)).collect();
            assert_eq!(backwards(&context, &asked).await?, answers, "{format:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn rows_without_a_stored_column_are_as_many() -> Result<()> {
    for format in FORMATS {
        let (context, dir) = (session(1, 64)?, tempfile::tempdir()?);
        let days = ["SELECT 1 AS day, value AS id FROM generate_series(1, 150)", "SELECT 2 AS day, value AS id FROM generate_series(151, 400)"];
        store(&context, &dir, format, "one", "day, id", &days[1..]).await?;
        store(&context, &dir, format, "days", "day, id", &days).await?;
        assert_eq!(backwards(&context, "SELECT day FROM one ORDER BY day DESC").await?, vec!["2"; 250]);
        let places: Vec<String> = (0..250).rev().map(|place| format!("2|{place}")).collect();
        assert_eq!(backwards(&context, "SELECT day, file_row_index() FROM one ORDER BY day DESC").await?, places);
        assert_eq!(backwards(&context, "SELECT day FROM one WHERE id % 10 = 3 ORDER BY day DESC").await?, vec!["2"; 25]);
        let both = [vec!["2"; 250], vec!["1"; 150]].concat();
        assert_eq!(backwards(&context, "SELECT day FROM days ORDER BY day DESC").await?, both);
        let all: Vec<String> = (1..=400).rev().map(|id| format!("{}|{id}", 1 + i32::from(id > 150))).collect();
        assert_eq!(backwards(&context, "SELECT day, id FROM days ORDER BY day DESC, id DESC").await?, all);
    }
    Ok(())
}

/// As rules of others may do, or the engine in a second round.
#[tokio::test]
async fn a_limit_that_comes_later_takes_the_last_rows() -> Result<()> {
    for format in FORMATS {
        let (context, dir) = (session(1, 64)?, tempfile::tempdir()?);
        store(&context, &dir, format, "t", "id", &[NUMBERS]).await?;
        let plan = planned(&context, "SELECT id FROM t ORDER BY id DESC").await?;
        let few = plan.with_fetch(Some(5)).unwrap();
        assert_eq!(lines(&collect(few, context.task_ctx()).await?), ["1000", "999", "998", "997", "996"], "{format:?}");
    }
    Ok(())
}

#[tokio::test]
async fn parts_of_a_file_are_merged() -> Result<()> {
    for format in FORMATS {
        let (context, dir) = (session(3, 64)?, tempfile::tempdir()?);
        store(&context, &dir, format, "t", "id", &[NUMBERS]).await?;
        let plan = planned(&context, "SELECT id FROM t ORDER BY id DESC").await?;
        let text = displayable(plan.as_ref()).indent(false).to_string();
        assert!(text.contains("SortPreservingMergeExec: [id@0 DESC]\n  BufferExec") && text.contains("3 groups"), "{text}");
        let ids: Vec<String> = (1..=1000).rev().map(|id: i32| id.to_string()).collect();
        assert_eq!(lines(&collect(plan, context.task_ctx()).await?), ids, "{format:?}");
    }
    Ok(())
}

/// What waits to be merged is not sorted, and cannot be written to disk.
#[tokio::test]
async fn no_more_waits_than_a_sort_sets_aside() -> Result<()> {
    let (context, dir) = (session(3, 8192)?, tempfile::tempdir()?);
    let rows = "SELECT value AS id, md5(CAST(value AS VARCHAR)) AS text FROM generate_series(1, 200000)";
    store(&context, &dir, ("FERMION", "'fermion.stripe_rows' '20000'"), "t", "id", &[rows]).await?;
    context.sql("SET datafusion.execution.sort_spill_reservation_bytes = 100000").await?.collect().await?;
    let plan = planned(&context, "SELECT id, text FROM t ORDER BY id DESC").await?;
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(8 << 20))).build_arc()?;
    let task = TaskContext::from(&context.state()).with_runtime(runtime);
    let rows: usize = collect(plan, Arc::new(task)).await?.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 200_000);
    Ok(())
}
