//! The types of the store's border.

use muster_tree::Text;

use crate::Object;

/// The name of one object: a resource such as `pods` or `jobs.batch`, a namespace (empty when cluster-scoped), a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Storage name of the resource: `<plural>` for the core group, else `<plural>.<group>`.
    pub resource: Text,
    /// Namespace; empty when cluster-scoped.
    pub namespace: Text,
    /// Name.
    pub name: Text,
}

/// What the writer saw of the key when it prepared the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing there.
    Absent,
    /// The object at this revision.
    Revision(u64),
}

/// One change of one key.
#[derive(Debug, Clone)]
pub enum Change {
    /// Create or replace; the store fills in the revision.
    Put(Object),
    /// Remove; this is the last state that watchers will see (the store fills in the revision of the deletion).
    Delete(Object),
}

/// A change with what it was prepared against.
#[derive(Debug, Clone)]
pub struct Write {
    /// What is written.
    pub key: Key,
    /// What must still be true.
    pub expect: Expect,
    /// The change.
    pub change: Change,
}

/// Whether the writer's reply waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The reply comes when the change is durable.
    Wait,
    /// The reply comes at once (Events): a crash may lose it.
    Relaxed,
}

/// Why a write was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Somebody wrote first: prepare again against the newest state.
    #[error("{key:?} changed meanwhile")]
    Overtaken {
        /// The key whose expectation did not hold.
        key: Key,
    },
    /// The disk refused; nothing of this commit is visible or kept.
    #[error("commit: {0}")]
    Disk(String),
    /// The store is at its size limit: only deletes and reads.
    #[error("the store is full: {bytes} of {max} bytes used")]
    Full {
        /// Bytes in use.
        bytes: u64,
        /// The limit.
        max: u64,
    },
}

/// A record of the watch history.
#[derive(Debug, Clone)]
pub struct Record {
    /// The revision of the change.
    pub revision: u64,
    /// What changed.
    pub key: Key,
    /// The state before; `None` for a create.
    pub before: Option<Object>,
    /// The state after; `None` for a delete.
    pub after: Option<Object>,
    /// What a watcher sees of a delete: the last state, carrying the revision of the deletion. `None` otherwise.
    pub last: Option<Object>,
}

impl Record {
    /// The object this change left behind or, for a delete, took away.
    #[must_use]
    pub fn shown(&self) -> &Object {
        let shown = self.after.as_ref().or(self.last.as_ref());
        shown.expect("a record has a state after it or is a delete with a last state")
    }
}

/// A cursor or an exact read is older than the history kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {wanted} ({oldest})")]
pub struct Expired {
    /// What was asked for.
    pub wanted: u64,
    /// The oldest revision that can still be served.
    pub oldest: u64,
}

/// Which objects a list wants.
#[derive(Debug, Clone, Default)]
pub struct Range {
    /// Only this namespace; all when `None`.
    pub namespace: Option<Text>,
    /// Only names that begin so; without a namespace it does not count.
    pub beginning: Text,
    /// Only what comes after this (namespace, name).
    pub after: Option<(Text, Text)>,
    /// At most this many; all when `None`. The caller filters by selector, so it passes `None` or walks pages.
    pub limit: Option<usize>,
    /// Exactly this revision; the newest durable state when `None`.
    pub revision: Option<u64>,
}

/// A consistent part of a resource.
#[derive(Debug, Clone)]
pub struct Page {
    /// The objects in order of (namespace, name).
    pub objects: Vec<Object>,
    /// The revision of the snapshot.
    pub revision: u64,
    /// How many objects of the range come after this page.
    pub remaining: usize,
}
