//! The types of the store's public interface.

use muster_tree::Text;

use crate::StoredObject;

/// The key of an object: resource, namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Resource name: `<plural>` in the core group, else `<plural>.<group>`, for example `jobs.batch`.
    pub resource: Text,
    /// Namespace of the object; empty for cluster-scoped resources.
    pub namespace: Text,
    /// Name of the object within its namespace.
    pub name: Text,
}

/// The state of the key that a write was prepared against: the condition of an optimistic transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedRevision {
    /// The key must not exist.
    Absent,
    /// The object must have this revision.
    Revision(u64),
}

/// What a write does to its key.
#[derive(Debug, Clone)]
pub enum Mutation {
    /// Creates or replaces the object; the store sets its revision.
    Put(StoredObject),
    /// Deletes the object. The value is the last state that watchers receive; the store sets the revision of the deletion.
    Delete(StoredObject),
}

/// A write with its precondition.
#[derive(Debug, Clone)]
pub struct Write {
    /// Key of the object to write.
    pub key: Key,
    /// Precondition, checked when the write is accepted.
    pub expect: ExpectedRevision,
    /// The mutation to perform.
    pub change: Mutation,
}

/// Whether the reply to a writer waits for the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Reply once the write is durable and visible.
    Wait,
    /// Reply at once, used for Events: a crash may lose the write.
    Relaxed,
}

/// Why a write failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// A precondition failed: prepare the write again against the newest state.
    #[error("{key:?} changed meanwhile")]
    Conflict {
        /// Key of the failed precondition.
        key: Key,
    },
    /// The commit failed; nothing of it is visible or durable.
    #[error("commit: {0}")]
    Disk(String),
    /// The store has reached its size limit: only deletes and reads succeed, as after etcd's NOSPACE alarm.
    #[error("the store is full: {bytes} of {max} bytes used")]
    Full {
        /// Bytes in use on disk.
        bytes: u64,
        /// `store_bytes_max` of the options.
        max: u64,
    },
}

/// One change in the watch history.
#[derive(Debug, Clone)]
pub struct Record {
    /// Revision of the change.
    pub revision: u64,
    /// Key of the changed object.
    pub key: Key,
    /// State before the change; `None` for a create.
    pub before: Option<StoredObject>,
    /// State after the change; `None` for a delete.
    pub after: Option<StoredObject>,
    /// For a delete, the object of the watch event: the last state with the revision of the deletion. `None` otherwise.
    pub last: Option<StoredObject>,
}

impl Record {
    /// The object of the watch event: the new state or, for a delete, the last one.
    #[must_use]
    pub fn shown(&self) -> &StoredObject {
        let shown = self.after.as_ref().or(self.last.as_ref());
        shown.expect("a record has a state after it or is a delete with a last state")
    }
}

/// A watch or an exact read starts before the retained history: 410 Gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {wanted} ({oldest})")]
pub struct Expired {
    /// Requested revision.
    pub wanted: u64,
    /// Oldest revision that can be served.
    pub oldest: u64,
}

/// Selects the objects of a list.
#[derive(Debug, Clone, Default)]
pub struct Range {
    /// Restricts to a namespace; `None` lists all.
    pub namespace: Option<Text>,
    /// Restricts to names with this prefix; ignored without a namespace.
    pub beginning: Text,
    /// Continues after this (namespace, name), as the `continue` token does.
    pub after: Option<(Text, Text)>,
    /// Largest number of objects; `None` is unlimited. Selectors are applied by the caller, which then walks pages.
    pub limit: Option<usize>,
    /// Reads at exactly this revision; `None` reads the published state.
    pub revision: Option<u64>,
}

/// One page of a list, consistent at a single revision.
#[derive(Debug, Clone)]
pub struct Page {
    /// Objects, ordered by (namespace, name).
    pub objects: Vec<StoredObject>,
    /// Revision of the page.
    pub revision: u64,
    /// Number of selected objects after this page (`remainingItemCount`).
    pub remaining: usize,
}
