//! Fermion as a format of tables, and its options.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::SchemaRef;

use super::format::{FactoryOf, FormatOf};
use super::kind::{Reading, Requests, TableFormat, Writing};
use super::options::{OptionEntry, OptionsOf, entry, parse};
use super::sink::SinkOf;
use super::table::TableOf;
use crate::format::codec::Compression;
use crate::format::fermion::batches::{BATCH_ROWS_MAX, BatchColumn};
use crate::format::fermion::schema::SharedSchemas;
use crate::format::fermion::{BatchBy, BatchedWriter, Open, OpenOptions, Writer, WriterOptions};
use crate::format::file::{FileWriter, Opening, opening};
use crate::format::{Error, Result as FormatResult};

/// The Fermion format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fermion;

/// How Fermion tables are read and written.
pub type FermionOptions = OptionsOf<Fermion>;
/// The Fermion format with the options of one table or statement.
pub type FermionFormat = FormatOf<Fermion>;
/// Makes [`FermionFormat`]s for statements.
pub type FermionFormatFactory = FactoryOf<Fermion>;
/// Writes Fermion files for `COPY` and `INSERT`.
pub type FermionSink = SinkOf<Fermion>;
/// A file, or all `.fermion` files of a directory, as a table.
pub type FermionTable = TableOf<Fermion>;

/// Files of one table mostly have one schema, which may be most of what is known of a wide file.
static SCHEMAS: LazyLock<Arc<SharedSchemas>> = LazyLock::new(Arc::default);

/// What ZSTD level `none` is called in SQL.
const NO_ZSTD: &str = "none";

impl TableFormat for Fermion {
    const NAME: &'static str = "fermion";
    const TITLE: &'static str = "Fermion";
    const EXTENSIONS: &'static [&'static str] = &[Self::NAME];
    type ReadOptions = FermionReadOptions;
    type WriteOptions = FermionWriteOptions;

    fn entries() -> &'static [OptionEntry<Self>] {
        &ENTRIES
    }

    fn validate(options: &OptionsOf<Self>) -> FormatResult<()> {
        if options.write.batch_rows > BATCH_ROWS_MAX {
            let message = format!("batch_rows is {}; a batch has at most {BATCH_ROWS_MAX} rows", options.write.batch_rows);
            return Err(Error::invalid_argument(message));
        }
        options.write.writer_options(1, None).validate()
    }

    fn reading(options: &FermionReadOptions) -> Reading {
        let FermionReadOptions {
            metadata_size_hint,
            eager_load_threshold,
            force_view_types,
            coalesce_gap,
            request_bytes,
            requests_in_flight,
            ahead_bytes,
            memory_map,
            pruning,
            bloom_filters,
            pushdown_filters,
            max_in_list_size,
            estimates,
        } = *options;
        Reading {
            metadata_size_hint,
            eager_load_threshold,
            force_view_types,
            requests: Requests { gap: coalesce_gap, bytes_max: request_bytes, in_flight: requests_in_flight },
            ahead_bytes,
            memory_map,
            pruning,
            bloom_filters,
            pushdown_filters,
            max_in_list_size,
            estimates,
        }
    }

    fn open(file_length: u64, reading: &Reading) -> FormatResult<Opening> {
        let options = OpenOptions { prefetch: reading.metadata_size_hint, eager_load_threshold: reading.eager_load_threshold };
        Ok(opening(Open::new(file_length, &options)?.sharing(&SCHEMAS)))
    }

    fn needs_one_file(options: &FermionWriteOptions) -> bool {
        options.has_batches()
    }

    fn made_columns(options: &FermionWriteOptions) -> &'static [&'static str] {
        static MADE: [&str; 2] = [BatchColumn::Index.name(), BatchColumn::Id.name()];
        match options.has_batches() {
            // What is given as ids stays in its order.
            true if options.batch_column == BatchColumn::Id.name() => MADE.split_at(1).0,
            true => &MADE,
            false => &[],
        }
    }

    fn writer(schema: SchemaRef, options: &FermionWriteOptions, writing: &Writing<'_>) -> FormatResult<Box<dyn FileWriter>> {
        let batches = options.batches()?;
        let options = options.writer_options(writing.threads, writing.ordering.map(str::to_owned));
        match batches {
            Some(by) => Ok(Box::new(BatchedWriter::new(schema, &by, options)?)),
            None => Ok(Box::new(Writer::new(schema, options)?)),
        }
    }
}

/// How files are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FermionReadOptions {
    /// Bytes at the end of a file that are fetched to open it.
    pub metadata_size_hint: u64,
    /// Metadata up to this size is read as a whole when a file is opened, and for a plan. Of a file of this machine, opening reads no more than `metadata_size_hint`: what is used
    /// is read when it is.
    pub eager_load_threshold: u64,
    /// Read strings and binaries as views: `Utf8View`, `BinaryView`.
    pub force_view_types: bool,
    /// Ranges of a file with at most this many bytes between them are fetched as one.
    pub coalesce_gap: u64,
    /// What is fetched as one has at most so many bytes, unless one range by itself has more.
    pub request_bytes: u64,
    /// Requests that are under way at once, of each partition of a scan; at least one. Files of this machine are read without.
    pub requests_in_flight: usize,
    /// Stripes of a file that is not of this machine are fetched together, up to so many bytes for each partition of a scan.
    pub ahead_bytes: u64,
    /// Map the data of files of this machine instead of reading it. The files must not change as long as a query runs or batches of its result are held:
    /// what has been cut off ends the process.
    pub memory_map: bool,
    /// Skip files, stripes and pages by their statistics.
    pub pruning: bool,
    /// Skip stripes by the bloom filters of their columns.
    pub bloom_filters: bool,
    /// Evaluate filters while decoding, so that the other columns are only decoded where rows are left.
    pub pushdown_filters: bool,
    /// Longest `IN` list that is compared with statistics.
    pub max_in_list_size: usize,
    /// Tell the optimizer how many values differ and how large texts are, beside what is exact. DataFusion 55 knows little of how many rows a filter on texts leaves,
    /// and orders some joins worse for knowing the rest: queries 12, 17 and 21 of TPC-H took 1.4 to 2.2 times as long.
    pub estimates: bool,
}

/// How files are written.
#[derive(Debug, Clone, PartialEq)]
pub struct FermionWriteOptions {
    /// Rows of a page, at most.
    pub page_rows: usize,
    /// Raw bytes of a page, about.
    pub page_bytes: usize,
    /// Rows of a stripe, at most.
    pub stripe_rows: usize,
    /// Encoded bytes of a stripe, about.
    pub stripe_bytes: usize,
    /// Raw bytes of a stripe, about, or 256 KiB for each column where that is more.
    pub stripe_raw_bytes: usize,
    /// Bytes of rows that may wait to be encoded. Of more than 1,000 columns they may be 2 KiB for each at least.
    pub buffer_bytes: usize,
    /// What files are meant to be best at.
    pub compression: Compression,
    /// Stripes begin at a multiple of so many bytes, the size of a store's blocks, where they would otherwise lie in more blocks than they have to; 0 is none.
    pub stripe_alignment: u64,
    /// Level of ZSTD on top of the encodings where it pays; `None` is never. Numbers are compressed at level 1 for those up to 4, which make them hardly smaller.
    pub zstd_level: Option<i32>,
    /// Names of the columns whose chunks have bloom filters.
    pub bloom_filter_columns: Vec<String>,
    /// The part of wrong answers that a filter may give.
    pub bloom_filter_fpp: f64,
    /// Rows of a batch, if rows come in batches of so many; 0 if not.
    pub batch_rows: usize,
    /// The column whose value is the id of the batch that a row belongs to; empty if rows do not come in such batches.
    pub batch_column: String,
    /// Write checksums.
    pub checksums: bool,
    /// Write statistics.
    pub statistics: bool,
    /// Leave the index of the columns' metadata out where that takes fewer bytes; 0 never does.
    pub no_cit_below: usize,
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
            request_bytes: 8 << 20,
            requests_in_flight: 32,
            ahead_bytes: 16 << 20,
            memory_map: false,
            pruning: true,
            bloom_filters: true,
            pushdown_filters: true,
            max_in_list_size: 150,
            estimates: false,
        }
    }
}

impl Default for FermionWriteOptions {
    fn default() -> Self {
        let options = WriterOptions::default();
        Self {
            page_rows: options.page_rows,
            page_bytes: options.page_bytes,
            stripe_rows: options.stripe_rows,
            stripe_bytes: options.stripe_bytes,
            stripe_raw_bytes: options.stripe_raw_bytes,
            buffer_bytes: options.buffer_bytes,
            compression: options.compression,
            stripe_alignment: options.stripe_alignment,
            zstd_level: options.zstd_level,
            bloom_filter_columns: options.bloom_filter_columns,
            bloom_filter_fpp: options.bloom_filter_fpp,
            batch_rows: 0,
            batch_column: String::new(),
            checksums: options.checksums,
            statistics: options.statistics,
            no_cit_below: options.no_cit_below,
            threads: 0,
        }
    }
}

impl FermionWriteOptions {
    /// The options of the format's writer.
    fn writer_options(&self, target_partitions: usize, ordering: Option<String>) -> WriterOptions {
        WriterOptions {
            page_bytes: self.page_bytes,
            page_rows: self.page_rows,
            stripe_rows: self.stripe_rows,
            stripe_bytes: self.stripe_bytes,
            stripe_raw_bytes: self.stripe_raw_bytes,
            buffer_bytes: self.buffer_bytes,
            compression: self.compression,
            stripe_alignment: self.stripe_alignment,
            zstd_level: self.zstd_level,
            checksums: self.checksums,
            statistics: self.statistics,
            threads: if self.threads == 0 { target_partitions.max(1) } else { self.threads },
            ordering,
            bloom_filter_columns: self.bloom_filter_columns.clone(),
            bloom_filter_fpp: self.bloom_filter_fpp,
            batches: false,
            no_cit_below: self.no_cit_below,
        }
    }

    fn has_batches(&self) -> bool {
        self.batch_rows > 0 || !self.batch_column.is_empty()
    }

    /// Which rows are a batch, if they come in batches.
    fn batches(&self) -> FormatResult<Option<BatchBy>> {
        match (self.batch_rows, self.batch_column.as_str()) {
            (0, "") => Ok(None),
            (rows, "") => Ok(Some(BatchBy::Rows(rows))),
            (0, column) => Ok(Some(BatchBy::Column(column.to_owned()))),
            _ => Err(Error::invalid_argument("batches are made by batch_rows or by batch_column, not by both")),
        }
    }
}

static ENTRIES: [OptionEntry<Fermion>; 30] = [
    entry!(
        Fermion,
        "ahead_bytes",
        read.ahead_bytes,
        "(reading) Stripes in a store that is not of this machine are fetched together up to so many bytes"
    ),
    OptionEntry {
        name: "batch_column",
        description: "(writing) Column with the id of the batch of each row, whose rows follow each other; no batch is split over pages, and rows have a batch_id and a batch_index",
        get: |options| options.write.batch_column.clone(),
        set: |options, value| {
            value.trim().clone_into(&mut options.write.batch_column);
            Ok(())
        },
    },
    entry!(Fermion, "batch_rows", write.batch_rows, "(writing) The same for batches of so many rows, with ids from 0 on; 0 is none"),
    OptionEntry {
        name: "bloom_filter_columns",
        description: "(writing) Columns, joined by commas, whose stripes have bloom filters, which find single values where bounds cannot",
        get: |options| options.write.bloom_filter_columns.join(","),
        set: |options, value| {
            let names = value.split(',').map(|name| name.trim().to_owned());
            options.write.bloom_filter_columns = names.filter(|name| !name.is_empty()).collect();
            Ok(())
        },
    },
    entry!(Fermion, "bloom_filter_fpp", write.bloom_filter_fpp, "(writing) Part of wrong answers that a bloom filter may give"),
    entry!(Fermion, "bloom_filters", read.bloom_filters, "(reading) Skip stripes by their bloom filters"),
    entry!(
        Fermion,
        "buffer_bytes",
        write.buffer_bytes,
        "(writing) Bytes of rows that may wait to be encoded; of more than 1,000 columns at least 2 KiB for each"
    ),
    entry!(Fermion, "checksums", write.checksums, "(writing) Write checksums of pages and metadata"),
    entry!(Fermion, "coalesce_gap", read.coalesce_gap, "(reading) Ranges with at most this many bytes between them are fetched as one"),
    OptionEntry {
        name: "compression",
        description: "(writing) What files are best at: fast, balanced or small; sets zstd_level to 1, 3 or 9",
        get: |options| options.write.compression.to_string(),
        set: |options, value| {
            options.write.compression = parse::<Fermion, _>("compression", value)?;
            options.write.zstd_level = options.write.compression.zstd_level();
            Ok(())
        },
    },
    entry!(
        Fermion,
        "eager_load_threshold",
        read.eager_load_threshold,
        "(reading) Metadata up to this many bytes is read as a whole when a file is opened, or on this machine for statistics"
    ),
    entry!(Fermion, "estimates", read.estimates, "(reading) Tell the optimizer how many values differ and how large texts are"),
    entry!(Fermion, "force_view_types", read.force_view_types, "(reading) Read strings and binaries as Utf8View and BinaryView"),
    entry!(Fermion, "max_in_list_size", read.max_in_list_size, "(reading) Longest IN list that is compared with statistics"),
    entry!(
        Fermion,
        "memory_map",
        read.memory_map,
        "(reading) Map files of this machine instead of reading them; they must not change while results are held"
    ),
    entry!(Fermion, "metadata_size_hint", read.metadata_size_hint, "(reading) Bytes at the end of a file that are fetched to open it"),
    entry!(
        Fermion,
        "no_cit_below",
        write.no_cit_below,
        "(writing) Leave out the index of the columns' metadata (CIT) where that takes fewer bytes than this, at most 4194304; 0 always writes it"
    ),
    entry!(Fermion, "page_bytes", write.page_bytes, "(writing) Raw bytes of a page, about"),
    entry!(Fermion, "page_rows", write.page_rows, "(writing) Rows of a page, at most"),
    entry!(Fermion, "pruning", read.pruning, "(reading) Skip files, stripes and pages by their statistics"),
    entry!(
        Fermion,
        "pushdown_filters",
        read.pushdown_filters,
        "(reading) Evaluate filters while decoding, and decode other columns only where rows are left"
    ),
    entry!(
        Fermion,
        "request_bytes",
        read.request_bytes,
        "(reading) What is fetched as one has at most so many bytes, unless one range by itself has more"
    ),
    entry!(Fermion, "requests_in_flight", read.requests_in_flight, "(reading) Requests to a store that are under way at once, of each partition"),
    entry!(Fermion, "statistics", write.statistics, "(writing) Write statistics of pages, stripes and columns"),
    entry!(
        Fermion,
        "stripe_alignment",
        write.stripe_alignment,
        "(writing) Size of a store's blocks, as HDFS has them: zeros go before a stripe that would lie in more of them than it has to; 0 is none"
    ),
    entry!(Fermion, "stripe_bytes", write.stripe_bytes, "(writing) Encoded bytes of a stripe, about"),
    entry!(
        Fermion,
        "stripe_raw_bytes",
        write.stripe_raw_bytes,
        "(writing) Raw bytes of a stripe, about, or 256 KiB for each column where that is more"
    ),
    entry!(Fermion, "stripe_rows", write.stripe_rows, "(writing) Rows of a stripe, at most"),
    entry!(Fermion, "threads", write.threads, "(writing) Threads that encode the columns of a file; 0 is datafusion.execution.target_partitions"),
    OptionEntry {
        name: "zstd_level",
        description: "(writing) Level of ZSTD on top of the encodings where it pays, or none",
        get: |options| options.write.zstd_level.map_or_else(|| NO_ZSTD.to_owned(), |level| level.to_string()),
        set: |options, value| {
            options.write.zstd_level =
                if value.trim().eq_ignore_ascii_case(NO_ZSTD) { None } else { Some(parse::<Fermion, _>("zstd_level", value)?) };
            Ok(())
        },
    },
];

#[cfg(test)]
mod tests {
    use datafusion::error::Result;

    use super::*;

    fn altered(entries: &[(&str, &str)]) -> Result<FermionOptions> {
        let mut options = FermionOptions::default();
        options.alter(&entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())?;
        Ok(options)
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
