//! The first, plain scheduler: the control plane runs it until it is switched to the one beside it.
//!
//! [`Scheduler`] is fed nodes and pods as they change and asked for decisions. It is the only book-keeper of
//! what is taken: a decision is taken into account at once, before anybody has carried it out.
//!
//! # Invariants
//!
//! - Same feed, same decisions. Order is priority, then age, then name.
//! - One queue entry is one group; a single pod is a group of one. A group is placed whole or not at all.
//! - Every refusal says why, node by node.
//!
//! # Deliberately absent
//!
//! Ranked heaps per class, preemption, spreading, inter-pod affinity, volumes and claims: this is the plain
//! form, behind the interface that stays. A class's verdict about a node's labels and taints is kept until the
//! node changes; free amounts are looked at each time.

mod demand;
mod nodes;
mod reason;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use muster_api::node::NodeFacts;
use muster_api::time::Time;
use muster_tree::Text;

pub use demand::Demand;
pub use reason::{Reason, Refused};

use crate::first::nodes::Nodes;

/// A pod by namespace and name.
pub type PodKey = (Text, Text);
/// A group of pods: the pods' own key for a single pod.
pub type GroupKey = PodKey;

/// What the scheduler is told of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Namespace and name.
    pub key: PodKey,
    /// Its node; empty when it has none.
    pub node: Text,
    /// Whether it holds nothing any more.
    pub ended: bool,
    /// Whether it wants a node from us, now: ours, not gated, not deleted.
    pub wants: bool,
    /// Priority.
    pub priority: i64,
    /// Age.
    pub created: Time,
    /// What placement looks at.
    pub demand: Demand,
}

/// A decision about one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Which group.
    pub group: GroupKey,
    /// What was decided.
    pub outcome: Outcome,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Every pod of the group has a node.
    Placed(Vec<(PodKey, Text)>),
    /// None has.
    Refused(Refused),
}

#[derive(Debug)]
struct Known {
    class: usize,
    priority: i64,
    created: Time,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// In the queue.
    Waiting,
    /// Looked at and refused; waits for a change that might help.
    Parked,
    /// Given a node by us, not yet by the server.
    Assumed(Text),
    /// On a node.
    Bound(Text),
    /// Of no concern: ended, gated, deleted or somebody else's.
    Aside,
}

type Place = (Reverse<i64>, Time, GroupKey);

/// The scheduler.
#[derive(Debug, Default)]
pub struct Scheduler {
    nodes: Nodes,
    pods: BTreeMap<PodKey, Known>,
    queue: BTreeSet<Place>,
    parked: BTreeSet<Place>,
}

impl Scheduler {
    /// A node is there, or changed.
    pub fn node(&mut self, facts: NodeFacts) {
        if self.nodes.put(facts) {
            self.unpark();
        }
    }

    /// A node is gone. What we meant to put there is looked at again; what runs there is somebody else's worry.
    pub fn node_gone(&mut self, name: &Text) {
        self.nodes.remove(name);
        let assumed = |known: &Known| known.state == State::Assumed(name.clone());
        let lost: Vec<PodKey> =
            self.pods.iter().filter(|(_, k)| assumed(k)).map(|(key, _)| key.clone()).collect();
        lost.iter().for_each(|key| self.retry(key));
        self.unpark();
    }

    /// A pod is there, or changed.
    pub fn pod(&mut self, pod: &Pod) {
        let class = self.nodes.class(&pod.demand);
        let next = match self.pods.get(&pod.key).map(|known| (&known.state, known.class)) {
            _ if pod.ended => State::Aside,
            _ if !pod.node.is_empty() => State::Bound(pod.node.clone()),
            _ if !pod.wants => State::Aside,
            Some((State::Assumed(node), _)) => State::Assumed(node.clone()),
            // Refused as it was; another shape deserves another look.
            Some((State::Parked, old)) if old == class => State::Parked,
            _ => State::Waiting,
        };
        let known = Known { class, priority: pod.priority, created: pod.created, state: State::Aside };
        self.leave(&pod.key);
        self.pods.insert(pod.key.clone(), known);
        self.enter(&pod.key, next);
    }

    /// A pod is gone.
    pub fn pod_gone(&mut self, key: &PodKey) {
        self.leave(key);
        self.pods.remove(key);
    }

    /// A decision could not be carried out: the pod is to be looked at again.
    pub fn retry(&mut self, key: &PodKey) {
        if matches!(self.pods.get(key), Some(Known { state: State::Assumed(_), .. })) {
            self.leave(key);
            self.enter(key, State::Waiting);
        }
    }

    /// The node we mean a pod to have, or that it has.
    #[must_use]
    pub fn node_of(&self, key: &PodKey) -> Option<&Text> {
        match &self.pods.get(key)?.state {
            State::Assumed(node) | State::Bound(node) => Some(node),
            _ => None,
        }
    }

    /// Decides about up to `max` groups, the most urgent first.
    pub fn decide(&mut self, max: usize) -> Vec<Decision> {
        let mut decisions = Vec::new();
        while decisions.len() < max {
            let Some((_, _, group)) = self.queue.first().cloned() else { break };
            let outcome = self.place(&group);
            decisions.push(Decision { group, outcome });
        }
        decisions
    }

    /// Whether somebody waits for a decision.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// How many nodes there are.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Takes a node for every pod of the group, or undoes what it took.
    fn place(&mut self, group: &GroupKey) -> Outcome {
        let members = [group.clone()];
        let mut placed: Vec<(PodKey, Text)> = Vec::new();
        for key in &members {
            let class = self.pods[key].class;
            match self.nodes.pick(class) {
                Ok(node) => {
                    self.leave(key);
                    self.enter(key, State::Assumed(node.clone()));
                    placed.push((key.clone(), node));
                }
                Err(refused) => {
                    for (key, _) in placed.into_iter().rev() {
                        self.leave(&key);
                        self.enter(&key, State::Parked);
                    }
                    self.leave(key);
                    self.enter(key, State::Parked);
                    return Outcome::Refused(refused);
                }
            }
        }
        Outcome::Placed(placed)
    }

    fn unpark(&mut self) {
        for (_, _, key) in std::mem::take(&mut self.parked) {
            if let Some(known) = self.pods.get_mut(&key) {
                known.state = State::Waiting;
                self.queue.insert((Reverse(known.priority), known.created, key));
            }
        }
    }

    /// Takes a pod out of whatever book it stands in.
    fn leave(&mut self, key: &PodKey) {
        let Some(known) = self.pods.get_mut(key) else { return };
        let place = (Reverse(known.priority), known.created, key.clone());
        match std::mem::replace(&mut known.state, State::Aside) {
            State::Waiting => {
                self.queue.remove(&place);
            }
            State::Parked => {
                self.parked.remove(&place);
            }
            State::Assumed(node) | State::Bound(node) => self.nodes.give_back(&node, known.class, key),
            State::Aside => {}
        }
    }

    /// Puts a pod that stands in no book into the one of `state`.
    fn enter(&mut self, key: &PodKey, state: State) {
        let Some(known) = self.pods.get_mut(key) else { return };
        let place = (Reverse(known.priority), known.created, key.clone());
        match &state {
            State::Waiting => {
                self.queue.insert(place);
            }
            State::Parked => {
                self.parked.insert(place);
            }
            State::Assumed(node) | State::Bound(node) => self.nodes.take(node, known.class, key),
            State::Aside => {}
        }
        known.state = state;
        if self.nodes.freed() {
            self.unpark();
        }
    }
}

#[cfg(test)]
mod tests;
