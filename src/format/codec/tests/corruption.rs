//! Damaged pages: an error or some values, never a panic, and never memory that the page does not back.

use arrow::buffer::BooleanBuffer;
use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::super::{COUNT_MAX, Codes, EncodeOptions, EncodingId, Output, PType, Values};
use super::{cases, expect, page_of};
use crate::format::fermion::page::{Page, PageExpect};
use crate::format::search::Pieces;
use crate::format::{Error, ErrorKind, Result};

/// One page for every encoding of every type, small enough to be damaged at every byte.
fn pages() -> Vec<(PageExpect, Vec<u8>)> {
    let mut pages = Vec::new();
    let mut add = |values: &Values| {
        for forced in EncodingId::ALL {
            for zstd_level in [None, Some(1)] {
                let options = EncodeOptions { zstd_level, forced: Some(*forced), ..Default::default() };
                if let Some(page) = page_of(values, None, &options).filter(|page| page.len() < 1500) {
                    pages.push((PageExpect { checksum: false, utf8: true, ..expect(values) }, page.to_vec()));
                }
            }
        }
    };
    for ptype in [PType::I32, PType::U64, PType::I256, PType::F16] {
        let numbers = cases::numbers(ptype).into_iter();
        numbers
            .filter(|(name, _)| ["few x 63", "constant x 63", "outliers x 1025", "runs x 1025", "first seen x 63"].contains(&&**name))
            .for_each(|(_, values)| add(&values));
    }
    cases::booleans().iter().filter(|(name, _)| name.ends_with("runs x 1025") || name.ends_with("half x 63")).for_each(|(_, values)| add(values));
    let strings = cases::strings().into_iter();
    strings.filter(|(name, _)| name.ends_with(" x 63") && !name.contains("huge")).for_each(|(_, values)| add(&values));
    pages
}

fn read(page: &[u8], expect: &PageExpect) -> Result<usize> {
    let page = Page::open(&Bytes::copy_from_slice(page), expect)?;
    let mut out = Output::new(expect.ptype, 0);
    // A look-up before the whole, so that whatever is prepared lazily is prepared from either end.
    page.decode(page.len() / 2..page.len(), &mut out)?;
    page.decode(0..page.len().min(5000), &mut out)?;
    super::from_output(out);
    if !page.is_empty() {
        page.coded(0..page.len().min(5000), usize::MAX, &mut Codes::default())?;
    }
    // Few of the values, some, and most, in whatever way each is taken.
    for step in [40, 3, 1] {
        let mut out = Output::new(expect.ptype, 0);
        let kept = BooleanBuffer::collect_bool(page.len().min(5000), |index| index % step == 0);
        page.decode_kept(0..kept.len(), &kept, &mut out)?;
        super::from_output(out);
    }
    for pattern in ["%e%", "e%", "e"] {
        if expect.ptype == PType::Bytes && !page.is_empty() {
            page.find(0..page.len().min(5000), 5000, &Pieces::of_like(pattern).unwrap())?;
        }
    }
    Ok(page.len())
}

#[test]
fn every_byte_flipped_is_an_error_or_some_value() {
    let pages = pages();
    assert!(pages.len() > 60);
    let mut errors = 0;
    for (expect, page) in &pages {
        for at in 0..page.len() {
            // Small numbers are damaged by low bits, sizes by high ones; trees, where all the decisions are, by both.
            for mask in if at < 250 { &[0x01, 0x80, 0xFF][..] } else { &[0xFF][..] } {
                let mut damaged = page.clone();
                damaged[at] ^= mask;
                errors += usize::from(read(&damaged, expect).is_err());
            }
            // With the checksum, it is always noticed.
            let mut damaged = page.clone();
            damaged[at] ^= 0x10;
            let kind = Page::open(&damaged.into(), &PageExpect { checksum: true, ..*expect }).map(|_| ()).map_err(|error| error.kind());
            let is_length = (4..8).contains(&at);
            assert_eq!(kind, Err(if is_length { ErrorKind::InvalidFile } else { ErrorKind::Checksum }), "byte {at}");
        }
    }
    assert!(errors > 1000);
}

#[test]
fn every_prefix_is_an_error() {
    for (expect, page) in pages() {
        for length in 0..page.len() {
            let mut cut = page[..length].to_vec();
            assert_eq!(read(&cut, &expect).unwrap_err().kind(), ErrorKind::InvalidFile);
            // Claim that it is meant to be so short.
            if let Some(field) = cut.get_mut(4..8) {
                field.copy_from_slice(&u32::try_from(length).unwrap().to_le_bytes());
                assert_eq!(read(&cut, &expect).unwrap_err().kind(), ErrorKind::InvalidFile);
            }
        }
    }
}

#[test]
fn random_damage_is_an_error_or_some_value() {
    let mut random = StdRng::seed_from_u64(5);
    for (expect, page) in pages() {
        for _ in 0..300 {
            let mut damaged = page.clone();
            for _ in 0..random.random_range(1..6) {
                let at = random.random_range(16..damaged.len().min(200));
                damaged[at] = if random.random() { random.random_range(0..10) } else { random.random() };
            }
            let _ = read(&damaged, &PageExpect { rows: None, ..expect });
        }
    }
}

/// A page of one node, by hand.
fn page(encoding: u8, ptype: PType, count: u32, tail: &[u8], children: u8, buffers: u8) -> Vec<u8> {
    let mut page = vec![0; 8];
    page.extend_from_slice(&count.to_le_bytes());
    page.extend_from_slice(&(24 + u32::try_from(tail.len()).unwrap()).to_le_bytes());
    page.extend_from_slice(&[encoding, ptype.id(), children, buffers]);
    page.extend_from_slice(&count.to_le_bytes());
    page.extend_from_slice(&[0; 16]);
    page.extend_from_slice(tail);
    page.resize(page.len().next_multiple_of(8), 0);
    let length = u32::try_from(page.len()).unwrap();
    page[4..8].copy_from_slice(&length.to_le_bytes());
    page
}

fn open(page: Vec<u8>, ptype: PType) -> Result<Page, Error> {
    Page::open(&page.into(), &PageExpect { ptype, rows: None, extra: 0, checksum: false, utf8: false })
}

#[test]
fn what_is_not_known_needs_a_newer_reader() {
    let kind = |page| open(page, PType::I32).unwrap_err().kind();
    for encoding in (0..=255).filter(|id| EncodingId::ALL.iter().all(|known| known.id() != *id)) {
        assert_eq!(kind(page(encoding, PType::I32, 1, &[], 0, 0)), ErrorKind::UnsupportedVersion);
    }
    let mut unknown_type = page(1, PType::I32, 1, &[], 0, 0);
    unknown_type[17] = 15;
    assert_eq!(kind(unknown_type), ErrorKind::UnsupportedVersion);
    let mut descriptor = [0; 16];
    descriptor[12] = 2;
    assert_eq!(kind(page(0, PType::I32, 0, &descriptor, 0, 1)), ErrorKind::UnsupportedVersion);
}

#[test]
fn a_few_bytes_may_say_many_values_but_not_make_them() {
    // Four billion zeros: the caller asks for as many as it has room for.
    let constant = open(page(1, PType::I64, u32::MAX, &[], 0, 0), PType::I64).unwrap();
    let mut out = Output::new(PType::I64, 10);
    constant.decode(4_000_000_000..4_000_000_010, &mut out).unwrap();
    assert_eq!((constant.len(), out.len()), (u32::MAX as usize, 10));
    // Any node that lists its values is bounded, and so is every child.
    let many = u32::try_from(COUNT_MAX + 1).unwrap();
    assert_eq!(open(page(7, PType::Bool, many, &[], 0, 0), PType::Bool).unwrap_err().kind(), ErrorKind::InvalidFile);
    let mut child = [0; 24];
    child[0] = 1;
    child[1] = PType::I64.id();
    child[4..8].copy_from_slice(&many.to_le_bytes());
    assert_eq!(open(page(2, PType::I64, many, &[child, child].concat(), 2, 0), PType::I64).unwrap_err().kind(), ErrorKind::InvalidFile);
}

#[test]
fn a_constant_string_is_no_longer_than_arrow_can_say() {
    for (raw_length, fits) in [((1u32 << 31) - 1, true), (1 << 31, false)] {
        let length = 1u32 << 23;
        let descriptor = [0, length, raw_length, 1].map(u32::to_le_bytes).concat();
        let mut page = page(1, PType::Bytes, 1, &descriptor, 0, 1);
        page.resize(page.len() + length as usize, 0);
        let page_length = u32::try_from(page.len()).unwrap();
        page[4..8].copy_from_slice(&page_length.to_le_bytes());
        assert_eq!(open(page, PType::Bytes).map_err(|error| error.kind()).err(), (!fits).then_some(ErrorKind::InvalidFile));
    }
}

#[test]
fn a_tree_has_bounds() {
    // Each node narrows the next one; types would forbid it, but depth is looked at first.
    let node = |children: u8| {
        let mut node = [0; 24];
        (node[0], node[1], node[2]) = (6, PType::I64.id(), children);
        node
    };
    for (tail, children) in [([node(1); 8].concat(), 1), ([node(0); 32].concat(), 32)] {
        let error = open(page(6, PType::I64, 0, &tail, children, 0), PType::I64).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidFile);
        assert!(error.to_string().contains("levels"), "{error}");
    }
}

#[test]
fn the_caller_is_told_what_it_did_wrong() {
    let page = open(page(1, PType::I32, 10, &[], 0, 0), PType::I32).unwrap();
    let mut out = Output::new(PType::I32, 0);
    #[expect(clippy::reversed_empty_ranges, reason = "that is the point")]
    for range in [0..11, 5..4, usize::MAX..usize::MAX] {
        assert_eq!(page.decode(range, &mut out).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(page.decode(0..1, &mut Output::new(PType::U32, 0)).unwrap_err().kind(), ErrorKind::InvalidArgument);
}
