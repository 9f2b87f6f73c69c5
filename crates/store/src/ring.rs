//! The watch history of one resource: a ring of its newest changes, oldest first.
//!
//! # Guarantees
//!
//! - Revisions increase from front to back.
//! - Every change of the resource after `dropped` is in the ring: a cursor at or after it misses nothing.

use std::collections::VecDeque;

use muster_api::time::Time;

use crate::{Expired, Record};

/// A change with its revision, and an estimate of the memory that only this change keeps alive.
#[derive(Debug, Clone)]
pub(crate) struct Staged {
    pub(crate) record: Record,
    pub(crate) bytes: usize,
}

/// Bytes of an entry itself, without the objects that only it references.
pub(crate) const ENTRY_BYTES: usize = std::mem::size_of::<Entry>();

struct Entry {
    staged: Staged,
    at: Time,
}

/// The ring of the newest changes of one resource.
#[derive(Default)]
pub(crate) struct Ring {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Revision of the newest change that was dropped; 0 if none was.
    dropped: u64,
}

impl Ring {
    /// An empty ring; changes up to `dropped` are no longer available.
    pub(crate) fn starting_after(dropped: u64) -> Self {
        Self { dropped, ..Self::default() }
    }

    /// Estimated bytes held by the entries.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn push(&mut self, staged: Staged, at: Time) {
        debug_assert!(self.newest() < staged.record.revision, "revisions grow");
        self.bytes += staged.bytes;
        self.entries.push_back(Entry { staged, at });
    }

    /// Drops the oldest entry; returns its estimated bytes.
    pub(crate) fn pop(&mut self) -> usize {
        let Some(entry) = self.entries.pop_front() else {
            return 0;
        };
        self.dropped = entry.staged.record.revision;
        self.bytes -= entry.staged.bytes;
        entry.staged.bytes
    }

    /// Commit time of the oldest entry.
    pub(crate) fn oldest_at(&self) -> Option<Time> {
        self.entries.front().map(|entry| entry.at)
    }

    /// Revision of the oldest entry.
    pub(crate) fn next_revision(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.staged.record.revision)
    }

    /// Revision of the newest change, also if it was dropped.
    pub(crate) fn newest(&self) -> u64 {
        self.entries.back().map_or(self.dropped, |entry| entry.staged.record.revision)
    }

    /// The changes after `revision`, oldest first; `Expired` if one of them was dropped.
    pub(crate) fn after(
        &self,
        revision: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Record> + ExactSizeIterator, Expired> {
        if revision < self.dropped {
            return Err(Expired { wanted: revision, oldest: self.dropped });
        }
        let start = self.entries.partition_point(|entry| entry.staged.record.revision <= revision);
        Ok(self.entries.range(start..).map(|entry| &entry.staged.record))
    }
}
