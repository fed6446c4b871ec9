//! CMBs there and back, and CMBs that contradict themselves or the file.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, UnionMode};
use bytes::Bytes;

use super::*;
use crate::format::ErrorKind;
use crate::format::fermion::schema::{leaf_type, stream_layout};
use crate::format::fermion::stripes::Stripe;
use crate::format::scan::Section;

const FILE_LENGTH: u64 = 100_000;

/// Three stripes of 1,000, 2,000 and 500 rows, 10,000 bytes each.
fn stripes() -> Arc<[Stripe]> {
    let stripe = |index: u64, rows| Stripe { offset: 8 + index * 10_000, length: 10_000, rows };
    Arc::new([stripe(0, 1_000), stripe(1, 2_000), stripe(2, 500)])
}

fn page(size: u32, rows: u32, min: i64, max: i64, null_count: u32) -> ChunkPage {
    let flags = ZoneStats::HAS_BOUNDS | ZoneStats::MIN_EXACT | ZoneStats::MAX_EXACT | ZoneStats::HAS_NULL_COUNT;
    ChunkPage { size, rows: Some(rows), stats: ZoneStats { min, max, null_count, flags } }
}

fn simple(stripe: u64, length: u32) -> Chunk {
    Chunk::Pages(Box::new(Pages {
        offset: 8 + stripe * 10_000,
        length,
        stats: ZoneStats::UNKNOWN,
        dictionary: Vec::new(),
        pages: Vec::new(),
        bounds: None,
        filter: None,
    }))
}

fn full(stripe: u64, pages: Vec<ChunkPage>, bounds: Option<Bounds>) -> Chunk {
    let length = pages.iter().map(|page| page.size).sum();
    let mut rows = 0;
    let mut stats = pages[0].stats;
    for page in &pages {
        let page_rows = u64::from(page.rows.unwrap());
        stats = if rows == 0 { page.stats } else { stats.merge(rows, &page.stats, page_rows) };
        rows += page_rows;
    }
    Chunk::Pages(Box::new(Pages { offset: 208 + stripe * 10_000, length, stats, dictionary: Vec::new(), pages, bounds, filter: None }))
}

fn bounds() -> Bounds {
    Bounds { min: Bytes::from_static(b"apple"), max: Bytes::from_static(b"pear tree"), min_exact: true, max_exact: false }
}

fn build(data_type: &DataType, by_stripe: &[Vec<Chunk>], checksum: bool) -> Vec<u8> {
    let mut builder = CmbBuilder::new(data_type);
    for (stripe, chunks) in stripes().iter().zip(by_stripe) {
        builder.push_stripe(stripe.rows, chunks.clone()).unwrap();
    }
    builder.finish(None, checksum).unwrap()
}

#[test]
fn totals_that_are_not_there_are_refused() {
    // One SIMPLE chunk is all that there is: 8 bytes of header, 4 of rows, padding, 2 streams of 8 bytes, and 16 bytes that are too few for totals.
    let stripes: Arc<[Stripe]> = vec![Stripe { offset: 208, length: 16, rows: 1 }].into();
    let mut bytes = [2_u32, 1, 1, 0].map(u32::to_le_bytes).concat();
    bytes.extend([[2_u8, 0, 0, 0], [0; 4], [0, 2, 1, 0], 32_u32.to_le_bytes()].concat());
    bytes.extend([208_u32, 0, 16, 0].map(u32::to_le_bytes).concat());
    bytes.extend([0; 8]);
    let streams = stream_layout(&DataType::Int32);
    let expect = CmbExpect { streams: &streams, is_leaf: true, stripes: &stripes, checksum: false, file_length: FILE_LENGTH };
    let error = Cmb::read(bytes.clone().into(), &expect).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidFile);
    assert!(error.to_string().contains("too short to hold the totals"), "{error}");
    // Without the flag, or in a column that is no plain sequence, nothing is looked for.
    assert!(Cmb::read(bytes.clone().into(), &CmbExpect { is_leaf: false, ..expect }).unwrap().totals().is_none());
    bytes[26] = 0;
    assert!(Cmb::read(bytes.into(), &expect).unwrap().totals().is_none());
}

fn read(data_type: &DataType, bytes: &[u8], checksum: bool) -> crate::format::Result<Cmb> {
    let expect = CmbExpect {
        streams: &stream_layout(data_type),
        is_leaf: leaf_type(data_type).is_some(),
        stripes: &stripes(),
        checksum,
        file_length: FILE_LENGTH,
    };
    Cmb::read(Bytes::copy_from_slice(bytes), &expect)
}

/// All chunks, by stripe and stream.
fn chunks(cmb: &Cmb) -> crate::format::Result<Vec<Vec<Chunk>>> {
    (0..3).map(|stripe| (0..cmb.streams().len()).map(|stream| cmb.chunk(stream, stripe)).collect()).collect()
}

fn list_type() -> DataType {
    DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)))
}

/// Some of everything: validity in all three forms, several pages with and without extensions, bounds.
fn rich() -> Vec<Vec<Chunk>> {
    let mut bare = page(48, 1, 0, 0, 0);
    bare.stats = ZoneStats::UNKNOWN;
    vec![
        vec![Chunk::Default, simple(0, 96), Chunk::AllNull, full(0, vec![page(64, 700, -5, 9, 3), page(32, 300, 4, 4, 0)], Some(bounds()))],
        vec![simple(1, 64), simple(1, 96), simple(1, 80), full(1, vec![bare, bare, bare], None)],
        vec![Chunk::AllNull, Chunk::Default, Chunk::Default, Chunk::Default],
    ]
}

#[test]
fn what_is_described_how_is_as_the_design_says() {
    use Chunk::{AllNull, Default};
    use DescType::{ForceNull, Full, Simple, UseDefault};
    let pages = |stripe: u64| full(stripe, vec![page(64, stripes()[usize::try_from(stripe).unwrap()].rows, 1, 2, 0)], None);
    let offsets = |stripe| simple(stripe, 32);
    // The stream's index in a list of strings, its chunks by stripe, how it is described.
    let table: [(usize, [Chunk; 3], DescType); 9] = [
        (0, [Default, Default, Default], UseDefault),
        (2, [AllNull, AllNull, AllNull], ForceNull),
        (0, [Default, AllNull, Default], Simple),
        (0, [simple(0, 16), Default, AllNull], Simple),
        (1, [Default, Default, Default], UseDefault),
        (1, [offsets(0), Default, offsets(2)], Simple),
        (3, [Default, Default, Default], UseDefault),
        (3, [Default, pages(1), Default], Full),
        (3, [pages(0), pages(1), pages(2)], Full),
    ];
    for (stream, by_stripe, expected) in table {
        let row = |chunk: &Chunk| (0..4).map(|index| if index == stream { chunk.clone() } else { Default }).collect::<Vec<_>>();
        let bytes = build(&list_type(), &by_stripe.iter().map(row).collect::<Vec<_>>(), true);
        let cmb = read(&list_type(), &bytes, true).unwrap();
        assert_eq!(cmb.desc_type(stream), Some(expected), "{by_stripe:?}");
        // 24 of header and stripes, 32 of streams, 8 of CRC.
        let descs = match expected {
            UseDefault | ForceNull => 0,
            Simple => 48,
            Full => 144,
        };
        assert_eq!(bytes.len(), 64 + descs);
        for (stripe, chunk) in by_stripe.iter().enumerate() {
            let mut read = cmb.chunk(stream, stripe).unwrap();
            // Below a list the metadata does not know the rows of the only page.
            if let (Chunk::Pages(read), Chunk::Pages(chunk)) = (&mut read, chunk)
                && let (Some(page), Some(written)) = (read.pages.first_mut(), chunk.pages.first())
            {
                assert_eq!(page.rows.take(), None);
                page.rows = written.rows;
            }
            assert_eq!(read, *chunk);
        }
    }
}

#[test]
fn a_column_that_is_null_in_every_row_has_no_cmb() {
    let all_null = vec![vec![Chunk::AllNull, Chunk::Default]; 3];
    assert!(build(&DataType::Int8, &all_null, true).is_empty());
    assert!(build(&DataType::Null, &vec![vec![]; 3], true).is_empty());
    assert!(build(&DataType::Int8, &[], true).is_empty());
    let one_valid = vec![vec![Chunk::AllNull, Chunk::Default], vec![Chunk::Default, Chunk::Default], vec![Chunk::AllNull, Chunk::Default]];
    assert!(!build(&DataType::Int8, &one_valid, true).is_empty());
}

#[test]
fn reads_what_was_written() {
    for checksum in [false, true] {
        let bytes = build(&list_type(), &rich(), checksum);
        assert_eq!(bytes.len() % 8, 0);
        let cmb = read(&list_type(), &bytes, checksum).unwrap();
        assert_eq!(chunks(&cmb).unwrap(), rich());
    }
}

#[test]
fn the_only_page_of_a_flat_chunk_has_the_rows_of_the_stripe_and_the_numbers_of_the_chunk() {
    let chunk = |stripe: u64, rows| full(stripe, vec![page(64, rows, -1, 1, 5)], None);
    let by_stripe: Vec<_> = [(0, 1_000), (1, 2_000), (2, 500)].map(|(stripe, rows)| vec![simple(stripe, 64), chunk(stripe, rows)]).into();
    let cmb = read(&DataType::Int64, &build(&DataType::Int64, &by_stripe, true), true).unwrap();
    assert_eq!(chunks(&cmb).unwrap(), by_stripe);
    assert_eq!((cmb.null_count(0).unwrap(), cmb.null_count(3).unwrap_err().kind()), (Some(5), ErrorKind::InvalidArgument));
}

#[test]
fn null_counts_come_from_validity_or_from_the_values_of_a_plain_column() {
    let data = full(2, vec![page(64, 500, 0, 1, 7)], None);
    let valid = full(0, vec![page(64, 1_000, 0, 1, 0)], None);
    let flat = vec![vec![Chunk::Default, valid], vec![Chunk::AllNull, Chunk::Default], vec![simple(2, 16), data.clone()]];
    let cmb = read(&DataType::Int8, &build(&DataType::Int8, &flat, true), true).unwrap();
    let counts: Vec<_> = (0..3).map(|stripe| cmb.null_count(stripe).unwrap()).collect();
    assert_eq!(counts, [Some(0), Some(2_000), Some(7)]);
    let nested = read(&list_type(), &build(&list_type(), &rich(), true), true).unwrap();
    let counts: Vec<_> = (0..3).map(|stripe| nested.null_count(stripe).unwrap()).collect();
    assert_eq!(counts, [Some(0), None, Some(500)]);
}

#[test]
fn with_a_checksum_every_flipped_bit_is_found_and_every_cut() {
    let bytes = build(&list_type(), &rich(), true);
    let unchecked = bytes.len() - 4..bytes.len();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let result = read(&list_type(), &flipped, true);
        if unchecked.contains(&(bit / 8)) {
            assert_eq!(chunks(&result.unwrap()).unwrap(), rich(), "reserved byte {}", bit / 8);
        } else {
            let error = result.unwrap_err();
            assert_eq!((error.kind(), error.section()), (ErrorKind::Checksum, Some(Section::ColumnMetadata)));
        }
    }
    for length in 0..bytes.len() {
        let kind = read(&list_type(), &bytes[..length], true).unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::Checksum | ErrorKind::InvalidFile), "{length}: {kind}");
    }
}

#[test]
fn without_a_checksum_flips_and_cuts_never_panic() {
    let bytes = build(&list_type(), &rich(), false);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Err(error) = read(&list_type(), &flipped, false).and_then(|cmb| chunks(&cmb)) {
            assert_eq!(error.section(), Some(Section::ColumnMetadata), "bit {bit}");
        }
    }
    for length in 0..bytes.len() {
        let _error_or_less = read(&list_type(), &bytes[..length], false).and_then(|cmb| chunks(&cmb));
    }
}

#[test]
fn descriptors_that_contradict_the_file_are_refused() {
    let pages = vec![page(64, 700, -5, 9, 3), page(32, 300, 4, 4, 0)];
    let by_stripe = vec![vec![Chunk::Default, full(0, pages, Some(bounds()))], vec![Chunk::Default; 2], vec![Chunk::Default; 2]];
    let bytes = build(&DataType::Utf8, &by_stripe, false);
    let desc = 24 + 16;
    let pool = desc + 3 * 48;
    let cases: [(&str, usize, Vec<u8>, ErrorKind); 16] = [
        ("before the stripe", desc, 0_u64.to_le_bytes().into(), ErrorKind::InvalidFile),
        ("in another stripe", desc, 10_008_u64.to_le_bytes().into(), ErrorKind::InvalidFile),
        ("beyond the file", desc, 100_000_u64.to_le_bytes().into(), ErrorKind::Eof),
        ("at the end of numbers", desc, u64::MAX.to_le_bytes().into(), ErrorKind::Eof),
        ("not at a multiple of 8", desc, 115_u64.to_le_bytes().into(), ErrorKind::InvalidFile),
        ("odd length", desc + 8, 97_u32.to_le_bytes().into(), ErrorKind::InvalidFile),
        ("length of null", desc + 8, u32::MAX.to_le_bytes().into(), ErrorKind::Eof),
        ("min above max", desc + 16, 10_i64.to_le_bytes().into(), ErrorKind::InvalidFile),
        ("more nulls than rows", desc + 32, 1_001_u32.to_le_bytes().into(), ErrorKind::InvalidFile),
        ("pages without end", desc + 36, u32::MAX.to_le_bytes().into(), ErrorKind::InvalidFile),
        ("pages elsewhere", desc + 40, 1_u32.to_le_bytes().into(), ErrorKind::InvalidFile),
        ("bounds elsewhere", desc + 44, 0xffff_fff8_u32.to_le_bytes().into(), ErrorKind::InvalidFile),
        ("page sizes", pool, 72_u32.to_le_bytes().into(), ErrorKind::InvalidFile),
        ("page too small", pool, 8_u32.to_le_bytes().into(), ErrorKind::InvalidFile),
        ("page rows", pool + 4, 701_u32.to_le_bytes().into(), ErrorKind::InvalidFile),
        ("bounds without end", pool + 64, u32::MAX.to_le_bytes().into(), ErrorKind::InvalidFile),
    ];
    for (what, at, patch, kind) in cases {
        let mut bad = bytes.clone();
        bad[at..at + patch.len()].copy_from_slice(&patch);
        let error = read(&DataType::Utf8, &bad, false).unwrap().chunk(1, 0).unwrap_err();
        assert_eq!((error.kind(), error.section()), (kind, Some(Section::ColumnMetadata)), "{what}: {error}");
    }
}

#[test]
fn heads_that_contradict_the_file_are_refused() {
    let by_stripe = vec![vec![Chunk::Default, full(0, vec![page(64, 1_000, 0, 0, 0)], None)], vec![Chunk::Default; 2], vec![Chunk::Default; 2]];
    let bytes = build(&DataType::Utf8, &by_stripe, false);
    let cases: [(&str, usize, u8, ErrorKind); 8] = [
        ("streams", 0, 3, ErrorKind::InvalidFile),
        ("stripes", 4, 2, ErrorKind::InvalidFile),
        ("rows", 8, 1, ErrorKind::InvalidFile),
        ("descType", 24, 4, ErrorKind::UnsupportedVersion),
        ("streamType", 25, 2, ErrorKind::InvalidFile),
        ("chunks of a default", 28, 40, ErrorKind::InvalidFile),
        ("null values", 32, 3, ErrorKind::InvalidFile),
        ("chunks in the directory", 36, 32, ErrorKind::InvalidFile),
    ];
    for (what, at, patch, kind) in cases {
        let mut bad = bytes.clone();
        bad[at] = patch;
        assert_eq!(read(&DataType::Utf8, &bad, false).unwrap_err().kind(), kind, "{what}");
    }
}

#[test]
fn chunks_that_cannot_be_written_are_refused() {
    let mut builder = CmbBuilder::new(&DataType::Int8);
    assert_eq!(builder.streams(), [StreamType::Validity, StreamType::Data]);
    let mut unknown_rows = page(64, 0, 0, 0, 0);
    unknown_rows.rows = None;
    let two_pages =
        Pages { offset: 8, length: 128, stats: ZoneStats::UNKNOWN, dictionary: Vec::new(), pages: vec![unknown_rows; 2], bounds: None, filter: None };
    for chunks in [
        vec![Chunk::Default],
        vec![Chunk::Default, Chunk::AllNull],
        vec![simple(0, 0), Chunk::Default],
        vec![simple(0, u32::MAX), Chunk::Default],
        vec![Chunk::Default, Chunk::Pages(Box::new(two_pages))],
    ] {
        assert_eq!(builder.push_stripe(1, chunks).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn nulls_of_nested_columns_are_not_those_of_their_only_data() {
    let union = DataType::Union([(0, Arc::new(Field::new("n", DataType::Null, true)))].into_iter().collect(), UnionMode::Sparse);
    let item = Arc::new(Field::new("item", union.clone(), true));
    for data_type in [DataType::FixedSizeList(Arc::clone(&item), 1), DataType::Struct(vec![Arc::clone(&item)].into())] {
        // The second stream is DATA: type ids, none of which is null.
        let data = |stripe, rows| full(stripe, vec![page(64, rows, 0, 0, 0)], None);
        let by_stripe = [vec![simple(0, 64), data(0, 1000)], vec![simple(1, 64), data(1, 2000)], vec![Chunk::AllNull, Chunk::Default]];
        let cmb = read(&data_type, &build(&data_type, &by_stripe, true), true).unwrap();
        assert_eq!([0, 1, 2].map(|stripe| cmb.null_count(stripe).unwrap()), [None, None, Some(500)]);
    }
    let leaf = [vec![simple(0, 64), full(0, vec![page(64, 1000, 0, 0, 7)], None)], vec![Chunk::AllNull, Chunk::Default]];
    let leaf = [leaf[0].clone(), leaf[1].clone(), vec![Chunk::AllNull, Chunk::Default]];
    for data_type in [DataType::Int64, DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Int64))] {
        let cmb = read(&data_type, &build(&data_type, &leaf, true), true).unwrap();
        assert_eq!([0, 1].map(|stripe| cmb.null_count(stripe).unwrap()), [Some(7), Some(2000)]);
    }
}

#[test]
fn valid_rows_without_values_are_refused() {
    let all_null = vec![Chunk::AllNull, Chunk::Default];
    let by_stripe = [all_null.clone(), vec![Chunk::Default, Chunk::Default], all_null];
    let cmb = read(&DataType::Int64, &build(&DataType::Int64, &by_stripe, true), true).unwrap();
    cmb.chunk(1, 0).unwrap();
    for error in [cmb.chunk(1, 1).unwrap_err(), cmb.null_count(1).unwrap_err()] {
        assert_eq!((error.kind(), error.section()), (ErrorKind::InvalidFile, Some(Section::ColumnMetadata)));
    }
}

#[test]
fn nulls_among_rows_that_are_all_valid_are_refused() {
    let by_stripe = |validity: &dyn Fn(u64) -> Chunk| -> Vec<Vec<Chunk>> {
        (0..3).zip([1_000, 2_000, 500]).map(|(stripe, rows)| vec![validity(stripe), full(stripe, vec![page(32, rows, 1, 5, 3)], None)]).collect()
    };
    let cmb = |validity: &dyn Fn(u64) -> Chunk| {
        let bytes = build(&DataType::Int64, &by_stripe(validity), true);
        read(&DataType::Int64, &bytes, true).unwrap()
    };
    let honest = cmb(&|stripe| simple(stripe, 32));
    assert_eq!(
        (honest.null_count(1).unwrap(), honest.place(0, 1).unwrap(), honest.place(1, 1).unwrap()),
        (Some(3), Some(10_008..10_040), Some(10_208..10_240))
    );
    let contradicting = cmb(&|_| Chunk::Default);
    assert_eq!(contradicting.place(0, 1).unwrap(), None);
    for error in [contradicting.chunk(1, 1).unwrap_err(), contradicting.null_count(1).unwrap_err()] {
        assert_eq!((error.kind(), error.section()), (ErrorKind::InvalidFile, Some(Section::ColumnMetadata)), "{error}");
    }
}

#[test]
fn bounds_are_no_longer_than_they_may_be() {
    for (length, fits) in [(64, true), (65, false)] {
        let bounds = Bounds { min: vec![b'a'; length].into(), ..bounds() };
        let by_stripe = [
            vec![Chunk::Default, full(0, vec![page(64, 1000, 0, 0, 0)], Some(bounds))],
            vec![Chunk::AllNull, Chunk::Default],
            vec![Chunk::AllNull, Chunk::Default],
        ];
        let cmb = read(&DataType::Utf8, &build(&DataType::Utf8, &by_stripe, true), true).unwrap();
        assert_eq!(cmb.chunk(1, 0).map_err(|error| error.kind()).err(), (!fits).then_some(ErrorKind::InvalidFile));
    }
}

#[test]
fn a_dictionary_is_the_pages_without_rows_that_come_first() {
    let with = |dictionary: &[u32], pages: Vec<ChunkPage>| {
        let Chunk::Pages(chunk) = full(0, pages, None) else { panic!("pages") };
        let length = chunk.length + dictionary.iter().sum::<u32>();
        vec![Chunk::Default, Chunk::Pages(Box::new(Pages { length, dictionary: dictionary.to_vec(), ..*chunk }))]
    };
    let stripes = |first: Vec<Chunk>| [first, vec![Chunk::AllNull, Chunk::Default], vec![Chunk::AllNull, Chunk::Default]];
    for pages in [vec![page(64, 1000, 1, 2, 0)], vec![page(64, 700, -5, 9, 0), page(32, 300, 4, 4, 0)]] {
        let expected = stripes(with(&[48, 16], pages));
        let cmb = read(&DataType::Utf8, &build(&DataType::Utf8, &expected, true), true).unwrap();
        assert_eq!(chunks(&cmb).unwrap(), expected);
    }
    // The flag without such pages, and such pages without others.
    let bytes = build(&DataType::Utf8, &stripes(with(&[48], vec![page(64, 1000, 1, 2, 0)])), false);
    let rows = |rows: [u32; 2]| {
        let mut bytes = bytes.clone();
        let at = bytes.windows(8).position(|meta| *meta == [48, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        bytes[at + 4..at + 8].copy_from_slice(&rows[0].to_le_bytes());
        bytes[at + 28..at + 32].copy_from_slice(&rows[1].to_le_bytes());
        read(&DataType::Utf8, &bytes, false).unwrap().chunk(1, 0)
    };
    assert!(rows([0, 1000]).is_ok());
    assert_eq!(rows([400, 600]).unwrap_err().kind(), ErrorKind::InvalidFile);
    assert_eq!(rows([1000, 0]).unwrap_err().kind(), ErrorKind::InvalidFile);
    let mut builder = CmbBuilder::new(&DataType::Utf8);
    assert!(builder.push_stripe(1000, with(&[48], Vec::from([page(64, 1000, 1, 2, 0)])).into_iter().rev().collect()).is_err());
}
