//! The picture of a Job: its pods sorted by what they mean, counted or not.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::job::{JobFacts, Mode};
use muster_api::job_pod::JobPod;
use muster_api::job_policy::FailureAction;
use muster_api::pod::Phase;
use muster_api::port::Uid;
use muster_api::time::Time;

use crate::indexes::Indexes;
use crate::{Observed, policy, verdict};

/// What the pods of a Job come to.
pub struct Picture<'a> {
    /// The Job.
    pub job: &'a JobFacts,
    /// Its pods.
    pub pods: Vec<&'a JobPod>,
    /// Those that run or may run.
    pub active: Vec<&'a JobPod>,
    /// How many were deleted and have not ended.
    pub terminating: u32,
    /// Successes: counted, listed, and those that will be.
    pub succeeded: u32,
    /// Failures that count: counted, listed, and those that will be.
    pub failed: u32,
    /// Indexes that the status says have succeeded.
    pub completed_before: Indexes,
    /// Indexes that have succeeded.
    pub completed: Indexes,
    /// Indexes that have failed, where indexes have limits of their own.
    pub failed_indexes: Option<Indexes>,
    /// The last failed pod of each index that has no other: it stays until its successor has taken over its count
    /// of failures.
    pub replaced: BTreeMap<u32, &'a JobPod>,
    /// The instant of the reading.
    pub now: Time,
    listed_succeeded: BTreeSet<&'a Uid>,
    listed_failed: BTreeSet<&'a Uid>,
}

impl<'a> Picture<'a> {
    /// Looks at the pods that the Job's selector selects.
    pub fn of(seen: &Observed<'a>) -> Picture<'a> {
        let (job, now) = (seen.job, seen.now);
        let pods: Vec<&JobPod> = seen.pods.iter().filter(|pod| pod.selected).collect();
        let mut it = Picture {
            job,
            now,
            active: pods.iter().copied().filter(|pod| pod.active()).collect(),
            terminating: number(pods.iter().filter(|pod| pod.terminating()).count()),
            succeeded: 0,
            failed: 0,
            completed_before: Indexes::default(),
            completed: Indexes::default(),
            failed_indexes: None,
            replaced: BTreeMap::new(),
            listed_succeeded: job.status.uncounted_succeeded.iter().collect(),
            listed_failed: job.status.uncounted_failed.iter().collect(),
            pods,
        };
        it.count();
        it.count_indexes();
        it
    }

    /// Whether a pod counts as a failure.
    pub fn is_failed(&self, pod: &JobPod) -> bool {
        is_failed(self.job, pod)
    }

    /// Whether a pod may be counted: its index, if the Job has indexes, is wanted.
    pub fn in_range(&self, pod: &JobPod) -> bool {
        below(self.job).is_none_or(|below| pod.index.is_some_and(|index| index < below))
    }

    /// Whether a pod is on the list of uncounted failures.
    pub fn listed_as_failed(&self, pod: &JobPod) -> bool {
        self.listed_failed.contains(&pod.uid)
    }

    /// Whether a pod is on the list of uncounted successes.
    pub fn listed_as_succeeded(&self, pod: &JobPod) -> bool {
        self.listed_succeeded.contains(&pod.uid)
    }

    /// Whether a failed pod must stay until it is replaced.
    pub fn is_replaced_later(&self, pod: &JobPod) -> bool {
        let last = pod.index.and_then(|index| self.replaced.get(&index));
        last.is_some_and(|last| last.uid == pod.uid)
    }

    fn count(&mut self) {
        let status = &self.job.status;
        let new = |pod: &&&JobPod| pod.tracked && self.in_range(pod);
        let new_succeeded = self.pods.iter().filter(new).filter(|pod| {
            pod.phase == Phase::Succeeded && !self.listed_as_succeeded(pod) && !self.listed_as_failed(pod)
        });
        let new_failed = self.pods.iter().filter(new).filter(|pod| {
            self.is_failed(pod) && !self.listed_as_failed(pod) && policy::counts(self.job, pod)
        });
        let sum = |counted: u32, listed: usize, new: usize| counted.saturating_add(number(listed + new));
        let (succeeded, failed) = (new_succeeded.count(), new_failed.count());
        self.succeeded = sum(status.succeeded, status.uncounted_succeeded.len(), succeeded);
        self.failed = sum(status.failed, status.uncounted_failed.len(), failed);
    }

    fn count_indexes(&mut self) {
        let Some(below) = below(self.job) else { return };
        let status = &self.job.status;
        let with = |wanted: &dyn Fn(&JobPod) -> bool| {
            let pods = self.pods.iter().filter(|pod| pod.tracked && self.in_range(pod) && wanted(pod));
            Indexes::of(&pods.filter_map(|pod| pod.index).collect())
        };
        let before = Indexes::parse(&status.completed_indexes, below);
        let completed =
            before.and(&with(&|pod| pod.phase == Phase::Succeeded && !self.listed_as_failed(pod)));
        let failed = self.job.backoff_per_index.map(|limit| {
            let before = Indexes::parse(status.failed_indexes.as_deref().unwrap_or(""), below);
            // Once the end is announced its pods are deleted: that fails no more indexes.
            let open = !verdict::is_announced(status);
            before.and(&with(&|pod| open && self.is_failed(pod) && fails_index(self.job, pod, limit)))
        });
        self.succeeded = completed.len();
        (self.completed_before, self.completed, self.failed_indexes) = (before, completed, failed);
        self.replaced = self.find_replaced();
    }

    fn find_replaced(&self) -> BTreeMap<u32, &'a JobPod> {
        let Some(failed) = &self.failed_indexes else { return BTreeMap::new() };
        let active: BTreeSet<u32> = self.active.iter().filter_map(|pod| pod.index).collect();
        let mut found: BTreeMap<u32, &JobPod> = BTreeMap::new();
        let failed_pods =
            self.pods.iter().filter(|pod| pod.tracked && self.in_range(pod) && self.is_failed(pod));
        for (index, pod) in failed_pods.filter_map(|pod| Some((pod.index?, *pod))) {
            if active.contains(&index) || self.completed.has(index) || failed.has(index) {
                continue;
            }
            let last = found.entry(index).or_insert(pod);
            if last.before.all() <= pod.before.all() && last.ended_at <= pod.ended_at {
                *last = pod;
            }
        }
        found
    }
}

/// Whether a pod counts as a failure.
pub fn is_failed(job: &JobFacts, pod: &JobPod) -> bool {
    let deleted = pod.deleting.is_some() && pod.phase != Phase::Succeeded;
    pod.phase == Phase::Failed || (deleted && !job.replace_only_ended)
}

/// Whether the failure of this pod fails its index.
fn fails_index(job: &JobFacts, pod: &JobPod, limit: u32) -> bool {
    match policy::action(job, pod) {
        Some(FailureAction::FailIndex) => true,
        Some(FailureAction::Ignore) => false,
        _ => pod.before.counted >= limit,
    }
}

/// The number of indexes of an indexed Job.
pub fn below(job: &JobFacts) -> Option<u32> {
    (job.mode == Mode::Indexed).then(|| job.completions.unwrap_or(0))
}

/// A length as the status says it.
pub fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
