//! The data: what it is made of, and the files of each format.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};

use datafusion::datasource::{MemTable, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::session::context;
use crate::side::{Files, Side};
use crate::{data, hits, ladder, median, wide};

/// Tables that are made together.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Dataset {
    /// The eight tables of TPC-H.
    Tpch { scale: f64 },
    /// ClickBench's table, or one like it.
    Hits { rows: usize },
    /// Rows for filters of known shares, in order and without.
    Ladder { rows: usize },
    /// Very many columns, in one file or in several that are alike.
    Wide { columns: usize, files: usize },
}

/// Where a dataset's tables are.
pub(crate) struct Tables {
    dataset: Dataset,
    dir: PathBuf,
    /// Those in memory, once they are needed.
    made: Vec<(&'static str, Arc<MemTable>)>,
}

/// The file of one table in one format, and how long it took to write, if it was.
pub(crate) struct Written {
    pub(crate) table: &'static str,
    pub(crate) files: Files,
    pub(crate) size: u64,
    pub(crate) time: Option<Duration>,
}

impl Dataset {
    fn names(&self) -> &'static [&'static str] {
        match self {
            Self::Tpch { .. } => &data::TABLES,
            Self::Hits { .. } => &["hits"],
            Self::Ladder { .. } => &["sorted", "shuffled"],
            Self::Wide { .. } => &["wide"],
        }
    }

    /// How many files a table is.
    fn files(&self) -> usize {
        match self {
            Self::Wide { files, .. } => *files,
            _ => 1,
        }
    }

    /// The name of its directory, so that data of different sizes can be kept side by side.
    fn folder(&self) -> String {
        match self {
            Self::Tpch { scale } => format!("tpch-{scale}"),
            Self::Hits { rows } => format!("hits-{rows}"),
            Self::Ladder { rows } => format!("filters-{rows}"),
            Self::Wide { columns, files: 1 } => format!("wide-{columns}"),
            Self::Wide { columns, files } => format!("wide-{columns}-{files}"),
        }
    }

    fn make(&self, table: &str) -> Result<MemTable> {
        match *self {
            Self::Tpch { scale } => data::table(table, scale),
            Self::Hits { rows } => hits::table(rows),
            Self::Ladder { rows } => ladder::table(rows, table == "sorted"),
            Self::Wide { columns, files } => wide::file(columns, files),
        }
    }

    /// A table in memory, of which this is the first file.
    fn whole(&self, first: Arc<MemTable>) -> Result<Arc<MemTable>> {
        match *self {
            Self::Wide { columns, files } if files > 1 => wide::table(columns, files).map(Arc::new),
            _ => Ok(first),
        }
    }

    /// How files of a format are written. A table of many columns has few rows, and would be one stripe.
    fn write_options(&self, files: Files) -> String {
        let parts = match self {
            Self::Wide { columns, files: of } => files.part_rows.map(|option| (option, wide::part_rows(*columns, *of).to_string())),
            _ => None,
        };
        let all = files.write_options.iter().map(|(option, value)| (*option, (*value).to_owned())).chain(parts);
        let all: Vec<String> = all.map(|(option, value)| format!("'{option}' '{value}'")).collect();
        if all.is_empty() { String::new() } else { format!("OPTIONS ({})", all.join(", ")) }
    }
}

impl Tables {
    pub(crate) fn new(dataset: Dataset, dir: &Path) -> Self {
        Self { dataset, dir: dir.join(dataset.folder()), made: Vec::new() }
    }

    pub(crate) fn names(&self) -> &'static [&'static str] {
        self.dataset.names()
    }

    pub(crate) fn path(&self, table: &str, files: Files) -> PathBuf {
        self.dir.join(files.folder).join(format!("{table}.{}", files.extension))
    }

    /// Where a session finds a table: its file, or the directory of its files.
    pub(crate) fn location(&self, table: &str, files: Files) -> PathBuf {
        match self.dataset.files() {
            1 => self.path(table, files),
            _ => self.dir.join(files.folder),
        }
    }

    /// The other files of a table, which are the first once more.
    fn repeat(&self, table: &str, files: Files) -> Result<()> {
        let first = self.path(table, files);
        for index in 1..self.dataset.files() {
            fs::copy(&first, first.with_file_name(format!("{table}-{index}.{}", files.extension)))?;
        }
        Ok(())
    }

    /// A table in memory.
    pub(crate) fn made(&self, table: &str) -> Result<Arc<dyn TableProvider>> {
        let found = self.made.iter().find(|(name, _)| *name == table).map(|(_, made)| Arc::clone(made) as _);
        found.ok_or_else(|| DataFusionError::Internal(format!("{table} was not made")))
    }

    /// Makes what the sides need: tables in memory, and files. A file that is there already is taken as it is, unless `writes` says how often to write all
    /// of them.
    pub(crate) async fn prepare(&mut self, sides: &[Side], writes: usize) -> Result<Vec<Written>> {
        let mut formats: Vec<Files> = sides.iter().filter_map(|side| side.files).collect();
        formats.dedup();
        let mut written = Vec::new();
        for table in self.names().iter().copied() {
            let is_missing = |files: &Files| !self.path(table, *files).is_file();
            let missing: Vec<Files> = formats.iter().copied().filter(|files| writes > 0 || is_missing(files)).collect();
            let mut times = Vec::new();
            if !missing.is_empty() || sides.iter().any(|side| side.files.is_none()) {
                let start = Instant::now();
                let made = Arc::new(self.dataset.make(table)?);
                eprintln!("{table}: made in {:.1?}", start.elapsed());
                times = self.write(table, &made, &missing, writes.max(1)).await?;
                missing.iter().try_for_each(|files| self.repeat(table, *files))?;
                self.made.push((table, self.dataset.whole(made)?));
            }
            for files in &formats {
                let time = times.iter().find(|(format, _)| format == files).map(|(_, time)| *time);
                let size = fs::metadata(self.path(table, *files))?.len();
                eprintln!("{table}: {size} bytes of {}, {time:.1?}", files.stored_as);
                written.push(Written { table, files: *files, size, time });
            }
            if sides.iter().all(|side| side.files.is_some()) {
                self.made.clear();
            }
        }
        Ok(written)
    }

    /// Lets go of what is in memory.
    pub(crate) fn forget(&mut self) {
        self.made.clear();
    }

    /// Writes a table in several formats, in turn, and gives the median time of each.
    async fn write(&self, table: &str, made: &Arc<MemTable>, formats: &[Files], writes: usize) -> Result<Vec<(Files, Duration)>> {
        // Rows of several partitions would be written as they come: in another order at each run, and not in that of the generator.
        let source = context(SessionConfig::new().with_repartition_file_scans(false).with_round_robin_repartition(false))?;
        source.register_table(table, Arc::clone(made) as _)?;
        let mut times: Vec<(Files, Vec<Duration>)> = formats.iter().map(|files| (*files, Vec::new())).collect();
        for _ in 0..writes {
            for (files, times) in &mut times {
                times.push(copy(&source, table, &self.path(table, *files), *files, &self.dataset.write_options(*files)).await?);
            }
        }
        Ok(times.into_iter().map(|(files, times)| (files, median(times).unwrap_or_default())).collect())
    }
}

async fn copy(source: &SessionContext, table: &str, path: &Path, files: Files, options: &str) -> Result<Duration> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let sql = format!("COPY {table} TO '{}' STORED AS {} {options}", path.display(), files.stored_as);
    let start = Instant::now();
    source.sql(&sql).await?.collect().await?;
    Ok(start.elapsed())
}
