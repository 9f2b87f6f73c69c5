//! The quota engine: which pending Workload is admitted next, which Workloads are preempted for it, and why the
//! others stay pending.
//!
//! It plays the role of Kueue's cache, pending queues and scheduler. Objects are fed in
//! ([`Engine::apply_cluster_queue`], [`Engine::apply_workload`] and so on), a scheduling cycle
//! ([`Engine::run_cycle`]) returns decisions, and [`Engine::record_write_outcome`] reports whether they were
//! written. All derived state can be recounted from what was fed in ([`Engine::rebuilt`]).
//!
//! # Guarantees
//!
//! - Quota is never exceeded: an admission fits the actual usage, which includes victims until they have released
//!   their quota.
//! - The cost of a cycle is proportional to what changed: a cohort tree without changes is skipped, and a head is
//!   nominated again only after something changed in its tree.
//! - An inadmissible Workload is requeued when a flavor-resource that it lacked is released, and keeps its queue
//!   position. A Workload skipped in favour of other Workloads is requeued when these are admitted or removed.
//! - Deterministic: the same updates give the same decisions in the same order.
//!
//! # Deliberately absent
//!
//! Clocks, writes, and the computation of pod requests: requests arrive as integers. Topology-aware scheduling and
//! usage history are not supported.

pub mod amount;
pub mod assignment_trace;
mod cycle;
mod cycle_snapshot;
pub mod decision;
pub mod dominant_resource_share;
mod entry_order;
pub mod explain;
mod fair_preemption;
pub mod flavor_assigner;
mod flavor_compatibility;
mod nominate;
mod pending_queue;
pub mod preempt;
pub mod report;
pub mod snapshot;
pub mod spec;
pub mod tree;
mod updates;
mod usage;
pub mod workload;

pub use updates::WriteOutcome;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::time::Time;
use muster_tree::Text;

use decision::{Evaluation, RequeueReason};
use flavor_assigner::LastTriedFlavors;
use nominate::Nomination;
use pending_queue::{EquivalenceKey, PendingQueue, QueuePosition};
use snapshot::{QuotaSnapshot, ReservingWorkload, ReservingWorkloads};
use spec::{ClusterQueueSpec, CohortSpec, EngineSettings, FlavorSpec, InactiveReason, LocalQueueSpec};
use tree::{QuotaNodeId, QuotaTree, Usage};
use workload::{NamespacedName, WorkloadInfo};

/// Counters for tests and benchmarks. They do not change while nothing is fed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EngineStats {
    /// Scheduling rounds in which at least one cohort tree was processed.
    pub rounds: u64,
    /// Nominations computed; cached nominations are not counted.
    pub nominations: u64,
    /// How often the quota tree was rebuilt because a spec changed.
    pub rebuilds: u64,
}

#[derive(Debug, Clone)]
pub struct Engine {
    settings: EngineSettings,
    queues: BTreeMap<Text, Arc<ClusterQueueSpec>>,
    cohorts: BTreeMap<Text, CohortSpec>,
    flavors: BTreeMap<Text, FlavorSpec>,
    locals: BTreeMap<NamespacedName, LocalQueueSpec>,
    namespaces: BTreeMap<Text, Vec<(Text, Text)>>,
    workloads: BTreeMap<NamespacedName, WorkloadEntry>,
    /// Workloads by LocalQueue, whether or not the LocalQueue exists.
    by_local: BTreeMap<NamespacedName, BTreeSet<NamespacedName>>,
    pending_queues: BTreeMap<Text, PendingQueue>,
    /// ClusterQueues with Workloads that joined an inadmissible equivalence class and have no reported pending
    /// status yet.
    unreported: BTreeSet<Text>,
    /// Workloads with a reservation and without ready pods.
    pods_not_ready: BTreeSet<NamespacedName>,
    /// A Workload is pending with `WaitingForPodsReady`: its tree is processed again when `unready` becomes empty.
    pods_ready_awaited: bool,
    /// Preemption expectations: victims issued and not yet observed as evicted, with their preemptor. As in Kueue,
    /// they prevent issuing one eviction twice.
    preemption_expectations: BTreeMap<NamespacedName, NamespacedName>,
    /// State derived from specs and reservations, by node of the quota tree; rebuilt when a spec changes.
    ledger: QuotaCache,
    /// Which changes the derived state does not reflect yet. While it is set, usage is not updated incrementally.
    stale: Option<Stale>,
    work: EngineStats,
}

/// Which trees have to be rebuilt.
#[derive(Debug, Clone)]
enum Stale {
    Queues(BTreeSet<Text>),
    Everywhere,
}

/// Quota, usage and reservations, by node of the quota tree.
#[derive(Debug, Clone, Default)]
struct QuotaCache {
    tree: QuotaTree,
    specs: Vec<Arc<ClusterQueueSpec>>,
    idle: Vec<Option<InactiveReason>>,
    holders: Vec<ReservingWorkloads>,
    /// Usage of all quota reservations, admitted or not.
    usage: Usage,
    /// Usage of admitted Workloads; filled for ClusterQueues only.
    admitted: Usage,
    /// Indexed by the root node of each cohort tree.
    trees: Vec<TreeState>,
    /// The cached nomination of each ClusterQueue's head.
    memo: Vec<Option<CachedNomination>>,
}

/// Change counters of one cohort tree.
#[derive(Debug, Clone, Copy, Default)]
struct TreeState {
    /// Incremented by every change that can alter a nomination.
    generation: u64,
    /// Incremented when a head is replaced: capacity reserved for the old head may be available to others.
    heads: u64,
    /// The heads of this tree are processed in the next round.
    dirty: bool,
}

impl TreeState {
    /// A skipped Workload cannot fare better before this version changes.
    fn version(self) -> TreeVersion {
        (self.generation, self.heads)
    }
}

/// What the outcome of a round depends on: generation of the tree and number of head replacements.
type TreeVersion = (u64, u64);

/// How far the flavor search of a Workload has come when it stopped before the last flavor (Kueue's
/// `LastAssignment`).
#[derive(Debug, Clone, Default)]
struct LastAssignment {
    tried: LastTriedFlavors,
    /// The tree generation for which this holds; in a later one the search restarts at the first flavor.
    generation: u64,
    /// Set when a flavor fitted and the Workload was skipped: the tree version at that time.
    passed_over: Option<TreeVersion>,
}

#[derive(Debug, Clone)]
struct CachedNomination {
    key: NamespacedName,
    generation: u64,
    nomination: Arc<Nomination>,
}

/// A Workload with its scheduling state.
#[derive(Debug, Clone)]
struct WorkloadEntry {
    info: WorkloadInfo,
    since: Time,
    shape: Arc<EquivalenceKey>,
    /// The ClusterQueue with the pending queue that contains it.
    line: Option<Text>,
    /// Assumed: the engine admitted it and the status update is not confirmed yet.
    assumed: bool,
    reported: Option<(RequeueReason, String)>,
    last_assignment: LastAssignment,
    verdict: Option<Arc<Evaluation>>,
    holder: Option<Arc<ReservingWorkload>>,
}

impl WorkloadEntry {
    fn place(&self) -> QueuePosition {
        QueuePosition {
            priority: Reverse(self.info.priority),
            since: self.since,
            uid: self.info.uid.clone(),
            key: self.info.key.clone(),
        }
    }
}

impl Engine {
    #[must_use]
    pub fn new(settings: EngineSettings) -> Engine {
        Engine {
            settings,
            queues: BTreeMap::new(),
            cohorts: BTreeMap::new(),
            flavors: BTreeMap::new(),
            locals: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            workloads: BTreeMap::new(),
            by_local: BTreeMap::new(),
            pending_queues: BTreeMap::new(),
            unreported: BTreeSet::new(),
            pods_not_ready: BTreeSet::new(),
            pods_ready_awaited: false,
            preemption_expectations: BTreeMap::new(),
            ledger: QuotaCache::default(),
            stale: None,
            work: EngineStats::default(),
        }
    }

    #[must_use]
    pub fn stats(&self) -> EngineStats {
        self.work
    }

    /// All Workloads, and whether their reservation is assumed, that is decided by the engine and not confirmed
    /// yet.
    pub fn workload_infos(&self) -> impl Iterator<Item = (&WorkloadInfo, bool)> {
        self.workloads.values().map(|entry| (&entry.info, entry.assumed))
    }

    /// Whether another cycle could make a decision now.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.stale.is_some() || !self.unreported.is_empty() || self.ledger.trees.iter().any(|tree| tree.dirty)
    }

    /// When to run a cycle although nothing was fed in: the end of the next requeue backoff.
    #[must_use]
    pub fn next_requeue_at(&self) -> Option<Time> {
        self.pending_queues.values().filter_map(PendingQueue::next_due).min()
    }

    fn snapshot(&self) -> QuotaSnapshot<'_> {
        QuotaSnapshot {
            tree: &self.ledger.tree,
            specs: &self.ledger.specs,
            flavors: &self.flavors,
            reserving: &self.ledger.holders,
            settings: &self.settings,
        }
    }

    /// Marks the tree of this ClusterQueue for a rebuild.
    fn mark_stale(&mut self, queue: &Text) {
        if let Stale::Queues(queues) = self.stale.get_or_insert_with(|| Stale::Queues(BTreeSet::new())) {
            queues.insert(queue.clone());
        }
    }

    /// Marks all trees for a rebuild: the affected ClusterQueues are not known.
    fn mark_all_stale(&mut self) {
        self.stale = Some(Stale::Everywhere);
    }

    /// Rebuilds the quota tree and recounts usage after a spec changed. Workloads that share a tree with a changed
    /// spec are requeued.
    fn rebuild_if_stale(&mut self) {
        let Some(stale) = self.stale.take() else { return };
        self.work.rebuilds += 1;
        let held = self.workloads.values().filter(|entry| entry.info.reservation().is_some());
        // Flavor-resources with reservations stay in the tree after a spec drops them: otherwise their usage would
        // vanish from the cohort.
        let in_use: BTreeSet<(Text, Text)> =
            held.flat_map(|entry| entry.info.flavor_resource_usage().into_keys()).collect();
        let specs: BTreeMap<Text, &ClusterQueueSpec> =
            self.queues.iter().map(|(k, v)| (k.clone(), v.as_ref())).collect();
        let tree = QuotaTree::new(&specs, &self.cohorts, &in_use);
        let moved = affected_queues(&self.ledger.tree, &tree, stale);
        let states = self.ledger.carry_over_states(&tree, &moved);
        self.ledger = QuotaCache {
            idle: self
                .queues
                .values()
                .enumerate()
                .map(|(node, spec)| self.inactive_reason_of(&tree, node, spec))
                .collect(),
            specs: self.queues.values().cloned().collect(),
            holders: vec![ReservingWorkloads::new(); tree.cluster_queue_count],
            usage: tree.zero_usage(),
            admitted: tree.zero_usage(),
            trees: states.clone(),
            memo: vec![None; tree.cluster_queue_count],
            tree,
        };
        let mut holders: Vec<NamespacedName> = Vec::new();
        for (key, entry) in &mut self.workloads {
            entry.holder = None;
            if entry.info.reservation().is_some() {
                holders.push(key.clone());
            }
        }
        holders.iter().for_each(|key| self.hold(key));
        // Recounting calls `touch`; unchanged trees must not become dirty by it.
        self.ledger.trees = states;
        self.flush_these(&moved);
    }

    fn inactive_reason_of(
        &self,
        tree: &QuotaTree,
        node: QuotaNodeId,
        spec: &ClusterQueueSpec,
    ) -> Option<InactiveReason> {
        let mut flavors = spec.groups.iter().flat_map(|group| &group.flavors);
        // The engine checks flavors and cycles itself: the reconciler's view of them may be older than the specs
        // applied here.
        let missing = flavors.any(|(flavor, _)| !self.flavors.contains_key(flavor));
        let found = [
            spec.inactive,
            missing.then_some(InactiveReason::FlavorNotFound),
            tree.nodes[node].in_cycle.then_some(InactiveReason::CohortCycle),
        ];
        found.into_iter().flatten().min()
    }

    /// Invalidates the cached nominations of this queue's tree and schedules it for the next round.
    fn invalidate_tree(&mut self, node: QuotaNodeId) {
        let root = self.ledger.tree.nodes[node].root;
        let tree = &mut self.ledger.trees[root];
        tree.generation += 1;
        tree.dirty = true;
    }

    /// Schedules this queue's tree for the next round. Cached nominations stay valid.
    fn schedule_queue(&mut self, queue: &str) {
        if let Some(node) = self.ledger.tree.cluster_queue(queue) {
            self.ledger.trees[self.ledger.tree.nodes[node].root].dirty = true;
        }
    }

    /// The head was replaced: capacity reserved for the previous head is available to other queues.
    fn new_head(&mut self, queue: &str) {
        if let Some(node) = self.ledger.tree.cluster_queue(queue) {
            let tree = &mut self.ledger.trees[self.ledger.tree.nodes[node].root];
            tree.heads += 1;
            tree.dirty = true;
        }
    }

    fn tree_version(&self, node: QuotaNodeId) -> TreeVersion {
        self.ledger.trees[self.ledger.tree.nodes[node].root].version()
    }
}

/// The ClusterQueues that share a tree, before or after the change, with a changed one. If the flavor-resource ids
/// changed, all cached state refers to other ids, so all ClusterQueues are returned.
fn affected_queues(old: &QuotaTree, new: &QuotaTree, stale: Stale) -> BTreeSet<Text> {
    let mut found = match stale {
        // With equal ids the change is local: only trees that contain a changed ClusterQueue are affected.
        Stale::Queues(queues) if old.flavor_resources == new.flavor_resources => queues,
        Stale::Queues(_) | Stale::Everywhere => {
            return [old, new]
                .into_iter()
                .flat_map(|it| it.nodes[..it.cluster_queue_count].iter().map(name))
                .collect();
        }
    };
    for tree in [old, new] {
        let nodes = found.iter().filter_map(|queue| tree.cluster_queue(queue));
        let roots: BTreeSet<QuotaNodeId> = nodes.map(|node| tree.nodes[node].root).collect();
        let beside = tree.nodes[..tree.cluster_queue_count].iter().filter(|node| roots.contains(&node.root));
        found.extend(beside.map(name));
    }
    found
}

fn name(node: &tree::QuotaNode) -> Text {
    node.name.clone()
}

impl QuotaCache {
    /// Carries change counters over to a rebuilt tree: trees with changes, and trees already scheduled, stay dirty.
    /// The new generation is above all old ones, so no cached nomination survives.
    fn carry_over_states(&self, tree: &QuotaTree, moved: &BTreeSet<Text>) -> Vec<TreeState> {
        // Above every old generation, so that no cached nomination of the old tree matches by accident.
        let generation = self.trees.iter().map(|it| it.generation).max().unwrap_or(0) + 1;
        let mut states = vec![TreeState { generation, ..TreeState::default() }; tree.nodes.len()];
        for node in &tree.nodes[..tree.cluster_queue_count] {
            let was =
                self.tree.cluster_queue(&node.name).map(|old| self.trees[self.tree.nodes[old].root].dirty);
            states[node.root].dirty |= moved.contains(&node.name) || was == Some(true);
        }
        states
    }
}
