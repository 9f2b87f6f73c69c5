//! The parts of a Workload's status; each writes back what it read.

use std::collections::BTreeMap;

use muster_tree::{Text, Tree, tree};

use super::paths::{admission, assignment, check_state, eviction, pod_set_update, requeue};
use super::{Amounts, amounts_of, amounts_tree, consts, count};
use crate::time::Time;

/// The quota that a Workload got: `status.admission`.
#[derive(Debug, Clone, PartialEq)]
pub struct Admission {
    /// The ClusterQueue that reserves the quota.
    pub cluster_queue: Text,
    /// One assignment per pod set.
    pub assignments: Vec<PodSetAssignment>,
}

/// One entry of `podSetAssignments`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PodSetAssignment {
    /// Name of the pod set; `main` when absent.
    pub name: Text,
    /// Flavor of each resource.
    pub flavors: BTreeMap<Text, Text>,
    /// `resourceUsage`: usage of all pods of the set.
    pub usage: Amounts,
    /// Admitted pods; `None` means the count of the pod set.
    pub count: Option<u32>,
    /// `topologyAssignment`, as written; null without one.
    pub topology: Tree,
    /// `delayedTopologyRequest`; empty when the topology is assigned.
    pub delayed_topology: Text,
}

impl Admission {
    /// Reads the stored value.
    #[must_use]
    pub fn of(tree: &Tree) -> Admission {
        Admission {
            cluster_queue: tree.text_at(admission::CLUSTER_QUEUE),
            assignments: tree.items_at(admission::ASSIGNMENTS).iter().map(PodSetAssignment::of).collect(),
        }
    }

    /// The value as written to the API.
    #[must_use]
    pub fn tree(&self) -> Tree {
        tree!({"clusterQueue": &self.cluster_queue,
            "podSetAssignments": Tree::list(self.assignments.iter().map(PodSetAssignment::tree))})
    }

    /// The assignment of a pod set.
    #[must_use]
    pub fn assignment(&self, pod_set: &str) -> Option<&PodSetAssignment> {
        self.assignments.iter().find(|it| it.name == pod_set)
    }
}

impl PodSetAssignment {
    fn of(tree: &Tree) -> PodSetAssignment {
        let name = tree.text_at(assignment::NAME);
        let flavors = tree.entries_at(assignment::FLAVORS).iter();
        PodSetAssignment {
            name: if name.is_empty() { consts::MAIN.into() } else { name },
            flavors: flavors.filter_map(|(key, it)| Some((key.clone(), it.as_text()?.clone()))).collect(),
            usage: amounts_of(tree.at(assignment::USAGE)),
            count: count(tree, assignment::COUNT),
            topology: tree.at(assignment::TOPOLOGY).cloned().unwrap_or_default(),
            delayed_topology: tree.text_at(assignment::DELAYED_TOPOLOGY),
        }
    }

    fn tree(&self) -> Tree {
        let flavors = Tree::map(self.flavors.iter().map(|(key, it)| (key.clone(), Tree::from(it))));
        // Empty maps are omitted, as `omitempty` does; an apply would own them otherwise.
        let some = |tree: Tree| (!tree.is_empty()).then_some(tree);
        tree!({"name": &self.name})
            .with_option(assignment::FLAVORS, some(flavors))
            .with_option(assignment::USAGE, some(amounts_tree(&self.usage)))
            .with_option(assignment::COUNT, self.count.map(Tree::from))
            .with_option(assignment::TOPOLOGY, some(self.topology.clone()))
            .with_option(assignment::DELAYED_TOPOLOGY, some(Tree::from(&self.delayed_topology)))
    }
}

/// Requeueing after evictions: `status.requeueState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequeueState {
    /// Number of requeues after an eviction.
    pub count: Option<u32>,
    /// `requeueAt`: not queued before this time; `None` means at once.
    pub at: Option<Time>,
}

impl RequeueState {
    /// Reads the stored value.
    #[must_use]
    pub fn of(tree: &Tree) -> RequeueState {
        RequeueState { count: count(tree, requeue::COUNT), at: Time::of(tree.at(requeue::AT)) }
    }

    /// The value as written to the API.
    #[must_use]
    pub fn tree(&self) -> Tree {
        Tree::empty_map()
            .with_option(requeue::COUNT, self.count.map(Tree::from))
            .with_option(requeue::AT, self.at.map(|at| Tree::from(at.to_seconds_text())))
    }
}

/// State of an admission check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CheckState {
    /// The controller of the check has not decided.
    #[default]
    Pending,
    /// The check of the Workload passed.
    Ready,
    /// The check failed for now: the Workload is evicted and requeued.
    Retry,
    /// The check failed for good: the Workload is deactivated.
    Rejected,
}

impl CheckState {
    /// All states, in the order of their first occurrence in a check's life.
    pub const ALL: [CheckState; 4] =
        [CheckState::Pending, CheckState::Ready, CheckState::Retry, CheckState::Rejected];

    /// The value as written to the API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            CheckState::Pending => "Pending",
            CheckState::Ready => "Ready",
            CheckState::Retry => "Retry",
            CheckState::Rejected => "Rejected",
        }
    }

    fn of(word: &str) -> CheckState {
        CheckState::ALL.into_iter().find(|it| it.word() == word).unwrap_or_default()
    }
}

/// One entry of `status.admissionChecks`.
#[derive(Debug, Clone, PartialEq)]
pub struct AdmissionCheckState {
    /// Name of the AdmissionCheck.
    pub name: Text,
    /// State set by the controller of the check.
    pub state: CheckState,
    /// `lastTransitionTime`, in whole seconds.
    pub since: Option<Time>,
    /// Message of that controller.
    pub message: Text,
    /// `requeueAfterSeconds`: delay of the requeue after a `Retry`.
    pub requeue_after_secs: Option<u32>,
    /// Number of `Retry` answers: `retryCount`.
    pub retries: Option<u32>,
    /// `podSetUpdates`, as written; read by [`PodSetUpdate::of`].
    pub updates: Vec<Tree>,
}

impl AdmissionCheckState {
    /// A check in state `Pending`, as added when quota is reserved.
    #[must_use]
    pub fn pending(name: &Text, message: &str, now: Time) -> AdmissionCheckState {
        AdmissionCheckState {
            name: name.clone(),
            state: CheckState::Pending,
            since: Some(now.whole_seconds()),
            message: message.into(),
            requeue_after_secs: None,
            retries: None,
            updates: Vec::new(),
        }
    }

    /// Reads the stored value.
    #[must_use]
    pub fn of(tree: &Tree) -> AdmissionCheckState {
        AdmissionCheckState {
            name: tree.text_at(check_state::NAME),
            state: CheckState::of(tree.str_at(check_state::STATE)),
            since: Time::of(tree.at(check_state::SINCE)),
            message: tree.text_at(check_state::MESSAGE),
            requeue_after_secs: count(tree, check_state::REQUEUE_AFTER),
            retries: count(tree, check_state::RETRIES),
            updates: tree.items_at(check_state::UPDATES).to_vec(),
        }
    }

    /// The value as written to the API.
    #[must_use]
    pub fn tree(&self) -> Tree {
        let updates = (!self.updates.is_empty()).then(|| Tree::list(self.updates.iter().cloned()));
        tree!({"name": &self.name, "state": self.state.word(), "message": &self.message,
            "lastTransitionTime": self.since.unwrap_or_default().to_seconds_text()})
        .with_option(check_state::REQUEUE_AFTER, self.requeue_after_secs.map(Tree::from))
        .with_option(check_state::RETRIES, self.retries.map(Tree::from))
        .with_option(check_state::UPDATES, updates)
    }
}

/// One entry of `podSetUpdates`: what an admission check changes in the pods of a set.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "fields mirror PodSetUpdate")]
pub struct PodSetUpdate {
    pub name: Text,
    pub labels: Tree,
    pub annotations: Tree,
    pub node_selector: Tree,
    pub tolerations: Vec<Tree>,
}

impl PodSetUpdate {
    /// Reads the stored value.
    #[must_use]
    pub fn of(tree: &Tree) -> PodSetUpdate {
        let map = |path: &[&str]| tree.at(path).cloned().unwrap_or_default();
        PodSetUpdate {
            name: tree.text_at(pod_set_update::NAME),
            labels: map(pod_set_update::LABELS),
            annotations: map(pod_set_update::ANNOTATIONS),
            node_selector: map(pod_set_update::NODE_SELECTOR),
            tolerations: tree.items_at(pod_set_update::TOLERATIONS).to_vec(),
        }
    }
}

/// One entry of `schedulingStats.evictions`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvictionCount {
    /// Reason of the `Evicted` condition.
    pub reason: Text,
    /// `underlyingCause`; empty without one.
    pub cause: Text,
    /// Number of evictions for this reason and cause.
    pub count: u32,
}

impl EvictionCount {
    /// Reads the stored value.
    #[must_use]
    pub fn of(tree: &Tree) -> EvictionCount {
        EvictionCount {
            reason: tree.text_at(eviction::REASON),
            cause: tree.text_at(eviction::CAUSE),
            count: count(tree, eviction::COUNT).unwrap_or(0),
        }
    }

    /// The value as written to the API.
    #[must_use]
    pub fn tree(&self) -> Tree {
        tree!({"reason": &self.reason, "underlyingCause": &self.cause, "count": self.count})
    }
}
