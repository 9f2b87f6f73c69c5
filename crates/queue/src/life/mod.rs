//! The life of Workloads and queues: what is written of them once something was decided or has happened.
//!
//! A Workload waits, gets its share, passes its checks, runs, and may have to leave and come back. [`workload::plan`] is
//! what its controller does; [`admission`] is what follows from a decision of the engine; [`steps`] are the parts that
//! those who start and stop jobs and pods share. [`queues`] keeps the statuses of ClusterQueues, LocalQueues and Cohorts,
//! and the finalizers of what is in use.
//!
//! # Invariants
//!
//! - Everything here is a function of its arguments: same picture, same steps, same order.
//! - All that admission owns of a status is written at once, over the revision that was read: nothing is half written,
//!   and a repeated pass over what was written writes nothing.
//! - Quota stays reserved from an eviction until the job is known to have stopped.
//! - What was deactivated by us says so before it is: a crash in between deactivates it later, never twice.
//!
//! # Deliberately absent
//!
//! Who gets what. The engine decides that; here is only what its decisions look like.

pub mod admission;
pub mod blockers;
pub mod checks;
pub mod cohorts;
mod draft;
pub mod numbers;
pub mod pending;
pub mod priority;
pub mod queues;
pub mod settings;
pub mod steps;
pub mod told;
pub mod turns;
pub mod workload;

pub use draft::{At, Known, Note, Written};
