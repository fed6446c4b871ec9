//! The scan: prune batches, then of each batch fetch the buffers of the columns, decode.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray};
use arrow::datatypes::DataType;
use bytes::Bytes;

use super::column::{LoadedColumn, is_readable};
use super::dictionaries::{Dictionary, Key};
use super::messages::LoadMessages;
use super::meta::FileMeta;
use super::morsel::BatchMorsel;
use super::plan::{BatchPlan, ColumnPlan, WantedColumn};
use super::summary::batch_zones;
use crate::format::error::{Error, Result};
use crate::format::patience::Patience;
use crate::format::requests::Fetched;
use crate::format::rows::{Rest, Rows};
use crate::format::scan::{Answer, Level, Load, Loading, Scan, ScanRequest, Step, Zones};

/// A scan of a file or stream. Its steps are: [`Step::Prune`] the record batches, if there is something to prune by; [`Step::Fetch`] their metadata, if
/// it is not loaded; and for each batch [`Step::Prune`] it again, if what is wanted changes, [`Step::Fetch`] the columns to select by and [`Step::Select`] rows, if that is worth it, [`Step::Fetch`] the
/// buffers of the columns and the dictionaries that are not there yet, [`Step::Decode`].
#[derive(Debug)]
pub struct AlkaidScan {
    meta: Arc<FileMeta>,
    request: ScanRequest,
    wanted: Vec<WantedColumn>,
    batches: VecDeque<usize>,
    /// What is known of the batches, to be shown again before each of them is read; and where each of them is in it.
    known: Option<(Zones, HashMap<usize, usize>)>,
    /// The plans of the next batches, whose bytes have come with those of the ones before.
    ahead: VecDeque<BatchPlan>,
    fetched_ahead: Fetched,
    /// Dictionaries of the last batch, which are most likely those of the next.
    dictionaries: HashMap<Key, Arc<Dictionary>>,
    patience: Patience,
    state: State,
}

/// Batches are fetched together up to so many bytes, and so many of them.
const AHEAD_BYTES: u64 = 1 << 20;
const AHEAD_BATCHES: usize = 15;

/// Where the scan is; each state is left by the answer it waits for.
#[derive(Debug)]
enum State {
    Begin,
    Prune,
    LoadMessages(LoadMessages),
    NextBatch,
    PruneAgain,
    FetchSelecting(Box<BatchPlan>),
    SelectRows { batch: usize, rows: usize, fetched: Fetched },
    FetchBuffers { plan: Box<BatchPlan>, ranges: Vec<Range<usize>>, before: Fetched },
    Done,
}

impl AlkaidScan {
    /// Plans a scan.
    pub fn new(meta: Arc<FileMeta>, request: ScanRequest) -> Result<Self> {
        request.validate()?;
        let columns = request.columns.iter().zip(request.schema.fields()).enumerate();
        let wanted = columns.map(|(position, (column, out))| wanted_column(&meta, position, *column, out.data_type())).collect::<Result<_>>()?;
        let batches = meta.parts(request.range.as_ref()).into_iter().map(|(index, _)| index).collect();
        Ok(Self {
            meta,
            request,
            wanted,
            batches,
            known: None,
            ahead: VecDeque::new(),
            fetched_ahead: Fetched::default(),
            dictionaries: HashMap::new(),
            patience: Patience::default(),
            state: State::Begin,
        })
    }

    fn next(&mut self, state: State, answer: Answer) -> Result<Step> {
        match (state, answer) {
            (State::Begin, Answer::Next) => self.begin(),
            (State::Prune, Answer::Keep(keep)) => self.keep_batches(&keep),
            (State::Prune, Answer::Visit(indices)) => self.visit_batches(&indices),
            (State::LoadMessages(load), Answer::Fetched(bytes)) => self.load_messages(load, bytes),
            (State::NextBatch, Answer::Next) => self.next_batch(),
            (State::PruneAgain, Answer::Keep(keep)) => self.keep_next(&keep),
            (State::FetchSelecting(plan), Answer::Fetched(bytes)) => self.select(*plan, bytes),
            (State::SelectRows { batch, rows, fetched }, Answer::Select(selected)) => self.fetch_selected(batch, rows, fetched, selected),
            (State::FetchBuffers { plan, ranges, before }, Answer::Fetched(bytes)) => self.decode(*plan, ranges, before, bytes),
            (State::Done, Answer::Next) => Ok(Step::Done),
            (state, answer) => Err(Error::invalid_argument(format!("the scan is at {state:?} and was answered {answer:?}"))),
        }
    }

    fn begin(&mut self) -> Result<Step> {
        if self.request.prune_columns.is_empty() || self.batches.is_empty() {
            return self.load();
        }
        let zones = batch_zones(&self.meta, &self.request.prune_columns, self.batches.make_contiguous())?;
        self.known = self.request.prune_again.then(|| (zones.clone(), self.batches.iter().copied().zip(0..).collect()));
        self.state = State::Prune;
        Ok(Step::Prune(zones))
    }

    fn keep_batches(&mut self, keep: &BooleanArray) -> Result<Step> {
        if keep.len() != self.batches.len() {
            return Err(Error::invalid_argument(format!("{} answers to {} zones", keep.len(), self.batches.len())));
        }
        self.batches = self.batches.iter().zip(keep).filter(|(_, keep)| keep.unwrap_or(true)).map(|(batch, _)| *batch).collect();
        self.load()
    }

    fn visit_batches(&mut self, indices: &[usize]) -> Result<Step> {
        let batch = |index: &usize| self.batches.get(*index).copied();
        let batches = indices.iter().map(batch).collect::<Option<VecDeque<usize>>>();
        let no_such = || Error::invalid_argument(format!("of {} batches, {indices:?} are to be read", self.batches.len()));
        self.batches = batches.filter(|batches| batches.len() <= self.batches.len()).ok_or_else(no_such)?;
        self.load()
    }

    /// The metadata of all batches that are left, at once. For rows without columns, none is needed.
    fn load(&mut self) -> Result<Step> {
        if self.request.columns.is_empty() {
            return self.next_batch();
        }
        let schema = self.meta.file_schema();
        let shapes = self.wanted.iter().map(|wanted| wanted.shape(&self.meta)).collect::<Result<Vec<_>>>()?;
        let dictionaries = !self.batches.is_empty() && shapes.into_iter().any(|shape| !schema.dictionaries_of(shape).is_empty());
        let load = self.meta.load_messages(self.batches.make_contiguous(), dictionaries);
        self.load_messages(load, Vec::new())
    }

    fn load_messages(&mut self, mut load: LoadMessages, bytes: Vec<Bytes>) -> Result<Step> {
        match load.resume(bytes)? {
            Loading::Ready(()) => self.next_batch(),
            Loading::Fetch(fetches) => {
                self.state = State::LoadMessages(load);
                Ok(Step::Fetch(fetches))
            }
        }
    }

    fn next_batch(&mut self) -> Result<Step> {
        let known = self.known.as_ref().zip(self.batches.front());
        match known.and_then(|((zones, places), batch)| Some(zones.slice(Level::Page, *places.get(batch)?, 1))) {
            Some(zones) => {
                self.state = State::PruneAgain;
                Ok(Step::Prune(zones))
            }
            None => self.read_next(),
        }
    }

    fn keep_next(&mut self, keep: &BooleanArray) -> Result<Step> {
        if keep.len() != 1 {
            return Err(Error::invalid_argument(format!("{} answers to one zone", keep.len())));
        }
        if keep.is_null(0) || keep.value(0) {
            return self.read_next();
        }
        self.batches.pop_front();
        // What is planned ahead has all dictionaries in its plan that had not been loaded then.
        if self.ahead.pop_front().is_some() && self.ahead.is_empty() {
            self.fetched_ahead = Fetched::default();
        }
        self.next_batch()
    }

    fn read_next(&mut self) -> Result<Step> {
        if let Some(plan) = self.ahead.pop_front() {
            // Its dictionaries have been planned with, so none of them may be forgotten before.
            self.batches.pop_front();
            let fetched = std::mem::take(&mut self.fetched_ahead);
            return self.decode_fetched(&plan, [0..plan.rows].into(), fetched);
        }
        let Some(batch) = self.batches.pop_front() else {
            self.state = State::Done;
            return Ok(Step::Done);
        };
        if self.request.columns.is_empty() {
            let rows = self.meta.spans().get(batch).map_or(0, |span| span.rows);
            let rows = usize::try_from(rows).map_err(|_| Error::unsupported("a batch has too many rows"))?;
            self.state = State::NextBatch;
            return Ok(Step::Decode(Box::new(self.morsel(Vec::new(), Rest::new([0..rows], false)))));
        }
        let plan = self.plan(batch, |_| true)?;
        self.forget_dictionaries(&plan);
        if !self.is_selective(&plan) || !self.patience.asks() {
            return self.fetch_ahead(plan);
        }
        let plan = self.plan(batch, |position| self.request.selects_by(position))?;
        let fetches = plan.fetches();
        if fetches.is_empty() {
            return self.select(plan, Vec::new());
        }
        self.state = State::FetchSelecting(Box::new(plan));
        Ok(Step::Fetch(fetches))
    }

    /// Whether it is worth to select rows of a batch before its other columns are fetched.
    fn is_selective(&self, plan: &BatchPlan) -> bool {
        let is_later = |column: &&ColumnPlan| !self.request.selects_by(column.position);
        self.request.is_selective(plan.columns.iter().filter(is_later).map(ColumnPlan::bytes).sum())
    }

    /// Fetches a batch, and with it those behind it, where they are small: what a request costs is then not paid for each.
    fn fetch_ahead(&mut self, mut plan: BatchPlan) -> Result<Step> {
        let mut bytes = plan.bytes();
        for batch in self.batches.iter().take(AHEAD_BATCHES) {
            if bytes >= AHEAD_BYTES {
                break;
            }
            let next = self.plan(*batch, |_| true)?;
            if self.is_selective(&next) {
                break;
            }
            bytes += next.bytes();
            plan.and(&next);
            self.ahead.push_back(next);
        }
        let ranges = [0..plan.rows].into();
        self.fetch(plan, ranges, Fetched::default())
    }

    /// Plans to read the columns at some positions.
    fn plan(&self, batch: usize, is_wanted: impl Fn(usize) -> bool) -> Result<BatchPlan> {
        let columns: Vec<_> = self.wanted.iter().filter(|wanted| is_wanted(wanted.position)).collect();
        BatchPlan::new(&self.meta, &columns, batch, |key| self.dictionaries.contains_key(key))
    }

    fn select(&mut self, mut plan: BatchPlan, bytes: Vec<Bytes>) -> Result<Step> {
        let fetched = Fetched::new(std::mem::take(&mut plan.requests), bytes)?;
        self.load_dictionaries(&plan, &fetched)?;
        let columns = self.columns(&plan, &fetched)?;
        let morsel = self.morsel(columns, Rest::new([0..plan.rows], false));
        self.state = State::SelectRows { batch: plan.batch, rows: plan.rows, fetched };
        Ok(Step::Select(Box::new(morsel)))
    }

    fn fetch_selected(&mut self, batch: usize, rows: usize, fetched: Fetched, selected: Option<Rows>) -> Result<Step> {
        self.patience.learn_wanted(selected.as_ref().map(Rows::len), rows);
        let all: Vec<Range<usize>> = std::iter::once(0..rows).collect();
        let selected = match selected {
            None => all,
            Some(selected) => selected.within(&all).ok_or_else(|| Error::invalid_argument("rows were selected that are not there"))?,
        };
        if selected.is_empty() {
            return self.next_batch();
        }
        let plan = self.plan(batch, |_| true)?.after(&fetched);
        self.fetch(plan, selected, fetched)
    }

    fn fetch(&mut self, plan: BatchPlan, ranges: Vec<Range<usize>>, before: Fetched) -> Result<Step> {
        let fetches = plan.fetches();
        if fetches.is_empty() {
            return self.decode(plan, ranges, before, Vec::new());
        }
        self.state = State::FetchBuffers { plan: Box::new(plan), ranges, before };
        Ok(Step::Fetch(fetches))
    }

    fn decode(&mut self, mut plan: BatchPlan, ranges: Vec<Range<usize>>, before: Fetched, bytes: Vec<Bytes>) -> Result<Step> {
        let fetched = Fetched::new(std::mem::take(&mut plan.requests), bytes)?.after(before);
        self.decode_fetched(&plan, ranges, fetched)
    }

    fn decode_fetched(&mut self, plan: &BatchPlan, ranges: Vec<Range<usize>>, fetched: Fetched) -> Result<Step> {
        self.load_dictionaries(plan, &fetched)?;
        let columns = self.columns(plan, &fetched)?;
        if !self.ahead.is_empty() {
            self.fetched_ahead = fetched;
        }
        self.state = State::NextBatch;
        let backwards = self.request.first.as_ref().is_some_and(|first| first.are_last(None));
        Ok(Step::Decode(Box::new(self.morsel(columns, Rest::new(ranges, backwards)))))
    }

    /// Keeps those that a batch uses.
    fn forget_dictionaries(&mut self, plan: &BatchPlan) {
        let used: HashSet<&Key> = plan.columns.iter().flat_map(|column| &column.dictionaries).map(|(_, key)| key).collect();
        self.dictionaries.retain(|key, _| used.contains(key));
    }

    fn load_dictionaries(&mut self, plan: &BatchPlan, fetched: &Fetched) -> Result<()> {
        for dictionary in &plan.dictionaries {
            // Of a batch that was planned ahead, it may have come with one before.
            if self.dictionaries.contains_key(&dictionary.wanted.key) {
                continue;
            }
            let loaded = dictionary.load(&self.meta, fetched, |key| self.dictionaries.get(key).cloned())?;
            self.dictionaries.insert(dictionary.wanted.key.clone(), Arc::new(loaded));
        }
        Ok(())
    }

    /// The columns at their positions in the scan.
    fn columns(&self, plan: &BatchPlan, fetched: &Fetched) -> Result<Vec<Option<LoadedColumn>>> {
        let mut columns: Vec<_> = self.request.columns.iter().map(|_| None).collect();
        for plan in &plan.columns {
            let Some(((column, wanted), field)) =
                columns.get_mut(plan.position).zip(self.wanted.get(plan.position)).zip(self.request.schema.fields().get(plan.position))
            else {
                continue;
            };
            *column = Some(self.column(plan, wanted, field.data_type().clone(), fetched)?);
        }
        Ok(columns)
    }

    fn column(&self, plan: &ColumnPlan, wanted: &WantedColumn, out: DataType, fetched: &Fetched) -> Result<LoadedColumn> {
        let dictionary = |(id, key): &(i64, Key)| Some((*id, Arc::clone(self.dictionaries.get(key)?)));
        Ok(LoadedColumn {
            meta: Arc::clone(&self.meta),
            column: wanted.column,
            narrowed: wanted.narrowed.clone(),
            out,
            loaded: plan.part.load(fetched)?,
            encoding: plan.part.encoding,
            dictionaries: plan.dictionaries.iter().filter_map(dictionary).collect(),
            body_start: plan.part.body_start,
            decoded: Default::default(),
        })
    }

    fn morsel(&self, columns: Vec<Option<LoadedColumn>>, rest: Rest) -> BatchMorsel {
        BatchMorsel { schema: Arc::clone(&self.request.schema), columns, rest, batch_rows: self.request.batch_rows }
    }
}

fn wanted_column(meta: &FileMeta, position: usize, column: usize, out: &DataType) -> Result<WantedColumn> {
    let field = meta.field(column)?;
    let narrowed = meta.shape(column)?.narrowed(out).map_err(|error| error.in_column(field.name()))?.map(Arc::new);
    let wanted = WantedColumn { position, column, narrowed };
    let data_type = &wanted.shape(meta)?.data_type;
    if !is_readable(data_type, out) {
        let message = format!("a column of {} cannot be read as {out}; cast it after reading", field.data_type());
        return Err(Error::invalid_argument(message).in_column(field.name()));
    }
    Ok(wanted)
}

impl Scan for AlkaidScan {
    fn step(&mut self, answer: Answer) -> Result<Step> {
        let state = std::mem::replace(&mut self.state, State::Done);
        self.next(state, answer)
    }

    fn is_over(&self) -> bool {
        matches!(self.state, State::NextBatch | State::Done) && self.batches.is_empty() && self.ahead.is_empty()
    }
}
