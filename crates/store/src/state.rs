//! What readers and watchers see: the objects of every resource and their history, at one revision.
//!
//! # Invariants
//!
//! - Records are applied in revision order, a transaction as a whole: between two calls of [`State::publish`]
//!   the state is that of one revision.
//! - A resource nobody ever wrote has no shelf; reading it finds nothing.
//!
//! # Deliberately absent
//!
//! What is accepted but not yet durable. The writers' view is in `head`.

use std::collections::BTreeMap;
use std::ops::Bound;

use muster_api::time::Time;
use muster_tree::Text;

use crate::codec::{Logged, What};
use crate::ring::{Ring, Staged};
use crate::{Expired, Key, Object, Record, StoreOptions};

/// The place of an object within its resource: namespace, then name.
pub(crate) type Name = (Text, Text);

/// How often rings that nobody writes are looked at for entries that are too old.
const SWEEP_EVERY: std::time::Duration = std::time::Duration::from_secs(60);

/// The published state.
pub(crate) struct State {
    revision: u64,
    shelves: BTreeMap<Text, Shelf>,
    history_bytes: usize,
    swept: Time,
    options: StoreOptions,
}

/// One resource.
#[derive(Default)]
pub(crate) struct Shelf {
    pub(crate) objects: BTreeMap<Name, Object>,
    pub(crate) ring: Ring,
}

impl State {
    pub(crate) fn new(options: StoreOptions, now: Time) -> Self {
        Self { revision: 0, shelves: BTreeMap::new(), history_bytes: 0, swept: now, options }
    }

    /// The revision everything here is at.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn shelf(&self, resource: &str) -> Option<&Shelf> {
        self.shelves.get(resource)
    }

    pub(crate) fn shelves(&self) -> &BTreeMap<Text, Shelf> {
        &self.shelves
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Object> {
        let shelf = self.shelves.get(&key.resource)?;
        shelf.objects.get(&(key.namespace.clone(), key.name.clone()))
    }

    /// At most `max` objects after a key, in key order over all resources.
    pub(crate) fn objects_after(&self, after: Option<&Key>, max: usize) -> Vec<(Key, Object)> {
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

    /// At the start: the state of one key as the disk knows it, unless a later one is known already.
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

    /// At the start: everything up to `revision` is here.
    pub(crate) fn reached(&mut self, revision: u64) {
        self.revision = revision;
    }

    /// At the start: the changes of `resource` up to `revision` are not known any more.
    pub(crate) fn forgot(&mut self, resource: &Text, revision: u64) {
        self.shelves.entry(resource.clone()).or_default().ring = Ring::starting_after(revision);
    }

    /// Makes changes visible, then lets the history give way where it has outgrown its bounds.
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

    /// Keeps the history under its byte budget: the biggest ring gives way.
    fn shrink(&mut self) {
        let keep = self.options.history_entries_min;
        while self.history_bytes > self.options.history_bytes_max {
            let rings = self.shelves.values_mut().map(|shelf| &mut shelf.ring);
            let Some(ring) = rings.filter(|ring| ring.len() > keep).max_by_key(|ring| ring.bytes()) else {
                return;
            };
            self.history_bytes -= ring.pop();
        }
    }

    /// Drops what is older than the history is meant to reach, in every ring.
    fn forget_old(&mut self, now: Time) {
        self.swept = now;
        let (keep, age_max) = (self.options.history_entries_min, self.options.history_age_max);
        for ring in self.shelves.values_mut().map(|shelf| &mut shelf.ring) {
            while ring.len() > keep && ring.oldest_at().is_some_and(|at| now.since(at) > age_max) {
                self.history_bytes -= ring.pop();
            }
        }
    }

    /// Forgets all history up to `revision`.
    pub(crate) fn compact(&mut self, revision: u64) {
        for ring in self.shelves.values_mut().map(|shelf| &mut shelf.ring) {
            while ring.next_revision().is_some_and(|next| next <= revision) {
                self.history_bytes -= ring.pop();
            }
        }
    }

    /// At most `max` changes of `resource` after `revision`, and the revision up to which nothing is missing then.
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
