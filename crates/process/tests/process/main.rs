//! Containers as processes, as the local node uses them: through the port, with real supervisors.

#![allow(clippy::unwrap_used, reason = "a test may give up")]

mod adopt;
mod beside;
mod engine;
mod life;
mod limits;
mod logs;
mod ordinary;
mod view;
mod world;
