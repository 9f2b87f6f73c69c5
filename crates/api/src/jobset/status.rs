//! The status of a JobSet.

use muster_tree::{Text, Tree};

use crate::condition;
use crate::consts::jobset::conditions;
use crate::paths::{jobset_status as path, replicated_status as job_path};

/// The status of a JobSet.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(missing_docs, reason = "fields mirror status of a JobSet")]
pub struct JobSetStatus {
    pub conditions: Vec<Tree>,
    /// Restarts of the JobSet as a whole.
    pub restarts: u32,
    pub counted: u32,
    /// `terminalState`: `Completed`, `Failed` or empty.
    pub terminal: Text,
    pub jobs: Vec<ReplicatedJobStatus>,
    pub in_place_previous: Option<u32>,
    /// `currentInPlaceRestartAttempt`: the attempt that all pods have reached.
    pub in_place_current: Option<u32>,
}

/// One entry of `replicatedJobsStatus`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "fields mirror ReplicatedJobStatus")]
pub struct ReplicatedJobStatus {
    pub name: Text,
    /// Jobs in which all pods are ready or succeeded.
    pub ready: u32,
    pub succeeded: u32,
    pub failed: u32,
    /// Jobs with active pods.
    pub active: u32,
    pub suspended: u32,
    /// `jobRestarts`: restarts of each single Job; empty before the first one.
    pub restarts: Vec<u32>,
    /// Those of `restarts` that count towards the limit.
    pub counted: Vec<u32>,
}

impl JobSetStatus {
    /// Reads the `status` of the object.
    #[must_use]
    pub fn of(tree: &Tree) -> JobSetStatus {
        let number = |path: &[&str]| tree.int_at(path).and_then(|n| u32::try_from(n).ok());
        JobSetStatus {
            conditions: tree.items_at(path::CONDITIONS).to_vec(),
            restarts: number(path::RESTARTS).unwrap_or(0),
            counted: number(path::COUNTED).unwrap_or(0),
            terminal: tree.text_at(path::TERMINAL),
            jobs: tree.items_at(path::JOBS).iter().map(ReplicatedJobStatus::of).collect(),
            in_place_previous: number(path::IN_PLACE_PREVIOUS),
            in_place_current: number(path::IN_PLACE_CURRENT),
        }
    }

    /// The status as an API value; fields that this type does not cover are kept from `old`. ReplicatedJobs are sorted by
    /// descending name, as upstream's controller stores them, so that taking over a JobSet writes nothing.
    #[must_use]
    pub fn tree(&self, old: &Tree) -> Tree {
        let counted = |n: u32| (n > 0).then(|| Tree::from(n));
        let list = |items: Vec<Tree>| (!items.is_empty()).then(|| Tree::list(items));
        let mut jobs: Vec<&ReplicatedJobStatus> = self.jobs.iter().collect();
        jobs.sort_by(|a, b| b.name.cmp(&a.name));
        let start = if old.is_map() { old.clone() } else { Tree::empty_map() };
        start
            .with_option(path::CONDITIONS, list(self.conditions.clone()))
            .with(path::RESTARTS, self.restarts)
            .with_option(path::COUNTED, counted(self.counted))
            .with_option(path::TERMINAL, (!self.terminal.is_empty()).then(|| Tree::from(&self.terminal)))
            .with_option(path::JOBS, list(jobs.into_iter().map(ReplicatedJobStatus::tree).collect()))
            .with_option(path::IN_PLACE_PREVIOUS, self.in_place_previous.map(Tree::from))
            .with_option(path::IN_PLACE_CURRENT, self.in_place_current.map(Tree::from))
    }

    /// The terminal condition, `Completed` or `Failed`, if it is `True`.
    #[must_use]
    pub fn terminal_condition(&self) -> Option<&Tree> {
        let ends = [conditions::COMPLETED, conditions::FAILED];
        let holds = |kind: &str| condition::is_true(&self.conditions, kind);
        ends.into_iter().find(|kind| holds(kind)).and_then(|kind| condition::find(&self.conditions, kind))
    }

    /// The status of the replicatedJob of this name.
    #[must_use]
    pub fn job(&self, name: &str) -> Option<&ReplicatedJobStatus> {
        self.jobs.iter().find(|it| it.name == name)
    }
}

impl ReplicatedJobStatus {
    fn of(tree: &Tree) -> ReplicatedJobStatus {
        let as_number = |tree: &Tree| tree.as_int().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        let number = |path: &[&str]| tree.at(path).map_or(0, as_number);
        let numbers = |path: &[&str]| tree.items_at(path).iter().map(as_number).collect();
        ReplicatedJobStatus {
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
        assert_eq!(status.terminal_condition().map(|it| it.str_at(&["type"])), Some("Failed"));
        let sorted = status.tree(&Tree::Null);
        assert_eq!(sorted.items_at(&["replicatedJobsStatus"])[0].str_at(&["name"]), "b");
        assert_eq!(
            JobSetStatus::default().tree(&Tree::Null),
            tree!({"restarts": 0}),
            "restarts are always told"
        );
    }
}
