//! The zone map: what each column's values are between, batch by batch, as SPEC section 7 keeps it in the footer.

mod bounds;
mod collect;
mod map;
mod wire;

pub(super) use bounds::{Side, bound_array, leaf_type};
pub(super) use collect::zone_of;
pub(super) use map::ZoneMap;
pub(super) use wire::{Zone, ordering_entry, rows_entry, zones_entry};
