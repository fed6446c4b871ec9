//! An Alkaid file or stream as a file of any format.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, SchemaRef};

use super::meta::FileMeta;
use super::scan::AlkaidScan;
use crate::format::error::Result;
use crate::format::file::{Kept, Metadata, Whole};
use crate::format::scan::{ColumnSummary, Load, Scan, ScanRequest};

impl Metadata for FileMeta {
    fn schema(&self) -> Result<SchemaRef> {
        Ok(Arc::clone(&self.file_schema().logical))
    }

    fn name(&self, column: usize) -> Option<&str> {
        self.file_schema().arrow.fields().get(column).map(|field| field.name().as_str())
    }

    fn field(&self, column: usize) -> Result<FieldRef> {
        let field = self.file_schema().logical.fields().get(column).cloned();
        field.map_or_else(|| self.field(column), Ok)
    }

    fn replaces_dictionaries(&self) -> bool {
        self.replaces_dictionaries()
    }

    fn column_count(&self) -> usize {
        self.column_count()
    }

    fn row_count(&self) -> u64 {
        self.row_count()
    }

    fn ordering(&self) -> Option<&str> {
        self.ordering()
    }

    fn kept(self: Arc<Self>) -> Arc<dyn Kept> {
        Arc::new(Whole(self))
    }

    fn memory_size(&self) -> usize {
        self.memory_size()
    }

    fn column_summary(&self, column: usize) -> Result<Option<ColumnSummary>> {
        self.column_summary(column).map(Some)
    }

    /// The zone map comes with the footer. What else there is, is loaded by scans, for the batches that they read.
    fn is_eager(&self) -> bool {
        true
    }

    fn is_loaded(&self, _column: usize) -> Result<bool> {
        Ok(true)
    }

    fn unloaded_bytes(&self, _columns: &[usize]) -> Result<u64> {
        Ok(0)
    }

    fn load(self: Arc<Self>, _columns: &[usize]) -> Box<dyn Load<Output = ()> + Send> {
        Box::new(self.load_messages(&[], false))
    }

    fn scan(self: Arc<Self>, request: ScanRequest) -> Result<Box<dyn Scan>> {
        Ok(Box::new(AlkaidScan::new(self, request)?))
    }
}
