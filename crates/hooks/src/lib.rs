//! Admission plugins for JobSets, queues and TrainJobs inside the embedded API server.
//!
//! Defaulting and validation are pure functions of the crates of those kinds; the plugins here call them and convert the results
//! into admission verdicts. On a cluster the same functions run behind admission webhooks.
//!
//! # Deliberately absent
//!
//! Rules. What is valid is decided by the crate of the kind.

mod jobsets;
pub mod queued;
mod queues;
mod training;

use muster_api::meta;
use muster_apiserver::admission::{AdmissionDecision, AdmissionRequest};
use muster_apiserver::status::{Status, StatusObject};
use muster_jobset::admission::Answer;
use muster_tree::Tree;

pub use jobsets::JobSetAdmission;
pub use queued::QueueWebhookConfig;
pub use queues::QueueAdmission;
pub use training::TrainJobAdmission;

/// An admission response as a verdict. `webhook` is the name of the webhook on a cluster, which the API server puts in front of
/// the message.
fn verdict(
    answer: Answer,
    request: &AdmissionRequest<'_>,
    object: &Tree,
    webhook: &str,
) -> AdmissionDecision {
    let denied = |why: &str| format!("admission webhook {webhook:?} denied the request: {why}");
    if let Some(why) = answer.refused {
        return AdmissionDecision::Deny(
            Status::new(403, "Forbidden", denied(&why)).with_warnings(&answer.warnings),
        );
    }
    if answer.problems.is_empty() {
        return AdmissionDecision::Allow { changed: answer.changed, warnings: answer.warnings };
    }
    let name = meta::name(object);
    let resource = request.resource;
    let on = StatusObject { group: &resource.group, resource: &resource.kind, name: &name };
    let status = Status::invalid(on, &answer.problems);
    let message = denied(&status.message);
    AdmissionDecision::Deny(Status { message, ..status }.with_warnings(&answer.warnings))
}
