//! The SQL shell: that of datafusion-cli, in a session that knows Fermion.

use std::env;
use std::fs;
use std::io::{self, IsTerminal};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use datafusion::config::ConfigOptions;
use datafusion::error::Result as EngineResult;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::logical_expr::ExplainFormat;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_cli::catalog::DynamicObjectStoreCatalog;
use datafusion_cli::functions::{ListFilesCacheFunc, MetadataCacheFunc, ParquetMetadataFunc, StatisticsCacheFunc};
use datafusion_cli::object_storage::instrumented::{InstrumentedObjectStoreMode, InstrumentedObjectStoreRegistry};
use datafusion_cli::object_storage::{StdinCarriesCommands, is_stdin_location};
use datafusion_cli::pool_type::PoolType;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};
use datafusion_cli::{DATAFUSION_CLI_VERSION, exec};

use crate::context;
use crate::error::{Doing, Result};
use crate::hdfs::HdfsRegistry;
use crate::output;
use crate::prompt;
use crate::script;

/// The options of datafusion-cli, under the same names.
#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    /// Folder to work in instead of the current one
    #[arg(short = 'p', long, value_name = "DIR", value_parser = existing_dir)]
    data_path: Option<String>,

    /// Rows per batch [default: DataFusion's]
    #[arg(short = 'b', long, value_name = "ROWS")]
    batch_size: Option<NonZeroUsize>,

    /// Run these statements and exit
    #[arg(short = 'c', long, value_name = "SQL", num_args = 1.., value_parser = non_empty)]
    command: Vec<String>,

    /// Memory that queries may use, for example 10g [default: no limit]
    #[arg(short = 'm', long, value_name = "SIZE", value_parser = parse_size)]
    memory_limit: Option<usize>,

    /// Run the statements of these files and exit; the first that fails is the last that runs
    #[arg(short, long, num_args = 1.., value_parser = existing_file)]
    file: Vec<String>,

    /// Run these files first instead of ~/.datafusionrc
    #[arg(short = 'r', long, value_name = "FILE", num_args = 0.., value_parser = existing_file, conflicts_with = "file")]
    rc: Option<Vec<String>>,

    /// How results are printed
    #[arg(long, value_enum, default_value_t = PrintFormat::Automatic)]
    format: PrintFormat,

    /// Print results and nothing else
    #[arg(short, long)]
    quiet: bool,

    /// How queries share the memory: greedy or fair
    #[arg(long, value_name = "TYPE", default_value_t = PoolType::Greedy)]
    mem_pool_type: PoolType,

    /// How many of the largest consumers to name when memory runs out (0: do not track them)
    #[arg(long, value_name = "N", default_value_t = 3)]
    top_memory_consumers: usize,

    /// Rows to print in the table format: a number, or inf
    #[arg(long, value_name = "ROWS", default_value = "40")]
    maxrows: MaxRows,

    /// Highlight SQL while it is typed
    #[arg(long)]
    color: bool,

    /// Disk space for spilling queries, for example 10g [default: DataFusion's 100g]
    #[arg(short = 'd', long, value_name = "SIZE", value_parser = parse_size)]
    disk_limit: Option<usize>,

    /// Report requests to object stores: disabled, summary or trace
    #[arg(long, value_name = "MODE", default_value_t = InstrumentedObjectStoreMode::Disabled)]
    object_store_profiling: InstrumentedObjectStoreMode,
}

/// Runs commands, files, or the prompt.
pub(crate) async fn run(args: ShellArgs) -> Result<()> {
    if let Some(dir) = &args.data_path {
        env::set_current_dir(dir).doing(|| format!("cannot work in '{dir}'"))?;
    }
    let registry = Arc::new(InstrumentedObjectStoreRegistry::new().with_profile_mode(args.object_store_profiling));
    let ctx = session(&args, &registry).await?;
    // A table is cut where it is too long to look at. What programs read is not: nothing there would tell.
    let maxrows = if matches!(args.format, PrintFormat::Table | PrintFormat::Automatic) { args.maxrows } else { MaxRows::Unlimited };
    let mut print = PrintOptions { format: args.format, quiet: args.quiet, maxrows, color: args.color, instrumented_registry: registry };
    if is_prompt(&args) {
        let is_typed = io::stdin().is_terminal();
        return if is_typed { greet(&ctx, &args, &mut print).await } else { pipe(&ctx, &args, &mut print).await };
    }
    for file in &args.file {
        script::run_file(&ctx, file, &mut print).await?;
    }
    for command in &args.command {
        script::run_statements(&ctx, command, &print).await?;
    }
    Ok(())
}

/// What is piped in is a script like any other, after the startup files.
async fn pipe(ctx: &SessionContext, args: &ShellArgs, print: &mut PrintOptions) -> Result<()> {
    for file in startup(args) {
        script::run_file(ctx, &file, &mut PrintOptions { quiet: true, ..print.clone() }).await?;
    }
    script::run(ctx, io::stdin().lock(), "standard input", print).await
}

/// The files that run before anything that is typed or piped.
fn startup(args: &ShellArgs) -> Vec<String> {
    args.rc.clone().unwrap_or_else(|| home_rc().into_iter().collect())
}

async fn greet(ctx: &SessionContext, args: &ShellArgs, print: &mut PrintOptions) -> Result<()> {
    if !args.quiet {
        output::line(format_args!("Fermion v{} on DataFusion CLI v{DATAFUSION_CLI_VERSION}", env!("CARGO_PKG_VERSION")))?;
    }
    // What they select is shown; how many rows each statement gave, and how fast, is not.
    // One statement that fails does not keep the others from being run, and options have to be named in full.
    exec::exec_from_files(ctx, startup(args), &PrintOptions { quiet: true, ..print.clone() }).await?;
    prompt::run(ctx, print).await
}

/// Without statements to run, SQL comes from standard input: typed or piped.
fn is_prompt(args: &ShellArgs) -> bool {
    args.command.is_empty() && args.file.is_empty()
}

/// `~/.datafusionrc`, where it exists: the same file as datafusion-cli's, so that a person's settings hold in both.
fn home_rc() -> Option<String> {
    let file = env::home_dir()?.join(".datafusionrc");
    file.is_file().then(|| file.into_os_string().into_string().ok()).flatten()
}

/// A session as datafusion-cli makes it: files as tables, object stores on demand, functions that look into caches.
async fn session(args: &ShellArgs, registry: &Arc<InstrumentedObjectStoreRegistry>) -> EngineResult<SessionContext> {
    let ctx = context::session(config(args)?, runtime(args, registry)?)?.enable_url_table();
    ctx.refresh_catalogs().await?;
    let catalogs = Arc::clone(ctx.state().catalog_list());
    ctx.register_catalog_list(Arc::new(DynamicObjectStoreCatalog::new(catalogs, ctx.state_weak_ref())));
    let caches = || Arc::clone(&ctx.runtime_env().cache_manager);
    ctx.register_udtf("parquet_metadata", Arc::new(ParquetMetadataFunc {}));
    ctx.register_udtf("metadata_cache", Arc::new(MetadataCacheFunc::new(caches())));
    ctx.register_udtf("statistics_cache", Arc::new(StatisticsCacheFunc::new(caches())));
    ctx.register_udtf("list_files_cache", Arc::new(ListFilesCacheFunc::new(caches())));
    Ok(ctx)
}

/// The environment's settings (`DATAFUSION_*`), then the arguments, with datafusion-cli's own defaults.
fn config(args: &ShellArgs) -> EngineResult<SessionConfig> {
    let mut options = ConfigOptions::from_env()?;
    if env::var_os("DATAFUSION_EXPLAIN_FORMAT").is_none() {
        options.explain.format = ExplainFormat::Tree;
    }
    if env::var_os("DATAFUSION_FORMAT_NULL").is_none() {
        options.format.null = "NULL".into();
    }
    let mut config = SessionConfig::from(options).with_information_schema(true);
    if let Some(rows) = args.batch_size {
        config = config.with_batch_size(rows.get());
    }
    if is_prompt(args) || args.file.iter().any(|file| is_stdin_location(file)) {
        // Standard input holds the statements, and cannot be a table as well.
        config = config.with_extension(Arc::new(StdinCarriesCommands));
    }
    Ok(config)
}

fn runtime(args: &ShellArgs, registry: &Arc<InstrumentedObjectStoreRegistry>) -> EngineResult<Arc<RuntimeEnv>> {
    let stores = Arc::new(HdfsRegistry(Arc::<InstrumentedObjectStoreRegistry>::clone(registry)));
    let mut builder = RuntimeEnvBuilder::new().with_object_store_registry(stores);
    if let Some(bytes) = args.memory_limit {
        builder = builder.with_memory_pool(memory_pool(bytes, &args.mem_pool_type, args.top_memory_consumers));
    }
    if let Some(bytes) = args.disk_limit {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::OsTmpDirectory).with_max_temp_directory_size(bytes);
        builder = builder.with_disk_manager_builder(disk);
    }
    builder.build_arc()
}

fn memory_pool(bytes: usize, kind: &PoolType, tracked: usize) -> Arc<dyn MemoryPool> {
    match (kind, NonZeroUsize::new(tracked)) {
        (PoolType::Fair, None) => Arc::new(FairSpillPool::new(bytes)),
        (PoolType::Fair, Some(top)) => Arc::new(TrackConsumersPool::new(FairSpillPool::new(bytes), top)),
        (PoolType::Greedy, None) => Arc::new(GreedyMemoryPool::new(bytes)),
        (PoolType::Greedy, Some(top)) => Arc::new(TrackConsumersPool::new(GreedyMemoryPool::new(bytes), top)),
    }
}

fn existing_file(path: &str) -> Result<String, String> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err("it is a directory".into()),
        Ok(_) => Ok(path.into()),
        Err(_) => Err("no such file".into()),
    }
}

fn existing_dir(path: &str) -> Result<String, String> {
    if Path::new(path).is_dir() { Ok(path.into()) } else { Err("no such directory".into()) }
}

fn non_empty(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("a command cannot be empty".into()) } else { Ok(text.into()) }
}

/// "10g", "512mb", "100": bytes.
fn parse_size(text: &str) -> Result<usize, String> {
    let lower = text.to_lowercase();
    let digits = lower.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = lower.split_at(digits);
    let shift = match unit {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        "t" | "tb" => 40,
        _ => return Err("a size is a number and one of b, k, m, g, t".into()),
    };
    let number: usize = number.parse().map_err(|_| "a size starts with a number")?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("5"), Ok(5));
        assert_eq!(parse_size("4kB"), Ok(4096));
        assert_eq!(parse_size("20M"), Ok(20 << 20));
        assert_eq!(parse_size("10g"), Ok(10 << 30));
        assert_eq!(parse_size("1t"), Ok(1 << 40));
    }

    #[test]
    fn what_is_not_a_size_is_refused() {
        for text in ["", "g", "-1", "1x", "1.5g", "99999999999t", "99999999999999999999999"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
