//! The `kueue.x-k8s.io` kinds: CRDs, defaulting and validation, version conversion, and the configuration file.
//!
//! # Guarantees
//!
//! - What the CRD schema or its CEL rules reject is not validated again here.
//! - Admission reads the stored version; [`convert`] runs before it.

pub mod admission;
pub mod config;
pub mod convert;
mod definitions;
mod fields;
#[cfg(test)]
mod words_tests;

pub use definitions::{definitions, sources};
