//! Jobs: what the Job controller reads of them, and their status. Their Pods are in [`job_pod`](crate::job_pod).

use muster_tree::{Text, Tree};

use crate::job_policy::{self, FailureRule, SuccessRule};
use crate::paths::{job as path, job_status as status};
use crate::port::Uid;
use crate::selector::Selector;
use crate::time::Time;
use crate::words::{JOB_CONTROLLER, conditions};
use crate::{condition, meta};

/// The back-off limit of a Job that names none.
const BACKOFF_LIMIT_DEFAULT: u32 = 6;

/// `spec.completionMode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Any pod is as good as another.
    NonIndexed,
    /// Every index wants one success.
    Indexed,
    /// A mode we do not know.
    Unknown,
}

/// What the Job controller reads of a Job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFacts {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Pods wanted at once.
    pub parallelism: u32,
    /// Successes wanted; `None` for a work queue.
    pub completions: Option<u32>,
    /// Completion mode.
    pub mode: Mode,
    /// Which pods may be its own.
    pub selector: Selector,
    /// Failures tolerated.
    pub backoff_limit: u32,
    /// Failures tolerated of each index; `None` when indexes have no limits of their own.
    pub backoff_per_index: Option<u32>,
    /// Failed indexes tolerated.
    pub max_failed_indexes: Option<u32>,
    /// What failures mean; `None` without a pod failure policy.
    pub failure_rules: Option<Vec<FailureRule>>,
    /// When enough has succeeded; empty without a success policy.
    pub success_rules: Vec<SuccessRule>,
    /// Whether no pod may run.
    pub suspend: bool,
    /// How long it may run, in seconds.
    pub deadline_secs: Option<u32>,
    /// How long it stays when finished, in seconds.
    pub ttl_secs: Option<u32>,
    /// Whether somebody else manages it.
    pub foreign: bool,
    /// Whether a pod is replaced only once it has fully ended.
    pub replace_only_ended: bool,
    /// Whether its containers are restarted in place.
    pub restarts_in_place: bool,
    /// Its status as written.
    pub status: JobStatus,
}

/// The status of a Job, field by field.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobStatus {
    /// Pods that run or may run.
    pub active: u32,
    /// Of these, the ready ones.
    pub ready: Option<u32>,
    /// Deleted pods that have not ended.
    pub terminating: Option<u32>,
    /// Counted successes.
    pub succeeded: u32,
    /// Counted failures.
    pub failed: u32,
    /// Start of the present run.
    pub start_time: Option<Time>,
    /// End, when it completed.
    pub completion_time: Option<Time>,
    /// Indexes with a success; empty for Jobs without indexes.
    pub completed_indexes: Text,
    /// Indexes that failed, be it none; `None` when indexes have no limits of their own.
    pub failed_indexes: Option<Text>,
    /// Conditions.
    pub conditions: Vec<Tree>,
    /// Successes that are not counted yet.
    pub uncounted_succeeded: Vec<Uid>,
    /// Failures that are not counted yet.
    pub uncounted_failed: Vec<Uid>,
    /// Whether there is a list of uncounted pods at all, be it empty.
    pub tracks: bool,
}

impl JobFacts {
    /// Reads a defaulted Job.
    #[must_use]
    pub fn of(job: &Tree) -> JobFacts {
        let number = |path: &[&str]| job.int_at(path).and_then(|n| u32::try_from(n).ok());
        JobFacts {
            namespace: meta::namespace(job),
            name: meta::name(job),
            uid: meta::uid(job),
            deleting: meta::deleting(job).is_some(),
            parallelism: number(path::PARALLELISM).unwrap_or(1),
            completions: number(path::COMPLETIONS),
            mode: match job.str_at(path::MODE) {
                "" | "NonIndexed" => Mode::NonIndexed,
                "Indexed" => Mode::Indexed,
                _ => Mode::Unknown,
            },
            selector: Selector::of(job.at(path::SELECTOR)),
            backoff_limit: number(path::BACKOFF_LIMIT).unwrap_or(BACKOFF_LIMIT_DEFAULT),
            backoff_per_index: number(path::BACKOFF_PER_INDEX),
            max_failed_indexes: number(path::MAX_FAILED_INDEXES),
            failure_rules: job_policy::failure_rules(job),
            success_rules: job_policy::success_rules(job),
            suspend: job.bool_at(path::SUSPEND) == Some(true),
            deadline_secs: number(path::DEADLINE),
            ttl_secs: number(path::TTL),
            foreign: !matches!(job.str_at(path::MANAGED_BY), "" | JOB_CONTROLLER),
            replace_only_ended: job.str_at(path::REPLACEMENT) == "Failed",
            restarts_in_place: job.str_at(path::RESTART_POLICY) == "OnFailure",
            status: JobStatus::of(job.at(path::STATUS).unwrap_or(&Tree::Null)),
        }
    }

    /// The condition that ended the Job, if it has ended.
    #[must_use]
    pub fn finished(&self) -> Option<&Tree> {
        let ended = |c: &&Tree| {
            let kind = c.str_at(crate::paths::condition::TYPE);
            matches!(kind, conditions::COMPLETE | conditions::FAILED)
                && condition::holds(std::slice::from_ref(c), kind)
        };
        self.status.conditions.iter().find(ended)
    }
}

impl JobStatus {
    /// Reads a status.
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
            tracks: tree.at(status::UNCOUNTED).is_some(),
        }
    }

    /// This status as a tree, fields that we do not write taken from `old`.
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
            .with_option(status::UNCOUNTED, self.tracks.then_some(uncounted))
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
