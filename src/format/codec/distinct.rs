//! Which values of a page are the same: a code for each, in order of appearance.

use arrow::array::{Array, BinaryViewArray};

use super::Values;
use super::sample::real;
use super::words::{Word, mix_both, with_word, words_from};

/// Probes after which values that collide, by bad luck or by design, are no longer told apart.
const PROBES_MAX: usize = 256;
const FREE: u32 = u32::MAX;

/// A code per value, and where the value of each code first stands.
#[derive(Debug)]
pub(super) struct Distinct {
    pub(super) codes: Vec<u32>,
    pub(super) firsts: Vec<u32>,
}

impl Distinct {
    /// Tells values apart, unless more than `limit` differ or their hashes do not help.
    pub(super) fn of(values: &Values, limit: usize) -> Option<Self> {
        match values {
            Values::Bool(_) => None,
            Values::Fixed { ptype, bytes } => with_word!(ptype.width()?, T => {
                let words = words_from::<T>(bytes);
                collect(words.len(), limit, |index| words[index].hash(), |a, b| words[a] == words[b])
            }),
            Values::Bytes(array) => collect(array.len(), limit, |index| hash_of(array, index), |a, b| same(array, a, b)),
        }
    }

    /// Bytes of one of these strings, on average, where each counts once.
    pub(super) fn mean_length(&self, strings: &BinaryViewArray) -> f64 {
        let lengths = self.firsts.iter().map(|first| view_length(strings.views()[*first as usize]));
        real(lengths.sum()) / real(self.firsts.len().max(1))
    }
}

fn collect(count: usize, limit: usize, hash: impl Fn(usize) -> u64, same: impl Fn(usize, usize) -> bool) -> Option<Distinct> {
    let mut table = Table::new();
    let mut firsts: Vec<u32> = Vec::new();
    let mut codes = Vec::with_capacity(count);
    for index in 0..count {
        // Neighbours are often the same, and the branch predictor knows when they are not.
        let code = match codes.last() {
            Some(&last) if same(index - 1, index) => last,
            _ => {
                let code = table.code(hash(index), |code| same(firsts[code as usize] as usize, index))?;
                if code as usize == firsts.len() {
                    firsts.push(u32::try_from(index).ok()?);
                }
                code
            }
        };
        codes.push(code);
        if firsts.len() > limit {
            return None;
        }
    }
    Some(Distinct { codes, firsts })
}

/// Open addressing with linear probing: a slot holds the code and the top half of the hash.
#[derive(Debug)]
pub(super) struct Table {
    slots: Vec<(u32, u32)>,
    /// Of the value of each code.
    hashes: Vec<u64>,
}

impl Table {
    pub(super) fn new() -> Self {
        Self { slots: vec![(FREE, 0); 256], hashes: Vec::new() }
    }

    /// The code of a value, which is that of a value that is the `same` if there is one, and else the next.
    pub(super) fn code(&mut self, hash: u64, same: impl Fn(u32) -> bool) -> Option<u32> {
        let tag = tag(hash);
        let mut slot = self.home(hash);
        for _ in 0..PROBES_MAX {
            match self.slots[slot] {
                (FREE, _) => return self.insert(slot, hash),
                (code, other) if other == tag && same(code) => return Some(code),
                _ => slot = (slot + 1) & (self.slots.len() - 1),
            }
        }
        None
    }

    /// The code of a value that is already there, if no other is in its place; else any number.
    pub(super) fn likely_code(&self, hash: u64) -> u32 {
        self.slots[self.home(hash)].0
    }

    fn home(&self, hash: u64) -> usize {
        usize::try_from(hash & 0xFFFF_FFFF).unwrap_or(0) & (self.slots.len() - 1)
    }

    fn insert(&mut self, slot: usize, hash: u64) -> Option<u32> {
        let code = u32::try_from(self.hashes.len()).ok()?;
        self.slots[slot] = (code, tag(hash));
        self.hashes.push(hash);
        if self.hashes.len() * 2 > self.slots.len() {
            self.double();
        }
        Some(code)
    }

    fn double(&mut self) {
        self.slots = vec![(FREE, 0); self.slots.len() * 4];
        for (code, &hash) in (0u32..).zip(&self.hashes) {
            let mut slot = self.home(hash);
            while self.slots[slot].0 != FREE {
                slot = (slot + 1) & (self.slots.len() - 1);
            }
            self.slots[slot] = (code, tag(hash));
        }
    }
}

fn tag(hash: u64) -> u32 {
    u32::try_from(hash >> 32).unwrap_or(0)
}

/// Whether a value is short enough to be its view.
pub(super) fn is_inlined(view: u128) -> bool {
    view_length(view) <= 12
}

/// An Arrow view begins with its length.
pub(crate) fn view_length(view: u128) -> usize {
    (view & 0xFFFF_FFFF) as usize
}

pub(super) fn hash_of(array: &BinaryViewArray, index: usize) -> u64 {
    let view = array.views()[index];
    if is_inlined(view) {
        return view.hash();
    }
    // What is not inlined has more than eight bytes, and the last eight may overlap the words before them: where one character is repeated, only the length tells.
    let value = array.value(index);
    let (pairs, rest) = value.as_chunks::<16>();
    let word = rest.first_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
    let tail = value.last_chunk::<8>().map_or(0, |tail| u64::from_le_bytes(*tail) ^ (value.len() as u64).rotate_right(16));
    pairs.iter().fold(mix_both(word, tail), |hash, pair| {
        let (low, high) = u128::from_le_bytes(*pair).halves();
        mix_both(low ^ hash, high)
    })
}

pub(super) fn same(array: &BinaryViewArray, a: usize, b: usize) -> bool {
    let (view_a, view_b) = (array.views()[a], array.views()[b]);
    // Lengths and prefixes first; they decide nearly always.
    (view_a ^ view_b) & u128::from(u64::MAX) == 0 && if is_inlined(view_a) { view_a == view_b } else { array.value(a) == array.value(b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::codec::words::mix;
    use std::collections::HashMap;

    #[test]
    fn codes_are_those_of_a_hash_map() {
        for modulus in [1u64, 7, 300, 5000] {
            let strings: Vec<String> =
                (0..10_000).map(|i| format!("{:width$}", mix(i) % modulus, width = usize::try_from(mix(i) % 2).unwrap() * 20)).collect();
            let mut map = HashMap::new();
            let expected: Vec<u32> = strings
                .iter()
                .map(|string| {
                    let next = u32::try_from(map.len()).unwrap();
                    *map.entry(string).or_insert(next)
                })
                .collect();
            let distinct = Distinct::of(&Values::Bytes(BinaryViewArray::from_iter_values(&strings)), 10_000).unwrap();
            assert_eq!(distinct.codes, expected);
            assert!(distinct.firsts.iter().zip(0u32..).all(|(&first, code)| expected[first as usize] == code));
        }
    }

    #[test]
    fn each_string_counts_once() {
        let strings = BinaryViewArray::from_iter_values(["", "", "abc", "", "abc", "a string that is not inlined"]);
        let distinct = Distinct::of(&Values::Bytes(strings.clone()), 9).unwrap();
        assert!((distinct.mean_length(&strings) - (3.0 + 28.0) / 3.0).abs() < 1e-9);
    }

    #[test]
    fn gives_up_at_the_limit() {
        let values = Values::Fixed { ptype: crate::format::codec::PType::U16, bytes: arrow::buffer::Buffer::from_vec((0..100u16).collect()) };
        assert!(Distinct::of(&values, 99).is_none());
        assert_eq!(Distinct::of(&values, 100).unwrap().firsts.len(), 100);
    }
}
