//! Arrow arrays to streams and back, as SPEC section 4 splits them.

mod accept;
mod assemble;
mod bounds;
mod ends;
#[cfg(feature = "datafusion")]
pub(crate) mod integers;
mod joined;
mod leaf;
mod limits;
mod narrow;
mod nested;
mod null_values;
mod nulls;
mod offsets;
mod shred;
mod size;
mod views;
mod wrap;
mod zero_width;

pub(crate) use accept::{check_nulls, check_rows};
pub(crate) use assemble::{LEAF_DATA, LEAF_VALIDITY, Ranges, Streams, TypeCounts, add_types, assemble, same_family, slots};
pub(crate) use bounds::bounds_as;
pub(crate) use ends::{Ends, stream_ends};
pub(crate) use joined::{joined, most};
pub(crate) use leaf::{is_text, leaf_array, leaf_ptype, leaf_values};
pub(crate) use limits::{ROW_SLOTS_MAX, check_null, check_spelled, may_be_copied, value_slots};
pub(crate) use narrow::{listed_item, matched_fields, wanted_streams};
pub(crate) use null_values::with_nulls_in_keys;
pub(crate) use nulls::null_array;
pub(crate) use offsets::checked_offsets;
pub(crate) use shred::{Piece, join, shred};
pub(crate) use size::spelled_bytes;
pub(crate) use views::{binary as binary_views, checked_joined, checked_text};
pub(crate) use zero_width::{Mask, taken};
