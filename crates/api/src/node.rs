//! The typed view of a Node, resource amounts, and the Node objects that kubelets write.

use muster_tree::{Text, Tree, tree};

use crate::condition::{self, DesiredCondition};
use crate::consts::{annotations, conditions, labels, reasons};
use crate::paths::{node as path, taint};
use crate::quantity;
use crate::time::Time;
use crate::{meta, pod};

/// `effect` of a taint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaintEffect {
    /// No new pods without a toleration.
    NoSchedule,
    /// The scheduler avoids the node.
    PreferNoSchedule,
    /// Pods without a toleration are evicted.
    NoExecute,
}

impl TaintEffect {
    /// Parses the effect; `None` for an unknown one.
    #[must_use]
    pub fn of(word: &str) -> Option<TaintEffect> {
        match word {
            "NoSchedule" => Some(TaintEffect::NoSchedule),
            "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
            "NoExecute" => Some(TaintEffect::NoExecute),
            _ => None,
        }
    }
}

/// One taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "fields mirror v1.Taint")]
pub struct Taint {
    pub key: Text,
    pub value: Text,
    pub effect: TaintEffect,
}

/// The fields of a Node that the scheduler reads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields mirror v1.Node")]
pub struct NodeFacts {
    pub name: Text,
    /// Sorted by key, for [`find_label`](crate::selector::find_label).
    pub labels: Vec<(Text, Text)>,
    pub taints: Vec<Taint>,
    /// The node is cordoned.
    pub unschedulable: bool,
    /// Resources for pods, in the unit of [`amount`].
    pub allocatable: Vec<(Text, i64)>,
}

impl NodeFacts {
    /// Reads a Node, with its quantities parsed.
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

/// Reads a taint; `None` if its effect is unknown.
#[must_use]
pub fn read_taint(tree: &Tree) -> Option<Taint> {
    let effect = TaintEffect::of(tree.str_at(taint::EFFECT))?;
    Some(Taint { key: tree.text_at(taint::KEY), value: tree.text_at(taint::VALUE), effect })
}

/// Requested amounts: millicores of `cpu`, whole units of everything else. A malformed quantity reads as `i64::MAX`, so
/// that it never fits.
#[must_use]
pub fn amounts(entries: &[(Text, Tree)]) -> Vec<(Text, i64)> {
    entries.iter().map(|(name, value)| (name.clone(), amount(name, value).unwrap_or(i64::MAX))).collect()
}

/// Available amounts, in the unit of [`amount`]. A malformed quantity is omitted.
#[must_use]
pub fn capacities(entries: &[(Text, Tree)]) -> Vec<(Text, i64)> {
    entries.iter().filter_map(|(name, value)| Some((name.clone(), amount(name, value)?))).collect()
}

/// One amount: millicores of `cpu`, whole units of everything else; `None` if the quantity is malformed.
#[must_use]
pub fn amount(resource: &str, value: &Tree) -> Option<i64> {
    let read = if resource == "cpu" { quantity::milli } else { quantity::whole };
    read(&quantity::text(value))
}

/// The ID of the simulator that owns a node; `None` for a node that is not simulated.
#[must_use]
pub fn simulator_id(node: &Tree) -> Option<&str> {
    meta::annotation(node, annotations::SIM_NODE)
}

/// A merge patch that assigns a node to a simulator.
#[must_use]
pub fn simulated_node_patch(mark: &str) -> Tree {
    tree!({"metadata": {"annotations": Tree::map([(annotations::SIM_NODE, mark)])}})
}

/// The ID of the host that runs a node's local kubelet; `None` for any other node.
#[must_use]
pub fn local_node_id(node: &Tree) -> Option<&str> {
    meta::annotation(node, annotations::LOCAL_NODE)
}

/// The ID of the local kubelet or simulator that owns a node; `None` if a real kubelet owns it.
#[must_use]
pub fn kubelet_owner(node: &Tree) -> Option<&str> {
    local_node_id(node).or_else(|| simulator_id(node))
}

/// A merge patch that assigns a node to a local kubelet and removes the simulator's annotation.
#[must_use]
pub fn local_node_patch(mark: &str) -> Tree {
    let marks = [(annotations::LOCAL_NODE, Tree::from(mark)), (annotations::SIM_NODE, Tree::Null)];
    tree!({"metadata": {"annotations": Tree::map(marks)}})
}

/// The host name label of a node; its name without one.
#[must_use]
pub fn hostname(node: &Tree) -> Text {
    let labels = pod::labels_of(node).and_then(|labels| labels.get(labels::HOSTNAME));
    labels.and_then(Tree::as_text).cloned().unwrap_or_else(|| meta::name(node))
}

/// The node with its host name label set, as a kubelet registers it.
#[must_use]
pub fn with_hostname_label(node: &Tree) -> Tree {
    node.with(&["metadata", "labels", labels::HOSTNAME], hostname(node))
}

/// A Node to register for a simulated kubelet.
#[must_use]
pub fn simulated_node(name: &Text, capacity: &Tree) -> Tree {
    tree!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name,
            "labels": Tree::map([(labels::HOSTNAME, Tree::from(name)), (labels::OS, Tree::from("linux")),
                (labels::ARCH, Tree::from("amd64"))])},
        "spec": {},
        "status": {"capacity": capacity, "allocatable": capacity}})
}

/// What a kubelet reports about its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineInfo {
    /// The value of `status.capacity`.
    pub capacity: Tree,
    /// `InternalIP` of the node.
    pub address: Text,
    /// Port of the kubelet API; `None` when it is not served.
    pub port: Option<u16>,
    /// CPU architecture in Go's spelling.
    pub arch: Text,
    /// `kernelVersion`: release of the host's kernel.
    pub kernel: Text,
    /// `osImage`: name of the operating system.
    pub system: Text,
    /// Container runtime as `name://version`.
    pub runtime: Text,
    /// `declaredFeatures`: feature gates that the API server requires of nodes.
    pub features: Vec<Text>,
    /// Additional conditions: type, status, reason and message.
    pub conditions: Vec<(Text, bool, Text, Text)>,
}

impl MachineInfo {
    /// The host of a simulated kubelet.
    #[must_use]
    pub fn simulated(capacity: Tree, address: &str) -> MachineInfo {
        MachineInfo {
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

    /// A merge patch of the status of a ready node; all capacity is allocatable unless the node already says less.
    #[must_use]
    pub fn ready_status(&self, node: &Tree, now: Time) -> Tree {
        let capacity = &self.capacity;
        // A stored allocatable is kept, so that a heartbeat does not reset it to the capacity.
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
            condition::set(
                &mut all,
                &DesiredCondition { condition_type: kind, status: holds, reason, message },
                now,
            );
        }
        for (kind, holds, reason, message) in &self.conditions {
            condition::set(
                &mut all,
                &DesiredCondition { condition_type: kind, status: *holds, reason, message },
                now,
            );
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

/// A merge patch of a node's status on a graceful shutdown of its kubelet.
#[must_use]
pub fn stopped_status(node: &Tree, now: Time) -> Tree {
    let mut all = node.items_at(path::CONDITIONS).to_vec();
    let (reason, message) = (reasons::KUBELET_NOT_READY, "the node was stopped");
    condition::set(
        &mut all,
        &DesiredCondition { condition_type: conditions::READY, status: false, reason, message },
        now,
    );
    tree!({"status": {"conditions": Tree::list(all)}})
}

/// Returns whether the `Ready` condition is `True`.
#[must_use]
pub fn is_ready(node: &Tree) -> bool {
    condition::is_true(node.items_at(path::CONDITIONS), conditions::READY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_a_node() {
        let node = simulated_node(
            &Text::from("n"),
            &tree!({"cpu": "4", "memory": "1Ki", "pods": 110, "x/gpu": "2"}),
        )
        .with(path::TAINTS, tree!([{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "Odd"}]));
        let facts = NodeFacts::of(&node);
        let found = |name: &str| facts.allocatable.iter().find(|(k, _)| k == name).map(|(_, v)| *v);
        assert_eq!(found("cpu"), Some(4000));
        assert_eq!((found("memory"), found("pods"), found("x/gpu")), (Some(1024), Some(110), Some(2)));
        assert_eq!(facts.taints.len(), 1);
        let ready =
            node.merge(&MachineInfo::simulated(tree!({"cpu": "4"}), "10.0.0.1").ready_status(&node, Time(0)));
        assert!(is_ready(&ready) && !is_ready(&node));
    }
}
