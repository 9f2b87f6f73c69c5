//! Queueing in the manner of Kueue: the quota engine, the reconcilers of its kinds, the integrations of jobs and
//! pods, and the CRDs.
//!
//! # Guarantees
//!
//! - Every function is pure: no clock, no I/O, no randomness. Time and lookups are arguments.
//!
//! # Deliberately absent
//!
//! Clients and watches. `muster-control` feeds snapshots in and sends the resulting requests.

pub mod engine;
pub mod jobs;
pub mod kinds;
pub mod pods;
pub mod reconcilers;
