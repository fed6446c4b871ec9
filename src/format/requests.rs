//! What is asked for at once, and what came back for it.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;

use super::error::{Error, Result};
use super::scan::Section;

/// Unwanted bytes between two ranges that are read along rather than asked for apart. On a local disk they cost less than a second call does.
const GAP_MAX: u64 = 16 << 10;

/// A request stops growing here, so that a wide read becomes several that can run side by side.
const REQUEST_MAX: u64 = 1 << 20;

/// Merges ranges that touch or nearly do.
pub(crate) fn requests(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.end <= last.end => {}
            Some(last) if range.start <= last.end + GAP_MAX && range.end - last.start <= REQUEST_MAX => last.end = range.end,
            _ => merged.push(range),
        }
    }
    merged
}

/// The bytes of the requests, by the range they were asked for.
pub(crate) struct Fetched {
    section: Section,
    requests: Vec<Range<u64>>,
    bytes: Vec<Bytes>,
    /// What had been fetched before.
    before: Option<Box<Self>>,
}

/// Without the bytes, which may be megabytes.
impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetched").field("requests", &self.requests.len()).finish_non_exhaustive()
    }
}

impl Default for Fetched {
    fn default() -> Self {
        Self { section: Section::Data, requests: Vec::new(), bytes: Vec::new(), before: None }
    }
}

impl Fetched {
    /// Pairs requests with what came back for them.
    pub(crate) fn new(requests: Vec<Range<u64>>, bytes: Vec<Bytes>) -> Result<Self> {
        Self::of(Section::Data, requests, bytes)
    }

    /// The same of another section.
    pub(crate) fn of(section: Section, requests: Vec<Range<u64>>, bytes: Vec<Bytes>) -> Result<Self> {
        let complete =
            requests.len() == bytes.len() && requests.iter().zip(&bytes).all(|(range, bytes)| bytes.len() as u64 == range.end - range.start);
        if !complete {
            return Err(Error::eof("fewer bytes came back than were asked for").in_section(section));
        }
        Ok(Self { section, requests, bytes, before: None })
    }

    /// The same, and what had been fetched before.
    pub(crate) fn after(self, before: Self) -> Self {
        Self { before: Some(Box::new(before)), ..self }
    }

    /// Whether a range need not be fetched again.
    pub(crate) fn has(&self, range: &Range<u64>) -> bool {
        self.find(range).is_some()
    }

    fn find(&self, range: &Range<u64>) -> Option<(&Range<u64>, &Bytes)> {
        let index = self.requests.partition_point(|request| request.end < range.end);
        let found = self.requests.get(index).zip(self.bytes.get(index)).filter(|(request, _)| request.start <= range.start);
        found.or_else(|| self.before.as_ref()?.find(range))
    }

    /// The bytes of a range that lies in one request.
    pub(crate) fn get(&self, range: &Range<u64>) -> Result<Bytes> {
        let (request, bytes) = self.find(range).ok_or_else(|| Error::eof("a range was not loaded").in_section(self.section).at(range.start))?;
        let index = |offset: u64| usize::try_from(offset - request.start).map_err(|_| Error::eof("a range is too far away"));
        Ok(bytes.slice(index(range.start)?..index(range.end)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_are_one_request() {
        assert_eq!(requests(vec![100..200, 0..50, 200..300]), [0..300]);
        assert_eq!(requests(vec![0..10, 10 + GAP_MAX..20 + GAP_MAX]), [0..20 + GAP_MAX]);
        assert_eq!(requests(vec![0..10, 11 + GAP_MAX..20 + GAP_MAX, 5..5]), [0..10, 11 + GAP_MAX..20 + GAP_MAX]);
        assert_eq!(requests(vec![0..REQUEST_MAX, REQUEST_MAX..REQUEST_MAX + 1]), [0..REQUEST_MAX, REQUEST_MAX..REQUEST_MAX + 1]);
    }

    #[test]
    fn bytes_are_found_in_their_request() {
        let fetched = Fetched::new(vec![10..20, 30..40], vec![Bytes::from_static(b"abcdefghij"), Bytes::from_static(b"0123456789")]).unwrap();
        assert_eq!(fetched.get(&(12..14)).unwrap(), "cd");
        assert_eq!(fetched.get(&(30..40)).unwrap(), "0123456789");
        let after = Fetched::new(vec![15..25; 1], vec![Bytes::from_static(b"klmnopqrst")]).unwrap().after(fetched);
        assert_eq!(["cd", "klm", "0"].map(Bytes::from), [12..14, 15..18, 30..31].map(|range| after.get(&range).unwrap()));
        assert!(after.has(&(10..12)) && after.has(&(18..22)) && !after.has(&(24..26)));
        let fetched = *after.before.unwrap();
        assert_eq!(fetched.get(&(18..22)).unwrap_err().kind(), crate::format::ErrorKind::Eof);
    }
}
