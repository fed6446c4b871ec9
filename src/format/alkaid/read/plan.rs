//! Which bytes a batch needs: columns and dictionaries to buffers, buffers to requests.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::dictionaries::{Dictionary, Key, Wanted, wanted};
use super::meta::FileMeta;
use crate::format::alkaid::array::{Encoding, Loaded};
use crate::format::alkaid::batch::{BatchMeta, Parts};
use crate::format::alkaid::schema::{Positions, Shape};
use crate::format::error::{Error, Result};
use crate::format::groups::Plan;
use crate::format::requests::{Fetched, requests};
use crate::format::scan::Section;

/// Requests begin at multiples of this, as buffers in files do: what is aligned there is so in memory, and need not be copied.
const ALIGNMENT: u64 = 64;

/// What to load for a batch.
#[derive(Debug)]
pub(super) struct BatchPlan {
    pub(super) rows: usize,
    pub(super) columns: Vec<ColumnPlan>,
    /// Dictionaries that have not been loaded, each after those that its values use.
    pub(super) dictionaries: Vec<DictionaryPlan>,
    pub(super) requests: Vec<Range<u64>>,
}

/// A column to read.
#[derive(Debug)]
pub(super) struct WantedColumn {
    /// Where it is in the scan.
    pub(super) position: usize,
    pub(super) column: usize,
    /// The shape of the part of it that is read, if that is not all.
    pub(super) narrowed: Option<Arc<Shape>>,
}

impl WantedColumn {
    /// The shape of what is read of it.
    pub(super) fn shape<'a>(&'a self, meta: &'a FileMeta) -> Result<&'a Shape> {
        match &self.narrowed {
            Some(narrowed) => Ok(narrowed),
            None => meta.shape(self.column),
        }
    }
}

#[derive(Debug)]
pub(super) struct ColumnPlan {
    /// Where it is in the scan.
    pub(super) position: usize,
    pub(super) part: PartPlan,
    /// The dictionaries of the column and its children.
    pub(super) dictionaries: Vec<(i64, Key)>,
}

#[derive(Debug)]
pub(super) struct DictionaryPlan {
    pub(super) wanted: Wanted,
    parts: Vec<PartPlan>,
}

/// The part of a message that is one column's.
#[derive(Debug)]
pub(super) struct PartPlan {
    rows: usize,
    pub(super) encoding: Encoding,
    parts: Parts,
    /// Where the body is in the file.
    pub(super) body_start: u64,
}

impl BatchPlan {
    /// Plans to read columns of a batch; `has` says which dictionaries are there.
    pub(super) fn new(meta: &FileMeta, columns: &[&WantedColumn], batch: usize, has: impl Fn(&Key) -> bool) -> Result<Self> {
        let of_batch = meta.batch(batch)?;
        let parts = of_batch.parts(&meta.file_schema().positions, columns.iter().map(|wanted| wanted.column));
        let parts = parts.map_err(|error| error.in_section(Section::Message).at(of_batch.body.start))?;
        check_apart(columns, &parts)?;
        let mut plan = Self { rows: of_batch.rows, columns: Vec::new(), dictionaries: Vec::new(), requests: Vec::new() };
        let mut planned = HashSet::new();
        for (column, mut parts) in columns.iter().zip(parts) {
            let mut dictionaries = Vec::new();
            for wanted in wanted(meta, column.shape(meta)?, of_batch.body.start)? {
                dictionaries.push((wanted.id, wanted.key.clone()));
                if !has(&wanted.key) && planned.insert(wanted.key.clone()) {
                    plan.dictionaries.push(DictionaryPlan::new(meta, wanted)?);
                }
            }
            if let Some(narrowed) = &column.narrowed {
                parts = parts.narrowed(meta.shape(column.column)?, narrowed, of_batch.old_bitmaps)?;
            }
            plan.columns.push(ColumnPlan { position: column.position, part: PartPlan::new(meta, of_batch, parts), dictionaries });
        }
        Ok(plan.after(&Fetched::default()))
    }

    /// The same without what has been fetched.
    pub(super) fn after(mut self, fetched: &Fetched) -> Self {
        let ranges = self.parts().flat_map(|part| &part.parts.buffers).filter(|range| !range.is_empty() && !fetched.has(range));
        self.requests = requests(ranges.map(|range| range.start - range.start % ALIGNMENT..range.end).collect());
        self
    }

    fn parts(&self) -> impl Iterator<Item = &PartPlan> {
        let dictionaries = self.dictionaries.iter().flat_map(|dictionary| &dictionary.parts);
        dictionaries.chain(self.columns.iter().map(|column| &column.part))
    }

    /// The keys of the dictionaries that are loaded with it.
    pub(super) fn loads(&self) -> impl Iterator<Item = &Key> {
        self.dictionaries.iter().map(|dictionary| &dictionary.wanted.key)
    }

    /// The keys of the dictionaries that its columns use.
    pub(super) fn uses(&self) -> impl Iterator<Item = &Key> {
        self.columns.iter().flat_map(|column| &column.dictionaries).map(|(_, key)| key)
    }
}

impl Plan for BatchPlan {
    fn requests(&self) -> &[Range<u64>] {
        &self.requests
    }

    fn take_requests(&mut self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.requests)
    }
}

impl ColumnPlan {
    /// Bytes of its buffers.
    pub(super) fn bytes(&self) -> u64 {
        self.part.parts.buffers.iter().map(|range| range.end - range.start).sum()
    }
}

impl DictionaryPlan {
    fn new(meta: &FileMeta, wanted: Wanted) -> Result<Self> {
        let shape = meta.file_schema().dictionaries.get(&wanted.id);
        let positions = Positions::new(shape.into_iter());
        let plan = |message: usize| {
            let message = meta.dictionary(message)?;
            let parts =
                message.parts(&positions, std::iter::once(0)).map_err(|error| error.in_section(Section::Dictionary).at(message.body.start))?;
            Ok(parts.into_iter().map(|parts| PartPlan::new(meta, message, parts)))
        };
        let parts = wanted.messages.iter().map(plan).collect::<Result<Vec<_>>>()?;
        Ok(Self { wanted, parts: parts.into_iter().flatten().collect() })
    }

    /// The dictionary; `find` gives those that its values use.
    pub(super) fn load(&self, meta: &Arc<FileMeta>, fetched: &Fetched, find: impl Fn(&Key) -> Option<Arc<Dictionary>>) -> Result<Dictionary> {
        let parts = self.parts.iter().map(|part| Ok((part.load(fetched)?, part.encoding, part.body_start))).collect::<Result<_>>()?;
        let inner = self.wanted.inner.iter().filter_map(|(id, key)| Some((*id, find(key)?))).collect();
        Ok(Dictionary { id: self.wanted.id, meta: Arc::clone(meta), parts, inner, values: Default::default() })
    }
}

impl PartPlan {
    fn new(meta: &FileMeta, message: &BatchMeta, parts: Parts) -> Self {
        let big_endian = meta.file_schema().big_endian;
        let encoding = Encoding { codec: message.codec, big_endian, old_bitmaps: message.old_bitmaps };
        Self { rows: message.rows, encoding, parts, body_start: message.body.start }
    }

    /// The part with its bytes.
    pub(super) fn load(&self, fetched: &Fetched) -> Result<Loaded> {
        let get = |range: &Range<u64>| Ok((range.start, if range.is_empty() { Bytes::new() } else { fetched.get(range)? }));
        let buffers = self.parts.buffers.iter().map(get).collect::<Result<_>>()?;
        Ok(Loaded { rows: self.rows, nodes: self.parts.nodes.clone(), buffers, variadic: self.parts.variadic.clone() })
    }
}

/// Columns lie one behind the other.
fn check_apart(columns: &[&WantedColumn], parts: &[Parts]) -> Result<()> {
    let span = |(wanted, parts): (&&WantedColumn, &Parts)| {
        let mut buffers = parts.buffers.iter().filter(|range| !range.is_empty());
        let first = buffers.next()?.clone();
        Some((wanted.column, first.start, buffers.next_back().map_or(first.end, |last| last.end)))
    };
    let mut spans: Vec<_> = columns.iter().zip(parts).filter_map(span).collect();
    spans.sort_unstable();
    spans.dedup();
    match spans.iter().zip(spans.iter().skip(1)).find(|((_, _, end), (_, start, _))| start < end) {
        Some((_, (_, start, _))) => Err(Error::invalid_file("the buffers of two columns overlap").in_section(Section::Message).at(*start)),
        None => Ok(()),
    }
}
