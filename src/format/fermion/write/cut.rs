//! Where a run of values is cut into pages.

use std::ops::Range;

use super::options::WriterOptions;
use crate::format::codec::{Values, view_length};
use crate::format::error::{Error, Result};

/// Pages are cut between blocks of the encodings where they can be, so that no block is padded.
const BLOCK: usize = 1024;

/// What a page may hold of a batch that is larger than pages are meant to be. Like a single value, it has to have a length below 2³¹.
const PAGE_BYTES_MAX: usize = 1 << 30;

/// Lengths of the pages of `values`: at most `page_rows` rows, and about `page_bytes` bytes.
pub(super) fn page_lengths(values: &Values, page_bytes: usize, page_rows: usize) -> Vec<usize> {
    match values {
        Values::Bool(bits) => even(bits.len(), page_rows.min(page_bytes.saturating_mul(8))),
        Values::Fixed { ptype, .. } => even(values.len(), page_rows.min(whole_blocks(page_bytes / ptype.width().unwrap_or(1).max(1)))),
        Values::Bytes(array) => by_bytes(array.views().iter().map(|view| view_length(*view)), page_bytes, page_rows),
    }
}

/// Lengths of pages of `total` slots of a validity or offsets stream.
pub(super) fn even(total: usize, page_rows: usize) -> Vec<usize> {
    let rows = page_rows.max(1);
    let mut lengths = vec![rows; total / rows];
    if !total.is_multiple_of(rows) {
        lengths.push(total % rows);
    }
    lengths
}

/// Lengths of the pages of values that come in batches, which end at the slots `ends` and are not split.
pub(super) fn batch_page_lengths(values: &Values, ends: &[usize], page_bytes: usize, page_rows: usize) -> Result<Vec<usize>> {
    match values {
        Values::Bool(_) => whole(ends, |slots| slots.len().div_ceil(8), page_bytes, page_rows),
        Values::Fixed { ptype, .. } => whole(ends, |slots| slots.len().saturating_mul(ptype.width().unwrap_or(1)), page_bytes, page_rows),
        Values::Bytes(array) => {
            let bytes = |slots: Range<usize>| array.views().get(slots).unwrap_or_default().iter().map(|view| view_length(*view)).sum();
            whole(ends, bytes, page_bytes, page_rows)
        }
    }
}

/// Pages of whole batches: as many as fit, or one that is larger.
pub(super) fn whole(ends: &[usize], bytes: impl Fn(Range<usize>) -> usize, page_bytes: usize, page_rows: usize) -> Result<Vec<usize>> {
    let mut pages = Vec::new();
    let (mut start, mut page, mut page_size) = (0, 0, 0_usize);
    for end in ends {
        let (slots, size) = (end - start, bytes(start..*end));
        if slots > WriterOptions::PAGE_ROWS_MAX || size > PAGE_BYTES_MAX {
            let (have, most) = if slots > WriterOptions::PAGE_ROWS_MAX {
                (format!("{slots} values"), WriterOptions::PAGE_ROWS_MAX)
            } else {
                (format!("{size} bytes"), PAGE_BYTES_MAX)
            };
            return Err(Error::invalid_argument(format!(
                "a batch has {have} in one column, and no batch is split over pages, which have {most} at most: make smaller batches"
            )));
        }
        if page > 0 && (page + slots > page_rows || page_size.saturating_add(size) > page_bytes) {
            pages.push(page);
            (page, page_size) = (0, 0);
        }
        page += slots;
        page_size = page_size.saturating_add(size);
        start = *end;
    }
    if page > 0 {
        pages.push(page);
    }
    Ok(pages)
}

fn whole_blocks(rows: usize) -> usize {
    if rows > BLOCK { rows - rows % BLOCK } else { rows.max(1) }
}

/// Pages of about as many bytes each, of which none has more than half too many unless it is one row: a small one at the end would cost as much as any other.
fn by_bytes(lengths: impl ExactSizeIterator<Item = usize> + Clone, page_bytes: usize, page_rows: usize) -> Vec<usize> {
    let mut pages = Vec::new();
    let (mut rows, mut bytes, mut before) = (0, 0, 0);
    let total: usize = lengths.clone().sum();
    let count = total.div_ceil((page_bytes + page_bytes / 4).max(1)).max(1);
    let mut rest = lengths;
    while rest.len() > 0 {
        let block: usize = rest.clone().take(BLOCK).sum();
        // Up to the end of a block that is nearest to this page's part of all.
        let is_part = 2 * before + block <= 2 * (total.saturating_mul(pages.len() + 1) / count);
        let fits = (is_part || bytes + block <= page_bytes / 2) && bytes + block <= page_bytes + page_bytes / 2 && rows + BLOCK <= page_rows;
        if !fits && rows > 0 {
            pages.push(rows);
            (rows, bytes) = (0, 0);
        }
        // A block that alone passes a limit is cut between rows.
        let oversized = block > page_bytes || BLOCK > page_rows;
        for length in rest.by_ref().take(BLOCK) {
            if oversized && rows > 0 && (bytes + length > page_bytes || rows == page_rows) {
                pages.push(rows);
                (rows, bytes) = (0, 0);
            }
            rows += 1;
            bytes += length;
            before += length;
        }
    }
    if rows > 0 {
        pages.push(rows);
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lengths: &[usize], page_bytes: usize, page_rows: usize, expected: &[usize]) {
        assert_eq!(by_bytes(lengths.iter().copied(), page_bytes, page_rows), expected, "{page_bytes} bytes, {page_rows} rows");
    }

    #[test]
    fn pages_of_strings_end_at_either_limit() {
        check(&[], 10, 10, &[]);
        check(&[1; 3000], 1 << 20, 1 << 20, &[3000]);
        check(&[1; 3000], 1 << 20, 2048, &[2048, 952]);
        check(&[1; 3000], 1500, 1 << 20, &[1024, 1976]);
        check(&[100, 1, 1], 50, 10, &[1, 2]);
        check(&[1; 5], 1 << 20, 2, &[2, 2, 1]);
        check(&[60, 60, 60], 100, 10, &[1, 1, 1]);
    }

    #[test]
    fn pages_of_strings_are_about_as_large_as_each_other() {
        check(&[1; 16 << 10], 8 << 10, 1 << 20, &[8 << 10; 2]);
        // A little too much is no page of its own.
        check(&[1; 17 << 10], 8 << 10, 1 << 20, &[9 << 10, 8 << 10]);
        check(&[1; 10 << 10], 8 << 10, 1 << 20, &[10 << 10]);
        check(&[1; 21 << 10], 8 << 10, 1 << 20, &[7 << 10; 3]);
        check(&[[1; 9 << 10].as_slice(), &[0; 9 << 10]].concat(), 3 << 10, 1 << 20, &[3 << 10, 3 << 10, 12 << 10]);
        // Where rows end a page, too.
        check(&[1; 16 << 10], 8 << 10, 4 << 10, &[4 << 10; 4]);
        // Strings that grow.
        let lengths: Vec<usize> = (0..32 << 10).map(|row| row / 1000).collect();
        let mut rest = &lengths[..];
        for rows in by_bytes(lengths.iter().copied(), 1 << 17, 1 << 20) {
            let page: usize = rest[..rows].iter().sum();
            assert!((90 << 10..160 << 10).contains(&page), "{page}");
            rest = &rest[rows..];
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn batches_are_not_split() {
        let check = |ends: &[usize], page_bytes, page_rows, expected: &[usize]| {
            assert_eq!(whole(ends, |slots| slots.len() * 4, page_bytes, page_rows).unwrap(), expected, "{ends:?}");
        };
        check(&[], 100, 10, &[]);
        check(&[3, 6, 9, 12], 100, 10, &[9, 3]);
        check(&[3, 6, 9, 12], 24, 10, &[6, 6]);
        check(&[5, 30, 31, 32], 1000, 10, &[5, 25, 2]);
        check(&[0, 0, 10, 10, 20], 1000, 10, &[10, 10]);
        check(&[0, 0], 1000, 10, &[]);
        let error = whole(&[1, 2 + (1 << 20)], |_| 1, 1 << 20, 10).unwrap_err().to_string();
        assert!(error.contains("1048577 values") && error.ends_with("make smaller batches"), "{error}");
        assert!(whole(&[1], |_| (1 << 30) + 1, 1 << 20, 10).is_err());
    }

    #[test]
    fn fixed_pages_are_whole_blocks() {
        assert_eq!(whole_blocks(1500), 1024);
        assert_eq!(whole_blocks(1000), 1000);
        assert_eq!(whole_blocks(0), 1);
        assert_eq!(even(10, 4), [4, 4, 2]);
        assert_eq!(even(0, 4), [0; 0]);
    }
}
