//! The pods of a Job, classified and counted (upstream's `syncJobCtx`).

use std::collections::{BTreeMap, BTreeSet};

use muster_api::client::Uid;
use muster_api::job::{CompletionMode, JobFacts};
use muster_api::job_pod::JobPod;
use muster_api::job_policy::PodFailureAction;
use muster_api::pod::PodPhase;
use muster_api::time::Time;

use crate::index_set::IndexSet;
use crate::{JobSnapshot, finished, policies};

/// A Job with its pods, counted ones and those that will be.
pub struct SyncContext<'a> {
    pub job: &'a JobFacts,
    /// The pods that the selector matches.
    pub pods: Vec<&'a JobPod>,
    /// Pods that run or may run.
    pub active: Vec<&'a JobPod>,
    /// Pods with a deletion timestamp that have not ended.
    pub terminating: u32,
    /// Succeeded pods: counted, listed as uncounted, and those to be listed.
    pub succeeded: u32,
    /// Failed pods that count: counted, listed as uncounted, and those to be listed.
    pub failed: u32,
    pub completed_before: IndexSet,
    /// The completed indexes, those of new pods included.
    pub completed: IndexSet,
    /// The failed indexes, with `backoffLimitPerIndex`.
    pub failed_indexes: Option<IndexSet>,
    /// The last failed pod of each index without another pod: it keeps its finalizer until its replacement has taken over its
    /// failure count.
    pub awaiting_replacement: BTreeMap<u32, &'a JobPod>,
    /// The time of the snapshot.
    pub now: Time,
    listed_succeeded: BTreeSet<&'a Uid>,
    listed_failed: BTreeSet<&'a Uid>,
}

impl<'a> SyncContext<'a> {
    /// Classifies the pods that the Job's selector matches.
    pub fn of(snapshot: &JobSnapshot<'a>) -> SyncContext<'a> {
        let (job, now) = (snapshot.job, snapshot.now);
        let pods: Vec<&JobPod> = snapshot.pods.iter().filter(|pod| pod.matches_selector).collect();
        let mut it = SyncContext {
            job,
            now,
            active: pods.iter().copied().filter(|pod| pod.is_active()).collect(),
            terminating: number(pods.iter().filter(|pod| pod.is_terminating()).count()),
            succeeded: 0,
            failed: 0,
            completed_before: IndexSet::default(),
            completed: IndexSet::default(),
            failed_indexes: None,
            awaiting_replacement: BTreeMap::new(),
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

    /// Whether a pod may be counted: an Indexed Job needs an index below `completions`.
    pub fn in_range(&self, pod: &JobPod) -> bool {
        index_count(self.job).is_none_or(|below| pod.index.is_some_and(|index| index < below))
    }

    /// Whether a pod is listed in `uncountedTerminatedPods.failed`.
    pub fn listed_as_failed(&self, pod: &JobPod) -> bool {
        self.listed_failed.contains(&pod.uid)
    }

    /// Whether a pod is listed in `uncountedTerminatedPods.succeeded`.
    pub fn listed_as_succeeded(&self, pod: &JobPod) -> bool {
        self.listed_succeeded.contains(&pod.uid)
    }

    /// Whether a failed pod must keep its finalizer until it is replaced.
    pub fn awaits_replacement(&self, pod: &JobPod) -> bool {
        let last = pod.index.and_then(|index| self.awaiting_replacement.get(&index));
        last.is_some_and(|last| last.uid == pod.uid)
    }

    fn count(&mut self) {
        let status = &self.job.status;
        let new = |pod: &&&JobPod| pod.has_tracking_finalizer && self.in_range(pod);
        let new_succeeded = self.pods.iter().filter(new).filter(|pod| {
            pod.phase == PodPhase::Succeeded && !self.listed_as_succeeded(pod) && !self.listed_as_failed(pod)
        });
        let new_failed = self.pods.iter().filter(new).filter(|pod| {
            self.is_failed(pod) && !self.listed_as_failed(pod) && policies::counts_as_failure(self.job, pod)
        });
        let sum = |counted: u32, listed: usize, new: usize| counted.saturating_add(number(listed + new));
        let (succeeded, failed) = (new_succeeded.count(), new_failed.count());
        self.succeeded = sum(status.succeeded, status.uncounted_succeeded.len(), succeeded);
        self.failed = sum(status.failed, status.uncounted_failed.len(), failed);
    }

    fn count_indexes(&mut self) {
        let Some(below) = index_count(self.job) else { return };
        let status = &self.job.status;
        let with = |wanted: &dyn Fn(&JobPod) -> bool| {
            let pods = self
                .pods
                .iter()
                .filter(|pod| pod.has_tracking_finalizer && self.in_range(pod) && wanted(pod));
            IndexSet::of(&pods.filter_map(|pod| pod.index).collect())
        };
        let before = IndexSet::parse(&status.completed_indexes, below);
        let completed =
            before.union(&with(&|pod| pod.phase == PodPhase::Succeeded && !self.listed_as_failed(pod)));
        let failed = self.job.backoff_per_index.map(|limit| {
            let before = IndexSet::parse(status.failed_indexes.as_deref().unwrap_or(""), below);
            // With the interim condition set, the Job deletes its pods itself: that fails no more indexes.
            let open = !finished::has_interim_condition(status);
            before.union(&with(&|pod| open && self.is_failed(pod) && is_index_failed(self.job, pod, limit)))
        });
        self.succeeded = completed.len();
        (self.completed_before, self.completed, self.failed_indexes) = (before, completed, failed);
        self.awaiting_replacement = self.find_replaceable();
    }

    fn find_replaceable(&self) -> BTreeMap<u32, &'a JobPod> {
        let Some(failed) = &self.failed_indexes else { return BTreeMap::new() };
        let active: BTreeSet<u32> = self.active.iter().filter_map(|pod| pod.index).collect();
        let mut found: BTreeMap<u32, &JobPod> = BTreeMap::new();
        let failed_pods = self
            .pods
            .iter()
            .filter(|pod| pod.has_tracking_finalizer && self.in_range(pod) && self.is_failed(pod));
        for (index, pod) in failed_pods.filter_map(|pod| Some((pod.index?, *pod))) {
            if active.contains(&index) || self.completed.contains(index) || failed.contains(index) {
                continue;
            }
            let last = found.entry(index).or_insert(pod);
            if last.index_failures.all() <= pod.index_failures.all() && last.ended_at <= pod.ended_at {
                *last = pod;
            }
        }
        found
    }
}

/// Whether a pod counts as a failure.
pub fn is_failed(job: &JobFacts, pod: &JobPod) -> bool {
    let deleted = pod.deleting.is_some() && pod.phase != PodPhase::Succeeded;
    pod.phase == PodPhase::Failed || (deleted && !job.replace_failed_only)
}

/// Whether the failure of this pod fails its index.
fn is_index_failed(job: &JobFacts, pod: &JobPod, limit: u32) -> bool {
    match policies::failure_action(job, pod) {
        Some(PodFailureAction::FailIndex) => true,
        Some(PodFailureAction::Ignore) => false,
        _ => pod.index_failures.counted >= limit,
    }
}

/// The number of indexes of an Indexed Job; `None` for a NonIndexed one.
pub fn index_count(job: &JobFacts) -> Option<u32> {
    (job.mode == CompletionMode::Indexed).then(|| job.completions.unwrap_or(0))
}

/// A count as the status stores it; saturates.
pub fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
