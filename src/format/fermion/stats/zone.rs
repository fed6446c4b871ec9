//! Statistics of a page or chunk as the file stores them.

use std::cmp::Ordering;

/// Statistics of a page or chunk. Mapped bounds are i64 in the order of the values (SPEC section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZoneStats {
    /// Mapped lower bound of the valid values, see [`ZoneStats::bounds`].
    pub min: i64,
    /// Mapped upper bound.
    pub max: i64,
    /// Nulls, see [`ZoneStats::nulls`].
    pub null_count: u32,
    /// The bits below.
    pub flags: u32,
}

impl ZoneStats {
    /// `min` and `max` are set.
    pub const HAS_BOUNDS: u32 = 1;
    /// The mapped min is the exact least value.
    pub const MIN_EXACT: u32 = 1 << 1;
    /// The mapped max is the exact greatest value.
    pub const MAX_EXACT: u32 = 1 << 2;
    /// There is a NaN among the values; bounds are those of the others.
    pub const HAS_NAN: u32 = 1 << 3;
    /// (In the file, of a chunk) `PageExt` follows `PageMeta`.
    pub const PAGE_EXT: u32 = 1 << 4;
    /// `null_count` is set.
    pub const HAS_NULL_COUNT: u32 = 1 << 5;
    /// (In the file, of a chunk) its first pages, those without rows, are a dictionary for the others.
    pub const DICTIONARY: u32 = 1 << 6;
    /// What a chunk's flags say about its layout rather than its values.
    pub const LAYOUT: u32 = Self::PAGE_EXT | Self::DICTIONARY;

    /// Nothing is known.
    pub const UNKNOWN: Self = Self { min: 0, max: 0, null_count: 0, flags: 0 };

    /// Whether all of these bits are set.
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    /// The mapped least and greatest valid value, if there are any.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        self.has(Self::HAS_BOUNDS).then_some((self.min, self.max))
    }

    /// How many slots are null, if known.
    pub fn nulls(&self) -> Option<u32> {
        self.has(Self::HAS_NULL_COUNT).then_some(self.null_count)
    }

    /// The statistics of two zones of the same stream taken together. The `rows` of each tell an all-null zone from one whose bounds are unknown.
    #[must_use]
    pub fn merge(&self, rows: u64, other: &Self, other_rows: u64) -> Self {
        let mut merged = match (self.bounds(), other.bounds()) {
            (Some(_), Some(_)) => self.merge_bounds(other),
            (Some(_), None) if other.has_nothing_to_bound(other_rows) => *self,
            (None, Some(_)) if self.has_nothing_to_bound(rows) => *other,
            _ => Self::UNKNOWN,
        };
        merged.flags &= Self::HAS_BOUNDS | Self::MIN_EXACT | Self::MAX_EXACT;
        merged.flags |= (self.flags | other.flags) & Self::HAS_NAN;
        merged.null_count = 0;
        if let (Some(nulls), Some(other_nulls)) = (self.nulls(), other.nulls())
            && let Some(null_count) = nulls.checked_add(other_nulls)
        {
            merged.null_count = null_count;
            merged.flags |= Self::HAS_NULL_COUNT;
        }
        merged
    }

    /// All slots are null, or what is not null is NaN.
    pub(crate) fn has_nothing_to_bound(&self, rows: u64) -> bool {
        self.has(Self::HAS_NAN) || self.nulls().is_some_and(|nulls| u64::from(nulls) == rows)
    }

    /// Of equal bounds both have to be exact: one that was saturated stands for a value beyond it.
    fn merge_bounds(&self, other: &Self) -> Self {
        let exact = |flag, mine: i64, theirs: i64| match mine.cmp(&theirs) {
            Ordering::Less => self.flags & flag,
            Ordering::Equal => self.flags & other.flags & flag,
            Ordering::Greater => other.flags & flag,
        };
        let min_exact = exact(Self::MIN_EXACT, self.min, other.min);
        // Negated order: the greater one wins. `!` reverses i64 without overflow.
        let max_exact = exact(Self::MAX_EXACT, !self.max, !other.max);
        Self { min: self.min.min(other.min), max: self.max.max(other.max), null_count: 0, flags: Self::HAS_BOUNDS | min_exact | max_exact }
    }
}
