//! Lists whose items are told apart by a key: an item takes the place of its namesake, or comes last.

use muster_api::paths::{container, container_claim, container_port, env, mount, pod, pod_volume};
use muster_api::words::labels;
use muster_tree::{Tree, tree};

/// A variable with a value.
pub(super) fn variable(name: &str, value: impl Into<Tree>) -> Tree {
    tree!({"name": name}).with(env::VALUE, value)
}

/// A variable that tells a pod its place in its Job. The field is named and nothing else: a version beside it would
/// differ from what servers keep.
pub(super) fn rank(name: &str) -> Tree {
    let field = format!("metadata.annotations['{}']", labels::COMPLETION_INDEX);
    tree!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}})
}

/// A container with these variables.
pub(super) fn with_env(container: &Tree, items: &[Tree]) -> Tree {
    upserted(container, container::ENV, items, |a, b| has_same(a, b, env::NAME))
}

/// A container that listens there.
pub(super) fn with_port(container: &Tree, number: i64) -> Tree {
    let item = Tree::empty_map().with(container_port::PORT, number);
    upserted(container, container::PORTS, &[item], |a, b| {
        has_same(a, b, container_port::PORT) || has_same(a, b, container_port::NAME)
    })
}

/// A container with these volumes mounted; of two at one place the new one counts.
pub(super) fn with_mounts(container: &Tree, items: &[Tree]) -> Tree {
    upserted(container, container::MOUNTS, items, |a, b| has_same(a, b, mount::PATH))
}

/// A container with these claims to devices.
pub(super) fn with_claims(container: &Tree, items: &[Tree]) -> Tree {
    upserted(container, container::CLAIMS, items, |a, b| has_same(a, b, container_claim::NAME))
}

/// A pod with these volumes.
pub(super) fn with_volumes(pods: &Tree, items: &[Tree]) -> Tree {
    upserted(pods, pod::VOLUMES, items, |a, b| has_same(a, b, pod_volume::NAME))
}

/// A tree with one more item in a list.
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
