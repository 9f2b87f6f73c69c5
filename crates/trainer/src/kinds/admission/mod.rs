//! Mutating and validating admission of TrainJobs and runtimes.
//!
//! The embedded API server and the admission webhooks call the same functions.
//!
//! # Guarantees
//!
//! - What the CRD schemas reject is not checked again: they run first.
//! - All problems are reported at once; a rejection has the code of a webhook (403), not that of a schema (422).
//! - An object that is being deleted is never rejected.
//!
//! # Deliberately absent
//!
//! Merging runtimePatches into runtimes: every rule can be checked on the runtime and the patches side by side.

mod job;
mod jobset;
mod patch_times;
mod policies;
mod review;
mod runtime;
mod torchtune;

use muster_api::meta;
use muster_api::time::Time;
use muster_api::train::RuntimeKind;
use muster_api::train::consts::TRAIN_JOB;
pub use muster_schema::admission::Answer;
use muster_schema::error::FieldError;
use muster_tree::{Text, Tree};

/// Reads the objects that admission depends on. The errors are messages for the client.
pub trait TrainingLister {
    /// A runtime by name; the namespace is ignored for a ClusterTrainingRuntime.
    ///
    /// # Errors
    /// The read failed: the request is rejected with an internal error.
    fn runtime(&self, kind: RuntimeKind, namespace: &str, name: &str) -> Result<Option<Tree>, String>;

    /// A ConfigMap by name.
    ///
    /// # Errors
    /// The read failed: the request is rejected with an internal error.
    fn config_map(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String>;

    /// A JobSet by name.
    ///
    /// # Errors
    /// The read failed: the request is rejected with an internal error.
    fn jobset(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String>;

    /// Whether a PriorityClass exists.
    ///
    /// # Errors
    /// The read failed: the request is rejected with an internal error.
    fn has_priority_class(&self, name: &str) -> Result<bool, String>;
}

/// An admission request, and what validation reads.
#[derive(Clone, Copy)]
pub struct TrainingReview<'a> {
    /// The namespace of the request: objects need not have it.
    pub namespace: &'a Text,
    /// The object as it would be stored.
    pub object: &'a Tree,
    /// The stored object; `None` on create.
    pub old: Option<&'a Tree>,
    pub live: &'a dyn TrainingLister,
    /// The time of the request.
    pub now: Time,
}

/// The name of the admission webhook for this kind.
#[must_use]
pub fn webhook_name(question: TrainingWebhookType, kind: &str) -> String {
    let who = match question {
        TrainingWebhookType::Mutating => "defaulter",
        TrainingWebhookType::Validating => "validator",
    };
    format!("{who}.{}.trainer.kubeflow.org", kind.to_lowercase())
}

/// The type of an admission webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainingWebhookType {
    Mutating,
    Validating,
}

/// Mutates an object of this kind (its word) before it is stored.
#[must_use]
pub fn mutate(kind: &str, asked: &TrainingReview<'_>) -> Answer {
    let changed = (kind == TRAIN_JOB).then(|| patch_times::filled_in(asked)).flatten();
    Answer { changed, ..Answer::default() }
}

/// Validates an object of this kind (its word).
#[must_use]
pub fn validate(kind: &str, asked: &TrainingReview<'_>) -> Answer {
    // Rejecting the removal of a finalizer would block the deletion for ever.
    if meta::deletion_timestamp(asked.object).is_some() {
        return Answer::default();
    }
    match RuntimeKind::of(kind) {
        Some(of) => runtime::check(of, asked),
        None if kind == TRAIN_JOB => job::check(asked),
        None => Answer::default(),
    }
}

type Problems = Vec<FieldError>;
