//! The parts of a file are the file, and every fault of it is found.

use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, Int8Array, Int64Array, RecordBatch, StringViewArray};
use bytes::Bytes;
use datafusion_fermion::format::fermion::inspect::{FilePart, InspectColumn, PartKind, VerifyColumn, column_layout, file_layout, file_parts};
use datafusion_fermion::format::fermion::{OpenOptions, WriterOptions};
use datafusion_fermion::format::scan::Section;
use datafusion_fermion::format::{Error, ErrorKind, Result};
use proptest::prelude::*;
use rand::Rng;

use crate::bloom;
use crate::drive::{load, open, read_all, write};
use crate::mended::Parts;
use crate::random;

pub(crate) fn verify(file: &Bytes) -> Result<Vec<Error>> {
    let meta = open(file, &OpenOptions::default())?;
    let columns = 0..meta.column_count();
    let faults = columns.map(|column| load(file, VerifyColumn::new(&meta, column)?)).collect::<Result<Vec<_>>>()?;
    Ok(faults.into_iter().flatten().collect())
}

pub(crate) fn parts(file: &Bytes) -> Result<Vec<FilePart>> {
    let meta = open(file, &OpenOptions::default())?;
    let mut parts = file_parts(&meta);
    for column in 0..meta.column_count() {
        parts.extend(load(file, InspectColumn::new(&meta, column))?);
    }
    parts.sort_by_key(|part| (part.range.start, part.range.end));
    Ok(parts)
}

/// Parts lie one behind the other, and what they add up to is what the metadata says.
pub(crate) fn check_parts(file: &Bytes) {
    let parts = parts(file).unwrap();
    let end = parts.iter().fold(0, |end, part| {
        assert_eq!(part.range.start, end, "{part:?}");
        part.range.end
    });
    assert_eq!(end, file.len() as u64);
    let sum = |kinds: &[PartKind]| parts.iter().filter(|part| kinds.contains(&part.kind)).map(|part| part.range.end - part.range.start).sum::<u64>();
    let meta = open(file, &OpenOptions::default()).unwrap();
    let layout = file_layout(&meta);
    assert_eq!(sum(&[PartKind::Page, PartKind::Dictionary, PartKind::BloomFilter]), layout.data_bytes);
    assert_eq!(sum(&[PartKind::ColumnMetadata]), layout.column_metadata_bytes);
    let columns: Vec<_> = (0..meta.column_count()).map(|column| column_layout(&meta, column).unwrap()).collect();
    assert_eq!(sum(&[PartKind::Page]), columns.iter().map(|column| column.page_bytes).sum::<u64>());
    assert_eq!(sum(&[PartKind::Dictionary]), columns.iter().map(|column| column.dictionary_bytes).sum::<u64>());
    assert_eq!(sum(&[PartKind::BloomFilter]), columns.iter().map(|column| column.bloom_filter_bytes).sum::<u64>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..Default::default() })]

    #[test]
    fn a_whole_file_has_no_faults_and_is_its_parts(seed: u64) {
        let (schema, batches) = random::table(seed);
        let mut rng = random::rng(seed ^ 4);
        let options = WriterOptions { page_rows: 1024, stripe_rows: [1000, 3000][rng.random_range(0..2)], checksums: rng.random_bool(0.5), ..Default::default() };
        let file = write(&schema, &batches, options).unwrap();
        prop_assert_eq!(verify(&file).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new());
        check_parts(&file);
    }
}

#[test]
fn filters_and_dictionaries_are_parts_too() {
    let batch = bloom::table(5000);
    let file = write(&batch.schema(), std::slice::from_ref(&batch), bloom::options(&batch, 2000)).unwrap();
    assert!(verify(&file).unwrap().is_empty());
    check_parts(&file);
    let parts = parts(&file).unwrap();
    assert_eq!(parts.iter().filter(|part| part.kind == PartKind::BloomFilter).count(), 3 * 7);
}

#[test]
fn every_flipped_bit_is_a_fault_or_does_not_matter() {
    let batch = bloom::table(60);
    let file = write(&batch.schema(), std::slice::from_ref(&batch), bloom::options(&batch, 20)).unwrap();
    let expected = read_all(&file, 64).unwrap();
    let mut found = 0;
    for at in 0..file.len() {
        let mut broken = file.to_vec();
        broken[at] ^= 1 << (at % 8);
        let broken = Bytes::from(broken);
        match verify(&broken) {
            Ok(faults) if faults.is_empty() => assert!(read_all(&broken, 64).unwrap() == expected, "byte {at}"),
            Ok(faults) => {
                assert!(
                    faults.iter().all(|fault| matches!(fault.kind(), ErrorKind::Checksum | ErrorKind::InvalidFile)
                        && fault.column().is_some()
                        && fault.offset().is_some()),
                    "{faults:?}"
                );
                found += 1;
            }
            // Without its footer, schema or lists there is no file.
            Err(error) => assert!(
                matches!(error.section(), Some(Section::Footer | Section::Schema | Section::ColumnIndex | Section::StripeDirectory)) || at < 8,
                "{error}"
            ),
        }
    }
    assert!(found > file.len() / 2, "{found} of {}", file.len());
}

#[test]
fn a_fault_in_one_stripe_does_not_hide_one_in_another() {
    let batch = bloom::table(60);
    let file = write(&batch.schema(), std::slice::from_ref(&batch), bloom::options(&batch, 20)).unwrap();
    let pages: Vec<FilePart> = parts(&file).unwrap().into_iter().filter(|part| part.kind == PartKind::Page).collect();
    let mut broken = file.to_vec();
    for part in [pages.first().unwrap(), pages.last().unwrap()] {
        broken[usize::try_from(part.range.start).unwrap() + 20] ^= 1;
    }
    let faults = verify(&Bytes::from(broken)).unwrap();
    let offsets: Vec<_> = faults.iter().map(Error::offset).collect();
    assert_eq!(offsets, [pages.first(), pages.last()].map(|part| part.map(|part| part.range.start)));
}

/// Of arrays that Arrow cannot join, or not without more memory than there is.
#[test]
fn dictionaries_of_many_batches_are_checked_too() {
    let words = |count: usize| -> ArrayRef {
        let keys = Int8Array::from_iter_values((0..40_000).map(|row| i8::try_from(row / 8192 * 7 % 10).unwrap()));
        let values = StringViewArray::from_iter_values((0..count).map(|word| format!("a word that is longer than a view {word}")));
        Arc::new(DictionaryArray::new(keys, Arc::new(values)))
    };
    let batch = RecordBatch::try_from_iter([("w", words(100))]).unwrap();
    let file = write(&batch.schema(), &[batch], WriterOptions::default()).unwrap();
    assert!(verify(&file).unwrap().is_empty());
}

/// What every checksum covers can still be wrong.
#[test]
fn metadata_that_lies_is_found() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter((0..4000).map(|row| (row % 10 != 3).then_some(row))));
    let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    let options = WriterOptions { page_rows: 1024, ..Default::default() };
    let file = write(&batch.schema(), &[batch], options).unwrap();
    assert!(verify(&file).unwrap().is_empty());
    let lies = |from: &[u8], to: &[u8]| {
        let mut lying = file.to_vec();
        let cmb = parts(&file).unwrap().into_iter().find(|part| part.kind == PartKind::ColumnMetadata).unwrap().range;
        let place = (usize::try_from(cmb.start).unwrap()..).find(|at| lying[*at..].starts_with(from)).unwrap();
        assert!((place as u64) < cmb.end);
        lying[place..place + to.len()].copy_from_slice(to);
        Parts::of(&file).mend(&mut lying);
        verify(&Bytes::from(lying)).unwrap()
    };
    // The bounds of the second page, 1024 to 2047, behind its 1024 rows.
    let meta = |min: i64, max: i64| [&1024_u32.to_le_bytes()[..], &min.to_le_bytes(), &max.to_le_bytes()].concat();
    for (min, max, what) in [(1025, 2047, "below its lower bound"), (1024, 2046, "above its upper bound")] {
        let faults = lies(&meta(1024, 2047), &meta(min, max));
        assert_eq!((faults.len(), faults[0].section()), (1, Some(Section::ColumnMetadata)));
        assert!(faults[0].to_string().contains(what), "{}", faults[0]);
    }
    // The bounds of the chunk, 0 to 3999, behind its flags: they, too, and that they are values.
    let desc = |min: i64, max: i64| [&0b11_0111_u32.to_le_bytes()[..], &min.to_le_bytes(), &max.to_le_bytes()].concat();
    for (min, max, what) in [
        (1, 3999, "below its lower bound"),
        (0, 100, "above its upper bound"),
        (-5, 3999, "the least value that is said"),
        (0, 4000, "the greatest value that is said"),
    ] {
        let faults = lies(&desc(0, 3999), &desc(min, max));
        assert!(faults.len() == 1 && faults[0].to_string().contains(what), "{faults:?}");
    }
    // The nulls of the first page, 103, before its flags.
    let ext = |nulls: u32| [nulls.to_le_bytes(), 0b10_0111_u32.to_le_bytes()].concat();
    let faults = lies(&ext(103), &ext(102));
    assert!(faults[0].to_string().contains("have 103 nulls, and 102 were counted"), "{}", faults[0]);
}
