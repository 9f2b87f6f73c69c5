//! A Kubernetes API server over shared immutable JSON trees: one generic engine (storage, admission, validation) and
//! the HTTP layer.
//!
//! - [`engine`]: handles requests below HTTP with plain synchronous functions. Controllers call it in process, too.
//! - [`registry`]: the served resources, each with the strategy of its kind.
//! - [`http`]: connections, authentication, content negotiation, routing, watch streams.
//!
//! # Invariants
//!
//! - Every write passes `prepare` (pure) and the store's `accept`; there is no other write path.
//! - Below `http` nothing blocks and nothing is async.
//! - Every error is a [`Status`] with kube-apiserver's reason and message.

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
