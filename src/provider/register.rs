//! The formats in a session: for SQL by [`register`], for Rust by two extension traits.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::common::TableReference;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::file_format::format_as_file_type;
use datafusion::error::Result;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::prelude::SessionContext;

use super::alkaid::{Alkaid, AlkaidReadOptions, AlkaidWriteOptions};
use super::backwards::Backwards;
use super::by_value::TextByValue;
use super::create::TablesOf;
use super::fermion::{Fermion, FermionReadOptions, FermionWriteOptions};
use super::format::FactoryOf;
use super::groups::{GroupsByCodes, GroupsByRuns};
use super::kind::TableFormat;
use super::known_sums::KnownSums;
use super::late::LateColumns;
use super::lengths;
use super::offsets_alone::OffsetsAlone;
use super::options::OptionsOf;
use super::table::TableOf;

/// Makes a session read and write all formats: `STORED AS FERMION`, `SELECT … FROM 'x.fermion'` (where the session allows tables by file name),
/// and the options `fermion.*`; the same with `ALKAID` and `alkaid.*`. Arrow files, which DataFusion can read, too, are from then on read by this crate.
/// `array_length` and `cardinality` are from then on answered by offsets, for lists of all tables.
/// To do it again does no harm, and keeps options that have been set.
pub fn register(context: &SessionContext) -> Result<()> {
    let state = context.state_ref();
    let mut state = state.write();
    register_format::<Fermion>(&mut state)?;
    register_format::<Alkaid>(&mut state)?;
    lengths::register(&mut state)
}

/// Adds the rules that plan scans together with what stands above them: [`KnownSums`] and [`LateColumns`] among the engine's own, [`Backwards`], [`OffsetsAlone`], [`TextByValue`], [`GroupsByCodes`] and [`GroupsByRuns`] behind them. A session that exists takes no more rules, so [`register`] cannot do this.
///
/// ```
/// use datafusion::execution::SessionStateBuilder;
/// use datafusion::prelude::SessionContext;
///
/// let state = datafusion_fermion::with_rules(SessionStateBuilder::new().with_default_features()).build();
/// let context = SessionContext::new_with_state(state);
/// datafusion_fermion::register(&context)?;
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
pub fn with_rules(builder: SessionStateBuilder) -> SessionStateBuilder {
    KnownSums
        .with(LateColumns::default().with(builder))
        .with_physical_optimizer_rule(Arc::new(Backwards))
        .with_physical_optimizer_rule(Arc::new(OffsetsAlone))
        .with_physical_optimizer_rule(Arc::new(TextByValue))
        .with_physical_optimizer_rule(Arc::new(GroupsByCodes))
        .with_physical_optimizer_rule(Arc::new(GroupsByRuns))
}

fn register_format<F: TableFormat>(state: &mut SessionState) -> Result<()> {
    for extension in F::EXTENSIONS {
        state.register_file_format(Arc::new(FactoryOf::<F>::with_extension(extension)), true)?;
        // `CREATE EXTERNAL TABLE` looks for the word in upper case.
        state.table_factories_mut().insert(extension.to_uppercase(), Arc::new(TablesOf::<F>::default()));
    }
    let extensions = &mut state.config_mut().options_mut().extensions;
    if extensions.get::<OptionsOf<F>>().is_none() {
        extensions.insert(OptionsOf::<F>::default());
    }
    // Lets clients that check statement options against the table options know ours.
    state.register_table_options_extension(OptionsOf::<F>::default());
    Ok(())
}

/// Reading with a [`SessionContext`], a pair of methods for each format. Paths are files, or directories with a `/` at the end.
#[async_trait]
pub trait FermionSessionExt {
    /// Fermion files as a data frame.
    async fn read_fermion<S: AsRef<str> + Send>(
        &self,
        paths: impl IntoIterator<Item = S, IntoIter: Send> + Send,
        options: FermionReadOptions,
    ) -> Result<DataFrame>;

    /// A Fermion file or directory as a table with a name.
    async fn register_fermion(&self, name: impl Into<TableReference> + Send, path: &str, options: FermionReadOptions) -> Result<()>;

    /// Alkaid and Arrow files and streams as a data frame.
    async fn read_alkaid<S: AsRef<str> + Send>(
        &self,
        paths: impl IntoIterator<Item = S, IntoIter: Send> + Send,
        options: AlkaidReadOptions,
    ) -> Result<DataFrame>;

    /// An Alkaid or Arrow file, stream or directory as a table with a name.
    async fn register_alkaid(&self, name: impl Into<TableReference> + Send, path: &str, options: AlkaidReadOptions) -> Result<()>;
}

#[async_trait]
impl FermionSessionExt for SessionContext {
    async fn read_fermion<S: AsRef<str> + Send>(
        &self,
        paths: impl IntoIterator<Item = S, IntoIter: Send> + Send,
        options: FermionReadOptions,
    ) -> Result<DataFrame> {
        self.read_table(Arc::new(open::<Fermion, S>(self, paths, options).await?))
    }

    async fn register_fermion(&self, name: impl Into<TableReference> + Send, path: &str, options: FermionReadOptions) -> Result<()> {
        let name = name.into();
        let table = open::<Fermion, _>(self, [path], options).await?;
        self.register_table(name, Arc::new(table)).map(drop)
    }

    async fn read_alkaid<S: AsRef<str> + Send>(
        &self,
        paths: impl IntoIterator<Item = S, IntoIter: Send> + Send,
        options: AlkaidReadOptions,
    ) -> Result<DataFrame> {
        self.read_table(Arc::new(open::<Alkaid, S>(self, paths, options).await?))
    }

    async fn register_alkaid(&self, name: impl Into<TableReference> + Send, path: &str, options: AlkaidReadOptions) -> Result<()> {
        let name = name.into();
        let table = open::<Alkaid, _>(self, [path], options).await?;
        self.register_table(name, Arc::new(table)).map(drop)
    }
}

async fn open<F: TableFormat, S: AsRef<str> + Send>(
    context: &SessionContext,
    paths: impl IntoIterator<Item = S, IntoIter: Send> + Send,
    read: F::ReadOptions,
) -> Result<TableOf<F>> {
    TableOf::open_with_options(context, paths, OptionsOf { read, write: F::WriteOptions::default() }).await
}

/// Writing with a [`DataFrame`], a method for each format.
///
/// It runs the query and writes its rows: to a file if the path has an extension, otherwise to a directory, with a level of directories for each column of
/// `partition_by`. It gives the count of rows.
#[async_trait]
pub trait FermionDataFrameExt {
    /// Writes Fermion.
    async fn write_fermion(self, path: &str, partition_by: &[&str], options: FermionWriteOptions) -> Result<Vec<RecordBatch>>;

    /// Writes Alkaid or Arrow.
    async fn write_alkaid(self, path: &str, partition_by: &[&str], options: AlkaidWriteOptions) -> Result<Vec<RecordBatch>>;
}

#[async_trait]
impl FermionDataFrameExt for DataFrame {
    async fn write_fermion(self, path: &str, partition_by: &[&str], options: FermionWriteOptions) -> Result<Vec<RecordBatch>> {
        write::<Fermion>(self, path, partition_by, options).await
    }

    async fn write_alkaid(self, path: &str, partition_by: &[&str], options: AlkaidWriteOptions) -> Result<Vec<RecordBatch>> {
        write::<Alkaid>(self, path, partition_by, options).await
    }
}

async fn write<F: TableFormat>(frame: DataFrame, path: &str, partition_by: &[&str], write: F::WriteOptions) -> Result<Vec<RecordBatch>> {
    let options = OptionsOf::<F> { read: F::ReadOptions::default(), write };
    let file_type = format_as_file_type(Arc::new(FactoryOf::with_options(options)));
    let partition_by = partition_by.iter().map(|column| (*column).to_owned()).collect();
    let (state, plan) = frame.into_parts();
    let plan = LogicalPlanBuilder::copy_to(plan, path.to_owned(), file_type, HashMap::new(), partition_by)?.build()?;
    DataFrame::new(state, plan).collect().await
}
