//! Reconcilers of Workloads, ClusterQueues, LocalQueues, Cohorts and ResourceFlavors: which status, spec and
//! finalizer updates follow from a decision or an event.
//!
//! [`workload::reconcile`] is the Workload controller. [`admission`] builds the status updates of engine decisions.
//! [`steps`] are the Workload transitions shared with the job and pod reconcilers. [`queues`] reconciles the
//! statuses of queues and cohorts and the finalizers of objects in use.
//!
//! # Guarantees
//!
//! - Every function is pure: the same snapshot gives the same actions in the same order.
//! - All status fields owned by admission are written in one update with the resourceVersion that was read.
//!   Reconciling the written object again writes nothing.
//! - An evicted Workload keeps its quota reservation until its job is observed as stopped.
//! - A Workload that the system deactivates carries condition `DeactivationTarget` before `spec.active` is set to
//!   false. After a crash in between the deactivation is completed, and counted once.
//!
//! # Deliberately absent
//!
//! Quota decisions: the engine makes them; this module writes their outcome.

pub mod admission;
pub mod checks;
pub mod cohorts;
pub mod event_dedup;
pub mod explanation;
pub mod metrics;
pub mod pending_reason;
pub mod priority;
pub mod queues;
pub mod settings;
mod status_builder;
pub mod status_rate_limit;
pub mod transitions;
pub mod workload;

pub use status_builder::{StatusBase, StatusUpdate, UpdateContext, WorkloadEvent};
