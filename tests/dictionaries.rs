//! Folders of files whose dictionaries are not the same, through DataFusion: written by Arrow's own writer where that matters.
#![cfg(test)]

use std::fs::{File, create_dir_all};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int8Array, NullArray, RecordBatch, StringArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{ArrowDictionaryKeyType, DataType, Field, Int8Type, Int16Type, Int64Type, Schema, UInt8Type};
use arrow_ipc::root_as_message;
use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_fermion::register;
use tempfile::TempDir;

/// Files of folders, and a session.
struct Folders {
    context: SessionContext,
    directory: TempDir,
}

impl Folders {
    fn new() -> Self {
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
        register(&context).unwrap();
        Self { context, directory: tempfile::tempdir().unwrap() }
    }

    /// Writes a file of these values, each in a batch of its own, of a field that is as `field` makes it.
    fn write_as(&self, file: &str, batches: &[ArrayRef], field: impl FnOnce(Field) -> Field) {
        let schema = Arc::new(Schema::new(vec![field(Field::new("d", batches[0].data_type().clone(), true))]));
        let path = self.directory.path().join(file);
        create_dir_all(path.parent().unwrap()).unwrap();
        let mut writer = FileWriter::try_new(File::create(path).unwrap(), &schema).unwrap();
        for batch in batches {
            writer.write(&RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(batch)]).unwrap()).unwrap();
        }
        writer.finish().unwrap();
    }

    fn write(&self, file: &str, batches: &[ArrayRef]) {
        self.write_as(file, batches, |field| field);
    }

    /// Runs statements in which `{}` is the directory, and gives the rows of the last one.
    async fn sql(&self, sql: &str) -> Vec<RecordBatch> {
        let mut rows = Vec::new();
        for statement in sql.replace("{}", &self.directory.path().to_string_lossy()).split(';').filter(|statement| !statement.trim().is_empty()) {
            rows = self.context.sql(statement).await.unwrap().collect().await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        rows
    }

    /// The first column of the rows as text; null is `-`.
    async fn texts(&self, sql: &str) -> Vec<String> {
        let rows = self.sql(sql).await;
        let texts = rows.iter().flat_map(|batch| {
            let texts = cast(batch.column(0), &DataType::Utf8).unwrap();
            texts.as_string::<i32>().iter().map(|text| text.unwrap_or("-").to_owned()).collect::<Vec<_>>()
        });
        texts.collect()
    }

    async fn count(&self, sql: &str) -> i64 {
        let rows = self.sql(sql).await;
        rows.iter().find(|batch| batch.num_rows() > 0).unwrap().column(0).as_primitive::<Int64Type>().value(0)
    }
}

fn dictionary<K: ArrowDictionaryKeyType>(keys: impl IntoIterator<Item = Option<K::Native>>, values: ArrayRef) -> ArrayRef {
    Arc::new(DictionaryArray::<K>::new(keys.into_iter().collect(), values))
}

fn words(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

const TABLE: &str = "CREATE EXTERNAL TABLE t STORED AS ALKAID LOCATION '{}/t/';";

/// A null of a row may be one of its dictionary's values, and the engine's casts to views look for it among the keys alone.
#[tokio::test]
async fn nulls_among_the_values_are_nulls_in_whatever_type_they_are_read() {
    let column = || dictionary::<Int8Type>([Some(0), Some(1), None], words(&[Some("x"), None]));
    let views: ArrayRef = Arc::new(StringViewArray::from(vec!["x"]));
    let as_text = "CREATE EXTERNAL TABLE t(d VARCHAR) STORED AS ALKAID LOCATION '{}/t/';";
    for (others, as_views, table) in [(Some(views), false, TABLE), (None, true, TABLE), (None, false, as_text), (None, false, TABLE)] {
        let folders = Folders::new();
        folders.sql(&format!("SET alkaid.force_view_types = {as_views}")).await;
        folders.write("t/a.arrow", &[column()]);
        let more = i64::from(others.is_some());
        others.iter().for_each(|others| folders.write("t/b.arrow", &[Arc::clone(others)]));
        assert_eq!(folders.count(&format!("{table} SELECT count(d) FROM t")).await, 1 + more);
        assert_eq!(folders.count("SELECT count(*) FROM t WHERE d IS NULL").await, 2);
        assert_eq!(folders.count("SELECT count(*) FROM t WHERE d = ''").await, 0);
        assert_eq!(folders.count("SELECT count(*) FROM t JOIN (SELECT arrow_cast('', 'Utf8View') AS v) ON d = v").await, 0);
        let copied = "COPY t TO '{}/copy.fermion' STORED AS FERMION; CREATE EXTERNAL TABLE copy STORED AS FERMION LOCATION '{}/copy.fermion';";
        assert_eq!(folders.count(&format!("{copied} SELECT count(d) FROM copy")).await, 1 + more);
    }
}

/// 127 values are all that the keys of each file can number.
#[tokio::test]
async fn all_values_of_a_folder_have_keys() {
    for (format, ending) in [("ALKAID", "ipc"), ("FERMION", "fermion")] {
        let folders = Folders::new();
        let file = |first: usize| (first..first + 100).map(|value| format!("value {value:03}")).collect::<Vec<_>>();
        for (name, first, keys) in [("a", 0, "Int8"), ("b", 100, "Int8"), ("c", 200, "UInt8")] {
            let rows = file(first).iter().map(|value| format!("('{value}')")).collect::<Vec<_>>().join(", ");
            let columns = format!("arrow_cast(v, 'Dictionary({keys}, Utf8)') AS d");
            folders.sql(&format!("COPY (SELECT {columns} FROM (VALUES {rows}) AS r(v)) TO '{{}}/t/{name}.{ending}' STORED AS {format}")).await;
        }
        let all = file(0).into_iter().chain(file(100)).chain(file(200)).collect::<Vec<_>>();
        folders.sql(&format!("CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{{}}/t/'")).await;
        assert_eq!(folders.texts("SELECT DISTINCT arrow_typeof(d) FROM t").await, ["Dictionary(Int32, Utf8)"], "{format}");
        for sql in ["SELECT d FROM t ORDER BY d", "SELECT d FROM t GROUP BY d ORDER BY d", "SELECT a.d FROM t a JOIN t b ON a.d = b.d ORDER BY a.d"] {
            assert_eq!(folders.texts(sql).await, all, "{format}: {sql}");
        }
        assert_eq!(folders.count("SELECT count(*) FROM t WHERE d = 'value 150' OR d > 'value 289'").await, 11, "{format}");
        for (copy, ending) in [("PARQUET", "parquet"), ("FERMION", "fermion"), ("ALKAID", "ipc")] {
            let copied = format!(
                "COPY t TO '{{}}/copy.{ending}' STORED AS {copy}; CREATE EXTERNAL TABLE c{ending} STORED AS {copy} LOCATION '{{}}/copy.{ending}'"
            );
            assert_eq!(folders.texts(&format!("{copied}; SELECT d FROM c{ending} ORDER BY d")).await, all, "{format} as {copy}");
        }
    }
}

/// The same of a stream that replaces its dictionary.
#[tokio::test]
async fn all_values_of_a_stream_have_keys() {
    let folders = Folders::new();
    let values: Vec<String> = (0..300).map(|value| format!("value {value:03}")).collect();
    let part = |part: &[String]| dictionary::<Int8Type>((0..100).map(Some), Arc::new(StringArray::from_iter_values(part)));
    let batches: Vec<ArrayRef> = values.chunks(100).map(part).collect();
    let schema = Arc::new(Schema::new(vec![Field::new("d", batches[0].data_type().clone(), true)]));
    let path = |name: &str| folders.directory.path().join(name);
    for (name, count, keys) in [("one.arrows", 1, "Int8"), ("all.arrows", 3, "Int32")] {
        let mut writer = StreamWriter::try_new(File::create(path(name)).unwrap(), &schema).unwrap();
        for batch in &batches[..count] {
            writer.write(&RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(batch)]).unwrap()).unwrap();
        }
        writer.finish().unwrap();
        let table = format!("CREATE EXTERNAL TABLE s{count} STORED AS ALKAID LOCATION '{{}}/{name}'; SELECT DISTINCT arrow_typeof(d) FROM s{count}");
        assert_eq!(folders.texts(&table).await, [format!("Dictionary({keys}, Utf8)")]);
    }
    for sql in ["SELECT d FROM s3 ORDER BY d", "SELECT a.d FROM s3 a JOIN s3 b ON a.d = b.d ORDER BY a.d", "SELECT d FROM s3 GROUP BY d ORDER BY d"] {
        assert_eq!(folders.texts(sql).await, values, "{sql}");
    }
    folders.sql("COPY s3 TO '{}/copy.ipc' STORED AS ALKAID; CREATE EXTERNAL TABLE copy STORED AS ALKAID LOCATION '{}/copy.ipc'").await;
    assert_eq!(folders.texts("SELECT d FROM copy ORDER BY d").await, values);
}

/// One dictionary is replaced, another is never given, as a writer may do that has only nulls of it.
#[tokio::test]
async fn a_stream_may_have_no_more_messages_than_dictionaries() {
    let folders = Folders::new();
    let numbers = |from: u32| {
        dictionary::<Int8Type>((0..100).map(Some), Arc::new(StringArray::from_iter_values((from..from + 100).map(|value| format!("{value:03}")))))
    };
    let nulls = dictionary::<Int8Type>((0..100).map(|_| None), words(&[]));
    let fields = ["d", "e"].map(|name| Field::new(name, nulls.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let mut writer = StreamWriter::try_new(Vec::new(), &schema).unwrap();
    for from in [0, 100] {
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), vec![numbers(from), Arc::clone(&nulls)]).unwrap()).unwrap();
    }
    let stream = writer.into_inner().unwrap();
    std::fs::write(folders.directory.path().join("t.arrows"), without_message(&stream, 2)).unwrap();
    folders.sql("CREATE EXTERNAL TABLE t STORED AS ALKAID LOCATION '{}/t.arrows'").await;
    let expected: Vec<String> = (0..200).map(|value| format!("{value:03}")).collect();
    assert_eq!(folders.texts("SELECT d FROM t ORDER BY d").await, expected);
    assert_eq!(folders.texts("SELECT d FROM t GROUP BY d ORDER BY d").await, expected);
    assert_eq!(folders.texts("SELECT DISTINCT e FROM t").await, ["-"]);
}

/// A stream but for one of its messages.
fn without_message(stream: &[u8], index: usize) -> Vec<u8> {
    let mut start = 0;
    for message in 0.. {
        let length = u32::from_le_bytes(stream[start + 4..start + 8].try_into().unwrap()) as usize;
        let metadata = &stream[start + 8..start + 8 + length];
        let end = start + 8 + length + usize::try_from(root_as_message(metadata).unwrap().bodyLength()).unwrap();
        if message == index {
            return [&stream[..start], &stream[end..]].concat();
        }
        start = end;
    }
    unreachable!("streams have an end")
}

/// What is added to a dictionary needs no wider keys.
#[tokio::test]
async fn a_stream_that_adds_to_a_dictionary_keeps_its_keys() {
    let folders = Folders::new();
    let values: Vec<String> = (0..120).map(|value| format!("value {value:03}")).collect();
    let schema = Arc::new(Schema::new(vec![Field::new("d", DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)), true)]));
    let options = IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
    let file = File::create(folders.directory.path().join("t.arrows")).unwrap();
    let mut writer = StreamWriter::try_new_with_options(file, &schema, options).unwrap();
    for count in [40, 80, 120] {
        let keys = (count - 40..count).map(|key| Some(i8::try_from(key).unwrap()));
        let column = dictionary::<Int8Type>(keys, Arc::new(StringArray::from_iter_values(&values[..count])));
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    let sql = "CREATE EXTERNAL TABLE t STORED AS ALKAID LOCATION '{}/t.arrows'; SELECT DISTINCT arrow_typeof(d) FROM t";
    assert_eq!(folders.texts(sql).await, ["Dictionary(Int8, Utf8)"]);
    assert_eq!(folders.texts("SELECT d FROM t ORDER BY d").await, values);
}

/// A file by itself keeps its keys.
#[tokio::test]
async fn keys_of_one_file_are_as_wide_as_they_are() {
    let folders = Folders::new();
    folders.write("t/a.arrow", &[dictionary::<UInt8Type>([Some(0)], words(&[Some("x")]))]);
    assert_eq!(folders.texts(&format!("{TABLE} SELECT arrow_typeof(d) FROM t")).await, ["Dictionary(UInt8, Utf8)"]);
}

/// The engine joins dictionaries of strings, but not of views: with ten of fifty values, keys of eight bits would be too narrow.
#[tokio::test]
async fn dictionaries_of_strings_and_of_views_are_sorted_together() {
    let folders = Folders::new();
    let values: Vec<String> = (0..50).map(|value| format!("a long value that is number {value:02}")).collect();
    let strings: ArrayRef = Arc::new(StringArray::from_iter_values(&values));
    let part = |first: u8| dictionary::<UInt8Type>((0..5).map(|row| Some(first + row)), Arc::clone(&strings));
    folders.write("t/a.arrow", &(0..10).map(|batch| part(batch * 5)).collect::<Vec<_>>());
    folders.write("t/b.arrow", &[dictionary::<UInt8Type>([Some(0)], Arc::new(StringViewArray::from(vec!["a"])))]);
    let sorted = folders.texts(&format!("{TABLE} SELECT d FROM t ORDER BY d")).await;
    assert_eq!(sorted, [vec!["a".to_owned()], values].concat());
    assert_eq!(folders.texts("SELECT DISTINCT arrow_typeof(d) FROM t").await, ["Dictionary(Int32, LargeUtf8)"]);
    assert_eq!(folders.texts("COPY t TO '{}/copy.parquet' STORED AS PARQUET").await, ["51"]);
}

/// As pandas' ordered categoricals are, and those without any category.
#[tokio::test]
async fn ordered_and_empty_dictionaries_are_read_with_others() {
    let narrow = || dictionary::<Int8Type>([Some(1), Some(0)], words(&[Some("x"), Some("y")]));
    let wide = || dictionary::<Int16Type>([Some(0), None], words(&[Some("z")]));
    let nulls = || -> ArrayRef { Arc::new(DictionaryArray::<Int8Type>::new(Int8Array::from(vec![None, None]), Arc::new(NullArray::new(1)))) };
    let none = || -> ArrayRef { Arc::new(NullArray::new(1)) };
    let plain = || words(&[Some("p")]);
    let ordered = |field: Field| field.with_dict_is_ordered(true);
    for (files, expected) in [
        (vec![narrow(), wide()], vec!["x", "y", "z", "-"]),
        (vec![narrow(), plain()], vec!["p", "x", "y"]),
        (vec![narrow(), nulls()], vec!["x", "y", "-", "-"]),
        (vec![nulls(), plain()], vec!["p", "-", "-"]),
        (vec![none(), nulls(), plain()], vec!["p", "-", "-", "-"]),
        (vec![nulls(), plain(), none()], vec!["p", "-", "-", "-"]),
        (vec![nulls(), none()], vec!["-", "-", "-"]),
    ] {
        for turn in 0..files.len() {
            let folders = Folders::new();
            for (index, file) in files.iter().cycle().skip(turn).take(files.len()).enumerate() {
                match file.data_type() {
                    DataType::Dictionary(keys, _) if **keys == DataType::Int8 => {
                        folders.write_as(&format!("t/{index}.arrow"), &[Arc::clone(file)], ordered)
                    }
                    _ => folders.write(&format!("t/{index}.arrow"), &[Arc::clone(file)]),
                }
            }
            let types: Vec<_> = files.iter().map(|file| file.data_type()).collect();
            assert_eq!(folders.texts(&format!("{TABLE} SELECT d FROM t ORDER BY d")).await, expected, "{types:?}, turned by {turn}");
        }
    }
}
