//! Alkaid and Arrow IPC as a format of tables, and its options.

use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};

use super::format::{FactoryOf, FormatOf};
use super::kind::{Reading, Requests, TableFormat, Writing};
use super::options::{OptionEntry, OptionsOf, entry, parse};
use super::sink::SinkOf;
use super::table::TableOf;
use crate::format::Result as FormatResult;
use crate::format::alkaid::{Codec, Flavor, Form, Open, OpenOptions, Writer, WriterOptions};
use crate::format::file::{FileWriter, Opening, opening};

/// Alkaid IPC, and Arrow IPC: which of the two a file is, and whether it is a file or a stream, is seen when it is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Alkaid;

/// How Alkaid and Arrow tables are read and written.
pub type AlkaidOptions = OptionsOf<Alkaid>;
/// The Alkaid format with the options of one table or statement.
pub type AlkaidFormat = FormatOf<Alkaid>;
/// Makes [`AlkaidFormat`]s for statements.
pub type AlkaidFormatFactory = FactoryOf<Alkaid>;
/// Writes Alkaid and Arrow files for `COPY` and `INSERT`.
pub type AlkaidSink = SinkOf<Alkaid>;
/// An Alkaid or Arrow file or stream, or all of a directory, as a table.
pub type AlkaidTable = TableOf<Alkaid>;

impl TableFormat for Alkaid {
    const NAME: &'static str = "alkaid";
    const TITLE: &'static str = "Alkaid";
    const EXTENSIONS: &'static [&'static str] = &[Self::NAME, "ipc", "ipcs", "arrow", "arrows", "feather"];
    type ReadOptions = AlkaidReadOptions;
    type WriteOptions = AlkaidWriteOptions;

    fn entries() -> &'static [OptionEntry<Self>] {
        &ENTRIES
    }

    fn validate(options: &OptionsOf<Self>) -> FormatResult<()> {
        options.write.writer_options(Self::NAME, 1, None).validate()
    }

    fn reading(options: &AlkaidReadOptions) -> Reading {
        let AlkaidReadOptions {
            metadata_size_hint,
            force_view_types,
            coalesce_gap,
            request_bytes,
            requests_in_flight,
            ahead_bytes,
            memory_map,
            pruning,
            pushdown_filters,
            max_in_list_size,
        } = *options;
        Reading {
            metadata_size_hint,
            eager_load_threshold: 0,
            force_view_types,
            requests: Requests { gap: coalesce_gap, bytes_max: request_bytes, in_flight: requests_in_flight },
            ahead_bytes,
            memory_map,
            pruning,
            // There are none.
            bloom_filters: false,
            pushdown_filters,
            max_in_list_size,
            estimates: false,
        }
    }

    fn open(file_length: u64, reading: &Reading) -> FormatResult<Opening> {
        Ok(opening(Open::new(file_length, &OpenOptions { prefetch: reading.metadata_size_hint })?))
    }

    fn writer(schema: SchemaRef, options: &AlkaidWriteOptions, writing: &Writing<'_>) -> FormatResult<Box<dyn FileWriter>> {
        Ok(Box::new(Writer::new(schema, options.writer_options(writing.extension, writing.threads, writing.ordering.map(str::to_owned)))?))
    }
}

/// How files are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlkaidReadOptions {
    /// Bytes at the end of a file, or at the beginning of a stream, that are fetched to open it.
    pub metadata_size_hint: u64,
    /// Read strings and binaries as views: `Utf8View`, `BinaryView`. Otherwise they are read as what they are, which needs no copy.
    pub force_view_types: bool,
    /// Ranges of a file with at most this many bytes between them are fetched as one.
    pub coalesce_gap: u64,
    /// What is fetched as one has at most so many bytes, unless one range by itself has more.
    pub request_bytes: u64,
    /// Requests that are under way at once, of each partition of a scan; at least one. Files of this machine are read without.
    pub requests_in_flight: usize,
    /// Record batches of a file that is not of this machine are fetched together, up to so many bytes and 64 of them for each partition of a scan.
    pub ahead_bytes: u64,
    /// Map the data of files of this machine instead of reading it. The files must not change as long as a query runs or batches of its result are held:
    /// what has been cut off ends the process.
    pub memory_map: bool,
    /// Skip files and record batches by their statistics.
    pub pruning: bool,
    /// Evaluate filters while reading, so that the other columns are only decoded where rows are left.
    pub pushdown_filters: bool,
    /// Longest `IN` list that is compared with statistics.
    pub max_in_list_size: usize,
}

/// How files are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlkaidWriteOptions {
    /// A file or a stream; `None` is what the name of the file ends with: a stream for `.ipcs` and `.arrows`.
    pub form: Option<Form>,
    /// Alkaid or Arrow; `None` is what the name of the file ends with: Arrow for `.arrow`, `.arrows` and `.feather`.
    pub flavor: Option<Flavor>,
    /// How buffers are compressed; `None` leaves them as they are, to be read without a copy.
    pub compression: Option<Codec>,
    /// Level of ZSTD.
    pub zstd_level: i32,
    /// Rows of a record batch.
    pub batch_rows: usize,
    /// Bytes of rows from which on a record batch is written, however few they are.
    pub batch_bytes: usize,
    /// Buffers begin at multiples of this: 8 or 64.
    pub alignment: usize,
    /// Write a zone map: bounds and null counts of each column of each record batch. Streams have none.
    pub statistics: bool,
    /// Threads that compress the buffers of a file; 0 is the session's `target_partitions`.
    pub threads: usize,
}

impl Default for AlkaidReadOptions {
    fn default() -> Self {
        Self {
            metadata_size_hint: OpenOptions::default().prefetch,
            force_view_types: false,
            coalesce_gap: 64 << 10,
            request_bytes: 8 << 20,
            requests_in_flight: 32,
            ahead_bytes: 16 << 20,
            memory_map: false,
            pruning: true,
            pushdown_filters: true,
            max_in_list_size: 150,
        }
    }
}

impl Default for AlkaidWriteOptions {
    fn default() -> Self {
        let WriterOptions { compression, zstd_level, batch_rows, batch_bytes, alignment, statistics, .. } = WriterOptions::default();
        Self { form: None, flavor: None, compression, zstd_level, batch_rows, batch_bytes, alignment, statistics, threads: 0 }
    }
}

impl AlkaidWriteOptions {
    /// The options of the format's writer, for a file whose name ends with `extension`.
    fn writer_options(&self, extension: &str, session_threads: usize, ordering: Option<String>) -> WriterOptions {
        let Self { form, flavor, compression, zstd_level, batch_rows, batch_bytes, alignment, statistics, threads } = *self;
        let is_stream = matches!(extension, "ipcs" | "arrows");
        let is_arrow = matches!(extension, "arrow" | "arrows" | "feather");
        WriterOptions {
            form: form.unwrap_or(if is_stream { Form::Stream } else { Form::File }),
            flavor: flavor.unwrap_or(if is_arrow { Flavor::Arrow } else { Flavor::Alkaid }),
            compression,
            zstd_level,
            batch_rows,
            batch_bytes,
            alignment,
            statistics,
            threads: if threads == 0 { session_threads.max(1) } else { threads },
            ordering,
        }
    }
}

/// An option whose values are words.
macro_rules! choice {
    ($name:literal, $($field:ident).+, $choices:ident, $description:literal) => {
        OptionEntry {
            name: $name,
            description: $description,
            get: |options| shown(&$choices, options.$($field).+),
            set: |options, value| {
                options.$($field).+ = chosen($name, &$choices, value)?;
                Ok(())
            },
        }
    };
}

static ENTRIES: [OptionEntry<Alkaid>; 19] = [
    entry!(
        Alkaid,
        "ahead_bytes",
        read.ahead_bytes,
        "(reading) Record batches in a store that is not of this machine are fetched together up to so many bytes"
    ),
    entry!(Alkaid, "alignment", write.alignment, "(writing) Buffers begin at multiples of this: 8 or 64"),
    entry!(Alkaid, "batch_bytes", write.batch_bytes, "(writing) Bytes of rows from which on a record batch is written"),
    entry!(Alkaid, "batch_rows", write.batch_rows, "(writing) Rows of a record batch"),
    entry!(Alkaid, "coalesce_gap", read.coalesce_gap, "(reading) Ranges with at most this many bytes between them are fetched as one"),
    choice!("compression", write.compression, CODECS, "(writing) How buffers are compressed: none, lz4 or zstd"),
    choice!("flavor", write.flavor, FLAVORS, "(writing) alkaid, arrow or auto: what the name of the file ends with"),
    entry!(Alkaid, "force_view_types", read.force_view_types, "(reading) Read strings and binaries as Utf8View and BinaryView"),
    choice!("form", write.form, FORMS, "(writing) file, stream or auto: what the name of the file ends with"),
    entry!(Alkaid, "max_in_list_size", read.max_in_list_size, "(reading) Longest IN list that is compared with statistics"),
    entry!(
        Alkaid,
        "memory_map",
        read.memory_map,
        "(reading) Map files of this machine instead of reading them; they must not change while results are held"
    ),
    entry!(Alkaid, "metadata_size_hint", read.metadata_size_hint, "(reading) Bytes that are fetched to open a file"),
    entry!(Alkaid, "pruning", read.pruning, "(reading) Skip files and record batches by their statistics"),
    entry!(
        Alkaid,
        "pushdown_filters",
        read.pushdown_filters,
        "(reading) Evaluate filters while reading, and decode other columns only where rows are left"
    ),
    entry!(
        Alkaid,
        "request_bytes",
        read.request_bytes,
        "(reading) What is fetched as one has at most so many bytes, unless one range by itself has more"
    ),
    entry!(Alkaid, "requests_in_flight", read.requests_in_flight, "(reading) Requests to a store that are under way at once, of each partition"),
    entry!(Alkaid, "statistics", write.statistics, "(writing) Write statistics of record batches"),
    entry!(Alkaid, "threads", write.threads, "(writing) Threads that compress the buffers of a file; 0 is datafusion.execution.target_partitions"),
    entry!(Alkaid, "zstd_level", write.zstd_level, "(writing) Level of ZSTD"),
];

/// Words of SQL and what they mean.
type Choices<T, const N: usize> = [(&'static str, Option<T>); N];

const CODECS: Choices<Codec, 3> = [("none", None), ("lz4", Some(Codec::Lz4)), ("zstd", Some(Codec::Zstd))];
const FLAVORS: Choices<Flavor, 3> = [("auto", None), ("alkaid", Some(Flavor::Alkaid)), ("arrow", Some(Flavor::Arrow))];
const FORMS: Choices<Form, 3> = [("auto", None), ("file", Some(Form::File)), ("stream", Some(Form::Stream))];

fn shown<T: Copy + PartialEq, const N: usize>(choices: &Choices<T, N>, value: Option<T>) -> String {
    choices.iter().find(|(_, meant)| *meant == value).map_or_else(String::new, |(word, _)| (*word).to_owned())
}

fn chosen<T: Copy, const N: usize>(name: &str, choices: &Choices<T, N>, value: &str) -> Result<Option<T>> {
    let found = choices.iter().find(|(word, _)| word.eq_ignore_ascii_case(value.trim()));
    found.map(|(_, meant)| *meant).ok_or_else(|| {
        let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
        DataFusionError::Configuration(format!("{}.{name} cannot be {value:?}: it is one of {}", Alkaid::NAME, words.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_name_ends_with_says_what_is_written_unless_an_option_does() {
        let written = |options: &AlkaidWriteOptions, extension| {
            let options = options.writer_options(extension, 2, None);
            (options.flavor, options.form)
        };
        let auto = AlkaidWriteOptions::default();
        assert_eq!(["alkaid", "ipc"].map(|extension| written(&auto, extension)), [(Flavor::Alkaid, Form::File); 2]);
        assert_eq!(written(&auto, "ipcs"), (Flavor::Alkaid, Form::Stream));
        assert_eq!(["arrow", "feather"].map(|extension| written(&auto, extension)), [(Flavor::Arrow, Form::File); 2]);
        assert_eq!(written(&auto, "arrows"), (Flavor::Arrow, Form::Stream));
        let set = AlkaidWriteOptions { form: Some(Form::Stream), flavor: Some(Flavor::Alkaid), ..auto };
        assert_eq!(written(&set, "arrow"), (Flavor::Alkaid, Form::Stream));
    }

    #[test]
    fn a_word_that_means_nothing_is_an_error_with_those_that_do() {
        let error = AlkaidOptions::default().alter(&[("compression".to_owned(), "gzip".to_owned())].into()).unwrap_err().to_string();
        assert!(error.ends_with("alkaid.compression cannot be \"gzip\": it is one of none, lz4, zstd"), "{error}");
    }

    #[test]
    fn no_threads_means_the_sessions() {
        assert_eq!(AlkaidWriteOptions::default().writer_options("ipc", 4, None).threads, 4);
        assert_eq!(AlkaidWriteOptions { threads: 2, ..Default::default() }.writer_options("ipc", 4, None).threads, 2);
    }
}
