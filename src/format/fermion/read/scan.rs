//! The scan: prune stripes, then of each stripe prune pages, fetch, decode.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::FieldRef;
use bytes::Bytes;

use super::column;
use super::columns::LoadColumns;
use super::lookup::Lookup;
use super::meta::FileMeta;
use super::morsel::{Loaded, StripeMorsel};
use super::plan::{StripePlan, WantedColumn};
use super::zones::{page_zones, stripe_zones};
use crate::format::error::{Error, Result};
use crate::format::groups::{Answers, Groups, Placed, Plan, Planned, fetched, fetches};
use crate::format::patience::Patience;
use crate::format::requests::Fetched;
use crate::format::rows::{Rest, Rows};
use crate::format::scan::{Answer, FirstRows, Load, Loading, Lookups, Scan, ScanRequest, Step};
use crate::format::share::{Part, Share};

/// A scan of a Fermion file. Its steps are: [`Step::Fetch`] the metadata of the columns that is not loaded, [`Step::Prune`] the stripes, and for
/// each stripe (or a few of them, if [`ScanRequest::ahead_bytes`] says so) [`Step::Prune`] its pages, [`Step::Lookup`] and [`Step::Fetch`] its filters, if it has any, [`Step::Fetch`] the columns to select by and [`Step::Select`] rows, if that is worth it, [`Step::Fetch`] what is
/// left, [`Step::Decode`].
#[derive(Debug)]
pub struct FermionScan {
    meta: Arc<FileMeta>,
    request: ScanRequest,
    fields: Vec<FieldRef>,
    wanted: Vec<WantedColumn>,
    /// Before it is known which stripes are read.
    parts: Vec<Part>,
    share: Share,
    /// Of each stripe to read, the number in the file of its first row.
    first_rows: HashMap<usize, u64>,
    patience: Patience,
    lookup_patience: Patience,
    lookups: Lookups,
    /// Of the stripe that is planned whether its last rows come first.
    backwards: bool,
    groups: Groups<StripePlan>,
    state: State,
}

/// So many stripes in a row may have what is looked up before they are not all asked any more.
const LOOKUPS_IN_VAIN: u32 = 3;

/// Where the scan is; each state is left by the answer it waits for.
#[derive(Debug)]
enum State {
    LoadColumns(LoadColumns),
    PruneStripes,
    NextStripe,
    AskValues { lookup: Lookup, stripe: usize, ranges: Vec<Range<usize>> },
    FetchFilters { lookup: Lookup, stripe: usize, ranges: Vec<Range<usize>> },
    PrunePages { stripe: usize, ranges: Vec<Range<usize>> },
    FetchSelecting(Vec<Planned<StripePlan>>),
    SelectRows(Planned<StripePlan>),
    FetchPages(Vec<Planned<StripePlan>>),
    Done,
}

impl FermionScan {
    /// Plans a scan.
    pub fn new(meta: Arc<FileMeta>, request: ScanRequest) -> Result<Self> {
        let parts = meta.parts(request.range.as_ref());
        Self::of_parts(meta, request, parts)
    }

    fn of_parts(meta: Arc<FileMeta>, mut request: ScanRequest, mut parts: Vec<Part>) -> Result<Self> {
        request.validate()?;
        let fields: Vec<FieldRef> = request.columns.iter().map(|column| meta.field(*column)).collect::<Result<_>>()?;
        let columns = request.columns.iter().zip(&fields).zip(request.schema.fields());
        let wanted = columns.map(|((column, field), out)| match meta.batch_column(*column) {
            Some(which) => Ok(WantedColumn::of_batches(*column, which)),
            None => WantedColumn::new(*column, field.data_type(), out.data_type()).map_err(|error| error.in_column(field.name())),
        });
        let wanted: Vec<WantedColumn> = wanted.collect::<Result<_>>()?;
        // To read such a one backwards, its rows are counted for every batch: not for rows that are only better first.
        request.first.take_if(|first| *first != FirstRows::Last && wanted.iter().any(WantedColumn::has_dense_union));
        parts.retain(|part| !request.wanted_of(part.stripe_start, vec![part.rows.clone()]).is_empty());
        if request.first == Some(FirstRows::Last) {
            parts.reverse();
        }
        let share = request.share.take().unwrap_or_else(Share::alone);
        let state = State::LoadColumns(meta.load_columns(&request.used_columns()));
        let lookup_patience = Patience::with_tolerance(LOOKUPS_IN_VAIN);
        Ok(Self {
            meta,
            request,
            fields,
            wanted,
            parts,
            share,
            first_rows: HashMap::new(),
            patience: Patience::default(),
            lookup_patience,
            lookups: Lookups::default(),
            backwards: false,
            groups: Groups::default(),
            state,
        })
    }

    /// Of one stripe alone.
    pub(in crate::format::fermion) fn of_stripe(meta: Arc<FileMeta>, request: ScanRequest, stripe: usize) -> Result<Self> {
        let rows = meta.stripes().get(stripe).map_or(0, |stripe| stripe.rows as usize);
        // Nobody asks which rows of the file these are.
        let part = (rows > 0).then_some(Part { stripe, rows: 0..rows, stripe_start: 0 });
        Self::of_parts(meta, request, part.into_iter().collect())
    }

    fn next(&mut self, state: State, answer: Answer) -> Result<Step> {
        match (state, answer) {
            (State::LoadColumns(load), Answer::Next) => self.load_columns(load, Vec::new()),
            (State::LoadColumns(load), Answer::Fetched(bytes)) => self.load_columns(load, bytes),
            (State::PruneStripes, Answer::Keep(keep)) => self.keep_stripes(&keep),
            (State::PruneStripes, Answer::Visit(indices)) => self.visit_stripes(&indices),
            (State::NextStripe, Answer::Next) => self.next_stripe(),
            (State::AskValues { lookup, stripe, ranges }, Answer::Lookup(values)) => self.look_up(lookup, stripe, ranges, &values),
            (State::FetchFilters { lookup, stripe, ranges }, Answer::Fetched(bytes)) => self.looked_up(lookup, stripe, ranges, bytes),
            (State::PrunePages { stripe, ranges }, Answer::Keep(keep)) => self.keep_pages(stripe, ranges, &keep),
            (State::FetchSelecting(group), Answer::Fetched(bytes)) => self.select(group, bytes),
            (State::SelectRows(planned), Answer::Select(rows)) => self.selected(planned, rows),
            (State::FetchPages(group), Answer::Fetched(bytes)) => self.load(group, bytes),
            (State::Done, Answer::Next) => Ok(Step::Done),
            (state, answer) => Err(Error::invalid_argument(format!("the scan is at {state:?} and was answered {answer:?}"))),
        }
    }

    fn load_columns(&mut self, mut load: LoadColumns, bytes: Vec<Bytes>) -> Result<Step> {
        match load.resume(bytes)? {
            Loading::Fetch(fetches) => {
                self.state = State::LoadColumns(load);
                Ok(Step::Fetch(fetches))
            }
            Loading::Ready(()) if self.request.prune_columns.is_empty() || self.parts.is_empty() => self.begin(),
            Loading::Ready(()) => {
                let zones = stripe_zones(&self.meta, &self.request.prune_columns, &self.parts)?;
                self.state = State::PruneStripes;
                Ok(Step::Prune(zones))
            }
        }
    }

    fn keep_stripes(&mut self, keep: &BooleanArray) -> Result<Step> {
        let mut keep = kept(keep, self.parts.len())?;
        self.parts.retain(|_| keep.next().unwrap_or(true));
        self.begin()
    }

    fn visit_stripes(&mut self, indices: &[usize]) -> Result<Step> {
        let part = |index: &usize| self.parts.get(*index).cloned();
        let parts = indices.iter().map(part).collect::<Option<Vec<Part>>>();
        let no_such = || Error::invalid_argument(format!("of {} stripes, {indices:?} are to be read", self.parts.len()));
        self.parts = parts.filter(|parts| parts.len() <= self.parts.len()).ok_or_else(no_such)?;
        self.begin()
    }

    fn begin(&mut self) -> Result<Step> {
        self.share.add(std::mem::take(&mut self.parts));
        self.next_stripe()
    }

    fn next_stripe(&mut self) -> Result<Step> {
        if let Some(planned) = self.groups.loaded.pop_front() {
            return self.decode(planned);
        }
        if !self.groups.selected.is_empty() {
            let group = self.groups.take_selected(self.request.ahead_bytes);
            return self.fetch_pages(group);
        }
        if let Some(planned) = self.groups.held.take() {
            return self.place(planned);
        }
        let Some(part) = self.share.take() else {
            if self.groups.planned.is_empty() {
                self.state = State::Done;
                return Ok(Step::Done);
            }
            return self.fetch_group();
        };
        self.first_rows.insert(part.stripe, part.stripe_start);
        if self.request.prune_columns.is_empty() {
            self.backwards = self.request.first.as_ref().is_some_and(|first| first.are_last(None));
            return self.read(part.stripe, vec![part.rows]);
        }
        let pages = page_zones(&self.meta, &self.request.prune_columns, &part)?;
        self.backwards = self.request.first.as_ref().is_some_and(|first| first.are_last(Some(&pages.zones)));
        self.state = State::PrunePages { stripe: part.stripe, ranges: pages.ranges };
        Ok(Step::Prune(pages.zones))
    }

    fn keep_pages(&mut self, stripe: usize, ranges: Vec<Range<usize>>, keep: &BooleanArray) -> Result<Step> {
        let keep = kept(keep, ranges.len())?;
        let mut rows: Vec<Range<usize>> = Vec::new();
        for range in ranges.into_iter().zip(keep).filter(|(_, keep)| *keep).map(|(range, _)| range) {
            match rows.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => rows.push(range),
            }
        }
        self.read(stripe, rows)
    }

    /// Goes on with rows of a stripe that may be wanted.
    fn read(&mut self, stripe: usize, rows: Vec<Range<usize>>) -> Result<Step> {
        let rows = self.request.wanted_of(self.first_row(stripe), rows);
        if rows.is_empty() { self.next_stripe() } else { self.ask_values(stripe, rows) }
    }

    /// Asks what to look up in the filters of a stripe that has rows left, unless that has been in vain too often.
    fn ask_values(&mut self, stripe: usize, ranges: Vec<Range<usize>>) -> Result<Step> {
        match Lookup::of(&self.meta, &self.request.lookup_columns, stripe)? {
            Some(lookup) if self.lookup_patience.asks() => {
                let columns = lookup.columns();
                self.state = State::AskValues { lookup, stripe, ranges };
                Ok(Step::Lookup(columns))
            }
            _ => self.plan(stripe, ranges),
        }
    }

    fn look_up(&mut self, mut lookup: Lookup, stripe: usize, ranges: Vec<Range<usize>>, values: &[Option<ArrayRef>]) -> Result<Step> {
        lookup.take(&self.meta, values)?;
        if values.iter().all(Option::is_none) {
            return self.plan(stripe, ranges);
        }
        let fetches = lookup.fetches();
        if fetches.is_empty() {
            return self.looked_up(lookup, stripe, ranges, Vec::new());
        }
        // What takes as long as to read the rows is no help.
        let plan = StripePlan::new(&self.meta, &self.wanted, stripe, &ranges)?;
        if lookup.bytes() > plan.bytes() / 2 {
            return self.planned(plan, stripe, ranges);
        }
        self.state = State::FetchFilters { lookup, stripe, ranges };
        Ok(Step::Fetch(fetches))
    }

    fn looked_up(&mut self, lookup: Lookup, stripe: usize, ranges: Vec<Range<usize>>, bytes: Vec<Bytes>) -> Result<Step> {
        let may_match = lookup.may_match(&self.meta, bytes)?;
        self.lookup_patience.learn(may_match);
        if may_match {
            self.lookups.kept += 1;
            self.plan(stripe, ranges)
        } else {
            self.lookups.skipped += 1;
            self.next_stripe()
        }
    }

    fn plan(&mut self, stripe: usize, ranges: Vec<Range<usize>>) -> Result<Step> {
        let plan = StripePlan::new(&self.meta, &self.wanted, stripe, &ranges)?;
        self.planned(plan, stripe, ranges)
    }

    fn planned(&mut self, plan: StripePlan, stripe: usize, ranges: Vec<Range<usize>>) -> Result<Step> {
        let selecting = plan.to_select(&self.request).filter(|_| self.patience.asks());
        self.place(Planned { plan, selecting, stripe, ranges, backwards: self.backwards, fetched: Fetched::default(), deferred: false })
    }

    /// Adds a stripe to those that are fetched together, if there is room, and goes on.
    fn place(&mut self, planned: Planned<StripePlan>) -> Result<Step> {
        match self.groups.place(planned, self.request.ahead_bytes) {
            Placed::More => self.next_stripe(),
            Placed::Full => self.fetch_group(),
        }
    }

    /// Fetches the stripes that have been planned, or their columns to select by.
    fn fetch_group(&mut self) -> Result<Step> {
        let group = self.groups.take_planned(self.request.select_bytes_together, self.request.ahead_bytes);
        if !group.iter().any(Planned::is_selecting) {
            return self.fetch_pages(group);
        }
        let fetches = fetches(&group);
        if fetches.is_empty() {
            return self.select(group, Vec::new());
        }
        self.state = State::FetchSelecting(group);
        Ok(Step::Fetch(fetches))
    }

    fn select(&mut self, group: Vec<Planned<StripePlan>>, bytes: Vec<Bytes>) -> Result<Step> {
        self.groups.asked = fetched(group, bytes)?;
        self.ask_rows()
    }

    /// Asks which rows are wanted of the next stripe of a group; after the last, goes on with what is left of them.
    fn ask_rows(&mut self) -> Result<Step> {
        let Some(mut planned) = self.groups.asked.pop_front() else {
            let Answers { wanted, asked } = std::mem::take(&mut self.groups.answers);
            self.patience.learn_wanted(Some(wanted), asked);
            return self.next_stripe();
        };
        let Some(selecting) = planned.selecting.take() else { return Err(Error::invalid_argument("there is nothing to select by")) };
        let rest = Rest::new(planned.ranges.clone(), false);
        let morsel = self.morsel(selecting, planned.stripe, rest, &planned.fetched, false)?;
        self.state = State::SelectRows(planned);
        Ok(Step::Select(Box::new(morsel)))
    }

    fn selected(&mut self, mut planned: Planned<StripePlan>, rows: Option<Rows>) -> Result<Step> {
        let asked = planned.ranges.iter().map(ExactSizeIterator::len).sum();
        self.groups.answers.add(rows.as_ref().map_or(asked, Rows::len), asked);
        if let Some(rows) = rows {
            planned.ranges = rows.within(&planned.ranges).ok_or_else(|| Error::invalid_argument("rows were selected that are not there"))?;
        }
        if !planned.ranges.is_empty() {
            let plan = StripePlan::new(&self.meta, &self.wanted, planned.stripe, &planned.ranges)?;
            planned.plan = plan.after(&planned.fetched);
            self.groups.selected.push_back(planned);
        }
        self.ask_rows()
    }

    fn fetch_pages(&mut self, group: Vec<Planned<StripePlan>>) -> Result<Step> {
        let fetches = fetches(&group);
        if fetches.is_empty() {
            return self.load(group, Vec::new());
        }
        self.state = State::FetchPages(group);
        Ok(Step::Fetch(fetches))
    }

    fn load(&mut self, group: Vec<Planned<StripePlan>>, bytes: Vec<Bytes>) -> Result<Step> {
        self.groups.loaded = fetched(group, bytes)?;
        self.next_stripe()
    }

    fn decode(&mut self, planned: Planned<StripePlan>) -> Result<Step> {
        let Planned { plan, stripe, ranges, backwards, fetched, deferred, .. } = planned;
        let morsel = self.morsel(plan, stripe, Rest::new(ranges, backwards), &fetched, deferred)?;
        self.state = State::NextStripe;
        Ok(Step::Decode(Box::new(morsel)))
    }

    fn first_row(&self, stripe: usize) -> u64 {
        self.first_rows.get(&stripe).copied().unwrap_or_default()
    }

    fn morsel(&self, plan: StripePlan, stripe: usize, rest: Rest, fetched: &Fetched, deferred: bool) -> Result<StripeMorsel> {
        let load = column::Loading { fetched, deferred, checksums: self.meta.has_checksums() };
        let mut columns = Vec::with_capacity(self.fields.len());
        for ((plan, field), out) in plan.columns.into_iter().zip(&self.fields).zip(self.request.schema.fields()) {
            columns.push(Loaded::new(field, out.data_type(), plan, &load)?);
        }
        Ok(StripeMorsel::new(&self.request, columns, self.first_row(stripe), rest, deferred))
    }
}

fn kept(keep: &BooleanArray, zones: usize) -> Result<impl Iterator<Item = bool> + '_> {
    if keep.len() != zones {
        return Err(Error::invalid_argument(format!("{} answers to {zones} zones", keep.len())));
    }
    Ok(keep.iter().map(|keep| keep.unwrap_or(true)))
}

impl Scan for FermionScan {
    fn step(&mut self, answer: Answer) -> Result<Step> {
        let state = std::mem::replace(&mut self.state, State::Done);
        self.next(state, answer)
    }

    fn defer(&mut self) -> Result<Option<Step>> {
        let (State::FetchSelecting(group) | State::FetchPages(group)) = &mut self.state else { return Ok(None) };
        if !group.iter().all(|planned| planned.plan.is_deferrable()) {
            return Ok(None);
        }
        // Pages are fetched where rows are left, whatever selects them.
        self.groups.loaded = std::mem::take(group).into_iter().map(Planned::deferred).collect();
        self.next_stripe().map(Some)
    }

    fn is_over(&self) -> bool {
        matches!(self.state, State::NextStripe | State::Done) && self.share.is_empty() && self.groups.is_empty()
    }

    fn lookups(&self) -> Lookups {
        self.lookups
    }
}
