//! The Column Index Table: where each column's CMB is; and how CMBs tell without one.

use std::ops::Range;

use bytes::Bytes;
use zerocopy::little_endian::{I64, U32};

use crate::format::error::{Error, Result};
use crate::format::scan::Section;
use crate::format::wire;

/// Where there is no CIT, bytes that stand for the CMB of a column that is null in every row: a zero, and the length, as at the end of any other.
const ALL_NULL_LENGTH: usize = 8;

/// The bytes of a CIT: the file offset of each column's CMB.
pub fn write_cit(cmb_offsets: &[u64]) -> Vec<u8> {
    cmb_offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect()
}

/// The CMB area of a file without a CIT, in which each CMB ends with its length, and where in there those of columns begin. It is made of the area of a file
/// with a CIT and the same of that.
pub fn with_lengths(cmbs: &[u8], starts: &[u64]) -> Result<(Vec<u8>, Vec<u64>)> {
    let place = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    let mut out = Vec::with_capacity(cmbs.len());
    let mut starts_out = Vec::with_capacity(starts.len());
    let mut start = 0;
    for end in starts.iter().map(|start| place(*start)).chain([cmbs.len()]) {
        let cmb = cmbs.get(start..end).ok_or_else(|| Error::invalid_argument(format!("there is no CMB at {start} to {end}")))?;
        match cmb.split_last_chunk::<4>() {
            Some((cmb, _)) => {
                let length = u32::try_from(end - start).map_err(|_| Error::invalid_argument("a CMB has more than 4 GiB"))?;
                out.extend_from_slice(cmb);
                out.extend_from_slice(&length.to_le_bytes());
            }
            // Before the first column there may be the CMB of batches.
            None if starts_out.is_empty() => {}
            None => out.extend_from_slice(&((ALL_NULL_LENGTH as u64) << u32::BITS).to_le_bytes()),
        }
        starts_out.push(out.len() as u64);
        start = end;
    }
    // The last is the end of all.
    starts_out.pop();
    Ok((out, starts_out))
}

/// Where the CMBs of a file are.
#[derive(Debug, Clone)]
pub struct Cit {
    /// Read entry by entry: opening it costs nothing.
    bytes: Bytes,
    cmb_area: Range<u64>,
    /// Bytes of the CMB of a column that is null in every row.
    all_null_length: u64,
}

impl Cit {
    /// A CIT over its bytes; `cmb_area` is where all CMBs must lie.
    pub fn new(bytes: Bytes, cmb_area: Range<u64>) -> Self {
        Self { bytes, cmb_area, all_null_length: 0 }
    }

    /// What would be the CIT of a file without one, and has this CRC32. `cmbs` are the bytes of `cmb_area`, which has so many CMBs and, if rows come in batches,
    /// one before them.
    pub fn of_lengths(cmbs: &[u8], cmb_area: Range<u64>, columns: u32, has_batches: bool, crc: u32) -> Result<Self> {
        let bytes = offsets_by_lengths(cmbs, cmb_area.start, columns, has_batches)
            .and_then(|bytes| match crc32fast::hash(&bytes) == crc {
                true => Ok(bytes),
                false => Err(Error::checksum("the lengths of CMBs do not match the CRC32 in the footer").at(cmb_area.start)),
            })
            .map_err(|error| error.in_section(Section::ColumnIndex))?;
        Ok(Self { bytes: bytes.into(), cmb_area, all_null_length: ALL_NULL_LENGTH as u64 })
    }

    /// Bytes in memory.
    pub fn memory_size(&self) -> usize {
        self.bytes.len()
    }

    /// Whether a column whose CMB is there is null in every row.
    pub fn is_all_null(&self, cmb: &Range<u64>) -> bool {
        cmb.end - cmb.start == self.all_null_length
    }

    /// Where in the file the CMB of `column` is.
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

/// Goes back from the end of the area, where the last length is.
fn offsets_by_lengths(cmbs: &[u8], area_start: u64, columns: u32, has_batches: bool) -> Result<Vec<u8>> {
    let columns = columns as usize;
    // Before memory is asked for so many.
    if cmbs.len() / ALL_NULL_LENGTH < columns {
        return Err(Error::invalid_file(format!("{} bytes cannot be the CMBs of {columns} columns", cmbs.len())));
    }
    let mut offsets = vec![0; columns];
    let mut end = cmbs.len();
    for (column, offset) in offsets.iter_mut().enumerate().rev() {
        end = start_of(cmbs, end).map_err(|error| error.at(area_start + end as u64).in_column(&format!("number {column}")))?;
        *offset = area_start + end as u64;
    }
    if has_batches && end > 0 {
        end = start_of(cmbs, end).map_err(|error| error.at(area_start + end as u64))?;
    }
    match end {
        0 => Ok(write_cit(&offsets)),
        _ => Err(Error::invalid_file(format!("before the first CMB there are {end} bytes of something else")).at(area_start)),
    }
}

/// Where the CMB begins that ends at `end`.
fn start_of(cmbs: &[u8], end: usize) -> Result<usize> {
    let length = match end.checked_sub(size_of::<U32>()) {
        Some(at) => wire::read::<U32>(cmbs, at, "the length of a CMB")?.get() as usize,
        None => 0,
    };
    let start = end.checked_sub(length).filter(|_| length >= ALL_NULL_LENGTH && length.is_multiple_of(8));
    start.ok_or_else(|| Error::invalid_file(format!("a CMB is said to have {length} bytes, where there are {end}")))
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

    /// The CMBs of three columns, the second of which has none, behind one of batches.
    fn cmbs(batches: &[u8]) -> (Vec<u8>, [u64; 3]) {
        let first = batches.len() as u64;
        ([batches, &[1; 16], &[2; 24]].concat(), [first, first + 16, first + 16])
    }

    /// The CRC32 of the CIT of an area at 8 in which these are the starts of CMBs.
    fn crc(starts: &[u64]) -> u32 {
        crc32fast::hash(&write_cit(&starts.iter().map(|start| 8 + start).collect::<Vec<_>>()))
    }

    #[test]
    fn cmbs_that_say_how_long_they_are_need_no_cit() {
        for batches in [&[][..], &[9; 32]] {
            let (with_cit, starts) = cmbs(batches);
            let (area, starts) = with_lengths(&with_cit, &starts).unwrap();
            let first = batches.len() as u64;
            assert_eq!((area.len(), starts.as_slice()), (with_cit.len() + 8, [first, first + 16, first + 24].as_slice()));
            let cit = Cit::of_lengths(&area, 8..8 + area.len() as u64, 3, !batches.is_empty(), crc(&starts)).unwrap();
            let ranges: Vec<_> = (0..3).map(|column| cit.cmb_range(column).unwrap()).collect();
            assert_eq!(ranges, [first + 8..first + 24, first + 24..first + 32, first + 32..first + 56]);
            assert_eq!(ranges.iter().map(|range| cit.is_all_null(range)).collect::<Vec<_>>(), [false, true, false]);
            assert_eq!(cit.cmb_range(3).unwrap_err().kind(), ErrorKind::InvalidArgument);
            // All but the lengths is what it was.
            assert_eq!(area[batches.len()..][..16], [[1; 12].as_slice(), &[16, 0, 0, 0]].concat());
            assert_eq!(area[batches.len() + 16..][..8], [0, 0, 0, 0, 8, 0, 0, 0]);
        }
        assert_eq!(with_lengths(&[], &[]).unwrap(), (Vec::new(), Vec::new()));
        assert!(Cit::of_lengths(&[], 8..8, 0, true, crc(&[])).is_ok());
        let cit = Cit::new(write_cit(&[8, 48, 48]).into(), 8..64);
        assert!(cit.is_all_null(&(48..48)) && !cit.is_all_null(&(48..56)));
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        let (with_cit, starts) = cmbs(&[9; 32]);
        let (area, starts) = with_lengths(&with_cit, &starts).unwrap();
        let crc = crc(&starts);
        let read = |area: &[u8], columns, has_batches| Cit::of_lengths(area, 8..8 + area.len() as u64, columns, has_batches, crc).map(drop);
        assert!(read(&area, 3, true).is_ok());
        let bad = [read(&area, 3, false), read(&area, 4, true), read(&area, 5, true), read(&area, u32::MAX, true), read(&area[8..], 3, true)];
        let ends = [32, 48, 56, 80];
        let flipped = ends.iter().flat_map(|end| (end - 4..*end).flat_map(|at| (0..8).map(move |bit| (at, bit)))).map(|(at, bit)| {
            let mut area = area.clone();
            area[at] ^= 1 << bit;
            read(&area, 3, true)
        });
        for (index, result) in bad.into_iter().chain(flipped).enumerate() {
            let error = result.unwrap_err();
            assert_eq!(error.section(), Some(Section::ColumnIndex), "{index}");
            // By chance a wrong length ends where a CMB may begin.
            assert!(matches!(error.kind(), ErrorKind::InvalidFile | ErrorKind::Checksum), "{index}: {error}");
        }
        // Lengths that could be, of other columns.
        let mut moved = area.clone();
        moved[36..40].copy_from_slice(&[8, 0, 0, 0]);
        moved[52..56].copy_from_slice(&[16, 0, 0, 0]);
        let error = read(&moved, 3, true).unwrap_err();
        assert_eq!((error.kind(), error.section()), (ErrorKind::Checksum, Some(Section::ColumnIndex)));
    }

    #[test]
    fn entries_outside_the_area_descending_or_unaligned_are_refused() {
        for offsets in [[0, 8], [8, 72], [9, 16], [48, 8], [u64::MAX, 16]] {
            let error = Cit::new(write_cit(&offsets).into(), 8..64).cmb_range(0).unwrap_err();
            assert_eq!((error.kind(), error.section()), (ErrorKind::InvalidFile, Some(Section::ColumnIndex)), "{offsets:?}");
        }
    }
}
