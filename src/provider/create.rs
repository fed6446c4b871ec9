//! [`TablesOf`] a format: what `CREATE EXTERNAL TABLE` makes.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::datasource::provider::DefaultTableFactory;
use datafusion::error::Result;
use datafusion::logical_expr::CreateExternalTable;

use super::format::FormatOf;
use super::kind::TableFormat;
use super::options::OptionsOf;
use super::places::{files_at, places, schema_at};

/// Makes tables for statements: DataFusion's own, but under the format's name a folder has the files of all of its endings.
#[derive(Debug, Default)]
pub(super) struct TablesOf<F: TableFormat> {
    engine: DefaultTableFactory,
    format: PhantomData<F>,
}

#[async_trait]
impl<F: TableFormat> TableProviderFactory for TablesOf<F> {
    async fn create(&self, state: &dyn Session, statement: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        // Where columns are declared, DataFusion reads all files of a folder.
        if statement.file_type.eq_ignore_ascii_case(F::NAME) && statement.schema.fields().is_empty() {
            let url = |location: &String| Ok(ListingTableUrl::parse(location)?.with_table_ref(statement.name.clone()));
            let urls = statement.locations.iter().map(url).collect::<Result<Vec<_>>>()?;
            let places = urls.iter().map(places::<F>).collect::<Result<Vec<_>>>()?.concat();
            if places.len() > urls.len() {
                return self.of_folders(state, statement, places).await;
            }
        }
        self.engine.create(state, statement).await
    }
}

impl<F: TableFormat> TablesOf<F> {
    /// DataFusion's factory takes one ending: what it makes of the first that is there holds for all, but for the places and the schema.
    async fn of_folders(&self, state: &dyn Session, statement: &CreateExternalTable, places: Vec<ListingTableUrl>) -> Result<Arc<dyn TableProvider>> {
        let mut of_one = statement.clone();
        let files = files_at(state, &places).await?;
        if let Some(extension) = files.iter().find_map(|file| file.location.extension()) {
            of_one.file_type = extension.to_uppercase();
        }
        let table = self.engine.create(state, &of_one).await?;
        let Some(listing) = table.downcast_ref::<ListingTable>() else { return Ok(table) };
        // Of the format's own name: that is how files are called that are inserted.
        let format = Arc::new(FormatOf::<F>::new(OptionsOf::resolve(state, &statement.options)?));
        let schema = schema_at(state, format.as_ref(), &places).await?;
        let options = ListingOptions { format, ..listing.options().clone() };
        let config = ListingTableConfig::new_with_multi_paths(places).with_listing_options(options).with_schema(schema);
        let caches = &state.runtime_env().cache_manager;
        Ok(Arc::new(ListingTable::try_new(config)?.with_cache(caches.get_file_statistic_cache()).with_definition(statement.definition.clone())))
    }
}
