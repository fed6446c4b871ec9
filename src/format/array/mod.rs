//! Arrow arrays to streams and back, as SPEC section 4 splits them.

mod assemble;
mod leaf;
mod nested;
mod shred;
mod views;
mod wrap;

pub(crate) use assemble::{LEAF_DATA, LEAF_VALIDITY, Ranges, Streams, assemble, slots};
pub(crate) use leaf::{is_text, leaf_array, leaf_ptype, leaf_values};
pub(crate) use shred::{Piece, join, shred};
