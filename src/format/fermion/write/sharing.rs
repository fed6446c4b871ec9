//! Whether the pages of a chunk share a dictionary: one is begun where values come again, and ended where it does not pay any more.

use arrow::buffer::NullBuffer;

use crate::format::codec::{Compression, DictionaryBuilder, EncodeOptions, PType, PageCosts, Values, may_share};
use crate::format::error::Result;

/// Slots after which it is looked at whether the dictionary pays. Its first values always cost more than they save.
const WINDOW: usize = 32 << 10;
/// What a page costs takes as long to find out as to encode it: after the first pages, one of so many is judged, and stands for those behind it ...
const JUDGED_FIRST: usize = 4;
const JUDGED_PART: usize = 4;
/// ... that have no more than so many times its slots and different values, nor less than one in so many of the values.
const ALIKE_TIMES: usize = 2;
/// What a window costs at most in comparison with pages by themselves, and the first one.
const WORTH: f64 = 1.1;
const FIRST_WORTH: f64 = 1.5;
/// The same of all pages of text, of which more at once than a page has is compressed better than a sample shows.
const TEXT_WORTH: f64 = 1.03;
/// Bytes of the values of one page of a dictionary: of text, each page is decoded by itself.
const PAGE_BYTES: usize = 512 << 10;

/// What pages cost, and would cost by themselves.
#[derive(Debug, Clone, Copy, Default)]
struct Costs {
    slots: usize,
    shared: f64,
    own: f64,
}

/// A page that stands for others.
#[derive(Debug, Clone, Copy, Default)]
struct Judged {
    slots: usize,
    distinct: usize,
    costs: PageCosts,
}

impl Judged {
    fn is_like(&self, slots: usize, distinct: usize) -> bool {
        let is_within = |a: usize, b: usize| a <= ALIKE_TIMES * b;
        is_within(slots, self.slots) && is_within(distinct, self.distinct) && is_within(self.distinct, distinct)
    }

    /// What a page of so many slots and values costs that is like this one, if so many of the values are new.
    fn costs(&self, slots: usize, distinct: usize, new: usize) -> Costs {
        let PageCosts { plain, own_codes, codes, value } = self.costs;
        let times = slots as f64 / self.slots.max(1) as f64;
        let own = (plain * times).min(own_codes * times + value * distinct as f64);
        Costs { slots, shared: codes * times + value * new as f64, own }
    }
}

impl Costs {
    fn add(&mut self, other: Self) {
        self.slots += other.slots;
        self.shared += other.shared;
        self.own += other.own;
    }
}

/// A page that takes part.
#[derive(Debug)]
pub(super) struct Coded {
    pub(super) codes: Vec<u32>,
    /// Where each of its values is first, and of nulls what stands in their place.
    pub(super) firsts: Vec<u32>,
    /// The values that no page before it has had.
    pub(super) new: Values,
}

/// The dictionary of the chunk that is being filled.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    builder: Option<Box<DictionaryBuilder>>,
    /// No more pages of this chunk take part.
    is_over: bool,
    /// There was no room for the values of all pages.
    is_full: bool,
    pages: usize,
    /// The last one of which it was found out what it costs.
    judged: Judged,
    total: Costs,
    window: Costs,
    /// The first code that is in no page of the dictionary yet.
    next_code: usize,
    /// Chunks in a row that it did not pay for, and how many are left to be passed by for that.
    failures: u32,
    pause: u32,
}

impl Sharing {
    /// The codes of a page, if it is to take part.
    pub(super) fn codes(&mut self, values: &Values, nulls: Option<&NullBuffer>, options: &EncodeOptions) -> Result<Option<Coded>> {
        let is_null = nulls.is_some_and(|nulls| nulls.null_count() == values.len());
        if self.is_over || self.pause > 0 || is_null || !is_wide(values.ptype()) {
            return Ok(None);
        }
        if self.builder.is_none() && !may_share(values, nulls, options)? || !self.is_worthwhile() {
            self.end();
            return Ok(None);
        }
        let builder = self.builder.get_or_insert_with(|| Box::new(DictionaryBuilder::new(values.ptype(), options.compression.dictionary_bytes())));
        let before = builder.len();
        let Some(codes) = builder.codes(values, nulls) else {
            // A large dictionary for some of the pages takes longer to read than it saves; it may still be smaller.
            self.is_full = options.compression != Compression::Small;
            self.end();
            return Ok(None);
        };
        self.pages += 1;
        let firsts = builder.firsts(&codes);
        let (slots, distinct, new) = (values.len(), firsts.len(), builder.len() - before);
        if self.pages <= JUDGED_FIRST || self.pages.is_multiple_of(JUDGED_PART) || !self.judged.is_like(slots, distinct) {
            self.judged = Judged { slots, distinct, costs: builder.costs(values, &codes, options)? };
        }
        let costs = self.judged.costs(slots, distinct, new);
        self.window.add(costs);
        self.total.add(costs);
        Ok(Some(Coded { codes, firsts, new: builder.values(before..builder.len())? }))
    }

    /// Looks at a window when it is full.
    fn is_worthwhile(&mut self) -> bool {
        if self.window.slots < WINDOW {
            return true;
        }
        let window = std::mem::take(&mut self.window);
        if window.slots == self.total.slots {
            return window.shared <= window.own * FIRST_WORTH;
        }
        window.shared <= window.own * WORTH && self.pays()
    }

    /// Whether all pages so far likely cost less than by themselves.
    fn pays(&self) -> bool {
        let is_text = self.builder.as_ref().is_some_and(|builder| builder.ptype() == PType::Bytes);
        self.total.shared < self.total.own * if is_text { TEXT_WORTH } else { 1.0 }
    }

    fn end(&mut self) {
        self.is_over = true;
        if let Some(builder) = &mut self.builder {
            builder.close();
        }
    }

    /// Whether the pages that take part are better without it, of which there will be no more.
    pub(super) fn is_in_vain(&self, is_last: bool) -> bool {
        self.builder.is_some() && (self.is_over || is_last) && (self.is_full || self.pages < 2 || !self.pays())
    }

    /// All values, to do without the dictionary.
    pub(super) fn take(&mut self) -> Result<Option<Values>> {
        self.is_over = true;
        self.builder.take().map(|builder| builder.values(0..builder.len())).transpose()
    }

    /// The next page of the dictionary, if there is a full one or no more values will come.
    pub(super) fn next_page(&mut self, is_last: bool) -> Result<Option<Values>> {
        let Some(builder) = &self.builder else { return Ok(None) };
        // More than that, for there may be 16 pages: 15 with more than 512 KiB each leave less than that of 8 MiB for the last, and 16 of just so many would leave the empty string.
        let end = builder.end_past(self.next_code, PAGE_BYTES).or(is_last.then_some(builder.len()));
        let Some(end) = end.filter(|end| *end > self.next_code) else { return Ok(None) };
        let page = builder.values(self.next_code..end)?;
        self.next_code = end;
        Ok(Some(page))
    }

    /// Bytes in memory, about.
    pub(super) fn memory_size(&self) -> usize {
        self.builder.as_ref().map_or(0, |builder| builder.memory_size())
    }

    /// For the next chunk. Where it has not paid, twice as many as the last time are passed by.
    pub(super) fn next_chunk(&self) -> Self {
        let has_failed = self.builder.is_none() && self.pages > 0;
        let (failures, pause) = match has_failed {
            true => (self.failures.saturating_add(1), 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX)),
            false if self.pause > 0 => (self.failures, self.pause - 1),
            false => (0, 0),
        };
        Self { failures, pause, ..Self::default() }
    }
}

/// Narrower values take no more than codes of them do.
fn is_wide(ptype: PType) -> bool {
    ptype == PType::Bytes || ptype.width().is_some_and(|width| width >= 8)
}

#[cfg(test)]
mod tests {
    use arrow::array::BinaryViewArray;
    use arrow::buffer::Buffer;

    use super::*;
    use crate::format::codec::DICTIONARY_PAGES_MAX;

    const ROWS: u64 = 8 << 10;

    /// A page of addresses with these numbers.
    fn page(number: impl Fn(u64) -> u64) -> Values {
        let address = |row| format!("https://example.org/{:x}", number(row).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        Values::Bytes(BinaryViewArray::from_iter_values((0..ROWS).map(address)))
    }

    fn take_part(sharing: &mut Sharing, page: &Values) -> bool {
        take_part_with(sharing, page, Compression::Small)
    }

    fn take_part_with(sharing: &mut Sharing, page: &Values, compression: Compression) -> bool {
        sharing.codes(page, None, &EncodeOptions { compression, ..Default::default() }).unwrap().is_some()
    }

    #[test]
    fn no_dictionary_has_more_pages_than_readers_take() {
        let mut sharing =
            Sharing { builder: Some(Box::new(DictionaryBuilder::new(PType::Bytes, Compression::Balanced.dictionary_bytes()))), ..Sharing::default() };
        let mut push = |values: Vec<String>, is_last| {
            sharing.builder.as_mut().unwrap().codes(&Values::Bytes(BinaryViewArray::from_iter_values(values)), None).unwrap();
            std::iter::from_fn(|| sharing.next_page(is_last).unwrap()).map(|page| page.len()).collect::<Vec<_>>()
        };
        // Exactly as large as a page is meant to be, as often as there is room for; and then a value without bytes.
        let full = |page: usize| (0..512).map(|value| format!("{:>1024}", 512 * page + value)).collect();
        let mut lengths: Vec<usize> = (0..16).flat_map(|page| push(full(page), false)).collect();
        lengths.extend(push(vec![String::new()], true));
        assert_eq!(lengths.iter().sum::<usize>(), 16 * 512 + 1);
        assert!(lengths.len() <= DICTIONARY_PAGES_MAX, "{lengths:?}");
    }

    #[test]
    fn many_values_at_once_are_several_pages_of_the_dictionary() {
        let mut builder = DictionaryBuilder::new(PType::Bytes, Compression::Balanced.dictionary_bytes());
        builder.codes(&Values::Bytes(BinaryViewArray::from_iter_values((0..5000).map(|value| format!("{value:>1024}")))), None).unwrap();
        let mut sharing = Sharing { builder: Some(Box::new(builder)), ..Sharing::default() };
        let mut lengths = |is_last| std::iter::from_fn(|| sharing.next_page(is_last).unwrap()).map(|page| page.len()).collect::<Vec<_>>();
        assert_eq!(lengths(false), [513; 9]);
        assert_eq!(lengths(true), [5000 - 9 * 513]);
    }

    #[test]
    fn what_does_not_fit_is_taken_back_unless_the_file_is_to_be_small() {
        for (compression, is_kept) in [(Compression::Fast, false), (Compression::Balanced, false), (Compression::Small, true)] {
            let mut sharing = Sharing::default();
            let pages = |index: u64| page(move |row| 10_000 * index + row * row % 3001);
            let taken = (0..1000).take_while(|index| (0..2).all(|_| take_part_with(&mut sharing, &pages(*index), compression))).count();
            assert!((2..1000).contains(&taken), "{taken}");
            assert_eq!(!sharing.is_in_vain(true), is_kept, "{compression:?}");
        }
    }

    #[test]
    fn a_dictionary_ends_when_its_values_come_no_more() {
        let mut sharing = Sharing::default();
        let same = page(|row| row * row % 3001);
        assert!((0..8).all(|_| take_part(&mut sharing, &same)));
        assert!(!sharing.is_in_vain(false));
        // Each of these comes twice, but in no other page: they cost no more here, until there is no room.
        let taken = (0..100).take_while(|index| take_part(&mut sharing, &page(|row| 10_000 * (index + 1) + row / 2))).count();
        assert!((1..32).contains(&taken), "{taken}");
        assert!(!take_part(&mut sharing, &same));
        assert!(!sharing.is_in_vain(true));
        let pages: Vec<Values> = std::iter::from_fn(|| sharing.next_page(true).unwrap()).collect();
        let (count, bytes): (usize, usize) = (pages.iter().map(Values::len).sum(), pages.iter().map(Values::raw_bytes).sum());
        assert!(count > 1501 && bytes <= Compression::Small.dictionary_bytes(), "{count} values of {bytes} bytes");
        assert_eq!(sharing.next_chunk().pause, 0);
    }

    #[test]
    fn what_is_not_worth_it_is_taken_back_and_not_tried_again_at_once() {
        let mut sharing = Sharing::default();
        let mut chunks = Vec::new();
        for chunk in 0..16 {
            // Half of the values of a page come twice in it; none comes in two pages.
            let number = |index: u64, row: u64| (1_000_000 * (20 * chunk + index) + row / 2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let page = |index| Values::Fixed { ptype: PType::I64, bytes: Buffer::from_iter((0..ROWS).map(|row| number(index, row))) };
            let taken = (0..20).filter(|index| take_part(&mut sharing, &page(*index))).count();
            assert!(taken < 13);
            if sharing.is_in_vain(true) {
                assert!(sharing.take().unwrap().is_some());
            }
            chunks.push(taken > 0);
            sharing = sharing.next_chunk();
        }
        assert_eq!(chunks.iter().filter(|tried| **tried).count(), 4, "{chunks:?}");
    }

    #[test]
    fn a_page_stands_for_those_behind_it_that_are_like_it() {
        let some = |index: u64| page(move |row| row * row % 3001 + index);
        let (new, short) = (page(|row| 10_000 + row), |index| some(index).slice(100, 300));
        // The 9th is short, the 10th has no value twice, nor one of those before it, and the 12th is short again.
        let pages = (1..=8).map(some).chain([short(8), new, some(9), short(9), some(10), some(11)]);
        let options = EncodeOptions { compression: Compression::Small, ..Default::default() };
        let mut sharing = Sharing::default();
        let mut builder = DictionaryBuilder::new(PType::Bytes, Compression::Small.dictionary_bytes());
        let (mut each, mut judged) = (Costs::default(), Vec::new());
        for page in pages {
            let last = sharing.judged.costs.value;
            assert!(take_part(&mut sharing, &page));
            judged.push(sharing.judged.costs.value != last);
            let before = builder.len();
            let codes = builder.codes(&page, None).unwrap();
            let (slots, distinct) = (page.len(), builder.firsts(&codes).len());
            let judged = Judged { slots, distinct, costs: builder.costs(&page, &codes, &options).unwrap() };
            each.add(judged.costs(slots, distinct, builder.len() - before));
        }
        assert_eq!(judged, [1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0].map(|judged| judged == 1));
        // About what it is if each is judged.
        assert_eq!(sharing.total.slots, each.slots);
        let alike = |a: f64, b: f64| (a / b - 1.0).abs() < 0.03;
        assert!(alike(sharing.total.shared, each.shared) && alike(sharing.total.own, each.own), "{:?} {each:?}", sharing.total);
    }

    #[test]
    fn what_is_not_judged_follows_from_its_slots_and_values() {
        let judged = |plain| {
            let costs = PageCosts { plain, own_codes: 200.0, codes: 300.0, value: 2.0 };
            Judged { slots: 1000, distinct: 100, costs }
        };
        let Costs { slots, shared, own } = judged(900.0).costs(500, 80, 10);
        assert_eq!((slots, shared, own), (500, 0.5 * 300.0 + 10.0 * 2.0, 0.5 * 200.0 + 80.0 * 2.0));
        assert_eq!(judged(300.0).costs(2000, 160, 0).own, 600.0);
        let is_like = |slots, distinct| judged(0.0).is_like(slots, distinct);
        assert!([(2000, 100), (1, 100), (1000, 200), (1000, 50)].into_iter().all(|(slots, distinct)| is_like(slots, distinct)));
        assert!(![(2001, 100), (1000, 201), (1000, 49)].into_iter().any(|(slots, distinct)| is_like(slots, distinct)));
    }

    #[test]
    fn text_may_cost_a_little_more_than_a_sample_shows() {
        for (ptype, shared, pays) in [(PType::Bytes, 102.0, true), (PType::Bytes, 104.0, false), (PType::I64, 99.0, true), (PType::I64, 101.0, false)]
        {
            let builder = DictionaryBuilder::new(ptype, Compression::Balanced.dictionary_bytes());
            let total = Costs { slots: 1 << 16, shared, own: 100.0 };
            let mut sharing = Sharing { builder: Some(Box::new(builder)), pages: 2, total, window: total, ..Sharing::default() };
            assert_eq!(sharing.is_in_vain(true), !pays, "{ptype:?}, {shared}");
            sharing.window.slots -= 1;
            assert_eq!(sharing.is_worthwhile(), pays, "{ptype:?}, {shared}");
        }
    }

    #[test]
    fn pages_that_gain_nothing_do_not_begin() {
        let few = page(|row| row % 5);
        let all_differ = page(|row| row);
        let narrow = Values::Fixed { ptype: PType::I32, bytes: Buffer::from_vec((0..8192).map(|row| row % 1000).collect::<Vec<i32>>()) };
        for values in [few, all_differ, narrow] {
            assert!(!take_part(&mut Sharing::default(), &values));
        }
        let nulls = NullBuffer::new_null(8192);
        let repeated = page(|row| row * row % 3001);
        let mut sharing = Sharing::default();
        assert!(sharing.codes(&repeated, Some(&nulls), &EncodeOptions::default()).unwrap().is_none());
        assert!(take_part(&mut sharing, &repeated));
        // One page by itself is better alone.
        assert!(sharing.is_in_vain(true) && !sharing.is_in_vain(false));
    }
}
