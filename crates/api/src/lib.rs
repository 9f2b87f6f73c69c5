//! The vocabulary that all crates share: wire constants, typed views of objects, time, and the API client interface.
//!
//! # Guarantees
//!
//! - Nothing here blocks, reads a clock or draws random numbers: both come in through [`environment`].
//! - A label, reason, message or field path is spelled once, here.
//!
//! # Deliberately absent
//!
//! API clients and servers: [`client`] only describes requests and replies as data.

#![deny(missing_docs)]

pub mod client;
pub mod condition;
pub mod consts;
pub mod crd_schema;
pub mod endpoint_slice;
pub mod environment;
pub mod event;
pub mod gang;
pub mod gang_objects;
pub mod job;
pub mod job_pod;
pub mod job_policy;
pub mod jobset;
pub mod kinds;
pub mod lease;
pub mod meta;
pub mod name_suffix;
pub mod node;
pub mod node_selector;
pub mod paths;
pub mod pod;
pub mod pod_requests;
pub mod pod_run_spec;
pub mod pod_status;
pub mod quantity;
pub mod queue;
pub mod resource_claim;
pub mod selector;
pub mod time;
pub mod token;
pub mod toleration;
pub mod train;
pub mod unsupported;
pub mod volume;
