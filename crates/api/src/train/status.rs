//! The status of a TrainJob.

use muster_tree::{Text, Tree};

use super::consts::{conditions, reasons};
use super::paths::{job_status as job_path, status as path};
use crate::condition;
use crate::jobset::ReplicatedJobStatus;
use crate::paths::condition as condition_path;
use crate::time::Time;

/// The status of a TrainJob, without `trainerStatus`: the progress endpoint writes that.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrainJobStatus {
    /// Conditions, in the order in which they were added.
    pub conditions: Vec<Tree>,
    /// `jobsStatus`, one entry per replicatedJob.
    pub jobs: Vec<JobsStatus>,
}

/// One entry of `jobsStatus`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "fields mirror JobStatus")]
pub struct JobsStatus {
    pub name: Text,
    /// Jobs in which all pods are ready or succeeded.
    pub ready: u32,
    pub succeeded: u32,
    pub failed: u32,
    /// Jobs with active pods.
    pub active: u32,
    pub suspended: u32,
}

impl From<&ReplicatedJobStatus> for JobsStatus {
    fn from(it: &ReplicatedJobStatus) -> JobsStatus {
        JobsStatus {
            name: it.name.clone(),
            ready: it.ready,
            succeeded: it.succeeded,
            failed: it.failed,
            active: it.active,
            suspended: it.suspended,
        }
    }
}

impl TrainJobStatus {
    /// Reads the `status` of the object.
    #[must_use]
    pub fn of(tree: &Tree) -> TrainJobStatus {
        TrainJobStatus {
            conditions: tree.items_at(path::CONDITIONS).to_vec(),
            jobs: tree.items_at(path::JOBS).iter().map(JobsStatus::of).collect(),
        }
    }

    /// Returns whether this condition is `True`.
    #[must_use]
    pub fn holds(&self, kind: &str) -> bool {
        condition::is_true(&self.conditions, kind)
    }

    /// Finds the condition of this type.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&Tree> {
        condition::find(&self.conditions, kind)
    }

    /// Returns whether `Complete` or `Failed` is `True`.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.holds(conditions::COMPLETE) || self.holds(conditions::FAILED)
    }

    /// Transition time of the terminal condition; the earlier one if both are `True`.
    #[must_use]
    pub fn finished_at(&self) -> Option<Time> {
        let ends = [conditions::COMPLETE, conditions::FAILED].into_iter().filter(|kind| self.holds(kind));
        ends.filter_map(|kind| Time::of(self.condition(kind)?.at(condition_path::SINCE))).min()
    }

    /// Returns whether it failed because of its deadline.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        let failed = self.condition(conditions::FAILED).filter(|_| self.holds(conditions::FAILED));
        failed.is_some_and(|it| it.str_at(condition_path::REASON) == reasons::DEADLINE_EXCEEDED)
    }

    /// A merge patch from `old`, a whole status, to this one; `None` if nothing differs. An empty status is never written:
    /// the CRD's minProperties rejects it.
    #[must_use]
    pub fn patch(&self, old: &Tree) -> Option<Tree> {
        let list = |items: Vec<Tree>| (!items.is_empty()).then(|| Tree::list(items));
        let start = if old.is_map() { old.clone() } else { Tree::empty_map() };
        let new = start
            .with_option(path::CONDITIONS, list(self.conditions.clone()))
            .with_option(path::JOBS, list(self.jobs.iter().map(JobsStatus::tree).collect()));
        let patch = start.merge_patch_to(&new)?;
        Some(Tree::empty_map().with(super::paths::train_job::STATUS, patch))
    }
}

impl JobsStatus {
    fn of(tree: &Tree) -> JobsStatus {
        let number = |path: &[&str]| tree.int_at(path).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        JobsStatus {
            name: tree.text_at(job_path::NAME),
            ready: number(job_path::READY),
            succeeded: number(job_path::SUCCEEDED),
            failed: number(job_path::FAILED),
            active: number(job_path::ACTIVE),
            suspended: number(job_path::SUSPENDED),
        }
    }

    fn tree(&self) -> Tree {
        Tree::empty_map()
            .with(job_path::NAME, &self.name)
            .with(job_path::READY, self.ready)
            .with(job_path::SUCCEEDED, self.succeeded)
            .with(job_path::FAILED, self.failed)
            .with(job_path::ACTIVE, self.active)
            .with(job_path::SUSPENDED, self.suspended)
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn status_round_trips_and_keeps_trainer_status() {
        let old = tree!({"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:02Z"},
                {"type": "Failed", "status": "False", "lastTransitionTime": "2026-01-01T00:00:01Z"}],
            "jobsStatus": [{"name": "node", "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}],
            "trainerStatus": {"progressPercentage": 5}});
        let mut status = TrainJobStatus::of(&old);
        assert_eq!(status.patch(&old), None);
        assert_eq!(status.finished_at(), Time::parse("2026-01-01T00:00:02Z"));
        assert!(status.is_finished() && !status.is_overdue());
        status.jobs[0].active = 0;
        let patched = old.merge(status.patch(&old).unwrap().get("status").unwrap());
        assert_eq!(patched.int_at(&["trainerStatus", "progressPercentage"]), Some(5));
        assert_eq!(TrainJobStatus::of(&patched), status);
    }

    #[test]
    fn an_empty_status_is_not_written() {
        assert_eq!(TrainJobStatus::default().patch(&Tree::Null), None);
    }
}
