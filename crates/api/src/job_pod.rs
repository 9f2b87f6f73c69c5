//! Pods of Jobs: the Job controller's view, creation from the template, adoption and release.

use std::ops::Deref;

use muster_tree::{Text, Tree, literal, tree};

use crate::client::Uid;
use crate::condition;
use crate::consts::{COMPLETION_INDEX_ENV, conditions, finalizers, labels};
use crate::job::JobFacts;
use crate::meta::{self, OwnerReference};
use crate::paths::{
    condition as condition_path, container, container_status, job as path, meta as meta_path, pod,
};
use crate::pod::PodFacts;
use crate::time::Time;

/// The fields of a Pod that the Job controller reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPod {
    /// The fields that all controllers read.
    pub facts: PodFacts,
    /// The selector of the Job matches.
    pub matches_selector: bool,
    /// Earlier failures of its index.
    pub index_failures: IndexFailures,
    /// Transition time of a `True` `Ready` condition.
    pub ready_since: Option<Time>,
    /// Terminated containers with their exit codes, init containers last; empty without a pod failure policy.
    pub exit_codes: Vec<(Text, i64)>,
    /// Types and statuses of conditions; empty without a pod failure policy.
    pub conditions: Vec<(Text, Text)>,
}

impl Deref for JobPod {
    type Target = PodFacts;

    fn deref(&self) -> &PodFacts {
        &self.facts
    }
}

impl JobPod {
    /// Reads a Pod for this Job.
    #[must_use]
    pub fn of(tree: &Tree, job: &JobFacts) -> JobPod {
        let facts = PodFacts::of(tree);
        // Exit codes and conditions are only read for a pod failure policy; most Jobs have none.
        let policy = job.failure_rules.is_some();
        let number = |name: &str| {
            let text = meta::annotation(tree, name)?;
            text.parse().ok().filter(|n| i32::try_from(*n).is_ok())
        };
        let before = IndexFailures {
            counted: number(labels::INDEX_FAILURES).unwrap_or(0),
            ignored: number(labels::INDEX_IGNORED).unwrap_or(0),
        };
        JobPod {
            matches_selector: job.selector.matches(tree),
            index_failures: before,
            ready_since: facts.ready.then(|| ready_since(tree)).flatten(),
            exit_codes: if policy { ends(tree) } else { Vec::new() },
            conditions: if policy { conditions_of(tree) } else { Vec::new() },
            facts,
        }
    }
}

fn ready_since(tree: &Tree) -> Option<Time> {
    let ready = condition::find(tree.items_at(pod::CONDITIONS), conditions::READY)?;
    Time::of(ready.at(condition_path::SINCE))
}

fn ends(tree: &Tree) -> Vec<(Text, i64)> {
    let all = tree.items_at(pod::CONTAINER_STATUSES).iter().chain(tree.items_at(pod::INIT_STATUSES));
    all.filter_map(|one| {
        Some((one.text_at(container_status::NAME), one.int_at(container_status::EXIT_CODE)?))
    })
    .collect()
}

fn conditions_of(tree: &Tree) -> Vec<(Text, Text)> {
    let pair = |c: &Tree| (c.text_at(condition_path::TYPE), c.text_at(condition_path::STATUS));
    tree.items_at(pod::CONDITIONS).iter().map(pair).collect()
}

/// A strategic merge patch that adopts a pod: adds owner reference and finalizer.
#[must_use]
pub fn adopt_patch(job: &Tree) -> Tree {
    let owner = OwnerReference::controller_reference("batch/v1", "Job", &meta::name(job), &meta::uid(job));
    tree!({"metadata": {"ownerReferences": [owner], "finalizers": [(literal!("batch.kubernetes.io/job-tracking"))]}})
}

/// A strategic merge patch that releases a pod: removes owner reference and finalizer.
#[must_use]
pub fn release_patch(job: &Uid) -> Tree {
    tree!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": job}],
        "$deleteFromPrimitiveList/finalizers": [(literal!("batch.kubernetes.io/job-tracking"))]}})
}

/// A pod to create for a Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPod {
    /// Completion index; `None` for a NonIndexed Job.
    pub index: Option<u32>,
    /// The random-looking end of the name.
    pub suffix: Text,
    /// Earlier failures of the index; `None` without `backoffLimitPerIndex`.
    pub index_failures: Option<IndexFailures>,
}

/// Failures of one completion index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct IndexFailures {
    /// Failures that count against `backoffLimitPerIndex`.
    pub counted: u32,
    /// Failures that the pod failure policy ignored.
    pub ignored: u32,
}

impl IndexFailures {
    /// Counted and ignored failures together.
    #[must_use]
    pub fn all(self) -> u32 {
        self.counted.saturating_add(self.ignored)
    }
}

impl NewPod {
    /// The pod's name. A long Job name is truncated so that the suffix fits, as in `generateName`.
    #[must_use]
    pub fn name(&self, job: &str) -> Text {
        Text::from(format!("{}{}", cut(&self.front(job)), self.suffix))
    }

    /// The part before the suffix; a long Job name is truncated so that the index fits.
    fn front(&self, job: &str) -> String {
        match self.index {
            Some(index) => {
                let end = format!("-{index}-");
                let room = FRONT_MAX.saturating_sub(end.len());
                format!("{}{end}", job.get(..room).unwrap_or(job))
            }
            None => format!("{job}-"),
        }
    }
}

/// Longest part before the suffix: 63 characters minus the suffix.
const FRONT_MAX: usize = 58;

fn cut(front: &str) -> &str {
    front.get(..FRONT_MAX).unwrap_or(front)
}

/// Builds a Pod from the Job's template, with owner reference, tracking finalizer and completion index.
#[must_use]
pub fn new_pod(job: &Tree, new: &NewPod) -> Tree {
    let (name, uid) = (meta::name(job), meta::uid(job));
    let old_meta = job.at(path::TEMPLATE_META).cloned().unwrap_or_else(Tree::empty_map);
    let kept = |key: &str| old_meta.get(key).cloned();
    // The tracking finalizer keeps the pod until the Job controller has counted it, also if it is deleted meanwhile.
    let mut finalizers: Vec<Tree> = old_meta.items_at(&["finalizers"]).to_vec();
    if !finalizers.iter().any(|item| item.as_str() == Some(finalizers::JOB_TRACKING)) {
        finalizers.push(Tree::Text(literal!("batch.kubernetes.io/job-tracking")));
    }
    let metadata = tree!({"name": new.name(&name), "generateName": new.front(&name),
        "namespace": meta::namespace(job), "finalizers": Tree::list(finalizers),
        "ownerReferences": [(OwnerReference::controller_reference("batch/v1", "Job", &name, &uid))]});
    let pod = tree!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": job.at(path::TEMPLATE_SPEC).cloned().unwrap_or_default()})
    .with_option(meta_path::LABELS, kept("labels"))
    .with_option(meta_path::ANNOTATIONS, kept("annotations"));
    match new.index {
        Some(index) => with_index(&pod, &name, index, new.index_failures),
        None => pod,
    }
}

fn with_index(pod: &Tree, job: &Text, index: u32, before: Option<IndexFailures>) -> Tree {
    let word = index.to_string();
    let put = |path: &[&str]| {
        let old = pod.at(path).cloned().unwrap_or_default();
        old.with(&[labels::COMPLETION_INDEX], &word)
    };
    let pod = pod
        .with(meta_path::LABELS, put(meta_path::LABELS))
        .with(meta_path::ANNOTATIONS, with_failures(&put(meta_path::ANNOTATIONS), before));
    // With a headless Service the host name gives each index a stable DNS name.
    let pod = pod.with(pod::HOSTNAME, format!("{job}-{index}"));
    [pod::CONTAINERS, pod::INIT_CONTAINERS].iter().fold(pod, |pod, path| match pod.at(path) {
        Some(list) => {
            let list = list.map_items(|_, item| with_index_env(item));
            pod.with(path, list)
        }
        None => pod,
    })
}

/// Adds the failure count annotations; that of ignored failures only when it is not 0, as upstream does.
fn with_failures(annotations: &Tree, before: Option<IndexFailures>) -> Tree {
    let Some(before) = before else { return annotations.clone() };
    let told = annotations.with(&[labels::INDEX_FAILURES], before.counted.to_string());
    match before.ignored {
        0 => told,
        ignored => told.with(&[labels::INDEX_IGNORED], ignored.to_string()),
    }
}

fn with_index_env(item: &Tree) -> Tree {
    let old = item.items_at(container::ENV);
    // A variable of the template takes precedence, as upstream does.
    if old.iter().any(|var| var.str_at(&["name"]) == COMPLETION_INDEX_ENV) {
        return item.clone();
    }
    let field = format!("metadata.labels['{}']", labels::COMPLETION_INDEX);
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
        let pod = new_pod(&job(), &NewPod { index: Some(2), suffix: "abcde".into(), index_failures: None });
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
        assert_eq!(meta::controller_of(&pod).map(|owner| owner.block_owner_deletion), Some(true));
    }

    #[test]
    fn a_long_name_gives_way_to_the_suffix() {
        let long = "x".repeat(63);
        let new = |index| NewPod { index, suffix: "abcde".into(), index_failures: None };
        assert_eq!(new(None).name(&long).len(), 63);
        let name = new(Some(17)).name(&long);
        assert!(name.len() == 63 && name.ends_with("xx-17-abcde"), "the index stays: {name}");
    }

    #[test]
    fn failures_of_the_index_are_written_on_the_pod_and_read_back() {
        for (before, annotations) in [
            (None, tree!({"batch.kubernetes.io/job-completion-index": "0"})),
            (
                Some(IndexFailures { counted: 0, ignored: 0 }),
                tree!({"batch.kubernetes.io/job-completion-index": "0", "batch.kubernetes.io/job-index-failure-count": "0"}),
            ),
            (
                Some(IndexFailures { counted: 2, ignored: 1 }),
                tree!({"batch.kubernetes.io/job-completion-index": "0", "batch.kubernetes.io/job-index-failure-count": "2",
                    "batch.kubernetes.io/job-index-ignored-failure-count": "1"}),
            ),
        ] {
            let pod =
                new_pod(&job(), &NewPod { index: Some(0), suffix: "abcde".into(), index_failures: before });
            assert_eq!(pod.at(meta_path::ANNOTATIONS), Some(&annotations));
            let read = JobPod::of(&pod, &JobFacts::of(&job()));
            assert_eq!(read.index_failures, before.unwrap_or_default());
        }
    }
}
