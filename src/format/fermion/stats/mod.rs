//! What is known about the values of a page or chunk, and how it becomes bounds for pruning (SPEC section 5).

mod arrays;
mod bounds;
mod collect;
mod leaf;
mod map;
mod totals;
mod zone;

pub use arrays::{Which, bound_array, bound_is_exact, prunable_type, to_column_type};
pub(crate) use bounds::BOUND_LENGTH_MAX;
pub use bounds::{Bounds, leaf_bounds};
pub use collect::leaf_stats;
pub(crate) use collect::{is_bytes, leaf_stats_and_bounds};
pub use totals::{Totals, TotalsBuilder, sum_of};
pub use zone::ZoneStats;

#[cfg(test)]
mod tests;
