//! The formats that files are converted between, and how a file's name tells its own.

use std::fmt;
use std::path::Path;

use clap::ValueEnum;

use crate::engine::Options;

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Apache Parquet
    Parquet,
    /// Comma-separated values with a header line
    Csv,
    /// One JSON object per line
    #[value(alias = "ndjson", alias = "jsonl")]
    Json,
    /// Arrow IPC, files and streams
    Arrow,
    /// Alkaid IPC, files and streams
    #[value(alias = "ipc")]
    Alkaid,
    /// Fermion
    Fermion,
}

impl Format {
    /// The name that the session knows the format by; also the usual extension of its files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Arrow => "arrow",
            Self::Alkaid => "alkaid",
            Self::Fermion => "fermion",
        }
    }

    fn of_extension(extension: &str) -> Option<Self> {
        Some(match extension {
            "parquet" | "parq" | "pq" => Self::Parquet,
            "csv" | "tsv" => Self::Csv,
            "json" | "ndjson" | "jsonl" => Self::Json,
            "arrow" | "arrows" | "feather" => Self::Arrow,
            "alkaid" | "ipc" | "ipcs" => Self::Alkaid,
            "fermion" => Self::Fermion,
            _ => return None,
        })
    }

    /// Whether the whole file can be compressed from outside, and so have a name like `x.csv.gz`.
    fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Json)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a file's name says: `trips.tsv.gz` is CSV, with tabs, inside gzip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    /// The name without the extensions that were understood.
    pub(crate) stem: String,
    /// The format, where an extension tells it.
    pub(crate) format: Option<Format>,
    delimiter: Option<char>,
    is_stream: bool,
    compression: Option<&'static str>,
}

impl Name {
    /// Reads the last part of `path`.
    pub(crate) fn of(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some((inner, outer)) = split_extension(&name)
            && let Some(compression) = compression_of(&outer)
        {
            let plain = Self::of_plain(inner);
            if plain.format.is_some_and(Format::is_text) {
                return Self { compression: Some(compression), ..plain };
            }
        }
        Self::of_plain(&name)
    }

    fn of_plain(name: &str) -> Self {
        if let Some((stem, extension)) = split_extension(name)
            && let Some(format) = Format::of_extension(&extension)
        {
            let delimiter = (extension == "tsv").then_some('\t');
            let is_stream = matches!(extension.as_str(), "arrows" | "ipcs");
            return Self { stem: stem.into(), format: Some(format), delimiter, is_stream, compression: None };
        }
        Self { stem: name.into(), format: None, delimiter: None, is_stream: false, compression: None }
    }

    /// What the name implies for a reader or writer of `format`.
    pub(crate) fn options(&self, format: Format) -> Options {
        let mut options = Options::new();
        if format == Format::Csv
            && let Some(delimiter) = self.delimiter
        {
            options.insert("format.delimiter".into(), delimiter.into());
        }
        if self.is_stream && matches!(format, Format::Arrow | Format::Alkaid) {
            options.insert("format.form".into(), "stream".into());
        }
        if format.is_text()
            && let Some(compression) = self.compression
        {
            options.insert("format.compression".into(), compression.into());
        }
        options
    }
}

/// "a.b.CSV" as ("a.b", "csv"); a leading dot starts a hidden file's name and no extension.
fn split_extension(name: &str) -> Option<(&str, String)> {
    let (stem, extension) = name.rsplit_once('.')?;
    (!stem.is_empty()).then(|| (stem, extension.to_ascii_lowercase()))
}

fn compression_of(extension: &str) -> Option<&'static str> {
    Some(match extension {
        "gz" | "gzip" => "gzip",
        "bz2" => "bzip2",
        "xz" => "xz",
        "zst" | "zstd" => "zstd",
        _ => return None,
    })
}

/// Options of a statement or of the command line: a key without a dot belongs to the format.
pub(crate) fn qualified(key: &str) -> String {
    if key.contains('.') { key.to_lowercase() } else { format!("format.{}", key.to_lowercase()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::of(Path::new(text))
    }

    #[test]
    fn the_last_extension_tells_the_format() {
        let formats: Vec<_> = ["d/a.parquet", "a.CSV", "a.b.ndjson", "a.feather", "a.ipcs", "a.fermion", "a.txt", "a", ".csv", "a.parquet.gz"]
            .map(|n| name(n).format)
            .into();
        use Format::{Alkaid, Arrow, Csv, Fermion, Json, Parquet};
        assert_eq!(formats, [Some(Parquet), Some(Csv), Some(Json), Some(Arrow), Some(Alkaid), Some(Fermion), None, None, None, None]);
    }

    #[test]
    fn text_can_be_compressed_from_outside() {
        let tabs = name("x/trips.v2.tsv.gz");
        assert_eq!((tabs.stem.as_str(), tabs.format), ("trips.v2", Some(Format::Csv)));
        let expected = [("format.delimiter", "\t"), ("format.compression", "gzip")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(tabs.options(Format::Csv), Options::from(expected));
        assert_eq!(tabs.options(Format::Parquet), Options::new());
    }

    #[test]
    fn bare_keys_belong_to_the_format() {
        assert_eq!(qualified("Delimiter"), "format.delimiter");
        assert_eq!(qualified("fermion.codec"), "fermion.codec");
    }
}
