//! Where a run of values is cut into pages.

use crate::format::codec::Values;

/// Pages are cut between blocks of the encodings where they can be, so that no block is padded.
const BLOCK: usize = 1024;

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

fn whole_blocks(rows: usize) -> usize {
    if rows > BLOCK { rows - rows % BLOCK } else { rows.max(1) }
}

/// An Arrow view begins with its length.
#[expect(clippy::cast_possible_truncation, reason = "the low 32 bits are the length")]
fn view_length(view: u128) -> usize {
    view as u32 as usize
}

fn by_bytes(lengths: impl ExactSizeIterator<Item = usize> + Clone, page_bytes: usize, page_rows: usize) -> Vec<usize> {
    let mut pages = Vec::new();
    let (mut rows, mut bytes) = (0, 0);
    let mut rest = lengths;
    while rest.len() > 0 {
        let block: usize = rest.clone().take(BLOCK).sum();
        let fits = bytes + block <= page_bytes && rows + BLOCK <= page_rows;
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
        check(&[1; 3000], 1500, 1 << 20, &[1024, 1024, 952]);
        check(&[100, 1, 1], 50, 10, &[1, 2]);
        check(&[1; 5], 1 << 20, 2, &[2, 2, 1]);
        check(&[60, 60, 60], 100, 10, &[1, 1, 1]);
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
