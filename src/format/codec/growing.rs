//! A chunk's dictionary as it is made: each page brings values that it does not have yet.

use std::hint::black_box;
use std::ops::Range;

use arrow::array::{Array, BinaryViewArray};
use arrow::buffer::{Buffer, NullBuffer};
use zerocopy::IntoBytes;

use super::choose::Context;
use super::dictionary::{code_cost, entries, estimate_codes};
use super::distinct::{Distinct, Table, hash_of, same};
use super::plain::view;
use super::sample::{Sample, real};
use super::words::{Word, with_word, words_from};
use super::{EncodeOptions, EncodingId, PType, Values};
use crate::format::Result;

/// The most values.
const ENTRIES_MAX: usize = 1 << 17;
/// Of pages with more distinct values than this part, few are likely to come again.
const DISTINCT_PART_MAX: f64 = 0.75;
/// The least that the distinct values of a page take in comparison with codes of them: nothing else is saved.
const ENTRIES_PART_MIN: f64 = 0.15;

/// Values that are looked up together.
const TOGETHER: usize = 64;

/// Whether a page has few enough distinct values to be likely to come again, and enough of them for it to matter.
pub(super) fn may_share(sample: &Sample<'_>) -> bool {
    let Some(distinct) = Distinct::of(sample.values(), sample.values().len()) else { return false };
    let (entries, count) = (entries(&distinct, sample), real(sample.count()));
    let width = match sample.values() {
        Values::Bytes(strings) => distinct.mean_length(strings),
        values => real(values.ptype().width().unwrap_or(0)),
    };
    entries <= DISTINCT_PART_MAX * count && entries * width > ENTRIES_PART_MIN * code_cost(entries, count).bytes
}

/// What parts of a page cost, or of one like it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PageCosts {
    /// All without a dictionary.
    pub(crate) plain: f64,
    /// Its codes of a dictionary of its own ...
    pub(crate) own_codes: f64,
    /// ... and of its chunk's.
    pub(crate) codes: f64,
    /// A value in either, on average.
    pub(crate) value: f64,
}

/// Tells the values of a chunk apart, page by page, and keeps one of each.
#[derive(Debug)]
pub(crate) struct DictionaryBuilder {
    ptype: PType,
    /// The most bytes of values.
    bytes_max: usize,
    /// `None` when there is no room for more.
    table: Option<Table>,
    bytes: Vec<u8>,
    /// Where each value ends.
    ends: Vec<usize>,
    /// The last page in which each was counted, and the last one of all.
    counted_in: Vec<u32>,
    page: u32,
}

impl DictionaryBuilder {
    pub(crate) fn new(ptype: PType, bytes_max: usize) -> Self {
        Self { ptype, bytes_max, table: Some(Table::new()), bytes: Vec::new(), ends: Vec::new(), counted_in: Vec::new(), page: 0 }
    }

    pub(crate) fn ptype(&self) -> PType {
        self.ptype
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The code after the first value by which those from `code` on are more bytes than these, if they are.
    pub(crate) fn end_past(&self, code: usize, bytes: usize) -> Option<usize> {
        let most = self.start(code) + bytes;
        let last = self.ends.partition_point(|end| *end <= most);
        (last < self.len()).then_some(last + 1)
    }

    /// Bytes in memory, about.
    pub(crate) fn memory_size(&self) -> usize {
        // A slot is half free, of eight bytes, and has a hash beside it; an end has eight bytes, the page that a value was counted in four.
        self.bytes.len() + 44 * self.ends.len()
    }

    /// Adds no more values.
    pub(crate) fn close(&mut self) {
        self.table = None;
    }

    /// A code per value, a null's being any. `None` if the values do not fit in, and then it is closed.
    pub(crate) fn codes(&mut self, values: &Values, validity: Option<&NullBuffer>) -> Option<Vec<u32>> {
        let before = self.len();
        let mut table = self.table.take()?;
        let codes = match values {
            Values::Bool(_) => None,
            Values::Fixed { ptype, bytes } => with_word!(ptype.width()?, T => {
                let words = words_from::<T>(bytes);
                let words = &*words;
                let same = |a: usize, b: usize| words[a] == words[b];
                self.grow(&mut table, words.len(), validity, |index| words[index].hash(), same, |index| words[index].as_bytes())
            }),
            Values::Bytes(array) => {
                self.grow(&mut table, array.len(), validity, |index| hash_of(array, index), |a, b| same(array, a, b), |index| array.value(index))
            }
        };
        if codes.is_none() {
            self.bytes.truncate(self.start(before));
            self.ends.truncate(before);
        } else {
            self.table = Some(table);
        }
        codes
    }

    fn grow<'v>(
        &mut self,
        table: &mut Table,
        count: usize,
        validity: Option<&NullBuffer>,
        hash: impl Fn(usize) -> u64,
        same: impl Fn(usize, usize) -> bool,
        value: impl Fn(usize) -> &'v [u8],
    ) -> Option<Vec<u32>> {
        let mut codes = Vec::with_capacity(count);
        // The first of each run of the same values in a block, with its hash.
        let mut heads: Vec<(usize, u64)> = Vec::with_capacity(TOGETHER);
        let (mut last, mut code) = (None, 0);
        for start in (0..count).step_by(TOGETHER) {
            let end = count.min(start + TOGETHER);
            heads.clear();
            for index in (start..end).filter(|index| validity.is_none_or(|validity| validity.is_valid(*index))) {
                if last.replace(index).is_none_or(|last| !same(last, index)) {
                    heads.push((index, hash(index)));
                }
            }
            self.bring_near(table, &heads);
            for &(index, hash) in &heads {
                codes.resize(index, code);
                let value = value(index);
                code = table.code(hash, |code| self.value(code) == value)?;
                if code as usize == self.len() {
                    if self.len() >= ENTRIES_MAX || self.bytes.len().saturating_add(value.len()) > self.bytes_max {
                        return None;
                    }
                    self.bytes.extend_from_slice(value);
                    self.ends.push(self.bytes.len());
                }
            }
            codes.resize(end, code);
        }
        Some(codes)
    }

    /// Loads what is about to be looked up, all at once: a table of many values is in no cache that is near, and look-ups wait for each other.
    fn bring_near(&self, table: &Table, heads: &[(usize, u64)]) {
        let (Some(last), Some(last_byte)) = (self.ends.len().checked_sub(1), self.bytes.len().checked_sub(1)) else { return };
        // Without a branch on what is loaded, which would wait for it.
        let byte = |hash| {
            let before = (table.likely_code(hash) as usize).min(last).saturating_sub(1);
            self.bytes[self.ends[before].min(last_byte)]
        };
        black_box(heads.iter().fold(0, |all, (_, hash)| all ^ byte(*hash)));
    }

    /// Where in a page of these codes each of its values is first.
    pub(crate) fn firsts(&mut self, codes: &[u32]) -> Vec<u32> {
        self.page += 1;
        self.counted_in.resize(self.len(), 0);
        let mut firsts = Vec::new();
        for (index, &code) in (0..).zip(codes) {
            if let Some(page) = self.counted_in.get_mut(code as usize)
                && *page != self.page
            {
                *page = self.page;
                firsts.push(index);
            }
        }
        firsts
    }

    /// What a page of these codes costs.
    pub(crate) fn costs(&self, values: &Values, codes: &[u32], options: &EncodeOptions) -> Result<PageCosts> {
        let context = Context::root(options, None);
        let mut local = vec![u32::MAX; self.len()];
        let mut used = Vec::new();
        for &code in codes {
            if let Some(local @ &mut u32::MAX) = local.get_mut(code as usize) {
                *local = u32::try_from(used.len()).unwrap_or(u32::MAX);
                used.push(code as usize);
            }
        }
        let own_codes: Vec<u32> = codes.iter().filter_map(|&code| local.get(code as usize).copied()).collect();
        let entries = context.least_cost(&self.pick(&used)?)?;
        // Text that repeats itself is never better off without a dictionary; a sample would only see less of it.
        let plain = match values {
            Values::Bytes(_) => f64::INFINITY,
            _ => context.child(&[EncodingId::Dictionary]).least_cost(values)?,
        };
        Ok(PageCosts {
            plain,
            own_codes: estimate_codes(&own_codes, &context.child(&[EncodingId::Dictionary]))?,
            codes: estimate_codes(codes, &context.of_codes())?,
            value: entries / real(used.len().max(1)),
        })
    }

    fn start(&self, code: usize) -> usize {
        code.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0)
    }

    fn value(&self, code: u32) -> &[u8] {
        let code = code as usize;
        &self.bytes[self.start(code)..self.ends[code]]
    }

    /// The values of these codes.
    fn pick(&self, codes: &[usize]) -> Result<Values> {
        let values = codes.iter().filter_map(|&code| Some(self.value(u32::try_from(code).ok()?)));
        if self.ptype == PType::Bytes {
            return Ok(Values::Bytes(BinaryViewArray::from_iter_values(values)));
        }
        Ok(Values::Fixed { ptype: self.ptype, bytes: Buffer::from(values.flatten().copied().collect::<Vec<u8>>().as_slice()) })
    }

    /// The values of a range of codes.
    pub(crate) fn values(&self, codes: Range<usize>) -> Result<Values> {
        let start = self.start(codes.start);
        let bytes = Buffer::from(&self.bytes[start..self.start(codes.end)]);
        if self.ptype != PType::Bytes {
            return Ok(Values::Fixed { ptype: self.ptype, bytes });
        }
        let offset = |at: usize| u32::try_from(at - start).unwrap_or(u32::MAX);
        let views = codes.map(|code| (self.start(code), self.ends[code])).map(|(from, to)| view(&bytes, offset(from), offset(to) - offset(from), 0));
        let views: Vec<u128> = views.collect();
        Ok(Values::Bytes(BinaryViewArray::try_new(views.into(), vec![bytes], None)?))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::format::codec::Compression;
    use crate::format::codec::compression::Goal;
    use crate::format::codec::words::mix;

    #[test]
    fn values_count_by_their_own_length_and_not_by_that_of_those_that_come_most() {
        // One in 16 is not empty, and of 600 kinds.
        let string = |index: u64| if index.is_multiple_of(16) { format!("{:>20}", mix(index) % 600) } else { String::new() };
        let goal = Goal { compression: Compression::Balanced, zstd_level: None };
        let may_share_with = |string: &dyn Fn(u64) -> String| {
            let values = Values::Bytes(BinaryViewArray::from_iter_values((0..32_768).map(string)));
            may_share(&Sample::of(&values, None, goal).unwrap())
        };
        assert!(may_share_with(&string));
        // Without those, or with few kinds of them, there is nothing to share.
        assert!(!may_share_with(&|_| String::new()));
        assert!(!may_share_with(&|index| string(index % 256)));
    }

    /// Pages of values that come again within them and in others, in runs and not, with nulls and without; and more than are looked up together.
    #[test]
    fn codes_are_those_of_a_hash_map() {
        let mut random = StdRng::seed_from_u64(4);
        for (kinds, run, nulls) in [(1, 1, 0.0), (40, 1, 0.1), (40, 5, 0.5), (3000, 1, 0.0), (3000, 3, 0.3), (100_000, 1, 0.0)] {
            let mut builder = DictionaryBuilder::new(PType::Bytes, 8 << 20);
            let mut known: HashMap<Vec<u8>, u32> = HashMap::new();
            for count in [0, 1, TOGETHER - 1, TOGETHER, TOGETHER + 1, 5000, 700] {
                let mut value = 0;
                let values = (0..count).map(|index| {
                    value = if index % run == 0 { random.random_range(0..kinds) } else { value };
                    format!("{value:>width$}", width = value % 3 * 9).into_bytes()
                });
                let values: Vec<Vec<u8>> = values.collect();
                let validity: NullBuffer = (0..count).map(|_| !random.random_bool(nulls)).collect();
                let page = Values::Bytes(BinaryViewArray::from_iter_values(&values));
                let codes = builder.codes(&page, Some(&validity)).unwrap();
                assert_eq!(codes.len(), count);
                let mut seen = HashMap::new();
                for (index, value) in values.iter().enumerate().filter(|(index, _)| validity.is_valid(*index)) {
                    let next = u32::try_from(known.len()).unwrap();
                    assert_eq!(codes[index], *known.entry(value.clone()).or_insert(next), "{count} of {kinds}");
                    seen.entry(codes[index]).or_insert(u32::try_from(index).unwrap());
                }
                let firsts = builder.firsts(&codes);
                assert!(firsts.is_sorted());
                if validity.null_count() == 0 {
                    let mut expected: Vec<u32> = seen.into_values().collect();
                    expected.sort_unstable();
                    assert_eq!(firsts, expected);
                }
            }
            assert_eq!(builder.len(), known.len());
        }
    }
}
