//! Tables of cases and scenarios, one module per part.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod kinds;
mod life;
