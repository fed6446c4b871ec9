//! The command line.

use std::path::PathBuf;

use crate::Result;
use crate::dataset::Dataset;
use crate::side::{SIDES, Side};
use crate::suites::{self, SUITES, Section};

/// Files of a directory of many.
const MANY_FILES: usize = 100;
/// Above, to create a table of many files takes some sides minutes.
const MANY_FILES_COLUMNS_MAX: usize = 1_000;

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) suites: Vec<String>,
    pub(crate) sides: Vec<Side>,
    pub(crate) scale: f64,
    pub(crate) rows: usize,
    /// How wide the wide tables are.
    pub(crate) columns: Vec<usize>,
    pub(crate) runs: usize,
    pub(crate) writes: usize,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) plots: Option<PathBuf>,
    pub(crate) only: Option<String>,
    /// The title of a section of which only the growth in memory is wanted: how this program calls itself.
    pub(crate) peak: Option<String>,
}

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self {
            suites: SUITES.map(str::to_owned).into(),
            sides: Side::usual(),
            scale: 1.0,
            rows: 1_000_000,
            columns: vec![1_000, 10_000, 100_000],
            runs: 5,
            writes: 0,
            dir: None,
            plots: None,
            only: None,
            peak: None,
        };
        while let Some(argument) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
            match argument.as_str() {
                "--suite" => options.suites = parse_suites(&value)?,
                "--sides" => options.sides = parse_sides(&value)?,
                "--scale" => options.scale = value.parse()?,
                "--rows" => options.rows = value.parse()?,
                "--columns" => options.columns = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
                "--runs" => options.runs = value.parse()?,
                "--writes" => options.writes = value.parse()?,
                "--dir" => options.dir = Some(value.into()),
                "--plots" => options.plots = Some(value.into()),
                "--only" => options.only = Some(value),
                "--peak" => options.peak = Some(value),
                other => return Err(format!("unknown option {other}").into()),
            }
        }
        if options.runs == 0 {
            return Err("--runs 0 measures nothing".into());
        }
        Ok(options)
    }

    pub(crate) fn datasets(&self) -> Vec<Dataset> {
        let mut datasets = vec![Dataset::Tpch { scale: self.scale }, Dataset::Hits { rows: self.rows }, Dataset::Ladder { rows: self.rows }];
        for columns in self.columns.iter().copied() {
            datasets.push(Dataset::Wide { columns, files: 1 });
            if columns <= MANY_FILES_COLUMNS_MAX {
                datasets.push(Dataset::Wide { columns, files: MANY_FILES });
            }
        }
        datasets
    }

    /// What is wanted of a dataset.
    pub(crate) fn sections(&self, dataset: &Dataset) -> Vec<Section> {
        let mut sections = suites::of(dataset);
        sections.retain_mut(|section| {
            section.cases.retain(|case| self.only.as_ref().is_none_or(|only| case.query.name.trim_matches('`') == only));
            !section.cases.is_empty() && self.suites.iter().any(|suite| suite == section.suite)
        });
        sections
    }
}

fn parse_suites(names: &str) -> Result<Vec<String>> {
    match names.split(',').find(|name| !SUITES.contains(name)) {
        Some(unknown) => Err(format!("no suite {unknown}: there are {}", SUITES.join(", ")).into()),
        None => Ok(names.split(',').map(str::to_owned).collect()),
    }
}

/// In the order in which they are always shown, however they are named here.
fn parse_sides(names: &str) -> Result<Vec<Side>> {
    match names.split(',').find(|name| Side::named(name).is_none()) {
        Some(unknown) => Err(format!("no side {unknown}: there are {}", SIDES.map(|side| side.name).join(", ")).into()),
        None => Ok(SIDES.into_iter().filter(|side| names.split(',').any(|name| name.eq_ignore_ascii_case(side.name))).collect()),
    }
}
