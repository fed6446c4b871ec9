//! One format's side of the comparison: its files, its tables, and what running a query over them costs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};

use arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;

use crate::fingerprint::Fingerprint;
use crate::queries::Query;
use crate::{data, memory};

/// Everything that belongs to one format.
pub(crate) struct Side {
    pub(crate) name: &'static str,
    stored_as: &'static str,
    options: &'static str,
    extension: &'static str,
    dir: PathBuf,
    config: SessionConfig,
    context: SessionContext,
}

/// What one run of a query cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) time: Duration,
    /// The scans' metric `bytes_scanned`, added up.
    pub(crate) bytes_scanned: usize,
    /// How far the process grew, where the system can tell.
    pub(crate) memory: Option<u64>,
}

impl Side {
    pub(crate) fn parquet(dir: &Path, config: &SessionConfig) -> Result<Self> {
        Self::new("Parquet", "PARQUET", "OPTIONS ('compression' 'zstd(3)')", "parquet", dir, config)
    }

    pub(crate) fn fermion(dir: &Path, config: &SessionConfig) -> Result<Self> {
        Self::new("Fermion", "FERMION", "", "fermion", dir, config)
    }

    fn new(
        name: &'static str,
        stored_as: &'static str,
        options: &'static str,
        extension: &'static str,
        dir: &Path,
        config: &SessionConfig,
    ) -> Result<Self> {
        let dir = dir.join(extension);
        fs::create_dir_all(&dir)?;
        Ok(Self { name, stored_as, options, extension, dir, config: config.clone(), context: context(config)? })
    }

    /// The file of a table.
    fn path(&self, table: &str) -> PathBuf {
        self.dir.join(format!("{table}.{}", self.extension))
    }

    pub(crate) fn file_size(&self, table: &str) -> io::Result<u64> {
        Ok(fs::metadata(self.path(table))?.len())
    }

    pub(crate) fn has_files(&self) -> bool {
        data::TABLES.iter().all(|table| self.path(table).is_file())
    }

    /// Writes a table of `source` and says how long that took.
    pub(crate) async fn write(&self, source: &SessionContext, table: &str) -> Result<Duration> {
        let path = self.path(table);
        if path.exists() {
            fs::remove_file(&path)?;
        }
        let sql = format!("COPY {table} TO '{}' STORED AS {} {}", path.display(), self.stored_as, self.options);
        let start = Instant::now();
        source.sql(&sql).await?.collect().await?;
        Ok(start.elapsed())
    }

    /// Makes the files tables of a session that has not seen them before. The time includes reading what planning needs of each.
    pub(crate) async fn open(&mut self) -> Result<Duration> {
        self.context = context(&self.config)?;
        let start = Instant::now();
        for table in data::TABLES {
            let sql = format!("CREATE EXTERNAL TABLE {table} STORED AS {} LOCATION '{}'", self.stored_as, self.path(table).display());
            self.context.sql(&sql).await?;
        }
        Ok(start.elapsed())
    }

    /// Plans and runs a query, and gives its rows.
    pub(crate) async fn answer(&self, query: &Query) -> Result<Vec<RecordBatch>> {
        let mut answer = Vec::new();
        for statement in &query.statements {
            let plan = self.context.sql(statement).await?.create_physical_plan().await?;
            let batches = collect(plan, self.context.task_ctx()).await?;
            if batches.iter().any(|batch| batch.num_columns() > 0) {
                answer = batches;
            }
        }
        Ok(answer)
    }

    /// What a query's rows add up to.
    pub(crate) async fn fingerprint(&self, query: &Query) -> Result<Fingerprint> {
        let mut fingerprint = Fingerprint::default();
        for statement in &query.statements {
            let mut stream = self.context.sql(statement).await?.execute_stream().await?;
            while let Some(batch) = stream.try_next().await? {
                fingerprint.add(&batch)?;
            }
        }
        Ok(fingerprint)
    }

    /// Plans and runs a query, drops its rows as they come, and says what that cost.
    pub(crate) async fn run(&self, query: &Query) -> Result<Cost> {
        let before = memory::reset_peak();
        let start = Instant::now();
        let mut bytes_scanned = 0;
        for statement in &query.statements {
            let plan = self.context.sql(statement).await?.create_physical_plan().await?;
            let stream = execute_stream(Arc::clone(&plan), self.context.task_ctx())?;
            stream.try_for_each(|_| async { Ok(()) }).await?;
            bytes_scanned += scanned(&plan);
        }
        let time = start.elapsed();
        let memory = memory::peak().zip(before).map(|(peak, before)| peak.saturating_sub(before));
        Ok(Cost { time, bytes_scanned, memory })
    }
}

/// A session with every format registered.
pub(crate) fn context(config: &SessionConfig) -> Result<SessionContext> {
    let context = SessionContext::new_with_config(config.clone());
    datafusion_fermion::register(&context)?;
    Ok(context)
}

fn scanned(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name("bytes_scanned")).map_or(0, |sum| sum.as_usize());
    own + plan.children().into_iter().map(scanned).sum::<usize>()
}
