//! Label and field selectors of list and watch requests.
//!
//! # Guarantees
//!
//! - Accepts what upstream accepts, and rejects the rest with upstream's messages, which clients show.
//!
//! # Deliberately absent
//!
//! The selectable fields of a kind: they are in the registry of the API server.

mod fields;
mod labels;
mod lexer;
mod words;

pub use fields::{Fields, Term};
pub use labels::{Labels, Operator, Requirement};
pub use words::{label_key_problems, label_value_problems};
