//! Bloom filters: stripes without a value are skipped, and none with it.

use std::sync::Arc;

use arrow::array::*;
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};
use bytes::Bytes;
use datafusion_fermion::format::fermion::bloom::BloomDesc;
use datafusion_fermion::format::fermion::cmb::Chunk;
use datafusion_fermion::format::fermion::{ColumnMeta, FermionScan, OpenOptions, ScanRequest, WriterOptions};
use datafusion_fermion::format::scan::{Answer, Lookups, Scan, Section, Step};
use datafusion_fermion::format::{Error, ErrorKind, Result};
use parquet::bloom_filter::Sbbf;

use crate::drive::{fetch, load, open, write};

const ROWS: i64 = 20_000;

fn noise(row: i64) -> i64 {
    row.wrapping_mul(0x1E37_79B9_7F4A_7C15) ^ (row << 7)
}

/// Columns of every kind of type that can have a filter, with nulls; and the number of the row.
pub(crate) fn table(rows: i64) -> RecordBatch {
    let text = |row: i64| (row % 9 != 4).then(|| format!("user {:x}", noise(row)));
    let few: StringArray = (0..rows).map(|row| (row % 9 != 4).then(|| format!("customer {}", row / 50))).collect();
    let column = |name: &str, array: ArrayRef| (name.to_owned(), array);
    let columns = vec![
        column("row", Arc::new(Int64Array::from_iter_values(0..rows))),
        column("id", Arc::new(Int64Array::from_iter((0..rows).map(|row| (row % 5 != 3).then(|| noise(row)))))),
        column("text", Arc::new(StringViewArray::from_iter((0..rows).map(text)))),
        column("few", cast(&few, &DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))).unwrap()),
        column(
            "wide",
            Arc::new(Decimal128Array::from_iter_values((0..rows).map(|row| i128::from(noise(row)) * 99)).with_precision_and_scale(30, 2).unwrap()),
        ),
        column("when", Arc::new(TimestampMillisecondArray::from_iter_values((0..rows).map(noise)).with_timezone("+01:00"))),
        column("bytes", Arc::new(FixedSizeBinaryArray::try_from_iter((0..rows).map(|row| noise(row).to_be_bytes())).unwrap())),
        column("small", Arc::new(UInt16Array::from_iter_values((0..rows).map(|row| u16::try_from(row / 7 % 65_536).unwrap())))),
    ];
    let fields: Vec<Field> = columns.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, array)| array).collect()).unwrap()
}

pub(crate) fn options(batch: &RecordBatch, stripe_rows: usize) -> WriterOptions {
    let bloom_filter_columns = batch.schema().fields().iter().skip(1).map(|field| field.name().clone()).collect();
    WriterOptions { stripe_rows, page_rows: 1024, bloom_filter_columns, bloom_filter_fpp: 0.001, ..Default::default() }
}

/// The numbers of the rows of the stripes in which some of the columns' values may be.
fn look_up(file: &Bytes, columns: &[usize], values: &[Option<ArrayRef>]) -> Result<(Vec<i64>, Lookups, u64)> {
    let meta = open(file, &OpenOptions::default())?;
    // All columns are read: for little it is not asked.
    let request = ScanRequest { lookup_columns: columns.to_vec(), ..ScanRequest::new((0..meta.column_count()).collect(), meta.schema()?) };
    let mut scan = FermionScan::new(meta, request)?;
    let (mut answer, mut found, mut bytes) = (Answer::Next, Vec::new(), 0);
    loop {
        answer = match scan.step(answer)? {
            Step::Fetch(fetches) => {
                bytes += fetches
                    .iter()
                    .filter(|fetch| fetch.section == Section::BloomFilter)
                    .map(|fetch| fetch.range.end - fetch.range.start)
                    .sum::<u64>();
                Answer::Fetched(fetch(file, &fetches))
            }
            Step::Lookup(asked) => {
                let of = |column: &usize| values.get(columns.iter().position(|known| known == column)?).cloned().flatten();
                Answer::Lookup(asked.iter().map(of).collect())
            }
            Step::Decode(mut morsel) => {
                while let Some(batch) = morsel.next_batch()? {
                    found.extend(batch.column(0).as_primitive::<Int64Type>().values());
                }
                Answer::Next
            }
            Step::Done => return Ok((found, scan.lookups(), bytes)),
            step => panic!("{step:?}"),
        };
    }
}

fn of_row(batch: &RecordBatch, column: usize, row: i64) -> ArrayRef {
    batch.column(column).slice(usize::try_from(row).unwrap(), 1)
}

#[test]
fn stripes_without_the_value_are_skipped_and_none_with_it() {
    let batch = table(ROWS);
    for (stripe_rows, stripes, page_bytes) in [(1000, 20, 4096), (10_000, 2, 4096), (1 << 20, 1, 4096)] {
        let file = write(&batch.schema(), std::slice::from_ref(&batch), options(&batch, stripe_rows)).unwrap();
        for column in 1..batch.num_columns() {
            for row in [0, 1, 777, 9_999, 19_999] {
                let value = of_row(&batch, column, row);
                let (found, lookups, bytes) = look_up(&file, &[column], &[Some(Arc::clone(&value))]).unwrap();
                assert_eq!(lookups.kept + lookups.skipped, stripes, "column {column}");
                // Values that come again lie in the same or the next stripe; 20 questions have a wrong answer once in 50 times.
                assert!(lookups.kept <= 3 || value.is_null(0), "column {column}, row {row}: {lookups:?}");
                assert!(value.is_null(0) || found.contains(&row), "column {column}, row {row}");
                assert!(bytes <= page_bytes * stripes as u64, "a page of a filter for each stripe");
            }
        }
        let (found, lookups, _) =
            look_up(&file, &[1], &[Some(Arc::new(Int64Array::from_iter_values((0..20).map(|row| noise(row + ROWS)))))]).unwrap();
        assert!(found.len() <= stripe_rows && lookups.skipped + 1 >= stripes, "{lookups:?}");
    }
}

#[test]
fn several_columns_have_to_agree_and_unknown_ones_say_nothing() {
    let batch = table(ROWS);
    let file = write(&batch.schema(), std::slice::from_ref(&batch), options(&batch, 1000)).unwrap();
    let at = |row| (of_row(&batch, 1, row), cast(&of_row(&batch, 3, row), &DataType::Utf8).unwrap());
    let kept = |id: Option<ArrayRef>, few: Option<ArrayRef>| look_up(&file, &[1, 3], &[id, few]).unwrap().1.kept;
    let ((id, few), (_, other)) = (at(1500), at(15_000));
    assert_eq!(kept(Some(Arc::clone(&id)), Some(Arc::clone(&few))), 1);
    assert_eq!(kept(Some(Arc::clone(&id)), Some(Arc::clone(&other))), 0);
    assert_eq!(kept(Some(id), None), 1);
    assert_eq!(kept(None, Some(arrow::compute::concat(&[few.as_ref(), other.as_ref()]).unwrap())), 2);
    assert_eq!(kept(Some(Arc::new(Int64Array::from(Vec::<i64>::new()))), None), 0);
    let (found, lookups, _) = look_up(&file, &[1, 3], &[None, None]).unwrap();
    assert_eq!((found.len(), lookups), (20_000, Lookups::default()));
}

/// The filter of a column's stripe as Parquet stores it: its blocks.
fn parquets(file: &Bytes, column: usize, stripe: usize) -> Sbbf {
    let meta = open(file, &OpenOptions::default()).unwrap();
    load(file, meta.load_columns(&[column])).unwrap();
    let Some(ColumnMeta::Cmb(cmb)) = meta.column(column).unwrap() else { panic!("no metadata") };
    let Chunk::Pages(pages) = cmb.chunk(1, stripe).unwrap() else { panic!("no pages") };
    let range = pages.filter.as_ref().map(BloomDesc::range).unwrap();
    let bytes = file.slice(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap());
    Sbbf::new(&bytes.chunks(4096).flat_map(|page| page[32..].to_vec()).collect::<Vec<u8>>())
}

/// Another implementation finds in our bits what we have put there, and little else.
#[test]
fn parquets_filter_reads_the_same_bits() {
    let batch = table(ROWS);
    let file = write(&batch.schema(), std::slice::from_ref(&batch), options(&batch, 10_000)).unwrap();
    for stripe in 0..2 {
        let rows = i64::try_from(stripe).unwrap() * 10_000;
        let (ids, texts) = (parquets(&file, 1, stripe), parquets(&file, 2, stripe));
        let (mut wrong_ids, mut wrong_texts) = (0, 0);
        for row in rows..rows + 10_000 {
            let text = |row: i64| format!("user {:x}", noise(row));
            assert!(row % 5 == 3 || ids.check(&noise(row)));
            assert!(row % 9 == 4 || texts.check(&text(row).as_str()));
            wrong_ids += i32::from(ids.check(&noise(row + 1_000_000)));
            wrong_texts += i32::from(texts.check(&text(row + 1_000_000).as_str()));
        }
        assert!(wrong_ids < 30 && wrong_texts < 30, "{wrong_ids} and {wrong_texts} of 10,000");
    }
}

#[test]
fn a_flipped_bit_of_a_filter_is_an_error_or_does_not_matter() {
    let batch = table(60);
    for checksums in [true, false] {
        let file = write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions { checksums, ..options(&batch, 20) }).unwrap();
        let values = [Some(of_row(&batch, 1, 42)), Some(of_row(&batch, 2, 42))];
        let expected = look_up(&file, &[1, 2], &values).unwrap();
        assert_eq!(expected.0, (40..60).collect::<Vec<_>>());
        let mut errors = 0;
        for (at, bit) in (0..file.len()).flat_map(|at| [(at, 1), (at, 0x80)]) {
            let mut broken = file.to_vec();
            broken[at] ^= bit;
            match look_up(&Bytes::from(broken), &[1, 2], &values) {
                Ok((found, ..)) => assert!(!checksums || found == expected.0, "byte {at} ^ {bit:#x} changes the answer"),
                Err(error) if error.section() == Some(Section::BloomFilter) => {
                    assert_eq!((error.kind(), error.column().is_some(), error.offset().is_some()), (ErrorKind::Checksum, true, true));
                    errors += 1;
                }
                Err(_) => {}
            }
        }
        assert_eq!(errors > 100, checksums, "{errors}");
    }
}

#[test]
fn columns_that_cannot_have_a_filter_are_refused() {
    let refused = |fields: Vec<Field>, fpp: f64| -> Error {
        let options = WriterOptions { bloom_filter_columns: vec!["x".to_owned()], bloom_filter_fpp: fpp, ..Default::default() };
        write(&Arc::new(Schema::new(fields)), &[], options).unwrap_err()
    };
    let field = |data_type| Field::new("x", data_type, true);
    for data_type in [DataType::Float64, DataType::Boolean, DataType::Null, DataType::Struct(vec![field(DataType::Int8)].into())] {
        let error = refused(vec![field(data_type.clone())], 0.01);
        assert_eq!((error.kind(), error.column()), (ErrorKind::InvalidArgument, Some("x")), "{data_type}");
    }
    assert!(refused(vec![Field::new("y", DataType::Int8, true)], 0.01).to_string().contains("\"x\""));
    for fpp in [0.0, 1.0, -1.0, f64::NAN] {
        assert!(refused(vec![field(DataType::Timestamp(TimeUnit::Second, None))], fpp).to_string().contains("bloom_filter_fpp"), "{fpp}");
    }
}

#[test]
fn rows_are_the_same_with_filters_and_without() {
    let batch = table(3000);
    let file = write(&batch.schema(), std::slice::from_ref(&batch), options(&batch, 1000)).unwrap();
    let (schema, read) = crate::drive::read_all(&file, 8192).unwrap();
    assert_eq!(concat_batches(&schema, &read).unwrap().column_by_name("text"), batch.column_by_name("text"));
}
