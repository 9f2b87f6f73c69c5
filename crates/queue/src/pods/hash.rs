//! The fingerprint of a pod's role: pods that ask for the same are of one role.
//!
//! It is the role hash of Kueue, so that Workloads of pod groups are the same under either: SHA-256 of a part of the pod
//! spec as Go writes it in JSON. Go writes the fields of a struct in the order in which its type declares them, and the
//! keys of a map sorted; [`go`] has those orders.
//!
//! # Invariants
//!
//! - What is stamped on a pod wins over what would be computed now: node selectors and tolerations that are put on at
//!   the start do not change a role.
//! - Labels, volumes, images, variables, the node and gates have no say.
//!
//! Pods are expected as the API server hands them to a webhook: with its defaults (tolerations and priority among them),
//! and with quantities in their canonical form.

mod go;

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
    let all: String = Sha256::digest(shape(tree)).iter().map(|byte| format!("{byte:02x}")).collect();
    all[..DIGITS].to_owned()
}

/// All that makes a role, as JSON: a map, so by sorted keys.
fn shape(tree: &Tree) -> String {
    let at = |path: &[&str]| tree.at(path).unwrap_or(&Tree::Null);
    let mut all = vec![
        ("affinity", go::AFFINITY.write(at(pod::AFFINITY))),
        ("containers", containers(tree.items_at(pod::CONTAINERS))),
        ("initContainers", containers(tree.items_at(pod::INIT_CONTAINERS))),
        ("nodeSelector", go::plain(at(pod::NODE_SELECTOR))),
        ("overhead", quantities(at(pod::OVERHEAD))),
        ("priority", go::plain(at(pod::PRIORITY))),
        ("resourceClaims", go::CLAIM.write_list(at(pod::CLAIMS))),
    ];
    if at(&["spec", "resources"]).is_map() {
        all.push(("resources", quantities(at(pod::REQUESTS))));
    }
    all.extend([
        ("runtimeClassName", go::plain(at(pod::RUNTIME_CLASS))),
        ("tolerations", go::TOLERATION.write_list(at(pod::TOLERATIONS))),
        ("topologySpreadConstraints", go::SPREAD_CONSTRAINT.write_list(at(pod::SPREAD))),
    ]);
    format!("{{\"spec\":{}}}", go::object(all))
}

/// Go appends to a slice that is not there: without containers it never is.
fn containers(list: &[Tree]) -> String {
    let one = |item: &Tree| {
        let at = |path: &[&str]| item.at(path).unwrap_or(&Tree::Null);
        let requests = go::object([("requests", quantities(at(container::REQUESTS)))]);
        go::object([("ports", go::PORT.write_list(at(container::PORTS))), ("resources", requests)])
    };
    if list.is_empty() { "null".to_owned() } else { go::list(list.iter().map(one)) }
}

/// Amounts as text: `1` and `"1"` are one.
fn quantities(map: &Tree) -> String {
    if !map.is_map() {
        return go::plain(&Tree::Null);
    }
    go::plain(&map.map_entries(|_, amount| {
        Some(match amount {
            Tree::Int(number) => Tree::from(number.to_string()),
            other => other.clone(),
        })
    }))
}
