//! `fermion convert`: files of one format into files of another, rows in the same order, types as they are.

mod adapt;
mod format;
mod losses;
mod plan;
mod progress;
mod schema;
mod source;
mod staging;
mod widen;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use datafusion::physical_expr::LexOrdering;
use datafusion::prelude::{SessionConfig, SessionContext};

use self::format::{Format, Name, qualified};
use self::losses::Losses;
use self::plan::{Job, Plan, Request};
use self::progress::Progress;
use self::source::Source;
use self::staging::Staging;
use crate::engine::{self, Options, Rows};
use crate::error::{Doing, Error, Result, one_line_after};
use crate::store::CountingStore;
use crate::{context, output, units};

/// What to convert, and how.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// A file, or a directory: all files of one format in it and below it
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// A file, or a directory (it exists, or ends with a slash) for one file per input file
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// Format of IN [default: told by the names of the files]
    #[arg(long, value_name = "FORMAT")]
    from: Option<Format>,

    /// Format of OUT [default: told by its name; for a directory, fermion]
    #[arg(long, value_name = "FORMAT")]
    to: Option<Format>,

    /// Option of the format to write, as in COPY … OPTIONS; can be repeated
    #[arg(short, long = "option", value_name = "KEY=VALUE", value_parser = key_value)]
    options: Vec<(String, String)>,

    /// Option of the format to read, as in CREATE EXTERNAL TABLE … OPTIONS; can be repeated
    #[arg(long = "read-option", value_name = "KEY=VALUE", value_parser = key_value)]
    read_options: Vec<(String, String)>,

    /// Replace files that exist; they keep their permissions
    #[arg(long)]
    overwrite: bool,

    /// Show neither progress nor summary
    #[arg(short, long)]
    quiet: bool,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((qualified(key), value.into())),
        _ => Err("expected KEY=VALUE".into()),
    }
}

/// What was converted.
#[derive(Debug, Default)]
struct Totals {
    rows: u64,
    bytes_in: u64,
    bytes_out: u64,
}

/// Converts, or leaves nothing behind.
pub(crate) async fn run(args: ConvertArgs) -> Result<()> {
    let request = Request { input: &args.input, output: &args.output, from: args.from, to: args.to, overwrite: args.overwrite };
    let plan = Plan::new(&request)?;
    let started = Instant::now();
    let interrupted = interruption()?;
    let totals = tokio::select! {
        totals = convert(&plan, &args) => totals?,
        () = interrupted => return Err(Error::Interrupted),
    };
    if args.quiet { Ok(()) } else { summarize(&plan, &totals, started.elapsed()) }
}

/// Completes when somebody asks the process to stop. Signals are caught from the call on, not only once this is awaited: files are made
/// before the runtime next looks here.
#[cfg(unix)]
fn interruption() -> Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let catch = |kind| signal(kind).doing(|| "cannot catch signals".into());
    let (mut interrupt, mut terminate) = (catch(SignalKind::interrupt())?, catch(SignalKind::terminate())?);
    // The terminal was closed.
    let mut hang_up = catch(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    })
}

/// Completes when somebody asks the process to stop.
#[cfg(windows)]
fn interruption() -> Result<impl Future<Output = ()>> {
    let mut typed = tokio::signal::windows::ctrl_c().doing(|| "cannot catch Ctrl-C".into())?;
    Ok(async move {
        typed.recv().await;
    })
}

async fn convert(plan: &Plan, args: &ConvertArgs) -> Result<Totals> {
    let ctx = context::session(config(), Arc::default())?;
    let store = CountingStore::install(&ctx);
    let staging = Staging::new(&plan.workplace)?;
    let sources = open(&ctx, &store, plan, args).await?;
    let rows = sources.iter().map(Source::rows).sum();
    let mut totals = Totals { bytes_in: sources.iter().map(Source::bytes).sum(), ..Totals::default() };
    store.reset();
    let progress = Arc::new(Progress::new(rows, Arc::clone(&store), args.quiet));
    let losses = Arc::new(Losses::new(plan.to));
    for (number, (job, source)) in plan.jobs.iter().zip(sources).enumerate() {
        let file = staging.file(number);
        let (failure, ordering) = (source.failure(), source.ordering());
        let rows = source.into_rows(Arc::clone(&progress), Arc::clone(&losses));
        let written = write(&ctx, plan, job, (rows, ordering), args, &file).await;
        totals.rows += written.map_err(|error| blamed(error, plan, job, failure.get(), store.write_failure()))?;
        totals.bytes_out += fs::metadata(&file).doing(|| format!("cannot write '{}'", job.output.display()))?.len();
    }
    let outputs: Vec<&Path> = plan.jobs.iter().map(|job| job.output.as_path()).collect();
    staging.publish(&outputs, args.overwrite)?;
    drop(progress);
    if let Some(warning) = losses.warning() {
        output::tell(format_args!("fermion: warning: {warning}"));
    }
    Ok(totals)
}

/// Opens the files of every job, so that most failures come before anything is written.
async fn open(ctx: &SessionContext, store: &Arc<CountingStore>, plan: &Plan, args: &ConvertArgs) -> Result<Vec<Source>> {
    let mut sources = Vec::with_capacity(plan.jobs.len());
    for job in &plan.jobs {
        let format = engine::format(ctx, plan.from.name(), &read_options(plan.from, job, args)).doing(|| "cannot read with these options".into())?;
        let source = Source::open(ctx, store, (plan.from, format.as_ref()), &job.inputs).await?;
        if source.schema().fields().is_empty() && matches!(plan.from, Format::Csv | Format::Json) {
            return Err(Error::failed(format!("'{}' holds no columns", args.input.display())));
        }
        sources.push(source);
    }
    Ok(sources)
}

/// Whether a name says by itself that it is a file's.
pub(crate) fn is_file_name(name: &str) -> bool {
    Name::of(Path::new(name)).format.is_some()
}

/// Types as the file has them: no strings turned into views on the way.
fn config() -> SessionConfig {
    let mut config = SessionConfig::new();
    config.options_mut().execution.parquet.schema_force_view_types = false;
    config
}

fn read_options(from: Format, job: &Job, args: &ConvertArgs) -> Options {
    let mut options = Options::new();
    match from {
        // One file keeps its schema's metadata; several may contradict each other.
        Format::Parquet => drop(options.insert("format.skip_metadata".into(), (job.inputs.len() > 1).to_string())),
        // DataFusion looks at 1,000 rows, and fails later on whatever does not fit what it saw.
        Format::Csv | Format::Json => drop(options.insert("format.schema_infer_max_rec".into(), "100000".into())),
        Format::Fermion => drop(options.insert("format.force_view_types".into(), "false".into())),
        Format::Arrow | Format::Alkaid => {}
    }
    options.extend(job.read_options.clone());
    options.extend(args.read_options.iter().cloned());
    options
}

async fn write(
    ctx: &SessionContext,
    plan: &Plan,
    job: &Job,
    (rows, ordering): (Rows, Option<LexOrdering>),
    args: &ConvertArgs,
    file: &Path,
) -> Result<u64> {
    let mut options = job.write_options.clone();
    options.extend(args.options.iter().cloned());
    let format = engine::format(ctx, plan.to.name(), &options).doing(|| "cannot write with these options".into())?;
    let what = format!("cannot write '{}'", job.output.display());
    engine::write(ctx, format.as_ref(), rows, ordering, file).await.map_err(|error| {
        let why = one_line_after(&what, &error);
        // Nobody knows the file by the name that it has until it is whole.
        let own_name = object_store::path::Path::from_absolute_path(file).map(|path| format!("{path}: ")).unwrap_or_default();
        Error::failed(format!("{what}: {}", why.replace(&own_name, "")))
    })
}

/// The error that a failed write has led to, or that has led to it.
fn blamed(error: Error, plan: &Plan, job: &Job, read: Option<&String>, written: Option<&str>) -> Error {
    match (read, written) {
        (Some(reason), _) if matches!(plan.from, Format::Csv | Format::Json) => {
            Error::failed(format!("{reason} (types come from the first rows: --read-option schema_infer_max_rec=N looks at more)"))
        }
        (Some(reason), _) => Error::failed(reason),
        (None, Some(reason)) => Error::failed(format!("cannot write '{}': {reason}", job.output.display())),
        (None, None) => error,
    }
}

fn summarize(plan: &Plan, totals: &Totals, elapsed: Duration) -> Result<()> {
    let files_in: usize = plan.jobs.iter().map(|job| job.inputs.len()).sum();
    let rate = units::approximate(totals.bytes_in) / elapsed.as_secs_f64().max(1e-9) / f64::from(1 << 20);
    let of = |bytes: u64, files: usize, format: Format| {
        format!("{} in {files} {format} {}", units::size(bytes), if files == 1 { "file" } else { "files" })
    };
    output::line(format_args!("rows       {}", units::grouped(totals.rows)))?;
    output::line(format_args!("bytes in   {}", of(totals.bytes_in, files_in, plan.from)))?;
    output::line(format_args!("bytes out  {}", of(totals.bytes_out, plan.jobs.len(), plan.to)))?;
    output::line(format_args!("ratio      {} (out / in)", units::ratio(units::approximate(totals.bytes_out), units::approximate(totals.bytes_in))))?;
    output::line(format_args!("time       {} ({rate:.1} MiB/s)", units::time(elapsed)))
}
