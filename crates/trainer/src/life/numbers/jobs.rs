//! What is gauged of each TrainJob, in parts that copies share.
//!
//! Numbers are copied at every pause of who counts: a copy must not cost more the more TrainJobs there are. After one, a
//! change copies the part that it is in.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_tree::Text;

use super::Gauged;

/// How many parts: about as many as one of them has entries when there are as many TrainJobs as we know of.
const PARTS: usize = 256;

/// Namespace and name.
pub type Key = (Text, Text);

/// All of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jobs(Vec<Arc<BTreeMap<Key, Gauged>>>);

impl Default for Jobs {
    fn default() -> Jobs {
        Jobs(vec![Arc::default(); PARTS])
    }
}

impl Jobs {
    /// Notes how one is.
    pub fn insert(&mut self, key: Key, job: Gauged) {
        let part = &mut self.0[part(&key)];
        if part.get(&key) != Some(&job) {
            Arc::make_mut(part).insert(key, job);
        }
    }

    /// Forgets one.
    pub fn remove(&mut self, key: &Key) {
        let part = &mut self.0[part(key)];
        if part.contains_key(key) {
            Arc::make_mut(part).remove(key);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|part| part.len()).sum()
    }

    /// All of them, in an order that is always the same.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Gauged)> {
        self.0.iter().flat_map(|part| part.iter())
    }
}

/// The part of a key: FNV-1a, which spreads names that differ in a number.
fn part((namespace, name): &Key) -> usize {
    let bytes = namespace.bytes().chain([0]).chain(name.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    usize::try_from(hash % PARTS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn job(state: State) -> Gauged {
        Gauged { runtime: "torch".into(), state, due: None, waits: false }
    }

    fn key(n: usize) -> Key {
        ("ns".into(), format!("train-{n:06}").into())
    }

    /// Shows: 2899-42.
    #[test]
    fn after_a_copy_a_change_copies_one_part_and_no_change_none() {
        let mut jobs = Jobs::default();
        for n in 0..5_000 {
            jobs.insert(key(n), job(State::Pending));
        }
        assert_eq!((jobs.len(), jobs.iter().count()), (5_000, 5_000));
        let largest = jobs.0.iter().map(|part| part.len()).max();
        assert!(largest.is_some_and(|it| it < 60), "parts are about alike, and the largest has {largest:?}");
        let copy = jobs.clone();
        let apart = |jobs: &Jobs| copy.0.iter().zip(&jobs.0).filter(|(a, b)| !Arc::ptr_eq(a, b)).count();
        jobs.insert(key(7), job(State::Pending));
        jobs.remove(&key(9_999));
        assert_eq!(apart(&jobs), 0);
        jobs.insert(key(7), job(State::Running));
        jobs.remove(&key(7));
        assert_eq!((apart(&jobs), jobs.len(), copy.len()), (1, 4_999, 5_000));
    }
}
