//! Defaulting and validation of the queueing kinds.
//!
//! The same functions run in the embedded API server and in the webhooks. Objects are in the stored version.
//!
//! # Guarantees
//!
//! - What the CRDs reject is not reported again: they are evaluated first.
//! - All errors are reported at once.
//!
//! # Deliberately absent
//!
//! Pods and jobs, and everything that needs other objects: a missing queue or flavor is reported in a status.

mod common;
mod flavor;
mod queues;
mod reclaim;
#[cfg(test)]
mod tests;
mod workload;

use muster_api::meta;
use muster_api::queue::consts::{CLUSTER_QUEUE, COHORT, RESOURCE_FLAVOR, WORKLOAD, finalizers};
use muster_api::queue::finalizer_added;
pub use muster_schema::admission::Answer;
use muster_schema::error::FieldError;
use muster_schema::quantities;
use muster_tree::Tree;

/// A write to default or validate.
#[derive(Debug, Clone, Copy)]
pub struct WriteReview<'a> {
    pub object: &'a Tree,
    /// The old object; None on create.
    pub old: Option<&'a Tree>,
}

/// Defaults an object of this kind.
#[must_use]
pub fn mutate(kind: &str, asked: &WriteReview<'_>) -> Answer {
    let keeps = matches!(kind, CLUSTER_QUEUE | RESOURCE_FLAVOR);
    let is_new = asked.old.is_none() && meta::deletion_timestamp(asked.object).is_none();
    let patch = (keeps && is_new).then(|| finalizer_added(asked.object, finalizers::IN_USE)).flatten();
    Answer { changed: patch.map(|patch| asked.object.merge(&patch)), ..Answer::default() }
}

/// Validates an object of this kind.
#[must_use]
pub fn validate(kind: &str, asked: &WriteReview<'_>) -> Answer {
    let mut answer = Answer::default();
    let problems = &mut answer.problems;
    problems.extend(unreadable(kind, asked));
    match kind {
        WORKLOAD => {
            workload::check(asked.object, problems);
            if let Some(old) = asked.old {
                workload::check_change(asked.object, old, problems);
            }
        }
        CLUSTER_QUEUE => queues::check_cluster_queue(asked.object, problems),
        COHORT => queues::check_cohort(asked.object, problems),
        RESOURCE_FLAVOR => flavor::check(asked.object, problems),
        // LocalQueues, AdmissionChecks, priority classes and Topologies: the CRDs validate everything.
        _ => {}
    }
    answer
}

/// Reports invalid quantities; the pattern in the CRDs accepts some.
fn unreadable(kind: &str, asked: &WriteReview<'_>) -> Vec<FieldError> {
    let find: fn(&Tree) -> Vec<FieldError> = match kind {
        WORKLOAD => workload::unreadable,
        CLUSTER_QUEUE | COHORT => queues::unreadable,
        _ => return Vec::new(),
    };
    let found = find(asked.object);
    match asked.old {
        Some(old) if !found.is_empty() => quantities::added(found, &find(old)),
        _ => found,
    }
}
