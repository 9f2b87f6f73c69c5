//! TrainJobs: what is accepted, the JobSets that they become, and how they live and end.
//!
//! # Invariants
//!
//! - Everything here is a function of what is passed in: no clock, no waiting, no chance.
//!
//! # Deliberately absent
//!
//! Who performs what is decided: calls are made elsewhere.

pub mod build;
pub mod keys;
pub mod kinds;
pub mod life;
pub mod rights;
