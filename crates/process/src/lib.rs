//! Containers as processes of this machine.
//!
//! [`Containers`] is the port: the local node says what to run ([`Launch`], complete: nothing is left to look up) and asks
//! how it goes ([`State`]). Each container has a small supervisor process of its own, which outlives the server: it keeps
//! the log, waits, and writes down how the container ended. A server that comes back finds everything in the folders.
//!
//! ```text
//! server ── Processes ─┬─ thread per run: waits for the locks
//!                      └─ folder per run: orders, log, end
//! supervisor (__supervise)  keeps the log, looks after limits, writes the end
//!   └─ first process (__inside)  namespaces, view, limits; then `init` of the container
//!        └─ the command
//! ```
//!
//! # Invariants
//!
//! - A container that was started once is never started twice: its folder is made before its process.
//! - An end is written down before it can be seen; an end that nobody wrote down is told as [`Why::Lost`].
//! - When a supervisor ends, however it ends, no process of its container is left.
//!
//! # Deliberately absent
//!
//! Kubernetes: restarts, probes and grace are the node's. Images of our own: a command runs with the programs of this
//! machine, unless a container engine ([`Engine`]) was named: then the first process has it run the image.

mod beside;
mod cgroup;
pub mod checks;
mod clock;
mod engine;
mod exec;
mod files;
mod inside;
pub mod launch;
pub mod layout;
pub mod logs;
mod machine;
pub mod port;
mod probe;
mod processes;
mod remove;
pub mod roster;
mod supervise;
mod system;
#[cfg(test)]
mod testing;
mod words;

pub use engine::Engine;
pub use launch::{Identity, Isolation, Launch, Limits, Mount, Pull};
pub use layout::{Id, Layout};
pub use logs::{LogOptions, LogReader};
pub use machine::machine_usage;
pub use port::{Applied, Attached, Bell, Containers, Ended, Exec, ExecOptions, State, Usage, Why};
pub use probe::namespaces_missing;
pub use processes::Processes;
pub use roster::{Resident, Roster};
pub use system::confine::disk_bytes;
pub use words::run as run_hidden_command;
