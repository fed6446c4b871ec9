//! Values of fixed width as unsigned words, whatever they mean: most encodings compare and move bits only.

use std::borrow::Cow;
use std::fmt::Debug;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::values::mixed_up;
use crate::format::Result;

// Words are read from pages as they lie there.
const _: () = assert!(cfg!(target_endian = "little"), "the formats are little-endian and so must be the machine");

/// 32 bytes.
pub(super) type U256 = [u128; 2];

/// An unsigned number as wide as a value.
pub(super) trait Word: FromBytes + IntoBytes + Immutable + KnownLayout + Copy + Eq + Default + Debug + Send + Sync + 'static {
    /// 64 bits that equal words share and different words rarely do.
    fn hash(self) -> u64;

    /// 128 bits that equal words share and different words rarely do.
    fn halves(self) -> (u64, u64);
}

/// Multiplying by an odd constant spreads low bits upwards; folding the halves of the product brings them back down.
pub(super) fn mix(bits: u64) -> u64 {
    fold(bits ^ 0x9E37_79B9_7F4A_7C15, 0xA076_1D64_78BD_642F)
}

/// Two words into one, in the time of one: each is the other's factor.
pub(super) fn mix_both(one: u64, other: u64) -> u64 {
    fold(one ^ 0x9E37_79B9_7F4A_7C15, other ^ 0x8EBC_6AF0_9C88_C6E3)
}

#[expect(clippy::cast_possible_truncation, reason = "folds both halves")]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product >> 64) as u64 ^ product as u64
}

macro_rules! words {
    ($($T:ty)*) => {$(
        impl Word for $T {
            fn hash(self) -> u64 {
                mix(u64::from(self))
            }

            fn halves(self) -> (u64, u64) {
                (u64::from(self), 0)
            }
        }
    )*};
}
words!(u8 u16 u32 u64);

impl Word for u128 {
    #[expect(clippy::cast_possible_truncation, reason = "takes both halves")]
    fn hash(self) -> u64 {
        mix(mix(self as u64) ^ (self >> 64) as u64)
    }

    #[expect(clippy::cast_possible_truncation, reason = "takes both halves")]
    fn halves(self) -> (u64, u64) {
        (self as u64, (self >> 64) as u64)
    }
}

impl Word for U256 {
    fn hash(self) -> u64 {
        mix(self[0].hash() ^ self[1].hash().rotate_left(1))
    }

    fn halves(self) -> (u64, u64) {
        (self[0].hash(), self[1].hash())
    }
}

/// Runs the body with `$T` as the word of a fixed width in bytes.
macro_rules! with_word {
    ($width:expr, $T:ident => $body:expr) => {
        match $width {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            8 => {
                type $T = u64;
                $body
            }
            16 => {
                type $T = u128;
                $body
            }
            _ => {
                type $T = $crate::format::codec::words::U256;
                $body
            }
        }
    };
}
pub(super) use with_word;

/// Aligned bytes as words.
pub(super) fn words_of<T: Word>(bytes: &[u8]) -> Result<&[T]> {
    <[T]>::ref_from_bytes(bytes).map_err(|_| mixed_up())
}

/// Bytes of any alignment as words; those of a caller may have any.
pub(super) fn words_from<T: Word>(bytes: &[u8]) -> Cow<'_, [T]> {
    match <[T]>::ref_from_bytes(bytes) {
        Ok(words) => Cow::Borrowed(words),
        Err(_) => Cow::Owned(bytes.chunks_exact(size_of::<T>()).filter_map(|bytes| T::read_from_bytes(bytes).ok()).collect()),
    }
}
