//! The gauges of each TrainJob, in shards that clones share.
//!
//! The controller publishes a clone of its metrics whenever its loop pauses: a clone must not cost more with more
//! TrainJobs. After a clone, a change copies only its own shard.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_tree::Text;

use super::JobGauge;

/// The number of shards: at 65,536 TrainJobs a shard has as many entries.
const PARTS: usize = 256;

pub type Key = (Text, Text);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobGauges(Vec<Arc<BTreeMap<Key, JobGauge>>>);

impl Default for JobGauges {
    fn default() -> JobGauges {
        JobGauges(vec![Arc::default(); PARTS])
    }
}

impl JobGauges {
    /// Sets the gauges of a TrainJob.
    pub fn insert(&mut self, key: Key, job: JobGauge) {
        let part = &mut self.0[part(&key)];
        // An equal value must not copy a shard that a clone shares.
        if part.get(&key) != Some(&job) {
            Arc::make_mut(part).insert(key, job);
        }
    }

    pub fn remove(&mut self, key: &Key) {
        let part = &mut self.0[part(key)];
        if part.contains_key(key) {
            Arc::make_mut(part).remove(key);
        }
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|part| part.len()).sum()
    }

    /// All TrainJobs, in a stable order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &JobGauge)> {
        self.0.iter().flat_map(|part| part.iter())
    }
}

/// The shard of a key. FNV-1a spreads names that differ only in a number.
fn part((namespace, name): &Key) -> usize {
    let bytes = namespace.bytes().chain([0]).chain(name.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    usize::try_from(hash % PARTS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::TrainJobPhase;
    use super::*;

    fn job(state: TrainJobPhase) -> JobGauge {
        JobGauge { runtime: "torch".into(), state, due: None, waits: false }
    }

    fn key(n: usize) -> Key {
        ("ns".into(), format!("train-{n:06}").into())
    }

    /// Shows: 2899-42.
    #[test]
    fn after_a_copy_a_change_copies_one_part_and_no_change_none() {
        let mut jobs = JobGauges::default();
        for n in 0..5_000 {
            jobs.insert(key(n), job(TrainJobPhase::Pending));
        }
        assert_eq!((jobs.len(), jobs.iter().count()), (5_000, 5_000));
        let largest = jobs.0.iter().map(|part| part.len()).max();
        assert!(largest.is_some_and(|it| it < 60), "parts are about alike, and the largest has {largest:?}");
        let copy = jobs.clone();
        let apart = |jobs: &JobGauges| copy.0.iter().zip(&jobs.0).filter(|(a, b)| !Arc::ptr_eq(a, b)).count();
        jobs.insert(key(7), job(TrainJobPhase::Pending));
        jobs.remove(&key(9_999));
        assert_eq!(apart(&jobs), 0);
        jobs.insert(key(7), job(TrainJobPhase::Running));
        jobs.remove(&key(7));
        assert_eq!((apart(&jobs), jobs.len(), copy.len()), (1, 4_999, 5_000));
    }
}
