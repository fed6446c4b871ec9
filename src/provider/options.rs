//! Options: how tables are read and written.
//!
//! An option is set by `SET fermion.x = …` for the session, and by `OPTIONS (x …)`, `('format.x' …)` or `('fermion.x' …)` of a `CREATE EXTERNAL TABLE`
//! or `COPY` for that statement, which wins. A table keeps the options that it was created with.

use std::any::Any;
use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;

use datafusion::catalog::Session;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::config_err;
use datafusion::common::utils::datafusion_strsim::levenshtein;
use datafusion::error::{DataFusionError, Result};

use crate::format::codec::Compression;
use crate::format::fermion::WriterOptions;

/// Namespaces of statement options that are about Fermion; a key without a dot is one, too. All others (`aws.`, `execution.`, …) are not ours.
const NAMESPACES: [&str; 2] = ["fermion.", "format."];

/// What ZSTD level `none` is called in SQL.
const NO_ZSTD: &str = "none";

/// How Fermion tables are read and written: the session's `fermion.*`, and the options of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FermionOptions {
    /// How files are read.
    pub read: FermionReadOptions,
    /// How files are written.
    pub write: FermionWriteOptions,
}

/// How files are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FermionReadOptions {
    /// Bytes at the end of a file that are fetched to open it.
    pub metadata_size_hint: u64,
    /// Metadata up to this size is read as a whole when a file is opened.
    pub eager_load_threshold: u64,
    /// Read strings and binaries as views: `Utf8View`, `BinaryView`.
    pub force_view_types: bool,
    /// Ranges of a file with at most this many bytes between them are fetched as one.
    pub coalesce_gap: u64,
    /// Skip files, stripes and pages by their statistics.
    pub pruning: bool,
    /// Evaluate filters while decoding, so that the other columns are only decoded where rows are left.
    pub pushdown_filters: bool,
    /// Longest `IN` list that is compared with statistics.
    pub max_in_list_size: usize,
}

/// How files are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FermionWriteOptions {
    /// Rows of a page, at most.
    pub page_rows: usize,
    /// Raw bytes of a page, about.
    pub page_bytes: usize,
    /// Rows of a stripe, at most.
    pub stripe_rows: usize,
    /// Encoded bytes of a stripe, about.
    pub stripe_bytes: usize,
    /// Bytes of rows that may wait to be encoded.
    pub buffer_bytes: usize,
    /// What files are meant to be best at.
    pub compression: Compression,
    /// Level of ZSTD on top of the encodings where it pays; `None` is never.
    pub zstd_level: Option<i32>,
    /// Write checksums.
    pub checksums: bool,
    /// Write statistics.
    pub statistics: bool,
    /// Threads that encode the columns of a file; 0 is the session's `target_partitions`.
    pub threads: usize,
}

impl Default for FermionReadOptions {
    fn default() -> Self {
        Self {
            metadata_size_hint: 512 << 10,
            eager_load_threshold: 8 << 20,
            force_view_types: true,
            coalesce_gap: 64 << 10,
            pruning: true,
            pushdown_filters: true,
            max_in_list_size: 150,
        }
    }
}

impl Default for FermionWriteOptions {
    fn default() -> Self {
        let WriterOptions { page_bytes, page_rows, stripe_rows, stripe_bytes, buffer_bytes, compression, zstd_level, checksums, statistics, .. } =
            WriterOptions::default();
        Self { page_rows, page_bytes, stripe_rows, stripe_bytes, buffer_bytes, compression, zstd_level, checksums, statistics, threads: 0 }
    }
}

impl FermionWriteOptions {
    /// The options of the format's writer.
    pub(super) fn writer_options(&self, target_partitions: usize, ordering: Option<String>) -> WriterOptions {
        let Self { page_rows, page_bytes, stripe_rows, stripe_bytes, buffer_bytes, compression, zstd_level, checksums, statistics, threads } =
            self.clone();
        let threads = if threads == 0 { target_partitions.max(1) } else { threads };
        WriterOptions {
            page_bytes,
            page_rows,
            stripe_rows,
            stripe_bytes,
            buffer_bytes,
            compression,
            zstd_level,
            checksums,
            statistics,
            threads,
            ordering,
        }
    }
}

/// One option: how it is called, explained, shown and set. All that is said of an option by name is said by this table.
struct OptionEntry {
    name: &'static str,
    description: &'static str,
    get: fn(&FermionOptions) -> String,
    set: fn(&mut FermionOptions, &str) -> Result<()>,
}

macro_rules! entry {
    ($name:literal, $($field:ident).+, $description:literal) => {
        OptionEntry {
            name: $name,
            description: $description,
            get: |options| options.$($field).+.to_string(),
            set: |options, value| {
                options.$($field).+ = parse($name, value)?;
                Ok(())
            },
        }
    };
}

static ENTRIES: [OptionEntry; 17] = [
    entry!("buffer_bytes", write.buffer_bytes, "(writing) Bytes of rows that may wait to be encoded"),
    entry!("checksums", write.checksums, "(writing) Write checksums of pages and metadata"),
    entry!("coalesce_gap", read.coalesce_gap, "(reading) Ranges with at most this many bytes between them are fetched as one"),
    OptionEntry {
        name: "compression",
        description: "(writing) What files are best at: fast, balanced or small; sets zstd_level to 1, 3 or 9",
        get: |options| options.write.compression.to_string(),
        set: |options, value| {
            options.write.compression = parse("compression", value)?;
            options.write.zstd_level = options.write.compression.zstd_level();
            Ok(())
        },
    },
    entry!("eager_load_threshold", read.eager_load_threshold, "(reading) Metadata up to this many bytes is read as a whole when a file is opened"),
    entry!("force_view_types", read.force_view_types, "(reading) Read strings and binaries as Utf8View and BinaryView"),
    entry!("max_in_list_size", read.max_in_list_size, "(reading) Longest IN list that is compared with statistics"),
    entry!("metadata_size_hint", read.metadata_size_hint, "(reading) Bytes at the end of a file that are fetched to open it"),
    entry!("page_bytes", write.page_bytes, "(writing) Raw bytes of a page, about"),
    entry!("page_rows", write.page_rows, "(writing) Rows of a page, at most"),
    entry!("pruning", read.pruning, "(reading) Skip files, stripes and pages by their statistics"),
    entry!("pushdown_filters", read.pushdown_filters, "(reading) Evaluate filters while decoding, and decode other columns only where rows are left"),
    entry!("statistics", write.statistics, "(writing) Write statistics of pages and stripes"),
    entry!("stripe_bytes", write.stripe_bytes, "(writing) Encoded bytes of a stripe, about"),
    entry!("stripe_rows", write.stripe_rows, "(writing) Rows of a stripe, at most"),
    entry!("threads", write.threads, "(writing) Threads that encode the columns of a file; 0 is datafusion.execution.target_partitions"),
    OptionEntry {
        name: "zstd_level",
        description: "(writing) Level of ZSTD on top of the encodings where it pays, or none",
        get: |options| options.write.zstd_level.map_or_else(|| NO_ZSTD.to_owned(), |level| level.to_string()),
        set: |options, value| {
            options.write.zstd_level = if value.trim().eq_ignore_ascii_case(NO_ZSTD) { None } else { Some(parse("zstd_level", value)?) };
            Ok(())
        },
    },
];

fn parse<T: FromStr<Err: Display>>(name: &str, value: &str) -> Result<T> {
    value.trim().to_ascii_lowercase().parse().map_err(|error| DataFusionError::Configuration(format!("fermion.{name} cannot be {value:?}: {error}")))
}

impl FermionOptions {
    /// What the session says, with a statement's options over it.
    pub(super) fn resolve(session: &dyn Session, statement: &HashMap<String, String>) -> Result<Self> {
        let mut options = session.config_options().extensions.get::<Self>().cloned().unwrap_or_default();
        options.alter(statement)?;
        Ok(options)
    }

    /// Sets a statement's options. In the order of their names, so that the same statement always fails with the same error.
    pub(super) fn alter(&mut self, statement: &HashMap<String, String>) -> Result<()> {
        let mut entries: Vec<_> = statement.iter().collect();
        entries.sort_unstable();
        for (key, value) in entries {
            match own_name(key) {
                Some(name) => self.set_by_name(name, value)?,
                None => refuse_misspelt(key)?,
            }
        }
        Ok(())
    }

    fn set_by_name(&mut self, name: &str, value: &str) -> Result<()> {
        match ENTRIES.iter().find(|entry| entry.name == name) {
            Some(entry) => {
                (entry.set)(self, value)?;
                let options = self.write.writer_options(1, None);
                options.validate().map_err(|error| DataFusionError::Configuration(error.to_string()))
            }
            None => {
                let names: Vec<_> = ENTRIES.iter().map(|entry| entry.name).collect();
                config_err!("there is no option \"{name}\" of fermion; there are: {}", names.join(", "))
            }
        }
    }
}

/// The option that a key names, if the key is about Fermion at all.
fn own_name(key: &str) -> Option<&str> {
    NAMESPACES.iter().find_map(|namespace| key.strip_prefix(namespace)).or_else(|| (!key.contains('.')).then_some(key))
}

/// A namespace that is almost ours is meant to be.
fn refuse_misspelt(key: &str) -> Result<()> {
    let namespace = key.split_inclusive('.').next().unwrap_or_default();
    match NAMESPACES.iter().find(|ours| levenshtein(namespace, ours) <= 2) {
        Some(ours) => config_err!("there are no options of \"{namespace}\"; should \"{key}\" begin with \"{ours}\"?"),
        None => Ok(()),
    }
}

impl ConfigExtension for FermionOptions {
    const PREFIX: &'static str = "fermion";
}

impl ExtensionOptions for FermionOptions {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    /// Takes `x` (from the session's configuration, which strips the prefix) and `fermion.x` (from table options, which do not).
    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        self.set_by_name(key.strip_prefix("fermion.").unwrap_or(key), value)
    }

    /// With the prefix, so that `SHOW ALL` and engines that ship the configuration as text can set what they read.
    fn entries(&self) -> Vec<ConfigEntry> {
        ENTRIES
            .iter()
            .map(|entry| ConfigEntry {
                key: format!("{}.{}", Self::PREFIX, entry.name),
                value: Some((entry.get)(self)),
                description: entry.description,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn altered(entries: &[(&str, &str)]) -> Result<FermionOptions> {
        let mut options = FermionOptions::default();
        options.alter(&entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())?;
        Ok(options)
    }

    #[test]
    fn every_option_is_set_by_what_it_shows() {
        let values = ["10", "false", "1", "small", "2", "false", "3", "4", "5", "6", "false", "false", "false", "7", "8", "9", "none"];
        let mut changed = FermionOptions::default();
        for (entry, value) in ENTRIES.iter().zip(values) {
            assert_ne!((entry.get)(&changed), value, "{}", entry.name);
            changed.set(entry.name, value).unwrap();
            assert_eq!((entry.get)(&changed), value, "{}", entry.name);
        }
        let mut copy = FermionOptions::default();
        for ConfigEntry { key, value, .. } in changed.entries() {
            copy.set(&key, &value.unwrap()).unwrap();
        }
        assert_eq!(copy, changed);
    }

    #[test]
    fn options_are_listed_in_order() {
        assert!(ENTRIES.is_sorted_by_key(|entry| entry.name));
    }

    #[test]
    fn three_spellings_of_a_key_mean_the_same_and_other_namespaces_nothing() {
        for key in ["page_rows", "format.page_rows", "fermion.page_rows"] {
            assert_eq!(altered(&[(key, "100")]).unwrap().write.page_rows, 100, "{key}");
        }
        assert_eq!(altered(&[("execution.keep_partition_by_columns", "true"), ("aws.region", "x")]).unwrap(), FermionOptions::default());
    }

    #[test]
    fn compression_brings_a_level_of_zstd_unless_the_statement_has_its_own() {
        let level = |entries: &[(&str, &str)]| altered(entries).unwrap().write.zstd_level;
        assert_eq!(["fast", "Balanced", "SMALL"].map(|name| level(&[("compression", name)])), [Some(1), Some(3), Some(9)]);
        assert_eq!(level(&[("zstd_level", "5"), ("compression", "small")]), Some(5));
        let error = altered(&[("compression", "zstd")]).unwrap_err().to_string();
        assert!(error.ends_with("fermion.compression cannot be \"zstd\": it is one of fast, balanced, small"), "{error}");
    }

    #[test]
    fn an_unknown_option_is_an_error_that_lists_the_known() {
        let error = altered(&[("format.page_row", "100")]).unwrap_err().to_string();
        assert_eq!(
            error,
            "Invalid or Unsupported Configuration: there is no option \"page_row\" of fermion; there are: buffer_bytes, checksums, coalesce_gap, \
             compression, eager_load_threshold, force_view_types, max_in_list_size, metadata_size_hint, page_bytes, page_rows, pruning, pushdown_filters, \
             statistics, \
             stripe_bytes, stripe_rows, threads, zstd_level"
        );
        let error = altered(&[("page_rows", "many")]).unwrap_err().to_string();
        assert_eq!(error, "Invalid or Unsupported Configuration: fermion.page_rows cannot be \"many\": invalid digit found in string");
    }

    #[test]
    fn a_namespace_that_is_almost_right_and_a_value_out_of_range_are_errors_at_once() {
        let error = altered(&[("fermoin.page_rows", "1")]).unwrap_err().to_string();
        assert!(error.ends_with("should \"fermoin.page_rows\" begin with \"fermion.\"?"), "{error}");
        let error = altered(&[("page_rows", "0")]).unwrap_err().to_string();
        assert!(error.contains("page_rows is 0; it must be between 1 and"), "{error}");
    }

    #[test]
    fn zstd_level_is_a_number_or_none() {
        assert_eq!(altered(&[("zstd_level", "NONE")]).unwrap().write.zstd_level, None);
        assert_eq!(altered(&[("zstd_level", "19")]).unwrap().write.zstd_level, Some(19));
    }

    #[test]
    fn no_threads_means_the_sessions() {
        assert_eq!(FermionWriteOptions::default().writer_options(4, None).threads, 4);
        assert_eq!(FermionWriteOptions { threads: 2, ..Default::default() }.writer_options(4, None).threads, 2);
    }
}
