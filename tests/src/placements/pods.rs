//! Random pods: each asks for a few things of its node and its neighbours.

use muster_tree::{Tree, tree};

use super::cluster::{DISKS, GPU, HOST, PRIORITIES, ZONE, ZONES};
use crate::random::Chance;

/// Values of the label that pods are told apart by.
pub const APPS: [&str; 3] = ["a", "b", "c"];
/// Labels that are domains.
const KEYS: [&str; 3] = [ZONE, HOST, "disk"];

/// The n-th pod of a cluster.
pub fn pod(cluster: &str, n: usize, chance: &mut Chance) -> Tree {
    let namespace = if chance.percent(80) { cluster.to_owned() } else { format!("{cluster}-b") };
    let app = *chance.pick(&APPS);
    let labels = tree!({"app": app, "version": *chance.pick(&["1", "2"])});
    let mut spec = containers(chance).merge(&site(chance)).merge(&company(app, chance));
    if chance.percent(30) {
        spec = spec.with(&["priorityClassName"], chance.pick(&PRIORITIES).0);
    }
    if chance.percent(8) {
        // What the containers ask for must not be more: they ask for nothing.
        let containers = tree!({"containers": [{"name": "main", "image": "work"}], "initContainers": []});
        let whole = amounts(chance).without(&["ephemeral-storage"]);
        spec = spec.merge(&containers).with(&["resources", "requests"], whole);
    }
    tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": format!("w{n:02}"), "labels": labels},
        "spec": spec})
}

fn containers(chance: &mut Chance) -> Tree {
    let mut first = container("main", chance);
    if chance.percent(12) {
        let port = 8000 + i64::try_from(chance.below(2)).unwrap_or(0);
        let ip = *chance.pick(&["", "", "127.0.0.1", "127.0.0.2"]);
        let protocol = *chance.pick(&["TCP", "TCP", "UDP"]);
        first = first.with(
            &["ports"],
            Tree::list([
                tree!({"containerPort": port, "hostPort": port, "hostIP": ip, "protocol": protocol}),
            ]),
        );
    }
    let mut all = vec![first];
    if chance.percent(15) {
        all.push(container("second", chance));
    }
    let mut before = Vec::new();
    if chance.percent(10) {
        before.push(container("sidecar", chance).with(&["restartPolicy"], "Always"));
    }
    if chance.percent(12) {
        before.push(container("prepare", chance));
    }
    tree!({"containers": Tree::list(all), "initContainers": Tree::list(before)})
}

fn container(name: &str, chance: &mut Chance) -> Tree {
    let mut asks = amounts(chance);
    let mut limits = tree!({});
    if chance.percent(12) {
        limits = limits.with(&[GPU], (1 + chance.below(3)).to_string());
    }
    if chance.percent(6) && !asks.entries().is_empty() {
        limits = limits.with(&["hugepages-2Mi"], *chance.pick(&["32Mi", "64Mi"]));
        asks = asks.with(&["cpu"], "100m");
    }
    let request = asks.merge(&limits);
    tree!({"name": name, "image": "work", "resources": {"requests": request, "limits": limits}})
}

fn amounts(chance: &mut Chance) -> Tree {
    let mut asks = tree!({});
    if chance.percent(80) {
        asks = asks.with(&["cpu"], *chance.pick(&["50m", "100m", "500m", "1", "1500m", "2", "3"]));
    }
    if chance.percent(70) {
        asks = asks.with(&["memory"], *chance.pick(&["64Mi", "256Mi", "1Gi", "2Gi", "5000000k"]));
    }
    if chance.percent(8) {
        asks = asks.with(&["ephemeral-storage"], *chance.pick(&["1Gi", "8Gi"]));
    }
    asks
}

/// What it asks of the node itself.
fn site(chance: &mut Chance) -> Tree {
    let mut spec = tree!({});
    if chance.percent(10) {
        spec = spec.with(&["nodeSelector"], tree!({"disk": *chance.pick(&DISKS)}));
    }
    let terms = |chance: &mut Chance, most: usize| {
        let count = 1 + chance.below(most);
        Tree::list((0..count).map(|_| node_term(chance)).collect::<Vec<_>>())
    };
    let mut affinity = tree!({});
    if chance.percent(15) {
        let needs = tree!({"nodeSelectorTerms": terms(chance, 2)});
        affinity = affinity.with(&["requiredDuringSchedulingIgnoredDuringExecution"], needs);
    }
    if chance.percent(20) {
        let weighed = |chance: &mut Chance| {
            let weight = 1 + i64::try_from(chance.below(100)).unwrap_or(0);
            tree!({"weight": weight, "preference": node_term(chance)})
        };
        let count = 1 + chance.below(2);
        let likes = Tree::list((0..count).map(|_| weighed(chance)).collect::<Vec<_>>());
        affinity = affinity.with(&["preferredDuringSchedulingIgnoredDuringExecution"], likes);
    }
    if !affinity.entries().is_empty() {
        spec = spec.with(&["affinity", "nodeAffinity"], affinity);
    }
    let mut tolerations = Vec::new();
    for (key, percent) in [("dedicated", 30), ("drain", 20), ("soft", 20)] {
        if chance.percent(percent) {
            tolerations.push(if chance.percent(50) {
                tree!({"key": key, "operator": "Exists"})
            } else {
                tree!({"key": key, "operator": "Equal", "value": *chance.pick(&["x", "y"])})
            });
        }
    }
    if chance.percent(4) {
        tolerations.push(tree!({"operator": "Exists"}));
    }
    spec.with(&["tolerations"], Tree::list(tolerations))
}

fn node_term(chance: &mut Chance) -> Tree {
    let count = 1 + chance.below(2);
    let one = |chance: &mut Chance| match chance.below(6) {
        0 => {
            tree!({"key": ZONE, "operator": "In", "values": [(*chance.pick(&ZONES)), (*chance.pick(&ZONES))]})
        }
        1 => tree!({"key": ZONE, "operator": "NotIn", "values": [(*chance.pick(&ZONES))]}),
        2 => tree!({"key": "disk", "operator": "Exists"}),
        3 => tree!({"key": "disk", "operator": "DoesNotExist"}),
        4 => tree!({"key": "rank", "operator": "Gt", "values": [(chance.below(4).to_string())]}),
        _ => tree!({"key": "rank", "operator": "Lt", "values": [((1 + chance.below(4)).to_string())]}),
    };
    tree!({"matchExpressions": Tree::list((0..count).map(|_| one(chance)).collect::<Vec<_>>())})
}

/// What it asks of other pods.
fn company(app: &str, chance: &mut Chance) -> Tree {
    let mut spec = tree!({});
    for (kind, hard, soft) in [("podAffinity", 12, 12), ("podAntiAffinity", 12, 12)] {
        if chance.percent(hard) {
            let at = ["affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution"];
            spec = spec.with(&at, Tree::list([pod_term(app, chance)]));
        }
        if chance.percent(soft) {
            let weight = 1 + i64::try_from(chance.below(100)).unwrap_or(0);
            let at = ["affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution"];
            let like = tree!({"weight": weight, "podAffinityTerm": pod_term(app, chance)});
            spec = spec.with(&at, Tree::list([like]));
        }
    }
    let mut rules = Vec::new();
    if chance.percent(15) {
        rules.push(spread(app, "DoNotSchedule", chance));
    }
    if chance.percent(15) {
        rules.push(spread(app, "ScheduleAnyway", chance));
    }
    spec.with(&["topologySpreadConstraints"], Tree::list(rules))
}

/// Most often its own kind, so that terms are met.
fn selector(app: &str, chance: &mut Chance) -> Tree {
    let app = if chance.percent(60) { app } else { *chance.pick(&APPS) };
    tree!({"matchLabels": {"app": app}})
}

fn pod_term(app: &str, chance: &mut Chance) -> Tree {
    let term = tree!({"topologyKey": *chance.pick(&KEYS), "labelSelector": selector(app, chance)});
    let version = || Tree::list([Tree::from("version")]);
    match chance.below(6) {
        0 => term.with(&["namespaceSelector", "matchLabels", "team"], *chance.pick(&["x", "y"])),
        1 => term.with(&["namespaceSelector"], tree!({})),
        2 => term.with(&["matchLabelKeys"], version()),
        3 => term.with(&["mismatchLabelKeys"], version()),
        _ => term,
    }
}

fn spread(app: &str, unmet: &str, chance: &mut Chance) -> Tree {
    let mut rule = tree!({"maxSkew": 1 + i64::try_from(chance.below(2)).unwrap_or(0), "whenUnsatisfiable": unmet,
        "topologyKey": *chance.pick(&KEYS), "labelSelector": selector(app, chance)});
    if unmet == "DoNotSchedule" && chance.percent(25) {
        rule = rule.with(&["minDomains"], 1 + i64::try_from(chance.below(4)).unwrap_or(0));
    }
    if chance.percent(25) {
        rule = rule.with(&["nodeAffinityPolicy"], "Ignore");
    }
    if chance.percent(25) {
        rule = rule.with(&["nodeTaintsPolicy"], "Honor");
    }
    if chance.percent(20) {
        rule = rule.with(&["matchLabelKeys"], Tree::list([Tree::from("version")]));
    }
    rule
}
