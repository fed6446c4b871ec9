//! The FastLanes layout of packed integers: which widths there are, and nothing else. The kernels are those of the `fastlanes` crate.

use fastlanes::{BitPacking, FoR};
use zerocopy::{FromBytes, IntoBytes};

use super::BLOCK;
use super::words::Word;
use crate::format::{Error, Result};

/// An unsigned integer that FastLanes packs.
pub(super) trait Lane: Word + Ord {
    /// Bits of the type.
    const BITS: u8;

    /// Appends a block's differences from `reference`, in the low `width` bits of each.
    fn pack(block: &[Self; BLOCK], reference: Self, width: u8, out: &mut Vec<u8>) -> Result<()>;

    /// The values of a packed block.
    fn unpack(packed: &[u8], reference: Self, width: u8, block: &mut [Self; BLOCK]) -> Result<()>;

    /// One value of a packed block.
    fn unpack_one(packed: &[u8], reference: Self, width: u8, index: usize) -> Result<Self>;

    /// The low 64 bits of a parameter.
    fn from_param(param: u64) -> Self;

    /// The value, zero-extended.
    fn to_u64(self) -> u64;

    fn plus(self, other: Self) -> Self;

    fn minus(self, other: Self) -> Self;

    /// Bits from the lowest to the highest that is set.
    fn bits(self) -> u8;

    /// The top bit alone: what to flip so that signed numbers compare as unsigned ones.
    fn top_bit() -> Self;

    fn xor(self, other: Self) -> Self;

    fn or(self, other: Self) -> Self;
}

/// Bytes of a packed block.
pub(super) fn packed_length(width: u8) -> usize {
    usize::from(width) * BLOCK / 8
}

macro_rules! lane {
    ($T:ident: $($width:literal)*) => {
        #[expect(clippy::cast_possible_truncation, reason = "bits of a type are few, and parameters are checked to fit")]
        impl Lane for $T {
            const BITS: u8 = $T::BITS as u8;

            fn pack(block: &[Self; BLOCK], reference: Self, width: u8, out: &mut Vec<u8>) -> Result<()> {
                match width {
                    $($width => {
                        const WORDS: usize = BLOCK * $width / $T::BITS as usize;
                        let mut packed = [0; WORDS];
                        FoR::for_pack::<$width, WORDS>(block, reference, &mut packed);
                        out.extend_from_slice(packed.as_bytes());
                        Ok(())
                    })*
                    _ => Err(too_wide(width)),
                }
            }

            fn unpack(packed: &[u8], reference: Self, width: u8, block: &mut [Self; BLOCK]) -> Result<()> {
                match width {
                    $($width => {
                        const WORDS: usize = BLOCK * $width / $T::BITS as usize;
                        match <[$T; WORDS]>::ref_from_bytes(packed) {
                            Ok(packed) => FoR::unfor_pack::<$width, WORDS>(packed, reference, block),
                            // Fetched bytes may lie at any address.
                            Err(_) => {
                                let packed = <[$T; WORDS]>::read_from_bytes(packed).map_err(|_| cut_short())?;
                                FoR::unfor_pack::<$width, WORDS>(&packed, reference, block);
                            }
                        }
                        Ok(())
                    })*
                    _ => Err(too_wide(width)),
                }
            }

            fn unpack_one(packed: &[u8], reference: Self, width: u8, index: usize) -> Result<Self> {
                match width {
                    $($width => {
                        const WORDS: usize = BLOCK * $width / $T::BITS as usize;
                        let difference = match <[$T; WORDS]>::ref_from_bytes(packed) {
                            Ok(packed) => BitPacking::unpack_single::<$width, WORDS>(packed, index % BLOCK),
                            Err(_) => {
                                let packed = <[$T; WORDS]>::read_from_bytes(packed).map_err(|_| cut_short())?;
                                BitPacking::unpack_single::<$width, WORDS>(&packed, index % BLOCK)
                            }
                        };
                        Ok(difference.wrapping_add(reference))
                    })*
                    _ => Err(too_wide(width)),
                }
            }

            fn from_param(param: u64) -> Self {
                param as Self
            }

            fn to_u64(self) -> u64 {
                u64::from(self)
            }

            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            fn bits(self) -> u8 {
                ($T::BITS - self.leading_zeros()) as u8
            }

            fn top_bit() -> Self {
                1 << ($T::BITS - 1)
            }

            fn xor(self, other: Self) -> Self {
                self ^ other
            }

            fn or(self, other: Self) -> Self {
                self | other
            }
        }
    };
}

lane!(u8: 0 1 2 3 4 5 6 7 8);
lane!(u16: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
lane!(u32: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
lane!(u64: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43
    44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64);

fn too_wide(width: u8) -> Error {
    Error::invalid_file(format!("integers packed into {width} bits, more than they have"))
}

fn cut_short() -> Error {
    Error::invalid_file("a packed block is cut short")
}

/// Runs the body with `$T` as the word of an integer of at most 64 bits.
macro_rules! with_lane {
    ($ptype:expr, $T:ident => $body:expr) => {
        match $ptype.width() {
            Some(1) => {
                type $T = u8;
                $body
            }
            Some(2) => {
                type $T = u16;
                $body
            }
            Some(4) => {
                type $T = u32;
                $body
            }
            _ => {
                type $T = u64;
                $body
            }
        }
    };
}
pub(super) use with_lane;

/// Whether FRAME and DELTA are defined for a type.
pub(super) fn is_lane(ptype: super::PType) -> bool {
    ptype.is_integer() && ptype.width().is_some_and(|width| width <= 8)
}
