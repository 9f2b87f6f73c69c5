//! The simulated world and what is checked on it.

#![allow(clippy::unwrap_used, reason = "a test may give up")]

mod garbage;
mod kubelet;
mod nodes;
mod policies;
mod words;
mod worlds;
