//! What rows are grouped by, as numbers.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{interleave, take};
use arrow::datatypes::{DataType, Field, Schema, UInt32Type};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;

use crate::provider::codes_of::has_each_its_own;
use crate::provider::of_column::OfColumn;

/// The groups that rows have been found to belong to.
///
/// To look up a value that is not there is in vain: the second half of the aggregation looks it up again. So where most of the first values of a dictionary are not there, its other values are
/// groups of their own without being looked up.
pub(super) struct Groups {
    key: OfColumn,
    /// Values that are looked up.
    values: Box<dyn GroupValues>,
    /// The group of each of them.
    of_values: Vec<usize>,
    /// Keys of groups that are not: the first group, and one key for each that follows.
    apart: Vec<(usize, ArrayRef)>,
    /// Bytes of those.
    apart_size: usize,
    len: usize,
    known: Option<Known>,
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
const TRIAL: usize = 1000;
const TRIAL_SHARE: usize = 8;

const UNKNOWN: usize = usize::MAX;
/// It is about to be known.
const FOUND: usize = UNKNOWN - 1;

impl Groups {
    /// None so far; keys have the type of `field`.
    pub(super) fn new(key: OfColumn, field: &Arc<Field>) -> Result<Self> {
        let values = new_group_values(Arc::new(Schema::new(vec![Arc::clone(field)])), &GroupOrdering::None)?;
        Ok(Self { key, values, of_values: Vec::new(), apart: Vec::new(), apart_size: 0, len: 0, known: None })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that they take.
    pub(super) fn size(&self) -> usize {
        let of_known = self.known.as_ref().map_or(0, |known| known.groups.capacity());
        self.values.size() + self.apart_size + (of_known + self.of_values.capacity()) * size_of::<usize>()
    }

    /// Takes out the keys of all groups, by their numbers.
    pub(super) fn take(&mut self) -> Result<ArrayRef> {
        self.known = None;
        let Some(values) = self.values.emit(EmitTo::All)?.pop() else { return internal_err!("a key has no values") };
        if self.apart.is_empty() {
            return Ok(values);
        }
        let mut places = vec![(0, 0); self.len];
        self.of_values.iter().enumerate().for_each(|(value, group)| places[*group] = (0, value));
        for (part, (first, keys)) in self.apart.iter().enumerate() {
            places[*first..first + keys.len()].iter_mut().enumerate().for_each(|(key, place)| *place = (part + 1, key));
        }
        let parts: Vec<&dyn Array> = std::iter::once(&values).chain(self.apart.iter().map(|(_, keys)| keys)).map(AsRef::as_ref).collect();
        Ok(interleave(&parts, &places)?)
    }

    /// The groups of these keys, out of values that are looked up.
    fn intern(&mut self, keys: ArrayRef, groups: &mut Vec<usize>) -> Result<()> {
        self.values.intern(&[keys], groups)?;
        let new = self.values.len() - self.of_values.len();
        self.of_values.extend(self.len..self.len + new);
        self.len += new;
        // As long as there are no others, they are numbered alike.
        if !self.apart.is_empty() {
            groups.iter_mut().for_each(|group| *group = self.of_values[*group]);
        }
        Ok(())
    }

    /// As many new groups.
    fn add_apart(&mut self, keys: ArrayRef) -> Range<usize> {
        let first = self.len;
        self.len += keys.len();
        let keys = by_itself(keys);
        self.apart_size += keys.get_array_memory_size();
        self.apart.push((first, keys));
        first..self.len
    }

    /// The group of each row.
    pub(super) fn find(&mut self, batch: &RecordBatch, groups: &mut Vec<usize>) -> Result<()> {
        let Some(codes) = batch.column(self.key.column()).as_dictionary_opt::<UInt32Type>() else { return internal_err!("a column is not as codes") };
        if has_each_its_own(codes) {
            return self.intern(self.key.evaluate(Arc::clone(codes.values()))?, groups);
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
            self.intern(self.key.evaluate(new_null_array(self.key.column_type(), 1))?, groups)?;
            known.null = groups.first().copied();
        }
        known.look_up(codes, groups);
        self.known = Some(known);
        Ok(())
    }

    /// Finds the groups of codes whose groups are not known.
    fn add(&mut self, known: &mut Known, new: Vec<u32>, groups: &mut Vec<usize>) -> Result<()> {
        let new = UInt32Array::from(new);
        let keys = self.key.evaluate(take(&known.dictionary, &new, None)?)?;
        if known.are_apart() {
            let groups = self.add_apart(keys);
            new.values().iter().zip(groups).for_each(|(code, group)| known.groups[*code as usize] = group);
            return Ok(());
        }
        let before = self.values.len();
        self.intern(keys, groups)?;
        new.values().iter().zip(groups.iter()).for_each(|(code, group)| known.groups[*code as usize] = *group);
        known.were_new += self.values.len() - before;
        known.looked_up += new.len();
        Ok(())
    }
}

impl Known {
    fn nothing_of(dictionary: &ArrayRef) -> Self {
        Self { dictionary: Arc::clone(dictionary), groups: vec![UNKNOWN; dictionary.len()], null: None, looked_up: 0, were_new: 0 }
    }

    /// Whether values are not looked up any more.
    fn are_apart(&self) -> bool {
        self.looked_up >= TRIAL.max(self.groups.len() / TRIAL_SHARE) && self.were_new > self.looked_up / 2
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

/// Strings without what others have in the same buffers, which may be a whole dictionary.
fn by_itself(keys: ArrayRef) -> ArrayRef {
    match keys.data_type() {
        DataType::Utf8View => Arc::new(keys.as_string_view().gc()),
        DataType::BinaryView => Arc::new(keys.as_binary_view().gc()),
        _ => keys,
    }
}
