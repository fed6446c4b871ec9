//! The metadata of an open file.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use bytes::Bytes;

use super::columns::LoadColumns;
use super::summary;
use crate::format::array::LEAF_DATA;
use crate::format::error::{Error, Result};
use crate::format::fermion::batches::{BATCH_STREAMS, BatchColumn, ID_STREAM, batch_stripes};
use crate::format::fermion::cit::Cit;
use crate::format::fermion::cmb::{Cmb, CmbExpect};
use crate::format::fermion::footer::Footer;
use crate::format::fermion::schema::{ORDERING_KEY, SchemaArea, SharedSchemas, leaf_type, stream_layout};
use crate::format::fermion::stripes::{Stripe, read_stripes};
use crate::format::file::{Kept, Metadata, PartOfTable, Whole};
use crate::format::scan::{ColumnSummary, Section};
use crate::format::wire;

/// Schemas of up to so many bytes, of about 14,000 columns, are kept with their files.
const SCHEMA_KEPT_MAX: usize = 768 << 10;

/// The metadata of an open file, shared by all scans of it. It grows with the columns that are used.
#[derive(Debug)]
pub struct FileMeta {
    /// Of this file, or of others too.
    schema: Arc<SchemaArea>,
    own: Arc<Own>,
}

/// What is of the file alone.
#[derive(Debug)]
struct Own {
    footer: Footer,
    file_length: u64,
    /// The end of the CMB area, or all of it, that came with the end of the file.
    known: Bytes,
    known_start: u64,
    /// Nobody else had the schema when the file was opened. Should this one be forgotten before others that have it, then it is not counted.
    is_first_of_schema: bool,
    cit: Cit,
    stripes: Arc<[Stripe]>,
    columns: RwLock<HashMap<usize, ColumnMeta>>,
}

/// The metadata of a file without its schema, which is as large as that of many columns and belongs to the tables that the file is in.
#[derive(Debug)]
struct WithoutSchema {
    schema: Weak<SchemaArea>,
    own: Arc<Own>,
}

impl Kept for WithoutSchema {
    fn metadata(&self) -> Option<Arc<dyn Metadata>> {
        Some(Arc::new(FileMeta { schema: self.schema.upgrade()?, own: Arc::clone(&self.own) }))
    }
}

/// The metadata of a column.
#[derive(Debug, Clone)]
pub enum ColumnMeta {
    /// Null in every row.
    AllNull,
    /// Its CMB.
    Cmb(Arc<Cmb>),
}

impl FileMeta {
    /// From the end of the file, `known`, which starts at `known_start` and holds at least the schema and what follows it, and without a CIT all CMBs.
    pub(super) fn new(footer: Footer, file_length: u64, known_start: u64, known: &Bytes, schemas: &SharedSchemas) -> Result<Self> {
        let area = |section, range: Range<u64>, crc: u32| {
            let bytes = part(known, known_start, &range).ok_or_else(|| Error::eof(format!("there are no bytes {range:?} of metadata")));
            bytes.and_then(|bytes| check_crc(bytes, crc)).map_err(|error| error.in_section(section).at(range.start))
        };
        let schema = area(Section::Schema, footer.schema_area(), footer.schema_crc)?;
        let cit = match footer.has_cit() {
            true => Cit::new(Bytes::copy_from_slice(&area(Section::ColumnIndex, footer.cit_area(), footer.cit_crc)?), footer.cmb_area()),
            false => {
                let cmbs = part(known, known_start, &footer.cmb_area()).ok_or_else(|| Error::eof("there are no bytes of the CMBs"))?;
                Cit::of_lengths(&cmbs, footer.cmb_area(), footer.column_count, footer.has_batches(), footer.cit_crc)?
            }
        };
        let stripes = area(Section::StripeDirectory, footer.stripe_area(), footer.stripes_crc)?;
        let (schema, is_first_of_schema) =
            schemas.open(&schema, footer.schema_crc, footer.column_count).map_err(|error| error.at(footer.schema_offset))?;
        if let Some(column) = BatchColumn::ALL.into_iter().find(|column| footer.has_batches() && schema.index_of(column.name()).is_some()) {
            let error = Error::invalid_file("a file of batches has a column of its own with the name of one of theirs");
            return Err(error.in_section(Section::Schema).in_column(column.name()).at(footer.schema_offset));
        }
        let cmbs = part(known, known_start, &(known_start..footer.schema_offset)).unwrap_or_default();
        let own = Own {
            // Slices would keep in memory all that was fetched with them: the schema, and data.
            known: Bytes::copy_from_slice(&cmbs),
            cit,
            is_first_of_schema,
            stripes: read_stripes(&stripes, &footer)?.into(),
            columns: RwLock::default(),
            footer,
            file_length,
            known_start,
        };
        Ok(Self { schema, own: Arc::new(own) })
    }

    /// The whole schema, which is kept only of few columns. The columns of batches, if there are any, are the last.
    pub fn schema(&self) -> Result<SchemaRef> {
        let stored = self.schema.arrow_schema()?;
        if !self.own.footer.has_batches() {
            return Ok(stored);
        }
        let fields = stored.fields().iter().cloned().chain(BatchColumn::ALL.map(BatchColumn::field));
        let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), stored.metadata().clone());
        Ok(Arc::new(schema))
    }

    /// The field of one column, at the cost of that column alone.
    pub fn field(&self, column: usize) -> Result<FieldRef> {
        self.batch_column(column).map_or_else(|| self.schema.field(column), |column| Ok(column.field()))
    }

    /// The first column of that name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        let of_batches = || (self.stored_columns()..self.column_count()).find(|column| self.name(*column) == Some(name));
        self.schema.index_of(name).or_else(of_batches)
    }

    /// The name of one column.
    pub fn name(&self, column: usize) -> Option<&str> {
        self.batch_column(column).map(BatchColumn::name).or_else(|| self.schema.name(column))
    }

    /// Which of the columns of batches a column is, if it is one.
    pub fn batch_column(&self, column: usize) -> Option<BatchColumn> {
        let index = column.checked_sub(self.stored_columns()).filter(|_| self.own.footer.has_batches())?;
        BatchColumn::ALL.get(index).copied()
    }

    /// Rows of the file.
    pub fn row_count(&self) -> u64 {
        self.own.footer.row_count
    }

    /// The stream of the values of a column that is a plain sequence of values; `None` of others.
    pub(in crate::format::fermion) fn values_stream(&self, column: usize) -> Option<usize> {
        match self.batch_column(column) {
            Some(BatchColumn::Id) => Some(ID_STREAM),
            Some(BatchColumn::Index) => None,
            None => self.field(column).ok().filter(|field| leaf_type(field.data_type()).is_some()).map(|_| LEAF_DATA),
        }
    }

    /// Columns of the file, those of batches included.
    pub fn column_count(&self) -> usize {
        self.stored_columns() + if self.own.footer.has_batches() { BatchColumn::ALL.len() } else { 0 }
    }

    /// Columns that have a CMB of their own.
    pub fn stored_columns(&self) -> usize {
        self.schema.field_count()
    }

    /// Stripes in the order of the file.
    pub fn stripes(&self) -> &[Stripe] {
        &self.own.stripes
    }

    /// The sort order of the rows, as in SPEC section 3.
    pub fn ordering(&self) -> Option<&str> {
        self.schema.property(ORDERING_KEY)
    }

    /// Bytes of the file.
    pub fn file_length(&self) -> u64 {
        self.own.file_length
    }

    /// The footer.
    pub fn footer(&self) -> &Footer {
        &self.own.footer
    }

    /// The settings of the footer.
    pub fn settings(&self) -> u64 {
        self.own.footer.settings
    }

    /// Whether pages and CMBs carry a CRC32.
    pub fn has_checksums(&self) -> bool {
        self.own.footer.has_checksums()
    }

    /// Whether the metadata of all columns is in memory.
    pub fn metadata_is_eager(&self) -> bool {
        self.own.known_start <= self.own.footer.cmb_offset
    }

    /// Whether the schema is kept with the file, and not with the table that the file is in.
    fn keeps_schema(&self) -> bool {
        self.schema.memory_size() <= SCHEMA_KEPT_MAX
    }

    /// What is kept of it as long as there is room.
    pub fn kept(self: Arc<Self>) -> Arc<dyn Kept> {
        if self.keeps_schema() {
            return Arc::new(Whole(self));
        }
        Arc::new(WithoutSchema { schema: Arc::downgrade(&self.schema), own: Arc::clone(&self.own) })
    }

    /// The schema, if it is not a part of what is kept.
    pub fn part_of_table(&self) -> Option<PartOfTable> {
        (!self.keeps_schema()).then(|| Arc::clone(&self.schema) as _)
    }

    /// Bytes in memory of what is kept.
    pub fn memory_size(&self) -> usize {
        let columns = self.own.columns.read().unwrap_or_else(PoisonError::into_inner);
        // A CMB that came with the end of the file is a part of `known`.
        let is_known = |column: &usize| self.cmb_range(*column).is_ok_and(|range| range.start >= self.own.known_start);
        let cmbs: usize = columns.iter().map(|(column, meta)| meta.memory_size(!is_known(column))).sum();
        let schema = if self.own.is_first_of_schema && self.keeps_schema() { self.schema.memory_size() } else { 0 };
        size_of::<Own>() + self.own.known.len() + self.own.cit.memory_size() + schema + self.own.stripes.len() * size_of::<Stripe>() + cmbs
    }

    /// Loads the metadata of these columns, as far as it is not loaded yet.
    pub fn load_columns(self: &Arc<Self>, columns: &[usize]) -> LoadColumns {
        LoadColumns::new(Arc::clone(self), columns.to_vec())
    }

    /// The metadata of a column; `None` if it is not loaded.
    pub fn column(&self, column: usize) -> Result<Option<ColumnMeta>> {
        if let Some(known) = self.own.columns.read().unwrap_or_else(PoisonError::into_inner).get(&column) {
            return Ok(Some(known.clone()));
        }
        let range = self.cmb_range(column)?;
        if self.has_no_cmb(column, &range) {
            return self.without_cmb(column).map(Some);
        }
        match part(&self.own.known, self.own.known_start, &range) {
            Some(bytes) => self.insert_cmb(column, &range, bytes).map(Some),
            None => Ok(None),
        }
    }

    /// Bytes of the metadata of a column, if it is not in memory.
    pub(super) fn unloaded_bytes(&self, column: usize) -> Result<u64> {
        let range = self.cmb_range(column)?;
        let is_loaded = range.start >= self.own.known_start || self.own.columns.read().unwrap_or_else(PoisonError::into_inner).contains_key(&column);
        Ok(if is_loaded { 0 } else { range.end.saturating_sub(range.start) })
    }

    /// Whether nothing of a column, whose CMB would be there, is stored.
    fn has_no_cmb(&self, column: usize, cmb: &Range<u64>) -> bool {
        if self.batch_column(column).is_some() { cmb.is_empty() } else { self.own.cit.is_all_null(cmb) }
    }

    /// Where the CMB of a column is in the file, or what says that it is null in every row. The columns of batches share one, which comes first.
    pub fn cmb_range(&self, column: usize) -> Result<Range<u64>> {
        if self.batch_column(column).is_some() {
            let end = if self.stored_columns() == 0 { self.own.footer.schema_offset } else { self.cmb_range(0)?.start };
            return Ok(self.own.footer.cmb_offset..end);
        }
        self.own
            .cit
            .cmb_range(column)
            .map_err(|error| self.name_column(error, column).at(self.own.footer.cit_offset.saturating_add(8 * column as u64)))
    }

    fn without_cmb(&self, column: usize) -> Result<ColumnMeta> {
        if self.batch_column(column).is_some() && self.row_count() > 0 {
            let error = Error::invalid_file("the metadata of batches is missing").in_section(Section::ColumnMetadata);
            return Err(error.at(self.own.footer.cmb_offset));
        }
        Ok(ColumnMeta::AllNull)
    }

    /// What is known about a column over the whole file; `None` if its metadata is not loaded.
    pub fn column_summary(&self, column: usize) -> Result<Option<ColumnSummary>> {
        let Some(meta) = self.column(column)? else { return Ok(None) };
        summary::of_column(self, column, &meta).map(Some).map_err(|error| self.in_cmb(error, column))
    }

    /// Reads the CMB of a column from its bytes and keeps it. Of two threads that do so at once, the first wins.
    pub(super) fn insert_cmb(&self, column: usize, range: &Range<u64>, bytes: Bytes) -> Result<ColumnMeta> {
        let cmb = self.read_cmb(column, bytes).map_err(|error| self.name_column(error, column).at(range.start))?;
        let mut columns = self.own.columns.write().unwrap_or_else(PoisonError::into_inner);
        Ok(columns.entry(column).or_insert_with(|| ColumnMeta::Cmb(Arc::new(cmb))).clone())
    }

    fn read_cmb(&self, column: usize, bytes: Bytes) -> Result<Cmb> {
        let (checksum, file_length) = (self.has_checksums(), self.own.file_length);
        if self.batch_column(column).is_some() {
            let stripes = batch_stripes(&bytes, &self.own.stripes).map_err(|error| error.in_section(Section::ColumnMetadata))?;
            return Cmb::read(bytes, &CmbExpect { streams: &BATCH_STREAMS, is_leaf: false, stripes: &stripes, checksum, file_length });
        }
        let field = self.field(column)?;
        let streams = stream_layout(field.data_type());
        let is_leaf = leaf_type(field.data_type()).is_some();
        Cmb::read(bytes, &CmbExpect { streams: &streams, is_leaf, stripes: &self.own.stripes, checksum, file_length })
    }

    /// Names the column whose metadata an error is about, and where that is.
    pub(in crate::format::fermion) fn in_cmb(&self, error: Error, column: usize) -> Error {
        let error = self.name_column(error, column);
        match self.cmb_range(column) {
            Ok(range) => error.at(range.start),
            Err(_) => error,
        }
    }

    pub(super) fn name_column(&self, error: Error, column: usize) -> Error {
        match self.name(column) {
            Some(name) => error.in_column(name),
            None => error,
        }
    }
}

impl ColumnMeta {
    fn memory_size(&self, with_bytes: bool) -> usize {
        match self {
            Self::AllNull => 0,
            Self::Cmb(cmb) => cmb.memory_size(with_bytes),
        }
    }
}

/// The bytes of `range`, of which `bytes` starts at `start`, if all are there.
pub(super) fn part(bytes: &Bytes, start: u64, range: &Range<u64>) -> Option<Bytes> {
    let from = usize::try_from(range.start.checked_sub(start)?).ok()?;
    let to = usize::try_from(range.end.checked_sub(start)?).ok()?;
    (from <= to && to <= bytes.len()).then(|| bytes.slice(from..to))
}

fn check_crc(bytes: Bytes, crc: u32) -> Result<Bytes> {
    if crc32fast::hash(wire::slice(&bytes, 0, bytes.len(), "metadata")?) == crc {
        Ok(bytes)
    } else {
        Err(Error::checksum("the bytes do not match the CRC32 in the footer"))
    }
}
