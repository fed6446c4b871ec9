//! [`RunGroups`]: groups of rows that follow each other, each looked up once.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::FilterBuilder;
use arrow::compute::kernels::cmp::distinct;
use arrow::datatypes::{DataType, Field};
use datafusion::error::Result;

use super::numbers::Numbered;
use super::table::{Found, Groups, Keys, evaluated};
use super::trial::Trial;

/// The groups that rows have been found to belong to.
///
/// Of rows that follow each other with the same keys, as in a file that is sorted by them, or by what goes along with them, the first is looked up. Where most are not there, each such run is a group of its own without being
/// looked up, until groups are taken out: the second half of the aggregation looks it up again. Rows of batches without such runs are handed on without groups for a while where most of them are new.
pub(super) struct RunGroups {
    keys: Keys,
    numbered: Numbered,
    /// Those of the runs of a batch.
    groups_of_runs: Vec<usize>,
    /// How many batches are not searched for runs before the next that is.
    unsearched: usize,
    trial_of_runs: Trial,
    /// Of rows that are looked up one by one, of which fewer may be new than of runs.
    trial_of_rows: Trial,
}

/// Rows that are looked up one by one take as long as runs of this many rows on average, at least. Where runs are long, it does not matter what they take.
const ROWS_PER_RUN: f64 = 1.5;
const ROWS_PER_LONG_RUN: usize = 8;

/// Where a batch has no runs, so many that follow are not searched, unless it is in vain to look up their rows. A batch of few rows says nothing.
const UNSEARCHED: usize = 15;
const FEW_ROWS: usize = 64;

impl RunGroups {
    /// None so far; keys are of these fields.
    pub(super) fn new(keys: Keys, fields: &[Arc<Field>], trial: Trial) -> Result<Self> {
        Ok(Self {
            keys,
            numbered: Numbered::new(fields)?,
            groups_of_runs: Vec::new(),
            unsearched: 0,
            trial_of_rows: trial.clone(),
            trial_of_runs: trial,
        })
    }

    /// Which rows begin a run, if these are few; of no rows none.
    fn runs(&mut self, keys: &[ArrayRef], rows: usize) -> Result<Option<BooleanBuffer>> {
        let runs = first_of_runs(keys, rows)?;
        if runs.is_none() && rows >= FEW_ROWS {
            self.unsearched = UNSEARCHED;
        }
        Ok(runs)
    }

    /// The groups of rows that have these keys, one by one.
    fn find_rows(&mut self, keys: &[ArrayRef], rows: usize, groups: &mut Vec<usize>) -> Result<()> {
        let new = self.numbered.intern(keys, groups)?;
        self.trial_of_rows.note(rows, new);
        Ok(())
    }

    /// The groups of rows that have these keys, of which some begin a run.
    fn find_runs(&mut self, keys: &[ArrayRef], runs: &BooleanBuffer, groups: &mut Vec<usize>) -> Result<()> {
        let first = FilterBuilder::new(&BooleanArray::new(runs.clone(), None)).optimize().build();
        let keys = keys.iter().map(|keys| first.filter(keys)).collect::<Result<Vec<_>, _>>()?;
        if self.trial_of_runs.is_in_vain() && runs.len() / first.count() < ROWS_PER_LONG_RUN {
            self.groups_of_runs.clear();
            self.groups_of_runs.extend(self.numbered.add_apart(keys));
        } else {
            let new = self.numbered.intern(&keys, &mut self.groups_of_runs)?;
            self.trial_of_runs.note(first.count(), new);
        }
        groups.clear();
        let ends = runs.set_indices().skip(1).chain([runs.len()]);
        for (group, end) in self.groups_of_runs.iter().zip(ends) {
            groups.resize(end, *group);
        }
        Ok(())
    }
}

impl Groups for RunGroups {
    fn len(&self) -> usize {
        self.numbered.len()
    }

    fn size(&self) -> usize {
        self.numbered.size() + self.groups_of_runs.capacity() * size_of::<usize>()
    }

    fn find(&mut self, batch: &RecordBatch, groups: &mut Vec<usize>) -> Result<Found> {
        let keys = evaluated(&self.keys, batch)?;
        let rows = batch.num_rows();
        if self.unsearched > 0 && !self.trial_of_rows.is_in_vain() {
            self.unsearched -= 1;
            self.find_rows(&keys, rows, groups)?;
            return Ok(Found::Groups);
        }
        match self.runs(&keys, rows)? {
            Some(runs) => self.find_runs(&keys, &runs, groups)?,
            None if self.trial_of_rows.hand_on(rows) => return Ok(Found::InVain(keys)),
            None => self.find_rows(&keys, rows, groups)?,
        }
        Ok(Found::Groups)
    }

    fn apart(&self) -> usize {
        self.numbered.apart()
    }

    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        self.trial_of_runs.renew();
        self.trial_of_rows.renew();
        self.numbered.take()
    }
}

/// Whether keys of a type can be compared with those of the row before.
pub(super) fn can_have_runs(data_type: &DataType) -> bool {
    let is_text = matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Binary | DataType::LargeBinary | DataType::BinaryView
    );
    data_type.is_primitive() || is_text || *data_type == DataType::Boolean
}

#[expect(clippy::cast_precision_loss, reason = "a ratio need not be exact")]
fn is_worth_it(runs: usize, rows: usize) -> bool {
    runs as f64 * ROWS_PER_RUN <= rows as f64
}

/// Which rows differ from the row before in one of the keys, and the first one; `None` if that is most of them.
fn first_of_runs(keys: &[ArrayRef], rows: usize) -> Result<Option<BooleanBuffer>> {
    rows.checked_sub(1).map_or(Ok(None), |behind| first_of_runs_within(BooleanBuffer::new_unset(behind), keys, rows))
}

/// The same, of rows of these groups.
pub(super) fn first_of_runs_in(groups: &[usize], keys: &[ArrayRef]) -> Result<Option<BooleanBuffer>> {
    let differ = |behind| BooleanBuffer::collect_bool(behind, |row| groups[row] != groups[row + 1]);
    groups.len().checked_sub(1).map_or(Ok(None), |behind| first_of_runs_within(differ(behind), keys, groups.len()))
}

/// The same, of rows of which some are known to differ.
fn first_of_runs_within(mut differ: BooleanBuffer, keys: &[ArrayRef], rows: usize) -> Result<Option<BooleanBuffer>> {
    for keys in keys {
        differ = &differ | &differ_from_before(keys)?;
        if !is_worth_it(differ.count_set_bits() + 1, rows) {
            return Ok(None);
        }
    }
    let mut first = BooleanBufferBuilder::new(rows);
    first.append(true);
    first.append_buffer(&differ);
    Ok(Some(first.finish()))
}

/// Which rows but the first have another key than the row before. Of long strings that lie in different places that may be said though they are equal.
fn differ_from_before(keys: &ArrayRef) -> Result<BooleanBuffer> {
    let behind = keys.len() - 1;
    let views = match keys.data_type() {
        DataType::Utf8View => Some(keys.as_string_view().views()),
        DataType::BinaryView => Some(keys.as_binary_view().views()),
        _ => None,
    };
    Ok(match views.filter(|_| keys.null_count() == 0) {
        Some(views) => BooleanBuffer::collect_bool(behind, |row| views[row] != views[row + 1]),
        None => distinct(&keys.slice(0, behind), &keys.slice(1, behind))?.into_parts().0,
    })
}

#[cfg(test)]
mod tests;
