//! A Fermion file as a file of any format.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, SchemaRef};

use super::meta::FileMeta;
use super::scan::FermionScan;
use crate::format::error::Result;
use crate::format::file::{Kept, Metadata, PartOfTable};
use crate::format::scan::{ColumnSummary, Load, Scan, ScanRequest};

impl Metadata for FileMeta {
    fn schema(&self) -> Result<SchemaRef> {
        self.schema()
    }

    fn name(&self, column: usize) -> Option<&str> {
        self.name(column)
    }

    fn field(&self, column: usize) -> Result<FieldRef> {
        self.field(column)
    }

    fn column_count(&self) -> usize {
        self.column_count()
    }

    fn row_count(&self) -> u64 {
        self.row_count()
    }

    fn stripe_ranges(&self) -> Vec<Range<u64>> {
        self.stripes().iter().map(|stripe| stripe.offset..stripe.end()).collect()
    }

    fn ordering(&self) -> Option<&str> {
        self.ordering()
    }

    fn kept(self: Arc<Self>) -> Arc<dyn Kept> {
        self.kept()
    }

    fn part_of_table(&self) -> Option<PartOfTable> {
        self.part_of_table()
    }

    fn memory_size(&self) -> usize {
        self.memory_size()
    }

    fn column_summary(&self, column: usize) -> Result<Option<ColumnSummary>> {
        self.column_summary(column)
    }

    fn is_eager(&self) -> bool {
        self.metadata_is_eager()
    }

    fn is_loaded(&self, column: usize) -> Result<bool> {
        Ok(self.column(column)?.is_some())
    }

    fn unloaded_bytes(&self, columns: &[usize]) -> Result<u64> {
        columns.iter().map(|column| self.unloaded_bytes(*column)).sum()
    }

    fn load(self: Arc<Self>, columns: &[usize]) -> Box<dyn Load<Output = ()> + Send> {
        Box::new(self.load_columns(columns))
    }

    fn scan(self: Arc<Self>, request: ScanRequest) -> Result<Box<dyn Scan>> {
        Ok(Box::new(FermionScan::new(self, request)?))
    }
}
