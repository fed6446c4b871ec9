//! [`RunGroups`]: groups of rows that follow each other, each looked up once.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::FilterBuilder;
use arrow::datatypes::Field;
use datafusion::error::Result;

use super::first::first_of_runs;
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

/// Where runs have this many rows on average, it does not matter what it takes to look them up.
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
        let runs = first_of_runs(None, keys, rows)?;
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

#[cfg(test)]
mod tests;
