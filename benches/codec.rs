//! What every encoding takes, on pages of the default size: to decode beside `memcpy` of as many bytes, beside what the chooser reckons with, and to encode.
//!
//! `cargo bench --bench codec` prints the table that the README shows; `-- --runs N` takes the median of so many runs.
#![expect(clippy::unwrap_used, reason = "a benchmark that fails should stop")]
#![expect(clippy::print_stdout, reason = "the table is what it is for")]

use std::hint::black_box;
use std::time::Instant;

use arrow::array::BinaryViewArray;
use arrow::buffer::Buffer;
use bytes::Bytes;
use datafusion_fermion::format::codec::{Decoded, EncodeOptions, EncodingId, Output, PType, Values, encode, reckoned_nanos};
use datafusion_fermion::format::fermion::page::{Page, PageExpect, write_page};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Rows of a page.
const ROWS: usize = 65_536;
/// Rows of a batch, which is what is decoded at a time.
const BATCH: usize = 8_192;

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
    ("i64 visits", EncodingId::Delta),
    ("i64 visits, zstd", EncodingId::Planes),
    ("i32 skewed bytes", EncodingId::Planes),
    ("i32 skewed bytes, zstd", EncodingId::Planes),
    ("u32 first seen, a third", EncodingId::FirstSeen),
    ("u32 first seen, a third, zstd", EncodingId::FirstSeen),
    ("i128 20 bits", EncodingId::Narrow),
    ("f64 prices", EncodingId::Alp),
    ("f64 measured", EncodingId::AlpRd),
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

/// Times of visits: each begins anywhere within a month, and has 16 clicks.
fn visits() -> impl FnMut(i64, &mut StdRng) -> i64 {
    let mut time = 0;
    move |index, random| {
        time = if index % 16 == 0 { random.random_range(0..2_600_000) } else { time + random.random_range(0..300) };
        time
    }
}

/// Numbers whose front bytes are one of four, which lie far from each other.
fn skewed_bytes(random: &mut StdRng) -> Values {
    let mut number = || random.random_range(0..256) + random.random_range(0..4) * 0x3B00 + random.random_range(0..4) * 0x2F_0000;
    Values::Fixed { ptype: PType::I32, bytes: Buffer::from_vec((0..ROWS).map(|_| number()).collect::<Vec<i32>>()) }
}

/// Codes of values of which one in three has not been there before, and the others are rather recent.
fn first_seen(random: &mut StdRng) -> Values {
    let mut next = 50_000;
    let mut code = || {
        if random.random_bool(1.0 / 3.0) {
            next += 1;
            next - 1
        } else {
            next - 1 - random.random_range(0..100_u32) * random.random_range(0..100_u32)
        }
    };
    Values::Fixed { ptype: PType::U32, bytes: Buffer::from_vec((0..ROWS).map(|_| code()).collect::<Vec<u32>>()) }
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
    let mut noise = StdRng::seed_from_u64(2);
    let mut f64s = |value: &mut dyn FnMut(&mut StdRng) -> f64| {
        let numbers: Vec<f64> = (0..ROWS).map(|_| value(&mut noise)).collect();
        Values::Fixed { ptype: PType::F64, bytes: Buffer::from_vec(numbers) }
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
        "i64 visits" | "i64 visits, zstd" => i64s(&mut visits()),
        "u32 first seen, a third" | "u32 first seen, a third, zstd" => first_seen(&mut random),
        "i32 skewed bytes" | "i32 skewed bytes, zstd" => skewed_bytes(&mut random),
        "i32 12 bits" => {
            let numbers: Vec<i32> = (0..ROWS).map(|_| random.random_range(0..4096)).collect();
            Values::Fixed { ptype: PType::I32, bytes: Buffer::from_vec(numbers) }
        }
        "i128 20 bits" => {
            let numbers: Vec<i128> = (0..ROWS).map(|_| random.random_range(0..1 << 20)).collect();
            Values::Fixed { ptype: PType::I128, bytes: Buffer::from_vec(numbers) }
        }
        "f64 prices" => f64s(&mut |random| f64::from(random.random_range(0..1_000_000)) / 100.0),
        "f64 measured" => f64s(&mut |random| random.random_range(1.0..2.0_f64).sqrt()),
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

/// Bytes of the arrays that come out: 16 for a string, whose bytes are not touched.
fn output_bytes(values: &Values) -> usize {
    match values {
        Values::Bool(bits) => bits.len() / 8,
        Values::Fixed { bytes, .. } => bytes.len(),
        Values::Bytes(_) => ROWS * 16,
    }
}

/// Opens a page and decodes it, batch by batch. Its checksum is not checked.
fn read(page: &Bytes, expect: &PageExpect) -> Vec<Decoded> {
    let page = Page::open(page, expect).unwrap();
    let batches = (0..ROWS).step_by(BATCH).map(|start| {
        let mut out = Output::new(expect.ptype, BATCH);
        page.decode(start..start + BATCH, &mut out).unwrap();
        out.finish()
    });
    batches.collect()
}

/// The bound of all: copying as many bytes into as many batches.
fn copy(source: &[u8]) -> Vec<Buffer> {
    source.chunks(source.len() / (ROWS / BATCH)).map(|batch| Buffer::from(black_box(batch))).collect()
}

/// A value here and there of an opened page.
fn look_up(page: &Page, ptype: PType) {
    for look in 0..LOOKS {
        let index = look * 7919 % ROWS;
        let mut out = Output::new(ptype, 1);
        page.decode(index..index + 1, &mut out).unwrap();
        black_box(out.finish());
    }
}

/// Values that are looked up in one measurement.
const LOOKS: usize = 64;

/// Nanoseconds of one of several calls that take together long enough for a clock.
fn nanos<T>(mut work: impl FnMut() -> T) -> f64 {
    const CALLS: usize = 4;
    let start = Instant::now();
    (0..CALLS).for_each(|_| drop(black_box(work())));
    start.elapsed().as_nanos() as f64 / CALLS as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A line of the table.
fn measure(name: &str, encoding: EncodingId, runs: usize) {
    let values = values(name);
    let options = options(name, Some(encoding));
    let encoded = encode(&values, None, &options).unwrap();
    let page: Bytes = write_page(&encoded, u32::try_from(ROWS).unwrap(), true).into();
    let ptype = values.ptype();
    let expect = PageExpect { ptype, rows: None, extra: 0, checksum: false, utf8: ptype == PType::Bytes };
    let opened = Page::open(&page, &expect).unwrap();
    let source = vec![1_u8; output_bytes(&values)];
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..runs {
        times[0].push(nanos(|| copy(&source)));
        times[1].push(nanos(|| read(black_box(&page), &expect)));
        times[2].push(nanos(|| look_up(&opened, ptype)));
        times[3].push(nanos(|| encode(black_box(&values), None, &self::options(name, None)).unwrap()));
    }
    let [copied, decoded, looked_up, chosen] = times.map(median);
    let reckoned = reckoned_nanos(&values, encoding, &options).unwrap().map_or("-".to_owned(), |nanos| format!("{:.2}", nanos / ROWS as f64));
    println!(
        "| {name} | {} | {:.2} | {:.1} | {:.2} | {:.2} | {reckoned} | {:.0} | {:.2} |",
        encoding.name(),
        page.len() as f64 / ROWS as f64,
        source.len() as f64 / decoded,
        copied / decoded,
        decoded / ROWS as f64,
        looked_up / LOOKS as f64,
        values.raw_bytes() as f64 / chosen,
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let runs = arguments.windows(2).find(|pair| pair[0] == "--runs").map_or(31, |pair| pair[1].parse().unwrap());
    println!("| values | encoding | bytes stored | GB/s | of memcpy | ns | reckoned, ns | one value, ns | choose and encode, GB/s |");
    println!("|---|---|--:|--:|--:|--:|--:|--:|--:|");
    CASES.iter().for_each(|(name, encoding)| measure(name, *encoding, runs));
}
