//! The table of cases: every type by every distribution.

use arrow::array::BinaryViewArray;
use arrow::buffer::Buffer;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::super::{PType, Values};

type Case = (String, Values);

/// Lengths around the size of a block, and one large enough to be sampled.
const COUNTS: [usize; 7] = [0, 1, 63, 1023, 1024, 1025, 2600];

/// Numbers of a distribution, wide enough for every type, as i128; they are cut to a type's width.
fn distribution(name: &str, count: usize, random: &mut StdRng) -> Vec<i128> {
    let mut value = 0i128;
    let mut next = |index: usize| -> i128 {
        let at = index as i128;
        match name {
            "constant" => -5,
            "runs" => {
                if random.random_bool(0.02) {
                    value = random.random_range(-9..9) * 1000;
                }
                value
            }
            "one long run" => i128::from(index > 700),
            "ascending by one" => at + 100,
            "ascending" => {
                value += random.random_range(0..20);
                value
            }
            "descending" => -at * 3,
            "first seen" if at == 0 || random.random_bool(0.4) => {
                value += 1;
                value
            }
            "first seen" => random.random_range(0..=value),
            "small" => random.random_range(-10..50),
            "large" => random.random(),
            "high base" => (1 << 60) + random.random_range(0..1000),
            "outliers" if random.random_bool(0.01) => random.random(),
            "low outliers" if random.random_bool(0.01) => -random.random_range(1i128 << 40..1 << 50),
            "outliers" | "low outliers" => random.random_range(0..16),
            "one outlier" => {
                if index == 900 {
                    i128::MAX
                } else {
                    at % 7
                }
            }
            "few" => [i128::MIN, -1, 0, 77, 1 << 70][random.random_range(0..5)],
            "extremes" => [i128::MIN, i128::MAX, i128::from(i64::MIN), i128::from(i64::MAX), 0x80, 0x7F, 0x8000, 0x7FFF][index % 8],
            _ => unreachable!("{name}"),
        }
    };
    (0..count).map(&mut next).collect()
}

const DISTRIBUTIONS: [&str; 15] = [
    "constant",
    "runs",
    "one long run",
    "ascending by one",
    "ascending",
    "descending",
    "first seen",
    "small",
    "large",
    "high base",
    "outliers",
    "low outliers",
    "one outlier",
    "few",
    "extremes",
];

pub(super) fn numbers(ptype: PType) -> Vec<Case> {
    let width = ptype.width().unwrap();
    let mut cases = Vec::new();
    // Every width goes through every length; types that share one add little.
    let counts = if matches!(ptype, PType::I8 | PType::U16 | PType::I32 | PType::I64 | PType::I256) { &COUNTS[..] } else { &[63, 1025] };
    for (name, &count) in DISTRIBUTIONS.iter().flat_map(|name| counts.iter().map(move |count| (name, count))) {
        let mut random = StdRng::seed_from_u64(count as u64);
        let mut bytes = Vec::with_capacity(count * width);
        for number in distribution(name, count, &mut random) {
            let sign = if number < 0 { [0xFF; 16] } else { [0; 16] };
            let wide = [number.to_le_bytes(), sign].concat();
            // The top bytes of a narrow type's extremes would otherwise be lost.
            let from = if *name == "extremes" && width < 16 { 16 - width } else { 0 };
            bytes.extend_from_slice(&wide[from..from + width]);
        }
        cases.push((format!("{name} x {count}"), Values::Fixed { ptype, bytes: Buffer::from(bytes) }));
    }
    cases.extend(floats(ptype));
    cases
}

/// Every kind of NaN and zero must keep its bits.
fn floats(ptype: PType) -> Vec<Case> {
    let bytes: Vec<u8> = match ptype {
        PType::F64 => {
            [f64::NAN, -f64::NAN, -0.0, 0.0, f64::INFINITY, f64::MIN, 1.5, f64::from_bits(0x7FF0_0000_0000_0001)].map(f64::to_le_bytes).concat()
        }
        PType::F32 => [f32::NAN, -f32::NAN, -0.0, 0.0, f32::NEG_INFINITY, 1.5].map(f32::to_le_bytes).concat(),
        _ => return Vec::new(),
    };
    vec![
        ("special".into(), Values::Fixed { ptype, bytes: Buffer::from(bytes.clone()) }),
        ("special, often".into(), Values::Fixed { ptype, bytes: Buffer::from(bytes.repeat(400)) }),
    ]
}

pub(super) fn booleans() -> Vec<Case> {
    let mut random = StdRng::seed_from_u64(1);
    let mut cases = Vec::new();
    for count in COUNTS.into_iter().chain([7, 8, 9]) {
        for (name, chance) in [("none", 0.0), ("few", 0.01), ("half", 0.5), ("all", 1.0)] {
            let bits: Vec<bool> = (0..count).map(|_| random.random_bool(chance)).collect();
            cases.push((format!("booleans, {name} x {count}"), Values::Bool(bits.into())));
        }
        let runs: Vec<bool> = (0..count).map(|index| index / 100 % 2 == 0).collect();
        cases.push((format!("booleans, runs x {count}"), Values::Bool(runs.into())));
    }
    cases
}

pub(super) fn strings() -> Vec<Case> {
    let mut random = StdRng::seed_from_u64(2);
    let words = ["carefully", "final", "deposits", "sleep", "", "ü", "the quick brown fox jumps over the lazy dog"];
    let mut cases = Vec::new();
    for count in COUNTS {
        let mut push = |name: &str, value: &mut dyn FnMut(usize) -> Vec<u8>| {
            let values: Vec<_> = (0..count).map(value).collect();
            cases.push((format!("strings, {name} x {count}"), Values::Bytes(BinaryViewArray::from_iter_values(values))));
        };
        push("empty", &mut |_| Vec::new());
        push("constant, short", &mut |_| b"twelve bytes".to_vec());
        push("constant, long", &mut |_| b"thirteen bytes".to_vec());
        push("short", &mut |index| index.to_string().into_bytes());
        push("long", &mut |index| format!("https://example.org/page?number={index}").into_bytes());
        push("few", &mut |_| words[random.random_range(0..words.len())].into());
        push("runs", &mut |index| words[index / 90 % words.len()].into());
        push("around twelve", &mut |index| vec![b'x'; index % 25]);
        push("text", &mut |_| (0..random.random_range(0..12)).flat_map(|_| [words[random.random_range(0..4)], " "].concat().into_bytes()).collect());
        push("noise", &mut |_| (0..random.random_range(0..40)).map(|_| random.random()).collect());
        push("same prefix", &mut |index| format!("a long prefix that all have in common {}", index % 9).into_bytes());
        push("one huge", &mut |index| if index == 1 { vec![b'z'; 100_000] } else { b"small".to_vec() });
    }
    cases
}
