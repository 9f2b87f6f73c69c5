//! Conversion between `v1beta1`, which clients may still use, and `v1beta2`, which is stored.
//!
//! # Guarantees
//!
//! - Fields of both versions survive a round trip. A field of one version only is dropped in the other.
//! - Metadata is not changed.

mod topology;

use muster_api::queue::consts::{
    API_VERSION, CLUSTER_QUEUE, COHORT, GROUP, LOCAL_QUEUE, OLD_API_VERSION, PRIORITY_CLASS,
    SCHEDULING_GROUP, WORKLOAD, WORKLOAD_PRIORITY_CLASS,
};
use muster_tree::{Tree, tree};

/// The `v1beta1` values of `priorityClassSource`.
const WORKLOAD_SOURCE: &str = muster_api::queue::consts::WORKLOAD_PRIORITY_SOURCE;
const POD_SOURCE: &str = muster_api::queue::consts::POD_PRIORITY_SOURCE;

const SEARCH_STOPS: &str = "MayStopSearch";
const ASSIGNMENTS: &[&str] = &["status", "admission", "podSetAssignments"];
const TOPOLOGY: &str = "topologyAssignment";

/// Converts an object; one already in the version, or of an unknown version, is returned unchanged.
#[must_use]
pub fn convert(object: &Tree, to: &str) -> Tree {
    let from = object.str_at(&["apiVersion"]);
    let kind = object.str_at(&["kind"]);
    match (from, to) {
        (OLD_API_VERSION, API_VERSION) => to_new(kind, object).with(&["apiVersion"], API_VERSION),
        (API_VERSION, OLD_API_VERSION) => to_old(kind, object).with(&["apiVersion"], OLD_API_VERSION),
        _ => object.clone(),
    }
}

#[must_use]
pub fn converts(group: &str) -> bool {
    group == GROUP
}

fn to_new(kind: &str, object: &Tree) -> Tree {
    match kind {
        CLUSTER_QUEUE => cluster_queue_to_new(object),
        LOCAL_QUEUE => moved(object, "status", "flavorUsage", "flavorsUsage").without(&["status", "flavors"]),
        COHORT => object.without(&["status", "fairSharing", "admissionFairSharingStatus"]),
        WORKLOAD => workload_to_new(object),
        _ => object.without(&["spec", "retryDelayMinutes"]),
    }
}

fn to_old(kind: &str, object: &Tree) -> Tree {
    match kind {
        CLUSTER_QUEUE => moved(object, "spec", "cohortName", "cohort"),
        LOCAL_QUEUE => moved(object, "status", "flavorsUsage", "flavorUsage"),
        WORKLOAD => workload_to_old(object),
        _ => object.clone(),
    }
}

fn moved(object: &Tree, part: &str, from: &str, to: &str) -> Tree {
    match object.at(&[part, from]) {
        Some(value) => object.without(&[part, from]).with(&[part, to], value.clone()),
        None => object.clone(),
    }
}

fn cluster_queue_to_new(object: &Tree) -> Tree {
    let mut queue = moved(object, "spec", "cohort", "cohortName")
        .without(&["status", "pendingWorkloadsStatus"])
        .without(&["status", "fairSharing", "admissionFairSharingStatus"]);
    for (field, word) in [("whenCanBorrow", "Borrow"), ("whenCanPreempt", "Preempt")] {
        let path = ["spec", "flavorFungibility", field];
        if queue.str_at(&path) == word {
            queue = queue.with(&path, SEARCH_STOPS);
        }
    }
    let flat = queue.items_at(&["spec", "admissionChecks"]).to_vec();
    queue = queue.without(&["spec", "admissionChecks"]);
    if !flat.is_empty() {
        let rules = Tree::list(flat.iter().map(|name| tree!({"name": name})));
        return queue.with(&["spec", "admissionChecksStrategy"], tree!({"admissionChecks": rules}));
    }
    // `v1beta2` omits the strategy if there are no checks.
    let strategy = ["spec", "admissionChecksStrategy"];
    let idle = queue.at(&strategy).is_some_and(|it| it.items_at(&["admissionChecks"]).is_empty());
    if idle { queue.without(&strategy) } else { queue }
}

fn workload_to_new(object: &Tree) -> Tree {
    let name = object.text_at(&["spec", "priorityClassName"]);
    let class = match object.str_at(&["spec", "priorityClassSource"]) {
        _ if name.is_empty() => None,
        WORKLOAD_SOURCE => Some((GROUP, WORKLOAD_PRIORITY_CLASS)),
        POD_SOURCE => Some((SCHEDULING_GROUP, PRIORITY_CLASS)),
        _ => None,
    };
    let class = class.map(|(group, kind)| tree!({"group": group, "kind": kind, "name": &name}));
    let bare = object.without(&["spec", "priorityClassName"]).without(&["spec", "priorityClassSource"]);
    let bare = match class {
        Some(class) => bare.with(&["spec", "priorityClassRef"], class),
        None => bare,
    };
    let bare =
        moved(&bare, "status", "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds");
    assigned(&bare, topology::slices)
}

fn workload_to_old(object: &Tree) -> Tree {
    let class = object.at(&["spec", "priorityClassRef"]).cloned();
    let bare = object.without(&["spec", "priorityClassRef"]);
    let bare = match &class {
        Some(class) => {
            let source = if class.str_at(&["group"]) == GROUP { WORKLOAD_SOURCE } else { POD_SOURCE };
            bare.with(&["spec", "priorityClassName"], class.text_at(&["name"]))
                .with(&["spec", "priorityClassSource"], source)
        }
        // CEL rules of `v1beta1` read it without `has()`.
        None if bare.at(&["spec"]).is_some() => bare.with(&["spec", "priorityClassSource"], ""),
        None => bare,
    };
    let bare =
        moved(&bare, "status", "accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds");
    assigned(&bare.without(&["spec", "preemptionGates"]), topology::domains)
}

/// Converts the topology assignments of a Workload.
fn assigned(object: &Tree, say: fn(&Tree) -> Tree) -> Tree {
    let Some(all) = object.at(ASSIGNMENTS).filter(|it| it.is_list()) else {
        return object.clone();
    };
    let one = |_: usize, it: &Tree| match it.get(TOPOLOGY) {
        Some(topology) => it.with_key(TOPOLOGY, say(topology)),
        None => it.clone(),
    };
    object.with(ASSIGNMENTS, all.map_items(one))
}

#[cfg(test)]
mod tests;
