//! One group commit: its log segment, one block of the next snapshot, and a bounded cleanup.

use muster_api::time::Time;
use muster_tree::Text;
use redb::{Durability, ReadableTable, WriteTransaction};

use super::{BASE, Disk, DiskResult, LOG, META, META_SNAPSHOT, Rolling, Snapshot};
use crate::codec::Encoder;
use crate::ring::Staged;
use crate::{Key, StoredObject};

/// Largest number of objects in a block.
const BLOCK_RECORDS_MAX: usize = 1000;
/// Uncompressed bytes that a block may have even if its commit is smaller.
const BLOCK_BYTES_MIN: usize = 64 << 10;
/// Largest number of obsolete entries that one commit removes.
const TIDY_MAX: usize = 64;

/// The published state as the source of a snapshot.
pub(crate) trait Base {
    /// At most `max` published objects after a key, in key order.
    fn objects_after(&self, after: Option<&Key>, max: usize) -> Vec<(Key, StoredObject)>;
    /// The revision that the state is at.
    fn revision(&self) -> u64;
    /// Revision of the last change of each resource.
    fn newest(&self) -> Vec<(Text, u64)>;
}

/// The bookkeeping to apply once a commit is durable.
struct Outcome {
    log_bytes: u64,
    rolling: Option<Rolling>,
    switched: Option<Snapshot>,
    leftovers: bool,
}

impl Disk {
    /// Commits these records, all or none. They directly follow the published revision.
    pub(crate) fn commit(&mut self, records: &[&Staged], at: Time, base: &dyn Base) -> DiskResult<()> {
        let Some(first) = records.first().map(|staged| staged.record.revision) else {
            return Ok(());
        };
        self.mend(base)?;
        let mut encoder = Encoder::new(at);
        records.iter().for_each(|staged| encoder.record(&staged.record));
        let done = self.write(first, encoder, at, base);
        let outcome = self.note(done)?;
        self.unsynced = self.is_relaxed();
        self.take(outcome);
        Ok(())
    }

    /// Syncs relaxed commits.
    pub(crate) fn sync(&mut self) -> DiskResult<()> {
        if !self.unsynced || self.db.is_none() {
            return Ok(());
        }
        let done = self.begin().and_then(|write| Ok(write.commit()?));
        self.unsynced = false;
        self.note(done)
    }

    /// Writes a whole snapshot of the published state in one transaction.
    pub(super) fn rewrite(&mut self, base: &dyn Base) -> DiskResult<()> {
        let begin = base.revision() + 1;
        let mut rolling = Rolling { begin, ..Rolling::new(self.generation_max + 1) };
        let write = self.begin()?;
        let (rolling, snapshot) = loop {
            match block(&write, rolling, usize::MAX, Time(0), base)? {
                (next, None) => rolling = next,
                (done, Some(snapshot)) => break (done, snapshot),
            }
        };
        write.commit()?;
        self.take(Outcome {
            log_bytes: 0,
            rolling: Some(rolling),
            switched: Some(snapshot),
            leftovers: true,
        });
        Ok(())
    }

    fn write(&self, first: u64, encoder: Encoder, at: Time, base: &dyn Base) -> DiskResult<Outcome> {
        let mut write = self.begin()?;
        if self.is_relaxed() {
            write.set_durability(Durability::None).expect("no savepoints are used");
        }
        let raw_bytes = encoder.len();
        let segment = encoder.finish();
        write.open_table(LOG)?.insert(first, &segment[..])?;
        let (rolling, switched) = match self.rolling_at(first) {
            Some(rolling) => {
                let (rolling, switched) = block(&write, rolling, raw_bytes, at, base)?;
                (Some(rolling), switched)
            }
            None => (None, None),
        };
        let leftovers = self.leftovers && tidy(&write, &self.snapshot)?;
        write.commit()?;
        Ok(Outcome { log_bytes: segment.len() as u64, rolling, switched, leftovers })
    }

    /// The snapshot in progress, or a new one once the log is large enough.
    fn rolling_at(&self, first: u64) -> Option<Rolling> {
        if let Some(rolling) = &self.rolling {
            return Some(rolling.clone());
        }
        let full = self.log_bytes > self.options.log_bytes_min.max(self.base_bytes);
        let generation = self.generation_max + 1;
        full.then(|| Rolling { begin: first, ..Rolling::new(generation) })
    }

    fn take(&mut self, outcome: Outcome) {
        self.log_bytes += outcome.log_bytes;
        self.leftovers = outcome.leftovers;
        if let Some(rolling) = &outcome.rolling {
            self.generation_max = rolling.generation;
            // The completed snapshot replaces the log before its `begin`; only later segments remain.
            self.log_kept += outcome.log_bytes;
        }
        if let Some(snapshot) = outcome.switched {
            self.log_bytes = self.log_kept;
            self.base_bytes = outcome.rolling.as_ref().map_or(0, |rolling| rolling.bytes);
            self.snapshot = snapshot;
            (self.rolling, self.log_kept, self.leftovers) = (None, 0, true);
        } else {
            self.rolling = outcome.rolling;
        }
    }
}

/// Writes the next block; the last one activates the snapshot.
fn block(
    write: &WriteTransaction,
    mut rolling: Rolling,
    commit_bytes: usize,
    at: Time,
    base: &dyn Base,
) -> DiskResult<(Rolling, Option<Snapshot>)> {
    let bytes_max = commit_bytes.max(BLOCK_BYTES_MIN);
    let objects = base.objects_after(rolling.after.as_ref(), BLOCK_RECORDS_MAX);
    let mut encoder = Encoder::new(at);
    let mut written = 0;
    for (key, object) in &objects {
        if written > 0 && encoder.len() >= bytes_max {
            break;
        }
        encoder.put(key, object);
        written += 1;
    }
    // A full page means that more objects may follow.
    let is_last = written == objects.len() && objects.len() < BLOCK_RECORDS_MAX;
    if written > 0 {
        let bytes = encoder.finish();
        write.open_table(BASE)?.insert((rolling.generation, rolling.block), &bytes[..])?;
        rolling.block += 1;
        rolling.bytes += bytes.len() as u64;
        rolling.after = Some(objects[written - 1].0.clone());
    }
    if !is_last {
        return Ok((rolling, None));
    }
    let snapshot = Snapshot {
        generation: rolling.generation,
        begin: rolling.begin,
        end: base.revision(),
        newest: base.newest(),
        blocks: Some(rolling.block),
    };
    // In the transaction of the last block: a crash leaves either the old or the complete new snapshot.
    write.open_table(META)?.insert(META_SNAPSHOT, &snapshot.to_bytes()[..])?;
    Ok((rolling, Some(snapshot)))
}

/// Removes some obsolete entries; returns whether more may remain.
fn tidy(write: &WriteTransaction, snapshot: &Snapshot) -> DiskResult<bool> {
    let mut removed = 0;
    let mut log = write.open_table(LOG)?;
    while removed < TIDY_MAX && log.first()?.is_some_and(|(key, _)| key.value() < snapshot.begin) {
        log.pop_first()?;
        removed += 1;
    }
    let mut base = write.open_table(BASE)?;
    while removed < TIDY_MAX && base.first()?.is_some_and(|(key, _)| key.value().0 < snapshot.generation) {
        base.pop_first()?;
        removed += 1;
    }
    Ok(removed == TIDY_MAX)
}
