//! The Column Index Table: where each column's CMB is.

use std::ops::Range;

use bytes::Bytes;
use zerocopy::little_endian::I64;

use crate::format::error::{Error, Result};
use crate::format::scan::Section;
use crate::format::wire;

/// The bytes of a CIT: the file offset of each column's CMB.
pub fn write_cit(cmb_offsets: &[u64]) -> Vec<u8> {
    cmb_offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect()
}

/// The CIT of a file, read entry by entry: opening it costs nothing.
#[derive(Debug, Clone)]
pub struct Cit {
    bytes: Bytes,
    cmb_area: Range<u64>,
}

impl Cit {
    /// A CIT over its bytes; `cmb_area` is where all CMBs must lie.
    pub fn new(bytes: Bytes, cmb_area: Range<u64>) -> Self {
        Self { bytes, cmb_area }
    }

    /// Bytes in memory.
    pub fn memory_size(&self) -> usize {
        self.bytes.len()
    }

    /// Where in the file the CMB of `column` is. Empty: the column is null in every row.
    pub fn cmb_range(&self, column: usize) -> Result<Range<u64>> {
        self.unplaced_range(column).map_err(|error| error.in_section(Section::ColumnIndex))
    }

    fn unplaced_range(&self, column: usize) -> Result<Range<u64>> {
        let column_count = self.bytes.len() / size_of::<I64>();
        if column >= column_count {
            return Err(Error::invalid_argument(format!("there is no column {column}, the file has {column_count}")));
        }
        let start = self.entry(column)?;
        let end = if column + 1 == column_count { self.cmb_area.end } else { self.entry(column + 1)? };
        if start > end {
            return Err(Error::invalid_file(format!("the CMB of column {column} ends before it begins")));
        }
        Ok(start..end)
    }

    fn entry(&self, column: usize) -> Result<u64> {
        let offset = wire::read::<I64>(&self.bytes, column.saturating_mul(size_of::<I64>()), "a CIT entry")?.get();
        match u64::try_from(offset) {
            Ok(offset) if offset >= self.cmb_area.start && offset <= self.cmb_area.end && offset.is_multiple_of(8) => Ok(offset),
            _ => Err(Error::invalid_file(format!("the CMB of column {column} at {offset} is not in the CMB area {:?}", self.cmb_area))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ErrorKind;

    #[test]
    fn a_cmb_ends_where_the_next_begins() {
        let cit = Cit::new(write_cit(&[8, 48, 48]).into(), 8..64);
        assert_eq!(cit.cmb_range(0).unwrap(), 8..48);
        assert_eq!(cit.cmb_range(1).unwrap(), 48..48);
        assert_eq!(cit.cmb_range(2).unwrap(), 48..64);
        assert_eq!(cit.cmb_range(3).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }

    #[test]
    fn entries_outside_the_area_descending_or_unaligned_are_refused() {
        for offsets in [[0, 8], [8, 72], [9, 16], [48, 8], [u64::MAX, 16]] {
            let error = Cit::new(write_cit(&offsets).into(), 8..64).cmb_range(0).unwrap_err();
            assert_eq!((error.kind(), error.section()), (ErrorKind::InvalidFile, Some(Section::ColumnIndex)), "{offsets:?}");
        }
    }
}
