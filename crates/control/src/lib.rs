//! The loop that owns all caches and controllers, and one thin file per controller.
//!
//! A controller is two plain functions: which keys a change concerns, and what to do about a key. [`Loop`] keeps
//! the caches, the queue, back-off and the plans under way; it is fed inputs and answers with calls to send.
//! Production feeds it from a thread ([`run::Shell`]); the simulator feeds the same loop by hand.
//!
//! # Invariants
//!
//! - One thread owns a loop; there are no locks inside.
//! - A key is worked on once at a time. The steps of a plan are sent one after another; a refusal drops the
//!   rest and the key is looked at again.
//! - Replies go into the caches when they are newer, so the next plan sees what the last one did.
//!
//! # Deliberately absent
//!
//! An opinion about any kind: that lives in the pure crates. Async, sockets, and clocks other than the one
//! handed in.

pub mod accounts;
pub mod cache;
pub mod claims;
pub mod counters;
pub mod disruption;
pub mod gc;
pub mod jobs;
pub mod jobsets;
pub mod lifecycle;
pub mod loops;
pub mod namespaces;
pub mod plan;
pub mod podgc;
pub mod podgroups;
pub mod queue;
pub mod queueing;
pub mod record;
pub mod run;
pub mod schedule;
pub mod slices;
pub mod training;
pub mod unsupported;
pub mod volumes;

pub use cache::{Caches, Seen};
pub use loops::{CallId, Calls, Input, Loop, LoopOptions, Output};
pub use plan::{Controller, Doorbell, GaveUp, Key, Plan, Step, Wake, Want};
