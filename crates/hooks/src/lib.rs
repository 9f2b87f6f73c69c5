//! Admission of our own kinds inside the embedded server.
//!
//! The decisions are pure functions of the crates of those kinds; here the server asks them, and their answers become
//! what its clients know. Over the network the same functions answer as webhooks of a cluster.
//!
//! # Deliberately absent
//!
//! Rules. What is right or wrong with an object is none of this crate's business.

mod jobsets;
pub mod queued;
mod queues;
mod training;

use muster_api::meta;
use muster_apiserver::admission::{AdmissionRequest, Verdict};
use muster_apiserver::status::{Named, Status};
use muster_jobset::admission::Answer;
use muster_tree::Tree;

pub use jobsets::JobSets;
pub use queued::Settings as QueueSettings;
pub use queues::Queues;
pub use training::Trainings;

/// An answer as the server's clients know it. `webhook` is who would say so in a cluster.
fn verdict(answer: Answer, request: &AdmissionRequest<'_>, object: &Tree, webhook: &str) -> Verdict {
    if let Some(why) = answer.refused {
        let message = format!("admission webhook {webhook:?} denied the request: {why}");
        return Verdict::Deny(Status::new(403, "Forbidden", message).warned(&answer.warnings));
    }
    if answer.problems.is_empty() {
        return Verdict::Allow { changed: answer.changed, warnings: answer.warnings };
    }
    let name = meta::name(object);
    let resource = request.resource;
    let on = Named { group: &resource.group, resource: &resource.kind, name: &name };
    Verdict::Deny(Status::invalid(on, &answer.problems).warned(&answer.warnings))
}
