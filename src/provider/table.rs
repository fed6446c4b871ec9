//! Files as a table, without SQL.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{ScanArgs, ScanResult, Session, TableProvider};
use datafusion::common::{Constraints, Statistics};
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, LogicalPlan, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;

use super::format::FormatOf;
use super::kind::TableFormat;
use super::options::OptionsOf;
use super::places::{places, schema_at};
use super::wide;

/// A file, whatever its name ends with, or all files of a directory whose names end with one of the format's extensions, as a table.
#[derive(Debug, Clone)]
pub struct TableOf<F: TableFormat> {
    listing: Arc<ListingTable>,
    format: PhantomData<F>,
}

impl<F: TableFormat> TableOf<F> {
    /// Opens a file (`s3://bucket/x.fermion`, `dir/x.fermion`) or a directory (with a `/` at the end), with the options of the session.
    pub async fn open(context: &SessionContext, url: impl AsRef<str>) -> Result<Self> {
        let state = context.state();
        let options = state.config_options().extensions.get::<OptionsOf<F>>().cloned().unwrap_or_default();
        Self::open_with_options(context, [url], options).await
    }

    /// Opens several files or directories of one store as one table.
    pub async fn open_with_options<S: AsRef<str>>(
        context: &SessionContext,
        urls: impl IntoIterator<Item = S>,
        options: OptionsOf<F>,
    ) -> Result<Self> {
        let state = context.state();
        let urls = urls.into_iter().map(ListingTableUrl::parse).collect::<Result<Vec<_>>>()?;
        let only_folders = urls.iter().all(|url| url.is_collection() && url.get_glob().is_none());
        let by_ending = only_folders && F::EXTENSIONS.len() == 1;
        let extension = if by_ending { format!(".{}", F::NAME) } else { String::new() };
        let listing_options = ListingOptions::new(Arc::new(FormatOf::<F>::new(options))).with_file_extension(extension);
        let config = if by_ending {
            ListingTableConfig::new_with_multi_paths(urls).with_listing_options(listing_options).infer_schema(&state).await?
        } else {
            // The first location says the schema.
            let first = urls.first().map_or_else(|| Ok(Vec::new()), places::<F>)?;
            let schema = schema_at(&state, listing_options.format.as_ref(), &first).await?;
            let places = urls.iter().map(places::<F>).collect::<Result<Vec<_>>>()?.concat();
            ListingTableConfig::new_with_multi_paths(places).with_listing_options(listing_options).with_schema(schema)
        };
        let listing = ListingTable::try_new(config)?.with_cache(state.runtime_env().cache_manager.get_file_statistic_cache());
        Ok(Self::of(listing))
    }

    pub(super) fn of(listing: ListingTable) -> Self {
        Self { listing: Arc::new(listing), format: PhantomData }
    }

    /// The table as DataFusion's own kind.
    pub fn listing(&self) -> &Arc<ListingTable> {
        &self.listing
    }
}

/// All of it is the listing table's, but for how scans of very many columns are planned.
#[async_trait]
impl<F: TableFormat> TableProvider for TableOf<F> {
    fn schema(&self) -> SchemaRef {
        self.listing.schema()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.listing.constraints()
    }

    fn table_type(&self) -> TableType {
        self.listing.table_type()
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.listing.get_table_definition()
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        self.listing.get_logical_plan()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.listing.get_column_default(column)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let args = ScanArgs::default().with_projection(projection.map(Vec::as_slice)).with_filters(Some(filters)).with_limit(limit);
        Ok(self.scan_with_args(state, args).await?.into_inner())
    }

    async fn scan_with_args<'a>(&self, state: &dyn Session, args: ScanArgs<'a>) -> Result<ScanResult> {
        wide::scan::<F>(&self.listing, state, args).await
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.listing.supports_filters_pushdown(filters)
    }

    fn statistics(&self) -> Option<Statistics> {
        self.listing.statistics()
    }

    async fn insert_into(&self, state: &dyn Session, input: Arc<dyn ExecutionPlan>, insert_op: InsertOp) -> Result<Arc<dyn ExecutionPlan>> {
        self.listing.insert_into(state, input, insert_op).await
    }
}
