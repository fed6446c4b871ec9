//! The encoding tree of a page, read and written.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::buffer::BooleanBuffer;
use bytes::Bytes;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::buffer::{EncodedBuffer, StoredBuffer, ZSTD};
use super::plain::rebase;
use super::{BLOCK, ChunkDictionary, Codes, Decode, Decoded, EncodingId, Output, PType};
use crate::format::search::Pieces;
use crate::format::wire::{ceil8, pad8, read, read_slice};
use crate::format::{Error, Result};

/// The most values of a node, unless it is a root that says them without listing them. Bounds what a few bytes can make a reader allocate; the
/// one above 2²⁰ is the last offset of as many lists.
pub const COUNT_MAX: usize = (1 << 20) + 1;
const DEPTH_MAX: usize = 8;
const NODES_MAX: usize = 32;

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct NodeHeader {
    encoding: u8,
    ptype: u8,
    child_count: u8,
    buffer_count: u8,
    count: U32,
    param0: U64,
    param1: U64,
}

const _: () = assert!(size_of::<NodeHeader>() == 24);

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct BufferDesc {
    offset: U32,
    length: U32,
    raw_length: U32,
    compression: u8,
    reserved: [u8; 3],
}

const _: () = assert!(size_of::<BufferDesc>() == 16);

/// How values are encoded, without the bytes: to be printed, and what a `Node` is opened from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodingTree {
    /// The encoding of this node.
    pub encoding: EncodingId,
    /// What it encodes.
    pub ptype: PType,
    /// How many values it encodes.
    pub count: usize,
    /// Its parameters, which mean what the encoding says.
    pub params: [u64; 2],
    /// Its own buffers.
    pub buffers: Vec<BufferInfo>,
    /// The trees of its children.
    pub children: Vec<EncodingTree>,
}

/// A buffer of an [`EncodingTree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferInfo {
    /// Its first byte, counted from the end of the tree.
    pub offset: usize,
    /// Its bytes in the page.
    pub length: usize,
    /// Its bytes when decompressed.
    pub raw_length: usize,
    /// How it is compressed: 0 not at all, 1 by ZSTD.
    pub compression: u8,
}

impl EncodingTree {
    /// Reads a tree that takes all of `bytes`.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        let mut reader = TreeReader { bytes, at: 0, nodes: 0 };
        let tree = reader.node(1)?;
        if reader.at == bytes.len() { Ok(tree) } else { Err(Error::invalid_file("there are bytes behind the encoding tree")) }
    }

    /// Whether it stands for values of its chunk's dictionary.
    pub fn is_shared(&self) -> bool {
        self.encoding == EncodingId::Dictionary && self.children.len() == 1
    }

    fn print(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        if depth > 0 {
            write!(f, "\n{:indent$}", "", indent = 2 * depth)?;
        }
        write!(f, "{} {} x {}", self.encoding.name(), self.ptype.name(), self.count)?;
        for buffer in &self.buffers {
            write!(f, ", {} bytes", buffer.length)?;
            if buffer.compression == ZSTD {
                write!(f, " (ZSTD of {})", buffer.raw_length)?;
            }
        }
        self.children.iter().try_for_each(|child| child.print(f, depth + 1))
    }
}

impl fmt::Display for EncodingTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f, 0)
    }
}

struct TreeReader<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: usize,
}

impl TreeReader<'_> {
    fn node(&mut self, depth: usize) -> Result<EncodingTree> {
        self.nodes += 1;
        if depth > DEPTH_MAX || self.nodes > NODES_MAX {
            return Err(Error::invalid_file(format!("an encoding tree of more than {DEPTH_MAX} levels or {NODES_MAX} nodes")));
        }
        let header: &NodeHeader = read(self.bytes, self.at, "an encoding node")?;
        self.at += size_of::<NodeHeader>();
        let encoding = EncodingId::from_id(header.encoding)?;
        let count = header.count.get() as usize;
        if count > COUNT_MAX && !(depth == 1 && encoding.is_unlisted()) {
            return Err(Error::invalid_file(format!("a {} node of {count} values", encoding.name())));
        }
        let descriptors: &[BufferDesc] = read_slice(self.bytes, self.at, usize::from(header.buffer_count), "a node's buffers")?;
        self.at += size_of_val(descriptors);
        let children = (0..header.child_count).map(|_| self.node(depth + 1)).collect::<Result<_>>()?;
        Ok(EncodingTree {
            encoding,
            ptype: PType::from_id(header.ptype)?,
            count,
            params: [header.param0.get(), header.param1.get()],
            buffers: descriptors.iter().map(BufferInfo::from).collect(),
            children,
        })
    }
}

impl From<&BufferDesc> for BufferInfo {
    fn from(descriptor: &BufferDesc) -> Self {
        Self {
            offset: descriptor.offset.get() as usize,
            length: descriptor.length.get() as usize,
            raw_length: descriptor.raw_length.get() as usize,
            compression: descriptor.compression,
        }
    }
}

/// Encoded values that can be decoded: a tree whose shape has been checked.
#[derive(Debug)]
pub(crate) struct Node {
    ptype: PType,
    count: usize,
    decoder: Box<dyn Decode>,
    all: OnceLock<Decoded>,
}

impl Node {
    /// Opens a tree over the buffers behind it. `utf8` says that values of BYTES must be strings; `dictionary` is that of the chunk, for the root.
    pub(crate) fn open(tree: &EncodingTree, body: &Bytes, utf8: bool, dictionary: Option<Arc<ChunkDictionary>>) -> Result<Self> {
        let buffers = tree.buffers.iter().map(|buffer| {
            let end = buffer.offset.checked_add(buffer.length).filter(|end| *end <= body.len());
            let end =
                end.ok_or_else(|| Error::invalid_file(format!("a buffer of {} bytes at {} ends behind its page", buffer.length, buffer.offset)))?;
            StoredBuffer::new(body.slice(buffer.offset..end), buffer.raw_length, buffer.compression)
        });
        let buffers = buffers.collect::<Result<_>>()?;
        let children = tree.children.iter().map(|child| Self::open(child, body, utf8, None)).collect::<Result<_>>()?;
        let EncodingTree { encoding, ptype, count, params, .. } = *tree;
        let decoder = encoding.implementation().open(Parts { encoding, ptype, count, params, utf8, buffers, children, dictionary })?;
        Ok(Self { ptype, count, decoder, all: OnceLock::new() })
    }

    pub(crate) fn ptype(&self) -> PType {
        self.ptype
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Appends the values of a range to `out`.
    pub(crate) fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        if range.start > range.end || range.end > self.count {
            return Err(Error::invalid_argument(format!("values {range:?} of {}", self.count)));
        }
        if out.ptype() != self.ptype {
            return Err(Error::invalid_argument(format!("{} values into an output of {}", self.ptype.name(), out.ptype().name())));
        }
        if range.is_empty() { Ok(()) } else { self.decoder.decode(range, out) }
    }

    /// Appends those values of a range that have a bit in `keep`. What is not kept never leaves the nearest cache.
    pub(crate) fn decode_kept(&self, range: Range<usize>, keep: &BooleanBuffer, out: &mut Output) -> Result<()> {
        if keep.len() != range.len() || range.end > self.count {
            return Err(Error::invalid_argument(format!("{} bits for values {range:?} of {}", keep.len(), self.count)));
        }
        if out.ptype() != self.ptype {
            return Err(Error::invalid_argument(format!("{} values into an output of {}", self.ptype.name(), out.ptype().name())));
        }
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / BLOCK + 1) * BLOCK);
            let bits = keep.slice(at - range.start, end - at);
            if bits.set_indices().next().is_some() {
                self.decoder.decode_kept(at..end, &bits, out)?;
            }
            at = end;
        }
        Ok(())
    }

    /// Appends a code for each value of a range that is not empty, and gives the values that the codes stand for, if it is stored as codes of no
    /// more than `most` values; those need not be distinct.
    pub(crate) fn coded(&self, range: Range<usize>, most: usize, codes: &mut Codes) -> Result<Option<Decoded>> {
        if range.is_empty() || range.end > self.count {
            return Err(Error::invalid_argument(format!("values {range:?} of {}", self.count)));
        }
        self.decoder.coded(range, most, codes)
    }

    /// Which strings of a range that is not empty have some pieces of text in them; `None` where that is found out by decoding them, or by looking at more than `most`.
    pub(crate) fn find(&self, range: Range<usize>, most: usize, pieces: &Pieces) -> Result<Option<BooleanBuffer>> {
        if range.is_empty() || range.end > self.count {
            return Err(Error::invalid_argument(format!("values {range:?} of {}", self.count)));
        }
        self.decoder.find(range, most, pieces)
    }

    /// All values, decoded once and kept. For the children that a parent looks up at random; [`COUNT_MAX`] bounds their size.
    pub(super) fn all(&self) -> Result<&Decoded> {
        if let Some(all) = self.all.get() {
            return Ok(all);
        }
        let mut out = Output::new(self.ptype, self.count);
        self.decode(0..self.count, &mut out)?;
        Ok(self.all.get_or_init(|| out.finish()))
    }

    /// Whether all values are at hand.
    pub(super) fn is_decoded(&self) -> bool {
        self.all.get().is_some()
    }

    /// Appends all values, as decoded before or now.
    pub(super) fn append_all(&self, out: &mut Output) -> Result<()> {
        match self.all.get() {
            Some(Decoded::Views { views, buffers }) => {
                let (out, base) = out.views(buffers)?;
                out.extend(views.iter().map(|&view| rebase(view, base)));
                Ok(())
            }
            _ => self.decode(0..self.count, out),
        }
    }
}

/// What a node of a page is made of; each encoding takes it apart and refuses what does not fit.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) encoding: EncodingId,
    pub(super) ptype: PType,
    pub(super) count: usize,
    pub(super) params: [u64; 2],
    pub(super) utf8: bool,
    buffers: Vec<StoredBuffer>,
    children: Vec<Node>,
    dictionary: Option<Arc<ChunkDictionary>>,
}

impl Parts {
    /// Takes the dictionary of the chunk, if the node stands for values of it: a root that says no values of its own.
    pub(super) fn take_dictionary(&mut self) -> Option<Arc<ChunkDictionary>> {
        self.dictionary.take().filter(|_| self.children.len() == 1)
    }

    /// Takes the buffers and children, of which there must be exactly this many.
    pub(super) fn take<const BUFFERS: usize, const CHILDREN: usize>(&mut self) -> Result<([StoredBuffer; BUFFERS], [Node; CHILDREN])> {
        let buffers = std::mem::take(&mut self.buffers).try_into();
        let children = std::mem::take(&mut self.children).try_into();
        match (buffers, children) {
            (Ok(buffers), Ok(children)) => Ok((buffers, children)),
            _ => Err(self.invalid(format!("needs {BUFFERS} buffers and {CHILDREN} children"))),
        }
    }

    /// Takes the buffers of a node without children, however many.
    pub(super) fn take_buffers(&mut self) -> Result<Vec<StoredBuffer>> {
        self.check(self.children.is_empty(), "it has children")?;
        Ok(std::mem::take(&mut self.buffers))
    }

    /// Refuses the node unless `holds`.
    pub(super) fn check(&self, holds: bool, rule: &str) -> Result<()> {
        if holds { Ok(()) } else { Err(self.invalid(rule)) }
    }

    fn invalid(&self, rule: impl fmt::Display) -> Error {
        Error::invalid_file(format!("a {} node of {} {} values: {rule}", self.encoding.name(), self.count, self.ptype.name()))
    }
}

/// An encoding tree with its buffers, to be written.
#[derive(Debug, Clone)]
pub(super) struct EncodedNode {
    pub(super) encoding: EncodingId,
    pub(super) ptype: PType,
    pub(super) count: usize,
    pub(super) params: [u64; 2],
    pub(super) buffers: Vec<EncodedBuffer>,
    pub(super) children: Vec<EncodedNode>,
}

impl EncodedNode {
    /// Bytes that it takes in a page.
    pub(super) fn size(&self) -> usize {
        let buffers: usize = self.buffers.iter().map(|buffer| size_of::<BufferDesc>() + ceil8(buffer.stored.len())).sum();
        size_of::<NodeHeader>() + buffers + self.children.iter().map(Self::size).sum::<usize>()
    }

    fn depth(&self) -> usize {
        1 + self.children.iter().map(Self::depth).max().unwrap_or(0)
    }

    fn nodes(&self) -> usize {
        1 + self.children.iter().map(Self::nodes).sum::<usize>()
    }
}

/// Encoded values: what a page is written from.
#[derive(Debug, Clone)]
pub struct Encoded {
    tree: Vec<u8>,
    buffers: Vec<Vec<u8>>,
    /// Bytes of the buffers, each padded.
    body_length: usize,
    count: usize,
}

impl Encoded {
    pub(super) fn new(root: EncodedNode) -> Result<Self> {
        if root.depth() > DEPTH_MAX || root.nodes() > NODES_MAX {
            return Err(Error::invalid_argument(format!("a page would need an encoding tree of more than {DEPTH_MAX} levels or {NODES_MAX} nodes")));
        }
        let mut encoded = Self { tree: Vec::new(), buffers: Vec::new(), body_length: 0, count: root.count };
        encoded.push(root)?;
        // With room for a header, so that writing the page cannot fail.
        to_u32(encoded.size() + 64)?;
        Ok(encoded)
    }

    fn push(&mut self, node: EncodedNode) -> Result<()> {
        let header = NodeHeader {
            encoding: node.encoding.id(),
            ptype: node.ptype.id(),
            child_count: u8::try_from(node.children.len()).map_err(|_| too_large())?,
            buffer_count: u8::try_from(node.buffers.len()).map_err(|_| too_large())?,
            count: to_u32(node.count)?.into(),
            param0: node.params[0].into(),
            param1: node.params[1].into(),
        };
        self.tree.extend_from_slice(header.as_bytes());
        for buffer in node.buffers {
            let descriptor = BufferDesc {
                offset: to_u32(self.body_length)?.into(),
                length: to_u32(buffer.stored.len())?.into(),
                raw_length: to_u32(buffer.raw_length)?.into(),
                compression: buffer.compression,
                reserved: [0; 3],
            };
            self.tree.extend_from_slice(descriptor.as_bytes());
            self.body_length += ceil8(buffer.stored.len());
            self.buffers.push(buffer.stored);
        }
        node.children.into_iter().try_for_each(|child| self.push(child))
    }

    /// The encoding tree, without padding.
    pub(crate) fn tree(&self) -> &[u8] {
        &self.tree
    }

    /// Appends the tree and the buffers, each padded to a multiple of 8, as `page` itself must be.
    pub(crate) fn write(&self, page: &mut Vec<u8>) {
        page.reserve(self.size());
        for part in std::iter::once(&self.tree).chain(&self.buffers) {
            page.extend_from_slice(part);
            pad8(page);
        }
    }

    /// How many values there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the tree and the buffers: a page's, but for its header.
    pub fn size(&self) -> usize {
        ceil8(self.tree.len()) + self.body_length
    }
}

fn to_u32(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| too_large())
}

fn too_large() -> Error {
    Error::invalid_argument("a page of 4 GiB or more")
}
