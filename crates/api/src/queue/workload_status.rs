//! The parts of a Workload's status: read, and written as they were read.

use std::collections::BTreeMap;

use muster_tree::{Text, Tree, tree};

use super::paths::{admission, assignment, check_state, eviction, pod_set_update, requeue};
use super::{Amounts, amounts_of, amounts_tree, count, words};
use crate::time::Time;

/// What a Workload was given.
#[derive(Debug, Clone, PartialEq)]
pub struct Admission {
    /// By which ClusterQueue.
    pub cluster_queue: Text,
    /// What each pod set was given.
    pub assignments: Vec<Assignment>,
}

/// What a pod set was given.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Assignment {
    /// Name of the pod set.
    pub name: Text,
    /// Flavors, by resource.
    pub flavors: BTreeMap<Text, Text>,
    /// Amounts of all its pods together, by resource.
    pub usage: Amounts,
    /// How many pods; as many as the set has when it is not said.
    pub count: Option<u32>,
    /// Where; null when no place was chosen.
    pub topology: Tree,
    /// Whether a place is still to be chosen; empty when not.
    pub delayed_topology: Text,
}

impl Admission {
    /// Reads one.
    #[must_use]
    pub fn of(tree: &Tree) -> Admission {
        Admission {
            cluster_queue: tree.text_at(admission::CLUSTER_QUEUE),
            assignments: tree.items_at(admission::ASSIGNMENTS).iter().map(Assignment::of).collect(),
        }
    }

    /// As it is written.
    #[must_use]
    pub fn tree(&self) -> Tree {
        tree!({"clusterQueue": &self.cluster_queue,
            "podSetAssignments": Tree::list(self.assignments.iter().map(Assignment::tree))})
    }

    /// What a pod set was given.
    #[must_use]
    pub fn assignment(&self, pod_set: &str) -> Option<&Assignment> {
        self.assignments.iter().find(|it| it.name == pod_set)
    }
}

impl Assignment {
    fn of(tree: &Tree) -> Assignment {
        let name = tree.text_at(assignment::NAME);
        let flavors = tree.entries_at(assignment::FLAVORS).iter();
        Assignment {
            name: if name.is_empty() { words::MAIN.into() } else { name },
            flavors: flavors.filter_map(|(key, it)| Some((key.clone(), it.as_text()?.clone()))).collect(),
            usage: amounts_of(tree.at(assignment::USAGE)),
            count: count(tree, assignment::COUNT),
            topology: tree.at(assignment::TOPOLOGY).cloned().unwrap_or_default(),
            delayed_topology: tree.text_at(assignment::DELAYED_TOPOLOGY),
        }
    }

    fn tree(&self) -> Tree {
        let flavors = Tree::map(self.flavors.iter().map(|(key, it)| (key.clone(), Tree::from(it))));
        let some = |tree: Tree| (!tree.is_empty()).then_some(tree);
        tree!({"name": &self.name})
            .with_option(assignment::FLAVORS, some(flavors))
            .with_option(assignment::USAGE, some(amounts_tree(&self.usage)))
            .with_option(assignment::COUNT, self.count.map(Tree::from))
            .with_option(assignment::TOPOLOGY, some(self.topology.clone()))
            .with_option(assignment::DELAYED_TOPOLOGY, some(Tree::from(&self.delayed_topology)))
    }
}

/// When a Workload may queue again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequeueState {
    /// How often it did.
    pub count: Option<u32>,
    /// When; any time when it is not said.
    pub at: Option<Time>,
}

impl RequeueState {
    /// Reads one.
    #[must_use]
    pub fn of(tree: &Tree) -> RequeueState {
        RequeueState { count: count(tree, requeue::COUNT), at: Time::of(tree.at(requeue::AT)) }
    }

    /// As it is written.
    #[must_use]
    pub fn tree(&self) -> Tree {
        Tree::empty_map()
            .with_option(requeue::COUNT, self.count.map(Tree::from))
            .with_option(requeue::AT, self.at.map(|at| Tree::from(at.to_seconds_text())))
    }
}

/// What a check says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Nothing yet.
    #[default]
    Pending,
    /// Yes.
    Ready,
    /// Not now.
    Retry,
    /// Never.
    Rejected,
}

impl State {
    /// All states.
    pub const ALL: [State; 4] = [State::Pending, State::Ready, State::Retry, State::Rejected];

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            State::Pending => "Pending",
            State::Ready => "Ready",
            State::Retry => "Retry",
            State::Rejected => "Rejected",
        }
    }

    fn of(word: &str) -> State {
        State::ALL.into_iter().find(|it| it.word() == word).unwrap_or_default()
    }
}

/// A check of a Workload.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckState {
    /// Name of the AdmissionCheck.
    pub name: Text,
    /// What it says.
    pub state: State,
    /// Since when.
    pub since: Option<Time>,
    /// And why.
    pub message: Text,
    /// How long to wait before queueing again, in seconds.
    pub requeue_after_secs: Option<u32>,
    /// How often it said that.
    pub retries: Option<u32>,
    /// What it changes of the pods, as it was written; read by [`PodSetUpdate::of`].
    pub updates: Vec<Tree>,
}

impl CheckState {
    /// One that has said nothing yet.
    #[must_use]
    pub fn pending(name: &Text, message: &str, now: Time) -> CheckState {
        CheckState {
            name: name.clone(),
            state: State::Pending,
            since: Some(now.whole_seconds()),
            message: message.into(),
            requeue_after_secs: None,
            retries: None,
            updates: Vec::new(),
        }
    }

    /// Reads one.
    #[must_use]
    pub fn of(tree: &Tree) -> CheckState {
        CheckState {
            name: tree.text_at(check_state::NAME),
            state: State::of(tree.str_at(check_state::STATE)),
            since: Time::of(tree.at(check_state::SINCE)),
            message: tree.text_at(check_state::MESSAGE),
            requeue_after_secs: count(tree, check_state::REQUEUE_AFTER),
            retries: count(tree, check_state::RETRIES),
            updates: tree.items_at(check_state::UPDATES).to_vec(),
        }
    }

    /// As it is written.
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

/// What a check changes of the pods of one set.
#[derive(Debug, Clone, PartialEq)]
pub struct PodSetUpdate {
    /// Name of the pod set.
    pub name: Text,
    /// Labels; null when there are none.
    pub labels: Tree,
    /// Annotations; null when there are none.
    pub annotations: Tree,
    /// Node selector; null when there is none.
    pub node_selector: Tree,
    /// Tolerations.
    pub tolerations: Vec<Tree>,
}

impl PodSetUpdate {
    /// Reads one.
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

/// How often a Workload was evicted for one reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvictionCount {
    /// Reason.
    pub reason: Text,
    /// What is behind it; empty when nothing is.
    pub cause: Text,
    /// How often.
    pub count: u32,
}

impl EvictionCount {
    /// Reads one.
    #[must_use]
    pub fn of(tree: &Tree) -> EvictionCount {
        EvictionCount {
            reason: tree.text_at(eviction::REASON),
            cause: tree.text_at(eviction::CAUSE),
            count: count(tree, eviction::COUNT).unwrap_or(0),
        }
    }

    /// As it is written.
    #[must_use]
    pub fn tree(&self) -> Tree {
        tree!({"reason": &self.reason, "underlyingCause": &self.cause, "count": self.count})
    }
}
