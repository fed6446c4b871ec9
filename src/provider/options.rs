//! Options: how tables are read and written.
//!
//! An option of Fermion is set by `SET fermion.x = …` for the session, and by `OPTIONS (x …)`, `('format.x' …)` or `('fermion.x' …)` of a
//! `CREATE EXTERNAL TABLE` or `COPY` for that statement, which wins. A table keeps the options that it was created with. Other formats' are set in the
//! same way, by their name. Which options there are is in the file of each format.

use std::any::Any;
use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;

use datafusion::catalog::Session;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::config_err;
use datafusion::common::utils::datafusion_strsim::levenshtein;
use datafusion::error::{DataFusionError, Result};

use super::kind::TableFormat;

/// The namespace of a statement's options about its format, whichever that is. A key without a dot is in it, too. Namespaces that are neither this nor the format's
/// (`aws.`, `execution.`, …) are not ours.
const ANY_FORMAT: &str = "format";

/// How the tables of a format are read and written: what the session says under the format's name, and the options of a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OptionsOf<F: TableFormat> {
    /// How files are read.
    pub read: F::ReadOptions,
    /// How files are written.
    pub write: F::WriteOptions,
}

/// One option: how it is called, explained, shown and set. All that is said of an option by name is said by this table.
#[derive(Debug)]
pub struct OptionEntry<F: TableFormat> {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) get: fn(&OptionsOf<F>) -> String,
    pub(super) set: fn(&mut OptionsOf<F>, &str) -> Result<()>,
}

/// An option that is a field of the options.
macro_rules! entry {
    ($format:ty, $name:literal, $($field:ident).+, $description:literal) => {
        OptionEntry {
            name: $name,
            description: $description,
            get: |options| options.$($field).+.to_string(),
            set: |options, value| {
                options.$($field).+ = parse::<$format, _>($name, value)?;
                Ok(())
            },
        }
    };
}
pub(super) use entry;

/// The value of an option from its text.
pub(super) fn parse<F: TableFormat, T: FromStr<Err: Display>>(name: &str, value: &str) -> Result<T> {
    let wrong = |error: T::Err| DataFusionError::Configuration(format!("{}.{name} cannot be {value:?}: {error}", F::NAME));
    value.trim().to_ascii_lowercase().parse().map_err(wrong)
}

impl<F: TableFormat> OptionsOf<F> {
    /// What the session says, with a statement's options over it.
    pub(super) fn resolve(session: &dyn Session, statement: &HashMap<String, String>) -> Result<Self> {
        let mut options = session.config_options().extensions.get::<Self>().cloned().unwrap_or_default();
        options.alter(statement)?;
        Ok(options)
    }

    /// Sets a statement's options. In the order of their names, so that the same statement always fails with the same error, and a level counts beside the `compression` that has one, however they are spelled.
    pub(super) fn alter(&mut self, statement: &HashMap<String, String>) -> Result<()> {
        let mut entries: Vec<_> = statement.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| (own_name::<F>(key), *key));
        for (key, value) in entries {
            match own_name::<F>(key) {
                Some(name) => self.set_by_name(name, value)?,
                None => refuse_others::<F>(key)?,
            }
        }
        Ok(())
    }

    fn set_by_name(&mut self, name: &str, value: &str) -> Result<()> {
        match F::entries().iter().find(|entry| entry.name == name) {
            Some(entry) => {
                (entry.set)(self, value)?;
                F::validate(self).map_err(|error| DataFusionError::Configuration(error.to_string()))
            }
            None => {
                let names: Vec<_> = F::entries().iter().map(|entry| entry.name).collect();
                config_err!("there is no option \"{name}\" of {}; there are: {}", F::NAME, names.join(", "))
            }
        }
    }
}

/// The option that a key names, if the key is about the format at all.
fn own_name<F: TableFormat>(key: &str) -> Option<&str> {
    match key.split_once('.') {
        Some((namespace, name)) => [ANY_FORMAT, F::NAME].contains(&namespace).then_some(name),
        None => Some(key),
    }
}

/// Namespaces of formats: a statement is about one of them, and options of another would be of no effect.
const FORMATS: [&str; 7] = ["fermion", "alkaid", "parquet", "csv", "json", "arrow", "avro"];

/// A namespace that is almost ours is meant to be, and that of another format is a mistake.
fn refuse_others<F: TableFormat>(key: &str) -> Result<()> {
    let namespace = key.split('.').next().unwrap_or_default();
    if FORMATS.contains(&namespace) {
        return config_err!("\"{key}\" is an option of {namespace}, and the format here is {}", F::NAME);
    }
    match [F::NAME, ANY_FORMAT].iter().find(|ours| levenshtein(namespace, ours) <= 2) {
        Some(ours) => config_err!("there are no options of \"{namespace}.\"; should \"{key}\" begin with \"{ours}.\"?"),
        None => Ok(()),
    }
}

impl<F: TableFormat> ConfigExtension for OptionsOf<F> {
    const PREFIX: &'static str = F::NAME;
}

impl<F: TableFormat> ExtensionOptions for OptionsOf<F> {
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
        let name = key.strip_prefix(F::NAME).and_then(|rest| rest.strip_prefix('.'));
        self.set_by_name(name.unwrap_or(key), value)
    }

    /// With the prefix, so that `SHOW ALL` and engines that ship the configuration as text can set what they read.
    fn entries(&self) -> Vec<ConfigEntry> {
        F::entries()
            .iter()
            .map(|entry| ConfigEntry { key: format!("{}.{}", F::NAME, entry.name), value: Some((entry.get)(self)), description: entry.description })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{Alkaid, Fermion, FermionOptions};

    /// Sets each option to a value that it does not have.
    fn set_all<F: TableFormat>(values: &[&str]) {
        assert_eq!(F::entries().len(), values.len());
        assert!(F::entries().is_sorted_by_key(|entry| entry.name));
        let mut changed = OptionsOf::<F>::default();
        for (entry, value) in F::entries().iter().zip(values) {
            assert_ne!((entry.get)(&changed), *value, "{}", entry.name);
            changed.set(entry.name, value).unwrap();
            assert_eq!((entry.get)(&changed), *value, "{}", entry.name);
        }
        let mut copy = OptionsOf::<F>::default();
        for ConfigEntry { key, value, .. } in changed.entries() {
            copy.set(&key, &value.unwrap()).unwrap();
        }
        assert_eq!(copy, changed);
    }

    #[test]
    fn every_option_is_set_by_what_it_shows() {
        set_all::<Fermion>(&[
            "13", "X", "12", "a,b", "0.1", "false", "10", "false", "1", "small", "2", "true", "false", "3", "true", "4", "16", "5", "6", "false",
            "false", "14", "15", "false", "16", "7", "17", "8", "9", "none",
        ]);
        set_all::<Alkaid>(&[
            "11", "8", "1", "2", "3", "lz4", "arrow", "true", "stream", "4", "true", "5", "false", "false", "9", "10", "false", "6", "7",
        ]);
    }

    fn altered(entries: &[(&str, &str)]) -> Result<FermionOptions> {
        let mut options = FermionOptions::default();
        options.alter(&entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())?;
        Ok(options)
    }

    #[test]
    fn three_spellings_of_a_key_mean_the_same_and_other_namespaces_nothing() {
        for key in ["page_rows", "format.page_rows", "fermion.page_rows"] {
            assert_eq!(altered(&[(key, "100")]).unwrap().write.page_rows, 100, "{key}");
        }
        assert_eq!(altered(&[("execution.keep_partition_by_columns", "true"), ("aws.region", "x")]).unwrap(), FermionOptions::default());
    }

    #[test]
    fn a_level_counts_beside_the_compression_that_has_one() {
        for [compression, level] in
            [["compression", "zstd_level"], ["format.compression", "fermion.zstd_level"], ["fermion.compression", "zstd_level"]]
        {
            assert_eq!(altered(&[(level, "5"), (compression, "small")]).unwrap().write.zstd_level, Some(5), "{compression}, {level}");
            assert_eq!(altered(&[(compression, "small")]).unwrap().write.zstd_level, Some(9));
        }
    }

    #[test]
    fn an_unknown_option_is_an_error_that_lists_the_known() {
        let error = altered(&[("format.page_row", "100")]).unwrap_err().to_string();
        assert_eq!(
            error,
            "Invalid or Unsupported Configuration: there is no option \"page_row\" of fermion; there are: ahead_bytes, batch_column, batch_rows, bloom_filter_columns, bloom_filter_fpp, bloom_filters, buffer_bytes, checksums, coalesce_gap, \
             compression, eager_load_threshold, estimates, force_view_types, max_in_list_size, memory_map, metadata_size_hint, no_cit_below, page_bytes, page_rows, pruning, pushdown_filters, request_bytes, requests_in_flight, \
             statistics, \
             stripe_alignment, stripe_bytes, stripe_raw_bytes, stripe_rows, threads, zstd_level"
        );
        let error = altered(&[("page_rows", "many")]).unwrap_err().to_string();
        assert_eq!(error, "Invalid or Unsupported Configuration: fermion.page_rows cannot be \"many\": invalid digit found in string");
    }

    #[test]
    fn a_namespace_that_is_almost_right_and_a_value_out_of_range_are_errors_at_once() {
        let error = altered(&[("fermoin.page_rows", "1")]).unwrap_err().to_string();
        assert!(error.ends_with("should \"fermoin.page_rows\" begin with \"fermion.\"?"), "{error}");
        let error = altered(&[("alkaid.compression", "zstd")]).unwrap_err().to_string();
        assert!(error.ends_with("\"alkaid.compression\" is an option of alkaid, and the format here is fermion"), "{error}");
        assert!(altered(&[("aws.region", "x"), ("execution.batch_size", "1")]).is_ok());
        let error = altered(&[("page_rows", "0")]).unwrap_err().to_string();
        assert!(error.contains("page_rows is 0; it must be between 1 and"), "{error}");
    }
}
