//! The Kubeflow Trainer API: typed views of TrainJobs and runtimes, and builders of what is written to them.
//!
//! # Guarantees
//!
//! - A constant, path or message of the wire is spelled once, in [`consts`] and [`paths`].
//! - Defaults of the webhooks are filled in on reading, so that an object created without them behaves the same.
//!
//! # Deliberately absent
//!
//! The reconciliation of TrainJobs: the trainer crate derives it from these views.

mod build;
pub mod consts;
mod facts;
pub mod generated;
pub mod kinds;
pub mod paths;
mod runtime;
mod status;

pub use build::{is_generated_name, owner_reference, progress_apply, snapshot, snapshot_name};
pub use facts::{ManagedBy, RuntimeRef, TrainJobFacts};
pub use runtime::{Ancestor, RuntimeKind, gpu_count, is_gpu};
pub use status::{JobsStatus, TrainJobStatus};
