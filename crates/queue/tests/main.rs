//! Table tests and scenario tests, one module per part.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod engine;
mod jobs;
mod life;
mod pods;
