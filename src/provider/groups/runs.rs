//! [`RunGroups`]: groups of rows that follow each other, each looked up once.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::FilterBuilder;
use arrow::compute::kernels::cmp::distinct;
use arrow::datatypes::{DataType, Field};
use datafusion::error::Result;

use super::numbers::Numbered;
use super::table::{Groups, Keys, evaluated};

/// The groups that rows have been found to belong to.
///
/// Of rows that follow each other with the same keys, as in a file that is sorted by them, or by what goes along with them, the first is looked up. Where most are not there, each such run is a group of its own without being
/// looked up, until groups are taken out: the second half of the aggregation looks it up again.
pub(super) struct RunGroups {
    keys: Keys,
    numbered: Numbered,
    of_runs: Vec<usize>,
    /// How many batches are not searched for runs before the next that is.
    unsearched: usize,
    trial: Trial,
}

/// Rows that are looked up one by one take as long as runs of this many rows on average, at least. Where runs are long, it does not matter what they take.
const ROWS_PER_RUN: f64 = 1.5;
const ROWS_PER_LONG_RUN: usize = 8;

/// Where a batch has no runs, so many that follow are not searched. A batch of few rows says nothing.
const UNSEARCHED: usize = 15;
const FEW_ROWS: usize = 64;

/// How many runs are looked up before as many more say whether that is in vain, the first time, and the most.
const FIRST_TRIAL: usize = 8192;
const LONGEST_TRIAL: usize = 16 * FIRST_TRIAL;

/// What is found of runs that are looked up.
pub(super) struct Trial {
    /// So many are looked up first, of which most are new, and then as many that are judged by.
    length: usize,
    /// To look up more is in vain where a larger part of those was new.
    ratio: f64,
    /// How many of the first ones have been.
    first: usize,
    /// And of the others.
    judged: usize,
    were_new: usize,
    is_in_vain: bool,
}

impl RunGroups {
    /// None so far; keys are of these fields.
    pub(super) fn new(keys: Keys, fields: &[Arc<Field>], trial: Trial) -> Result<Self> {
        Ok(Self { keys, numbered: Numbered::new(fields)?, of_runs: Vec::new(), unsearched: 0, trial })
    }

    /// Which rows begin a run, if these are few; of no rows none.
    fn runs(&mut self, keys: &[ArrayRef], rows: usize) -> Result<Option<BooleanBuffer>> {
        if self.unsearched > 0 {
            self.unsearched -= 1;
            return Ok(None);
        }
        let runs = first_of_runs(keys, rows)?;
        if runs.is_none() && rows >= FEW_ROWS {
            self.unsearched = UNSEARCHED;
        }
        Ok(runs)
    }

    /// The groups of runs that have these keys, and so many rows.
    fn find_runs(&mut self, keys: Vec<ArrayRef>, runs: usize, rows: usize) -> Result<()> {
        if self.trial.is_in_vain && rows / runs < ROWS_PER_LONG_RUN {
            self.of_runs.clear();
            self.of_runs.extend(self.numbered.add_apart(keys));
            return Ok(());
        }
        let new = self.numbered.intern(&keys, &mut self.of_runs)?;
        self.trial.note(runs, new);
        Ok(())
    }
}

impl Trial {
    /// The first one.
    pub(super) fn new(ratio: f64) -> Self {
        Self::of(FIRST_TRIAL, ratio)
    }

    fn of(length: usize, ratio: f64) -> Self {
        Self { length, ratio, first: 0, judged: 0, were_new: 0, is_in_vain: false }
    }

    #[expect(clippy::cast_precision_loss, reason = "a ratio need not be exact")]
    fn note(&mut self, looked_up: usize, new: usize) {
        if self.first < self.length {
            self.first += looked_up;
            return;
        }
        self.judged += looked_up;
        self.were_new += new;
        if self.judged >= self.length {
            self.is_in_vain = self.were_new as f64 > self.ratio * self.judged as f64;
            (self.judged, self.were_new) = (0, 0);
        }
    }

    /// The one that follows. After one that was in vain, it is longer: what is new to fewer groups need not be to more.
    fn next(&self) -> Self {
        let length = if self.is_in_vain { LONGEST_TRIAL.min(2 * self.length) } else { self.length };
        Self::of(length, self.ratio)
    }
}

impl Groups for RunGroups {
    fn len(&self) -> usize {
        self.numbered.len()
    }

    fn size(&self) -> usize {
        self.numbered.size() + self.of_runs.capacity() * size_of::<usize>()
    }

    fn find(&mut self, batch: &RecordBatch, groups: &mut Vec<usize>) -> Result<()> {
        let keys = evaluated(&self.keys, batch)?;
        let Some(runs) = self.runs(&keys, batch.num_rows())? else {
            self.numbered.intern(&keys, groups)?;
            return Ok(());
        };
        let first = FilterBuilder::new(&BooleanArray::new(runs.clone(), None)).optimize().build();
        let keys = keys.iter().map(|keys| first.filter(keys)).collect::<Result<Vec<_>, _>>()?;
        self.find_runs(keys, first.count(), runs.len())?;
        groups.clear();
        let ends = runs.set_indices().skip(1).chain([runs.len()]);
        for (group, end) in self.of_runs.iter().zip(ends) {
            groups.resize(end, *group);
        }
        Ok(())
    }

    fn apart(&self) -> usize {
        self.numbered.apart()
    }

    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        self.trial = self.trial.next();
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
    let Some(behind) = rows.checked_sub(1) else { return Ok(None) };
    let mut differ = BooleanBuffer::new_unset(behind);
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
