//! What the chooser chooses, where the right choice is plain.

use arrow::array::BinaryViewArray;
use arrow::buffer::Buffer;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::super::node::Encoded;
use super::super::{EncodeOptions, EncodingId, EncodingTree, PType, Values, encode};

const COUNT: usize = 65_536;

fn choose(values: &Values) -> (EncodingTree, Encoded) {
    let encoded = encode(values, None, &EncodeOptions::default()).unwrap();
    (EncodingTree::read(encoded.tree()).unwrap(), encoded)
}

fn numbers(mut number: impl FnMut(i64) -> i64) -> Values {
    Values::Fixed { ptype: PType::I64, bytes: Buffer::from_vec((0..65_536).map(&mut number).collect::<Vec<i64>>()) }
}

/// The encodings down the tree's last children, and the bytes of the page.
#[track_caller]
fn check(values: &Values, expected: &[EncodingId], at_most: usize) {
    let (tree, encoded) = choose(values);
    let mut path = vec![tree.encoding];
    let mut node = &tree;
    while let (true, Some(child)) = (path.len() < expected.len(), node.children.last()) {
        path.push(child.encoding);
        node = child;
    }
    assert_eq!(path, expected, "{tree}");
    assert!(encoded.size() <= at_most, "{} bytes\n{tree}", encoded.size());
}

#[test]
fn obvious_data_gets_the_obvious_encoding() {
    use EncodingId::{Constant, Delta, Dictionary, Frame, Narrow, Plain, RunLength};
    let mut random = StdRng::seed_from_u64(3);
    check(&numbers(|_| 7), &[Constant], 32);
    check(&numbers(|index| index * 10 + 1_000_000), &[Delta, Constant], 400);
    check(&numbers(|index| index / 500 * 31 % 17), &[RunLength], 1000);
    // Short runs of few: a run takes less than its values packed.
    let (mut left, mut value) = (0, 0);
    let mut short = |_| {
        if left == 0 {
            (left, value) = (random.random_range(3..9), random.random_range(4..31));
        }
        left -= 1;
        value
    };
    check(&numbers(&mut short), &[RunLength], COUNT * 2 / 7);
    check(&numbers(|_| random.random_range(5000..6000)), &[Frame], COUNT * 10 / 8 + 100);
    check(&numbers(|_| if random.random_bool(0.001) { i64::MIN } else { random.random_range(0..16) }), &[Frame], COUNT / 2 + 2000);
    check(&numbers(|_| [1, 1 << 40, -(1 << 50), 99][random.random_range(0..4)]), &[Dictionary], COUNT / 4 + 300);
    check(&numbers(|_| random.random()), &[Plain], COUNT * 8 + 100);

    let decimals = (0..COUNT).map(|_| random.random_range(100_000i128..200_000)).collect::<Vec<_>>();
    check(&Values::Fixed { ptype: PType::I128, bytes: Buffer::from_vec(decimals) }, &[Narrow, Frame], COUNT * 17 / 8 + 200);
}

fn floats(mut number: impl FnMut(i32) -> f64) -> Values {
    Values::Fixed { ptype: PType::F64, bytes: Buffer::from_vec((0..65_536).map(&mut number).collect::<Vec<f64>>()) }
}

#[test]
fn floats_get_integers_fronts_or_zstd() {
    let mut random = StdRng::seed_from_u64(5);
    // Prices, of which some are unknown.
    check(&floats(|_| f64::from(random.random_range(0..100_000)) / 100.0), &[EncodingId::Alp, EncodingId::Frame], COUNT * 17 / 8 + 300);
    let odd = |index: i32| if index % 100 == 7 { f64::NAN } else { f64::from(index * 7919 % 100_000) / 100.0 };
    check(&floats(odd), &[EncodingId::Alp], COUNT * 17 / 8 + COUNT / 100 * 12 + 500);
    // Measurements to the last digit: 52 random bits, and some of the exponent.
    check(&floats(|_| random.random_range(10.0..20.0)), &[EncodingId::AlpRd, EncodingId::Frame], COUNT * 53 / 8 + 500);
    let single: Vec<f32> = (0..COUNT).map(|_| random.random_range(10.0..20.0)).collect();
    check(&Values::Fixed { ptype: PType::F32, bytes: Buffer::from_vec(single) }, &[EncodingId::AlpRd, EncodingId::Frame], COUNT * 25 / 8 + 500);
    // Any bits at all.
    check(&floats(|_| f64::from_bits(random.random())), &[EncodingId::Plain], COUNT * 8 + 100);
}

#[test]
fn strings_get_a_dictionary_onpair_or_zstd() {
    let mut random = StdRng::seed_from_u64(4);
    let words = ["carefully", "final", "deposits", "sleep", "furiously", "among", "the", "ironic", "requests", "accounts"];
    let text: Vec<String> = (0..COUNT / 4).map(|_| (0..6).map(|_| words[random.random_range(0..10)]).collect::<Vec<_>>().join(" ")).collect();
    let (tree, encoded) = choose(&Values::Bytes(BinaryViewArray::from_iter_values(&text)));
    let raw: usize = text.iter().map(String::len).sum();
    assert_eq!(tree.encoding, EncodingId::OnPair, "{tree}");
    assert!(encoded.size() < raw * 2 / 10, "{} of {raw}\n{tree}", encoded.size());

    // Long pieces that come again: longer than a token.
    let mut noise = |length: usize| (0..length).map(|_| random.random()).collect::<Vec<u8>>();
    let pieces: Vec<Vec<u8>> = (0..15).map(|_| noise(200)).collect();
    let blobs: Vec<Vec<u8>> = (0..COUNT / 16).map(|index| [&pieces[index * 7919 % 15][..], &noise(2)].concat()).collect();
    let (tree, _) = choose(&Values::Bytes(BinaryViewArray::from_iter_values(&blobs)));
    assert_eq!((tree.encoding, tree.buffers[0].compression), (EncodingId::Plain, 1), "{tree}");
    let blobs: Vec<Vec<u8>> = (0..COUNT / 4).map(|_| noise(40)).collect();
    let (tree, _) = choose(&Values::Bytes(BinaryViewArray::from_iter_values(&blobs)));
    assert_eq!((tree.encoding, tree.buffers[0].compression), (EncodingId::Plain, 0), "{tree}");

    // More values than a sample has: most of those in it are seen once.
    let clerks: Vec<String> = (0..COUNT / 2).map(|_| format!("Clerk#{:09}", random.random_range(0..1000))).collect();
    let (tree, encoded) = choose(&Values::Bytes(BinaryViewArray::from_iter_values(clerks)));
    assert_eq!((tree.encoding, tree.children[0].encoding), (EncodingId::Dictionary, EncodingId::Frame), "{tree}");
    assert!(encoded.size() < COUNT / 2 * 10 / 8 + 6000, "{}", encoded.size());

    let few: Vec<&str> = (0..COUNT).map(|_| words[random.random_range(0..10)]).collect();
    let (tree, encoded) = choose(&Values::Bytes(BinaryViewArray::from_iter_values(few)));
    assert_eq!((tree.encoding, tree.children[0].encoding), (EncodingId::Dictionary, EncodingId::Frame), "{tree}");
    assert!(encoded.size() < COUNT / 2 + 500);
}
