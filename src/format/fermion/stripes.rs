//! The stripe directory: where each stripe is, and its rows.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::footer::{Footer, HEADER_LENGTH};
use crate::format::error::{Error, Result};
use crate::format::scan::Section;
use crate::format::wire;

/// Rows that are stored together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripe {
    /// Its first byte in the file.
    pub offset: u64,
    /// Its bytes; none if all columns are null in all rows.
    pub length: u64,
    /// Its rows.
    pub rows: u32,
}

impl Stripe {
    /// One past its last byte.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct StripeEntry {
    offset: U64,
    length: U64,
    row_count: U64,
}

const _: () = assert!(size_of::<StripeEntry>() == 24);

/// The bytes of the stripe directory.
pub fn write_stripes(stripes: &[Stripe]) -> Vec<u8> {
    let mut out = Vec::with_capacity(stripes.len() * size_of::<StripeEntry>());
    for stripe in stripes {
        let entry = StripeEntry { offset: stripe.offset.into(), length: stripe.length.into(), row_count: u64::from(stripe.rows).into() };
        out.extend_from_slice(entry.as_bytes());
    }
    out
}

/// Reads the stripe directory: stripes ascend, do not overlap, lie in the data area, and have the rows of the file.
pub fn read_stripes(bytes: &[u8], footer: &Footer) -> Result<Vec<Stripe>> {
    read_unplaced(bytes, footer).map_err(|error| error.in_section(Section::StripeDirectory).at(footer.stripes_offset))
}

fn read_unplaced(bytes: &[u8], footer: &Footer) -> Result<Vec<Stripe>> {
    let count = usize::try_from(footer.stripe_count).map_err(|_| Error::invalid_file("too many stripes"))?;
    let entries: &[StripeEntry] = wire::read_slice(bytes, 0, count, "the stripe directory")?;
    let mut stripes = Vec::with_capacity(entries.len());
    let mut end = HEADER_LENGTH;
    let mut rows_total = 0_u64;
    for (index, entry) in entries.iter().enumerate() {
        let (offset, length, row_count) = (entry.offset.get(), entry.length.get(), entry.row_count.get());
        let rows = u32::try_from(row_count).map_err(|_| Error::invalid_file(format!("stripe {index} has {row_count} rows, more than 2^32 - 1")))?;
        if offset < end || !offset.is_multiple_of(8) {
            return Err(Error::invalid_file(format!("stripe {index} at {offset} overlaps what is before it, or is not at a multiple of 8")));
        }
        end = offset.checked_add(length).filter(|end| *end <= footer.cmb_offset).ok_or_else(|| {
            Error::invalid_file(format!(
                "stripe {index} of {length} bytes at {offset} reaches beyond the data area, which ends at {}",
                footer.cmb_offset
            ))
        })?;
        rows_total = rows_total.saturating_add(row_count);
        stripes.push(Stripe { offset, length, rows });
    }
    if rows_total != footer.row_count {
        return Err(Error::invalid_file(format!("the stripes have {rows_total} rows, the footer says {}", footer.row_count)));
    }
    Ok(stripes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ErrorKind;

    fn footer(row_count: u64, stripe_count: u32) -> Footer {
        Footer {
            schema_offset: 100,
            cit_offset: 100,
            cmb_offset: 96,
            stripes_offset: 100,
            row_count,
            settings: 0,
            column_count: 0,
            stripe_count,
            schema_crc: 0,
            cit_crc: 0,
            stripes_crc: 0,
            version: (1, 0),
        }
    }

    #[test]
    fn reads_what_was_written() {
        let stripes =
            [Stripe { offset: 8, length: 40, rows: 7 }, Stripe { offset: 48, length: 0, rows: u32::MAX }, Stripe { offset: 48, length: 48, rows: 0 }];
        let rows = 7 + u64::from(u32::MAX);
        assert_eq!(read_stripes(&write_stripes(&stripes), &footer(rows, 3)).unwrap(), stripes);
        assert_eq!(read_stripes(&[], &footer(0, 0)).unwrap(), []);
    }

    #[test]
    fn stripes_that_overlap_leave_the_data_area_or_miscount_are_refused() {
        let check = |stripes: &[Stripe], rows| {
            let count = u32::try_from(stripes.len()).unwrap();
            let error = read_stripes(&write_stripes(stripes), &footer(rows, count)).unwrap_err();
            assert_eq!((error.kind(), error.section()), (ErrorKind::InvalidFile, Some(Section::StripeDirectory)), "{stripes:?}");
        };
        check(&[Stripe { offset: 0, length: 8, rows: 1 }], 1);
        check(&[Stripe { offset: 9, length: 8, rows: 1 }], 1);
        check(&[Stripe { offset: 8, length: 89, rows: 1 }], 1);
        check(&[Stripe { offset: 8, length: u64::MAX, rows: 1 }], 1);
        check(&[Stripe { offset: 8, length: 16, rows: 1 }, Stripe { offset: 16, length: 8, rows: 1 }], 2);
        check(&[Stripe { offset: 8, length: 16, rows: 1 }], 2);
        let mut too_many_rows = write_stripes(&[Stripe { offset: 8, length: 0, rows: 0 }]);
        too_many_rows[20] = 1;
        assert_eq!(read_stripes(&too_many_rows, &footer(1 << 32, 1)).unwrap_err().kind(), ErrorKind::InvalidFile);
        assert_eq!(read_stripes(&too_many_rows[..23], &footer(1 << 32, 1)).unwrap_err().kind(), ErrorKind::InvalidFile);
    }
}
