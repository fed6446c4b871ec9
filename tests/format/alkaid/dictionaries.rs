//! Dictionaries that are replaced: every batch finds its own, and those that no batch needs any more are forgotten.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use arrow::array::*;
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::*;
use arrow::util::display::array_value_to_string;
use bytes::Bytes;
use datafusion_fermion::format::alkaid::{AlkaidScan, Codec, Flavor, Form, ScanRequest, WriterOptions};
use datafusion_fermion::format::scan::{Answer, Morsel, Scan, Step};
use rand::seq::SliceRandom;

use super::claims::{Claims, ints, of_ints, stream};
use super::drive::{Store, read_all, request, write};
use crate::random;
use crate::select::{Selected, ids_of, rows_of};

const BATCHES: usize = 64;
const ROWS: usize = 100;

/// Columns of words, and for how many batches each of their dictionaries lasts.
const WORDS: [(&str, usize); 3] = [("each", 1), ("some", 16), ("all", BATCHES)];

/// Values that no other dictionary has.
fn values(column: &str, dictionary: usize, count: usize) -> ArrayRef {
    Arc::new(StringArray::from_iter_values((0..count).map(|value| format!("{value} of dictionary {dictionary} of {column}"))))
}

fn ids(batch: usize) -> ArrayRef {
    let rows = batch * ROWS..(batch + 1) * ROWS;
    Arc::new(Int64Array::from_iter_values(rows.map(|row| i64::try_from(row).unwrap())))
}

/// Batches of the number of each row and of words, of which each dictionary has `count`.
fn table(count: usize) -> Vec<RecordBatch> {
    let batch = |index: usize| {
        let words = |(name, lasts): (&'static str, usize)| {
            let codes = (0..ROWS).map(|row| (row % 11 != 3).then(|| i32::try_from((row + index) * 7 % count).unwrap()));
            let array = DictionaryArray::<Int32Type>::try_new(codes.collect(), values(name, index / lasts, count)).unwrap();
            let array: ArrayRef = Arc::new(array);
            (name, array, true)
        };
        RecordBatch::try_from_iter_with_nullable([("id", ids(index), false)].into_iter().chain(WORDS.map(words))).unwrap()
    };
    (0..BATCHES).map(batch).collect()
}

fn written(batches: &[RecordBatch], form: Form, compression: Option<Codec>) -> Bytes {
    write(&batches[0].schema(), batches, WriterOptions { form, compression, batch_rows: ROWS, ..Default::default() }).unwrap()
}

/// All rows, with words as text.
fn plain(batches: &[RecordBatch]) -> RecordBatch {
    let spelled = |batch: &RecordBatch| {
        let schema = batch.schema();
        let text = |(field, column): (&FieldRef, &ArrayRef)| {
            let data_type = if field.name() == "id" { DataType::Int64 } else { DataType::Utf8 };
            (field.name().clone(), cast(column, &data_type).unwrap(), true)
        };
        RecordBatch::try_from_iter_with_nullable(schema.fields().iter().zip(batch.columns()).map(text)).unwrap()
    };
    let batches: Vec<RecordBatch> = batches.iter().map(spelled).collect();
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

/// Bytes of a file: those that were fetched, those that someone holds, and the most that were ever held.
#[derive(Debug, Default)]
struct Ledger {
    fetched: AtomicUsize,
    held: AtomicUsize,
    most: AtomicUsize,
}

impl Ledger {
    /// A part of a file, in the books as long as it is held.
    fn lend(self: &Arc<Self>, file: &Bytes, range: &Range<u64>) -> Bytes {
        let bytes = file.slice(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap());
        self.fetched.fetch_add(bytes.len(), Ordering::Relaxed);
        let held = self.held.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        self.most.fetch_max(held, Ordering::Relaxed);
        Bytes::from_owner(Lent { bytes, ledger: Arc::clone(self) })
    }

    fn read(&self) -> [usize; 3] {
        [&self.fetched, &self.held, &self.most].map(|bytes| bytes.load(Ordering::Relaxed))
    }
}

struct Lent {
    bytes: Bytes,
    ledger: Arc<Ledger>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.ledger.held.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// Scans columns of these batches, in this order.
fn visit(file: &Bytes, columns: &[usize], order: &[usize], ledger: &Arc<Ledger>, mut take: impl FnMut(Box<dyn Morsel>)) {
    let meta = Store::new(file).open(1 << 20).unwrap();
    let asked = ScanRequest { prune_columns: vec![0.into()], ..request(&meta, columns, ROWS) };
    let mut scan = AlkaidScan::new(meta, asked).unwrap();
    let mut answer = Answer::Next;
    loop {
        answer = match scan.step(answer).unwrap() {
            Step::Prune(_) => Answer::Visit(order.to_vec()),
            Step::Fetch(fetches) => Answer::Fetched(fetches.iter().map(|fetch| ledger.lend(file, &fetch.range)).collect()),
            Step::Decode(morsel) => {
                take(morsel);
                Answer::Next
            }
            Step::Done => return,
            step => panic!("{step:?}"),
        };
    }
}

fn read_in_order(file: &Bytes, columns: &[usize], order: &[usize]) -> Vec<RecordBatch> {
    let mut read = Vec::new();
    visit(file, columns, order, &Arc::default(), |mut morsel| read.push(morsel.next_batch().unwrap().unwrap()));
    read
}

fn in_order(batches: &[RecordBatch], order: &[usize]) -> Vec<RecordBatch> {
    order.iter().map(|index| batches[*index].clone()).collect()
}

fn forward() -> Vec<usize> {
    (0..BATCHES).collect()
}

fn shuffled(seed: u64) -> Vec<usize> {
    let mut order = forward();
    order.shuffle(&mut random::rng(seed));
    order
}

#[test]
fn every_batch_has_the_words_of_its_own_dictionary() {
    let batches = table(40);
    for (form, compression) in [(Form::File, None), (Form::Stream, None), (Form::File, Some(Codec::Zstd)), (Form::Stream, Some(Codec::Lz4))] {
        let (_, read) = read_all(&written(&batches, form, compression), ROWS).unwrap();
        assert!(plain(&read) == plain(&batches), "{form:?} {compression:?}");
        // A file has one dictionary for all batches.
        let expected = if form == Form::File { [BATCHES * 40, BATCHES / 16 * 40, 40] } else { [40; 3] };
        let sizes = |batch: &RecordBatch| [1, 2, 3].map(|column| batch.column(column).as_any_dictionary().values().len());
        assert!(read.len() == BATCHES && read.iter().all(|batch| sizes(batch) == expected), "{form:?} {compression:?}");
    }
}

#[test]
fn batches_that_are_skipped_leave_no_dictionary_to_the_others() {
    let batches = table(40);
    let kept: [fn(usize) -> bool; 6] = [
        |batch| batch % 3 == 1,
        |batch| batch % 20 > 3,
        |batch| batch % 16 == 15,
        |batch| batch == 0,
        |batch| batch + 1 == BATCHES,
        |batch| !(10..50).contains(&batch),
    ];
    for form in [Form::File, Form::Stream] {
        let file = written(&batches, form, None);
        let mut store = Store::new(&file);
        let meta = store.open(1 << 20).unwrap();
        for (pattern, is_kept) in kept.into_iter().enumerate() {
            let keep: Vec<bool> = (0..BATCHES).map(is_kept).collect();
            let order: Vec<usize> = (0..BATCHES).filter(|batch| keep[*batch]).collect();
            for columns in [vec![0, 3, 1, 2], vec![2], vec![0, 3]] {
                let asked = ScanRequest { prune_columns: vec![0.into()], ..request(&meta, &columns, ROWS) };
                let read = store.scan(&meta, asked, |_| BooleanArray::from(keep.clone())).unwrap();
                let expected = plain(&in_order(&batches, &order)).project(&columns).unwrap();
                assert!(plain(&read) == expected, "{form:?}, pattern {pattern}, columns {columns:?}");
            }
        }
    }
}

#[test]
fn batches_in_any_order_have_their_own_dictionaries() {
    let batches = table(40);
    for (form, compression) in [(Form::File, None), (Form::Stream, Some(Codec::Lz4)), (Form::Stream, None)] {
        let file = written(&batches, form, compression);
        // Of batches that are planned together, some use a dictionary that came with those before, and others between them do not.
        for seed in 0..20 {
            let mut order = shuffled(seed);
            order.truncate(BATCHES - usize::try_from(seed).unwrap());
            let read = read_in_order(&file, &[0, 1, 2, 3], &order);
            assert!(plain(&read) == plain(&in_order(&batches, &order)), "{form:?} {compression:?}, seed {seed}");
        }
    }
}

#[test]
fn batches_that_wait_to_be_decoded_keep_their_dictionaries() {
    let batches = table(40);
    for form in [Form::File, Form::Stream] {
        let (file, mut waiting) = (written(&batches, form, None), Vec::new());
        visit(&file, &[0, 1, 2, 3], &forward(), &Arc::default(), |morsel| waiting.push(morsel));
        // The scan is over, and the last batch begins.
        let decode = |mut morsel: Box<dyn Morsel>| thread::spawn(move || morsel.next_batch().unwrap().unwrap());
        let threads: Vec<_> = waiting.into_iter().rev().map(decode).collect();
        let mut read: Vec<RecordBatch> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        read.reverse();
        assert!(plain(&read) == plain(&batches), "{form:?}");
    }
}

#[test]
fn rows_that_are_selected_have_the_words_of_their_own_dictionaries() {
    let batches = table(40);
    let (all, rows) = (plain(&batches), i64::try_from(ROWS).unwrap());
    let is_wanted = |id: i64| id / rows % 3 == 2;
    for form in [Form::File, Form::Stream] {
        let file = written(&batches, form, None);
        let mut store = Store::new(&file);
        let meta = store.open(1 << 20).unwrap();
        let asked = ScanRequest { select_columns: vec![0, 1], ..request(&meta, &[0, 1, 2, 3], ROWS) };
        let mut selected = Selected::default();
        let read = store.scan_selected(&meta, asked, |_| unreachable!("nothing to prune by"), |morsel| Some(selected.select(morsel, 0, is_wanted)));
        let read = read.unwrap();
        let ids = ids_of(&read, 0);
        // What it was not asked about is read as a whole.
        assert!(ids.len() < all.num_rows() && selected.ids.iter().all(|id| ids.binary_search(id).is_ok()), "{form:?}");
        assert!(ids_of(std::slice::from_ref(&all), 0).into_iter().filter(|id| is_wanted(*id)).all(|id| ids.binary_search(&id).is_ok()), "{form:?}");
        assert!(plain(&read) == rows_of(&all, &ids).unwrap(), "{form:?}");
    }
}

#[test]
fn dictionaries_that_no_batch_needs_any_more_are_forgotten() {
    let batches = table(4000);
    let stream = written(&batches, Form::Stream, None);
    for order in [forward(), forward().into_iter().rev().collect()] {
        let ledger = Arc::default();
        visit(&stream, &[0, 1], &order, &ledger, |mut morsel| assert_eq!(morsel.next_batch().unwrap().unwrap().num_rows(), ROWS));
        let [fetched, held, most] = ledger.read();
        // Batches are fetched together up to 1 MiB, and the dictionaries of those before are gone by then.
        assert!(most < 3 << 19 && fetched > 5 * most, "{fetched} bytes were fetched, and {most} held");
        assert_eq!(held, 0);
    }
}

#[test]
fn dictionaries_that_the_next_batches_need_are_not_fetched_again() {
    let batches = table(4000);
    let stream = written(&batches, Form::Stream, None);
    let ledger = Arc::default();
    visit(&stream, &[0, 1, 2, 3], &forward(), &ledger, drop);
    let [fetched, held, _] = ledger.read();
    assert!(fetched > stream.len() / 10 * 9 && fetched <= stream.len(), "{fetched} of {} bytes were fetched", stream.len());
    assert_eq!(held, 0);
}

#[test]
fn dictionaries_are_replaced_with_those_that_their_values_use() {
    let batch = |index: usize| {
        let inner = DictionaryArray::<Int32Type>::try_new(Int32Array::from(vec![2, 0, 1]), values("inner", index / 3, 3)).unwrap();
        let inner: ArrayRef = Arc::new(inner);
        let of = StructArray::new(vec![Field::new("d", inner.data_type().clone(), true)].into(), vec![inner], None);
        let codes = Int32Array::from_iter_values((0..ROWS).map(|row| i32::try_from((row + index) % 3).unwrap()));
        let outer: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::try_new(codes, Arc::new(of)).unwrap());
        RecordBatch::try_from_iter_with_nullable([("id", ids(index), false), ("outer", outer, true)]).unwrap()
    };
    let batches: Vec<RecordBatch> = (0..BATCHES).map(batch).collect();
    let of_batch = |batch: &RecordBatch| (0..ROWS).map(|row| array_value_to_string(batch.column(1), row).unwrap()).collect::<Vec<_>>();
    let shown = |batches: &[RecordBatch]| batches.iter().map(of_batch).collect::<Vec<_>>();
    for form in [Form::File, Form::Stream] {
        let file = written(&batches, form, None);
        for order in [forward(), forward().into_iter().rev().collect(), shuffled(1), shuffled(2)] {
            let read = read_in_order(&file, &[0, 1], &order);
            assert!(ids_of(&read, 0) == ids_of(&in_order(&batches, &order), 0) && shown(&read) == shown(&in_order(&batches, &order)), "{form:?}");
        }
    }
}

#[test]
fn values_without_a_width_are_added_to_the_dictionary_of_a_file() {
    let empty = |nulls: &[bool]| FixedSizeBinaryArray::new(0, arrow::buffer::Buffer::default(), Some(nulls.to_vec().into()));
    let of = |number: i64| {
        let structs = |z: ArrayRef| -> ArrayRef {
            let k: ArrayRef = Arc::new(Int64Array::from(vec![number, number + 1]));
            Arc::new(StructArray::from(vec![
                (Arc::new(Field::new("k", DataType::Int64, true)), k),
                (Arc::new(Field::new("z", z.data_type().clone(), true)), z),
            ]))
        };
        let lists = FixedSizeListArray::new(
            Arc::new(Field::new("item", DataType::Int32, true)),
            0,
            Arc::new(Int32Array::new_null(0)),
            Some(vec![true; 2].into()),
        );
        [Arc::new(empty(&[number == 1, true])) as ArrayRef, structs(Arc::new(empty(&[true, false]))), structs(Arc::new(lists))]
    };
    for index in 0..3 {
        let batch = |number: i64| {
            let dictionary = DictionaryArray::<Int8Type>::try_new(vec![1, 0, 1].into(), Arc::clone(&of(number)[index])).unwrap();
            RecordBatch::try_from_iter_with_nullable([("d", Arc::new(dictionary) as ArrayRef, true)]).unwrap()
        };
        let batches = [batch(0), batch(1), batch(5), batch(0)];
        let shown = |batches: &[RecordBatch]| {
            let of_batch = |batch: &RecordBatch| {
                let nulls = batch.column(0).logical_nulls();
                (0..batch.num_rows())
                    .map(|row| (nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)), array_value_to_string(batch.column(0), row).unwrap()))
                    .collect::<Vec<_>>()
            };
            batches.iter().flat_map(of_batch).collect::<Vec<_>>()
        };
        for form in [Form::File, Form::Stream] {
            let options = WriterOptions { form, batch_rows: 3, ..Default::default() };
            let file = write(&batches[0].schema(), &batches, options).unwrap();
            let (_, read) = read_all(&file, 3).unwrap();
            assert_eq!((read.len(), shown(&read)), (4, shown(&batches)), "{form:?}, {}", batches[0].schema().field(0).data_type());
        }
    }
}

/// A file of a dictionary and a batch, in which the batch comes first.
fn turned(file: &Bytes) -> Bytes {
    let number = |at: usize| u64::from(u32::from_le_bytes(*file[at..].first_chunk().unwrap()));
    let message = |offset: u64| number(usize::try_from(offset).unwrap() + 4) + 8;
    let batch = Store::new(file).open(1 << 20).unwrap().spans()[0];
    // Behind the magic and the schema.
    let start = 8 + message(8);
    let block = |offset: u64, metadata: u64, length: u64| [offset, metadata, length - metadata].map(u64::to_le_bytes).concat();
    let dictionary_length = batch.offset - start;
    let [dictionary, records] = [(start, dictionary_length), (batch.offset, batch.length)].map(|(offset, length)| (message(offset), length));
    let mut turned = file.to_vec();
    let parts = [&file[usize::try_from(batch.offset).unwrap()..], &file[usize::try_from(start).unwrap()..]];
    let moved = [&parts[0][..usize::try_from(batch.length).unwrap()], &parts[1][..usize::try_from(dictionary_length).unwrap()]].concat();
    turned[usize::try_from(start).unwrap()..][..moved.len()].copy_from_slice(&moved);
    for (offset, to, (metadata, length)) in [(start, start + batch.length, dictionary), (batch.offset, start, records)] {
        let named = block(offset, metadata, length);
        let at = file.windows(named.len()).rposition(|window| window == named).unwrap();
        turned[at..at + named.len()].copy_from_slice(&block(to, metadata, length));
    }
    Bytes::from(turned)
}

#[test]
fn in_a_file_a_batch_may_come_before_its_dictionary() {
    let words = ["one", "two and some more", "three"].map(Some).into_iter().cycle().take(50).collect::<DictionaryArray<Int32Type>>();
    let batch = RecordBatch::try_from_iter([("w", Arc::new(words) as ArrayRef)]).unwrap();
    for compression in [None, Some(Codec::Zstd)] {
        let options = WriterOptions { flavor: Flavor::Arrow, statistics: false, compression, ..Default::default() };
        let file = turned(&write(&batch.schema(), std::slice::from_ref(&batch), options).unwrap());
        assert!(read_all(&file, 100).unwrap().1 == [batch.clone()]);
        let others = arrow_ipc::reader::FileReader::try_new(std::io::Cursor::new(file.to_vec()), None).unwrap();
        assert!(others.map(Result::unwrap).eq([batch.clone()]));
    }
}

#[test]
fn values_that_are_added_to_nested_dictionaries_are_fetched_once() {
    const ROUNDS: i32 = 200;
    // Structs of a code of the inner dictionary.
    let field = Field::new("word", DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Int32)), true);
    let data_type = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Struct(vec![field].into())));
    let (outer, inner) = (0, 1);
    let words = |first: i32| Claims { body: of_ints(&[0, 1, 2, 3].map(|word| first + word)), dictionary: Some((inner, false)), ..ints() };
    let structs = |code: i32, is_delta| Claims {
        rows: 1,
        nodes: vec![(1, 0), (1, 0)],
        buffers: vec![(0, 0), (0, 0), (0, 4)],
        body: of_ints(&[code]),
        dictionary: Some((outer, is_delta)),
        ..Default::default()
    };
    let codes = |last: i32| Claims { body: of_ints(&[0, last / 2, last, last]), ..ints() };
    let rounds = |replaced: Option<i32>| {
        let round = |round: i32| {
            let own = [structs(round % 4, round > 0), codes(round)];
            (replaced == Some(round)).then(|| words(1000)).into_iter().chain(own).collect::<Vec<_>>()
        };
        [words(0)].into_iter().chain((0..ROUNDS).flat_map(round)).collect::<Vec<_>>()
    };
    for replaced in [None, Some(0), Some(150)] {
        let file = stream(data_type.clone(), &rounds(replaced));
        let ledger = Arc::default();
        let mut read = Vec::new();
        let order: Vec<usize> = (0..usize::try_from(ROUNDS).unwrap()).collect();
        visit(&file, &[0], &order, &ledger, |mut morsel| {
            let batch = morsel.next_batch().unwrap().unwrap();
            read.extend((0..4).map(|row| array_value_to_string(batch.column(0), row).unwrap()));
        });
        let expected = (0..ROUNDS).flat_map(|round| {
            let first = if replaced.is_some_and(|replaced| round >= replaced) { 1000 } else { 0 };
            [0, round / 2, round, round].map(|code| format!("{{word: {}}}", first + code % 4))
        });
        assert_eq!(read, expected.collect::<Vec<_>>(), "{replaced:?}");
        // Twice at most: before and behind the inner one that is replaced. A batch is 16 bytes, a value 4.
        let [fetched, ..] = ledger.read();
        assert!(fetched < 3 * file.len(), "{fetched} bytes of {}", file.len());
    }
}

/// Of rows that were picked, or shared out among files, the dictionary is mostly that of others.
#[test]
fn a_file_of_one_batch_has_the_values_that_it_uses() {
    let words: ArrayRef = Arc::new(StringArray::from_iter_values((0..2000).map(|value| format!("word {value}"))));
    let codes = Int16Array::from(vec![Some(900), None, Some(3), Some(900), Some(40)]);
    let coded: ArrayRef = Arc::new(DictionaryArray::<Int16Type>::try_new(codes, Arc::clone(&words)).unwrap());
    let list = ListArray::new(
        Arc::new(Field::new("item", coded.data_type().clone(), true)),
        OffsetBuffer::from_lengths([2, 0, 1, 2, 0]),
        Arc::clone(&coded),
        None,
    );
    let outer = DictionaryArray::<Int8Type>::try_new(Int8Array::from(vec![4, 4, 2, 2, 4]), Arc::new(list.clone())).unwrap();
    let nothing = DictionaryArray::<Int16Type>::try_new(Int16Array::from(vec![None; 5]), words).unwrap();
    let columns: [(&str, ArrayRef); 4] = [("coded", coded), ("list", Arc::new(list)), ("outer", Arc::new(outer)), ("nothing", Arc::new(nothing))];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
    let shown = |batch: &RecordBatch| -> Vec<String> {
        let columns = batch.columns().iter();
        columns.flat_map(|column| (0..batch.num_rows()).map(|row| array_value_to_string(column, row).unwrap()).collect::<Vec<_>>()).collect()
    };
    let values = |array: &ArrayRef| array.as_any_dictionary().values().len();
    for form in [Form::File, Form::Stream] {
        let options = WriterOptions { form, batch_rows: 5, ..Default::default() };
        let read = |batches: &[RecordBatch]| read_all(&write(&batch.schema(), batches, options.clone()).unwrap(), 100).unwrap().1;
        // Fewer rows than make a batch wait for others, and none come.
        let one = read(&[batch.slice(0, 4)]);
        assert_eq!(shown(&one[0]), shown(&batch.slice(0, 4)), "{form:?}");
        assert_eq!(one[0].column(0).as_any_dictionary().values().as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["word 3", "word 900"]);
        assert_eq!((values(one[0].column(1).as_list::<i32>().values()), values(one[0].column(2)), values(one[0].column(3))), (3, 5, 0), "{form:?}");
        // Others may use the rest.
        let two = read(&[batch.clone(), batch.slice(2, 3)]);
        assert_eq!(two.iter().flat_map(shown).collect::<Vec<_>>(), [shown(&batch), shown(&batch.slice(2, 3))].concat(), "{form:?}");
        assert_eq!(values(two[0].column(0)), 2000, "{form:?}");
    }
}
