//! A Kubernetes API server over shared trees: one generic engine, and HTTP around it.
//!
//! - [`engine`]: what happens to a request below HTTP, as plain functions. Controllers enter here too.
//! - [`registry`]: which resources are served, and how each differs from the generic rule.
//! - [`http`]: connections, authentication, negotiation, routing, watch streams.
//!
//! # Invariants
//!
//! - Every write passes `prepare` (pure) and the store's `accept`; nobody writes around it.
//! - Below `http` nothing waits and nothing is async.
//! - Each refusal is a [`Status`] with the reason and words that Kubernetes clients know.

pub mod admission;
mod crds;
pub mod discovery;
pub mod engine;
pub mod http;
pub mod kinds;
pub mod local;
pub mod openapi;
mod quota;
pub mod registry;
pub mod request;
pub mod status;
pub mod tables;

pub use status::Status;
