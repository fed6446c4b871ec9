//! The dictionaries of the record batches that a scan has planned.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::dictionaries::{Dictionary, Key};
use super::plan::BatchPlan;

/// Keeps each dictionary as long as a batch that is planned uses it, and those of the last batch, which are most likely those of the next.
#[derive(Debug, Default)]
pub(super) struct Kept {
    loaded: HashMap<Key, Arc<Dictionary>>,
    /// Those that come with a batch that is planned, and will be there for the ones behind it.
    promised: HashSet<Key>,
    /// How many of the planned batches use each.
    uses: HashMap<Key, usize>,
    last: Vec<Key>,
}

impl Kept {
    /// Whether it is there, or will be before another batch is read.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.loaded.contains_key(key) || self.promised.contains(key)
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Arc<Dictionary>> {
        self.loaded.get(key)
    }

    pub(super) fn insert(&mut self, key: &Key, dictionary: Dictionary) {
        self.promised.remove(key);
        self.loaded.insert(key.clone(), Arc::new(dictionary));
    }

    /// A batch has been planned.
    pub(super) fn begin(&mut self, plan: &BatchPlan) {
        plan.uses().for_each(|key| *self.uses.entry(key.clone()).or_default() += 1);
    }

    /// What this plan loads will be there.
    pub(super) fn promise(&mut self, plan: &BatchPlan) {
        self.promised.extend(plan.loads().cloned());
    }

    /// A batch has been given up before it was promised anything.
    pub(super) fn give_up(&mut self, plan: &BatchPlan) {
        for key in plan.uses() {
            if let Some(count) = self.uses.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    self.uses.remove(key);
                }
            }
        }
    }

    /// A batch has been read, or is not wanted.
    pub(super) fn end(&mut self, plan: &BatchPlan) {
        self.give_up(plan);
        let last = std::mem::replace(&mut self.last, plan.uses().cloned().collect());
        let now: HashSet<&Key> = self.last.iter().collect();
        for key in last.iter().filter(|key| !now.contains(key) && !self.uses.contains_key(*key)) {
            self.loaded.remove(key);
        }
    }
}
