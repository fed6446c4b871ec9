//! A golden file that the writer had no part in: one column per type and encoding that the others lack, made by hand, and compared with values spelled out here.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::*;

use crate::by_hand::{self, *};

const ROWS: u32 = 6;

/// Each column, as bytes and as what they mean.
pub(crate) fn columns() -> Vec<(Column, ArrayRef)> {
    vec![union(1), union(0), map(), fixed_size_list(), dictionary(), runs(), decimal(), narrow(), fixed_size_binary(), delta(), frame()]
}

fn field(name: &str, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type, true))
}

fn node(name: &'static str, id: u16, tag: i32) -> Node {
    Node::new(name, id, vec![]).tag(tag)
}

/// 5, "x", null, 6, 7, "" as a union of Int64 (0) and Utf8 (9).
fn union(mode: i32) -> (Column, ArrayRef) {
    let type_ids = [0, 9, 9, 0, 0, 9];
    let ids = data(&Tree::plain(I8, &type_ids.map(|id: u8| [id])));
    let dense = mode == 1;
    let (numbers, words, valid_words): (&[i64], &[&[u8]], &[u8]) = match dense {
        true => (&[5, 6, 7], &[b"x", b"", b""], &[1, 0, 1]),
        false => (&[5, 0, 0, 6, 7, 0], &[b"", b"x", b"", b"", b"", b""], &[1, 1, 0, 1, 1, 1]),
    };
    let streams = vec![ids, valid(), data(&Tree::plain_i64(numbers)), validity(valid_words), data(&Tree::text(words))];
    let name = if dense { "dense" } else { "sparse" };
    let column = Column(Node::new(name, 47, vec![node("n", 5, 0), node("s", 37, 9)]).params(mode, 0), streams);
    let words = words.iter().zip(valid_words).map(|(word, valid)| (*valid == 1).then(|| std::str::from_utf8(word).unwrap()));
    let children: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(numbers.to_vec())), Arc::new(words.collect::<StringArray>())];
    let fields: UnionFields = [(0, field("n", DataType::Int64)), (9, field("s", DataType::Utf8))].into_iter().collect();
    let offsets = dense.then(|| vec![0, 0, 1, 1, 2, 2].into());
    let type_ids: Vec<i8> = type_ids.iter().map(|id| i8::try_from(*id).unwrap()).collect();
    (column, Arc::new(UnionArray::try_new(fields, type_ids.into(), offsets, children).unwrap()))
}

/// {"a": 1, "b": null}, {}, null, {"c": 3}, {}, {"d": 4}.
fn map() -> (Column, ArrayRef) {
    let entries = Node::new("entries", 45, vec![node("keys", 37, 0).required(), node("values", 5, 0)]).required();
    let streams = vec![
        validity(&[1, 1, 0, 1, 1, 1]),
        offsets(&[0, 2, 2, 2, 3, 3, 4]),
        valid(),
        valid(),
        data(&Tree::text(&[b"a", b"b", b"c", b"d"])),
        validity(&[1, 0, 1, 1]),
        data(&Tree::plain_i64(&[1, 0, 3, 4])),
    ];
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d"]));
    let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)]));
    let fields: Fields = vec![Arc::new(Field::new("keys", DataType::Utf8, false)), field("values", DataType::Int64)].into();
    let entry = Arc::new(Field::new("entries", DataType::Struct(fields.clone()), false));
    let nulls = NullBuffer::from(vec![true, true, false, true, true, true]);
    let offsets = OffsetBuffer::from_lengths([2, 0, 0, 1, 0, 1]);
    let map = MapArray::new(entry, offsets, StructArray::new(fields, vec![keys, values], None), Some(nulls), false);
    (Column(Node::new("map", 46, vec![entries]), streams), Arc::new(map))
}

/// [0, 1], null, [4, null], [6, 7], [8, 9], [10, 11].
fn fixed_size_list() -> (Column, ArrayRef) {
    let values: Vec<i64> = (0..12).collect();
    let valid_values = [1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1];
    let streams = vec![validity(&[1, 0, 1, 1, 1, 1]), validity(&valid_values), data(&Tree::plain_i64(&values))];
    let items: Int64Array = values.iter().zip(valid_values).map(|(value, valid)| (valid == 1).then_some(*value)).collect();
    let nulls = NullBuffer::from(vec![true, false, true, true, true, true]);
    let list = FixedSizeListArray::new(field("item", DataType::Int64), 2, Arc::new(items), Some(nulls));
    (Column(Node::new("pairs", 44, vec![node("item", 5, 0)]).params(2, 0), streams), Arc::new(list))
}

/// "b", "a", null, "b", "b", "a" with Int8 keys, stored as DICTIONARY.
fn dictionary() -> (Column, ArrayRef) {
    let codes = Tree::plain(U8, &[0, 1, 1, 0, 0, 1].map(|code: u8| [code]));
    let tree = Tree::new(DICTIONARY, BYTES, ROWS).of(vec![codes, Tree::text(&[b"b", b"a"])]);
    let column = Column(Node::new("dictionary", 48, vec![node("", 37, 0)]).params(2, 0), vec![validity(&[1, 1, 0, 1, 1, 1]), data(&tree)]);
    let keys = Int8Array::from(vec![Some(0), Some(1), None, Some(0), Some(0), Some(1)]);
    (column, Arc::new(DictionaryArray::<Int8Type>::new(keys, Arc::new(StringArray::from(vec!["b", "a"])))))
}

/// 7, 7, 7, null, null, 8 with Int32 run ends, stored as RUN_LENGTH.
fn runs() -> (Column, ArrayRef) {
    let tree = Tree::new(RUN_LENGTH, I64, ROWS).of(vec![Tree::plain_i64(&[7, 0, 8]), Tree::plain_u32(&[3, 5, 6])]);
    let children = vec![node("run_ends", 4, 0).required(), node("values", 5, 0)];
    let column = Column(Node::new("runs", 49, children), vec![validity(&[1, 1, 1, 0, 0, 1]), data(&tree)]);
    let runs = RunArray::<Int32Type>::try_new(&Int32Array::from(vec![3, 5, 6]), &Int64Array::from(vec![Some(7), None, Some(8)])).unwrap();
    (column, Arc::new(runs))
}

fn decimals(values: Vec<i256>) -> ArrayRef {
    Arc::new(Decimal256Array::from(values).with_precision_and_scale(76, 2).unwrap())
}

/// 2^200, -1, 0, -(2^255), 3, 2^64, as they are.
fn decimal() -> (Column, ArrayRef) {
    let bit = |bit: usize| {
        let mut bytes = [0; 32];
        bytes[bit / 8] = 1 << (bit % 8);
        bytes
    };
    let small = |value: u8| [&[value][..], &[0; 31]].concat().try_into().unwrap();
    let values: [[u8; 32]; 6] = [bit(200), [0xFF; 32], [0; 32], bit(255), small(3), bit(64)];
    let column = Column(node("decimal", 16, 0).params(76, 2), vec![valid(), data(&Tree::plain(I256, &values))]);
    let one = i256::from_i128(1);
    let power = |exponent: u8| one << exponent;
    (column, decimals(vec![power(200), i256::from_i128(-1), i256::ZERO, i256::MIN, i256::from_i128(3), power(64)]))
}

/// -3 to 2, stored as NARROW, in the layout of Int64.
fn narrow() -> (Column, ArrayRef) {
    let tree = Tree::new(NARROW, I256, ROWS).of(vec![Tree::plain_i64(&[-3, -2, -1, 0, 1, 2])]);
    let column = Column(node("narrow", 16, 0).params(76, 2), vec![valid(), data(&tree)]);
    (column, decimals((-3..3).map(i256::from_i128).collect()))
}

/// "abc", null, "def", and the same again; a null is stored as nothing.
fn fixed_size_binary() -> (Column, ArrayRef) {
    let streams = vec![validity(&[1, 0, 1, 1, 0, 1]), data(&Tree::text(&[b"abc", b"", b"def", b"abc", b"", b"def"]))];
    let values = [Some(b"abc"), None, Some(b"def")].into_iter().cycle().take(6);
    let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 3).unwrap();
    (Column(node("binary", 36, 0).params(3, 0), streams), Arc::new(array))
}

/// 10, 11, 9, 9, i64::MAX, i64::MIN, stored as DELTA, which wraps. The first difference means nothing.
fn delta() -> (Column, ArrayRef) {
    let tree = Tree::new(DELTA, I64, ROWS).of(vec![Tree::constant(I64, 1, 10), Tree::plain_i64(&[99, 1, -2, 0, i64::MAX - 9, 1])]);
    (Column(node("delta", 5, 0), vec![valid(), data(&tree)]), Arc::new(Int64Array::from(vec![10, 11, 9, 9, i64::MAX, i64::MIN])))
}

/// 100, 107, 103, -1, 100, 104, stored as FRAME: 3 bits above 100, and a patch.
fn frame() -> (Column, ArrayRef) {
    let packed = pack(&[0, 7, 3, 0, 0, 4], 3);
    let patches = vec![Tree::plain_u32(&[3]), Tree::plain_i64(&[-1])];
    let tree = Tree { params: [100, 3 | 1 << 32], ..Tree::new(FRAME, I64, ROWS).with(packed, patches) };
    (Column(node("frame", 5, 0), vec![valid(), data(&tree)]), Arc::new(Int64Array::from(vec![100, 107, 103, -1, 100, 104])))
}

/// One block of 64-bit numbers, a bit at a time, by the formula of SPEC section 7.
fn pack(values: &[u64], width: usize) -> Vec<u8> {
    const LANES: usize = 1024 / 64;
    const ORDER: [usize; 8] = [0, 4, 2, 6, 1, 5, 3, 7];
    let mut words = vec![0_u64; LANES * width];
    for lane in 0..LANES {
        for row in 0..64 {
            let value = values.get(ORDER[row / 8] * 16 + row % 8 * 128 + lane).copied().unwrap_or(0);
            for bit in (0..width).filter(|bit| value >> bit & 1 == 1) {
                let at = row * width + bit;
                words[at / 64 * LANES + lane] |= 1 << (at % 64);
            }
        }
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The file of all columns.
pub(crate) fn file() -> bytes::Bytes {
    by_hand::file(ROWS, columns().into_iter().map(|(column, _)| column).collect())
}
