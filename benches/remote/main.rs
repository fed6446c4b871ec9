//! A table in a store far away, as Parquet and as Fermion, or as Arrow: requests, bytes and time.
//!
//! ```text
//! cargo bench --bench remote -- --rows 2000000 --runs 3
//! cargo bench --bench remote -- --rows 2000000 --runs 3 --arrow
//! ```
//!
//! The store is simulated: each request takes 1, 10 or 50 ms, and all share a line of 200 MB/s. The table is made by SQL, the same for both. The sides take turns within each query, every time is a median,
//! and the rows must be the same. `register` is a session of its own; other queries find its metadata in the session's cache. Parquet is DataFusion's own with its defaults, and with `pushdown_filters`.
//! `--arrow` compares DataFusion's own source of Arrow files with this crate's, which read the same file; ZSTD compresses it.
//! `--gap BYTES` sets Fermion's `coalesce_gap`, from which its default was chosen. Prints Markdown to standard output.
#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

#[path = "../tpch/fingerprint.rs"]
mod fingerprint;
mod store;

use std::env;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use tokio::runtime::Runtime;

use crate::fingerprint::Fingerprint;
use crate::store::{FarStore, Traffic};

/// The allocator of the command line, so that what is measured is what is used.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

const LATENCIES: [u64; 3] = [1, 10, 50];
/// Bytes per second.
const BANDWIDTH: f64 = 200e6;

/// Events in the order of their ids, with numbers and texts of all sorts.
const EVENTS: &str = "
    SELECT value AS id, to_timestamp_seconds(1735689600 + value / 7) AS at, value * 7919 % 100003 AS user_id, value % 17 AS kind, value * 31 % 1000 / 10.0 AS price,
           value * 104729 % 65521 AS a, value * 13 % 97 AS b, value / 100 AS c, sin(value) AS d, cos(value) AS e, value * 37 % 10000 AS f,
           concat('user ', value * 7919 % 100003) AS name, md5(CAST(value AS VARCHAR)) AS hash, concat('https://example.org/', value % 5000, '/', value % 13) AS url,
           concat('city ', value * 31 % 1000) AS city, CASE WHEN value % 3 = 0 THEN concat('note ', value % 100) END AS note
    FROM generate_series(1, ";

/// What it is about, and the query. No file knows what numbers come to by `bit_xor`.
const QUERIES: [(&str, &str); 9] = [
    ("count", "SELECT count(*) FROM events"),
    ("one column", "SELECT bit_xor(a) FROM events"),
    (
        "ten columns",
        "SELECT bit_xor(id), bit_xor(user_id), bit_xor(kind), max(price), bit_xor(a), bit_xor(b), bit_xor(c), max(d), min(e), bit_xor(f) FROM events",
    ),
    ("a range of the key", "SELECT * FROM events WHERE id BETWEEN 1000000 AND 1000100"),
    ("a value in no order", "SELECT hash, url, price FROM events WHERE user_id = 4711"),
    ("the last rows", "SELECT * FROM events ORDER BY id DESC LIMIT 10"),
    ("the first of another order", "SELECT * FROM events ORDER BY hash LIMIT 10"),
    ("a hundred of another order", "SELECT * FROM events ORDER BY price DESC, user_id LIMIT 100"),
    ("all", "SELECT * FROM events"),
];

struct Side {
    name: &'static str,
    /// Its word in `STORED AS`, and what its files end with.
    word: &'static str,
    /// Whether filters are pushed into the scan of Parquet.
    pushdown: bool,
    /// Whether this crate reads it.
    is_ours: bool,
}

/// The sides; what the last gains is shown.
const SIDES: [Side; 3] = [
    Side { name: "Parquet", word: "parquet", pushdown: false, is_ours: false },
    Side { name: "pushdown", word: "parquet", pushdown: true, is_ours: false },
    Side { name: "Fermion", word: "fermion", pushdown: false, is_ours: true },
];

const ARROW_SIDES: [Side; 2] = [
    Side { name: "DataFusion's source", word: "arrow", pushdown: false, is_ours: false },
    Side { name: "this crate's", word: "arrow", pushdown: false, is_ours: true },
];

fn main() -> Result<()> {
    let (mut bench, mut rows, mut runs, mut gap, mut arrow) = (false, 2_000_000_u64, 3_usize, None, "");
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--bench" => bench = true,
            "--test" => {}
            "--rows" => rows = value()?.parse()?,
            "--runs" => runs = value()?.parse::<usize>()?.max(1),
            "--arrow" => arrow = " --arrow",
            "--gap" => gap = Some(value()?.parse::<u64>()?),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    if !bench {
        println!("nothing to test here; `cargo bench --bench remote` measures");
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let store = Arc::new(FarStore::new(BANDWIDTH));
    let sides: &[Side] = if arrow.is_empty() { &SIDES } else { &ARROW_SIDES };
    write(&runtime, &store, sides, rows)?;
    println!("{rows} rows of 16 columns; `cargo bench --bench remote -- --rows {rows} --runs {runs}{arrow}`\n");
    let names: Vec<String> = sides.iter().map(|side| format!("{}, ms", side.name)).collect();
    println!("| | ms of a request | {} | faster by | requests | MB |", names.join(" | "));
    println!("|---|{}", "--:|".repeat(names.len() + 4));
    for latency in LATENCIES {
        measure(&runtime, &store, sides, Duration::from_millis(latency), runs, gap)?;
    }
    Ok(())
}

fn session(store: &Arc<FarStore>, side: &Side) -> Result<SessionContext> {
    let mut config = SessionConfig::new().with_target_partitions(2);
    config.options_mut().execution.parquet.pushdown_filters = side.pushdown;
    config.options_mut().execution.parquet.compression = Some("zstd(3)".to_owned());
    let state = SessionStateBuilder::new().with_config(config).with_default_features();
    let context = SessionContext::new_with_state(if side.is_ours { datafusion_fermion::with_rules(state) } else { state }.build());
    if side.is_ours {
        datafusion_fermion::register(&context)?;
    }
    let store: Arc<dyn object_store::ObjectStore> = Arc::<FarStore>::clone(store);
    context.register_object_store(ObjectStoreUrl::parse("far://store")?.as_ref(), store);
    Ok(context)
}

fn write(runtime: &Runtime, store: &Arc<FarStore>, sides: &[Side], rows: u64) -> Result<()> {
    for side in sides {
        let options = if side.word == "arrow" && side.is_ours { " OPTIONS ('alkaid.compression' 'zstd')" } else { "" };
        let sql = format!("COPY ({EVENTS}{rows}) ORDER BY id) TO 'far://store/events.{0}' STORED AS {0}{options}", side.word);
        runtime.block_on(async { session(store, side)?.sql(&sql).await?.collect().await.map_err(Box::<dyn Error>::from) })?;
    }
    Ok(())
}

/// What was found of a side in a query.
#[derive(Default)]
struct Found {
    times: Vec<Duration>,
    traffic: Traffic,
}

fn measure(runtime: &Runtime, store: &Arc<FarStore>, sides: &[Side], latency: Duration, runs: usize, gap: Option<u64>) -> Result<()> {
    store.set_latency(latency);
    let mut found: Vec<Found> = sides.iter().map(|_| Found::default()).collect();
    let mut sessions = Vec::new();
    for run in 0..runs {
        for (side, found) in sides.iter().zip(&mut found) {
            let session = session(store, side)?;
            if let Some(gap) = gap.filter(|_| side.is_ours) {
                read(runtime, &session, &format!("SET fermion.coalesce_gap = {gap}"), |_| Ok(()))?;
            }
            let sql = format!("CREATE EXTERNAL TABLE events STORED AS {0} LOCATION 'far://store/events.{0}'", side.word);
            ask(runtime, store, &session, &sql, found)?;
            if run + 1 == runs {
                sessions.push(session);
            }
        }
    }
    report("register", latency, &mut found);
    for (about, sql) in QUERIES {
        let mut found: Vec<Found> = sides.iter().map(|_| Found::default()).collect();
        for _ in 0..runs {
            for (session, found) in sessions.iter().zip(&mut found) {
                ask(runtime, store, session, sql, found)?;
            }
        }
        store.set_latency(Duration::ZERO);
        let rows = sessions.iter().map(|session| rows(runtime, session, sql)).collect::<Result<Vec<_>>>()?;
        if rows.iter().any(|of| *of != rows[0]) {
            return Err(format!("the rows of {sql} differ").into());
        }
        store.set_latency(latency);
        report(about, latency, &mut found);
    }
    store.set_latency(Duration::ZERO);
    Ok(())
}

fn ask(runtime: &Runtime, store: &FarStore, session: &SessionContext, sql: &str, found: &mut Found) -> Result<()> {
    store.take_traffic();
    let start = Instant::now();
    read(runtime, session, sql, |_| Ok(()))?;
    found.times.push(start.elapsed());
    found.traffic = store.take_traffic();
    Ok(())
}

fn rows(runtime: &Runtime, session: &SessionContext, sql: &str) -> Result<Fingerprint> {
    let mut rows = Fingerprint::default();
    read(runtime, session, sql, |batch| Ok(rows.add(batch)?))?;
    Ok(rows)
}

fn read(runtime: &Runtime, session: &SessionContext, sql: &str, mut see: impl FnMut(&RecordBatch) -> Result<()>) -> Result<()> {
    runtime.block_on(async {
        let plan = session.sql(sql).await?.create_physical_plan().await?;
        let mut batches = execute_stream(plan, session.task_ctx())?;
        while let Some(batch) = batches.try_next().await? {
            see(&batch)?;
        }
        Ok(())
    })
}

fn report(about: &str, latency: Duration, found: &mut [Found]) {
    let medians: Vec<f64> = found
        .iter_mut()
        .map(|side| {
            side.times.sort_unstable();
            side.times[side.times.len() / 2].as_secs_f64() * 1e3
        })
        .collect();
    let Some((ours, others)) = medians.split_last() else { return };
    let best = others.iter().copied().fold(f64::INFINITY, f64::min);
    let of = |number: &dyn Fn(&Found) -> String| found.iter().map(number).collect::<Vec<_>>().join(" / ");
    println!(
        "| {about} | {} | {} | {:.2} | {} | {} |",
        latency.as_millis(),
        medians.iter().map(|median| format!("{median:.1}")).collect::<Vec<_>>().join(" | "),
        best / ours,
        of(&|side| side.traffic.requests.to_string()),
        of(&|side| format!("{:.2}", side.traffic.bytes as f64 / 1e6))
    );
}
