//! What is installed on a cluster, as data: options in, trees out.
//!
//! # Invariants
//!
//! - Pure: the same options make the same trees, in the same order.
//! - Everything can be applied on the server, and names no field that the operator itself keeps (`caBundle`).
//!
//! # Deliberately absent
//!
//! Who applies it: `muster install` does, or Helm, or a person with kubectl.

pub mod hooks;
pub mod names;
