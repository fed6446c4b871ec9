//! Stripes that are fetched together, in one round to a store or in two.
//!
//! A stripe of which rows are selected first is fetched in two parts: the columns to select by, and of the others what is left. Groups are either of such stripes or of others,
//! and of the first kind the rest may again be more than is fetched at once.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

use super::plan::StripePlan;
use crate::format::error::{Error, Result};
use crate::format::requests::Fetched;
use crate::format::scan::Fetch;

/// Stripes that are fetched together, at most, however small: they are planned one within the other.
const STRIPES_MAX: usize = 64;

/// A stripe, and what to fetch of it for these rows.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) plan: StripePlan,
    /// The columns to select by, if rows are to be selected before the others are fetched.
    pub(super) selecting: Option<StripePlan>,
    pub(super) stripe: usize,
    pub(super) ranges: Vec<Range<usize>>,
    /// Whether the last of these rows come first.
    pub(super) backwards: bool,
    /// What is there.
    pub(super) fetched: Fetched,
    /// Whether the rest is fetched when rows are read.
    pub(super) deferred: bool,
}

impl Planned {
    pub(super) fn is_selecting(&self) -> bool {
        self.selecting.is_some()
    }

    /// The same, of which what has not been fetched is when rows are read.
    pub(super) fn deferred(self) -> Self {
        Self { selecting: None, deferred: true, ..self }
    }

    /// What is fetched next.
    fn next(&self) -> &StripePlan {
        self.selecting.as_ref().unwrap_or(&self.plan)
    }

    fn next_mut(&mut self) -> &mut StripePlan {
        self.selecting.as_mut().unwrap_or(&mut self.plan)
    }
}

/// How far stripes are that are not decoded yet.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// To be fetched together.
    pub(super) planned: Vec<Planned>,
    /// Comes behind them, and is none of them.
    pub(super) held: Option<Planned>,
    /// The columns to select by are there.
    pub(super) asked: VecDeque<Planned>,
    /// What was answered of stripes of this group.
    pub(super) answers: Answers,
    /// Rows have been selected, and the rest has to be fetched.
    pub(super) selected: VecDeque<Planned>,
    /// All is there, to be decoded one after the other.
    pub(super) loaded: VecDeque<Planned>,
}

/// How many rows were asked about and are wanted. A group is one occasion to learn from, for all of it was planned before the first answer.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) wanted: usize,
    pub(super) asked: usize,
}

impl Answers {
    pub(super) fn add(&mut self, wanted: usize, asked: usize) {
        self.wanted += wanted;
        self.asked += asked;
    }
}

/// Whether there is room for another stripe.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Placed {
    More,
    Full,
}

impl Groups {
    pub(super) fn is_empty(&self) -> bool {
        let Self { planned, held, asked, answers: _, selected, loaded } = self;
        planned.is_empty() && held.is_none() && [asked, selected, loaded].iter().all(|stripes| stripes.is_empty())
    }

    /// Adds a stripe to those that are planned, if it is of their kind and all of them take no more than `ahead` bytes; else holds it back.
    pub(super) fn place(&mut self, planned: Planned, ahead: u64) -> Placed {
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

    /// The first of those of which rows have been selected: one, and as many more as take no more than `ahead` bytes.
    pub(super) fn take_selected(&mut self, ahead: u64) -> Vec<Planned> {
        let mut bytes = 0_u64;
        let fits = |planned: &&Planned| {
            bytes = bytes.saturating_add(planned.plan.bytes());
            bytes <= ahead
        };
        let count = self.selected.iter().take_while(fits).count().max(1);
        self.selected.drain(..count.min(self.selected.len())).collect()
    }
}

/// What to fetch of a group.
pub(super) fn fetches(group: &[Planned]) -> Vec<Fetch> {
    group.iter().flat_map(|planned| planned.next().fetches()).collect()
}

/// A group with the bytes that it was fetched for.
pub(super) fn fetched(group: Vec<Planned>, bytes: Vec<Bytes>) -> Result<VecDeque<Planned>> {
    let wanted: usize = group.iter().map(|planned| planned.next().requests.len()).sum();
    if bytes.len() != wanted {
        return Err(Error::invalid_argument(format!("{wanted} pieces were asked for, not {}", bytes.len())));
    }
    let mut bytes = bytes.into_iter();
    let of_stripe = |mut planned: Planned| {
        let requests = std::mem::take(&mut planned.next_mut().requests);
        let of_stripe = bytes.by_ref().take(requests.len()).collect();
        let before = std::mem::take(&mut planned.fetched);
        planned.fetched = Fetched::new(requests, of_stripe)?.after(before);
        Ok(planned)
    };
    group.into_iter().map(of_stripe).collect()
}
