//! The structs of the schema area.

use zerocopy::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct SchemaHeader {
    pub(super) field_count: U32,
    pub(super) node_count: U32,
    pub(super) entry_count: U32,
    pub(super) schema_entry_count: U32,
    pub(super) strings_length: U64,
    pub(super) reserved: U64,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct SchemaNode {
    pub(super) name: StringRef,
    pub(super) child_start: U32,
    pub(super) child_count: U32,
    pub(super) entry_start: U32,
    pub(super) entry_count: U32,
    pub(super) type_id: U16,
    pub(super) flags: U16,
    pub(super) params: [I32; 2],
    pub(super) tag: I32,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct SchemaEntry {
    pub(super) key: StringRef,
    pub(super) value: StringRef,
}

/// A place in the string pool.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct StringRef {
    pub(super) offset: U32,
    pub(super) length: U32,
}

const _: () = assert!(size_of::<SchemaHeader>() == 32);
const _: () = assert!(size_of::<SchemaNode>() == 40);
const _: () = assert!(size_of::<SchemaEntry>() == 16);
