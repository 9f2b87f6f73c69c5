//! Invariants over the whole history of writes.
//!
//! No TrainJob fails by its deadline or is deleted by its TTL early, nor, without faults, more than a second late. A
//! terminal condition never reverts, and is written before the TrainJob is deleted. No JobSet is created for a finished
//! TrainJob. SSH keys and the runtime snapshot are created once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::client::Uid;
use muster_api::meta;
use muster_api::paths::condition as path;
use muster_api::time::Time;
use muster_api::train::TrainJobFacts;
use muster_api::train::consts::{SNAPSHOT_SUFFIX, TRAIN_JOB, conditions};
use muster_control::training::DeadlineClock;
use muster_sim::Faults;
use muster_store::Record;
use muster_tree::{Text, Tree};

use crate::jobsets::Trouble;

/// Delay of a due action without faults: within the second it is due.
const IN_TIME: Duration = Duration::from_secs(1);
/// Delay of the end of a JobSet without faults.
const ON_ITS_WAY: Duration = Duration::from_secs(2);

/// What happened so far.
pub struct Laws {
    clock: DeadlineClock,
    trouble: Trouble,
    /// TrainJobs that users deleted.
    deleted: BTreeSet<Uid>,
    jobs: BTreeMap<Uid, Job>,
    /// Secrets and snapshots, by TrainJob and name.
    made: BTreeSet<(Uid, Text)>,
    seen: Seen,
}

#[derive(Default)]
pub struct Seen {
    overdue: u64,
    expired: u64,
}

impl Seen {
    /// The counts by metric name.
    pub fn counts(&self) -> [(&'static str, u64); 3] {
        [
            ("trainjob_deadline_exceeded_total", self.overdue),
            ("trainjob_ttl_deletions_total", self.expired),
            ("trainjob_ttl_deletion_latency_seconds", self.expired),
        ]
    }
}

struct Job {
    facts: TrainJobFacts,
    /// Since when it may run.
    runs: Time,
    /// When it was deleted or got a `deletionTimestamp`.
    goes: Option<Time>,
}

impl Laws {
    pub fn new(clock: DeadlineClock, trouble: Trouble, deleted: BTreeSet<Uid>) -> Laws {
        let (jobs, made) = (BTreeMap::new(), BTreeSet::new());
        Laws { clock, trouble, deleted, jobs, made, seen: Seen::default() }
    }

    pub fn read(mut self, records: &[(Time, Record)]) -> Seen {
        for (at, record) in records {
            match record.key.resource.as_str() {
                "trainjobs.trainer.kubeflow.org" => self.job(*at, record),
                "jobsets.jobset.x-k8s.io" => self.set(*at, record),
                "secrets" | "configmaps" => self.kept(record),
                _ => {}
            }
        }
        self.seen
    }

    fn job(&mut self, at: Time, record: &Record) {
        let facts = TrainJobFacts::of(&record.shown().tree);
        let goes = (facts.deleting || record.after.is_none()).then_some(at);
        let old = self.jobs.remove(&facts.uid);
        let mut runs = at;
        let mut since = goes;
        if let Some(old) = &old {
            self.overdue(at, old, &facts);
            final_end(&old.facts, &facts);
            self.went(at, old, goes);
            runs = if old.facts.suspend && !facts.suspend { at } else { old.runs };
            since = old.goes.or(goes);
        }
        self.jobs.insert(facts.uid.clone(), Job { facts, runs, goes: since });
    }

    /// Whether the world runs without faults.
    fn is_calm(&self) -> bool {
        self.trouble.faults == Faults::none() && self.trouble.unseen.is_zero()
    }

    /// It failed by its deadline: not early, not late, and not while it was suspended.
    fn overdue(&mut self, at: Time, old: &Job, new: &TrainJobFacts) {
        if old.facts.status.is_overdue() || !new.status.is_overdue() {
            return;
        }
        self.seen.overdue += 1;
        let (name, secs) = (&new.name, new.active_deadline_secs.expect("it has a deadline"));
        assert!(!new.suspend, "{name} failed while it was suspended");
        let from_start = match self.clock {
            DeadlineClock::Auto => new.queued,
            DeadlineClock::Creation => false,
            DeadlineClock::Active => true,
        };
        let resumed = new.status.condition(conditions::SUSPENDED).and_then(|it| Time::of(it.at(path::SINCE)));
        let start = resumed.filter(|_| from_start).or(new.created).expect("it was made");
        let due = start + Duration::from_secs(secs);
        assert!(at >= due, "{name} failed early: due {due:?}, at {at:?}");
        let late = at.since(due.max(old.runs));
        assert!(!self.is_calm() || late < IN_TIME, "{name} failed {late:?} late");
    }

    /// It is deleted, by a user or by its TTL.
    fn went(&mut self, at: Time, old: &Job, goes: Option<Time>) {
        let facts = &old.facts;
        if old.goes.is_some() || goes.is_none() || self.deleted.contains(&facts.uid) {
            return;
        }
        self.seen.expired += 1;
        let name = &facts.name;
        let secs = facts.ttl_secs.unwrap_or_else(|| panic!("{name} has no time to live and goes"));
        let end = facts.status.finished_at().unwrap_or_else(|| panic!("{name} goes before its end was told"));
        let due = end + Duration::from_secs(secs.into());
        assert!(at >= due, "{name} goes early: due {due:?}, at {at:?}");
        let late = at.since(due);
        let bound = if secs == 0 { ON_ITS_WAY } else { IN_TIME };
        assert!(!self.is_calm() || late < bound, "{name} goes {late:?} late");
    }

    /// A JobSet is only created for a TrainJob that is neither finished nor terminating.
    fn set(&mut self, at: Time, record: &Record) {
        let tree = &record.shown().tree;
        let (true, Some(owner)) = (is_new(record), owner(tree)) else { return };
        let job = self.jobs.get(&owner).expect("its TrainJob was there");
        let late = self.trouble.late_calls;
        assert!(
            late || !job.facts.status.is_finished(),
            "a JobSet is made for {}, which has ended",
            job.facts.name
        );
        let unseen = job.goes.map_or(Duration::ZERO, |since| at.since(since));
        assert!(
            late || unseen <= self.trouble.unseen,
            "a JobSet is made for {}, gone for {unseen:?}",
            job.facts.name
        );
    }

    /// SSH keys and the runtime snapshot of a TrainJob are created once.
    fn kept(&mut self, record: &Record) {
        let tree = &record.shown().tree;
        let name = meta::name(tree);
        let (true, Some(owner)) = (is_new(record), owner(tree)) else { return };
        if record.key.resource == "secrets" || name.ends_with(SNAPSHOT_SUFFIX) {
            let new = self.made.insert((owner, name.clone()));
            assert!(new || self.trouble.late_calls, "{name} was made twice");
        }
    }
}

/// Ends are for ever.
fn final_end(old: &TrainJobFacts, new: &TrainJobFacts) {
    if !old.status.is_finished() {
        return;
    }
    for kind in [conditions::COMPLETE, conditions::FAILED] {
        let [old, new] = [old, new].map(|it| it.status.condition(kind).cloned());
        assert_eq!(old, new, "an end is for ever");
    }
}

fn is_new(record: &Record) -> bool {
    record.before.is_none() && record.after.is_some()
}

/// The TrainJob that controls an object.
fn owner(tree: &Tree) -> Option<Uid> {
    meta::controller_of(tree).filter(|owner| owner.kind == TRAIN_JOB).map(|owner| owner.uid)
}
