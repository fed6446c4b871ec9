//! Files that are damaged and whose checksums are right all the same: behind a CRC32 nothing may be taken on trust.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UnionMode};
use bytes::Bytes;
use datafusion_fermion::format::Error;
use datafusion_fermion::format::fermion::{OpenOptions, ScanRequest, WriterOptions};
use datafusion_fermion::format::scan::Section;

use crate::drive::{has_dictionaries, open, scan, write};
use crate::random;

const FOOTER: usize = 128;
const ROWS: usize = 12;

/// A small file of everything that nests, in two stripes.
fn file(no_cit_below: usize) -> Bytes {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let item = |data_type| Arc::new(field("item", data_type));
    let entries = DataType::Struct(vec![Field::new("keys", DataType::Utf8, false), field("values", DataType::Int32)].into());
    let union = |mode| DataType::Union([(0, item(DataType::Int64)), (5, item(DataType::Utf8))].into_iter().collect(), mode);
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        field("number", DataType::Int64),
        field("text", DataType::Utf8),
        field("wide", DataType::Decimal128(30, 2)),
        field("binary", DataType::FixedSizeBinary(3)),
        field("float", DataType::Float32),
        field("dictionary", DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8))),
        field("dense", union(UnionMode::Dense)),
        field("sparse", union(UnionMode::Sparse)),
        field("pairs", DataType::FixedSizeList(item(DataType::Int16), 2)),
        field("map", DataType::Map(Arc::new(Field::new("entries", entries, false)), false)),
        field("lists", DataType::List(item(DataType::List(item(DataType::Boolean))))),
        field("none", DataType::List(item(DataType::FixedSizeBinary(9)))),
        field("address", DataType::Utf8View),
    ]));
    let mut rng = random::rng(11);
    let columns = schema.fields().iter().map(|field| match field.name().as_str() {
        "none" => arrow::array::new_null_array(field.data_type(), ROWS),
        "address" => {
            let address = |row: usize| format!("https://example.org/a/long/way/to/some/page/of/it/{}", row % 2);
            Arc::new(StringViewArray::from_iter_values((0..ROWS).map(address)))
        }
        _ => random::array(&mut rng, field.data_type(), ROWS, true),
    });
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap();
    let file = write(&schema, &[batch], WriterOptions { stripe_rows: 8, page_rows: 4, no_cit_below, ..Default::default() }).unwrap();
    assert!(has_dictionaries(&file));
    file
}

/// Where the parts of a file are that have a CRC32 each, and where that is.
pub(crate) struct Parts {
    /// What is covered, and where its CRC32 stands; those that cover others come last.
    covered: Vec<(Range<usize>, usize)>,
    /// Columns, and the end of their CMBs, of a file without a CIT.
    without_cit: Option<(usize, usize)>,
}

/// Where the CMBs of a file without a CIT begin, and the last one ends; `None` where lengths say what cannot be.
fn starts_by_lengths(file: &[u8], columns: usize, end: usize) -> Option<Vec<usize>> {
    let mut starts = vec![end];
    for _ in 0..columns {
        let end = *starts.last()?;
        let length = u32::from_le_bytes(file.get(end.checked_sub(4)?..end)?.try_into().ok()?);
        starts.push(end.checked_sub(length as usize)?);
    }
    starts.reverse();
    Some(starts)
}

impl Parts {
    pub(crate) fn of(file: &[u8]) -> Self {
        let number = |at: usize| usize::try_from(u64::from_le_bytes(file[at..at + 8].try_into().unwrap())).unwrap();
        let small = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        let footer = file.len() - FOOTER;
        let [schema, cit, cmbs, stripes] = [0, 8, 16, 24].map(|at| number(footer + at));
        let (columns, stripe_count) = (small(footer + 48), small(footer + 52));
        let mut covered = Vec::new();
        let mut page = 8;
        while page < cmbs {
            let length = small(page + 4);
            covered.push((page + 4..page + length, page));
            page += length;
        }
        let has_cit = file[footer + 40] & 2 == 0;
        let starts = match has_cit {
            true => (0..columns).map(|column| number(cit + 8 * column)).chain([schema]).collect(),
            false => starts_by_lengths(file, columns, schema).unwrap(),
        };
        let cmb = |start: &[usize]| (start[0] < start[1]).then(|| (start[0]..start[1] - 8, start[1] - 8));
        covered.extend(starts.windows(2).filter_map(cmb));
        covered.push((schema..if has_cit { cit } else { stripes }, footer + 56));
        if has_cit {
            covered.push((cit..cit + 8 * columns, footer + 60));
        }
        covered.push((stripes..stripes + 24 * stripe_count, footer + 64));
        covered.push((footer..footer + 116, footer + 116));
        Self { covered, without_cit: (!has_cit).then_some((columns, schema)) }
    }

    pub(crate) fn mend(&self, file: &mut [u8]) {
        if let Some(starts) = self.without_cit.and_then(|(columns, end)| starts_by_lengths(file, columns, end)) {
            let cit: Vec<u8> = starts[..starts.len() - 1].iter().flat_map(|start| (*start as u64).to_le_bytes()).collect();
            let at = file.len() - FOOTER + 60;
            file[at..at + 4].copy_from_slice(&crc32fast::hash(&cit).to_le_bytes());
        }
        for (range, at) in &self.covered {
            let crc = crc32fast::hash(&file[range.clone()]);
            file[*at..*at + 4].copy_from_slice(&crc.to_le_bytes());
        }
    }
}

/// Reads all columns, with their statistics.
fn read(file: &Bytes) -> Result<usize, Error> {
    let meta = open(file, &OpenOptions::default())?;
    let columns: Vec<usize> = (0..meta.column_count()).collect();
    let schema = meta.schema()?;
    let request = ScanRequest {
        prune_columns: columns.iter().map(|column| (*column).into()).collect(),
        batch_rows: 5,
        ..ScanRequest::new(columns.clone(), schema)
    };
    let batches = scan(file, &meta, request, |zones| BooleanArray::from(vec![true; zones.row_counts.len()]))?;
    columns.into_iter().try_for_each(|column| meta.column_summary(column).map(drop))?;
    Ok(batches.iter().map(RecordBatch::num_rows).sum())
}

#[test]
fn damage_behind_the_checksums_is_an_error_or_some_value() {
    check_damage(0);
}

#[test]
fn damage_behind_the_checksums_is_an_error_or_some_value_without_a_cit() {
    check_damage(4 << 20);
}

fn check_damage(no_cit_below: usize) {
    let file = file(no_cit_below);
    let parts = Parts::of(&file);
    let mut mended = file.to_vec();
    parts.mend(&mut mended);
    assert_eq!(mended, file, "nothing to mend");
    assert_eq!(read(&file).unwrap(), ROWS);
    let mut errors = 0;
    for at in 0..file.len() {
        // Low bits make wrong numbers, high ones make large ones.
        let mut damaged = file.to_vec();
        damaged[at] ^= if at % 3 == 0 { 0x80 } else { 0x01 };
        parts.mend(&mut damaged);
        let Err(error) = read(&Bytes::from(damaged)) else { continue };
        errors += 1;
        if matches!(error.section(), Some(Section::ColumnMetadata | Section::Data)) {
            assert!(error.column().is_some(), "byte {at}: {error}");
        }
        if error.section() == Some(Section::ColumnMetadata) {
            assert!(error.offset().is_some(), "byte {at}: {error}");
        }
    }
    assert!(errors > 1000, "{errors}");
}
