//! The server over real sockets: what clients get, especially misbehaving ones.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "http/harness.rs"]
mod harness;

#[path = "http/bad_input.rs"]
mod bad_input;
#[path = "http/identity.rs"]
mod identity;
#[path = "http/reading.rs"]
mod reading;
#[path = "http/streams.rs"]
mod streams;
#[path = "http/watching.rs"]
mod watching;
