//! Stripes, or record batches, that are fetched together, in one round to a store or in two.
//!
//! One of which rows are selected first is fetched in two parts: the columns to select by, and of the others what is left. Groups are either of such or of others,
//! and of the first kind the rest may again be more than is fetched at once.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

use super::error::{Error, Result};
use super::requests::Fetched;
use super::scan::{Fetch, Section};

/// Stripes that are fetched together, at most, however small: they are planned one within the other.
const STRIPES_MAX: usize = 64;

/// What to fetch of a stripe.
pub(crate) trait Plan {
    /// In the order of the file.
    fn requests(&self) -> &[Range<u64>];

    fn take_requests(&mut self) -> Vec<Range<u64>>;

    fn bytes(&self) -> u64 {
        self.requests().iter().map(|range| range.end - range.start).sum()
    }
}

/// A stripe, and what to fetch of it for these rows.
#[derive(Debug)]
pub(crate) struct Planned<P> {
    pub(crate) plan: P,
    /// The columns to select by, if rows are to be selected before the others are fetched.
    pub(crate) selecting: Option<P>,
    pub(crate) stripe: usize,
    pub(crate) ranges: Vec<Range<usize>>,
    /// Whether the last of these rows come first.
    pub(crate) backwards: bool,
    /// What is there.
    pub(crate) fetched: Fetched,
    /// Whether the rest is fetched when rows are read.
    pub(crate) deferred: bool,
}

impl<P: Plan> Planned<P> {
    pub(crate) fn is_selecting(&self) -> bool {
        self.selecting.is_some()
    }

    /// The same, of which what has not been fetched is when rows are read.
    pub(crate) fn deferred(self) -> Self {
        Self { selecting: None, deferred: true, ..self }
    }

    /// What is fetched next.
    pub(crate) fn next(&self) -> &P {
        self.selecting.as_ref().unwrap_or(&self.plan)
    }

    fn next_mut(&mut self) -> &mut P {
        self.selecting.as_mut().unwrap_or(&mut self.plan)
    }
}

/// How far stripes are that are not decoded yet.
#[derive(Debug)]
pub(crate) struct Groups<P> {
    /// To be fetched together.
    pub(crate) planned: Vec<Planned<P>>,
    /// Comes behind them, and is none of them.
    pub(crate) held: Option<Planned<P>>,
    /// The columns to select by are there.
    pub(crate) asked: VecDeque<Planned<P>>,
    /// What was answered of stripes of this group.
    pub(crate) answers: Answers,
    /// Rows have been selected, and the rest has to be fetched.
    pub(crate) selected: VecDeque<Planned<P>>,
    /// All is there, to be decoded one after the other.
    pub(crate) loaded: VecDeque<Planned<P>>,
}

/// How many rows were asked about and are wanted. A group is one occasion to learn from, for all of it was planned before the first answer.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) wanted: usize,
    pub(crate) asked: usize,
}

impl Answers {
    pub(crate) fn add(&mut self, wanted: usize, asked: usize) {
        self.wanted += wanted;
        self.asked += asked;
    }
}

/// Whether there is room for another stripe.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    More,
    Full,
}

impl<P> Default for Groups<P> {
    fn default() -> Self {
        Self {
            planned: Vec::new(),
            held: None,
            asked: VecDeque::new(),
            answers: Answers::default(),
            selected: VecDeque::new(),
            loaded: VecDeque::new(),
        }
    }
}

impl<P: Plan> Groups<P> {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { planned, held, asked, answers: _, selected, loaded } = self;
        planned.is_empty() && held.is_none() && [asked, selected, loaded].iter().all(|stripes| stripes.is_empty())
    }

    /// Adds a stripe to those that are planned, if it is of their kind and all of them take no more than `ahead` bytes; else holds it back.
    pub(crate) fn place(&mut self, planned: Planned<P>, ahead: u64) -> Placed {
        let bytes: u64 = self.planned.iter().map(|planned| planned.next().bytes()).sum();
        let is_too_much = ahead == 0 || bytes.saturating_add(planned.next().bytes()) > ahead;
        let is_another = self.planned.first().is_some_and(|first| first.is_selecting() != planned.is_selecting());
        if is_another || (is_too_much && !self.planned.is_empty()) {
            self.held = Some(planned);
            return Placed::Full;
        }
        self.planned.push(planned);
        // Of a stripe that is a group by itself there is no more to plan.
        if is_too_much || self.planned.len() == STRIPES_MAX { Placed::Full } else { Placed::More }
    }

    /// Takes those that are planned. Where less than `least` bytes of them would be left for a second round, there is none, if the first is no more than `ahead` bytes then.
    pub(crate) fn take_planned(&mut self, least: u64, ahead: u64) -> Vec<Planned<P>> {
        let mut group = std::mem::take(&mut self.planned);
        let later = |planned: &Planned<P>| planned.selecting.as_ref().map_or(0, |selecting| planned.plan.bytes().saturating_sub(selecting.bytes()));
        if group.iter().map(later).sum::<u64>() < least && group.iter().map(|planned| planned.plan.bytes()).sum::<u64>() <= ahead {
            group.iter_mut().for_each(|planned| planned.selecting = None);
        }
        group
    }

    /// The first of those of which rows have been selected: one, and as many more as take no more than `ahead` bytes.
    pub(crate) fn take_selected(&mut self, ahead: u64) -> Vec<Planned<P>> {
        let mut bytes = 0_u64;
        let fits = |planned: &&Planned<P>| {
            bytes = bytes.saturating_add(planned.plan.bytes());
            bytes <= ahead
        };
        let count = self.selected.iter().take_while(fits).count().max(1);
        self.selected.drain(..count.min(self.selected.len())).collect()
    }
}

/// What to fetch of a group.
pub(crate) fn fetches<P: Plan>(group: &[Planned<P>]) -> Vec<Fetch> {
    let ranges = group.iter().flat_map(|planned| planned.next().requests());
    ranges.map(|range| Fetch { range: range.clone(), section: Section::Data }).collect()
}

/// A group with the bytes that it was fetched for.
pub(crate) fn fetched<P: Plan>(group: Vec<Planned<P>>, bytes: Vec<Bytes>) -> Result<VecDeque<Planned<P>>> {
    let wanted: usize = group.iter().map(|planned| planned.next().requests().len()).sum();
    if bytes.len() != wanted {
        return Err(Error::invalid_argument(format!("{wanted} pieces were asked for, not {}", bytes.len())));
    }
    let mut bytes = bytes.into_iter();
    let of_stripe = |mut planned: Planned<P>| {
        let requests = planned.next_mut().take_requests();
        let of_stripe = bytes.by_ref().take(requests.len()).collect();
        let before = std::mem::take(&mut planned.fetched);
        planned.fetched = Fetched::new(requests, of_stripe)?.after(before);
        Ok(planned)
    };
    group.into_iter().map(of_stripe).collect()
}
