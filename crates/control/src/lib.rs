//! The controller runtime and the controllers, one thin module each.
//!
//! A [`Controller`] maps watch events to keys and reconciles a key. [`ControlLoop`] owns the caches, the workqueue with its
//! backoff, the event recorder and the reconciliations in flight; it takes inputs and returns requests to send. In production
//! a thread drives it ([`driver::ControllerRuntime`]); the simulator drives the same loop under virtual time.
//!
//! # Guarantees
//!
//! - One thread owns a control loop; there are no locks inside.
//! - A key is reconciled by one worker at a time. The steps of a reconciliation are sent one after another; a failed step drops
//!   the rest, and the key is retried with backoff.
//! - A reply that is newer than the cache is applied to it, so that the next reconciliation sees the last one's writes.
//!
//! # Deliberately absent
//!
//! Decisions about any kind of object: they belong to the pure crates (`job`, `jobset`, `queue`, `trainer`, `scheduler`).
//! Async code, sockets, and any clock but the one that is passed in.

#![deny(missing_docs)]

pub mod cache;
pub mod controller;
pub mod disruption;
pub mod driver;
pub mod endpoint_slices;
pub mod event_recorder;
pub mod gc;
pub mod jobs;
pub mod jobsets;
pub mod metrics;
pub mod namespaces;
pub mod node_lifecycle;
pub mod pod_gc;
pub mod pod_groups;
pub mod queueing;
pub mod resource_claims;
pub mod runtime;
pub mod schedule;
pub mod service_accounts;
pub mod training;
pub mod unsupported;
pub mod volumes;
pub mod workqueue;

pub use cache::{Caches, WatchEvent};
pub use controller::{
    Controller, ExternalTrigger, ObjectKey, Precondition, ReconcileRequest, Reconciled, Requeue, Step,
};
pub use runtime::{ControlLoop, RequestBatch, RequestId, RuntimeInput, RuntimeOptions, RuntimeOutput};
