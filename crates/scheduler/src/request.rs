//! What a pod takes of a node: amounts and ports.

use std::collections::BTreeMap;

use muster_api::node::amounts;
use muster_api::paths::{container, container_port, pod};
use muster_tree::{Text, Tree, literal};

/// What a container without a request of its own counts for when nodes are compared: thousandths of a CPU.
const SCORED_CPU: i64 = 100;
/// The same for memory, in bytes.
const SCORED_MEMORY: i64 = 200 << 20;
/// No node has more: larger requests are taken for this much, so that no sum over the pods of a node can overflow.
const AMOUNT_MAX: i64 = i64::MAX >> 16;
/// The address that stands for all addresses.
const ALL_ADDRESSES: Text = literal!("0.0.0.0");

/// What a pod takes of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Request {
    /// Amounts above zero, by resource, the pod itself not counted.
    pub amounts: Vec<(Text, i64)>,
    /// CPU and memory as scores see them: containers without requests count too.
    pub scored: [i64; 2],
    /// Ports of the host.
    pub ports: Vec<Port>,
}

/// A port of the host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port {
    number: i64,
    protocol: Text,
    address: Text,
}

impl Port {
    /// Whether both cannot be had on one host.
    #[must_use]
    pub fn collides(&self, other: &Port) -> bool {
        let all = |port: &Port| port.address == ALL_ADDRESSES;
        self.number == other.number
            && self.protocol == other.protocol
            && (all(self) || all(other) || self.address == other.address)
    }
}

impl Request {
    /// Reads a Pod.
    #[must_use]
    pub fn of(tree: &Tree) -> Request {
        let mut plain = sum(tree, &[]);
        let defaults = [(literal!("cpu"), SCORED_CPU), (literal!("memory"), SCORED_MEMORY)];
        let scored = sum(tree, &defaults);
        plain.retain(|_, amount| *amount > 0);
        let amount = |name: &str| scored.get(name).copied().unwrap_or(0).min(AMOUNT_MAX);
        Request {
            amounts: plain.into_iter().map(|(name, amount)| (name, amount.min(AMOUNT_MAX))).collect(),
            scored: [amount("cpu"), amount("memory")],
            ports: ports(tree),
        }
    }
}

/// Containers and sidecars together, or the greediest moment of the start; what the pod asks for as a whole
/// stands instead of that; overhead comes on top.
fn sum(tree: &Tree, defaults: &[(Text, i64)]) -> BTreeMap<Text, i64> {
    let mut running: BTreeMap<Text, i64> = BTreeMap::new();
    let mut peak: BTreeMap<Text, i64> = BTreeMap::new();
    for item in tree.items_at(pod::INIT_CONTAINERS) {
        for (name, amount) in asked(item, defaults) {
            let so_far = running.entry(name.clone()).or_default();
            let moment = peak.entry(name).or_default();
            *moment = (*moment).max(so_far.saturating_add(amount));
            *so_far = so_far.saturating_add(if is_sidecar(item) { amount } else { 0 });
        }
    }
    for item in tree.items_at(pod::CONTAINERS) {
        for (name, amount) in asked(item, defaults) {
            let so_far = running.entry(name).or_default();
            *so_far = so_far.saturating_add(amount);
        }
    }
    for (name, amount) in peak {
        let sum = running.entry(name).or_default();
        *sum = (*sum).max(amount);
    }
    for (name, amount) in amounts(tree.entries_at(pod::REQUESTS)) {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            running.insert(name, amount);
        }
    }
    for (name, amount) in amounts(tree.entries_at(pod::OVERHEAD)) {
        let so_far = running.entry(name).or_default();
        *so_far = so_far.saturating_add(amount);
    }
    running
}

fn asked(item: &Tree, defaults: &[(Text, i64)]) -> Vec<(Text, i64)> {
    let mut all = amounts(item.entries_at(container::REQUESTS));
    let missing = |(name, _): &&(Text, i64)| all.iter().all(|(known, _)| known != name);
    let missing: Vec<(Text, i64)> = defaults.iter().filter(missing).cloned().collect();
    all.extend(missing);
    all
}

fn is_sidecar(item: &Tree) -> bool {
    item.str_at(container::RESTART_POLICY) == "Always"
}

fn ports(tree: &Tree) -> Vec<Port> {
    let sidecars = tree.items_at(pod::INIT_CONTAINERS).iter().filter(|item| is_sidecar(item));
    let containers = sidecars.chain(tree.items_at(pod::CONTAINERS));
    let mut all: Vec<Port> =
        containers.flat_map(|item| item.items_at(container::PORTS)).filter_map(read_port).collect();
    all.sort();
    all.dedup();
    all
}

fn read_port(tree: &Tree) -> Option<Port> {
    let or = |text: Text, usual: Text| if text.is_empty() { usual } else { text };
    let number = tree.int_at(container_port::HOST_PORT).filter(|number| *number > 0)?;
    Some(Port {
        number,
        protocol: or(tree.text_at(container_port::PROTOCOL), literal!("TCP")),
        address: or(tree.text_at(container_port::HOST_IP), ALL_ADDRESSES),
    })
}
