//! Statistics beside the slow way to find them, and what they are allowed to say.

use std::sync::Arc;

use arrow::array::*;
use arrow::compute::{SortOptions, cast, concat, sort_to_indices, take};
use arrow::datatypes::{
    ArrowNativeType, DataType, Date32Type, Decimal128Type, Field, Float16Type, Float32Type, Float64Type, Int8Type, Int32Type, Int64Type,
    IntervalMonthDayNano, TimeUnit, i256,
};
use bytes::Bytes;
use half::f16;
use proptest::prelude::*;

use super::*;
use crate::format::ErrorKind;

/// The order of the rules, by the engine's own sort: smallest and greatest valid value that is not NaN.
fn slow_min_max(array: &ArrayRef) -> Option<(ArrayRef, ArrayRef)> {
    let sorted = take(array, &sort_to_indices(array, Some(SortOptions { descending: false, nulls_first: true }), None).unwrap(), None).unwrap();
    let usable: Vec<usize> = (sorted.null_count()..sorted.len()).filter(|index| !is_nan(&sorted, *index)).collect();
    let slot = |index: &usize| sorted.slice(*index, 1);
    Some((usable.first().map(slot)?, usable.last().map(slot)?))
}

fn is_nan(array: &ArrayRef, index: usize) -> bool {
    match array.data_type() {
        DataType::Float16 => array.as_primitive::<Float16Type>().value(index).is_nan(),
        DataType::Float32 => array.as_primitive::<Float32Type>().value(index).is_nan(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(index).is_nan(),
        _ => false,
    }
}

/// -1, 0 or 1 as the engine sorts two values.
fn compare(one: &ArrayRef, other: &ArrayRef) -> std::cmp::Ordering {
    let both = concat(&[one.as_ref(), other.as_ref()]).unwrap();
    let compare = make_comparator(&both, &both, SortOptions::default()).unwrap();
    compare(0, 1)
}

fn bound(array: &ArrayRef, bounds: Option<&Bounds>, which: Which) -> ArrayRef {
    bound_array(array.data_type(), std::iter::once((leaf_stats(array), bounds)), which).unwrap()
}

/// What must hold for any leaf array: bounds bound, exact ones are the values, null counts count.
fn check_array(array: &ArrayRef) {
    let stats = leaf_stats(array);
    assert_eq!(stats.nulls(), Some(u32::try_from(array.null_count()).unwrap()));
    let slow = slow_min_max(array);
    assert_eq!(stats.bounds().is_some(), slow.is_some(), "{array:?}");
    let has_nan = (0..array.len()).any(|index| array.is_valid(index) && is_nan(array, index));
    assert_eq!(stats.has(ZoneStats::HAS_NAN), has_nan);
    let long = leaf_bounds(array);
    for bounds in [None, long.as_ref()] {
        for which in [Which::Min, Which::Max] {
            let bound = bound(array, bounds, which);
            assert_eq!((bound.data_type(), bound.len()), (array.data_type(), 1));
            let Some((min, max)) = &slow else {
                assert!(bound.is_null(0));
                continue;
            };
            let value = if which == Which::Min { min } else { max };
            let is_exact = bound_is_exact(array.data_type(), &stats, bounds, which);
            if bound.is_null(0) {
                assert!(!is_exact);
            } else if is_exact {
                assert_eq!(bound.to_data(), value.to_data());
            } else {
                let outside = if which == Which::Min { std::cmp::Ordering::Greater } else { std::cmp::Ordering::Less };
                assert_ne!(compare(&bound, value), outside, "{bound:?} {value:?}");
            }
        }
    }
}

fn check<A: Array + FromIterator<Option<T>> + 'static, T>(values: Vec<Option<T>>) {
    let array: ArrayRef = Arc::new(values.into_iter().collect::<A>());
    check_array(&array);
    // A slice, so that offsets into values and validity count.
    check_array(&array.slice(array.len() / 3, array.len() / 2));
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c\\x00]{0,12}", "\\PC{0,4}", "x{60,70}", "[y-z]{6,8}é{0,40}", Just("\u{10FFFF}".repeat(20)), Just("zzzzzzz\u{D7FF}".to_owned())]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(prop::sample::select(vec![0, 1, 0x7f, 0x80, 0xff]), 0..12),
        prop::collection::vec(0xfe..=0xff_u8, 60..70),
        prop::collection::vec(any::<u8>(), 0..5),
    ]
}

fn some<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<Option<T>>> {
    prop::collection::vec(prop::option::weighted(0.8, strategy), 0..12)
}

fn wide() -> impl Strategy<Value = i128> {
    prop_oneof![any::<i64>().prop_map(i128::from), -(10_i128.pow(37))..10_i128.pow(37), Just(i128::from(i64::MAX)), Just(i128::from(i64::MIN))]
}

fn decimals256(values: Vec<Option<i128>>) -> ArrayRef {
    let scaled = values.into_iter().map(|value| value.map(|value| i256::from_i128(value).wrapping_mul(i256::from_i128(1 << 70))));
    Arc::new(scaled.collect::<Decimal256Array>())
}

proptest! {
    #[test]
    fn integers(a in some(any::<i8>()), b in some(any::<i64>()), c in some(any::<u64>()), d in some(any::<u16>()), e in some(any::<u32>()), f in some(any::<i16>())) {
        check::<Int8Array, _>(a);
        check::<Int64Array, _>(b.clone());
        check::<UInt64Array, _>(c);
        check::<UInt16Array, _>(d);
        check::<UInt32Array, _>(e);
        check::<Int16Array, _>(f);
        check::<TimestampMicrosecondArray, _>(b.clone());
        check::<DurationSecondArray, _>(b.clone());
        check::<Date64Array, _>(b);
    }

    #[test]
    fn floats(a in some(prop::num::f32::ANY), b in some(prop::num::f64::ANY), c in some(any::<u16>().prop_map(f16::from_bits))) {
        check::<Float32Array, _>(a);
        check::<Float64Array, _>(b);
        check::<Float16Array, _>(c);
    }

    #[test]
    fn few_floats(a in some(prop::sample::select(vec![0.0, -0.0, 1.0, -1.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE]))) {
        check::<Float64Array, _>(a);
    }

    #[test]
    fn booleans(a in some(any::<bool>())) {
        check::<BooleanArray, _>(a);
    }

    #[test]
    fn strings(a in some(text())) {
        check::<StringArray, _>(a.clone());
        check::<LargeStringArray, _>(a.clone());
        check::<StringViewArray, _>(a);
    }

    #[test]
    fn binaries(a in some(bytes())) {
        check::<BinaryArray, _>(a.clone());
        check::<LargeBinaryArray, _>(a.clone());
        check::<BinaryViewArray, _>(a);
    }

    #[test]
    fn fixed_size_binaries(a in some(prop::collection::vec(any::<u8>(), 80)), width in 1..80_usize) {
        let cut = a.iter().map(|value| value.as_ref().map(|value| &value[..width]));
        let width = i32::try_from(width).unwrap();
        check_array(&(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(cut, width).unwrap()) as ArrayRef));
    }

    #[test]
    fn decimals(a in some(wide()), b in some(any::<i32>())) {
        check::<Decimal128Array, _>(a.clone());
        check_array(&decimals256(a.clone()));
        let narrow = a.into_iter().map(|value| value.map(|value| value % 1000)).collect::<Decimal128Array>().with_precision_and_scale(10, 2).unwrap();
        check_array(&(Arc::new(narrow) as ArrayRef));
        check::<Decimal32Array, _>(b);
    }

    /// Merged statistics of parts are as good as those of the whole.
    #[test]
    fn merging(a in some(text()), b in some(text()), c in some(wide()), d in some(wide()), e in some(prop::num::f32::ANY), f in some(prop::num::f32::ANY)) {
        check_merge(&(Arc::new(StringArray::from(a)) as ArrayRef), &(Arc::new(StringArray::from(b)) as ArrayRef));
        check_merge(&(Arc::new(Decimal128Array::from(c.clone())) as ArrayRef), &(Arc::new(Decimal128Array::from(d.clone())) as ArrayRef));
        check_merge(&decimals256(c), &decimals256(d));
        check_merge(&(Arc::new(Float32Array::from(e)) as ArrayRef), &(Arc::new(Float32Array::from(f)) as ArrayRef));
    }
}

fn check_merge(one: &ArrayRef, other: &ArrayRef) {
    let whole = concat(&[one.as_ref(), other.as_ref()]).unwrap();
    let merged = leaf_stats(one).merge(one.len() as u64, &leaf_stats(other), other.len() as u64);
    let expected = leaf_stats(&whole);
    let exact = ZoneStats::MIN_EXACT | ZoneStats::MAX_EXACT;
    assert_eq!(ZoneStats { flags: merged.flags & !exact, ..merged }, ZoneStats { flags: expected.flags & !exact, ..expected });
    // What is said to be exact is. A saturated bound next to the same one unsaturated is not said to be, though it may.
    assert_eq!(merged.flags & !expected.flags, 0);
    if !whole.data_type().is_decimal() {
        assert_eq!(merged.flags, expected.flags);
    }
    if let (Some(one), Some(other), Some(whole_bounds)) = (leaf_bounds(one), leaf_bounds(other), leaf_bounds(&whole)) {
        let merged = one.merge(&other, whole.data_type());
        assert_eq!((&merged.min, merged.min_exact), (&whole_bounds.min, whole_bounds.min_exact));
        // The increased prefix of one may pass the value of the other.
        if merged.max_exact {
            assert_eq!(merged.max, whole_bounds.max);
        }
    }
}

#[test]
fn keys_keep_the_order() {
    use super::map::{f64_key, f64_of_key, prefix, u64_key, u64_of_key};
    let floats = [f64::NEG_INFINITY, -1.0, -f64::MIN_POSITIVE, -0.0, 0.0, f64::MIN_POSITIVE, 1.0, f64::INFINITY];
    assert!(floats.windows(2).all(|pair| f64_key(pair[0]) < f64_key(pair[1])));
    assert!(floats.iter().all(|float| f64_of_key(f64_key(*float)).to_bits() == float.to_bits()));
    let numbers = [0, 1, i64::MAX as u64, 1 << 63, u64::MAX];
    assert!(numbers.windows(2).all(|pair| u64_key(pair[0]) < u64_key(pair[1])));
    assert!(numbers.iter().all(|number| u64_of_key(u64_key(*number)) == *number));
    assert_eq!((u64_key(0), u64_key(u64::MAX)), (i64::MIN, i64::MAX));
    assert_eq!((prefix(b"ab"), prefix(b"abcdefghij"), prefix(b"")), (0x6162 << 48, 0x6162_6364_6566_6768, 0));
}

/// Value, min and max that pruning sees, without and with `Bounds`.
fn shown(array: ArrayRef, with_bounds: bool) -> (ArrayRef, ArrayRef) {
    let bounds = if with_bounds { leaf_bounds(&array) } else { None };
    (bound(&array, bounds.as_ref(), Which::Min), bound(&array, bounds.as_ref(), Which::Max))
}

fn pair(min: Option<&str>, max: Option<&str>) -> (ArrayRef, ArrayRef) {
    (Arc::new(StringArray::from(vec![min])), Arc::new(StringArray::from(vec![max])))
}

#[test]
fn prefixes_of_strings_bound_them() {
    let one = |value: &str| Arc::new(StringArray::from(vec![value])) as ArrayRef;
    let table = [
        ("", "", Some("\0\0\0\0\0\0\0\u{1}")),
        ("abc", "abc", Some("abc\0\0\0\0\u{1}")),
        ("abcdefgh", "abcdefgh", Some("abcdefgi")),
        ("abcdefghijk", "abcdefgh", Some("abcdefgi")),
        // The prefix ends inside of é.
        ("abcdefgé", "abcdefg", Some("abcdefh")),
        ("abcde\u{D7FF}", "abcde\u{D7FF}", Some("abcde\u{E000}")),
        ("\u{10FFFF}\u{10FFFF}x", "\u{10FFFF}\u{10FFFF}", None),
        ("abcd\u{10FFFF}x", "abcd\u{10FFFF}", Some("abce")),
    ];
    for (value, min, max) in table {
        assert_eq!(shown(one(value), false), pair(Some(min), max), "{value:?}");
        assert_eq!(shown(one(value), true), pair(Some(value), Some(value)), "{value:?}");
    }
}

#[test]
fn long_strings_are_cut_between_characters() {
    let bounds = |value: String| leaf_bounds(&StringArray::from(vec![value])).unwrap();
    let long = bounds("x".repeat(65));
    assert_eq!((long.min.to_vec(), long.min_exact), (vec![b'x'; 64], false));
    assert_eq!((long.max.to_vec(), long.max_exact), ([vec![b'x'; 63], vec![b'y']].concat(), false));
    let fits = bounds("x".repeat(64));
    assert_eq!((fits.min.len(), fits.min_exact, fits.max_exact), (64, true, true));
    let split = bounds("x".repeat(63) + "éé");
    assert_eq!((split.min.to_vec(), split.max.to_vec()), (vec![b'x'; 63], [vec![b'x'; 62], vec![b'y']].concat()));
    // Increased, the last character would take a byte more than there is.
    let grows = bounds("x".repeat(63) + "\u{7f}z");
    assert_eq!(grows.max.to_vec(), [vec![b'x'; 62], vec![b'y']].concat());
    let none = bounds("\u{10FFFF}".repeat(17));
    assert_eq!((none.max.len(), none.max_exact, none.known_max()), (0, false, None));
    let binary = leaf_bounds(&BinaryArray::from(vec![[[0xfe; 63].as_slice(), &[0xff; 9]].concat().as_slice()])).unwrap();
    assert_eq!(binary.max.to_vec(), [vec![0xfe; 62], vec![0xff]].concat());
    assert_eq!(leaf_bounds(&BinaryArray::from(vec![[0xff; 70].as_slice()])).unwrap().known_max(), None);
}

#[test]
fn zeros_are_widened_and_then_not_exact() {
    for (zero, exact) in [(0.0_f64, (false, true)), (-0.0, (true, false))] {
        let array: ArrayRef = Arc::new(Float64Array::from(vec![zero]));
        let (min, max) = shown(Arc::clone(&array), false);
        let bits = |array: &ArrayRef| array.as_primitive::<Float64Type>().value(0).to_bits();
        assert_eq!((bits(&min), bits(&max)), ((-0.0_f64).to_bits(), 0.0_f64.to_bits()));
        let is_exact = |which| bound_is_exact(array.data_type(), &leaf_stats(&array), None, which);
        assert_eq!((is_exact(Which::Min), is_exact(Which::Max)), exact);
    }
}

#[test]
fn nan_hides_bounds_from_pruning_and_alone_has_none() {
    let mixed = leaf_stats(&Float32Array::from(vec![Some(1.0), None, Some(f32::NAN), Some(2.0)]));
    assert!(mixed.has(ZoneStats::HAS_NAN | ZoneStats::HAS_BOUNDS));
    let (min, max) = shown(Arc::new(Float32Array::from(vec![1.0, f32::NAN])), false);
    assert_eq!((min.null_count(), max.null_count()), (1, 1));
    let alone = leaf_stats(&Float32Array::from(vec![Some(f32::NAN), None]));
    assert_eq!(alone, ZoneStats { flags: ZoneStats::HAS_NAN | ZoneStats::HAS_NULL_COUNT, null_count: 1, ..ZoneStats::UNKNOWN });
}

#[test]
fn saturated_decimals_bound_on_the_side_they_were_moved_from() {
    let too_wide = i128::from(i64::MAX) + 1;
    let array = |low: i128, high: i128| Arc::new(Decimal128Array::from(vec![low, high])) as ArrayRef;
    let value = |bound: ArrayRef| bound.is_valid(0).then(|| bound.as_primitive::<Decimal128Type>().value(0));
    let both = |array, with| {
        let (min, max) = shown(array, with);
        (value(min), value(max))
    };
    assert_eq!(both(array(too_wide, too_wide), false), (Some(i128::from(i64::MAX)), None));
    assert_eq!(both(array(-2 * too_wide, 5), false), (None, Some(5)));
    assert_eq!(both(array(-2 * too_wide, too_wide), true), (Some(-2 * too_wide), Some(too_wide)));
    let narrow = Decimal128Array::from(vec![5]).with_precision_and_scale(18, 0).unwrap();
    assert_eq!(leaf_bounds(&narrow), None);
}

#[test]
fn types_without_an_order_have_a_null_count_alone() {
    let array = IntervalMonthDayNanoArray::from(vec![Some(IntervalMonthDayNano::new(1, 2, 3)), None]);
    assert_eq!(leaf_stats(&array), ZoneStats { null_count: 1, flags: ZoneStats::HAS_NULL_COUNT, ..ZoneStats::UNKNOWN });
    assert_eq!(shown(Arc::new(array), true).0.null_count(), 1);
}

#[test]
fn zones_without_bounds_make_the_merged_unknown_unless_there_is_nothing_to_bound() {
    let bounded = leaf_stats(&Int32Array::from(vec![3, 9]));
    let nulls = leaf_stats(&Int32Array::from(vec![None, None]));
    let merged = bounded.merge(2, &nulls, 2);
    assert_eq!((merged.bounds(), merged.nulls()), (Some((3, 9)), Some(2)));
    assert_eq!(nulls.merge(2, &bounded, 2), merged);
    assert_eq!(bounded.merge(2, &ZoneStats::UNKNOWN, 2), ZoneStats::UNKNOWN);
    let partly = ZoneStats { null_count: 1, flags: ZoneStats::HAS_NULL_COUNT, ..ZoneStats::UNKNOWN };
    assert_eq!(bounded.merge(2, &partly, 2).bounds(), None);
    // Of equal bounds both have to be exact; a worse one does not spoil a better.
    let vague = ZoneStats { min: 3, max: 8, null_count: 0, flags: ZoneStats::HAS_BOUNDS };
    let merged = bounded.merge(2, &vague, 2);
    assert_eq!((merged.has(ZoneStats::MIN_EXACT), merged.has(ZoneStats::MAX_EXACT)), (false, true));
    let lower = ZoneStats { min: 2, max: 9, null_count: 0, flags: ZoneStats::HAS_BOUNDS | ZoneStats::MAX_EXACT };
    let merged = lower.merge(2, &bounded, 2);
    assert_eq!((merged.bounds(), merged.has(ZoneStats::MIN_EXACT), merged.has(ZoneStats::MAX_EXACT)), (Some((2, 9)), false, true));
}

#[test]
fn logical_types_get_bounds_of_their_own_type() {
    let zones = || [(leaf_stats(&Int32Array::from(vec![3, 9])), None), (ZoneStats::UNKNOWN, None)].into_iter();
    let timestamp = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Int64));
    let run_ends = Arc::new(Field::new("run_ends", DataType::Int32, false));
    let runs = DataType::RunEndEncoded(run_ends, Arc::new(Field::new("values", DataType::Date32, true)));
    for data_type in [timestamp, dictionary, runs] {
        let max = bound_array(&data_type, zones(), Which::Max).unwrap();
        assert_eq!((max.data_type(), max.len(), max.logical_null_count()), (&data_type, 2, 1));
        let plain = cast(&max, prunable_type(&data_type).unwrap()).unwrap();
        let number = if plain.data_type() == &DataType::Date32 {
            plain.as_primitive::<Date32Type>().value(0).as_usize()
        } else {
            cast(&plain, &DataType::Int64).unwrap().as_primitive::<Int64Type>().value(0).as_usize()
        };
        assert_eq!(number, 9);
    }
    // 200 values do not fit keys of 8 bits: unknown, and not an error.
    let many = (0..200).map(|value| (leaf_stats(&Int32Array::from(vec![value])), None));
    let narrow = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Int32));
    let shown = bound_array(&narrow, many, Which::Min).unwrap();
    assert_eq!((shown.len(), shown.logical_null_count()), (200, 200));
    assert_eq!(shown.as_dictionary::<Int8Type>().values().data_type(), &DataType::Int32);
}

#[test]
fn bounds_that_no_value_can_have_are_refused() {
    let stats = |min, max| ZoneStats { min, max, null_count: 0, flags: ZoneStats::HAS_BOUNDS };
    let nan = map::f64_key(f64::NAN);
    let not_a_float32 = map::f64_key(0.1);
    let cases = [
        (DataType::Boolean, stats(2, 2)),
        (DataType::Int8, stats(0, 128)),
        (DataType::UInt16, stats(0, 65_536)),
        (DataType::Date32, stats(0, 1 << 40)),
        (DataType::Float64, stats(nan, nan)),
        (DataType::Float32, stats(not_a_float32, not_a_float32)),
        (DataType::Float16, stats(not_a_float32, not_a_float32)),
    ];
    for (data_type, stats) in cases {
        let error = bound_array(&data_type, std::iter::once((stats, None)), Which::Max).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidFile, "{data_type}");
    }
    let bounds = |bytes: &'static [u8]| Bounds::from_parts(Bytes::from_static(bytes), Bytes::from_static(bytes), 6);
    let five_bytes = bounds(b"\xff2345");
    for data_type in [DataType::Utf8, DataType::Utf8View, DataType::Decimal128(38, 0), DataType::Decimal256(76, 0), DataType::FixedSizeBinary(4)] {
        let error = bound_array(&data_type, std::iter::once((ZoneStats::UNKNOWN, Some(&five_bytes))), Which::Min).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidFile, "{data_type}");
    }
    let too_wide = bounds(&[0x7f; 32]);
    let error = bound_array(&DataType::Decimal128(38, 0), std::iter::once((ZoneStats::UNKNOWN, Some(&too_wide))), Which::Min).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidFile);
}

#[test]
fn types_that_cannot_be_shown_are_not_prunable() {
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int8, true)));
    for data_type in [DataType::Null, list, DataType::FixedSizeBinary(i32::MAX)] {
        assert_eq!(prunable_type(&data_type), None);
        let error = bound_array(&data_type, std::iter::once((ZoneStats::UNKNOWN, None)), Which::Min).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    assert!(bound_array(&DataType::Int32, std::iter::empty(), Which::Min).unwrap().as_primitive::<Int32Type>().is_empty());
}
