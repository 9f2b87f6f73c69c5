//! The kubelet server over real connections, with containers that are host commands.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod attach;
mod commands;
mod harness;
mod logs;
mod ports;
mod tls_listener;
