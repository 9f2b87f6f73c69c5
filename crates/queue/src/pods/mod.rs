//! The plain pod integration: webhook, validation and reconciler of queued pods and pod groups.
//!
//! A pod with a queue name has a scheduling gate until its Workload is admitted. Pods can declare a group
//! ([`decl`]); a group has one Workload and is admitted as a whole. [`mutate`] and [`validate`] implement
//! the webhooks, [`reconciler`] the controller, and [`expectations`] tracks requests that were sent and not
//! observed yet.
//!
//! # Guarantees
//!
//! - Every function is pure.
//! - A pod that is not managed is never modified.
//!
//! # Deliberately absent
//!
//! Topology ungating: the topology gate is removed together with the admission gate, unless the admission assigns a
//! topology.

pub mod compose;
pub mod declared_pod_sets;
pub mod expectations;
pub mod gang;
pub mod group;
pub mod group_metadata;
pub mod mutate;
pub mod queued_pod;
pub mod reconciler;
pub mod role_hash;
pub mod validate;
