//! Plain pods: which are taken in, what is accepted of them, and what they need until they have ended.
//!
//! A pod with a queue waits behind a gate until its Workload is admitted. Several pods may say that they belong together
//! ([`decl`]); then they have one Workload and start as one. [`admit`] and [`check`] answer when pods are written,
//! [`plan`] decides what happens to them afterwards, [`expect`] remembers what was sent and not seen yet.
//!
//! # Invariants
//!
//! - Everything here is a function of its arguments.
//! - A pod that nobody asked us to queue is left as it is.
//!
//! # Deliberately absent
//!
//! Topology. Places are not chosen pod by pod here; gates for it are taken off with ours unless a place was assigned.

pub mod admit;
pub mod check;
pub mod compose;
pub mod decl;
pub mod expect;
pub mod gang;
pub mod group;
pub mod hash;
pub mod member;
pub mod plan;
pub mod sets;
