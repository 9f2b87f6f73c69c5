//! Random nodes, priorities and budgets.

use muster_tree::{Tree, tree};

use super::pods;
use crate::random::Chance;

/// Zones; some nodes are in none.
pub const ZONES: [&str; 3] = ["a", "b", "c"];
/// Kinds of disks.
pub const DISKS: [&str; 2] = ["ssd", "hdd"];
/// The label of zones.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The label of hosts.
pub const HOST: &str = "kubernetes.io/hostname";
/// A resource of somebody's own.
pub const GPU: &str = "example.com/gpu";
/// Names, values and preemption policies of the priority classes that all clusters share.
pub const PRIORITIES: [(&str, i64, &str); 3] = [
    ("placements-mid", 100, "PreemptLowerPriority"),
    ("placements-high", 1000, "PreemptLowerPriority"),
    ("placements-meek", 500, "Never"),
];

/// A cluster and the pods that come to it.
pub struct Cluster {
    /// Its first namespace; the second has a `-b` behind it.
    pub name: String,
    /// Nodes as manifests.
    pub nodes: Vec<Tree>,
    /// Budgets as manifests, with their status.
    pub budgets: Vec<Tree>,
    /// Pods as manifests, in the order in which they come.
    pub pods: Vec<Tree>,
}

impl Cluster {
    /// The cluster of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Cluster {
        let mut chance = Chance::new(seed);
        let name = format!("p{seed}");
        let nodes = 3 + chance.below(8);
        let pods = 10 + chance.below(20);
        Cluster {
            nodes: (0..nodes).map(|n| node(&format!("{name}-n{n}"), &mut chance)).collect(),
            budgets: if chance.percent(30) { vec![budget(&name, &mut chance)] } else { Vec::new() },
            pods: (0..pods).map(|n| pods::pod(&name, n, &mut chance)).collect(),
            name,
        }
    }

    /// Its namespaces, with their labels.
    #[must_use]
    pub fn namespaces(&self) -> [(String, &'static str); 2] {
        [(self.name.clone(), "x"), (format!("{}-b", self.name), "y")]
    }
}

fn node(name: &str, chance: &mut Chance) -> Tree {
    let mut labels = tree!({}).with(&[HOST], name);
    if chance.percent(85) {
        labels = labels.with(&[ZONE], *chance.pick(&ZONES));
    }
    if chance.percent(60) {
        labels = labels.with(&["disk"], *chance.pick(&DISKS));
    }
    if chance.percent(60) {
        labels = labels.with(&["rank"], chance.below(5).to_string());
    }
    let mut has = tree!({
        "cpu": (2 + chance.below(7)).to_string(),
        "memory": format!("{}Gi", 4 + chance.below(13)),
        "pods": (3 + chance.below(8)).to_string(),
        "ephemeral-storage": format!("{}Gi", 5 + chance.below(20)),
    });
    if chance.percent(30) {
        has = has.with(&[GPU], (2 * (1 + chance.below(2))).to_string());
    }
    if chance.percent(20) {
        has = has.with(&["hugepages-2Mi"], "64Mi");
    }
    let cordon = if chance.percent(8) { Tree::Bool(true) } else { Tree::Null };
    tree!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints(chance), "unschedulable": cordon},
        "status": {"capacity": has.clone(), "allocatable": has}})
}

fn taints(chance: &mut Chance) -> Tree {
    let mut all = Vec::new();
    for (key, effect, percent) in
        [("dedicated", "NoSchedule", 20), ("drain", "NoExecute", 10), ("soft", "PreferNoSchedule", 25)]
    {
        if chance.percent(percent) {
            all.push(tree!({"key": key, "value": *chance.pick(&["x", "y"]), "effect": effect}));
        }
    }
    Tree::list(all)
}

fn budget(namespace: &str, chance: &mut Chance) -> Tree {
    let allowed = i64::try_from(chance.below(2)).unwrap_or(0);
    tree!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"namespace": namespace, "name": "few"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": *chance.pick(&pods::APPS)}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}})
}
