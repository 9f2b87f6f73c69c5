//! The writers' view: the published state and, over it, what was accepted but is not durable yet.
//!
//! # Invariants
//!
//! - Revisions are handed out here, one after the other, in the order of acceptance.
//! - A key is in the tail exactly while its newest change is not published.

use std::collections::{BTreeMap, VecDeque};

use crate::ring::{ENTRY_BYTES, Staged};
use crate::state::State;
use crate::{Change, Expect, Key, Object, Record, Write, WriteError};

/// Called once with the outcome of a write.
pub(crate) type Reply = Box<dyn FnOnce(Result<Vec<Object>, WriteError>) + Send>;

/// A write whose trees have been shared, with the memory that is new in them.
pub(crate) struct Prepared {
    pub(crate) write: Write,
    pub(crate) bytes: usize,
}

/// Accepted changes that become durable and visible together.
pub(crate) struct Transaction {
    pub(crate) records: Vec<Staged>,
    /// Whoever still waits; nobody when the reply did not have to wait for the disk.
    pub(crate) reply: Option<Reply>,
}

impl Transaction {
    /// The objects as stored.
    pub(crate) fn objects(&self) -> Vec<Object> {
        self.records.iter().map(|staged| staged.record.shown().clone()).collect()
    }
}

/// The newest state of a key that is not published yet.
struct Pending {
    revision: u64,
    object: Option<Object>,
}

/// What writers see.
#[derive(Default)]
pub(crate) struct Head {
    next: u64,
    tail: BTreeMap<Key, Pending>,
    /// What waits for the next commit.
    pub(crate) queue: VecDeque<Transaction>,
    /// Nothing more is accepted.
    pub(crate) closed: bool,
}

impl Head {
    /// A head over a state published at `revision`.
    pub(crate) fn over(revision: u64) -> Self {
        Self { next: revision + 1, ..Self::default() }
    }

    /// The newest state of `key`, durable or not.
    pub(crate) fn newest(&self, key: &Key, state: &State) -> Option<Object> {
        match self.tail.get(key) {
            Some(pending) => pending.object.clone(),
            None => state.get(key).cloned(),
        }
    }

    /// Checks every expectation and gives the changes their revisions; all or none.
    pub(crate) fn stage(&mut self, writes: Vec<Prepared>, state: &State) -> Result<Vec<Staged>, WriteError> {
        let mut own: BTreeMap<Key, Option<Object>> = BTreeMap::new();
        let many = writes.len() > 1;
        let mut staged = Vec::with_capacity(writes.len());
        for (revision, Prepared { write, bytes }) in (self.next..).zip(writes) {
            let before = match own.get(&write.key) {
                Some(object) => object.clone(),
                None => self.newest(&write.key, state),
            };
            if !holds(write.expect, before.as_ref(), &write.change) {
                return Err(WriteError::Overtaken { key: write.key });
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

    /// Remembers staged changes as the newest until they are published.
    pub(crate) fn hold(&mut self, staged: &[Staged]) {
        for Staged { record, .. } in staged {
            let pending = Pending { revision: record.revision, object: record.after.clone() };
            self.tail.insert(record.key.clone(), pending);
        }
    }

    /// Forgets pending states that have been published up to `revision`.
    pub(crate) fn release<'a>(&mut self, keys: impl Iterator<Item = &'a Key>, revision: u64) {
        for key in keys {
            if self.tail.get(key).is_some_and(|pending| pending.revision <= revision) {
                self.tail.remove(key);
            }
        }
    }

    /// Gives up everything that is not published: its revisions are handed out again.
    pub(crate) fn drop_tail(&mut self, published: u64) -> VecDeque<Transaction> {
        self.next = published + 1;
        self.tail.clear();
        std::mem::take(&mut self.queue)
    }
}

/// Whether what the writer saw is still so.
fn holds(expect: Expect, now: Option<&Object>, change: &Change) -> bool {
    match (expect, now) {
        // There is nothing to delete: whoever asks must look again.
        (Expect::Absent, None) => matches!(change, Change::Put(_)),
        (Expect::Revision(seen), Some(object)) => object.revision == seen,
        _ => false,
    }
}

fn record(write: Write, revision: u64, before: Option<Object>) -> Record {
    let (after, last) = match write.change {
        Change::Put(object) => (Some(Object { revision, ..object }), None),
        Change::Delete(object) => (None, Some(Object { revision, ..object })),
    };
    Record { revision, key: write.key, before, after, last }
}
