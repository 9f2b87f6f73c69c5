//! How many TrainJobs are deleted at once, and who is next.
//!
//! # Invariants
//!
//! - Whoever leaves lets in whoever has waited longest; nobody asks again before that.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::Key;

/// Deletions in flight, and TrainJobs that wait for theirs.
#[derive(Debug)]
pub struct Deletions {
    max: usize,
    in_flight: BTreeSet<Key>,
    /// In the order in which they came.
    waiting: BTreeMap<u64, Key>,
    places: BTreeMap<Key, u64>,
    next: u64,
}

impl Deletions {
    /// So many at once; one at least.
    pub fn new(max: usize) -> Deletions {
        Deletions {
            max: max.max(1),
            in_flight: BTreeSet::new(),
            waiting: BTreeMap::new(),
            places: BTreeMap::new(),
            next: 0,
        }
    }

    /// Whether this one may be deleted now; otherwise it waits.
    pub fn enter(&mut self, key: &Key) -> bool {
        if self.in_flight.len() < self.max {
            self.in_flight.insert(key.clone());
            return true;
        }
        if !self.places.contains_key(key) {
            self.next += 1;
            self.waiting.insert(self.next, key.clone());
            self.places.insert(key.clone(), self.next);
        }
        false
    }

    /// Nothing of this one is in flight, nor does it wait any more: it is looked at, and comes again if it wants to. Who is
    /// next, if that makes room for one.
    pub fn leave(&mut self, key: &Key) -> Option<Key> {
        if let Some(place) = self.places.remove(key) {
            self.waiting.remove(&place);
        }
        if !self.in_flight.remove(key) {
            return None;
        }
        let (_, next) = self.waiting.pop_first()?;
        self.places.remove(&next);
        Some(next)
    }

    /// How many are in flight, and how many wait.
    #[cfg(test)]
    pub fn count(&self) -> (usize, usize) {
        (self.in_flight.len(), self.waiting.len())
    }
}
