//! Queueing: who may run when, what is accepted, and the definitions of its kinds.
//!
//! # Invariants
//!
//! - Everything here is a function of what is passed in: no clock, no waiting, no chance.
//!
//! # Deliberately absent
//!
//! Who performs what is decided: calls are made elsewhere.

pub mod engine;
pub mod jobs;
pub mod kinds;
pub mod life;
pub mod pods;
