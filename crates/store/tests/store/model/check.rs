//! Whether everything that was seen fits one sequence of changes.

use std::collections::BTreeMap;

use muster_store::{Key, StoredObject};

use super::actors::is_mine;
use super::{RESOURCES, Read, Seen, Watched, Wrote};

/// All changes in order of their revision, which must be all numbers from 1.
struct Sequence(Vec<Wrote>);

type Objects = BTreeMap<Key, StoredObject>;

pub fn all(seen: Seen, places: &[(u64, Vec<StoredObject>)]) {
    let sequence = Sequence::of(seen.wrote);
    sequence.expectations_held();
    sequence.keeps_real_time();
    seen.read.iter().for_each(|read| sequence.explains_read(read));
    seen.watched.iter().for_each(|watched| sequence.explains_watch(watched));
    for (n, (revision, copy)) in places.iter().enumerate() {
        let resource = RESOURCES[n % RESOURCES.len()];
        let mut want = sequence.listed(resource, *revision);
        want.retain(is_mine);
        want.sort_by_key(|object| object.revision);
        let mut copy = copy.clone();
        copy.sort_by_key(|object| object.revision);
        assert_eq!(copy, want, "a watcher with a selector ends with what a list would show");
    }
}

impl Sequence {
    fn of(mut wrote: Vec<Wrote>) -> Self {
        wrote.sort_by_key(|wrote| wrote.stored.revision);
        for (want, wrote) in (1..).zip(&wrote) {
            assert_eq!(wrote.stored.revision, want, "revisions are contiguous and unique");
        }
        Self(wrote)
    }

    /// Each writer saw exactly the state that its change replaced.
    fn expectations_held(&self) {
        let mut now = Objects::new();
        for wrote in &self.0 {
            assert_eq!(now.get(&wrote.key), wrote.saw.as_ref(), "at revision {}", wrote.stored.revision);
            apply(&mut now, wrote);
        }
    }

    /// Whatever ended before something began comes before it.
    fn keeps_real_time(&self) {
        let mut earliest_end = u64::MAX;
        for wrote in self.0.iter().rev() {
            assert!(earliest_end >= wrote.began, "revision {} is too late", wrote.stored.revision);
            earliest_end = earliest_end.min(wrote.ended);
        }
    }

    fn explains_read(&self, read: &Read) {
        assert_eq!(read.objects, self.listed(read.resource, read.revision), "list at {}", read.revision);
        let acknowledged = self.0.iter().filter(|wrote| wrote.ended < read.began);
        let must_see = acknowledged.map(|wrote| wrote.stored.revision).max().unwrap_or(0);
        assert!(read.exact || read.revision >= must_see, "{} read, {must_see} acknowledged", read.revision);
    }

    /// Ordered, unique and complete, with the right states before and after.
    fn explains_watch(&self, watched: &Watched) {
        let range = |wrote: &&Wrote| (watched.from + 1..=watched.to).contains(&wrote.stored.revision);
        let of_resource = self.0.iter().filter(|wrote| *wrote.key.resource == *watched.resource);
        let want: Vec<&Wrote> = of_resource.filter(range).collect();
        let got: Vec<u64> = watched.records.iter().map(|record| record.revision).collect();
        let due: Vec<u64> = want.iter().map(|wrote| wrote.stored.revision).collect();
        assert_eq!(got, due, "after {} up to {}", watched.from, watched.to);
        for (record, wrote) in watched.records.iter().zip(want) {
            assert_eq!((&record.key, record.shown()), (&wrote.key, &wrote.stored));
            assert_eq!((&record.before, record.after.is_none()), (&wrote.saw, wrote.deleted));
        }
    }

    /// What a list at a revision has to show.
    fn listed(&self, resource: &str, revision: u64) -> Vec<StoredObject> {
        let mut now = Objects::new();
        for wrote in self.0.iter().take(usize::try_from(revision).unwrap()) {
            if *wrote.key.resource == *resource {
                apply(&mut now, wrote);
            }
        }
        now.into_values().collect()
    }
}

fn apply(now: &mut Objects, wrote: &Wrote) {
    if wrote.deleted {
        now.remove(&wrote.key);
    } else {
        now.insert(wrote.key.clone(), wrote.stored.clone());
    }
}
