//! Builders of Workloads and of patches to them.

use std::collections::BTreeMap;

use muster_tree::{Text, Tree, tree};

use super::condition::Condition;
use super::consts::{API_VERSION, WORKLOAD, finalizers};
use super::paths::{pod_set, workload as path};
use super::workload::PriorityRef;
use crate::paths::meta as meta_path;

/// A Workload to create.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(missing_docs, reason = "fields mirror metadata and spec of a Workload")]
pub struct NewWorkload {
    pub namespace: Text,
    pub name: Text,
    /// Labels; omitted when empty.
    pub labels: BTreeMap<Text, Text>,
    /// Annotations; omitted when empty.
    pub annotations: BTreeMap<Text, Text>,
    /// Owner references, as written.
    pub owners: Vec<Tree>,
    /// LocalQueue; omitted when empty.
    pub queue: Text,
    pub pod_sets: Vec<NewPodSet>,
    pub priority: Option<i64>,
    pub priority_class: Option<PriorityRef>,
    pub max_exec_secs: Option<u32>,
}

/// A pod set of a Workload to create.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(missing_docs, reason = "fields mirror PodSet")]
pub struct NewPodSet {
    pub name: Text,
    /// Pod template: metadata and spec.
    pub template: Tree,
    pub count: u32,
    /// `minCount`, for partial admission.
    pub min_count: Option<u32>,
    /// `topologyRequest`; null without one.
    pub topology: Tree,
}

impl NewPodSet {
    /// The pod set as written to the API.
    #[must_use]
    pub fn tree(&self) -> Tree {
        let topology = (!self.topology.is_empty()).then(|| self.topology.clone());
        tree!({"name": &self.name, "template": &self.template, "count": self.count})
            .with_option(pod_set::MIN_COUNT, self.min_count.map(Tree::from))
            .with_option(pod_set::TOPOLOGY, topology)
    }
}

impl NewWorkload {
    /// The object to create, with the `resource-in-use` finalizer.
    #[must_use]
    pub fn tree(&self) -> Tree {
        let map = |all: &BTreeMap<Text, Text>| {
            (!all.is_empty()).then(|| Tree::map(all.iter().map(|(key, it)| (key.clone(), Tree::from(it)))))
        };
        let owners = (!self.owners.is_empty()).then(|| Tree::list(self.owners.iter().cloned()));
        tree!({"apiVersion": API_VERSION, "kind": WORKLOAD,
            "metadata": {"name": &self.name, "namespace": &self.namespace, "finalizers": [(finalizers::IN_USE)]},
            "spec": (self.spec())})
        .with_option(meta_path::LABELS, map(&self.labels))
        .with_option(meta_path::ANNOTATIONS, map(&self.annotations))
        .with_option(meta_path::OWNERS, owners)
    }

    /// The spec alone, for an update of an existing Workload.
    #[must_use]
    pub fn spec(&self) -> Tree {
        let within = |path: &'static [&'static str]| &path[1..];
        Tree::empty_map()
            .with(within(path::POD_SETS), Tree::list(self.pod_sets.iter().map(NewPodSet::tree)))
            .with_option(within(path::QUEUE), (!self.queue.is_empty()).then(|| Tree::from(&self.queue)))
            .with_option(within(path::PRIORITY), self.priority.map(Tree::from))
            .with_option(within(path::PRIORITY_CLASS), self.priority_class.as_ref().map(PriorityRef::tree))
            .with_option(within(path::MAX_EXEC), self.max_exec_secs.map(Tree::from))
            .with(within(path::ACTIVE), true)
    }
}

/// The status to apply as [`managers::RECLAIMABLE`](super::consts::managers::RECLAIMABLE): reclaimable pods by pod set.
#[must_use]
pub fn reclaimable_body(namespace: &Text, name: &Text, pods: &BTreeMap<Text, u32>) -> Tree {
    let one = |(set, count): (&Text, &u32)| tree!({"name": set, "count": *count});
    body(namespace, name, &tree!({"reclaimablePods": Tree::list(pods.iter().map(one))}))
}

/// The status to apply for a single condition, as field manager [`condition_manager`].
#[must_use]
pub fn condition_body(namespace: &Text, name: &Text, condition: &Condition) -> Tree {
    body(namespace, name, &tree!({"conditions": [(condition.tree())]}))
}

/// The field manager of a single condition. One manager per condition type: an apply would remove the other conditions
/// that the same manager owns.
#[must_use]
pub fn condition_manager(controller: &str, kind: &str) -> Text {
    Text::from(format!("{controller}-{kind}"))
}

fn body(namespace: &Text, name: &Text, status: &Tree) -> Tree {
    tree!({"apiVersion": API_VERSION, "kind": WORKLOAD, "metadata": {"name": name, "namespace": namespace},
        "status": status})
}

/// A merge patch that adds a finalizer, or `None` if it is present; needs a resource version precondition.
#[must_use]
pub fn finalizer_added(object: &Tree, finalizer: &str) -> Option<Tree> {
    if crate::meta::has_finalizer(object, finalizer) {
        return None;
    }
    let all = object.items_at(meta_path::FINALIZERS).iter().cloned().chain([Tree::from(finalizer)]);
    Some(Tree::Null.with(meta_path::FINALIZERS, Tree::list(all)))
}
