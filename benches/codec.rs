//! Output bytes per second of every encoding, next to `memcpy`, on pages of the default size.
#![expect(clippy::unwrap_used, reason = "a benchmark that fails should stop")]

use std::hint::black_box;

use arrow::array::BinaryViewArray;
use arrow::buffer::Buffer;
use bytes::Bytes;
use datafusion_fermion::format::codec::{Decoded, EncodeOptions, EncodingId, Output, PType, Values, encode};
use datafusion_fermion::format::fermion::page::{Page, PageExpect, write_page};
use divan::counter::BytesCount;
use divan::{Bencher, bench, black_box_drop};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Rows of a page.
const ROWS: usize = 65_536;
/// Rows of a batch, which is what is decoded at a time.
const BATCH: usize = 8_192;

fn main() {
    divan::main();
}

/// Data that an encoding is made for.
const CASES: &[(&str, EncodingId)] = &[
    ("i64 random", EncodingId::Plain),
    ("i64 constant", EncodingId::Constant),
    ("i64 runs of 50", EncodingId::RunLength),
    ("i64 runs of 4", EncodingId::RunLength),
    ("i64 300 distinct", EncodingId::Dictionary),
    ("i64 12 bits", EncodingId::Frame),
    ("i32 12 bits", EncodingId::Frame),
    ("i64 12 bits, outliers", EncodingId::Frame),
    ("i64 ascending", EncodingId::Delta),
    ("i64 even slope", EncodingId::Delta),
    ("i128 20 bits", EncodingId::Narrow),
    ("booleans", EncodingId::Bitmap),
    ("booleans, runs of 50", EncodingId::RunLength),
    ("strings, 27 bytes, zstd", EncodingId::Plain),
    ("strings, 27 bytes, raw", EncodingId::Plain),
    ("strings, 10 bytes, raw", EncodingId::Plain),
    ("strings, 27 bytes, ONPAIR", EncodingId::OnPair),
    ("strings, 10 bytes, ONPAIR", EncodingId::OnPair),
    ("strings, 300 distinct", EncodingId::Dictionary),
];

fn words(random: &mut StdRng, length: usize) -> String {
    const WORDS: [&str; 12] =
        ["carefully", "final", "deposits", "sleep", "furiously", "among", "the", "ironic", "requests", "accounts", "about", "blithely"];
    let mut text = String::new();
    while text.len() < length {
        text.push_str(WORDS[random.random_range(0..WORDS.len())]);
        text.push(' ');
    }
    text.truncate(length);
    text
}

fn values(name: &str) -> Values {
    let mut random = StdRng::seed_from_u64(1);
    let mut runs = |length: f64| {
        let mut value = 0;
        let mut next = || {
            if random.random_bool(1.0 / length) {
                value = random.random_range(0..10_000);
            }
            value
        };
        (0..ROWS).map(|_| next()).collect::<Vec<i64>>()
    };
    let (long_runs, short_runs) = (runs(50.0), runs(4.0));
    let mut i64s = |value: &mut dyn FnMut(i64, &mut StdRng) -> i64| {
        let numbers: Vec<i64> = (0..).take(ROWS).map(|index| value(index, &mut random)).collect();
        Values::Fixed { ptype: PType::I64, bytes: Buffer::from_vec(numbers) }
    };
    match name {
        "i64 random" => i64s(&mut |_, random| random.random()),
        "i64 constant" => i64s(&mut |_, _| 7),
        "i64 runs of 50" => Values::Fixed { ptype: PType::I64, bytes: Buffer::from_vec(long_runs) },
        "i64 runs of 4" => Values::Fixed { ptype: PType::I64, bytes: Buffer::from_vec(short_runs) },
        "i64 300 distinct" => i64s(&mut |_, random| random.random_range(0..300) << 40),
        "i64 12 bits" => i64s(&mut |_, random| random.random_range(0..4096)),
        "i64 12 bits, outliers" => i64s(&mut |_, random| if random.random_bool(0.005) { random.random() } else { random.random_range(0..4096) }),
        "i64 ascending" => {
            let mut sum = 0;
            i64s(&mut |_, random| {
                sum += random.random_range(0..100);
                sum
            })
        }
        "i64 even slope" => i64s(&mut |index, _| index * 3),
        "i32 12 bits" => {
            let numbers: Vec<i32> = (0..ROWS).map(|_| random.random_range(0..4096)).collect();
            Values::Fixed { ptype: PType::I32, bytes: Buffer::from_vec(numbers) }
        }
        "i128 20 bits" => {
            let numbers: Vec<i128> = (0..ROWS).map(|_| random.random_range(0..1 << 20)).collect();
            Values::Fixed { ptype: PType::I128, bytes: Buffer::from_vec(numbers) }
        }
        "booleans" => Values::Bool((0..ROWS).map(|_| random.random_bool(0.5)).collect::<Vec<_>>().into()),
        "booleans, runs of 50" => Values::Bool(long_runs.iter().map(|value| value % 2 == 0).collect::<Vec<_>>().into()),
        "strings, 300 distinct" => {
            let entries: Vec<String> = (0..300).map(|_| words(&mut random, 20)).collect();
            let strings = (0..ROWS).map(|_| &entries[random.random_range(0..300)]);
            Values::Bytes(BinaryViewArray::from_iter_values(strings))
        }
        _ => {
            let length = if name.contains("10 bytes") { 10 } else { 27 };
            Values::Bytes(BinaryViewArray::from_iter_values((0..ROWS).map(|_| words(&mut random, length))))
        }
    }
}

fn options(name: &str, forced: Option<EncodingId>) -> EncodeOptions {
    EncodeOptions { zstd_level: name.ends_with("zstd").then_some(3), forced, ..EncodeOptions::default() }
}

fn page_bytes(name: &str, values: &Values) -> Bytes {
    let encoding = CASES.iter().find(|(case, _)| *case == name).map(|(_, encoding)| *encoding);
    let encoded = encode(values, None, &options(name, encoding)).unwrap();
    write_page(&encoded, u32::try_from(ROWS).unwrap(), true).into()
}

fn expect(values: &Values, checksum: bool) -> PageExpect {
    let ptype = values.ptype();
    PageExpect { ptype, rows: None, extra: 0, checksum, utf8: ptype == PType::Bytes }
}

/// Bytes of the arrays that come out: 16 for a string, whose bytes are not touched.
fn output_bytes(values: &Values) -> BytesCount {
    BytesCount::new(match values {
        Values::Bool(bits) => bits.len() / 8,
        Values::Fixed { bytes, .. } => bytes.len(),
        Values::Bytes(_) => ROWS * 16,
    })
}

fn read(page: &Bytes, expect: &PageExpect) -> Vec<Decoded> {
    let page = Page::open(page, expect).unwrap();
    let batches = (0..ROWS).step_by(BATCH).map(|start| {
        let mut out = Output::new(expect.ptype, BATCH);
        page.decode(start..start + BATCH, &mut out).unwrap();
        out.finish()
    });
    batches.collect()
}

/// Opening a page and decoding it, batch by batch, checksum not checked.
#[bench(args = CASES.iter().map(|(name, _)| *name))]
fn decode(bencher: Bencher, name: &str) {
    let values = values(name);
    let page = page_bytes(name, &values);
    let expect = expect(&values, false);
    bencher.counter(output_bytes(&values)).bench(|| read(black_box(&page), &expect));
}

/// The same with the checksum.
#[bench(args = ["i64 random", "i64 12 bits", "strings, 300 distinct"])]
fn decode_checked(bencher: Bencher, name: &str) {
    let values = values(name);
    let page = page_bytes(name, &values);
    let expect = expect(&values, true);
    bencher.counter(output_bytes(&values)).bench(|| read(black_box(&page), &expect));
}

/// A single value of an opened page.
#[bench(args = CASES.iter().map(|(name, _)| *name))]
fn get(bencher: Bencher, name: &str) {
    let values = values(name);
    let page = Page::open(&page_bytes(name, &values), &expect(&values, false)).unwrap();
    let mut index = 0;
    bencher.bench_local(|| {
        index = (index + 7919) % ROWS;
        let mut out = Output::new(values.ptype(), 1);
        page.decode(index..index + 1, &mut out).unwrap();
        black_box_drop(out.finish());
    });
}

/// Choosing and encoding, counted in bytes of input.
#[bench(args = CASES.iter().map(|(name, _)| *name))]
fn choose_and_encode(bencher: Bencher, name: &str) {
    let values = values(name);
    bencher.counter(BytesCount::new(values.raw_bytes())).bench(|| encode(black_box(&values), None, &options(name, None)).unwrap());
}

/// The bound of all: copying as many bytes into as many batches.
#[bench]
fn memcpy(bencher: Bencher) {
    let source = vec![1u8; ROWS * 8];
    let copy = || source.chunks(BATCH * 8).map(|batch| Buffer::from(black_box(batch))).collect::<Vec<_>>();
    bencher.counter(BytesCount::new(source.len())).bench(copy);
}
