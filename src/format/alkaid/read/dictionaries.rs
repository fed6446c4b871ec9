//! Dictionaries: which messages one is made of at some place, and its values.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef};

use super::meta::{FileMeta, Form};
use crate::format::alkaid::array::{Dictionaries, Encoding, Loaded, decode};
use crate::format::alkaid::batch::{BatchMeta, Kind};
use crate::format::alkaid::schema::Shape;
use crate::format::array::{ROW_SLOTS_MAX, joined, may_be_copied, value_slots};
use crate::format::error::{Error, Result};
use crate::format::scan::Section;

/// The messages of each dictionary, in their order.
#[derive(Debug)]
pub(super) struct Epochs {
    by_id: HashMap<i64, Vec<Epoch>>,
}

/// From where a dictionary is defined to where it is replaced.
#[derive(Debug)]
struct Epoch {
    start: u64,
    /// The one that defines it and those that add to it, and where each is.
    messages: Arc<[usize]>,
    starts: Vec<u64>,
}

impl Epoch {
    fn new(messages: &[(usize, u64)]) -> Self {
        let (messages, starts): (Vec<usize>, Vec<u64>) = messages.iter().copied().unzip();
        Self { start: starts.first().copied().unwrap_or(0), messages: messages.into(), starts }
    }
}

/// Messages of a dictionary: the first ones of an epoch, which many batches share.
#[derive(Debug, Default)]
pub(super) struct First {
    messages: Arc<[usize]>,
    count: usize,
}

impl First {
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.messages.iter().copied().take(self.count)
    }
}

/// A dictionary at some place, by what its values are made of: its own messages and those of the dictionaries that its values use.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key(Vec<(i64, usize, usize)>);

impl Epochs {
    pub(super) fn new(messages: &[&BatchMeta], form: Form) -> Result<Self> {
        let mut by_id: HashMap<i64, Vec<Vec<(usize, u64)>>> = HashMap::new();
        for (index, meta) in messages.iter().enumerate() {
            let Kind::Dictionary { id, is_delta } = meta.kind else { continue };
            let start = meta.body.start;
            let in_dictionary = |error: Error| error.in_section(Section::Dictionary).at(start);
            let epochs = by_id.entry(id).or_default();
            match (epochs.last_mut(), is_delta) {
                (Some(epoch), true) => epoch.push((index, start)),
                (None, true) => return Err(in_dictionary(Error::invalid_file(format!("values are added to dictionary {id}, which is not defined")))),
                (Some(_), false) if form == Form::File => {
                    return Err(in_dictionary(Error::invalid_file(format!("dictionary {id} is defined twice, which only a stream may do"))));
                }
                (_, false) => epochs.push(vec![(index, start)]),
            }
        }
        let epochs = |(id, epochs): (i64, Vec<Vec<(usize, u64)>>)| (id, epochs.iter().map(|messages| Epoch::new(messages)).collect());
        Ok(Self { by_id: by_id.into_iter().map(epochs).collect() })
    }

    /// Whether some dictionary has more than one.
    pub(super) fn replace_any(&self) -> bool {
        self.by_id.values().any(|epochs| epochs.len() > 1)
    }

    /// The epoch of a dictionary for a batch at `place`; all of a file are there from the beginning. `None` where the first comes later: the batch has only nulls.
    fn at(&self, id: i64, place: u64) -> Option<(usize, &Epoch)> {
        let epochs = self.by_id.get(&id)?;
        let index = epochs.partition_point(|epoch| epoch.start < place).checked_sub(1)?;
        Some((index, epochs.get(index)?))
    }

    /// Where a dictionary is replaced next, behind `place`.
    fn end(&self, id: i64, place: u64) -> u64 {
        let Some(epochs) = self.by_id.get(&id) else { return u64::MAX };
        epochs.get(epochs.partition_point(|epoch| epoch.start < place)).map_or(u64::MAX, |epoch| epoch.start)
    }

    /// The messages of a dictionary for a batch at `place`. What is added later does no harm, but where its values are codes of others that may have been replaced by then:
    /// at `limit`.
    fn messages(&self, id: i64, place: Option<u64>, limit: u64) -> (usize, First) {
        let Some((index, epoch)) = self.at(id, place.unwrap_or(u64::MAX)) else { return (0, First::default()) };
        let count = epoch.starts.partition_point(|start| *start < limit);
        (index, First { messages: Arc::clone(&epoch.messages), count })
    }
}

/// What a dictionary is made of at some place.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) id: i64,
    pub(super) key: Key,
    pub(super) messages: First,
    /// The dictionaries that its values use.
    pub(super) inner: Vec<(i64, Key)>,
}

/// The dictionaries that a batch at `place` needs for a column of this shape, each after those that its values use.
pub(super) fn wanted(meta: &FileMeta, shape: &Shape, place: u64) -> Result<Vec<Wanted>> {
    let schema = meta.file_schema();
    let ids = schema.dictionaries_of(shape);
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let epochs = meta.epochs()?;
    let place = (meta.form() == Form::Stream).then_some(place);
    let mut known: HashMap<i64, Key> = HashMap::new();
    // Up to where each dictionary and those that its values use stay what they are.
    let mut ends: HashMap<i64, u64> = HashMap::new();
    let mut found = Vec::new();
    for id in ids {
        let mut inner_ids = Vec::new();
        if let Some(shape) = schema.dictionaries.get(&id) {
            shape.dictionaries(&mut inner_ids);
        }
        let limit = inner_ids.iter().filter_map(|inner| ends.get(inner)).copied().min().unwrap_or(u64::MAX);
        let (epoch, messages) = epochs.messages(id, place, limit);
        ends.insert(id, place.map_or(u64::MAX, |place| epochs.end(id, place)).min(limit));
        let inner: Vec<(i64, Key)> = inner_ids.iter().filter_map(|inner| Some((*inner, known.get(inner)?.clone()))).collect();
        let parts = inner.iter().flat_map(|(_, key)| key.0.iter().copied());
        let key = Key([(id, epoch, messages.count)].into_iter().chain(parts).collect());
        known.insert(id, key.clone());
        found.push(Wanted { id, key, messages, inner });
    }
    Ok(found)
}

/// A dictionary that has been fetched. Its values are decoded when they are first needed, by whoever needs them first.
#[derive(Debug)]
pub(super) struct Dictionary {
    pub(super) id: i64,
    pub(super) meta: Arc<FileMeta>,
    pub(super) parts: Vec<(Loaded, Encoding, u64)>,
    pub(super) inner: HashMap<i64, Arc<Dictionary>>,
    pub(super) values: OnceLock<ArrayRef>,
}

impl Dictionary {
    fn values(&self) -> Result<Option<ArrayRef>> {
        if self.parts.is_empty() {
            return Ok(None);
        }
        if let Some(values) = self.values.get() {
            return Ok(Some(Arc::clone(values)));
        }
        let values = self.decode().map_err(|error| error.in_section(Section::Dictionary))?;
        Ok(Some(Arc::clone(self.values.get_or_init(|| values))))
    }

    fn decode(&self) -> Result<ArrayRef> {
        let shape = self.meta.file_schema().dictionaries.get(&self.id);
        let shape = shape.ok_or_else(|| Error::invalid_file(format!("no field has dictionary {}", self.id)))?;
        let part =
            |(loaded, encoding, start): &(Loaded, Encoding, u64)| decode(loaded, *encoding, shape, &self.inner).map_err(|error| error.at(*start));
        let parts = self.parts.iter().map(part).collect::<Result<Vec<_>>>()?;
        self.check_earned(&parts)?;
        joined(&parts)?.ok_or_else(|| Error::unsupported(format!("dictionary {} has more values together than can be numbered", self.id)))
    }

    /// Refuses values that are more than their bytes have bits, where they are more than any row may have: each part may be small, and all together take any memory.
    fn check_earned(&self, parts: &[ArrayRef]) -> Result<()> {
        let slots = parts.iter().map(|part| value_slots(&part.to_data())).fold(0, usize::saturating_add);
        let bytes = self.parts.iter().flat_map(|(loaded, ..)| &loaded.buffers).map(|(_, bytes)| bytes.len()).fold(0, usize::saturating_add);
        if may_be_copied(slots, bytes) {
            return Ok(());
        }
        Err(Error::invalid_file(format!(
            "dictionary {} has {slots} values in {bytes} bytes; of those that take none, {ROW_SLOTS_MAX} are the most",
            self.id
        )))
    }
}

impl Dictionaries for HashMap<i64, Arc<Dictionary>> {
    fn values(&self, id: i64) -> Result<Option<ArrayRef>> {
        self.get(&id).map_or(Ok(None), |dictionary| dictionary.values())
    }
}
