//! The scan: prune batches, then of each batch fetch the buffers of the columns, decode.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray};
use arrow::datatypes::DataType;
use bytes::Bytes;

use super::column::{LoadedColumn, is_readable};
use super::dictionaries::Key;
use super::kept::Kept;
use super::messages::LoadMessages;
use super::meta::FileMeta;
use super::morsel::BatchMorsel;
use super::plan::{BatchPlan, ColumnPlan, WantedColumn};
use super::summary::batch_zones;
use crate::format::error::{Error, Result};
use crate::format::groups::{Answers, Groups, Placed, Planned, fetched, fetches};
use crate::format::patience::Patience;
use crate::format::requests::Fetched;
use crate::format::rows::{Rest, Rows};
use crate::format::scan::{Answer, FirstRows, Level, Load, Loading, Scan, ScanRequest, Step, Zones};

/// A scan of a file or stream. Its steps are: [`Step::Prune`] the record batches, if there is something to prune by; [`Step::Fetch`] their metadata, if
/// it is not loaded; and for each batch, or several that are fetched together ([`ScanRequest::ahead_bytes`]), [`Step::Prune`] it again, if what is wanted changes, [`Step::Fetch`] the columns to select by
/// and [`Step::Select`] rows, if that is worth it, [`Step::Fetch`] the buffers of the columns and the dictionaries that are not there yet, [`Step::Decode`].
#[derive(Debug)]
pub struct AlkaidScan {
    meta: Arc<FileMeta>,
    request: ScanRequest,
    wanted: Vec<WantedColumn>,
    batches: VecDeque<usize>,
    /// Of each of them, the number in the file of its first row.
    first_rows: HashMap<usize, u64>,
    /// What is known of the batches, to be shown again before each of them is read; and where each of them is in it.
    known: Option<(Zones, HashMap<usize, usize>)>,
    groups: Groups<BatchPlan>,
    dictionaries: Kept,
    patience: Patience,
    state: State,
}

/// Batches are fetched together up to so many bytes, wherever they are.
const AHEAD_BYTES: u64 = 1 << 20;

/// Where the scan is; each state is left by the answer it waits for.
#[derive(Debug)]
enum State {
    Begin,
    Prune,
    LoadMessages(LoadMessages),
    NextBatch,
    PruneAgain,
    FetchSelecting(Vec<Planned<BatchPlan>>),
    SelectRows(Box<Planned<BatchPlan>>),
    FetchBuffers(Vec<Planned<BatchPlan>>),
    Done,
}

impl AlkaidScan {
    /// Plans a scan.
    pub fn new(meta: Arc<FileMeta>, request: ScanRequest) -> Result<Self> {
        request.validate()?;
        let columns = request.columns.iter().zip(request.schema.fields()).enumerate();
        let wanted = columns.map(|(position, (column, out))| wanted_column(&meta, position, *column, out.data_type())).collect::<Result<_>>()?;
        let mut parts = meta.parts(request.range.as_ref());
        let all = |rows: &Range<u64>| 0..usize::try_from(rows.end - rows.start).unwrap_or(usize::MAX);
        parts.retain(|(_, rows)| !request.wanted_of(rows.start, vec![all(rows)]).is_empty());
        let first_rows = parts.iter().map(|(index, rows)| (*index, rows.start)).collect();
        let mut batches: VecDeque<usize> = parts.into_iter().map(|(index, _)| index).collect();
        if request.first == Some(FirstRows::Last) {
            batches.make_contiguous().reverse();
        }
        Ok(Self {
            meta,
            request,
            wanted,
            batches,
            first_rows,
            known: None,
            groups: Groups::default(),
            dictionaries: Kept::default(),
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
            (State::FetchSelecting(group), Answer::Fetched(bytes)) => self.select(group, bytes),
            (State::SelectRows(planned), Answer::Select(rows)) => self.selected(*planned, rows),
            (State::FetchBuffers(group), Answer::Fetched(bytes)) => self.load_group(group, bytes),
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
        if let Some(planned) = self.groups.loaded.front() {
            return match self.known_of(planned.stripe) {
                Some(zones) => self.prune_again(zones),
                None => self.decode_next(),
            };
        }
        if !self.groups.selected.is_empty() {
            let group = self.groups.take_selected(self.request.ahead_bytes);
            return self.fetch_buffers(group);
        }
        if let Some(planned) = self.groups.held.take() {
            return self.place(planned);
        }
        let Some(batch) = self.batches.front() else {
            if self.groups.planned.is_empty() {
                self.state = State::Done;
                return Ok(Step::Done);
            }
            return self.fetch_group();
        };
        // Those that come with another are shown when they have come.
        match self.known_of(*batch).filter(|_| self.groups.planned.is_empty()) {
            Some(zones) => self.prune_again(zones),
            None => self.plan_next(),
        }
    }

    /// What is known of a batch, if that is to be shown before it is read.
    fn known_of(&self, batch: usize) -> Option<Zones> {
        let (zones, places) = self.known.as_ref()?;
        Some(zones.slice(Level::Page, *places.get(&batch)?, 1))
    }

    fn prune_again(&mut self, zones: Zones) -> Result<Step> {
        self.state = State::PruneAgain;
        Ok(Step::Prune(zones))
    }

    fn keep_next(&mut self, keep: &BooleanArray) -> Result<Step> {
        if keep.len() != 1 {
            return Err(Error::invalid_argument(format!("{} answers to one zone", keep.len())));
        }
        let is_wanted = keep.is_null(0) || keep.value(0);
        match self.groups.loaded.pop_front() {
            Some(planned) if is_wanted => self.decode(planned),
            // Those behind it count on its dictionaries.
            Some(planned) => {
                self.load_dictionaries(&planned.plan, &planned.fetched)?;
                self.dictionaries.end(&planned.plan);
                self.next_batch()
            }
            None if is_wanted => self.plan_next(),
            None => {
                self.batches.pop_front();
                self.next_batch()
            }
        }
    }

    /// Plans the next batch.
    fn plan_next(&mut self) -> Result<Step> {
        let Some(batch) = self.batches.pop_front() else { return self.next_batch() };
        if self.request.columns.is_empty() {
            let rows = self.meta.spans().get(batch).map_or(0, |span| span.rows);
            let rows = usize::try_from(rows).map_err(|_| Error::unsupported("a batch has too many rows"))?;
            self.state = State::NextBatch;
            let ranges = self.request.wanted_of(self.first_row(batch), vec![0..rows]);
            return Ok(Step::Decode(Box::new(self.morsel(Vec::new(), batch, Rest::new(ranges, self.is_backwards())))));
        }
        let plan = self.plan(batch, |_| true)?;
        let selecting = if self.is_selective(&plan) && self.patience.asks() {
            Some(self.plan(batch, |position| self.request.selects_by(position))?)
        } else {
            None
        };
        self.dictionaries.begin(&plan);
        let ranges = self.request.wanted_of(self.first_row(batch), vec![0..plan.rows]);
        self.place(Planned { plan, selecting, stripe: batch, ranges, backwards: false, fetched: Fetched::default(), deferred: false })
    }

    /// Whether it is worth to select rows of a batch before its other columns are fetched.
    fn is_selective(&self, plan: &BatchPlan) -> bool {
        let is_later = |column: &&ColumnPlan| !self.request.selects_by(column.position);
        self.request.is_selective(plan.columns.iter().filter(is_later).map(ColumnPlan::bytes).sum())
    }

    /// Plans to read the columns at some positions.
    fn plan(&self, batch: usize, is_wanted: impl Fn(usize) -> bool) -> Result<BatchPlan> {
        let columns: Vec<_> = self.wanted.iter().filter(|wanted| is_wanted(wanted.position)).collect();
        BatchPlan::new(&self.meta, &columns, batch, |key| self.dictionaries.has(key))
    }

    /// Adds a batch to those that are fetched together, if there is room, and goes on.
    fn place(&mut self, planned: Planned<BatchPlan>) -> Result<Step> {
        // What a request costs is not to be paid for each of many small batches. Where a call costs little, they are asked one by one.
        let ahead = if planned.is_selecting() { self.request.ahead_bytes } else { self.request.ahead_bytes.max(AHEAD_BYTES) };
        let placed = self.groups.place(planned, ahead);
        match &self.groups.held {
            // When its turn comes, it may not be wanted any more.
            Some(held) if self.known.is_some() => {
                self.dictionaries.give_up(&held.plan);
                self.batches.push_front(held.stripe);
                self.groups.held = None;
            }
            Some(_) => {}
            None => {
                if let Some(placed) = self.groups.planned.last() {
                    self.dictionaries.promise(placed.next());
                }
            }
        }
        match placed {
            Placed::More => self.next_batch(),
            Placed::Full => self.fetch_group(),
        }
    }

    /// Fetches the batches that have been planned, or their columns to select by.
    fn fetch_group(&mut self) -> Result<Step> {
        let group = std::mem::take(&mut self.groups.planned);
        if !group.iter().any(Planned::is_selecting) {
            return self.fetch_buffers(group);
        }
        let fetches = fetches(&group);
        if fetches.is_empty() {
            return self.select(group, Vec::new());
        }
        self.state = State::FetchSelecting(group);
        Ok(Step::Fetch(fetches))
    }

    fn select(&mut self, group: Vec<Planned<BatchPlan>>, bytes: Vec<Bytes>) -> Result<Step> {
        self.groups.asked = fetched(group, bytes)?;
        self.ask_rows()
    }

    /// Asks which rows are wanted of the next batch of a group; after the last, goes on with what is left of them.
    fn ask_rows(&mut self) -> Result<Step> {
        let Some(mut planned) = self.groups.asked.pop_front() else {
            let Answers { wanted, asked } = std::mem::take(&mut self.groups.answers);
            self.patience.learn_wanted(Some(wanted), asked);
            return self.next_batch();
        };
        let Some(selecting) = planned.selecting.take() else { return Err(Error::invalid_argument("there is nothing to select by")) };
        self.load_dictionaries(&selecting, &planned.fetched)?;
        let columns = self.columns(&selecting, &planned.fetched)?;
        let morsel = self.morsel(columns, planned.stripe, Rest::new(planned.ranges.clone(), false));
        self.state = State::SelectRows(Box::new(planned));
        Ok(Step::Select(Box::new(morsel)))
    }

    fn selected(&mut self, mut planned: Planned<BatchPlan>, rows: Option<Rows>) -> Result<Step> {
        let asked = planned.ranges.iter().map(ExactSizeIterator::len).sum();
        self.groups.answers.add(rows.as_ref().map_or(asked, Rows::len), asked);
        if let Some(rows) = rows {
            planned.ranges = rows.within(&planned.ranges).ok_or_else(|| Error::invalid_argument("rows were selected that are not there"))?;
        }
        if planned.ranges.is_empty() {
            self.dictionaries.end(&planned.plan);
        } else {
            planned.plan = self.plan(planned.stripe, |_| true)?.after(&planned.fetched);
            self.dictionaries.promise(&planned.plan);
            self.groups.selected.push_back(planned);
        }
        self.ask_rows()
    }

    fn fetch_buffers(&mut self, group: Vec<Planned<BatchPlan>>) -> Result<Step> {
        let fetches = fetches(&group);
        if fetches.is_empty() {
            return self.load_group(group, Vec::new());
        }
        self.state = State::FetchBuffers(group);
        Ok(Step::Fetch(fetches))
    }

    fn load_group(&mut self, group: Vec<Planned<BatchPlan>>, bytes: Vec<Bytes>) -> Result<Step> {
        self.groups.loaded = fetched(group, bytes)?;
        self.decode_next()
    }

    fn decode_next(&mut self) -> Result<Step> {
        match self.groups.loaded.pop_front() {
            Some(planned) => self.decode(planned),
            None => self.next_batch(),
        }
    }

    fn decode(&mut self, planned: Planned<BatchPlan>) -> Result<Step> {
        let Planned { plan, stripe, ranges, fetched, .. } = planned;
        self.load_dictionaries(&plan, &fetched)?;
        let columns = self.columns(&plan, &fetched)?;
        self.dictionaries.end(&plan);
        self.state = State::NextBatch;
        Ok(Step::Decode(Box::new(self.morsel(columns, stripe, Rest::new(ranges, self.is_backwards())))))
    }

    fn is_backwards(&self) -> bool {
        self.request.first.as_ref().is_some_and(|first| first.are_last(None))
    }

    fn load_dictionaries(&mut self, plan: &BatchPlan, fetched: &Fetched) -> Result<()> {
        for dictionary in &plan.dictionaries {
            let loaded = dictionary.load(&self.meta, fetched, |key| self.dictionaries.get(key).cloned())?;
            self.dictionaries.insert(&dictionary.wanted.key, loaded);
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

    fn first_row(&self, batch: usize) -> u64 {
        self.first_rows.get(&batch).copied().unwrap_or_default()
    }

    fn morsel(&self, columns: Vec<Option<LoadedColumn>>, batch: usize, rest: Rest) -> BatchMorsel {
        let first_row = self.first_row(batch);
        BatchMorsel { schema: Arc::clone(&self.request.schema), columns, first_row, rest, batch_rows: self.request.batch_rows }
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
        matches!(self.state, State::NextBatch | State::Done) && self.batches.is_empty() && self.groups.is_empty()
    }
}
