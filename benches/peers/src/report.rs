//! The numbers as Markdown. "Faster by" is how many times as long another side takes as the last one, Fermion: above 1, Fermion is better.

use std::fmt::Write;
use std::time::Duration;

use crate::alone::Alone;
use crate::dataset::Written;
use crate::measure::Measured;
use crate::peak::Memory;
use crate::session::Cost;
use crate::side::{Files, Side};

/// The results of one section.
pub(crate) struct Part {
    pub(crate) suite: &'static str,
    pub(crate) title: String,
    pub(crate) measured: Vec<Measured>,
    /// How far a process with nothing but one side grew, for each.
    pub(crate) peaks: Vec<Option<Memory>>,
}

/// How many times as long the side `other` takes as the side `of`: the geometric mean over the queries that both answer.
pub(crate) fn faster<'a>(measured: impl IntoIterator<Item = &'a Measured>, of: usize, other: usize) -> Option<f64> {
    geometric_mean(measured.into_iter().filter_map(|query| Some(seconds(query, other)? / seconds(query, of)?)))
}

pub(crate) fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value.ln(), count + 1.0));
    (count > 0.0).then(|| (sum / count).exp())
}

pub(crate) fn seconds(query: &Measured, side: usize) -> Option<f64> {
    cost(query, side).map(|cost| cost.time.as_secs_f64())
}

fn cost(query: &Measured, side: usize) -> Option<Cost> {
    query.costs.get(side).copied().flatten()
}

/// One line for each part.
pub(crate) fn summary(sides: &[Side], parts: &[Part]) -> String {
    let last = sides.len().saturating_sub(1);
    let heads = sides.iter().take(last).map(|side| format!("faster than {} by", side.name));
    let mut text = table_head("geometric means", heads);
    for part in parts {
        let means = (0..last).map(|other| number(faster(&part.measured, last, other), 2));
        text.push_str(&line(&part.title, means));
    }
    text
}

/// Times, and how they compare.
pub(crate) fn times(sides: &[Side], part: &Part) -> String {
    let last = sides.len().saturating_sub(1);
    let heads = sides.iter().map(|side| format!("{}, ms", side.name));
    let ratios = sides.iter().take(last).map(|side| format!("faster than {} by", side.name));
    let mut text = table_head("query", heads.chain(ratios));
    for query in &part.measured {
        let times = (0..sides.len()).map(|side| number(milliseconds(query, side), 2));
        let ratios = (0..last).map(|other| number(faster([query], last, other), 2));
        text.push_str(&line(&query.name, times.chain(ratios)));
    }
    let totals = (0..sides.len()).map(|side| number(Some(part.measured.iter().filter_map(|query| milliseconds(query, side)).sum()), 1));
    let means = (0..last).map(|other| number(faster(&part.measured, last, other), 2));
    text.push_str(&line("**all** (sums of what ran, geometric means)", totals.chain(means)));
    text
}

/// What was read from the file system.
pub(crate) fn traffic(sides: &[Side], part: &Part) -> String {
    let with_files: Vec<usize> = (0..sides.len()).filter(|side| sides.get(*side).is_some_and(|side| side.files.is_some())).collect();
    let names = || with_files.iter().filter_map(|side| sides.get(*side)).map(|side| side.name);
    let heads = names().map(|name| format!("{name}, MB")).chain(names().map(|name| format!("{name}, requests")));
    let mut text = table_head("query", heads);
    for query in &part.measured {
        let bytes = with_files.iter().map(|side| number(cost(query, *side).map(|cost| megabytes(cost.read.bytes)), 3));
        let requests = with_files.iter().map(|side| cost(query, *side).map_or(NOTHING.to_owned(), |cost| cost.read.requests.to_string()));
        text.push_str(&line(&query.name, bytes.chain(requests)));
    }
    text
}

/// How far each side's process grew.
pub(crate) fn peaks(sides: &[Side], parts: &[Part]) -> String {
    let mut text =
        table_head("peak memory beyond that of open tables; what is kept in the end", sides.iter().map(|side| format!("{}, MB", side.name)));
    for part in parts {
        let cell = |memory: &Option<Memory>| match memory {
            Some(Memory { peak, retained }) => format!("{:.0}; {:.0}", megabytes(*peak), megabytes(*retained)),
            None => NOTHING.to_owned(),
        };
        text.push_str(&line(&part.title, part.peaks.iter().map(cell)));
    }
    text
}

/// What formats take without an engine.
pub(crate) fn alone(sides: &[Alone]) -> String {
    let heads = ["columns", "open, ms", "and read ten columns, ms"].map(str::to_owned);
    let mut text = table_head("without an engine", heads.into_iter());
    for Alone { columns, side, open, read } in sides {
        let milliseconds = |time: &Duration| number(Some(time.as_secs_f64() * 1e3), 2);
        text.push_str(&line(side, [columns.to_string(), milliseconds(open), milliseconds(read)]));
    }
    text
}

/// Sizes, and times where something was written.
pub(crate) fn files(written: &[Written]) -> String {
    let mut formats: Vec<Files> = Vec::new();
    let mut tables: Vec<&str> = Vec::new();
    for file in written {
        if !formats.contains(&file.files) {
            formats.push(file.files);
        }
        if !tables.contains(&file.table) {
            tables.push(file.table);
        }
    }
    let names = || formats.iter().map(|files| files.folder);
    let heads = names().map(|name| format!("{name}, MB")).chain(names().map(|name| format!("{name}, written in s")));
    let mut text = table_head("table", heads);
    for table in &tables {
        text.push_str(&line(table, file_cells(written, &formats, |file| file.table == *table)));
    }
    text.push_str(&line("**all**", file_cells(written, &formats, |_| true)));
    text
}

fn file_cells(written: &[Written], formats: &[Files], is_wanted: impl Fn(&Written) -> bool) -> Vec<String> {
    let of = |format: &Files| written.iter().filter(|file| file.files == *format && is_wanted(file)).collect::<Vec<_>>();
    let sizes = formats.iter().map(|format| number(Some(of(format).iter().map(|file| megabytes(file.size)).sum()), 2));
    // A total of which one part is not known is not known.
    let time = |format: &Files| of(format).iter().map(|file| file.time).sum::<Option<Duration>>();
    let times = formats.iter().map(|format| number(time(format).map(|time| time.as_secs_f64()), 2));
    sizes.chain(times).collect()
}

/// The queries in which some other side is faster by more than the noise of such a measurement.
pub(crate) fn slower(sides: &[Side], part: &Part) -> String {
    const NOISE: f64 = 0.95;
    let last = sides.len().saturating_sub(1);
    let mut text = String::new();
    for (other, side) in sides.iter().enumerate().take(last) {
        let slower = part.measured.iter().filter_map(|query| Some((query, faster([query], last, other).filter(|ratio| *ratio < NOISE)?)));
        let slower: Vec<String> = slower.map(|(query, ratio)| format!("{} ({ratio:.2})", query.name)).collect();
        if !slower.is_empty() {
            let _ = writeln!(text, "- slower than {}: {}", side.name, slower.join(", "));
        }
    }
    text
}

pub(crate) fn folded(title: &str, text: &str) -> String {
    format!("<details><summary>{title}</summary>\n\n{text}\n</details>\n")
}

const NOTHING: &str = "–";

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or(NOTHING.to_owned(), |value| format!("{value:.digits$}"))
}

fn milliseconds(query: &Measured, side: usize) -> Option<f64> {
    seconds(query, side).map(|seconds| seconds * 1e3)
}

fn table_head(first: &str, heads: impl Iterator<Item = String>) -> String {
    let heads: Vec<String> = heads.collect();
    format!("| {first} | {} |\n|---{}|\n", heads.join(" | "), "|--:".repeat(heads.len()))
}

fn line(first: &str, cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<String> = cells.into_iter().collect();
    format!("| {first} | {} |\n", cells.join(" | "))
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
