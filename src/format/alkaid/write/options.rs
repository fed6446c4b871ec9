//! How to write a file or stream.

use crate::format::alkaid::compress::Codec;
use crate::format::alkaid::magic::Flavor;
use crate::format::alkaid::read::Form;
use crate::format::error::{Error, Result};

/// How to write a file or stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterOptions {
    /// A file, whose batches can be read in any order, or a stream.
    pub form: Form,
    /// Whose magic and namespace to write.
    pub flavor: Flavor,
    /// How to compress buffers; `None` leaves them as they are, so that they can be read without a copy.
    pub compression: Option<Codec>,
    /// Level of ZSTD.
    pub zstd_level: i32,
    /// Rows of a record batch: larger batches are cut, smaller ones joined.
    pub batch_rows: usize,
    /// A record batch is written when the rows that wait take so many bytes, however few they are.
    pub batch_bytes: usize,
    /// Buffers begin at multiples of this: 8 or 64.
    pub alignment: usize,
    /// Write minimum, maximum and null counts of each column of each batch into the footer. Streams have none.
    pub statistics: bool,
    /// Threads that compress columns, the caller's included.
    pub threads: usize,
    /// The sort order of the rows, which the caller promises: items such as `"name" ASC NULLS LAST`, joined by `, `. Written with the statistics.
    pub ordering: Option<String>,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            form: Form::File,
            flavor: Flavor::Alkaid,
            compression: None,
            zstd_level: 1,
            batch_rows: 64 << 10,
            batch_bytes: 256 << 20,
            alignment: 64,
            statistics: true,
            threads: 1,
            ordering: None,
        }
    }
}

impl WriterOptions {
    /// Some readers number rows with 32 bits.
    const BATCH_ROWS_MAX: usize = (1 << 31) - 1;

    /// Refuses what is out of range, by its name.
    pub(crate) fn validate(&self) -> Result<()> {
        let ranges = [
            ("batch_rows", self.batch_rows, 1, Self::BATCH_ROWS_MAX),
            ("batch_bytes", self.batch_bytes, 1, usize::MAX),
            ("threads", self.threads, 1, 1024),
        ];
        for (name, value, least, most) in ranges {
            if value < least || value > most {
                return Err(Error::invalid_argument(format!("{name} is {value}; it must be between {least} and {most}")));
            }
        }
        if !matches!(self.alignment, 8 | 64) {
            return Err(Error::invalid_argument(format!("alignment is {}; it must be 8 or 64", self.alignment)));
        }
        if !(1..=22).contains(&self.zstd_level) {
            return Err(Error::invalid_argument(format!("zstd_level is {}; it must be between 1 and 22", self.zstd_level)));
        }
        Ok(())
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
            (WriterOptions { batch_rows: 0, ..Default::default() }, "batch_rows"),
            (WriterOptions { batch_rows: usize::MAX, ..Default::default() }, "batch_rows"),
            (WriterOptions { batch_bytes: 0, ..Default::default() }, "batch_bytes"),
            (WriterOptions { threads: 0, ..Default::default() }, "threads"),
            (WriterOptions { alignment: 16, ..Default::default() }, "alignment"),
            (WriterOptions { zstd_level: 23, ..Default::default() }, "zstd_level"),
        ];
        for (options, name) in wrong {
            let error = options.validate().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
