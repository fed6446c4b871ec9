//! The dictionary of a chunk: values that codes of any of its pages stand for. It is stored in a few pages of its own.

use std::sync::OnceLock;

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;

use super::answers::Answers;
use super::node::{COUNT_MAX, Node};
use super::picks::{Picks, decode_wanted};
use super::plain::rebase;
use super::values::mixed_up;
use super::{Decoded, Output, PType, Values};
use crate::format::search::Pieces;
use crate::format::{Error, Result};

/// The most pages of a dictionary. All of them may be in memory at once.
pub(crate) const DICTIONARY_PAGES_MAX: usize = 16;

/// The dictionary of a chunk, decoded as far as it is looked at.
#[derive(Debug)]
pub(crate) struct ChunkDictionary {
    ptype: PType,
    count: usize,
    pages: Vec<Node>,
    /// The code behind the last one of each page.
    ends: Vec<usize>,
    all: OnceLock<Decoded>,
    picks: Picks,
    /// Which values have some pieces of text.
    found: Answers<BooleanBuffer>,
}

impl ChunkDictionary {
    /// A dictionary of these pages, of which there is at least one.
    pub(crate) fn new(ptype: PType, pages: Vec<Node>) -> Result<Self> {
        let mut count = 0_usize;
        let ends = pages.iter().map(|page| {
            count = count.saturating_add(page.count());
            count
        });
        let ends = ends.collect();
        if pages.len() > DICTIONARY_PAGES_MAX || count > COUNT_MAX {
            return Err(Error::invalid_file(format!("a dictionary of {} pages and {count} values", pages.len())));
        }
        if pages.iter().any(|page| page.ptype() != ptype) {
            return Err(mixed_up());
        }
        Ok(Self { ptype, count, pages, ends, all: OnceLock::new(), picks: Picks::default(), found: Answers::default() })
    }

    /// The same of values that are at hand.
    pub(crate) fn of(values: &Values) -> Self {
        let all = match values {
            Values::Bool(bits) => Decoded::Bool(bits.clone()),
            Values::Fixed { bytes, .. } => Decoded::Fixed(bytes.clone()),
            Values::Bytes(array) => Decoded::Views { views: array.views().clone(), buffers: array.data_buffers().to_vec() },
        };
        let (pages, ends) = (Vec::new(), Vec::new());
        Self { ptype: values.ptype(), count: values.len(), pages, ends, all: all.into(), picks: Picks::default(), found: Answers::default() }
    }

    pub(super) fn ptype(&self) -> PType {
        self.ptype
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// All values, decoded once and kept.
    pub(super) fn all(&self) -> Result<&Decoded> {
        if let Some(all) = self.all.get() {
            return Ok(all);
        }
        let mut out = Output::new(self.ptype, self.count);
        self.pages.iter().try_for_each(|page| page.append_all(&mut out))?;
        Ok(self.all.get_or_init(|| out.finish()))
    }

    /// Which strings have some pieces of text in them: found out once, and without decoding what has not been.
    pub(super) fn find(&self, pieces: &Pieces) -> Result<BooleanBuffer> {
        let found_in = |values: &Decoded| match values {
            Decoded::Views { views, buffers } => Ok(pieces.found_in_views(views, buffers)),
            _ => Err(mixed_up()),
        };
        self.found.get(pieces, || {
            if let Some(all) = self.all.get() {
                return found_in(all);
            }
            let mut found = BooleanBufferBuilder::new(self.count);
            for page in self.pages.iter().filter(|page| page.count() > 0) {
                let in_codes = if page.is_decoded() { None } else { page.find(0..page.count(), usize::MAX, pieces)? };
                found.append_buffer(&match in_codes {
                    Some(found) => found,
                    None => found_in(page.all()?)?,
                });
            }
            Ok(found.finish())
        })
    }

    /// Whether so many values more are better looked up among those that they are than among all.
    pub(super) fn is_better_in_part(&self, values: usize) -> bool {
        let is_in_parts = self.ptype == PType::Bytes && self.pages.len() > 1 && self.pages.iter().any(|page| !page.is_decoded());
        self.all.get().is_none() && (is_in_parts || self.picks.are_few(values, self.ptype, self.count))
    }

    /// Appends what these codes stand for, which have been checked. No more than the pages that they are in are decoded: rows that lie together
    /// share values that came together.
    pub(super) fn look_up(&self, codes: &[u32], out: &mut Output) -> Result<()> {
        let mut is_wanted = vec![false; self.pages.len()];
        for &code in codes {
            if let Some(is_wanted) = is_wanted.get_mut(self.page_of(code)) {
                *is_wanted = true;
            }
        }
        let wanted = || self.pages.iter().zip(&self.ends).zip(&is_wanted).map(|(page, is_wanted)| Some(page).filter(|_| *is_wanted));
        let is_text = self.ptype == PType::Bytes;
        let is_undecoded = || wanted().any(|page| page.is_some_and(|(page, _)| !page.is_decoded()));
        if !is_text || self.picks.are_few(codes.len(), self.ptype, self.count) && is_undecoded() {
            return self.picks.look_up(codes, out, |wanted, out| {
                self.pages.iter().zip(&self.ends).try_for_each(|(page, end)| decode_wanted(page, end - page.count()..*end, wanted, out))
            });
        }
        let decoded = wanted().map(|page| {
            let Some((page, end)) = page else { return Ok((0, &[][..], 0)) };
            let Decoded::Views { views, buffers } = page.all()? else { return Err(mixed_up()) };
            Ok((end - page.count(), &views[..], out.shared_buffers(buffers)?))
        });
        let decoded: Vec<(usize, &[u128], u32)> = decoded.collect::<Result<_>>()?;
        let (out, _) = out.views(&[])?;
        out.extend(codes.iter().map(|&code| {
            let (first, views, base) = decoded.get(self.page_of(code)).copied().unwrap_or_default();
            rebase(views.get(code as usize - first).copied().unwrap_or_default(), base)
        }));
        Ok(())
    }

    fn page_of(&self, code: u32) -> usize {
        self.ends.partition_point(|end| *end <= code as usize)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{BinaryViewArray, StringViewArray};
    use arrow::buffer::{BooleanBuffer, Buffer};
    use bytes::Bytes;

    use super::super::{DictionaryBuilder, EncodeOptions, EncodingId, encode, encode_codes};
    use super::*;
    use crate::format::ErrorKind;
    use crate::format::fermion::page::{Page, PageExpect, open_dictionary, write_page};
    use std::ops::Range;
    use std::sync::Arc;

    const COUNT: usize = 5000;

    fn expect(ptype: PType) -> PageExpect {
        PageExpect { ptype, rows: None, extra: 0, checksum: true, utf8: true }
    }

    fn dictionary_page(values: &Values, forced: Option<EncodingId>) -> Bytes {
        Bytes::from(write_page(&encode(values, None, &EncodeOptions { forced, ..Default::default() }).unwrap(), 0, true))
    }

    fn codes_page(codes: &[u32], ptype: PType) -> Bytes {
        let encoded = encode_codes(codes, ptype, &EncodeOptions::default()).unwrap();
        Bytes::from(write_page(&encoded, u32::try_from(codes.len()).unwrap(), true))
    }

    fn words() -> Values {
        let words = StringViewArray::from_iter_values((0..COUNT).map(|word| format!("the {word:05}th word of many, ü")));
        Values::Bytes(words.to_binary_view())
    }

    fn numbers() -> Values {
        Values::Fixed { ptype: PType::U64, bytes: Buffer::from_vec((0..COUNT as u64).map(super::super::words::mix).collect::<Vec<_>>()) }
    }

    fn decoded(page: &Page, ptype: PType, keep: Option<&BooleanBuffer>) -> Result<Vec<Vec<u8>>> {
        let mut out = Output::new(ptype, 0);
        match keep {
            None => page.decode(0..page.len(), &mut out)?,
            Some(keep) => page.decode_kept(0..page.len(), keep, &mut out)?,
        }
        Ok(match out.finish() {
            Decoded::Views { views, buffers } => {
                BinaryViewArray::try_new(views, buffers, None).unwrap().iter().map(|value| value.unwrap().to_vec()).collect()
            }
            Decoded::Fixed(bytes) => bytes.chunks_exact(8).map(<[u8]>::to_vec).collect(),
            Decoded::Bool(_) => panic!("bits"),
        })
    }

    #[test]
    fn few_values_are_looked_up_as_all_are() {
        let codes: Vec<u32> = (0..3000).map(|row| row * 7 % 5000).collect();
        for (values, encodings, step) in [(words(), vec![EncodingId::Plain, EncodingId::OnPair], 1000), (numbers(), vec![EncodingId::Plain], 1000)] {
            let ptype = values.ptype();
            for forced in encodings {
                let pages = [(0, 1000), (1000, 3500), (4500, 500)].map(|(from, count)| dictionary_page(&values.slice(from, count), Some(forced)));
                let open = || {
                    let dictionary = Arc::new(open_dictionary(&pages, &expect(ptype)).unwrap());
                    let page = Page::open_with(&codes_page(&codes, ptype), &expect(ptype), || Ok(Some(Arc::clone(&dictionary)))).unwrap();
                    (page, dictionary)
                };
                let (page, dictionary) = open();
                let all = decoded(&page, ptype, None).unwrap();
                // Text was decoded page by page the first time.
                assert_eq!(all, decoded(&page, ptype, None).unwrap());
                assert!(dictionary.all.get().is_some());
                let expected: Vec<u32> = codes.clone();
                let alone = Page::open(
                    &Bytes::from(write_page(&encode(&values.pick(&expected).unwrap(), None, &EncodeOptions::default()).unwrap(), 3000, true)),
                    &expect(ptype),
                );
                assert_eq!(all, decoded(&alone.unwrap(), ptype, None).unwrap());
                let (page, dictionary) = open();
                let keep = BooleanBuffer::collect_bool(codes.len(), |row| row % step == 42);
                let kept: Vec<Vec<u8>> = keep.set_indices().map(|row| all[row].clone()).collect();
                assert_eq!(decoded(&page, ptype, Some(&keep)).unwrap(), kept);
                assert!(dictionary.all.get().is_none(), "a few values were looked up, and all were decoded");
            }
        }
    }

    #[test]
    fn rows_apart_share_the_buffers_of_their_pages() {
        let values = words();
        let pages = [(0, 1000), (1000, 3500), (4500, 500)].map(|(from, count)| dictionary_page(&values.slice(from, count), None));
        let dictionary = Arc::new(open_dictionary(&pages, &expect(PType::Bytes)).unwrap());
        let codes: Vec<u32> = (0..3000).map(|row| if row % 2 == 0 { row % 1000 } else { 1000 + row }).collect();
        let page = Page::open_with(&codes_page(&codes, PType::Bytes), &expect(PType::Bytes), || Ok(Some(Arc::clone(&dictionary)))).unwrap();
        let read = |ranges: &mut dyn Iterator<Item = Range<usize>>| {
            let mut out = Output::new(PType::Bytes, 0);
            ranges.for_each(|range| page.decode(range, &mut out).unwrap());
            match out.finish() {
                Decoded::Views { views, buffers } => (views.len(), buffers.len()),
                other => panic!("{other:?}"),
            }
        };
        read(&mut [0..3000].into_iter());
        assert!(!dictionary.pages[2].is_decoded());
        let (rows, buffers) = read(&mut (0..3000).map(|row| row..row + 1));
        assert!(rows == 3000 && buffers <= 2, "{buffers} buffers");
    }

    #[test]
    fn text_is_found_without_decoding_what_has_not_been() {
        let values = words();
        let forced = [Some(EncodingId::OnPair), Some(EncodingId::OnPair), Some(EncodingId::Plain)];
        let parts = [(0, 1000), (1000, 3500), (4500, 500)].into_iter().zip(forced);
        let pages: Vec<Bytes> = parts.map(|((from, count), forced)| dictionary_page(&values.slice(from, count), forced)).collect();
        let open = || Arc::new(open_dictionary(&pages, &expect(PType::Bytes)).unwrap());
        let find = |dictionary: &ChunkDictionary, pattern: &str| -> Vec<usize> {
            dictionary.find(&Pieces::of_like(pattern).unwrap()).unwrap().set_indices().collect()
        };
        let with_77: Vec<usize> = (0..COUNT).filter(|word| format!("{word:05}").contains("77")).collect();
        let dictionary = open();
        assert_eq!(find(&dictionary, "%77%"), with_77);
        assert_eq!(dictionary.pages.iter().map(Node::is_decoded).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!((find(&dictionary, "%04999%ü"), find(&dictionary, "%04999%a")), (vec![4999], vec![]));
        // The same once all is decoded, or a page.
        dictionary.pages[1].all().unwrap();
        let with_177: Vec<usize> = (0..COUNT).filter(|word| format!("{word:05}").contains("177")).collect();
        assert_eq!(find(&dictionary, "%177%"), with_177);
        let dictionary = open();
        dictionary.all().unwrap();
        assert_eq!(find(&dictionary, "%77%"), with_77);
        assert_eq!(find(&ChunkDictionary::of(&values), "%77%"), with_77);
    }

    #[test]
    fn text_is_decoded_in_no_more_pages_than_the_codes_are_in() {
        let values = words();
        let pages = [(0, 1000), (1000, 3500), (4500, 500)].map(|(from, count)| dictionary_page(&values.slice(from, count), None));
        let dictionary = Arc::new(open_dictionary(&pages, &expect(PType::Bytes)).unwrap());
        let read = |codes: &[u32]| {
            let page = Page::open_with(&codes_page(codes, PType::Bytes), &expect(PType::Bytes), || Ok(Some(Arc::clone(&dictionary)))).unwrap();
            let expected: Vec<Vec<u8>> = codes.iter().map(|code| format!("the {code:05}th word of many, ü").into_bytes()).collect();
            let middle = codes.len() / 3..codes.len();
            let keep = BooleanBuffer::collect_bool(middle.len(), |row| row % 3 != 1);
            let mut out = Output::new(PType::Bytes, 0);
            page.decode_kept(middle.clone(), &keep, &mut out).unwrap();
            page.decode(middle.clone(), &mut out).unwrap();
            let Decoded::Views { views, buffers } = out.finish() else { panic!("numbers") };
            let found = BinaryViewArray::try_new(views, buffers, None).unwrap();
            let kept = keep.set_indices().map(|row| &expected[middle.start + row]).chain(&expected[middle.clone()]);
            assert!(found.iter().eq(kept.map(|value| Some(&value[..]))));
            let is_decoded: Vec<bool> = dictionary.pages.iter().map(Node::is_decoded).collect();
            (is_decoded, dictionary.all.get().is_some())
        };
        // Both ends, and with each page's last and first value.
        assert_eq!(
            read(&(0..600).map(|row| if row % 2 == 0 { row % 1000 } else { 4500 + row % 500 }).collect::<Vec<_>>()),
            (vec![true, false, true], false)
        );
        assert_eq!(read(&[999; 100]), (vec![true, false, true], false));
        assert_eq!(read(&[0, 999, 1000, 4499, 4500, 4999, 1000, 0].repeat(20)), (vec![true; 3], true));
    }

    #[test]
    fn a_dictionary_that_does_not_fit_is_refused() {
        let values = numbers();
        let page = dictionary_page(&values, None);
        let dictionary = |pages: &[Bytes], ptype| open_dictionary(pages, &expect(ptype)).map(Arc::new);
        let open = |codes: &[u32], dictionary: Option<Arc<ChunkDictionary>>| {
            let page = Page::open_with(&codes_page(codes, PType::U64), &expect(PType::U64), || Ok(dictionary))?;
            decoded(&page, PType::U64, None).map(|values| values.len())
        };
        let known = dictionary(std::slice::from_ref(&page), PType::U64).unwrap();
        assert_eq!(open(&[0, 4999], Some(Arc::clone(&known))).unwrap(), 2);
        let kind = |result: Result<usize>| result.unwrap_err().kind();
        // A code beyond it, few codes or many; no dictionary; one of another type.
        assert_eq!(kind(open(&[0, 5000], Some(Arc::clone(&known)))), ErrorKind::InvalidFile);
        assert_eq!(kind(open(&[5000; 3000], Some(known))), ErrorKind::InvalidFile);
        assert_eq!(kind(open(&[0], None)), ErrorKind::InvalidFile);
        assert_eq!(kind(open(&[0], Some(Arc::new(ChunkDictionary::of(&words()))))), ErrorKind::InvalidFile);
        assert_eq!(dictionary(std::slice::from_ref(&page), PType::I64).unwrap_err().kind(), ErrorKind::InvalidFile);
        // Too many pages, and too many values in few bytes.
        assert!(dictionary(&vec![page.clone(); DICTIONARY_PAGES_MAX], PType::U64).is_ok());
        assert_eq!(dictionary(&vec![page; DICTIONARY_PAGES_MAX + 1], PType::U64).unwrap_err().kind(), ErrorKind::InvalidFile);
        let same = Values::Fixed { ptype: PType::U64, bytes: Buffer::from_vec(vec![7_u64; COUNT_MAX]) };
        let page = dictionary_page(&same, Some(EncodingId::Constant));
        assert!(dictionary(std::slice::from_ref(&page), PType::U64).is_ok());
        assert_eq!(dictionary(&[page.clone(), page], PType::U64).unwrap_err().kind(), ErrorKind::InvalidFile);
    }

    #[test]
    fn values_are_kept_once_and_nulls_not_at_all() {
        let values = Values::Bytes(BinaryViewArray::from_iter_values(["b", "a value that is not inlined", "b", "", "a value that is not inlined"]));
        let validity = vec![false, true, true, false, true].into();
        let mut builder = DictionaryBuilder::new(PType::Bytes, 1 << 20);
        assert_eq!(builder.codes(&values, Some(&validity)), Some(vec![0, 0, 1, 1, 0]));
        assert_eq!(builder.codes(&values, None), Some(vec![1, 0, 1, 2, 0]));
        let Values::Bytes(kept) = builder.values(0..3).unwrap() else { panic!("bytes") };
        assert_eq!(kept.iter().flatten().collect::<Vec<_>>(), [&b"a value that is not inlined"[..], b"b", b""]);
        // What does not fit leaves it as it was, and closed.
        let many = Values::Fixed { ptype: PType::U64, bytes: Buffer::from_vec((0..1_u64 << 18).collect::<Vec<_>>()) };
        let mut builder = DictionaryBuilder::new(PType::U64, 1 << 20);
        assert!(builder.codes(&many.slice(0, 100), None).is_some());
        assert_eq!((builder.codes(&many, None), builder.len()), (None, 100));
        assert_eq!([792, 799, 800].map(|bytes| builder.end_past(0, bytes)), [Some(100), Some(100), None]);
        assert_eq!(builder.codes(&many.slice(0, 1), None), None);
    }
}
