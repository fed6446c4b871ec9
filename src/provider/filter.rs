//! Filtering rows where they are decoded: first the columns of a predicate, then of the others only the blocks in which a row is left.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{FilterBuilder, FilterPredicate};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{DynamicFilterTracking, PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_plan::joins::HashTableLookupExpr;

use super::adapt::adapt;
use super::file::{ScanContext, is_never_true};
use super::metrics::FileMetrics;
use crate::format;
use crate::format::rows::Rows;
use crate::format::scan::Morsel;

/// When no more than one row in so many is left, the columns are made as short, and of the others only blocks with rows that are left are decoded.
const SPARSE: usize = 5;

/// A part of the predicate that every row has to pass.
#[derive(Debug)]
struct Conjunct {
    expr: Arc<dyn PhysicalExpr>,
    /// What `expr` is about.
    schema: SchemaRef,
    /// The columns of `schema`, by their positions in the scan.
    columns: Vec<usize>,
    /// Only saves work: a join or a sort will drop the rows itself.
    is_optional: bool,
}

/// The predicate of a scan in terms of one file.
#[derive(Debug)]
pub(super) struct RowFilter {
    conjuncts: Vec<Conjunct>,
    /// The first columns of the scan are those of the output.
    output_columns: usize,
}

/// The columns that a scan reads, by their positions.
#[derive(Debug)]
pub(super) struct ScanColumns {
    pub(super) file_columns: Vec<usize>,
    pub(super) schema: SchemaRef,
}

/// What a predicate leaves of a file.
pub(super) enum Filtering {
    /// All rows.
    All,
    /// The rows that pass.
    Some(RowFilter),
    /// No row.
    None,
}

impl RowFilter {
    /// `predicate` is about the table; the columns that it needs are added to those of the scan.
    pub(super) fn plan(context: &ScanContext, predicate: &Arc<dyn PhysicalExpr>, file: &Schema, scan: &mut ScanColumns) -> Result<Filtering> {
        let output_columns = scan.file_columns.len();
        let mut conjuncts = Vec::new();
        for conjunct in split_conjunction(predicate) {
            let is_optional = DynamicFilterTracking::classify(conjunct).contains_dynamic_filter();
            let adapted = adapt(vec![Arc::clone(conjunct)], &context.table, file, context.expr_adapter.as_ref())?;
            for expr in adapted.exprs {
                if is_never_true(&expr) {
                    return Ok(Filtering::None);
                }
                if !is_always_true(&expr) {
                    let columns = scan.positions(&adapted.file_columns, &adapted.schema);
                    conjuncts.push(Conjunct { expr, schema: Arc::clone(&adapted.schema), columns, is_optional });
                }
            }
        }
        Ok(if conjuncts.is_empty() { Filtering::All } else { Filtering::Some(Self { conjuncts, output_columns }) })
    }

    /// Whether a column of the scan is used after this conjunct.
    fn is_needed_after(&self, index: usize, position: usize) -> bool {
        position < self.output_columns || self.conjuncts[index + 1..].iter().any(|conjunct| conjunct.columns.contains(&position))
    }
}

fn is_always_true(predicate: &Arc<dyn PhysicalExpr>) -> bool {
    predicate.downcast_ref::<Literal>().is_some_and(|literal| *literal.value() == ScalarValue::Boolean(Some(true)))
}

impl ScanColumns {
    /// Where the columns are, once those are added that were not there.
    fn positions(&mut self, file_columns: &[usize], schema: &Schema) -> Vec<usize> {
        let mut fields = self.schema.fields().to_vec();
        let positions = file_columns.iter().zip(schema.fields()).map(|(column, field)| {
            let known =
                self.file_columns.iter().zip(&fields).position(|(known, as_read)| known == column && as_read.data_type() == field.data_type());
            known.unwrap_or_else(|| {
                self.file_columns.push(*column);
                fields.push(Arc::clone(field));
                fields.len() - 1
            })
        });
        let positions = positions.collect();
        self.schema = Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()));
        positions
    }
}

/// Applies a [`RowFilter`] to the rows of one morsel.
#[derive(Debug)]
pub(super) struct MorselFilter {
    filter: Arc<RowFilter>,
    /// Of each conjunct, whether this morsel does without it.
    skipped: Vec<bool>,
    metrics: FileMetrics,
}

impl MorselFilter {
    pub(super) fn new(filter: Arc<RowFilter>, metrics: FileMetrics) -> Self {
        Self { skipped: filter.conjuncts.iter().map(is_too_dear).collect(), filter, metrics }
    }

    /// The rows that pass, or the error of the format or the engine that stopped it.
    pub(super) fn select(&mut self, morsel: &dyn Morsel, rows: &Rows) -> Result<Selection, Fault> {
        let mut selection = Selection::all(rows, morsel.schema().fields().len());
        for (index, conjunct) in self.filter.conjuncts.iter().enumerate() {
            if selection.count == 0 {
                break;
            }
            if self.skipped[index] {
                continue;
            }
            let batch = selection.batch(morsel, &conjunct.columns, &conjunct.schema)?;
            let timer = self.metrics.row_pushdown_eval_time.timer();
            let keep = evaluate(&conjunct.expr, &batch)?;
            drop(timer);
            selection.narrow(&keep, |position| self.filter.is_needed_after(index, position))?;
        }
        self.metrics.pushdown_rows_matched.add(selection.count);
        self.metrics.pushdown_rows_pruned.add(rows.len() - selection.count);
        Ok(selection)
    }
}

/// Whether looking at a row costs as much as what it saves: a join that looks rows up in its own table does just that next.
fn is_too_dear(conjunct: &Conjunct) -> bool {
    let looks_up = |expr: &Arc<dyn PhysicalExpr>| Ok(expr.downcast_ref::<HashTableLookupExpr>().is_some());
    conjunct.is_optional && snapshot_physical_expr(Arc::clone(&conjunct.expr)).and_then(|now| now.exists(looks_up)).unwrap_or(true)
}

/// Which rows pass; null is no.
fn evaluate(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanBuffer> {
    let passed = expr.evaluate(batch)?.into_array(batch.num_rows())?;
    let passed = as_boolean_array(&passed)?;
    Ok(match passed.nulls().filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => passed.values() & nulls.inner(),
        None => passed.values().clone(),
    })
}

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

impl From<arrow::error::ArrowError> for Fault {
    fn from(error: arrow::error::ArrowError) -> Self {
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
    in_blocks: FilterPredicate,
}

impl Selection {
    fn all(rows: &Rows, columns: usize) -> Self {
        Self { rows: rows.clone(), count: rows.len(), mask: None, sparse: None, held: vec![None; columns] }
    }

    /// Which rows of [`Self::batch`] have passed; all without it.
    pub(super) fn mask(&self) -> Option<BooleanArray> {
        self.mask.clone().map(BooleanArray::from)
    }

    fn column(&mut self, morsel: &dyn Morsel, position: usize) -> Result<ArrayRef, Fault> {
        if let Some(Some(array)) = self.held.get(position) {
            return Ok(Arc::clone(array));
        }
        let read = |rows: &Rows| morsel.read(&[position], rows)?.pop().ok_or_else(|| format::Error::invalid_argument("a column was not read"));
        let array = match &self.sparse {
            None => read(&self.rows)?,
            Some(sparse) => sparse.in_blocks.filter(&read(&sparse.blocks)?)?,
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

    /// The slots of [`Self::batch`], out of an array with a slot for each row that was taken.
    pub(super) fn shorten(&self, array: ArrayRef) -> Result<ArrayRef, Fault> {
        match &self.sparse {
            None => Ok(array),
            Some(sparse) => Ok(arrow::compute::filter(&array, &BooleanArray::from(sparse.keep.clone()))?),
        }
    }

    /// Leaves those of the rows of [`Self::batch`] that have a bit in `keep`.
    fn narrow(&mut self, keep: &BooleanBuffer, is_needed: impl Fn(usize) -> bool) -> Result<(), Fault> {
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
        let filter = predicate(mask);
        for (position, held) in self.held.iter_mut().enumerate() {
            *held = held.take().filter(|_| is_needed(position)).map(|array| filter.filter(&array)).transpose()?;
        }
        let keep = match &self.sparse {
            None => mask.clone(),
            Some(sparse) => among(&sparse.keep, mask),
        };
        let (blocks, bits) = self.rows.blocks_with(&keep);
        self.sparse = Some(Sparse { count: self.count, keep, blocks, in_blocks: predicate(&bits) });
        Ok(())
    }
}

fn predicate(keep: &BooleanBuffer) -> FilterPredicate {
    FilterBuilder::new(&BooleanArray::new(keep.clone(), None::<NullBuffer>)).optimize().build()
}

/// The set bits of `of` that have a bit in `keep`, which has one for each of them.
fn among(of: &BooleanBuffer, keep: &BooleanBuffer) -> BooleanBuffer {
    let mut bits = arrow::array::BooleanBufferBuilder::new(of.len());
    bits.append_n(of.len(), false);
    for (index, _) in of.set_indices().zip(keep).filter(|(_, keep)| *keep) {
        bits.set_bit(index, true);
    }
    bits.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_among_set_bits() {
        let of = BooleanBuffer::from(vec![true, false, true, true, false]);
        assert_eq!(among(&of, &BooleanBuffer::from(vec![false, true, true])), BooleanBuffer::from(vec![false, false, true, true, false]));
    }

    #[test]
    fn a_null_does_not_pass() {
        let schema = Arc::new(Schema::new(vec![arrow::datatypes::Field::new("a", arrow::datatypes::DataType::Boolean, true)]));
        let column: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]));
        let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
        let expr: Arc<dyn PhysicalExpr> = Arc::new(datafusion::physical_expr::expressions::Column::new("a", 0));
        assert_eq!(evaluate(&expr, &batch).unwrap(), BooleanBuffer::from(vec![true, false, false]));
    }
}
