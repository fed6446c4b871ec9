//! Nulls that arrays do not say they have: those below others.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::NullBuffer;
use arrow::datatypes::*;
use arrow_ipc::writer::StreamWriter;
use bytes::Bytes;
use datafusion_fermion::format::alkaid::WriterOptions;

use super::drive::{read_all, write};

/// By the `arrow-ipc` crate, which writes what it is given.
fn of_others(batch: &RecordBatch) -> Bytes {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap().into()
}

#[test]
fn fields_of_a_null_are_null_whatever_lies_there() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None, Some(4)]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "", "c", "d"]));
    let inner: ArrayRef = Arc::new(StructArray::from(vec![(Arc::new(Field::new("t", DataType::Utf8, false)), texts)]));
    let fields: Fields = vec![Field::new("n", DataType::Int64, true), Field::new("s", inner.data_type().clone(), true)].into();
    let structs = StructArray::new(fields, vec![numbers, inner], Some(NullBuffer::from(vec![true, false, true, false])));
    let items = Arc::new(Field::new("item", structs.data_type().clone(), true));
    let list: ArrayRef = Arc::new(FixedSizeListArray::new(items, 1, Arc::new(structs.clone()), None));
    let batch = RecordBatch::try_from_iter_with_nullable([("s", Arc::new(structs) as ArrayRef, true), ("l", list, true)]).unwrap();
    for file in [of_others(&batch), write(&batch.schema(), std::slice::from_ref(&batch), WriterOptions::default()).unwrap()] {
        let read = read_all(&file, 100).unwrap().1.remove(0);
        assert_eq!(read, batch);
        for structs in [read.column(0).as_struct(), read.column(1).as_fixed_size_list().values().as_struct()] {
            let n: Vec<Option<i64>> = structs.column(0).as_primitive::<Int64Type>().iter().collect();
            assert_eq!(n, [Some(1), None, None, None]);
            let t: Vec<Option<&str>> = structs.column(1).as_struct().column(0).as_string::<i32>().iter().collect();
            assert_eq!(t, [Some("a"), None, Some("c"), None]);
        }
    }
}
