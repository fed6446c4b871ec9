//! The metadata of an open file.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use arrow::datatypes::{FieldRef, SchemaRef};
use bytes::Bytes;

use super::columns::LoadColumns;
use super::summary;
use crate::format::error::{Error, Result};
use crate::format::fermion::cit::Cit;
use crate::format::fermion::cmb::{Cmb, CmbExpect};
use crate::format::fermion::footer::Footer;
use crate::format::fermion::schema::{ORDERING_KEY, SchemaArea, leaf_type, stream_layout};
use crate::format::fermion::stripes::{Stripe, read_stripes};
use crate::format::scan::{ColumnSummary, Section};
use crate::format::wire;

/// The metadata of an open file, shared by all scans of it. It grows with the columns that are used.
#[derive(Debug)]
pub struct FileMeta {
    footer: Footer,
    file_length: u64,
    /// The end of the file up to the footer, at least from the schema on.
    known: Bytes,
    known_start: u64,
    schema: SchemaArea,
    cit: Cit,
    stripes: Arc<[Stripe]>,
    columns: RwLock<HashMap<usize, ColumnMeta>>,
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
    /// From the end of the file, `known`, which starts at `known_start` and holds at least the schema and what follows it.
    pub(super) fn new(footer: Footer, file_length: u64, known_start: u64, known: Bytes) -> Result<Self> {
        let area = |section, range: Range<u64>, crc: u32| {
            let bytes = part(&known, known_start, &range).ok_or_else(|| Error::eof(format!("there are no bytes {range:?} of metadata")));
            bytes.and_then(|bytes| check_crc(bytes, crc)).map_err(|error| error.in_section(section).at(range.start))
        };
        let cit_end = footer.cit_offset.saturating_add(8 * u64::from(footer.column_count));
        let stripes_end = footer.stripes_offset.saturating_add(24 * u64::from(footer.stripe_count));
        let schema = area(Section::Schema, footer.schema_offset..footer.cit_offset, footer.schema_crc)?;
        let cit = area(Section::ColumnIndex, footer.cit_offset..cit_end, footer.cit_crc)?;
        let stripes = area(Section::StripeDirectory, footer.stripes_offset..stripes_end, footer.stripes_crc)?;
        let schema = SchemaArea::open(schema, footer.column_count).map_err(|error| error.at(footer.schema_offset))?;
        Ok(Self {
            cit: Cit::new(cit, footer.cmb_offset..footer.schema_offset),
            stripes: read_stripes(&stripes, &footer)?.into(),
            schema,
            columns: RwLock::default(),
            footer,
            file_length,
            known,
            known_start,
        })
    }

    /// The whole schema, built when first asked for.
    pub fn schema(&self) -> Result<SchemaRef> {
        self.schema.arrow_schema()
    }

    /// The field of one column, at the cost of that column alone.
    pub fn field(&self, column: usize) -> Result<FieldRef> {
        self.schema.field(column)
    }

    /// The first column of that name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.schema.index_of(name)
    }

    /// Rows of the file.
    pub fn row_count(&self) -> u64 {
        self.footer.row_count
    }

    /// Columns of the file.
    pub fn column_count(&self) -> usize {
        self.schema.field_count()
    }

    /// Stripes in the order of the file.
    pub fn stripes(&self) -> &[Stripe] {
        &self.stripes
    }

    /// The sort order of the rows, as in SPEC section 3.
    pub fn ordering(&self) -> Option<&str> {
        self.schema.property(ORDERING_KEY)
    }

    /// Bytes of the file.
    pub fn file_length(&self) -> u64 {
        self.file_length
    }

    /// The footer.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// The settings of the footer.
    pub fn settings(&self) -> u64 {
        self.footer.settings
    }

    /// Whether pages and CMBs carry a CRC32.
    pub fn has_checksums(&self) -> bool {
        self.footer.has_checksums()
    }

    /// Whether the metadata of all columns is in memory.
    pub fn metadata_is_eager(&self) -> bool {
        self.known_start <= self.footer.cmb_offset
    }

    /// Bytes in memory, at most: a CMB that came with the end of the file is counted twice.
    pub fn memory_size(&self) -> usize {
        let columns = self.columns.read().unwrap_or_else(PoisonError::into_inner);
        let cmbs: usize = columns.values().map(ColumnMeta::memory_size).sum();
        // The schema's bytes and the CIT's are part of `known`.
        let built = self.schema.memory_size().saturating_sub(self.schema.area_length());
        size_of::<Self>() + self.known.len() + built + self.stripes.len() * size_of::<Stripe>() + cmbs
    }

    /// Loads the metadata of these columns, as far as it is not loaded yet.
    pub fn load_columns(self: &Arc<Self>, columns: &[usize]) -> LoadColumns {
        LoadColumns::new(Arc::clone(self), columns.to_vec())
    }

    /// The metadata of a column; `None` if it is not loaded.
    pub fn column(&self, column: usize) -> Result<Option<ColumnMeta>> {
        if let Some(known) = self.columns.read().unwrap_or_else(PoisonError::into_inner).get(&column) {
            return Ok(Some(known.clone()));
        }
        let range = self.cmb_range(column)?;
        if range.is_empty() {
            return Ok(Some(ColumnMeta::AllNull));
        }
        match part(&self.known, self.known_start, &range) {
            Some(bytes) => self.insert_cmb(column, &range, bytes).map(Some),
            None => Ok(None),
        }
    }

    /// Where the CMB of a column is in the file; empty if it is null in every row.
    pub fn cmb_range(&self, column: usize) -> Result<Range<u64>> {
        self.cit.cmb_range(column).map_err(|error| self.name_column(error, column).at(self.footer.cit_offset.saturating_add(8 * column as u64)))
    }

    /// What is known about a column over the whole file; `None` if its metadata is not loaded.
    pub fn column_summary(&self, column: usize) -> Result<Option<ColumnSummary>> {
        let Some(meta) = self.column(column)? else { return Ok(None) };
        let field = self.field(column)?;
        summary::of_column(self, field.data_type(), &meta).map(Some).map_err(|error| self.in_cmb(error, column))
    }

    /// Reads the CMB of a column from its bytes and keeps it. Of two threads that do so at once, the first wins.
    pub(super) fn insert_cmb(&self, column: usize, range: &Range<u64>, bytes: Bytes) -> Result<ColumnMeta> {
        let field = self.field(column)?;
        let streams = stream_layout(field.data_type());
        let expect = CmbExpect {
            streams: &streams,
            is_leaf: leaf_type(field.data_type()).is_some(),
            stripes: &self.stripes,
            checksum: self.has_checksums(),
            file_length: self.file_length,
        };
        let cmb = Cmb::read(bytes, &expect).map_err(|error| self.name_column(error, column).at(range.start))?;
        let mut columns = self.columns.write().unwrap_or_else(PoisonError::into_inner);
        Ok(columns.entry(column).or_insert_with(|| ColumnMeta::Cmb(Arc::new(cmb))).clone())
    }

    /// Names the column whose metadata an error is about, and where that is.
    pub(in crate::format::fermion) fn in_cmb(&self, error: Error, column: usize) -> Error {
        let error = self.name_column(error, column);
        match self.cit.cmb_range(column) {
            Ok(range) => error.at(range.start),
            Err(_) => error,
        }
    }

    pub(super) fn name_column(&self, error: Error, column: usize) -> Error {
        match self.schema.name(column) {
            Some(name) => error.in_column(name),
            None => error,
        }
    }
}

impl ColumnMeta {
    fn memory_size(&self) -> usize {
        match self {
            Self::AllNull => 0,
            Self::Cmb(cmb) => cmb.memory_size(),
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
