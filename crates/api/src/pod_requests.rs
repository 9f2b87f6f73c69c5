//! The effective resource requests of a pod, shared by scheduling and quota.

use std::collections::BTreeMap;

use muster_tree::{Text, Tree};

use crate::node::amounts;
use crate::paths::{container, pod};

/// The effective requests of a pod or pod template, as upstream's `PodRequests` computes them.
///
/// The larger of: main containers plus sidecars, or the peak while init containers run. Pod-level requests override
/// this sum, and overhead is added. A container without a request for one of `defaults` counts with that amount.
#[must_use]
pub fn effective(tree: &Tree, defaults: &[(Text, i64)]) -> BTreeMap<Text, i64> {
    let mut running: BTreeMap<Text, i64> = BTreeMap::new();
    let mut peak: BTreeMap<Text, i64> = BTreeMap::new();
    for item in tree.items_at(pod::INIT_CONTAINERS) {
        for (name, amount) in asked(item, defaults) {
            let so_far = running.entry(name.clone()).or_default();
            let moment = peak.entry(name).or_default();
            // Sidecars that started earlier keep running beside this init container.
            *moment = (*moment).max(so_far.saturating_add(amount));
            *so_far = so_far.saturating_add(if is_sidecar(item) { amount } else { 0 });
        }
    }
    for item in tree.items_at(pod::CONTAINERS) {
        for (name, amount) in asked(item, defaults) {
            let so_far = running.entry(name).or_default();
            *so_far = so_far.saturating_add(amount);
        }
    }
    for (name, amount) in peak {
        let sum = running.entry(name).or_default();
        // The node must fit the larger of the two phases, not their sum.
        *sum = (*sum).max(amount);
    }
    for (name, amount) in amounts(tree.entries_at(pod::REQUESTS)) {
        // Pod-level requests replace the sum of the containers for the resources that support them.
        if is_for_whole_pods(&name) {
            running.insert(name, amount);
        }
    }
    for (name, amount) in amounts(tree.entries_at(pod::OVERHEAD)) {
        let so_far = running.entry(name).or_default();
        *so_far = so_far.saturating_add(amount);
    }
    running
}

/// Returns whether a resource may have a pod-level request.
#[must_use]
pub fn is_for_whole_pods(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

/// Returns whether an init container is a sidecar (`restartPolicy: Always`).
#[must_use]
pub fn is_sidecar(container: &Tree) -> bool {
    container.str_at(container::RESTART_POLICY) == "Always"
}

fn asked(item: &Tree, defaults: &[(Text, i64)]) -> Vec<(Text, i64)> {
    let mut all = amounts(item.entries_at(container::REQUESTS));
    let missing = |(name, _): &&(Text, i64)| all.iter().all(|(known, _)| known != name);
    let missing: Vec<(Text, i64)> = defaults.iter().filter(missing).cloned().collect();
    all.extend(missing);
    all
}
