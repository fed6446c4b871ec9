//! The numbers as Markdown tables. A ratio above 1 says that Fermion is better, in every table.

use std::fmt::Write;
use std::time::Duration;

use crate::Options;
use crate::side::Cost;

/// Sizes and times of one table's two files.
pub(crate) struct Written {
    pub(crate) table: String,
    pub(crate) sizes: [u64; 2],
    pub(crate) times: [Duration; 2],
}

/// What one query cost on both sides: medians.
pub(crate) struct Compared {
    pub(crate) query: String,
    pub(crate) costs: [Cost; 2],
}

impl Compared {
    fn speed_up(&self) -> f64 {
        ratio(self.costs.map(|cost| cost.time.as_secs_f64()))
    }
}

pub(crate) fn written(tables: &[Written]) -> String {
    let mut text =
        String::from("| table | Parquet, MB | Fermion, MB | smaller by | Parquet, s | Fermion, s | faster by |\n|---|--:|--:|--:|--:|--:|--:|\n");
    let mut total = Written { table: "**all**".to_owned(), sizes: [0; 2], times: [Duration::ZERO; 2] };
    for table in tables {
        total.sizes = [total.sizes[0] + table.sizes[0], total.sizes[1] + table.sizes[1]];
        total.times = [total.times[0] + table.times[0], total.times[1] + table.times[1]];
    }
    for table in tables.iter().chain([&total]) {
        let [parquet, fermion] = table.sizes.map(megabytes);
        let [parquet_time, fermion_time] = table.times.map(|time| time.as_secs_f64());
        let (smaller, faster) = (ratio([parquet, fermion]), ratio([parquet_time, fermion_time]));
        let name = &table.table;
        let _ = writeln!(text, "| {name} | {parquet:.2} | {fermion:.2} | {smaller:.2} | {parquet_time:.2} | {fermion_time:.2} | {faster:.2} |");
    }
    text
}

pub(crate) fn compared(queries: &[Compared]) -> String {
    let mut text =
        String::from("| query | Parquet, ms | Fermion, ms | faster by | Parquet, MB read | Fermion, MB read |\n|---|--:|--:|--:|--:|--:|\n");
    for query in queries {
        let [parquet, fermion] = query.costs.map(|cost| cost.time.as_secs_f64() * 1e3);
        let [parquet_read, fermion_read] = query.costs.map(|cost| megabytes(cost.bytes_scanned as u64));
        let (name, faster) = (&query.query, query.speed_up());
        let _ = writeln!(text, "| {name} | {parquet:.1} | {fermion:.1} | {faster:.2} | {parquet_read:.2} | {fermion_read:.2} |");
    }
    let [parquet, fermion] = totals(queries, |cost| cost.time.as_secs_f64() * 1e3);
    let [parquet_read, fermion_read] = totals(queries, |cost| megabytes(cost.bytes_scanned as u64));
    let mean = geometric_mean(queries);
    let _ = writeln!(text, "| **all** (mean: geometric) | {parquet:.1} | {fermion:.1} | {mean:.2} | {parquet_read:.2} | {fermion_read:.2} |");
    if let (Some(parquet), Some(fermion)) = (peak(queries, 0), peak(queries, 1)) {
        let _ = writeln!(
            text,
            "\nThe most that the process grew in one query: {:.0} MB over Parquet, {:.0} MB over Fermion.",
            megabytes(parquet),
            megabytes(fermion)
        );
    }
    text
}

/// The queries that are slower than over Parquet by more than 5 %, which is the noise of such a measurement.
pub(crate) fn slower(queries: &[Compared]) -> String {
    const NOISE: f64 = 1.0 / 1.05;
    let slower: Vec<String> =
        queries.iter().filter(|query| query.speed_up() < NOISE).map(|query| format!("{} ({:.2})", query.query, query.speed_up())).collect();
    if slower.is_empty() {
        "No query is slower than over Parquet by more than 5 %.\n".to_owned()
    } else {
        format!("Slower than over Parquet by more than 5 %: {}.\n", slower.join(", "))
    }
}

/// The few lines that stand in the README.
pub(crate) fn summary(options: &Options, partitions: usize, tables: &[Written], parts: &[(&str, &[Compared])]) -> String {
    let Options { scale, runs, writes, .. } = options;
    let mut text = format!(
        "TPC-H at scale factor {scale}, {partitions} partitions, Parquet with zstd 3; `cargo bench --bench tpch -- --scale {scale} --runs {runs} --writes {writes}`\n\n"
    );
    text.push_str("| | Parquet | Fermion | better by |\n|---|--:|--:|--:|\n");
    let mut row = |name: &str, unit: &str, [parquet, fermion]: [f64; 2], better: f64| {
        let _ = writeln!(text, "| {name} | {parquet:.2} {unit} | {fermion:.2} {unit} | {better:.2} |");
    };
    let sizes = [0, 1].map(|side| tables.iter().map(|table| megabytes(table.sizes[side])).sum());
    let times = [0, 1].map(|side| tables.iter().map(|table| table.times[side].as_secs_f64()).sum());
    if !tables.is_empty() {
        row("file size", "MB", sizes, ratio(sizes));
    }
    if times.iter().all(|time| *time > 0.0) {
        row("write", "s", times, ratio(times));
    }
    for (name, queries) in parts {
        if !queries.is_empty() {
            row(&format!("{name}, time (geometric mean of ratios)"), "s", totals(queries, |cost| cost.time.as_secs_f64()), geometric_mean(queries));
            let read = totals(queries, |cost| megabytes(cost.bytes_scanned as u64));
            if read.iter().all(|bytes| *bytes > 0.0) {
                row(&format!("{name}, bytes read"), "MB", read, ratio(read));
            }
        }
    }
    text
}

fn totals(queries: &[Compared], of: impl Fn(&Cost) -> f64) -> [f64; 2] {
    [0, 1].map(|side| queries.iter().map(|query| of(&query.costs[side])).sum())
}

fn peak(queries: &[Compared], side: usize) -> Option<u64> {
    queries.iter().filter_map(|query| query.costs[side].memory).max()
}

fn geometric_mean(queries: &[Compared]) -> f64 {
    let logarithms: f64 = queries.iter().map(|query| query.speed_up().ln()).sum();
    (logarithms / count(queries)).exp()
}

fn count(queries: &[Compared]) -> f64 {
    queries.iter().map(|_| 1.0).sum()
}

fn ratio([parquet, fermion]: [f64; 2]) -> f64 {
    parquet / fermion
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
