//! The queueing engine: who gets quota next, who has to go for it, and why everyone else waits.
//!
//! It is fed with what is there ([`Engine::cluster_queue`], [`Engine::workload`] and their kin), asked for decisions
//! ([`Engine::cycle`]) and told how their writes went ([`Engine::settle`]). Everything it counts can be counted anew
//! from what it was fed ([`Engine::rebuilt`]).
//!
//! # Invariants
//!
//! - Quota is never exceeded: what a cycle admits fits what is really used, victims that are still there included.
//! - A cycle costs what changed: a tree of cohorts in which nothing happened is not looked at, and a head that was
//!   looked at is not looked at again before something in its tree changes.
//! - What is parked wakes when something that stopped it changes, and keeps its place.
//! - Same feed, same questions: same decisions in the same order.
//!
//! # Deliberately absent
//!
//! Clocks, writes, and what a pod asks for: requests come in as numbers. Topology and usage over time are not known.

pub mod amount;
pub mod assign;
mod board;
mod cycle;
pub mod decision;
mod fair;
mod feed;
mod flavor;
pub mod hold;
mod holding;
mod line;
pub mod look;
mod nominate;
mod order;
pub mod preempt;
pub mod report;
pub mod share;
pub mod spec;
pub mod tree;
pub mod why;
pub mod workload;

pub use feed::Outcome;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::time::Time;
use muster_tree::Text;

use assign::Tried;
use decision::{Reason, Verdict};
use hold::{Holder, Holders, Scene};
use line::{Line, Place, Shape};
use nominate::Nomination;
use spec::{CohortSpec, FlavorSpec, Idle, LocalQueueSpec, QueueSpec, Settings};
use tree::{NodeId, QuotaTree, Usage};
use workload::{Info, Key};

/// What the engine did so far, in numbers: a quiet engine adds nothing to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Rounds in which some tree was looked at.
    pub rounds: u64,
    /// Workloads for which flavors were looked for.
    pub nominations: u64,
    /// Times the tree was put up anew.
    pub rebuilds: u64,
}

/// The queueing engine.
#[derive(Debug, Clone)]
pub struct Engine {
    settings: Settings,
    queues: BTreeMap<Text, Arc<QueueSpec>>,
    cohorts: BTreeMap<Text, CohortSpec>,
    flavors: BTreeMap<Text, FlavorSpec>,
    locals: BTreeMap<Key, LocalQueueSpec>,
    namespaces: BTreeMap<Text, Vec<(Text, Text)>>,
    workloads: BTreeMap<Key, Entry>,
    /// Workloads by local queue, whether that is there or not.
    by_local: BTreeMap<Key, BTreeSet<Key>>,
    lines: BTreeMap<Text, Line>,
    /// Lines in which someone shares a verdict and was not told.
    untold: BTreeSet<Text>,
    /// Holders whose pods are not ready.
    unready: BTreeSet<Key>,
    /// Someone waits for them.
    ready_awaited: bool,
    /// Victims that were named and not yet seen to be evicted, and for whom.
    named: BTreeMap<Key, Key>,
    /// What follows from the specs and holds per node; put up anew when they change.
    ledger: Ledger,
    stale: bool,
    work: Work,
}

/// Everything that is counted by node of the quota tree.
#[derive(Debug, Clone, Default)]
struct Ledger {
    tree: QuotaTree,
    specs: Vec<Arc<QueueSpec>>,
    idle: Vec<Option<Idle>>,
    holders: Vec<Holders>,
    /// What is reserved, admitted or not.
    usage: Usage,
    /// What is admitted; of queues only.
    admitted: Usage,
    /// By root of a tree.
    trees: Vec<TreeState>,
    /// The last nomination of a queue's head.
    memo: Vec<Option<Memo>>,
}

/// What happened in one tree of cohorts.
#[derive(Debug, Clone, Copy, Default)]
struct TreeState {
    /// Goes up with everything that may change a nomination.
    generation: u64,
    /// Its heads have to be looked at.
    dirty: bool,
}

#[derive(Debug, Clone)]
struct Memo {
    key: Key,
    generation: u64,
    nomination: Arc<Nomination>,
}

/// A workload and what became of it here.
#[derive(Debug, Clone)]
struct Entry {
    info: Info,
    since: Time,
    shape: Arc<Shape>,
    /// The queue in whose line it is.
    line: Option<Text>,
    /// Its quota was decided here and is not written yet.
    assumed: bool,
    told: Option<(Reason, String)>,
    tried: Tried,
    verdict: Option<Arc<Verdict>>,
    holder: Option<Arc<Holder>>,
}

impl Entry {
    fn place(&self) -> Place {
        Place {
            priority: Reverse(self.info.priority),
            since: self.since,
            uid: self.info.uid.clone(),
            key: self.info.key.clone(),
        }
    }
}

impl Engine {
    /// An engine that knows nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Engine {
        Engine {
            settings,
            queues: BTreeMap::new(),
            cohorts: BTreeMap::new(),
            flavors: BTreeMap::new(),
            locals: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            workloads: BTreeMap::new(),
            by_local: BTreeMap::new(),
            lines: BTreeMap::new(),
            untold: BTreeSet::new(),
            unready: BTreeSet::new(),
            ready_awaited: false,
            named: BTreeMap::new(),
            ledger: Ledger::default(),
            stale: false,
            work: Work::default(),
        }
    }

    /// What was done so far.
    #[must_use]
    pub fn work(&self) -> Work {
        self.work
    }

    /// Whether another cycle may decide something now.
    #[must_use]
    pub fn is_restless(&self) -> bool {
        self.stale || !self.untold.is_empty() || self.ledger.trees.iter().any(|tree| tree.dirty)
    }

    /// When to ask again although nothing was fed: the end of the next backoff.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.lines.values().filter_map(Line::next_due).min()
    }

    fn scene(&self) -> Scene<'_> {
        Scene {
            tree: &self.ledger.tree,
            specs: &self.ledger.specs,
            flavors: &self.flavors,
            holders: &self.ledger.holders,
            settings: &self.settings,
        }
    }

    /// Puts the tree up anew after its specs changed: all is counted again, and everybody gets another look.
    fn refresh(&mut self) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        self.work.rebuilds += 1;
        let held = self.workloads.values().flat_map(|entry| entry.info.held().into_keys());
        let in_use: BTreeSet<(Text, Text)> = held.collect();
        let specs: BTreeMap<Text, &QueueSpec> =
            self.queues.iter().map(|(k, v)| (k.clone(), v.as_ref())).collect();
        let tree = QuotaTree::new(&specs, &self.cohorts, &in_use);
        let generation = self.ledger.trees.iter().map(|it| it.generation).max().unwrap_or(0) + 1;
        self.ledger = Ledger {
            idle: self
                .queues
                .values()
                .enumerate()
                .map(|(node, spec)| self.idle_of(&tree, node, spec))
                .collect(),
            specs: self.queues.values().cloned().collect(),
            holders: vec![Holders::new(); tree.queues],
            usage: tree.unused(),
            admitted: tree.unused(),
            trees: vec![TreeState { generation, dirty: true }; tree.nodes.len()],
            memo: vec![None; tree.queues],
            tree,
        };
        let keys: Vec<Key> = self.workloads.keys().cloned().collect();
        for key in &keys {
            if let Some(entry) = self.workloads.get_mut(key) {
                entry.holder = None;
                entry.tried.clear();
            }
            self.hold(key);
        }
        self.flush_all();
    }

    fn idle_of(&self, tree: &QuotaTree, node: NodeId, spec: &QueueSpec) -> Option<Idle> {
        let mut flavors = spec.groups.iter().flat_map(|group| &group.flavors);
        let missing = flavors.any(|(flavor, _)| !self.flavors.contains_key(flavor));
        let found = [
            spec.idle,
            missing.then_some(Idle::FlavorNotFound),
            tree.nodes[node].circular.then_some(Idle::CohortCycle),
        ];
        found.into_iter().flatten().min()
    }

    /// Something in the tree of this queue changed that a nomination depends on.
    fn touch(&mut self, node: NodeId) {
        let root = self.ledger.tree.nodes[node].root;
        let tree = &mut self.ledger.trees[root];
        tree.generation += 1;
        tree.dirty = true;
    }

    /// The head of this queue changed, nothing else.
    fn look_at(&mut self, queue: &str) {
        if let Some(node) = self.ledger.tree.queue(queue) {
            self.ledger.trees[self.ledger.tree.nodes[node].root].dirty = true;
        }
    }
}
