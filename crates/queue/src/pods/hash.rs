//! The fingerprint of a pod's role: pods that ask for the same are of one role.
//!
//! # Invariants
//!
//! - What is stamped on a pod wins over what would be computed now: node selectors and tolerations that are put on at
//!   the start do not change a role.
//! - Labels, volumes, images, variables, the node and gates have no say.
//!
//! Quantities are expected in their canonical form: servers bring them into it before anybody is asked.

use muster_api::meta;
use muster_api::paths::{container, pod};
use muster_api::queue::words::annotations;
use muster_tree::{Text, Tree};
use sha2::{Digest, Sha256};

/// Digits of a fingerprint.
const DIGITS: usize = 8;

/// The role of a pod: as it was stamped, or as it is.
#[must_use]
pub fn role(tree: &Tree) -> Text {
    match meta::annotation(tree, annotations::ROLE_HASH) {
        Some(stamped) if !stamped.is_empty() => Text::from(stamped),
        _ => Text::from(computed(tree)),
    }
}

/// The fingerprint of a pod as it is.
#[must_use]
pub fn computed(tree: &Tree) -> String {
    let text = Tree::map([("spec", shape(tree))]).to_json();
    let all: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    all[..DIGITS].to_owned()
}

/// All that makes a role; what is absent is `null`.
fn shape(tree: &Tree) -> Tree {
    let whole = |path: &[&str]| tree.at(path).cloned().unwrap_or_default();
    let mut all = vec![
        ("affinity", whole(pod::AFFINITY)),
        ("containers", containers(tree.at(pod::CONTAINERS))),
        ("initContainers", containers(tree.at(pod::INIT_CONTAINERS))),
        ("nodeSelector", whole(pod::NODE_SELECTOR)),
        ("overhead", quantities(tree.at(pod::OVERHEAD))),
        ("priority", whole(pod::PRIORITY)),
        ("resourceClaims", whole(pod::CLAIMS)),
        ("runtimeClassName", whole(pod::RUNTIME_CLASS)),
        ("tolerations", whole(pod::TOLERATIONS)),
        ("topologySpreadConstraints", whole(pod::SPREAD)),
    ];
    if tree.at(pod::REQUESTS).is_some() || tree.at(pod::LIMITS).is_some() {
        all.push(("resources", Tree::map([("requests", quantities(tree.at(pod::REQUESTS)))])));
    }
    Tree::map(all)
}

fn containers(list: Option<&Tree>) -> Tree {
    let Some(list) = list.filter(|list| list.is_list()) else { return Tree::Null };
    Tree::list(list.items().iter().map(|item| {
        let requests = quantities(item.at(container::REQUESTS));
        let ports = item.at(container::PORTS).cloned().unwrap_or_default();
        Tree::map([("ports", ports), ("resources", Tree::map([("requests", requests)]))])
    }))
}

/// Amounts as text: `1` and `"1"` are one.
fn quantities(map: Option<&Tree>) -> Tree {
    let Some(map) = map.filter(|map| map.is_map()) else { return Tree::Null };
    map.map_entries(|_, amount| {
        Some(match amount {
            Tree::Int(number) => Tree::from(number.to_string()),
            other => other.clone(),
        })
    })
}
