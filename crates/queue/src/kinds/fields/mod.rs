//! Every field of every kind, in both versions.
//!
//! The versions differ in few places; a field that only one of them has is added where the version is asked.

mod flavor;
mod parts;
mod queues;
mod workload;

pub(super) use flavor::{check, flavor, priority_class, topology};
pub(super) use queues::{cluster_queue, cohort, local_queue};
pub(super) use workload::workload;

/// Which version of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// `v1beta1`.
    Old,
    /// `v1beta2`, which is stored.
    New,
}
