//! Kubeflow TrainJobs (KEP-2170): CRDs and admission, the JobSet that a TrainJob and its runtime are built into, and the
//! TrainJob controller.
//!
//! # Guarantees
//!
//! - Every function is pure: no clock, no waiting, no randomness of its own.
//!
//! # Deliberately absent
//!
//! Requests: the controllers and webhooks that call this crate send them.

pub mod build;
pub mod controller;
pub mod kinds;
pub mod rbac;
pub mod ssh_keys;
