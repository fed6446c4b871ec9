//! The scan: prune stripes, then of each stripe prune pages, fetch, decode.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::FieldRef;
use bytes::Bytes;

use super::columns::LoadColumns;
use super::lookup::Lookup;
use super::meta::FileMeta;
use super::morsel::{Loaded, StripeMorsel};
use super::parts::Part;
use super::plan::{StripePlan, WantedColumn};
use super::zones::{page_zones, stripe_zones};
use crate::format::array::Ranges;
use crate::format::error::{Error, Result};
use crate::format::patience::Patience;
use crate::format::requests::Fetched;
use crate::format::rows::Rows;
use crate::format::scan::{Answer, Fetch, Load, Loading, Lookups, Scan, ScanRequest, Step};

/// A scan of a Fermion file. Its steps are: [`Step::Fetch`] the metadata of the columns that is not loaded, [`Step::Prune`] the stripes, and for
/// each stripe (or a few of them, if [`ScanRequest::ahead_bytes`] says so) [`Step::Prune`] its pages, [`Step::Lookup`] and [`Step::Fetch`] its filters, if it has any, [`Step::Fetch`] the columns to select by and [`Step::Select`] rows, if that is worth it, [`Step::Fetch`] what is
/// left, [`Step::Decode`].
#[derive(Debug)]
pub struct FermionScan {
    meta: Arc<FileMeta>,
    request: ScanRequest,
    fields: Vec<FieldRef>,
    wanted: Vec<WantedColumn>,
    parts: VecDeque<Part>,
    patience: Patience,
    lookup_patience: Patience,
    lookups: Lookups,
    /// Stripes that are to be fetched together.
    group: Vec<Planned>,
    /// A stripe that comes behind them, and is none of them.
    held: Option<Planned>,
    /// Stripes that have been fetched, to be decoded one after the other.
    loaded: VecDeque<(Planned, Fetched)>,
    state: State,
}

/// A stripe, and what to fetch of it for these rows.
#[derive(Debug)]
struct Planned {
    plan: StripePlan,
    /// The columns to select by, if rows are to be selected before the others are fetched.
    selecting: Option<StripePlan>,
    stripe: usize,
    ranges: Vec<Range<usize>>,
}

/// Stripes that are fetched together, at most, however small: they are planned one within the other.
const GROUP_STRIPES: usize = 64;

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
    FetchSelecting { plan: StripePlan, stripe: usize, ranges: Vec<Range<usize>> },
    SelectRows { fetched: Fetched, stripe: usize, ranges: Vec<Range<usize>> },
    FetchPages { plan: StripePlan, ranges: Vec<Range<usize>>, before: Fetched },
    FetchGroup(Vec<Planned>),
    Done,
}

impl FermionScan {
    /// Plans a scan.
    pub fn new(meta: Arc<FileMeta>, request: ScanRequest) -> Result<Self> {
        let parts = meta.parts(request.range.as_ref()).into();
        Self::of_parts(meta, request, parts)
    }

    fn of_parts(meta: Arc<FileMeta>, request: ScanRequest, parts: VecDeque<Part>) -> Result<Self> {
        request.validate()?;
        let fields: Vec<FieldRef> = request.columns.iter().map(|column| meta.field(*column)).collect::<Result<_>>()?;
        let columns = request.columns.iter().zip(&fields).zip(request.schema.fields());
        let wanted = columns.map(|((column, field), out)| match meta.batch_column(*column) {
            Some(which) => Ok(WantedColumn::of_batches(*column, which)),
            None => WantedColumn::new(*column, field.data_type(), out.data_type()).map_err(|error| error.in_column(field.name())),
        });
        let wanted = wanted.collect::<Result<_>>()?;
        let state = State::LoadColumns(meta.load_columns(&request.used_columns()));
        let lookup_patience = Patience::with_tolerance(LOOKUPS_IN_VAIN);
        Ok(Self {
            meta,
            request,
            fields,
            wanted,
            parts,
            patience: Patience::default(),
            lookup_patience,
            lookups: Lookups::default(),
            group: Vec::new(),
            held: None,
            loaded: VecDeque::new(),
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
            (State::FetchSelecting { plan, stripe, ranges }, Answer::Fetched(bytes)) => self.select(plan, stripe, ranges, bytes),
            (State::SelectRows { fetched, stripe, ranges }, Answer::Select(rows)) => self.fetch_selected(fetched, stripe, &ranges, rows),
            (State::FetchPages { plan, ranges, before }, Answer::Fetched(bytes)) => self.decode(plan, ranges, before, bytes),
            (State::FetchGroup(group), Answer::Fetched(bytes)) => self.load_group(group, bytes),
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
            Loading::Ready(()) if self.request.prune_columns.is_empty() || self.parts.is_empty() => self.next_stripe(),
            Loading::Ready(()) => {
                let zones = stripe_zones(&self.meta, &self.request.prune_columns, self.parts.make_contiguous())?;
                self.state = State::PruneStripes;
                Ok(Step::Prune(zones))
            }
        }
    }

    fn keep_stripes(&mut self, keep: &BooleanArray) -> Result<Step> {
        let mut keep = kept(keep, self.parts.len())?;
        self.parts.retain(|_| keep.next().unwrap_or(true));
        self.next_stripe()
    }

    fn visit_stripes(&mut self, indices: &[usize]) -> Result<Step> {
        let part = |index: &usize| self.parts.get(*index).cloned();
        let parts = indices.iter().map(part).collect::<Option<VecDeque<Part>>>();
        let no_such = || Error::invalid_argument(format!("of {} stripes, {indices:?} are to be read", self.parts.len()));
        self.parts = parts.filter(|parts| parts.len() <= self.parts.len()).ok_or_else(no_such)?;
        self.next_stripe()
    }

    fn next_stripe(&mut self) -> Result<Step> {
        if let Some((planned, fetched)) = self.loaded.pop_front() {
            return self.decode_loaded(planned, &fetched);
        }
        if let Some(planned) = self.held.take() {
            return self.place(planned);
        }
        let Some(part) = self.parts.pop_front() else {
            if self.group.is_empty() {
                self.state = State::Done;
                return Ok(Step::Done);
            }
            return self.fetch_group();
        };
        if self.request.prune_columns.is_empty() {
            return self.ask_values(part.stripe, vec![part.rows]);
        }
        let pages = page_zones(&self.meta, &self.request.prune_columns, &part)?;
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
            _ => self.fetch_pages(stripe, ranges),
        }
    }

    fn look_up(&mut self, mut lookup: Lookup, stripe: usize, ranges: Vec<Range<usize>>, values: &[Option<ArrayRef>]) -> Result<Step> {
        lookup.take(&self.meta, values)?;
        if values.iter().all(Option::is_none) {
            return self.fetch_pages(stripe, ranges);
        }
        let fetches = lookup.fetches();
        if fetches.is_empty() {
            return self.looked_up(lookup, stripe, ranges, Vec::new());
        }
        // What takes as long as to read the rows is no help.
        let plan = StripePlan::new(&self.meta, &self.wanted, stripe, &ranges)?;
        if lookup.bytes() > plan.bytes() / 2 {
            return self.fetch_planned(plan, stripe, ranges);
        }
        self.state = State::FetchFilters { lookup, stripe, ranges };
        Ok(Step::Fetch(fetches))
    }

    fn looked_up(&mut self, lookup: Lookup, stripe: usize, ranges: Vec<Range<usize>>, bytes: Vec<Bytes>) -> Result<Step> {
        let may_match = lookup.may_match(&self.meta, bytes)?;
        self.lookup_patience.learn(may_match);
        if may_match {
            self.lookups.kept += 1;
            self.fetch_pages(stripe, ranges)
        } else {
            self.lookups.skipped += 1;
            self.next_stripe()
        }
    }

    fn fetch_pages(&mut self, stripe: usize, ranges: Vec<Range<usize>>) -> Result<Step> {
        let plan = StripePlan::new(&self.meta, &self.wanted, stripe, &ranges)?;
        self.fetch_planned(plan, stripe, ranges)
    }

    fn fetch_planned(&mut self, plan: StripePlan, stripe: usize, ranges: Vec<Range<usize>>) -> Result<Step> {
        let selecting = plan.to_select(&self.request).filter(|_| self.patience.asks());
        self.place(Planned { plan, selecting, stripe, ranges })
    }

    /// Fetches a stripe, or adds it to those that are fetched together.
    fn place(&mut self, mut planned: Planned) -> Result<Step> {
        let ahead = self.request.ahead_bytes;
        let group_bytes: u64 = self.group.iter().map(|planned| planned.plan.bytes()).sum();
        let is_too_much = ahead == 0 || planned.selecting.is_some() || group_bytes.saturating_add(planned.plan.bytes()) > ahead;
        if !self.group.is_empty() && is_too_much {
            self.held = Some(planned);
            return self.fetch_group();
        }
        let Some(selecting) = planned.selecting.take() else {
            self.group.push(planned);
            // Of a stripe that is a group by itself there is no more to plan.
            return if is_too_much || self.group.len() == GROUP_STRIPES { self.fetch_group() } else { self.next_stripe() };
        };
        let Planned { stripe, ranges, .. } = planned;
        let fetches = selecting.fetches();
        if fetches.is_empty() {
            return self.select(selecting, stripe, ranges, Vec::new());
        }
        self.state = State::FetchSelecting { plan: selecting, stripe, ranges };
        Ok(Step::Fetch(fetches))
    }

    /// Fetches the stripes that have been planned.
    fn fetch_group(&mut self) -> Result<Step> {
        let group = std::mem::take(&mut self.group);
        let fetches: Vec<Fetch> = group.iter().flat_map(|planned| planned.plan.fetches()).collect();
        if fetches.is_empty() {
            return self.load_group(group, Vec::new());
        }
        self.state = State::FetchGroup(group);
        Ok(Step::Fetch(fetches))
    }

    fn load_group(&mut self, group: Vec<Planned>, bytes: Vec<Bytes>) -> Result<Step> {
        let wanted: usize = group.iter().map(|planned| planned.plan.requests.len()).sum();
        if bytes.len() != wanted {
            return Err(Error::invalid_argument(format!("{wanted} pieces were asked for, not {}", bytes.len())));
        }
        let mut bytes = bytes.into_iter();
        for mut planned in group {
            let requests = std::mem::take(&mut planned.plan.requests);
            let of_stripe = bytes.by_ref().take(requests.len()).collect();
            self.loaded.push_back((planned, Fetched::new(requests, of_stripe)?));
        }
        self.next_stripe()
    }

    fn decode_loaded(&mut self, planned: Planned, fetched: &Fetched) -> Result<Step> {
        let morsel = self.morsel(planned.plan, &planned.ranges, fetched)?;
        self.state = State::NextStripe;
        Ok(Step::Decode(Box::new(morsel)))
    }

    fn select(&mut self, mut plan: StripePlan, stripe: usize, ranges: Vec<Range<usize>>, bytes: Vec<Bytes>) -> Result<Step> {
        let fetched = Fetched::new(std::mem::take(&mut plan.requests), bytes)?;
        let morsel = self.morsel(plan, &ranges, &fetched)?;
        self.state = State::SelectRows { fetched, stripe, ranges };
        Ok(Step::Select(Box::new(morsel)))
    }

    fn fetch_selected(&mut self, fetched: Fetched, stripe: usize, ranges: &Ranges, rows: Option<Rows>) -> Result<Step> {
        self.patience.learn_wanted(rows.as_ref().map(Rows::len), ranges.iter().map(ExactSizeIterator::len).sum());
        let selected = match rows {
            None => ranges.to_vec(),
            Some(rows) => rows.within(ranges).ok_or_else(|| Error::invalid_argument("rows were selected that are not there"))?,
        };
        if selected.is_empty() {
            return self.next_stripe();
        }
        let plan = StripePlan::new(&self.meta, &self.wanted, stripe, &selected)?;
        self.fetch(plan.after(&fetched), selected, fetched)
    }

    fn fetch(&mut self, plan: StripePlan, ranges: Vec<Range<usize>>, before: Fetched) -> Result<Step> {
        let fetches = plan.fetches();
        if fetches.is_empty() {
            return self.decode(plan, ranges, before, Vec::new());
        }
        self.state = State::FetchPages { plan, ranges, before };
        Ok(Step::Fetch(fetches))
    }

    fn decode(&mut self, mut plan: StripePlan, ranges: Vec<Range<usize>>, before: Fetched, bytes: Vec<Bytes>) -> Result<Step> {
        let fetched = Fetched::new(std::mem::take(&mut plan.requests), bytes)?.after(before);
        let morsel = self.morsel(plan, &ranges, &fetched)?;
        self.state = State::NextStripe;
        Ok(Step::Decode(Box::new(morsel)))
    }

    fn morsel(&self, plan: StripePlan, ranges: &Ranges, fetched: &Fetched) -> Result<StripeMorsel> {
        let mut columns = Vec::with_capacity(self.fields.len());
        for ((plan, field), out) in plan.columns.into_iter().zip(&self.fields).zip(self.request.schema.fields()) {
            columns.push(Loaded::new(field, out.data_type(), plan, fetched, self.meta.has_checksums())?);
        }
        Ok(StripeMorsel::new(Arc::clone(&self.request.schema), columns, ranges, self.request.batch_rows))
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

    fn lookups(&self) -> Lookups {
        self.lookups
    }
}
