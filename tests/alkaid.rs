//! Alkaid and Arrow files through DataFusion, from Rust. What SQL does is in `tests/sql/`.
#![cfg(test)]

use std::fs::File;
use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, Int64Array, ListArray, MapArray, RecordBatch, RunArray, StringArray, StructArray, UnionArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Schema, UnionFields};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use datafusion::catalog::TableProvider;
use datafusion::common::stats::Precision;
use datafusion::logical_expr::SortExpr;
use datafusion::physical_plan::{StatisticsArgs, StatisticsContext, displayable};
use datafusion::prelude::{DataFrame, SessionContext, col, lit};
use datafusion_fermion::format::alkaid::{Codec, Form};
use datafusion_fermion::{
    AlkaidReadOptions, AlkaidTable, AlkaidWriteOptions, FermionDataFrameExt, FermionReadOptions, FermionSessionExt, FermionWriteOptions, register,
};
use tempfile::TempDir;

/// Rows 0 to 999; every seventh `b` is null.
fn numbers() -> RecordBatch {
    let a: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let b: ArrayRef = Arc::new(Int32Array::from_iter((0..1000).map(|row| (row % 7 != 0).then_some(row))));
    let s: ArrayRef = Arc::new(StringArray::from_iter_values((0..1000).map(|row| format!("row {row}"))));
    RecordBatch::try_from_iter([("a", a), ("b", b), ("s", s)]).unwrap()
}

/// A session, a directory and the numbers.
fn session() -> (SessionContext, TempDir, DataFrame) {
    let context = SessionContext::new();
    register(&context).unwrap();
    let frame = context.read_batch(numbers()).unwrap();
    (context, tempfile::tempdir().unwrap(), frame)
}

fn path(directory: &TempDir, name: &str) -> String {
    directory.path().join(name).to_string_lossy().into_owned()
}

#[tokio::test]
async fn data_frames_are_written_and_read() {
    let (context, directory, frame) = session();
    let (file, stream) = (path(&directory, "x.ipc"), path(&directory, "x.arrows"));
    let options = AlkaidWriteOptions { batch_rows: 100, ..Default::default() };
    frame.clone().write_alkaid(&file, &[], options).await.unwrap();
    let options = AlkaidWriteOptions { form: Some(Form::Stream), compression: Some(Codec::Lz4), ..Default::default() };
    frame.clone().write_alkaid(&stream, &[], options).await.unwrap();

    let read = context.read_alkaid([&file, &stream], AlkaidReadOptions::default()).await.unwrap();
    assert_eq!(read.filter(col("a").gt(lit(990))).unwrap().count().await.unwrap(), 18);
    context.register_alkaid("x", &stream, AlkaidReadOptions::default()).await.unwrap();
    let sorted = context.table("x").await.unwrap().sort(vec![col("a").sort(true, true)]).unwrap().collect().await.unwrap();
    assert_eq!(concat_batches(&sorted[0].schema(), &sorted).unwrap().columns(), numbers().columns());

    frame.write_alkaid(&format!("{}/", path(&directory, "by")), &["b"], AlkaidWriteOptions::default()).await.unwrap();
    assert!(directory.path().join("by/b=5").is_dir());
}

#[tokio::test]
async fn a_table_knows_its_statistics() {
    let (context, directory, frame) = session();
    let file = path(&directory, "x.ipc");
    frame.write_alkaid(&file, &[], AlkaidWriteOptions::default()).await.unwrap();
    let table = AlkaidTable::open(&context, &file).await.unwrap();
    let plan = table.scan(&context.state(), Some(&vec![1]), &[], None).await.unwrap();
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).unwrap();
    assert_eq!((&statistics.num_rows, &statistics.column_statistics[0].null_count), (&Precision::Exact(1000), &Precision::Exact(143)));
}

#[tokio::test]
async fn the_metadata_of_one_format_is_not_taken_for_that_of_another() {
    let (context, directory, frame) = session();
    let (written, file) = (path(&directory, "x.fermion"), path(&directory, "x.bin"));
    frame.write_fermion(&written, &[], FermionWriteOptions::default()).await.unwrap();
    std::fs::rename(written, &file).unwrap();
    context.register_fermion("x", &file, FermionReadOptions::default()).await.unwrap();
    assert_eq!(context.table("x").await.unwrap().count().await.unwrap(), 1000);
    let error = context.register_alkaid("y", &file, AlkaidReadOptions::default()).await.unwrap_err().to_string();
    assert!(error.contains("x.bin: end of file: this is not an Alkaid or Arrow file or stream"), "{error}");
}

#[tokio::test]
async fn the_order_of_rows_is_recorded_and_used() {
    let (context, directory, frame) = session();
    let (file, stream) = (path(&directory, "x.ipc"), path(&directory, "x.ipcs"));
    let sorted = || frame.clone().sort(vec![col("a").sort(false, true)]).unwrap();
    sorted().write_alkaid(&file, &[], AlkaidWriteOptions::default()).await.unwrap();
    sorted().write_alkaid(&stream, &[], AlkaidWriteOptions::default()).await.unwrap();
    let sorts = async |name: &str, expression: SortExpr| {
        let read = context.read_alkaid([name], AlkaidReadOptions::default()).await.unwrap().sort(vec![expression]).unwrap();
        let plan = read.create_physical_plan().await.unwrap();
        displayable(plan.as_ref()).indent(false).to_string().contains("SortExec")
    };
    assert!(!sorts(&file, col("a").sort(false, true)).await);
    assert!(sorts(&file, col("a").sort(true, true)).await);
    assert!(sorts(&file, col("b").sort(false, true)).await);
    // A stream has no footer to say it.
    assert!(sorts(&stream, col("a").sort(false, true)).await);
}

#[tokio::test]
async fn mapped_files_are_read_as_others_are() {
    let (context, directory, frame) = session();
    let (alkaid, fermion) = (path(&directory, "x.ipc"), path(&directory, "x.fermion"));
    frame.clone().write_alkaid(&alkaid, &[], AlkaidWriteOptions::default()).await.unwrap();
    frame.write_fermion(&fermion, &[], FermionWriteOptions::default()).await.unwrap();
    let options = AlkaidReadOptions { memory_map: true, ..Default::default() };
    context.register_alkaid("alkaid", &alkaid, options).await.unwrap();
    let options = FermionReadOptions { memory_map: true, force_view_types: false, ..Default::default() };
    context.register_fermion("fermion", &fermion, options).await.unwrap();
    for table in ["alkaid", "fermion"] {
        let read = context.table(table).await.unwrap().collect().await.unwrap();
        assert_eq!(concat_batches(&read[0].schema(), &read).unwrap().columns(), numbers().columns(), "{table}");
        let some = context.sql(&format!("select s from {table} where a between 100 and 109 and b is not null")).await.unwrap();
        assert_eq!(some.count().await.unwrap(), 9, "{table}");
    }
    // A file that has become shorter is an error, not a signal.
    File::options().write(true).open(&alkaid).unwrap().set_len(100).unwrap();
    let error = context.sql("select sum(a) from alkaid").await.unwrap().collect().await.unwrap_err();
    assert!(error.to_string().contains("it has been cut"), "{error}");
}

#[cfg(target_os = "linux")]
fn is_mapped(file: &str) -> bool {
    let file = std::fs::canonicalize(file).unwrap();
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().any(|line| line.ends_with(&*file.to_string_lossy()))
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn data_is_mapped_while_rows_of_it_are_held_and_metadata_never() {
    use datafusion::datasource::file_format::FileFormat;
    use datafusion::execution::object_store::ObjectStoreUrl;
    use datafusion::physical_plan::collect;
    use datafusion_fermion::provider::{AlkaidFormat, AlkaidOptions};

    let (context, directory, frame) = session();
    let runtime = context.runtime_env();
    let store = runtime.object_store(ObjectStoreUrl::local_filesystem()).unwrap();
    let opened = runtime.cache_manager.get_file_metadata_cache();
    for name in ["x.ipc", "x.arrows"] {
        let file = path(&directory, name);
        frame.clone().write_alkaid(&file, &[], AlkaidWriteOptions::default()).await.unwrap();
        let read = AlkaidReadOptions { memory_map: true, ..Default::default() };
        let plan = context.read_alkaid([&file], read.clone()).await.unwrap().create_physical_plan().await.unwrap();
        assert!(!is_mapped(&file), "{name}");
        // The scan, which maps, is to open the file by itself.
        opened.clear();
        let batches = collect(plan, context.task_ctx()).await.unwrap();
        assert!(is_mapped(&file), "{name}");
        drop(batches);
        assert!(!is_mapped(&file), "{name}");
        // What the session keeps of it outlives the bytes that it was read from.
        let object = opened.list_entries().into_values().next().unwrap().value.meta;
        let format = AlkaidFormat::new(AlkaidOptions { read, ..Default::default() });
        let known = async || format.infer_stats(&context.state(), &store, numbers().schema(), &object).await.unwrap();
        let before = known().await;
        assert_eq!((&before.num_rows, &before.column_statistics[1].null_count), (&Precision::Exact(1000), &Precision::Exact(143)), "{name}");
        File::options().write(true).open(&file).unwrap().set_len(100).unwrap();
        assert_eq!(known().await, before, "{name}");
    }
}

#[tokio::test]
async fn a_folder_is_read_whatever_its_files_end_with() {
    let (context, directory, frame) = session();
    for name in ["x.ipc", "y.arrow", "z.feather", "s.arrows", "t.ipcs", "u.alkaid"] {
        frame.clone().write_alkaid(&path(&directory, name), &[], AlkaidWriteOptions::default()).await.unwrap();
    }
    std::fs::write(path(&directory, "read.me"), "nothing").unwrap();
    let read = context.read_alkaid([format!("{}/", path(&directory, ""))], AlkaidReadOptions::default()).await.unwrap();
    assert_eq!(read.count().await.unwrap(), 6000);
}

#[tokio::test]
async fn nulls_of_a_column_that_is_never_null_are_found_where_dictionaries_runs_and_unions_have_them() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    let codes = || Int32Array::from(vec![0, 1, 0, 1, 1]);
    let dictionary = DictionaryArray::<Int32Type>::try_new(codes(), Arc::clone(&texts)).unwrap();
    let runs = RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 5]), texts.as_string::<i32>()).unwrap();
    let fields: UnionFields = [(0, Arc::new(Field::new("x", DataType::Int32, true)))].into_iter().collect();
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![None, Some(1), None, None, None]));
    let union = UnionArray::try_new(fields, vec![0_i8; 5].into(), None, vec![numbers]).unwrap();
    let columns: [(&str, ArrayRef); 4] = [("d", Arc::new(dictionary)), ("r", Arc::new(runs)), ("u", Arc::new(union)), ("i", Arc::new(codes()))];
    let fields: Vec<Field> = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.map(|(_, column)| column).into()).unwrap();

    let (context, directory, _) = session();
    let file = path(&directory, "x.arrow");
    let mut writer = FileWriter::try_new(File::create(&file).unwrap(), &schema).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    context.register_alkaid("x", &file, AlkaidReadOptions::default()).await.unwrap();
    for (column, nulls) in [("d", 3), ("r", 3), ("u", 4), ("i", 0)] {
        let is_null = context.table("x").await.unwrap().filter(col(column).is_null()).unwrap();
        assert_eq!(is_null.count().await.unwrap(), nulls, "{column}");
    }
    let table = context.table("x").await.unwrap();
    let nullable: Vec<bool> = table.schema().fields().iter().map(|field| field.is_nullable()).collect();
    assert_eq!(nullable, [true, true, true, false]);
}

#[tokio::test]
async fn nulls_of_fields_that_are_never_null_are_found_too() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    let dictionary: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::try_new(Int32Array::from(vec![0, 1, 0, 1, 1]), Arc::clone(&texts)).unwrap());
    let runs: ArrayRef = Arc::new(RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 5]), texts.as_string::<i32>()).unwrap());
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(["k"; 5]));
    // Arrow makes no such arrays, and writes them under a schema that is not theirs.
    let of = |is_nullable: bool| {
        let (d, r) = (dictionary.data_type().clone(), runs.data_type().clone());
        let entry = [Field::new("keys", DataType::Utf8, false), Field::new("values", d.clone(), is_nullable)];
        let within: Fields = vec![Field::new("d", d.clone(), is_nullable), Field::new("r", r, is_nullable)].into();
        let entries = Arc::new(Field::new("entries", DataType::Struct(entry.to_vec().into()), false));
        let types = [
            ("s", DataType::Struct(within)),
            ("l", DataType::List(Arc::new(Field::new("item", d, is_nullable)))),
            ("m", DataType::Map(entries, false)),
        ];
        Arc::new(Schema::new(types.map(|(name, data_type)| Field::new(name, data_type, false)).to_vec()))
    };
    let schema = of(true);
    let fields = |index: usize| match schema.field(index).data_type() {
        DataType::Struct(fields) => fields.clone(),
        DataType::List(field) | DataType::Map(field, _) => Fields::from(vec![Arc::clone(field)]),
        other => panic!("{other}"),
    };
    let within = StructArray::new(fields(0), vec![Arc::clone(&dictionary), Arc::clone(&runs)], None);
    let one_each = || OffsetBuffer::from_lengths([1; 5]);
    let lists = ListArray::new(Arc::clone(&fields(1)[0]), one_each(), Arc::clone(&dictionary), None);
    let DataType::Struct(entry) = fields(2)[0].data_type().clone() else { panic!("no entries") };
    let map = MapArray::new(Arc::clone(&fields(2)[0]), one_each(), StructArray::new(entry, vec![names, Arc::clone(&dictionary)], None), None, false);
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(within), Arc::new(lists), Arc::new(map)]).unwrap();

    let (context, directory, _) = session();
    for compression in [None, Some(CompressionType::LZ4_FRAME)] {
        let file = path(&directory, &format!("x{}.arrow", usize::from(compression.is_some())));
        let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
        let mut writer = FileWriter::try_new_with_options(File::create(&file).unwrap(), &of(false), options).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        let name = format!("x{}", usize::from(compression.is_some()));
        context.register_alkaid(&name, &file, AlkaidReadOptions::default()).await.unwrap();
        for (value, nulls) in [("s['d']", 3), ("s['r']", 3), ("l[1]", 3), ("map_extract(m, 'k')[1]", 3), ("m", 0), ("s", 0)] {
            let sql = |is_null: &str| format!("SELECT * FROM {name} WHERE {value} {is_null}");
            let (null, valid) = (context.sql(&sql("IS NULL")).await.unwrap(), context.sql(&sql("IS NOT NULL")).await.unwrap());
            assert_eq!((null.count().await.unwrap(), valid.count().await.unwrap()), (nulls, 5 - nulls), "{value}");
        }
        let rows = context.table(&name).await.unwrap().collect().await.unwrap();
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 5);
        let copy = path(&directory, &format!("{name}.fermion"));
        let written = context.table(&name).await.unwrap().write_fermion(&copy, &[], FermionWriteOptions::default()).await.unwrap();
        assert_eq!(written[0].num_rows(), 1);
        context.register_fermion(format!("f{name}"), &copy, FermionReadOptions::default()).await.unwrap();
        let null = context.sql(&format!("SELECT * FROM f{name} WHERE s['d'] IS NULL AND s['r'] IS NULL")).await.unwrap();
        assert_eq!(null.count().await.unwrap(), 2);
    }
}
