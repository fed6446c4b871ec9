//! Formats and their factories: what DataFusion asks of a format before it plans a scan or a write.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Statistics, internal_datafusion_err, internal_err, not_impl_err, plan_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory, FileMeta as EngineFileMeta};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, FileSinkConfig, FileSource};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectMeta, ObjectStore};

use super::cache::{Held, OpenFile};
use super::io::ObjectReader;
use super::kind::{Kind, TableFormat};
use super::options::OptionsOf;
use super::schema::{FileColumns, Positions};
use super::sink::SinkOf;
use super::source::FormatSource;
use super::{cache, ordering, schema, stats};
use crate::format::file::Metadata;

/// Makes formats for statements.
#[derive(Debug)]
pub struct FactoryOf<F: TableFormat> {
    /// Take these instead of the session's.
    options: Option<OptionsOf<F>>,
    extension: &'static str,
}

impl<F: TableFormat> Default for FactoryOf<F> {
    fn default() -> Self {
        Self { options: None, extension: F::NAME }
    }
}

impl<F: TableFormat> FactoryOf<F> {
    /// A factory that starts from these options and not from the session's.
    pub fn with_options(options: OptionsOf<F>) -> Self {
        Self { options: Some(options), extension: F::NAME }
    }

    /// A factory for files whose names end with one of the format's other extensions.
    pub(super) fn with_extension(extension: &'static str) -> Self {
        Self { options: None, extension }
    }
}

impl<F: TableFormat> GetExt for FactoryOf<F> {
    fn get_ext(&self) -> String {
        self.extension.to_owned()
    }
}

impl<F: TableFormat> FileFormatFactory for FactoryOf<F> {
    fn create(&self, state: &dyn Session, format_options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        let options = match &self.options {
            Some(options) => {
                let mut options = options.clone();
                options.alter(format_options)?;
                options
            }
            None => OptionsOf::<F>::resolve(state, format_options)?,
        };
        Ok(Arc::new(FormatOf::new(options).with_extension(self.extension)))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(FormatOf::new(self.options.clone().unwrap_or_default()).with_extension(self.extension))
    }
}

/// A format with the options of one table or statement.
#[derive(Debug, Clone)]
pub struct FormatOf<F: TableFormat> {
    options: OptionsOf<F>,
    extension: &'static str,
    positions: Positions,
    held: Held,
}

impl<F: TableFormat> Default for FormatOf<F> {
    fn default() -> Self {
        Self::new(OptionsOf::default())
    }
}

impl<F: TableFormat> FormatOf<F> {
    /// The format with these options.
    pub fn new(options: OptionsOf<F>) -> Self {
        Self { options, extension: F::NAME, positions: Positions::default(), held: Held::default() }
    }

    fn with_extension(self, extension: &'static str) -> Self {
        Self { extension, ..self }
    }

    /// Looks for the table's columns there first.
    pub(super) fn with_positions(self, positions: Positions) -> Self {
        Self { positions, ..self }
    }

    /// The options.
    pub fn options(&self) -> &OptionsOf<F> {
        &self.options
    }

    async fn open(&self, state: &dyn Session, store: &Arc<dyn ObjectStore>, object: &ObjectMeta) -> Result<(ObjectReader, OpenFile)> {
        let caches = Arc::clone(&state.runtime_env().cache_manager);
        let reading = F::reading(&self.options.read);
        let this_machine = state.runtime_env().object_store(ObjectStoreUrl::local_filesystem());
        let is_local = this_machine.is_ok_and(|this_machine| Arc::ptr_eq(&this_machine, store));
        let reader = ObjectReader::new(Arc::clone(store), Arc::new(object.clone()), reading.requests).caching(Some(caches)).local(is_local);
        let (open, _) = cache::open(&reader, Kind::of::<F>(), &reading).await?;
        self.held.hold(&open);
        Ok((reader, open))
    }

    async fn statistics(&self, reader: &ObjectReader, open: &OpenFile, table: &SchemaRef) -> Result<Statistics> {
        let statistics = stats::statistics(reader, open, table, &self.positions, &F::reading(&self.options.read)).await?;
        // By now the file has, if they are eager, all columns.
        cache::keep(reader, open);
        Ok(statistics)
    }

    fn ordering(reader: &ObjectReader, meta: &dyn Metadata, table: &SchemaRef, statistics: &Statistics) -> Result<Option<LexOrdering>> {
        let Some(text) = meta.ordering() else {
            return Ok(None);
        };
        let file = FileColumns { meta, reader };
        Ok(ordering::from_text(text, &file, table).and_then(|ordering| ordering::without_nulls(ordering, statistics)))
    }
}

#[async_trait]
impl<F: TableFormat> FileFormat for FormatOf<F> {
    fn get_ext(&self) -> String {
        self.extension.to_owned()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        if compression.is_compressed() {
            return internal_err!("{} files are not compressed as a whole", F::TITLE);
        }
        Ok(self.get_ext())
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        None
    }

    async fn infer_schema(&self, state: &dyn Session, store: &Arc<dyn ObjectStore>, objects: &[ObjectMeta]) -> Result<SchemaRef> {
        let concurrency = state.config_options().execution.meta_fetch_concurrency.get();
        let schemas = stream::iter(objects).map(|object| async move {
            let (reader, open) = self.open(state, store, object).await?;
            let schema = open.meta.schema().map_err(|error| reader.fault(error))?;
            Ok::<_, DataFusionError>((&object.location, schema, open.meta.replaces_dictionaries()))
        });
        // Boxed, or else the compiler cannot see that the future is `Send`.
        let mut schemas: Vec<_> = schemas.boxed().buffer_unordered(concurrency).try_collect().await?;
        // Fields come in the order of the files, and stores list files in any.
        schemas.sort_unstable_by_key(|(location, ..)| *location);
        // Files of one schema share it as long as somebody has it, which is here.
        let mut seen = HashSet::new();
        let different = schemas.iter().map(|(_, schema, _)| schema).filter(|schema| seen.insert(Arc::as_ptr(schema)));
        let views = F::reading(&self.options.read).force_view_types;
        let merged = schema::merge(different.map(|schema| if views { schema::with_view_types(Arc::clone(schema)) } else { Arc::clone(schema) }))?;
        let has_several_dictionaries = schemas.len() > 1 || schemas.iter().any(|(.., replaces)| *replaces);
        Ok(if has_several_dictionaries { schema::with_roomy_keys(merged) } else { merged })
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        let (reader, open) = self.open(state, store, object).await?;
        self.statistics(&reader, &open, &table_schema).await
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        let (reader, open) = self.open(state, store, object).await?;
        let statistics = self.statistics(&reader, &open, &table_schema).await?;
        Self::ordering(&reader, open.meta.as_ref(), &table_schema, &statistics)
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<EngineFileMeta> {
        let (reader, open) = self.open(state, store, object).await?;
        let statistics = self.statistics(&reader, &open, &table_schema).await?;
        let ordering = Self::ordering(&reader, open.meta.as_ref(), &table_schema, &statistics)?;
        Ok(EngineFileMeta::new(statistics).with_ordering(ordering))
    }

    /// The scan as it is, with what only the session has: its caches.
    async fn create_physical_plan(&self, state: &dyn Session, conf: FileScanConfig) -> Result<Arc<dyn ExecutionPlan>> {
        let source = conf.file_source().downcast_ref::<FormatSource>().ok_or_else(|| internal_datafusion_err!("not a scan of {} files", F::TITLE))?;
        let caches = Arc::clone(&state.runtime_env().cache_manager);
        let source = source.clone().with_reading(F::reading(&self.options.read)).with_caches(caches);
        let conf = FileScanConfigBuilder::from(conf).with_source(Arc::new(source)).build();
        Ok(DataSourceExec::from_data_source(conf))
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        _state: &dyn Session,
        conf: FileSinkConfig,
        order_requirements: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if conf.insert_op != InsertOp::Append {
            return not_impl_err!("{} is not implemented for {}", conf.insert_op, F::TITLE);
        }
        refuse_same_names(conf.output_schema())?;
        let sink = SinkOf::<F>::new(conf, self.options.write.clone(), self.extension, order_requirements.as_ref());
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), order_requirements)))
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        Arc::new(
            FormatSource::new(Kind::of::<F>(), table_schema, F::reading(&self.options.read))
                .with_positions(self.positions.clone())
                .holding(self.held.clone()),
        )
    }
}

/// A file with two columns of one name could be written, and no SQL could read it.
fn refuse_same_names(schema: &Schema) -> Result<()> {
    let mut names = HashSet::new();
    match schema.fields().iter().find(|field| !names.insert(field.name())) {
        Some(twice) => plan_err!("two columns of the file would be called \"{}\"; give one of them another name with AS", twice.name()),
        None => Ok(()),
    }
}

impl<F: TableFormat> fmt::Display for FormatOf<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(F::NAME)
    }
}
