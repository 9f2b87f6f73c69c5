//! Nodes as rows of dense arrays.
//!
//! # Invariants
//!
//! - `used` is what the pods on a row's list ask for. It may exceed `allocatable`: a node may shrink.
//! - A row without facts is a place that pods name but nobody told us of: nothing is put there, and its pods are
//!   charged so that the node, when it comes, is as full as it is.
//! - A row's stamp changes whenever something about it changes, and the change log names the row.

use std::collections::HashMap;

use muster_api::node::NodeFacts;
use muster_tree::{Text, literal};

use crate::request::{Port, Request};

/// A node, as the number of its row.
pub type Row = u32;

/// Number of the resource `cpu`.
pub const CPU: usize = 0;
/// Number of the resource `memory`.
pub const MEMORY: usize = 1;
/// Number of the resource `pods`.
pub const PODS: usize = 2;

/// Entries the change log keeps per node, at most; who lags further behind starts anew.
const LOG_PER_NODE_MAX: usize = 4;
/// Entries it keeps in any case.
const LOG_MIN: usize = 4096;

/// What a class of pods takes, by number of resource.
#[derive(Debug, Clone, Default)]
pub struct Asks {
    /// Resource and amount.
    pub amounts: Vec<(usize, i64)>,
    /// CPU and memory as scores see them.
    pub scored: [i64; 2],
    /// Ports of the host.
    pub ports: Vec<Port>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    NoNode,
    Node,
    PlainNode,
}

/// All nodes.
#[derive(Debug)]
pub struct Table {
    index: HashMap<Text, Row>,
    names: Vec<Text>,
    facts: Vec<Option<NodeFacts>>,
    /// Whether a row is a node, and one without taints or cordon: looked at far more often than the facts.
    looks: Vec<Look>,
    resources: Vec<Text>,
    /// What all nodes have, by resource.
    totals: Vec<i128>,
    /// By row and resource.
    allocatable: Vec<i64>,
    used: Vec<i64>,
    scored: Vec<[i64; 2]>,
    ports: Vec<Vec<Port>>,
    pods: Vec<Vec<u32>>,
    stamps: Vec<u32>,
    /// Where in the change log a row stands last.
    touched: Vec<u64>,
    /// Changes with the facts only.
    facts_stamps: Vec<u32>,
    free_rows: Vec<Row>,
    live: usize,
    log: Vec<Row>,
    log_start: u64,
}

impl Default for Table {
    fn default() -> Self {
        Table {
            index: HashMap::new(),
            names: Vec::new(),
            facts: Vec::new(),
            looks: Vec::new(),
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

impl Table {
    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.live
    }

    /// One more than the highest row.
    pub fn rows(&self) -> usize {
        self.facts.len()
    }

    /// The rows of nodes.
    pub fn nodes(&self) -> impl Iterator<Item = Row> + '_ {
        (0..).zip(&self.looks).filter(|(_, look)| **look != Look::NoNode).map(|(row, _)| row)
    }

    /// Whether a row is a node.
    pub fn is_node(&self, row: Row) -> bool {
        self.looks[row as usize] != Look::NoNode
    }

    /// Whether a row is a node without taints or cordon.
    pub fn is_plain(&self, row: Row) -> bool {
        self.looks[row as usize] == Look::PlainNode
    }

    /// The row of a name, made if need be.
    pub fn row(&mut self, name: &Text) -> Row {
        if let Some(row) = self.index.get(name) {
            return *row;
        }
        let row = self.free_rows.pop().unwrap_or_else(|| self.grow());
        self.names[row as usize] = name.clone();
        self.index.insert(name.clone(), row);
        row
    }

    /// The row of a node that is there.
    pub fn find(&self, name: &str) -> Option<Row> {
        self.index.get(name).copied().filter(|row| self.facts(*row).is_some())
    }

    /// The name of a row.
    pub fn name(&self, row: Row) -> &Text {
        &self.names[row as usize]
    }

    /// What is known of a node.
    pub fn facts(&self, row: Row) -> Option<&NodeFacts> {
        self.facts[row as usize].as_ref()
    }

    /// The pods on a node.
    pub fn pods(&self, row: Row) -> &[u32] {
        &self.pods[row as usize]
    }

    /// Changes with every change of the row.
    pub fn stamp(&self, row: Row) -> u32 {
        self.stamps[row as usize]
    }

    /// Whether a row is as it was when the change log ended there.
    pub fn is_as_at(&self, row: Row, log_end: u64) -> bool {
        self.touched[row as usize] < log_end
    }

    /// Changes with the facts of the row.
    pub fn facts_stamp(&self, row: Row) -> u32 {
        self.facts_stamps[row as usize]
    }

    /// Sets or forgets what is known of a node.
    pub fn set_facts(&mut self, row: Row, facts: Option<NodeFacts>) {
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
        self.looks[at] = match &facts {
            None => Look::NoNode,
            Some(facts) if facts.unschedulable || !facts.taints.is_empty() => Look::Node,
            Some(_) => Look::PlainNode,
        };
        self.facts[at] = facts;
        self.facts_stamps[at] = self.facts_stamps[at].wrapping_add(1);
        self.touch(row);
    }

    /// Forgets a row that nobody needs.
    pub fn sweep(&mut self, row: Row) {
        let at = row as usize;
        if self.facts[at].is_none()
            && self.pods[at].is_empty()
            && self.index.remove(&self.names[at]).is_some()
        {
            self.names[at] = Text::new();
            self.free_rows.push(row);
        }
    }

    /// What a request takes, by number of resource, the pod itself included.
    pub fn asks(&mut self, request: &Request) -> Asks {
        let amounts = request.amounts.iter().map(|(name, amount)| (self.resource(name), *amount));
        let mut amounts: Vec<(usize, i64)> = amounts.collect();
        amounts.push((PODS, 1));
        Asks { amounts, scored: request.scored, ports: request.ports.clone() }
    }

    /// Puts a pod on a row's list and charges it.
    pub fn put(&mut self, row: Row, pod: u32, asks: &Asks) {
        self.pods[row as usize].push(pod);
        self.charge(row, asks, 1);
        self.touch(row);
    }

    /// Takes a pod from a row's list and frees what it took.
    pub fn take_away(&mut self, row: Row, pod: u32, asks: &Asks) {
        let list = &mut self.pods[row as usize];
        let at = list.iter().rposition(|known| *known == pod).expect("a pod is where it was put");
        list.swap_remove(at);
        self.charge(row, asks, -1);
        self.touch(row);
    }

    /// Charges without anybody being told: for looking whether something would fit.
    pub fn charge(&mut self, row: Row, asks: &Asks, sign: i64) {
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

    /// Whether all amounts and ports are there.
    pub fn fits(&self, row: Row, asks: &Asks) -> bool {
        self.has_amounts(row, asks) && !self.ports_collide(row, asks)
    }

    /// Whether all amounts are there.
    pub fn has_amounts(&self, row: Row, asks: &Asks) -> bool {
        !asks.amounts.iter().any(|(resource, amount)| self.left(row, *resource) < *amount)
    }

    /// How many more pods that ask for this would fit, by amounts alone.
    pub fn room(&self, row: Row, asks: &Asks) -> i64 {
        let each = asks.amounts.iter().map(|(resource, amount)| self.left(row, *resource) / *amount);
        each.min().unwrap_or(0).max(0)
    }

    /// Whether a port is taken.
    pub fn ports_collide(&self, row: Row, asks: &Asks) -> bool {
        if asks.ports.is_empty() {
            return false;
        }
        let taken = &self.ports[row as usize];
        asks.ports.iter().any(|port| taken.iter().any(|other| other.collides(port)))
    }

    /// What is left of a resource.
    pub fn left(&self, row: Row, resource: usize) -> i64 {
        self.allocatable(row, resource) - self.used(row, resource)
    }

    /// What a node has of a resource.
    pub fn allocatable(&self, row: Row, resource: usize) -> i64 {
        self.allocatable[row as usize * self.resources.len() + resource]
    }

    /// What all nodes have of a resource.
    pub fn total(&self, resource: usize) -> i128 {
        self.totals[resource]
    }

    /// What the pods on a node ask for.
    pub fn used(&self, row: Row, resource: usize) -> i64 {
        self.used[row as usize * self.resources.len() + resource]
    }

    /// CPU and memory of a node's pods as scores see them.
    pub fn scored(&self, row: Row) -> [i64; 2] {
        self.scored[row as usize]
    }

    /// The name of a resource.
    pub fn resource_name(&self, resource: usize) -> &Text {
        &self.resources[resource]
    }

    /// All resources by number.
    pub fn resources(&self) -> &[Text] {
        &self.resources
    }

    /// Where the change log ends.
    pub fn log_end(&self) -> u64 {
        self.log_start + self.log.len() as u64
    }

    /// The rows changed since `from`; `None` when the log does not reach back so far.
    pub fn changed_since(&self, from: u64) -> Option<&[Row]> {
        let start = usize::try_from(from.checked_sub(self.log_start)?).ok()?;
        self.log.get(start..)
    }

    /// Notes that a row changed.
    pub fn touch(&mut self, row: Row) {
        self.stamps[row as usize] = self.stamps[row as usize].wrapping_add(1);
        if self.log.len() >= LOG_MIN.max(LOG_PER_NODE_MAX * self.facts.len()) {
            let half = self.log.len() / 2;
            self.log.drain(..half);
            self.log_start += half as u64;
        }
        self.touched[row as usize] = self.log_end();
        self.log.push(row);
    }

    /// The taken ports of a node, sorted.
    pub fn taken_ports(&self, row: Row) -> Vec<Port> {
        let mut ports = self.ports[row as usize].clone();
        ports.sort();
        ports
    }

    fn grow(&mut self) -> Row {
        let row = Row::try_from(self.facts.len()).expect("fewer nodes than 2^32");
        self.names.push(Text::new());
        self.facts.push(None);
        self.looks.push(Look::NoNode);
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

    /// The number of a resource; a new one widens all rows.
    fn resource(&mut self, name: &Text) -> usize {
        if let Some(at) = self.resources.iter().position(|known| known == name) {
            return at;
        }
        let old = self.resources.len();
        self.resources.push(name.clone());
        self.totals.push(0);
        for cells in [&mut self.allocatable, &mut self.used] {
            let wider = cells.chunks(old).flat_map(|row| row.iter().copied().chain([0]));
            *cells = wider.collect();
        }
        old
    }
}
