//! One table of cases, driven through every encoding and the chooser, next to a slow reader written from the specification.

mod cases;
mod choice;
mod corruption;
mod followed;
mod naive;

use std::ops::Range;

use arrow::array::{Array, BinaryViewArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{Codes, Decoded, EncodeOptions, EncodingId, Output, PType, Values, encode};
use crate::format::fermion::page::{Page, PageExpect, write_page};
use crate::format::search::Pieces;

/// A value as its bytes, a boolean as one.
type Value = Vec<u8>;

fn expect(values: &Values) -> PageExpect {
    PageExpect { ptype: values.ptype(), rows: u32::try_from(values.len()).ok(), extra: 0, checksum: true, utf8: false }
}

fn to_list(values: &Values) -> Vec<Value> {
    match values {
        Values::Bool(bits) => bits.iter().map(|bit| vec![u8::from(bit)]).collect(),
        Values::Fixed { ptype, bytes } => bytes.chunks(ptype.width().unwrap()).map(<[u8]>::to_vec).collect(),
        Values::Bytes(array) => (0..array.len()).map(|index| array.value(index).to_vec()).collect(),
    }
}

fn from_output(out: Output) -> Vec<Value> {
    from_decoded(out.ptype(), out.finish())
}

fn from_decoded(ptype: PType, decoded: Decoded) -> Vec<Value> {
    to_list(&match decoded {
        Decoded::Bool(bits) => Values::Bool(bits),
        Decoded::Fixed(bytes) => Values::Fixed { ptype, bytes },
        // Arrow checks every view.
        Decoded::Views { views, buffers } => Values::Bytes(BinaryViewArray::try_new(views, buffers, None).unwrap()),
    })
}

fn decode(page: &Page, ptype: PType, ranges: &[Range<usize>]) -> Vec<Value> {
    let mut out = Output::new(ptype, 0);
    for range in ranges {
        page.decode(range.clone(), &mut out).unwrap();
    }
    from_output(out)
}

fn page_of(values: &Values, validity: Option<&NullBuffer>, options: &EncodeOptions) -> Option<Bytes> {
    let encoded = encode(values, validity, options);
    let encoded = match options.forced {
        Some(_) => encoded.ok()?,
        None => encoded.unwrap(),
    };
    Some(Bytes::from(write_page(&encoded, u32::try_from(values.len()).unwrap(), true)))
}

/// Decodes a page of long strings, if it is strings that are decoded, so that the buffers of the next page are not the first.
fn push_other_page(out: &mut Output) -> Vec<Value> {
    if out.ptype() != PType::Bytes {
        return Vec::new();
    }
    let strings = Values::Bytes(BinaryViewArray::from_iter_values(["a string of another page"; 3]));
    let bytes = page_of(&strings, None, &EncodeOptions::default()).unwrap();
    Page::open(&bytes, &expect(&strings)).unwrap().decode(0..3, out).unwrap();
    to_list(&strings)
}

/// Codes stand for what is decoded, of any range, and always for the same values.
fn check_codes(page: &Page, ptype: PType, all: &[Value], random: &mut StdRng) {
    let mut known = None;
    for _ in 0..if all.is_empty() { 0 } else { 8 } {
        let start = random.random_range(0..all.len());
        let range = start..random.random_range(start..all.len()) + 1;
        let most = [0, 1, 10, 1000, usize::MAX][random.random_range(0..5)];
        let mut codes = Codes::default();
        let Some(values) = page.coded(range.clone(), most, &mut codes).unwrap() else {
            assert!(codes.is_empty());
            continue;
        };
        let values = from_decoded(ptype, values);
        let looked_up: Vec<&Value> = codes.iter().map(|code| &values[code as usize]).collect();
        assert_eq!(looked_up, all[range.clone()].iter().collect::<Vec<_>>(), "{}", page.describe());
        assert!(values.len() <= most.max(1));
        assert_eq!(known.get_or_insert_with(|| values.clone()), &values);
        check_read_behind(page, ptype, all, &range, random);
    }
}

/// What is read of rows whose codes have been looked at, and of others beside them.
fn check_read_behind(page: &Page, ptype: PType, all: &[Value], looked_at: &Range<usize>, random: &mut StdRng) {
    let within = random.random_range(looked_at.clone())..looked_at.end;
    let beside = random.random_range(0..=looked_at.start)..looked_at.end.min(looked_at.start + 3);
    for range in [looked_at.clone(), within, beside] {
        let mut out = Output::new(ptype, 0);
        page.decode(range.clone(), &mut out).unwrap();
        assert_eq!(from_output(out), all[range.clone()], "{range:?} of {}", page.describe());
        let keep: Vec<bool> = range.clone().map(|_| random.random_ratio(1, 3)).collect();
        let mut out = Output::new(ptype, 0);
        page.decode_kept(range.clone(), &keep.iter().copied().collect(), &mut out).unwrap();
        let kept: Vec<Value> = all[range.clone()].iter().zip(keep).filter(|(_, keep)| *keep).map(|(value, _)| value.clone()).collect();
        assert_eq!(from_output(out), kept, "some of {range:?} of {}", page.describe());
    }
}

/// What is found without decoding is what a look at each string finds: of any range, for several patterns at once, whatever has been decoded before.
fn check_found(bytes: &Bytes, values: &Values, all: &[Value], random: &mut StdRng) {
    let page = Page::open(bytes, &expect(values)).unwrap();
    let anywhere = |pieces: &[&str]| (String::new(), pieces.iter().map(|piece| (*piece).to_owned()).collect(), false);
    // What values begin with, what stands behind that, and whether the first is all of them.
    let mut asked: Vec<(String, Vec<String>, bool)> = vec![
        anywhere(&["e"]),
        anywhere(&["number=1"]),
        anywhere(&["s", "sleep"]),
        anywhere(&["xxxxxxxxxxxxxx"]),
        (String::new(), Vec::new(), true),
        ("the ".into(), vec!["e".into()], false),
    ];
    // Pieces of the values, across tokens' borders, and what two neighbours would have together.
    for _ in 0..3 {
        let at = random.random_range(0..all.len());
        let text: Vec<u8> = all[at..all.len().min(at + 2)].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let piece: String = text.chars().skip(random.random_range(0..8)).take(random.random_range(1..30)).collect();
        asked.push(anywhere(&[&piece]));
        let begin: String = text.chars().take(random.random_range(1..30)).collect();
        asked.push((begin.clone(), Vec::new(), false));
        asked.push((begin, vec![piece], false));
        asked.push((String::from_utf8_lossy(&all[at]).into_owned(), Vec::new(), true));
    }
    for (begin, pieces, is_all) in asked {
        let like = || Pieces::of_like(&format!("{begin}%{}%", pieces.join("%")));
        let Some(pattern) = (if is_all { Some(Pieces::of_text(&begin)) } else { like() }) else { continue };
        let has = |value: &[u8]| {
            let Some(mut rest) = value.strip_prefix(begin.as_bytes()).filter(|rest| !is_all || rest.is_empty()) else { return false };
            pieces.iter().all(|piece| {
                let at = (0..=rest.len()).find(|at| rest[*at..].starts_with(piece.as_bytes()));
                rest = &rest[at.map_or(rest.len(), |at| at + piece.len())..];
                at.is_some()
            })
        };
        for _ in 0..3 {
            let start = random.random_range(0..all.len());
            let range = start..random.random_range(start..all.len()) + 1;
            let most = [0, 3, usize::MAX][random.random_range(0..3)];
            let Some(found) = page.find(range.clone(), most, &pattern).unwrap() else { continue };
            assert_eq!(
                found,
                all[range].iter().map(|value| has(value)).collect::<BooleanBuffer>(),
                "{begin:?} {pieces:?} {is_all}\n{}",
                page.describe()
            );
        }
        if random.random_bool(0.1) {
            page.decode(0..1, &mut Output::new(PType::Bytes, 0)).unwrap();
        }
    }
}

/// Encodes in one way, and reads back by the kernels and by the slow reader: all, in pieces, and one by one.
fn check_one(name: &str, values: &Values, validity: Option<&NullBuffer>, options: &EncodeOptions) -> bool {
    let Some(bytes) = page_of(values, validity, options) else { return false };
    let expected = to_list(values);
    let page = Page::open(&bytes, &expect(values)).unwrap_or_else(|error| panic!("{name}, {options:?}: {error}"));
    let same = |found: &[Value], from: usize, what: &str| {
        for (index, value) in found.iter().enumerate() {
            let is_free = validity.is_some_and(|validity| validity.is_null(from + index));
            assert!(is_free || *value == expected[from + index], "{name}, {options:?}, {what}, value {}\n{}", from + index, page.describe());
        }
    };
    let count = values.len();
    assert_eq!((page.rows(), page.len(), bytes.len() % 8), (count, count, 0));
    let all = decode(&page, values.ptype(), std::slice::from_ref(&(0..count)));
    assert_eq!(all.len(), count, "{name}, {options:?}");
    same(&all, 0, "whole");
    assert_eq!(naive::read_page(&bytes), all, "{name}, {options:?}, against the slow reader\n{}", page.describe());

    let mut random = StdRng::seed_from_u64(count as u64);
    for _ in 0..8 {
        let (a, b) = (random.random_range(0..=count), random.random_range(0..=count));
        let range = a.min(b)..a.max(b);
        same(&decode(&page, values.ptype(), std::slice::from_ref(&range)), range.start, "range");
        if let Some(index) = (count > 0).then(|| random.random_range(0..count)) {
            same(&decode(&page, values.ptype(), std::slice::from_ref(&(index..index + 1))), index, "get");
        }
    }
    for round in 0..6 {
        // Of a page of which nothing has been decoded, few values may be looked up one by one.
        let fresh = (round % 2 == 0).then(|| Page::open(&bytes, &expect(values)).unwrap());
        let page = fresh.as_ref().unwrap_or(&page);
        let (a, b) = (random.random_range(0..=count), random.random_range(0..=count));
        let (start, end) = (a.min(b), a.max(b));
        let density = [0.001, 0.02, 0.5, 1.0][random.random_range(0..4)];
        let keep: BooleanBuffer = (start..end).map(|_| random.random_bool(density)).collect();
        let mut out = Output::new(values.ptype(), 0);
        let mut kept = push_other_page(&mut out);
        page.decode_kept(start..end, &keep, &mut out).unwrap();
        kept.extend(keep.set_indices().map(|index| all[start + index].clone()));
        assert_eq!(from_output(out), kept, "{name}, {options:?}, some of {start}..{end}");
    }
    check_codes(&page, values.ptype(), &all, &mut random);
    if values.ptype() == PType::Bytes && count > 0 {
        check_found(&bytes, values, &all, &mut random);
    }
    // Behind another page's values, from a page opened at an odd address, in pieces, of which the first is smaller than a dictionary.
    let mut shifted = vec![0];
    shifted.extend_from_slice(&bytes);
    let page = Page::open(&Bytes::from(shifted).slice(1..), &expect(values)).unwrap();
    let mut cuts = [0, count.min(1), count / 5, count / 5, count / 2, count];
    cuts.sort_unstable();
    let mut out = Output::new(values.ptype(), 0);
    let before = push_other_page(&mut out);
    for pair in cuts.windows(2) {
        page.decode(pair[0]..pair[1], &mut out).unwrap();
    }
    assert_eq!(from_output(out), [before, all].concat(), "{name}, {options:?}, in pieces");
    true
}

/// Every encoding that takes the values, and the chooser, with ZSTD for half of the cases.
fn check(name: &str, values: &Values) {
    let zstd_level = values.len().is_multiple_of(2).then_some(1);
    for forced in EncodingId::ALL {
        let done = check_one(name, values, None, &EncodeOptions { zstd_level, forced: Some(*forced), ..Default::default() });
        let must = match forced {
            EncodingId::Plain | EncodingId::Dictionary => values.ptype() != PType::Bool,
            // No text has this byte.
            EncodingId::OnPair | EncodingId::OnPairLengths => {
                values.ptype() == PType::Bytes && to_list(values).iter().all(|value| !value.contains(&0xFF))
            }
            EncodingId::Alp => matches!(values.ptype(), PType::F32 | PType::F64),
            EncodingId::Bitmap => values.ptype() == PType::Bool,
            EncodingId::RunLength => !values.is_empty(),
            EncodingId::Frame | EncodingId::Delta | EncodingId::Planes => !values.is_empty() && super::pack::is_lane(values.ptype()),
            EncodingId::FirstSeen => !values.is_empty() && super::pack::is_lane(values.ptype()) && !values.ptype().is_signed(),
            EncodingId::Constant | EncodingId::Narrow | EncodingId::AlpRd => false,
        };
        assert!(done || !must, "{name}: {} refuses", forced.name());
    }
    let chosen = EncodeOptions { zstd_level, ..Default::default() };
    check_one(name, values, None, &chosen);
    let mut random = StdRng::seed_from_u64(7);
    let some: NullBuffer = (0..values.len()).map(|_| random.random_bool(0.4)).collect::<Vec<_>>().into();
    for validity in [some, NullBuffer::new_null(values.len())] {
        check_one(name, values, Some(&validity), &chosen);
    }
}

#[test]
fn numbers_come_back_from_every_encoding() {
    for ptype in PType::ALL.into_iter().filter(|ptype| ptype.width().is_some()) {
        for (name, values) in cases::numbers(ptype) {
            check(&format!("{} {name}", ptype.name()), &values);
        }
    }
}

#[test]
fn booleans_come_back_from_every_encoding() {
    cases::booleans().iter().for_each(|(name, values)| check(name, values));
}

#[test]
fn strings_come_back_from_every_encoding() {
    cases::strings().iter().for_each(|(name, values)| check(name, values));
}

#[test]
fn a_slice_of_values_is_encoded_as_if_it_were_all() {
    for (name, values) in cases::numbers(PType::I128).into_iter().chain(cases::booleans()).chain(cases::strings()) {
        if values.len() > 20 {
            check_one(&name, &values.slice(3, values.len() - 10), None, &EncodeOptions::default());
        }
    }
}

#[test]
fn text_is_checked_once_it_is_decoded() {
    for strings in [vec!["ä".repeat(7), "b".into(), "ü".repeat(5)], vec!["ä".repeat(7); 3]] {
        let values = Values::Bytes(BinaryViewArray::from_iter_values(&strings));
        for forced in
            [EncodingId::Plain, EncodingId::Dictionary, EncodingId::RunLength, EncodingId::Constant, EncodingId::OnPair, EncodingId::OnPairLengths]
        {
            let Some(bytes) = page_of(&values, None, &EncodeOptions { zstd_level: None, forced: Some(forced), ..Default::default() }) else {
                continue;
            };
            let expect = PageExpect { utf8: true, checksum: false, ..expect(&values) };
            let read = |bytes: &[u8]| {
                let page = Page::open(&Bytes::copy_from_slice(bytes), &expect).unwrap();
                page.decode(0..1, &mut Output::new(PType::Bytes, 0))
            };
            assert!(read(&bytes).is_ok());
            let mut damaged = bytes.to_vec();
            let at = damaged.windows(2).position(|pair| pair == "ä".as_bytes()).unwrap();
            damaged[at] = b'a';
            assert_eq!(read(&damaged).unwrap_err().kind(), crate::format::ErrorKind::InvalidFile, "{}", forced.name());
        }
    }
}
