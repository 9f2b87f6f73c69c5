//! The store as its callers see it.

#![allow(clippy::unwrap_used, missing_docs)]

mod copy;
mod damage;
mod durable;
mod kill;
mod memory;
mod model;
mod support;
