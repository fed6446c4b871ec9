//! The tables that the demonstration prints: at most 100 columns wide, without colours.

use std::time::Duration;

use super::data::Table;
use super::queries::{Outcome, Query};
use crate::error::Result;
use crate::output::line;
use crate::units::{approximate, grouped, ratio, size, time};

/// The heading of the files.
pub(crate) fn files_head() -> Result<()> {
    line(format_args!("{:<10}{:>12}   {:>30}   {:>30}", "", "", "size", "write time"))?;
    line(format_args!(
        "{:<10}{:>12}   {:>12}{:>12}{:>6}   {:>12}{:>12}{:>6}",
        "table", "rows", "Fermion", "Parquet", "F/P", "Fermion", "Parquet", "F/P"
    ))
}

/// One table's files.
pub(crate) fn files_line(name: &str, rows: u64, bytes: [u64; 2], times: [Duration; 2]) -> Result<()> {
    let sizes = ratio(approximate(bytes[0]), approximate(bytes[1]));
    let write = ratio(times[0].as_secs_f64(), times[1].as_secs_f64());
    let [fermion, parquet] = bytes.map(size);
    let [fermion_time, parquet_time] = times.map(time);
    let rows = grouped(rows);
    line(format_args!("{name:<10}{rows:>12}   {fermion:>12}{parquet:>12}{sizes:>6}   {fermion_time:>12}{parquet_time:>12}{write:>6}"))
}

/// All tables together.
pub(crate) fn files_total(tables: &[Table]) -> Result<()> {
    let bytes = [0, 1].map(|at| tables.iter().map(|table| table.bytes[at]).sum());
    let times = [0, 1].map(|at| tables.iter().map(|table| table.write_time[at]).sum());
    files_line("total", tables.iter().map(|table| table.rows).sum(), bytes, times)
}

/// The heading of the queries.
pub(crate) fn queries_head() -> Result<()> {
    line(format_args!("{:<32}{:>26}  {:>22}  {:>14}", "", "time", "bytes read", "pages pruned"))?;
    let (f, p) = ("Fermion", "Parquet");
    line(format_args!("{:<32}{f:>9}{p:>9}{:>8}  {f:>11}{p:>11}  {:>14}", "query", "faster", "Fermion"))
}

/// One query over both formats.
pub(crate) fn query_line(query: &Query, fermion: &Outcome, parquet: &Outcome) -> Result<()> {
    let name = format!("{:<5}{}", query.name, query.what);
    let faster = ratio(parquet.time.as_secs_f64(), fermion.time.as_secs_f64()) + "x";
    let [time_f, time_p] = [fermion, parquet].map(|outcome| time(outcome.time));
    let [read_f, read_p] = [fermion, parquet].map(|outcome| size(outcome.bytes));
    let pages = format!("{} of {}", fermion.pages.0, fermion.pages.1);
    line(format_args!("{name:<32}{time_f:>9}{time_p:>9}{faster:>8}  {read_f:>11}{read_p:>11}  {pages:>14}"))
}
