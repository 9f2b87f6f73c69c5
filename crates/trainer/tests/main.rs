//! Tables of cases and sequences, one module for each part.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod kinds;
mod life;
