//! [`CodedGroups`]: groups of strings, found by the codes that these are stored as.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{Field, UInt32Type};
use datafusion::common::internal_err;
use datafusion::error::Result;

use super::numbers::Numbered;
use super::table::{Found, Groups};
use super::trial::Trial;
use crate::provider::codes_of::has_each_its_own;
use crate::provider::of_column::OfColumn;

/// The groups that rows have been found to belong to.
///
/// To look up a value that is not there is in vain: the second half of the aggregation looks it up again. So where most of the first values of a dictionary are not there, its other values are
/// groups of their own without being looked up. Rows that share no values are handed on without groups for a while where most of them are new.
pub(super) struct CodedGroups {
    key: OfColumn,
    numbered: Numbered,
    known: Option<Known>,
    /// Of rows that share no values.
    trial_of_rows: Trial,
}

/// The groups of the values of a dictionary.
struct Known {
    dictionary: ArrayRef,
    /// Of each code; [`UNKNOWN`] for those that no row has had.
    groups: Vec<usize>,
    null: Option<usize>,
    /// How many values have been looked up, and of how many of them there was no group.
    looked_up: usize,
    were_new: usize,
}

/// How many values of a dictionary are looked up at least before it is judged by them, and one in how many of a large one: as many more can be found in the next dictionary then.
const JUDGED: usize = 1000;
const JUDGED_SHARE: usize = 8;

const UNKNOWN: usize = usize::MAX;
/// It is about to be known.
const FOUND: usize = UNKNOWN - 1;

impl CodedGroups {
    /// None so far; the key is of this field, the only one.
    pub(super) fn new(key: OfColumn, fields: &[Arc<Field>], trial_of_rows: Trial) -> Result<Self> {
        Ok(Self { key, numbered: Numbered::new(fields)?, known: None, trial_of_rows })
    }

    /// Finds the groups of codes whose groups are not known.
    fn add(&mut self, known: &mut Known, new: Vec<u32>, groups: &mut Vec<usize>) -> Result<()> {
        let new = UInt32Array::from(new);
        let keys = self.key.evaluate(take(&known.dictionary, &new, None)?)?;
        if known.are_apart() {
            let groups = self.numbered.add_apart(vec![keys]);
            new.values().iter().zip(groups).for_each(|(code, group)| known.groups[*code as usize] = group);
            return Ok(());
        }
        known.were_new += self.numbered.intern(&[keys], groups)?;
        known.looked_up += new.len();
        new.values().iter().zip(groups.iter()).for_each(|(code, group)| known.groups[*code as usize] = *group);
        Ok(())
    }
}

impl Groups for CodedGroups {
    fn len(&self) -> usize {
        self.numbered.len()
    }

    fn size(&self) -> usize {
        let of_known = self.known.as_ref().map_or(0, |known| known.groups.capacity());
        self.numbered.size() + of_known * size_of::<usize>()
    }

    fn find(&mut self, batch: &RecordBatch, groups: &mut Vec<usize>) -> Result<Found> {
        let Some(codes) = batch.column(self.key.column()).as_dictionary_opt::<UInt32Type>() else { return internal_err!("a column is not as codes") };
        if has_each_its_own(codes) {
            let keys = vec![self.key.evaluate(Arc::clone(codes.values()))?];
            if self.trial_of_rows.hand_on(codes.len()) {
                return Ok(Found::InVain(keys));
            }
            let new = self.numbered.intern(&keys, groups)?;
            self.trial_of_rows.note(codes.len(), new);
            return Ok(Found::Groups);
        }
        let mut known = match self.known.take() {
            Some(known) if Arc::ptr_eq(&known.dictionary, codes.values()) => known,
            _ => Known::nothing_of(codes.values()),
        };
        let new = known.new_codes(codes);
        if !new.is_empty() {
            self.add(&mut known, new, groups)?;
        }
        if known.null.is_none() && codes.keys().null_count() > 0 {
            self.numbered.intern(&[self.key.evaluate(new_null_array(self.key.column_type(), 1))?], groups)?;
            known.null = groups.first().copied();
        }
        known.look_up(codes, groups);
        self.known = Some(known);
        Ok(Found::Groups)
    }

    fn apart(&self) -> usize {
        // Rows that follow can have the same codes, so that these groups wait, too.
        0
    }

    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        self.known = None;
        self.trial_of_rows.renew();
        self.numbered.take()
    }
}

impl Known {
    fn nothing_of(dictionary: &ArrayRef) -> Self {
        Self { dictionary: Arc::clone(dictionary), groups: vec![UNKNOWN; dictionary.len()], null: None, looked_up: 0, were_new: 0 }
    }

    /// Whether values are not looked up any more.
    fn are_apart(&self) -> bool {
        self.looked_up >= JUDGED.max(self.groups.len() / JUDGED_SHARE) && self.were_new > self.looked_up / 2
    }

    /// The codes of these rows whose groups are not known, each once.
    fn new_codes(&mut self, codes: &DictionaryArray<UInt32Type>) -> Vec<u32> {
        let mut new = Vec::new();
        let mut see = |code: u32| {
            if let Some(group) = self.groups.get_mut(code as usize)
                && *group == UNKNOWN
            {
                *group = FOUND;
                new.push(code);
            }
        };
        match codes.keys().nulls().filter(|nulls| nulls.null_count() > 0) {
            None => codes.keys().values().iter().for_each(|code| see(*code)),
            Some(nulls) => nulls.valid_indices().for_each(|row| see(codes.keys().value(row))),
        }
        new
    }

    fn look_up(&self, codes: &DictionaryArray<UInt32Type>, groups: &mut Vec<usize>) {
        // The code of a null may be any.
        let group = |code: &u32| self.groups.get(*code as usize).copied().unwrap_or(UNKNOWN);
        groups.clear();
        groups.extend(codes.keys().values().iter().map(group));
        if let (Some(nulls), Some(null)) = (codes.keys().nulls(), self.null) {
            groups.iter_mut().zip(nulls).filter(|(_, is_valid)| !is_valid).for_each(|(group, _)| *group = null);
        }
    }
}

#[cfg(test)]
mod tests;
