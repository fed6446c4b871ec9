//! How much time to decode a byte less is worth.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use super::buffer::Kind;

/// What a file is meant to be best at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// Read from memory, or from a disk that is as fast.
    Fast,
    /// Read from a local disk or a near object store.
    #[default]
    Balanced,
    /// Kept for long, or read from far away.
    Small,
}

impl Compression {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Fast, Self::Balanced, Self::Small];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Balanced => "balanced",
            Self::Small => "small",
        }
    }

    /// The level of ZSTD that goes with it.
    pub fn zstd_level(self) -> Option<i32> {
        Some(match self {
            Self::Fast => 1,
            Self::Balanced => 3,
            Self::Small => 9,
        })
    }

    /// The most bytes of the dictionary of a chunk, which a query of few rows has to fetch as a whole.
    pub(crate) fn dictionary_bytes(self) -> usize {
        match self {
            Self::Fast => 1 << 20,
            Self::Balanced | Self::Small => 8 << 20,
        }
    }

    /// What reading a byte costs, in nanoseconds.
    pub(super) fn nanos_per_byte(self) -> f64 {
        match self {
            Self::Fast => 0.4,
            Self::Balanced => 2.0,
            Self::Small => 20.0,
        }
    }

    /// The part of the raw size by which text may be larger as ONPAIR than under ZSTD, which takes four times as long to decode.
    pub(super) fn onpair_worth(self) -> f64 {
        match self {
            Self::Fast => 0.3,
            Self::Balanced => 0.08,
            Self::Small => 0.0,
        }
    }

    /// The greatest part of the raw size that a buffer may have under ZSTD.
    pub(super) fn worth(self, kind: Kind) -> f64 {
        match (self, kind) {
            (Self::Fast, Kind::Text) => 0.4,
            (Self::Fast, Kind::Numbers) => 0.3,
            (Self::Balanced, Kind::Text) => 0.87,
            (Self::Balanced, Kind::Numbers) => 0.7,
            (Self::Small, _) => 0.97,
        }
    }
}

impl Display for Compression {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Compression {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|compression| compression.name() == name);
        found.ok_or_else(|| format!("it is one of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// What the chooser goes by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Goal {
    pub(super) compression: Compression,
    /// The level of ZSTD; `None` for never.
    pub(super) zstd_level: Option<i32>,
}

impl Goal {
    /// Without ZSTD, which what is estimated does not use.
    pub(super) fn without_zstd(self) -> Self {
        Self { zstd_level: None, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for compression in Compression::ALL {
            assert_eq!(compression.to_string().parse(), Ok(compression));
        }
        assert_eq!("tiny".parse::<Compression>(), Err("it is one of fast, balanced, small".to_owned()));
    }
}
