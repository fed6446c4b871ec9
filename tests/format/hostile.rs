//! Files that are well formed and still ask for what nobody can give, or contradict themselves; and files that only seem to.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::*;
use bytes::Bytes;
use datafusion_fermion::format::fermion::{Writer, WriterOptions};
use datafusion_fermion::format::{Error, ErrorKind};

use crate::by_hand::{self, BYTES, Column, I8, I64, I256, Node, Stream, Tree, data, file, offsets, valid};
use crate::drive::{read_all, write};

// Type ids of the specification.
const NULL: u16 = 0;
const INT8: u16 = 2;
const INT16: u16 = 3;
const INT64: u16 = 5;
const DECIMAL256: u16 = 16;
const FIXED_SIZE_BINARY: u16 = 36;
const LIST: u16 = 40;
const FIXED_SIZE_LIST: u16 = 44;
const STRUCT: u16 = 45;
const UNION: u16 = 47;
const RUN_END_ENCODED: u16 = 49;

fn read(file: &Bytes) -> Result<Vec<RecordBatch>, Error> {
    read_all(file, 8192).map(|(_, batches)| batches)
}

fn refused(rows: u32, column: Column) {
    let error = read(&file(rows, vec![column])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidFile, "{error}");
}

fn come_back(array: ArrayRef) -> Vec<RecordBatch> {
    let schema = Arc::new(Schema::new(vec![Field::new("a", array.data_type().clone(), true)]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![array]).unwrap();
    let file = write(&schema, std::slice::from_ref(&batch), WriterOptions::default()).unwrap();
    let batches = read(&file).unwrap();
    let mut row = 0;
    for read in &batches {
        assert_eq!(read.column(0), &batch.column(0).slice(row, read.num_rows()), "rows from {row} on");
        row += read.num_rows();
    }
    assert_eq!(row, batch.num_rows());
    batches
}

fn item(data_type: &DataType) -> FieldRef {
    Arc::new(Field::new("item", data_type.clone(), true))
}

/// A dictionary of Int8 keys, all used in turn.
fn dictionary(values: ArrayRef, rows: usize) -> ArrayRef {
    let keys = (0..rows).map(|row| (row % 11 != 10).then(|| i8::try_from(row % values.len()).unwrap()));
    Arc::new(DictionaryArray::<Int8Type>::new(keys.collect(), values))
}

/// Values of types that Arrow's cast makes no dictionaries of, or only with an entry per row.
fn odd_values() -> Vec<ArrayRef> {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let words: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("c")]));
    let field = |name: &str, array: &ArrayRef| Arc::new(Field::new(name, array.data_type().clone(), true));
    let lists: ArrayRef = Arc::new(ListArray::new(item(&DataType::Int64), OffsetBuffer::from_lengths([2, 0, 1]), Arc::clone(&numbers), None));
    let structs: ArrayRef =
        Arc::new(StructArray::new(vec![field("x", &numbers), field("y", &lists)].into(), vec![Arc::clone(&numbers), Arc::clone(&lists)], None));
    let fields: UnionFields = [(0, field("x", &numbers)), (7, field("y", &words))].into_iter().collect();
    let union = UnionArray::try_new(fields, vec![0, 7, 7].into(), None, vec![Arc::clone(&numbers), Arc::clone(&words)]).unwrap();
    // Arrow makes no rows of these, either.
    let inner = dictionary(Arc::clone(&lists), 3);
    let nested: ArrayRef = Arc::new(StructArray::new(vec![field("d", &inner)].into(), vec![inner], None));
    vec![
        Arc::new(BooleanArray::from(vec![true, false])),
        Arc::new(DurationNanosecondArray::from(vec![1, 2])),
        Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(1, 2, 3), IntervalMonthDayNano::new(3, 2, 1)])),
        Arc::new(IntervalYearMonthArray::from(vec![1, 2])),
        Arc::new(FixedSizeBinaryArray::try_from_iter([[1, 2], [3, 4]].iter()).unwrap()),
        lists,
        structs,
        Arc::new(union),
        nested,
    ]
}

#[test]
fn dictionaries_of_any_type_are_read_with_an_entry_per_distinct_value() {
    for values in odd_values() {
        // Unions have no nulls.
        let keys = (0..1000).map(|row| (row % 11 != 10 || values.data_type().is_nested()).then(|| i8::try_from(row % values.len()).unwrap()));
        let array = DictionaryArray::<Int8Type>::new(keys.collect(), Arc::clone(&values));
        let batches = come_back(Arc::new(array));
        assert_eq!(batches.len(), 1, "{}", values.data_type());
        assert!(batches[0].column(0).as_dictionary::<Int8Type>().values().len() <= values.len(), "{}", values.data_type());
    }
}

#[test]
fn a_row_of_many_items_has_a_dictionary_of_few() {
    for values in odd_values() {
        let keys = (0..300).map(|row| i8::try_from(row % values.len()).unwrap()).collect::<Int8Array>();
        let items: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::new(keys, values));
        let list = ListArray::new(item(items.data_type()), OffsetBuffer::from_lengths([300]), items, None);
        come_back(Arc::new(list));
    }
}

#[test]
fn one_row_may_have_many_lists_with_many_values() {
    const VALUES: usize = (1 << 23) + 1;
    let nulls: ArrayRef = Arc::new(NullArray::new(2 * VALUES));
    let inner: ArrayRef = Arc::new(ListArray::new(item(&DataType::Null), OffsetBuffer::from_lengths([VALUES, VALUES]), nulls, None));
    let outer = ListArray::new(item(inner.data_type()), OffsetBuffer::from_lengths([2]), inner, None);
    come_back(Arc::new(outer));
}

#[test]
fn what_could_not_be_read_is_not_written() {
    let push = |array: ArrayRef, nullable| {
        let field = Field::new("a", array.data_type().clone(), true);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field.clone()])), vec![array]).unwrap();
        let mut writer =
            Writer::new(Arc::new(Schema::new(vec![field.with_nullable(nullable)])), WriterOptions { page_rows: 1, ..Default::default() })?;
        writer.push(&batch)?;
        writer.finish()
    };
    let nulls: ArrayRef = Arc::new(NullArray::new((1 << 28) + 1));
    let long: ArrayRef = Arc::new(ListArray::new(item(&DataType::Null), OffsetBuffer::from_lengths([nulls.len()]), nulls, None));
    for (array, nullable) in [(long, true), (Arc::new(Int8Array::from(vec![None])) as ArrayRef, false)] {
        let error = push(array, nullable).unwrap_err();
        assert_eq!((error.kind(), error.column()), (ErrorKind::InvalidArgument, Some("a")), "{error}");
    }
}

#[test]
fn a_writer_that_has_failed_makes_no_file() {
    let fields = vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, false)];
    let batch = |b| {
        let fields: Vec<Field> = fields.iter().map(|field| field.clone().with_nullable(true)).collect();
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![1])), Arc::new(Int64Array::from(vec![b]))];
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
    };
    let mut writer =
        Writer::new(Arc::new(Schema::new(fields.clone())), WriterOptions { page_rows: 1, stripe_rows: 1, ..Default::default() }).unwrap();
    writer.push(&batch(Some(2))).unwrap();
    // A batch of another table is refused, and does no harm.
    let other = RecordBatch::try_from_iter([("a", Arc::new(Int8Array::from(vec![1])) as ArrayRef)]).unwrap();
    writer.push(&other).unwrap_err();
    writer.push(&batch(Some(2))).unwrap();
    writer.push(&batch(None)).unwrap_err();
    assert_eq!(writer.push(&batch(Some(2))).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(writer.finish().unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn nulls_of_a_column_without_metadata_are_bounded() {
    let null = |node: Node| Column(node, Vec::new());
    let long = i32::MAX;
    refused(8192, null(Node::new("a", FIXED_SIZE_BINARY, vec![]).params(long, 0)));
    refused(8192, null(Node::new("a", FIXED_SIZE_LIST, vec![Node::new("item", INT64, vec![])]).params(long, 0)));
    let wide = Node::new("x", FIXED_SIZE_BINARY, vec![]).params(long, 0);
    refused(8192, null(Node::new("a", STRUCT, vec![wide.clone()])));
    refused(8192, null(Node::new("a", UNION, vec![wide])));
    refused(8192, null(Node::new("a", UNION, vec![])));
    refused(8192, null(Node::new("a", LIST, vec![Node::new("item", UNION, vec![])])));
    // A width of which some rows fit a batch.
    let batches = read(&file(17, vec![null(Node::new("a", FIXED_SIZE_BINARY, vec![]).params(1 << 26, 0))])).unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [8, 8, 1]);
}

#[test]
fn runs_of_nulls_are_no_longer_than_their_ends_can_say() {
    let runs = vec![Node::new("run_ends", INT16, vec![]).required(), Node::new("values", INT64, vec![])];
    let file = file(40_000, vec![Column(Node::new("a", RUN_END_ENCODED, runs), Vec::new())]);
    let (_, batches) = read_all(&file, 65_536).unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [20_000, 20_000]);
    assert!(batches.iter().all(|batch| batch.column(0).logical_null_count() == batch.num_rows()));
}

#[test]
fn a_valid_slot_has_a_value() {
    let nothing = || Stream(2, Vec::new());
    refused(5, Column(Node::new("a", INT64, vec![]), vec![valid(), nothing()]));
    refused(5, Column(Node::new("a", STRUCT, vec![Node::new("x", INT64, vec![])]), vec![valid(), valid(), nothing()]));
    refused(5, Column(Node::new("a", STRUCT, vec![Node::new("x", INT64, vec![])]), vec![valid(), by_hand::validity(&[0, 0, 1, 0, 0]), nothing()]));
    // An empty value stands for a null of a fixed-size binary, and for nothing else.
    let width = || Node::new("a", FIXED_SIZE_BINARY, vec![]).params(3, 0);
    let empty = || data(&Tree::constant_bytes(BYTES, 2, b""));
    refused(2, Column(width(), vec![valid(), empty()]));
    refused(2, Column(width(), vec![by_hand::validity(&[1, 0]), empty()]));
    assert_eq!(read(&file(2, vec![Column(width(), vec![by_hand::validity(&[0, 0]), empty()])])).unwrap()[0].column(0).null_count(), 2);
}

/// One row: a list of so many items.
fn list_of(items: u32, child: Node, streams: Vec<Stream>) -> Column {
    let lists = [valid(), offsets(&[0, items.into()])];
    Column(Node::new("a", LIST, vec![child]), lists.into_iter().chain(streams).collect())
}

#[test]
fn few_bytes_do_not_claim_much_memory() {
    let decimal = || Node::new("item", DECIMAL256, vec![]).params(76, 0);
    let one = [&[1_u8][..], &[0; 31]].concat();
    let decimals = |count| list_of(count, decimal(), vec![valid(), data(&Tree::constant_bytes(I256, count, &one))]);
    refused(1, decimals((1 << 25) + 1));
    let inner = |count| {
        let zeros = Tree::constant(I64, count + 1, 0);
        let streams = vec![valid(), Stream(1, vec![zeros.page(count)])];
        list_of(count, Node::new("item", LIST, vec![Node::new("item", NULL, vec![])]), streams)
    };
    refused(1, inner((1 << 26) + 1));
    let ids = |count| list_of(count, Node::new("item", UNION, vec![Node::new("n", NULL, vec![])]), vec![data(&Tree::constant(I8, count, 0))]);
    refused(1, ids((1 << 28) + 1));
    let columns = vec![decimals(1000), inner(1000), ids(1000)];
    assert_eq!(read(&file(1, columns)).unwrap()[0].num_rows(), 1);
}

#[test]
fn offsets_that_descend_are_refused() {
    let list = |ends: &[i64]| {
        Column(Node::new("a", LIST, vec![Node::new("item", INT8, vec![])]), vec![valid(), offsets(ends), valid(), data(&Tree::constant(I8, 9, 0))])
    };
    assert_eq!(read(&file(3, vec![list(&[0, 4, 4, 9])])).unwrap()[0].num_rows(), 3);
    refused(3, list(&[0, 4, 3, 9]));
    refused(3, list(&[-1, 4, 5, 9]));
    refused(3, list(&[0, 4, 5, i64::MAX]));
    // The second page begins before the first one ends.
    let pages = vec![Tree::plain_i64(&[0, 4]).page(1), Tree::plain_i64(&[3, 9]).page(1)];
    let streams = vec![valid(), Stream(1, pages), valid(), data(&Tree::constant(I8, 9, 0))];
    refused(2, Column(Node::new("a", LIST, vec![Node::new("item", INT8, vec![])]), streams));
}
