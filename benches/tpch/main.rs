//! TPC-H as Parquet and as Fermion, side by side: sizes, write times, the 22 queries, queries that read whole columns, and
//! queries that statistics answer.
//!
//! ```text
//! cargo bench --bench tpch -- --scale 1 --runs 5
//! ```
//!
//! | option | |
//! |---|---|
//! | `--scale F` | scale factor, 1 by default |
//! | `--runs N` | measured runs of each query, after the one whose rows are compared; 5 by default |
//! | `--writes N` | how often each table is written; 3 by default |
//! | `--dir DIR` | where the files go (and stay: the next call with `--writes 0` takes them as they are); by default a temporary directory |
//! | `--only PART` | `tpch`, `columns` or `statistics`, or the name of one query |
//!
//! The two sides take turns within each table and each query, so that a machine that slows down slows both, and who begins changes from run to run:
//! the allocator keeps memory that the first has returned, and the second does not grow by it. Every number is a median, except growth, which is the
//! most of all runs. A time is that of planning and running the SQL in a session that has seen the file before. Bytes read are the scans' own metric `bytes_scanned`, which counts what
//! was fetched of the data and of metadata that was not cached. Before it is measured a query is asked on both sides and its rows
//! must be the same.
//!
//! Prints Markdown to standard output and progress to standard error.
#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

mod agree;
mod columns;
mod data;
mod fingerprint;
mod memory;
mod queries;
mod report;
mod side;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{env, thread};

use datafusion::prelude::SessionConfig;

use crate::queries::Query;
use crate::report::{Compared, Written};
use crate::side::{Cost, Side};

/// The allocator of the command line, so that what is measured is what is used.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    let options = Options::parse(env::args().skip(1))?;
    if !options.bench {
        println!("nothing to test here; `cargo bench --bench tpch` measures");
        return Ok(());
    }
    let partitions = thread::available_parallelism()?.get();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(partitions).enable_all().build()?;
    runtime.block_on(run(&options, partitions))
}

#[derive(Debug)]
struct Options {
    /// Cargo says `--bench` when it wants to measure and not when it tests.
    bench: bool,
    scale: f64,
    runs: usize,
    writes: usize,
    dir: Option<PathBuf>,
    only: Option<String>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self { bench: false, scale: 1.0, runs: 5, writes: 3, dir: None, only: None };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--bench" => options.bench = true,
                "--test" => {}
                "--scale" => options.scale = value()?.parse()?,
                "--runs" => options.runs = value()?.parse()?,
                "--writes" => options.writes = value()?.parse()?,
                "--dir" => options.dir = Some(value()?.into()),
                "--only" => options.only = Some(value()?),
                other => return Err(format!("unknown option {other}").into()),
            }
        }
        if options.runs == 0 {
            return Err("--runs 0 measures nothing".into());
        }
        Ok(options)
    }

    fn wants(&self, part: &str, query: &Query) -> bool {
        self.only.as_ref().is_none_or(|only| only == part || *only == query.name || *only == query.name.trim_matches('`'))
    }
}

async fn run(options: &Options, partitions: usize) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let dir = options.dir.clone().unwrap_or_else(|| scratch.path().to_owned());
    let config = SessionConfig::new().with_target_partitions(partitions);
    let mut sides = [Side::parquet(&dir, &config)?, Side::fermion(&dir, &config)?];

    let tables = write(options, &sides).await?;
    for side in &mut sides {
        let time = side.open().await?;
        eprintln!("{}: tables created in {:.1} ms", side.name, time.as_secs_f64() * 1e3);
    }
    let lineitem = tpchgen_arrow::LineItemArrow::schema_ref();
    let mut failures = Vec::new();
    let tpch = compare(options, "tpch", &sides, queries::tpch(), &mut failures).await;
    let whole = compare(options, "columns", &sides, columns::whole_columns(&lineitem), &mut failures).await;
    let statistics = compare(options, "statistics", &sides, columns::statistics(&lineitem), &mut failures).await;

    println!(
        "<!-- bench:tpch -->\n{}",
        report::summary(options, partitions, &tables, &[("22 queries", &tpch), ("whole columns", &whole), ("statistics", &statistics)])
    );
    print_details("Files and write times", &report::written(&tables));
    for (title, part) in [("The 22 queries", &tpch), ("Whole columns of lineitem", &whole), ("Answers from statistics", &statistics)] {
        print_details(title, &(report::compared(part) + "\n" + &report::slower(part)));
    }
    println!("<!-- /bench:tpch -->");
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

fn print_details(title: &str, table: &str) {
    println!("<details><summary>{title}</summary>\n\n{table}\n</details>\n");
}

/// Writes every table on both sides, in turn.
async fn write(options: &Options, sides: &[Side; 2]) -> Result<Vec<Written>> {
    if options.writes == 0 && !sides.iter().all(Side::has_files) {
        return Err("--writes 0 needs a --dir with files of an earlier call".into());
    }
    let mut written = Vec::new();
    for table in data::TABLES {
        let mut times = [Vec::new(), Vec::new()];
        if options.writes > 0 {
            // Rows of several partitions would be written as they come: in another order at each run, and not in that of the generator.
            let source = side::context(&SessionConfig::new().with_repartition_file_scans(false).with_round_robin_repartition(false))?;
            source.register_table(table, Arc::new(data::table(table, options.scale)?))?;
            for run in 0..options.writes {
                for at in turns(run) {
                    times[at].push(sides[at].write(&source, table).await?);
                }
            }
        }
        let sizes = [sides[0].file_size(table)?, sides[1].file_size(table)?];
        let times = times.map(|times| median(times).unwrap_or_default());
        eprintln!("{table}: {sizes:?} bytes, {times:.2?}");
        written.push(Written { table: table.to_owned(), sizes, times });
    }
    Ok(written)
}

/// Asks each query on both sides in turn. One that fails, or has two answers, is said in `failures` and not measured.
async fn compare(options: &Options, part: &str, sides: &[Side; 2], queries: Vec<Query>, failures: &mut Vec<String>) -> Vec<Compared> {
    let mut compared = Vec::new();
    for query in queries.into_iter().filter(|query| options.wants(part, query)) {
        match compare_one(options, part, sides, &query).await {
            Ok(costs) => {
                eprintln!("{}: {:.1?}, {:.1?}", query.name, costs[0].time, costs[1].time);
                compared.push(Compared { query: query.name, costs });
            }
            Err(error) => {
                eprintln!("{}: {error}", query.name);
                failures.push(format!("{}: {error}", query.name));
            }
        }
    }
    compared
}

async fn compare_one(options: &Options, part: &str, sides: &[Side; 2], query: &Query) -> Result<[Cost; 2]> {
    agree(part, sides, query).await?;
    let mut costs = [Vec::new(), Vec::new()];
    for run in 0..options.runs {
        for at in turns(run) {
            costs[at].push(sides[at].run(query).await?);
        }
    }
    let [parquet, fermion] = costs.map(|costs| middle(&costs).ok_or("no run"));
    Ok([parquet?, fermion?])
}

/// Which side goes first in a run, and which second.
fn turns(run: usize) -> [usize; 2] {
    if run.is_multiple_of(2) { [0, 1] } else { [1, 0] }
}

/// Fails when the two sides give different rows.
async fn agree(part: &str, sides: &[Side; 2], query: &Query) -> Result<()> {
    let [parquet, fermion] = sides;
    let found = if part != "tpch" {
        // Millions of rows: too many to keep and sort.
        let (left, right) = (parquet.fingerprint(query).await?, fermion.fingerprint(query).await?);
        if left == right { Ok(()) } else { Err(format!("{left:?} and {right:?}")) }
    } else {
        agree::check(&parquet.answer(query).await?, &fermion.answer(query).await?)
    };
    found.map_err(|difference| format!("Parquet and Fermion differ: {difference}").into())
}

fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort();
    times.get(times.len() / 2).copied()
}

/// The run of median time, with the most memory of all.
fn middle(costs: &[Cost]) -> Option<Cost> {
    let time = median(costs.iter().map(|cost| cost.time).collect())?;
    let memory = costs.iter().filter_map(|cost| cost.memory).max();
    costs.iter().find(|cost| cost.time == time).map(|cost| Cost { memory, ..*cost })
}
