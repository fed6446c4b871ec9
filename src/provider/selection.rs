//! Rows of a morsel that a filter has left, and the columns that were read of them.

use std::cell::OnceCell;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{SchemaRef, UInt32Type};
use arrow::error::ArrowError;
use datafusion::error::DataFusionError;

use super::codes_of::{CodeReader, each_its_own, has_each_its_own};
use super::file::BatchProjector;
use crate::format;
use crate::format::array::Mask;
use crate::format::bits::{among, picked};
use crate::format::rows::Rows;
use crate::format::scan::Morsel;

/// When no more than one row in so many is left, the columns are made as short, and of the others only blocks with rows that are left are decoded.
pub(super) const SPARSE: usize = 3;

/// What stopped the filtering.
#[derive(Debug)]
pub(super) enum Fault {
    Format(format::Error),
    Engine(DataFusionError),
}

impl From<format::Error> for Fault {
    fn from(error: format::Error) -> Self {
        Self::Format(error)
    }
}

impl From<DataFusionError> for Fault {
    fn from(error: DataFusionError) -> Self {
        Self::Engine(error)
    }
}

impl From<ArrowError> for Fault {
    fn from(error: ArrowError) -> Self {
        Self::Engine(error.into())
    }
}

/// Rows of a morsel that have passed so far, and what has been read of them.
///
/// While many are left, columns are read as a whole and a mask says which rows are left: to shorten a column costs more than to evaluate it
/// whole. When few are left, columns are shortened and the mask is gone.
#[derive(Debug)]
pub(super) struct Selection {
    /// All rows that were taken.
    rows: Rows,
    /// How many have passed.
    pub(super) count: usize,
    /// Which of them, of the rows that columns have; all without it.
    mask: Option<BooleanBuffer>,
    sparse: Option<Sparse>,
    /// By position in the scan, the columns that have been read.
    held: Vec<Option<ArrayRef>>,
}

/// The rows that columns have been shortened to.
#[derive(Debug)]
struct Sparse {
    count: usize,
    /// A bit for each row that was taken.
    keep: BooleanBuffer,
    /// What has to be read to have them all, and what to take of that.
    blocks: Rows,
    bits: BooleanBuffer,
    /// The same as a filter, for what has to be filtered: to make one costs as much as to filter a column.
    in_blocks: OnceCell<Mask>,
}

impl Sparse {
    fn in_blocks(&self) -> &Mask {
        self.in_blocks.get_or_init(|| Mask::new(&self.bits))
    }
}

impl Selection {
    pub(super) fn all(rows: &Rows, columns: usize) -> Self {
        Self { rows: rows.clone(), count: rows.len(), mask: None, sparse: None, held: vec![None; columns] }
    }

    /// None of the rows that were taken of a scan of so many columns.
    pub(super) fn none(rows: &Rows, columns: usize) -> Self {
        Self { count: 0, ..Self::all(rows, columns) }
    }

    /// Which rows of [`Self::batch`] have passed; all without it.
    pub(super) fn mask(&self) -> Option<BooleanArray> {
        self.mask.clone().map(BooleanArray::from)
    }

    /// A bit for each row that was taken: whether it has passed.
    pub(super) fn passed(&self) -> BooleanBuffer {
        match (&self.sparse, &self.mask) {
            (Some(sparse), Some(mask)) => among(&sparse.keep, mask),
            (Some(sparse), None) => sparse.keep.clone(),
            (None, Some(mask)) => mask.clone(),
            (None, None) if self.count == 0 => BooleanBuffer::new_unset(self.rows.len()),
            (None, None) => BooleanBuffer::new_set(self.rows.len()),
        }
    }

    /// Whether columns are read of the rows that are left and no others.
    pub(super) fn is_sparse(&self) -> bool {
        self.sparse.is_some()
    }

    /// The rows of which a column would have to be read, if it has not been.
    pub(super) fn unread(&self, position: usize) -> Option<&Rows> {
        let is_held = self.held.get(position).is_some_and(Option::is_some);
        (!is_held).then(|| self.sparse.as_ref().map_or(&self.rows, |sparse| &sparse.blocks))
    }

    /// Out of a bit for each of [`Self::unread`], those of the rows of [`Self::batch`].
    pub(super) fn in_batch(&self, keep: BooleanBuffer) -> BooleanBuffer {
        match &self.sparse {
            None => keep,
            Some(sparse) => picked(&keep, &sparse.bits),
        }
    }

    fn column(&mut self, morsel: &dyn Morsel, position: usize) -> Result<ArrayRef, Fault> {
        if let Some(Some(array)) = self.held.get(position) {
            return Ok(Arc::clone(array));
        }
        let read = |rows: &Rows| morsel.read(&[position], rows)?.pop().ok_or_else(|| format::Error::invalid_argument("a column was not read"));
        let array = match &self.sparse {
            None => read(&self.rows)?,
            Some(sparse) => match morsel.read_kept(position, &sparse.blocks, &sparse.bits)? {
                Some(array) => array,
                None => sparse.in_blocks().filter(&read(&sparse.blocks)?)?,
            },
        };
        if let Some(held) = self.held.get_mut(position) {
            *held = Some(Arc::clone(&array));
        }
        Ok(array)
    }

    /// Columns of the rows that have passed, and of those that the mask excludes.
    pub(super) fn batch(&mut self, morsel: &dyn Morsel, columns: &[usize], schema: &SchemaRef) -> Result<RecordBatch, Fault> {
        let arrays = columns.iter().map(|position| self.column(morsel, *position)).collect::<Result<Vec<_>, _>>()?;
        let rows = self.sparse.as_ref().map_or(self.rows.len(), |sparse| sparse.count);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
    }

    /// The same of the columns that a query is given, and whether some are codes: where few rows are left it is cheaper to find their strings than to ask what all of them share.
    pub(super) fn output(&mut self, morsel: &dyn Morsel, of: &BatchProjector, codes: &mut CodeReader) -> Result<(RecordBatch, bool), Fault> {
        if codes.is_idle() || self.is_sparse() {
            return Ok((self.batch(morsel, &of.columns, &of.plain.file)?, false));
        }
        let mut column = |position: usize| match codes.reads(position) {
            true => match codes.read(morsel, position, &self.rows)? {
                Some(array) => Ok(array),
                None => Ok(each_its_own(self.column(morsel, position)?)?),
            },
            false => self.column(morsel, position),
        };
        let arrays = of.columns.iter().map(|position| column(*position)).collect::<Result<Vec<_>, Fault>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
        Ok((RecordBatch::try_new_with_options(Arc::clone(&of.coded.file), arrays, &options)?, true))
    }

    /// The slots of [`Self::batch`], out of an array with a slot for each row that was taken.
    pub(super) fn shorten(&self, array: ArrayRef) -> Result<ArrayRef, Fault> {
        match &self.sparse {
            None => Ok(array),
            Some(sparse) => Ok(Mask::new(&sparse.keep).filter(&array)?),
        }
    }

    /// Leaves those of the rows of [`Self::batch`] that have a bit in `keep`.
    pub(super) fn narrow(&mut self, keep: &BooleanBuffer, is_needed: impl Fn(usize) -> bool) -> Result<(), Fault> {
        let keep = match &self.mask {
            Some(mask) => mask & keep,
            None => keep.clone(),
        };
        self.count = keep.count_set_bits();
        self.mask = (self.count < keep.len()).then_some(keep);
        match self.mask.take() {
            Some(mask) if self.count > 0 && self.count <= mask.len() / SPARSE => self.make_sparse(&mask, is_needed),
            mask => {
                self.mask = mask;
                Ok(())
            }
        }
    }

    fn make_sparse(&mut self, mask: &BooleanBuffer, is_needed: impl Fn(usize) -> bool) -> Result<(), Fault> {
        let filter = OnceCell::new();
        for (position, held) in self.held.iter_mut().enumerate() {
            let shortened = held.take().filter(|_| is_needed(position)).map(|array| filter.get_or_init(|| Mask::new(mask)).filter(&array));
            *held = shortened.transpose()?;
        }
        let keep = match &self.sparse {
            None => mask.clone(),
            Some(sparse) => among(&sparse.keep, mask),
        };
        let (blocks, bits) = self.rows.blocks_with(&keep);
        self.sparse = Some(Sparse { count: self.count, keep, blocks, bits, in_blocks: OnceCell::new() });
        Ok(())
    }
}

/// Rows that have a bit in a mask.
pub(super) fn kept_rows(batch: &RecordBatch, mask: &BooleanBuffer) -> Result<RecordBatch, ArrowError> {
    let mask = Mask::new(mask);
    let filter = |array: &ArrayRef| mask.filter(array).map_err(|error| ArrowError::ExternalError(Box::new(error)));
    // Codes that are no more than the numbers of their rows stay so.
    let column = |array: &ArrayRef| match array.as_dictionary_opt::<UInt32Type>().filter(|codes| has_each_its_own(codes)) {
        Some(codes) => each_its_own(filter(codes.values())?),
        None => filter(array),
    };
    let columns = batch.columns().iter().map(column).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(mask.count()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}
