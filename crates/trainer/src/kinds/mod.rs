//! The kinds of Trainer: CRDs, admission, and the bundled runtimes.
//!
//! # Guarantees
//!
//! - Admission does not repeat what the schema or a CEL rule of a CRD rejects.

pub mod admission;
pub mod bundled_runtimes;
mod crd_sources;
mod fields;

pub use crd_sources::{crds, sources};
