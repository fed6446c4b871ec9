//! The header and the footer: where everything else is.

use std::ops::Range;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::error::{Error, Result};
use crate::format::scan::Section;
use crate::format::wire;

/// The first and the last 8 bytes of a file.
pub const MAGIC: [u8; 8] = *b"FERMION1";

/// Length of the header, and the offset of the first stripe.
pub const HEADER_LENGTH: u64 = 8;

/// The required `settings` bit that says that pages of a chunk may share a dictionary.
pub const SETTING_DICTIONARIES: u64 = 1;

/// The required `settings` bit that says that there is no CIT: CMBs say how long they are.
pub const SETTING_NO_CIT: u64 = 1 << 1;

/// Bytes of the CMB area of a file without a CIT, at most: they are all read to open it.
pub const NO_CIT_CMBS_MAX: usize = 4 << 20;

/// The `settings` bit that says that pages and CMBs carry a CRC32.
pub const SETTING_CHECKSUMS: u64 = 1 << 32;

/// The `settings` bit that says that there is a chunk with a bloom filter.
pub const SETTING_BLOOM_FILTERS: u64 = 1 << 33;

/// The `settings` bit that says that rows come in batches.
pub const SETTING_BATCHES: u64 = 1 << 34;

/// The version that this crate writes.
pub const VERSION: (u16, u16) = (1, 0);

/// Bits of `settings` that a reader has to know to read the file.
const REQUIRED_SETTINGS: u64 = u32::MAX as u64;

/// Required bits that this crate knows.
const KNOWN_REQUIRED_SETTINGS: u64 = SETTING_DICTIONARIES | SETTING_NO_CIT;

/// Bytes of the footer that its CRC covers.
const CRC_COVERS: usize = 116;

/// The footer, checked: its areas lie in order inside the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footer {
    /// Start of the schema area.
    pub schema_offset: u64,
    /// Start of the Column Index Table, or of the CMB area where that is left out.
    pub cit_offset: u64,
    /// Start of the CMB area, which ends at `schema_offset`; stripes end here.
    pub cmb_offset: u64,
    /// Start of the stripe directory.
    pub stripes_offset: u64,
    /// Rows of the file.
    pub row_count: u64,
    /// Bits that say how the file was written, see SPEC section 2.
    pub settings: u64,
    /// Columns (top-level fields).
    pub column_count: u32,
    /// Stripes.
    pub stripe_count: u32,
    /// CRC32 of the schema area.
    pub schema_crc: u32,
    /// CRC32 of the CIT, also where that is left out.
    pub cit_crc: u32,
    /// CRC32 of the stripe directory.
    pub stripes_crc: u32,
    /// Major and minor version.
    pub version: (u16, u16),
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Wire {
    schema_offset: U64,
    cit_offset: U64,
    cmb_offset: U64,
    stripes_offset: U64,
    row_count: U64,
    settings: U64,
    column_count: U32,
    stripe_count: U32,
    schema_crc: U32,
    cit_crc: U32,
    stripes_crc: U32,
    version_major: U16,
    version_minor: U16,
    reserved: [u8; 44],
    footer_crc: U32,
    magic: [u8; 8],
}

const _: () = assert!(size_of::<Wire>() == Footer::LENGTH);
const _: () = assert!(CRC_COVERS + 4 + MAGIC.len() == Footer::LENGTH);

impl Footer {
    /// Bytes of the footer.
    pub const LENGTH: usize = 128;

    /// Reads the last [`Footer::LENGTH`] bytes of a file of `file_length` bytes. `bytes` may be longer and then ends with them.
    pub fn read(bytes: &[u8], file_length: u64) -> Result<Self> {
        let at = file_length.saturating_sub(Self::LENGTH as u64);
        Self::read_unplaced(bytes, file_length).map_err(|error| error.in_section(Section::Footer).at(at))
    }

    fn read_unplaced(bytes: &[u8], file_length: u64) -> Result<Self> {
        if file_length < HEADER_LENGTH + Self::LENGTH as u64 || bytes.len() < Self::LENGTH {
            return Err(Error::invalid_file(format!("this is not a Fermion file: {file_length} bytes are too few for a header and a footer")));
        }
        let bytes = wire::slice(bytes, bytes.len() - Self::LENGTH, Self::LENGTH, "the footer")?;
        let wire: &Wire = wire::read(bytes, 0, "the footer")?;
        if wire.magic != MAGIC {
            return Err(Error::invalid_file("this is not a Fermion file: it does not end with FERMION1"));
        }
        // Before the version: a flipped bit must not be taken for a newer format.
        if crc32fast::hash(wire::slice(bytes, 0, CRC_COVERS, "the footer")?) != wire.footer_crc.get() {
            return Err(Error::checksum("the footer does not match its CRC32"));
        }
        let footer = wire.to_footer();
        footer.check_version()?;
        footer.check_areas(file_length)?;
        Ok(footer)
    }

    fn check_version(&self) -> Result<()> {
        let (major, minor) = self.version;
        if major != VERSION.0 {
            return Err(Error::unsupported(format!("the file has version {major}.{minor}, this reader knows {}.x", VERSION.0)));
        }
        let unknown = self.settings & REQUIRED_SETTINGS & !KNOWN_REQUIRED_SETTINGS;
        if unknown != 0 {
            return Err(Error::unsupported(format!("the file requires settings {unknown:#x}, which this reader does not know")));
        }
        Ok(())
    }

    /// All areas in order, none over the next, so that later arithmetic on them cannot wrap.
    fn check_areas(&self, file_length: u64) -> Result<()> {
        let cit_length = 8 * u64::from(self.column_count);
        let stripes_length = 24 * u64::from(self.stripe_count);
        let mut areas = vec![
            ("the header", 0, HEADER_LENGTH),
            ("the CMB area", self.cmb_offset, 0),
            ("the schema", self.schema_offset, 0),
            ("the CIT", self.cit_offset, cit_length),
            ("the stripe directory", self.stripes_offset, stripes_length),
            ("the footer", file_length - Self::LENGTH as u64, 0),
        ];
        if !self.has_cit() {
            if self.cit_offset != self.cmb_offset {
                return Err(Error::invalid_file(format!("there is no CIT, and yet it is at {}", self.cit_offset)));
            }
            let length = self.schema_offset.saturating_sub(self.cmb_offset);
            if length > NO_CIT_CMBS_MAX as u64 {
                return Err(Error::invalid_file(format!(
                    "there is no CIT, and {length} bytes of CMBs; without one there are at most {NO_CIT_CMBS_MAX}"
                )));
            }
            areas.retain(|(name, ..)| *name != "the CIT");
        }
        let mut end = 0;
        let mut before = "the start";
        for (name, offset, length) in areas {
            if offset < end {
                return Err(Error::invalid_file(format!("{name} at {offset} begins before {before} ends")));
            }
            if !offset.is_multiple_of(8) && name != "the footer" {
                return Err(Error::invalid_file(format!("{name} at {offset} does not begin at a multiple of 8")));
            }
            end = offset.checked_add(length).ok_or_else(|| Error::eof(format!("{name} ends beyond the end of the file")))?;
            before = name;
        }
        Ok(())
    }

    /// Whether there is a CIT.
    pub fn has_cit(&self) -> bool {
        self.settings & SETTING_NO_CIT == 0
    }

    /// The schema area.
    pub fn schema_area(&self) -> Range<u64> {
        self.schema_offset..if self.has_cit() { self.cit_offset } else { self.stripes_offset }
    }

    /// The CMB area.
    pub fn cmb_area(&self) -> Range<u64> {
        self.cmb_offset..self.schema_offset
    }

    /// The CIT; empty if there is none.
    pub fn cit_area(&self) -> Range<u64> {
        let length = if self.has_cit() { 8 * u64::from(self.column_count) } else { 0 };
        self.cit_offset..self.cit_offset.saturating_add(length)
    }

    /// The stripe directory.
    pub fn stripe_area(&self) -> Range<u64> {
        self.stripes_offset..self.stripes_offset.saturating_add(24 * u64::from(self.stripe_count))
    }

    /// Whether pages and CMBs carry a CRC32.
    pub fn has_checksums(&self) -> bool {
        self.settings & SETTING_CHECKSUMS != 0
    }

    /// Whether rows come in batches.
    pub fn has_batches(&self) -> bool {
        self.settings & SETTING_BATCHES != 0
    }

    /// The bytes of the footer.
    pub fn to_bytes(&self) -> [u8; Self::LENGTH] {
        let mut wire = Wire {
            schema_offset: self.schema_offset.into(),
            cit_offset: self.cit_offset.into(),
            cmb_offset: self.cmb_offset.into(),
            stripes_offset: self.stripes_offset.into(),
            row_count: self.row_count.into(),
            settings: self.settings.into(),
            column_count: self.column_count.into(),
            stripe_count: self.stripe_count.into(),
            schema_crc: self.schema_crc.into(),
            cit_crc: self.cit_crc.into(),
            stripes_crc: self.stripes_crc.into(),
            version_major: self.version.0.into(),
            version_minor: self.version.1.into(),
            reserved: [0; 44],
            footer_crc: 0.into(),
            magic: MAGIC,
        };
        let covered = wire.as_bytes().get(..CRC_COVERS).unwrap_or_default();
        wire.footer_crc = crc32fast::hash(covered).into();
        zerocopy::transmute!(wire)
    }
}

impl Wire {
    fn to_footer(&self) -> Footer {
        Footer {
            schema_offset: self.schema_offset.get(),
            cit_offset: self.cit_offset.get(),
            cmb_offset: self.cmb_offset.get(),
            stripes_offset: self.stripes_offset.get(),
            row_count: self.row_count.get(),
            settings: self.settings.get(),
            column_count: self.column_count.get(),
            stripe_count: self.stripe_count.get(),
            schema_crc: self.schema_crc.get(),
            cit_crc: self.cit_crc.get(),
            stripes_crc: self.stripes_crc.get(),
            version: (self.version_major.get(), self.version_minor.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ErrorKind;

    const FILE_LENGTH: u64 = 1024;

    fn footer() -> Footer {
        Footer {
            schema_offset: 128,
            cit_offset: 256,
            cmb_offset: 64,
            stripes_offset: 280,
            row_count: 12,
            settings: SETTING_CHECKSUMS,
            column_count: 3,
            stripe_count: 2,
            schema_crc: 1,
            cit_crc: 2,
            stripes_crc: 3,
            version: VERSION,
        }
    }

    fn kind_of(footer: &Footer, file_length: u64) -> Option<ErrorKind> {
        Footer::read(&footer.to_bytes(), file_length).err().map(|error| error.kind())
    }

    #[test]
    fn reads_what_was_written_also_at_the_end_of_more() {
        let bytes = footer().to_bytes();
        assert_eq!(Footer::read(&bytes, FILE_LENGTH).unwrap(), footer());
        let tail = [&[7; 40], bytes.as_slice()].concat();
        assert_eq!(Footer::read(&tail, FILE_LENGTH).unwrap(), footer());
        assert!(footer().has_checksums());
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let bytes = footer().to_bytes();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let kind = Footer::read(&flipped, FILE_LENGTH).unwrap_err().kind();
            let expected = if bit / 8 >= 120 { ErrorKind::InvalidFile } else { ErrorKind::Checksum };
            assert_eq!(kind, expected, "bit {bit}");
        }
    }

    #[test]
    fn a_file_too_short_is_no_fermion_file() {
        let bytes = footer().to_bytes();
        for length in 0..136_usize {
            let error = Footer::read(&bytes[..length.min(128)], length as u64).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidFile);
            assert!(error.to_string().contains("not a Fermion file"), "{error}");
            assert_eq!(error.section(), Some(Section::Footer));
        }
    }

    #[test]
    fn areas_out_of_order_or_out_of_the_file_are_refused() {
        let good = footer();
        let bad = [
            Footer { cmb_offset: 0, ..good },
            Footer { cmb_offset: 136, ..good },
            Footer { schema_offset: 264, ..good },
            Footer { cit_offset: 288, ..good },
            Footer { column_count: 4, ..good },
            Footer { stripe_count: 26, ..good },
            Footer { stripes_offset: 281, ..good },
            Footer { stripes_offset: u64::MAX - 7, ..good },
            Footer { cmb_offset: 68, ..good },
        ];
        for footer in bad {
            assert!(matches!(kind_of(&footer, FILE_LENGTH), Some(ErrorKind::InvalidFile | ErrorKind::Eof)), "{footer:?}");
        }
        assert_eq!(kind_of(&good, 280 + 48 + 128), None);
        assert_eq!(kind_of(&good, 280 + 47 + 128), Some(ErrorKind::InvalidFile));
    }

    #[test]
    fn without_a_cit_the_schema_ends_where_the_stripes_begin() {
        let good = Footer { settings: SETTING_NO_CIT, cit_offset: 64, ..footer() };
        assert_eq!(kind_of(&good, FILE_LENGTH), None);
        assert_eq!((good.has_cit(), good.schema_area(), good.cit_area(), good.cmb_area()), (false, 128..280, 64..64, 64..128));
        // Of a CIT that is not there, no columns are counted.
        assert_eq!(kind_of(&Footer { column_count: u32::MAX, ..good }, FILE_LENGTH), None);
        let with_cit = footer();
        assert_eq!((with_cit.has_cit(), with_cit.schema_area(), with_cit.cit_area()), (true, 128..256, 256..280));
        for cit_offset in [0, 72, 256, 280, u64::MAX] {
            assert_eq!(kind_of(&Footer { cit_offset, ..good }, FILE_LENGTH), Some(ErrorKind::InvalidFile), "{cit_offset}");
        }
        assert_eq!(kind_of(&Footer { schema_offset: 288, ..good }, FILE_LENGTH), Some(ErrorKind::InvalidFile));
        // More than is read to open a file.
        let of_cmbs = |length: u64| Footer { schema_offset: 64 + length, stripes_offset: 64 + length, ..good };
        assert_eq!(kind_of(&of_cmbs(4 << 20), 8 << 20), None);
        assert_eq!(kind_of(&of_cmbs((4 << 20) + 8), 8 << 20), Some(ErrorKind::InvalidFile));
    }

    #[test]
    fn newer_majors_and_unknown_required_settings_are_refused_newer_minors_and_optional_settings_are_read() {
        let good = footer();
        assert_eq!(kind_of(&Footer { version: (2, 0), ..good }, FILE_LENGTH), Some(ErrorKind::UnsupportedVersion));
        assert_eq!(kind_of(&Footer { version: (0, 9), ..good }, FILE_LENGTH), Some(ErrorKind::UnsupportedVersion));
        assert_eq!(kind_of(&Footer { version: (1, 9), ..good }, FILE_LENGTH), None);
        assert_eq!(kind_of(&Footer { settings: SETTING_DICTIONARIES, ..good }, FILE_LENGTH), None);
        assert_eq!(kind_of(&Footer { settings: 1 << 2, ..good }, FILE_LENGTH), Some(ErrorKind::UnsupportedVersion));
        assert_eq!(kind_of(&Footer { settings: 1 << 31, ..good }, FILE_LENGTH), Some(ErrorKind::UnsupportedVersion));
        assert_eq!(kind_of(&Footer { settings: u64::MAX << 32, ..good }, FILE_LENGTH), None);
    }
}
