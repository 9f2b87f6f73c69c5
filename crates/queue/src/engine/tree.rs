//! The quota tree: ClusterQueues are leaves, Cohorts are inner nodes, and all amounts are in flat arrays.
//!
//! It corresponds to Kueue's `resource_node`. A *flavor-resource* is one resource of one flavor. The amount of node
//! `n` and flavor-resource `fr` is at `n * flavor_resources + fr`, so a snapshot is a copy of a few kilobytes, and
//! adding or removing usage touches one path to the root.
//!
//! # Guarantees
//!
//! - Sums are computed bottom-up. Cycles among cohorts are cut first, and the ClusterQueues below are marked.
//! - The usage of a cohort is always the usage of its children beyond their local quota.
//! - Removing usage that was added restores every amount on the path.

use std::collections::{BTreeMap, BTreeSet};

use muster_tree::Text;

use super::amount::{minus, plus};
use super::spec::{ClusterQueueSpec, CohortSpec, ResourceGroupSpec, UNLIMITED};

/// Index of a node.
pub type QuotaNodeId = usize;
/// Index of a flavor-resource.
pub type FlavorResourceId = usize;
/// Usage of every node and flavor-resource.
pub type Usage = Vec<i64>;

/// A ClusterQueue or a Cohort.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaNode {
    pub name: Text,
    pub parent: Option<QuotaNodeId>,
    /// ClusterQueues before Cohorts, each by name.
    pub children: Vec<QuotaNodeId>,
    /// 0 for ClusterQueues; for a cohort one more than its highest child.
    pub height: usize,
    /// The root cohort; the node itself without a parent.
    pub root: QuotaNodeId,
    /// API field `fairSharing.weight` in billionths.
    pub weight: u64,
    /// Its ancestors form a cycle.
    pub in_cycle: bool,
}

/// Hierarchy and quotas of all ClusterQueues and Cohorts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotaTree {
    /// ClusterQueues by name, then Cohorts by name.
    pub nodes: Vec<QuotaNode>,
    /// The first so many nodes are ClusterQueues.
    pub cluster_queue_count: usize,
    pub flavor_resources: Vec<(Text, Text)>,
    pair_ids: BTreeMap<(Text, Text), FlavorResourceId>,
    queue_ids: BTreeMap<Text, QuotaNodeId>,
    nominal: Vec<i64>,
    borrowing: Vec<i64>,
    subtree: Vec<i64>,
    local: Vec<i64>,
    potential: Vec<i64>,
}

impl QuotaTree {
    /// Builds the tree. `in_use` are flavor-resources with usage that no spec names any more: they still have to be
    /// counted.
    #[must_use]
    pub fn new(
        queues: &BTreeMap<Text, &ClusterQueueSpec>,
        cohorts: &BTreeMap<Text, CohortSpec>,
        in_use: &BTreeSet<(Text, Text)>,
    ) -> QuotaTree {
        let mut tree = QuotaTree { cluster_queue_count: queues.len(), ..QuotaTree::default() };
        tree.build_nodes(queues, cohorts);
        let specs = queues.values().map(|q| &q.groups).chain(cohorts.values().map(|c| &c.groups));
        let named = specs.flatten().flat_map(|group| {
            let flavors = group.flavors.iter();
            flavors.flat_map(|(flavor, list)| list.keys().map(|name| (flavor.clone(), name.clone())))
        });
        let pairs: BTreeSet<(Text, Text)> = named.chain(in_use.iter().cloned()).collect();
        tree.pair_ids = pairs.iter().cloned().enumerate().map(|(id, pair)| (pair, id)).collect();
        tree.flavor_resources = pairs.into_iter().collect();
        tree.set_quotas(queues, cohorts);
        tree
    }

    /// Creates the nodes and links parents and children.
    fn build_nodes(
        &mut self,
        queues: &BTreeMap<Text, &ClusterQueueSpec>,
        cohorts: &BTreeMap<Text, CohortSpec>,
    ) {
        let used = queues.values().filter_map(|queue| queue.cohort.clone());
        let parents = cohorts.values().filter_map(|cohort| cohort.parent.clone());
        let names: BTreeSet<Text> = cohorts.keys().cloned().chain(used).chain(parents).collect();
        let ids: BTreeMap<&Text, QuotaNodeId> =
            names.iter().enumerate().map(|(n, name)| (name, queues.len() + n)).collect();
        let node = |name: &Text, parent: Option<&Text>, weight| QuotaNode {
            name: name.clone(),
            parent: parent.map(|name| ids[name]),
            children: Vec::new(),
            height: 0,
            root: 0,
            weight,
            in_cycle: false,
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
        self.detach_cycles();
        for id in 0..self.nodes.len() {
            if let Some(parent) = self.nodes[id].parent {
                self.nodes[parent].children.push(id);
            }
        }
        for id in self.bottom_up() {
            self.nodes[id].root = self.ancestors(id).last().unwrap_or(id);
            if let Some(parent) = self.nodes[id].parent {
                self.nodes[parent].height = self.nodes[parent].height.max(self.nodes[id].height + 1);
            }
        }
    }

    /// Makes cohorts without a path to a root their own roots, and marks everything below.
    fn detach_cycles(&mut self) {
        let circular: Vec<bool> =
            // A path longer than the number of nodes never reaches a root.
            (0..self.nodes.len()).map(|id| self.ancestors(id).nth(self.nodes.len()).is_some()).collect();
        for (node, circular) in self.nodes.iter_mut().zip(circular) {
            node.in_cycle = circular;
        }
        // Only cohorts are detached: a ClusterQueue below a cycle keeps its parent, so that its usage still counts
        // there.
        for node in self.nodes.iter_mut().skip(self.cluster_queue_count).filter(|node| node.in_cycle) {
            node.parent = None;
        }
    }

    fn bottom_up(&self) -> Vec<QuotaNodeId> {
        let mut ids: Vec<QuotaNodeId> = (0..self.nodes.len()).collect();
        ids.sort_by_key(|&id| std::cmp::Reverse(self.ancestors(id).count()));
        ids
    }

    /// Fills in nominal quotas and limits.
    fn set_quotas(
        &mut self,
        queues: &BTreeMap<Text, &ClusterQueueSpec>,
        cohorts: &BTreeMap<Text, CohortSpec>,
    ) {
        let cells = self.nodes.len() * self.flavor_resources.len();
        self.nominal = vec![0; cells];
        self.borrowing = vec![UNLIMITED; cells];
        let mut lending = vec![UNLIMITED; cells];
        for id in 0..self.nodes.len() {
            let name = &self.nodes[id].name;
            let groups: &[ResourceGroupSpec] = if id < self.cluster_queue_count {
                &queues[name].groups
            } else {
                cohorts.get(name).map_or(&[], |cohort| &cohort.groups)
            };
            for (flavor, quotas) in groups.iter().flat_map(|group| &group.flavors) {
                for (resource, quota) in quotas {
                    let cell = self.cell(id, self.pair_ids[&(flavor.clone(), resource.clone())]);
                    self.nominal[cell] = quota.nominal;
                    self.borrowing[cell] = quota.borrowing_limit.unwrap_or(UNLIMITED);
                    lending[cell] = quota.lending_limit.unwrap_or(UNLIMITED);
                }
            }
        }
        self.compute_subtree_quotas(&lending);
    }

    fn compute_subtree_quotas(&mut self, lending: &[i64]) {
        self.subtree = self.nominal.clone();
        self.local = vec![0; self.nominal.len()];
        self.potential = vec![0; self.nominal.len()];
        let order = self.bottom_up();
        for &id in &order {
            for pair in 0..self.flavor_resources.len() {
                let cell = self.cell(id, pair);
                // Without a lending limit everything is lendable and the local quota is 0.
                if lending[cell] != UNLIMITED {
                    self.local[cell] = minus(self.subtree[cell], lending[cell]).max(0);
                }
                if let Some(parent) = self.nodes[id].parent {
                    let parent_cell = self.cell(parent, pair);
                    self.subtree[parent_cell] = plus(self.subtree[parent_cell], self.lendable_quota(cell));
                }
            }
        }
        // Top-down: the potential of a node depends on its parent's.
        for &id in order.iter().rev() {
            for pair in 0..self.flavor_resources.len() {
                let cell = self.cell(id, pair);
                self.potential[cell] = match self.nodes[id].parent {
                    None => self.subtree[cell],
                    Some(parent) => plus(self.subtree[cell], self.borrowing[cell])
                        .min(plus(self.local[cell], self.potential[self.cell(parent, pair)])),
                };
            }
        }
    }

    fn cell(&self, node: QuotaNodeId, pair: FlavorResourceId) -> usize {
        node * self.flavor_resources.len() + pair
    }

    /// The part of a node's quota that its parent may lend to others.
    fn lendable_quota(&self, cell: usize) -> i64 {
        if self.local[cell] == UNLIMITED { 0 } else { minus(self.subtree[cell], self.local[cell]) }
    }

    #[must_use]
    pub fn zero_usage(&self) -> Usage {
        vec![0; self.nodes.len() * self.flavor_resources.len()]
    }

    /// The node of a queue.
    #[must_use]
    pub fn cluster_queue(&self, name: &str) -> Option<QuotaNodeId> {
        self.queue_ids.get(name).copied()
    }

    /// The pair of a flavor and a resource.
    #[must_use]
    pub fn flavor_resource(&self, flavor: &Text, resource: &Text) -> Option<FlavorResourceId> {
        self.pair_ids.get(&(flavor.clone(), resource.clone())).copied()
    }

    /// Ancestors of a node, nearest first.
    pub fn ancestors(&self, node: QuotaNodeId) -> impl Iterator<Item = QuotaNodeId> + '_ {
        std::iter::successors(self.nodes[node].parent, |&id| self.nodes[id].parent)
    }

    pub fn subtree_cluster_queues(&self, node: QuotaNodeId) -> Vec<QuotaNodeId> {
        let mut found = Vec::new();
        let mut left = vec![node];
        while let Some(id) = left.pop() {
            if id < self.cluster_queue_count {
                found.push(id);
            }
            left.extend(&self.nodes[id].children);
        }
        found.sort_unstable();
        found
    }

    /// `/<cohorts>/<ClusterQueue>` from the root, as preemption messages print it.
    #[must_use]
    pub fn path_text(&self, node: QuotaNodeId) -> String {
        let mut names: Vec<&str> = std::iter::once(node)
            .chain(self.ancestors(node))
            .map(|id| self.nodes[id].name.as_str())
            .collect();
        names.reverse();
        format!("/{}", names.join("/"))
    }

    /// The nominal quota of a node's own spec.
    #[must_use]
    pub fn nominal(&self, node: QuotaNodeId, pair: FlavorResourceId) -> i64 {
        self.nominal[self.cell(node, pair)]
    }

    /// [`UNLIMITED`] if no limit is set.
    #[must_use]
    pub fn borrowing_limit(&self, node: QuotaNodeId, pair: FlavorResourceId) -> i64 {
        self.borrowing[self.cell(node, pair)]
    }

    /// Nominal quota of the node plus the lendable quota of its children.
    #[must_use]
    pub fn subtree_quota(&self, node: QuotaNodeId, pair: FlavorResourceId) -> i64 {
        self.subtree[self.cell(node, pair)]
    }

    /// Quota beyond the lending limit: never available to the rest of the cohort.
    #[must_use]
    pub fn local_quota(&self, node: QuotaNodeId, pair: FlavorResourceId) -> i64 {
        self.local[self.cell(node, pair)]
    }

    /// The most a node could use in an otherwise empty tree, within its borrowing limits.
    #[must_use]
    pub fn potential_available(&self, node: QuotaNodeId, pair: FlavorResourceId) -> i64 {
        self.potential[self.cell(node, pair)]
    }

    #[must_use]
    pub fn used(&self, usage: &Usage, node: QuotaNodeId, pair: FlavorResourceId) -> i64 {
        usage[self.cell(node, pair)]
    }

    #[must_use]
    pub fn local_available(&self, usage: &Usage, node: QuotaNodeId, pair: FlavorResourceId) -> i64 {
        let cell = self.cell(node, pair);
        minus(self.local[cell], usage[cell]).max(0)
    }

    /// Quota available now; negative where quota was reduced below usage.
    #[must_use]
    pub fn available(&self, usage: &Usage, node: QuotaNodeId, pair: FlavorResourceId) -> i64 {
        let cell = self.cell(node, pair);
        let Some(parent) = self.nodes[node].parent else {
            return minus(self.subtree[cell], usage[cell]);
        };
        let mut parent_available = self.available(usage, parent, pair);
        // The borrowing limit is counted from the lendable quota, less what the node already takes beyond its local
        // quota.
        if self.borrowing[cell] != UNLIMITED {
            let beyond_local = minus(usage[cell], self.local[cell]).max(0);
            parent_available = parent_available
                .min(plus(minus(self.lendable_quota(cell), beyond_local), self.borrowing[cell]));
        }
        plus(self.local_available(usage, node, pair), parent_available)
    }

    /// Whether the node's usage exceeds its subtree quota after adding `more`.
    #[must_use]
    pub fn is_borrowing_with(
        &self,
        usage: &Usage,
        node: QuotaNodeId,
        pair: FlavorResourceId,
        more: i64,
    ) -> bool {
        let cell = self.cell(node, pair);
        plus(usage[cell], more) > self.subtree[cell]
    }

    /// Whether the node borrows none of these flavor-resources.
    #[must_use]
    pub fn is_within_nominal(&self, usage: &Usage, node: QuotaNodeId, pairs: &[FlavorResourceId]) -> bool {
        !pairs.iter().any(|&pair| self.is_borrowing_with(usage, node, pair, 0))
    }

    /// Adds usage. Usage beyond the local quota also counts in the parent.
    pub fn add_usage(&self, usage: &mut Usage, node: QuotaNodeId, pair: FlavorResourceId, amount: i64) {
        // Only usage beyond the local quota reaches the parent.
        let beyond = minus(amount, self.local_available(usage, node, pair));
        let cell = self.cell(node, pair);
        usage[cell] = plus(usage[cell], amount);
        if let Some(parent) = self.nodes[node].parent
            && beyond > 0
        {
            self.add_usage(usage, parent, pair, beyond);
        }
    }

    /// Removes usage; the part that counted in the parent is removed there first.
    pub fn remove_usage(&self, usage: &mut Usage, node: QuotaNodeId, pair: FlavorResourceId, amount: i64) {
        let cell = self.cell(node, pair);
        // The inverse of adding: the last usage added was the first to go beyond the local quota.
        let from_parent = minus(usage[cell], self.local[cell]);
        usage[cell] = usage[cell].saturating_sub(amount);
        if let Some(parent) = self.nodes[node].parent
            && from_parent > 0
        {
            self.remove_usage(usage, parent, pair, amount.min(from_parent));
        }
    }

    /// The height of the lowest subtree that can hold this usage: 0 without borrowing. Also whether that subtree is
    /// below the
    /// root: then usage by the rest of the tree can be reclaimed (Kueue's `FindHeightOfLowestSubtreeThatFits`).
    #[must_use]
    pub fn lowest_fitting_height(
        &self,
        usage: &Usage,
        node: QuotaNodeId,
        pair: FlavorResourceId,
        amount: i64,
    ) -> (usize, bool) {
        if self.nodes[node].parent.is_none() {
            return (0, false);
        }
        if !self.is_borrowing_with(usage, node, pair, amount) {
            return (0, true);
        }
        let mut left = minus(amount, self.local_available(usage, node, pair));
        for id in self.ancestors(node) {
            if !self.is_borrowing_with(usage, id, pair, left) {
                return (self.nodes[id].height, self.nodes[id].parent.is_some());
            }
            left = minus(left, self.local_available(usage, id, pair));
        }
        (self.nodes[self.nodes[node].root].height, false)
    }
}
