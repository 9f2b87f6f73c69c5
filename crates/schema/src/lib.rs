//! The schema of every kind, and everything that is driven by it.
//!
//! One table describes built-in kinds and custom resources alike; defaulting, pruning, validation, merges, field
//! ownership, tables and protobuf bodies are generic functions over it. There is no code per kind here.
//!
//! # Invariants
//!
//! - Every function is pure: a tree and a schema in, a tree or errors out.
//! - A function that changes nothing returns the very same branch, so that callers can compare cheaply.
//!
//! # Deliberately absent
//!
//! Rules that no schema can say (they are small strategy functions of the API server), storage, HTTP.

pub mod admission;
pub mod apply;
pub mod crd;
pub mod error;
pub mod fields;
pub mod formats;
pub mod json_diff;
pub mod json_patch;
pub mod names;
pub mod node;
pub mod object;
pub mod patch;
mod path;
pub mod pattern;
pub mod proto;
pub mod quantities;
pub mod rules;
#[cfg(test)]
mod sample;
pub mod selector;
pub mod spelled;
pub mod strategic;
pub mod structure;
pub mod table;
#[cfg(test)]
mod testing;
pub mod validate;
pub mod zero;
