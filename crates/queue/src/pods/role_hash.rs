//! The role hash: pods with equal scheduling requirements have the same role.
//!
//! It equals Kueue's role hash, so that pod group Workloads are the same under both: SHA-256 of a part of the pod
//! spec as Go encodes it in JSON. Go writes struct fields in declaration order and map keys sorted; [`go`] has
//! these orders.
//!
//! # Guarantees
//!
//! - The annotation written on creation wins over a recomputed hash: node selectors and tolerations added at the
//!   start do not change the role.
//! - Labels, volumes, images, environment variables, node name and gates do not contribute.
//!
//! Pods must be as the API server passes them to a webhook: defaulted (tolerations and priority included) and with
//! canonical quantities.

mod go;

use muster_api::meta;
use muster_api::paths::{container, pod};
use muster_api::queue::consts::annotations;
use muster_tree::{Text, Tree};
use sha2::{Digest, Sha256};

/// Length of the hash in hex digits.
const DIGITS: usize = 8;

/// The role hash of a pod: the annotation, else computed.
#[must_use]
pub fn role_hash(tree: &Tree) -> Text {
    match meta::annotation(tree, annotations::ROLE_HASH) {
        Some(stamped) if !stamped.is_empty() => Text::from(stamped),
        _ => Text::from(compute(tree)),
    }
}

/// Computes the role hash.
#[must_use]
pub fn compute(tree: &Tree) -> String {
    let all: String = Sha256::digest(shape(tree)).iter().map(|byte| format!("{byte:02x}")).collect();
    all[..DIGITS].to_owned()
}

/// The hashed part of the pod spec as JSON, keys sorted.
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

/// Go encodes a nil slice as `null`.
fn containers(list: &[Tree]) -> String {
    let one = |item: &Tree| {
        let at = |path: &[&str]| item.at(path).unwrap_or(&Tree::Null);
        let requests = go::object([("requests", quantities(at(container::REQUESTS)))]);
        go::object([("ports", go::PORT.write_list(at(container::PORTS))), ("resources", requests)])
    };
    if list.is_empty() { "null".to_owned() } else { go::list(list.iter().map(one)) }
}

/// Quantities as strings: `1` and `"1"` are equal.
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
