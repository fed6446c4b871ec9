//! Arrow IPC files read by DataFusion's own source and by this crate's, side by side; and, without an engine, by the `arrow-ipc` crate and by this crate's decoder.
//!
//! ```text
//! cargo bench --bench alkaid -- --scale 0.5 --runs 5
//! ```
//!
//! Both sides read the same files: TPC-H's `lineitem`, not compressed, with LZ4 and with ZSTD, and as DataFusion's own `COPY` writes it; and a table of 100 columns of which
//! two are asked for. They take turns within each query, and every number is a median. Before it is measured a query is asked on both sides and its rows must be the
//! same. `--only 'all columns'` measures one query. Prints Markdown to standard output.
#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

mod decode;
mod files;
#[path = "../tpch/fingerprint.rs"]
mod fingerprint;
mod library;
mod sql;

use std::error::Error;
use std::time::{Duration, Instant};
use std::{env, thread};

/// The allocator of the command line, so that what is measured is what is used.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    let options = Options::parse(env::args().skip(1))?;
    if !options.bench {
        println!("nothing to test here; `cargo bench --bench alkaid` measures");
        return Ok(());
    }
    let partitions = thread::available_parallelism()?.get();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(partitions).enable_all().build()?;
    let dir = tempfile::tempdir()?;
    runtime.block_on(async {
        let Options { scale, runs, only, .. } = options;
        files::write(dir.path(), scale).await?;
        println!("`lineitem` at scale factor {scale}, {partitions} partitions; `cargo bench --bench alkaid -- --scale {scale} --runs {runs}`\n");
        sql::compare(dir.path(), partitions, runs, only.as_deref()).await?;
        if only.is_some() {
            return Ok(());
        }
        println!();
        decode::compare(dir.path(), runs)
    })
}

struct Options {
    /// Cargo says `--bench` when it wants to measure and not when it tests.
    bench: bool,
    scale: f64,
    runs: usize,
    /// The one query to measure, and no decoding alone.
    only: Option<String>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self { bench: false, scale: 0.5, runs: 5, only: None };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--bench" => options.bench = true,
                "--test" => {}
                "--scale" => options.scale = value()?.parse()?,
                "--runs" => options.runs = value()?.parse()?,
                "--only" => options.only = Some(value()?),
                other => return Err(format!("unknown option {other}").into()),
            }
        }
        Ok(options)
    }
}

/// How long something takes.
fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
