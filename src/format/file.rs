//! What every format's files can do, for callers who do not care which format it is.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, SchemaRef};
use bytes::Bytes;

use super::error::Result;
use super::scan::{ColumnSummary, Load, Loading, Scan, ScanRequest};

/// The metadata of an open file, shared by all scans of it. It may grow with what they use.
pub trait Metadata: fmt::Debug + Send + Sync {
    /// The whole schema. It may have to be built: who wants to know of a few columns asks for their names and fields.
    fn schema(&self) -> Result<SchemaRef>;

    /// The name of a column, if there is one and it is UTF-8.
    fn name(&self, column: usize) -> Option<&str>;

    /// The field of a column.
    fn field(&self, column: usize) -> Result<FieldRef>;

    /// Whether dictionaries are replaced from batch to batch, so that all values of a column may be more than its keys can number.
    fn replaces_dictionaries(&self) -> bool {
        false
    }

    /// Columns of the file.
    fn column_count(&self) -> usize;

    /// Rows of the file.
    fn row_count(&self) -> u64;

    /// Where the stripes are, in their order, of which a range may have a part; none if all are read by whoever has their beginning.
    fn stripe_ranges(&self) -> Vec<Range<u64>> {
        Vec::new()
    }

    /// The sort order of the rows, as in section 3 of Fermion's SPEC.
    fn ordering(&self) -> Option<&str>;

    /// What is kept of it between statements.
    fn kept(self: Arc<Self>) -> Arc<dyn Kept>;

    /// What is not kept, for it is large, and files of one table mostly have it in common: to be held as long as the table is used.
    fn part_of_table(&self) -> Option<PartOfTable> {
        None
    }

    /// Bytes in memory of what is kept.
    fn memory_size(&self) -> usize;

    /// What is known about a column over the whole file; `None` if its metadata is not loaded.
    fn column_summary(&self, column: usize) -> Result<Option<ColumnSummary>>;

    /// Whether the metadata of all columns is small enough, or near enough, to be loaded when the file is opened.
    fn is_eager(&self) -> bool;

    /// Whether the metadata of a column is loaded.
    fn is_loaded(&self, column: usize) -> Result<bool>;

    /// Bytes of the metadata of these columns that is not loaded.
    fn unloaded_bytes(&self, columns: &[usize]) -> Result<u64>;

    /// Loads the metadata of these columns, as far as it is not loaded yet.
    fn load(self: Arc<Self>, columns: &[usize]) -> Box<dyn Load<Output = ()> + Send>;

    /// Plans a scan.
    fn scan(self: Arc<Self>, request: ScanRequest) -> Result<Box<dyn Scan>>;
}

/// What tables hold of their files without looking at it.
pub type PartOfTable = Arc<dyn Any + Send + Sync>;

/// Metadata of a file as it is kept between statements.
pub trait Kept: fmt::Debug + Send + Sync {
    /// The metadata; `None` if nobody holds any more what was not kept of it, so that the file has to be opened again.
    fn metadata(&self) -> Option<Arc<dyn Metadata>>;
}

/// Metadata that is kept as it is.
#[derive(Debug)]
pub struct Whole<M>(pub Arc<M>);

impl<M: Metadata + 'static> Kept for Whole<M> {
    fn metadata(&self) -> Option<Arc<dyn Metadata>> {
        Some(Arc::clone(&self.0) as _)
    }
}

/// The opening of a file.
pub type Opening = Box<dyn Load<Output = Arc<dyn Metadata>> + Send>;

/// An opening that does not tell whose metadata it gives.
pub fn opening<L: Load<Output: Metadata + 'static> + Send + 'static>(load: L) -> Opening {
    Box::new(Erased(load))
}

#[derive(Debug)]
struct Erased<L>(L);

impl<L: Load<Output: Metadata + 'static>> Load for Erased<L> {
    type Output = Arc<dyn Metadata>;

    fn resume(&mut self, fetched: Vec<Bytes>) -> Result<Loading<Self::Output>> {
        Ok(match self.0.resume(fetched)? {
            Loading::Fetch(fetches) => Loading::Fetch(fetches),
            Loading::Ready(metadata) => Loading::Ready(Arc::new(metadata)),
        })
    }
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Rows.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Writes a file: push batches of any size, take bytes.
pub trait FileWriter: Send {
    /// Adds rows. After an error of rows that could not be encoded there is no more to push or to finish.
    fn push(&mut self, batch: &RecordBatch) -> Result<()>;

    /// Takes the bytes that are ready; they follow those taken before.
    fn take_bytes(&mut self) -> Vec<Bytes>;

    /// Bytes held in memory, those that can be taken aside.
    fn buffered_bytes(&self) -> usize;

    /// Ends the file and gives the bytes that have not been taken.
    fn finish(self: Box<Self>) -> Result<(Vec<Bytes>, Written)>;
}
