//! The quota tree: queues are leaves, cohorts stand above them, and every number lies in a flat array.
//!
//! A *pair* is one resource of one flavor. Amounts of node `n` and pair `p` lie at `n * pairs + p`, so that the
//! picture of one cycle is a copy of a few kilobytes and taking or giving back quota touches one path to the root.
//!
//! # Invariants
//!
//! - Children come before their parents in every sum: a tree that is not one (cohorts in a circle) is cut apart, and
//!   its queues are marked.
//! - `usage` of a cohort is what its children use beyond what they keep for themselves, always.
//! - Giving back what was taken restores every number on the path.

use std::collections::{BTreeMap, BTreeSet};

use muster_tree::Text;

use super::amount::{minus, plus};
use super::spec::{CohortSpec, Group, QueueSpec, UNLIMITED};

/// A node of the tree, by index.
pub type NodeId = usize;
/// A resource of a flavor, by index.
pub type PairId = usize;
/// What every node uses of every pair.
pub type Usage = Vec<i64>;

/// One queue or cohort.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: Text,
    /// The cohort above.
    pub parent: Option<NodeId>,
    /// What is below, queues before cohorts, each by name.
    pub children: Vec<NodeId>,
    /// 0 for queues; a cohort is one above its highest child.
    pub height: usize,
    /// The top of its tree; itself, if nothing is above.
    pub root: NodeId,
    /// Its weight among its siblings.
    pub weight: u64,
    /// Its cohorts are each other's parents.
    pub circular: bool,
}

/// Who is whose child, and what everyone owns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotaTree {
    /// Queues first, by name, then cohorts, by name.
    pub nodes: Vec<Node>,
    /// How many of the nodes are queues.
    pub queues: usize,
    /// Flavor and resource of each pair.
    pub pairs: Vec<(Text, Text)>,
    pair_ids: BTreeMap<(Text, Text), PairId>,
    queue_ids: BTreeMap<Text, NodeId>,
    nominal: Vec<i64>,
    borrowing: Vec<i64>,
    subtree: Vec<i64>,
    local: Vec<i64>,
    potential: Vec<i64>,
}

impl QuotaTree {
    /// The tree of these queues and cohorts; `in_use` are pairs that count although no spec names them any more.
    #[must_use]
    pub fn new(
        queues: &BTreeMap<Text, &QueueSpec>,
        cohorts: &BTreeMap<Text, CohortSpec>,
        in_use: &BTreeSet<(Text, Text)>,
    ) -> QuotaTree {
        let mut tree = QuotaTree { queues: queues.len(), ..QuotaTree::default() };
        tree.plant(queues, cohorts);
        let specs = queues.values().map(|q| &q.groups).chain(cohorts.values().map(|c| &c.groups));
        let named = specs.flatten().flat_map(|group| {
            let flavors = group.flavors.iter();
            flavors.flat_map(|(flavor, list)| list.keys().map(|name| (flavor.clone(), name.clone())))
        });
        let pairs: BTreeSet<(Text, Text)> = named.chain(in_use.iter().cloned()).collect();
        tree.pair_ids = pairs.iter().cloned().enumerate().map(|(id, pair)| (pair, id)).collect();
        tree.pairs = pairs.into_iter().collect();
        tree.endow(queues, cohorts);
        tree
    }

    /// Makes the nodes and hangs them below each other.
    fn plant(&mut self, queues: &BTreeMap<Text, &QueueSpec>, cohorts: &BTreeMap<Text, CohortSpec>) {
        let used = queues.values().filter_map(|queue| queue.cohort.clone());
        let parents = cohorts.values().filter_map(|cohort| cohort.parent.clone());
        let names: BTreeSet<Text> = cohorts.keys().cloned().chain(used).chain(parents).collect();
        let ids: BTreeMap<&Text, NodeId> =
            names.iter().enumerate().map(|(n, name)| (name, queues.len() + n)).collect();
        let node = |name: &Text, parent: Option<&Text>, weight| Node {
            name: name.clone(),
            parent: parent.map(|name| ids[name]),
            children: Vec::new(),
            height: 0,
            root: 0,
            weight,
            circular: false,
        };
        for (id, queue) in queues.values().enumerate() {
            self.queue_ids.insert(queue.name.clone(), id);
            self.nodes.push(node(&queue.name, queue.cohort.as_ref(), queue.weight));
        }
        for name in &names {
            let spec = cohorts.get(name);
            let weight = spec.map_or(super::spec::WEIGHT_ONE, |spec| spec.weight);
            self.nodes.push(node(name, spec.and_then(|spec| spec.parent.as_ref()), weight));
        }
        self.cut_circles();
        for id in 0..self.nodes.len() {
            if let Some(parent) = self.nodes[id].parent {
                self.nodes[parent].children.push(id);
            }
        }
        for id in self.children_first() {
            self.nodes[id].root = self.path(id).last().unwrap_or(id);
            if let Some(parent) = self.nodes[id].parent {
                self.nodes[parent].height = self.nodes[parent].height.max(self.nodes[id].height + 1);
            }
        }
    }

    /// Cohorts that never reach a root stand alone; whoever is below them is marked.
    fn cut_circles(&mut self) {
        let circular: Vec<bool> =
            (0..self.nodes.len()).map(|id| self.path(id).nth(self.nodes.len()).is_some()).collect();
        for (node, circular) in self.nodes.iter_mut().zip(circular) {
            node.circular = circular;
        }
        for node in self.nodes.iter_mut().skip(self.queues).filter(|node| node.circular) {
            node.parent = None;
        }
    }

    fn children_first(&self) -> Vec<NodeId> {
        let mut ids: Vec<NodeId> = (0..self.nodes.len()).collect();
        ids.sort_by_key(|&id| std::cmp::Reverse(self.path(id).count()));
        ids
    }

    /// Fills in what everyone owns, keeps, shows its parent and could get at best.
    fn endow(&mut self, queues: &BTreeMap<Text, &QueueSpec>, cohorts: &BTreeMap<Text, CohortSpec>) {
        let cells = self.nodes.len() * self.pairs.len();
        self.nominal = vec![0; cells];
        self.borrowing = vec![UNLIMITED; cells];
        let mut lending = vec![UNLIMITED; cells];
        for id in 0..self.nodes.len() {
            let name = &self.nodes[id].name;
            let groups: &[Group] = if id < self.queues {
                &queues[name].groups
            } else {
                cohorts.get(name).map_or(&[], |cohort| &cohort.groups)
            };
            for (flavor, quotas) in groups.iter().flat_map(|group| &group.flavors) {
                for (resource, quota) in quotas {
                    let cell = self.cell(id, self.pair_ids[&(flavor.clone(), resource.clone())]);
                    self.nominal[cell] = quota.nominal;
                    self.borrowing[cell] = quota.borrowing.unwrap_or(UNLIMITED);
                    lending[cell] = quota.lending.unwrap_or(UNLIMITED);
                }
            }
        }
        self.sum_up(&lending);
    }

    fn sum_up(&mut self, lending: &[i64]) {
        self.subtree = self.nominal.clone();
        self.local = vec![0; self.nominal.len()];
        self.potential = vec![0; self.nominal.len()];
        let order = self.children_first();
        for &id in &order {
            for pair in 0..self.pairs.len() {
                let cell = self.cell(id, pair);
                if lending[cell] != UNLIMITED {
                    self.local[cell] = minus(self.subtree[cell], lending[cell]).max(0);
                }
                if let Some(parent) = self.nodes[id].parent {
                    let above = self.cell(parent, pair);
                    self.subtree[above] = plus(self.subtree[above], self.shown(cell));
                }
            }
        }
        for &id in order.iter().rev() {
            for pair in 0..self.pairs.len() {
                let cell = self.cell(id, pair);
                self.potential[cell] = match self.nodes[id].parent {
                    None => self.subtree[cell],
                    Some(parent) => plus(self.subtree[cell], self.borrowing[cell])
                        .min(plus(self.local[cell], self.potential[self.cell(parent, pair)])),
                };
            }
        }
    }

    fn cell(&self, node: NodeId, pair: PairId) -> usize {
        node * self.pairs.len() + pair
    }

    /// What of a node's quota its parent may count with.
    fn shown(&self, cell: usize) -> i64 {
        if self.local[cell] == UNLIMITED { 0 } else { minus(self.subtree[cell], self.local[cell]) }
    }

    /// Usage of nothing by nobody.
    #[must_use]
    pub fn unused(&self) -> Usage {
        vec![0; self.nodes.len() * self.pairs.len()]
    }

    /// The node of a queue.
    #[must_use]
    pub fn queue(&self, name: &str) -> Option<NodeId> {
        self.queue_ids.get(name).copied()
    }

    /// The pair of a flavor and a resource.
    #[must_use]
    pub fn pair(&self, flavor: &Text, resource: &Text) -> Option<PairId> {
        self.pair_ids.get(&(flavor.clone(), resource.clone())).copied()
    }

    /// The nodes above one, lowest first.
    pub fn path(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::successors(self.nodes[node].parent, |&id| self.nodes[id].parent)
    }

    /// The queues of the tree below a root.
    pub fn queues_below(&self, node: NodeId) -> Vec<NodeId> {
        let mut found = Vec::new();
        let mut left = vec![node];
        while let Some(id) = left.pop() {
            if id < self.queues {
                found.push(id);
            }
            left.extend(&self.nodes[id].children);
        }
        found.sort_unstable();
        found
    }

    /// `/<cohorts>/<queue>`, from the top.
    #[must_use]
    pub fn path_text(&self, node: NodeId) -> String {
        let mut names: Vec<&str> =
            std::iter::once(node).chain(self.path(node)).map(|id| self.nodes[id].name.as_str()).collect();
        names.reverse();
        format!("/{}", names.join("/"))
    }

    /// What a node owns itself.
    #[must_use]
    pub fn nominal(&self, node: NodeId, pair: PairId) -> i64 {
        self.nominal[self.cell(node, pair)]
    }

    /// How much more than its own a node may use; [`UNLIMITED`] if nothing is said.
    #[must_use]
    pub fn borrowing_limit(&self, node: NodeId, pair: PairId) -> i64 {
        self.borrowing[self.cell(node, pair)]
    }

    /// What a node and all below it own, as far as it is lent to each other.
    #[must_use]
    pub fn subtree_quota(&self, node: NodeId, pair: PairId) -> i64 {
        self.subtree[self.cell(node, pair)]
    }

    /// The part of it that the rest of the tree never sees.
    #[must_use]
    pub fn local_quota(&self, node: NodeId, pair: PairId) -> i64 {
        self.local[self.cell(node, pair)]
    }

    /// What a node could use if nobody else used anything.
    #[must_use]
    pub fn potential(&self, node: NodeId, pair: PairId) -> i64 {
        self.potential[self.cell(node, pair)]
    }

    /// What a node uses.
    #[must_use]
    pub fn used(&self, usage: &Usage, node: NodeId, pair: PairId) -> i64 {
        usage[self.cell(node, pair)]
    }

    /// What is left of the part that nobody else sees.
    #[must_use]
    pub fn local_available(&self, usage: &Usage, node: NodeId, pair: PairId) -> i64 {
        let cell = self.cell(node, pair);
        minus(self.local[cell], usage[cell]).max(0)
    }

    /// What a node may take now; below zero where quota was cut under the feet of its users.
    #[must_use]
    pub fn available(&self, usage: &Usage, node: NodeId, pair: PairId) -> i64 {
        let cell = self.cell(node, pair);
        let Some(parent) = self.nodes[node].parent else {
            return minus(self.subtree[cell], usage[cell]);
        };
        let mut above = self.available(usage, parent, pair);
        if self.borrowing[cell] != UNLIMITED {
            let taken = minus(usage[cell], self.local[cell]).max(0);
            above = above.min(plus(minus(self.shown(cell), taken), self.borrowing[cell]));
        }
        plus(self.local_available(usage, node, pair), above)
    }

    /// Whether a node uses more than its own once it uses this much more.
    #[must_use]
    pub fn borrows_with(&self, usage: &Usage, node: NodeId, pair: PairId, more: i64) -> bool {
        let cell = self.cell(node, pair);
        plus(usage[cell], more) > self.subtree[cell]
    }

    /// Whether a node is within its own on all of these pairs.
    #[must_use]
    pub fn within_own(&self, usage: &Usage, node: NodeId, pairs: &[PairId]) -> bool {
        !pairs.iter().any(|&pair| self.borrows_with(usage, node, pair, 0))
    }

    /// Takes quota: what the node does not keep for itself is taken from its parent.
    pub fn take(&self, usage: &mut Usage, node: NodeId, pair: PairId, amount: i64) {
        let beyond = minus(amount, self.local_available(usage, node, pair));
        let cell = self.cell(node, pair);
        usage[cell] = plus(usage[cell], amount);
        if let Some(parent) = self.nodes[node].parent
            && beyond > 0
        {
            self.take(usage, parent, pair, beyond);
        }
    }

    /// Gives quota back: what was taken from the parent goes back first.
    pub fn give_back(&self, usage: &mut Usage, node: NodeId, pair: PairId, amount: i64) {
        let cell = self.cell(node, pair);
        let from_parent = minus(usage[cell], self.local[cell]);
        usage[cell] = usage[cell].saturating_sub(amount);
        if let Some(parent) = self.nodes[node].parent
            && from_parent > 0
        {
            self.give_back(usage, parent, pair, amount.min(from_parent));
        }
    }

    /// How high a node must reach to take this much: 0 within its own, else the height of the lowest cohort that has
    /// it. Also whether that is below the root, so that the rest of the tree may have taken what is due to it.
    #[must_use]
    pub fn reach(&self, usage: &Usage, node: NodeId, pair: PairId, amount: i64) -> (usize, bool) {
        if self.nodes[node].parent.is_none() {
            return (0, false);
        }
        if !self.borrows_with(usage, node, pair, amount) {
            return (0, true);
        }
        let mut left = minus(amount, self.local_available(usage, node, pair));
        for id in self.path(node) {
            if !self.borrows_with(usage, id, pair, left) {
                return (self.nodes[id].height, self.nodes[id].parent.is_some());
            }
            left = minus(left, self.local_available(usage, id, pair));
        }
        (self.nodes[self.nodes[node].root].height, false)
    }
}
