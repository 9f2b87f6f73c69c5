//! The webhook self-test: a dry-run JobSet that shows whether the API server calls our webhooks, on whichever replica.
//!
//! The mutating webhook annotates it, the validating webhook denies it with a message that no other webhook sends. So one
//! reply of the API server proves that both were called, over the Service, with certificates it trusts.
//!
//! # Guarantees
//!
//! - Only dry runs are answered this way: an object that would be persisted is admitted by its contents.

use muster_api::client::{ApiRequest, Preconditions, RequestTarget, RequestVerb, Subresource};
use muster_api::consts::{annotations, jobset as words};
use muster_api::kinds;
use muster_api::meta;
use muster_install::webhooks::WebhookType;
use muster_jobset::admission::Answer;
use muster_tree::{Tree, tree};

use super::MANAGER;
use super::admission_review::ReviewRequest;

/// Name of the JobSet in the dry run.
pub const DRY_RUN_NAME: &str = "muster-rehearsal";

/// The dry-run request; without a word it is a plain JobSet that the webhooks admit as any other.
pub fn request(namespace: &str, word: Option<&str>) -> ApiRequest {
    let kind = kinds::JOBSETS.clone();
    let on = RequestTarget {
        kind,
        namespace: namespace.into(),
        name: DRY_RUN_NAME.into(),
        subresource: Subresource::Main,
    };
    let set = tree!({"apiVersion": words::API_VERSION, "kind": words::KIND, "spec": {"replicatedJobs": []}});
    let set = match word {
        Some(word) => set.with(&["metadata", "annotations"], Tree::map([(annotations::REHEARSAL, word)])),
        None => set,
    };
    ApiRequest {
        field_manager: MANAGER,
        target: on,
        preconditions: Preconditions::default(),
        verb: RequestVerb::Create(set),
    }
}

/// The webhooks' reply to a self-test; `None` for any other request.
pub fn respond(question: &ReviewRequest, say: WebhookType) -> Option<Answer> {
    let set = &question.object;
    let word = meta::annotation(set, annotations::REHEARSAL).filter(|_| question.is_dry_run)?;
    Some(match say {
        WebhookType::Mutating => {
            let changed = set.with(&["metadata", "annotations", annotations::REHEARSED], word);
            Answer { changed: Some(changed), ..Answer::default() }
        }
        WebhookType::Validating if meta::annotation(set, annotations::REHEARSED) == Some(word) => {
            Answer { refused: Some(acknowledgement(word)), ..Answer::default() }
        }
        WebhookType::Validating => {
            let words =
                "muster was called to validate a self-test that it was not called to mutate".to_owned();
            Answer { refused: Some(words), ..Answer::default() }
        }
    })
}

/// Whether this message shows that both webhooks saw `word`.
pub fn is_acknowledged(said: &str, word: &str) -> bool {
    said.contains(&acknowledgement(word))
}

fn acknowledgement(word: &str) -> String {
    format!("muster heard the rehearsal {word:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(object: &Tree, is_dry_run: bool) -> ReviewRequest {
        ReviewRequest { object: object.clone(), is_dry_run, ..ReviewRequest::default() }
    }

    #[test]
    fn both_webhooks_have_to_be_called() {
        let RequestVerb::Create(set) = request("n", Some("w")).verb else { panic!("it is created") };
        let words = |answer: Option<Answer>| answer.unwrap().refused.unwrap();
        assert!(
            !is_acknowledged(&words(respond(&asked(&set, true), WebhookType::Validating)), "w"),
            "the mutating webhook was not called"
        );
        let filled = respond(&asked(&set, true), WebhookType::Mutating).unwrap().changed.unwrap();
        assert!(is_acknowledged(&words(respond(&asked(&filled, true), WebhookType::Validating)), "w"));
        assert!(
            !is_acknowledged(&words(respond(&asked(&filled, true), WebhookType::Validating)), "v"),
            "another's"
        );
        assert!(
            respond(&asked(&set, false), WebhookType::Mutating).is_none(),
            "a persistent create is admitted by its contents"
        );
        let RequestVerb::Create(plain) = request("n", None).verb else { panic!("it is created") };
        assert!(respond(&asked(&plain, true), WebhookType::Validating).is_none());
    }
}
