//! The published state that readers and watchers see: objects and history of every resource, at one revision.
//!
//! # Guarantees
//!
//! - Records are applied in revision order, a transaction as a whole: between two calls of [`State::publish`] the state
//!   is that of one revision.
//! - A resource without writes has no entry; reading it finds nothing.
//!
//! # Deliberately absent
//!
//! Accepted writes that are not durable yet: the writers' view is in `head`.

use std::collections::BTreeMap;
use std::ops::Bound;

use muster_api::time::Time;
use muster_tree::Text;

use crate::codec::{Logged, What};
use crate::ring::{Ring, Staged};
use crate::{Expired, Key, Record, StoreOptions, StoredObject};

/// Sort key of an object within its resource: namespace, then name.
pub(crate) type Name = (Text, Text);

/// Interval at which rings without writes are checked for expired entries.
const SWEEP_EVERY: std::time::Duration = std::time::Duration::from_secs(60);

/// The published state of all resources.
pub(crate) struct State {
    revision: u64,
    shelves: BTreeMap<Text, ResourceState>,
    history_bytes: usize,
    swept: Time,
    options: StoreOptions,
}

/// Objects and history of one resource.
#[derive(Default)]
pub(crate) struct ResourceState {
    pub(crate) objects: BTreeMap<Name, StoredObject>,
    pub(crate) ring: Ring,
}

impl State {
    pub(crate) fn new(options: StoreOptions, now: Time) -> Self {
        Self { revision: 0, shelves: BTreeMap::new(), history_bytes: 0, swept: now, options }
    }

    /// The published revision.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn shelf(&self, resource: &str) -> Option<&ResourceState> {
        self.shelves.get(resource)
    }

    pub(crate) fn shelves(&self) -> &BTreeMap<Text, ResourceState> {
        &self.shelves
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&StoredObject> {
        let shelf = self.shelves.get(&key.resource)?;
        shelf.objects.get(&(key.namespace.clone(), key.name.clone()))
    }

    /// At most `max` objects after a key, in key order across all resources; feeds snapshots.
    pub(crate) fn objects_after(&self, after: Option<&Key>, max: usize) -> Vec<(Key, StoredObject)> {
        let first = after.map_or_else(Text::new, |key| key.resource.clone());
        let shelves = self.shelves.range(first..);
        let all = shelves.flat_map(|(resource, shelf)| {
            let from = match after {
                Some(key) if key.resource == *resource => {
                    Bound::Excluded((key.namespace.clone(), key.name.clone()))
                }
                _ => Bound::Unbounded,
            };
            shelf.objects.range((from, Bound::Unbounded)).map(move |(name, object)| (resource, name, object))
        });
        let keyed = all.map(|(resource, (namespace, name), object)| {
            let key = Key { resource: resource.clone(), namespace: namespace.clone(), name: name.clone() };
            (key, object.clone())
        });
        keyed.take(max).collect()
    }

    /// On load: applies a record from disk unless a later one was applied; snapshot blocks and log overlap.
    pub(crate) fn fold(&mut self, logged: Logged) {
        let Logged { revision, key, what } = logged;
        let shelf = self.shelves.entry(key.resource).or_default();
        let name = (key.namespace, key.name);
        if shelf.objects.get(&name).is_some_and(|object| object.revision >= revision) {
            return;
        }
        match what {
            What::Put(object) => drop(shelf.objects.insert(name, object)),
            What::Delete(_) => drop(shelf.objects.remove(&name)),
        }
    }

    /// On load: sets the published revision.
    pub(crate) fn reached(&mut self, revision: u64) {
        self.revision = revision;
    }

    /// On load: marks the changes of `resource` up to `revision` as expired.
    pub(crate) fn forgot(&mut self, resource: &Text, revision: u64) {
        self.shelves.entry(resource.clone()).or_default().ring = Ring::starting_after(revision);
    }

    /// Publishes changes, then drops history beyond its limits.
    pub(crate) fn publish(&mut self, records: impl IntoIterator<Item = Staged>, now: Time) {
        for staged in records {
            self.apply(staged, now);
        }
        self.shrink();
        if now.since(self.swept) >= SWEEP_EVERY {
            self.forget_old(now);
        }
    }

    fn apply(&mut self, staged: Staged, now: Time) {
        let record = &staged.record;
        self.revision = record.revision;
        let shelf = match self.shelves.get_mut(&record.key.resource) {
            Some(shelf) => shelf,
            None => self.shelves.entry(record.key.resource.clone()).or_default(),
        };
        let name = (record.key.namespace.clone(), record.key.name.clone());
        match &record.after {
            Some(object) => drop(shelf.objects.insert(name, object.clone())),
            None => drop(shelf.objects.remove(&name)),
        }
        self.history_bytes += staged.bytes;
        shelf.ring.push(staged, now);
        while shelf.ring.len() > self.options.history_entries_min
            && shelf.ring.oldest_at().is_some_and(|at| now.since(at) > self.options.history_age_max)
        {
            self.history_bytes -= shelf.ring.pop();
        }
    }

    /// Drops history beyond its byte limit, from the largest ring first.
    fn shrink(&mut self) {
        let keep = self.options.history_entries_min;
        // One busy resource (Events) must not evict the history of all others.
        while self.history_bytes > self.options.history_bytes_max {
            let rings = self.shelves.values_mut().map(|shelf| &mut shelf.ring);
            let Some(ring) = rings.filter(|ring| ring.len() > keep).max_by_key(|ring| ring.bytes()) else {
                return;
            };
            self.history_bytes -= ring.pop();
        }
    }

    /// Drops entries beyond the age limit in every ring.
    fn forget_old(&mut self, now: Time) {
        self.swept = now;
        let (keep, age_max) = (self.options.history_entries_min, self.options.history_age_max);
        for ring in self.shelves.values_mut().map(|shelf| &mut shelf.ring) {
            while ring.len() > keep && ring.oldest_at().is_some_and(|at| now.since(at) > age_max) {
                self.history_bytes -= ring.pop();
            }
        }
    }

    /// Drops all history up to `revision`.
    pub(crate) fn compact(&mut self, revision: u64) {
        for ring in self.shelves.values_mut().map(|shelf| &mut shelf.ring) {
            while ring.next_revision().is_some_and(|next| next <= revision) {
                self.history_bytes -= ring.pop();
            }
        }
    }

    /// At most `max` changes of `resource` after `revision`, and the revision that a cursor has reached with them.
    pub(crate) fn changes(
        &self,
        resource: &str,
        revision: u64,
        max: usize,
    ) -> Result<(Vec<Record>, u64), Expired> {
        let Some(shelf) = self.shelves.get(resource) else {
            return Ok((Vec::new(), revision.max(self.revision)));
        };
        let all = shelf.ring.after(revision)?;
        let complete = all.len() <= max;
        let records: Vec<Record> = all.take(max).cloned().collect();
        let reached = match records.last() {
            Some(last) if !complete => last.revision,
            _ if complete => revision.max(self.revision),
            _ => revision,
        };
        Ok((records, reached))
    }
}
