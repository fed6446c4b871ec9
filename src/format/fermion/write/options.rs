//! How to write a file.

use arrow::datatypes::Schema;

use crate::format::codec::{Compression, EncodeOptions};
use crate::format::error::{Error, Result};
use crate::format::fermion::batches::reserved_name;
use crate::format::fermion::bloom::can_have_filter;
use crate::format::fermion::footer::NO_CIT_CMBS_MAX;

/// The greatest level of ZSTD.
const ZSTD_LEVEL_MAX: i32 = 22;

/// How to write a file.
#[derive(Debug, Clone, PartialEq)]
pub struct WriterOptions {
    /// Cut a page at this many bytes of raw values. Pages of text that are cut together are made even, for which they may have half as many more.
    pub page_bytes: usize,
    /// Cut a page at this many rows.
    pub page_rows: usize,
    /// Cut a stripe at this many rows.
    pub stripe_rows: usize,
    /// Cut a stripe at this many encoded bytes. Dictionaries that chunks share count as they are in memory, where they take several times as much: tables of many columns of text that comes again have smaller stripes.
    pub stripe_bytes: usize,
    /// Cut a stripe at about this many bytes of raw values, or at 256 KiB for each column where that is more: a reader of all columns has dictionaries of a stripe in memory, and who reads
    /// one column is to get something for a request.
    pub stripe_raw_bytes: usize,
    /// Begin a stripe at a multiple of so many bytes where it would otherwise lie in more blocks of that size than it has to; 0 is none. What is left of the block before is zeros.
    pub stripe_alignment: u64,
    /// Bytes of rows that may wait to be encoded. Of more than 1,000 columns they may be 2 KiB for each at least.
    pub buffer_bytes: usize,
    /// What the file is meant to be best at.
    pub compression: Compression,
    /// Level of ZSTD on top of the encodings, where it pays; `None` never compresses. Numbers are compressed at level 1 for those up to 4, which make them hardly smaller.
    pub zstd_level: Option<i32>,
    /// Write CRC32 of pages and column metadata.
    pub checksums: bool,
    /// Write minimum, maximum and null counts.
    pub statistics: bool,
    /// Threads that encode columns, the caller's included.
    pub threads: usize,
    /// The sort order of the rows, as in SPEC section 3.
    pub ordering: Option<String>,
    /// Names of the columns whose chunks have bloom filters.
    pub bloom_filter_columns: Vec<String>,
    /// The part of the values that a chunk does not have of which its filter says that it may.
    pub bloom_filter_fpp: f64,
    /// Rows come in batches ([`Writer::append_batch`](super::Writer::append_batch)), which have ids and are not split over pages.
    pub batches: bool,
    /// Leave the Column Index Table out where the metadata of all columns takes fewer bytes than this; 0 always writes it. Such a file is opened by reading that metadata.
    pub no_cit_below: usize,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            page_bytes: 1 << 20,
            page_rows: 32 << 10,
            stripe_rows: 256 << 10,
            stripe_bytes: 256 << 20,
            stripe_raw_bytes: 44 << 20,
            stripe_alignment: 0,
            buffer_bytes: 64 << 20,
            compression: Compression::Balanced,
            zstd_level: Compression::Balanced.zstd_level(),
            checksums: true,
            statistics: true,
            threads: 1,
            ordering: None,
            bloom_filter_columns: Vec::new(),
            bloom_filter_fpp: 0.01,
            batches: false,
            no_cit_below: 0,
        }
    }
}

impl WriterOptions {
    /// A stripe's chunks are at most 4 GiB long: leave room for the page that passes the limit.
    const STRIPE_BYTES_MAX: usize = 1 << 30;

    /// No store has larger blocks.
    const ALIGNMENT_MAX: u64 = 1 << 32;

    /// A page's values are counted up to here (SPEC section 6).
    pub(super) const PAGE_ROWS_MAX: usize = 1 << 20;

    /// A stripe's rows are 32 bits wide.
    const STRIPE_ROWS_MAX: usize = 1 << 30;

    /// Refuses what is out of range, by its name.
    pub(crate) fn validate(&self) -> Result<()> {
        let ranges = [
            ("page_bytes", self.page_bytes, 1, Self::STRIPE_BYTES_MAX),
            ("page_rows", self.page_rows, 1, Self::PAGE_ROWS_MAX),
            ("stripe_rows", self.stripe_rows, 1, Self::STRIPE_ROWS_MAX),
            ("stripe_bytes", self.stripe_bytes, 1, Self::STRIPE_BYTES_MAX),
            ("stripe_raw_bytes", self.stripe_raw_bytes, 1, usize::MAX),
            ("threads", self.threads, 1, 1024),
            ("no_cit_below", self.no_cit_below, 0, NO_CIT_CMBS_MAX),
        ];
        for (name, value, least, most) in ranges {
            if value < least || value > most {
                return Err(Error::invalid_argument(format!("{name} is {value}; it must be between {least} and {most}")));
            }
        }
        if !self.stripe_alignment.is_multiple_of(8) || self.stripe_alignment > Self::ALIGNMENT_MAX {
            let message = format!("stripe_alignment is {}; it must be a multiple of 8, at most {}", self.stripe_alignment, Self::ALIGNMENT_MAX);
            return Err(Error::invalid_argument(message));
        }
        if !(1e-6..=0.5).contains(&self.bloom_filter_fpp) {
            let message = format!("bloom_filter_fpp is {}; it must be between 0.000001 and 0.5", self.bloom_filter_fpp);
            return Err(Error::invalid_argument(message));
        }
        match self.zstd_level {
            Some(level) if !(1..=ZSTD_LEVEL_MAX).contains(&level) => {
                Err(Error::invalid_argument(format!("zstd_level is {level}; it must be between 1 and {ZSTD_LEVEL_MAX}")))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn has_filter(&self, column: &str) -> bool {
        self.bloom_filter_columns.iter().any(|name| name == column)
    }

    /// Refuses columns with names that those of batches have.
    pub(super) fn check_names(&self, schema: &Schema) -> Result<()> {
        match reserved_name(schema.fields()).filter(|_| self.batches) {
            Some(name) => {
                let message = "this is the name of what a file of batches tells of them: rename the column, or have rows put into batches by it";
                Err(Error::invalid_argument(message).in_column(name))
            }
            None => Ok(()),
        }
    }

    /// Refuses filters of columns that there are none of, or that cannot have any.
    pub(super) fn check_filters(&self, schema: &Schema) -> Result<()> {
        for name in &self.bloom_filter_columns {
            let mut named = schema.fields().iter().filter(|field| field.name() == name).peekable();
            if named.peek().is_none() {
                return Err(Error::invalid_argument(format!("bloom_filter_columns names {name:?}, which is no column")));
            }
            if let Some(field) = named.find(|field| !can_have_filter(field.data_type())) {
                let message = format!("bloom_filter_columns names a column of {}, which cannot have a bloom filter", field.data_type());
                return Err(Error::invalid_argument(message).in_column(name));
            }
        }
        Ok(())
    }

    pub(super) fn encode(&self) -> EncodeOptions {
        EncodeOptions { zstd_level: self.zstd_level, compression: self.compression, ..EncodeOptions::default() }
    }

    /// For the values of dictionaries, which are written once for all of a chunk's pages: there is more time for each.
    pub(super) fn encode_dictionary(&self) -> EncodeOptions {
        EncodeOptions { zstd_level: self.zstd_level.map(|level| (level + 2).min(ZSTD_LEVEL_MAX)), ..self.encode() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ErrorKind;

    #[test]
    fn out_of_range_options_are_refused_by_name() {
        WriterOptions::default().validate().unwrap();
        let wrong = [
            (WriterOptions { page_rows: 0, ..Default::default() }, "page_rows"),
            (WriterOptions { stripe_bytes: usize::MAX, ..Default::default() }, "stripe_bytes"),
            (WriterOptions { stripe_raw_bytes: 0, ..Default::default() }, "stripe_raw_bytes"),
            (WriterOptions { threads: 0, ..Default::default() }, "threads"),
            (WriterOptions { stripe_alignment: 4097, ..Default::default() }, "stripe_alignment"),
            (WriterOptions { stripe_alignment: 1 << 40, ..Default::default() }, "stripe_alignment"),
            (WriterOptions { zstd_level: Some(23), ..Default::default() }, "zstd_level"),
        ];
        for (options, name) in wrong {
            let error = options.validate().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
