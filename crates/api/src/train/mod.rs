//! Training: what is read of TrainJobs and their runtimes, and what is written to them.
//!
//! # Invariants
//!
//! - A word, path or message of the wire is spelled once, in [`words`] and [`paths`].
//! - An object that never passed admission means the same as one that did: what would be filled in is read as if it were.
//!
//! # Deliberately absent
//!
//! What a TrainJob becomes and when it ends; that is decided elsewhere, from these facts.

mod build;
mod facts;
pub mod kinds;
pub mod made;
pub mod paths;
mod runtime;
mod status;
pub mod words;

pub use build::{is_made_name, owner, progress_body, snapshot, snapshot_name};
pub use facts::{Managed, RuntimeRef, TrainJobFacts};
pub use runtime::{Ancestor, RuntimeKind, gpu_count, is_gpu};
pub use status::{JobsStatus, TrainJobStatus};
