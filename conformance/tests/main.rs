//! DataFusion's own SQL tests, run again over Fermion.
//!
//! Every file of the suite runs as it is; this is the baseline. It runs again in one or both of these ways, and must say the same:
//!
//! - **format**: what it stores as Parquet is stored as Fermion ([`rewrite`]). For files that store Parquet.
//! - **memory**: what it keeps in memory is kept in Fermion files ([`session`]). For files that create tables in memory.
//!
//! A record takes part if its baseline is what the suite expects; some are not, for want of data files that do not ship with the crate. The text of
//! plans is counted and not compared: it names formats and byte ranges. Errors are compared by their kind. Every other difference is a failure, unless
//! `known.txt` says why it is right; and so is a panic, whatever that says, and a whole run in which fewer records are equal than there should be.
//!
//! `cargo test -p fermion-conformance -- joins` runs the files whose names contain `joins`.

mod compare;
mod known;
mod report;
mod rewrite;
mod run;
mod session;
mod suite;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Failed, Trial};

use crate::report::Report;
use crate::suite::{Suite, SuiteFile};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    match conclude(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("the suite cannot be prepared: {error}");
            ExitCode::FAILURE
        }
    }
}

fn conclude(arguments: &Arguments) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let suite = Suite::prepare()?;
    let report = Arc::new(Mutex::new(Report::default()));
    let mut trials = Vec::new();
    for file in suite.files()? {
        let report = Arc::clone(&report);
        trials.push(Trial::test(file.name().to_owned(), move || trial(&file, &report)));
    }
    let conclusion = libtest_mimic::run(arguments, trials);
    let is_whole = arguments.filter.is_none() && arguments.skip.is_empty() && !arguments.list;
    let mut shortfalls = Vec::new();
    if let Ok(report) = report.lock() {
        eprintln!("{report}");
        shortfalls.extend(report.shortfalls());
    }
    if is_whole && !shortfalls.is_empty() {
        eprintln!("{}", shortfalls.join("\n"));
        return Ok(ExitCode::FAILURE);
    }
    Ok(conclusion.exit_code())
}

fn trial(file: &SuiteFile, report: &Mutex<Report>) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).thread_stack_size(16 << 20).enable_all().build()?;
    let tallies = runtime.block_on(run::run_file(file))?;
    let failures: Vec<String> = tallies.iter().flat_map(|tally| tally.differences.iter().cloned()).collect();
    if let Ok(mut report) = report.lock() {
        report.add(tallies);
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n\n").into()) }
}
