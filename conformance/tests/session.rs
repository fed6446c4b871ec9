//! The session of one run of one file.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::datatypes::FieldRef;
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::datasource::file_format::format_as_file_type;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{DdlStatement, LogicalPlan, LogicalPlanBuilder, TableSource};
use datafusion::physical_plan::collect;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion_sqllogictest::{DFColumnType, DFOutput, TestContext, convert_batches, convert_schema_to_types};
use futures::FutureExt;
use sqllogictest::{AsyncDB, DBOutput};

use crate::suite::SuiteFile;

/// No record of the suite takes long.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A session with what the suite registers for the file, and Fermion.
pub(crate) struct Session {
    context: SessionContext,
    is_spark: bool,
    root: String,
    /// Where tables that are created in memory go instead, or `None` if they stay there.
    tables: Option<PathBuf>,
    /// How many have gone there: a name that is used again is another table, and caches know files by their paths.
    stored: usize,
}

impl Session {
    /// `None` if the suite cannot run this file in this build.
    pub(crate) async fn new(file: &SuiteFile, tables: Option<PathBuf>) -> Result<Option<Self>> {
        let Some(test) = TestContext::try_new_for_test_file(&file.relative).await else {
            return Ok(None);
        };
        let context = test.session_ctx().clone();
        datafusion_fermion::register(&context)?;
        let root = file.root.to_string_lossy().trim_start_matches('/').to_owned();
        Ok(Some(Self { context, is_spark: file.relative.starts_with("spark"), root, tables, stored: 0 }))
    }

    async fn answer(&mut self, sql: &str) -> Result<DFOutput> {
        let plan = self.context.state().create_logical_plan(sql).await?;
        let created = match &plan {
            LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(table)) => Some(table.name.clone()),
            _ => None,
        };
        let frame = self.context.execute_logical_plan(plan).await?;
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await?;
        let schema = plan.schema();
        let batches = collect(plan, task).await?;
        if let (Some(directory), Some(name)) = (&self.tables, created) {
            self.stored = self.stored.saturating_add(1);
            store(&self.context, &name, &directory.join(self.stored.to_string())).await?;
        }
        let types = convert_schema_to_types(schema.fields());
        let rows = convert_batches(&schema, batches, self.is_spark).map_err(|error| DataFusionError::External(Box::new(error)))?;
        if rows.is_empty() && types.is_empty() { Ok(DBOutput::StatementComplete(0)) } else { Ok(DBOutput::Rows { types, rows }) }
    }
}

#[async_trait]
impl AsyncDB for Session {
    type Error = DataFusionError;
    type ColumnType = DFColumnType;

    async fn run(&mut self, sql: &str) -> Result<DFOutput> {
        let answer = AssertUnwindSafe(self.answer(sql)).catch_unwind();
        match tokio::time::timeout(TIMEOUT, answer).await {
            Ok(Ok(Ok(DBOutput::Rows { types, rows }))) => {
                let replace = |cell: &String| cell.replace(&self.root, "WORKSPACE_ROOT");
                Ok(DBOutput::Rows { types, rows: rows.iter().map(|row| row.iter().map(replace).collect()).collect() })
            }
            Ok(Ok(other)) => other,
            Ok(Err(_)) => Err(DataFusionError::External(crate::compare::PANIC.into())),
            Err(_) => Err(DataFusionError::External("it takes too long".into())),
        }
    }

    fn engine_name(&self) -> &str {
        "DataFusion"
    }

    async fn shutdown(&mut self) {}
}

/// Writes the Parquet file at a path again as Fermion, beside it.
pub(crate) async fn convert(path: &Path) -> Result<()> {
    // As the file has them: strings as strings, not as views.
    let config = SessionConfig::new().set_bool("datafusion.execution.parquet.schema_force_view_types", false);
    let context = SessionContext::new_with_config(config).enable_url_table();
    datafusion_fermion::register(&context)?;
    let copy = format!("COPY '{}' TO '{}' STORED AS FERMION", path.display(), path.with_extension("fermion").display());
    context.sql(&copy).await?.collect().await?;
    Ok(())
}

/// Replaces a table in memory by one over Fermion files: one file per partition, so that the order of rows stays as it was.
async fn store(context: &SessionContext, name: &TableReference, directory: &Path) -> Result<()> {
    let provider = context.table_provider(name.clone()).await?;
    if provider.downcast_ref::<MemTable>().is_none() {
        return Ok(());
    }
    let state = context.state();
    let factory = state.get_file_format_factory("fermion").ok_or_else(|| DataFusionError::Internal("FERMION is not registered".to_owned()))?;
    std::fs::create_dir_all(directory)?;
    let scan = DataFrame::new(state.clone(), LogicalPlanBuilder::scan(name.clone(), provider_source(&provider), None)?.build()?);
    // Statements of the file have set up the session as they like; what copies a table is another one.
    let copier = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    for (index, batches) in scan.collect_partitioned().await?.into_iter().enumerate() {
        let partition = MemTable::try_new(provider.schema(), vec![batches])?;
        let source = LogicalPlanBuilder::scan("partition", provider_source(&(Arc::new(partition) as _)), None)?.build()?;
        let path = directory.join(format!("{index:04}.fermion")).to_string_lossy().into_owned();
        let copy = LogicalPlanBuilder::copy_to(source, path, format_as_file_type(Arc::clone(&factory)), HashMap::new(), vec![])?.build()?;
        copier.execute_logical_plan(copy).await?.collect().await?;
    }
    let url = ListingTableUrl::parse(format!("{}/", directory.to_string_lossy()))?;
    let options = ListingOptions::new(factory.create(&state, &HashMap::new())?).with_file_extension(".fermion");
    let config = ListingTableConfig::new(url).with_listing_options(options).with_schema(provider.schema());
    let constraints = provider.constraints().cloned().unwrap_or_default();
    let default = |field: &FieldRef| provider.get_column_default(field.name()).map(|default| (field.name().clone(), default.clone()));
    let defaults = provider.schema().fields().iter().filter_map(default).collect();
    let table = ListingTable::try_new(config)?.with_constraints(constraints).with_column_defaults(defaults);
    context.deregister_table(name.clone())?;
    context.register_table(name.clone(), Arc::new(table))?;
    Ok(())
}

fn provider_source(provider: &Arc<dyn TableProvider>) -> Arc<dyn TableSource> {
    provider_as_source(Arc::clone(provider))
}
