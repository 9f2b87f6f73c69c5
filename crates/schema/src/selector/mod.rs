//! Label and field selectors: what a list or watch asks for.
//!
//! # Invariants
//!
//! - What Kubernetes accepts is accepted, what it refuses is refused with the same words: clients show them.
//!
//! # Deliberately absent
//!
//! Which fields a kind can be selected by: the registry of the API server knows.

mod fields;
mod labels;
mod lexer;
mod words;

pub use fields::{Fields, Term};
pub use labels::{Labels, Operator, Requirement};
pub use words::{label_key_problems, label_value_problems};
