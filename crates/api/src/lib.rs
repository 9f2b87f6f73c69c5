//! What every part speaks: the words of the wire, small facts about kinds, time, and the port to an API server.
//!
//! # Invariants
//!
//! - Nothing here waits, reads a clock or throws dice: time and chance come in through [`ports`].
//! - A label, reason or field name is spelled once, here.
//!
//! # Deliberately absent
//!
//! Any client or server. [`port`] describes calls as data; who performs them is not known here.

pub mod claim;
pub mod condition;
pub mod definition;
pub mod event;
pub mod gang;
pub mod gang_make;
pub mod job;
pub mod job_pod;
pub mod job_policy;
pub mod jobset;
pub mod kinds;
pub mod lease;
pub mod meta;
pub mod node;
pub mod node_terms;
pub mod paths;
pub mod pod;
pub mod pod_requests;
pub mod pod_status;
pub mod pod_work;
pub mod port;
pub mod ports;
pub mod quantity;
pub mod queue;
pub mod selector;
pub mod slice;
pub mod suffix;
pub mod time;
pub mod token;
pub mod toleration;
pub mod train;
pub mod unsupported;
pub mod volume;
pub mod words;
