//! Equivalence classes: pods with equal scheduling requirements share compiled requirements and one node ranking.
//!
//! A ranking follows the change log of the node table, so only changed rows are filtered and scored again. A stale
//! heap entry is recognised by the stamp of its row.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use muster_api::node::NodeFacts;

use muster_tree::Tree;

use crate::counts::CounterId;
use crate::gang::{CachedGroupFailure, NodeScope};
use crate::node_affinity::NamedNodes;
use crate::node_classes::{NodeClass, NodeClasses};
use crate::node_table::{CPU, IndexedRequests, MEMORY, NodeRow, NodeTable};
use crate::packing::Packing;
use crate::reason::{FitError, Reason};
use crate::requirements::SchedulingRequirements;
use crate::score::{self, RawScore};

pub type ClassId = u32;

/// Heap entries per node, stale ones included, above which the ranking is rebuilt.
const HEAP_PER_NODE_MAX: usize = 4;

/// The result of the node-only filters: free resources and other pods are not considered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeFit {
    No(NodeMismatch),
    Yes(RawScore),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeMismatch {
    /// The Node was never observed.
    Unknown,
    /// Required node affinity lists other nodes by `metadata.name`.
    NotNamed,
    Unschedulable,
    Taint,
    Affinity,
}

impl NodeMismatch {
    #[must_use]
    pub fn reason(self) -> Reason {
        match self {
            NodeMismatch::Unknown | NodeMismatch::NotNamed => Reason::NotNamed,
            NodeMismatch::Unschedulable => Reason::Unschedulable,
            NodeMismatch::Taint => Reason::UntoleratedTaint,
            NodeMismatch::Affinity => Reason::Affinity,
        }
    }
}

/// A compiled topology spread constraint.
#[derive(Debug, Clone, Copy)]
pub struct SpreadRule {
    pub counter: CounterId,
    pub skew: i64,
    pub min_domains: i64,
}

/// A fit error that is valid until the cache changes.
#[derive(Debug)]
pub struct CachedFitError {
    /// The change count of the cache when it was computed.
    pub at: u64,
    pub sort: u32,
    /// Priority, and whether it may preempt.
    pub rank: (i64, bool),
    /// The specs of its ResourceClaims.
    pub shape: Vec<Tree>,
    pub refused: FitError,
}

#[derive(Debug)]
pub struct EquivalenceClass {
    pub demand: SchedulingRequirements,
    pub users: u32,
    pub requests: IndexedRequests,
    /// It has no node selector, affinity or preference: every node without taints passes.
    unconstrained: bool,
    pub named: NamedNodes,
    /// Requested resources that are scored by `MostAllocated`.
    pub packed: Vec<(usize, i64)>,
    /// It requests CPU or memory, so `BalancedAllocation` applies.
    pub balances: bool,
    /// Required pod affinity: one counter per topology key.
    pub affinity: Vec<CounterId>,
    /// One counter per required anti-affinity term.
    pub anti_affinity: Vec<CounterId>,
    /// Preferred pod affinity (weight above zero) and anti-affinity.
    pub preferred: Vec<(i64, CounterId)>,
    /// Topology spread constraints with `DoNotSchedule`.
    pub hard: Vec<SpreadRule>,
    /// Topology spread constraints with `ScheduleAnyway`.
    pub soft: Vec<SpreadRule>,
    /// Counters of the affinity terms that its placed pods impose on incoming pods.
    pub own_terms: Vec<CounterId>,
    pub fit_error: Option<CachedFitError>,
    /// The last failure of a group made of pods of this class only.
    pub group_failure: Option<CachedGroupFailure>,
    verdicts: Vec<(u32, NodeFit)>,
    ranking: Ranking,
    /// The ranking within the node scope of this number.
    fenced: (u64, Ranking),
}

/// A ranked node: score, row, the stamp of the row when it was scored, and the node class it represents.
type Ranked = (i64, Reverse<NodeRow>, u32, u32);

/// The node class of a node that represents only itself.
const ALONE: u32 = u32::MAX;

/// A max-heap of nodes by score.
#[derive(Debug, Default)]
struct Ranking {
    top: RawScore,
    heap: BinaryHeap<Ranked>,
    read: Option<u64>,
    /// End of the change log at the last full ranking.
    ranked: u64,
    /// Node classes at that time; one node of each is in the heap.
    sorts: Vec<Rest>,
}

/// The rows of a node class, and how many of them were pushed so far.
#[derive(Debug)]
struct Rest {
    rows: NodeClass,
    seen: usize,
}

impl Ranking {
    /// Pushes a node class, represented by its first row.
    fn push_sort(&mut self, score: i64, rows: &NodeClass, table: &NodeTable) {
        let sort = u32::try_from(self.sorts.len()).expect("fewer nodes than 2^32");
        self.sorts.push(Rest { rows: rows.clone(), seen: 0 });
        self.push_next(score, sort, table);
    }

    /// Pushes the next unchanged row of a node class; changed rows are pushed on their own.
    fn push_next(&mut self, score: i64, sort: u32, table: &NodeTable) {
        let Some(rest) = self.sorts.get_mut(sort as usize) else { return };
        let next = rest.rows[rest.seen..].iter().position(|row| table.is_as_at(*row, self.ranked));
        let Some(next) = next.map(|skipped| rest.seen + skipped) else {
            rest.seen = rest.rows.len();
            return;
        };
        rest.seen = next + 1;
        let row = rest.rows[next];
        self.heap.push((score, Reverse(row), table.stamp(row), sort));
    }

    /// Pops the best node, which represents only itself from now on.
    fn pop(&mut self, table: &NodeTable) -> Option<Ranked> {
        let (score, row, stamp, sort) = self.heap.pop()?;
        self.push_next(score, sort, table);
        Some((score, row, stamp, ALONE))
    }
}

impl EquivalenceClass {
    /// A class whose counters are not assigned yet.
    pub fn new(demand: SchedulingRequirements, packing: Packing, table: &mut NodeTable) -> EquivalenceClass {
        let asks = table.index_requests(&demand.request);
        let packs = |(resource, _): &&(usize, i64)| packing.packs(table.resource_name(*resource));
        let packed = asks.amounts.iter().filter(packs).copied().collect();
        let mut class = EquivalenceClass {
            unconstrained: demand.node.is_unconstrained(),
            named: demand.node.named(),
            demand,
            users: 0,
            requests: asks,
            packed,
            balances: false,
            affinity: Vec::new(),
            anti_affinity: Vec::new(),
            preferred: Vec::new(),
            hard: Vec::new(),
            soft: Vec::new(),
            own_terms: Vec::new(),
            fit_error: None,
            group_failure: None,
            verdicts: Vec::new(),
            ranking: Ranking::default(),
            fenced: (0, Ranking::default()),
        };
        class.balances = class.requested(CPU) > 0 || class.requested(MEMORY) > 0;
        class
    }

    pub fn requested(&self, resource: usize) -> i64 {
        self.requests.amounts.iter().find(|(known, _)| *known == resource).map_or(0, |(_, amount)| *amount)
    }

    /// Whether it has pod affinity, anti-affinity or topology spread constraints.
    pub fn depends_on_pods(&self) -> bool {
        let terms = self.affinity.len() + self.anti_affinity.len() + self.preferred.len();
        terms + self.hard.len() + self.soft.len() > 0
    }

    pub fn counters(&self) -> impl Iterator<Item = CounterId> + '_ {
        let rules = self.hard.iter().chain(&self.soft).map(|rule| rule.counter);
        let likes = self.preferred.iter().map(|(_, counter)| *counter);
        self.affinity
            .iter()
            .chain(&self.anti_affinity)
            .chain(&self.own_terms)
            .copied()
            .chain(likes)
            .chain(rules)
    }

    /// The node-only filters and raw scores of a node, cached until the Node changes.
    pub fn node_fit(&mut self, table: &NodeTable, row: NodeRow) -> NodeFit {
        // Most pods have no node requirements: skip the per-node cache for nodes without taints.
        if self.unconstrained && table.is_plain(row) {
            return NodeFit::Yes(RawScore::default());
        }
        let at = row as usize;
        if self.verdicts.len() <= at {
            // No row reaches this stamp: it marks a verdict that was not computed yet.
            self.verdicts.resize(table.rows().max(at + 1), (u32::MAX, NodeFit::No(NodeMismatch::Unknown)));
        }
        let (stamp, verdict) = self.verdicts[at];
        if stamp == table.facts_stamp(row) {
            return verdict;
        }
        let verdict =
            table.facts(row).map_or(NodeFit::No(NodeMismatch::Unknown), |facts| self.filter_node(facts));
        self.verdicts[at] = (table.facts_stamp(row), verdict);
        verdict
    }

    fn filter_node(&self, facts: &NodeFacts) -> NodeFit {
        let site = &self.demand.node;
        if matches!(&self.named, NamedNodes::Only(names) if names.binary_search(&facts.name).is_err()) {
            NodeFit::No(NodeMismatch::NotNamed)
        } else if facts.unschedulable && !site.tolerates_unschedulable() {
            NodeFit::No(NodeMismatch::Unschedulable)
        } else if !site.tolerates_taints(facts) {
            NodeFit::No(NodeMismatch::Taint)
        } else if !site.matches(facts) {
            NodeFit::No(NodeMismatch::Affinity)
        } else {
            NodeFit::Yes(RawScore {
                taints: site.untolerated_soft_taints(facts),
                preference: site.preference(facts),
            })
        }
    }

    /// The best node with enough free resources, within the scope if there is one, and whether the ranking was rebuilt. The
    /// node stays on top until its row changes.
    pub fn best(
        &mut self,
        table: &NodeTable,
        twins: &mut NodeClasses,
        fence: Option<&NodeScope>,
    ) -> (Option<NodeRow>, bool) {
        let mut ranking = self.take_ranking(fence);
        let anew = self.catch_up(&mut ranking, table, twins, fence);
        let mut best = None;
        while let Some((_, Reverse(row), stamp, _)) = ranking.heap.peek() {
            if *stamp == table.stamp(*row) {
                best = Some(*row);
                break;
            }
            ranking.pop(table);
        }
        *self.ranking_mut(fence.is_some()) = ranking;
        (best, anew)
    }

    /// Pops the best node from the ranking; [`EquivalenceClass::put_back`] returns it.
    pub fn pop_best(&mut self, table: &NodeTable, fenced: bool) -> Option<Ranked> {
        self.ranking_mut(fenced).pop(table)
    }

    pub fn put_back(&mut self, aside: Vec<Ranked>, fenced: bool) {
        self.ranking_mut(fenced).heap.extend(aside);
    }

    fn ranking_mut(&mut self, fenced: bool) -> &mut Ranking {
        if fenced { &mut self.fenced.1 } else { &mut self.ranking }
    }

    /// Takes the ranking; an empty one if it belongs to another scope.
    fn take_ranking(&mut self, fence: Option<&NodeScope>) -> Ranking {
        let Some(fence) = fence else { return std::mem::take(&mut self.ranking) };
        if self.fenced.0 != fence.number {
            self.fenced = (fence.number, Ranking::default());
        }
        std::mem::take(&mut self.fenced.1)
    }

    /// Applies the change log to the ranking; whether it was rebuilt.
    fn catch_up(
        &mut self,
        ranking: &mut Ranking,
        table: &NodeTable,
        twins: &mut NodeClasses,
        fence: Option<&NodeScope>,
    ) -> bool {
        let changed = ranking.read.and_then(|read| table.changed_since(read));
        ranking.read = Some(table.log_end());
        let many = fence.map_or(table.rows(), |fence| fence.rows.len());
        let littered = ranking.heap.len() > HEAP_PER_NODE_MAX * (many + 1);
        // Above half of the nodes a rebuild is cheaper than pushing every changed row.
        let few = |changed: &&[NodeRow]| !littered && changed.len() * 2 <= many + 2;
        let Some(changed) = changed.filter(few) else {
            self.rank_all(ranking, table, twins, fence);
            return true;
        };
        for row in changed.iter().filter(|row| fence.is_none_or(|fence| fence.has(**row))) {
            let before = self.verdicts.get(*row as usize).map(|(_, verdict)| *verdict);
            let after = self.node_fit(table, *row);
            // Raw scores are normalised by the maximum: if it may change, every score does.
            if moves_top(before, after) {
                self.rank_all(ranking, table, twins, fence);
                return true;
            }
            if let NodeFit::Yes(raw) = after
                && table.fits(*row, &self.requests)
            {
                let entry = self.entry(ranking.top, table, *row, raw);
                ranking.heap.push(entry);
            }
        }
        false
    }

    fn rank_all(
        &mut self,
        ranking: &mut Ranking,
        table: &NodeTable,
        twins: &mut NodeClasses,
        fence: Option<&NodeScope>,
    ) {
        *ranking = Ranking { read: ranking.read, ranked: table.log_end(), ..Ranking::default() };
        match fence {
            Some(fence) => self.rank_singly(ranking, table, fence.rows.iter().copied()),
            // Host ports in use differ per row, so no row can represent another.
            None if !self.unconstrained || !self.requests.ports.is_empty() || !twins.catch_up(table) => {
                self.rank_singly(ranking, table, table.nodes());
            }
            None => {
                self.rank_singly(ranking, table, twins.others());
                self.rank_sorts(ranking, table, twins);
            }
        }
    }

    fn rank_singly(&mut self, ranking: &mut Ranking, table: &NodeTable, rows: impl Iterator<Item = NodeRow>) {
        let looked = rows.filter_map(|row| match self.node_fit(table, row) {
            NodeFit::Yes(raw) => Some((row, raw)),
            NodeFit::No(_) => None,
        });
        let yes: Vec<(NodeRow, RawScore)> = looked.collect();
        ranking.top = yes.iter().fold(RawScore::default(), |top, (_, raw)| top.max(*raw));
        let fits = yes.into_iter().filter(|(row, _)| table.fits(*row, &self.requests));
        let entries: Vec<_> = fits.map(|(row, raw)| self.entry(ranking.top, table, row, raw)).collect();
        ranking.heap = BinaryHeap::from(entries);
    }

    /// Pushes one node of each node class: the others of the class have the same score.
    fn rank_sorts(&self, ranking: &mut Ranking, table: &NodeTable, twins: &NodeClasses) {
        for rows in twins.classes() {
            let Some(first) = rows.first().filter(|row| table.has_amounts(**row, &self.requests)) else {
                continue;
            };
            let (score, ..) = self.entry(ranking.top, table, *first, RawScore::default());
            ranking.push_sort(score, rows, table);
        }
    }

    fn entry(&self, top: RawScore, table: &NodeTable, row: NodeRow, raw: RawScore) -> Ranked {
        let score = raw.score(top) + score::amounts(table, row, self);
        (score::among_equals(score, table, row), Reverse(row), table.stamp(row), ALONE)
    }
}

/// Whether the maximum that raw scores are normalised by may have changed.
fn moves_top(before: Option<NodeFit>, after: NodeFit) -> bool {
    let raw = |verdict: NodeFit| if let NodeFit::Yes(raw) = verdict { raw } else { RawScore::default() };
    before.map(raw).unwrap_or_default() != raw(after)
}
