//! The kinds of queueing: their definitions, what is filled in and refused, their versions, and the configuration.
//!
//! # Invariants
//!
//! - What a definition's schema or its rules refuse is not refused a second time here.
//! - Admission, like everything else, reads the stored version; [`convert`] comes before it.

pub mod admission;
pub mod config;
pub mod convert;
mod definitions;
mod fields;
#[cfg(test)]
mod words_tests;

pub use definitions::{definitions, sources};
