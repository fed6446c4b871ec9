//! How large a column is, known without its data.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;
use datafusion_fermion::format::alkaid::{Codec, Form, WriterOptions};
use proptest::prelude::*;

use super::drive::{Store, request, write};
use super::roundtrip::table;

/// Bytes of the buffers of an array that has no children.
fn bytes_of(array: &ArrayRef) -> u64 {
    let data = array.to_data();
    if data.is_empty() {
        // Offsets of nothing are one in memory and may be none in a file.
        return 0;
    }
    let nulls = data.nulls().map_or(0, |nulls| nulls.len().div_ceil(8));
    (nulls + data.buffers().iter().map(|buffer| buffer.len()).sum::<usize>()) as u64
}

fn has_dictionary(data: &ArrayData) -> bool {
    matches!(data.data_type(), DataType::Dictionary(..)) || data.child_data().iter().any(has_dictionary)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..Default::default() })]

    #[test]
    fn columns_are_as_large_as_is_said(seed in any::<u64>()) {
        let Some((schema, batches)) = table(seed) else { return Ok(()) };
        // What a writer counted before it compressed, and what the messages say if it did not.
        let counted = WriterOptions { compression: Some(Codec::Zstd), form: Form::File, statistics: true, ..Default::default() };
        let plain = WriterOptions { form: if seed % 2 == 0 { Form::Stream } else { Form::File }, statistics: false, ..Default::default() };
        let (Ok(counted), Ok(plain)) = (write(&schema, &batches, counted), write(&schema, &batches, plain)) else { return Ok(()) };
        let counted = Store::new(&counted).open(1 << 20).unwrap();
        let mut store = Store::new(&plain);
        let meta = store.open(1 << 20).unwrap();
        let columns: Vec<usize> = (0..schema.fields().len()).collect();
        let read = store.scan(&meta, request(&meta, &columns, 1 << 30), |_| unreachable!()).unwrap();
        for (column, field) in schema.fields().iter().enumerate() {
            let known = meta.column_summary(column).unwrap().array_bytes;
            prop_assert_eq!(counted.column_summary(column).unwrap().array_bytes, known, "{:?}", field);
            prop_assert_eq!(known.unwrap().1, !has_dictionary(&new_empty_array(field.data_type()).to_data()), "{:?}", field);
            if new_empty_array(field.data_type()).to_data().child_data().is_empty() {
                let bytes = read.iter().map(|batch| bytes_of(batch.column(column))).sum::<u64>();
                prop_assert_eq!(known.unwrap().0, bytes, "{:?}", field);
            }
        }
    }
}

#[test]
fn nobody_knows_of_compressed_buffers_without_a_zone_map() {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..1000).map(|row| format!("text {row}"))));
    let batch = RecordBatch::try_from_iter([("t", texts)]).unwrap();
    let known =
        |options| Store::new(&write(&batch.schema(), std::slice::from_ref(&batch), options).unwrap()).open(1 << 20).unwrap().column_summary(0);
    let options = WriterOptions { compression: Some(Codec::Lz4), statistics: false, ..Default::default() };
    assert_eq!(known(options.clone()).unwrap().array_bytes, None);
    // Offsets of 1,001 places, "text " a thousand times, and 10, 90 and 900 numbers of one, two and three digits.
    let bytes = Some((1001 * 4 + 5000 + 10 + 2 * 90 + 3 * 900, true));
    assert_eq!(known(WriterOptions { statistics: true, ..options }).unwrap().array_bytes, bytes);
    assert_eq!(known(WriterOptions { statistics: false, ..Default::default() }).unwrap().array_bytes, bytes);
}
