//! The TrainJob controller: status, objects, deadline and TTL.
//!
//! [`reconcile()`] maps one [`TrainJobSnapshot`] to the next steps. The desired objects are built before and passed in;
//! [`snapshot`] chooses the runtime.
//!
//! # Guarantees
//!
//! - Pure in objects and time: after a restart the same objects give the same deadlines.
//! - At most one requeue time: the second at which the deadline or the TTL expires.
//! - A finished TrainJob stays finished: a later status of its JobSet does not change its terminal condition, and no
//!   object is created again.
//! - The failure is in the status before any object is deleted for it.
//! - A build error holds up nothing else: deadline, TTL and status come first.
//! - Deletions have the observed UID as a precondition.
//!
//! # Deliberately absent
//!
//! Retries: the controller runtime requeues a rejected step, with the delays of [`backoff`].

pub mod backoff;
mod deadline;
pub mod metrics;
mod objects;
pub mod progress;
mod reconcile;
pub mod runtimes;
pub mod snapshot;
mod status_builder;

pub use deadline::{DeadlineClock, deadline, ttl_expiry};
pub use objects::{ChildLister, DesiredObjects};
pub use reconcile::{TrainJobEvent, TrainJobSnapshot, TrainJobStep, reconcile, wants_objects};
