//! Deterministic simulation: the API engine in memory and the production controller loops, under virtual time, a seeded
//! random number generator and fault injection.
//!
//! A world is a loop that takes one random step at a time: deliver watch events (some loops and kinds lag), send one
//! outstanding request, lose it or its reply, answer it with a conflict, crash a loop, cut or stall a watch, advance
//! the clock.
//!
//! # Guarantees
//!
//! - The same seed gives the same world: the hash of all committed records is equal in every run and process.
//! - Time advances only when no step is possible at the current instant.
//!
//! # Deliberately absent
//!
//! Threads, sockets, the real clock, and any Kubernetes behaviour of its own.

mod faults;
mod machine;
mod rng;
mod runner;
mod setup;
mod trace;
mod world;

pub use faults::{FaultCounts, FaultInjection, Faults, InjectedFault, STALL_SECS_MAX};
pub use machine::SimulatedMachine;
pub use muster_apiserver::http::in_process::{InProcessRequest, InProcessResponse};
pub use rng::{SeededRng, VirtualClock};
pub use runner::RequestCounts;
pub use setup::{NodeFleet, Setup, administrator};
pub use world::{World, heartbeat};
