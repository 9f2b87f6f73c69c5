//! A kubelet over real connections, with containers that are commands of this machine.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod commands;
mod door;
mod harness;
mod live;
mod logs;
mod ports;
