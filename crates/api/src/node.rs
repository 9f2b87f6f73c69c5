//! Nodes: what the scheduler reads of them, and how a node is made.

use muster_tree::{Text, Tree, tree};

use crate::condition::{self, Wanted};
use crate::paths::{node as path, taint};
use crate::quantity;
use crate::time::Time;
use crate::words::{annotations, conditions, labels, reasons};
use crate::{meta, pod};

/// What a taint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// No new pods.
    NoSchedule,
    /// Better no new pods.
    PreferNoSchedule,
    /// No new pods, and the old ones go.
    NoExecute,
}

impl Effect {
    /// Reads the word.
    #[must_use]
    pub fn of(word: &str) -> Option<Effect> {
        match word {
            "NoSchedule" => Some(Effect::NoSchedule),
            "PreferNoSchedule" => Some(Effect::PreferNoSchedule),
            "NoExecute" => Some(Effect::NoExecute),
            _ => None,
        }
    }
}

/// One taint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Taint {
    /// Key.
    pub key: Text,
    /// Value.
    pub value: Text,
    /// Effect.
    pub effect: Effect,
}

/// What the scheduler reads of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    /// Name.
    pub name: Text,
    /// Labels, sorted.
    pub labels: Vec<(Text, Text)>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// What pods may take, by resource, in the unit of [`amount`].
    pub allocatable: Vec<(Text, i64)>,
}

impl NodeFacts {
    /// Reads a Node.
    #[must_use]
    pub fn of(node: &Tree) -> NodeFacts {
        let labels = pod::labels_of(node).map(Tree::entries).unwrap_or_default().iter();
        let taints = node.items_at(path::TAINTS).iter();
        NodeFacts {
            name: meta::name(node),
            labels: labels.filter_map(|(k, v)| Some((k.clone(), v.as_text()?.clone()))).collect(),
            taints: taints.filter_map(read_taint).collect(),
            unschedulable: node.bool_at(path::UNSCHEDULABLE) == Some(true),
            allocatable: capacities(node.entries_at(path::ALLOCATABLE)),
        }
    }
}

/// Reads a taint; `None` for an effect that is not known.
#[must_use]
pub fn read_taint(tree: &Tree) -> Option<Taint> {
    let effect = Effect::of(tree.str_at(taint::EFFECT))?;
    Some(Taint { key: tree.text_at(taint::KEY), value: tree.text_at(taint::VALUE), effect })
}

/// Amounts that are asked for: thousandths of `cpu`, whole units of everything else. A value that is no quantity counts
/// as the most there can be, so that nothing is given for it.
#[must_use]
pub fn amounts(entries: &[(Text, Tree)]) -> Vec<(Text, i64)> {
    entries.iter().map(|(name, value)| (name.clone(), amount(name, value).unwrap_or(i64::MAX))).collect()
}

/// Amounts that there are, in the same units. A value that is no quantity is left out.
#[must_use]
pub fn capacities(entries: &[(Text, Tree)]) -> Vec<(Text, i64)> {
    entries.iter().filter_map(|(name, value)| Some((name.clone(), amount(name, value)?))).collect()
}

/// One amount; numbers and text are both quantities. `None` for what is no quantity.
#[must_use]
pub fn amount(resource: &str, value: &Tree) -> Option<i64> {
    let read = if resource == "cpu" { quantity::milli } else { quantity::whole };
    read(&quantity::text(value))
}

/// The mark of whoever simulates a node; `None` for a node that nobody simulates.
#[must_use]
pub fn simulator(node: &Tree) -> Option<&str> {
    meta::annotation(node, annotations::SIM_NODE)
}

/// A merge patch that makes a node the one of this simulator.
#[must_use]
pub fn simulated_by(mark: &str) -> Tree {
    tree!({"metadata": {"annotations": Tree::map([(annotations::SIM_NODE, mark)])}})
}

/// The mark of the machine that a node is; `None` for a node that is none of ours.
#[must_use]
pub fn machine_mark(node: &Tree) -> Option<&str> {
    meta::annotation(node, annotations::LOCAL_NODE)
}

/// The mark of whoever plays a node's kubelet, of those we know: a machine of ours or a simulator.
#[must_use]
pub fn player(node: &Tree) -> Option<&str> {
    machine_mark(node).or_else(|| simulator(node))
}

/// A merge patch that makes a node the one of this machine, simulated no longer.
#[must_use]
pub fn run_by(mark: &str) -> Tree {
    let marks = [(annotations::LOCAL_NODE, Tree::from(mark)), (annotations::SIM_NODE, Tree::Null)];
    tree!({"metadata": {"annotations": Tree::map(marks)}})
}

/// The host that a node says it is; its name where it does not say.
#[must_use]
pub fn host(node: &Tree) -> Text {
    let labels = pod::labels_of(node).and_then(|labels| labels.get(labels::HOSTNAME));
    labels.and_then(Tree::as_text).cloned().unwrap_or_else(|| meta::name(node))
}

/// The node with the label of its host, as a kubelet sets it.
#[must_use]
pub fn with_host(node: &Tree) -> Tree {
    node.with(&["metadata", "labels", labels::HOSTNAME], host(node))
}

/// A node called `name` with this capacity.
#[must_use]
pub fn simulated(name: &Text, capacity: &Tree) -> Tree {
    tree!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name,
            "labels": Tree::map([(labels::HOSTNAME, Tree::from(name)), (labels::OS, Tree::from("linux")),
                (labels::ARCH, Tree::from("amd64"))])},
        "spec": {},
        "status": {"capacity": capacity, "allocatable": capacity}})
}

/// What a kubelet tells of its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// What there is, by resource.
    pub capacity: Tree,
    /// The node's address.
    pub address: Text,
    /// Where its kubelet answers, if it does.
    pub port: Option<u16>,
    /// The processor, as Go spells it.
    pub arch: Text,
    /// Kernel version.
    pub kernel: Text,
    /// Name of the system.
    pub system: Text,
    /// What runs containers, as `name://version`.
    pub runtime: Text,
    /// Abilities that the API server asks for by name.
    pub features: Vec<Text>,
    /// Further conditions: type, whether it holds, reason and message.
    pub conditions: Vec<(Text, bool, Text, Text)>,
}

impl Machine {
    /// A machine that does not exist.
    #[must_use]
    pub fn simulated(capacity: Tree, address: &str) -> Machine {
        Machine {
            capacity,
            address: address.into(),
            port: None,
            arch: "amd64".into(),
            kernel: Text::new(),
            system: "simulated".into(),
            runtime: "muster-sim://1".into(),
            features: Vec::new(),
            conditions: Vec::new(),
        }
    }

    /// The status a kubelet gives its node: ready, with all there is for pods.
    #[must_use]
    pub fn ready_status(&self, node: &Tree, now: Time) -> Tree {
        let capacity = &self.capacity;
        let allocatable = node.at(path::ALLOCATABLE).filter(|tree| !tree.is_empty()).unwrap_or(capacity);
        let mut all = node.items_at(path::CONDITIONS).to_vec();
        for (kind, holds, reason, message) in [
            (
                "MemoryPressure",
                false,
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
            ("DiskPressure", false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            ("PIDPressure", false, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            (conditions::READY, true, reasons::KUBELET_READY, "kubelet is posting ready status"),
        ] {
            condition::set(&mut all, &Wanted { kind, holds, reason, message }, now);
        }
        for (kind, holds, reason, message) in &self.conditions {
            condition::set(&mut all, &Wanted { kind, holds: *holds, reason, message }, now);
        }
        let mut status = tree!({"capacity": capacity, "allocatable": allocatable, "conditions": Tree::list(all),
            "addresses": [{"type": "InternalIP", "address": &self.address},
                {"type": "Hostname", "address": meta::name(node)}],
            "nodeInfo": self.info()});
        if let Some(port) = self.port {
            status = status.with(&["daemonEndpoints", "kubeletEndpoint", "Port"], i64::from(port));
        }
        if !self.features.is_empty() {
            status = status.with(&["declaredFeatures"], Tree::list(self.features.iter()));
        }
        tree!({"status": status})
    }

    fn info(&self) -> Tree {
        tree!({"architecture": &self.arch, "bootID": "", "containerRuntimeVersion": &self.runtime,
            "kernelVersion": &self.kernel, "kubeProxyVersion": "", "kubeletVersion": "v1.37.1", "machineID": "",
            "operatingSystem": "linux", "osImage": &self.system, "systemUUID": ""})
    }
}

/// The status of a node whose kubelet stops in good order.
#[must_use]
pub fn stopped_status(node: &Tree, now: Time) -> Tree {
    let mut all = node.items_at(path::CONDITIONS).to_vec();
    let (reason, message) = (reasons::KUBELET_NOT_READY, "the node was stopped");
    condition::set(&mut all, &Wanted { kind: conditions::READY, holds: false, reason, message }, now);
    tree!({"status": {"conditions": Tree::list(all)}})
}

/// Whether a node is ready.
#[must_use]
pub fn is_ready(node: &Tree) -> bool {
    condition::holds(node.items_at(path::CONDITIONS), conditions::READY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_a_node() {
        let node =
            simulated(&Text::from("n"), &tree!({"cpu": "4", "memory": "1Ki", "pods": 110, "x/gpu": "2"}))
                .with(
                    path::TAINTS,
                    tree!([{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "Odd"}]),
                );
        let facts = NodeFacts::of(&node);
        let found = |name: &str| facts.allocatable.iter().find(|(k, _)| k == name).map(|(_, v)| *v);
        assert_eq!(found("cpu"), Some(4000));
        assert_eq!((found("memory"), found("pods"), found("x/gpu")), (Some(1024), Some(110), Some(2)));
        assert_eq!(facts.taints.len(), 1);
        let ready =
            node.merge(&Machine::simulated(tree!({"cpu": "4"}), "10.0.0.1").ready_status(&node, Time(0)));
        assert!(is_ready(&ready) && !is_ready(&node));
    }
}
