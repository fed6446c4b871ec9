//! Bloom filters of chunks: whether a chunk may have a value, without reading it.
//!
//! They are the split-block filters of Putze, Sanders and Singler ("Cache-, Hash- and Space-Efficient Bloom Filters", 2007) in the form that Impala and
//! Parquet have: 8 bits in one block of 256 for each value. To look a value up takes that one block, so they are stored in small pages.

use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use twox_hash::XxHash64;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::schema::leaf_type;
use crate::format::array::leaf_values;
use crate::format::codec::Values;
use crate::format::error::{Error, Result};
use crate::format::wire;

/// Bytes of a block.
const BLOCK: usize = 32;
/// Blocks of a page but the last.
const PAGE_BLOCKS: usize = 127;
/// What comes before the blocks of a page: a CRC32 and zeros.
const PAGE_HEADER: usize = 32;
/// What the CRC32 does not cover: itself.
const CRC: usize = 4;
/// The most blocks of a filter: 512 MiB.
const BLOCKS_MAX: u32 = 1 << 24;

const SALTS: [u32; 8] = [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

/// Where the filter of a chunk is in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct BloomDesc {
    offset: U64,
    block_count: U32,
    reserved: U32,
}

const _: () = assert!(size_of::<BloomDesc>() == 16);

impl BloomDesc {
    pub(super) fn new(offset: u64, block_count: u32) -> Self {
        Self { offset: offset.into(), block_count: block_count.into(), reserved: 0.into() }
    }

    /// The same filter, so many bytes further on.
    pub(super) fn moved(self, by: u64) -> Self {
        Self { offset: (self.offset.get() + by).into(), ..self }
    }

    /// Refuses a place that is not in the stripe.
    pub(super) fn check(&self, stripe: &Range<u64>) -> Result<()> {
        let (offset, blocks) = (self.offset.get(), self.block_count.get());
        if blocks == 0 || blocks > BLOCKS_MAX {
            return Err(Error::invalid_file(format!("a bloom filter cannot have {blocks} blocks")));
        }
        let end = offset.checked_add(length(blocks)).filter(|end| offset >= stripe.start && *end <= stripe.end && offset.is_multiple_of(8));
        end.map(drop).ok_or_else(|| Error::invalid_file(format!("the bloom filter at {offset} does not lie in its stripe")))
    }

    /// Bytes of the filter in the file.
    pub fn range(&self) -> Range<u64> {
        self.offset.get()..self.offset.get() + length(self.block_count.get())
    }

    /// The page that says whether there may be a value with this hash.
    pub(super) fn page(&self, hash: u64) -> Range<u64> {
        let block = block_of(hash, self.block_count.get()) as u64;
        let start = self.offset.get() + block / PAGE_BLOCKS as u64 * page_length(PAGE_BLOCKS as u64);
        start..self.range().end.min(start + page_length(PAGE_BLOCKS as u64))
    }

    /// Refuses a damaged page of all pages of the filter.
    pub(super) fn check_pages(&self, filter: &[u8], checksums: bool) -> Result<()> {
        let length = usize::try_from(page_length(PAGE_BLOCKS as u64)).unwrap_or(usize::MAX);
        for (page, at) in filter.chunks(length).zip((self.offset.get()..).step_by(length)) {
            check_page(page, checksums).map_err(|error| error.at(at))?;
        }
        Ok(())
    }

    /// Whether there may be a value with this hash, by that page.
    pub(super) fn may_have(&self, page: &[u8], hash: u64, checksums: bool) -> Result<bool> {
        check_page(page, checksums)?;
        let at = PAGE_HEADER + block_of(hash, self.block_count.get()) % PAGE_BLOCKS * BLOCK;
        let block: &[U32] = wire::read_slice(page, at, BLOCK / size_of::<U32>(), "a block of a bloom filter")?;
        Ok(block.iter().zip(mask(hash)).all(|(word, bit)| word.get() & bit != 0))
    }
}

fn check_page(page: &[u8], checksums: bool) -> Result<()> {
    let crc: &U32 = wire::read(page, 0, "the CRC32 of a bloom filter")?;
    if checksums && crc32fast::hash(wire::slice(page, CRC, page.len().saturating_sub(CRC), "a bloom filter")?) != crc.get() {
        return Err(Error::checksum("a page of a bloom filter does not match its CRC32"));
    }
    Ok(())
}

/// Bytes of a page of so many blocks.
fn page_length(blocks: u64) -> u64 {
    PAGE_HEADER as u64 + blocks * BLOCK as u64
}

/// Bytes of a filter.
fn length(blocks: u32) -> u64 {
    u64::from(blocks).div_ceil(PAGE_BLOCKS as u64) * PAGE_HEADER as u64 + u64::from(blocks) * BLOCK as u64
}

/// The block that a value with this hash has its bits in.
fn block_of(hash: u64, block_count: u32) -> usize {
    (((hash >> 32) * u64::from(block_count)) >> 32) as usize
}

/// Its bit in each word of the block.
#[expect(clippy::cast_possible_truncation, reason = "the lower half of the hash says which bits, the upper which block")]
fn mask(hash: u64) -> [u32; 8] {
    SALTS.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27))
}

/// Whether columns of this type can have filters: what is equal has to have equal bytes, so floats cannot.
pub fn can_have_filter(data_type: &DataType) -> bool {
    let has_other_equality = |leaf: &DataType| leaf.is_floating() || matches!(leaf, DataType::Boolean | DataType::Interval(_));
    leaf_type(data_type).is_some_and(|leaf| !has_other_equality(leaf))
}

/// The hashes of the values of a leaf array that are not null.
pub(super) fn hashes(array: &ArrayRef) -> Result<Vec<u64>> {
    let mut found = Vec::with_capacity(array.len());
    for_each_hash(&leaf_values(array)?, array.nulls(), |hash| found.push(hash));
    Ok(found)
}

fn for_each_hash(values: &Values, nulls: Option<&NullBuffer>, mut see: impl FnMut(u64)) {
    let is_valid = |slot: usize| nulls.is_none_or(|nulls| nulls.is_valid(slot));
    match values {
        Values::Bool(_) => {}
        Values::Fixed { ptype, bytes } => {
            let width = ptype.width().unwrap_or(1).max(1);
            bytes.chunks_exact(width).enumerate().filter(|(slot, _)| is_valid(*slot)).for_each(|(_, value)| see(XxHash64::oneshot(0, value)));
        }
        Values::Bytes(array) => {
            array.iter().enumerate().filter(|(slot, _)| is_valid(*slot)).for_each(|(_, value)| see(XxHash64::oneshot(0, value.unwrap_or_default())));
        }
    }
}

/// The hashes of the values of a chunk that is being filled.
#[derive(Debug, Default)]
pub(super) struct BloomBuilder {
    hashes: Vec<u64>,
    /// How many to have before those that are there twice are looked for.
    sort_at: usize,
}

impl BloomBuilder {
    const SORT_AT_LEAST: usize = 1 << 17;

    pub(super) fn push(&mut self, values: &Values, nulls: Option<&NullBuffer>) {
        for_each_hash(values, nulls, |hash| self.hashes.push(hash));
        if self.hashes.len() > self.sort_at.max(Self::SORT_AT_LEAST) {
            self.sort();
            self.sort_at = 2 * self.hashes.len();
        }
    }

    fn sort(&mut self) {
        self.hashes.sort_unstable();
        self.hashes.dedup();
    }

    pub(super) fn memory_size(&self) -> usize {
        self.hashes.len() * size_of::<u64>()
    }

    /// The filter, and how many blocks it has: about so many that of values which the chunk does not have, a part of `false_positives` seems to be there.
    /// `None` without values.
    pub(super) fn finish(mut self, false_positives: f64, checksums: bool) -> Option<(Vec<u8>, u32)> {
        self.sort();
        let block_count = blocks_for(self.hashes.len(), false_positives)?;
        let mut words = vec![[0_u32; 8]; block_count as usize];
        for hash in self.hashes {
            if let Some(block) = words.get_mut(block_of(hash, block_count)) {
                block.iter_mut().zip(mask(hash)).for_each(|(word, bit)| *word |= bit);
            }
        }
        Some((words.chunks(PAGE_BLOCKS).flat_map(|blocks| page(blocks, checksums)).collect(), block_count))
    }
}

/// How many blocks it takes.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a number of blocks, which is limited")]
fn blocks_for(values: usize, false_positives: f64) -> Option<u32> {
    let mut per_block = 64.0;
    while wrong_part(per_block) > false_positives {
        per_block /= 1.02;
    }
    (values > 0).then(|| (values as f64 / per_block).ceil().clamp(1.0, f64::from(BLOCKS_MAX)) as u32)
}

/// Of the values that are not there, the part that seems to be, where there are so many values for each block: some have more of them (Poisson), and with i
/// values in a block, a bit in each of its 8 words is set with a probability of 1 - (31/32)^i.
fn wrong_part(per_block: f64) -> f64 {
    let mut part = 0.0;
    let (mut probability, mut clear) = ((-per_block).exp(), 1.0_f64);
    for values in 1..=256 {
        probability *= per_block / f64::from(values);
        clear *= 31.0 / 32.0;
        part += probability * (1.0 - clear).powi(8);
    }
    part
}

fn page(blocks: &[[u32; 8]], checksums: bool) -> Vec<u8> {
    let mut page = vec![0; PAGE_HEADER];
    page.extend(blocks.iter().flatten().flat_map(|word| word.to_le_bytes()));
    if checksums {
        let crc = crc32fast::hash(&page[CRC..]);
        page[..CRC].copy_from_slice(&crc.to_le_bytes());
    }
    page
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float32Array, Int64Array, StringArray};

    use super::*;
    use crate::format::ErrorKind;

    fn filter(values: &ArrayRef, false_positives: f64) -> (Vec<u8>, BloomDesc) {
        let mut builder = BloomBuilder::default();
        // Twice, which makes no difference.
        for _ in 0..2 {
            builder.push(&leaf_values(values).unwrap(), values.nulls());
        }
        let (bytes, blocks) = builder.finish(false_positives, true).unwrap();
        let desc = BloomDesc::new(800, blocks);
        assert_eq!(desc.range(), 800..800 + bytes.len() as u64);
        (bytes, desc)
    }

    fn may_have(bytes: &[u8], desc: &BloomDesc, hash: u64) -> Result<bool> {
        let page = desc.page(hash);
        desc.may_have(&bytes[usize::try_from(page.start - 800).unwrap()..usize::try_from(page.end - 800).unwrap()], hash, true)
    }

    fn numbers(range: Range<i64>) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(range))
    }

    #[test]
    fn what_is_there_is_found_and_little_of_what_is_not() {
        for (count, false_positives) in [(1, 0.01), (100, 0.01), (50_000, 0.1), (50_000, 0.01), (50_000, 0.001)] {
            let (bytes, desc) = filter(&numbers(0..count), false_positives);
            assert!(hashes(&numbers(0..count)).unwrap().into_iter().all(|hash| may_have(&bytes, &desc, hash).unwrap()));
            let others = hashes(&numbers(1_000_000..1_100_000)).unwrap();
            let wrong = others.into_iter().filter(|hash| may_have(&bytes, &desc, *hash).unwrap()).count();
            assert!(wrong as f64 <= false_positives * 100_000.0 * 1.2, "{wrong} of {count} at {false_positives}");
        }
    }

    #[test]
    fn nulls_are_not_there_and_text_is() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("some longer text than a view holds")]));
        let (bytes, desc) = filter(&texts, 0.0001);
        let found = |text: &str| may_have(&bytes, &desc, XxHash64::oneshot(0, text.as_bytes())).unwrap();
        assert!(found("a") && found("some longer text than a view holds") && !found("") && !found("b"));
        let nulls: ArrayRef = Arc::new(Int64Array::from(vec![None; 9]));
        let mut builder = BloomBuilder::default();
        builder.push(&leaf_values(&nulls).unwrap(), nulls.nulls());
        assert!(builder.finish(0.01, true).is_none());
    }

    #[test]
    fn a_number_has_the_hash_and_the_bits_that_the_specification_says() {
        // XXH64 of eight bytes, as its reference implementation has it.
        assert_eq!(XxHash64::oneshot(0, &[]), 0xEF46_DB37_51D8_E999);
        assert_eq!(block_of(0x8000_0000_0000_0000, 10), 5);
        assert_eq!(block_of(u64::MAX, 10), 9);
        assert_eq!(mask(1), [1 << 8, 1 << 8, 1 << 17, 1 << 20, 1 << 14, 1 << 5, 1 << 19, 1 << 11]);
        assert_eq!(mask(7 << 32), [1; 8]);
    }

    #[test]
    fn damage_is_found_and_places_are_checked() {
        let (bytes, desc) = filter(&numbers(0..1000), 0.01);
        let hash = hashes(&numbers(7..8)).unwrap()[0];
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let page = desc.page(hash);
            if page.contains(&(800 + (bit / 8) as u64)) {
                assert_eq!(may_have(&flipped, &desc, hash).unwrap_err().kind(), ErrorKind::Checksum, "bit {bit}");
            }
        }
        assert!(desc.may_have(&bytes[..20], hash, false).is_err());
        let end = desc.range().end;
        assert!(desc.check(&(800..end)).is_ok());
        for (desc, stripe) in
            [(desc, 808..end), (desc, 800..end - 1), (BloomDesc::new(800, 0), 800..end), (BloomDesc::new(u64::MAX - 7, 9), 800..end)]
        {
            assert_eq!(desc.check(&stripe).unwrap_err().kind(), ErrorKind::InvalidFile);
        }
    }

    #[test]
    fn what_is_equal_has_equal_bytes() {
        assert!(can_have_filter(&DataType::Utf8) && can_have_filter(&DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Int64))));
        let floats: ArrayRef = Arc::new(Float32Array::from(vec![0.0]));
        assert!(!can_have_filter(floats.data_type()) && !can_have_filter(&DataType::Boolean) && !can_have_filter(&DataType::Null));
    }
}
