//! Random pods: requests, node constraints and pod constraints.

use muster_tree::{Tree, tree};

use super::cluster::{DISKS, GPU, HOST, PRIORITIES, ZONE, ZONES};
use crate::random::SeededRng;

/// Values of the label `app`.
pub const APPS: [&str; 3] = ["a", "b", "c"];
const KEYS: [&str; 3] = [ZONE, HOST, "disk"];

/// Generates the n-th pod of a cluster.
pub fn pod(cluster: &str, n: usize, rng: &mut SeededRng) -> Tree {
    let namespace = if rng.percent(80) { cluster.to_owned() } else { format!("{cluster}-b") };
    let app = *rng.pick(&APPS);
    let labels = tree!({"app": app, "version": *rng.pick(&["1", "2"])});
    let mut spec = containers(rng).merge(&node_constraints(rng)).merge(&pod_constraints(app, rng));
    if rng.percent(30) {
        spec = spec.with(&["priorityClassName"], rng.pick(&PRIORITIES).0);
    }
    if rng.percent(8) {
        // Pod-level requests must not be less than those of the containers, so the containers have none.
        let containers = tree!({"containers": [{"name": "main", "image": "work"}], "initContainers": []});
        let whole = amounts(rng).without(&["ephemeral-storage"]);
        spec = spec.merge(&containers).with(&["resources", "requests"], whole);
    }
    tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": format!("w{n:02}"), "labels": labels},
        "spec": spec})
}

fn containers(rng: &mut SeededRng) -> Tree {
    let mut first = container("main", rng);
    if rng.percent(12) {
        let port = 8000 + i64::try_from(rng.below(2)).unwrap_or(0);
        let ip = *rng.pick(&["", "", "127.0.0.1", "127.0.0.2"]);
        let protocol = *rng.pick(&["TCP", "TCP", "UDP"]);
        first = first.with(
            &["ports"],
            Tree::list([
                tree!({"containerPort": port, "hostPort": port, "hostIP": ip, "protocol": protocol}),
            ]),
        );
    }
    let mut all = vec![first];
    if rng.percent(15) {
        all.push(container("second", rng));
    }
    let mut before = Vec::new();
    if rng.percent(10) {
        before.push(container("sidecar", rng).with(&["restartPolicy"], "Always"));
    }
    if rng.percent(12) {
        before.push(container("prepare", rng));
    }
    tree!({"containers": Tree::list(all), "initContainers": Tree::list(before)})
}

fn container(name: &str, rng: &mut SeededRng) -> Tree {
    let mut asks = amounts(rng);
    let mut limits = tree!({});
    if rng.percent(12) {
        limits = limits.with(&[GPU], (1 + rng.below(3)).to_string());
    }
    if rng.percent(6) && !asks.entries().is_empty() {
        limits = limits.with(&["hugepages-2Mi"], *rng.pick(&["32Mi", "64Mi"]));
        asks = asks.with(&["cpu"], "100m");
    }
    let request = asks.merge(&limits);
    tree!({"name": name, "image": "work", "resources": {"requests": request, "limits": limits}})
}

fn amounts(rng: &mut SeededRng) -> Tree {
    let mut asks = tree!({});
    if rng.percent(80) {
        asks = asks.with(&["cpu"], *rng.pick(&["50m", "100m", "500m", "1", "1500m", "2", "3"]));
    }
    if rng.percent(70) {
        asks = asks.with(&["memory"], *rng.pick(&["64Mi", "256Mi", "1Gi", "2Gi", "5000000k"]));
    }
    if rng.percent(8) {
        asks = asks.with(&["ephemeral-storage"], *rng.pick(&["1Gi", "8Gi"]));
    }
    asks
}

/// Node selector, node affinity and tolerations.
fn node_constraints(rng: &mut SeededRng) -> Tree {
    let mut spec = tree!({});
    if rng.percent(10) {
        spec = spec.with(&["nodeSelector"], tree!({"disk": *rng.pick(&DISKS)}));
    }
    let terms = |rng: &mut SeededRng, most: usize| {
        let count = 1 + rng.below(most);
        Tree::list((0..count).map(|_| node_term(rng)).collect::<Vec<_>>())
    };
    let mut affinity = tree!({});
    if rng.percent(15) {
        let needs = tree!({"nodeSelectorTerms": terms(rng, 2)});
        affinity = affinity.with(&["requiredDuringSchedulingIgnoredDuringExecution"], needs);
    }
    if rng.percent(20) {
        let weighed = |rng: &mut SeededRng| {
            let weight = 1 + i64::try_from(rng.below(100)).unwrap_or(0);
            tree!({"weight": weight, "preference": node_term(rng)})
        };
        let count = 1 + rng.below(2);
        let likes = Tree::list((0..count).map(|_| weighed(rng)).collect::<Vec<_>>());
        affinity = affinity.with(&["preferredDuringSchedulingIgnoredDuringExecution"], likes);
    }
    if !affinity.entries().is_empty() {
        spec = spec.with(&["affinity", "nodeAffinity"], affinity);
    }
    let mut tolerations = Vec::new();
    for (key, percent) in [("dedicated", 30), ("drain", 20), ("soft", 20)] {
        if rng.percent(percent) {
            tolerations.push(if rng.percent(50) {
                tree!({"key": key, "operator": "Exists"})
            } else {
                tree!({"key": key, "operator": "Equal", "value": *rng.pick(&["x", "y"])})
            });
        }
    }
    if rng.percent(4) {
        tolerations.push(tree!({"operator": "Exists"}));
    }
    spec.with(&["tolerations"], Tree::list(tolerations))
}

fn node_term(rng: &mut SeededRng) -> Tree {
    let count = 1 + rng.below(2);
    let one = |rng: &mut SeededRng| match rng.below(6) {
        0 => {
            tree!({"key": ZONE, "operator": "In", "values": [(*rng.pick(&ZONES)), (*rng.pick(&ZONES))]})
        }
        1 => tree!({"key": ZONE, "operator": "NotIn", "values": [(*rng.pick(&ZONES))]}),
        2 => tree!({"key": "disk", "operator": "Exists"}),
        3 => tree!({"key": "disk", "operator": "DoesNotExist"}),
        4 => tree!({"key": "rank", "operator": "Gt", "values": [(rng.below(4).to_string())]}),
        _ => tree!({"key": "rank", "operator": "Lt", "values": [((1 + rng.below(4)).to_string())]}),
    };
    tree!({"matchExpressions": Tree::list((0..count).map(|_| one(rng)).collect::<Vec<_>>())})
}

/// Pod affinity, anti-affinity and topology spread constraints.
fn pod_constraints(app: &str, rng: &mut SeededRng) -> Tree {
    let mut spec = tree!({});
    for (kind, hard, soft) in [("podAffinity", 12, 12), ("podAntiAffinity", 12, 12)] {
        if rng.percent(hard) {
            let at = ["affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution"];
            spec = spec.with(&at, Tree::list([pod_term(app, rng)]));
        }
        if rng.percent(soft) {
            let weight = 1 + i64::try_from(rng.below(100)).unwrap_or(0);
            let at = ["affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution"];
            let like = tree!({"weight": weight, "podAffinityTerm": pod_term(app, rng)});
            spec = spec.with(&at, Tree::list([like]));
        }
    }
    let mut rules = Vec::new();
    if rng.percent(15) {
        rules.push(spread(app, "DoNotSchedule", rng));
    }
    if rng.percent(15) {
        rules.push(spread(app, "ScheduleAnyway", rng));
    }
    spec.with(&["topologySpreadConstraints"], Tree::list(rules))
}

/// Mostly selects pods with the same `app`, so that terms match.
fn selector(app: &str, rng: &mut SeededRng) -> Tree {
    let app = if rng.percent(60) { app } else { *rng.pick(&APPS) };
    tree!({"matchLabels": {"app": app}})
}

fn pod_term(app: &str, rng: &mut SeededRng) -> Tree {
    let term = tree!({"topologyKey": *rng.pick(&KEYS), "labelSelector": selector(app, rng)});
    let version = || Tree::list([Tree::from("version")]);
    match rng.below(6) {
        0 => term.with(&["namespaceSelector", "matchLabels", "team"], *rng.pick(&["x", "y"])),
        1 => term.with(&["namespaceSelector"], tree!({})),
        2 => term.with(&["matchLabelKeys"], version()),
        3 => term.with(&["mismatchLabelKeys"], version()),
        _ => term,
    }
}

fn spread(app: &str, unmet: &str, rng: &mut SeededRng) -> Tree {
    let mut rule = tree!({"maxSkew": 1 + i64::try_from(rng.below(2)).unwrap_or(0), "whenUnsatisfiable": unmet,
        "topologyKey": *rng.pick(&KEYS), "labelSelector": selector(app, rng)});
    if unmet == "DoNotSchedule" && rng.percent(25) {
        rule = rule.with(&["minDomains"], 1 + i64::try_from(rng.below(4)).unwrap_or(0));
    }
    if rng.percent(25) {
        rule = rule.with(&["nodeAffinityPolicy"], "Ignore");
    }
    if rng.percent(25) {
        rule = rule.with(&["nodeTaintsPolicy"], "Honor");
    }
    if rng.percent(20) {
        rule = rule.with(&["matchLabelKeys"], Tree::list([Tree::from("version")]));
    }
    rule
}
