//! Sums and distinct counts are those of the values.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::*;
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Decimal256Type, Int32Type, i256};
use arrow::row::{RowConverter, SortField};
use bytes::Bytes;
use datafusion_fermion::format::fermion::inspect::PartKind;
use datafusion_fermion::format::fermion::{ColumnSummary, OpenOptions, WriterOptions};
use datafusion_fermion::format::scan::Section;
use datafusion_fermion::format::{Error, ErrorKind};

use crate::drive::{open, write};
use crate::inspect::{parts, verify};
use crate::mended::Parts;
use crate::random;

/// What the metadata says of each column.
fn summaries(file: &Bytes) -> Result<Vec<ColumnSummary>, Error> {
    // Prefetched with the rest.
    let meta = open(file, &OpenOptions { prefetch: file.len() as u64, ..Default::default() })?;
    (0..meta.column_count()).map(|column| Ok(meta.column_summary(column)?.unwrap())).collect()
}

/// Sum, bytes and distinct values, counted one by one; `None` of a type that has no sum.
fn counted(values: &ArrayRef) -> Option<(Option<i128>, Option<u64>, usize)> {
    let valid: Vec<usize> = (0..values.len()).filter(|row| values.is_valid(*row)).collect();
    let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())]).unwrap();
    let rows = converter.convert_columns(std::slice::from_ref(values)).unwrap();
    let distinct = valid.iter().map(|row| rows.row(*row).owned()).collect::<HashSet<_>>().len();
    let some = !valid.is_empty();
    let sum = |wide: &DataType| {
        let wide = cast(values, wide).unwrap();
        let wide = wide.as_primitive::<Decimal256Type>();
        valid.iter().fold(i256::ZERO, |sum, row| sum.checked_add(wide.value(*row)).unwrap()).to_i128().filter(|_| some)
    };
    match values.data_type() {
        data_type if data_type.is_integer() => Some((sum(&DataType::Decimal256(76, 0)), None, distinct)),
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            Some((sum(&DataType::Decimal256(76, *scale)), None, distinct))
        }
        data_type if data_type.is_string() || data_type.is_binary() || matches!(data_type, DataType::FixedSizeBinary(_)) => {
            let bytes = cast(values, &DataType::LargeBinary).unwrap();
            let bytes = valid.iter().map(|row| bytes.as_binary::<i64>().value(*row).len() as u64).sum();
            Some((None, some.then_some(bytes), distinct))
        }
        _ => None,
    }
}

/// The same values, by themselves, as a dictionary and as runs.
fn forms(values: &ArrayRef) -> Vec<ArrayRef> {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(values.data_type().clone()));
    let ends = Int32Array::from_iter_values(1..=i32::try_from(values.len()).unwrap());
    let runs = RunArray::try_new(&ends, values).unwrap();
    let keys = Int32Array::from_iter((0..values.len()).map(|row| values.is_valid(row).then(|| i32::try_from(row).unwrap())));
    let dictionary = cast(values, &dictionary).unwrap_or_else(|_| Arc::new(DictionaryArray::new(keys, Arc::clone(values))));
    vec![Arc::clone(values), dictionary, Arc::new(runs)]
}

#[test]
fn totals_are_those_of_the_values_of_every_type() {
    let mut rng = random::rng(5);
    let mut seen = 0;
    // Arrow does not join or cast values of no bytes.
    for data_type in random::leaf_types().into_iter().filter(|data_type| *data_type != DataType::FixedSizeBinary(0)) {
        for nullable in [false, true] {
            let mut values = random::array(&mut rng, &data_type, 3000, nullable);
            if nullable {
                // And a stripe of nulls alone.
                let nulls = new_null_array(&data_type, 1000);
                values = concat(&[&values.slice(0, 1000), &nulls, &values.slice(1000, 2000)]).unwrap();
            }
            let Some((sum, bytes, distinct)) = counted(&values) else { continue };
            for form in forms(&values) {
                let batch = RecordBatch::try_from_iter_with_nullable([("v", form, true)]).unwrap();
                let options = WriterOptions { page_rows: 512, stripe_rows: 1000, ..Default::default() };
                let file = write(&batch.schema(), std::slice::from_ref(&batch), options).unwrap();
                let summary = summaries(&file).unwrap().pop().unwrap();
                assert_eq!((summary.sum, summary.value_bytes), (sum, bytes), "{:?}", batch.schema());
                let found = summary.distinct_count.unwrap() as f64;
                // Five standard errors, and of few values two.
                assert!((found - distinct as f64).abs() <= (distinct as f64 * 0.16).max(2.0), "{data_type}: {found} instead of {distinct}");
                assert_eq!(verify(&file).unwrap().len(), 0, "{:?}", batch.schema());
                seen += 1;
            }
        }
    }
    assert!(seen > 100, "{seen}");
}

fn table() -> RecordBatch {
    let rows = 0..3000_i64;
    let money = Decimal128Array::from_iter_values(rows.clone().map(|row| i128::from(row) - 7)).with_precision_and_scale(38, 2).unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter(rows.clone().map(|row| (row % 3 != 1).then_some(row - 1000))))),
        ("large", Arc::new(UInt64Array::from_iter_values(rows.clone().map(|row| u64::MAX - row.unsigned_abs() % 5)))),
        ("money", Arc::new(money.clone())),
        ("short money", cast(&money, &DataType::Decimal64(18, 2)).unwrap()),
        ("text", Arc::new(StringViewArray::from_iter_values(rows.clone().map(|row| format!("row {}", row % 40))))),
        ("coded", Arc::new(rows.clone().map(|row| ["ä", "b"][usize::try_from(row % 2).unwrap()]).collect::<DictionaryArray<Int32Type>>())),
        ("flag", Arc::new(BooleanArray::from_iter(rows.clone().map(|row| Some(row == 5))))),
        ("float", Arc::new(Float32Array::from_iter_values(rows.clone().map(|row| f32::from(i16::try_from(row % 10).unwrap()))))),
        ("none", new_null_array(&DataType::Int32, 3000)),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows.map(|row| Some([i32::try_from(row).ok()]))))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

pub(crate) fn file(options: WriterOptions) -> (RecordBatch, Bytes) {
    let batch = table();
    let file = write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions { page_rows: 1024, stripe_rows: 2000, ..options }).unwrap();
    (batch, file)
}

/// Worked out by hand, for the golden file too.
pub(crate) fn check_table(file: &Bytes) {
    let summaries = summaries(file).unwrap();
    let found: Vec<_> = summaries.iter().map(|summary| (summary.sum, summary.value_bytes)).collect();
    // 0 + ... + 2999 = 4,498,500; every third of them from 1 on adds up to 1,499,500 and there are 1,000.
    let id = 4_498_500 - 1_499_500 - 2000 * 1000;
    let large = 3000 * i128::from(u64::MAX) - 600 * (1 + 2 + 3 + 4);
    let money = 4_498_500 - 3000 * 7;
    // "row 0" to "row 9" have 5 bytes, the other 30 have 6.
    let text = 750 * 5 + 2250 * 6;
    let expected = [
        (Some(id), None),
        (Some(large), None),
        (Some(money), None),
        (Some(money), None),
        (None, Some(text)),
        (None, Some(4500)),
        (None, None),
        (None, None),
        (None, None),
        (None, None),
    ];
    assert_eq!(found, expected);
    let distinct: Vec<_> = summaries.iter().map(|summary| summary.distinct_count).collect();
    for (found, expected) in distinct.iter().zip([2000, 5, 3000, 3000, 40, 2, 2, 10, 0]) {
        let found = found.unwrap();
        assert!(found.abs_diff(expected) <= expected / 10, "{found} instead of {expected}");
    }
    assert_eq!(distinct.last(), Some(&None));
}

#[test]
fn totals_of_every_kind_of_column() {
    check_table(&file(WriterOptions::default()).1);
    check_table(&file(WriterOptions { checksums: false, ..Default::default() }).1);
    assert!(verify(&file(WriterOptions::default()).1).unwrap().is_empty());
}

#[test]
fn without_statistics_there_are_none() {
    let (batch, file) = file(WriterOptions { statistics: false, ..Default::default() });
    for (summary, field) in summaries(&file).unwrap().iter().zip(batch.schema().fields()) {
        let known = if field.name() == "none" { Some(0) } else { None };
        assert_eq!((summary.sum, summary.value_bytes, summary.distinct_count), (None, None, known), "{field:?}");
    }
}

#[test]
fn a_flipped_bit_of_the_metadata_is_an_error_or_does_not_matter() {
    let (_, file) = file(WriterOptions::default());
    let expected = format!("{:?}", summaries(&file).unwrap());
    let checksums = Parts::of(&file);
    let metadata: Vec<_> = parts(&file).unwrap().into_iter().filter(|part| part.kind == PartKind::ColumnMetadata).map(|part| part.range).collect();
    for range in metadata {
        for at in range {
            let mut broken = file.to_vec();
            broken[usize::try_from(at).unwrap()] ^= 1 << (at % 8);
            if let Ok(found) = summaries(&Bytes::from(broken.clone())) {
                assert_eq!(format!("{found:?}"), expected, "byte {at}");
            }
            // Behind the checksum it may be believed, and does no harm.
            checksums.mend(&mut broken);
            let _ = summaries(&Bytes::from(broken));
        }
    }
}

/// What is out of range on the way need not be at the end, however the values are added up.
#[test]
fn sums_do_not_depend_on_the_order() {
    let max = 10_i128.pow(38) - 1;
    let values = Decimal128Array::from(vec![-max, 0, max, max]).with_precision_and_scale(38, 0).unwrap();
    let batch = RecordBatch::try_from_iter([("d", Arc::new(values) as ArrayRef)]).unwrap();
    let file = write(&batch.schema(), &[batch], WriterOptions { page_rows: 1, stripe_rows: 2, ..Default::default() }).unwrap();
    assert_eq!(summaries(&file).unwrap()[0].sum, Some(max));
    assert!(verify(&file).unwrap().is_empty());
}

/// What the checksum covers can still be wrong.
#[test]
fn totals_that_cannot_be_are_refused_and_wrong_ones_found() {
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![5, 7, 9]));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let file = write(&batch.schema(), &[batch], WriterOptions::default()).unwrap();
    let cmb = parts(&file).unwrap().into_iter().find(|part| part.kind == PartKind::ColumnMetadata).unwrap().range;
    let end = usize::try_from(cmb.end).unwrap() - 8;
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = file.to_vec();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        Parts::of(&file).mend(&mut changed);
        Bytes::from(changed)
    };
    let [distinct, flags, sum] = [end - 32, end - 24, end - 16];
    assert_eq!(file[distinct..end], [&3_u64.to_le_bytes()[..], &3_u64.to_le_bytes(), &21_i128.to_le_bytes()].concat());

    let error = summaries(&with(distinct, &4_u64.to_le_bytes())).unwrap_err();
    assert_eq!((error.kind(), error.section(), error.column()), (ErrorKind::InvalidFile, Some(Section::ColumnMetadata), Some("n")));
    assert!(error.to_string().contains("3 rows cannot have 4 different values"), "{error}");

    let lie = verify(&with(sum, &22_i128.to_le_bytes())).unwrap();
    assert!(lie.len() == 1 && lie[0].to_string().contains("the sum of the column is said to be 22, and is 21"), "{lie:?}");

    // Flags of later versions are not looked at; without them, nothing is known.
    let known = |flags_are: u32| summaries(&with(flags, &flags_are.to_le_bytes())).map(|all| (all[0].distinct_count, all[0].sum)).unwrap();
    assert_eq!(known(0xFFFF_FFFF), (Some(3), Some(21)));
    assert_eq!(known(1), (Some(3), None));
    assert_eq!(known(2), (None, Some(21)));
    assert_eq!(known(0), (None, None));
    // So with those of the stream: behind the header of 8 bytes, a stripe of 4, padding, and the first stream.
    let stream = usize::try_from(cmb.start).unwrap() + 8 + 8 + 8 + 2;
    assert_eq!(file[stream], 1);
    let unflagged = summaries(&with(stream, &[0xFE, 0xFF])).unwrap();
    assert_eq!((unflagged[0].distinct_count, unflagged[0].sum), (None, None));
}
