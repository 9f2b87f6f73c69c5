//! The node table: one row per Node in dense arrays, so that filter and score touch little memory.
//!
//! # Invariants
//!
//! - `used` is the sum of the requests of the pods on a row. It may exceed `allocatable`: a Node may shrink.
//! - A row without facts is a node name that pods are bound to but whose Node was not observed. No pod is scheduled
//!   there; its pods are charged so that the Node is as full as it is once it is observed.
//! - The stamp of a row changes with every change of the row, and the change log records the row.

use std::collections::HashMap;

use muster_api::node::NodeFacts;
use muster_tree::{Text, literal};

use crate::request::{HostPort, PodRequests};

/// Index of a node in the table.
pub type NodeRow = u32;

/// Index of the resource `cpu`; amounts are thousandths.
pub const CPU: usize = 0;
/// Index of the resource `memory`, in bytes.
pub const MEMORY: usize = 1;
/// Index of the resource `pods`.
pub const PODS: usize = 2;

/// Entries of the change log per node, at most. A reader that lags further behind rebuilds its ranking.
const LOG_PER_NODE_MAX: usize = 4;
/// Entries of the change log that are kept in a small cluster.
const LOG_MIN: usize = 4096;

/// The requests of an equivalence class, by resource index.
#[derive(Debug, Clone, Default)]
pub struct IndexedRequests {
    pub amounts: Vec<(usize, i64)>,
    /// CPU and memory for scoring: containers without requests count with defaults.
    pub scored: [i64; 2],
    /// Ports of the host.
    pub ports: Vec<HostPort>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowKind {
    NoNode,
    Node,
    PlainNode,
}

#[derive(Debug)]
pub struct NodeTable {
    index: HashMap<Text, NodeRow>,
    names: Vec<Text>,
    facts: Vec<Option<NodeFacts>>,
    /// Whether a row is a Node, and whether it has taints or a cordon: read far more often than the facts.
    row_kinds: Vec<RowKind>,
    resources: Vec<Text>,
    /// Allocatable of all nodes, by resource.
    totals: Vec<i128>,
    /// By row and resource.
    allocatable: Vec<i64>,
    used: Vec<i64>,
    scored: Vec<[i64; 2]>,
    ports: Vec<Vec<HostPort>>,
    pods: Vec<Vec<u32>>,
    stamps: Vec<u32>,
    /// Position of the last change of a row in the change log.
    touched: Vec<u64>,
    /// Changes with the Node only, not with its pods.
    facts_stamps: Vec<u32>,
    free_rows: Vec<NodeRow>,
    live: usize,
    log: Vec<NodeRow>,
    log_start: u64,
}

impl Default for NodeTable {
    fn default() -> Self {
        NodeTable {
            index: HashMap::new(),
            names: Vec::new(),
            facts: Vec::new(),
            row_kinds: Vec::new(),
            resources: vec![literal!("cpu"), literal!("memory"), literal!("pods")],
            totals: vec![0; 3],
            allocatable: Vec::new(),
            used: Vec::new(),
            scored: Vec::new(),
            ports: Vec::new(),
            pods: Vec::new(),
            stamps: Vec::new(),
            touched: Vec::new(),
            facts_stamps: Vec::new(),
            free_rows: Vec::new(),
            live: 0,
            log: Vec::new(),
            log_start: 0,
        }
    }
}

impl NodeTable {
    pub fn len(&self) -> usize {
        self.live
    }

    pub fn rows(&self) -> usize {
        self.facts.len()
    }

    /// The rows of observed Nodes.
    pub fn nodes(&self) -> impl Iterator<Item = NodeRow> + '_ {
        (0..).zip(&self.row_kinds).filter(|(_, look)| **look != RowKind::NoNode).map(|(row, _)| row)
    }

    pub fn is_node(&self, row: NodeRow) -> bool {
        self.row_kinds[row as usize] != RowKind::NoNode
    }

    /// Whether a row is a Node without taints and not cordoned.
    pub fn is_plain(&self, row: NodeRow) -> bool {
        self.row_kinds[row as usize] == RowKind::PlainNode
    }

    /// The row of a node name, added if it is new.
    pub fn row(&mut self, name: &Text) -> NodeRow {
        if let Some(row) = self.index.get(name) {
            return *row;
        }
        let row = self.free_rows.pop().unwrap_or_else(|| self.grow());
        self.names[row as usize] = name.clone();
        self.index.insert(name.clone(), row);
        row
    }

    /// The row of an observed Node.
    pub fn find(&self, name: &str) -> Option<NodeRow> {
        self.index.get(name).copied().filter(|row| self.facts(*row).is_some())
    }

    pub fn name(&self, row: NodeRow) -> &Text {
        &self.names[row as usize]
    }

    pub fn facts(&self, row: NodeRow) -> Option<&NodeFacts> {
        self.facts[row as usize].as_ref()
    }

    pub fn pods(&self, row: NodeRow) -> &[u32] {
        &self.pods[row as usize]
    }

    pub fn stamp(&self, row: NodeRow) -> u32 {
        self.stamps[row as usize]
    }

    /// Whether a row is unchanged since the change log ended at `log_end`.
    pub fn is_as_at(&self, row: NodeRow, log_end: u64) -> bool {
        self.touched[row as usize] < log_end
    }

    pub fn facts_stamp(&self, row: NodeRow) -> u32 {
        self.facts_stamps[row as usize]
    }

    /// Sets a Node; `None` deletes it.
    pub fn set_facts(&mut self, row: NodeRow, facts: Option<NodeFacts>) {
        let at = row as usize;
        self.live = self.live + usize::from(facts.is_some()) - usize::from(self.facts[at].is_some());
        let amounts = facts.as_ref().map(|facts| facts.allocatable.clone()).unwrap_or_default();
        let numbered: Vec<(usize, i64)> =
            amounts.iter().map(|(name, amount)| (self.resource(name), *amount)).collect();
        let width = self.resources.len();
        let cells = &mut self.allocatable[at * width..(at + 1) * width];
        for (total, cell) in self.totals.iter_mut().zip(cells.iter_mut()) {
            *total -= i128::from(std::mem::take(cell));
        }
        for (resource, amount) in numbered {
            self.totals[resource] += i128::from(amount) - i128::from(cells[resource]);
            cells[resource] = amount;
        }
        self.row_kinds[at] = match &facts {
            None => RowKind::NoNode,
            Some(facts) if facts.unschedulable || !facts.taints.is_empty() => RowKind::Node,
            Some(_) => RowKind::PlainNode,
        };
        self.facts[at] = facts;
        self.facts_stamps[at] = self.facts_stamps[at].wrapping_add(1);
        self.touch(row);
    }

    /// Frees a row without a Node and without pods.
    pub fn release_row(&mut self, row: NodeRow) {
        let at = row as usize;
        if self.facts[at].is_none()
            && self.pods[at].is_empty()
            && self.index.remove(&self.names[at]).is_some()
        {
            self.names[at] = Text::new();
            self.free_rows.push(row);
        }
    }

    /// Requests by resource index, with one of `pods`.
    pub fn index_requests(&mut self, request: &PodRequests) -> IndexedRequests {
        let amounts = request.amounts.iter().map(|(name, amount)| (self.resource(name), *amount));
        let mut amounts: Vec<(usize, i64)> = amounts.collect();
        amounts.push((PODS, 1));
        IndexedRequests { amounts, scored: request.scored, ports: request.ports.clone() }
    }

    pub fn add_pod(&mut self, row: NodeRow, pod: u32, asks: &IndexedRequests) {
        self.pods[row as usize].push(pod);
        self.charge(row, asks, 1);
        self.touch(row);
    }

    pub fn remove_pod(&mut self, row: NodeRow, pod: u32, asks: &IndexedRequests) {
        let list = &mut self.pods[row as usize];
        // From the end: a rollback removes the pod that was added last.
        let at = list.iter().rposition(|known| *known == pod).expect("a pod is where it was put");
        list.swap_remove(at);
        self.charge(row, asks, -1);
        self.touch(row);
    }

    /// Charges requests without a change log entry, for dry runs.
    pub fn charge(&mut self, row: NodeRow, asks: &IndexedRequests, sign: i64) {
        let at = row as usize;
        let width = self.resources.len();
        for (resource, amount) in &asks.amounts {
            self.used[at * width + resource] += sign * amount;
        }
        for (sum, amount) in self.scored[at].iter_mut().zip(asks.scored) {
            *sum += sign * amount;
        }
        if sign > 0 {
            self.ports[at].extend(asks.ports.iter().cloned());
        } else {
            for port in &asks.ports {
                let at_port = self.ports[at].iter().position(|known| known == port);
                self.ports[at].swap_remove(at_port.expect("a freed port was taken"));
            }
        }
    }

    pub fn fits(&self, row: NodeRow, asks: &IndexedRequests) -> bool {
        self.has_amounts(row, asks) && !self.ports_collide(row, asks)
    }

    pub fn has_amounts(&self, row: NodeRow, asks: &IndexedRequests) -> bool {
        !asks.amounts.iter().any(|(resource, amount)| self.left(row, *resource) < *amount)
    }

    /// How many more pods with these requests fit, host ports aside.
    pub fn capacity(&self, row: NodeRow, asks: &IndexedRequests) -> i64 {
        let each = asks.amounts.iter().map(|(resource, amount)| self.left(row, *resource) / *amount);
        each.min().unwrap_or(0).max(0)
    }

    pub fn ports_collide(&self, row: NodeRow, asks: &IndexedRequests) -> bool {
        if asks.ports.is_empty() {
            return false;
        }
        let taken = &self.ports[row as usize];
        asks.ports.iter().any(|port| taken.iter().any(|other| other.collides(port)))
    }

    /// Free amount of a resource; below zero if the node is overcommitted.
    pub fn left(&self, row: NodeRow, resource: usize) -> i64 {
        self.allocatable(row, resource) - self.used(row, resource)
    }

    pub fn allocatable(&self, row: NodeRow, resource: usize) -> i64 {
        self.allocatable[row as usize * self.resources.len() + resource]
    }

    pub fn total(&self, resource: usize) -> i128 {
        self.totals[resource]
    }

    pub fn used(&self, row: NodeRow, resource: usize) -> i64 {
        self.used[row as usize * self.resources.len() + resource]
    }

    pub fn scored(&self, row: NodeRow) -> [i64; 2] {
        self.scored[row as usize]
    }

    pub fn resource_name(&self, resource: usize) -> &Text {
        &self.resources[resource]
    }

    pub fn resources(&self) -> &[Text] {
        &self.resources
    }

    pub fn log_end(&self) -> u64 {
        self.log_start + self.log.len() as u64
    }

    /// The rows changed since `from`; `None` if the log was truncated past it.
    pub fn changed_since(&self, from: u64) -> Option<&[NodeRow]> {
        let start = usize::try_from(from.checked_sub(self.log_start)?).ok()?;
        self.log.get(start..)
    }

    /// Records that a row changed.
    pub fn touch(&mut self, row: NodeRow) {
        // A reused row keeps counting: a stale heap entry of the old node must not match.
        self.stamps[row as usize] = self.stamps[row as usize].wrapping_add(1);
        if self.log.len() >= LOG_MIN.max(LOG_PER_NODE_MAX * self.facts.len()) {
            // Readers that are further behind than the remaining half rebuild their ranking.
            let half = self.log.len() / 2;
            self.log.drain(..half);
            self.log_start += half as u64;
        }
        self.touched[row as usize] = self.log_end();
        self.log.push(row);
    }

    pub fn taken_ports(&self, row: NodeRow) -> Vec<HostPort> {
        let mut ports = self.ports[row as usize].clone();
        ports.sort();
        ports
    }

    fn grow(&mut self) -> NodeRow {
        let row = NodeRow::try_from(self.facts.len()).expect("fewer nodes than 2^32");
        self.names.push(Text::new());
        self.facts.push(None);
        self.row_kinds.push(RowKind::NoNode);
        let width = self.resources.len();
        self.allocatable.resize(self.allocatable.len() + width, 0);
        self.used.resize(self.used.len() + width, 0);
        self.scored.push([0, 0]);
        self.ports.push(Vec::new());
        self.pods.push(Vec::new());
        self.stamps.push(0);
        self.touched.push(0);
        self.facts_stamps.push(0);
        row
    }

    /// The index of a resource; a new resource widens all rows.
    fn resource(&mut self, name: &Text) -> usize {
        if let Some(at) = self.resources.iter().position(|known| known == name) {
            return at;
        }
        let old = self.resources.len();
        self.resources.push(name.clone());
        self.totals.push(0);
        for cells in [&mut self.allocatable, &mut self.used] {
            // Rare: resource names are few and appear once.
            let wider = cells.chunks(old).flat_map(|row| row.iter().copied().chain([0]));
            *cells = wider.collect();
        }
        old
    }
}
