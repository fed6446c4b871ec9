//! Values to i64 and back, keeping their order (the table of SPEC section 5).

use arrow::datatypes::i256;

/// The key of an unsigned 64-bit number: its top bit flipped.
pub(super) fn u64_key(value: u64) -> i64 {
    (value ^ (1 << 63)).cast_signed()
}

/// The number of a key.
pub(super) fn u64_of_key(key: i64) -> u64 {
    key.cast_unsigned() ^ (1 << 63)
}

/// The key of a float: in the order of IEEE 754 totalOrder, -0.0 before 0.0.
pub(super) fn f64_key(value: f64) -> i64 {
    flip_if_negative(value.to_bits().cast_signed())
}

/// The float of a key.
pub(super) fn f64_of_key(key: i64) -> f64 {
    f64::from_bits(flip_if_negative(key).cast_unsigned())
}

/// Negative floats have their greatest bit pattern furthest from zero. Its own inverse.
fn flip_if_negative(bits: i64) -> i64 {
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

/// The first eight bytes, zero-padded: a number in the order of the bytes.
pub(super) fn prefix(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut padded = [0; 8];
            for (to, from) in padded.iter_mut().zip(bytes) {
                *to = *from;
            }
            u64::from_be_bytes(padded)
        }
    }
}

/// The eight bytes of a prefix's key.
pub(super) fn prefix_of_key(key: i64) -> [u8; 8] {
    u64_of_key(key).to_be_bytes()
}

/// The nearest i64.
pub(super) fn saturate_i128(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// The nearest i64.
pub(super) fn saturate_i256(value: i256) -> i64 {
    value.to_i128().map_or(if value.is_negative() { i64::MIN } else { i64::MAX }, saturate_i128)
}
