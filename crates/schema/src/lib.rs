//! The schema of every kind, and the generic functions over it.
//!
//! One table describes built-in kinds and custom resources alike. Defaulting, pruning, validation, patches, field
//! ownership, tables and protobuf encoding are functions of an object and its schema; no code is specific to a kind.
//!
//! # Guarantees
//!
//! - Every function is pure: an object and a schema in, an object or errors out.
//! - A function that changes nothing returns the same allocation, so that callers can compare cheaply.
//!
//! # Deliberately absent
//!
//! Rules that a schema cannot express (strategy functions of the API server), storage, HTTP.

#![deny(missing_docs)]

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
