//! Admission of our own kinds inside the embedded server.
//!
//! The decisions are pure functions of the crates of those kinds; here the server asks them, and their answers become
//! what its clients know. Over the network the same functions answer as webhooks of a cluster.
//!
//! # Deliberately absent
//!
//! Rules. What is right or wrong with an object is none of this crate's business.

mod jobsets;

pub use jobsets::JobSets;
