//! What a pod asks for as a whole, as Kubernetes counts it: by placement and by quota alike.

use std::collections::BTreeMap;

use muster_tree::{Text, Tree};

use crate::node::amounts;
use crate::paths::{container, pod};

/// The effective request of a pod, or of a template of pods: containers and sidecars together, or the greediest moment
/// of the start; what the pod asks for as a whole stands instead of that; overhead comes on top. Containers that do
/// not ask for one of `defaults` are taken to ask for that much.
#[must_use]
pub fn effective(tree: &Tree, defaults: &[(Text, i64)]) -> BTreeMap<Text, i64> {
    let mut running: BTreeMap<Text, i64> = BTreeMap::new();
    let mut peak: BTreeMap<Text, i64> = BTreeMap::new();
    for item in tree.items_at(pod::INIT_CONTAINERS) {
        for (name, amount) in asked(item, defaults) {
            let so_far = running.entry(name.clone()).or_default();
            let moment = peak.entry(name).or_default();
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
        *sum = (*sum).max(amount);
    }
    for (name, amount) in amounts(tree.entries_at(pod::REQUESTS)) {
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

/// Whether a resource may be asked for by a pod as a whole.
#[must_use]
pub fn is_for_whole_pods(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

/// Whether an init container stays for as long as the pod.
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
