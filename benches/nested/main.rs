//! Structs, lists and maps as Parquet and as Fermion, side by side: what is read of them, and how fast.
//!
//! ```text
//! cargo bench --bench nested -- --rows 1000000 --runs 5
//! ```
//!
//! The table is made by SQL, the same for both. The sides take turns within each query, every number is a median, and before it is measured a query is asked on all
//! sides and its rows must be the same. Parquet is DataFusion's own with its defaults, and with `pushdown_filters`. Bytes are the scans' own metric. Prints Markdown to standard output.
#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

#[path = "../tpch/fingerprint.rs"]
mod fingerprint;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch};
use arrow::datatypes::Field;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;

use crate::fingerprint::Fingerprint;

/// The allocator of the command line, so that what is measured is what is used.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// What a visitor did: who it was (at times unknown), tags, measures, and what was bought.
const VISITS: &str = "
    SELECT value AS id,
           CASE WHEN value % 20 <> 0 THEN {
               seq: value, number: value * 7919 % 100003, name: concat('visitor ', value * 7919 % 100003),
               address: {city: concat('city ', value * 31 % 1000), zip: value * 104729 % 90001, street: md5(CAST(value AS VARCHAR))}
           } END AS visitor,
           array_slice(make_array(concat('tag', value % 50), concat('tag', value * 7 % 90), concat('tag', value % 13)), 1, value % 4) AS tags,
           MAP {'width': value % 1920, 'height': value * 13 % 1080} AS screen,
           array_slice(make_array(
               {sku: concat('sku', value * 11 % 5000), price: value * 37 % 10000, quantity: value % 9, note: md5(CAST(value AS VARCHAR))},
               {sku: concat('sku', value * 17 % 5000), price: value * 41 % 10000, quantity: value % 5, note: md5(CAST(value + 1 AS VARCHAR))}
           ), 1, value % 3) AS items
    FROM generate_series(1, ";

/// What it is about, and the query.
const QUERIES: [(&str, &str); 15] = [
    ("a field", "SELECT sum(visitor['number']) FROM visits"),
    ("a field of a field, grouped", "SELECT visitor['address']['city'], count(*) FROM visits GROUP BY 1"),
    ("two fields", "SELECT visitor['name'], visitor['address']['zip'] FROM visits"),
    ("a struct", "SELECT visitor FROM visits"),
    ("a field by another, not sorted", "SELECT visitor['name'] FROM visits WHERE visitor['address']['zip'] = 12345"),
    ("a field by another, sorted", "SELECT visitor['address']['street'] FROM visits WHERE visitor['seq'] BETWEEN 500000 AND 500100"),
    ("null structs", "SELECT count(*) FROM visits WHERE visitor IS NULL"),
    ("lists", "SELECT tags FROM visits"),
    ("lists by length", "SELECT count(*) FROM visits WHERE array_length(tags) = 3"),
    ("lengths of lists", "SELECT avg(array_length(tags)), avg(cardinality(items)) FROM visits"),
    ("lengths by group", "SELECT array_length(tags) AS tags, count(*), sum(cardinality(items)) FROM visits GROUP BY 1"),
    ("a value of a map", "SELECT sum(screen['width']) FROM visits"),
    ("structs of lists", "SELECT items FROM visits"),
    ("unnested", "SELECT item['sku'], sum(item['price'] * item['quantity']) FROM (SELECT unnest(items) AS item FROM visits) GROUP BY 1"),
    ("all", "SELECT * FROM visits"),
];

fn main() -> Result<()> {
    let options = Options::parse(env::args().skip(1))?;
    if !options.bench {
        println!("nothing to test here; `cargo bench --bench nested` measures");
        return Ok(());
    }
    let partitions = thread::available_parallelism()?.get();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(partitions).enable_all().build()?;
    let dir = tempfile::tempdir()?;
    runtime.block_on(async {
        let Options { rows, runs, .. } = options;
        println!("{rows} rows, {partitions} partitions, Parquet with zstd 3; `cargo bench --bench nested -- --rows {rows} --runs {runs}`\n");
        write(dir.path(), rows, runs).await?;
        println!();
        compare(dir.path(), partitions, runs).await
    })
}

struct Options {
    /// Cargo says `--bench` when it wants to measure and not when it tests.
    bench: bool,
    rows: usize,
    runs: usize,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self { bench: false, rows: 1_000_000, runs: 5 };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--bench" => options.bench = true,
                "--rows" => options.rows = value()?.parse()?,
                "--runs" => options.runs = value()?.parse::<usize>()?.max(1),
                other => return Err(format!("{other} is not an option").into()),
            }
        }
        Ok(options)
    }
}

fn session(partitions: usize) -> Result<SessionContext> {
    let config = SessionConfig::new().with_target_partitions(partitions);
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    let context = SessionContext::new_with_state(datafusion_fermion::with_rules(builder).build());
    datafusion_fermion::register(&context)?;
    Ok(context)
}

/// Writes the table in both formats, from memory.
async fn write(dir: &Path, rows: usize, runs: usize) -> Result<()> {
    // In one partition, so that rows stay in their order.
    let context = session(1)?;
    let made = context.sql(&format!("{VISITS}{rows})")).await?.cache().await?;
    context.register_table("visits", made.into_view())?;
    let formats =
        [("parquet", "STORED AS PARQUET OPTIONS ('compression' 'zstd(3)')"), ("fermion", "STORED AS FERMION OPTIONS ('fermion.threads' '2')")];
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..runs {
        for (times, (extension, how)) in times.iter_mut().zip(formats) {
            let path = dir.join(format!("visits.{extension}"));
            if path.exists() {
                fs::remove_file(&path)?;
            }
            let start = Instant::now();
            context.sql(&format!("COPY visits TO '{}' {how}", path.display())).await?.collect().await?;
            times.push(start.elapsed());
        }
    }
    let sizes = formats.map(|(extension, _)| fs::metadata(dir.join(format!("visits.{extension}"))).map(|metadata| megabytes(metadata.len())));
    let [parquet, fermion] = sizes;
    let (parquet, fermion) = (parquet?, fermion?);
    println!("| | Parquet | Fermion | better by |\n|---|--:|--:|--:|\n| file size, MB | {parquet:.1} | {fermion:.1} | {:.2} |", parquet / fermion);
    let [parquet, fermion] = times.map(|times| milliseconds(median(times)));
    println!("| write, ms | {parquet:.0} | {fermion:.0} | {:.2} |", parquet / fermion);
    Ok(())
}

async fn compare(dir: &Path, partitions: usize, runs: usize) -> Result<()> {
    println!("| query | Parquet, ms | pushdown, ms | Fermion, ms | faster by | Parquet, MB read | Fermion, MB read |\n|---|--:|--:|--:|--:|--:|--:|");
    let (parquet, pushdown, fermion) = (session(partitions)?, session(partitions)?, session(partitions)?);
    pushdown.sql("SET datafusion.execution.parquet.pushdown_filters = true").await?;
    for (context, format) in [(&parquet, "parquet"), (&pushdown, "parquet"), (&fermion, "fermion")] {
        let path = dir.join(format!("visits.{format}"));
        context.sql(&format!("CREATE EXTERNAL TABLE visits STORED AS {format} LOCATION '{}'", path.display())).await?;
    }
    let sides = [parquet, pushdown, fermion];
    let mut logarithms = 0.0;
    for (name, query) in QUERIES {
        let expected = fingerprint(&sides[0], query).await?;
        for side in &sides[1..] {
            if fingerprint(side, query).await? != expected {
                return Err(format!("{name}: the answers differ").into());
            }
        }
        let (mut times, mut bytes) = ([Vec::new(), Vec::new(), Vec::new()], [0; 3]);
        for run in 0..runs {
            for turn in 0..sides.len() {
                let side = (run + turn) % sides.len();
                let (time, read) = run_once(&sides[side], query).await?;
                times[side].push(time);
                bytes[side] = read;
            }
        }
        let [parquet, pushdown, fermion] = times.map(|times| milliseconds(median(times)));
        let [read, _, read_by_fermion] = bytes.map(megabytes);
        let best = parquet.min(pushdown);
        logarithms += (best / fermion).ln();
        println!("| {name} | {parquet:.1} | {pushdown:.1} | {fermion:.1} | {:.2} | {read:.2} | {read_by_fermion:.2} |", best / fermion);
    }
    let mean = (logarithms / f64::from(u32::try_from(QUERIES.len())?)).exp();
    println!("| geometric mean, over the better of the two | | | | {mean:.2} | | |");
    Ok(())
}

async fn fingerprint(context: &SessionContext, query: &str) -> Result<Fingerprint> {
    let mut fingerprint = Fingerprint::default();
    let mut stream = context.sql(query).await?.execute_stream().await?;
    while let Some(batch) = stream.try_next().await? {
        fingerprint.add(&without_maps(&batch)?)?;
    }
    Ok(fingerprint)
}

/// Maps as lists of their entries, which can be compared.
fn without_maps(batch: &RecordBatch) -> Result<RecordBatch> {
    let list = |array: &ArrayRef| -> ArrayRef {
        let Some(map) = array.as_map_opt() else { return Arc::clone(array) };
        let item = Arc::new(Field::new_list_field(map.entries().data_type().clone(), false));
        Arc::new(ListArray::new(item, map.offsets().clone(), Arc::new(map.entries().clone()), map.nulls().cloned()))
    };
    let schema = batch.schema();
    let names = schema.fields().iter().map(|field| field.name());
    Ok(RecordBatch::try_from_iter_with_nullable(names.zip(batch.columns().iter().map(list)).map(|(name, array)| (name, array, true)))?)
}

async fn run_once(context: &SessionContext, query: &str) -> Result<(Duration, u64)> {
    let start = Instant::now();
    let plan = context.sql(query).await?.create_physical_plan().await?;
    execute_stream(Arc::clone(&plan), context.task_ctx())?.try_for_each(|_| async { Ok(()) }).await?;
    Ok((start.elapsed(), scanned(&plan)))
}

fn scanned(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name("bytes_scanned")).map_or(0, |sum| sum.as_usize() as u64);
    own + plan.children().into_iter().map(scanned).sum::<u64>()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
