//! Fermion beside its peers, in one process: Parquet as DataFusion reads it by default and with its filters in the scan, Vortex, and the same rows as Arrow
//! batches in memory.
//!
//! ```text
//! cargo run --release --manifest-path benches/peers/Cargo.toml -- --dir /tmp/peers
//! ```
//!
//! [README.md](../README.md) says what is asked, and what the options are.
#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

#[path = "../../tpch/agree.rs"]
mod agree;
mod alone;
mod check;
#[path = "../../tpch/data.rs"]
mod data;
mod dataset;
#[path = "../../tpch/fingerprint.rs"]
mod fingerprint;
mod hits;
mod ladder;
mod measure;
#[path = "../../tpch/memory.rs"]
mod memory;
mod options;
mod peak;
mod plot;
#[path = "../../tpch/queries.rs"]
mod queries;
mod random;
mod report;
mod session;
mod side;
mod store;
mod suites;
mod wide;
mod words;

use std::error::Error;
use std::path::Path;
use std::time::Duration;
use std::{env, fs, thread};

use crate::alone::Alone;
use crate::dataset::{Dataset, Tables, Written};
use crate::options::Options;
use crate::report::Part;
use crate::session::Session;

/// The allocator of the command line, so that what is measured is what is used.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Everything that was found out.
#[derive(Default)]
struct Findings {
    written: Vec<Written>,
    parts: Vec<Part>,
    alone: Vec<Alone>,
    failures: Vec<String>,
}

fn main() -> Result<()> {
    let options = Options::parse(env::args().skip(1))?;
    let partitions = thread::available_parallelism()?.get();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(partitions).enable_all().build()?;
    runtime.block_on(run(&options, partitions))
}

async fn run(options: &Options, partitions: usize) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let dir = options.dir.as_deref().unwrap_or(scratch.path());
    fs::create_dir_all(dir)?;
    let dir = &dir.canonicalize()?;
    if let Some(title) = &options.peak {
        return print_peak(options, title, dir, partitions).await;
    }
    let mut findings = Findings::default();
    for dataset in options.datasets() {
        compare(options, dataset, dir, partitions, &mut findings).await?;
    }
    print(options, partitions, &findings);
    if let Some(plots) = options.plots.as_deref().or(options.dir.as_deref()) {
        plot::write(plots, &options.sides, &findings.parts)?;
    }
    if findings.failures.is_empty() { Ok(()) } else { Err("not every side gave every answer, see above".into()) }
}

/// Everything that is asked of one dataset.
async fn compare(options: &Options, dataset: Dataset, dir: &Path, partitions: usize, findings: &mut Findings) -> Result<()> {
    let sections = options.sections(&dataset);
    if sections.is_empty() {
        return Ok(());
    }
    let mut tables = Tables::new(dataset, dir);
    findings.written.extend(tables.prepare(&options.sides, options.writes).await?);
    let mut sessions = Vec::new();
    for side in &options.sides {
        sessions.push(Session::open(*side, &tables, partitions).await?);
    }
    tables.forget();
    if let Dataset::Wide { columns, files: 1 } = dataset {
        findings.alone.extend(alone::measure(columns, &suites::wide::counts(columns), &tables, &options.sides, options.runs).await?);
    }
    let first = findings.parts.len();
    for section in &sections {
        let measured = measure::section(section, &tables, &sessions, options.runs, &mut findings.failures).await?;
        findings.parts.push(Part { suite: section.suite, title: section.title.clone(), measured, peaks: Vec::new() });
    }
    // What is in memory here is in memory once more in the process that measures it.
    drop(sessions);
    for (part, section) in findings.parts.iter_mut().skip(first).zip(&sections) {
        for side in &options.sides {
            part.peaks.push(peak::of(options, dir, side, section)?);
        }
    }
    Ok(())
}

async fn print_peak(options: &Options, title: &str, dir: &Path, partitions: usize) -> Result<()> {
    for dataset in options.datasets() {
        let sections = options.sections(&dataset);
        if let (Some(section), Some(side)) = (sections.iter().find(|section| section.title == *title), options.sides.first())
            && let Some(peak) = peak::measure(*side, dataset, section, dir, partitions).await?
        {
            println!("{} {}", peak.peak, peak.retained);
        }
    }
    Ok(())
}

fn print(options: &Options, partitions: usize, findings: &Findings) {
    let Findings { written, parts, alone, failures } = findings;
    let sides = &options.sides;
    println!("TPC-H at scale factor {}, other tables with {} rows, {partitions} partitions.\n", options.scale, options.rows);
    println!("{}", report::summary(sides, parts));
    println!("{}", report::files(written));
    println!("{}", report::peaks(sides, parts));
    if !alone.is_empty() {
        println!("{}", report::alone(alone));
    }
    for part in parts {
        println!("{}", report::folded(&part.title, &(report::times(sides, part) + "\n" + &report::slower(sides, part))));
        println!("{}", report::folded(&format!("{}: what was read", part.title), &report::traffic(sides, part)));
    }
    if !failures.is_empty() {
        println!("Not every side gave every answer:\n\n- {}\n", failures.join("\n- "));
    }
}

fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort();
    times.get(times.len() / 2).copied()
}
