//! The bytes of a zone map, one entry of custom metadata per column.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::map::{ORDERING_KEY, ROWS_KEY, key_of};
use crate::format::alkaid::footer::Block;
use crate::format::error::{Error, Result};

/// A bound of the values of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bound {
    /// As SPEC section 7 writes values.
    pub(crate) bytes: Vec<u8>,
    /// It is one of the values.
    pub(crate) is_exact: bool,
}

/// What is known of a column in a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Zone {
    pub(crate) min: Option<Bound>,
    pub(crate) max: Option<Bound>,
    pub(crate) null_count: Option<u32>,
    /// Bytes of the column's buffers before they are compressed; those of dictionaries are not the batch's.
    pub(crate) bytes: Option<u64>,
}

const MIN: u8 = 1;
const MIN_EXACT: u8 = 2;
const MAX: u8 = 4;
const MAX_EXACT: u8 = 8;
const NULL_COUNT: u8 = 16;
const BYTES: u8 = 32;
/// What a newer writer may say, and nobody can step over.
const UNKNOWN: u8 = !(MIN | MIN_EXACT | MAX | MAX_EXACT | NULL_COUNT | BYTES);

impl Zone {
    fn write(&self, out: &mut Vec<u8>) {
        let flag = |bound: &Option<Bound>, known: u8, exact: u8| bound.as_ref().map_or(0, |bound| if bound.is_exact { known | exact } else { known });
        let nulls = if self.null_count.is_some() { NULL_COUNT } else { 0 };
        let bytes = if self.bytes.is_some() { BYTES } else { 0 };
        out.push(flag(&self.min, MIN, MIN_EXACT) | flag(&self.max, MAX, MAX_EXACT) | nulls | bytes);
        out.extend(self.null_count.into_iter().flat_map(u32::to_le_bytes));
        out.extend(self.bytes.into_iter().flat_map(u64::to_le_bytes));
        for bound in [&self.min, &self.max].into_iter().flatten() {
            // No bound is longer than `bounds` cuts it.
            out.push(u8::try_from(bound.bytes.len()).unwrap_or(u8::MAX));
            out.extend(bound.bytes.iter().take(usize::from(u8::MAX)));
        }
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let [flags] = *take::<1>(bytes)?;
        let null_count = if flags & NULL_COUNT != 0 { Some(u32::from_le_bytes(*take::<4>(bytes)?)) } else { None };
        let size = if flags & BYTES != 0 { Some(u64::from_le_bytes(*take::<8>(bytes)?)) } else { None };
        let min = if flags & MIN != 0 { Some(bound(bytes, flags & MIN_EXACT != 0)?) } else { None };
        let max = if flags & MAX != 0 { Some(bound(bytes, flags & MAX_EXACT != 0)?) } else { None };
        Some(Self { min, max, null_count, bytes: size })
    }
}

fn bound(bytes: &mut &[u8], is_exact: bool) -> Option<Bound> {
    let [length] = *take::<1>(bytes)?;
    let (value, rest) = bytes.split_at_checked(usize::from(length))?;
    *bytes = rest;
    Some(Bound { bytes: value.to_vec(), is_exact })
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(taken)
}

/// The zones of a column as a pair of custom metadata.
pub(crate) fn zones_entry(column: usize, zones: &[Zone]) -> (String, String) {
    let mut bytes = Vec::new();
    zones.iter().for_each(|zone| zone.write(&mut bytes));
    (key_of(column), sealed(&bytes))
}

/// The zones of a column, of which there are so many; `None` if they say what this reader does not know.
pub(crate) fn read_zones(text: &str, count: usize) -> Result<Option<Vec<Zone>>> {
    let bytes = opened(text)?;
    let mut rest = bytes.as_slice();
    let wrong = || Error::invalid_file(format!("a zone map does not have {count} zones"));
    let mut zones = Vec::new();
    for _ in 0..count {
        if rest.first().is_some_and(|flags| flags & UNKNOWN != 0) {
            return Ok(None);
        }
        zones.push(Zone::read(&mut rest).ok_or_else(wrong)?);
    }
    if rest.is_empty() { Ok(Some(zones)) } else { Err(wrong()) }
}

/// The rows of the batches, and which batches those are.
pub(crate) fn rows_entry(batches: &[Block], rows: &[u32]) -> (String, String) {
    let bytes: Vec<u8> = [fingerprint(batches)].iter().chain(rows).flat_map(|number| number.to_le_bytes()).collect();
    (ROWS_KEY.to_owned(), sealed(&bytes))
}

/// The rows of the batches; `None` if the zone map is about others: somebody has copied it who did not know what it is.
pub(crate) fn read_rows(text: &str, batches: &[Block]) -> Result<Option<Vec<u32>>> {
    let bytes = opened(text)?;
    let mut numbers = bytes.chunks_exact(4).filter_map(<[u8]>::first_chunk::<4>).map(|bytes| u32::from_le_bytes(*bytes));
    let is_ours = numbers.next() == Some(fingerprint(batches)) && bytes.len() == 4 + 4 * batches.len();
    Ok(is_ours.then(|| numbers.collect()))
}

/// The sort order of all rows, and of which batches they are.
pub(crate) fn ordering_entry(batches: &[Block], ordering: &str) -> (String, String) {
    (ORDERING_KEY.to_owned(), sealed(&[&fingerprint(batches).to_le_bytes(), ordering.as_bytes()].concat()))
}

/// The sort order; `None` if it is that of others.
pub(crate) fn read_ordering(text: &str, batches: &[Block]) -> Result<Option<String>> {
    let bytes = opened(text)?;
    let ours = bytes.split_first_chunk::<4>().filter(|(of, _)| u32::from_le_bytes(**of) == fingerprint(batches));
    let text = ours.map(|(_, ordering)| String::from_utf8(ordering.to_vec()));
    text.transpose().map_err(|_| Error::invalid_file("the sort order in a zone map is not UTF-8"))
}

fn fingerprint(batches: &[Block]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for block in batches {
        [block.offset, block.metadata_length, block.body_length].iter().for_each(|number| hasher.update(&number.to_le_bytes()));
    }
    hasher.finalize()
}

/// As text, with a CRC32 before it: the file has no other checksum, and a bound that is off by a bit hides rows.
fn sealed(bytes: &[u8]) -> String {
    STANDARD.encode([&crc32fast::hash(bytes).to_le_bytes(), bytes].concat())
}

fn opened(text: &str) -> Result<Vec<u8>> {
    let bytes = STANDARD.decode(text).map_err(|error| Error::invalid_file(format!("a zone map is no base64: {error}")))?;
    match bytes.split_first_chunk::<4>() {
        Some((crc, rest)) if u32::from_le_bytes(*crc) == crc32fast::hash(rest) => Ok(rest.to_vec()),
        _ => Err(Error::checksum("a zone map does not match its CRC32")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ErrorKind;

    #[test]
    fn zones_come_back_and_lies_do_not() {
        let bound = |bytes: &[u8], is_exact| Some(Bound { bytes: bytes.to_vec(), is_exact });
        let zones = [
            Zone::default(),
            Zone { min: bound(b"a", true), max: bound(b"", false), null_count: Some(7), bytes: Some(1 << 40) },
            Zone { min: None, max: bound(&[9; 64], true), ..Zone::default() },
        ];
        let (key, text) = zones_entry(3, &zones);
        assert_eq!(key, "fermion:zones:3");
        assert_eq!(read_zones(&text, 3).unwrap().unwrap(), zones);
        for count in [0, 2, 4, usize::MAX] {
            assert_eq!(read_zones(&text, count).unwrap_err().kind(), ErrorKind::InvalidFile);
        }
        for at in 0..text.len() {
            let mut lie = text.clone().into_bytes();
            lie[at] = if lie[at] == b'A' { b'B' } else { b'A' };
            assert!(read_zones(std::str::from_utf8(&lie).unwrap(), 3).is_err(), "{at}");
        }
    }

    #[test]
    fn a_zone_is_these_bytes_and_one_with_other_flags_is_not_read() {
        let zone = [0b11_1011, 7, 0, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 1, b'a'];
        let known = Zone { min: Some(Bound { bytes: b"a".to_vec(), is_exact: true }), max: None, null_count: Some(7), bytes: Some(265) };
        let with_flags = |flags: u8| sealed(&[&[flags], &zone[1..]].concat());
        assert_eq!(read_zones(&with_flags(MIN | MIN_EXACT | NULL_COUNT | BYTES), 1).unwrap(), Some(vec![known]));
        assert_eq!(read_zones(&with_flags(MIN | 64), 1).unwrap(), None);
        assert_eq!(read_zones(&sealed(&[&[0], &zone[1..]].concat()), 1).unwrap_err().kind(), ErrorKind::InvalidFile);
    }

    #[test]
    fn a_zone_map_of_other_batches_is_none() {
        let block = |offset| Block { offset, metadata_length: 8, body_length: 64 };
        let (_, text) = rows_entry(&[block(8), block(80)], &[5, 6]);
        assert_eq!(read_rows(&text, &[block(8), block(80)]).unwrap(), Some(vec![5, 6]));
        assert_eq!(read_rows(&text, &[block(8), block(88)]).unwrap(), None);
        assert_eq!(read_rows(&text, &[block(8)]).unwrap(), None);
        let (key, text) = ordering_entry(&[block(8), block(80)], "\"a\" ASC NULLS LAST");
        assert_eq!(key, "fermion:zones:ordering");
        assert_eq!(read_ordering(&text, &[block(8), block(80)]).unwrap().as_deref(), Some("\"a\" ASC NULLS LAST"));
        assert_eq!(read_ordering(&text, &[block(8)]).unwrap(), None);
        assert_eq!(read_ordering(&sealed(b"abc"), &[]).unwrap(), None);
        assert!(read_ordering("AAAA", &[]).is_err());
    }
}
