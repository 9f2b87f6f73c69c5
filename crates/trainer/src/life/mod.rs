//! The life of TrainJobs: what is written of them, what is made for them, and how they end.
//!
//! [`plan`] reads one picture of a TrainJob and answers with the steps that bring it on. What it is made into is built
//! elsewhere and passed in; [`snapshot`] says of which runtime.
//!
//! # Invariants
//!
//! - Everything is a function of objects and the instant: whoever starts anew finds the same deadlines in them.
//! - At most one wake-up, at the very second at which something is due.
//! - A finished TrainJob keeps its end: what is reported later changes nothing of it, and nothing is made again.
//! - Why a job failed is written before anything is deleted for it.
//! - What cannot be made keeps nothing else from being done: the deadline, the time to live and the status come first.
//! - Only the very incarnation that was seen is deleted.
//!
//! # Deliberately absent
//!
//! Retries. A step that was refused is tried again by whoever performs it, more and more slowly ([`retries`]).

mod clock;
mod draft;
pub mod numbers;
mod objects;
mod plan;
pub mod progress;
pub mod retries;
pub mod runtimes;
pub mod snapshot;

pub use clock::{DeadlineClock, due, expires};
pub use objects::{Around, Made};
pub use plan::{Note, Picture, Step, plan, wants_objects};
