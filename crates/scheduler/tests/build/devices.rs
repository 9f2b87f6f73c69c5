//! Slices, classes and claims from short descriptions.
//!
//! A slice is `{node, nodes, all, each, driver, pool, generation, of, devices}`: for one `node`, for the `nodes` of a
//! label, for `all`, or as `each` device says; `of` is how many slices the pool has. Devices are their number, or a list
//! of `{name, is, version, has, taints, node}`: attributes by the type of the value, versions, capacities.
//! A class is its expressions. A claim is `{asks, constraints, given, reserved, deleted, owner}`, where asks are
//! requests as they are written, or one exact request without its name (`gpu`) and class (`gpu`) when it is a map.

use muster_api::client::ApiObject;
use muster_scheduler::devices::ClaimAction;
use muster_scheduler::{PreBindTask, Scheduler};
use muster_tree::{Text, Tree, tree};

const DRIVER: &str = "gpu.example.com";

/// Feeds the devices, classes and claims of a case to the scheduler.
pub fn feed(scheduler: &mut Scheduler, case: &Tree) {
    for (n, words) in case.items_at(&["slices"]).iter().enumerate() {
        let slice = slice(&format!("s{n}"), words);
        scheduler.update_devices(|book| book.update_slice(&slice));
    }
    for (name, words) in case.entries_at(&["classes"]) {
        let class = class(name, words);
        scheduler.update_devices(|book| book.update_class(&class));
    }
    for (name, words) in case.entries_at(&["claims"]) {
        let claim = claim(name, words);
        scheduler.update_devices(|book| book.update_claim(&claim));
    }
}

pub fn slice(name: &str, words: &Tree) -> Tree {
    let or = |key: &str, usual: &str| words.get(key).and_then(Tree::as_str).unwrap_or(usual).to_owned();
    let node = words.get("node").cloned().unwrap_or_default();
    let pool = or("pool", node.as_str().unwrap_or("pool"));
    let mut nodes = words.entries_at(&["nodes"]).iter().map(|(key, value)| {
        let only = tree!({"key": key, "operator": "In", "values": Tree::list([value.clone()])});
        tree!({"nodeSelectorTerms": [{"matchExpressions": [only]}]})
    });
    let devices = match words.get("devices") {
        Some(Tree::List(_)) => words.items_at(&["devices"]).iter().map(device).collect(),
        other => {
            let many = other.and_then(Tree::as_int).unwrap_or(0);
            (0..many).map(|n| tree!({"name": format!("d{n}")})).collect::<Vec<Tree>>()
        }
    };
    tree!({"metadata": {"name": words.get("name").and_then(Tree::as_str).unwrap_or(name)},
        "spec": {"driver": or("driver", DRIVER), "nodeName": node, "nodeSelector": nodes.next().unwrap_or_default(),
            "allNodes": words.get("all").cloned().unwrap_or_default(),
            "perDeviceNodeSelection": words.get("each").cloned().unwrap_or_default(),
            "pool": {"name": pool, "generation": words.int_at(&["generation"]).unwrap_or(1),
                "resourceSliceCount": words.int_at(&["of"]).unwrap_or(1)},
            "devices": Tree::list(devices)}})
}

fn device(words: &Tree) -> Tree {
    let typed = |(name, value): &(Text, Tree)| {
        let word = match value {
            Tree::Int(_) => "int",
            Tree::Bool(_) => "bool",
            _ => "string",
        };
        (name.clone(), Tree::map([(word, value.clone())]))
    };
    let version = |(name, value): &(Text, Tree)| (name.clone(), tree!({"version": value.clone()}));
    let is = words.entries_at(&["is"]).iter().map(typed);
    let attributes = is.chain(words.entries_at(&["version"]).iter().map(version));
    let capacity = words.entries_at(&["has"]).iter().map(|(k, v)| (k.clone(), tree!({"value": v.clone()})));
    tree!({"name": words.text_at(&["name"]), "attributes": Tree::map(attributes), "capacity": Tree::map(capacity),
        "taints": words.get("taints").cloned().unwrap_or_default(),
        "allowMultipleAllocations": words.get("many").cloned().unwrap_or_default(),
        "nodeName": words.get("node").cloned().unwrap_or_default()})
}

pub fn class(name: &str, words: &Tree) -> Tree {
    let expression = |it: &Tree| tree!({"cel": {"expression": it.clone()}});
    let selectors = Tree::list(words.items().iter().map(expression));
    tree!({"metadata": {"name": name}, "spec": {"selectors": selectors}})
}

pub fn claim(name: &str, words: &Tree) -> ApiObject {
    let asks = match words.get("asks") {
        Some(list @ Tree::List(_)) => list.clone(),
        other => {
            let one = other.cloned().unwrap_or_else(Tree::empty_map);
            let usual = tree!({"deviceClassName": "gpu", "allocationMode": "ExactCount"});
            tree!([{"name": "gpu", "exactly": usual.merge(&one)}])
        }
    };
    let reserved = words.items_at(&["reserved"]).iter();
    let reserved = reserved.map(|it| tree!({"resource": "pods", "name": it.clone(), "uid": it.clone()}));
    let owner = words.get("owner").map(|it| {
        tree!([{"apiVersion": "v1", "kind": "Pod", "name": it.clone(), "uid": it.clone(), "controller": true}])
    });
    let tree = tree!({"metadata": {"name": name, "namespace": "ns", "uid": name,
            "annotations": {"resource.kubernetes.io/pod-claim-name": "x"},
            "ownerReferences": owner.unwrap_or_default(),
            "deletionTimestamp": words.get("deleted").cloned().unwrap_or_default()},
        "spec": {"devices": {"requests": asks, "constraints": words.get("constraints").cloned().unwrap_or_default()}},
        "status": {"reservedFor": Tree::list(reserved)}});
    let given = words.get("given").map(|it| tree!({"status": {"allocation": allocation(it)}}));
    ApiObject { tree: given.map_or(tree.clone(), |it| tree.merge(&it)), revision: 1 }
}

/// `{node, devices}`: devices of the usual driver in the pool of the node.
fn allocation(words: &Tree) -> Tree {
    let node = words.get("node").cloned();
    let pool = node.clone().unwrap_or_else(|| "pool".into());
    let result =
        |it: &Tree| tree!({"request": "gpu", "driver": DRIVER, "pool": pool.clone(), "device": it.clone()});
    let results = Tree::list(words.items_at(&["devices"]).iter().map(result));
    let only = node.map(|it| {
        let only = tree!({"key": "metadata.name", "operator": "In", "values": Tree::list([it])});
        tree!({"nodeSelectorTerms": [{"matchFields": [only]}]})
    });
    tree!({"devices": {"results": results}, "nodeSelector": only.unwrap_or_default()})
}

/// What the claims of a placed pod are to be given: `request:pool/device`, claim by claim.
pub fn given(scheduler: &Scheduler, pod: &str) -> String {
    let mut claims = Vec::new();
    for errand in scheduler.prebind_tasks(&("ns".into(), pod.into())) {
        let PreBindTask::Device(errand) = errand else { continue };
        claims.push(match errand.action {
            ClaimAction::Allocate(tree) => {
                let results = tree.items_at(&["devices", "results"]).iter();
                let one = |it: &Tree| {
                    let text = |key: &str| it.text_at(&[key]);
                    format!("{}:{}/{}", text("request"), text("pool"), text("device"))
                };
                results.map(one).collect::<Vec<_>>().join(" ")
            }
            ClaimAction::Reserve => "reserved".to_owned(),
            ClaimAction::Stale => "lost".to_owned(),
        });
    }
    claims.join(", ")
}
