//! What is filled in and refused when objects of queueing are written.
//!
//! The same functions answer in process and as webhooks of a cluster. Objects come in the stored version.
//!
//! # Invariants
//!
//! - What the definitions refuse is not said again: they were asked before.
//! - All that is wrong is told at once.
//!
//! # Deliberately absent
//!
//! Pods and jobs; and anything that needs other objects: whether a queue or a flavor is there is told in a status.

mod common;
mod flavor;
mod queues;
mod reclaim;
#[cfg(test)]
mod tests;
mod workload;

use muster_api::meta;
use muster_api::queue::finalizer_added;
use muster_api::queue::words::{CLUSTER_QUEUE, COHORT, RESOURCE_FLAVOR, WORKLOAD, finalizers};
pub use muster_schema::admission::Answer;
use muster_schema::error::FieldError;
use muster_schema::quantities;
use muster_tree::Tree;

/// What is asked about a write.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The object as it would be.
    pub object: &'a Tree,
    /// The object as it is; absent on create.
    pub old: Option<&'a Tree>,
}

/// Fills in what an object of this kind (its word) has to have before it is kept.
#[must_use]
pub fn mutate(kind: &str, asked: &Asked<'_>) -> Answer {
    let keeps = matches!(kind, CLUSTER_QUEUE | RESOURCE_FLAVOR);
    let is_new = asked.old.is_none() && meta::deleting(asked.object).is_none();
    let patch = (keeps && is_new).then(|| finalizer_added(asked.object, finalizers::IN_USE)).flatten();
    Answer { changed: patch.map(|patch| asked.object.merge(&patch)), ..Answer::default() }
}

/// Whether an object of this kind (its word) may be kept.
#[must_use]
pub fn validate(kind: &str, asked: &Asked<'_>) -> Answer {
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
        // LocalQueues, AdmissionChecks, classes and topologies: their definitions say it all.
        _ => {}
    }
    answer
}

/// What is written and no quantity. The pattern of the definitions lets some of it pass.
fn unreadable(kind: &str, asked: &Asked<'_>) -> Vec<FieldError> {
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
