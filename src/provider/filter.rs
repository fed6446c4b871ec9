//! Filtering rows where they are decoded: first the columns of a predicate, then of the others only the blocks in which a row is left.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{FilterBuilder, FilterPredicate};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::cast::as_boolean_array;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::{DynamicFilterTracking, PhysicalExpr, split_conjunction};

use super::adapt::adapt;
use super::file::{ScanContext, is_never_true};
use super::metrics::FileMetrics;
use crate::format;
use crate::format::rows::Rows;
use crate::format::scan::Morsel;

/// Rows after which an optional conjunct has to show what it is worth ...
const TRIAL_ROWS: usize = 16 << 10;
/// ... by keeping less than this many of ten.
const WORTH: usize = 8;

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
    pub(super) fn new(context: &ScanContext, predicate: &Arc<dyn PhysicalExpr>, file: &Schema, scan: &mut ScanColumns) -> Result<Filtering> {
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
        Ok(if conjuncts.is_empty() { Filtering::All } else { Filtering::Some(Self { conjuncts }) })
    }
}

fn is_always_true(predicate: &Arc<dyn PhysicalExpr>) -> bool {
    use datafusion::common::ScalarValue;
    use datafusion::physical_expr::expressions::Literal;
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
    /// Of each conjunct, the rows that it was shown and those that it kept.
    counts: Vec<(usize, usize)>,
    metrics: FileMetrics,
}

impl MorselFilter {
    pub(super) fn new(filter: Arc<RowFilter>, metrics: FileMetrics) -> Self {
        Self { counts: vec![(0, 0); filter.conjuncts.len()], filter, metrics }
    }

    /// The rows that pass, or the error of the format or the engine that stopped it.
    pub(super) fn select(&mut self, morsel: &dyn Morsel, rows: &Rows) -> Result<Selection, Fault> {
        let mut selection = Selection::all(rows, morsel.schema().fields().len());
        for (conjunct, (seen, kept)) in self.filter.conjuncts.iter().zip(&mut self.counts) {
            if selection.count == 0 {
                break;
            }
            if conjunct.is_optional && *seen >= TRIAL_ROWS && *kept * 10 >= *seen * WORTH {
                continue;
            }
            let batch = selection.batch(morsel, &conjunct.columns, &conjunct.schema)?;
            let timer = self.metrics.row_pushdown_eval_time.timer();
            let keep = evaluate(&conjunct.expr, &batch)?;
            drop(timer);
            *seen += selection.count;
            selection.narrow(&keep)?;
            *kept += selection.count;
        }
        self.metrics.pushdown_rows_matched.add(selection.count);
        self.metrics.pushdown_rows_pruned.add(rows.len() - selection.count);
        Ok(selection)
    }
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
#[derive(Debug)]
pub(super) struct Selection {
    /// All rows that were taken.
    rows: Rows,
    /// How many have passed.
    pub(super) count: usize,
    passed: Option<Passed>,
    /// By position in the scan, the columns that have been read, of the rows that have passed.
    held: Vec<Option<ArrayRef>>,
}

/// Which rows have passed, if not all.
#[derive(Debug)]
struct Passed {
    /// A bit for each row that was taken.
    keep: BooleanBuffer,
    /// What has to be read to have them all, and what to take of that.
    blocks: Rows,
    in_blocks: FilterPredicate,
}

impl Selection {
    fn all(rows: &Rows, columns: usize) -> Self {
        Self { rows: rows.clone(), count: rows.len(), passed: None, held: vec![None; columns] }
    }

    /// A column of the rows that have passed.
    fn column(&mut self, morsel: &dyn Morsel, position: usize) -> Result<ArrayRef, Fault> {
        if let Some(Some(array)) = self.held.get(position) {
            return Ok(Arc::clone(array));
        }
        let read = |rows: &Rows| morsel.read(&[position], rows)?.pop().ok_or_else(|| format::Error::invalid_argument("a column was not read"));
        let array = match &self.passed {
            None => read(&self.rows)?,
            Some(passed) => passed.in_blocks.filter(&read(&passed.blocks)?)?,
        };
        if let Some(held) = self.held.get_mut(position) {
            *held = Some(Arc::clone(&array));
        }
        Ok(array)
    }

    /// Columns of the rows that have passed.
    pub(super) fn batch(&mut self, morsel: &dyn Morsel, columns: &[usize], schema: &SchemaRef) -> Result<RecordBatch, Fault> {
        let arrays = columns.iter().map(|position| self.column(morsel, *position)).collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
    }

    /// What is left of an array with a slot for each row that was taken.
    pub(super) fn filter(&self, array: ArrayRef) -> Result<ArrayRef, Fault> {
        match &self.passed {
            None => Ok(array),
            Some(passed) => Ok(arrow::compute::filter(&array, &BooleanArray::from(passed.keep.clone()))?),
        }
    }

    /// Leaves those of the rows that have a bit in `keep`.
    fn narrow(&mut self, keep: &BooleanBuffer) -> Result<(), Fault> {
        let count = keep.count_set_bits();
        if count == self.count {
            return Ok(());
        }
        self.count = count;
        if count == 0 {
            return Ok(());
        }
        let filter = predicate(keep);
        for held in self.held.iter_mut().flatten() {
            *held = filter.filter(held)?;
        }
        let keep = match &self.passed {
            None => keep.clone(),
            Some(passed) => among(&passed.keep, keep),
        };
        let (blocks, bits) = self.rows.blocks_with(&keep);
        self.passed = Some(Passed { keep, blocks, in_blocks: predicate(&bits) });
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
