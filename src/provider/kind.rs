//! What the engine's side knows of a format: how it is called, how its files are opened, how one is written, and its options.

use std::fmt::Debug;

use arrow::datatypes::SchemaRef;

use super::options::{OptionEntry, OptionsOf};
use crate::format::Result;
use crate::format::file::{FileWriter, Opening};

/// A format of tables.
pub trait TableFormat: Debug + Clone + Copy + Default + PartialEq + Send + Sync + 'static {
    /// Its name in `STORED AS`, in plans and before its options, in lower case.
    const NAME: &'static str;

    /// Its name in sentences.
    const TITLE: &'static str;

    /// What names of its files end with, and words in `STORED AS` that mean it. The first is the name.
    const EXTENSIONS: &'static [&'static str];

    /// How files are read.
    type ReadOptions: Debug + Clone + Default + PartialEq + Send + Sync + 'static;

    /// How files are written.
    type WriteOptions: Debug + Clone + Default + PartialEq + Send + Sync + 'static;

    /// The options as SQL knows them, by name.
    fn entries() -> &'static [OptionEntry<Self>];

    /// Refuses options that are out of range.
    fn validate(options: &OptionsOf<Self>) -> Result<()>;

    /// The options of reading in the words of the glue.
    fn reading(options: &Self::ReadOptions) -> Reading;

    /// Begins to open a file of so many bytes.
    fn open(file_length: u64, reading: &Reading) -> Result<Opening>;

    /// Whether all rows of a statement have to go to the same file, of each partition.
    fn needs_one_file(_options: &Self::WriteOptions) -> bool {
        false
    }

    /// Columns whose values the writer makes, so that it is not known in which order they are.
    fn made_columns(_options: &Self::WriteOptions) -> &'static [&'static str] {
        &[]
    }

    /// Begins to write a file.
    fn writer(schema: SchemaRef, options: &Self::WriteOptions, writing: &Writing<'_>) -> Result<Box<dyn FileWriter>>;
}

/// How files of any format are read.
#[derive(Debug, Clone)]
pub struct Reading {
    pub(super) metadata_size_hint: u64,
    pub(super) eager_load_threshold: u64,
    pub(super) force_view_types: bool,
    pub(super) requests: Requests,
    /// Stripes that are fetched together, of stores that are not this machine.
    pub(super) ahead_bytes: u64,
    pub(super) memory_map: bool,
    pub(super) pruning: bool,
    pub(super) bloom_filters: bool,
    pub(super) pushdown_filters: bool,
    pub(super) max_in_list_size: usize,
    /// Give the optimizer estimates beside what is exact.
    pub(super) estimates: bool,
}

/// How ranges of a file are asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Requests {
    /// Ranges with at most so many bytes between them are fetched as one.
    pub(super) gap: u64,
    /// What is fetched as one has at most so many bytes, unless a range by itself has more.
    pub(super) bytes_max: u64,
    /// So many are under way at once, for each partition of a scan.
    pub(super) in_flight: usize,
}

/// What is known of a file that is about to be written, beside its options.
#[derive(Debug, Clone)]
pub struct Writing<'a> {
    /// What its name ends with: one of the format's extensions.
    pub(super) extension: &'a str,
    /// Threads that the session has for it.
    pub(super) threads: usize,
    /// The sort order of its rows.
    pub(super) ordering: Option<&'a str>,
}

/// A format whose files are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) open: fn(u64, &Reading) -> Result<Opening>,
}

impl Kind {
    pub(super) const fn of<F: TableFormat>() -> Self {
        Self { name: F::NAME, open: F::open }
    }
}
