//! [`TablesOf`] a format: what `CREATE EXTERNAL TABLE` makes.

use std::collections::HashSet;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{ToDFSchema, internal_datafusion_err, plan_err};
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::datasource::provider::DefaultTableFactory;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::CreateExternalTable;

use super::kind::TableFormat;
use super::places::{places, schema_at};
use super::table::TableOf;
use super::wide::is_wide;

/// Makes tables for statements: DataFusion's own, but a folder has the files of all of the format's endings and no others.
#[derive(Debug, Default)]
pub(super) struct TablesOf<F: TableFormat> {
    engine: DefaultTableFactory,
    format: PhantomData<F>,
}

#[async_trait]
impl<F: TableFormat> TableProviderFactory for TablesOf<F> {
    async fn create(&self, state: &dyn Session, statement: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        if statement.file_type.eq_ignore_ascii_case(F::NAME) && !statement.unbounded {
            let url = |location: &String| Ok(ListingTableUrl::parse(location)?.with_table_ref(statement.name.clone()));
            let urls = statement.locations.iter().map(url).collect::<Result<Vec<_>>>()?;
            // Of a format of one ending the engine leaves out other files by itself, but in folders of this machine alone.
            let is_ours = |url: &ListingTableUrl| url.is_collection() && url.get_glob().is_none() && (F::EXTENSIONS.len() > 1 || !url.is_folder());
            if urls.iter().any(is_ours) {
                return self.of_folders(state, statement, &urls).await;
            }
        }
        // What the engine does at its end, when it is known how many columns there are.
        let mut later = session(state)?.clone();
        later.config_mut().options_mut().execution.collect_statistics = false;
        let table = self.engine.create(&later, statement).await?;
        match table.downcast_ref::<ListingTable>() {
            Some(listing) => finish::<F>(state, listing.clone()).await,
            None => Ok(table),
        }
    }
}

impl<F: TableFormat> TablesOf<F> {
    /// As DataFusion does it, which takes one ending alone; but the columns of all files are put together.
    async fn of_folders(&self, state: &dyn Session, statement: &CreateExternalTable, urls: &[ListingTableUrl]) -> Result<Arc<dyn TableProvider>> {
        let session = session(state)?;
        let factory = session.get_file_format_factory(&statement.file_type);
        let factory = factory.ok_or_else(|| internal_datafusion_err!("{} is not registered", F::TITLE))?;
        let options = ListingOptions::new(factory.create(session, &statement.options)?).with_file_extension("");
        let mut seen = HashSet::new();
        if let Some(url) = urls.iter().find(|url| !seen.insert(*url) || url.object_store() != urls[0].object_store()) {
            return plan_err!("Locations of a table are different ones on the same object store, and '{}' is not", url.as_str());
        }
        let partitions = partitions(session, statement, &options, &urls[0]).await?;
        let options = options.with_table_partition_cols(partitions);
        for url in urls {
            options.validate_partitions(session, url).await?;
        }
        let places = urls.iter().map(places::<F>).collect::<Result<Vec<_>>>()?.concat();
        let schema = match declared(statement)? {
            Some(schema) => schema,
            None => schema_at(state, options.format.as_ref(), &places).await?,
        };
        check_order(statement, &schema)?;
        let options = options.with_file_sort_order(statement.order_exprs.clone());
        let config = ListingTableConfig::new_with_multi_paths(places).with_listing_options(options).with_schema(schema);
        let table = ListingTable::try_new(config)?
            .with_cache(state.runtime_env().cache_manager.get_file_statistic_cache())
            .with_definition(statement.definition.clone())
            .with_constraints(statement.constraints.clone())
            .with_column_defaults(statement.column_defaults.clone());
        finish::<F>(state, table).await
    }
}

fn session(state: &dyn Session) -> Result<&SessionState> {
    state.as_any().downcast_ref::<SessionState>().ok_or_else(|| internal_datafusion_err!("a table needs a SessionState"))
}

/// A table for statements. Statistics of all its files are taken now, unless they are of so many columns that they will be taken of those that are used.
async fn finish<F: TableFormat>(state: &dyn Session, table: ListingTable) -> Result<Arc<dyn TableProvider>> {
    if is_wide(&table) {
        return Ok(Arc::new(TableOf::<F>::of(table)));
    }
    if session(state)?.config().collect_statistics() {
        // Statistics that cannot be had now are an error when they are needed.
        let _ = table.list_files_for_scan(state, &[], None).await;
    }
    Ok(Arc::new(table))
}

/// The schema of files, if columns are declared.
fn declared(statement: &CreateExternalTable) -> Result<Option<SchemaRef>> {
    let fields = statement.schema.fields();
    if fields.is_empty() {
        return Ok(None);
    }
    let is_in_files = |index: &usize| !statement.table_partition_cols.contains(fields[*index].name());
    let columns: Vec<usize> = (0..fields.len()).filter(is_in_files).collect();
    Ok(Some(Arc::new(statement.schema.inner().project(&columns)?)))
}

/// The columns that folders are called by: those that are named, or else those that are found.
async fn partitions(
    session: &SessionState,
    statement: &CreateExternalTable,
    options: &ListingOptions,
    url: &ListingTableUrl,
) -> Result<Vec<(String, DataType)>> {
    let schema = statement.schema.inner();
    let mut names = statement.table_partition_cols.clone();
    if names.is_empty() && schema.fields().is_empty() && session.config_options().execution.listing_table_factory_infer_partitions {
        names = options.infer_partitions(session, url).await?;
    }
    let text = || DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8));
    let data_type = |name: &String| match schema.fields().is_empty() {
        true => Ok::<_, DataFusionError>(text()),
        false => Ok(schema.field_with_name(name)?.data_type().clone()),
    };
    names.iter().map(|name| Ok((name.clone(), data_type(name)?))).collect()
}

fn check_order(statement: &CreateExternalTable, schema: &SchemaRef) -> Result<()> {
    if !statement.schema.fields().is_empty() {
        return Ok(());
    }
    let known = Arc::clone(schema).to_dfschema()?;
    for sort in statement.order_exprs.iter().flatten() {
        if let Some(column) = sort.expr.column_refs().into_iter().find(|column| !known.has_column(column)) {
            return plan_err!("Column {column} is not in schema");
        }
    }
    Ok(())
}
