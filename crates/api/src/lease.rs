//! Node Leases: the heartbeat of a kubelet.

use std::time::Duration;

use muster_tree::{Text, Tree, tree};

use crate::client::Uid;
use crate::consts::NODE_LEASES;
use crate::meta;
use crate::paths::lease as path;
use crate::time::Time;

/// `leaseDurationSeconds` of a node Lease, upstream's default.
pub const NODE_LEASE_SECONDS: i64 = 40;
/// Interval at which a kubelet renews its Lease, upstream's default.
pub const NODE_LEASE_RENEW: Duration = Duration::from_secs(10);

/// The Lease of a node, renewed at `now` and owned by the Node.
#[must_use]
pub fn of_node(node: &Text, uid: &Uid, now: Time) -> Tree {
    tree!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": node, "namespace": NODE_LEASES,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}]},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": NODE_LEASE_SECONDS, "renewTime": now.to_micros_text()}})
}

/// A merge patch that renews a Lease.
#[must_use]
pub fn renewal(now: Time) -> Tree {
    Tree::Null.with(path::RENEWED, now.to_micros_text())
}

/// A merge patch by which a kubelet that shuts down gracefully releases its Lease.
#[must_use]
pub fn release() -> Tree {
    Tree::Null.with(path::RENEWED, Tree::Null).with(path::HOLDER, Tree::Null)
}

/// Returns whether a Lease has expired or was released.
#[must_use]
pub fn is_expired(lease: &Tree, now: Time) -> bool {
    ends(lease).is_none_or(|at| at <= now)
}

/// When a Lease expires unless it is renewed; `None` if it was released.
#[must_use]
pub fn ends(lease: &Tree) -> Option<Time> {
    // The constant, not `leaseDurationSeconds` of the object: all kubelets here use the default.
    renewed(lease).map(|at| at + Duration::from_secs(NODE_LEASE_SECONDS.unsigned_abs()))
}

/// `spec.renewTime`; `None` if the Lease was released.
#[must_use]
pub fn renewed(lease: &Tree) -> Option<Time> {
    Time::of(lease.at(path::RENEWED))
}

/// Returns whether a Lease has a holder; a released Lease has none.
#[must_use]
pub fn is_held(lease: &Tree) -> bool {
    !lease.str_at(path::HOLDER).is_empty()
}

/// Returns whether the Node with this UID owns a Lease.
#[must_use]
pub fn is_owned_by(lease: &Tree, uid: &Uid) -> bool {
    meta::owner_references(lease).any(|owner| owner.uid == *uid)
}
