//! The kinds of training: their definitions, what is filled in and refused, and the runtimes that are shipped.
//!
//! # Invariants
//!
//! - What a definition's schema or its rules refuse is not refused a second time here.

pub mod admission;
mod definitions;
mod fields;
pub mod shipped;

pub use definitions::{definitions, sources};
