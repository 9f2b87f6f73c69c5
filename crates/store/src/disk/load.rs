//! Loading a store: the blocks of the snapshot, then the log.

use redb::ReadableDatabase;

use super::{BASE, Disk, LOG, META, META_COMPACTED};
use crate::codec::{Logged, Segment, What, decode};
use crate::ring::Staged;
use crate::share::Interner;
use crate::state::State;
use crate::{OpenError, Record};

impl Disk {
    /// Loads the committed objects into an empty state, and the watch history as far as the log reaches.
    pub(crate) fn load(&self, state: &mut State, shelter: &mut Interner) -> Result<(), OpenError> {
        self.load_base(state, shelter)?;
        self.load_log(state, shelter)?;
        if let Some(compacted) = self.compacted().map_err(|e| self.damaged(&e))? {
            state.compact(compacted);
        }
        Ok(())
    }

    fn load_base(&self, state: &mut State, shelter: &mut Interner) -> Result<(), OpenError> {
        let snapshot = &self.snapshot;
        for (resource, revision) in &snapshot.newest {
            state.forgot(&shelter.text(resource), *revision);
        }
        state.reached(snapshot.end);
        let mut next = 0;
        let range = (snapshot.generation, 0)..=(snapshot.generation, u32::MAX);
        self.each(BASE, range, |(_, number), bytes| {
            if number != next {
                return Err(self.hole(&format!("block {next} of its snapshot is missing")));
            }
            next += 1;
            for logged in self.decoded(bytes, shelter, "a block of its snapshot")?.records {
                state.fold(logged);
            }
            Ok(())
        })?;
        match snapshot.blocks {
            Some(blocks) if blocks != next => {
                Err(self.hole(&format!("its snapshot has {next} blocks instead of {blocks}")))
            }
            _ => Ok(()),
        }
    }

    fn load_log(&self, state: &mut State, shelter: &mut Interner) -> Result<(), OpenError> {
        let mut next = self.snapshot.begin.max(1);
        self.each(LOG, self.snapshot.begin.., |first, bytes| {
            if first != next {
                return Err(self.hole(&format!("the commit of revision {next} is missing")));
            }
            let segment = self.decoded(bytes, shelter, "a commit of its log")?;
            next += segment.records.len() as u64;
            self.replay(segment, state);
            Ok(())
        })?;
        if next <= self.snapshot.end {
            return Err(self.hole(&format!("its log ends before revision {}", self.snapshot.end)));
        }
        Ok(())
    }

    /// Up to the snapshot's `end` blocks may contain later states than the log, so records up to it have no history.
    fn replay(&self, segment: Segment, state: &mut State) {
        let (known, new): (Vec<_>, Vec<_>) =
            segment.records.into_iter().partition(|logged| logged.revision <= self.snapshot.end);
        known.into_iter().for_each(|logged| state.fold(logged));
        for logged in new {
            let staged = staged(logged, state);
            state.publish([staged], segment.at);
        }
    }

    fn each<K: redb::Key + 'static>(
        &self,
        table: redb::TableDefinition<'_, K, &'static [u8]>,
        range: impl std::ops::RangeBounds<K::SelfType<'static>> + 'static,
        mut take: impl FnMut(K::SelfType<'_>, &[u8]) -> Result<(), OpenError>,
    ) -> Result<(), OpenError>
    where
        K::SelfType<'static>: std::borrow::Borrow<K::SelfType<'static>>,
    {
        let wrong = |e: redb::Error| self.damaged(&e);
        let read = self.db().begin_read().map_err(|e| wrong(e.into()))?;
        let table = read.open_table(table).map_err(|e| wrong(e.into()))?;
        for entry in table.range(range).map_err(|e| wrong(e.into()))? {
            let (key, bytes) = entry.map_err(|e| wrong(e.into()))?;
            take(key.value(), bytes.value())?;
        }
        Ok(())
    }

    fn decoded(&self, bytes: &[u8], shelter: &mut Interner, what: &str) -> Result<Segment, OpenError> {
        decode(bytes, shelter).map_err(|problem| self.hole(&format!("{what} is unreadable: {problem}")))
    }

    pub(super) fn hole(&self, problem: &str) -> OpenError {
        OpenError::Damaged { path: self.path.clone(), problem: problem.to_owned() }
    }

    fn compacted(&self) -> super::DiskResult<Option<u64>> {
        let meta = self.db().begin_read()?.open_table(META)?;
        let bytes = meta.get(META_COMPACTED)?.and_then(|bytes| bytes.value().try_into().ok());
        Ok(bytes.map(u64::from_le_bytes))
    }
}

/// A log record with the state before it.
fn staged(logged: Logged, state: &State) -> Staged {
    let Logged { revision, key, what } = logged;
    let before = state.get(&key).cloned();
    let (after, last) = match what {
        What::Put(object) => (Some(object), None),
        What::Delete(last) => (None, last.or_else(|| before.clone())),
    };
    let last = last.map(|object| crate::StoredObject { revision, ..object });
    Staged { record: Record { revision, key, before, after, last }, bytes: LOADED_BYTES }
}

/// Assumed bytes of a history entry that was loaded from the log: the average of pods.
const LOADED_BYTES: usize = 1024;
