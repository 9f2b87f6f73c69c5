//! Leases of nodes: the heartbeat.

use std::time::Duration;

use muster_tree::{Text, Tree, tree};

use crate::meta;
use crate::paths::lease as path;
use crate::port::Uid;
use crate::time::Time;
use crate::words::NODE_LEASES;

/// How long a node's lease lasts.
pub const NODE_LEASE_SECONDS: i64 = 40;
/// How often a node renews its lease.
pub const NODE_LEASE_RENEW: Duration = Duration::from_secs(10);

/// The lease of a node, renewed now.
#[must_use]
pub fn of_node(node: &Text, uid: &Uid, now: Time) -> Tree {
    tree!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": node, "namespace": NODE_LEASES,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}]},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": NODE_LEASE_SECONDS, "renewTime": now.to_micros_text()}})
}

/// A merge patch that renews a lease.
#[must_use]
pub fn renewal(now: Time) -> Tree {
    Tree::Null.with(path::RENEWED, now.to_micros_text())
}

/// A merge patch by which a node that leaves in good order gives its lease back.
#[must_use]
pub fn release() -> Tree {
    Tree::Null.with(path::RENEWED, Tree::Null).with(path::HOLDER, Tree::Null)
}

/// Whether nobody renews a lease any more.
#[must_use]
pub fn is_over(lease: &Tree, now: Time) -> bool {
    ends(lease).is_none_or(|at| at <= now)
}

/// When a lease is over unless it is renewed; `None` when it was given back.
#[must_use]
pub fn ends(lease: &Tree) -> Option<Time> {
    renewed(lease).map(|at| at + Duration::from_secs(NODE_LEASE_SECONDS.unsigned_abs()))
}

/// When a lease was renewed last.
#[must_use]
pub fn renewed(lease: &Tree) -> Option<Time> {
    Time::of(lease.at(path::RENEWED))
}

/// Whether somebody holds a lease; one that was given back has nobody.
#[must_use]
pub fn is_held(lease: &Tree) -> bool {
    !lease.str_at(path::HOLDER).is_empty()
}

/// Whether a lease belongs to the node of this UID.
#[must_use]
pub fn is_owned_by(lease: &Tree, uid: &Uid) -> bool {
    meta::owners(lease).any(|owner| owner.uid == *uid)
}
