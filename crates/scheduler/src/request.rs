//! Resource requests and host ports of a pod.

use muster_api::paths::{container, container_port, pod};
use muster_api::pod_requests::{effective, is_sidecar};
use muster_tree::{Text, Tree, literal};

/// kube-scheduler's `DefaultMilliCPURequest`: scores count it for a container without a CPU request.
const SCORED_CPU: i64 = 100;
/// kube-scheduler's `DefaultMemoryRequest`, in bytes.
const SCORED_MEMORY: i64 = 200 << 20;
/// Larger requests are clamped to this, so that no sum over the pods of a node overflows. No node has more.
const AMOUNT_MAX: i64 = i64::MAX >> 16;
/// Matches every host IP.
const ALL_ADDRESSES: Text = literal!("0.0.0.0");

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PodRequests {
    /// Amounts above zero by resource, without `pods`.
    pub amounts: Vec<(Text, i64)>,
    /// CPU and memory for scoring: containers without requests count with the defaults.
    pub scored: [i64; 2],
    pub ports: Vec<HostPort>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    number: i64,
    protocol: Text,
    address: Text,
}

impl HostPort {
    /// Whether both conflict on one node.
    #[must_use]
    pub fn collides(&self, other: &HostPort) -> bool {
        let all = |port: &HostPort| port.address == ALL_ADDRESSES;
        self.number == other.number
            && self.protocol == other.protocol
            && (all(self) || all(other) || self.address == other.address)
    }
}

impl PodRequests {
    #[must_use]
    pub fn of(tree: &Tree) -> PodRequests {
        let mut plain = effective(tree, &[]);
        let defaults = [(literal!("cpu"), SCORED_CPU), (literal!("memory"), SCORED_MEMORY)];
        let scored = effective(tree, &defaults);
        plain.retain(|_, amount| *amount > 0);
        let amount = |name: &str| scored.get(name).copied().unwrap_or(0).min(AMOUNT_MAX);
        PodRequests {
            amounts: plain.into_iter().map(|(name, amount)| (name, amount.min(AMOUNT_MAX))).collect(),
            scored: [amount("cpu"), amount("memory")],
            ports: ports(tree),
        }
    }
}

fn ports(tree: &Tree) -> Vec<HostPort> {
    let sidecars = tree.items_at(pod::INIT_CONTAINERS).iter().filter(|item| is_sidecar(item));
    let containers = sidecars.chain(tree.items_at(pod::CONTAINERS));
    let mut all: Vec<HostPort> =
        containers.flat_map(|item| item.items_at(container::PORTS)).filter_map(read_port).collect();
    all.sort();
    all.dedup();
    all
}

fn read_port(tree: &Tree) -> Option<HostPort> {
    let or = |text: Text, usual: Text| if text.is_empty() { usual } else { text };
    let number = tree.int_at(container_port::HOST_PORT).filter(|number| *number > 0)?;
    Some(HostPort {
        number,
        protocol: or(tree.text_at(container_port::PROTOCOL), literal!("TCP")),
        address: or(tree.text_at(container_port::HOST_IP), ALL_ADDRESSES),
    })
}
