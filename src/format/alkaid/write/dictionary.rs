//! Dictionaries as they have been written so far, and what a batch adds to them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, UInt64Array, make_array};
use arrow::compute::{CastOptions, cast_with_options, take};
use arrow::datatypes::{DataType, Schema, UInt64Type};
use arrow::row::{RowConverter, SortField};

use super::encode::{Encoder, Parts, codes_of};
use crate::format::alkaid::read::Form;
use crate::format::alkaid::schema::dictionary_values;
use crate::format::array::{joined, taken};
use crate::format::error::{Error, Result};

/// Of so many values all are written.
const SMALL: usize = 1 << 10;

/// Values to be written before the batch that uses them.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) id: usize,
    pub(super) is_delta: bool,
    pub(super) rows: usize,
    pub(super) parts: Parts,
}

/// All dictionaries of a schema, numbered as [`crate::format::alkaid::schema::SchemaWriter`] numbers them.
#[derive(Debug)]
pub(super) struct Dictionaries {
    form: Form,
    dictionaries: Vec<Dictionary>,
    /// What is to be written first.
    updates: Vec<Update>,
    /// Values that no row uses are left out.
    leaves_out: bool,
}

#[derive(Debug)]
struct Dictionary {
    /// This dictionary and those of its values.
    width: usize,
    /// What readers know by now.
    written: Option<ArrayRef>,
    /// Where each value is, as far as it has been needed.
    known: Option<Known>,
}

/// The places of values, by what they are.
#[derive(Debug)]
struct Known {
    rows: RowConverter,
    places: HashMap<Box<[u8]>, u64>,
    count: usize,
}

impl Dictionaries {
    pub(super) fn new(schema: &Schema, form: Form) -> Self {
        let dictionary = |width| Dictionary { width, written: None, known: None };
        let widths = schema.fields().iter().flat_map(|field| dictionary_values(field.data_type()));
        Self { form, dictionaries: widths.map(dictionary).collect(), updates: Vec::new(), leaves_out: false }
    }

    /// How many dictionaries there are in one, itself included.
    pub(super) fn width(&self, id: usize) -> usize {
        self.dictionaries.get(id).map_or(1, |dictionary| dictionary.width)
    }

    /// There is one batch and no other, so that nobody needs the values that it does not use: of rows that were picked or shared out among files they are most.
    pub(super) fn leave_out_unused(&mut self) {
        self.leaves_out = true;
    }

    pub(super) fn take_updates(&mut self) -> Vec<Update> {
        std::mem::take(&mut self.updates)
    }

    /// The codes of an array in terms of what readers know, which is made to be enough.
    pub(super) fn codes(&mut self, id: usize, array: &ArrayRef) -> Result<ArrayRef> {
        let Some(dictionary) = array.as_any_dictionary_opt() else {
            return Err(Error::invalid_argument(format!("{} is no dictionary", array.data_type())));
        };
        let values = dictionary.values();
        let Some(state) = self.dictionaries.get_mut(id) else {
            return Err(Error::invalid_argument("a dictionary that the schema does not have"));
        };
        let Some(written) = state.written.clone() else {
            if self.leaves_out
                && let Some(used) = used(array, values)?
            {
                let values = taken(values, &used)?;
                state.written = Some(Arc::clone(&values));
                self.update(id, &values, false)?;
                return recoded(array, &places_of(&used));
            }
            state.written = Some(Arc::clone(values));
            self.update(id, values, false)?;
            return codes_of(array);
        };
        if is_beginning(values, &written) {
            return codes_of(array);
        }
        // Codes of another dictionary mean nothing any more when that one is replaced, so that all of them are written again.
        let can_add = self.form == Form::File || state.width == 1;
        if can_add && is_beginning(&written, values) {
            let added = values.slice(written.len(), values.len() - written.len());
            state.written = Some(Arc::clone(values));
            self.update(id, &added, true)?;
            return codes_of(array);
        }
        if self.form == Form::Stream {
            state.written = Some(Arc::clone(values));
            state.known = None;
            self.update(id, values, false)?;
            return codes_of(array);
        }
        let (places, added) = state.merge(&written, values)?;
        if let Some(added) = added {
            self.update(id, &added, true)?;
        }
        recoded(array, &places)
    }

    fn update(&mut self, id: usize, values: &ArrayRef, is_delta: bool) -> Result<()> {
        let mut encoder = Encoder { parts: Parts::default(), dictionaries: self, id: id + 1 };
        encoder.array(values)?;
        let parts = encoder.parts;
        self.updates.push(Update { id, is_delta, rows: values.len(), parts });
        Ok(())
    }
}

impl Dictionary {
    /// Where each of the values is, and those that had to be added to what is written. Values that cannot be compared are all added.
    fn merge(&mut self, written: &ArrayRef, values: &ArrayRef) -> Result<(UInt64Array, Option<ArrayRef>)> {
        let field = SortField::new(values.data_type().clone());
        let (places, added) = if RowConverter::supports_fields(std::slice::from_ref(&field)) {
            let known = match &mut self.known {
                Some(known) => known,
                None => self.known.insert(Known { rows: RowConverter::new(vec![field])?, places: HashMap::new(), count: 0 }),
            };
            known.learn(&written.slice(known.count, written.len() - known.count))?;
            let places = known.places_of(values)?;
            let firsts = firsts(&places, known.count);
            known.count += firsts.len();
            (places, taken(values, &UInt64Array::from(firsts))?)
        } else {
            let first = written.len() as u64;
            (UInt64Array::from_iter_values(first..first + values.len() as u64), Arc::clone(values))
        };
        if added.is_empty() {
            return Ok((places, None));
        }
        let joined = joined(&[Arc::clone(written), Arc::clone(&added)])?;
        let too_many = "the dictionaries of the batches have more values together than can be numbered; write a stream, or the column as its values";
        self.written = Some(joined.ok_or_else(|| Error::invalid_argument(too_many))?);
        Ok((places, Some(added)))
    }
}

impl Known {
    /// Takes note of values that have been written.
    fn learn(&mut self, written: &ArrayRef) -> Result<()> {
        let rows = self.rows.convert_columns(std::slice::from_ref(written))?;
        for (place, row) in (self.count as u64..).zip(&rows) {
            self.places.entry(row.as_ref().into()).or_insert(place);
        }
        self.count += written.len();
        Ok(())
    }

    /// The places of values; what is new gets the next.
    fn places_of(&mut self, values: &ArrayRef) -> Result<UInt64Array> {
        let rows = self.rows.convert_columns(std::slice::from_ref(values))?;
        let mut next = self.count as u64;
        let mut places = Vec::with_capacity(values.len());
        for row in &rows {
            let place = *self.places.entry(row.as_ref().into()).or_insert(next);
            places.push(place);
            next += u64::from(place == next);
        }
        Ok(places.into())
    }
}

/// The slots that got a place of their own, from `before` on, in the order of the places.
fn firsts(places: &UInt64Array, before: usize) -> Vec<u64> {
    let mut next = before as u64;
    let mut firsts = Vec::new();
    for (slot, place) in (0..).zip(places.values()) {
        if *place == next {
            firsts.push(slot);
            next += 1;
        }
    }
    firsts
}

/// Whether the one array is the other, or its first part.
fn is_beginning(part: &ArrayRef, whole: &ArrayRef) -> bool {
    if Arc::ptr_eq(part, whole) || (part.len() == whole.len() && part.to_data().ptr_eq(&whole.to_data())) {
        return true;
    }
    part.len() <= whole.len() && whole.slice(0, part.len()).to_data() == part.to_data()
}

/// The values that rows of an array use, if that is not most of them.
fn used(array: &ArrayRef, values: &ArrayRef) -> Result<Option<UInt64Array>> {
    // A small one stays what it is: to some readers arrays of other dictionaries are not the same.
    if values.len() <= SMALL {
        return Ok(None);
    }
    let mut is_used = vec![false; values.len()];
    let codes = cast_with_options(&codes_of(array)?, &DataType::UInt64, &CastOptions { safe: true, ..CastOptions::default() })?;
    for code in codes.as_primitive::<UInt64Type>().iter().flatten() {
        if let Some(is_used) = usize::try_from(code).ok().and_then(|code| is_used.get_mut(code)) {
            *is_used = true;
        }
    }
    let used: UInt64Array = (0_u64..).zip(is_used).filter(|(_, is_used)| *is_used).map(|(place, _)| place).collect::<Vec<_>>().into();
    Ok((used.len() <= values.len() / 2).then_some(used))
}

/// Where each value is among those that are used. Nobody asks about others.
fn places_of(used: &UInt64Array) -> UInt64Array {
    let mut places = vec![0; used.values().last().map_or(0, |last| usize::try_from(*last).unwrap_or(0) + 1)];
    for (place, value) in (0_u64..).zip(used.values()) {
        if let Some(slot) = usize::try_from(*value).ok().and_then(|value| places.get_mut(value)) {
            *slot = place;
        }
    }
    places.into()
}

/// The codes of an array, each replaced by its place.
fn recoded(array: &ArrayRef, places: &UInt64Array) -> Result<ArrayRef> {
    let DataType::Dictionary(keys, _) = array.data_type() else {
        return Err(Error::invalid_argument(format!("{} is no dictionary", array.data_type())));
    };
    let codes = codes_of(array)?;
    // Codes of nulls may be anything.
    let indices: UInt64Array = {
        let wide = cast_with_options(&codes, &DataType::UInt64, &CastOptions { safe: true, ..CastOptions::default() })?;
        make_array(wide.to_data()).as_primitive().clone()
    };
    let moved = take(places, &indices, None)?;
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(&moved, keys, &strict).map_err(|_| {
        let message =
            format!("the dictionaries of the batches have more values together than {keys} can number; write a stream, or the column as its values");
        Error::invalid_argument(message)
    })
}
