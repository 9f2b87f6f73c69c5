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
//! - What is parked wakes when something that stopped it changes, and keeps its place. Where others were served first, or
//!   kept for themselves what it needs, that is when they do so no more.
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
    /// What the ledger does not know yet; while there is something, nothing is counted.
    stale: Option<Stale>,
    work: Work,
}

/// Where something changed that the ledger follows from.
#[derive(Debug, Clone)]
enum Stale {
    /// In these queues.
    Queues(BTreeSet<Text>),
    /// Anywhere.
    Everywhere,
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
    /// Goes up whenever somebody is no longer head, who may have kept something out of reach of others.
    heads: u64,
    /// Its heads have to be looked at.
    dirty: bool,
}

impl TreeState {
    /// Whoever was passed over has no better chances before this is another.
    fn chances(self) -> Chances {
        (self.generation, self.heads)
    }
}

/// On what it depends who is served: the generation of a tree, and how often a head of it was another.
type Chances = (u64, u64);

/// How far the search for flavors of a workload has come, where it stopped before the last one.
#[derive(Debug, Clone, Default)]
struct Tour {
    tried: Tried,
    /// The generation of its tree in which that is so: in another one the search begins anew.
    generation: u64,
    /// One of the flavors fits, and others were served first: how things stood then.
    passed_over: Option<Chances>,
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
    tour: Tour,
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
            stale: None,
            work: Work::default(),
        }
    }

    /// What was done so far.
    #[must_use]
    pub fn work(&self) -> Work {
        self.work
    }

    /// Everyone it was told of as it counts them, and whether what they hold was decided here and is not written yet.
    pub fn known(&self) -> impl Iterator<Item = (&Info, bool)> {
        self.workloads.values().map(|entry| (&entry.info, entry.assumed))
    }

    /// Whether another cycle may decide something now.
    #[must_use]
    pub fn is_restless(&self) -> bool {
        self.stale.is_some() || !self.untold.is_empty() || self.ledger.trees.iter().any(|tree| tree.dirty)
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

    /// The tree has to be put up anew because of this queue.
    fn stale_in(&mut self, queue: &Text) {
        if let Stale::Queues(queues) = self.stale.get_or_insert_with(|| Stale::Queues(BTreeSet::new())) {
            queues.insert(queue.clone());
        }
    }

    /// The tree has to be put up anew, and nobody knows whom that concerns.
    fn stale_everywhere(&mut self) {
        self.stale = Some(Stale::Everywhere);
    }

    /// Puts the tree up anew after its specs changed: all is counted again, and whoever shares a tree with what changed
    /// gets another look.
    fn refresh(&mut self) {
        let Some(stale) = self.stale.take() else { return };
        self.work.rebuilds += 1;
        let held = self.workloads.values().filter(|entry| entry.info.reservation().is_some());
        let in_use: BTreeSet<(Text, Text)> = held.flat_map(|entry| entry.info.held().into_keys()).collect();
        let specs: BTreeMap<Text, &QueueSpec> =
            self.queues.iter().map(|(k, v)| (k.clone(), v.as_ref())).collect();
        let tree = QuotaTree::new(&specs, &self.cohorts, &in_use);
        let moved = moved(&self.ledger.tree, &tree, stale);
        let states = self.ledger.states_in(&tree, &moved);
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
            trees: states.clone(),
            memo: vec![None; tree.queues],
            tree,
        };
        let mut holders: Vec<Key> = Vec::new();
        for (key, entry) in &mut self.workloads {
            entry.holder = None;
            if entry.info.reservation().is_some() {
                holders.push(key.clone());
            }
        }
        holders.iter().for_each(|key| self.hold(key));
        // Counting again what was counted before is no news.
        self.ledger.trees = states;
        self.flush_these(&moved);
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

    /// The head of this queue has to be looked at, nothing else changed.
    fn look_at(&mut self, queue: &str) {
        if let Some(node) = self.ledger.tree.queue(queue) {
            self.ledger.trees[self.ledger.tree.nodes[node].root].dirty = true;
        }
    }

    /// The head of this queue is another: what the last one kept for itself is within reach of others.
    fn new_head(&mut self, queue: &str) {
        if let Some(node) = self.ledger.tree.queue(queue) {
            let tree = &mut self.ledger.trees[self.ledger.tree.nodes[node].root];
            tree.heads += 1;
            tree.dirty = true;
        }
    }

    fn chances(&self, node: NodeId) -> Chances {
        self.ledger.trees[self.ledger.tree.nodes[node].root].chances()
    }
}

/// The queues that share a tree, as it was or as it is, with one that changed. Where pairs have other numbers than before,
/// nothing that was remembered of them is true any more: these are all queues.
fn moved(old: &QuotaTree, new: &QuotaTree, stale: Stale) -> BTreeSet<Text> {
    let mut found = match stale {
        Stale::Queues(queues) if old.pairs == new.pairs => queues,
        Stale::Queues(_) | Stale::Everywhere => {
            return [old, new].into_iter().flat_map(|it| it.nodes[..it.queues].iter().map(name)).collect();
        }
    };
    for tree in [old, new] {
        let nodes = found.iter().filter_map(|queue| tree.queue(queue));
        let roots: BTreeSet<NodeId> = nodes.map(|node| tree.nodes[node].root).collect();
        let beside = tree.nodes[..tree.queues].iter().filter(|node| roots.contains(&node.root));
        found.extend(beside.map(name));
    }
    found
}

fn name(node: &tree::Node) -> Text {
    node.name.clone()
}

impl Ledger {
    /// The states of the trees of another ledger: those in which something moved are looked at, and those that were about
    /// to be.
    fn states_in(&self, tree: &QuotaTree, moved: &BTreeSet<Text>) -> Vec<TreeState> {
        let generation = self.trees.iter().map(|it| it.generation).max().unwrap_or(0) + 1;
        let mut states = vec![TreeState { generation, ..TreeState::default() }; tree.nodes.len()];
        for node in &tree.nodes[..tree.queues] {
            let was = self.tree.queue(&node.name).map(|old| self.trees[self.tree.nodes[old].root].dirty);
            states[node.root].dirty |= moved.contains(&node.name) || was == Some(true);
        }
        states
    }
}
