//! Filtering rows where they are decoded: first the columns of a predicate, then of the others only the blocks in which a row is left.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, BooleanBufferBuilder, RecordBatch, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, InListExpr, Literal};
use datafusion::physical_expr::{DynamicFilterTracking, PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::{is_volatile, snapshot_generation, snapshot_physical_expr};

use super::adapt::adapt;
use super::fallible::can_fail;
use super::file::{ScanContext, is_never_true};
use super::kernel::{Kernel, Settled};
use super::leading::{about, leading_column};
use super::learnt::{Learnt, Trials, next};
use super::metrics::FileMetrics;
use super::schema::Columns;
use super::selection::{Fault, Selection};
use super::weaken::{has_lookup, weakened};
use crate::format::rows::Rows;
use crate::format::scan::{Coded, CodedPart, Morsel};

/// A conjunct is evaluated once for each value of the pages of a batch if those are no more than the batch's rows times this: what is found out serves
/// all batches of a page.
const VALUES_TIMES: usize = 2;

/// The same where most rows have been dropped, and with them perhaps those of the page's other batches: no more than the rows divided by this.
const VALUES_PART: usize = 2;

/// The same of a conjunct that changes while the query runs, so that it may have to be evaluated again for each batch: divided by this.
const CHANGING_PART: usize = 16;

/// Values that rows share are searched for text, all of them at once, if they are no more than the rows that are left times this. Where there are more, so few of them are likely to
/// be needed that they are better decoded.
const SEARCHED_TIMES: usize = 64;

/// Pages whose values a conjunct has been evaluated for are remembered, up to so many.
const VERDICTS: usize = 2;

/// After so many rows it shows whether an optional conjunct is worth asking.
const TRIAL_ROWS: usize = 4096;

/// Where more than one row in so many passes a lookup, it does not pay for the next morsels either. Where fewer do, it may.
const HOPELESS_PART: usize = 32;

/// A part of the predicate that every row has to pass.
#[derive(Debug)]
struct Conjunct {
    expr: Arc<dyn PhysicalExpr>,
    /// The same, if it does without the engine.
    kernel: Option<Arc<Kernel>>,
    /// The columns that it is asked about.
    schema: SchemaRef,
    /// The columns of `schema`, by their positions in the scan.
    columns: Vec<usize>,
    /// Only saves work: a join or a sort will drop the rows itself. It may say more the next time it is evaluated.
    is_optional: bool,
    /// Says the same of two rows with the same value, so that it can be asked once for each value instead of for each row.
    is_by_value: bool,
    /// May only be asked about rows that have passed what stands before it.
    can_fail: bool,
    /// `expr` is about several columns, and this asks what it says about that one of them.
    column_of_several: Option<usize>,
}

impl Conjunct {
    /// What it says about the first of several columns, if it is a sort's or a join's.
    fn leading(&self) -> Option<Self> {
        let column = leading_column(&self.expr, &self.schema).filter(|_| self.is_optional && !self.can_fail)?;
        Some(Self {
            expr: Arc::clone(&self.expr),
            kernel: None,
            schema: Arc::new(self.schema.project(&[column]).ok()?),
            columns: vec![*self.columns.get(column)?],
            is_by_value: !is_volatile(&self.expr),
            column_of_several: Some(column),
            ..*self
        })
    }

    /// Whether the two are about the values of the same column, and can be asked together.
    fn is_like(&self, other: &Self) -> bool {
        let can_be_joined = |conjunct: &Self| conjunct.is_by_value && !conjunct.is_optional && !conjunct.can_fail;
        can_be_joined(self) && can_be_joined(other) && self.columns == other.columns && self.schema == other.schema
    }
}

/// The predicate of a scan in terms of one file.
#[derive(Debug)]
pub(super) struct RowFilter {
    conjuncts: Vec<Conjunct>,
    /// What each of them has cost, ...
    learnt: Vec<Learnt>,
    /// ... whether it has paid to look rows up in a join's table, ...
    trials: Vec<Trials>,
    /// ... and to look for text in stored values.
    searches: Vec<Trials>,
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
    pub(super) fn plan(context: &ScanContext, predicate: &Arc<dyn PhysicalExpr>, file: &dyn Columns, scan: &mut ScanColumns) -> Result<Filtering> {
        let output_columns = scan.file_columns.len();
        let mut conjuncts = Vec::new();
        for conjunct in split_conjunction(predicate) {
            let is_optional = DynamicFilterTracking::classify(conjunct).contains_dynamic_filter();
            let adapted = adapt(vec![Arc::clone(conjunct)], &context.table, file, &context.positions, context.expr_adapter.as_ref())?;
            for expr in adapted.exprs {
                if is_never_true(&expr) {
                    return Ok(Filtering::None);
                }
                if !is_always_true(&expr) {
                    let columns = scan.positions(&adapted.file_columns, &adapted.schema);
                    let is_by_value = columns.len() == 1 && !is_volatile(&expr);
                    let can_fail = can_fail(&expr, &adapted.schema);
                    let schema = Arc::clone(&adapted.schema);
                    let conjunct = Conjunct { expr, kernel: None, schema, columns, is_optional, is_by_value, can_fail, column_of_several: None };
                    add_conjunct(conjunct, &mut conjuncts);
                }
            }
        }
        // Now that those about one column are one.
        conjuncts.iter_mut().for_each(|conjunct| conjunct.kernel = Kernel::of(&conjunct.expr, &conjunct.schema).map(Arc::new));
        Ok(if conjuncts.is_empty() { Filtering::All } else { Filtering::Some(Self::new(conjuncts, output_columns)) })
    }

    fn new(conjuncts: Vec<Conjunct>, output_columns: usize) -> Self {
        let (learnt, (trials, searches)) = conjuncts.iter().map(|_| <(Learnt, (Trials, Trials))>::default()).unzip();
        Self { learnt, trials, searches, conjuncts, output_columns }
    }

    /// The columns that it is about, by their positions in the scan.
    pub(super) fn columns(&self) -> Vec<usize> {
        let mut columns: Vec<usize> = self.conjuncts.iter().flat_map(|conjunct| conjunct.columns.iter().copied()).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Whether a column of the scan is used by what is left of the conjuncts, or by the output.
    fn is_needed_by(&self, left: &[usize], position: usize) -> bool {
        position < self.output_columns || left.iter().any(|conjunct| self.conjuncts[*conjunct].columns.contains(&position))
    }
}

/// Adds a conjunct, to the last one if the two can be asked together, and behind what it says about one column.
fn add_conjunct(conjunct: Conjunct, conjuncts: &mut Vec<Conjunct>) {
    match conjuncts.last_mut() {
        Some(last) if conjunct.is_like(last) => {
            last.expr = Arc::new(BinaryExpr::new(Arc::clone(&last.expr), Operator::And, conjunct.expr));
        }
        _ => {
            conjuncts.extend(conjunct.leading());
            conjuncts.push(conjunct);
        }
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
    /// Of each optional conjunct, what it says at this time.
    current: Vec<Option<Current>>,
    /// Of each conjunct, what it says of the values of the pages that it was last asked about, the last one first.
    verdicts: Vec<Vec<Verdicts>>,
    /// Of each conjunct, what bounds say about the pages that it was last to be asked about.
    settled: Vec<Option<SettledRows>>,
    /// Of each row that is still to come, whether it passes, if that is known already.
    known: Option<Known>,
    metrics: FileMetrics,
}

/// An optional conjunct as it was at one time: what is judged is what is evaluated, whatever the join or the sort does to it meanwhile.
#[derive(Debug)]
struct Current {
    generation: u64,
    /// `None` if the morsel does without it.
    expr: Option<Arc<dyn PhysicalExpr>>,
    kernel: Option<Arc<Kernel>>,
    has_lookup: bool,
    /// Rows that it has been asked about, and those of them that passed.
    asked: usize,
    passed: usize,
}

impl Current {
    fn new(conjunct: &Conjunct, generation: u64) -> Self {
        let expr = useful_snapshot(conjunct);
        let kernel = expr.as_ref().and_then(|expr| Kernel::of(expr, &conjunct.schema)).map(Arc::new);
        Self { generation, has_lookup: expr.as_ref().is_some_and(has_lookup), expr, kernel, asked: 0, passed: 0 }
    }

    /// Whether it has dropped enough rows so far. To look a row up costs what the join saves that does not have to, unless its table is small; and
    /// few rows pass a small table.
    fn pays(&self) -> bool {
        let most = if self.has_lookup { self.asked / 64 } else { self.asked / 8 * 7 };
        self.asked < TRIAL_ROWS || self.passed <= most
    }
}

/// A conjunct to ask about rows.
struct Question<'a> {
    index: usize,
    /// 0 if it is always the same.
    generation: u64,
    conjunct: &'a Conjunct,
    expr: Arc<dyn PhysicalExpr>,
    kernel: Option<Arc<Kernel>>,
}

/// What a conjunct says of the values that the codes of a page stand for.
#[derive(Debug)]
struct Verdicts {
    page: usize,
    generation: u64,
    keep: BooleanBuffer,
}

/// Of rows whether they pass, in the order of the file, though the last ones may come first.
#[derive(Debug)]
struct Known {
    passed: BooleanBuffer,
    backwards: bool,
}

impl Known {
    /// Of the next `count` rows, if there are so many.
    fn next(&self, count: usize) -> Option<BooleanBuffer> {
        let others = self.passed.len().checked_sub(count)?;
        Some(self.passed.slice(if self.backwards { others } else { 0 }, count))
    }

    fn skip(&mut self, count: usize) {
        let left = self.passed.len().saturating_sub(count);
        self.passed = self.passed.slice(if self.backwards { 0 } else { self.passed.len() - left }, left);
    }
}

/// What bounds say of the rows of some pages about a conjunct.
#[derive(Debug)]
struct SettledRows {
    rows: Range<usize>,
    generation: u64,
    settled: Settled,
}

impl MorselFilter {
    pub(super) fn new(filter: Arc<RowFilter>, metrics: FileMetrics) -> Self {
        let conjuncts = &filter.conjuncts;
        Self {
            current: conjuncts.iter().map(|_| None).collect(),
            verdicts: conjuncts.iter().map(|_| Vec::new()).collect(),
            settled: conjuncts.iter().map(|_| None).collect(),
            known: None,
            filter,
            metrics,
        }
    }

    /// Takes it from here which rows pass.
    pub(super) fn knowing(self, passed: Option<BooleanBuffer>, backwards: bool) -> Self {
        Self { known: passed.map(|passed| Known { passed, backwards }), ..self }
    }

    /// The rows that pass, or the error of the format or the engine that stopped it.
    pub(super) fn select(&mut self, morsel: &dyn Morsel, rows: &Rows) -> Result<Selection, Fault> {
        let mut selection = Selection::all(rows, morsel.schema().fields().len());
        let filter = Arc::clone(&self.filter);
        if let Some(known) = &self.known {
            let Some(passed) = known.next(rows.len()) else {
                return Err(Fault::Engine(internal_datafusion_err!("{} rows have been filtered, and {} are read", known.passed.len(), rows.len())));
            };
            selection.narrow(&passed, |position| position < filter.output_columns)?;
            return Ok(selection);
        }
        let mut left: Vec<usize> = (0..filter.conjuncts.len()).collect();
        if left.len() > 1 && self.is_settled_none(&filter.conjuncts, rows, morsel) {
            return Ok(Selection::none(rows, morsel.schema().fields().len()));
        }
        while selection.count > 0 && !left.is_empty() {
            let index = left.remove(next(&left, &filter.learnt, |conjunct| filter.conjuncts[conjunct].can_fail));
            let Some(question) = self.question(index, &filter.conjuncts[index]) else { continue };
            match self.settled(&question, rows, morsel) {
                Settled::All => continue,
                Settled::None => return Ok(Selection::none(rows, morsel.schema().fields().len())),
                Settled::Open => {}
            }
            let (before, start) = (selection.count, Instant::now());
            let keep = match self.keep_unread(&question, &selection, morsel, &left)? {
                Some(keep) => selection.in_batch(keep),
                None => match self.keep_by_row(&question, &mut selection, morsel) {
                    // It was made above filters and joins that are not asked here, and is asked there again, about rows that have passed those.
                    Err(Fault::Engine(_)) if question.conjunct.is_optional => {
                        self.give_up(index);
                        continue;
                    }
                    keep => keep?,
                },
            };
            selection.narrow(&keep, |position| filter.is_needed_by(&left, position))?;
            filter.learnt[index].add(start.elapsed(), before, before - selection.count);
            if let Some(current) = &mut self.current[index] {
                let is_tried = current.asked < TRIAL_ROWS;
                current.asked += before;
                current.passed += selection.count;
                if is_tried && current.has_lookup && current.asked >= TRIAL_ROWS {
                    filter.trials[index].note(current.generation, current.passed <= current.asked / HOPELESS_PART);
                }
            }
        }
        Ok(selection)
    }

    /// Takes note of how many rows passed and how many did not.
    pub(super) fn count(&mut self, passed: usize, dropped: usize) {
        if let Some(known) = &mut self.known {
            known.skip(passed + dropped);
        }
        self.metrics.pushdown_rows_matched.add(passed);
        self.metrics.pushdown_rows_pruned.add(dropped);
    }
}

impl MorselFilter {
    /// A conjunct as it is now, unless it is better not asked.
    fn question<'a>(&mut self, index: usize, conjunct: &'a Conjunct) -> Option<Question<'a>> {
        if !conjunct.is_optional {
            return Some(Question { index, generation: 0, conjunct, expr: Arc::clone(&conjunct.expr), kernel: conjunct.kernel.clone() });
        }
        // Asked for before the snapshot, so that what changes in between is seen the next time.
        let generation = snapshot_generation(&conjunct.expr);
        let known = self.current[index].take().filter(|current| current.generation == generation);
        let current = self.current[index].insert(known.unwrap_or_else(|| match self.filter.trials[index].passes_by(generation) {
            true => Current { generation, expr: None, kernel: None, has_lookup: true, asked: 0, passed: 0 },
            false => Current::new(conjunct, generation),
        }));
        let expr = current.expr.clone().filter(|_| current.pays())?;
        Some(Question { index, generation, conjunct, expr, kernel: current.kernel.clone() })
    }

    /// Does without an optional conjunct, as it is now.
    fn give_up(&mut self, index: usize) {
        if let Some(current) = &mut self.current[index] {
            current.expr = None;
        }
    }

    /// Whether bounds say of one conjunct that no row passes: before another is asked, for which values are read.
    fn is_settled_none(&mut self, conjuncts: &[Conjunct], rows: &Rows, morsel: &dyn Morsel) -> bool {
        let mut questions = conjuncts.iter().enumerate();
        questions
            .any(|(index, conjunct)| self.question(index, conjunct).is_some_and(|question| self.settled(&question, rows, morsel) == Settled::None))
    }

    /// What is known of the rows from the bounds of their pages, without reading a value.
    fn settled(&mut self, question: &Question<'_>, rows: &Rows, morsel: &dyn Morsel) -> Settled {
        let (Some(kernel), [position]) = (question.kernel.as_ref().filter(|kernel| kernel.range().is_some()), question.conjunct.columns.as_slice())
        else {
            return Settled::Open;
        };
        let known = &mut self.settled[question.index];
        if let Some(known) = known.as_ref().filter(|known| known.generation == question.generation && rows.lie_in(&known.rows)) {
            return known.settled;
        }
        let Ok(Some(bounds)) = morsel.bounds(*position, rows) else { return Settled::Open };
        let settled = kernel.settled(&bounds);
        // What is open of two pages may not be so of the second.
        if settled != Settled::Open || bounds.min.len() == 1 {
            *known = Some(SettledRows { rows: bounds.rows, generation: question.generation, settled });
        }
        settled
    }

    fn keep_by_row(&self, question: &Question<'_>, selection: &mut Selection, morsel: &dyn Morsel) -> Result<BooleanBuffer, Fault> {
        let Question { conjunct, expr, .. } = question;
        let batch = selection.batch(morsel, &conjunct.columns, &conjunct.schema)?;
        let _timer = self.metrics.row_pushdown_eval_time.timer();
        if let Some(passed) = passed_kernel(question, batch.columns()) {
            return Ok(passed);
        }
        let passed = match selection.mask().filter(|_| conjunct.can_fail) {
            Some(mask) => expr.evaluate_selection(&batch, &mask)?,
            None => expr.evaluate(&batch)?,
        };
        Ok(rows_that_pass(passed, batch.num_rows())?)
    }

    /// Evaluates a conjunct without reading its column, if it has not been read anyway and is stored in a way that allows for that.
    fn keep_unread(
        &mut self,
        question: &Question<'_>,
        selection: &Selection,
        morsel: &dyn Morsel,
        left: &[usize],
    ) -> Result<Option<BooleanBuffer>, Fault> {
        let conjunct = question.conjunct;
        let (true, [position]) = (conjunct.is_by_value, conjunct.columns.as_slice()) else { return Ok(None) };
        let Some(rows) = selection.unread(*position) else { return Ok(None) };
        let is_read_later = self.filter.is_needed_by(left, *position);
        let kernel = question.kernel.as_ref().filter(|kernel| kernel.is_search());
        // What is decoded for most rows anyway is searched then.
        let kernel = kernel.filter(|_| !is_read_later || !self.filter.learnt[question.index].passes_many());
        let trials = &self.filter.searches[question.index];
        if let Some(kernel) = kernel.filter(|_| !trials.passes_by(question.generation)) {
            let _timer = self.metrics.row_pushdown_eval_time.timer();
            let most = selection.count.saturating_mul(SEARCHED_TIMES);
            let keep = kernel.found(|pieces| morsel.find(*position, rows, most, pieces))?;
            trials.note(question.generation, keep.is_some());
            if keep.is_some() {
                return Ok(keep);
            }
        }
        // Of few rows, a column that is used again is better read once than asked for its codes several times.
        if selection.is_sparse() && is_read_later {
            return Ok(None);
        }
        self.keep_by_value(question, *position, rows, most_values(question, selection, rows.len()), morsel)
    }

    /// Evaluates a conjunct once for each value that a page stores, where the column is stored as codes of no more than `most` values.
    fn keep_by_value(
        &mut self,
        question: &Question<'_>,
        position: usize,
        rows: &Rows,
        most: usize,
        morsel: &dyn Morsel,
    ) -> Result<Option<BooleanBuffer>, Fault> {
        let Some(Coded { parts, nulls }) = morsel.coded(position, rows, most)? else { return Ok(None) };
        let time = self.metrics.row_pushdown_eval_time.clone();
        let _timer = time.timer();
        let mut keep = BooleanBufferBuilder::new(rows.len());
        for part in parts {
            // An error may be about a value that no row has that is left. Row by row it will show.
            let Ok(verdicts) = self.verdicts(question, &part) else { return Ok(None) };
            part.codes.append_looked_up(&verdicts, &mut keep);
        }
        let keep = keep.finish();
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return Ok(Some(keep)) };
        let null = new_null_array(question.conjunct.schema.field(0).data_type(), 1);
        let Ok(passed) = evaluate_column(question, null) else { return Ok(None) };
        Ok(Some(if passed.value(0) { &keep | &!nulls.inner() } else { &keep & nulls.inner() }))
    }

    fn verdicts(&mut self, question: &Question<'_>, part: &CodedPart) -> Result<BooleanBuffer> {
        let (page, generation) = (part.page, question.generation);
        let known = &mut self.verdicts[question.index];
        // Pages with values of their own may stand between those that share theirs.
        if let Some(at) = known.iter().position(|known| known.page == page && known.generation == generation) {
            known[..=at].rotate_right(1);
            return Ok(known[0].keep.clone());
        }
        let keep = evaluate_column(question, Arc::clone(&part.values))?;
        known.truncate(VERDICTS - 1);
        known.insert(0, Verdicts { page, generation, keep: keep.clone() });
        Ok(keep)
    }
}

/// How many values it may be evaluated for, for so many rows.
fn most_values(question: &Question<'_>, selection: &Selection, rows: usize) -> usize {
    match question.generation {
        0 if selection.is_sparse() => rows / VALUES_PART,
        0 => rows.saturating_mul(VALUES_TIMES),
        _ => rows / CHANGING_PART,
    }
}

/// Which values pass, if that is found out without the engine.
fn passed_kernel(question: &Question<'_>, columns: &[ArrayRef]) -> Option<BooleanBuffer> {
    match (&question.kernel, columns) {
        (Some(kernel), [values]) => kernel.pass(values),
        _ => None,
    }
}

/// Which values of its only column a conjunct lets pass.
fn evaluate_column(question: &Question<'_>, values: ArrayRef) -> Result<BooleanBuffer> {
    if let Some(passed) = passed_kernel(question, std::slice::from_ref(&values)) {
        return Ok(passed);
    }
    let batch = RecordBatch::try_new(Arc::clone(&question.conjunct.schema), vec![values])?;
    rows_that_pass(question.expr.evaluate(&batch)?, batch.num_rows())
}

/// What an optional conjunct says now; `None` if it is better not asked about rows: a set of floats tells -0.0 from 0.0, which a join takes for equal.
fn useful_snapshot(conjunct: &Conjunct) -> Option<Arc<dyn PhysicalExpr>> {
    let now = snapshot_physical_expr(Arc::clone(&conjunct.expr)).ok()?;
    let now = match conjunct.column_of_several {
        None => weakened(&now, &conjunct.schema),
        Some(column) => about(&now, column)?,
    };
    let is_set_of_floats = |expr: &Arc<dyn PhysicalExpr>| {
        let of_floats = |set: &InListExpr| set.expr().data_type(&conjunct.schema).is_ok_and(|of| has_floats(&of));
        Ok(expr.downcast_ref::<InListExpr>().is_some_and(of_floats))
    };
    let is_useful = !is_always_true(&now) && now.exists(is_set_of_floats).is_ok_and(|is_worse| !is_worse);
    is_useful.then_some(now)
}

fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        DataType::Dictionary(_, values) => has_floats(values),
        other => other.is_floating() || other.is_nested(),
    }
}

/// Which rows pass; null is no.
fn rows_that_pass(passed: ColumnarValue, rows: usize) -> Result<BooleanBuffer> {
    let passed = passed.into_array(rows)?;
    let passed = as_boolean_array(&passed)?;
    Ok(match passed.nulls().filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => passed.values() & nulls.inner(),
        None => passed.values().clone(),
    })
}

#[cfg(test)]
mod tests;
