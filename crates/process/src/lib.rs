//! Containers as processes of this machine.
//!
//! [`Containers`] is the port: the local node says what to run ([`Launch`], complete: nothing is left to look up) and asks
//! how it goes ([`State`]). Each container has a small supervisor process of its own, which outlives the server: it keeps
//! the log, waits, and writes down how the container ended. A server that comes back finds everything in the folders.
//!
//! # Invariants
//!
//! - A container that was started once is never started twice: its folder is made before its process.
//! - An end is written down before it can be seen; an end that nobody wrote down is told as [`Why::Lost`].
//! - When a supervisor ends, however it ends, no process of its container is left.
//!
//! # Deliberately absent
//!
//! Kubernetes: restarts, probes and grace are the node's. Images: a command runs with the programs of this machine.

pub mod checks;
pub mod launch;
pub mod layout;
pub mod port;
pub mod roster;

pub use launch::{Identity, Isolation, Launch, Limits, Mount};
pub use layout::{Id, Layout};
pub use port::{Applied, Attached, Containers, Ended, Exec, ExecOptions, State, Why};
pub use roster::{Resident, Roster};
