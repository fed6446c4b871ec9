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
    for values in values.chunks(WORD) {
        let mut bytes = [0; WORD];
        // Without a branch, and each in a byte of its own, which compilers make vectors of.
        bytes.iter_mut().zip(values).for_each(|(byte, value)| *byte = u8::from(value.above(low) <= span));
        mask.push(packed(&bytes), values.len());
    }
    Some(mask.finish())
}

/// Values whose bounds are looked for in a list.
const NEAR: usize = 16 * WORD;
/// No more values of a list are compared with each value between their bounds.
const FEW: usize = 8;
/// No farther may bounds be apart whose distance has a bit for each value.
const SPAN_MAX: usize = 1 << 16;

/// Which values of such an array are one of a list, which ascends; `None` also where a hash table is faster, because many values of the list lie between the bounds of neighbours, and those
/// are far from each other. What null values are stored as is looked at, too.
pub(crate) fn one_of(array: &ArrayRef, list: &[i128]) -> Option<BooleanBuffer> {
    with_integer!(array.data_type(), Integer => values_of::<Integer>(array, list))
}

fn values_of<I: Integer>(array: &ArrayRef, list: &[i128]) -> Option<BooleanBuffer> {
    let data = array.to_data();
    let values = data.buffer::<I>(0).get(..array.len())?;
    let mut mask = Mask::with_room(values.len());
    let mut wanted: Vec<I> = Vec::new();
    for near in values.chunks(NEAR) {
        let (least, greatest) = bounds(near);
        let first = list.partition_point(|value| *value < least.into());
        let between = list.iter().skip(first).take_while(|value| **value <= greatest.into());
        wanted.clear();
        wanted.extend(between.filter_map(|value| I::try_from(*value).ok()));
        if wanted.is_empty() {
            near.chunks(WORD).for_each(|values| mask.push(0, values.len()));
            continue;
        }
        let set = if wanted.len() > FEW { Some(Set::of(&wanted, least, greatest)?) } else { None };
        for values in near.chunks(WORD) {
            let mut bytes = [0; WORD];
            for one in wanted.iter().take(if set.is_none() { FEW } else { 0 }) {
                bytes.iter_mut().zip(values).for_each(|(byte, value)| *byte |= u8::from(value == one));
            }
            if let Some(set) = &set {
                bytes.iter_mut().zip(values).for_each(|(byte, value)| *byte = set.has(value.distance(least)));
            }
            mask.push(packed(&bytes), values.len());
        }
    }
    Some(mask.finish())
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
    fn of<I: Integer>(values: &[I], least: I, greatest: I) -> Option<Self> {
        let span = greatest.distance(least);
        let mut words = (span < SPAN_MAX).then(|| vec![0; span / WORD + 1])?;
        for distance in values.iter().map(|value| value.distance(least)) {
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
