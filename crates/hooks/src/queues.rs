//! Queues, flavors and what waits in queues.

use muster_api::queue::words::GROUP;
use muster_apiserver::admission::{AdmissionRequest, Hook, Operation, Verdict};
use muster_queue::kinds::admission::{Answer, Asked, mutate, validate};

use super::verdict;

/// The step.
#[derive(Debug, Clone, Copy)]
pub struct Queues;

/// A question that can be asked.
type Question = fn(&str, &Asked<'_>) -> Answer;

impl Queues {
    /// The name of the step.
    pub const NAME: &str = "queue";
}

impl Hook for Queues {
    fn name(&self) -> &str {
        Queues::NAME
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> Verdict {
        if request.subresource.is_empty() { ask(request, mutate, "m") } else { Verdict::allow() }
    }

    fn validate(&self, request: &AdmissionRequest<'_>) -> Verdict {
        // What is written to a status is judged like the rest: shares stand there.
        ask(request, validate, "v")
    }
}

fn ask(request: &AdmissionRequest<'_>, question: Question, letter: &str) -> Verdict {
    let asks = matches!(request.operation, Operation::Create | Operation::Update);
    let (true, Some(object)) = (asks && request.resource.group == GROUP, request.object) else {
        return Verdict::allow();
    };
    let answer = question(&request.resource.kind, &Asked { object, old: request.old });
    let webhook = format!("{letter}{}.kb.io", request.resource.singular);
    verdict(answer, request, object, &webhook)
}
