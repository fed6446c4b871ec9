//! Bounds as bytes: what eight bytes cannot say.

use std::cmp::Ordering;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, i256};
use bytes::Bytes;

use super::ZoneStats;
use super::collect::{is_bytes, min_max};
use super::leaf::bytes_min_max;

/// The most bytes of a string's or binary's bound.
pub(crate) const BOUND_LENGTH_MAX: usize = 64;

/// Decimals of more digits may not fit the mapped i64.
const PRECISION_MAPPED_MAX: u8 = 18;

/// The least and greatest value of a chunk as bytes: strings and binaries cut to 64 bytes, or wide decimals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// A lower bound; empty and not exact says nothing.
    pub min: Bytes,
    /// An upper bound; empty and not exact says nothing.
    pub max: Bytes,
    /// `min` is the least value itself.
    pub min_exact: bool,
    /// `max` is the greatest value itself.
    pub max_exact: bool,
}

impl Bounds {
    /// Bounds as the file stores them: `flags` are those of [`ZoneStats`].
    pub fn from_parts(min: Bytes, max: Bytes, flags: u32) -> Self {
        Self { min, max, min_exact: flags & ZoneStats::MIN_EXACT != 0, max_exact: flags & ZoneStats::MAX_EXACT != 0 }
    }

    /// The flags as the file stores them.
    pub fn flags(&self) -> u32 {
        let min = if self.min_exact { ZoneStats::MIN_EXACT } else { 0 };
        let max = if self.max_exact { ZoneStats::MAX_EXACT } else { 0 };
        min | max
    }

    /// The lower bound, if it says anything.
    pub fn known_min(&self) -> Option<&[u8]> {
        (self.min_exact || !self.min.is_empty()).then_some(&*self.min)
    }

    /// The upper bound, if it says anything.
    pub fn known_max(&self) -> Option<&[u8]> {
        (self.max_exact || !self.max.is_empty()).then_some(&*self.max)
    }

    /// The bounds of two zones of values of `data_type` taken together.
    #[must_use]
    pub fn merge(&self, other: &Self, data_type: &DataType) -> Self {
        let (min, min_exact) = pick((&self.min, self.min_exact), (&other.min, other.min_exact), data_type, Ordering::Less);
        let (max, max_exact) = pick((&self.max, self.max_exact), (&other.max, other.max_exact), data_type, Ordering::Greater);
        Self { min, max, min_exact, max_exact }
    }
}

/// The bound that is `wanted` than the other. An unknown one makes the result unknown.
fn pick(one: (&Bytes, bool), other: (&Bytes, bool), data_type: &DataType, wanted: Ordering) -> (Bytes, bool) {
    if [one, other].iter().any(|(bytes, exact)| bytes.is_empty() && !exact) {
        return (Bytes::new(), false);
    }
    match compare(one.0, other.0, data_type) {
        Ordering::Equal => (one.0.clone(), one.1 || other.1),
        order if order == wanted => (one.0.clone(), one.1),
        _ => (other.0.clone(), other.1),
    }
}

fn compare(one: &[u8], other: &[u8], data_type: &DataType) -> Ordering {
    if is_bytes(data_type) { one.cmp(other) } else { decimal_of(one).cmp(&decimal_of(other)) }
}

/// The unscaled value of 16 or 32 little-endian bytes.
pub(super) fn decimal_of(bytes: &[u8]) -> Option<i256> {
    if let Ok(bytes) = <[u8; 16]>::try_from(bytes) {
        return Some(i256::from_i128(i128::from_le_bytes(bytes)));
    }
    <[u8; 32]>::try_from(bytes).ok().map(i256::from_le_bytes)
}

/// The bounds of a leaf array of strings, binaries, or decimals that may exceed 64 bits. `None` if there is no valid value, or [`ZoneStats`] says it all.
pub fn leaf_bounds(array: &dyn Array) -> Option<Bounds> {
    match array.data_type() {
        DataType::Decimal128(precision, _) if *precision > PRECISION_MAPPED_MAX => {
            let (min, max) = min_max(array.as_primitive_opt::<Decimal128Type>()?.values(), array.nulls())?;
            Some(exact(&min.to_le_bytes(), &max.to_le_bytes()))
        }
        DataType::Decimal256(precision, _) if *precision > PRECISION_MAPPED_MAX => {
            let (min, max) = min_max(array.as_primitive_opt::<Decimal256Type>()?.values(), array.nulls())?;
            Some(exact(&min.to_le_bytes(), &max.to_le_bytes()))
        }
        data_type if is_bytes(data_type) => bytes_min_max(array).map(|(min, max)| bytes_bounds(min, max, data_type)),
        _ => None,
    }
}

fn exact(min: &[u8], max: &[u8]) -> Bounds {
    Bounds { min: Bytes::copy_from_slice(min), max: Bytes::copy_from_slice(max), min_exact: true, max_exact: true }
}

/// The bounds of values that lie between these, themselves included.
pub(super) fn bytes_bounds(min: &[u8], max: &[u8], data_type: &DataType) -> Bounds {
    let is_text = matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let lower = cut(min, is_text);
    let (upper, max_exact) =
        if max.len() <= BOUND_LENGTH_MAX { (max.to_vec(), true) } else { (above(cut(max, is_text), is_text).unwrap_or_default(), false) };
    Bounds { min_exact: lower.len() == min.len(), min: Bytes::copy_from_slice(lower), max: upper.into(), max_exact }
}

/// The longest prefix that a bound may have, between characters if it is text.
fn cut(bytes: &[u8], is_text: bool) -> &[u8] {
    let Some(head) = bytes.get(..BOUND_LENGTH_MAX) else { return bytes };
    if is_text && bytes.len() > BOUND_LENGTH_MAX { valid_prefix(head) } else { head }
}

/// The longest prefix that is UTF-8.
pub(super) fn valid_prefix(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Ok(_) => bytes,
        Err(error) => bytes.get(..error.valid_up_to()).unwrap_or_default(),
    }
}

/// A short value above everything that starts with `prefix`: its last byte (of text: character) increased. `None` if there is none.
pub(super) fn above(prefix: &[u8], is_text: bool) -> Option<Vec<u8>> {
    if is_text { text_above(std::str::from_utf8(prefix).ok()?) } else { bytes_above(prefix) }
}

fn bytes_above(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut out = prefix.get(..=last)?.to_vec();
    *out.last_mut()? += 1;
    Some(out)
}

fn text_above(prefix: &str) -> Option<Vec<u8>> {
    let mut rest = prefix;
    while let Some(last) = rest.chars().next_back() {
        rest = rest.get(..rest.len() - last.len_utf8())?;
        // Past the surrogates there is a gap; past the last character there is nothing.
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next
            && rest.len() + next.len_utf8() <= BOUND_LENGTH_MAX
        {
            return Some(format!("{rest}{next}").into_bytes());
        }
    }
    None
}
