//! Invariants over the whole history of writes.
//!
//! A restart has a failed Job as its cause and is counted once. No Job of an attempt is created before the status with that
//! attempt, none twice, none for a finished or terminating JobSet. A PersistentVolumeClaim is created once; a retained one
//! is never deleted or owned. A ResourceClaim is created once per Job. A PodGroup is created once per attempt, after its
//! Workload and before its Jobs.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::client::Uid;
use muster_api::consts::jobset as words;
use muster_api::gang_objects;
use muster_api::jobset::{JobSetFacts, JobSetStatus, ReplicatedJob, RestartStrategy};
use muster_api::meta;
use muster_api::time::Time;
use muster_jobset::child_jobs::ChildJob;
use muster_store::Record;
use muster_tree::{Text, Tree};

use super::Trouble;

/// What happened so far.
pub struct History {
    trouble: Trouble,
    sets: BTreeMap<Uid, Set>,
    /// All Jobs there ever were.
    jobs: BTreeMap<Uid, Job>,
    /// Jobs by JobSet, name and attempts; volumes and device claims by owner and name.
    made: BTreeSet<(Uid, Text, u32, u32)>,
    /// Volumes without an owner.
    kept: BTreeSet<Uid>,
    /// Workloads and groups that are there, by namespace and name.
    gangs: BTreeSet<(Text, Text, Text)>,
}

struct Set {
    facts: JobSetFacts,
    /// When it was deleted or got a `deletionTimestamp`.
    goes: Option<Time>,
    /// Whether it was ever suspended.
    suspended: bool,
}

struct Job {
    set: Uid,
    group: Text,
    index: u32,
    attempt: u32,
    single: u32,
    there: bool,
    failed: bool,
    complete: bool,
    /// Whether all its pods were ready, or it had ended, at some time.
    started: bool,
}

impl Job {
    fn of(job: &Tree, set: Uid) -> Job {
        let number = |key: &str| meta::label(job, key).and_then(|text| text.parse().ok()).expect("a number");
        Job {
            set,
            group: meta::label(job, words::GROUP).expect("a Job says what it is").into(),
            index: number(words::JOB_INDEX),
            attempt: number(words::RESTART_ATTEMPT),
            single: number(words::JOB_RESTART_ATTEMPT),
            there: true,
            failed: false,
            complete: false,
            started: false,
        }
    }

    /// Whether it is of the attempt in the status.
    fn is_present(&self, status: &JobSetStatus) -> bool {
        self.attempt >= status.restarts && self.single >= target(status, &self.group, self.index)
    }
}

/// How often one Job was restarted alone.
fn target(status: &JobSetStatus, group: &str, index: u32) -> u32 {
    let restarts = status.job(group).and_then(|it| it.restarts.get(index as usize));
    restarts.copied().unwrap_or(0)
}

fn counted(status: &JobSetStatus) -> u32 {
    status.counted + status.jobs.iter().flat_map(|it| &it.counted).sum::<u32>()
}

fn restarts(status: &JobSetStatus) -> u32 {
    status.restarts + status.jobs.iter().flat_map(|it| &it.restarts).sum::<u32>()
}

impl History {
    pub fn new(trouble: Trouble) -> History {
        History {
            trouble,
            sets: BTreeMap::new(),
            jobs: BTreeMap::new(),
            made: BTreeSet::new(),
            kept: BTreeSet::new(),
            gangs: BTreeSet::new(),
        }
    }

    pub fn read(mut self, records: &[(Time, Record)]) {
        for (at, record) in records {
            match record.key.resource.as_str() {
                "jobsets.jobset.x-k8s.io" => self.set(*at, record),
                "jobs.batch" => self.job(*at, record),
                "persistentvolumeclaims" => self.volume(record),
                it if it.starts_with("resourceclaims.") => self.claim(record),
                it if it.ends_with(".scheduling.k8s.io") => self.gang(record),
                _ => {}
            }
        }
    }

    fn set(&mut self, at: Time, record: &Record) {
        let facts = JobSetFacts::of(&record.shown().tree);
        let goes = (facts.deleting || record.after.is_none()).then_some(at);
        let (uid, mut suspended) = (facts.uid.clone(), facts.suspend);
        let mut since = goes;
        if let Some(old) = self.sets.get(&uid) {
            self.restarted(&old.facts, &facts);
            self.ended(&old.facts.status, &facts);
            (since, suspended) = (old.goes.or(goes), suspended || old.suspended);
        }
        self.sets.insert(uid, Set { facts, goes: since, suspended });
    }

    fn of(&self, set: &Uid) -> impl Iterator<Item = &Job> {
        self.jobs.values().filter(move |it| it.set == *set)
    }

    /// Restarts answer failures, one each.
    fn restarted(&self, old: &JobSetFacts, new: &JobSetFacts) {
        let (before, after) = (&old.status, &new.status);
        let name = &new.name;
        let limit = new.failure.as_ref().map_or(0, |it| it.max_restarts);
        assert!(
            i64::from(counted(after)) <= limit,
            "{name} was restarted more than {limit} times: {after:?}"
        );
        let more = restarts(after) - restarts(before);
        assert!(more <= 1, "{name}: one restart at a time: {before:?} {after:?}");
        assert!(counted(after) - counted(before) <= more, "{name}: no restart counts twice");
        let failed = |it: &&Job| it.failed && it.is_present(before);
        if after.restarts > before.restarts {
            assert!(self.of(&new.uid).any(|it| failed(&it)), "{name} was restarted for nothing: {before:?}");
        }
        for job in self.of(&new.uid).filter(failed) {
            let more = target(after, &job.group, job.index) > target(before, &job.group, job.index);
            assert!(!more || after.restarts == before.restarts, "{name}: all or one, not both");
        }
        for of in &new.jobs {
            for index in 0..of.replicas {
                let more = target(after, &of.name, index) > target(before, &of.name, index);
                let why = |it: &&Job| {
                    it.failed && it.group == of.name && it.index == index && it.is_present(before)
                };
                assert!(
                    !more || self.of(&new.uid).any(|it| why(&it)),
                    "{name}: {} {index} did not fail",
                    of.name
                );
            }
        }
    }

    /// Ends are for ever, and true.
    fn ended(&self, before: &JobSetStatus, new: &JobSetFacts) {
        let (after, name) = (&new.status, &new.name);
        if !before.terminal.is_empty() {
            let same = (&before.terminal, before.restarts) == (&after.terminal, after.restarts);
            assert!(same, "{name} had ended: {before:?} {after:?}");
        } else if after.terminal == "Completed" {
            let all: u64 = self.of(&new.uid).filter(|it| it.complete && it.is_present(after)).count() as u64;
            assert_eq!(all, new.replicas(), "{name} is complete before its Jobs are");
        } else if after.terminal == "Failed" {
            let limit = new.failure.as_ref().map_or(0, |it| it.max_restarts);
            let failed = self.of(&new.uid).any(|it| it.failed && it.is_present(after));
            assert!(failed, "{name} failed and no Job did");
            assert_eq!(i64::from(counted(after)), limit, "{name} gave up too early");
        }
    }

    fn job(&mut self, at: Time, record: &Record) {
        let tree = &record.shown().tree;
        let Some(owner) = meta::controller_of(tree).filter(|it| it.kind == words::KIND) else { return };
        let uid = meta::uid(tree);
        if record.before.is_none() && record.after.is_some() {
            let job = Job::of(tree, owner.uid);
            self.made(at, tree, &job);
            self.jobs.insert(uid.clone(), job);
        }
        let child = ChildJob::of(tree);
        let job = self.jobs.get_mut(&uid).expect("it was made");
        let pods = self.sets[&job.set].facts.job(&job.group).map_or(1, ReplicatedJob::pods);
        job.there = record.after.is_some();
        job.failed |= child.ended.as_ref().is_some_and(|it| it.failed);
        job.complete |= child.ended.as_ref().is_some_and(|it| !it.failed);
        job.started |= child.ended.is_some() || child.ready_or_succeeded >= pods;
    }

    /// Checks that a Job was allowed to be created.
    fn made(&mut self, at: Time, tree: &Tree, job: &Job) {
        let name = meta::name(tree);
        if let Some(group) = gang_objects::group_of(tree.at(&["spec", "template"]).unwrap_or(&Tree::Null)) {
            self.is_there("PodGroup", tree, &group);
        }
        let set = self.sets.get(&job.set).expect("its JobSet was there");
        let status = &set.facts.status;
        let counted = (status.restarts, target(status, &job.group, job.index));
        assert!(
            job.attempt <= counted.0 && job.single <= counted.1,
            "{name} is there before {counted:?} tells"
        );
        let late = self.trouble.late_calls;
        let unseen = set.goes.map_or(std::time::Duration::ZERO, |since| at.since(since));
        assert!(
            late || unseen <= self.trouble.unseen,
            "{name} was made for a JobSet that goes since {unseen:?}"
        );
        assert!(late || status.terminal.is_empty(), "{name} was made for a JobSet that has ended");
        let blocked = set.facts.strategy() == RestartStrategy::BlockingRecreate
            && self.of(&job.set).any(|it| it.there && it.attempt < job.attempt);
        assert!(!blocked, "{name} does not wait until all of the attempt before are gone");
        self.in_turn(set, &name, job);
        let new = self.made.insert((job.set.clone(), name.clone(), job.attempt, job.single));
        assert!(late || new, "{name} was made twice in attempt {} {}", job.attempt, job.single);
    }

    /// What a Job waits for was there.
    fn in_turn(&self, set: &Set, name: &Text, job: &Job) {
        let facts = &set.facts;
        let of = facts.job(&job.group).expect("one of ours");
        let reached = |group: &Text, complete: bool| {
            let wanted = facts.job(group).expect("one of ours").replicas as usize;
            let these = self.of(&job.set).filter(|it| it.group == *group && it.attempt == job.attempt);
            these.filter(|it| if complete { it.complete } else { it.started }).count() >= wanted
        };
        for dependency in &of.depends_on {
            assert!(
                reached(&dependency.replicated_job, dependency.complete),
                "{name} did not wait for {}",
                dependency.replicated_job
            );
        }
        if facts.in_order && !set.suspended {
            for before in facts.jobs.iter().take_while(|it| it.name != job.group) {
                assert!(reached(&before.name, false), "{name} was made before {} started", before.name);
            }
        }
    }

    fn volume(&mut self, record: &Record) {
        let tree = &record.shown().tree;
        if meta::label(tree, words::NAME).is_none() {
            return;
        }
        let (uid, name) = (meta::uid(tree), meta::name(tree));
        let owner = meta::controller_of(tree).map(|it| it.uid);
        if record.before.is_none() && record.after.is_some() {
            self.once(owner.clone().unwrap_or_default(), &name);
            if owner.is_none() {
                self.kept.insert(uid.clone());
            }
        }
        if self.kept.contains(&uid) {
            assert!(
                record.after.is_some() && meta::deletion_timestamp(tree).is_none(),
                "{name} is to be kept"
            );
            assert!(owner.is_none() && meta::owner_references(tree).next().is_none(), "{name} is nobody's");
        }
    }

    fn claim(&mut self, record: &Record) {
        let tree = &record.shown().tree;
        if meta::label(tree, words::NAME).is_none() || record.before.is_some() || record.after.is_none() {
            return;
        }
        let job = meta::controller_of(tree).expect("a device claim has an owner").uid;
        assert!(self.jobs.contains_key(&job), "{} was made before its Job", meta::name(tree));
        self.once(job, &meta::name(tree));
    }

    /// A Workload is created once per JobSet, and a PodGroup once per attempt, after its Workload.
    fn gang(&mut self, record: &Record) {
        let tree = &record.shown().tree;
        let Some(owner) = meta::controller_of(tree).filter(|it| it.kind == words::KIND) else { return };
        let (kind, name) = (meta::kind_name(tree), meta::name(tree));
        let key = (kind.clone(), meta::namespace(tree), name.clone());
        if record.after.is_none() {
            self.gangs.remove(&key);
        } else if record.before.is_none() {
            self.once(owner.uid, &Text::from(format!("{kind} {name}")));
            if kind == "PodGroup" {
                self.is_there("Workload", tree, &gang_objects::workload_of(tree));
            }
            self.gangs.insert(key);
        }
    }

    /// What an object names is there.
    fn is_there(&self, kind: &str, of: &Tree, name: &Text) {
        let there = self.gangs.contains(&(kind.into(), meta::namespace(of), name.clone()));
        assert!(there || self.trouble.late_calls, "{} was made before {kind} {name}", meta::name(of));
    }

    /// Checks that this is the first object created for an owner.
    fn once(&mut self, owner: Uid, name: &Text) {
        let new = self.made.insert((owner, name.clone(), 0, 0));
        assert!(new || self.trouble.late_calls, "{name} was made twice");
    }
}
