//! Files of earlier versions are read for ever. A golden file is written once, by the version that brought its feature, and then never again.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use datafusion_fermion::format::codec::{Compression, EncodingId, EncodingTree, PType};
use datafusion_fermion::format::fermion::cmb::{Chunk, StreamType};
use datafusion_fermion::format::fermion::page::{PageExpect, PageHeader, describe};
use datafusion_fermion::format::fermion::{ColumnMeta, OpenOptions, WriterOptions};

use crate::drive::{load, open, read_all, write};
use crate::{golden_types, random};

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/format/golden").join(name)
}

/// Reads the golden file `name` and compares it with the batches it was made of. Where it does not exist yet, writes it and fails, so that it is
/// looked at before it is committed.
fn check(name: &str, batches: &[RecordBatch], options: WriterOptions) {
    let schema = batches[0].schema();
    let path = path(name);
    if !path.exists() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, write(&schema, batches, options).unwrap()).unwrap();
        panic!("{} has been written; commit it", path.display());
    }
    let (read_schema, read) = read_all(&Bytes::from(std::fs::read(path).unwrap()), 8192).unwrap();
    assert_eq!(read_schema, schema);
    for (i, field) in schema.fields().iter().enumerate() {
        let concat = |batches: &[RecordBatch]| {
            let arrays: Vec<_> = batches.iter().map(|batch| batch.column(i).as_ref()).collect();
            arrow::compute::concat(&arrays).unwrap()
        };
        assert_eq!(&concat(batches), &concat(&read), "{field:?}");
    }
}

/// Batches that are the same on every machine: arithmetic alone, no random generator that a new version of a library could change.
mod tables {
    use super::*;
    use arrow::array::*;
    use arrow::datatypes::{DataType, Field, Int32Type, Schema};

    pub(super) fn flat() -> RecordBatch {
        let rows = 3000_i64;
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("constant", Arc::new(Int32Array::from(vec![7; 3000]))),
            ("ascending", Arc::new(Int64Array::from_iter_values((0..rows).map(|i| 1_000_000 + 3 * i)))),
            ("small", Arc::new(UInt16Array::from_iter_values((0..3000_u16).map(|i| i.wrapping_mul(40_503) % 100)))),
            ("outliers", Arc::new(Int64Array::from_iter_values((0..rows).map(|i| if i % 500 == 7 { i64::MIN + i } else { i % 16 })))),
            ("runs", Arc::new(Int32Array::from_iter_values((0..3000).map(|i| i / 250)))),
            (
                "words",
                Arc::new(StringArray::from_iter(
                    (0..rows).map(|i| (i % 11 != 0).then(|| ["red", "green", "a long name of a colour"][usize::try_from(i % 3).unwrap()])),
                )),
            ),
            ("text", Arc::new(StringViewArray::from_iter_values((0..rows).map(|i| format!("row {i} of the golden file, {}", i * i))))),
            ("float", Arc::new(Float64Array::from_iter((0..rows).map(|i| (i % 5 != 0).then_some(i as f64 * 0.25))))),
            ("bool", Arc::new(BooleanArray::from_iter((0..rows).map(|i| (i % 13 != 0).then_some(i % 3 == 0))))),
            ("wide", Arc::new(Decimal128Array::from_iter_values((0..3000_i128).map(|i| i * i)).with_precision_and_scale(30, 2).unwrap())),
            ("null", new_null_array(&DataType::Utf8, 3000)),
        ];
        batch(columns)
    }

    /// Sentences that do not come again, of words that do, empty ones and nulls.
    pub(super) fn sentences() -> RecordBatch {
        let mix = |number: u64, shift: u32, factor: u64| (number ^ number >> shift).wrapping_mul(factor);
        let noise = |row: u64| mix(mix((row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15), 30, 0xBF58_476D_1CE4_E5B9), 27, 0x94D0_49BB_1331_11EB) >> 20;
        let word =
            |number: u64| format!("{}{}", ["quick", "lazy", "über", "even", "final", "slow"][usize::try_from(number % 6).unwrap()], number / 6 % 40);
        let sentence = |row: u64| (0..noise(row) % 9).map(|place| word(noise(row * 9 + place))).collect::<Vec<_>>().join(" ");
        batch(vec![("sentence", Arc::new(StringViewArray::from_iter((0..3000).map(|row| (row % 11 != 3).then(|| sentence(row))))))])
    }

    /// Addresses and numbers that come again in each page, and between them rows that are all new.
    pub(super) fn visits() -> RecordBatch {
        let noise = |row: u64| (row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let visited = |row: u64| if row / 1000 % 3 == 2 { 1_000_000 + row } else { (noise(row) >> 40) % 500 };
        let address = |row: u64| format!("https://example.org/{}/ä/{}", visited(row) % 7, noise(visited(row)));
        batch(vec![
            ("address", Arc::new(StringViewArray::from_iter((0..6000).map(|row| (row % 7 != 3 && row / 512 % 5 != 2).then(|| address(row)))))),
            ("number", Arc::new(UInt64Array::from_iter_values((0..6000).map(|row| noise(visited(row)))))),
            ("bytes", Arc::new(FixedSizeBinaryArray::try_from_iter((0..6000).map(|row| noise(visited(row) % 500).to_be_bytes())).unwrap())),
            ("few", Arc::new(Int64Array::from_iter_values((0..6000).map(|row| row % 3)))),
        ])
    }

    /// Addresses of which every other one has not been there before, and their numbers.
    pub(super) fn growing() -> RecordBatch {
        let noise = |row: u64| ((row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ row << 17).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let visited = |row: u64| if noise(row) >> 63 == 0 { row } else { noise(row) % (row / 8 + 1) };
        let address = |row: u64| format!("https://example.org/{}", noise(visited(row)));
        batch(vec![
            ("address", Arc::new(StringViewArray::from_iter((0..12_000).map(|row| (row % 7 != 3).then(|| address(row)))))),
            ("number", Arc::new(UInt64Array::from_iter_values((0..12_000).map(|row| noise(visited(row)))))),
        ])
    }

    pub(super) fn nested() -> RecordBatch {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(
            (0..2000).map(|i| (i % 6 != 1).then(|| (0..i % 5).map(move |v| (v != 3).then_some(i * v)))),
        );
        let ints: ArrayRef = Arc::new(Int32Array::from_iter((0..2000).map(|i| (i % 2 == 0).then_some(i))));
        let structs =
            StructArray::try_new(vec![Field::new("a", DataType::Int32, true)].into(), vec![ints], Some((0..2000).map(|i| i % 9 != 0).collect()));
        batch(vec![("list", Arc::new(lists)), ("struct", Arc::new(structs.unwrap()))])
    }

    /// Text of words, with nulls and characters of more than one byte; and bytes that are no text.
    pub(super) fn text() -> RecordBatch {
        const WORDS: [&str; 16] = [
            "carefully",
            "final",
            "deposits",
            "sleep",
            "furiously",
            "among",
            "the",
            "ironic",
            "requests",
            "accounts",
            "über",
            "blithely",
            "even",
            "packages",
            "naïve",
            "haggle",
        ];
        let sentence = |row: u64| {
            let words = (0..4 + row % 5).map(|word| WORDS[usize::try_from((row * 31 + word + 7).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60).unwrap()]);
            words.collect::<Vec<_>>().join(" ")
        };
        let bytes = |row: u64| [sentence(row).into_bytes(), row.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()[6..].to_vec()].concat();
        batch(vec![
            ("sentences", Arc::new(StringViewArray::from_iter((0..3000).map(|row| (row % 7 != 3).then(|| sentence(row)))))),
            ("bytes", Arc::new(BinaryArray::from_iter_values((0..3000).map(bytes)))),
        ])
    }

    /// Numbers of which some bytes are much like those of others, signed and not, with nulls; and times that jump back at the end of each visit.
    pub(super) fn bytes() -> RecordBatch {
        let noise = |row: u64| ((row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ row.wrapping_mul(0xD6E8_FEB8_6659_FD93)) >> 24;
        let skewed = |row: u64| noise(row) % 256 + noise(row + 9) % 4 * 0x3B00 + noise(row + 77) % 256 * 0x1_0000;
        let signed = |row: u64| i64::try_from(skewed(row)).unwrap() - 0x60_0000;
        let time = |row: u64| 1_375_000_000 + i64::try_from(noise(row / 16) % 2_600_000 + row % 16 * 20 + noise(row) % 20).unwrap();
        let valid = |row: u64| row % 9 != 4;
        batch(vec![
            ("i64", Arc::new(Int64Array::from_iter((0..6000).map(|row| valid(row).then(|| signed(row) << 20 | 0xABCDE))))),
            ("i32", Arc::new(Int32Array::from_iter((0..6000).map(|row| valid(row).then(|| i32::try_from(signed(row)).unwrap()))))),
            ("u64", Arc::new(UInt64Array::from_iter_values((0..6000).map(|row| skewed(row) + (1 << 63) - 5)))),
            ("u16", Arc::new(UInt16Array::from_iter_values((0..6000).map(|row| u16::try_from(skewed(row) & 0xFFFF).unwrap())))),
            ("time", Arc::new(TimestampSecondArray::from_iter_values((0..6000).map(time)))),
        ])
    }

    /// Prices, some of them unknown or not quite prices; and numbers with digits to the end.
    pub(super) fn floats() -> RecordBatch {
        let noise = |row: u32| (u64::from(row) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let price = |row: u32| match row % 50 {
            7 => f64::NAN,
            9 => -0.0,
            11 => 1.0 / f64::from(row),
            _ => f64::from(row * 37 % 100_000) / 100.0,
        };
        let measured = |row: u32| 10.0 + f64::from_bits(noise(row) >> 12 | 1023 << 52);
        let measured32 = |row: u32| 10.0 + f32::from_bits(u32::try_from(noise(row) >> 41).unwrap() | 127 << 23);
        batch(vec![
            ("price", Arc::new(Float64Array::from_iter((0..3000).map(|row| (row % 7 != 3).then(|| price(row)))))),
            ("price32", Arc::new(Float32Array::from_iter_values((0..3000_u16).map(|row| f32::from(row * 7 % 1000) / 10.0)))),
            ("measured", Arc::new(Float64Array::from_iter_values((0..3000).map(measured)))),
            ("measured32", Arc::new(Float32Array::from_iter_values((0..3000).map(measured32)))),
        ])
    }

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        let fields: Vec<Field> = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, array)| array).collect()).unwrap()
    }
}

#[test]
fn v1_0_flat() {
    check("v1.0_flat.fermion", &[tables::flat()], WriterOptions { page_rows: 2048, stripe_rows: 2500, ..Default::default() });
}

#[test]
fn v1_0_nested() {
    check("v1.0_nested.fermion", &[tables::nested()], WriterOptions { page_rows: 1024, ..Default::default() });
}

#[test]
fn v1_0_planes() {
    let options = WriterOptions { page_rows: 4096, compression: Compression::Small, zstd_level: Some(9), ..Default::default() };
    check("v1.0_planes.fermion", &[tables::bytes()], options);
    assert!(encodings(&Bytes::from(std::fs::read(path("v1.0_planes.fermion")).unwrap())).contains(&EncodingId::Planes.id()));
}

#[test]
fn v1_0_text() {
    let files = [
        ("v1.0_onpair.fermion", tables::text(), 2048, EncodingId::OnPairLengths),
        ("v1.0_onpair_counts.fermion", tables::sentences(), 4096, EncodingId::OnPair),
    ];
    for (name, batch, rows, encoding) in files {
        check(name, &[batch], WriterOptions { page_rows: rows, ..Default::default() });
        assert!(encodings(&Bytes::from(std::fs::read(path(name)).unwrap())).contains(&encoding.id()), "{name}");
    }
}

#[test]
fn v1_0_floats() {
    check("v1.0_alp.fermion", &[tables::floats()], WriterOptions { page_rows: 2048, ..Default::default() });
}

#[test]
fn v1_0_dictionaries() {
    let name = "v1.0_dictionary.fermion";
    check(name, &[tables::visits()], WriterOptions { page_rows: 512, stripe_rows: 4096, ..Default::default() });
    let file = Bytes::from(std::fs::read(path(name)).unwrap());
    assert_eq!(shared_pages(&file), [(10, 12), (12, 12), (12, 12), (0, 12)]);
}

#[test]
fn v1_0_growing_dictionaries() {
    let name = "v1.0_first_seen.fermion";
    check(name, &[tables::growing()], WriterOptions { page_rows: 4096, stripe_rows: 8192, ..Default::default() });
    assert!(encodings(&Bytes::from(std::fs::read(path(name)).unwrap())).contains(&EncodingId::FirstSeen.id()));
}

#[test]
fn v1_0_bloom_filters() {
    let batch = crate::bloom::table(3000);
    check("v1.0_bloom.fermion", std::slice::from_ref(&batch), crate::bloom::options(&batch, 2000));
}

#[test]
fn v1_0_totals() {
    let (batch, _) = crate::totals::file(WriterOptions::default());
    check("v1.0_totals.fermion", &[batch], WriterOptions { page_rows: 1024, stripe_rows: 2000, ..Default::default() });
    crate::totals::check_table(&Bytes::from(std::fs::read(path("v1.0_totals.fermion")).unwrap()));
}

#[test]
fn v1_0_no_cit() {
    let name = "v1.0_no_cit.fermion";
    check(name, &[tables::flat()], WriterOptions { page_rows: 2048, stripe_rows: 2500, no_cit_below: 4 << 20, ..Default::default() });
    let meta = open(&Bytes::from(std::fs::read(path(name)).unwrap()), &OpenOptions::default()).unwrap();
    assert!(!meta.footer().has_cit());
}

#[test]
fn v1_0_batches() {
    let (schema, batches) = crate::batches::batches();
    let path = path("v1.0_batches.fermion");
    if !path.exists() {
        std::fs::write(&path, crate::batches::write(&schema, &batches, crate::batches::SMALL).unwrap()).unwrap();
        panic!("{} has been written; commit it", path.display());
    }
    crate::batches::check_read(&Bytes::from(std::fs::read(path).unwrap()), &batches, 8192);
}

#[test]
fn v1_0_without_checksums_and_compression() {
    let options = WriterOptions { checksums: false, zstd_level: None, statistics: false, ..Default::default() };
    check("v1.0_plain.fermion", &[tables::flat()], options);
}

#[test]
fn v1_0_types() {
    let path = path("v1.0_types.fermion");
    let made = golden_types::file();
    if !path.exists() {
        std::fs::write(&path, &made).unwrap();
        panic!("{} has been written; commit it", path.display());
    }
    let file = Bytes::from(std::fs::read(path).unwrap());
    assert_eq!(file, made, "the file is what the specification says");
    let (schema, batches) = read_all(&file, 8192).unwrap();
    assert_eq!(batches.len(), 1);
    for ((field, read), (_, expected)) in schema.fields().iter().zip(batches[0].columns()).zip(golden_types::columns()) {
        assert_eq!(read, &expected, "{field:?}");
    }
}

/// The encodings of all pages of a file.
fn encodings(file: &Bytes) -> BTreeSet<u8> {
    fn add(tree: &EncodingTree, found: &mut BTreeSet<u8>) {
        found.insert(tree.encoding.id());
        tree.children.iter().for_each(|child| add(child, found));
    }
    let meta = open(file, &OpenOptions::default()).unwrap();
    let columns: Vec<usize> = (0..meta.column_count()).collect();
    load(file, meta.load_columns(&columns)).unwrap();
    let mut found = BTreeSet::new();
    for column in columns {
        let Some(ColumnMeta::Cmb(cmb)) = meta.column(column).unwrap() else { continue };
        for (stream, stripe) in (0..cmb.streams().len()).flat_map(|stream| (0..meta.stripes().len()).map(move |stripe| (stream, stripe))) {
            let Chunk::Pages(pages) = cmb.chunk(stream, stripe).unwrap() else { continue };
            let start = usize::try_from(pages.offset).unwrap();
            let mut chunk = file.slice(start..start + pages.length as usize);
            while !chunk.is_empty() {
                let page = chunk.split_to(PageHeader::read(&chunk).unwrap().length());
                let ptype = PType::from_id(page[PageHeader::LENGTH + 1]).unwrap();
                let extra = u32::from(cmb.streams().nth(stream).unwrap().stream_type == StreamType::Offsets);
                let expect = PageExpect { ptype, rows: None, extra, checksum: meta.has_checksums(), utf8: false };
                add(&describe(&page, &expect).unwrap(), &mut found);
            }
        }
    }
    found
}

/// Of each column, the pages that share a dictionary, and all that have rows.
fn shared_pages(file: &Bytes) -> Vec<(usize, usize)> {
    let meta = open(file, &OpenOptions::default()).unwrap();
    let columns: Vec<usize> = (0..meta.column_count()).collect();
    load(file, meta.load_columns(&columns)).unwrap();
    let count = |column: usize| {
        let Some(ColumnMeta::Cmb(cmb)) = meta.column(column).unwrap() else { return (0, 0) };
        let mut counts = (0, 0);
        for stripe in 0..meta.stripes().len() {
            let Chunk::Pages(pages) = cmb.chunk(1, stripe).unwrap() else { continue };
            let mut at = usize::try_from(pages.offset).unwrap() + pages.dictionary.iter().map(|size| *size as usize).sum::<usize>();
            for page in &pages.pages {
                let bytes = file.slice(at..at + page.size as usize);
                let ptype = PType::from_id(bytes[PageHeader::LENGTH + 1]).unwrap();
                let expect = PageExpect { ptype, rows: page.rows, extra: 0, checksum: true, utf8: false };
                counts.0 += usize::from(describe(&bytes, &expect).unwrap().is_shared());
                counts.1 += 1;
                at += page.size as usize;
            }
        }
        counts
    };
    columns.into_iter().map(count).collect()
}

#[test]
fn every_encoding_is_in_a_golden_file() {
    let files = std::fs::read_dir(path("")).unwrap().map(|file| file.unwrap().path());
    let found: BTreeSet<u8> = files.flat_map(|file| encodings(&Bytes::from(std::fs::read(file).unwrap()))).collect();
    let known: BTreeSet<u8> = EncodingId::ALL.iter().map(|encoding| encoding.id()).collect();
    assert_eq!(found, known);
}

#[test]
fn random_tables_are_the_same_for_a_seed() {
    let (schema, batches) = random::table(3);
    assert_eq!((schema, batches), random::table(3));
}
