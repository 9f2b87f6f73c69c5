//! The typed view of a Job and its status. Pods of Jobs are in [`job_pod`](crate::job_pod).

use muster_tree::{Text, Tree};

use crate::client::Uid;
use crate::consts::{JOB_CONTROLLER, conditions};
use crate::job_policy::{self, PodFailureRule, SuccessRule};
use crate::paths::{job as path, job_status as status};
use crate::selector::LabelSelector;
use crate::time::Time;
use crate::{condition, meta};

/// Upstream's default of `backoffLimit`.
const BACKOFF_LIMIT_DEFAULT: u32 = 6;

/// The completion mode of a Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompletionMode {
    /// Any `completions` pods must succeed.
    NonIndexed,
    /// Each index from 0 to `completions - 1` must succeed once.
    Indexed,
    /// An unknown mode: the Job is not reconciled.
    Unknown,
}

/// The fields of a Job that the Job controller reads, with defaults filled in.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "fields mirror metadata and spec of a Job")]
pub struct JobFacts {
    pub namespace: Text,
    pub name: Text,
    pub uid: Uid,
    pub deleting: bool,
    pub parallelism: u32,
    /// `None` for a work queue: the Job completes when any pod succeeded and all have terminated.
    pub completions: Option<u32>,
    pub mode: CompletionMode,
    pub selector: LabelSelector,
    pub backoff_limit: u32,
    /// `backoffLimitPerIndex`; `None` counts failures for the Job as a whole.
    pub backoff_per_index: Option<u32>,
    pub max_failed_indexes: Option<u32>,
    /// `podFailurePolicy.rules`; `None` without a policy.
    pub failure_rules: Option<Vec<PodFailureRule>>,
    /// `successPolicy.rules`; empty without a policy.
    pub success_rules: Vec<SuccessRule>,
    pub suspend: bool,
    pub active_deadline_secs: Option<u32>,
    pub ttl_secs: Option<u32>,
    /// `managedBy` names another controller: the Job is not reconciled.
    pub managed_externally: bool,
    /// `podReplacementPolicy: Failed`: a terminating pod is replaced only once it is terminal.
    pub replace_failed_only: bool,
    /// `restartPolicy: OnFailure`: the kubelet restarts containers in place, and restarts count against the backoff limit.
    pub restart_on_failure: bool,
    /// The status as last written.
    pub status: JobStatus,
}

/// The status of a Job.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(missing_docs, reason = "fields mirror status of a Job")]
pub struct JobStatus {
    /// Pods that are pending or running and not terminating.
    pub active: u32,
    /// Active pods with condition `Ready`.
    pub ready: Option<u32>,
    /// Terminating pods that are not terminal yet.
    pub terminating: Option<u32>,
    pub succeeded: u32,
    pub failed: u32,
    pub start_time: Option<Time>,
    pub completion_time: Option<Time>,
    /// Empty for a NonIndexed Job.
    pub completed_indexes: Text,
    /// `failedIndexes`, possibly empty; `None` without `backoffLimitPerIndex`.
    pub failed_indexes: Option<Text>,
    pub conditions: Vec<Tree>,
    /// Succeeded pods that still have the tracking finalizer; they are not in `succeeded` yet.
    pub uncounted_succeeded: Vec<Uid>,
    /// Failed pods that still have the tracking finalizer; they are not in `failed` yet.
    pub uncounted_failed: Vec<Uid>,
    /// `uncountedTerminatedPods` is present, possibly empty.
    pub has_uncounted_field: bool,
}

impl JobFacts {
    /// Reads a Job, with upstream's defaults.
    #[must_use]
    pub fn of(job: &Tree) -> JobFacts {
        let number = |path: &[&str]| job.int_at(path).and_then(|n| u32::try_from(n).ok());
        JobFacts {
            namespace: meta::namespace(job),
            name: meta::name(job),
            uid: meta::uid(job),
            deleting: meta::deletion_timestamp(job).is_some(),
            parallelism: number(path::PARALLELISM).unwrap_or(1),
            completions: number(path::COMPLETIONS),
            mode: match job.str_at(path::MODE) {
                "" | "NonIndexed" => CompletionMode::NonIndexed,
                "Indexed" => CompletionMode::Indexed,
                _ => CompletionMode::Unknown,
            },
            selector: LabelSelector::of(job.at(path::SELECTOR)),
            backoff_limit: number(path::BACKOFF_LIMIT).unwrap_or(BACKOFF_LIMIT_DEFAULT),
            backoff_per_index: number(path::BACKOFF_PER_INDEX),
            max_failed_indexes: number(path::MAX_FAILED_INDEXES),
            failure_rules: job_policy::failure_rules(job),
            success_rules: job_policy::success_rules(job),
            suspend: job.bool_at(path::SUSPEND) == Some(true),
            active_deadline_secs: number(path::DEADLINE),
            ttl_secs: number(path::TTL),
            managed_externally: !matches!(job.str_at(path::MANAGED_BY), "" | JOB_CONTROLLER),
            replace_failed_only: job.str_at(path::REPLACEMENT) == "Failed",
            restart_on_failure: job.str_at(path::RESTART_POLICY) == "OnFailure",
            status: JobStatus::of(job.at(path::STATUS).unwrap_or(&Tree::Null)),
        }
    }

    /// The terminal condition, `Complete` or `Failed`, if it is `True`.
    #[must_use]
    pub fn finished_condition(&self) -> Option<&Tree> {
        let ended = |c: &&Tree| {
            let kind = c.str_at(crate::paths::condition::TYPE);
            matches!(kind, conditions::COMPLETE | conditions::FAILED)
                && condition::is_true(std::slice::from_ref(c), kind)
        };
        self.status.conditions.iter().find(ended)
    }
}

impl JobStatus {
    /// Reads the `status` of the object.
    #[must_use]
    pub fn of(tree: &Tree) -> JobStatus {
        let number = |path: &[&str]| tree.int_at(path).and_then(|n| u32::try_from(n).ok());
        let uids =
            |path: &[&str]| tree.items_at(path).iter().filter_map(|uid| uid.as_text().cloned()).collect();
        JobStatus {
            active: number(status::ACTIVE).unwrap_or(0),
            ready: number(status::READY),
            terminating: number(status::TERMINATING),
            succeeded: number(status::SUCCEEDED).unwrap_or(0),
            failed: number(status::FAILED).unwrap_or(0),
            start_time: Time::of(tree.at(status::START_TIME)),
            completion_time: Time::of(tree.at(status::COMPLETION_TIME)),
            completed_indexes: tree.text_at(status::COMPLETED_INDEXES),
            failed_indexes: tree.at(status::FAILED_INDEXES).and_then(|text| text.as_text().cloned()),
            conditions: tree.items_at(status::CONDITIONS).to_vec(),
            uncounted_succeeded: uids(status::UNCOUNTED_SUCCEEDED),
            uncounted_failed: uids(status::UNCOUNTED_FAILED),
            has_uncounted_field: tree.at(status::UNCOUNTED).is_some(),
        }
    }

    /// The status as an API value; fields that this type does not cover are kept from `old`.
    #[must_use]
    pub fn tree(&self, old: &Tree) -> Tree {
        let counted = |n: u32| (n > 0).then(|| Tree::from(n));
        let uids = |uids: &[Uid]| (!uids.is_empty()).then(|| Tree::list(uids.iter()));
        let time = |time: Option<Time>| time.map(|time| Tree::from(time.to_seconds_text()));
        let uncounted = Tree::empty_map()
            .with_option(&["succeeded"], uids(&self.uncounted_succeeded))
            .with_option(&["failed"], uids(&self.uncounted_failed));
        let conditions = (!self.conditions.is_empty()).then(|| Tree::list(self.conditions.iter()));
        let completed = (!self.completed_indexes.is_empty()).then(|| Tree::from(&self.completed_indexes));
        let start = if old.is_map() { old.clone() } else { Tree::empty_map() };
        start
            .with_option(status::ACTIVE, counted(self.active))
            .with_option(status::READY, self.ready.map(Tree::from))
            .with_option(status::TERMINATING, self.terminating.map(Tree::from))
            .with_option(status::SUCCEEDED, counted(self.succeeded))
            .with_option(status::FAILED, counted(self.failed))
            .with_option(status::START_TIME, time(self.start_time))
            .with_option(status::COMPLETION_TIME, time(self.completion_time))
            .with_option(status::COMPLETED_INDEXES, completed)
            .with_option(status::FAILED_INDEXES, self.failed_indexes.as_ref().map(Tree::from))
            .with_option(status::CONDITIONS, conditions)
            .with_option(status::UNCOUNTED, self.has_uncounted_field.then_some(uncounted))
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn a_status_is_written_as_it_was_read() {
        let old = tree!({"active": 2, "ready": 0, "terminating": 0, "failedIndexes": "", "startTime": "2026-01-01T00:00:00Z",
            "uncountedTerminatedPods": {"failed": ["x"]}, "conditions": [{"type": "Suspended", "status": "False"}], "other": 1});
        assert_eq!(JobStatus::of(&old).tree(&old), old);
        assert_eq!(JobStatus::default().tree(&Tree::Null), Tree::empty_map());
    }
}
