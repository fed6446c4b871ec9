//! The parts of a file, each with its place.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use arrow::util::display::array_value_to_string;
use bytes::Bytes;

use crate::format::array::leaf_ptype;
use crate::format::codec::{EncodingTree, PType};
use crate::format::error::{Error, Result};
use crate::format::fermion::batches::BatchColumn;
use crate::format::fermion::cmb::{Chunk, Cmb, Pages, StreamType};
use crate::format::fermion::footer::{Footer, HEADER_LENGTH};
use crate::format::fermion::page::{PageExpect, PageHeader, describe};
use crate::format::fermion::read::{ColumnMeta, FileMeta, LoadColumns};
use crate::format::fermion::schema::stream_leaves;
use crate::format::fermion::stats::{Bounds, Which, ZoneStats, bound_array, prunable_type};
use crate::format::scan::{Fetch, Load, Loading, Section};

/// What a part of a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartKind {
    /// The magic at the beginning.
    Header,
    /// A page of rows.
    Page,
    /// A page of the dictionary of a chunk.
    Dictionary,
    /// The bloom filter of a chunk.
    BloomFilter,
    /// Nothing, so that a stripe fits into the blocks of a file system.
    Padding,
    /// The metadata of a column.
    ColumnMetadata,
    /// Names and types.
    Schema,
    /// Where the metadata of columns is.
    ColumnIndex,
    /// Where stripes are.
    StripeDirectory,
    /// Where all of that is.
    Footer,
}

impl PartKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Page => "page",
            Self::Dictionary => "dictionary",
            Self::BloomFilter => "bloom filter",
            Self::Padding => "padding",
            Self::ColumnMetadata => "column metadata",
            Self::Schema => "schema",
            Self::ColumnIndex => "column index",
            Self::StripeDirectory => "stripe directory",
            Self::Footer => "footer",
        }
    }
}

/// A part of a file. All parts, of the file and of its columns, are the whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePart {
    /// What it is.
    pub kind: PartKind,
    /// Where it is.
    pub range: Range<u64>,
    /// The stripe that it belongs to.
    pub stripe: Option<usize>,
    /// The stream that it belongs to, by its index among those of the column, and what that holds.
    pub stream: Option<(usize, StreamType)>,
    /// Slots of a page; values of a dictionary's.
    pub slots: Option<u64>,
    /// Slots that are null, if known.
    pub nulls: Option<u64>,
    /// A lower bound of the values, as text.
    pub min: Option<String>,
    /// An upper bound.
    pub max: Option<String>,
    /// How a page is encoded: `DICTIONARY(FRAME, PLAIN+ZSTD)` has two children, the second of which has a compressed buffer.
    pub encoding: Option<String>,
}

impl FilePart {
    fn new(kind: PartKind, range: Range<u64>) -> Self {
        Self { kind, range, stripe: None, stream: None, slots: None, nulls: None, min: None, max: None, encoding: None }
    }
}

/// The parts of a file that belong to no column.
pub fn file_parts(meta: &FileMeta) -> Vec<FilePart> {
    let footer = meta.footer();
    let mut parts = vec![FilePart::new(PartKind::Header, 0..HEADER_LENGTH)];
    parts.extend(between_stripes(meta).map(|range| FilePart::new(PartKind::Padding, range)));
    parts.push(FilePart::new(PartKind::Schema, footer.schema_area()));
    if footer.has_cit() {
        parts.push(FilePart::new(PartKind::ColumnIndex, footer.cit_area()));
    }
    parts.extend([
        FilePart::new(PartKind::StripeDirectory, footer.stripe_area()),
        FilePart::new(PartKind::Footer, meta.file_length() - Footer::LENGTH as u64..meta.file_length()),
    ]);
    parts
}

/// What lies between stripes, and before the metadata.
fn between_stripes(meta: &FileMeta) -> impl Iterator<Item = Range<u64>> + '_ {
    let stripes = meta.stripes().iter().filter(|stripe| stripe.length > 0).map(|stripe| stripe.offset..stripe.offset + stripe.length);
    let mut end = HEADER_LENGTH;
    let next = stripes.chain(std::iter::once(meta.footer().cmb_offset..meta.footer().cmb_offset));
    next.map(move |stripe| std::mem::replace(&mut end, stripe.end)..stripe.start).filter(|range| !range.is_empty())
}

/// Finds the parts of a column, for which all its pages are read.
#[derive(Debug)]
pub struct InspectColumn {
    meta: Arc<FileMeta>,
    column: usize,
    state: State,
    parts: Vec<FilePart>,
}

#[derive(Debug)]
enum State {
    Metadata(LoadColumns),
    /// Waits for the chunks of a stripe.
    Stripe {
        stripe: usize,
        chunks: Vec<(usize, Pages)>,
    },
    Done,
}

impl InspectColumn {
    /// Begins with a column of an open file.
    pub fn new(meta: &Arc<FileMeta>, column: usize) -> Self {
        Self { meta: Arc::clone(meta), column, state: State::Metadata(meta.load_columns(&[column])), parts: Vec::new() }
    }

    fn begin(&mut self) -> Result<Loading<Vec<FilePart>>> {
        // What batches are made of is shown with their ids.
        if self.meta.batch_column(self.column) == Some(BatchColumn::Index) {
            return Ok(self.finish());
        }
        let range = self.meta.cmb_range(self.column)?;
        if !range.is_empty() {
            self.parts.push(FilePart::new(PartKind::ColumnMetadata, range));
        }
        self.go_on(0)
    }

    /// Asks for the chunks of the next stripe that has any.
    fn go_on(&mut self, stripe: usize) -> Result<Loading<Vec<FilePart>>> {
        let Some(ColumnMeta::Cmb(cmb)) = self.meta.column(self.column)? else { return Ok(self.finish()) };
        for stripe in stripe..self.meta.stripes().len() {
            let chunks = chunks(&cmb, stripe).map_err(|error| self.meta.in_cmb(error, self.column))?;
            if !chunks.is_empty() {
                let range = |pages: &Pages| pages.offset..pages.offset + u64::from(pages.length);
                let fetches = chunks.iter().map(|(_, pages)| Fetch { range: range(pages), section: Section::Data }).collect();
                self.state = State::Stripe { stripe, chunks };
                return Ok(Loading::Fetch(fetches));
            }
        }
        Ok(self.finish())
    }

    fn finish(&mut self) -> Loading<Vec<FilePart>> {
        self.parts.sort_by_key(|part| part.range.start);
        Loading::Ready(std::mem::take(&mut self.parts))
    }

    fn take(&mut self, stripe: usize, chunks: &[(usize, Pages)], fetched: &[Bytes]) -> Result<()> {
        if chunks.len() != fetched.len() {
            return Err(Error::invalid_argument(format!("{} chunks were asked for, not {}", chunks.len(), fetched.len())));
        }
        let field = self.meta.field(self.column)?;
        let leaves = match self.meta.batch_column(self.column) {
            Some(_) => vec![(StreamType::BatchMeta, Some(field.data_type())), (StreamType::BatchMeta, None)],
            None => stream_leaves(field.data_type()),
        };
        for ((stream, pages), bytes) in chunks.iter().zip(fetched) {
            let (stream_type, leaf) = leaves.get(*stream).copied().ok_or_else(|| Error::invalid_file("a stream that the type does not have"))?;
            let chunk = ChunkParts { pages, stripe, stream: (*stream, stream_type), leaf, checksums: self.meta.has_checksums() };
            let found = chunk.parts(bytes);
            self.parts.extend(found.map_err(|error| error.in_section(Section::Data).in_column(field.name()).at(pages.offset))?);
        }
        Ok(())
    }
}

impl Load for InspectColumn {
    type Output = Vec<FilePart>;

    fn resume(&mut self, fetched: Vec<Bytes>) -> Result<Loading<Self::Output>> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Metadata(mut load) => match load.resume(fetched)? {
                Loading::Fetch(fetches) => {
                    self.state = State::Metadata(load);
                    Ok(Loading::Fetch(fetches))
                }
                Loading::Ready(()) => self.begin(),
            },
            State::Stripe { stripe, chunks } => {
                self.take(stripe, &chunks, &fetched)?;
                self.go_on(stripe + 1)
            }
            State::Done => Err(Error::invalid_argument("the column has been looked at already")),
        }
    }
}

/// The chunks of a stripe that are stored, with their streams.
fn chunks(cmb: &Cmb, stripe: usize) -> Result<Vec<(usize, Pages)>> {
    let mut found = Vec::new();
    for stream in 0..cmb.streams().len() {
        if let Chunk::Pages(pages) = cmb.chunk(stream, stripe)? {
            found.push((stream, *pages));
        }
    }
    Ok(found)
}

/// A chunk, and what is known of its stream.
struct ChunkParts<'a> {
    pages: &'a Pages,
    stripe: usize,
    stream: (usize, StreamType),
    /// The type of its values, where those are a column's.
    leaf: Option<&'a DataType>,
    checksums: bool,
}

impl ChunkParts<'_> {
    fn parts(&self, bytes: &Bytes) -> Result<Vec<FilePart>> {
        let mut parts = Vec::new();
        let mut known = self.pages.pages.iter();
        let mut dictionary = self.pages.dictionary.len();
        let mut at = 0;
        while at < bytes.len() {
            let offset = self.pages.offset + at as u64;
            let length = PageHeader::read(&bytes[at..])?.length();
            let end = at.checked_add(length).filter(|end| length >= PageHeader::LENGTH && *end <= bytes.len());
            let end = end.ok_or_else(|| Error::invalid_file(format!("a page of {length} bytes does not fit its chunk")).at(offset))?;
            let page = bytes.slice(at..end);
            let (header, tree) = (PageHeader::read(&page)?, self.describe(&page).map_err(|error| error.at(offset))?);
            let mut part = FilePart { encoding: Some(summary(&tree)), ..self.part(PartKind::Page, offset..self.pages.offset + end as u64) };
            if dictionary > 0 {
                dictionary -= 1;
                (part.kind, part.slots) = (PartKind::Dictionary, Some(tree.count as u64));
            } else {
                part.slots = Some(header.rows() as u64);
                if let Some(page) = known.next() {
                    let bounds = self.pages.bounds.as_ref().filter(|_| self.pages.pages.len() == 1);
                    self.add_statistics(&mut part, page.stats, bounds)?;
                }
            }
            parts.push(part);
            at = end;
        }
        parts.extend(self.pages.filter.iter().map(|filter| self.part(PartKind::BloomFilter, filter.range())));
        Ok(parts)
    }

    fn part(&self, kind: PartKind, range: Range<u64>) -> FilePart {
        FilePart { stripe: Some(self.stripe), stream: Some(self.stream), ..FilePart::new(kind, range) }
    }

    fn describe(&self, page: &Bytes) -> Result<EncodingTree> {
        let ptype = match (self.stream.1, self.leaf) {
            (StreamType::Validity, _) => PType::Bool,
            (StreamType::Offsets, _) => PType::I64,
            (StreamType::Data, Some(leaf)) => leaf_ptype(leaf).ok_or_else(|| Error::unsupported(format!("values of {leaf} are not known")))?,
            // The type ids of a union.
            (StreamType::Data, None) => PType::I8,
            (StreamType::BatchMeta, Some(_)) => PType::I64,
            (StreamType::BatchMeta, None) => PType::U32,
        };
        let extra = u32::from(self.stream.1 == StreamType::Offsets);
        describe(page, &PageExpect { ptype, rows: None, extra, checksum: self.checksums, utf8: false })
    }

    fn add_statistics(&self, part: &mut FilePart, stats: ZoneStats, bounds: Option<&Bounds>) -> Result<()> {
        part.nulls = stats.nulls().map(u64::from);
        if let Some(leaf) = self.leaf.and_then(prunable_type) {
            let bound = |which| Ok::<_, Error>(text(&bound_array(leaf, std::iter::once((stats, bounds)), which)?));
            (part.min, part.max) = (bound(Which::Min)?, bound(Which::Max)?);
        }
        Ok(())
    }
}

/// A value as text; `None` if it is null.
fn text(value: &ArrayRef) -> Option<String> {
    value.is_valid(0).then(|| array_value_to_string(value, 0).unwrap_or_default())
}

/// An encoding and those of its children, in one line.
fn summary(tree: &EncodingTree) -> String {
    let mut text = tree.encoding.name().to_owned();
    if tree.buffers.iter().any(|buffer| buffer.compression != 0) {
        text.push_str("+ZSTD");
    }
    if !tree.children.is_empty() {
        let children: Vec<String> = tree.children.iter().map(summary).collect();
        text.push_str(&format!("({})", children.join(", ")));
    }
    text
}
