//! The status of a JobSet, field by field.

use muster_tree::{Text, Tree};

use crate::condition;
use crate::paths::{jobset_status as path, replicated_status as job_path};
use crate::words::jobset::conditions;

/// The status of a JobSet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobSetStatus {
    /// Conditions.
    pub conditions: Vec<Tree>,
    /// Restarts of the whole.
    pub restarts: u32,
    /// Those that count towards the limit.
    pub counted: u32,
    /// How it ended; empty before.
    pub terminal: Text,
    /// Each replicatedJob.
    pub jobs: Vec<ReplicatedStatus>,
    /// The last attempt in place that is over.
    pub in_place_previous: Option<u32>,
    /// The attempt in place that all pods have reached.
    pub in_place_current: Option<u32>,
}

/// The status of one replicatedJob.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplicatedStatus {
    /// Name.
    pub name: Text,
    /// Jobs whose pods are all ready or done.
    pub ready: u32,
    /// Jobs that succeeded.
    pub succeeded: u32,
    /// Jobs that failed.
    pub failed: u32,
    /// Jobs with pods.
    pub active: u32,
    /// Suspended Jobs.
    pub suspended: u32,
    /// Restarts of each Job alone; empty before the first.
    pub restarts: Vec<u32>,
    /// Those of them that count towards the limit.
    pub counted: Vec<u32>,
}

impl JobSetStatus {
    /// Reads a status.
    #[must_use]
    pub fn of(tree: &Tree) -> JobSetStatus {
        let number = |path: &[&str]| tree.int_at(path).and_then(|n| u32::try_from(n).ok());
        JobSetStatus {
            conditions: tree.items_at(path::CONDITIONS).to_vec(),
            restarts: number(path::RESTARTS).unwrap_or(0),
            counted: number(path::COUNTED).unwrap_or(0),
            terminal: tree.text_at(path::TERMINAL),
            jobs: tree.items_at(path::JOBS).iter().map(ReplicatedStatus::of).collect(),
            in_place_previous: number(path::IN_PLACE_PREVIOUS),
            in_place_current: number(path::IN_PLACE_CURRENT),
        }
    }

    /// This status as a tree, fields that we do not write taken from `old`. ReplicatedJobs stand in falling order of
    /// their names, as existing servers store them.
    #[must_use]
    pub fn tree(&self, old: &Tree) -> Tree {
        let counted = |n: u32| (n > 0).then(|| Tree::from(n));
        let list = |items: Vec<Tree>| (!items.is_empty()).then(|| Tree::list(items));
        let mut jobs: Vec<&ReplicatedStatus> = self.jobs.iter().collect();
        jobs.sort_by(|a, b| b.name.cmp(&a.name));
        let start = if old.is_map() { old.clone() } else { Tree::empty_map() };
        start
            .with_option(path::CONDITIONS, list(self.conditions.clone()))
            .with(path::RESTARTS, self.restarts)
            .with_option(path::COUNTED, counted(self.counted))
            .with_option(path::TERMINAL, (!self.terminal.is_empty()).then(|| Tree::from(&self.terminal)))
            .with_option(path::JOBS, list(jobs.into_iter().map(ReplicatedStatus::tree).collect()))
            .with_option(path::IN_PLACE_PREVIOUS, self.in_place_previous.map(Tree::from))
            .with_option(path::IN_PLACE_CURRENT, self.in_place_current.map(Tree::from))
    }

    /// The condition that ended the JobSet, if it has ended.
    #[must_use]
    pub fn ended(&self) -> Option<&Tree> {
        let ends = [conditions::COMPLETED, conditions::FAILED];
        let holds = |kind: &str| condition::holds(&self.conditions, kind);
        ends.into_iter().find(|kind| holds(kind)).and_then(|kind| condition::find(&self.conditions, kind))
    }

    /// The status of a replicatedJob.
    #[must_use]
    pub fn job(&self, name: &str) -> Option<&ReplicatedStatus> {
        self.jobs.iter().find(|it| it.name == name)
    }
}

impl ReplicatedStatus {
    fn of(tree: &Tree) -> ReplicatedStatus {
        let as_number = |tree: &Tree| tree.as_int().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        let number = |path: &[&str]| tree.at(path).map_or(0, as_number);
        let numbers = |path: &[&str]| tree.items_at(path).iter().map(as_number).collect();
        ReplicatedStatus {
            name: tree.text_at(job_path::NAME),
            ready: number(job_path::READY),
            succeeded: number(job_path::SUCCEEDED),
            failed: number(job_path::FAILED),
            active: number(job_path::ACTIVE),
            suspended: number(job_path::SUSPENDED),
            restarts: numbers(job_path::RESTARTS),
            counted: numbers(job_path::COUNTED),
        }
    }

    fn tree(&self) -> Tree {
        let numbers = |all: &[u32]| (!all.is_empty()).then(|| Tree::list(all.iter().copied()));
        Tree::empty_map()
            .with(job_path::NAME, &self.name)
            .with(job_path::READY, self.ready)
            .with(job_path::SUCCEEDED, self.succeeded)
            .with(job_path::FAILED, self.failed)
            .with(job_path::ACTIVE, self.active)
            .with(job_path::SUSPENDED, self.suspended)
            .with_option(job_path::RESTARTS, numbers(&self.restarts))
            .with_option(job_path::COUNTED, numbers(&self.counted))
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn a_status_is_written_as_it_was_read() {
        let job = |name: &str| tree!({"name": name, "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0});
        let old = tree!({"restarts": 0, "restartsCountTowardsMax": 1, "terminalState": "Failed", "other": 1,
            "conditions": [{"type": "Failed", "status": "True"}], "currentInPlaceRestartAttempt": 0,
            "replicatedJobsStatus": Tree::list([job("b").with(&["jobRestarts"], Tree::list([0, 2])), job("a")])});
        let status = JobSetStatus::of(&old);
        assert_eq!(status.tree(&old), old);
        assert_eq!(status.ended().map(|it| it.str_at(&["type"])), Some("Failed"));
        let sorted = status.tree(&Tree::Null);
        assert_eq!(sorted.items_at(&["replicatedJobsStatus"])[0].str_at(&["name"]), "b");
        assert_eq!(
            JobSetStatus::default().tree(&Tree::Null),
            tree!({"restarts": 0}),
            "restarts are always told"
        );
    }
}
