//! The typed view of a Workload.

use std::collections::BTreeMap;

use muster_tree::{Text, Tree, tree};

use super::condition::{self, Condition};
use super::consts::{self, conditions};
use super::paths::{
    pod_set, priority_ref, reclaimable, request, workload as path, workload_status as status,
};
use super::workload_status::{Admission, AdmissionCheckState, EvictionCount, RequeueState};
use super::{Amounts, amounts_of, count};
use crate::client::Uid;
use crate::meta::{self, OwnerReference};
use crate::paths::meta as meta_path;
use crate::time::Time;

/// The fields of a Workload that the queue engine reads.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "fields mirror metadata, spec and status of a Workload")]
pub struct WorkloadFacts {
    pub namespace: Text,
    pub name: Text,
    pub uid: Uid,
    pub created: Option<Time>,
    pub generation: i64,
    pub deleting: bool,
    /// Labels; null without any.
    pub labels: Tree,
    /// Annotations; null without any.
    pub annotations: Tree,
    pub owners: Vec<OwnerReference>,
    pub finalizers: Vec<Text>,
    pub pod_sets: Vec<PodSet>,
    /// `queueName`: the LocalQueue; empty without one.
    pub queue: Text,
    pub priority: i64,
    pub priority_class: Option<PriorityRef>,
    /// `spec.active`: a deactivated Workload is evicted and not queued.
    pub active: bool,
    pub max_exec_secs: Option<u32>,
    /// Conditions of all writers.
    pub conditions: Vec<Condition>,
    /// `status.admission`: the assigned flavors.
    pub admission: Option<Admission>,
    /// `requeueState`: count and time of the next requeue.
    pub requeue: Option<RequeueState>,
    /// `reclaimablePods`: number of pods per pod set that release their quota early.
    pub reclaimable: BTreeMap<Text, u32>,
    /// `admissionChecks`, in stored order.
    pub checks: Vec<AdmissionCheckState>,
    /// `resourceRequests` of each pod set; present only while no quota is reserved.
    pub requests: Vec<(Text, Amounts)>,
    /// `accumulatedPastExecutionTimeSeconds`: run time of earlier admissions.
    pub accumulated_secs: u32,
    pub evictions: Vec<EvictionCount>,
}

/// One pod set of a Workload: homogeneous pods.
#[derive(Debug, Clone, PartialEq)]
pub struct PodSet {
    /// Name; `main` when it is absent.
    pub name: Text,
    /// Pod template: metadata and spec.
    pub template: Tree,
    /// Number of pods; 1 when absent.
    pub count: u32,
    /// `minCount`: with partial admission, the fewest pods to admit.
    pub min_count: Option<u32>,
    /// `topologyRequest`, as written; null without one.
    pub topology: Tree,
}

/// The priority class of a Workload: `priorityClassRef`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields mirror PriorityClassRef")]
pub struct PriorityRef {
    pub group: Text,
    pub kind: Text,
    pub name: Text,
}

impl PriorityRef {
    /// A reference to a WorkloadPriorityClass.
    #[must_use]
    pub fn workload(name: &Text) -> PriorityRef {
        PriorityRef {
            group: consts::GROUP.into(),
            kind: consts::WORKLOAD_PRIORITY_CLASS.into(),
            name: name.clone(),
        }
    }

    /// A reference to a PriorityClass.
    #[must_use]
    pub fn pod(name: &Text) -> PriorityRef {
        PriorityRef {
            group: consts::SCHEDULING_GROUP.into(),
            kind: consts::PRIORITY_CLASS.into(),
            name: name.clone(),
        }
    }

    /// Returns whether this references a WorkloadPriorityClass.
    #[must_use]
    pub fn is_workload(&self) -> bool {
        self.group == consts::GROUP
    }

    /// Reads the stored value; defaults are filled in.
    #[must_use]
    pub fn of(tree: &Tree) -> PriorityRef {
        PriorityRef {
            group: tree.text_at(priority_ref::GROUP),
            kind: tree.text_at(priority_ref::KIND),
            name: tree.text_at(priority_ref::NAME),
        }
    }

    /// The value as written to the API.
    #[must_use]
    pub fn tree(&self) -> Tree {
        tree!({"group": &self.group, "kind": &self.kind, "name": &self.name})
    }
}

impl PodSet {
    /// Reads the stored value; defaults are filled in.
    #[must_use]
    pub fn of(tree: &Tree) -> PodSet {
        let name = tree.text_at(pod_set::NAME);
        PodSet {
            name: if name.is_empty() { consts::MAIN.into() } else { name },
            template: tree.at(pod_set::TEMPLATE).cloned().unwrap_or_default(),
            count: count(tree, pod_set::COUNT).unwrap_or(1),
            min_count: count(tree, pod_set::MIN_COUNT),
            topology: tree.at(pod_set::TOPOLOGY).cloned().unwrap_or_default(),
        }
    }
}

impl WorkloadFacts {
    /// Reads a Workload in the storage version.
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
            created: meta::creation_timestamp(tree),
            generation: tree.int_at(meta_path::GENERATION).unwrap_or(0),
            deleting: meta::deletion_timestamp(tree).is_some(),
            labels: map(meta_path::LABELS),
            annotations: map(meta_path::ANNOTATIONS),
            owners: meta::owner_references(tree).collect(),
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
            checks: status.items_at(status::CHECKS).iter().map(AdmissionCheckState::of).collect(),
            requests: requests
                .map(|it| (it.text_at(request::NAME), amounts_of(it.at(request::RESOURCES))))
                .collect(),
            accumulated_secs: count(status, status::ACCUMULATED).unwrap_or(0),
            evictions: status.items_at(status::EVICTIONS).iter().map(EvictionCount::of).collect(),
        }
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).and_then(Tree::as_str)
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).and_then(Tree::as_str)
    }

    /// The owner reference with `controller: true`.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owners.iter().find(|it| it.controller)
    }

    /// Returns whether this finalizer is present.
    #[must_use]
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|it| it == finalizer)
    }

    /// The condition of this type.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        condition::find(&self.conditions, kind)
    }

    /// Returns whether this condition is `True`.
    #[must_use]
    pub fn holds(&self, kind: &str) -> bool {
        condition::holds(&self.conditions, kind)
    }

    /// Returns whether `Finished` is `True`.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.holds(conditions::FINISHED)
    }

    /// Returns whether `QuotaReserved` is `True`.
    #[must_use]
    pub fn has_quota(&self) -> bool {
        self.holds(conditions::QUOTA_RESERVED)
    }

    /// Returns whether `Admitted` is `True`.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.holds(conditions::ADMITTED)
    }

    /// Returns whether `Evicted` is `True`.
    #[must_use]
    pub fn is_evicted(&self) -> bool {
        self.holds(conditions::EVICTED)
    }

    /// The pod set of this name.
    #[must_use]
    pub fn pod_set(&self, name: &str) -> Option<&PodSet> {
        self.pod_sets.iter().find(|it| it.name == name)
    }
}

fn reclaimed(tree: &Tree) -> (Text, u32) {
    (tree.text_at(reclaimable::NAME), count(tree, reclaimable::COUNT).unwrap_or(0))
}
