//! The metadata of a record batch or of the values of a dictionary: where its buffers are.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use arrow_ipc as fb;
use bytes::Bytes;

use super::compress::Codec;
use super::flat;
use super::schema::{Counts, Positions};
use crate::format::error::{Error, Result};

/// The most rows of a record batch. The specification lets readers stop there.
pub(crate) const ROWS_MAX: usize = (1 << 31) - 1;

/// Where Arrow 0.17 says how bodies are compressed.
const OLD_COMPRESSION: &str = "ARROW:experimental_compression";

/// What a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Rows.
    Records,
    /// Values of a dictionary.
    Dictionary {
        /// Whose.
        id: i64,
        /// They are added to those that are there; else they replace them.
        is_delta: bool,
    },
}

/// A message with a body. Its metadata has been verified, and is looked at where it lies.
#[derive(Debug)]
pub(crate) struct BatchMeta {
    metadata: Bytes,
    /// What it says of each column, once that of any is asked for: to look for it anew is to verify the metadata anew.
    facts: OnceLock<Box<[ColumnFacts]>>,
    pub(crate) kind: Kind,
    pub(crate) rows: usize,
    pub(crate) codec: Option<Codec>,
    /// Unions and run-end encoded fields have bitmaps: the metadata is older than V5.
    pub(crate) old_bitmaps: bool,
    /// Where the body is in the file.
    pub(crate) body: Range<u64>,
}

/// What the metadata says of a column without its data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnFacts {
    /// The column's own field.
    first: fb::FieldNode,
    /// Bytes of all its buffers, if they can be what they are said to be.
    bytes: Option<u64>,
}

/// Length and nulls of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) length: usize,
    /// `None` if they have not been counted.
    pub(crate) null_count: Option<usize>,
}

/// The part of a record batch that is one column's.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parts {
    pub(crate) nodes: Vec<Node>,
    /// Where its buffers are in the file.
    pub(crate) buffers: Vec<Range<u64>>,
    /// How many buffers each field has that has any number of them.
    pub(crate) variadic: Vec<usize>,
}

impl BatchMeta {
    /// Of a message with this metadata, whose body begins at `body_start`.
    pub(crate) fn read(metadata: Bytes, body_start: u64) -> Result<Self> {
        let message = flat::message(&metadata)?;
        let (kind, batch) = contents(&message)?;
        let rows = flat::unsigned(batch.length(), "the length of a batch")?;
        let rows = usize::try_from(rows).ok().filter(|rows| *rows <= ROWS_MAX || matches!(kind, Kind::Dictionary { .. }));
        let rows = rows.ok_or_else(|| Error::unsupported(format!("a batch has more than {ROWS_MAX} rows; write smaller batches")))?;
        let length = flat::unsigned(message.bodyLength(), "the length of a body")?;
        let end = body_start.checked_add(length).ok_or_else(|| Error::eof("a body ends beyond the end of the file"))?;
        let is_old = message.version() < fb::MetadataVersion::V5;
        let codec = match batch.compression() {
            Some(compression) => Some(Codec::read(&compression)?),
            None if is_old => old_codec(&message)?,
            None => None,
        };
        Ok(Self { kind, rows, codec, old_bitmaps: is_old, body: body_start..end, metadata, facts: OnceLock::new() })
    }

    /// The message's own metadata.
    pub(crate) fn custom_metadata(&self) -> Result<HashMap<String, String>> {
        Ok(flat::key_values(flat::message(&self.metadata)?.custom_metadata()).collect())
    }

    /// The parts of these columns of a batch whose columns lie as `positions` says.
    pub(crate) fn parts(&self, positions: &Positions, columns: impl Iterator<Item = usize>) -> Result<Vec<Parts>> {
        let message = flat::message(&self.metadata)?;
        let (_, batch) = contents(&message)?;
        let flattened = Flattened::new(self, &batch, positions.total())?;
        columns.map(|column| flattened.column(positions, column)).collect()
    }

    /// How many nulls a column says it has.
    pub(crate) fn null_count(&self, positions: &Positions, column: usize) -> Result<Option<usize>> {
        let node = node_of(&self.facts(positions, column)?.first)?;
        node.check_rows(self.rows)?;
        Ok(node.null_count)
    }

    /// Bytes of a column's buffers; nobody knows without the data if they are compressed.
    pub(crate) fn bytes(&self, positions: &Positions, column: usize) -> Result<Option<u64>> {
        if self.codec.is_some() { Ok(None) } else { Ok(self.facts(positions, column)?.bytes) }
    }

    fn facts(&self, positions: &Positions, column: usize) -> Result<ColumnFacts> {
        let facts = match self.facts.get() {
            Some(facts) => facts,
            None => {
                let facts = self.read_facts(positions)?;
                self.facts.get_or_init(|| facts)
            }
        };
        facts.get(column).copied().ok_or_else(no_such_column)
    }

    fn read_facts(&self, positions: &Positions) -> Result<Box<[ColumnFacts]>> {
        let message = flat::message(&self.metadata)?;
        let (_, batch) = contents(&message)?;
        let flattened = Flattened::new(self, &batch, positions.total())?;
        Ok(positions.all().map(|(from, to)| flattened.facts(from, to)).collect())
    }
}

impl Node {
    /// A column has as many slots as its batch has rows.
    pub(crate) fn check_rows(&self, rows: usize) -> Result<()> {
        if self.length == rows { Ok(()) } else { Err(Error::invalid_file(format!("a column of a batch of {rows} rows has {}", self.length))) }
    }
}

fn old_codec(message: &fb::Message<'_>) -> Result<Option<Codec>> {
    let name = flat::key_values(message.custom_metadata()).find(|(key, _)| key == OLD_COMPRESSION);
    name.map_or(Ok(None), |(_, name)| Codec::of_old(&name))
}

fn contents<'a>(message: &fb::Message<'a>) -> Result<(Kind, fb::RecordBatch<'a>)> {
    let missing = || Error::invalid_file("a message has no contents");
    match message.header_type() {
        fb::MessageHeader::RecordBatch => Ok((Kind::Records, message.header_as_record_batch().ok_or_else(missing)?)),
        fb::MessageHeader::DictionaryBatch => {
            let dictionary = message.header_as_dictionary_batch().ok_or_else(missing)?;
            let kind = Kind::Dictionary { id: dictionary.id(), is_delta: dictionary.isDelta() };
            Ok((kind, dictionary.data().ok_or_else(missing)?))
        }
        fb::MessageHeader::Schema => Err(Error::invalid_file("a second schema; streams one behind the other are to be read one by one")),
        fb::MessageHeader::Tensor | fb::MessageHeader::SparseTensor => Err(Error::unsupported("a tensor is no table")),
        other => Err(Error::unsupported(format!("a message of kind {}, which this reader does not know", other.0))),
    }
}

fn no_such_column() -> Error {
    Error::invalid_argument("a column that the file does not have")
}

fn node_of(node: &fb::FieldNode) -> Result<Node> {
    let length = flat::length(node.length(), "the length of a field")?;
    let null_count = match node.null_count() {
        -1 => None,
        count => Some(flat::length(count, "a null count")?),
    };
    if null_count.is_some_and(|count| count > length) {
        return Err(Error::invalid_file(format!("a field of {length} slots says that it has {} nulls", node.null_count())));
    }
    Ok(Node { length, null_count })
}

/// The flattened fields of a batch, of which there are as many as the schema demands.
struct Flattened<'a> {
    meta: &'a BatchMeta,
    nodes: flatbuffers::Vector<'a, fb::FieldNode>,
    buffers: flatbuffers::Vector<'a, fb::Buffer>,
    /// How many variadic buffers there are before each field that has them, and in all.
    variadic_before: Vec<usize>,
}

impl<'a> Flattened<'a> {
    fn new(meta: &'a BatchMeta, batch: &fb::RecordBatch<'a>, total: Counts) -> Result<Self> {
        let mut variadic_before = vec![0_usize];
        for count in batch.variadicBufferCounts().into_iter().flatten() {
            let sum = variadic_before.last().copied().unwrap_or(0).saturating_add(flat::length(count, "a count of buffers")?);
            variadic_before.push(sum);
        }
        if variadic_before.len() != total.variadic + 1 {
            return Err(Error::invalid_file(format!("a batch counts the buffers of {} fields of {}", variadic_before.len() - 1, total.variadic)));
        }
        let variadic = variadic_before.last().copied().unwrap_or(0);
        let bitmaps = if meta.old_bitmaps { total.old_bitmaps } else { 0 };
        let buffers_wanted = total.buffers.saturating_add(bitmaps).saturating_add(variadic);
        let nodes = batch.nodes().unwrap_or_default();
        let buffers = batch.buffers().unwrap_or_default();
        if (nodes.len(), buffers.len()) != (total.nodes, buffers_wanted) {
            let (nodes, buffers) = (nodes.len(), buffers.len());
            let message = format!("a batch has {nodes} fields and {buffers} buffers, its schema {} and {buffers_wanted}", total.nodes);
            return Err(Error::invalid_file(message));
        }
        Ok(Self { meta, nodes, buffers, variadic_before })
    }

    fn column(&self, positions: &Positions, column: usize) -> Result<Parts> {
        let (from, to) = positions.of(column).ok_or_else(no_such_column)?;
        let buffers = self.buffers_before(from)..self.buffers_before(to);
        let nodes = self.nodes.iter().skip(from.nodes).take(to.nodes - from.nodes).map(node_of).collect::<Result<Vec<_>>>()?;
        let ranges = self.buffers.iter().skip(buffers.start).take(buffers.len()).map(|buffer| self.range(buffer)).collect::<Result<Vec<_>>>()?;
        check_apart(&ranges)?;
        let variadic = self.variadic_before.windows(2).skip(from.variadic).take(to.variadic - from.variadic);
        let variadic = variadic.filter_map(|pair| Some(pair.last()? - pair.first()?)).collect();
        Ok(Parts { nodes, buffers: ranges, variadic })
    }

    /// What is said of a column. Lengths that cannot be are found where the column is read.
    fn facts(&self, from: Counts, to: Counts) -> ColumnFacts {
        // Not one after the other: there may be thousands between them.
        let mut lengths = (self.buffers_before(from)..self.buffers_before(to)).map(|index| self.buffers.get(index).length());
        let bytes = lengths.try_fold(0_u64, |sum, length| sum.checked_add(u64::try_from(length).ok()?));
        ColumnFacts { first: *self.nodes.get(from.nodes), bytes }
    }

    fn buffers_before(&self, counts: Counts) -> usize {
        let bitmaps = if self.meta.old_bitmaps { counts.old_bitmaps } else { 0 };
        counts.buffers + bitmaps + self.variadic_before.get(counts.variadic).copied().unwrap_or(0)
    }

    fn range(&self, buffer: &fb::Buffer) -> Result<Range<u64>> {
        let offset = flat::unsigned(buffer.offset(), "the offset of a buffer")?;
        let length = flat::unsigned(buffer.length(), "the length of a buffer")?;
        let body = &self.meta.body;
        let end = offset.checked_add(length).filter(|end| *end <= body.end - body.start);
        let end = end.ok_or_else(|| Error::invalid_file(format!("a buffer of {length} bytes at {offset} ends behind its body")))?;
        Ok(body.start + offset..body.start + end)
    }
}

/// Buffers lie one behind the other.
fn check_apart(ranges: &[Range<u64>]) -> Result<()> {
    let mut end = 0;
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        if range.start < end {
            return Err(Error::invalid_file("the buffers of a column overlap").at(range.start));
        }
        end = range.end;
    }
    Ok(())
}
