//! `fermion demo`: TPC-H as Fermion and as Parquet, side by side.

mod data;
mod queries;
mod report;

use std::env;
use std::fs;
use std::path::{Path, PathBuf, absolute};

use clap::Args;

use self::data::{FORMATS, TABLES};
use self::queries::{Outcome, Query, Side};
use crate::error::{Doing, Error, Result};
use crate::output::line;

/// The query whose result is shown.
const SHOWN: &str = "Q3";

/// How much data, and where.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// TPC-H scale factor: 1 is 8.7 million rows, and takes about 2 GB of memory to make
    #[arg(long, default_value_t = 0.1, value_parser = scale)]
    scale: f64,

    /// Directory for the files, a new or an empty one [default: fermion-demo in the system's directory for temporary files]
    #[arg(long)]
    dir: Option<PathBuf>,
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if (0.001..=100.0).contains(&scale) => Ok(scale),
        _ => Err("a scale factor is a number from 0.001 to 100".into()),
    }
}

/// Makes or finds the data, compares, and says how to go on.
pub(crate) async fn run(args: DemoArgs) -> Result<()> {
    let dir = args.dir.unwrap_or_else(|| env::temp_dir().join("fermion-demo"));
    let dir = absolute(&dir).doing(|| format!("cannot find '{}'", dir.display()))?;
    let are_old = files(&dir, args.scale).await?;
    let shown = match compare(&dir).await {
        Err(Error::Failed(text)) if are_old => {
            return Err(Error::Failed(format!("{text} (the files are from an earlier run: delete '{}' to have them made again)", dir.display())));
        }
        compared => compared?,
    };
    line(format_args!("\nThe result of {SHOWN}:\n{shown}"))?;
    let script = dir.join("tables.sql");
    fs::write(&script, tables_sql(&dir)).doing(|| format!("cannot write '{}'", script.display()))?;
    line(format_args!(
        "\nOpen the shell on these tables (lineitem is Fermion, parquet.lineitem is Parquet, …):\n\n    fermion -r {}",
        quoted(&script)
    ))
}

/// Makes or finds the files; says whether they were found.
async fn files(dir: &Path, scale: f64) -> Result<bool> {
    let found = data::find(dir, scale);
    let note = if found.is_some() { ", written by an earlier run" } else { "" };
    line(format_args!("TPC-H at scale factor {scale} in {}{note}\n", dir.display()))?;
    report::files_head()?;
    let are_old = found.is_some();
    let tables = match found {
        Some(tables) => {
            tables.iter().try_for_each(|table| report::files_line(table.name, table.rows, table.bytes, table.write_time))?;
            tables
        }
        None => data::make(dir, scale, |table| report::files_line(table.name, table.rows, table.bytes, table.write_time)).await?,
    };
    report::files_total(&tables)?;
    Ok(are_old)
}

/// Runs every query over both formats; returns the shown one's result.
async fn compare(dir: &Path) -> Result<String> {
    let (fermion, parquet) = (Side::open(dir, FORMATS[0]).await?, Side::open(dir, FORMATS[1]).await?);
    line(format_args!(""))?;
    report::queries_head()?;
    let mut queries = queries::tpch();
    queries.push(queries::needle(parquet.middle_order().await?));
    let mut shown = String::new();
    for query in &queries {
        let outcomes = (fermion.run(query).await?, parquet.run(query).await?);
        let text = same(query, &outcomes.0, &outcomes.1)?;
        report::query_line(query, &outcomes.0, &outcomes.1)?;
        if query.name == SHOWN {
            shown = text;
        }
    }
    line(format_args!(
        "\nEvery query gave equal results over both.\nTimes are the median of 3 runs after a first one, bytes and pages are the first one's."
    ))?;
    Ok(shown)
}

fn same(query: &Query, fermion: &Outcome, parquet: &Outcome) -> Result<String> {
    let texts = (fermion.text()?, parquet.text()?);
    if texts.0 == texts.1 { Ok(texts.0) } else { Err(Error::failed(format!("{} gives different results over Fermion and over Parquet", query.name))) }
}

fn tables_sql(dir: &Path) -> String {
    let mut text = String::from(
        "-- The TPC-H tables of `fermion demo`: as Fermion under their names, as Parquet in the schema parquet.\nCREATE SCHEMA IF NOT EXISTS parquet;\n",
    );
    for table in TABLES {
        text += &format!("{};\n", queries::create_table(dir, FORMATS[0], table, table));
        text += &format!("{};\n", queries::create_table(dir, FORMATS[1], table, &format!("parquet.{table}")));
    }
    text
}

/// A path as the shell of the system takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+:\\".contains(c));
    if plain { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
