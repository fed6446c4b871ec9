//! How much memory a side needs.
//!
//! An allocator keeps what is freed, so a process that has run one side lends its memory to the next: each side gets a process of its own, which is this
//! program again, runs every query of one section once, and says how far it grew beyond what it had with its tables open.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::dataset::{Dataset, Tables};
use crate::options::Options;
use crate::session::Session;
use crate::side::Side;
use crate::suites::Section;
use crate::{Result, memory};

/// What a process of one side took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// How far it grew beyond what it had with its tables open.
    pub(crate) peak: u64,
    /// What it had in the end beyond what it had before.
    pub(crate) retained: u64,
}

/// Has a process of its own measure one side, with files that are there.
pub(crate) fn of(options: &Options, dir: &Path, side: &Side, section: &Section) -> Result<Option<Memory>> {
    let mut command = Command::new(env::current_exe()?);
    // Pages that are free are given back at once: what an allocator keeps for later is no side's need.
    command.env("MIMALLOC_PURGE_DELAY", "0");
    command.args(["--peak", &section.title, "--sides", side.name]);
    command.args(["--scale", &options.scale.to_string(), "--rows", &options.rows.to_string()]);
    let columns: Vec<String> = options.columns.iter().map(usize::to_string).collect();
    command.args(["--columns", &columns.join(",")]);
    command.arg("--dir").arg(dir);
    if let Some(only) = &options.only {
        command.args(["--only", only]);
    }
    let output = command.stderr(Stdio::null()).output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut numbers = text.split_whitespace().map_while(|number| number.parse().ok());
    Ok(numbers.next().zip(numbers.next()).map(|(peak, retained)| Memory { peak, retained }))
}

/// What that process does.
pub(crate) async fn measure(side: Side, dataset: Dataset, section: &Section, dir: &Path, partitions: usize) -> Result<Option<Memory>> {
    let mut tables = Tables::new(dataset, dir);
    tables.prepare(&[side], 0).await?;
    let empty = memory::reset_peak();
    let session = Session::open(side, &tables, partitions).await?;
    let before = memory::reset_peak();
    for case in &section.cases {
        // One that fails was reported by the process that started this one.
        if case.is_first {
            let _ = session.run_first(&tables, &case.query).await;
        } else {
            let _ = session.run(&case.query).await;
        }
    }
    let peak = memory::peak().zip(before).map(|(peak, before)| peak.saturating_sub(before));
    let retained = memory::reset_peak().zip(empty).map(|(now, empty)| now.saturating_sub(empty));
    Ok(peak.zip(retained).map(|(peak, retained)| Memory { peak, retained }))
}
