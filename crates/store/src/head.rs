//! The writers' view: accepted writes that are not durable yet, on top of the published state.
//!
//! # Guarantees
//!
//! - Revisions are assigned here, contiguously, in the order of acceptance.
//! - A key is in the tail exactly while its newest change is unpublished.

use std::collections::{BTreeMap, VecDeque};

use crate::ring::{ENTRY_BYTES, Staged};
use crate::state::State;
use crate::{ExpectedRevision, Key, Mutation, Record, StoredObject, Write, WriteError};

/// Receives the result of a write, once.
pub(crate) type Reply = Box<dyn FnOnce(Result<Vec<StoredObject>, WriteError>) + Send>;

/// A write with interned trees, and the memory that was newly interned for it.
pub(crate) struct Prepared {
    pub(crate) write: Write,
    pub(crate) bytes: usize,
}

/// An accepted transaction: its changes become durable and visible together.
pub(crate) struct Transaction {
    pub(crate) records: Vec<Staged>,
    /// The pending reply; `None` if the writer was answered at once.
    pub(crate) reply: Option<Reply>,
}

impl Transaction {
    /// The objects as stored.
    pub(crate) fn objects(&self) -> Vec<StoredObject> {
        self.records.iter().map(|staged| staged.record.shown().clone()).collect()
    }
}

/// The newest, unpublished state of a key.
struct Pending {
    revision: u64,
    object: Option<StoredObject>,
}

/// The unpublished writes and the queue of the commit thread.
#[derive(Default)]
pub(crate) struct Head {
    next: u64,
    tail: BTreeMap<Key, Pending>,
    /// Transactions waiting for a commit.
    pub(crate) queue: VecDeque<Transaction>,
    /// The store is closed: every write is rejected.
    pub(crate) closed: bool,
}

impl Head {
    /// An empty head on top of the state published at `revision`.
    pub(crate) fn over(revision: u64) -> Self {
        Self { next: revision + 1, ..Self::default() }
    }

    /// The newest state of `key`, published or not.
    pub(crate) fn newest(&self, key: &Key, state: &State) -> Option<StoredObject> {
        match self.tail.get(key) {
            Some(pending) => pending.object.clone(),
            None => state.get(key).cloned(),
        }
    }

    /// Checks every precondition and assigns revisions, for all writes or none.
    pub(crate) fn stage(&mut self, writes: Vec<Prepared>, state: &State) -> Result<Vec<Staged>, WriteError> {
        let mut own: BTreeMap<Key, Option<StoredObject>> = BTreeMap::new();
        // Only a transaction with several writes can touch a key twice.
        let many = writes.len() > 1;
        let mut staged = Vec::with_capacity(writes.len());
        for (revision, Prepared { write, bytes }) in (self.next..).zip(writes) {
            let before = match own.get(&write.key) {
                Some(object) => object.clone(),
                None => self.newest(&write.key, state),
            };
            if !holds(write.expect, before.as_ref(), &write.change) {
                return Err(WriteError::Conflict { key: write.key });
            }
            let record = record(write, revision, before);
            if many {
                own.insert(record.key.clone(), record.after.clone());
            }
            staged.push(Staged { record, bytes: bytes + ENTRY_BYTES });
        }
        self.next += staged.len() as u64;
        Ok(staged)
    }

    /// Records staged changes as the newest states until they are published.
    pub(crate) fn hold(&mut self, staged: &[Staged]) {
        for Staged { record, .. } in staged {
            let pending = Pending { revision: record.revision, object: record.after.clone() };
            self.tail.insert(record.key.clone(), pending);
        }
    }

    /// Removes pending states that were published up to `revision`.
    pub(crate) fn release<'a>(&mut self, keys: impl Iterator<Item = &'a Key>, revision: u64) {
        for key in keys {
            if self.tail.get(key).is_some_and(|pending| pending.revision <= revision) {
                self.tail.remove(key);
            }
        }
    }

    /// Discards all unpublished writes after a failed commit; their revisions are assigned again.
    pub(crate) fn drop_tail(&mut self, published: u64) -> VecDeque<Transaction> {
        self.next = published + 1;
        self.tail.clear();
        std::mem::take(&mut self.queue)
    }
}

/// Returns whether the precondition of a write holds.
fn holds(expect: ExpectedRevision, now: Option<&StoredObject>, change: &Mutation) -> bool {
    match (expect, now) {
        // A delete of an absent key was prepared against stale state, so it conflicts.
        (ExpectedRevision::Absent, None) => matches!(change, Mutation::Put(_)),
        (ExpectedRevision::Revision(seen), Some(object)) => object.revision == seen,
        _ => false,
    }
}

fn record(write: Write, revision: u64, before: Option<StoredObject>) -> Record {
    let (after, last) = match write.change {
        Mutation::Put(object) => (Some(StoredObject { revision, ..object }), None),
        Mutation::Delete(object) => (None, Some(StoredObject { revision, ..object })),
    };
    Record { revision, key: write.key, before, after, last }
}
