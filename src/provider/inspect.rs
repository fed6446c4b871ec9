//! Table functions that show what Fermion files are made of: `fermion_metadata('x.fermion')`, `fermion_columns`, `fermion_pages`, `fermion_verify`.
//!
//! Each takes a file or a directory, of which all Fermion files are shown. They read what they show when the query is planned.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DECIMAL256_MAX_PRECISION, DataType, Decimal256Type, DecimalType, Field, Schema, SchemaRef, i256};
use arrow::util::display::array_value_to_string;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_datasource::memory::MemorySourceConfig;
use futures::TryStreamExt;

use super::fermion::{Fermion, FermionReadOptions};
use super::io::ObjectReader;
use super::kind::TableFormat;
use crate::format::Error;
use crate::format::Result as FormatResult;
use crate::format::fermion::inspect::{FilePart, InspectColumn, VerifyColumn, column_layout, file_layout, file_parts};
use crate::format::fermion::{FileMeta, Open, OpenOptions};

/// What is shown of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Metadata,
    Columns,
    Pages,
    Faults,
}

const SUBJECTS: [(&str, Subject); 4] = [
    ("fermion_metadata", Subject::Metadata),
    ("fermion_columns", Subject::Columns),
    ("fermion_pages", Subject::Pages),
    ("fermion_verify", Subject::Faults),
];

/// Makes a session know the table functions `fermion_metadata`, `fermion_columns`, `fermion_pages` and `fermion_verify`, which show what a file is made of, and whether it is whole.
/// Who may say SELECT can then look at any file that the session's stores have.
pub fn register_inspection(context: &SessionContext) {
    let state = context.state_ref();
    register(&mut state.write());
}

fn register(state: &mut SessionState) {
    for (name, subject) in SUBJECTS {
        state.register_udtf(name, Arc::new(InspectFunction { name, subject }));
    }
}

/// A column of what is shown.
type Column = (&'static str, DataType);

const TEXT: DataType = DataType::Utf8;
/// Signed, for SQL subtracts such numbers as one expects.
const NUMBER: DataType = DataType::Int64;
const FLAG: DataType = DataType::Boolean;

impl Subject {
    fn columns(self) -> &'static [Column] {
        match self {
            Self::Metadata => &[
                ("file", TEXT),
                ("version", TEXT),
                ("rows", NUMBER),
                ("columns", NUMBER),
                ("stripes", NUMBER),
                ("bytes", NUMBER),
                ("data_bytes", NUMBER),
                ("column_metadata_bytes", NUMBER),
                ("schema_bytes", NUMBER),
                ("column_index_bytes", NUMBER),
                ("stripe_directory_bytes", NUMBER),
                ("checksums", FLAG),
                ("dictionaries", FLAG),
                ("bloom_filters", FLAG),
                ("batches", FLAG),
                ("ordering", TEXT),
            ],
            Self::Columns => &[
                ("file", TEXT),
                ("column_index", NUMBER),
                ("column", TEXT),
                ("type", TEXT),
                ("nullable", FLAG),
                ("bytes", NUMBER),
                ("page_bytes", NUMBER),
                ("dictionary_bytes", NUMBER),
                ("bloom_filter_bytes", NUMBER),
                ("metadata_bytes", NUMBER),
                ("nulls", NUMBER),
                ("min", TEXT),
                ("max", TEXT),
                ("exact", FLAG),
                ("distinct_count", NUMBER),
                ("sum", TEXT),
                ("value_bytes", NUMBER),
            ],
            Self::Pages => &[
                ("file", TEXT),
                ("column", TEXT),
                ("part", TEXT),
                ("stripe", NUMBER),
                ("stream", NUMBER),
                ("holds", TEXT),
                ("offset", NUMBER),
                ("bytes", NUMBER),
                ("slots", NUMBER),
                ("nulls", NUMBER),
                ("min", TEXT),
                ("max", TEXT),
                ("encoding", TEXT),
            ],
            Self::Faults => &[("file", TEXT), ("kind", TEXT), ("section", TEXT), ("column", TEXT), ("offset", NUMBER), ("fault", TEXT)],
        }
    }

    fn schema(self) -> SchemaRef {
        Arc::new(Schema::new(self.columns().iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect::<Vec<_>>()))
    }
}

#[derive(Debug)]
struct InspectFunction {
    name: &'static str,
    subject: Subject,
}

impl TableFunctionImpl for InspectFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let texts: Option<Vec<String>> = args.exprs().iter().map(text_of).collect();
        let (path, column) = match texts.as_deref() {
            Some([path]) => (path, None),
            Some([path, column]) if self.subject == Subject::Pages => (path, Some(column.clone())),
            _ if self.subject == Subject::Pages => {
                return plan_err!("{} takes the path of a file, and perhaps the name of a column, as text", self.name);
            }
            _ => return plan_err!("{} takes the path of a file or directory, as text", self.name),
        };
        Ok(Arc::new(InspectTable { subject: self.subject, url: ListingTableUrl::parse(path)?, column }))
    }
}

/// A text, or a name in double quotes.
fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text), _) => text.clone(),
        Expr::Column(column) => Some(column.name().to_owned()),
        _ => None,
    }
}

#[derive(Debug)]
struct InspectTable {
    subject: Subject,
    url: ListingTableUrl,
    column: Option<String>,
}

#[async_trait]
impl TableProvider for InspectTable {
    fn schema(&self) -> SchemaRef {
        self.subject.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let batches = self.read(state).await?;
        Ok(MemorySourceConfig::try_new_exec(&[batches], self.schema(), projection.cloned())?)
    }
}

impl InspectTable {
    async fn read(&self, state: &dyn Session) -> Result<Vec<RecordBatch>> {
        let store = state.runtime_env().object_store(&self.url)?;
        let extension = if self.url.is_collection() { format!(".{}", Fermion::NAME) } else { String::new() };
        let mut files: Vec<_> = self.url.list_all_files(state, store.as_ref(), &extension).await?.try_collect().await?;
        files.sort_by(|one, other| one.location.cmp(&other.location));
        if files.is_empty() {
            return plan_err!("there is no Fermion file at {}", self.url);
        }
        let options = FermionReadOptions::default();
        let mut batches = Vec::with_capacity(files.len());
        for object in files {
            let is_local = self.url.object_store() == ObjectStoreUrl::local_filesystem();
            let reader = ObjectReader::new(Arc::clone(&store), Arc::new(object), Fermion::reading(&options).requests)
                .caching(Some(Arc::clone(&state.runtime_env().cache_manager)))
                .local(is_local);
            let mut rows = Rows::new(self.subject, &reader.object().location);
            self.add(&reader, &options, &mut rows).await?;
            batches.push(rows.finish()?);
        }
        Ok(batches)
    }

    async fn add(&self, reader: &ObjectReader, options: &FermionReadOptions, rows: &mut Rows) -> Result<()> {
        let opening = OpenOptions { prefetch: options.metadata_size_hint, eager_load_threshold: options.eager_load_threshold };
        let meta = match Open::new(reader.object().size, &opening) {
            Ok(open) => reader.try_load(open).await?,
            Err(error) => Err(error),
        };
        let meta = match meta {
            Ok(meta) => Arc::new(meta),
            Err(error) if self.subject == Subject::Faults => {
                rows.add_fault(&error);
                return Ok(());
            }
            Err(error) => return Err(reader.fault(error)),
        };
        match self.subject {
            Subject::Metadata => rows.add_file(&meta),
            Subject::Columns => add_columns(reader, &meta, rows).await?,
            Subject::Pages => add_pages(reader, &meta, self.column.as_deref(), rows).await?,
            Subject::Faults => add_faults(reader, &meta, rows).await?,
        }
        Ok(())
    }
}

async fn add_columns(reader: &ObjectReader, meta: &Arc<FileMeta>, rows: &mut Rows) -> Result<()> {
    let columns: Vec<usize> = (0..meta.column_count()).collect();
    reader.load(meta.load_columns(&columns)).await?;
    columns.into_iter().try_for_each(|column| rows.add_column(meta, column)).map_err(|error| reader.fault(error))
}

async fn add_pages(reader: &ObjectReader, meta: &Arc<FileMeta>, column: Option<&str>, rows: &mut Rows) -> Result<()> {
    let columns = match column {
        None => 0..meta.column_count(),
        Some(name) => match meta.index_of(name) {
            Some(column) => column..column + 1,
            None => return plan_err!("{} has no column \"{name}\"", reader.object().location),
        },
    };
    if column.is_none() {
        file_parts(meta).iter().for_each(|part| rows.add_part(None, part));
    }
    reader.load(meta.load_columns(&columns.clone().collect::<Vec<_>>())).await?;
    for column in columns {
        let name = meta.field(column).map_err(|error| reader.fault(error))?.name().clone();
        let parts = reader.load(InspectColumn::new(meta, column)).await?;
        parts.iter().for_each(|part| rows.add_part(Some(&name), part));
    }
    Ok(())
}

async fn add_faults(reader: &ObjectReader, meta: &Arc<FileMeta>, rows: &mut Rows) -> Result<()> {
    // All at once; what is damaged is found out column by column.
    let _damaged = reader.try_load(meta.load_columns(&(0..meta.column_count()).collect::<Vec<_>>())).await?;
    for column in 0..meta.column_count() {
        let mut faults = match VerifyColumn::new(meta, column) {
            Ok(verify) => reader.try_load(verify).await?.unwrap_or_else(|error| vec![error]),
            Err(error) => vec![error],
        };
        // There may be pages that no row needs.
        if faults.is_empty() {
            faults.extend(reader.try_load(InspectColumn::new(meta, column)).await?.err());
        }
        faults.iter().for_each(|fault| rows.add_fault(fault));
    }
    Ok(())
}

/// A value of what is shown.
enum Value {
    Text(Option<String>),
    Number(Option<u64>),
    Flag(Option<bool>),
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(Some(number))
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(Some(number as u64))
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(Some(flag))
    }
}

/// A sum as it is read: with the scale of decimals.
fn with_scale(sum: i128, data_type: &DataType) -> String {
    use DataType::{Decimal32, Decimal64, Decimal128, Dictionary, RunEndEncoded};
    match data_type {
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) => {
            Decimal256Type::format_decimal(i256::from_i128(sum), DECIMAL256_MAX_PRECISION, *scale)
        }
        Dictionary(_, values) => with_scale(sum, values),
        RunEndEncoded(_, values) => with_scale(sum, values.data_type()),
        _ => sum.to_string(),
    }
}

fn text(text: impl ToString) -> Value {
    Value::Text(Some(text.to_string()))
}

/// What is shown of a file.
struct Rows {
    subject: Subject,
    file: String,
    rows: Vec<Vec<Value>>,
}

impl Rows {
    fn new(subject: Subject, file: &impl ToString) -> Self {
        Self { subject, file: file.to_string(), rows: Vec::new() }
    }

    fn push(&mut self, values: Vec<Value>) {
        self.rows.push(std::iter::once(text(&self.file)).chain(values).collect());
    }

    fn add_file(&mut self, meta: &FileMeta) {
        let layout = file_layout(meta);
        self.push(vec![
            text(format_args!("{}.{}", layout.version.0, layout.version.1)),
            meta.row_count().into(),
            meta.column_count().into(),
            meta.stripes().len().into(),
            meta.file_length().into(),
            layout.data_bytes.into(),
            layout.column_metadata_bytes.into(),
            layout.schema_bytes.into(),
            layout.column_index_bytes.into(),
            layout.stripe_directory_bytes.into(),
            meta.has_checksums().into(),
            layout.has_dictionaries.into(),
            layout.has_bloom_filters.into(),
            layout.has_batches.into(),
            Value::Text(meta.ordering().map(str::to_owned)),
        ]);
    }

    fn add_column(&mut self, meta: &FileMeta, column: usize) -> FormatResult<()> {
        let (field, layout) = (meta.field(column)?, column_layout(meta, column)?);
        let summary = meta.column_summary(column)?.unwrap_or_default();
        let exact = summary.min.as_ref().zip(summary.max.as_ref()).map(|((_, min), (_, max))| *min && *max);
        let bound = |bound: Option<(ArrayRef, bool)>| Value::Text(bound.and_then(|(value, _)| array_value_to_string(&value, 0).ok()));
        self.push(vec![
            column.into(),
            text(field.name()),
            text(field.data_type()),
            field.is_nullable().into(),
            (layout.page_bytes + layout.dictionary_bytes + layout.bloom_filter_bytes + layout.metadata_bytes).into(),
            layout.page_bytes.into(),
            layout.dictionary_bytes.into(),
            layout.bloom_filter_bytes.into(),
            layout.metadata_bytes.into(),
            Value::Number(summary.null_count),
            bound(summary.min),
            bound(summary.max),
            Value::Flag(exact),
            Value::Number(summary.distinct_count),
            Value::Text(summary.sum.map(|sum| with_scale(sum, field.data_type()))),
            Value::Number(summary.value_bytes),
        ]);
        Ok(())
    }

    fn add_part(&mut self, column: Option<&str>, part: &FilePart) {
        self.push(vec![
            Value::Text(column.map(str::to_owned)),
            text(part.kind.name()),
            Value::Number(part.stripe.map(|stripe| stripe as u64)),
            Value::Number(part.stream.map(|(stream, _)| stream as u64)),
            Value::Text(part.stream.map(|(_, holds)| format!("{holds:?}").to_lowercase())),
            part.range.start.into(),
            (part.range.end - part.range.start).into(),
            Value::Number(part.slots),
            Value::Number(part.nulls),
            Value::Text(part.min.clone()),
            Value::Text(part.max.clone()),
            Value::Text(part.encoding.clone()),
        ]);
    }

    fn add_fault(&mut self, fault: &Error) {
        self.push(vec![
            text(fault.kind()),
            Value::Text(fault.section().map(|section| section.to_string())),
            Value::Text(fault.column().map(str::to_owned)),
            Value::Number(fault.offset()),
            text(fault),
        ]);
    }

    fn finish(self) -> Result<RecordBatch> {
        let mut columns: Vec<Vec<Value>> = self.subject.columns().iter().map(|_| Vec::with_capacity(self.rows.len())).collect();
        for row in self.rows {
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        let arrays = self.subject.columns().iter().zip(columns).map(|((_, data_type), values)| array(data_type, values)).collect();
        Ok(RecordBatch::try_new(self.subject.schema(), arrays)?)
    }
}

fn array(data_type: &DataType, values: Vec<Value>) -> ArrayRef {
    let values = values.into_iter();
    match data_type {
        DataType::Int64 => Arc::new(
            values.map(|value| if let Value::Number(Some(number)) = value { i64::try_from(number).ok() } else { None }).collect::<Int64Array>(),
        ),
        DataType::Boolean => Arc::new(values.map(|value| if let Value::Flag(flag) = value { flag } else { None }).collect::<BooleanArray>()),
        _ => Arc::new(values.map(|value| if let Value::Text(text) = value { text } else { None }).collect::<StringArray>()),
    }
}
