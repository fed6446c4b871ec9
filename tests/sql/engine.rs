//! A session as the tests see it: SQL text in, rows of text out.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_fermion::provider::LateColumns;
use datafusion_fermion::with_rules;
use sqllogictest::{AsyncDB, DBOutput};

use crate::commands::Command;
use crate::format::{Kind, kinds, text_rows};

/// The file formats a shared file runs under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Parquet,
    Fermion,
    Alkaid,
    /// Arrow's stream form, by its word.
    Arrows,
}

impl Format {
    pub(crate) const ALL: [Self; 4] = [Self::Parquet, Self::Fermion, Self::Alkaid, Self::Arrows];

    /// The word after `STORED AS`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Parquet => "PARQUET",
            Self::Fermion => "FERMION",
            Self::Alkaid => "ALKAID",
            Self::Arrows => "ARROWS",
        }
    }

    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Fermion => "fermion",
            Self::Alkaid => "alkaid",
            Self::Arrows => "arrows",
        }
    }

    /// Options of a writer that make even a small file have several row groups, stripes of several pages, or record batches.
    fn small(self) -> &'static str {
        match self {
            Self::Parquet => "'format.max_row_group_size' '1000', 'format.data_page_row_count_limit' '100', 'format.write_batch_size' '100'",
            Self::Fermion => "'fermion.stripe_rows' '1000', 'fermion.page_rows' '100'",
            Self::Alkaid => "'format.batch_rows' '100'",
            Self::Arrows => "'format.batch_rows' '100', 'format.compression' 'zstd'",
        }
    }
}

pub(crate) struct Engine {
    context: SessionContext,
    format: Format,
    directory: String,
}

impl Engine {
    /// A session whose `${DIR}` is `directory`. Four partitions whatever the machine has, so that plans are the same everywhere.
    pub(crate) async fn new(format: Format, directory: &Path) -> Result<Self> {
        let config = SessionConfig::new().with_information_schema(true).with_target_partitions(4);
        let builder = SessionStateBuilder::new().with_config(config).with_default_features();
        // Small tables, too.
        let builder = LateColumns { bytes_min: 0, far_bytes_min: 0 }.with(with_rules(builder));
        let context = SessionContext::new_with_state(builder.build());
        datafusion_fermion::register(&context)?;
        datafusion_fermion::provider::register_inspection(&context);
        let directory = directory.to_string_lossy().into_owned();
        Ok(Self { context: context.enable_url_table(), format, directory })
    }

    fn substitute(&self, sql: &str) -> String {
        let (word, extension, small) = (self.format.word(), self.format.extension(), self.format.small());
        sql.replace("${FORMAT}", word).replace("${EXT}", extension).replace("${SMALL}", small).replace("${DIR}", &self.directory)
    }

    /// Takes out of an answer or an error what differs from run to run: the directory, which plans print without its leading slash. And
    /// the extension of a listed file.
    fn restore(&self, text: &str) -> String {
        if text == self.format.extension() {
            return "${EXT}".to_owned();
        }
        text.replace(&self.directory, "${DIR}").replace(self.directory.trim_start_matches('/'), "${DIR}")
    }

    async fn answer(&self, sql: &str) -> Result<DBOutput<Kind>> {
        if let Some(command) = Command::parse(sql)? {
            return command.run(&self.context).await;
        }
        let frame = self.context.sql(sql).await?;
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await?;
        let batches = collect(Arc::clone(&plan), task).await?;
        if plan.schema().fields().is_empty() {
            return Ok(DBOutput::StatementComplete(0));
        }
        Ok(DBOutput::Rows { types: kinds(&plan.schema()), rows: text_rows(&plan.schema(), &batches)? })
    }
}

#[async_trait]
impl AsyncDB for Engine {
    type Error = DataFusionError;
    type ColumnType = Kind;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<Kind>> {
        match self.answer(&self.substitute(sql)).await {
            Ok(DBOutput::Rows { types, rows }) => {
                let rows = rows.iter().map(|row| row.iter().map(|cell| self.restore(cell)).collect()).collect();
                Ok(DBOutput::Rows { types, rows })
            }
            Ok(complete) => Ok(complete),
            Err(error) => Err(DataFusionError::External(self.restore(&error.to_string()).into())),
        }
    }

    /// The name that `onlyif` and `skipif` compare with.
    fn engine_name(&self) -> &str {
        self.format.extension()
    }

    async fn shutdown(&mut self) {}
}
