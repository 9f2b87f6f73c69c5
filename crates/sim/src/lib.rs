//! The simulated world: the embedded engine in memory and the very loops of production, under virtual time, seeded
//! chance and faults.
//!
//! A world is a plain loop that throws dice: deliver what changed (some loops and kinds lag behind), perform one
//! outstanding call, lose its reply, answer it with a conflict, crash a loop, cut a watch or let it stall, let time
//! pass.
//!
//! # Invariants
//!
//! - Same seed, same world: the hash of all committed records is the same in every run and every process.
//! - Time passes only when nobody can do anything at the present instant.
//!
//! # Deliberately absent
//!
//! Threads, sockets, real clocks, and any opinion of its own about Kubernetes.

mod chance;
mod faults;
mod machine;
mod runner;
mod setup;
mod trace;
mod world;

pub use chance::{Dice, VirtualClock};
pub use faults::{Blow, Faults, Happened, STALL_SECS_MAX, Strike};
pub use machine::Played;
pub use muster_apiserver::http::in_process::{Answered, Raw};
pub use runner::Sent;
pub use setup::{Fleet, Setup, administrator};
pub use world::{World, heartbeat};
