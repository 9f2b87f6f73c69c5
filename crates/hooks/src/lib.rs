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

/// An answer as the server's clients read it. `webhook` is the name of the webhook that answers so in a cluster, where the API
/// server puts it in front of the message.
fn verdict(answer: Answer, request: &AdmissionRequest<'_>, object: &Tree, webhook: &str) -> Verdict {
    let denied = |why: &str| format!("admission webhook {webhook:?} denied the request: {why}");
    if let Some(why) = answer.refused {
        return Verdict::Deny(Status::new(403, "Forbidden", denied(&why)).warned(&answer.warnings));
    }
    if answer.problems.is_empty() {
        return Verdict::Allow { changed: answer.changed, warnings: answer.warnings };
    }
    let name = meta::name(object);
    let resource = request.resource;
    let on = Named { group: &resource.group, resource: &resource.kind, name: &name };
    let status = Status::invalid(on, &answer.problems);
    let message = denied(&status.message);
    Verdict::Deny(Status { message, ..status }.warned(&answer.warnings))
}
