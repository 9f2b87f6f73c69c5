//! Nodes and pods from short descriptions.
//!
//! A node is `{labels, taints, unschedulable, has}`; it has 4 CPUs, 8Gi of memory and 10 pods unless `has` says
//! otherwise. A pod is `{name, namespace, labels, priority, asks, spec, …}`: `asks` are the requests of its
//! only container, `spec` is merged over the rest. `near`, `far`, `like` and `dislike` are terms about other pods
//! (`key` is the topology key, `app` the value of the label `app`), `spread` are rules of spreading. `claims` are the
//! names of its claims to devices.

pub mod devices;

use muster_api::node::{NodeFacts, simulated_node};
use muster_api::time::Time;
use muster_scheduler::Pod;
use muster_tree::{Text, Tree, tree};

fn map(words: &Tree, key: &str) -> Tree {
    words.get(key).cloned().unwrap_or_else(Tree::empty_map)
}

/// The facts of a node.
pub fn node(name: &str, words: &Tree) -> NodeFacts {
    let usual = tree!({"cpu": "4", "memory": "8Gi", "pods": "10"});
    let has = usual.merge(&map(words, "has"));
    let labels = map(words, "labels");
    let taints = words.get("taints").cloned().unwrap_or_default();
    let cordon = words.get("unschedulable").cloned().unwrap_or_default();
    let spec = tree!({"taints": taints, "unschedulable": cordon});
    let change = tree!({"metadata": {"labels": labels}, "spec": spec});
    NodeFacts::of(&simulated_node(&name.into(), &has).merge(&change))
}

/// A pod as a manifest.
pub fn manifest(name: &str, words: &Tree) -> Tree {
    let asks = words.get("asks").cloned().unwrap_or_else(Tree::empty_map);
    let ports = words.get("ports").cloned().unwrap_or_default();
    let container = tree!({"name": "c", "resources": {"requests": asks}, "ports": ports});
    let spec = tree!({"containers": [container], "priority": words.get("priority").cloned().unwrap_or_default(),
        "schedulerName": "default-scheduler"});
    let claims = words.items_at(&["claims"]).iter();
    let claims = claims.map(|it| tree!({"name": it.clone(), "resourceClaimName": it.clone()}));
    let spec = spec.with(&["resourceClaims"], Tree::list(claims));
    let spec = spec.merge(&company(words)).merge(&crate::storage::mounts(words)).merge(&map(words, "spec"));
    let or = |key: &str, usual: &str| words.get(key).and_then(Tree::as_str).unwrap_or(usual).to_owned();
    let meta = tree!({"namespace": or("namespace", "ns"), "name": or("name", name), "uid": or("name", name),
        "labels": words.get("labels").cloned().unwrap_or_else(Tree::empty_map),
        "deletionTimestamp": words.get("deleted").cloned().unwrap_or_default()});
    let status = words.get("status").cloned().unwrap_or_else(Tree::empty_map);
    tree!({"metadata": meta, "spec": spec, "status": status})
}

/// A pod that was created at this second.
pub fn pod(name: &str, words: &Tree, second: i64) -> Pod {
    let mut pod = Pod::of(&manifest(name, words), &["default-scheduler"]);
    pod.created = Time(second * 1_000_000);
    pod
}

/// The same pod on a node.
pub fn on(pod: Pod, node: &str) -> Pod {
    Pod { node: Text::from(node), ..pod }
}

fn company(words: &Tree) -> Tree {
    let list = |key: &str, make: fn(&Tree) -> Tree| Tree::list(words.items_at(&[key]).iter().map(make));
    tree!({"affinity": {
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list("near", term),
                "preferredDuringSchedulingIgnoredDuringExecution": list("like", weighted)},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list("far", term),
                "preferredDuringSchedulingIgnoredDuringExecution": list("dislike", weighted)}},
        "topologySpreadConstraints": list("spread", spread)})
}

fn selector(words: &Tree) -> Tree {
    words.get("app").map_or(Tree::Null, |app| tree!({"matchLabels": {"app": app.clone()}}))
}

fn term(words: &Tree) -> Tree {
    words
        .without(&["app"])
        .without(&["key"])
        .without(&["weight"])
        .with(&["topologyKey"], words.text_at(&["key"]))
        .merge(&tree!({"labelSelector": selector(words)}))
}

fn weighted(words: &Tree) -> Tree {
    tree!({"weight": words.int_at(&["weight"]).unwrap_or(1), "podAffinityTerm": term(words)})
}

fn spread(words: &Tree) -> Tree {
    let soft = words.bool_at(&["soft"]) == Some(true);
    term(words).without(&["soft"]).merge(&tree!({
        "maxSkew": words.int_at(&["maxSkew"]).unwrap_or(1),
        "whenUnsatisfiable": if soft { "ScheduleAnyway" } else { "DoNotSchedule" }}))
}
