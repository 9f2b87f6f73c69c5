//! Every field of every kind, in both versions.
//!
//! The versions differ in few places; a field that only one has is added by a version check.

mod flavor;
mod parts;
mod queues;
mod workload;

pub(super) use flavor::{check, flavor, priority_class, topology};
pub(super) use queues::{cluster_queue, cohort, local_queue};
pub(super) use workload::workload;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Old,
    /// `v1beta2`, the storage version.
    New,
}
