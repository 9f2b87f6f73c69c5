//! Random nodes, PriorityClasses and PodDisruptionBudgets.

use muster_tree::{Tree, tree};

use super::pods;
use crate::random::SeededRng;

/// Zones; some nodes have none.
pub const ZONES: [&str; 3] = ["a", "b", "c"];
/// Values of the label `disk`.
pub const DISKS: [&str; 2] = ["ssd", "hdd"];
pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const HOST: &str = "kubernetes.io/hostname";
pub const GPU: &str = "example.com/gpu";
/// PriorityClasses of all clusters: name, value, preemption policy.
pub const PRIORITIES: [(&str, i64, &str); 3] = [
    ("placements-mid", 100, "PreemptLowerPriority"),
    ("placements-high", 1000, "PreemptLowerPriority"),
    ("placements-meek", 500, "Never"),
];

/// A cluster and the pods to schedule.
pub struct RandomCluster {
    /// Name of the first namespace; the second has the suffix `-b`.
    pub name: String,
    pub nodes: Vec<Tree>,
    /// PodDisruptionBudget manifests with status.
    pub budgets: Vec<Tree>,
    /// Pod manifests in creation order.
    pub pods: Vec<Tree>,
}

impl RandomCluster {
    /// Generates the cluster of a seed.
    #[must_use]
    pub fn of(seed: u64) -> RandomCluster {
        let mut rng = SeededRng::new(seed);
        let name = format!("p{seed}");
        let nodes = 3 + rng.below(8);
        let pods = 10 + rng.below(20);
        RandomCluster {
            nodes: (0..nodes).map(|n| node(&format!("{name}-n{n}"), &mut rng)).collect(),
            budgets: if rng.percent(30) { vec![budget(&name, &mut rng)] } else { Vec::new() },
            pods: (0..pods).map(|n| pods::pod(&name, n, &mut rng)).collect(),
            name,
        }
    }

    /// Returns the namespaces with the value of their label `team`.
    #[must_use]
    pub fn namespaces(&self) -> [(String, &'static str); 2] {
        [(self.name.clone(), "x"), (format!("{}-b", self.name), "y")]
    }
}

fn node(name: &str, rng: &mut SeededRng) -> Tree {
    let mut labels = tree!({}).with(&[HOST], name);
    if rng.percent(85) {
        labels = labels.with(&[ZONE], *rng.pick(&ZONES));
    }
    if rng.percent(60) {
        labels = labels.with(&["disk"], *rng.pick(&DISKS));
    }
    if rng.percent(60) {
        labels = labels.with(&["rank"], rng.below(5).to_string());
    }
    let mut has = tree!({
        "cpu": (2 + rng.below(7)).to_string(),
        "memory": format!("{}Gi", 4 + rng.below(13)),
        "pods": (3 + rng.below(8)).to_string(),
        "ephemeral-storage": format!("{}Gi", 5 + rng.below(20)),
    });
    if rng.percent(30) {
        has = has.with(&[GPU], (2 * (1 + rng.below(2))).to_string());
    }
    if rng.percent(20) {
        has = has.with(&["hugepages-2Mi"], "64Mi");
    }
    let cordon = if rng.percent(8) { Tree::Bool(true) } else { Tree::Null };
    tree!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints(rng), "unschedulable": cordon},
        "status": {"capacity": has.clone(), "allocatable": has}})
}

fn taints(rng: &mut SeededRng) -> Tree {
    let mut all = Vec::new();
    for (key, effect, percent) in
        [("dedicated", "NoSchedule", 20), ("drain", "NoExecute", 10), ("soft", "PreferNoSchedule", 25)]
    {
        if rng.percent(percent) {
            all.push(tree!({"key": key, "value": *rng.pick(&["x", "y"]), "effect": effect}));
        }
    }
    Tree::list(all)
}

fn budget(namespace: &str, rng: &mut SeededRng) -> Tree {
    let allowed = i64::try_from(rng.below(2)).unwrap_or(0);
    tree!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"namespace": namespace, "name": "few"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": *rng.pick(&pods::APPS)}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}})
}
