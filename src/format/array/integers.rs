//! Arrays of what is stored as integers: which values lie between two others, or are one of a list, asked of 64 at a time.

use arrow::array::{Array, ArrayRef};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{ArrowNativeType, DataType};

use crate::format::bits::{Mask, WORD};

/// Evaluates to `None` for a type that is not stored as an integer whose order is that of its values.
macro_rules! with_integer {
    ($data_type:expr, $Integer:ident => $body:expr) => {{
        use DataType::*;
        match $data_type {
            Int8 => with_integer!(i8, $Integer, $body),
            Int16 => with_integer!(i16, $Integer, $body),
            Int32 | Date32 | Time32(_) | Decimal32(..) => with_integer!(i32, $Integer, $body),
            Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => with_integer!(i64, $Integer, $body),
            Decimal128(..) => with_integer!(i128, $Integer, $body),
            UInt8 => with_integer!(u8, $Integer, $body),
            UInt16 => with_integer!(u16, $Integer, $body),
            UInt32 => with_integer!(u32, $Integer, $body),
            UInt64 => with_integer!(u64, $Integer, $body),
            _ => None,
        }
    }};
    ($integer:ty, $Integer:ident, $body:expr) => {{
        type $Integer = $integer;
        $body
    }};
}

/// An integer that arrays store.
trait Integer: ArrowNativeType + Ord + Into<i128> + TryFrom<i128> {
    /// The same bits without a sign.
    type Distance: Copy + Ord;

    const MIN: Self;
    const MAX: Self;

    /// How far it is above `low`; what is below it is farther than anything above.
    fn above(self, low: Self) -> Self::Distance;

    /// The same as a number, or the greatest there is.
    fn distance(self, low: Self) -> usize;

    fn least(self, other: Self) -> Self;

    fn greatest(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($Integer:ty: $Distance:ty),*) => {
        $(impl Integer for $Integer {
            type Distance = $Distance;

            const MIN: Self = <$Integer>::MIN;
            const MAX: Self = <$Integer>::MAX;

            fn above(self, low: Self) -> $Distance {
                <$Distance>::from_le_bytes(self.wrapping_sub(low).to_le_bytes())
            }

            fn distance(self, low: Self) -> usize {
                usize::try_from(self.above(low)).unwrap_or(usize::MAX)
            }

            fn least(self, other: Self) -> Self {
                self.min(other)
            }

            fn greatest(self, other: Self) -> Self {
                self.max(other)
            }
        })*
    };
}

integers!(i8: u8, i16: u16, i32: u32, i64: u64, i128: u128, u8: u8, u16: u16, u32: u32, u64: u64);

/// The least and the greatest value of a type; `None` if it is not one of integers.
pub(crate) fn limits(data_type: &DataType) -> Option<(i128, i128)> {
    fn of<I: Integer>() -> (i128, i128) {
        (I::MIN.into(), I::MAX.into())
    }
    with_integer!(data_type, Integer => Some(of::<Integer>()))
}

/// The first value of such an array.
pub(crate) fn first(array: &ArrayRef) -> Option<i128> {
    fn of<I: Integer>(array: &ArrayRef) -> Option<i128> {
        array.to_data().buffer::<I>(0).first().map(|value| (*value).into())
    }
    with_integer!(array.data_type(), Integer => of::<Integer>(array))
}

/// Which values of such an array lie from `low` to `high`, both of which are values of its type. What null values are stored as is looked at, too.
pub(crate) fn within(array: &ArrayRef, low: i128, high: i128) -> Option<BooleanBuffer> {
    if low > high {
        return Some(BooleanBuffer::new_unset(array.len()));
    }
    with_integer!(array.data_type(), Integer => values_within::<Integer>(array, low, high))
}

fn values_within<I: Integer>(array: &ArrayRef, low: i128, high: i128) -> Option<BooleanBuffer> {
    let (low, high) = (I::try_from(low).ok()?, I::try_from(high).ok()?);
    let data = array.to_data();
    let values = data.buffer::<I>(0).get(..array.len())?;
    let span = high.above(low);
    let mut mask = Mask::with_room(values.len());
    push_all(values, &mut mask, |value| u8::from(value.above(low) <= span));
    Some(mask.finish())
}

/// Values whose bounds are looked for in a list.
const NEAR: usize = 16 * WORD;
/// No more values of a list are compared with each value between their bounds.
const FEW: usize = 8;
/// No farther may bounds be apart whose distance has a bit for each value.
const SPAN_MAX: usize = 1 << 16;

/// Bits of a [`Sieve`] for each of its values: so many others pass for no more than one of them in vain.
const SIEVE_BITS: usize = 64;
/// No sieve is larger, so that it stays in a cache of the processor: 256 KiB.
const SIEVE_MAX: usize = 1 << 21;

/// Integers to look for in arrays.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct List {
    /// Ascending, each once.
    values: Vec<i128>,
    /// `None` if they are too many.
    sieve: Option<Sieve>,
}

impl List {
    pub(crate) fn new(mut values: Vec<i128>) -> Self {
        values.sort_unstable();
        values.dedup();
        Self { sieve: Sieve::of(&values), values }
    }

    /// Which values of an array are one of these; `None` if it is not one of integers, and where a hash table is faster, because these are very many and far from each other. What null
    /// values are stored as is looked at, too.
    pub(crate) fn find_in(&self, array: &ArrayRef) -> Option<BooleanBuffer> {
        with_integer!(array.data_type(), Integer => self.find::<Integer>(array))
    }

    fn find<I: Integer>(&self, array: &ArrayRef) -> Option<BooleanBuffer> {
        let data = array.to_data();
        let values = data.buffer::<I>(0).get(..array.len())?;
        let mut mask = Mask::with_room(values.len());
        for near in values.chunks(NEAR) {
            let (least, greatest) = bounds(near);
            let wanted = self.between(least.into(), greatest.into());
            if wanted.is_empty() {
                near.chunks(WORD).for_each(|values| mask.push(0, values.len()));
            } else if wanted.len() <= FEW {
                let few: Vec<I> = typed(wanted).collect();
                near.chunks(WORD).for_each(|values| mask.push(any_of(values, &few), values.len()));
            } else if let Some(set) = Set::of(wanted, least, greatest) {
                push_all(near, &mut mask, |value| set.has(value.distance(least)));
            } else {
                let sieve = self.sieve.as_ref()?;
                near.chunks(WORD).for_each(|values| mask.push(self.sift(sieve, values), values.len()));
            }
        }
        Some(mask.finish())
    }

    /// Those from one number to another.
    fn between(&self, least: i128, greatest: i128) -> &[i128] {
        let first = self.values.partition_point(|value| *value < least);
        let end = self.values.partition_point(|value| *value <= greatest);
        self.values.get(first..end).unwrap_or_default()
    }

    /// A bit for each of up to 64 values: whether it is one of these.
    fn sift<I: Integer>(&self, sieve: &Sieve, values: &[I]) -> u64 {
        let mut found = bits(values, |value| sieve.may_have(value.into()));
        let mut left = found;
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            left &= left - 1;
            if self.values.binary_search(&values[index].into()).is_err() {
                found &= !(1 << index);
            }
        }
        found
    }
}

/// Those of some numbers that are of a type.
fn typed<I: Integer>(values: &[i128]) -> impl Iterator<Item = I> {
    values.iter().filter_map(|value| I::try_from(*value).ok())
}

/// A bit for each of up to 64 values: whether it is one of a few. One after the other with all values, which compilers make vectors of.
fn any_of<I: Integer>(values: &[I], few: &[I]) -> u64 {
    let mut bytes = [0; WORD];
    for one in few {
        bytes.iter_mut().zip(values).for_each(|(byte, value)| *byte |= u8::from(value == one));
    }
    packed(&bytes)
}

/// Appends a bit for each value.
fn push_all<I: Integer>(values: &[I], mask: &mut Mask, test: impl Fn(I) -> u8) {
    values.chunks(WORD).for_each(|values| mask.push(bits(values, &test), values.len()));
}

/// A bit for each of up to 64 values.
fn bits<I: Integer>(values: &[I], test: impl Fn(I) -> u8) -> u64 {
    let mut bytes = [0; WORD];
    // Without a branch, and each in a byte of its own, which compilers make vectors of.
    bytes.iter_mut().zip(values).for_each(|(byte, value)| *byte = test(*value));
    packed(&bytes)
}

/// Bits at places that follow from values: a value whose place has none is not among them.
#[derive(Debug, PartialEq, Eq)]
struct Sieve {
    words: Vec<u64>,
    /// The highest bits of a hash are the place; so many are not.
    shift: u32,
}

impl Sieve {
    fn of(values: &[i128]) -> Option<Self> {
        let places = values.len().saturating_mul(SIEVE_BITS).next_power_of_two().max(WORD);
        if places > SIEVE_MAX {
            return None;
        }
        let mut sieve = Self { words: vec![0; places / WORD], shift: u64::BITS - places.trailing_zeros() };
        for value in values {
            let place = sieve.place(*value);
            sieve.words[place / WORD] |= 1 << (place % WORD);
        }
        Some(sieve)
    }

    /// Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4): neighbours get places that are far from each other.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the lower half is hashed, and the places are as many as bits in memory"
    )]
    fn place(&self, value: i128) -> usize {
        ((value as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    fn may_have(&self, value: i128) -> u8 {
        let place = self.place(value);
        u8::from(self.words.get(place / WORD).is_some_and(|word| word >> (place % WORD) & 1 == 1))
    }
}

/// The least and the greatest of some values, of which there is at least one.
fn bounds<I: Integer>(values: &[I]) -> (I, I) {
    // Several at a time, none of which waits for another.
    let (mut least, mut greatest) = ([I::MAX; 4], [I::MIN; 4]);
    let (fours, rest) = values.as_chunks::<4>();
    for four in fours {
        least = std::array::from_fn(|lane| least[lane].least(four[lane]));
        greatest = std::array::from_fn(|lane| greatest[lane].greatest(four[lane]));
    }
    let least = least.iter().chain(rest).fold(I::MAX, |least, value| least.least(*value));
    (least, greatest.iter().chain(rest).fold(I::MIN, |greatest, value| greatest.greatest(*value)))
}

/// A bit for each distance from a value.
struct Set(Vec<u64>);

impl Set {
    /// Those of some values; `None` where the greatest distance is too far.
    fn of<I: Integer>(values: &[i128], least: I, greatest: I) -> Option<Self> {
        let span = greatest.distance(least);
        let mut words = (span < SPAN_MAX).then(|| vec![0; span / WORD + 1])?;
        for distance in typed::<I>(values).map(|value| value.distance(least)) {
            words[distance / WORD] |= 1 << (distance % WORD);
        }
        Some(Self(words))
    }

    fn has(&self, distance: usize) -> u8 {
        u8::from(self.0.get(distance / WORD).is_some_and(|word| word >> (distance % WORD) & 1 == 1))
    }
}

/// The lowest bit of each byte, all others of which are 0.
fn packed(bytes: &[u8; WORD]) -> u64 {
    let (eights, _) = bytes.as_chunks::<8>();
    // The product has bit 8 i of a factor at bit 56 + i, once for each i, and no two that meet.
    let byte = |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    eights.iter().zip((0..).step_by(8)).fold(0, |word, (eight, at)| word | byte(eight) << at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, Int64Array, PrimitiveArray, UInt32Array, new_null_array};
    use arrow::buffer::{NullBuffer, ScalarBuffer};
    use arrow::datatypes::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    /// About those of words, and of what bounds are looked for in.
    const LENGTHS: [usize; 8] = [0, 1, 63, 64, 65, 512, 1025, 2100];
    /// Arrays that are cut begin here: not with a byte of their nulls.
    const CUT: usize = 13;

    /// A type, the least and the greatest number it stores, and what makes arrays of numbers.
    struct Type {
        data_type: DataType,
        limits: (i128, i128),
        array: fn(&DataType, &[i128], Option<NullBuffer>) -> ArrayRef,
    }

    fn of<T: ArrowPrimitiveType>(data_type: DataType) -> Type
    where
        T::Native: Into<i128> + TryFrom<i128>,
    {
        let limits = (T::Native::MIN_TOTAL_ORDER.into(), T::Native::MAX_TOTAL_ORDER.into());
        Type { data_type, limits, array: array_of::<T> }
    }

    fn array_of<T: ArrowPrimitiveType>(data_type: &DataType, numbers: &[i128], nulls: Option<NullBuffer>) -> ArrayRef
    where
        T::Native: TryFrom<i128>,
    {
        let values: ScalarBuffer<T::Native> = numbers.iter().map(|number| T::Native::try_from(*number).ok().unwrap()).collect();
        Arc::new(PrimitiveArray::<T>::new(values, nulls).with_data_type(data_type.clone()))
    }

    fn types() -> Vec<Type> {
        use DataType::*;
        use TimeUnit::*;
        vec![
            of::<Int8Type>(Int8),
            of::<Int16Type>(Int16),
            of::<Int32Type>(Int32),
            of::<Int64Type>(Int64),
            of::<UInt8Type>(UInt8),
            of::<UInt16Type>(UInt16),
            of::<UInt32Type>(UInt32),
            of::<UInt64Type>(UInt64),
            of::<Date32Type>(Date32),
            of::<Date64Type>(Date64),
            of::<Time32SecondType>(Time32(Second)),
            of::<Time32MillisecondType>(Time32(Millisecond)),
            of::<Time64MicrosecondType>(Time64(Microsecond)),
            of::<Time64NanosecondType>(Time64(Nanosecond)),
            of::<TimestampSecondType>(Timestamp(Second, None)),
            of::<TimestampMillisecondType>(Timestamp(Millisecond, None)),
            of::<TimestampMicrosecondType>(Timestamp(Microsecond, Some("UTC".into()))),
            of::<TimestampNanosecondType>(Timestamp(Nanosecond, None)),
            of::<DurationSecondType>(Duration(Second)),
            of::<DurationMillisecondType>(Duration(Millisecond)),
            of::<DurationMicrosecondType>(Duration(Microsecond)),
            of::<DurationNanosecondType>(Duration(Nanosecond)),
            of::<Decimal32Type>(Decimal32(9, 1)),
            of::<Decimal64Type>(Decimal64(18, 2)),
            of::<Decimal128Type>(Decimal128(38, 2)),
        ]
    }

    /// Numbers of a type: the limits and what lies about 0, some that ascend slowly, some that are far from each other, and one again and again.
    fn numbers(limits: (i128, i128), rows: usize) -> [Vec<i128>; 4] {
        let shaped = |number: fn((i128, i128), i128) -> i128| -> Vec<i128> {
            (0..).take(rows).map(|row| number(limits, row).clamp(limits.0, limits.1)).collect()
        };
        [
            shaped(|(low, high), row| [low, -1, 0, high, 1, low + 1, 7, high - 1, 40][usize::try_from(row % 9).unwrap()]),
            shaped(|_, row| row / 3 - 20),
            shaped(|(_, high), row| (row * 7919 % 2048 - 1024) * (high / 1024).max(1)),
            shaped(|_, _| 7),
        ]
    }

    /// Arrays, whole or with nulls and cut, and what all of their values are stored as: of nulls that is looked at, too.
    fn arrays(of: &Type) -> Vec<(ArrayRef, Vec<i128>)> {
        let mut arrays = Vec::new();
        for rows in LENGTHS {
            for numbers in numbers(of.limits, CUT + rows) {
                let valid: NullBuffer = (0..numbers.len()).map(|row| row % 5 != 2).collect();
                let cut = numbers[CUT..].to_vec();
                arrays.push(((of.array)(&of.data_type, &cut, None), cut.clone()));
                arrays.push(((of.array)(&of.data_type, &numbers, Some(valid)).slice(CUT, rows), cut));
            }
        }
        arrays
    }

    /// Of none, one, few and many, some of them twice, in any order, close together and far from each other, and of what no array of a type has.
    fn lists(limits: (i128, i128)) -> Vec<Vec<i128>> {
        let (low, high) = limits;
        let [_, _, far, _] = numbers(limits, 700);
        vec![
            vec![],
            vec![0],
            vec![7; 3],
            vec![high, low],
            vec![high.saturating_add(1), low.saturating_sub(1)],
            (0..8).rev().collect(),
            (0..9).chain(0..9).collect(),
            (-300..300).collect(),
            (-3000..3000).step_by(7).chain([high, low]).collect(),
            far.into_iter().step_by(3).chain(0..9).collect(),
        ]
    }

    #[test]
    fn types_have_limits_and_arrays_a_first_value() {
        for of in types() {
            assert_eq!(limits(&of.data_type), Some(of.limits), "{}", of.data_type);
            for (array, numbers) in arrays(&of) {
                assert_eq!(first(&array), numbers.first().copied(), "{} {}", array.len(), of.data_type);
            }
        }
    }

    #[test]
    fn values_within_bounds_are_those_a_range_contains() {
        for of in types() {
            let (low, high) = of.limits;
            let bounds = [low, -1, 0, 7, high - 1, high].map(|bound| bound.clamp(low, high));
            for (array, numbers) in arrays(&of) {
                for (low, high) in bounds.iter().flat_map(|low| bounds.map(|high| (*low, high))) {
                    let expected: BooleanBuffer = numbers.iter().map(|number| (low..=high).contains(number)).collect();
                    assert_eq!(within(&array, low, high), Some(expected), "{low} to {high} in {} {}", array.len(), of.data_type);
                }
            }
        }
    }

    #[test]
    fn bounds_beyond_a_type_have_none_within_or_are_not_compared() {
        for of in types() {
            let (low, high) = of.limits;
            let (Some(below), Some(beyond)) = (low.checked_sub(1), high.checked_add(1)) else { continue };
            let array = (of.array)(&of.data_type, &[low, 0, high], None);
            for (low, high) in [(beyond, high), (low, below), (beyond, below)] {
                assert_eq!(within(&array, low, high), Some(BooleanBuffer::new_unset(3)), "{low} to {high} in {}", of.data_type);
            }
            for (low, high) in [(below, 0), (0, beyond), (below, beyond), (below, below)] {
                assert_eq!(within(&array, low, high), None, "{low} to {high} in {}", of.data_type);
            }
        }
    }

    #[test]
    fn values_of_a_list_are_those_a_set_contains() {
        for of in types() {
            let arrays = arrays(&of);
            for list in lists(of.limits) {
                let set: BTreeSet<i128> = list.iter().copied().collect();
                let list = List::new(list);
                for (array, numbers) in &arrays {
                    let expected: BooleanBuffer = numbers.iter().map(|number| set.contains(number)).collect();
                    assert_eq!(list.find_in(array), Some(expected), "{set:?} in {} {}", array.len(), of.data_type);
                }
            }
        }
    }

    #[test]
    fn so_many_have_no_sieve_and_are_found_where_they_are_close_together_or_few() {
        for (count, greatest, is_found) in [(30_000, 65_535, true), (30_000, 65_536, true), (40_000, 65_535, true), (40_000, 65_536, false)] {
            let values: Vec<u32> = vec![greatest, count, 0, count - 1, 7];
            let expected: BooleanBuffer = values.iter().map(|value| *value < count).collect();
            let list = List::new((0..count).map(i128::from).collect());
            let array: ArrayRef = Arc::new(UInt32Array::from(values));
            assert_eq!(list.find_in(&array), is_found.then_some(expected), "{count} up to {greatest}");
        }
        let step: i64 = 1_000_003;
        let array = |rows: i64| Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row * step + row % 2))) as ArrayRef;
        let expected = |rows: i64| (0..rows).map(|row| row % 2 == 0).collect::<BooleanBuffer>();
        for (count, is_found) in [(32_768, true), (32_769, false)] {
            let list = List::new((0..count).map(|index| i128::from(index * step)).collect());
            assert_eq!(list.find_in(&array(2100)), is_found.then(|| expected(2100)), "{count}");
            assert_eq!(list.find_in(&array(8)), Some(expected(8)), "{count}");
        }
    }

    /// The lower halves of all of them are 0, and their places the same.
    #[test]
    fn what_passes_a_sieve_in_vain_is_not_found() {
        let list = List::new((0..300_i128).map(|index| index << 70).collect());
        let array: ArrayRef = Arc::new(Decimal128Array::from_iter_values((0..1025_i128).map(|row| row << 69)));
        let expected: BooleanBuffer = (0..1025).map(|row| row % 2 == 0 && row < 600).collect();
        assert_eq!(list.find_in(&array), Some(expected));
    }

    fn other_types() -> impl Iterator<Item = DataType> {
        use DataType::*;
        let intervals = [IntervalUnit::YearMonth, IntervalUnit::DayTime, IntervalUnit::MonthDayNano].map(Interval);
        [Boolean, Float16, Float32, Float64, Utf8, Utf8View, Binary, Decimal256(40, 2)].into_iter().chain(intervals)
    }

    #[test]
    fn other_types_are_not_compared() {
        for data_type in other_types() {
            let array = new_null_array(&data_type, 3);
            assert_eq!((limits(&data_type), first(&array)), (None, None), "{data_type}");
            assert_eq!((within(&array, 0, 7), List::new(vec![0, 7]).find_in(&array)), (None, None), "{data_type}");
        }
    }
}
