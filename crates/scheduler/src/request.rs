//! What a pod takes of a node: amounts and ports.

use muster_api::paths::{container, container_port, pod};
use muster_api::pod_requests::{effective, is_sidecar};
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
        let mut plain = effective(tree, &[]);
        let defaults = [(literal!("cpu"), SCORED_CPU), (literal!("memory"), SCORED_MEMORY)];
        let scored = effective(tree, &defaults);
        plain.retain(|_, amount| *amount > 0);
        let amount = |name: &str| scored.get(name).copied().unwrap_or(0).min(AMOUNT_MAX);
        Request {
            amounts: plain.into_iter().map(|(name, amount)| (name, amount.min(AMOUNT_MAX))).collect(),
            scored: [amount("cpu"), amount("memory")],
            ports: ports(tree),
        }
    }
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
