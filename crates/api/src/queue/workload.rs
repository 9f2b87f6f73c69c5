//! What is read of a Workload.

use std::collections::BTreeMap;

use muster_tree::{Text, Tree, tree};

use super::condition::{self, Condition};
use super::paths::{
    pod_set, priority_ref, reclaimable, request, workload as path, workload_status as status,
};
use super::words::{self, conditions};
use super::workload_status::{Admission, CheckState, EvictionCount, RequeueState};
use super::{Amounts, amounts_of, count};
use crate::meta::{self, Owner};
use crate::paths::meta as meta_path;
use crate::port::Uid;
use crate::time::Time;

/// What is read of a Workload.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadFacts {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
    /// When it was created.
    pub created: Option<Time>,
    /// How often its spec was changed.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Labels; null when there are none.
    pub labels: Tree,
    /// Annotations; null when there are none.
    pub annotations: Tree,
    /// Owners.
    pub owners: Vec<Owner>,
    /// Finalizers.
    pub finalizers: Vec<Text>,
    /// Its pods, by template, in order.
    pub pod_sets: Vec<PodSet>,
    /// The LocalQueue; empty when it names none.
    pub queue: Text,
    /// Priority; 0 where none is said.
    pub priority: i64,
    /// The class of priority.
    pub priority_class: Option<PriorityRef>,
    /// Whether it wants to run.
    pub active: bool,
    /// For how long it may run, in seconds.
    pub max_exec_secs: Option<u32>,
    /// Conditions, whoever wrote them.
    pub conditions: Vec<Condition>,
    /// What it was given.
    pub admission: Option<Admission>,
    /// When it may queue again.
    pub requeue: Option<RequeueState>,
    /// Pods whose share is free again, by pod set.
    pub reclaimable: BTreeMap<Text, u32>,
    /// Checks, in their order.
    pub checks: Vec<CheckState>,
    /// What each pod set asks for; told only while it waits.
    pub requests: Vec<(Text, Amounts)>,
    /// For how long it ran in earlier tries, in seconds.
    pub accumulated_secs: u32,
    /// How often it was evicted.
    pub evictions: Vec<EvictionCount>,
}

/// Pods of one template.
#[derive(Debug, Clone, PartialEq)]
pub struct PodSet {
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

/// A reference to a class of priority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriorityRef {
    /// Group of the class.
    pub group: Text,
    /// Kind of the class.
    pub kind: Text,
    /// Name of the class.
    pub name: Text,
}

impl PriorityRef {
    /// A class of queueing.
    #[must_use]
    pub fn workload(name: &Text) -> PriorityRef {
        PriorityRef {
            group: words::GROUP.into(),
            kind: words::WORKLOAD_PRIORITY_CLASS.into(),
            name: name.clone(),
        }
    }

    /// A class of pods.
    #[must_use]
    pub fn pod(name: &Text) -> PriorityRef {
        PriorityRef {
            group: words::SCHEDULING_GROUP.into(),
            kind: words::PRIORITY_CLASS.into(),
            name: name.clone(),
        }
    }

    /// Whether it is a class of queueing.
    #[must_use]
    pub fn is_workload(&self) -> bool {
        self.group == words::GROUP
    }

    /// Reads one.
    #[must_use]
    pub fn of(tree: &Tree) -> PriorityRef {
        PriorityRef {
            group: tree.text_at(priority_ref::GROUP),
            kind: tree.text_at(priority_ref::KIND),
            name: tree.text_at(priority_ref::NAME),
        }
    }

    /// As it is written.
    #[must_use]
    pub fn tree(&self) -> Tree {
        tree!({"group": &self.group, "kind": &self.kind, "name": &self.name})
    }
}

impl PodSet {
    /// Reads one.
    #[must_use]
    pub fn of(tree: &Tree) -> PodSet {
        let name = tree.text_at(pod_set::NAME);
        PodSet {
            name: if name.is_empty() { words::MAIN.into() } else { name },
            template: tree.at(pod_set::TEMPLATE).cloned().unwrap_or_default(),
            count: count(tree, pod_set::COUNT).unwrap_or(1),
            min_count: count(tree, pod_set::MIN_COUNT),
            topology: tree.at(pod_set::TOPOLOGY).cloned().unwrap_or_default(),
        }
    }
}

impl WorkloadFacts {
    /// Reads a Workload.
    #[must_use]
    pub fn of(tree: &Tree) -> WorkloadFacts {
        let map = |path: &[&str]| tree.at(path).cloned().unwrap_or_default();
        let none = Tree::Null;
        let status = tree.at(path::STATUS).unwrap_or(&none);
        let requests = status.items_at(status::REQUESTS).iter();
        WorkloadFacts {
            namespace: meta::namespace(tree),
            name: meta::name(tree),
            uid: meta::uid(tree),
            created: meta::created(tree),
            generation: tree.int_at(meta_path::GENERATION).unwrap_or(0),
            deleting: meta::deleting(tree).is_some(),
            labels: map(meta_path::LABELS),
            annotations: map(meta_path::ANNOTATIONS),
            owners: meta::owners(tree).collect(),
            finalizers: super::texts(tree.items_at(meta_path::FINALIZERS)),
            pod_sets: tree.items_at(path::POD_SETS).iter().map(PodSet::of).collect(),
            queue: tree.text_at(path::QUEUE),
            priority: tree.int_at(path::PRIORITY).unwrap_or(0),
            priority_class: tree.at(path::PRIORITY_CLASS).filter(|it| it.is_map()).map(PriorityRef::of),
            active: tree.bool_at(path::ACTIVE) != Some(false),
            max_exec_secs: count(tree, path::MAX_EXEC),
            conditions: status.items_at(status::CONDITIONS).iter().map(Condition::of).collect(),
            admission: status.at(status::ADMISSION).filter(|it| it.is_map()).map(Admission::of),
            requeue: status.at(status::REQUEUE).filter(|it| it.is_map()).map(RequeueState::of),
            reclaimable: status.items_at(status::RECLAIMABLE).iter().map(reclaimed).collect(),
            checks: status.items_at(status::CHECKS).iter().map(CheckState::of).collect(),
            requests: requests
                .map(|it| (it.text_at(request::NAME), amounts_of(it.at(request::RESOURCES))))
                .collect(),
            accumulated_secs: count(status, status::ACCUMULATED).unwrap_or(0),
            evictions: status.items_at(status::EVICTIONS).iter().map(EvictionCount::of).collect(),
        }
    }

    /// A label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).and_then(Tree::as_str)
    }

    /// An annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).and_then(Tree::as_str)
    }

    /// The owner that manages it.
    #[must_use]
    pub fn controller(&self) -> Option<&Owner> {
        self.owners.iter().find(|it| it.controller)
    }

    /// Whether it has a finalizer.
    #[must_use]
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|it| it == finalizer)
    }

    /// The condition of a type.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        condition::find(&self.conditions, kind)
    }

    /// Whether a condition holds.
    #[must_use]
    pub fn holds(&self, kind: &str) -> bool {
        condition::holds(&self.conditions, kind)
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.holds(conditions::FINISHED)
    }

    /// Whether a share is set aside for it.
    #[must_use]
    pub fn has_quota(&self) -> bool {
        self.holds(conditions::QUOTA_RESERVED)
    }

    /// Whether it may run.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.holds(conditions::ADMITTED)
    }

    /// Whether it has to leave.
    #[must_use]
    pub fn is_evicted(&self) -> bool {
        self.holds(conditions::EVICTED)
    }

    /// A pod set.
    #[must_use]
    pub fn pod_set(&self, name: &str) -> Option<&PodSet> {
        self.pod_sets.iter().find(|it| it.name == name)
    }
}

fn reclaimed(tree: &Tree) -> (Text, u32) {
    (tree.text_at(reclaimable::NAME), count(tree, reclaimable::COUNT).unwrap_or(0))
}
