//! The running hash of everything that was committed, in order of revision.

use std::collections::BTreeMap;

use muster_store::{Cursor, Record, Store};
use muster_tree::Text;

/// Records read from one resource at once.
const RECORDS_PER_READ: usize = 10_000;

/// The hash so far, and how far each resource has been read.
pub struct Trace {
    cursors: BTreeMap<Text, Cursor>,
    hash: u64,
    records: u64,
}

impl Trace {
    /// Reads from the beginning.
    pub fn new() -> Trace {
        Trace { cursors: BTreeMap::new(), hash: 0xcbf2_9ce4_8422_2325, records: 0 }
    }

    /// Takes in what was committed since the last time; returns it in order of revision.
    pub fn read(&mut self, store: &Store, resources: impl Iterator<Item = Text>, from: u64) -> Vec<Record> {
        let mut new = Vec::new();
        for resource in resources {
            let cursor = self.cursors.entry(resource.clone()).or_insert_with(|| {
                store.watch(&resource, from).expect("nothing is compacted before it was read")
            });
            new.extend(cursor.next(RECORDS_PER_READ).expect("nothing is compacted before it was read"));
        }
        new.sort_by_key(|record| record.revision);
        for record in &new {
            self.take(record);
        }
        new
    }

    /// The hash of all records so far.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How many records there were.
    pub fn records(&self) -> u64 {
        self.records
    }

    fn take(&mut self, record: &Record) {
        self.records += 1;
        self.mix(&record.revision.to_le_bytes());
        self.mix(record.key.resource.as_bytes());
        self.mix(record.key.namespace.as_bytes());
        self.mix(record.key.name.as_bytes());
        if let Some(after) = &record.after {
            self.mix(after.tree.to_json().as_bytes());
        }
    }

    /// FNV-1a.
    fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
