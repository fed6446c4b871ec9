//! [`Numbered`]: groups by number, of keys that are looked up and of others.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{concat, interleave};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;

/// Groups, of which some may have the keys of others: the second half of the aggregation joins those.
pub(super) struct Numbered {
    schema: SchemaRef,
    /// Keys that are looked up.
    values: Box<dyn GroupValues>,
    /// The group of each of them.
    of_values: Vec<usize>,
    /// Keys of groups that are not: the first group, and one key for each that follows.
    apart: Vec<(usize, Vec<ArrayRef>)>,
    /// Bytes of those.
    apart_size: usize,
    len: usize,
}

impl Numbered {
    /// None so far; keys are of these fields.
    pub(super) fn new(fields: &[Arc<Field>]) -> Result<Self> {
        Self::of(Arc::new(Schema::new(fields.to_vec())))
    }

    fn of(schema: SchemaRef) -> Result<Self> {
        let values = new_group_values(Arc::clone(&schema), &GroupOrdering::None)?;
        Ok(Self { schema, values, of_values: Vec::new(), apart: Vec::new(), apart_size: 0, len: 0 })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many of them have not been looked up.
    pub(super) fn apart(&self) -> usize {
        self.len - self.of_values.len()
    }

    /// Bytes that they take.
    pub(super) fn size(&self) -> usize {
        self.values.size() + self.apart_size + self.of_values.capacity() * size_of::<usize>()
    }

    /// Looks up the groups of these keys, and says how many are new.
    pub(super) fn intern(&mut self, keys: &[ArrayRef], groups: &mut Vec<usize>) -> Result<usize> {
        self.values.intern(keys, groups)?;
        let new = self.values.len() - self.of_values.len();
        self.of_values.extend(self.len..self.len + new);
        self.len += new;
        // As long as there are no others, they are numbered alike.
        if !self.apart.is_empty() {
            groups.iter_mut().for_each(|group| *group = self.of_values[*group]);
        }
        Ok(new)
    }

    /// As many new groups as there are keys.
    pub(super) fn add_apart(&mut self, keys: Vec<ArrayRef>) -> Range<usize> {
        let first = self.len;
        self.len += keys.first().map_or(0, Array::len);
        let keys: Vec<_> = keys.into_iter().map(by_itself).collect();
        self.apart_size += keys.iter().map(|keys| keys.get_array_memory_size()).sum::<usize>();
        self.apart.push((first, keys));
        first..self.len
    }

    /// Takes out the keys of all groups, by their numbers.
    pub(super) fn take(&mut self) -> Result<Vec<ArrayRef>> {
        let none = Self::of(Arc::clone(&self.schema))?;
        std::mem::replace(self, none).into_keys()
    }

    fn into_keys(mut self) -> Result<Vec<ArrayRef>> {
        let values = self.values.emit(EmitTo::All)?;
        if self.apart.is_empty() {
            return Ok(values);
        }
        let parts = |column: usize| -> Vec<&dyn Array> {
            std::iter::once(&values).chain(self.apart.iter().map(|(_, keys)| keys)).map(|keys| keys[column].as_ref()).collect()
        };
        // None has been looked up since.
        if self.apart[0].0 == self.of_values.len() {
            return (0..values.len()).map(|column| Ok(concat(&parts(column))?)).collect();
        }
        let mut places = vec![(0, 0); self.len];
        self.of_values.iter().enumerate().for_each(|(value, group)| places[*group] = (0, value));
        for (part, (first, keys)) in self.apart.iter().enumerate() {
            let end = first + keys.first().map_or(0, Array::len);
            places[*first..end].iter_mut().enumerate().for_each(|(key, place)| *place = (part + 1, key));
        }
        (0..values.len()).map(|column| Ok(interleave(&parts(column), &places)?)).collect()
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
