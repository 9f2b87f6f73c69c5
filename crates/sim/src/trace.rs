//! The trace: all committed records in order of resourceVersion, their running hash, and the injected faults.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::time::Time;
use muster_apiserver::engine::ApiEngine;
use muster_apiserver::registry::Registry;
use muster_store::{Cursor, Record, Store};
use muster_tree::Text;

/// Records read from one resource per batch.
const RECORDS_PER_READ: usize = 10_000;

/// The records so far, and a cursor per resource.
pub struct Trace {
    cursors: BTreeMap<Text, Cursor>,
    registry: Option<Arc<Registry>>,
    read_to: u64,
    hash: u64,
    records: Vec<(Time, Record)>,
    /// Faults, with the revision before each.
    faults: Vec<(Time, u64, String)>,
    /// Revisions that clients can observe; a transaction has one.
    commits: Vec<u64>,
}

impl Trace {
    pub fn new() -> Trace {
        Trace {
            cursors: BTreeMap::new(),
            registry: None,
            read_to: 0,
            hash: 0xcbf2_9ce4_8422_2325,
            records: Vec::new(),
            faults: Vec::new(),
            commits: Vec::new(),
        }
    }

    /// Records that clients can observe this revision.
    pub fn mark_visible(&mut self, revision: u64) {
        if self.commits.last() != Some(&revision) {
            self.commits.push(revision);
        }
    }

    /// Revisions that clients can observe; a transaction has one.
    pub fn commits(&self) -> &[u64] {
        &self.commits
    }

    /// Reads the records committed since the last call, stamps them with `now`, and returns them in order of revision.
    pub fn read(&mut self, engine: &ApiEngine, now: Time) -> &[(Time, Record)] {
        let old = self.records.len();
        let newest = engine.revision();
        if newest == self.read_to {
            return &[];
        }
        self.read_to = newest;
        self.follow_all(&engine.registry(), engine.store());
        let mut new = Vec::new();
        for cursor in self.cursors.values_mut() {
            new.extend(cursor.next(RECORDS_PER_READ).expect("nothing is compacted before it was read"));
        }
        // Cursors are per resource; the hash needs one global order.
        new.sort_by_key(|record| record.revision);
        for record in new {
            self.mix_in(&record);
            self.records.push((now, record));
        }
        &self.records[old..]
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// All records with the time of their commit.
    pub fn records(&self) -> &[(Time, Record)] {
        &self.records
    }

    pub fn fault(&mut self, engine: &ApiEngine, now: Time, what: String) {
        self.faults.push((now, engine.revision(), what));
    }

    /// Records and faults as lines, in order.
    pub fn lines(&self) -> Vec<String> {
        let begin = self.records.first().map_or(Time(0), |(at, _)| *at);
        let since = |at: &Time| (at.0 - begin.0) as f64 / 1e6;
        let mut faults = self.faults.iter().peekable();
        let mut lines = Vec::new();
        for (at, record) in &self.records {
            while let Some((at, _, what)) = faults.next_if(|(_, before, _)| *before < record.revision) {
                lines.push(format!("{:10.3}       -- {what}", since(at)));
            }
            lines.push(format!("{:10.3} {}", since(at), describe(record)));
        }
        lines.extend(faults.map(|(at, _, what)| format!("{:10.3}       -- {what}", since(at))));
        lines
    }

    /// Opens cursors for new resources, such as those of a CRD.
    fn follow_all(&mut self, registry: &Arc<Registry>, store: &Store) {
        if self.registry.as_ref().is_some_and(|known| Arc::ptr_eq(known, registry)) {
            return;
        }
        self.registry = Some(registry.clone());
        for resource in registry.all() {
            self.cursors.entry(resource.storage.clone()).or_insert_with(|| {
                store.watch(&resource.storage, 0).expect("nothing is compacted before it was read")
            });
        }
    }

    fn mix_in(&mut self, record: &Record) {
        self.mix(&record.revision.to_le_bytes());
        self.mix(record.key.resource.as_bytes());
        self.mix(record.key.namespace.as_bytes());
        self.mix(record.key.name.as_bytes());
        if let Some(after) = &record.after {
            self.mix(after.tree.to_json().as_bytes());
        }
    }

    fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn describe(record: &Record) -> String {
    let (revision, key) = (record.revision, &record.key);
    let place = format!("{} {}/{}", key.resource, key.namespace, key.name);
    match (&record.before, &record.after) {
        (None, Some(after)) => format!("{revision:>5} made {place} {}", after.tree.to_json()),
        (Some(before), Some(after)) => {
            let change = before.tree.merge_patch_to(&after.tree).unwrap_or_default();
            format!("{revision:>5} changed {place} {}", change.to_json())
        }
        (_, None) => format!("{revision:>5} removed {place}"),
    }
}
