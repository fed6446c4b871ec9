//! A page: a header, the encoding tree, and the buffers. It is read, checked and decoded by itself.

use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::BooleanBuffer;
use bytes::Bytes;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::codec::{COUNT_MAX, ChunkDictionary, Decoded, Encoded, EncodingTree, Node, Output, PType};
use crate::format::codes::Codes;
use crate::format::search::Pieces;
use crate::format::wire::{ceil8, read};
use crate::format::{Error, Result};

/// The beginning of a page.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PageHeader {
    crc: U32,
    length: U32,
    row_count: U32,
    tree_length: U32,
}

impl PageHeader {
    /// Bytes of a header.
    pub const LENGTH: usize = 16;
    /// What the CRC does not cover: itself.
    const CRC_LENGTH: usize = 4;

    /// The header at the beginning of `bytes`, which may hold more than the page: how pages without metadata are found.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        read::<Self>(bytes, 0, "a page header").copied()
    }

    /// Bytes of the page, header included.
    pub fn length(&self) -> usize {
        self.length.get() as usize
    }

    /// Rows of the page.
    pub fn rows(&self) -> usize {
        self.row_count.get() as usize
    }
}

const _: () = assert!(size_of::<PageHeader>() == PageHeader::LENGTH);

/// The bytes of a page, a multiple of 8. `checksum` says whether the file's settings promise a CRC.
pub fn write_page(encoded: &Encoded, row_count: u32, checksum: bool) -> Vec<u8> {
    let length = PageHeader::LENGTH + encoded.size();
    // Encoded values are known to fit.
    let fit = |length: usize| U32::new(u32::try_from(length).unwrap_or(u32::MAX));
    let mut header = PageHeader { crc: 0.into(), length: fit(length), row_count: row_count.into(), tree_length: fit(encoded.tree().len()) };
    let mut page = Vec::with_capacity(length);
    page.extend_from_slice(header.as_bytes());
    encoded.write(&mut page);
    if checksum {
        header.crc = crc32fast::hash(&page[PageHeader::CRC_LENGTH..]).into();
        page[..PageHeader::CRC_LENGTH].copy_from_slice(header.crc.as_bytes());
    }
    page
}

/// What the metadata says of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageExpect {
    /// The type of its values.
    pub ptype: PType,
    /// Its rows; `None` to take the header's word for it, and to compare it with what is left of the chunk.
    pub rows: Option<u32>,
    /// Values beyond one per row: 1 for OFFSETS.
    pub extra: u32,
    /// Whether its CRC is to be checked.
    pub checksum: bool,
    /// Whether its values must be strings.
    pub utf8: bool,
}

/// A page whose header and tree have been checked. What is costly, as decompression is, happens when it is first decoded, and once.
#[derive(Debug)]
pub struct Page {
    rows: usize,
    tree: EncodingTree,
    root: Node,
}

impl Page {
    /// Opens a page of a chunk without a dictionary; `bytes` are exactly its own.
    pub fn open(bytes: &Bytes, expect: &PageExpect) -> Result<Self> {
        Self::open_with(bytes, expect, || Ok(None))
    }

    /// Opens a page that may need the dictionary of its chunk, which is only then asked for.
    pub(crate) fn open_with(bytes: &Bytes, expect: &PageExpect, dictionary: impl FnOnce() -> Result<Option<Arc<ChunkDictionary>>>) -> Result<Self> {
        let Parts { header, tree, body } = Parts::read(bytes, expect)?;
        let count = header.rows() as u64 + u64::from(expect.extra);
        if tree.count as u64 != count {
            return Err(Error::invalid_file(format!("a page holds {} values instead of {count}", tree.count)));
        }
        let dictionary = if tree.is_shared() { dictionary()? } else { None };
        let root = Node::open(&tree, &body, expect.utf8, dictionary)?;
        Ok(Self { rows: header.rows(), tree, root })
    }

    /// Whether the values are those of the chunk's dictionary.
    pub fn is_shared(&self) -> bool {
        self.tree.is_shared()
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values: as many as rows, but for offsets, of which there is one more.
    pub fn len(&self) -> usize {
        self.root.count()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the values of a range to `out`. The cost follows the range.
    pub fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        self.root.decode(range, out)
    }

    /// Appends those values of a range that have a bit in `keep`.
    pub fn decode_kept(&self, range: Range<usize>, keep: &BooleanBuffer, out: &mut Output) -> Result<()> {
        self.root.decode_kept(range, keep, out)
    }

    /// Appends a code for each value of a range that is not empty, and gives the values that the codes stand for; `None` where the page is not
    /// stored as codes of no more than `most` values.
    pub fn coded(&self, range: Range<usize>, most: usize, codes: &mut Codes) -> Result<Option<Decoded>> {
        self.root.coded(range, most, codes)
    }

    /// Which strings of a range that is not empty have some pieces of text in them; `None` where that is found out by decoding them, or by looking at more than `most` values
    /// that codes stand for.
    pub fn find(&self, range: Range<usize>, most: usize, pieces: &Pieces) -> Result<Option<BooleanBuffer>> {
        self.root.find(range, most, pieces)
    }

    /// How the page is encoded.
    pub fn describe(&self) -> &EncodingTree {
        &self.tree
    }
}

/// A page whose CRC and length are right, taken apart.
struct Parts {
    header: PageHeader,
    tree: EncodingTree,
    body: Bytes,
}

impl Parts {
    fn read(bytes: &Bytes, expect: &PageExpect) -> Result<Self> {
        let header = PageHeader::read(bytes)?;
        if header.length() != bytes.len() || !bytes.len().is_multiple_of(8) {
            return Err(Error::invalid_file(format!("a page of {} bytes says that it has {}", bytes.len(), header.length())));
        }
        if expect.checksum && crc32fast::hash(&bytes[PageHeader::CRC_LENGTH..]) != header.crc.get() {
            return Err(Error::checksum("a page is damaged"));
        }
        let rows = header.row_count.get();
        if expect.rows.is_some_and(|expected| expected != rows) {
            return Err(Error::invalid_file(format!("a page has {rows} rows, and its metadata says {:?}", expect.rows)));
        }
        let tree_end = PageHeader::LENGTH.saturating_add(header.tree_length.get() as usize);
        let body = ceil8(tree_end.min(bytes.len()));
        let (Some(tree), true) = (bytes.get(PageHeader::LENGTH..tree_end), body <= bytes.len()) else {
            return Err(Error::invalid_file("an encoding tree ends behind its page"));
        };
        let tree = EncodingTree::read(tree)?;
        if tree.ptype != expect.ptype {
            return Err(Error::invalid_file(format!("a page holds {} values instead of {}", tree.ptype.name(), expect.ptype.name())));
        }
        Ok(Self { header, tree, body: bytes.slice(body..) })
    }
}

/// How a page is encoded, which may be one of a dictionary or one that needs it.
pub fn describe(bytes: &Bytes, expect: &PageExpect) -> Result<EncodingTree> {
    Parts::read(bytes, expect).map(|parts| parts.tree)
}

/// Opens the pages of a chunk's dictionary, which have no rows; `expect` is what is expected of the pages that it is for.
pub(crate) fn open_dictionary(pages: &[Bytes], expect: &PageExpect) -> Result<ChunkDictionary> {
    let expect = PageExpect { rows: Some(0), ..*expect };
    let open = |bytes: &Bytes| {
        let Parts { tree, body, .. } = Parts::read(bytes, &expect)?;
        if tree.count > COUNT_MAX {
            return Err(Error::invalid_file(format!("a page of a dictionary with {} values", tree.count)));
        }
        Node::open(&tree, &body, expect.utf8, None)
    };
    ChunkDictionary::new(expect.ptype, pages.iter().map(open).collect::<Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ErrorKind;
    use crate::format::codec::{EncodeOptions, Values, encode};
    use arrow::buffer::Buffer;

    #[test]
    fn a_page_is_what_its_metadata_says_or_refused() {
        let offsets = Values::Fixed { ptype: PType::I64, bytes: Buffer::from_vec(vec![0i64, 3, 3, 7]) };
        let encoded = encode(&offsets, None, &EncodeOptions::default()).unwrap();
        let bytes = Bytes::from(write_page(&encoded, 3, true));
        let expect = PageExpect { ptype: PType::I64, rows: Some(3), extra: 1, checksum: true, utf8: false };
        let page = Page::open(&bytes, &expect).unwrap();
        assert_eq!((page.rows(), page.len()), (3, 4));
        let header = PageHeader::read(&bytes).unwrap();
        assert_eq!((header.rows(), header.length()), (3, bytes.len()));

        let kind = |bytes: &Bytes, expect: PageExpect| Page::open(bytes, &expect).unwrap_err().kind();
        for wrong in [PageExpect { rows: Some(4), ..expect }, PageExpect { extra: 0, ..expect }, PageExpect { ptype: PType::U64, ..expect }] {
            assert_eq!(kind(&bytes, wrong), ErrorKind::InvalidFile);
        }
        // Without checksums the field is zero, and then it must not be looked at.
        let unchecked = Bytes::from(write_page(&encoded, 3, false));
        assert_eq!(kind(&unchecked, expect), ErrorKind::Checksum);
        assert_eq!(Page::open(&unchecked, &PageExpect { checksum: false, rows: None, ..expect }).unwrap().rows(), 3);
        assert_eq!(&unchecked[..4], [0; 4]);
    }
}
