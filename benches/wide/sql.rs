//! Through SQL: what it takes to make a table of a file, to ask it the first question, and then others.
//!
//! Each side has a directory with one file and one with many. `register` is `CREATE EXTERNAL TABLE` in a session of its own, `first` the first query after it, which sums one column; then come, in turns, queries
//! of one and of ten columns. MemTable has the same columns and no rows: what it takes is the engine's own, for planning with so many columns. Times are medians.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use tokio::runtime::Runtime;

use crate::{Options, Result, SOME, batch, name, write_fermion, write_parquet};

/// Columns above which a directory of many files is left out, for Parquet would take hours.
const MANY_COLUMNS: usize = 10_000;

/// What is compared.
pub(crate) const FORMATS: [&str; 2] = ["parquet", "fermion"];

pub(crate) fn measure(options: &Options) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("\nThe same through SQL, from files: milliseconds; `cargo bench --bench wide`\n");
    println!("| columns | files | | register | first query | one column | ten columns | metadata kept, KB |");
    println!("|--:|--:|---|--:|--:|--:|--:|--:|");
    for columns in &options.columns {
        let directory = tempfile::tempdir()?;
        let table = batch(*columns)?;
        let schema = table.schema();
        for format in &options.sides {
            let file = if *format == FORMATS[0] { write_parquet(&table)? } else { write_fermion(&table, 0)? };
            write(directory.path(), "one", format, 1, &file)?;
            if *columns <= MANY_COLUMNS {
                write(directory.path(), "many", format, options.files, &file)?;
            }
        }
        drop(table);
        // A floor is for one session as for another: an empty table with these columns.
        let floor = Floor::new(&runtime, &schema)?;
        compare(&runtime, &directory.path().join("one"), 1, *columns, options, Some(&floor))?;
        if *columns <= MANY_COLUMNS && options.files > 1 {
            compare(&runtime, &directory.path().join("many"), options.files, *columns, options, None)?;
        }
    }
    Ok(())
}

fn write(directory: &Path, of: &str, format: &str, files: usize, bytes: &Bytes) -> Result<()> {
    let folder = directory.join(of).join(format);
    fs::create_dir_all(&folder)?;
    (0..files).try_for_each(|index| Ok(fs::write(folder.join(format!("{index}.{format}")), bytes)?))
}

/// The queries of one column and of ten.
fn queries(columns: usize) -> [String; 2] {
    let sum = |column: usize| format!("sum({})", name(column));
    let numbers = (0..columns).filter(|column| column % 10 == 1).step_by(columns / 10 / SOME).take(SOME);
    [format!("SELECT {} FROM t", sum(columns / 2 / 10 * 10 + 1)), format!("SELECT {} FROM t", numbers.map(sum).collect::<Vec<_>>().join(", "))]
}

struct Floor {
    session: SessionContext,
}

impl Floor {
    fn new(runtime: &Runtime, schema: &SchemaRef) -> Result<Self> {
        let session = session()?;
        session.register_table("t", Arc::new(MemTable::try_new(Arc::clone(schema), vec![vec![]])?))?;
        ask(runtime, &session, "SELECT 1")?;
        Ok(Self { session })
    }
}

fn session() -> Result<SessionContext> {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    datafusion_fermion::register(&context)?;
    Ok(context)
}

/// The answer as text, and how long it took.
fn ask(runtime: &Runtime, session: &SessionContext, sql: &str) -> Result<(Duration, String)> {
    let start = Instant::now();
    let batches = runtime.block_on(async { session.sql(sql).await?.collect().await })?;
    let time = start.elapsed();
    Ok((time, arrow::util::pretty::pretty_format_batches(&batches)?.to_string()))
}

#[derive(Default)]
struct Times {
    register: Vec<Duration>,
    first: Vec<Duration>,
    one: Vec<Duration>,
    ten: Vec<Duration>,
    kept: usize,
}

fn compare(runtime: &Runtime, directory: &Path, files: usize, columns: usize, options: &Options, floor: Option<&Floor>) -> Result<()> {
    let [one, ten] = queries(columns);
    let mut sides: Vec<Times> = options.sides.iter().map(|_| Times::default()).collect();
    let mut sessions = Vec::new();
    let colds = if columns * files > MANY_COLUMNS { 1 } else { options.runs.min(5) };
    for cold in 0..colds {
        for (format, times) in options.sides.iter().zip(&mut sides) {
            let session = session()?;
            let location = directory.join(format);
            let (register, _) = ask(runtime, &session, &format!("CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{}/'", location.display()))?;
            let (first, _) = ask(runtime, &session, &one)?;
            times.register.push(register);
            times.first.push(first);
            times.kept = session.runtime_env().cache_manager.get_file_metadata_cache().list_entries().values().map(|entry| entry.size_bytes).sum();
            if cold + 1 == colds {
                sessions.push(session);
            }
        }
    }
    // What takes seconds does not need many runs.
    let is_slow = sides.iter().any(|times| times.first.iter().any(|first| first.as_secs() > 0));
    let mut floor_times = Times::default();
    for _ in 0..if is_slow { options.runs.min(3) } else { options.runs } {
        for (sql, of) in [(&one, (|times| &mut times.one) as fn(&mut Times) -> &mut Vec<Duration>), (&ten, |times| &mut times.ten)] {
            let mut answers = Vec::new();
            for (session, times) in sessions.iter().zip(&mut sides) {
                let (time, answer) = ask(runtime, session, sql)?;
                of(times).push(time);
                answers.push(answer);
            }
            if answers.first() != answers.last() {
                return Err(format!("the answers to {sql} differ").into());
            }
            if let Some(floor) = floor {
                of(&mut floor_times).push(ask(runtime, &floor.session, sql)?.0);
            }
        }
    }
    for (name, times) in options.sides.iter().zip(&mut sides) {
        let kept = times.kept as f64 / 1e3;
        let [register, first, one, ten] = [&mut times.register, &mut times.first, &mut times.one, &mut times.ten].map(|times| median(times));
        println!("| {columns} | {files} | {name} | {register:.1} | {first:.1} | {one:.1} | {ten:.1} | {kept:.0} |");
    }
    if floor.is_some() {
        println!("| {columns} | {files} | MemTable | | | {:.1} | {:.1} | |", median(&mut floor_times.one), median(&mut floor_times.ten));
    }
    Ok(())
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}
