//! Lists with merge keys: an item replaces the one with the same key, or is appended.

use muster_api::consts::labels;
use muster_api::paths::{container, container_claim, container_port, env, mount, pod, pod_volume};
use muster_tree::{Tree, tree};

/// An environment variable with a value.
pub(super) fn variable(name: &str, value: impl Into<Tree>) -> Tree {
    tree!({"name": name}).with(env::VALUE, value)
}

/// An environment variable with the pod's completion index, by the downward API. `apiVersion` is left out: it would differ
/// from what API servers default.
pub(super) fn rank(name: &str) -> Tree {
    let field = format!("metadata.annotations['{}']", labels::COMPLETION_INDEX);
    tree!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}})
}

/// Upserts environment variables by name.
pub(super) fn with_env(container: &Tree, items: &[Tree]) -> Tree {
    upserted(container, container::ENV, items, |a, b| has_same(a, b, env::NAME))
}

/// Upserts a container port by its number.
pub(super) fn with_port(container: &Tree, number: i64) -> Tree {
    let item = Tree::empty_map().with(container_port::PORT, number);
    upserted(container, container::PORTS, &[item], |a, b| {
        has_same(a, b, container_port::PORT) || has_same(a, b, container_port::NAME)
    })
}

/// Upserts volume mounts; of two at one path the new one wins.
pub(super) fn with_mounts(container: &Tree, items: &[Tree]) -> Tree {
    upserted(container, container::MOUNTS, items, |a, b| has_same(a, b, mount::PATH))
}

/// Upserts resource claims by name.
pub(super) fn with_claims(container: &Tree, items: &[Tree]) -> Tree {
    upserted(container, container::CLAIMS, items, |a, b| has_same(a, b, container_claim::NAME))
}

/// Upserts volumes of a pod by name.
pub(super) fn with_volumes(pods: &Tree, items: &[Tree]) -> Tree {
    upserted(pods, pod::VOLUMES, items, |a, b| has_same(a, b, pod_volume::NAME))
}

/// Appends an item to a list.
pub(super) fn appended(owner: &Tree, path: &[&str], item: Tree) -> Tree {
    owner.with(path, Tree::list(owner.items_at(path).iter().cloned().chain([item])))
}

fn has_same(a: &Tree, b: &Tree, key: &[&str]) -> bool {
    a.at(key).is_some_and(|value| b.at(key) == Some(value))
}

fn upserted(owner: &Tree, path: &[&str], items: &[Tree], is_same: impl Fn(&Tree, &Tree) -> bool) -> Tree {
    if items.is_empty() {
        return owner.clone();
    }
    let mut all = owner.items_at(path).to_vec();
    for item in items {
        match all.iter().position(|old| is_same(old, item)) {
            Some(at) => all[at] = item.clone(),
            None => all.push(item.clone()),
        }
    }
    owner.with(path, Tree::list(all))
}
