//! The `fermion` command: a SQL shell, a file converter, a look into files and a demonstration of the Fermion format.

mod context;
mod convert;
mod demo;
mod engine;
mod error;
mod hdfs;
mod inspect;
mod namespaces;
mod output;
mod prompt;
mod script;
mod shell;
mod store;
mod units;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::convert::ConvertArgs;
use crate::demo::DemoArgs;
use crate::error::{Error, Result};
use crate::inspect::{InspectArgs, VerifyArgs};
use crate::shell::ShellArgs;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// SQL on Fermion, Alkaid, Arrow, Parquet, CSV and JSON files.
///
/// Without a sub-command: a SQL shell. Tables are made with CREATE EXTERNAL TABLE … STORED AS FERMION, or a file is queried in place: SELECT * FROM 'file.fermion'.
#[derive(Debug, Parser)]
#[command(name = "fermion", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    shell: ShellArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Convert files between Parquet, CSV, JSON (one object per line), Arrow IPC, Alkaid IPC and Fermion
    ///
    /// A directory stands for all files of one format below it, in its subfolders, too; names that begin with a dot or an underscore are left
    /// out. Into a directory each becomes a file of its own. Into one file they are joined in the order of their paths: columns are matched by
    /// name, numbers are widened, a column that some files lack is null there, and folders like year=2024 become columns of text.
    ///
    /// Nothing is written until everything is: a conversion that fails leaves the outputs as they were.
    ///
    /// Parquet, Arrow, Alkaid and Fermion keep types. CSV and JSON are text, and their readers guess: digits are a number ('007' is 7), decimals and
    /// large unsigned numbers are not what they were, binary is text of hexadecimal digits. In CSV an empty text is a null, and what is nested
    /// is refused. In JSON NaN and infinities become null (with a warning), and nulls are left out.
    Convert(ConvertArgs),
    /// Write TPC-H data as Fermion and as Parquet, and run the same queries over both
    Demo(DemoArgs),
    /// Show what a Fermion file is made of: areas, columns, pages, encodings, statistics
    Inspect(InspectArgs),
    /// Read Fermion files, check their checksums, counts, bounds and sums, and name each fault
    Verify(VerifyArgs),
}

#[tokio::main]
async fn main() -> ExitCode {
    env_logger::init();
    output::keep_panics_quiet();
    match error::calmed(run(Cli::parse())).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

async fn run(cli: Cli) -> Result<()> {
    match cli.action {
        None => shell::run(cli.shell).await,
        Some(Action::Convert(args)) => convert::run(args).await,
        Some(Action::Demo(args)) => demo::run(args).await,
        Some(Action::Inspect(args)) => inspect::run(args).await,
        Some(Action::Verify(args)) => inspect::verify(args).await,
    }
}

/// One line on standard error, and the code to leave with.
fn report(error: &Error) -> ExitCode {
    match error {
        // The reader of our output has left, as `head` does: nothing is wrong, and nobody is listening.
        Error::Output(cause) if cause.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Error::Interrupted => {
            output::tell(format_args!("fermion: interrupted"));
            ExitCode::from(130)
        }
        _ => {
            output::tell(format_args!("fermion: {error}"));
            ExitCode::FAILURE
        }
    }
}
