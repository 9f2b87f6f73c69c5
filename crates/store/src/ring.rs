//! The history of one resource: its newest changes, oldest first.
//!
//! # Invariants
//!
//! - Revisions grow from front to back.
//! - Every change of the resource after `dropped` is here: a cursor at or above it misses nothing.

use std::collections::VecDeque;

use muster_api::time::Time;

use crate::{Expired, Record};

/// A change that has its revision, with an estimate of the memory which only it keeps alive.
#[derive(Debug, Clone)]
pub(crate) struct Staged {
    pub(crate) record: Record,
    pub(crate) bytes: usize,
}

/// What an entry costs beside the branches that only it holds.
pub(crate) const ENTRY_BYTES: usize = std::mem::size_of::<Entry>();

struct Entry {
    staged: Staged,
    at: Time,
}

/// The newest changes of one resource.
#[derive(Default)]
pub(crate) struct Ring {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// The revision of the newest change that is not here any more; 0 when none was dropped.
    dropped: u64,
}

impl Ring {
    /// A ring of a resource whose changes up to `dropped` are not known any more.
    pub(crate) fn starting_after(dropped: u64) -> Self {
        Self { dropped, ..Self::default() }
    }

    /// The memory held by entries, estimated.
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

    /// Drops the oldest entry; returns its estimate.
    pub(crate) fn pop(&mut self) -> usize {
        let Some(entry) = self.entries.pop_front() else {
            return 0;
        };
        self.dropped = entry.staged.record.revision;
        self.bytes -= entry.staged.bytes;
        entry.staged.bytes
    }

    /// When the oldest entry was made.
    pub(crate) fn oldest_at(&self) -> Option<Time> {
        self.entries.front().map(|entry| entry.at)
    }

    /// The revision of the oldest entry.
    pub(crate) fn next_revision(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.staged.record.revision)
    }

    /// The revision of the newest change ever seen here.
    pub(crate) fn newest(&self) -> u64 {
        self.entries.back().map_or(self.dropped, |entry| entry.staged.record.revision)
    }

    /// The changes after `revision`, oldest first, unless one of them was dropped.
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
