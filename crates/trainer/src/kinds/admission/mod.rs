//! What is filled in and refused when TrainJobs and runtimes are written.
//!
//! The same functions answer in process and as webhooks of a cluster.
//!
//! # Invariants
//!
//! - What the definitions refuse is not said again: they were asked before.
//! - All that is wrong is told at once; a refusal here is a webhook's (403), never a schema's (422).
//! - An object that is being deleted is never held up.
//!
//! # Deliberately absent
//!
//! Merging patches into runtimes. Whatever is asked about a patched runtime can be told from both side by side.

mod job;
mod jobset;
mod policies;
mod runtime;
mod sight;
mod times;
mod tune;

use muster_api::meta;
use muster_api::time::Time;
use muster_api::train::RuntimeKind;
use muster_api::train::words::TRAIN_JOB;
pub use muster_schema::admission::Answer;
use muster_schema::error::FieldError;
use muster_tree::{Text, Tree};

/// Objects that admission may look at. The errors are words for the client.
pub trait Live {
    /// A runtime; the namespace counts for runtimes of namespaces only.
    ///
    /// # Errors
    /// It cannot be told whether there is one.
    fn runtime(&self, kind: RuntimeKind, namespace: &str, name: &str) -> Result<Option<Tree>, String>;

    /// A ConfigMap.
    ///
    /// # Errors
    /// It cannot be told whether there is one.
    fn config_map(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String>;

    /// A JobSet.
    ///
    /// # Errors
    /// It cannot be told whether there is one.
    fn jobset(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String>;

    /// Whether there is this class of priority.
    ///
    /// # Errors
    /// It cannot be told.
    fn has_priority_class(&self, name: &str) -> Result<bool, String>;
}

/// What is asked about a write.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Namespace of the request: objects need not carry it.
    pub namespace: &'a Text,
    /// The object as it would be.
    pub object: &'a Tree,
    /// The object as it is; absent on create.
    pub old: Option<&'a Tree>,
    /// Other objects.
    pub live: &'a dyn Live,
    /// The instant of the question.
    pub now: Time,
}

/// The webhook that says so in a cluster, by the word of the kind.
#[must_use]
pub fn webhook(question: Question, kind: &str) -> String {
    let who = match question {
        Question::FillIn => "defaulter",
        Question::Judge => "validator",
    };
    format!("{who}.{}.trainer.kubeflow.org", kind.to_lowercase())
}

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// What is missing.
    FillIn,
    /// Whether it may be kept.
    Judge,
}

/// Fills in what an object of this kind (its word) has to have before it is kept.
#[must_use]
pub fn mutate(kind: &str, asked: &Asked<'_>) -> Answer {
    let changed = (kind == TRAIN_JOB).then(|| times::filled_in(asked)).flatten();
    Answer { changed, ..Answer::default() }
}

/// Whether an object of this kind (its word) may be kept.
#[must_use]
pub fn validate(kind: &str, asked: &Asked<'_>) -> Answer {
    if meta::deleting(asked.object).is_some() {
        return Answer::default();
    }
    match RuntimeKind::of(kind) {
        Some(of) => runtime::check(of, asked),
        None if kind == TRAIN_JOB => job::check(asked),
        None => Answer::default(),
    }
}

type Problems = Vec<FieldError>;
