//! Workloads as they are made, and the small patches around them.

use std::collections::BTreeMap;

use muster_tree::{Text, Tree, tree};

use super::condition::Condition;
use super::paths::{pod_set, workload as path};
use super::words::{API_VERSION, WORKLOAD, finalizers};
use super::workload::PriorityRef;
use crate::paths::meta as meta_path;

/// A Workload that is about to be made.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewWorkload {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Labels; none when empty.
    pub labels: BTreeMap<Text, Text>,
    /// Annotations; none when empty.
    pub annotations: BTreeMap<Text, Text>,
    /// Owners, as they are written.
    pub owners: Vec<Tree>,
    /// The LocalQueue; none when empty.
    pub queue: Text,
    /// Its pods.
    pub pod_sets: Vec<NewPodSet>,
    /// Priority.
    pub priority: Option<i64>,
    /// The class of priority.
    pub priority_class: Option<PriorityRef>,
    /// For how long it may run, in seconds.
    pub max_exec_secs: Option<u32>,
}

/// Pods of a Workload that is about to be made.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewPodSet {
    /// Name.
    pub name: Text,
    /// The pods: metadata and spec.
    pub template: Tree,
    /// How many.
    pub count: u32,
    /// So many are enough.
    pub min_count: Option<u32>,
    /// How they lie to each other; null when nothing is asked.
    pub topology: Tree,
}

impl NewPodSet {
    /// As it is written.
    #[must_use]
    pub fn tree(&self) -> Tree {
        let topology = (!self.topology.is_empty()).then(|| self.topology.clone());
        tree!({"name": &self.name, "template": &self.template, "count": self.count})
            .with_option(pod_set::MIN_COUNT, self.min_count.map(Tree::from))
            .with_option(pod_set::TOPOLOGY, topology)
    }
}

impl NewWorkload {
    /// The object to create; it has the finalizer that all Workloads have.
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

    /// The spec alone, for a Workload that is overwritten in its place.
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

/// What to apply to a Workload's status by [`managers::RECLAIMABLE`](super::words::managers::RECLAIMABLE): pods whose
/// share is free again, by pod set.
#[must_use]
pub fn reclaimable_body(namespace: &Text, name: &Text, pods: &BTreeMap<Text, u32>) -> Tree {
    let one = |(set, count): (&Text, &u32)| tree!({"name": set, "count": *count});
    body(namespace, name, &tree!({"reclaimablePods": Tree::list(pods.iter().map(one))}))
}

/// What to apply to a Workload's status by a writer of one condition; its manager is [`condition_manager`].
#[must_use]
pub fn condition_body(namespace: &Text, name: &Text, condition: &Condition) -> Tree {
    body(namespace, name, &tree!({"conditions": [(condition.tree())]}))
}

/// The field manager of a controller that writes one condition.
#[must_use]
pub fn condition_manager(controller: &str, kind: &str) -> Text {
    Text::from(format!("{controller}-{kind}"))
}

fn body(namespace: &Text, name: &Text, status: &Tree) -> Tree {
    tree!({"apiVersion": API_VERSION, "kind": WORKLOAD, "metadata": {"name": name, "namespace": namespace},
        "status": status})
}

/// A merge patch that adds a finalizer, if it is not there; wants a revision guard. Taking one away is
/// [`crate::meta::without_finalizer`].
#[must_use]
pub fn finalizer_added(object: &Tree, finalizer: &str) -> Option<Tree> {
    if crate::meta::has_finalizer(object, finalizer) {
        return None;
    }
    let all = object.items_at(meta_path::FINALIZERS).iter().cloned().chain([Tree::from(finalizer)]);
    Some(Tree::Null.with(meta_path::FINALIZERS, Tree::list(all)))
}
