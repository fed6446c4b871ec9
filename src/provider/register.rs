//! Fermion in a session: for SQL by [`register`], for Rust by two extension traits.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::common::TableReference;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::file_format::format_as_file_type;
use datafusion::datasource::provider::DefaultTableFactory;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::prelude::SessionContext;

use super::format::FermionFormatFactory;
use super::options::{FermionOptions, FermionReadOptions, FermionWriteOptions};
use super::source::NAME;
use super::table::FermionTable;

/// Makes a session read and write Fermion: `STORED AS FERMION`, `SELECT … FROM 'x.fermion'` (where the session allows tables by file name),
/// and the options `fermion.*`. To do it again does no harm, and keeps options that have been set.
pub fn register(context: &SessionContext) -> Result<()> {
    let state = context.state_ref();
    let mut state = state.write();
    state.register_file_format(Arc::new(FermionFormatFactory::default()), true)?;
    // `CREATE EXTERNAL TABLE` looks for the word in upper case.
    state.table_factories_mut().insert(NAME.to_uppercase(), Arc::new(DefaultTableFactory::new()));
    let extensions = &mut state.config_mut().options_mut().extensions;
    if extensions.get::<FermionOptions>().is_none() {
        extensions.insert(FermionOptions::default());
    }
    // Lets clients that check statement options against the table options know ours.
    state.register_table_options_extension(FermionOptions::default());
    Ok(())
}

/// Reading Fermion with a [`SessionContext`].
#[async_trait]
pub trait FermionSessionExt {
    /// Files or directories (with a `/` at the end) as a data frame.
    async fn read_fermion<S: AsRef<str> + Send>(
        &self,
        paths: impl IntoIterator<Item = S, IntoIter: Send> + Send,
        options: FermionReadOptions,
    ) -> Result<DataFrame>;

    /// A file or directory as a table with a name.
    async fn register_fermion(&self, name: impl Into<TableReference> + Send, path: &str, options: FermionReadOptions) -> Result<()>;
}

#[async_trait]
impl FermionSessionExt for SessionContext {
    async fn read_fermion<S: AsRef<str> + Send>(
        &self,
        paths: impl IntoIterator<Item = S, IntoIter: Send> + Send,
        options: FermionReadOptions,
    ) -> Result<DataFrame> {
        let options = FermionOptions { read: options, ..Default::default() };
        self.read_table(Arc::new(FermionTable::open_with_options(self, paths, options).await?))
    }

    async fn register_fermion(&self, name: impl Into<TableReference> + Send, path: &str, options: FermionReadOptions) -> Result<()> {
        let name = name.into();
        let options = FermionOptions { read: options, ..Default::default() };
        let table = FermionTable::open_with_options(self, [path], options).await?;
        self.register_table(name, Arc::new(table))?;
        Ok(())
    }
}

/// Writing Fermion with a [`DataFrame`].
#[async_trait]
pub trait FermionDataFrameExt {
    /// Runs the query and writes its rows: to a file if the path has an extension, otherwise to a directory, with a level of directories for each column
    /// of `partition_by`. Gives the count of rows.
    async fn write_fermion(self, path: &str, partition_by: &[&str], options: FermionWriteOptions) -> Result<Vec<RecordBatch>>;
}

#[async_trait]
impl FermionDataFrameExt for DataFrame {
    async fn write_fermion(self, path: &str, partition_by: &[&str], options: FermionWriteOptions) -> Result<Vec<RecordBatch>> {
        let options = FermionOptions { write: options, ..Default::default() };
        let file_type = format_as_file_type(Arc::new(FermionFormatFactory::with_options(options)));
        let partition_by = partition_by.iter().map(|column| (*column).to_owned()).collect();
        let (state, plan) = self.into_parts();
        let plan = LogicalPlanBuilder::copy_to(plan, path.to_owned(), file_type, HashMap::new(), partition_by)?.build()?;
        Self::new(state, plan).collect().await
    }
}
