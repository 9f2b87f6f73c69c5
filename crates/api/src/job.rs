//! Jobs: what the Job controller reads of them, their status, and the Pods made from their template.

use muster_tree::{Text, Tree, literal, tree};

use crate::condition;
use crate::meta::{self, Owner};
use crate::paths::{container, job as path, job_status as status, meta as meta_path, pod};
use crate::port::Uid;
use crate::time::Time;
use crate::words::{COMPLETION_INDEX_ENV, JOB_CONTROLLER, conditions, finalizers, labels};

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
    /// Failures tolerated.
    pub backoff_limit: u32,
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
    /// Indexes with a success; `None` for Jobs without indexes.
    pub completed_indexes: Text,
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
            backoff_limit: number(path::BACKOFF_LIMIT).unwrap_or(6),
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
            .with_option(status::CONDITIONS, conditions)
            .with_option(status::UNCOUNTED, self.tracks.then_some(uncounted))
    }
}

/// A pod to be made: which completion index, and the suffix of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPod {
    /// Completion index of an indexed Job.
    pub index: Option<u32>,
    /// The last part of the name.
    pub suffix: Text,
}

impl NewPod {
    /// The pod's name for a Job called `job`. As with generated names, a long front gives way to the suffix.
    #[must_use]
    pub fn name(&self, job: &str) -> Text {
        Text::from(format!("{}{}", cut(&self.front(job)), self.suffix))
    }

    fn front(&self, job: &str) -> String {
        match self.index {
            Some(index) => format!("{job}-{index}-"),
            None => format!("{job}-"),
        }
    }
}

/// The longest front of a generated name: 63 characters less the suffix.
const FRONT_MAX: usize = 58;

fn cut(front: &str) -> &str {
    front.get(..FRONT_MAX).unwrap_or(front)
}

/// Makes a Pod from a Job's template.
#[must_use]
pub fn pod_of(job: &Tree, new: &NewPod) -> Tree {
    let (name, uid) = (meta::name(job), meta::uid(job));
    let old_meta = job.at(path::TEMPLATE_META).cloned().unwrap_or_else(Tree::empty_map);
    let kept = |key: &str| old_meta.get(key).cloned();
    let mut finalizers: Vec<Tree> = old_meta.items_at(&["finalizers"]).to_vec();
    if !finalizers.iter().any(|item| item.as_str() == Some(finalizers::JOB_TRACKING)) {
        finalizers.push(Tree::Text(literal!("batch.kubernetes.io/job-tracking")));
    }
    let metadata = tree!({"name": new.name(&name), "generateName": new.front(&name),
        "namespace": meta::namespace(job), "finalizers": Tree::list(finalizers),
        "ownerReferences": [(Owner::controller_tree("batch/v1", "Job", &name, &uid))]});
    let pod = tree!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": job.at(path::TEMPLATE_SPEC).cloned().unwrap_or_default()})
    .with_option(meta_path::LABELS, kept("labels"))
    .with_option(meta_path::ANNOTATIONS, kept("annotations"));
    match new.index {
        Some(index) => with_index(&pod, &name, index),
        None => pod,
    }
}

fn with_index(pod: &Tree, job: &Text, index: u32) -> Tree {
    let word = index.to_string();
    let put = |path: &[&str]| {
        let old = pod.at(path).cloned().unwrap_or_default();
        old.with(&[labels::COMPLETION_INDEX], &word)
    };
    let pod = pod
        .with(meta_path::LABELS, put(meta_path::LABELS))
        .with(meta_path::ANNOTATIONS, put(meta_path::ANNOTATIONS));
    let pod = pod.with(pod::HOSTNAME, format!("{job}-{index}"));
    [pod::CONTAINERS, pod::INIT_CONTAINERS].iter().fold(pod, |pod, path| match pod.at(path) {
        Some(list) => {
            let list = list.map_items(|_, item| with_index_env(item));
            pod.with(path, list)
        }
        None => pod,
    })
}

fn with_index_env(item: &Tree) -> Tree {
    let old = item.items_at(container::ENV);
    if old.iter().any(|var| var.str_at(&["name"]) == COMPLETION_INDEX_ENV) {
        return item.clone();
    }
    let field = format!("metadata.annotations['{}']", labels::COMPLETION_INDEX);
    let var = tree!({"name": COMPLETION_INDEX_ENV, "valueFrom": {"fieldRef": {"fieldPath": field}}});
    item.with(container::ENV, Tree::list(old.iter().cloned().chain([var])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Tree {
        tree!({"metadata": {"name": "train", "namespace": "ns", "uid": "u"},
            "spec": {"template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c"}, {"name": "d", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "x"}]}]}}}})
    }

    #[test]
    fn a_pod_of_an_indexed_job() {
        let pod = pod_of(&job(), &NewPod { index: Some(2), suffix: "abcde".into() });
        assert_eq!(meta::name(&pod), "train-2-abcde");
        assert_eq!(pod.str_at(pod::HOSTNAME), "train-2");
        assert_eq!(
            pod.at(meta_path::LABELS),
            Some(&tree!({"a": "b", "batch.kubernetes.io/job-completion-index": "2"}))
        );
        assert!(meta::has_finalizer(&pod, finalizers::JOB_TRACKING));
        let envs: Vec<usize> =
            pod.items_at(pod::CONTAINERS).iter().map(|c| c.items_at(container::ENV).len()).collect();
        assert_eq!(envs, [1, 1], "an own variable of that name is left alone");
        assert_eq!(meta::controller(&pod).map(|owner| owner.blocks), Some(true));
    }

    #[test]
    fn a_long_name_gives_way_to_the_suffix() {
        let long = "x".repeat(63);
        assert_eq!(NewPod { index: None, suffix: "abcde".into() }.name(&long).len(), 63);
    }

    #[test]
    fn a_status_is_written_as_it_was_read() {
        let old = tree!({"active": 2, "ready": 0, "terminating": 0, "startTime": "2026-01-01T00:00:00Z",
            "uncountedTerminatedPods": {"failed": ["x"]}, "conditions": [{"type": "Suspended", "status": "False"}], "other": 1});
        assert_eq!(JobStatus::of(&old).tree(&old), old);
        assert_eq!(JobStatus::default().tree(&Tree::Null), Tree::empty_map());
    }
}
