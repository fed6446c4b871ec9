//! Opening files and loading columns: which bytes are asked for, and what is said of files that are cut or flipped.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use bytes::Bytes;

use super::*;
use crate::format::ErrorKind;
use crate::format::error::Result;
use crate::format::fermion::cit::write_cit;
use crate::format::fermion::cmb::{Chunk, ChunkPage, CmbBuilder, Pages};
use crate::format::fermion::footer::{Footer, MAGIC, SETTING_CHECKSUMS, VERSION};
use crate::format::fermion::schema::{ORDERING_KEY, write_schema};
use crate::format::fermion::stats::{leaf_bounds, leaf_stats};
use crate::format::fermion::stripes::{Stripe, write_stripes};
use crate::format::scan::{Fetch, Load, Loading, Section};

/// Metadata of a file with all its areas, and zeros where its pages would be.
struct TestFile {
    bytes: Vec<u8>,
    footer: Footer,
}

const STRIPE_LENGTH: u64 = 64;

fn stripes() -> Vec<Stripe> {
    let stripe = |index, rows| Stripe { offset: 8 + index * STRIPE_LENGTH, length: STRIPE_LENGTH, rows };
    vec![stripe(0, 3), stripe(1, 2), stripe(2, 3)]
}

/// A chunk of one page, with the statistics of `values`.
fn data(stripe: u64, values: &ArrayRef) -> Chunk {
    let stats = leaf_stats(values);
    let pages = vec![ChunkPage { size: 32, rows: None, stats }];
    Chunk::Pages(Box::new(Pages {
        offset: 8 + stripe * STRIPE_LENGTH,
        length: 32,
        stats,
        dictionary: Vec::new(),
        pages,
        bounds: leaf_bounds(values),
        filter: None,
    }))
}

fn numbers(values: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

fn words(values: Vec<Option<&str>>) -> ArrayRef {
    Arc::new(StringArray::from(values))
}

/// Columns: `n` numbers, `gone` null throughout, `s` strings that are null in the second stripe, `code` a dictionary of numbers, `l` lists.
fn columns() -> Vec<(Field, Vec<Vec<Chunk>>)> {
    let simple = |stripe: u64| Chunk::Pages(Box::new(Pages { pages: Vec::new(), bounds: None, ..pages_of(data(stripe, &numbers(vec![]))) }));
    let validity = |values: &ArrayRef, stripe| match values.null_count() {
        0 => Chunk::Default,
        nulls if nulls == values.len() => Chunk::AllNull,
        _ => simple(stripe),
    };
    let column = |values: [ArrayRef; 3]| -> Vec<Vec<Chunk>> {
        let chunk = |values: &ArrayRef, stripe| if values.null_count() == values.len() { Chunk::Default } else { data(stripe, values) };
        values.iter().zip(0..).map(|(values, stripe)| vec![validity(values, stripe), chunk(values, stripe)]).collect()
    };
    let n = column([numbers(vec![Some(5), None, Some(7)]), numbers(vec![Some(-3), Some(0)]), numbers(vec![Some(1), Some(1), None])]);
    let gone = column([numbers(vec![None; 3]), numbers(vec![None; 2]), numbers(vec![None; 3])]);
    let long = "z".repeat(100);
    let s = column([words(vec![Some("b"), Some("abcdefghij"), None]), words(vec![None; 2]), words(vec![Some(&long), Some("c"), Some("d")])]);
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int64, true)));
    let l = (0..3).map(|stripe| vec![simple(stripe), simple(stripe), Chunk::Default, data(stripe, &numbers(vec![Some(1)]))]).collect();
    let code = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Int64));
    vec![
        (Field::new("n", DataType::Int64, true), n.clone()),
        (Field::new("gone", DataType::Int64, true), gone),
        (Field::new("s", DataType::Utf8, true), s),
        (Field::new("code", code, true), n),
        (Field::new("l", list, true), l),
    ]
}

fn pages_of(chunk: Chunk) -> Pages {
    match chunk {
        Chunk::Pages(pages) => Pages { stats: crate::format::fermion::stats::ZoneStats::UNKNOWN, ..*pages },
        other => panic!("{other:?}"),
    }
}

fn schema() -> Schema {
    Schema::new(columns().into_iter().map(|(field, _)| field).collect::<Vec<_>>())
}

/// Assembles a file; `gap` bytes stand before each CMB.
fn file_with_gaps(gap: usize) -> TestFile {
    let mut bytes = MAGIC.to_vec();
    bytes.resize(8 + 3 * usize::try_from(STRIPE_LENGTH).unwrap(), 0);
    let cmb_offset = bytes.len() as u64;
    let mut cmb_offsets = Vec::new();
    for (field, by_stripe) in columns() {
        let mut builder = CmbBuilder::new(field.data_type());
        for (stripe, chunks) in stripes().iter().zip(by_stripe) {
            builder.push_stripe(stripe.rows, chunks).unwrap();
        }
        cmb_offsets.push(bytes.len() as u64);
        let cmb = builder.finish(None, true).unwrap();
        if gap > 0 && !cmb.is_empty() {
            // Stands for the CMB of a column that nobody asks for: only the gap moves the next one away.
            bytes.extend_from_slice(&cmb);
            assert_eq!(bytes.len() % 8, 0);
            cmb_offsets.push(bytes.len() as u64);
            bytes.resize(bytes.len() + gap, 0);
        } else {
            bytes.extend_from_slice(&cmb);
        }
    }
    let mut schema = schema();
    if gap > 0 {
        let spaced: Vec<_> = schema
            .fields()
            .iter()
            .flat_map(|field| {
                if field.name() == "gone" {
                    vec![field.as_ref().clone()]
                } else {
                    vec![field.as_ref().clone(), Field::new("gap", DataType::Int64, true)]
                }
            })
            .collect();
        schema = Schema::new(spaced);
    }
    let schema_offset = bytes.len() as u64;
    let schema_bytes = write_schema(&schema, &[(ORDERING_KEY, "n ASC NULLS LAST")]).unwrap();
    let cit = write_cit(&cmb_offsets);
    let directory = write_stripes(&stripes());
    bytes.extend_from_slice(&schema_bytes);
    let cit_offset = bytes.len() as u64;
    bytes.extend_from_slice(&cit);
    let stripes_offset = bytes.len() as u64;
    bytes.extend_from_slice(&directory);
    let footer = Footer {
        schema_offset,
        cit_offset,
        cmb_offset,
        stripes_offset,
        row_count: 8,
        settings: SETTING_CHECKSUMS,
        column_count: u32::try_from(cmb_offsets.len()).unwrap(),
        stripe_count: 3,
        schema_crc: crc32fast::hash(&schema_bytes),
        cit_crc: crc32fast::hash(&cit),
        stripes_crc: crc32fast::hash(&directory),
        version: VERSION,
    };
    bytes.extend_from_slice(&footer.to_bytes());
    TestFile { bytes, footer }
}

fn file() -> TestFile {
    file_with_gaps(0)
}

/// Serves a load from bytes, and says what was fetched in each round.
fn drive<L: Load>(load: &mut L, bytes: &[u8]) -> Result<(L::Output, Vec<Vec<Fetch>>)> {
    let mut rounds = Vec::new();
    let mut fetched = Vec::new();
    loop {
        match load.resume(std::mem::take(&mut fetched))? {
            Loading::Ready(output) => return Ok((output, rounds)),
            Loading::Fetch(fetches) => {
                assert!(!fetches.is_empty() && fetches.iter().all(|fetch| !fetch.range.is_empty()));
                let slice = |range: &Range<u64>| &bytes[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
                fetched = fetches.iter().map(|fetch| Bytes::copy_from_slice(slice(&fetch.range))).collect();
                rounds.push(fetches);
            }
        }
    }
}

fn open_with(bytes: &[u8], prefetch: u64, eager_load_threshold: u64) -> Result<(FileMeta, Vec<Vec<Fetch>>)> {
    drive(&mut Open::new(bytes.len() as u64, &OpenOptions { prefetch, eager_load_threshold })?, bytes)
}

fn load(meta: &Arc<FileMeta>, columns: &[usize], bytes: &[u8]) -> Result<Vec<Vec<Fetch>>> {
    drive(&mut meta.load_columns(columns), bytes).map(|((), rounds)| rounds)
}

/// Everything that the metadata says, to compare. What a flipped bit may not change.
fn everything(bytes: &[u8], prefetch: u64, threshold: u64) -> Result<String> {
    let (meta, _) = open_with(bytes, prefetch, threshold)?;
    let meta = Arc::new(meta);
    let all: Vec<usize> = (0..meta.column_count()).collect();
    load(&meta, &all, bytes)?;
    let mut out = format!("{:?} {:?} {:?} {}", meta.schema()?, meta.stripes(), meta.ordering(), meta.row_count());
    for column in all {
        if let Some(ColumnMeta::Cmb(cmb)) = meta.column(column)? {
            for stream in 0..cmb.streams().len() {
                for stripe in 0..meta.stripes().len() {
                    out += &format!("{:?}", cmb.chunk(stream, stripe)?);
                }
            }
        }
        out += &format!("{:?}", meta.column_summary(column)?);
    }
    Ok(out)
}

#[test]
fn opens_with_every_prefetch_in_one_read_or_two() {
    let TestFile { bytes, footer } = file();
    let length = bytes.len() as u64;
    let expected = everything(&bytes, length, u64::MAX).unwrap();
    for prefetch in 0..=length + 9 {
        for threshold in [0, u64::MAX] {
            let (meta, rounds) = open_with(&bytes, prefetch, threshold).unwrap();
            let from = length - prefetch.clamp(128, length);
            assert_eq!(rounds[0], [Fetch { range: from..length, section: Section::Footer }]);
            let needed = if threshold == 0 { footer.schema_offset } else { footer.cmb_offset };
            let second = Fetch { range: needed..from, section: if threshold == 0 { Section::Schema } else { Section::ColumnMetadata } };
            assert_eq!(rounds.get(1), if from > needed { Some(vec![second]) } else { None }.as_ref());
            assert_eq!(rounds.len(), if from > needed { 2 } else { 1 });
            assert_eq!(meta.metadata_is_eager(), threshold > 0 || from <= footer.cmb_offset);
            // CMBs that the prefetch covered need no fetch.
            let covered = meta.cmb_range(3).unwrap().start >= from || threshold > 0;
            assert_eq!(meta.column(3).unwrap().is_some(), covered, "prefetch {prefetch}");
            if prefetch % 16 == 0 {
                assert_eq!(everything(&bytes, prefetch, threshold).unwrap(), expected);
            }
        }
    }
}

#[test]
fn says_what_the_file_says() {
    let TestFile { bytes, footer } = file();
    let (meta, _) = open_with(&bytes, 1 << 20, 0).unwrap();
    assert_eq!(*meta.schema().unwrap(), schema());
    assert_eq!((meta.row_count(), meta.column_count(), meta.stripes()), (8, 5, stripes().as_slice()));
    assert_eq!((meta.ordering(), meta.index_of("s"), meta.index_of("t")), (Some("n ASC NULLS LAST"), Some(2), None));
    assert_eq!((meta.file_length(), meta.settings(), *meta.footer()), (bytes.len() as u64, SETTING_CHECKSUMS, footer));
    assert!(meta.has_checksums());
    assert!(matches!(meta.column(1).unwrap(), Some(ColumnMeta::AllNull)));
    assert_eq!(meta.column(5).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn columns_are_loaded_once_and_neighbours_together() {
    let TestFile { bytes, .. } = file();
    let meta = Arc::new(open_with(&bytes, 0, 0).unwrap().0);
    assert!(meta.column(0).unwrap().is_none() && meta.column_summary(0).unwrap().is_none());
    let before = meta.memory_size();
    let range = |column| meta.cmb_range(column).unwrap();
    let fetch = |range| vec![vec![Fetch { range, section: Section::ColumnMetadata }]];
    assert_eq!(load(&meta, &[3, 0, 3, 1], &bytes).unwrap(), fetch(range(0).start..range(3).end));
    assert!(meta.column(0).unwrap().is_some() && meta.column(2).unwrap().is_none());
    assert!(meta.memory_size() > before);
    assert_eq!(load(&meta, &[0, 1, 2, 3], &bytes).unwrap(), fetch(range(2)));
    assert_eq!(load(&meta, &[0, 1, 2, 3], &bytes).unwrap(), Vec::<Vec<Fetch>>::new());
}

#[test]
fn metadata_that_came_with_the_end_of_the_file_is_counted_once() {
    let TestFile { bytes, .. } = file();
    let meta = Arc::new(open_with(&bytes, 1 << 20, 1 << 20).unwrap().0);
    let before = meta.memory_size();
    let cmbs: u64 = (0..4).map(|column| meta.cmb_range(column).unwrap()).map(|range| range.end - range.start).sum();
    assert_eq!(load(&meta, &[0, 1, 2, 3], &bytes).unwrap(), Vec::<Vec<Fetch>>::new());
    let own = |column| match meta.column(column).unwrap() {
        Some(ColumnMeta::Cmb(cmb)) => cmb.memory_size(false),
        _ => 0,
    };
    assert_eq!(meta.memory_size() - before, (0..4).map(own).sum::<usize>());
    // Loaded by themselves, they are counted too.
    let lazy = Arc::new(open_with(&bytes, 0, 0).unwrap().0);
    let before = lazy.memory_size();
    load(&lazy, &[0, 1, 2, 3], &bytes).unwrap();
    assert!(lazy.memory_size() - before > usize::try_from(cmbs).unwrap() / 2);
}

#[test]
fn what_is_far_apart_is_fetched_apart() {
    let TestFile { bytes, .. } = file_with_gaps(100 << 10);
    let meta = Arc::new(open_with(&bytes, 0, 0).unwrap().0);
    let range = |column| Fetch { range: meta.cmb_range(column).unwrap(), section: Section::ColumnMetadata };
    let columns = ["l", "n", "s"].map(|name| meta.index_of(name).unwrap());
    let [l, n, s] = columns;
    assert_eq!(load(&meta, &columns, &bytes).unwrap(), [[range(n), range(s), range(l)]]);
    let near = file_with_gaps(16 << 10);
    let meta = Arc::new(open_with(&near.bytes, 0, 0).unwrap().0);
    let mut load = meta.load_columns(&columns);
    let Loading::Fetch(fetches) = load.resume(Vec::new()).unwrap() else { panic!("nothing is loaded yet") };
    assert_eq!(fetches.len(), 1);
    let range = usize::try_from(fetches[0].range.start).unwrap()..usize::try_from(fetches[0].range.end).unwrap();
    let fetched = Bytes::copy_from_slice(&near.bytes[range]);
    assert!(matches!(load.resume(vec![fetched.clone()]).unwrap(), Loading::Ready(())));
    // The CMBs were copied out, so that the gaps between them are not kept.
    assert!(fetched.is_unique());
}

#[test]
fn summaries_are_over_all_stripes() {
    let TestFile { bytes, .. } = file();
    let (meta, _) = open_with(&bytes, 1 << 20, 0).unwrap();
    let summary = |column| meta.column_summary(column).unwrap().unwrap();

    let n = summary(0);
    let number = |bound: &Option<(ArrayRef, bool)>| bound.as_ref().map(|(array, exact)| (array.as_primitive::<Int64Type>().value(0), *exact));
    assert_eq!((n.null_count, number(&n.min), number(&n.max)), (Some(2), Some((-3, true)), Some((7, true))));

    let gone = summary(1);
    assert_eq!((gone.null_count, gone.min.is_none(), gone.max.is_none()), (Some(8), true, true));

    let s = summary(2);
    let word = |bound: Option<(ArrayRef, bool)>| bound.map(|(array, exact)| (array.as_string::<i32>().value(0).to_owned(), exact)).unwrap();
    assert_eq!((s.null_count, word(s.min)), (Some(3), ("abcdefghij".to_owned(), true)));
    assert_eq!(word(s.max), ("z".repeat(63) + "{", false));

    let code = summary(3);
    let (min, exact) = code.min.unwrap();
    assert_eq!((min.data_type(), exact, min.len()), (schema().field(3).data_type(), true, 1));

    let l = summary(4);
    assert_eq!((l.null_count, l.min.is_none(), l.max.is_none()), (None, true, true));
}

#[test]
fn a_flipped_bit_of_the_metadata_is_an_error_or_does_not_matter() {
    let TestFile { bytes, footer } = file();
    let expected = everything(&bytes, 0, 0).unwrap();
    let start = usize::try_from(footer.cmb_offset).unwrap();
    for byte in start..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[byte] ^= 1 << (byte % 7);
        match everything(&flipped, 300, 0) {
            Ok(read) => assert_eq!(read, expected, "byte {byte}"),
            Err(error) => assert!(error.section().is_some() && error.offset().is_some(), "byte {byte}: {error}"),
        }
    }
}

#[test]
fn every_cut_is_found() {
    let TestFile { bytes, .. } = file();
    for length in 0..bytes.len() {
        let error = open_with(&bytes[..length], 200, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidFile, "{length}");
        assert!(error.to_string().contains("not a Fermion file"), "{error}");
    }
}

#[test]
fn errors_of_a_column_name_it() {
    let TestFile { mut bytes, .. } = file();
    let (meta, _) = open_with(&bytes, 0, 0).unwrap();
    let range = meta.cmb_range(2).unwrap();
    bytes[usize::try_from(range.start).unwrap() + 9] ^= 1;
    let meta = Arc::new(meta);
    let error = load(&meta, &[0, 2], &bytes).unwrap_err();
    assert_eq!((error.kind(), error.section()), (ErrorKind::Checksum, Some(Section::ColumnMetadata)));
    assert_eq!((error.column(), error.offset()), (Some("s"), Some(range.start)));
}

#[test]
fn a_file_of_another_format_is_refused() {
    let TestFile { mut bytes, .. } = file();
    bytes[0] = b'X';
    let error = open_with(&bytes, 1 << 20, 0).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::InvalidFile, Some(0)));
    let error = open_with(&[7; 500], 200, 0).unwrap_err();
    assert!(error.to_string().contains("not a Fermion file"), "{error}");
}

#[test]
fn answers_that_were_not_asked_for_are_refused() {
    let TestFile { bytes, .. } = file();
    let options = OpenOptions { prefetch: 0, eager_load_threshold: 0 };
    let answers = [vec![], vec![Bytes::from_static(b"short")], vec![Bytes::copy_from_slice(&bytes); 2]];
    for answer in answers {
        let mut open = Open::new(bytes.len() as u64, &options).unwrap();
        open.resume(Vec::new()).unwrap();
        assert_eq!(open.resume(answer).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let meta = Arc::new(open_with(&bytes, 0, 0).unwrap().0);
    for answer in [vec![], vec![Bytes::from_static(b"short")]] {
        let mut load = meta.load_columns(&[0]);
        load.resume(Vec::new()).unwrap();
        assert_eq!(load.resume(answer).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn files_of_one_schema_keep_it_once() {
    let (one, other) = (file().bytes, file_with_gaps(8).bytes);
    let schemas = Arc::default();
    let open_shared = |bytes: &[u8]| {
        let mut open = Open::new(bytes.len() as u64, &OpenOptions::default()).unwrap().sharing(&schemas);
        drive(&mut open, bytes).unwrap().0
    };
    let first = open_shared(&one);
    let alone = first.memory_size();
    let second = open_shared(&one);
    let schema_bytes = usize::try_from(first.footer().cit_offset - first.footer().schema_offset).unwrap();
    assert_eq!(alone - second.memory_size(), schema_bytes);
    // It is built once, for both, and counted once.
    assert!(Arc::ptr_eq(&first.schema().unwrap(), &second.schema().unwrap()));
    assert!(first.memory_size() > alone && second.memory_size() == alone - schema_bytes);
    assert_eq!(first.schema().unwrap().as_ref(), &schema());
    // What was fetched with the metadata is not kept.
    let tail = Bytes::from(one.clone());
    let mut open = Open::new(tail.len() as u64, &OpenOptions::default()).unwrap();
    assert!(matches!(open.resume(Vec::new()), Ok(Loading::Fetch(_))));
    let Ok(Loading::Ready(kept)) = open.resume(vec![tail.clone()]) else { panic!("the whole file is there") };
    assert!(kept.metadata_is_eager() && tail.is_unique());
    let third = open_shared(&other);
    assert_eq!(third.schema().unwrap().fields().len(), third.stored_columns());
    assert_ne!(third.stored_columns(), first.stored_columns());
}

#[test]
fn chunks_that_overlap_are_not_read_together() {
    use crate::format::scan::{Answer, Scan, ScanRequest, Step};
    // All columns of this file have their chunks at the same place.
    let TestFile { bytes, .. } = file();
    let meta = Arc::new(open_with(&bytes, 1 << 20, u64::MAX).unwrap().0);
    let step = |columns: &[usize]| {
        let schema = Arc::new(schema().project(columns).unwrap());
        FermionScan::new(Arc::clone(&meta), ScanRequest::new(columns.to_vec(), schema)).unwrap().step(Answer::Next)
    };
    for columns in [&[0, 2][..], &[0, 3], &[2, 1, 0]] {
        let error = step(columns).unwrap_err();
        assert_eq!((error.kind(), error.section()), (ErrorKind::InvalidFile, Some(Section::ColumnMetadata)), "{error}");
        assert!(error.to_string().contains("overlaps"), "{error}");
    }
    // A list whose offsets lie where its validity does.
    assert!(step(&[4]).unwrap_err().to_string().contains("overlaps"));
    // Null in every row, without a chunk.
    assert!(matches!(step(&[1]).unwrap(), Step::Decode(_)));
}
